"""Cubes between two flat fingers: their faces can share a load in many ways."""

import numpy as np

import newtonsim
from newtonsim.envs.tasks.manipulation import ArmPick
from newtonsim.solvers import FeatherstoneSolver

WORLDS = 96
DT = 0.005
TIP = 0.13
"""Place of the fingertips along z of the hand [m]."""


def turned(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors (n, 3) turned by quaternions xyzw (n, 4)."""
    axis = q[:, :3]
    return v + 2.0 * np.cross(axis, np.cross(axis, v) + q[:, 3:] * v)


class Hands:
    """Arms that grasped a cube each in the air, with it up to 0.3 rad askew and 1 cm off the middle."""

    def __init__(self, device: str):
        rng = np.random.default_rng(0)
        task = ArmPick()
        world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        task.build(world)
        self.hand, self.cube = world.body_key.index("link_7"), world.body_key.index("cube")
        scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        scene.replicate(world, WORLDS)
        self.model = scene.finalize(device)
        self.sim = newtonsim.Simulator(self.model, FeatherstoneSolver(self.model), DT)
        q = self.sim.state.joint_q.numpy().reshape(WORLDS, -1)
        q[:, :7] += 0.1 * rng.normal(size=(WORLDS, 7))
        self.place(q)
        hand = self.poses()[:, self.hand]
        askew = rng.uniform(-0.15, 0.15, WORLDS)
        off = np.array([0.0, 0.0, TIP - 0.005]) + 0.004 * rng.normal(size=(WORLDS, 3))
        q[:, 9:12] = hand[:, :3] + turned(hand[:, 3:], off)
        # hand * (0, 0, sin, cos)
        x, y, z, w = hand[:, 3:].T
        s, c = np.sin(askew), np.cos(askew)
        q[:, 12:16] = np.stack([x * c + y * s, y * c - x * s, z * c + w * s, w * c - z * s], 1)
        self.place(q)
        self.targets = self.sim.control.joint_act.numpy().reshape(WORLDS, -1)
        self.targets[:, :7] = q[:, :7]
        self.targets[:, 7] = 0.0
        self.sim.control.joint_act.assign(self.targets.ravel())

    def place(self, q: np.ndarray) -> None:
        state = self.sim.state
        state.joint_q.assign(q.ravel().astype(np.float32))
        newtonsim.eval_fk(self.model, state.joint_q, state.joint_qd, None, state)

    def poses(self) -> np.ndarray:
        return self.sim.state.body_q.numpy().reshape(WORLDS, -1, 7)

    def spins(self) -> np.ndarray:
        """Angular velocity of the cubes in the frames of the world over that of the hands [rad/s] (n, 3)."""
        rates = self.sim.state.body_qd.numpy().reshape(WORLDS, -1, 6)[..., :3]
        return rates[:, self.cube] - rates[:, self.hand]

    def away(self) -> np.ndarray:
        """Distances of the cubes from the fingertips [m]."""
        hand = self.poses()[:, self.hand]
        tip = hand[:, :3] + turned(hand[:, 3:], np.tile([0.0, 0.0, TIP], (WORLDS, 1)))
        return np.linalg.norm(self.poses()[:, self.cube, :3] - tip, axis=1)


def test_held_cubes_stay(device: str):
    """Forty times the friction that a cube needs holds it, while the arm moves by a third of a degree."""
    hands = Hands(device)
    hands.sim.step(200)
    held = hands.away()
    assert held.max() < 0.02
    fastest = 0.0
    for k in range(125):
        moved = hands.targets.copy()
        moved[:, :7] += 0.005 * np.sin(2.0 * np.pi * 0.04 * k * np.linspace(0.2, 1.0, 7))
        hands.sim.control.joint_act.assign(moved.ravel())
        hands.sim.step(8)
        fastest = max(fastest, float(np.abs(hands.spins()).max()))
    assert np.abs(hands.away() - held).max() < 0.002
    assert fastest < 1.0

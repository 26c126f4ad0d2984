"""Values, slopes and curvatures of costs against residuals in NumPy and SciPy."""

import math

import numpy as np
import pytest
import small_problems as small
import warp as wp
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim import optimize
from newtonsim.diff.coordinates import coordinate_rates
from newtonsim.errors import NewtonsimError
from newtonsim.optimize.points import Points
from newtonsim.scene.enums import JointType
from newtonsim.testing import random_coordinates, random_model

HORIZON, H, HOLD = 3, 0.02, 2
LINK = 4
FRAME = np.array([0.1, -0.2, 0.3, *Rotation.from_rotvec([0.4, -0.3, 0.6]).as_quat()])
TYPES = [JointType.FREE, JointType.BALL, JointType.REVOLUTE, JointType.PRISMATIC, JointType.UNIVERSAL]


class Scene:
    """A tree with all kinds of joints, costs of everything, and their residuals in double precision."""

    def __init__(self, device: str):
        self.rng = rng = np.random.default_rng(5)
        robot = random_model(3, body_count=5, joint_types=TYPES[1:], base=JointType.FREE)
        plain = optimize.Problem(robot, [optimize.ControlCost(1.0)], HORIZON, H, hold=HOLD, device=device)
        self.model = model = plain.model
        dofs, inputs = model.joint_dof_count, len(plain.entries)
        self.q = np.stack([random_coordinates(model, seed)[0] for seed in range(HORIZON + 1)])
        self.qd = rng.standard_normal((HORIZON + 1, dofs))
        self.controls = rng.standard_normal((HORIZON, inputs))
        self.reference = np.stack([random_coordinates(model, seed)[0] for seed in range(10, 10 + HORIZON)])
        self.rate = rng.standard_normal(dofs)
        self.target = np.array([0.3, 0.2, -0.1, *Rotation.from_rotvec([0.5, 0.8, -0.2]).as_quat()])
        self.rest = rng.standard_normal(inputs)
        self.weights = {
            name: rng.uniform(0.5, 2.0, count)
            for name, count in (
                ("position", dofs),
                ("velocity", dofs),
                ("final_position", dofs),
                ("final_velocity", dofs),
                ("place", 3),
                ("turn", 3),
                ("final_place", 3),
                ("final_turn", 3),
                ("control", inputs),
            )
        }
        w = self.weights
        costs = [
            optimize.JointCost(
                *(w[name] for name in ("position", "velocity", "final_position", "final_velocity")),
                joint_q=self.reference,
                joint_qd=self.rate,
            ),
            optimize.FrameCost(
                f"link{LINK}", self.target, w["place"], w["turn"], w["final_place"], w["final_turn"], FRAME
            ),
            optimize.ControlCost(w["control"], self.rest),
        ]
        self.problem = optimize.Problem(robot, costs, HORIZON, H, hold=HOLD, device=device)

    def residuals(self, t: int, q: np.ndarray, qd: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Of joints, velocities, the frame (rotation, position) and controls after control t."""
        model, parts = self.model, []
        types, starts = model.joint_type.numpy(), model.joint_q_start.numpy()
        for joint, kind in enumerate(types):
            now, then = (x[starts[joint] : starts[joint + 1]].astype(float) for x in (q, self.reference[t]))
            if kind == JointType.FREE:
                parts += floating_residuals(model, joint, now, then)
            elif kind == JointType.BALL:
                parts.append((Rotation.from_quat(now) * Rotation.from_quat(then).inv()).as_rotvec())
            else:
                parts.append(now - then)
        parts.append(qd - self.rate)
        state = model.state()
        state.joint_q.assign(q)
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
        body = state.body_q.numpy()[LINK].astype(float)
        turn, goal = Rotation.from_quat(body[3:]) * Rotation.from_quat(FRAME[3:]), self.target
        parts.append((turn * Rotation.from_quat(goal[3:]).inv()).as_rotvec())
        parts.append(body[:3] + Rotation.from_quat(body[3:]).apply(FRAME[:3]) - goal[:3])
        return np.concatenate([*parts, u - self.rest])

    def weight(self, t: int) -> np.ndarray:
        """Weights of the residuals after control t."""
        w, kind, time = self.weights, "", H * HOLD
        if t == HORIZON - 1:
            kind, time = "final_", 1.0
        names = ("position", "velocity", "turn", "place")
        states = np.concatenate([w[kind + name] for name in names])
        return np.concatenate([time * states, H * HOLD * w["control"]])


def floating_residuals(model: newtonsim.Model, joint: int, now: np.ndarray, then: np.ndarray) -> list:
    """Rotation vector and way of the centre of mass, in axes of the world."""
    parent, child = (getattr(model, name).numpy()[joint].astype(float) for name in ("joint_X_p", "joint_X_c"))
    com = model.body_com.numpy()[model.joint_child.numpy()[joint]].astype(float)
    axes, of_child = Rotation.from_quat(parent[3:]), Rotation.from_quat(child[3:])
    turns, centres = [], []
    for pose in (now, then):
        turn = Rotation.from_quat(pose[3:]) * of_child.inv()
        turns.append(turn)
        centres.append(pose[:3] + turn.apply(com - child[:3]))
    turn = (turns[0] * turns[1].inv()).as_rotvec()
    return [axes.apply(turn), axes.apply(centres[0] - centres[1])]


def test_slopes_and_curvatures(device):
    scene = Scene(device)
    found = Points(scene.problem, "difference").expand(scene.q, scene.qd, scene.controls)
    dofs, h = scene.model.joint_dof_count, 1e-3
    for t in range(HORIZON):
        q, qd, u = scene.q[t + 1], scene.qd[t + 1], scene.controls[t]
        rates, columns = coordinate_rates(scene.model, q), []
        for e in h * np.eye(2 * dofs + len(u)):
            ahead, behind = (
                scene.residuals(
                    t,
                    rates.move(q, s * e[:dofs]),
                    qd + s * e[dofs : 2 * dofs],
                    u + s * e[2 * dofs :],
                )
                for s in (1.0, -1.0)
            )
            columns.append((ahead - behind) / (2.0 * h))
        J, weight = np.stack(columns, axis=1), scene.weight(t)
        slope = J.T @ (weight * scene.residuals(t, q, qd, u))
        assert np.abs(found.slope[t] - slope).max() < 2e-3 * np.abs(slope).max()
        curvature = J.T @ (weight[:, None] * J)
        assert np.abs(found.curvature[t] - curvature).max() < 2e-3 * np.abs(curvature).max()


def test_values(device):
    """Along a run: half the weighted squares of the residuals of its states and controls."""
    scene = Scene(device)
    start = (scene.q[0], scene.qd[0])
    result = optimize.MPPI(scene.problem, samples=2, noise=1.0).solve(start, scene.controls, iterations=1)
    cost = 0.0
    for t in range(HORIZON):
        after = (result.joint_q[t + 1].astype(np.float32), result.joint_qd[t + 1], result.controls[t])
        cost += 0.5 * scene.weight(t) @ scene.residuals(t, *after) ** 2
    assert result.cost == pytest.approx(cost, rel=1e-4)


@wp.kernel
def add_coupled_cost(first: int, view: optimize.CostView, weights: wp.array(dtype=float)):
    """One thread per world: a saddle of the position, control and velocity together, height of the body."""
    w = first + wp.tid()
    weight = optimize.stage_weight(view, w, weights[0], weights[1])
    q = view.joint_q[w * view.dofs]
    both = view.control[w * view.inputs] - 2.0 * view.joint_qd[w * view.dofs]
    x = wp.transform_get_translation(view.body_q[w * view.bodies])[0]
    wp.atomic_add(view.losses, w, weight * (0.5 * both * both - 2.0 * q * q + x * x * x))


def coupled_problem(device: str) -> optimize.Problem:
    weights = wp.array([3.0, 5.0], dtype=float, device=device)
    costs = [optimize.KernelCost(add_coupled_cost, weights), optimize.ControlCost(0.5)]
    return optimize.Problem(small.cart(), costs, 2, H, hold=HOLD, device=device)


def test_kernels_of_users(device):
    """Slope and curvature of u, q̇ and q in closed form; the body is where q says; below zero is left out."""
    points = Points(coupled_problem(device), "adjoint")
    q, qd, u = np.array([[0.0], [0.2], [1.5]]), np.array([[0.0], [0.4], [-0.3]]), np.array([[1.0], [2.0]])
    for _ in range(2):
        found = points.expand(q, qd, u)
        for t, weight in enumerate((3.0 * H * HOLD, 5.0)):
            x, both, rest = q[t + 1, 0], u[t, 0] - 2.0 * qd[t + 1, 0], 0.5 * H * HOLD
            slope = weight * np.array([3.0 * x * x - 4.0 * x, -2.0 * both, both])
            assert np.allclose(
                found.slope[t], slope + np.array([0.0, 0.0, rest * u[t, 0]]), rtol=1e-4, atol=1e-5
            )
            curvature = weight * np.array([[6.0 * x - 4.0, 0, 0], [0, 4, -2], [0, -2, 1]])
            curvature[0, 0] = max(curvature[0, 0], 0.0)
            curvature[2, 2] += rest
            assert np.allclose(found.curvature[t], curvature, atol=5e-3 * weight)


def test_targets_can_move(device):
    cost = optimize.FrameCost("cart", (2.0, 0.0, 0.0), final_position=1.0)
    joints = optimize.JointCost(final_position=1.0, joint_q=[3.0])
    effort = optimize.ControlCost(1.0, [1.0])
    problem = optimize.Problem(small.cart(), [cost, joints, effort], 2, H, device=device, bounds=(-1, 1))
    mppi = optimize.MPPI(problem, samples=2)
    assert mppi.solve(controls=[0.0], iterations=1).history[0] == pytest.approx(0.5 + 2.0 + H, rel=1e-5)
    cost.target, joints.joint_q, joints.joint_qd, effort.reference = (5.0, 0.0, 0.0), [1.0], [7.0], [0.0]
    assert mppi.solve(controls=[0.0], iterations=1).history[0] == pytest.approx(8.0, rel=1e-5)
    with pytest.raises(NewtonsimError, match=r"joint_q: expected shape \(1, 1\) or \(1,\), got \(2,\)"):
        joints.joint_q = [1.0, 2.0]
    assert joints.joint_q == [1.0]


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (lambda: optimize.JointCost(position=-1.0), "position: expected weights of at least 0, got -1"),
        (lambda: optimize.JointCost(final_velocity=math.nan), "final_velocity: expected finite numbers"),
        (lambda: optimize.ControlCost(math.inf), "weight: expected finite numbers, got inf"),
        (lambda: optimize.FrameCost("cart", (1.0, 2.0)), r"target: expected a position \(3,\) or a pose"),
        (
            lambda: optimize.FrameCost("cart", (0, 0, 0, 0, 0, 0, 2)),
            "target: expected quaternions xyzw of length 1, got 2",
        ),
        (lambda: optimize.KernelCost(len), "kernel: expected a kernel of Warp"),
        (lambda: optimize.KernelCost(add_coupled_cost), r"cannot take first, view and 0 arguments"),
    ],
)
def test_wrong_costs_are_told(cost, told):
    with pytest.raises(NewtonsimError, match=told):
        cost()


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (optimize.JointCost(position=[1.0, 2.0]), r"JointCost: position: expected shape \(\) or \(1,\)"),
        (
            optimize.JointCost(joint_q=np.zeros((3, 1))),
            r"joint_q: expected shape \(1,\) or \(2, 1\)",
        ),
        (optimize.ControlCost([1.0, 1.0]), "ControlCost: weight: expected shape"),
        (optimize.ControlCost(1.0, [0.0, 0.0]), "ControlCost: reference: expected shape"),
        (optimize.FrameCost("crat", (0, 0, 0)), "there is no body 'crat'; did you mean 'cart'"),
        (optimize.FrameCost(1, (0, 0, 0)), "body: expected an index below 1 or a name, got 1"),
        (optimize.FrameCost(0, (0, 0, 0), rotation=1.0), "target: expected a pose"),
    ],
)
def test_costs_that_do_not_fit_are_told(cost, told):
    with pytest.raises(NewtonsimError, match=told):
        optimize.Problem(small.cart(), [cost], 2, H)

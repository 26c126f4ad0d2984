"""Robots that push, grip or stand, side by side in many worlds, and slopes of them by differences."""

import numpy as np
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
MATERIAL = {"mu": 0.5, "restitution": 0.0}


def slider(gap: float) -> newtonsim.ModelBuilder:
    """A block on a rail that pushes a box beside its middle."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    block = builder.add_body()
    builder.add_shape_box(block, hx=0.05, hy=0.1, hz=0.05, density=1000.0, **MATERIAL)
    rail = wp.transform((0.0, 0.02, 0.08), wp.quat_identity())
    builder.add_joint_prismatic(-1, block, parent_xform=rail, axis=(1.0, 0.0, 0.0))
    _add_box(builder, (0.15 + gap, 0.0, 0.1))
    return builder


def arm(load=None) -> newtonsim.ModelBuilder:
    """Two links in a plane that push a box with their end, or what `load` adds to a builder at a place."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    angles, parent = (-0.6, 1.0), -1
    for i in range(2):
        link = builder.add_body()
        along = {"pos": (0.15, 0.0, 0.0), "up_axis": 0, "half_height": 0.12}
        builder.add_shape_capsule(link, radius=0.03, density=1000.0, **along, **MATERIAL)
        anchor = wp.transform((0.3, 0.0, 0.0) if i else (0.0, 0.0, 0.1), wp.quat_identity())
        builder.add_joint_revolute(parent, link, parent_xform=anchor, axis=(0.0, 0.0, 1.0))
        parent = link
    builder.joint_q[:] = angles
    way = np.cumsum(angles)
    end = 0.3 * np.array([np.cos(way).sum(), np.sin(way).sum()])
    (load or _add_box)(builder, (float(end[0]) - 0.03, float(end[1]) + 0.134, 0.1))
    return builder


def add_heavy_ball(builder: newtonsim.ModelBuilder, place: tuple[float, float, float]) -> None:
    body = builder.add_body(origin=wp.transform(place, wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=900.0, **MATERIAL)


def gripper() -> newtonsim.ModelBuilder:
    """Two fingers on rails that close on a box in the air."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for side in (-1.0, 1.0):
        builder.add_articulation()
        finger = builder.add_body()
        builder.add_shape_box(finger, hx=0.02, hy=0.05, hz=0.05, density=1500.0, **MATERIAL)
        rail = wp.transform((0.08 * side, 0.0, 0.3), wp.quat_identity())
        builder.add_joint_prismatic(-1, finger, parent_xform=rail, axis=(-side, 0.0, 0.0))
    body = builder.add_body(origin=wp.transform((0.003, 0.0, 0.31), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.05, hy=0.04, hz=0.06, density=300.0, **MATERIAL)
    return builder


def tipper() -> newtonsim.ModelBuilder:
    """A ball on a rail that tips a high box."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    ball = builder.add_body()
    builder.add_shape_sphere(ball, radius=0.05, density=2000.0, **MATERIAL)
    rail = wp.transform((-0.155, 0.01, 0.35), wp.quat_identity())
    builder.add_joint_prismatic(-1, ball, parent_xform=rail, axis=(1.0, 0.0, 0.0))
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.2), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.12, hz=0.2, density=200.0, mu=0.8, restitution=0.0)
    return builder


def _add_box(builder: newtonsim.ModelBuilder, place: tuple[float, float, float]) -> None:
    body = builder.add_body(origin=wp.transform(place, wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=100.0, **MATERIAL)


def ant() -> newtonsim.ModelBuilder:
    """The ant, whose ankles come to stand on their limits."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_mjcf(str(asset_path("ant.xml")), builder, floating=True)
    return builder


def quadruped() -> newtonsim.ModelBuilder:
    """The quadruped on bent legs, which drives hold."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    newtonsim.utils.parse_mjcf(str(asset_path("quadruped.xml")), builder, floating=True)
    axes = len(builder.joint_act)
    builder.joint_target_ke[:] = [60.0] * axes
    builder.joint_target_kd[:] = [3.0] * axes
    builder.joint_axis_mode[:] = [int(newtonsim.JOINT_MODE_TARGET_POSITION)] * axes
    stance = [0.0, 0.8, -1.6] * (axes // 3)
    builder.joint_q[:] = [0.0, 0.0, 0.26, 0.0, 0.0, 0.0, 1.0, *stance]
    builder.joint_act[:] = stance
    return builder


def copies(builder, count: int, device: str, requires_grad: bool = False) -> newtonsim.Model:
    """So many worlds of one robot, on one ground."""
    worlds = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    worlds.replicate(builder, count, spacing=(0.0, 0.0, 0.0))
    worlds.set_ground_plane(**MATERIAL)
    return worlds.finalize(device, requires_grad=requires_grad)


def run(model, q, qd, steps: int, options: dict, forces=None, masses=None) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and velocities after so many steps, by worlds, in double precision."""
    if masses is not None:
        mass = np.asarray(masses, np.float32).reshape(-1)
        model.body_mass.assign(mass)
        model.body_inv_mass.assign(1.0 / mass)
    solver, state, spare, control = (
        FeatherstoneSolver(model, **options),
        model.state(),
        model.state(),
        model.control(),
    )
    put(model, state, q, qd)
    if forces is not None:
        control.joint_f.assign(np.asarray(forces, np.float32).reshape(-1))
    for _ in range(steps):
        solver.step(model, state, spare, control, None, DT)
        state, spare = spare, state
    worlds = model.world_count
    return tuple(a.numpy().astype(float).reshape(worlds, -1) for a in (state.joint_q, state.joint_qd))


def put(model, state, q, qd) -> None:
    state.joint_q.assign(np.asarray(q, np.float32).reshape(-1))
    state.joint_qd.assign(np.asarray(qd, np.float32).reshape(-1))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)


def settled(builder, steps: int, options: dict, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and velocities of one world at rest."""
    model = copies(builder, 1, device)
    q, qd = run(model, model.joint_q.numpy(), model.joint_qd.numpy(), steps, options)
    return q[0], qd[0]


@wp.kernel
def weigh(values: wp.array(dtype=float), weights: wp.array(dtype=float), losses: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(losses, 0, values[i] * weights[i])


class Scene:
    """One entry of the final coordinates or velocities as the loss of a robot, from a state of its own.

    Args:
        builder: The robot.
        q, qd: Coordinates and velocities at the start.
        of: "joint_q" or "joint_qd", and the entry that is the loss.
        steps: Number of steps.
        options: Options of the solver.
        device: Device.
        forces: Forces in all steps, or None.
    """

    def __init__(self, builder, q, qd, of, steps, options, device, forces=None):
        self.builder, self.q, self.qd, self.of = builder, q, qd, of
        self.steps, self.options, self.device = steps, options, device
        self.forces = np.zeros(len(qd)) if forces is None else np.asarray(forces)

    def rollout(self, wrt, **more):
        """The rollout, and its arguments."""
        model = copies(self.builder, 1, self.device, requires_grad=True)
        name, entry = self.of
        weights = wp.array(np.eye(getattr(model, name).size, dtype=np.float32)[entry], device=self.device)

        def loss(state, losses):
            values = getattr(state, name)
            wp.launch(weigh, len(values), [values, weights, losses], device=losses.device)

        state = model.state()
        put(model, state, self.q, self.qd)
        solver = FeatherstoneSolver(model, **self.options)
        rollout = diff.Rollout(model, solver, self.steps, DT, loss, wrt=wrt, **more)
        return rollout, (state, {"joint_f": self.forces.astype(np.float32)})

    def gradient(self, name: str) -> np.ndarray:
        """By the adjoint."""
        rollout, arguments = self.rollout((name,))
        return rollout(*arguments).gradients[name].numpy().astype(float)

    def all_slopes(self, name: str, spans) -> np.ndarray:
        """By central differences of all entries of an input, over spans in natural lengths, (n, spans).

        An entry's length is 1, of forces 10, and of masses half of them.
        """
        mass = copies(self.builder, 1, self.device).body_mass.numpy()
        start = {"joint_q": self.q, "joint_qd": self.qd, "joint_f": self.forces, "body_mass": mass}
        n = len(start[name])
        length = {"joint_f": np.full(n, 10.0), "body_mass": 0.5 * mass}.get(name, np.ones(n))
        steps = np.concatenate([sign * span * np.diag(length) for span in spans for sign in (1.0, -1.0)])
        values = {key: np.tile(value, (len(steps), 1)).astype(np.float32) for key, value in start.items()}
        values[name] = (values[name] + steps).astype(np.float32)
        model = copies(self.builder, len(steps), self.device)
        end = run(
            model,
            values["joint_q"],
            values["joint_qd"],
            self.steps,
            self.options,
            values["joint_f"],
            values["body_mass"],
        )
        of, row = self.of
        losses = end[("joint_q", "joint_qd").index(of)][:, row].reshape(len(spans), 2, n)
        ways = values[name].astype(float).reshape(len(spans), 2, n, n)[:, :, np.arange(n), np.arange(n)]
        return ((losses[:, 0] - losses[:, 1]) / (ways[:, 0] - ways[:, 1]) * length).T

    def slopes(self, name: str, entry: int, spans) -> np.ndarray:
        """By central differences, one for each span."""
        moved = {"joint_q": self.q, "joint_qd": self.qd, "joint_f": self.forces}
        count = 2 * len(spans)
        values = {key: np.tile(value, (count, 1)).astype(np.float32) for key, value in moved.items()}
        values[name][:, entry] += np.array(
            [sign * span for span in spans for sign in (1.0, -1.0)], np.float32
        )
        model = copies(self.builder, count, self.device)
        end = run(model, values["joint_q"], values["joint_qd"], self.steps, self.options, values["joint_f"])
        of, row = self.of
        losses = end[("joint_q", "joint_qd").index(of)][:, row].reshape(-1, 2)
        ways = values[name][:, entry].astype(float).reshape(-1, 2)
        return (losses[:, 0] - losses[:, 1]) / (ways[:, 0] - ways[:, 1])

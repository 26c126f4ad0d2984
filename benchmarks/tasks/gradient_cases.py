"""Scenes of `gradient_scenes` made ready for a solver: model, initial state, inputs, and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import warp as wp

import newtonsim
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, VBDSolver, XPBDSolver
from newtonsim.solvers.base import SolverBase
from tasks.gradient_scenes import CONTACT, SCENES, SMOOTH, STEPS, Scene, Setting

wp.set_module_options({"max_unroll": 0})

VELOCITY_WEIGHT = 0.2
"""Weight of velocities in the loss [s], beside 1 of positions and orientations."""


@wp.kernel
def weigh_scalars(
    world: wp.array(dtype=int),
    x: wp.array(dtype=float),
    weight: wp.array(dtype=float),
    centre: wp.array(dtype=float),
    losses: wp.array(dtype=float),
):
    """One thread per entry: its weighted distance from the centre goes to the loss of its world."""
    i = wp.tid()
    wp.atomic_add(losses, world[i], weight[i] * (x[i] - centre[i]))


@wp.kernel
def weigh_vectors(
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    weight: wp.array(dtype=wp.vec3),
    centre: wp.array(dtype=wp.vec3),
    losses: wp.array(dtype=float),
):
    """One thread per vector, as in `weigh_scalars`."""
    i = wp.tid()
    wp.atomic_add(losses, world[i], wp.dot(weight[i], x[i] - centre[i]))


@wp.kernel
def weigh_poses(
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.transform),
    weight: wp.array(dtype=wp.transform),
    centre: wp.array(dtype=wp.transform),
    losses: wp.array(dtype=float),
):
    """One thread per pose, as in `weigh_scalars`."""
    i = wp.tid()
    moved = wp.transform_get_translation(x[i]) - wp.transform_get_translation(centre[i])
    turned = wp.transform_get_rotation(x[i]) - wp.transform_get_rotation(centre[i])
    loss = wp.dot(wp.transform_get_translation(weight[i]), moved)
    loss += wp.dot(wp.transform_get_rotation(weight[i]), turned)
    wp.atomic_add(losses, world[i], loss)


@wp.kernel
def weigh_velocities(
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.spatial_vector),
    weight: wp.array(dtype=wp.spatial_vector),
    centre: wp.array(dtype=wp.spatial_vector),
    losses: wp.array(dtype=float),
):
    """One thread per spatial velocity, as in `weigh_scalars`."""
    i = wp.tid()
    wp.atomic_add(losses, world[i], wp.dot(weight[i], x[i] - centre[i]))


_KERNELS = {
    "joint_q": (weigh_scalars, float, "coord"),
    "joint_qd": (weigh_scalars, float, "dof"),
    "body_q": (weigh_poses, wp.transform, "body"),
    "body_qd": (weigh_velocities, wp.spatial_vector, "body"),
    "particle_q": (weigh_vectors, wp.vec3, "particle"),
    "particle_qd": (weigh_vectors, wp.vec3, "particle"),
}


class FinalState:
    """Loss: positions, orientations and velocities of all that moves, with random weights of either sign.

    Args:
        model: The model.
        seed: Of the weights.
    """

    def __init__(self, model: newtonsim.Model, seed: int = 11):
        rng = np.random.default_rng(seed)
        self.device = model.device
        self._terms = {}
        state = model.state(requires_grad=False)
        for name, (kernel, dtype, per) in _KERNELS.items():
            array = getattr(state, name)
            if array is None:
                continue
            shape = array.numpy().shape
            weight = rng.uniform(0.5, 1.0, shape) * rng.choice((-1.0, 1.0), shape)
            weight *= VELOCITY_WEIGHT if name.endswith("qd") else 1.0
            world = np.repeat(np.arange(model.world_count), np.diff(getattr(model, f"world_{per}_start")))
            self._terms[name] = (
                kernel,
                wp.array(world, dtype=int, device=self.device),
                wp.array(weight.astype(np.float32), dtype=dtype, device=self.device),
                wp.zeros(len(array), dtype=dtype, device=self.device),
            )

    def centre(self, state: newtonsim.State) -> None:
        """Measure from this state on: losses near it are small numbers, which rounding spares."""
        for name, (*_, centre) in self._terms.items():
            centre.assign(getattr(state, name))

    def __call__(self, state: newtonsim.State, losses: wp.array) -> None:
        """Add the loss of each world of a state to losses, shape (world_count,)."""
        for name, (kernel, world, weight, centre) in self._terms.items():
            x = getattr(state, name)
            inputs = [world, x, weight, centre]
            wp.launch(kernel, len(x), inputs, outputs=[losses], device=self.device)


@dataclass(frozen=True)
class Column:
    """One column of the table: a solver with the options that its gradients are checked with.

    Attributes:
        name: Name in the table.
        make: Returns the solver of a model.
        setting: What scenes ask about it.
        maximal: It reads poses and velocities of bodies, not joint coordinates.
        options: What the table says about it.
        silent: Parameters that it does not read, with the reason.
        missing: Reasons why it has no entry in a scene, by the name of the scene.
        shorter: Other time steps [s], by the name of the scene.
    """

    name: str
    make: Callable[[newtonsim.Model], SolverBase]
    setting: Setting
    maximal: bool
    options: str
    silent: dict[str, str]
    missing: dict[str, str]
    shorter: dict[str, float] = field(default_factory=dict)

    def setting_of(self, scene: str, steps: int) -> Setting:
        """What a scene asks about the solver, with its time step there."""
        return replace(self.setting, dt=self.shorter.get(scene, self.setting.dt), steps=steps)


_NO_PARTICLES = "moves no elements; with `deformables=` it raises `NotDifferentiableError`"
_SAME = "no contact: the same as hard contact"
_NO_ARMATURE = {"model.joint_armature": "not read: bodies have maximal coordinates"}
_NO_ROTORS = {
    "model.joint_armature": "0: rotors keep rates that are no part of the state, so armature raises"
}


def _sweeping(solver: XPBDSolver | VBDSolver) -> XPBDSolver | VBDSolver:
    """The same solver with enough sweeps over rigid bodies.

    Chains and robots on their feet take several hundred, and thousands where light feet pass on torsional
    friction.
    """
    if solver.constraints is not None:
        solver.constraints.restitution = True
        solver.constraints.linear_relaxation = solver.constraints.angular_relaxation = 1.0
        if solver.model.body_count > 1:
            solver.model.rigid_contact_torsional_friction = 0.0
        solver.iterations = 400
        solver.constraints.velocity_sweeps = solver.iterations
    return solver


# longest steps that penalties and explicit drives of the lightest link carry, so that effects are large
_PENALTY_STEPS = {
    "quadruped in flight": 1.0e-3,
    "quadruped standing": 2.0e-4,
    "quadruped landing": 2.0e-4,
    "free body": 1.0 / 240.0,
    "cloth": 1.0 / 240.0,
    "every joint type": 1.0e-3,
    "2-link arm, torques": 2.0e-3,
    "2-link arm, drives": 2.0e-3,
    "loop closure": 1.0e-3,
    "box sliding": 1.0e-3,
    "box sticking": 1.0e-3,
    "sphere bounce": 2.0e-3,
    "limit hit": 2.0e-3,
    "soft body": 1.0e-3,
}

COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column(
            "Featherstone, hard",
            lambda model: FeatherstoneSolver(model, iterations=64, tolerance=1.0e-7),
            Setting(1.0 / 240.0),
            False,
            "dt = 1/240 s, 64 iterations, tolerance 1e-7",
            {},
            dict.fromkeys(("cloth", "soft body"), _NO_PARTICLES),
        ),
        Column(
            "Featherstone, compliant",
            lambda model: FeatherstoneSolver(model, contact_mode="compliant"),
            Setting(1.0e-3, penalty=True, restitution=False),
            False,
            "dt = 1 ms",
            {"model.shape_materials.restitution": "not read: rebound follows from ke and kd"},
            dict.fromkeys(("cloth", "soft body"), _NO_PARTICLES)
            | {name: _SAME for name, scene in SCENES.items() if not scene.contact and not scene.particles}
            | {"limit hit": _SAME},
        ),
        Column(
            "SemiImplicit",
            lambda model: SemiImplicitSolver(
                model, angular_damping=0.0, friction_smoothing=100.0, joint_attach_ke=1.0e4,
                joint_attach_kd=40.0, fade_depth=1.0e-2,
            ),
            Setting(5.0e-4, penalty=True, restitution=False, explicit=True),
            True,
            "dt = 0.5 ms, friction_smoothing 100, joint_attach_ke 1e4, joint_attach_kd 40, fade_depth 1 cm",
            _NO_ARMATURE | {"model.shape_materials.restitution": "not read: rebound follows from ke and kd"},
            {},
            _PENALTY_STEPS,
        ),
        Column(
            "XPBD",
            lambda model: _sweeping(
                XPBDSolver(
                    model, iterations=100, joint_linear_relaxation=1.0, joint_angular_relaxation=1.0,
                    soft_body_relaxation=1.5, enable_restitution=True,
                )
            ),
            Setting(1.0 / 240.0),
            True,
            "dt = 1/240 s, 400 iterations (cloth and soft body 100), as many sweeps over velocities, "
            "soft_body_relaxation 1.5, joint relaxations 1, no torsional friction of robots",
            _NO_ROTORS,
            {},
        ),
        Column(
            "VBD",
            lambda model: _sweeping(VBDSolver(model, iterations=100)),
            Setting(1.0 / 240.0),
            True,
            "dt = 1/240 s, 400 iterations (cloth and soft body 100), as many sweeps over velocities, "
            "relaxations 1, no torsional friction of robots, `constraints.restitution`",
            _NO_ROTORS,
            {},
        ),
    )
}  # fmt: skip
"""All columns of the table, by name."""


@dataclass
class Case:
    """One entry of the table.

    Attributes:
        scene: Its row.
        column: Its column.
        model: The model.
        solver: Its solver.
        state: Where it starts.
        control: Inputs of all steps.
        loss: Loss of the last state.
        wrt: Names of the arrays of which gradients are wanted.
        dt: Time step [s].
        steps: Number of steps.
    """

    scene: Scene
    column: Column
    model: newtonsim.Model
    solver: SolverBase
    state: newtonsim.State
    control: newtonsim.Control
    loss: FinalState
    wrt: tuple[str, ...]
    dt: float
    steps: int

    @property
    def tolerance(self) -> float:
        """Largest accepted relative error of the gradient vector."""
        return CONTACT if self.scene.contact else SMOOTH


GROUPS = ("state", "controls", "parameters")
"""Parts of the gradient that the table tells apart."""


def group_of(name: str) -> str:
    """Return the part of the gradient that an array belongs to; external forces count as controls."""
    if name.endswith("_f") or name.startswith("control."):
        return "controls"
    return "state" if name.startswith("state.") else "parameters"


def make_case(
    scene: str,
    column: str,
    device: wp.DeviceLike = None,
    requires_grad: bool = True,
    worlds: int = 1,
    steps: int = STEPS,
) -> Case:
    """Make an entry of the table ready.

    Args:
        scene: Name of a row.
        column: Name of a column.
        device: Where the model lives.
        requires_grad: Whether gradients can flow.
        worlds: Number of worlds, copies of each other.
        steps: Length of the rollout; what happens on the way happens the earlier, the shorter it is.

    Returns:
        Model, solver, state, inputs and loss.

    Raises:
        KeyError: There is no such row or column.
    """
    row, chosen = SCENES[scene], COLUMNS[column]
    setting = chosen.setting_of(scene, steps)

    def finalize(device: wp.DeviceLike, requires_grad: bool, worlds: int) -> newtonsim.Model:
        return _finalize(row.build(setting), chosen, device, requires_grad, worlds)

    model = finalize(device, requires_grad, worlds)
    start = row.start(finalize("cpu", False, 1), setting)
    state, control = model.state(), model.control()
    for holder, values in ((state, start.state), (control, start.control)):
        for name, value in values.items():
            array = getattr(holder, name)
            tiled = np.tile(np.asarray(value, np.float32), (worlds,) + (1,) * (np.ndim(value) - 1))
            array.assign(tiled.reshape(array.numpy().shape))
    if model.joint_count:
        newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    if row.settle:
        settled = finalize(model.device, False, worlds)
        _settle(settled, chosen.make(settled), state, control, setting.dt, row.settle)
    solver, loss = chosen.make(model), FinalState(model)
    wrt = _names(row, chosen, model)
    return Case(row, chosen, model, solver, state, control, loss, wrt, setting.dt, steps)


def _finalize(
    builder: newtonsim.ModelBuilder, column: Column, device, requires_grad: bool, worlds: int
) -> newtonsim.Model:
    if worlds > 1:
        scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=builder.gravity)
        scene.ground_settings, builder.ground_settings = builder.ground_settings, None
        scene.replicate(builder, worlds, spacing=(0.0, 0.0, 0.0))
        builder = scene
    model = builder.finalize(device, requires_grad=requires_grad)
    if "model.joint_armature" in column.silent:
        model.joint_armature.zero_()
    return model


def _settle(
    model: newtonsim.Model,
    solver: SolverBase,
    state: newtonsim.State,
    control: newtonsim.Control,
    dt: float,
    time: float,
) -> None:
    """Simulate for a time [s] until the scene is at rest, and start there."""
    simulator = newtonsim.Simulator(model, solver, dt=dt)
    for name in ("joint_act", "joint_f"):
        getattr(simulator.control, name).assign(getattr(control, name))
    for name, array in vars(state).items():
        if isinstance(array, wp.array):
            getattr(simulator.state, name).assign(array)
    simulator.state.body_f.assign(state.body_f)
    simulator.step(round(time / dt))
    for name, array in vars(state).items():
        if isinstance(array, wp.array):
            array.assign(getattr(simulator.state, name))


def _names(row: Scene, column: Column, model: newtonsim.Model) -> tuple[str, ...]:
    """Arrays that matter: initial state, external forces, inputs, and parameters that the solver reads."""
    names = []
    if model.particle_count:
        names += ["state.particle_q", "state.particle_qd", "state.particle_f"]
    if model.body_count:
        names += ["state.body_q", "state.body_qd"] if column.maximal else ["state.joint_q", "state.joint_qd"]
        names += ["state.body_f"]
    names += [f"control.{name}" for name in row.controls]
    read = [name for name in row.parameters if name not in column.silent]
    if column.setting.penalty and row.contact and model.body_count and model.shape_count:
        read += ["model.shape_materials.ke", "model.shape_materials.kd"]
    return (*names, *read)


def rollout(case: Case) -> newtonsim.State:
    """Return the state after all steps, without gradients."""
    states = [case.state.clone(), case.state.clone()]
    for _ in range(case.steps):
        case.solver.step(case.model, *states, case.control, None, case.dt)
        states.reverse()
    return states[0]

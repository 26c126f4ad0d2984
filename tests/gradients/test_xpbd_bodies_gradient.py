"""Gradients of rigid bodies and joints under XPBD against central differences of the simulation itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import JointMode
from newtonsim.collision.contacts import Contacts
from newtonsim.scene.control import Control
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers import XPBDSolver
from newtonsim.solvers.maximal.adjoint import BodyAdjoint
from newtonsim.testing import random_coordinates, random_model

DT = 1.0 / 240.0
INERTIA = wp.mat33(0.02, 0.001, 0.0, 0.001, 0.05, 0.002, 0.0, 0.002, 0.03)
OUTPUTS = ("body_q", "body_qd", "joint_q", "joint_qd")


@dataclass
class Step:
    """Arguments of one step."""

    state_in: State
    state_out: State
    control: Control
    contacts: Contacts | None
    dt: float


class Rollout:
    """Some steps, their gradient by the adjoint, and differences of the same steps.

    Args:
        model: Finalized with gradients.
        steps: Number of steps.
        sweeps: Sweeps over positions, and over velocities, of the solver.
        dt: Length of a step [s].
        options: Of the solver.
    """

    def __init__(self, model: Model, steps: int, sweeps: int, dt: float = DT, **options: object):
        self.model, self.dt = model, dt
        self.solver = XPBDSolver(model, iterations=sweeps, **options)
        self.solver.constraints.velocity_sweeps = sweeps
        self.states = [model.state(requires_grad=True) for _ in range(steps + 1)]
        self.control = model.control(requires_grad=True)
        self.adjoint = BodyAdjoint(self.solver.constraints)
        self.adjoint.iterations = self.adjoint.velocity_sweeps = sweeps
        self.graph = None

    @property
    def start(self) -> State:
        return self.states[0]

    def place(self, joint_q: np.ndarray | None = None, joint_qd: np.ndarray | None = None) -> Rollout:
        """Set joint coordinates, and the bodies by them."""
        if joint_q is not None:
            self.start.joint_q.assign(np.asarray(joint_q, np.float32))
        if joint_qd is not None:
            self.start.joint_qd.assign(np.asarray(joint_qd, np.float32))
        newtonsim.eval_fk(self.model, self.start.joint_q, self.start.joint_qd, None, self.start)
        return self

    def run(self) -> State:
        """Simulate."""
        self.solver.reset()
        if self.graph is None:
            self._steps()
            self.solver.reset()
            with wp.ScopedCapture(device=self.model.device) as capture:
                self._steps()
            self.graph = capture.graph
        wp.capture_launch(self.graph)
        return self.states[-1]

    def _steps(self) -> None:
        for before, after in zip(self.states, self.states[1:]):
            self.solver.step(self.model, before, after, self.control, None, self.dt)

    def arrays(self) -> list[wp.array]:
        names = (*OUTPUTS, "body_f")
        arrays = [getattr(state, name) for state in self.states for name in names]
        arrays += [self.control.joint_act, self.control.joint_f, *self.adjoint.record_arrays()]
        return [a for a in arrays if a is not None and a.size]

    def backward(self, weights: dict[str, np.ndarray]) -> None:
        """Gradients of the weighted sum of what the last state holds."""
        for array in self.arrays():
            array.grad.zero_()
        for name, weight in weights.items():
            getattr(self.states[-1], name).grad.assign(weight.astype(np.float32))
        for before, after in reversed(list(zip(self.states, self.states[1:]))):
            self.adjoint.run(Step(before, after, self.control, None, self.dt), self.solver.substeps)

    def errors(
        self,
        step: float = 1.0e-2,
        samples: int = 6,
        seed: int = 0,
        apply: Callable[[], None] | None = None,
        **arrays: wp.array,
    ) -> dict[str, float]:
        """Relative errors of the gradient vectors by some entries of arrays."""
        rng = np.random.default_rng(seed)
        last = self.run()
        weights = {}
        for name in OUTPUTS:
            shape = getattr(last, name).numpy().shape
            weights[name] = rng.uniform(0.5, 1.0, shape) * rng.choice((-1.0, 1.0), shape)
        self.backward(weights)
        gradients = {name: array.grad.numpy().astype(float).reshape(-1) for name, array in arrays.items()}

        def loss() -> float:
            state = self.run()
            return sum(float((getattr(state, n).numpy().astype(float) * w).sum()) for n, w in weights.items())

        errors = {}
        for name, array in arrays.items():
            entries = rng.choice(gradients[name].size, min(samples, gradients[name].size), replace=False)
            found = gradients[name][entries]
            wanted = np.array([difference(loss, array, int(entry), step) for entry in entries])
            errors[name] = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
        return errors


def difference(loss: Callable[[], float], array: wp.array, entry: int, step: float) -> float:
    """Central difference, from two steps extrapolated to none."""
    original = array.numpy().copy()
    quotients = []
    for size in (step, step / 3.0):
        values = []
        for sign in (1.0, -1.0):
            moved = original.copy()
            moved.reshape(-1)[entry] += sign * size
            array.assign(moved)
            values.append((loss(), float(moved.reshape(-1)[entry])))
        (high, x_high), (low, x_low) = values
        quotients.append((high - low) / (x_high - x_low))
    array.assign(original)
    return quotients[1] + (quotients[1] - quotients[0]) / 8.0


def free_bodies(device: str) -> Model:
    """A body with a free joint, and one without any."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(2):
        builder.add_body(mass=1.3, com=wp.vec3(0.1, 0.05, -0.02), I_m=INERTIA)
    builder.add_articulation()
    builder.add_joint_free(child=0)
    return builder.finalize(device, requires_grad=True)


def arm(device: str, links: int, **axis: object) -> Model:
    """A chain of links on hinges about three directions in turn."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    parent = -1
    for k in range(links):
        child = builder.add_body(mass=1.0 - 0.08 * k, com=wp.vec3(0.2, 0.01, 0.0), I_m=INERTIA)
        builder.add_joint_revolute(
            parent,
            child,
            parent_xform=wp.transform(wp.vec3(0.4 if k else 0.0, 0.0, 0.0), wp.quat_identity()),
            axis=((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))[k % 3],
            **({"limit_lower": -10.0, "limit_upper": 10.0, "armature": 0.0} | axis),
        )
        parent = child
    return builder.finalize(device, requires_grad=True)


def assert_below(errors: dict[str, float], most: float) -> None:
    assert all(error <= most for error in errors.values()), {k: f"{e:.1e}" for k, e in errors.items()}


@pytest.mark.slow
@pytest.mark.parametrize("substeps", [1, 3])
def test_free_bodies_spin_under_forces(device: str, substeps: int):
    """The gyroscopic torque, the kick of forces, damping, and quaternions that turn."""
    model = free_bodies(device)
    run = Rollout(model, 50, 1, 1.0 / 120.0, substeps=substeps, angular_damping=0.3)
    rng = np.random.default_rng(0)
    run.start.body_qd.assign((3.0 * rng.normal(size=(2, 6))).astype(np.float32))
    run.start.body_f.assign(rng.normal(size=(2, 6)).astype(np.float32))
    run.control.joint_f.assign(rng.normal(size=6).astype(np.float32))
    model.joint_damping.assign(np.full(6, 0.05, np.float32))
    start = run.start
    assert_below(run.errors(0.3, f=start.body_f), 2.0e-3)
    arrays = {"qd": start.body_qd, "q": start.body_q, "com": model.body_com}
    arrays |= {"joint_f": run.control.joint_f, "damping": model.joint_damping}
    assert_below(run.errors(3.0e-2, **arrays), 2.0e-3)


@pytest.mark.slow
@pytest.mark.parametrize("links", [2, 7])
def test_arm_under_torques_and_drives(device: str, links: int):
    """Wrenches that turn, multipliers of several joints, force laws: torque, PD, damping, springs."""
    model = arm(device, links)
    run = Rollout(model, 20, 100)
    rng = np.random.default_rng(0)
    run.place(rng.uniform(-0.5, 0.5, links), rng.normal(size=links))
    mode = model.joint_axis_mode.numpy()
    mode[1:] = int(JointMode.TARGET_POSITION)
    model.joint_axis_mode.assign(mode)
    for name, value in (("target_ke", 20.0), ("target_kd", 1.0), ("stiffness", 2.0), ("damping", 0.5)):
        getattr(model, f"joint_{name}").assign(np.full(links, value, np.float32))
    run.control.joint_f.assign(rng.normal(size=links).astype(np.float32))
    run.control.joint_act.assign(rng.uniform(-0.5, 0.5, links).astype(np.float32))
    arrays = {"act": run.control.joint_act, "joint_f": run.control.joint_f, "ke": model.joint_target_ke}
    arrays |= {"kd": model.joint_target_kd, "stiffness": model.joint_stiffness}
    assert_below(run.errors(0.3, samples=2, **arrays), 2.0e-3)
    assert_below(run.errors(3.0e-2, samples=3, com=model.body_com), 2.0e-3)


@pytest.mark.slow
def test_drives_at_their_largest_and_their_least_effort(device: str):
    """Each bound has the gradient of the drive that is at it, and the other bound none."""
    axis = {"mode": JointMode.TARGET_POSITION, "target_ke": 40.0, "target_kd": 1.0}
    model = arm(device, 2, **axis)
    model.joint_effort_limit.assign(np.array([1.0, 4.0], np.float32))
    model.joint_effort_lower.assign(np.array([-4.0, -0.6], np.float32))
    run = Rollout(model, 20, 60).place([0.1, -0.2], [0.3, 0.5])
    run.control.joint_act.assign(np.array([2.0, -2.0], np.float32))
    most, least = model.joint_effort_limit, model.joint_effort_lower
    assert_below(run.errors(0.1, most=most, least=least, com=model.body_com), 2.0e-3)
    assert most.grad.numpy()[1] == least.grad.numpy()[0] == 0.0
    assert most.grad.numpy()[0] != 0.0
    assert least.grad.numpy()[1] != 0.0


KINDS = [t for t in JointType if t not in (JointType.FREE, JointType.DISTANCE, JointType.FIXED)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_type_of_joint(device: str, kind: JointType):
    """Two bodies on skew joints of one type."""
    model = random_model(3, body_count=2, joint_types=[kind], armature=0.0).finalize(
        device, requires_grad=True
    )
    run = Rollout(model, 20, 50)
    run.place(*random_coordinates(model, 5, angle=0.4))
    rng = np.random.default_rng(1)
    run.control.joint_f.assign(rng.normal(size=model.joint_dof_count).astype(np.float32))
    model.joint_damping.assign(np.full(model.joint_dof_count, 0.5, np.float32))
    assert_below(run.errors(0.3, 3, joint_f=run.control.joint_f, damping=model.joint_damping), 1.0e-2)
    assert_below(run.errors(0.2, 3, qd=run.start.body_qd), 5.0e-3)


@pytest.mark.slow
def test_joints_that_yield(device: str):
    """Forces along axes load what a joint holds with compliance, by the masses of both bodies."""
    model = arm(device, 2)
    model.joint_linear_compliance.fill_(1.0e-4)
    model.joint_angular_compliance.fill_(1.0e-3)
    run = Rollout(model, 5, 40).place([0.3, -0.2], [1.0, 2.0])
    run.control.joint_f.assign(np.array([2.0, -1.0], np.float32))
    assert_below(run.errors(0.3, joint_f=run.control.joint_f), 5.0e-3)
    assert_below(run.errors(3.0e-2, com=model.body_com), 5.0e-3)


@pytest.mark.parametrize("kind", ["XPBDSolver", "VBDSolver"])
def test_tape_records_steps(device: str, kind: str):
    """A tape of the solver's own steps gives the gradient of the adjoint, and steps as without one."""
    model = arm(device, 2)
    run = Rollout(model, 5, 20).place([0.3, -0.2], [1.0, 2.0])
    run.adjoint = BodyAdjoint(run.solver.constraints)
    weights = {"joint_qd": np.ones(2)}
    last = run.run().joint_qd.numpy()
    run.backward(weights)
    wanted = run.start.body_qd.grad.numpy().copy()
    for array in run.arrays():
        array.grad.zero_()
    solver = getattr(newtonsim.solvers, kind)(model, iterations=20)
    solver.constraints.velocity_sweeps = 20
    with wp.Tape() as tape:
        for before, after in zip(run.states, run.states[1:]):
            solver.step(model, before, after, run.control, None, run.dt)
    np.testing.assert_array_equal(run.states[-1].joint_qd.numpy(), last)
    tape.backward(grads={run.states[-1].joint_qd: wp.array(np.ones(2), dtype=float, device=device)})
    np.testing.assert_array_equal(run.start.body_qd.grad.numpy(), wanted)


@pytest.mark.parametrize("sweeps", [2, 100])
def test_sweeps_that_stop_early_are_told(sweeps, device):
    """The warning names world and part, and comes again when that is twice as much."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-9.81)
    pendulum = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-9.81)
    parent = -1
    for _ in range(4):
        body = pendulum.add_body(mass=1.0, I_m=INERTIA, com=(0.25, 0.0, 0.0))
        anchor = wp.transform((0.5 if parent >= 0 else 0.0, 0.0, 0.0), wp.quat_identity())
        pendulum.add_joint_revolute(parent, body, parent_xform=anchor, axis=(0.0, 1.0, 0.0), armature=0.0)
        parent = body
    free = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-9.81)
    free.add_body(mass=1.0, I_m=INERTIA)
    builder.add_builder(free)
    builder.add_builder(pendulum)
    rollout = Rollout(builder.finalize(device, requires_grad=True), 3, sweeps)
    rollout.adjoint.velocity_sweeps = rollout.adjoint.iterations = 100
    rollout.run()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rollout.backward({"body_qd": np.ones((*rollout.start.body_qd.shape, 6))})
    told = [str(w.message) for w in caught if "sweeps ended" in str(w.message)]
    assert bool(told) == (sweeps == 2)
    assert all("world 1" in text and "use more iterations" in text for text in told)
    parts = [float(text.split("ended ")[1].split("%")[0]) for text in told]
    assert all(b >= 1.99 * a for a, b in pairwise(parts))

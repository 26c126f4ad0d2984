"""Stages before a step: damping and PD forces; what they must leave alone; the bound of velocities."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, add_hinge, diagonal_inertia, many, quaternion, z_up

from newtonsim import Simulator
from newtonsim.errors import NotDifferentiableError
from newtonsim.runtime.launcher import Launcher
from newtonsim.solvers import (
    BodyDamping,
    FeatherstoneSolver,
    JointDamping,
    PDForces,
    StepForces,
)

DT = 1.0 / 240.0


def free_body(gravity: float = 0.0):
    """A body with different moments of inertia and its centre of mass off its origin."""
    world = z_up(gravity)
    body = world.add_body(mass=2.0, com=wp.vec3(0.1, -0.2, 0.3), I_m=diagonal_inertia(0.05, 0.08, 0.03))
    world.add_joint_free(body)
    return world


def simulator_with(builder, device: str, stage_type: type, substeps: int = 1) -> tuple[Simulator, object]:
    """A simulator with one stage before its steps."""
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model), DT, substeps=substeps)
    stage = stage_type(model)
    simulator.solver.before_step = (stage,)
    return simulator, stage


@pytest.mark.parametrize("substeps", [1, 4])
def test_fall_with_drag(device: str, substeps: int):
    """Free fall against m d (1 + v) v: v' = g - d v - d v^2 has the solution with the hyperbolic tangent."""
    simulator, damping = simulator_with(free_body(-GRAVITY), device, BodyDamping, substeps)
    d = 0.3
    damping.linear.fill_(d)
    simulator.step(480)
    time = 480 * DT
    # v = -1/2 + a tanh(d a t + c) with a² = 1/4 + g/d
    a = math.sqrt(0.25 + GRAVITY / d)
    expected = -0.5 + a * math.tanh(d * a * time + math.atanh(0.5 / a))
    assert -simulator.state.joint_qd.numpy()[5] == pytest.approx(expected, rel=1.0e-3)


def test_drag_of_one_step_is_explicit(device: str):
    """The change of velocity in one step is -h d (1 + |v|) v, and the same for turning about a main axis."""
    simulator, damping = simulator_with(free_body(), device, BodyDamping)
    damping.linear.fill_(0.04)
    damping.angular.fill_(0.2)
    start = np.array([0.0, 0.0, 30.0, 4.0, -3.0, 12.0])
    turned = np.append([0.0, 0.0, 0.0], quaternion((0.0, 0.0, 1.0), 0.5))
    simulator.state.joint_q.assign(turned)
    simulator.state.joint_qd.assign(start)
    simulator.step()
    expected = np.append(
        start[:3] * (1.0 - DT * 0.2 * (1.0 + 30.0)), start[3:] * (1.0 - DT * 0.04 * (1.0 + 13.0))
    )
    np.testing.assert_allclose(simulator.state.joint_qd.numpy(), expected, rtol=0.0, atol=2.0e-5)


def test_drag_acts_on_links(device: str):
    """A hinged link: torques of drag at its centre of mass and of its own turning add up."""
    world = z_up(0.0)
    add_hinge(world, mass=2.0, length=0.5, inertia=0.02)
    simulator, damping = simulator_with(world, device, BodyDamping)
    damping.linear.fill_(0.04)
    damping.angular.fill_(0.1)
    w = 8.0
    simulator.state.joint_qd.fill_(w)
    simulator.step()
    drag = 0.5 * 2.0 * 0.04 * (1.0 + 0.5 * w) * 0.5 * w + 0.02 * 0.1 * (1.0 + w) * w
    inertia = 0.02 + 2.0 * 0.25
    assert simulator.state.joint_qd.numpy()[0] == pytest.approx(w - DT * drag / inertia, abs=5.0e-6)


def test_inputs_of_the_user_stay_and_count(device: str):
    """Wrench and generalised force act beside the damping, and are not written to."""
    simulator, damping = simulator_with(free_body(), device, BodyDamping)
    damping.linear.fill_(0.1)
    force = np.array([[0.0, 0.0, 0.0, 5.0, 0.0, 0.0]], dtype=np.float32)
    simulator.state.body_f.assign(force)
    simulator.control.joint_f.assign([0.0, 0.0, 0.0, 0.0, 3.0, 0.0])
    simulator.step(2)
    np.testing.assert_array_equal(simulator.state.body_f.numpy(), force)
    np.testing.assert_array_equal(simulator.control.joint_f.numpy(), [0.0, 0.0, 0.0, 0.0, 3.0, 0.0])
    v = np.array([5.0, 3.0, 0.0]) * DT / 2.0
    v = v + DT * (np.array([5.0, 3.0, 0.0]) / 2.0 - 0.1 * (1.0 + np.linalg.norm(v)) * v)
    np.testing.assert_allclose(simulator.state.joint_qd.numpy()[3:], v, rtol=0.0, atol=1.0e-6)


def test_joint_damping_is_explicit(device: str):
    world = z_up(0.0)
    add_hinge(world, mass=2.0, length=0.5, inertia=0.3)
    simulator, damping = simulator_with(world, device, JointDamping)
    damping.damping.fill_(0.7)
    simulator.state.joint_qd.fill_(10.0)
    simulator.step(3)
    assert simulator.state.joint_qd.numpy()[0] == pytest.approx(
        10.0 * (1.0 - DT * 0.7 / 0.8) ** 3, rel=1.0e-6
    )


def test_pd_forces(device: str):
    """Explicit springs with a largest force; none where the gains are zero."""
    world = z_up(0.0)
    for _ in range(3):
        add_hinge(world, mass=2.0, length=0.5, inertia=0.3)
    simulator, pd = simulator_with(world, device, PDForces)
    pd.kp.assign([3.0, 300.0, 0.0])
    pd.kd.assign([0.5, 0.5, 0.0])
    pd.target_q.assign([1.0, 1.0, 1.0])
    pd.target_qd.assign([0.2, 0.2, 0.2])
    pd.max_force.assign([1000.0, 2.0, 1000.0])
    simulator.state.joint_q.fill_(0.1)
    simulator.state.joint_qd.fill_(1.0)
    simulator.step()
    torque = np.array([3.0 * 0.9 + 0.5 * (0.2 - 1.0), 2.0, 0.0])
    np.testing.assert_allclose(simulator.state.joint_qd.numpy(), 1.0 + torque * DT / 0.8, rtol=1.0e-6)


def test_stages_can_change_between_steps(device: str):
    """Stages that come and go and arrays that are replaced are noticed by a captured step."""
    simulator, damping = simulator_with(free_body(), device, BodyDamping)
    model = simulator.model
    damping.linear.fill_(1.0)
    simulator.state.joint_qd.assign([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    simulator.step(2)
    before = simulator.state.joint_qd.numpy()[3]
    damping.linear = wp.zeros(model.body_count, dtype=float, device=device)
    simulator.step(2)
    assert simulator.state.joint_qd.numpy()[3] == pytest.approx(before, abs=1.0e-7)
    damping.linear.fill_(1.0)
    simulator.step()
    slowed = simulator.state.joint_qd.numpy()[3]
    assert slowed < before - 1.0e-3
    simulator.solver.before_step = ()
    simulator.step(2)
    assert simulator.state.joint_qd.numpy()[3] == pytest.approx(slowed, abs=1.0e-7)
    with pytest.raises(TypeError, match="before_step"):
        simulator.solver.before_step = (3,)


class NoForce:
    """A stage that does nothing."""

    def apply(self, launch: Launcher, step: StepForces) -> None:
        assert step.dt > 0.0


def test_a_stage_without_force_changes_no_bit(device: str):
    world = z_up()
    parent = add_hinge(world)
    add_hinge(world, parent=parent, axis=(1.0, 0.0, 0.0))
    results = []
    for stages in ((), (NoForce(),)):
        model = many(world, 2).finalize(device)
        simulator = Simulator(model, FeatherstoneSolver(model), DT)
        simulator.solver.before_step = stages
        simulator.state.joint_q.fill_(0.7)
        simulator.control.joint_f.fill_(0.3)
        simulator.step(50)
        results.append(simulator.state.joint_q.numpy().copy())
    np.testing.assert_array_equal(*results)


def test_gradients_are_refused(device: str):
    model = free_body().finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model)
    solver.before_step = (NoForce(),)
    first, second = model.state(), model.state()
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="before_step"):
        solver.step(model, first, second, None, None, DT)


def test_velocities_are_bounded_one_by_one(device: str):
    world = free_body(-GRAVITY)
    add_hinge(world)
    model = world.finalize(device)
    solver = FeatherstoneSolver(model, speed_limit=100.0)
    simulator = Simulator(model, solver, DT)
    simulator.state.joint_qd.assign([0.0, 0.0, 300.0, 50.0, -400.0, 0.0, 200.0])
    limits = np.full(7, 100.0, dtype=np.float32)
    limits[6] = 30.0
    solver.speed_limit.assign(limits)
    simulator.step()
    qd = simulator.state.joint_qd.numpy()
    np.testing.assert_allclose(qd[[2, 3, 4]], [100.0, 50.0, -100.0], rtol=1.0e-5)
    assert qd[6] == pytest.approx(30.0)
    assert simulator.state.joint_q.numpy()[7] == pytest.approx(30.0 * DT, rel=1.0e-5)

"""Constraints beside the joints under SemiImplicitSolver: loops, distances, welds, gears."""

import itertools

import numpy as np
import pytest
import warp as wp
from tasks.gradient_scenes import Setting, four_bar

import newtonsim
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver

GRAVITY = 9.81
BALL = wp.mat33(0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.01)


def run(model, solver, dt, seconds, control=None):
    a, b = model.state(), model.state()
    newtonsim.eval_fk(model, a.joint_q, a.joint_qd, None, a)
    for _ in range(round(seconds / dt)):
        solver.step(model, a, b, control, None, dt)
        a, b = b, a
    return a


def stiff(model) -> SemiImplicitSolver:
    return SemiImplicitSolver(model, angular_damping=0.0, joint_attach_ke=2.0e5, joint_attach_kd=100.0)


def test_linkage_moves_as_in_reduced_coordinates(device):
    """A four-bar linkage that falls for 0.3 s, against FeatherstoneSolver with a hard loop joint."""
    model = four_bar(Setting(1.0e-3)).finalize(device)
    reference = run(model, FeatherstoneSolver(model), 1.0e-3, 0.3).body_q.numpy().copy()
    found = run(model, stiff(model), 1.0e-4, 0.3).body_q.numpy()
    moved = np.abs(reference - model.state().body_q.numpy()).max()
    assert moved > 0.1
    np.testing.assert_allclose(found[:, :3], reference[:, :3], atol=4.0e-3)


def test_rod_is_a_pendulum(device):
    """A ball on a rod of 0.5 m, let go at 0.2 rad: back after the period of a pendulum, rod unstretched."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=-GRAVITY)
    angle, length = 0.2, 0.5
    start = np.array([length * np.sin(angle), 0.0, -length * np.cos(angle)])
    ball = builder.add_body(origin=wp.transform(start, wp.quat_identity()), mass=1.0, I_m=BALL)
    builder.add_constraint_distance(-1, ball, min_distance=length, max_distance=length)
    builder.add_articulation()
    builder.add_joint_free(ball)
    builder.joint_q[:3] = start.tolist()
    model = builder.finalize(device)
    # the period at this amplitude is 1 + θ²/16 times that of small swings
    period = 2.0 * np.pi * np.sqrt(length / GRAVITY) * (1.0 + angle**2 / 16.0)
    end = run(model, stiff(model), 2.0e-4, period).body_q.numpy()[0, :3]
    np.testing.assert_allclose(end, start, atol=2.0e-3)


def test_weld_keeps_momentum(device):
    """Two free bodies, welded and spinning without gravity."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    first = builder.add_body(mass=1.0, I_m=BALL)
    second = builder.add_body(
        origin=wp.transform((0.3, 0.0, 0.0), wp.quat_identity()), mass=2.0, I_m=2.0 * BALL
    )
    builder.add_constraint_weld(first, second)
    model = builder.finalize(device)
    solver, dt = stiff(model), 2.0e-4
    a, b = model.state(), model.state()
    w = np.array([0.5, -0.3, 2.0])
    v = np.array([0.2, 0.0, 0.1]) + np.cross(w, np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0]]))
    a.body_qd.assign(np.hstack([np.tile(w, (2, 1)), v]).astype(np.float32))
    mass = np.array([1.0, 2.0])[:, None]

    def momenta(state):
        x, qd = state.body_q.numpy()[:, :3].astype(float), state.body_qd.numpy().astype(float)
        # positions belong to the ends of the step, velocities to its middle
        middle = x - 0.5 * dt * qd[:, 3:]
        spin = 0.01 * mass * qd[:, :3] + np.cross(middle, mass * qd[:, 3:])
        return (mass * qd[:, 3:]).sum(axis=0), spin.sum(axis=0)

    linear, angular = momenta(a)
    for _ in range(2000):
        solver.step(model, a, b, None, None, dt)
        a, b = b, a
    after = momenta(a)
    np.testing.assert_allclose(after[0], linear, atol=1.0e-4)
    np.testing.assert_allclose(after[1], angular, atol=1.0e-3)
    q = a.body_q.numpy()
    distance = np.linalg.norm(q[1, :3] - q[0, :3])
    assert distance == pytest.approx(0.3, abs=1.0e-3)
    assert abs(np.dot(q[0, 3:], q[1, 3:])) == pytest.approx(1.0, abs=1.0e-4)


def wheels(device, **options):
    """Two flywheels of 0.02 and 0.05 kg m², of which the first turns three times as fast as the second."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    builder.add_articulation()
    joints = []
    for inertia, x in ((0.02, 0.0), (0.05, 1.0)):
        wheel = builder.add_body(mass=1.0, I_m=wp.mat33(*(inertia * np.eye(3)).flatten()))
        anchor = wp.transform((x, 0.0, 0.0), wp.quat_identity())
        joints.append(
            builder.add_joint_revolute(-1, wheel, parent_xform=anchor, axis=(0.0, 0.0, 1.0), armature=0.0)
        )
    builder.add_constraint_gear(joints[0], joints[1], ratio=3.0, **options)
    return builder.finalize(device, requires_grad=True)


def test_gear_divides_torque(device):
    """A torque on the first wheel turns the second: q2'' = 3 τ / (9 I1 + I2), and q1 = 3 q2."""
    model = wheels(device)
    control = model.control()
    control.joint_f.assign([0.1, 0.0])
    solver = SemiImplicitSolver(model, angular_damping=0.0, joint_attach_ke=1.0e5, joint_attach_kd=300.0)
    a = run(model, solver, 2.0e-4, 0.5, control)
    q = a.joint_q.numpy()
    expected = 0.5 * 0.3 / (9.0 * 0.02 + 0.05) * 0.5**2
    assert q[1] == pytest.approx(expected, rel=5.0e-3)
    assert q[0] == pytest.approx(3.0 * q[1], abs=2.0e-3)


def test_gear_slips_beyond_its_largest_force(device):
    """A gear that carries at most 0.02 N m: the second wheel gets three times that."""
    model = wheels(device, max_force=0.02)
    control = model.control()
    control.joint_f.assign([0.5, 0.0])
    solver = SemiImplicitSolver(model, angular_damping=0.0, joint_attach_ke=1.0e5, joint_attach_kd=300.0)
    a = run(model, solver, 2.0e-4, 0.2, control)
    assert a.joint_qd.numpy()[1] == pytest.approx(3.0 * 0.02 / 0.05 * 0.2, rel=2.0e-2)


def test_gradient_through_a_gear(device):
    """Slope of the second angle with respect to torques: t²/2 times 3 / (9 I1 + I2), 1 / (9 I1 + I2)."""
    model, dt, steps = wheels(device), 2.0e-4, 1200
    solver = SemiImplicitSolver(model, angular_damping=0.0, joint_attach_ke=1.0e5, joint_attach_kd=300.0)
    states = [model.state() for _ in range(steps + 1)]
    control = model.control()
    with wp.Tape() as tape:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, control, None, dt)
    seed = wp.array([0.0, 1.0], dtype=float, device=device)
    tape.backward(grads={states[-1].joint_q: seed})
    slopes = np.array([3.0, 1.0]) * 0.5 * (steps * dt) ** 2 / (9.0 * 0.02 + 0.05)
    np.testing.assert_allclose(control.joint_f.grad.numpy(), slopes, rtol=1.0e-2)

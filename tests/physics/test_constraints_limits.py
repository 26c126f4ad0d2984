"""Limits of every type of joint, of velocities, and of the swing and twist of ball joints."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, quaternion, rotation_matrices, z_up

import newtonsim
from newtonsim import JointAxis, JointMode, JointType

DT = 1.0 / 240.0


def limited(axis, lower=-0.4, upper=0.7, **options) -> JointAxis:
    return JointAxis(axis, limit_lower=lower, limit_upper=upper, **options)


X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
KINDS = {
    "hinge": (JointType.REVOLUTE, [], [(0.0, 0.6, 0.8)]),
    "slider": (JointType.PRISMATIC, [(0.6, 0.0, 0.8)], []),
    "universal": (JointType.UNIVERSAL, [], [X, Y]),
    "compound": (JointType.COMPOUND, [], [Z, Y, X]),
    "d6": (JointType.D6, [X, Y, Z], [X, Z]),
}


def one_joint(kind: str, parent_moves: bool, device: str) -> newtonsim.Model:
    joint_type, linear, angular = KINDS[kind]
    builder = z_up(0.0)
    parent = -1
    if parent_moves:
        parent = builder.add_body(mass=3.0, I_m=diagonal_inertia(0.2, 0.2, 0.2))
    body = builder.add_body(mass=1.0, com=(0.1, 0.05, -0.2), I_m=diagonal_inertia(0.02, 0.03, 0.04))
    axes = {"linear_axes": [limited(a) for a in linear], "angular_axes": [limited(a) for a in angular]}
    builder.add_joint(joint_type, parent, body, armature=0.01, **axes)
    return builder.finalize(device)


@pytest.mark.parametrize("parent_moves", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_every_axis_stops_at_its_limit(device: str, kind: str, parent_moves: bool, side: float):
    """Forces press all axes of a joint against their limits."""
    run = Run(one_joint(kind, parent_moves, device), DT)
    force = np.zeros(run.model.joint_dof_count, np.float32)
    axes = run.model.joint_axis_count
    force[-axes:] = 2.0 * side
    run.control.joint_f.assign(force)
    reached = run.run_for(3.0).joint_q[-axes:]
    np.testing.assert_allclose(reached, 0.7 if side > 0.0 else -0.4, rtol=0.0, atol=2.0e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_no_axis_shoots_through_its_limit(device: str, kind: str):
    """At 30 rad/s or m/s a step covers a tenth of the range."""
    run = Run(one_joint(kind, False, device), DT).start(joint_qd=[30.0] * sum(map(len, KINDS[kind][1:])))
    history = run.record(120, "joint_q")[0]
    assert history.max() < 0.7 + 2.0e-2
    assert history.min() > -0.4 - 2.0e-2
    assert history.max() > 0.69


@pytest.mark.parametrize("angular", [True, False])
def test_velocity_limit_holds_against_a_constant_effort(device: str, angular: bool):
    """Speed grows with τ/I up to the limit and stays there; the limit does no more than that."""
    builder = z_up(0.0)
    body = builder.add_body(mass=2.0, I_m=diagonal_inertia(0.5, 2.0, 0.5))
    axis = {"axis": JointAxis(Y, velocity_limit=1.5), "armature": 0.0}
    (builder.add_joint_revolute if angular else builder.add_joint_prismatic)(-1, body, **axis)
    run = Run(builder.finalize(device), DT)
    run.control.joint_f.assign([4.0])
    run.step(60)
    assert run.joint_qd[0] == pytest.approx(2.0 * 60 * DT, rel=1.0e-5)
    run.run_for(1.0)
    assert run.joint_qd[0] == pytest.approx(1.5, abs=1.0e-5)
    run.control.joint_f.assign([-4.0])
    run.run_for(2.5)
    assert run.joint_qd[0] == pytest.approx(-1.5, abs=1.0e-5)


def test_velocity_drive_with_an_effort_limit(device: str):
    """A velocity motor accelerates a wheel at effort/I, then holds its speed against less than its effort."""
    builder = z_up(0.0)
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(0.5, 0.5, 0.5))
    drive = JointAxis(Y, mode=JointMode.TARGET_VELOCITY, action=3.0, target_ke=100.0, effort_limit=2.0)
    builder.add_joint_revolute(-1, body, axis=drive, armature=0.0)
    run = Run(builder.finalize(device), DT).run_for(0.5)
    assert run.joint_qd[0] == pytest.approx(2.0, rel=1.0e-3)
    run.run_for(1.0)
    assert run.joint_qd[0] == pytest.approx(3.0, rel=1.0e-3)
    run.control.joint_f.assign([-1.0])
    run.run_for(1.0)
    assert run.joint_qd[0] == pytest.approx(3.0 - 1.0 / 100.0, rel=1.0e-3)
    run.control.joint_f.assign([-5.0])
    before = run.joint_qd[0]
    run.run_for(0.5)
    assert run.joint_qd[0] == pytest.approx(before - 3.0, abs=2.0e-2)


DRIVEN = {"mode": JointMode.TARGET_POSITION, "action": 2.0, "target_ke": 1500.0, "target_kd": 15.0}


@pytest.mark.parametrize("limits", [{"velocity_limit": 3.0}, {"limit_lower": -0.1, "limit_upper": 0.1}])
def test_a_drive_at_its_effort_limit_stays_within_the_limits(device: str, limits: dict):
    """Without them, the drive would turn this wheel at 140 rad/s, by 0.6 rad, within a step."""
    builder = z_up(0.0)
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(5.0e-4, 5.0e-4, 5.0e-4))
    axis = JointAxis(Y, effort_limit=40.0, **DRIVEN, **limits)
    builder.add_joint_revolute(-1, body, axis=axis, armature=0.0)
    run = Run(builder.finalize(device), DT)
    angles, speeds = run.record(30, "joint_q", "joint_qd")
    if "velocity_limit" in limits:
        np.testing.assert_allclose(speeds[1:], 3.0, rtol=1.0e-4)
    else:
        np.testing.assert_allclose(angles[1:], 0.1, rtol=1.0e-4)


@pytest.mark.parametrize("aim", [3.1133, -3.1133])
@pytest.mark.parametrize("settings", [{"factorizations": 0, "iterations": 3}, {}])
def test_a_soft_drive_pushes_a_light_link_to_its_velocity_limit_at_once(device: str, aim: float, settings):
    """A drive that yields by v + c p wants to be a little faster than a link of 181⁻¹ kg m² may be.

    One after the other, a sweep of the limit takes 8.5 mrad/s away, and one of the drive gives all but 0.15 %
    of them back.
    """
    h, ke, kd, effort, top = 0.02, 1500.0, 150.0, 40.0, 3.1
    builder = z_up(0.0)
    link = builder.add_body(mass=1.0, I_m=diagonal_inertia(*[1.0 / 181.0] * 3))
    builder.add_articulation()
    drive = {"mode": newtonsim.JOINT_MODE_TARGET_POSITION, "target_ke": ke, "target_kd": kd}
    axis = JointAxis(Y, velocity_limit=top, effort_limit=effort, **drive)
    builder.add_joint_revolute(-1, link, axis=axis, armature=0.0)
    builder.joint_act[:] = [aim * (kd + h * ke) / ke]
    model = builder.finalize(device)
    solver = newtonsim.FeatherstoneSolver(model, **settings)
    sim = newtonsim.Simulator(model, solver, h)
    sim.step()
    assert sim.state.joint_qd.numpy()[0] == pytest.approx(math.copysign(top, aim), abs=1e-5)
    assert solver.constraints.residual.numpy()[0] < 1e-5
    # what the drive exerts is its law at that velocity, and the limit bears the rest
    rows = solver.constraints.rows.dof
    push, pull = rows.impulse.numpy()[:2]
    assert pull == pytest.approx(h * (kd + h * ke) * math.copysign(abs(aim) - top, aim), rel=1e-3)
    assert push + pull == pytest.approx(math.copysign(top / 181.0, aim), rel=1e-4)


def test_a_joint_keeps_to_its_velocity_limit_beside_a_bounded_drive(device: str):
    """A motor turns the second wheel of an axle against the first one, which is lighter and not driven.

    Free of limits, the first one would turn back at 40 N m h / I = 167 rad/s.
    """
    builder = z_up(0.0)
    first = builder.add_body(mass=1.0, I_m=diagonal_inertia(1.0e-3, 1.0e-3, 1.0e-3))
    second = builder.add_body(mass=1.0, I_m=diagonal_inertia(0.5, 0.5, 0.5))
    builder.add_joint_revolute(-1, first, axis=JointAxis(Y, velocity_limit=2.0), armature=0.0)
    drive = JointAxis(Y, effort_limit=40.0, **DRIVEN)
    builder.add_joint_revolute(first, second, axis=drive, armature=0.0)
    run = Run(builder.finalize(device), DT)
    run.step(1)
    assert run.joint_qd[0] == pytest.approx(-2.0, rel=1.0e-4)
    # the motor still turns the heavy wheel with all its effort
    assert run.joint_qd.sum() == pytest.approx(40.0 * DT / 0.5, rel=1.0e-3)


FRAME = wp.transform((0.2, -0.3, 0.5), wp.quat(*quaternion((1.0, 2.0, -0.5), 0.8)))


def ball_joint(device: str, gravity: float = 0.0, **limits: float) -> newtonsim.Model:
    """A body on a ball joint whose frame is turned, its centre of mass below the twist axis."""
    builder = z_up(-gravity)
    body = builder.add_body(mass=1.0, com=(0.3, 0.0, 0.0), I_m=diagonal_inertia(0.02, 0.05, 0.05))
    builder.add_joint_ball(-1, body, parent_xform=FRAME, armature=0.0, **limits)
    return builder.finalize(device)


def swing_and_twist(q: np.ndarray) -> tuple[float, float]:
    """Angle between the x axes, and the rest of the rotation about x, by matrices."""
    turned = rotation_matrices(q)
    swing = math.acos(np.clip(turned[0, 0], -1.0, 1.0))
    axis = np.cross([1.0, 0.0, 0.0], turned[:, 0])
    if np.linalg.norm(axis) > 1.0e-9:
        back = rotation_matrices(quaternion(axis, -swing)) @ turned
    else:
        back = turned
    return swing, math.atan2(back[2, 1], back[1, 1])


@pytest.mark.parametrize("limit", [0.3, 1.2, 2.5])
def test_swing_stays_within_its_cone(device: str, limit: float):
    """A fast body bounces about in the cone, in all directions."""
    run = Run(ball_joint(device, swing_limit=limit), DT).start(joint_qd=[1.0, 4.0, -3.0])
    history = run.record(960, "joint_q")[0]
    swings = [swing_and_twist(q)[0] for q in history]
    assert max(swings) < limit + 1.0e-2
    assert max(swings) > limit - 1.0e-2


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_twist_stops_at_its_limits(device: str, side: float):
    """A torque about the twist axis of a body that is swung out as well."""
    run = Run(ball_joint(device, twist_lower=-0.5, twist_upper=0.9, swing_limit=0.4), DT)
    for _ in range(6):
        run.step(120)
        out = rotation_matrices(run.joint_q) @ [1.0, 0.0, 0.0]
        # joint_f of a ball is a torque in the parent's joint frame
        run.control.joint_f.assign(0.5 * side * out + [0.0, 0.5, 0.2])
    run.run_for(2.0)
    swing, twist = swing_and_twist(run.joint_q)
    assert swing == pytest.approx(0.4, abs=5.0e-3)
    assert twist == pytest.approx(0.9 if side > 0.0 else -0.5, abs=5.0e-3)


def test_hanging_body_rests_on_its_cone(device: str):
    """The twist axis would point down; it stops on the cone, straight above the lowest direction."""
    run = Run(ball_joint(device, gravity=GRAVITY, swing_limit=0.5), DT)
    run.model.joint_damping.fill_(0.2)
    run.run_for(8.0)
    swing, _ = swing_and_twist(run.joint_q)
    assert swing == pytest.approx(0.5, abs=1.0e-3)
    frame = rotation_matrices(np.array(FRAME)[3:])
    cone, out = frame @ [1.0, 0.0, 0.0], frame @ rotation_matrices(run.joint_q) @ [1.0, 0.0, 0.0]
    down = np.array([0.0, 0.0, -1.0])
    lowest = down - cone * (cone @ down)
    lowest = math.cos(0.5) * cone + math.sin(0.5) * lowest / np.linalg.norm(lowest)
    np.testing.assert_allclose(out, lowest, rtol=0.0, atol=5.0e-3)


def test_negative_swing_limit_is_refused():
    builder = z_up()
    body = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_ball(-1, body, key="hip", swing_limit=-0.1)
    with pytest.raises(newtonsim.ModelError, match=r"joint 'hip': swing limit -0\.1 is negative"):
        builder.finalize("cpu")

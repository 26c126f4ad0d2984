"""Drives, limits, damping, springs and dry friction of joints."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, add_hinge, diagonal_inertia, many, z_up

from newtonsim.scene.enums import JOINT_MODE_FORCE, JOINT_MODE_TARGET_POSITION, JOINT_MODE_TARGET_VELOCITY

MASS, LENGTH, INERTIA = 1.0, 0.5, 0.02
TOTAL = INERTIA + MASS * LENGTH**2
WEIGHT = MASS * GRAVITY * LENGTH
"""Torque of gravity on a horizontal link."""


def hinge(device: str, dt: float = 1.0 / 60.0, gravity: float = -GRAVITY, worlds: int = 1, **joint) -> Run:
    world = z_up(gravity)
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA, **joint)
    return Run(many(world, worlds).finalize(device), dt)


@pytest.mark.parametrize("rate", [60, 240, 1000])
def test_stiff_drive_reaches_its_target(device: str, rate: int):
    """ke 1e4 and kd 1e2 at 1/60 s: explicit integration would need kd h < 2 I = 0.54, here it is 1.7."""
    run = hinge(device, 1.0 / rate, target_ke=1.0e4, target_kd=1.0e2, mode=JOINT_MODE_TARGET_POSITION)
    run.control.joint_act.assign(np.array([1.0], dtype=np.float32))
    (angles,) = run.record(rate, "joint_q")
    assert angles.max() < 1.6, "the drive overshoots like an explicit one"
    error = -WEIGHT * math.sin(1.0) / 1.0e4
    assert run.joint_q[0] == pytest.approx(1.0 + error, abs=1.0e-4)
    assert abs(run.joint_qd[0]) < 1.0e-3


def test_stiff_drives_hold_a_heavy_arm(device: str):
    """A chain of seven stiff drives at 1/60 s, with light links at its end."""
    world = z_up()
    parent = -1
    for i in range(7):
        parent = add_hinge(
            world,
            parent=parent,
            mass=5.0 * 0.5**i,
            length=0.1,
            inertia=0.01 * 0.5**i,
            axis=(1.0, 0.0, 0.0) if i % 2 else (0.0, 1.0, 0.0),
            parent_xform=None if parent < 0 else wp.transform((0.0, 0.0, -0.2), wp.quat_identity()),
            target_ke=1.0e4,
            target_kd=1.0e2,
            mode=JOINT_MODE_TARGET_POSITION,
        )
    run = Run(world.finalize(device), 1.0 / 60.0)
    target = np.array([0.5, -0.5, 0.8, 0.3, -0.6, 0.4, 0.2])
    run.control.joint_act.assign(target.astype(np.float32))
    run.run_for(5.0)
    np.testing.assert_allclose(run.joint_q, target, rtol=0.0, atol=5.0e-3)
    assert np.abs(run.joint_qd).max() < 1.0e-3


def test_velocity_drive_settles_at_its_speed(device: str):
    """τ = ke (target - q̇): without load the target is reached, under a constant load it lags by load / ke."""
    run = hinge(device, 1.0 / 240.0, 0.0, 2, target_ke=4.0, mode=JOINT_MODE_TARGET_VELOCITY)
    run.control.joint_act.assign(np.array([3.0, 3.0], dtype=np.float32))
    run.control.joint_f.assign(np.array([0.0, -2.0], dtype=np.float32))
    run.run_for(2.0)
    np.testing.assert_allclose(run.joint_qd, [3.0, 3.0 - 2.0 / 4.0], rtol=1.0e-3)


def test_force_mode_applies_the_torque(device: str):
    run = hinge(device, 1.0 / 240.0, 0.0, mode=JOINT_MODE_FORCE)
    run.control.joint_act.assign(np.array([0.3], dtype=np.float32))
    run.run_for(1.0)
    assert run.joint_qd[0] == pytest.approx(0.3 / TOTAL, rel=1.0e-4)


def test_effort_limit_caps_the_drive(device: str):
    """A drive that may give 1 N m accelerates the free link at 1 / I, however far its target is."""
    world = z_up(0.0)
    add_hinge(
        world,
        mass=MASS,
        length=LENGTH,
        inertia=INERTIA,
        target_ke=1.0e4,
        target_kd=1.0e2,
        mode=JOINT_MODE_TARGET_POSITION,
    )
    world.joint_effort_limit[0] = 1.0
    run = Run(world.finalize(device), 1.0 / 240.0)
    run.control.joint_act.assign(np.array([100.0], dtype=np.float32))
    run.run_for(0.5)
    assert run.joint_qd[0] == pytest.approx(0.5 / TOTAL, rel=1.0e-2)


def test_damped_spring_decays_as_the_formula_says(device: str):
    """Passive stiffness k and damping c: q(t) = e^(-ζωt) (cos ω_d t + ...) about the rest position."""
    stiffness, damping, rest = 20.0, 0.4, 0.3
    world = z_up(0.0)
    add_hinge(world, mass=MASS, length=LENGTH, inertia=INERTIA)
    world.joint_stiffness[0], world.joint_spring_ref[0], world.joint_damping[0] = stiffness, rest, damping
    run = Run(world.finalize(device), 1.0 / 2000.0).start(joint_q=[1.0])
    (angles,) = run.record(4000, "joint_q", every=100)
    t = np.arange(len(angles)) * 100 * run.dt
    omega, decay = math.sqrt(stiffness / TOTAL), damping / (2.0 * TOTAL)
    ringing = math.sqrt(omega**2 - decay**2)
    expected = rest + 0.7 * np.exp(-decay * t) * (np.cos(ringing * t) + decay / ringing * np.sin(ringing * t))
    np.testing.assert_allclose(angles[:, 0], expected, rtol=0.0, atol=1.0e-2)


@pytest.mark.parametrize("rate", [60, 240])
def test_limits_hold_against_gravity(device: str, rate: int):
    """Released from above, the link stops at its lower limit and stays there; so does the upper limit."""
    limit = 0.5
    run = hinge(device, 1.0 / rate, worlds=2, limit_lower=limit, limit_upper=math.pi - limit)
    run.start(joint_q=[1.0, math.pi - 1.0])
    run.model.gravity = (0.0, 0.0, -GRAVITY)
    (angles,) = run.record(2 * rate, "joint_q")
    assert angles.min() > limit - 2.0e-2
    np.testing.assert_allclose(angles[-1], limit, rtol=0.0, atol=5.0e-3)
    assert np.abs(run.joint_qd).max() < 1.0e-3
    run.model.gravity = (0.0, 0.0, GRAVITY)
    (angles,) = run.record(2 * rate, "joint_q")
    assert angles.max() < math.pi - limit + 2.0e-2
    np.testing.assert_allclose(angles[-1], math.pi - limit, rtol=0.0, atol=5.0e-3)


def test_limits_do_not_act_inside_the_range(device: str):
    free = hinge(device, limit_lower=-math.inf, limit_upper=math.inf).start(joint_q=[1.0])
    limited = hinge(device, limit_lower=-1.5, limit_upper=1.5).start(joint_q=[1.0])
    np.testing.assert_allclose(free.step(120).joint_q, limited.step(120).joint_q, rtol=0.0, atol=1.0e-5)


def test_dry_friction_holds_or_slides(device: str):
    """On a level slider: below the friction force nothing moves, above it a = (f - f0) / m; sliding stops."""
    mass, friction = 2.0, 3.0
    world = z_up()
    body = world.add_body(mass=mass, I_m=diagonal_inertia(0.1, 0.1, 0.1))
    world.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), armature=0.0)
    world.joint_friction[0] = friction
    run = Run(many(world, 4).finalize(device), 1.0 / 240.0)
    run.start(joint_qd=[0.0, 0.0, 0.0, 1.0])
    run.control.joint_f.assign(
        np.array([0.9 * friction, 2.0 * friction, -2.0 * friction, 0.0], dtype=np.float32)
    )
    run.run_for(0.5)
    slide = 0.5 * friction / mass
    np.testing.assert_allclose(run.joint_qd, [0.0, slide, -slide, 1.0 - slide], rtol=0.0, atol=1.0e-3)
    assert abs(run.joint_q[0]) < 1.0e-4
    run.run_for(1.0)
    assert abs(run.joint_qd[3]) < 1.0e-4
    assert run.joint_q[3] == pytest.approx(mass / (2.0 * friction), abs=1.0e-2)


def test_body_forces_act_at_the_centre_of_mass_in_world_axes(device: str):
    """On a body that is turned and off its centre: f gives v = f t / m and no spin, τ gives spin only."""
    world = z_up(0.0)
    turned = wp.transform((1.0, 2.0, 3.0), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 1.0))
    world.add_body(origin=turned, mass=2.0, com=wp.vec3(0.3, -0.2, 0.1), I_m=diagonal_inertia(0.1, 0.1, 0.1))
    run = Run(many(world, 2).finalize(device), 1.0 / 240.0)
    run.state.body_f.assign(np.array([[0, 0, 0, 4.0, 0, 2.0], [0, 0.05, 0, 0, 0, 0]], dtype=np.float32))
    run.run_for(0.5)
    expected = [[0, 0, 0, 1.0, 0, 0.5], [0, 0.25, 0, 0, 0, 0]]
    np.testing.assert_allclose(run.body_qd, expected, rtol=0.0, atol=1.0e-4)

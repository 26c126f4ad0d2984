"""What contacts conserve, how soft they are, and their torsional and rolling friction."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, quaternion, rotation_matrices, z_up

RADIUS = 0.1


def ball_on_floor(device: str, torsion: float = 0.0, rolling: float = 0.0, mass: float = 2.0, **material):
    """A ball at rest on a floor whose coefficients are those of the ball."""
    world = z_up()
    body = world.add_body(
        origin=wp.transform((0.0, 0.0, RADIUS), wp.quat_identity()),
        mass=mass,
        I_m=diagonal_inertia(*[0.01] * 3),
    )
    world.add_shape_sphere(body, radius=RADIUS, density=0.0, **material)
    world.add_shape_plane(width=0.0, length=0.0, plane=(0.0, 0.0, 1.0, 0.0), body=-1, **material)
    for shape in range(2):
        world.shape_mu_torsion[shape] = torsion
        world.shape_mu_rolling[shape] = rolling
    return world.finalize(device)


@pytest.mark.parametrize("mass", [0.5, 2.0])
def test_torsional_friction_slows_a_spinning_ball(device: str, mass: float):
    """About the normal, the torque is μ m g until the spin ends; then nothing turns it back."""
    torsion, inertia, spin = 0.003, 0.01, 8.0
    model = ball_on_floor(device, torsion=torsion, mass=mass)
    run = Run(model, 1.0 / 240.0).run_for(0.1)
    run.start(run.joint_q, [0.0, 0.0, spin, 0.0, 0.0, 0.0])
    deceleration = torsion * mass * GRAVITY / inertia
    run.step(60)
    assert run.body_qd[0, 2] == pytest.approx(spin - 0.25 * deceleration, rel=2.0e-3)
    run.run_for(spin / deceleration)
    np.testing.assert_allclose(run.body_qd[0], 0.0, rtol=0.0, atol=1.0e-4)
    torque = run.solver.contact_torques().numpy()
    np.testing.assert_allclose(torque, 0.0, rtol=0.0, atol=1.0e-3)


def test_torsional_torque_is_reported(device: str):
    model = ball_on_floor(device, torsion=0.003)
    run = Run(model, 1.0 / 240.0).run_for(0.1).start(joint_qd=[0.0, 0.0, 20.0, 0.0, 0.0, 0.0])
    run.step(20)
    torque = run.solver.contact_torques().numpy().sum(axis=0)
    np.testing.assert_allclose(np.abs(torque), [0.0, 0.0, 0.003 * 2.0 * GRAVITY], rtol=2.0e-3, atol=1.0e-5)


def test_rolling_friction_slows_a_rolling_ball(device: str):
    """Rolling without slip, a = μ m g R / (I + m R²); in the end the ball lies still."""
    rolling, mass, speed = 0.002, 2.0, 0.6
    model = ball_on_floor(device, rolling=rolling, mass=mass, mu=0.8)
    run = Run(model, 1.0 / 240.0).run_for(0.1)
    heading = np.array([0.6, 0.8, 0.0])
    spin = np.cross([0.0, 0.0, 1.0], heading) * speed / RADIUS
    run.start(run.joint_q, np.concatenate([spin, speed * heading]))
    deceleration = rolling * mass * GRAVITY * RADIUS / (0.01 + mass * RADIUS**2)
    run.step(120)
    np.testing.assert_allclose(
        run.body_qd[0, 3:], (speed - 0.5 * deceleration) * heading, rtol=0.0, atol=3.0e-3
    )
    place = run.run_for(speed / deceleration).body_q[0, :3]
    run.run_for(0.5)
    np.testing.assert_allclose(run.body_q[0, :3], place, rtol=0.0, atol=1.0e-4)


def test_ball_rests_on_a_slope_only_with_rolling_friction(device: str):
    """It starts to roll where tan α exceeds μ / R."""
    for ratio, rests in ((0.8, True), (1.25, False)):
        angle = math.atan(0.005 / RADIUS) * ratio
        model = ball_on_floor(device, rolling=0.005, mu=1.0)
        model.gravity = (GRAVITY * math.sin(angle), 0.0, -GRAVITY * math.cos(angle))
        run = Run(model, 1.0 / 240.0).run_for(2.0)
        assert (abs(run.body_q[0, 0]) < 1.0e-3) == rests


@pytest.mark.parametrize("restitution", [0.0, 0.7])
@pytest.mark.parametrize("speed", [0.0, 6.0])
def test_collision_conserves_momentum(device: str, restitution: float, speed: float):
    """Two spinning boxes collide off-centre without gravity, at a gap if they are fast, with friction."""
    world = z_up(0.0)
    masses, inertias = np.array([1.0, 2.5]), []
    for mass, x, turn in zip(masses, (-0.25, 0.25), (0.3, -0.5)):
        pose = wp.transform((x, 0.05 * x, 0.0), wp.quat(*quaternion((1.0, 2.0, 3.0), turn)))
        moments = mass * np.array([0.01, 0.012, 0.008])
        inertias.append(np.diag(moments))
        body = world.add_body(origin=pose, mass=mass, I_m=diagonal_inertia(*moments))
        world.add_shape_box(body, hx=0.15, hy=0.12, hz=0.1, density=0.0, mu=0.6, restitution=restitution)
    run = Run(world.finalize(device), 1.0 / 240.0)
    approach = max(speed, 1.0)
    run.start(joint_qd=[1.0, -2.0, 3.0, approach, 0.1, 0.3, 0.0, 1.0, -1.0, -0.5 * approach, 0.0, 0.2])

    touched = 0
    for _ in range(120):
        place, rotation = run.body_q[:, :3].astype(float), rotation_matrices(run.body_q[:, 3:])
        run.step()
        # what contacts changed, at the poses at which they act
        change = (run.joint_qd - run.solver.smooth.v_free.numpy()).reshape(2, 6).astype(float)
        linear = masses[:, None] * change[:, 3:]
        lever = np.cross(place, linear)
        spin = np.array([r @ i @ r.T @ w for r, i, w in zip(rotation, inertias, change[:, :3])])
        touched += np.abs(linear).max() > 1.0e-2
        size = np.abs(linear).sum()
        assert np.abs(linear.sum(axis=0)).max() <= 1.0e-5 * size + 2.0e-6
        size = np.abs(lever).sum() + np.abs(spin).sum()
        assert np.abs((lever + spin).sum(axis=0)).max() <= 1.0e-5 * size + 1.0e-6
    assert touched > 0
    assert run.body_qd[0, 3] < 0.5 * approach


@pytest.mark.parametrize("stiffness", [5.0e3, 2.0e4])
def test_soft_contact_sinks_in_by_the_load(device: str, stiffness: float):
    """In material softness a ball of weight m g lies m g / ke deep, its skin included."""
    model = ball_on_floor(device, ke=stiffness, kd=200.0)
    run = Run(model, 1.0 / 240.0, contact_softness="material").run_for(3.0)
    depth = RADIUS + run.model.shape_geo.thickness.numpy().sum() - run.body_q[0, 2]
    assert depth == pytest.approx(2.0 * GRAVITY / stiffness, rel=1.0e-3)
    force = run.solver.contact_forces().numpy().sum(axis=0)
    assert np.linalg.norm(force) == pytest.approx(2.0 * GRAVITY, rel=1.0e-3)


def test_soft_contact_bounces_like_a_spring_and_damper(device: str):
    """The coefficient of restitution of a spring and damper that never pull (Schwager, Pöschel, 2007)."""
    mass, stiffness, damping, dt = 2.0, 2.0e4, 40.0, 1.0 / 20000.0
    model = ball_on_floor(device, ke=stiffness, kd=damping, mass=mass)
    model.gravity = (0.0, 0.0, 0.0)
    run = Run(model, dt, contact_softness="material")
    joint_q = run.joint_q
    joint_q[2] += 1.0e-4
    run.start(joint_q, [0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
    run.run_for(0.05)
    zeta = damping / (2.0 * math.sqrt(stiffness * mass))
    # force, not position, ends the contact: it vanishes before the spring is at rest
    root = math.sqrt(1.0 - zeta**2)
    phase = math.atan2(2.0 * zeta * root, 2.0 * zeta**2 - 1.0)
    expected = math.exp(-zeta / root * phase)
    assert run.body_qd[0, 5] == pytest.approx(expected, rel=1.0e-2)


def test_default_contact_stays_rigid(device: str):
    """Without the option the materials' stiffness has no say."""
    depths = []
    for stiffness in (1.0e3, 1.0e6):
        run = Run(ball_on_floor(device, ke=stiffness), 1.0 / 240.0).run_for(1.0)
        depths.append(RADIUS - run.body_q[0, 2])
    assert depths[0] == depths[1]
    assert abs(depths[0]) < 2.0e-4

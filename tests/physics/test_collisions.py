"""Impacts: bounce heights, impulses on a rod, conserved momentum."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, rotation_matrices, z_up

from newtonsim import dynamics, eval_fk
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.testing import random_model

RESTITUTIONS = (0.0, 0.5, 0.8, 1.0)
DROP, RADIUS = 1.0, 0.1


def bouncing_spheres(device: str):
    """One sphere per restitution, in one world each, on a ground of the same restitution."""
    models = []
    for restitution in RESTITUTIONS:
        world = z_up()
        body = world.add_body(origin=wp.transform((0.0, 0.0, RADIUS + DROP), wp.quat_identity()))
        world.add_shape_sphere(body, radius=RADIUS, restitution=restitution)
        world.set_ground_plane(restitution=restitution)
        models.append(world.finalize(device))
    return models


@pytest.mark.parametrize("rate", [30, 60, 240, 1000])
def test_bounce_heights(device: str, rate: int):
    """The apex after a bounce is e² times the drop, even at steps in which the sphere moves by 7 cm."""
    dt = 1.0 / rate
    speed = math.sqrt(2.0 * GRAVITY * DROP)
    for restitution, model in zip(RESTITUTIONS, bouncing_spheres(device)):
        run = Run(model, dt)
        impact = math.sqrt(2.0 * DROP / GRAVITY)
        flight = 2.0 * restitution * speed / GRAVITY
        (poses,) = run.record(round((impact + flight) / dt) + 2, "body_q")
        heights = poses[:, 0, 2] - RADIUS
        contact = int(np.argmin(heights[: round(1.2 * impact / dt)]))
        assert heights[contact] > -speed * dt
        apex = float(heights[contact:].max())
        print(f"e {restitution}, dt 1/{rate}: apex {apex:.4f}, exact {restitution**2 * DROP:.4f}")
        assert abs(apex - restitution**2 * DROP) < 2.0e-3 * DROP
        if restitution == 0.0:
            run.run_for(0.5)
            assert abs(run.body_q[0, 2] - RADIUS) < 2.0e-3
            assert np.abs(run.body_qd).max() < 1.0e-3


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_rod_that_lands_on_one_end(device: str, restitution: float):
    """A falling slanted rod without friction: the impulse is J = -(1+e) v / (1/m + (x/√I)²)."""
    half, radius, mass, tilt, speed = 0.5, 0.01, 1.0, 0.6, 3.0
    inertia = mass * (2.0 * half) ** 2 / 12.0
    rotation = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), tilt)
    lever = half * math.cos(tilt)
    world = z_up(gravity=0.0)
    # The far end of a rod along x sinks by sin(tilt); start a tenth of a millimetre above the ground.
    height = half * math.sin(tilt) + radius + 1.0e-4
    body = world.add_body(
        origin=wp.transform((0.0, 0.0, height), rotation),
        mass=mass,
        I_m=diagonal_inertia(inertia, inertia, inertia),
    )
    world.add_shape_capsule(
        body, radius=radius, half_height=half, up_axis=0, density=0.0, mu=0.0, restitution=restitution
    )
    world.set_ground_plane(mu=0.0, restitution=restitution)
    run = Run(world.finalize(device), 1.0e-4).start(joint_qd=[0.0, 0.0, 0.0, 0.7, 0.0, -speed])
    run.step(4)
    impulse = (1.0 + restitution) * speed / (1.0 / mass + lever**2 / inertia)
    spin, velocity = run.body_qd[0, :3], run.body_qd[0, 3:]
    np.testing.assert_allclose(velocity, [0.7, 0.0, -speed + impulse / mass], rtol=0.0, atol=1.0e-2 * speed)
    np.testing.assert_allclose(spin, [0.0, -lever * impulse / inertia, 0.0], rtol=0.0, atol=1.0e-2 * speed)


@pytest.mark.parametrize("rate", [480, 1920])
def test_horizontal_momentum_survives_a_landing_without_friction(device: str, rate: int):
    """A flying mechanism lands on ice: horizontal momentum is kept, up to the first order of the step."""
    types = [JointType.REVOLUTE, JointType.BALL, JointType.UNIVERSAL]
    world = random_model(5, base=JointType.FREE, joint_types=types, body_count=5, up_vector=(0.0, 0.0, 1.0))
    for body in range(world.body_count):
        world.add_shape_sphere(body, radius=0.05, density=0.0, mu=0.0, has_shape_collision=False)
    world.set_ground_plane(mu=0.0)
    model = world.finalize(device)
    run = Run(model, 1.0 / rate)
    q, qd = run.joint_q.copy(), np.zeros(model.joint_dof_count)
    q[:3], qd[3:6] = [0.0, 0.0, 2.0], [1.0, -0.5, -2.0]
    run.start(q, qd)
    masses = model.body_mass.numpy().astype(np.float64)
    before = masses @ run.body_qd[:, 3:]
    run.run_for(1.5)
    after = masses @ run.body_qd[:, 3:]
    assert run.body_q[:, 2].min() < 0.5, "it has to have landed"
    np.testing.assert_allclose(after[:2], before[:2], rtol=0.0, atol=10.0 / rate * masses.sum())


def test_limits_conserve_momentum_in_the_collision_of_two_carts(device: str):
    """A cart on the back of a cart runs into its stop: they go on together with the momentum of both."""
    masses = (2.0, 0.5)
    world = z_up()
    lower, upper = (world.add_body(mass=m, I_m=diagonal_inertia(0.1, 0.1, 0.1)) for m in masses)
    world.add_joint_prismatic(-1, lower, axis=(1.0, 0.0, 0.0), armature=0.0)
    world.add_joint_prismatic(
        lower, upper, axis=(1.0, 0.0, 0.0), armature=0.0, limit_lower=-0.2, limit_upper=0.2
    )
    run = Run(world.finalize(device), 1.0 / 240.0).start(joint_qd=[0.5, 1.0])
    momentum = masses @ run.body_qd[:, 3]
    run.run_for(0.5)
    assert masses @ run.body_qd[:, 3] == pytest.approx(momentum, rel=1.0e-4)
    np.testing.assert_allclose(run.body_qd[:, 3], momentum / sum(masses), rtol=0.0, atol=1.0e-3)
    assert 0.2 - 1.0e-3 < run.joint_q[1] < 0.2 + 1.0e-2


def test_limits_conserve_momentum_of_a_flying_mechanism(device: str):
    """Two links in free flight fold against their stop: linear and angular momentum of the whole are kept."""
    world = z_up(gravity=0.0)
    base = world.add_body(mass=2.0, I_m=diagonal_inertia(0.05, 0.06, 0.08))
    arm = world.add_body(mass=1.0, com=wp.vec3(0.4, 0.0, 0.0), I_m=diagonal_inertia(0.01, 0.03, 0.03))
    world.add_joint_free(base)
    world.add_joint_revolute(
        base,
        arm,
        parent_xform=wp.transform((0.2, 0.1, 0.0), wp.quat_identity()),
        axis=(0.0, 0.3, 1.0),
        armature=0.0,
        limit_lower=-0.5,
        limit_upper=0.5,
    )
    model = world.finalize(device)
    run = Run(model, 1.0 / 1000.0).start(joint_qd=[0.1, 0.2, -0.3, 0.0, 0.5, 0.0, 3.0])

    def momentum() -> np.ndarray:
        masses = model.body_mass.numpy().astype(np.float64)
        R = rotation_matrices(run.body_q[:, 3:])
        centers = run.body_q[:, :3] + np.einsum("nij,nj->ni", R, model.body_com.numpy())
        spins, velocities = run.body_qd[:, :3], run.body_qd[:, 3:]
        inertia = R @ model.body_inertia.numpy() @ R.transpose(0, 2, 1)
        linear = masses @ velocities
        angular = np.einsum("nij,nj->i", inertia, spins) + np.cross(
            centers, masses[:, None] * velocities
        ).sum(0)
        return np.concatenate([linear, angular])

    before = momentum()
    (angles,) = run.record(1000, "joint_q")
    assert 0.49 < np.abs(angles[:, 7]).max() < 0.52, "the joint has to hit its stop, and not to pass it"
    np.testing.assert_allclose(momentum(), before, rtol=0.0, atol=1.0e-2)


def test_a_perfect_bounce_keeps_the_energy_of_a_mechanism(device: str):
    """e = 1 on a pendulum that meets the ground: the speed of the contact point is reversed, energy stays."""
    world = z_up()
    body = world.add_body(mass=1.0, com=wp.vec3(0.0, 0.0, -0.5), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    world.add_joint_revolute(
        -1,
        body,
        parent_xform=wp.transform((0.0, 0.0, 0.8), wp.quat_identity()),
        axis=(0.0, 1.0, 0.0),
        armature=0.0,
    )
    world.add_shape_sphere(body, pos=(0.0, 0.0, -0.8), radius=0.1, density=0.0, mu=0.0, restitution=1.0)
    world.set_ground_plane(mu=0.0, restitution=1.0)
    model = world.finalize(device)
    run = Run(model, 1.0 / 2000.0).start(joint_q=[1.2])

    def energy() -> float:
        kinetic = dynamics.kinetic_energy(model, run.state).numpy()[0]
        return float(kinetic + dynamics.potential_energy(model, run.state).numpy()[0])

    before = energy()
    run.run_for(0.45)
    assert run.joint_qd[0] > 0.0, "the pendulum has to have bounced back"
    assert energy() == pytest.approx(before, abs=0.02 * GRAVITY * 0.5)


@pytest.mark.parametrize("slow", [0.1, 1.0e-3, 1.0e-6])
def test_an_end_that_stops_just_when_the_other_one_hits(device: str, slow: float):
    """A rod with its mass beyond its ends: what the fast end passes on to the slow one stays bounded.

    A push brings the slow end nearly to rest within the step, at the ground already. Its own rebound is then
    next to nothing, and what lifts it is the impact of the other end: no share of its own.
    """
    dt, half, restitution = 0.01, 0.5, 0.5
    inertia = 3.0 * half**2
    world = z_up()
    body = world.add_body(mass=1.0, I_m=wp.mat33(*np.diag([inertia] * 3).reshape(-1)))
    for x in (-half, half):
        world.add_shape_sphere(
            body, pos=(x, 0.0, 0.0), radius=0.1, density=0.0, mu=0.0, restitution=restitution
        )
    world.set_ground_plane(mu=0.0, restitution=restitution)
    model = world.finalize(device)
    start, push = np.array([-0.3, -2.0]), np.array([-slow, -2.0])
    # of both ends: mean and half of the difference over the arm
    (rise, turn), (rise_later, turn_later) = (
        (ends.mean(), (ends[0] - ends[1]) / (2.0 * half)) for ends in (start, push)
    )
    state = model.state()
    state.joint_q.assign(np.array([0.0, 0.0, 0.0999, 0.0, 0.0, 0.0, 1.0], np.float32))
    state.joint_qd.assign(np.array([0.0, turn, 0.0, 0.0, 0.0, rise], np.float32))
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    wrench = [0.0, inertia * (turn_later - turn) / dt, 0.0, 0.0, 0.0, (rise_later - rise) / dt + GRAVITY]
    state.body_f.assign(np.array([wrench], np.float32))
    FeatherstoneSolver(model).step(model, state, state, None, None, dt)
    _, turn, _, _, _, rise = state.joint_qd.numpy()
    slow_end, fast_end = rise + half * turn, rise - half * turn
    assert fast_end == pytest.approx(restitution * 2.0, rel=0.05)
    # by the impulse that turns 2 m/s at the fast end around; the push itself adds no more than its 0.3 m/s
    propagated = (1.0 + restitution) * 2.0 * (1.0 - half**2 / inertia) / (1.0 + half**2 / inertia)
    assert -slow < slow_end - propagated < 0.3

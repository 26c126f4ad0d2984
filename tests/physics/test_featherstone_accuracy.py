"""Cases that are hard for float32 or for a velocity-level impact law."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run, diagonal_inertia, z_up

import newtonsim
from newtonsim import dynamics
from newtonsim.testing import random_state


@pytest.mark.parametrize("size", [0.03, 0.01, 0.003])
def test_small_link_far_from_the_base_keeps_its_inertia(device, size):
    """I + m d² of a finger a metre away from the origin of its tree, at any pose."""
    mass = 5.0e3 * size**3
    own = 0.4 * mass * size**2
    world = z_up()
    arm = world.add_body(mass=5.0, com=wp.vec3(0.0, 0.0, 0.5), I_m=diagonal_inertia(0.5, 0.5, 0.01))
    world.add_joint_revolute(-1, arm, axis=(1.0, 0.0, 0.0), armature=0.0)
    finger = world.add_body(mass=mass, com=wp.vec3(0.0, 0.0, -size), I_m=diagonal_inertia(own, own, own))
    wrist = wp.transform((0.0, 0.0, 1.0), wp.quat_identity())
    world.add_joint_revolute(
        arm, finger, axis=(0.0, 1.0, 0.0), parent_xform=wp.transform(wrist), armature=0.0
    )
    model = world.finalize(device)
    for seed in range(10):
        M = dynamics.mass_matrix(model, random_state(model, seed)).numpy()[0]
        assert M[1, 1] == pytest.approx(own + mass * size**2, rel=1.0e-4)


@pytest.mark.parametrize("rate", [60, 240])
def test_body_that_does_not_bounce_lands_on_the_ground_at_once(device, rate):
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, 1.1), wp.quat_identity()))
    world.add_shape_sphere(body, radius=0.1, restitution=0.0)
    world.set_ground_plane(restitution=0.0)
    run = Run(world.finalize(device), 1.0 / rate).start()
    (poses,) = run.record(rate, "body_q")
    gap = poses[:, 0, 2] - 0.1
    landed = int(np.argmax(gap < 1.0e-3))
    fall = math.sqrt(2.0 / 9.81)
    assert landed / rate == pytest.approx(fall, abs=1.5 / rate)
    assert np.abs(gap[landed:]).max() < 1.0e-3
    assert np.all(np.diff(gap[: landed + 1]) < 0.0), "it has to fall all the way, without a stop in mid-air"


def test_model_without_degrees_of_freedom(device):
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(1.0, 1.0, 1.0))
    builder.add_joint_fixed(-1, body, parent_xform=wp.transform((1.0, 2.0, 3.0), wp.quat_identity()))
    model = builder.finalize(device)
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    newtonsim.eval_ik(model, state, state.joint_q, state.joint_qd)
    np.testing.assert_allclose(state.body_q.numpy()[0], [1, 2, 3, 0, 0, 0, 1])
    newtonsim.FeatherstoneSolver(model).step(model, state, state, None, None, 0.01)
    np.testing.assert_allclose(state.body_q.numpy()[0], [1, 2, 3, 0, 0, 0, 1])
    assert dynamics.jacobian(model, state).shape == (1, 6, 0)
    np.testing.assert_allclose(dynamics.center_of_mass(model, state).numpy()[0], [1, 2, 3])


@pytest.mark.parametrize(("spin", "rate"), [(10.0, 60), (50.0, 60), (400.0, 240)])
def test_fast_spinning_disc_keeps_energy_and_momentum(device, spin, rate):
    """A wobbling disc in free flight, up to 1.7 rad a step."""
    world = z_up(gravity=0.0)
    disc = world.add_body()
    world.add_shape_cylinder(disc, radius=0.3, half_height=0.02, up_axis=2)
    model = world.finalize(device)
    run = Run(model, 1.0 / rate).start(joint_qd=[0.02 * spin, 0.0, spin, 0.0, 0.0, 0.0])
    inertia = model.body_inertia.numpy()[0].astype(np.float64)

    def energy_and_momentum() -> tuple[float, float]:
        turn = np.array(wp.quat_to_matrix(wp.quat(*run.body_q[0, 3:].tolist()))).reshape(3, 3)
        w = turn.T @ run.body_qd[0, :3]
        return float(w @ inertia @ w), float(np.linalg.norm(inertia @ w))

    before = energy_and_momentum()
    run.run_for(5.0)
    np.testing.assert_allclose(energy_and_momentum(), before, rtol=1.0e-4)


def test_fast_top_precesses_at_the_known_rate(device):
    """Slow regular precession of a fast top: Ω = m g l / (I3 ω)."""
    mass, length, spin, tilt = 1.0, 0.2, 150.0, 0.3
    axial = 0.02
    world = z_up()
    top = world.add_body(com=wp.vec3(0.0, 0.0, length), mass=mass, I_m=diagonal_inertia(0.01, 0.01, axial))
    world.add_joint_ball(-1, top, armature=0.0)
    model = world.finalize(device)
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), tilt)
    rate = mass * 9.81 * length / (axial * spin)
    axis = np.array(wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0)))
    run = Run(model, 1.0 / 480.0).start(list(turn), axis * spin + np.array([0.0, 0.0, rate]))
    (poses,) = run.record(960, "body_q")
    heading = np.array([wp.quat_rotate(wp.quat(*p[0, 3:].tolist()), wp.vec3(0.0, 0.0, 1.0)) for p in poses])
    azimuth = np.unwrap(np.arctan2(heading[:, 1], heading[:, 0]))
    assert (azimuth[-1] - azimuth[0]) / 2.0 == pytest.approx(rate, rel=2.0e-2)
    assert np.abs(np.arccos(heading[:, 2]) - tilt).max() < 0.02


@pytest.mark.parametrize("rate", [30, 240, 1000])
def test_limit_holds_however_fast_it_is_hit(device, rate):
    world = z_up(gravity=0.0)
    body = world.add_body(mass=1.0, I_m=diagonal_inertia(0.1, 0.1, 0.1))
    world.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), limit_lower=-1.0, limit_upper=1.0)
    run = Run(world.finalize(device), 1.0 / rate).start([0.0], [50.0])
    (q,) = run.record(rate, "joint_q")
    assert q.max() < 1.0 + 1.0e-4
    assert q[-1, 0] == pytest.approx(1.0, abs=1.0e-3)


@pytest.mark.parametrize("rate", [60, 240, 1000])
def test_what_starts_in_the_ground_is_not_shot_out(device, rate):
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, 0.05), wp.quat_identity()))
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    world.set_ground_plane()
    run = Run(world.finalize(device), 1.0 / rate).start()
    (poses,) = run.record(2 * rate, "body_q")
    # 5 cm deep and pushed out at 1 m/s at most: v²/2g = 5.1 cm
    assert poses[:, 0, 2].max() < 0.1 + 0.055
    assert poses[-1, 0, 2] == pytest.approx(0.1, abs=1.0e-3)


def test_thin_rod_stands(device):
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, 0.5), wp.quat_identity()))
    world.add_shape_box(body, hx=0.02, hy=0.02, hz=0.5)
    world.set_ground_plane()
    run = Run(world.finalize(device), 1.0 / 60.0).start()
    run.run_for(30.0)
    assert run.body_q[0, 2] == pytest.approx(0.5, abs=1.0e-3)
    assert np.abs(run.body_qd).max() < 1.0e-3


def test_finite_plane_does_not_pull_through_what_is_behind_it(device):
    world = z_up()
    world.add_shape_plane(plane=(0.0, 0.0, 1.0, -1.0), width=2.0, length=2.0)
    ball = world.add_body(origin=wp.transform((0.0, 0.0, 0.2), wp.quat_identity()))
    world.add_shape_sphere(ball, radius=0.1)
    world.set_ground_plane()
    run = Run(world.finalize(device), 1.0 / 240.0).start()
    run.run_for(2.0)
    assert run.body_q[0, 2] == pytest.approx(0.1, abs=1.0e-3)


@pytest.mark.parametrize("height", [0.78, 0.79, 0.80, 0.81, 0.82])
def test_mesh_that_turns_fast_does_not_sink(device, height):
    """The end of a 2 m bar swings into the ground, 8 cm a step, from heights that differ in phase."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-0.05, 0.05) for z in (-0.05, 0.05)])
    sides = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    faces = np.concatenate([sides[:, [0, 1, 2]], sides[:, [0, 2, 3]]])
    world = z_up(gravity=0.0)
    start = wp.transform((0.0, 0.0, height), wp.quat_identity())
    bar = world.add_body(origin=start, mass=1.0, I_m=diagonal_inertia(0.1, 0.4, 0.4))
    world.add_shape_mesh(bar, mesh=newtonsim.Mesh(corners, faces.flatten()), density=0.0)
    world.set_ground_plane()
    run = Run(world.finalize(device), 1.0 / 240.0).start(joint_qd=[0.0, 20.0, 0.0, 0.0, 0.0, 0.0])
    (poses,) = run.record(24, "body_q")
    turns = [np.array(wp.quat_to_matrix(wp.quat(*p[0, 3:].tolist()))).reshape(3, 3) for p in poses]
    lowest = [(corners @ turn.T)[:, 2].min() + p[0, 2] for turn, p in zip(turns, poses)]
    assert min(lowest) < 0.02, "it has to touch"
    # turning lowers a corner by up to L (ω dt)² / 2 = 3.5 mm more than its velocity says
    assert min(lowest) > -5.0e-3


@pytest.mark.parametrize("rate", [60, 240, 1000])
def test_violated_limit_is_restored_gently(device, rate):
    """A hinge that starts 0.2 rad beyond its stop comes back to it, no faster than max_limit_speed."""
    world = z_up(gravity=0.0)
    body = world.add_body(mass=1.0, I_m=diagonal_inertia(0.1, 0.1, 0.1))
    world.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), limit_lower=-1.0, limit_upper=1.0)
    world.joint_damping[0] = 2.0
    run = Run(world.finalize(device), 1.0 / rate).start([1.2], [0.0])
    q, qd = run.record(2 * rate, "joint_q", "joint_qd")
    assert q[-1, 0] < 1.0 + 1.0e-3
    assert q.min() > 0.5, "it must not be thrown away from the stop"
    assert 0.1 < np.abs(qd).max() < 5.0 + 1.0e-4


@pytest.mark.parametrize("distance", [1.0e-2, 1.0e-3, 1.0e-4, 0.0])
def test_inverse_kinematics_near_gimbal_lock(device, distance):
    """Near the lock the motion comes back; in it one direction is lost, but poses do and rates stay small."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=diagonal_inertia(1.0, 1.0, 1.0))
    axes = [newtonsim.JointAxis(axis) for axis in np.eye(3)]
    builder.add_joint_compound(-1, body, *axes)
    model = builder.finalize(device)
    state = model.state()
    state.joint_q.assign(np.array([0.2, math.pi / 2.0 - distance, -0.1], np.float32))
    state.joint_qd.assign(np.array([0.1, 0.2, 0.3], np.float32))
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    q, qd, again = wp.zeros_like(state.joint_q), wp.zeros_like(state.joint_qd), model.state()
    newtonsim.eval_ik(model, state, q, qd)
    newtonsim.eval_fk(model, q, qd, None, again)
    turn, expected = again.body_q.numpy()[0, 3:], state.body_q.numpy()[0, 3:]
    assert abs(turn @ expected) == pytest.approx(1.0, abs=1.0e-6)
    if distance > 0.0:
        np.testing.assert_allclose(again.body_qd.numpy(), state.body_qd.numpy(), atol=5.0e-3)
    else:
        assert np.abs(qd.numpy()).max() < 1.0

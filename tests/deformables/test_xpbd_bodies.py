"""Rigid bodies by XPBD: free motion, impacts, friction, stacks; worlds that know nothing of each other."""

import math

import numpy as np
import pytest
import warp as wp
from body_runs import BodyRun
from physics.robots import load_robot, varied_starts
from physics.scenes import GRAVITY, diagonal_inertia, many, quaternion, rotation_matrices, z_up

import newtonsim
from newtonsim.solvers import XPBDSolver

DT = 1.0 / 240.0
MOMENTS = np.array([1.0, 2.0, 3.0])
SPINS = np.array([[2.0, 0.02, 0.0], [0.02, 2.0, 0.02], [1.0, -1.5, 0.7], [0.02, 40.0, 0.02]])
"""Near the small axis, near the unstable middle axis (it tumbles), anywhere, and fast."""


def momenta(run: BodyRun) -> tuple[np.ndarray, np.ndarray]:
    """Linear (3,) and angular momentum about the origin (3,) of all bodies."""
    model = run.model
    masses = model.body_mass.numpy().astype(np.float64)
    R = rotation_matrices(run.body_q[:, 3:])
    centers = run.body_q[:, :3] + np.einsum("nij,nj->ni", R, model.body_com.numpy())
    inertia = R @ model.body_inertia.numpy() @ R.transpose(0, 2, 1)
    spins, velocities = run.body_qd[:, :3].astype(np.float64), run.body_qd[:, 3:].astype(np.float64)
    linear = masses @ velocities
    angular = np.einsum("nij,nj->i", inertia, spins) + np.cross(centers, masses[:, None] * velocities).sum(0)
    return linear, angular


def kinetic(run: BodyRun) -> float:
    """Kinetic energy of all bodies [J]."""
    R = rotation_matrices(run.body_q[:, 3:])
    inertia = R @ run.model.body_inertia.numpy() @ R.transpose(0, 2, 1)
    spins, velocities = run.body_qd[:, :3].astype(np.float64), run.body_qd[:, 3:].astype(np.float64)
    turning = np.einsum("ni,nij,nj->", spins, inertia, spins)
    return 0.5 * float(turning + (run.model.body_mass.numpy() * (velocities**2).sum(1)).sum())


def test_rotation_without_torque_keeps_energy_and_momentum(device: str):
    """Ten seconds of tumbling, one body in each world, also one that turns by 10 degrees a step."""
    for spin in SPINS:
        builder = z_up(gravity=0.0)
        builder.add_body(mass=1.0, I_m=diagonal_inertia(*MOMENTS))
        run = BodyRun(builder.finalize(device), DT).start(joint_qd=[*spin, 0.0, 0.0, 0.0])
        energy, (_, momentum) = kinetic(run), momenta(run)
        run.run_for(10.0)
        assert kinetic(run) == pytest.approx(energy, rel=5.0e-3)
        error = np.linalg.norm(momenta(run)[1] - momentum) / np.linalg.norm(momentum)
        assert error < 5.0e-4, f"angular momentum is off by {error:.1e}"


def test_body_spinning_about_its_middle_axis_flips(device: str):
    """The Dzhanibekov effect at the time of Euler's equations: ω₂ changes its sign."""
    from scipy.integrate import solve_ivp

    builder = z_up(gravity=0.0)
    builder.add_body(mass=1.0, I_m=diagonal_inertia(*MOMENTS))
    run = BodyRun(builder.finalize(device), 1.0 / 1000.0).start(joint_qd=[*SPINS[1], 0.0, 0.0, 0.0])
    run.run_for(8.0)
    R = rotation_matrices(run.body_q[:, 3:])
    omega = np.einsum("nji,nj->ni", R, run.body_qd[:, :3].astype(np.float64))[0]
    truth = solve_ivp(lambda _, w: np.cross(MOMENTS * w, w) / MOMENTS, (0.0, 8.0), SPINS[1], rtol=1.0e-10)
    assert truth.y[1].min() < -1.9, "it has to have flipped"
    np.testing.assert_allclose(omega, truth.y[:, -1], rtol=0.0, atol=2.0e-2)


@pytest.mark.parametrize("restitution", [0.0, 1.0])
@pytest.mark.parametrize("shape", ["sphere", "box"])
def test_oblique_collision_conserves_momentum(device: str, shape: str, restitution: float):
    """Two spinning bodies meet in flight with friction: both momenta are kept, and never is energy gained."""
    builder = z_up(gravity=0.0)
    for x, y in ((-0.5, 0.0), (0.5, 0.07)):
        body = builder.add_body(origin=wp.transform((x, y, 0.02 * x), wp.quat_identity()))
        size = {"radius": 0.1} if shape == "sphere" else {"hx": 0.1, "hy": 0.08, "hz": 0.12}
        getattr(builder, f"add_shape_{shape}")(body, **size, mu=0.5, restitution=restitution)
    qd = [[1.0, 2.0, 0.5, 3.0, 0.0, 0.0], [0.0, -1.0, 3.0, -2.0, 0.1, 0.0]]
    run = BodyRun(builder.finalize(device), DT, enable_restitution=True).start(joint_qd=qd)
    (linear, angular), energy = momenta(run), kinetic(run)
    run.run_for(0.5)
    assert run.body_qd[0, 3] < 2.0, "they have to have met"
    after = momenta(run)
    scale = 5.0 * run.model.body_mass.numpy()[0]
    np.testing.assert_allclose(after[0], linear, rtol=0.0, atol=1.0e-4 * scale)
    np.testing.assert_allclose(after[1], angular, rtol=0.0, atol=1.0e-4 * scale)
    assert kinetic(run) < 1.001 * energy


def test_elastic_collision_without_friction_keeps_the_energy(device: str):
    builder = z_up(gravity=0.0)
    for x, y, density in ((-0.5, 0.0, 1000.0), (0.5, 0.07, 3000.0)):
        body = builder.add_body(origin=wp.transform((x, y, 0.0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1, density=density, mu=0.0, restitution=1.0)
    qd = [[0.0, 0.0, 0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, -2.0, 0.0, 0.0]]
    run = BodyRun(builder.finalize(device), DT, enable_restitution=True).start(joint_qd=qd)
    (linear, _), energy = momenta(run), kinetic(run)
    run.run_for(0.5)
    np.testing.assert_allclose(momenta(run)[0], linear, rtol=0.0, atol=1.0e-4 * np.linalg.norm(linear))
    assert kinetic(run) == pytest.approx(energy, rel=5.0e-3)


@pytest.mark.parametrize("rate", [60, 240])
@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_bounce_heights(device: str, restitution: float, rate: int):
    """The apex after a bounce is e² times the drop."""
    drop, radius = 1.0, 0.1
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, radius + drop), wp.quat_identity()))
    world.add_shape_sphere(body, radius=radius, restitution=restitution)
    world.set_ground_plane(restitution=restitution)
    run = BodyRun(world.finalize(device), 1.0 / rate, enable_restitution=True)
    seconds = math.sqrt(2.0 * drop / GRAVITY) * (1.0 + restitution)
    (poses,) = run.record(round(seconds * rate) + 2, "body_q")
    heights = poses[:, 0, 2] - radius
    contact = int(np.argmin(heights[: round(0.55 * rate)]))
    assert heights[contact] > -1.0e-3
    assert heights[contact:].max() == pytest.approx(restitution**2 * drop, abs=4.0e-3)


def box_on_plane(device: str, angle: float, mu: float) -> newtonsim.Model:
    """A box on a plane that falls by `angle` along x."""
    normal = (math.sin(angle), 0.0, math.cos(angle))
    tilt = wp.quat(*quaternion((0.0, 1.0, 0.0), angle))
    world = z_up()
    body = world.add_body(origin=wp.transform(wp.vec3(*normal) * 0.1, tilt))
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, mu=mu)
    world.set_ground_plane(normal=normal, mu=mu)
    return world.finalize(device)


def test_box_slides_to_a_stop(device: str):
    """It slides on by v²/2µg."""
    speed, mu = 2.0, 0.5
    run = BodyRun(box_on_plane(device, 0.0, mu), DT).start(joint_qd=[0.0, 0.0, 0.0, speed, 0.0, 0.0])
    run.run_for(1.0)
    assert run.body_q[0, 0] == pytest.approx(speed**2 / (2.0 * mu * GRAVITY), rel=2.0e-2)
    assert np.abs(run.body_qd).max() < 1.0e-3


@pytest.mark.parametrize("ratio", [0.9, 1.2])
def test_box_on_a_slope_sticks_or_slides(device: str, ratio: float):
    mu = 0.5
    angle = math.atan(ratio * mu)
    run = BodyRun(box_on_plane(device, angle, mu), DT)
    start = run.body_q[0, :3]
    run.run_for(0.5)
    speed = np.linalg.norm(run.body_qd[0, 3:])
    run.run_for(0.5)
    if ratio < 1.0:
        assert np.linalg.norm(run.body_q[0, :3] - start) < 1.0e-3
        assert speed < 1.0e-3
    else:
        gained = np.linalg.norm(run.body_qd[0, 3:]) - speed
        expected = GRAVITY * (math.sin(angle) - mu * math.cos(angle))
        assert gained == pytest.approx(0.5 * expected, rel=2.0e-2)


def test_sliding_sphere_starts_to_roll(device: str):
    """A sphere thrown without spin slides until v = 5/7 v0, and then rolls on."""
    radius, speed, mu = 0.1, 2.0, 0.3
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, radius), wp.quat_identity()))
    world.add_shape_sphere(body, radius=radius, mu=mu)
    world.set_ground_plane(mu=mu)
    run = BodyRun(world.finalize(device), 1.0 / 480.0).start(joint_qd=[0.0, 0.0, 0.0, speed, 0.0, 0.0])
    run.run_for(5.0 * speed / (7.0 * mu * GRAVITY))
    assert run.body_qd[0, 3] == pytest.approx(5.0 / 7.0 * speed, rel=1.0e-2)
    assert run.body_qd[0, 1] * radius == pytest.approx(run.body_qd[0, 3], rel=1.0e-2)


def test_rolling_and_torsional_friction_stop_a_ball(device: str):
    """Rolling: a = 5/7 g µ_r/r. Spinning about the normal: α = µ_t m g / I."""
    radius, rolling, torsion = 0.1, 0.004, 0.01
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, radius), wp.quat_identity()))
    world.add_shape_sphere(body, radius=radius, mu=0.8)
    world.set_ground_plane(mu=0.8)
    model = world.finalize(device)
    mass, inertia = model.body_mass.numpy()[0], model.body_inertia.numpy()[0, 0, 0]
    run = BodyRun(model, DT)
    model.rigid_contact_rolling_friction, model.rigid_contact_torsional_friction = rolling, torsion
    run.start(joint_qd=[0.0, 1.0 / radius, 40.0, 1.0, 0.0, 0.0]).run_for(0.5)
    deceleration = GRAVITY * rolling / radius / 1.4
    assert run.body_qd[0, 3] == pytest.approx(1.0 - 0.5 * deceleration, rel=2.0e-2)
    assert run.body_qd[0, 2] == pytest.approx(40.0 - 0.5 * torsion * mass * GRAVITY / inertia, rel=2.0e-2)
    run.run_for(6.0)
    assert np.abs(run.body_qd).max() < 1.0e-3


@pytest.mark.parametrize("top", [1.0, 10.0])
def test_stack_of_ten_boxes_stands(device: str, top: float):
    """Also with the upper box ten times as heavy as the others: nothing sinks in by half a millimetre."""
    builder = z_up()
    for i in range(10):
        pose = wp.transform((0.002 * (i % 3), 0.001 * (i % 2), 0.1 + 0.2 * i), wp.quat_identity())
        body = builder.add_body(origin=pose)
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=1000.0 * (top if i == 9 else 1.0))
    builder.set_ground_plane()
    run = BodyRun(builder.finalize(device), DT).run_for(3.0)
    np.testing.assert_allclose(run.body_q[:, 2], 0.1 + 0.2 * np.arange(10), rtol=0.0, atol=5.0e-4)
    assert np.abs(run.body_q[:, :2]).max() < 0.03
    assert np.abs(run.body_qd).max() < 0.1


@pytest.mark.parametrize("kind", ["sphere", "box", "capsule"])
def test_overlapping_bodies_part_and_stand_still(device: str, kind: str):
    """Two bodies 3 cm in each other: they part, and have never had a velocity."""
    size = {"sphere": {"radius": 0.1}, "box": {"hx": 0.1, "hy": 0.1, "hz": 0.1}}
    builder = z_up(gravity=0.0)
    for x in (0.0, 0.17):
        body = builder.add_body(origin=wp.transform((x, 0.0, 0.0), wp.quat_identity()))
        shape = size.get(kind, {"radius": 0.1, "half_height": 0.1})
        getattr(builder, f"add_shape_{kind}")(body, **shape)
    run = BodyRun(builder.finalize(device), DT)
    fastest = max(float(np.abs(run.step().body_qd).max()) for _ in range(60))
    assert abs(run.body_q[1, 0] - run.body_q[0, 0] - 0.2) < 1.0e-4
    assert fastest < 1.0e-3


def test_moving_floor_carries_a_box(device: str):
    """A kinematic floor that starts to move drags the box by friction, then carries it."""
    mu, velocity = 0.4, np.array([1.0, 0.0, 0.2])
    world = z_up()
    floor = world.add_body(mass=0.0)
    world.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), body=floor, width=0.0, length=0.0, mu=mu)
    box = world.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    world.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, mu=mu)
    run = BodyRun(world.finalize(device), DT)
    body_qd = run.body_qd
    body_qd[floor, 3:] = velocity
    run.state.body_qd.assign(body_qd)
    run.run_for(0.1)
    assert run.body_qd[box, 3] == pytest.approx(mu * (0.1 * GRAVITY + velocity[2]), rel=0.05)
    run.run_for(1.9)
    np.testing.assert_allclose(run.body_qd[box, 3:], velocity, rtol=0.0, atol=1.0e-3)
    assert run.body_q[box, 2] - run.body_q[floor, 2] == pytest.approx(0.1, abs=1.0e-3)


def test_forces_and_angular_damping_of_a_free_body(device: str):
    """`body_f` at the centre of mass, and ω' = -d ω."""
    builder = z_up(gravity=0.0)
    builder.add_body(mass=2.0, com=wp.vec3(0.1, 0.0, 0.0), I_m=diagonal_inertia(0.1, 0.1, 0.1))
    run = BodyRun(builder.finalize(device), DT, angular_damping=0.5).start(
        joint_qd=[0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    )
    run.state.body_f.assign([[0.0, 0.0, 0.0, 4.0, 0.0, 0.0]])
    run.run_for(1.0)
    np.testing.assert_allclose(run.body_qd[0, 3:], [2.0, 0.0, 0.0], atol=1.0e-4)
    assert run.body_qd[0, 2] == pytest.approx(2.0 * math.exp(-0.5), rel=5.0e-3)


def robots(device: str, worlds: int, requires_grad: bool = False) -> newtonsim.Model:
    builder = many(load_robot("quadruped"), worlds)
    builder.set_ground_plane()
    return builder.finalize(device, requires_grad=requires_grad)


def rolled(model: newtonsim.Model, starts: np.ndarray, threads: int = 1) -> newtonsim.Simulator:
    """Half a second of robots that fall on the ground."""
    simulator = newtonsim.Simulator(model, XPBDSolver(model, iterations=4), DT, threads=threads)
    simulator.state.joint_q.assign(starts.astype(np.float32).ravel())
    state = simulator.state
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    simulator.step(120)
    return simulator


def test_worlds_are_alone_on_every_number_of_threads(device: str):
    """Four robots at once, on one thread and on two, each alone, and with a NaN next door: the same bits."""
    model = robots(device, 4)
    starts, _ = varied_starts(model, 4, seed=3, height=0.4)
    together = rolled(model, starts).state.body_q.numpy().reshape(4, -1).copy()
    two = rolled(robots(device, 4), starts, threads=2).state.body_q.numpy().reshape(4, -1)
    np.testing.assert_array_equal(together, two)
    alone = rolled(robots(device, 1), starts[2]).state.body_q.numpy().ravel()
    np.testing.assert_array_equal(together[2], alone)
    broken = starts.copy()
    broken[1, 7] = np.nan
    with pytest.warns(RuntimeWarning, match="non-finite"):
        beside = rolled(robots(device, 4), broken).state.body_q.numpy().reshape(4, -1)
    assert not np.isfinite(beside[1]).all()
    np.testing.assert_array_equal(together[[0, 2, 3]], beside[[0, 2, 3]])


def test_capture_and_gradients_change_no_bit(device: str):
    """Replayed steps equal those launched one by one, of a model with gradients too."""
    starts, _ = varied_starts(robots(device, 1), 1, seed=3, height=0.4)
    poses = []
    for captured, grad in ((True, False), (False, False), (False, True)):
        run = BodyRun(robots(device, 1, grad), DT).start(starts)
        for _ in range(60):
            run.step() if captured else run.step_eagerly()
        poses.append(run.body_q)
    np.testing.assert_array_equal(poses[0], poses[1])
    np.testing.assert_array_equal(poses[0], poses[2])


def test_a_reset_world_starts_anew(device: str):
    """After a reset of one world it moves as at first, bit for bit; the others go on."""
    model = robots(device, 2)
    starts, _ = varied_starts(model, 2, seed=3, height=0.4)
    simulator = rolled(model, starts)
    first = simulator.state.body_q.numpy().reshape(2, -1).copy()
    begin = model.state()
    begin.joint_q.assign(starts.astype(np.float32).ravel())
    newtonsim.eval_fk(model, begin.joint_q, begin.joint_qd, None, begin)
    simulator.reset(np.array([True, False]), begin)
    simulator.step(120)
    again = simulator.state.body_q.numpy().reshape(2, -1)
    np.testing.assert_array_equal(again[0], first[0])
    assert not np.array_equal(again[1], first[1])

"""VBDSolver: particles and triangles against bodies that rest, move and yield, and momentum among them."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.solvers import VBDSolver

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
FLAT = (np.sin(np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4))
AT_REST = (0.0, 0.0, 0.0)
GRAVITY = 9.81


def momenta(model: newtonsim.Model, state: newtonsim.State) -> np.ndarray:
    """Linear and angular momentum about the origin (6,)."""
    mass = model.particle_mass.numpy().astype(np.float64)[:, None]
    x, v = (a.numpy().astype(np.float64) for a in (state.particle_q, state.particle_qd))
    linear, angular = (mass * v).sum(axis=0), np.cross(x, mass * v).sum(axis=0)
    if model.body_count:
        body_mass = model.body_mass.numpy().astype(np.float64)[:, None]
        q, qd = (a.numpy().astype(np.float64) for a in (state.body_q, state.body_qd))
        linear = linear + (body_mass * qd[:, 3:]).sum(axis=0)
        angular = angular + np.cross(q[:, :3], body_mass * qd[:, 3:]).sum(axis=0)
        for pose, twist, inertia in zip(q, qd, model.body_inertia.numpy().astype(np.float64)):
            R = np.array(wp.quat_to_matrix(wp.quat(*pose[3:]))).reshape(3, 3)
            angular = angular + R @ inertia @ R.T @ twist[:3]
    return np.concatenate([linear, angular])


def thrown(what: str) -> newtonsim.ModelBuilder:
    """A cloth or a soft block that flies at a box without gravity."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    if what == "cloth":
        options = {"tri_ke": 200.0, "tri_ka": 200.0, "tri_kd": 0.1, "edge_ke": 1e-3, "edge_kd": 0.0}
        velocity = (0.3, -2.0, 0.0)
        builder.add_cloth_grid(
            (-0.4, 0.45, -0.4), FLAT, velocity, 8, 8, 0.1, 0.1, 1e-3, particle_radius=0.01, **options
        )
    else:
        options = {"tri_ke": 0.0, "tri_ka": 0.0, "tri_kd": 0.0}
        velocity = (0.3, -2.0, 0.1)
        builder.default_particle_radius = 0.01
        builder.add_soft_grid(
            (-0.1, 0.4, -0.05), UPRIGHT, velocity, 3, 3, 3, 0.07, 0.07, 0.07, 300.0, 2e4, 2e4, 0.01, **options
        )
    body = builder.add_body(origin=wp.transform((0.03, 0.1, 0.02), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.15, hy=0.25, hz=0.2, density=30.0)
    return builder


@pytest.mark.parametrize("what", ["cloth", "block"])
def test_free_collisions_conserve_momentum(device, what):
    """With the default number of sweeps, and friction: what particles lose is what the body gets."""
    model = thrown(what).finalize(device=device)
    simulator = newtonsim.Simulator(model, VBDSolver(model), 1.0 / 240.0)
    before = momenta(model, simulator.state)
    size = np.linalg.norm(before[:3])
    for _ in range(12):
        simulator.step(5)
        lost = momenta(model, simulator.state) - before
        assert np.abs(lost[:3]).max() < 1e-4 * size
        assert np.abs(lost[3:]).max() < 2e-3 * size
    body_speed = np.linalg.norm(simulator.state.body_qd.numpy()[0, 3:])
    assert body_speed > 0.05


def test_free_flight_conserves_both_momenta(device):
    """A stretched block that spins and wobbles, thrown far from the origin."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    builder.add_soft_grid(
        (3.0, 0.0, 0.0),
        UPRIGHT,
        AT_REST,
        2,
        3,
        2,
        0.1,
        0.1,
        0.1,
        1000.0,
        1e4,
        2e4,
        0.01,
        tri_ke=0.0,
        tri_ka=0.0,
        tri_kd=0.0,
    )
    model = builder.finalize(device=device)
    simulator = newtonsim.Simulator(model, VBDSolver(model), 1.0 / 240.0)
    x = model.particle_q.numpy()
    simulator.state.particle_q.assign(x * np.array([1.0, 1.2, 1.0], np.float32))
    simulator.state.particle_qd.assign(np.cross([5.0, 8.0, -3.0], x - x.mean(axis=0)).astype(np.float32))
    before = momenta(model, simulator.state)
    simulator.step(240)
    lost = momenta(model, simulator.state) - before
    mass = model.particle_mass.numpy().sum()
    assert np.abs(lost[:3]).max() < 1e-4 * mass
    assert np.abs(lost[3:]).max() < 1e-3 * np.linalg.norm(before[3:])


def on_slope(mu: float, angle: float) -> newtonsim.ModelBuilder:
    """A triangle of cloth that lies on a slope along x."""
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    tilt = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), -angle)
    builder.add_shape_box(-1, pos=(0.0, 0.0, 0.0), rot=tilt, hx=50.0, hy=1.0, hz=5.0, mu=mu)
    along, up = np.array([np.cos(angle), -np.sin(angle), 0.0]), np.array([np.sin(angle), np.cos(angle), 0.0])
    for p in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.3)):
        builder.add_particle(along * p[0] + up * 1.0095 + np.array([0.0, 0.0, p[1]]), AT_REST, 0.1, 0.01)
    builder.add_triangle(0, 1, 2, 1e3, 1e3, 0.0, 0.0, 0.0)
    return builder


@pytest.mark.parametrize("mu", [0.1, 0.3, 0.5, 0.7])
def test_friction_holds_up_to_its_threshold(device, mu):
    """Below it what lies on a slope creeps at less than the friction's speed, above it it slides."""
    angle = 0.38  # tan is 0.4
    model = on_slope(mu, angle).finalize(device=device)
    model.soft_contact_mu = mu
    simulator = newtonsim.Simulator(model, VBDSolver(model, iterations=20), 1.0 / 120.0)
    simulator.step(120)
    speed = np.linalg.norm(simulator.state.particle_qd.numpy().mean(axis=0))
    if mu > np.tan(angle):
        assert speed < 0.01
    else:
        assert speed == pytest.approx(GRAVITY * (np.sin(angle) - mu * np.cos(angle)), rel=0.03)


def test_a_block_sinks_into_the_ground_by_its_weight(device):
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    builder.default_particle_radius = 0.01
    builder.add_soft_grid(
        (0.0, 0.012, 0.0),
        UPRIGHT,
        AT_REST,
        2,
        2,
        2,
        0.1,
        0.1,
        0.1,
        1000.0,
        1e5,
        1e5,
        0.02,
        tri_ke=0.0,
        tri_ka=0.0,
        tri_kd=0.0,
    )
    builder.add_shape_box(-1, pos=(0.0, -1.0, 0.0), hx=5.0, hy=1.0, hz=5.0)
    model = builder.finalize(device=device)
    model.soft_contact_ke, model.soft_contact_kd = 5e3, 50.0
    simulator = newtonsim.Simulator(model, VBDSolver(model, iterations=20), 1.0 / 120.0)
    simulator.step(360)
    x = simulator.state.particle_q.numpy()
    under = model.particle_q.numpy()[:, 1] < 0.05
    weight = GRAVITY * model.particle_mass.numpy().sum()
    depth = 0.01 - x[under, 1]
    assert (5e3 * depth).sum() == pytest.approx(weight, rel=0.01)
    assert np.abs(simulator.state.particle_qd.numpy()).max() < 1e-2


def test_a_moving_body_carries_cloth_along(device):
    """A kinematic plate that slides drags what lies on it, by friction."""
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    plate = builder.add_body(origin=wp.transform((0.0, 0.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(plate, hx=1.0, hy=0.1, hz=1.0, density=0.0)
    builder.add_cloth_grid(
        (-0.2, 0.11, -0.2),
        FLAT,
        AT_REST,
        4,
        4,
        0.1,
        0.1,
        0.01,
        tri_ke=100.0,
        tri_ka=100.0,
        tri_kd=0.0,
        edge_ke=1e-3,
        edge_kd=0.0,
        particle_radius=0.01,
    )
    model = builder.finalize(device=device)
    state, solver = model.state(), VBDSolver(model)
    twist = np.zeros((1, 6), np.float32)
    twist[0, 3] = 0.5
    state.body_qd.assign(twist)
    for _ in range(120):
        solver.step(model, state, state, None, None, 1.0 / 120.0)
    assert state.body_q.numpy()[0, 0] == pytest.approx(0.5, abs=1e-3)
    v = state.particle_qd.numpy().mean(axis=0)
    assert v[0] == pytest.approx(0.5, abs=0.05)
    assert abs(v[2]) < 0.01


def test_a_light_body_rests_on_a_cloth(device):
    """A ball of a tenth of the cloth's mass comes to rest on a cloth that is held at two sides."""
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    builder.add_cloth_grid(
        (-0.4, 0.0, -0.4),
        FLAT,
        AT_REST,
        8,
        8,
        0.1,
        0.1,
        0.005,
        tri_ke=500.0,
        tri_ka=500.0,
        tri_kd=1.0,
        edge_ke=1e-3,
        edge_kd=0.0,
        particle_radius=0.01,
        fix_left=True,
        fix_right=True,
    )
    ball = builder.add_body(origin=wp.transform((0.0, 0.12, 0.0), wp.quat_identity()))
    builder.add_shape_sphere(ball, radius=0.1, density=10.0)
    model = builder.finalize(device=device)
    model.soft_contact_ke, model.soft_contact_kd = 1e4, 10.0
    simulator = newtonsim.Simulator(model, VBDSolver(model, iterations=20), 1.0 / 120.0)
    simulator.step(600)
    pose, twist = simulator.state.body_q.numpy()[0], simulator.state.body_qd.numpy()[0]
    assert np.linalg.norm(pose[[0, 2]]) < 0.1
    assert np.abs(twist[3:]).max() < 0.05
    gap = np.linalg.norm(simulator.state.particle_q.numpy() - pose[:3], axis=1).min()
    assert gap == pytest.approx(0.11, abs=0.005)


def test_triangles_meet_what_fits_between_their_corners(device):
    """A narrow peg under the middle of a falling triangle, far from its corners."""
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    builder.add_shape_capsule(-1, pos=(0.0, -0.5, 0.0), radius=0.03, half_height=0.5)
    for angle in (0.0, 2.0, 4.0):
        turn = angle * np.pi / 3.0
        builder.add_particle((0.5 * np.cos(turn), 0.2, 0.5 * np.sin(turn)), AT_REST, 0.01, 0.01)
    builder.add_triangle(0, 2, 1, 1e3, 1e3, 0.0, 0.0, 0.0)
    model = builder.finalize(device=device)
    simulator = newtonsim.Simulator(model, VBDSolver(model), 1.0 / 120.0)
    simulator.step(60)
    centre = simulator.state.particle_q.numpy().mean(axis=0)
    assert centre[1] == pytest.approx(0.04, abs=0.01)


def test_surfaces_keep_apart_and_press_each_other(device):
    """A cloth falls onto one that is held, and rests above it at the contact distance."""
    builder = newtonsim.ModelBuilder(gravity=-GRAVITY)
    options = {"tri_ke": 200.0, "tri_ka": 200.0, "tri_kd": 0.2, "edge_ke": 1e-3, "edge_kd": 0.0}
    for height, held in ((0.0, True), (0.03, False)):
        builder.add_cloth_grid(
            (0.01 * height, height, 0.0),
            FLAT,
            AT_REST,
            4,
            4,
            0.1,
            0.1,
            0.002,
            fix_left=held,
            fix_right=held,
            fix_top=held,
            fix_bottom=held,
            particle_radius=0.005,
            **options,
        )
    model = builder.finalize(device=device)
    model.soft_contact_radius, model.soft_contact_margin = 0.01, 0.02
    simulator = newtonsim.Simulator(model, VBDSolver(model, handle_self_contact=True), 1.0 / 120.0)
    simulator.step(240)
    lower, upper = simulator.state.particle_q.numpy().reshape(2, -1, 3)
    gap = (upper - lower)[:, 1]
    assert gap.min() > 0.0
    assert gap.mean() == pytest.approx(0.01, abs=0.004)

"""Neighbours of particles, and contact between particles."""

import numpy as np
import pytest
import warp as wp
from scipy.spatial import cKDTree

import newtonsim
from newtonsim.kernels.particles.grid import SPANS, GridView, cell_of, span_of
from newtonsim.runtime.launcher import Launcher
from newtonsim.simulator import Simulator
from newtonsim.solvers import XPBDSolver
from newtonsim.solvers.particles.grid import ParticleGrid
from newtonsim.solvers.particles.pairs import ParticlePairs

RADIUS = 0.05


@wp.kernel
def count_neighbours(
    grid: GridView,
    x: wp.array(dtype=wp.vec3),
    reach: float,
    near: wp.array(dtype=int),
    met: wp.array(dtype=int),
):
    """One thread per particle: how many neighbours are within reach, and how often it meets itself."""
    i = wp.tid()
    r = grid.grid[i]
    cell = cell_of(grid, r, x[i])
    for k in range(SPANS):
        span = span_of(grid, r, cell, k)
        for place in range(span[0], span[1]):
            j = grid.order[place]
            if j == i:
                met[i] = met[i] + 1
            elif wp.length(x[j] - x[i]) < reach:
                near[i] = near[i] + 1


def grid_of(points, device, worlds=1):
    builder, one = newtonsim.ModelBuilder(), newtonsim.ModelBuilder()
    for _ in points:
        one.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0, radius=RADIUS)
    builder.replicate(one, worlds, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device)
    x = wp.array(np.tile(points, (worlds, 1)), dtype=wp.vec3, device=device)
    return model, ParticleGrid(model), x


def clouds() -> dict:
    rng = np.random.default_rng(2)
    box = rng.uniform(-1.0, 1.0, (800, 3))
    return {
        "box": box,
        "line": rng.uniform(-1.0, 1.0, (800, 3)) * [40.0, 0.05, 0.05],
        "cluster": rng.normal(0.0, 0.05, (300, 3)),
        "outliers": np.concatenate([box, [[1e6, 2.0, 3.0], [-1e6, 1e6, 0.0], [1e6, 2.0, 3.0]]]),
        "far": box + np.array([3.0e4, -1.0e4, 2.0e4]),
        "one": np.zeros((1, 3)),
    }


@pytest.mark.parametrize("name", list(clouds()))
def test_neighbours(name, device):
    """All neighbours within reach, once, as a tree of points finds them in double precision; three worlds."""
    points = clouds()[name].astype(np.float32)
    model, grid, x = grid_of(points, device, worlds=3)
    reach = 0.11
    grid.build(Launcher(model, False), x, reach)
    near, met = (wp.zeros(model.particle_count, dtype=int, device=device) for _ in range(2))
    wp.launch(count_neighbours, model.particle_count, [grid.view, x, reach, near, met], device=device)
    tree = cKDTree(points.astype(float))
    expected = np.array([len(found) - 1 for found in tree.query_ball_point(points, reach)])
    assert np.array_equal(near.numpy().reshape(3, -1), np.tile(expected, (3, 1)))
    assert np.all(met.numpy() == 1)


def test_points_that_are_no_numbers(device):
    """They are in no cell, and the others find each other."""
    points = clouds()["box"].astype(np.float32)
    points[7], points[9, 1] = np.nan, np.inf
    model, grid, x = grid_of(points, device)
    grid.build(Launcher(model, False), x, 0.11)
    order = np.sort(grid.view.order.numpy())
    assert 7 not in order
    assert np.array_equal(order[order >= 0], np.delete(np.arange(len(points)), 7))


def scene(points, velocities, device, **arrays):
    """Particles in free space without weight."""
    builder = newtonsim.ModelBuilder()
    for point, velocity in zip(points, velocities):
        builder.add_particle(point, velocity, 0.1, radius=RADIUS)
    for name, values in arrays.items():
        setattr(builder, f"particle_{name}", list(values))
    model = builder.finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    return model


def test_momentum_of_collisions(device):
    """A cloud that collapses onto itself with friction keeps its momentum, and loses energy."""
    rng = np.random.default_rng(4)
    points = rng.uniform(-0.5, 0.5, (300, 3))
    points = points[~(np.triu(np.linalg.norm(points[:, None] - points, axis=2) < 0.1, 1)).any(axis=0)]
    velocities = -2.0 * points + rng.normal(0.0, 0.3, points.shape) + [0.3, 0.0, 0.0]
    mass = rng.uniform(0.05, 0.5, len(points))
    model = scene(points, velocities, device, mass=mass, mu=[0.5] * len(points))
    simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 240.0)
    simulation.step(120)
    v = simulation.state.particle_qd.numpy().astype(float)
    before, after = (mass[:, None] * velocities).sum(axis=0), (mass[:, None] * v).sum(axis=0)
    scale = (mass * np.linalg.norm(velocities, axis=1)).sum()
    assert np.abs(after - before).max() < 1e-4 * scale
    energy = [(mass * (u**2).sum(axis=1)).sum() for u in (velocities, v)]
    assert energy[1] < 0.9 * energy[0]


def test_two_particles_come_to_rest_against_each_other(device):
    """Head on without restitution, of different masses: both go on with the mean velocity, just touching."""
    model = scene([(-0.2, 0, 0), (0.2, 0, 0)], [(1.0, 0, 0), (-0.5, 0, 0)], device, mass=[0.1, 0.3])
    simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 240.0)
    simulation.step(240)
    v, x = simulation.state.particle_qd.numpy(), simulation.state.particle_q.numpy()
    assert np.abs(v[:, 0] - (0.1 * 1.0 - 0.3 * 0.5) / 0.4).max() < 1e-4
    assert abs(x[1, 0] - x[0, 0] - 2.0 * RADIUS) < 1e-3


def test_cohesion(device):
    """Particles that stick turn about each other; without cohesion they part."""
    for cohesion in (0.02, 0.0):
        start = [(-0.051, 0, 0), (0.051, 0, 0)]
        model = scene(start, [(0, 1.0, 0), (0, -1.0, 0)], device, cohesion=[cohesion] * 2, mu=[0.0] * 2)
        simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 240.0)
        simulation.step(120)
        x = simulation.state.particle_q.numpy()
        assert (np.linalg.norm(x[1] - x[0]) < 0.105) == (cohesion > 0.0)


def cloth_of(radius: float, **place):
    builder = newtonsim.ModelBuilder()
    builder.add_cloth_grid(
        (0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 8, 8, 0.1, 0.1, 0.02,
        particle_radius=radius, tri_ke=100.0, tri_ka=100.0, edge_ke=0.0, **place,
    )  # fmt: skip
    return builder


def test_cloth_with_wide_particles_lies_still(device):
    """Neighbours of one body whose surfaces overlap at rest do not push each other apart."""
    model = cloth_of(0.12).finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    start = model.particle_q.numpy()
    simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 240.0)
    simulation.step(60)
    assert np.abs(simulation.state.particle_q.numpy() - start).max() < 1e-5


@pytest.mark.parametrize("meets", [1, 0])
def test_cloth_meets_itself(meets, device):
    """The two ends of a strip thrown at each other stop at the sum of the radii, or pass through."""
    builder = newtonsim.ModelBuilder()
    previous = None
    for k in range(21):
        number = builder.add_particle((0.1 * k - 1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.01, radius=0.05)
        if previous is not None:
            builder.add_spring(previous, number, 1.0e-3, 0.0, 0)
        previous = number
    model = builder.finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    solver = XPBDSolver(model, iterations=2)
    solver.particles.pairs.self_contact.fill_(meets)
    simulation = Simulator(model, solver, dt=1.0 / 240.0)
    v = np.zeros((21, 3), np.float32)
    v[0], v[20] = (4.0, 0.5, 0.0), (-4.0, 0.5, 0.0)
    simulation.state.particle_qd.assign(v)
    least = np.inf
    for _ in range(90):
        simulation.step(1)
        x = simulation.state.particle_q.numpy()
        least = min(least, np.linalg.norm(x[0] - x[20]))
    assert (least > 0.09) == bool(meets)


def grains(size, mu, device, worlds=1):
    one = newtonsim.ModelBuilder()
    spacing = 2.05 * RADIUS
    start = (-0.5 * spacing * (size[0] - 1), RADIUS, -0.5 * spacing * (size[2] - 1))
    one.add_particle_grid(
        start, (0, 0, 0, 1), (0, 0, 0), *size, *[spacing] * 3, 0.1, 0.2 * RADIUS, RADIUS
    )  # fmt: skip
    one.particle_mu = [mu] * len(one.particle_mass)
    builder = newtonsim.ModelBuilder()
    builder.replicate(one, worlds, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane(mu=mu)
    model = builder.finalize(device)
    model.soft_contact_mu = mu
    return model


def overlaps(x) -> np.ndarray:
    """Overlaps of all pairs, over the radius."""
    pairs = cKDTree(x).query_pairs(2.0 * RADIUS, output_type="ndarray")
    return 2.0 - np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) / RADIUS


def test_columns_collapse_into_heaps(device):
    """At 1/60 s: heaps come to rest, do not sink into each other, and are steeper with friction."""
    heights, widths = [], []
    for mu in (0.0, 0.3, 0.8):
        model = grains((6, 12, 6), mu, device)
        simulation = Simulator(model, XPBDSolver(model, iterations=8), dt=1.0 / 60.0)
        simulation.step(300)
        x, v = (a.numpy().astype(float) for a in (simulation.state.particle_q, simulation.state.particle_qd))
        assert np.all(np.isfinite(x))
        assert x[:, 1].min() > 0.8 * RADIUS
        assert np.append(overlaps(x), 0.0).mean() < 0.1
        if mu > 0.0:
            assert np.sqrt((v**2).sum(axis=1).mean()) < 0.15
        heights.append(np.percentile(x[:, 1], 95))
        widths.append(np.percentile(np.hypot(x[:, 0], x[:, 2]), 90))
    assert heights[0] < heights[1] < heights[2]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.filterwarnings("ignore:.* contacts between particles")
def test_overlapping_particles_come_apart(device):
    """Particles put into each other part with no more than the speed that their overlap asks for."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-0.1, 0.1, (100, 3))
    model = scene(points, np.zeros_like(points), device)
    simulation = Simulator(model, XPBDSolver(model, iterations=8), dt=1.0 / 60.0)
    simulation.step(60)
    assert np.all(np.isfinite(simulation.state.particle_q.numpy()))
    assert np.linalg.norm(simulation.state.particle_qd.numpy(), axis=1).max() < 2.0 * RADIUS * 60.0 * 2.0
    assert np.max(overlaps(simulation.state.particle_q.numpy()), initial=0.0) < 0.05


def test_worlds_and_threads(device):
    """Copies come out bit for bit as the world alone, by any number of threads."""
    results = []
    for worlds, threads in ((1, 1), (3, 1), (3, 2)):
        model = grains((4, 6, 4), 0.4, device, worlds)
        simulation = Simulator(model, XPBDSolver(model), dt=1.0 / 60.0, threads=threads)
        simulation.step(60)
        results.append(simulation.state.particle_q.numpy().reshape(worlds, -1, 3))
    assert np.array_equal(results[1], np.broadcast_to(results[0], results[1].shape))
    assert np.array_equal(results[2], results[1])


@pytest.mark.filterwarnings("ignore:.* non-finite")
def test_a_world_that_fails_stays_alone(device):
    """A NaN in one world changes nothing in the next one."""
    good = grains((4, 4, 4), 0.4, device, 2)
    runs = []
    for poison in (False, True):
        simulation = Simulator(good, XPBDSolver(good), dt=1.0 / 60.0)
        if poison:
            x = simulation.state.particle_q.numpy()
            x[5] = np.nan
            simulation.state.particle_q.assign(x)
        simulation.step(30)
        runs.append(simulation.state.particle_q.numpy()[64:])
    assert np.array_equal(*runs)


def test_particles_of_the_global_world_meet_all(device):
    """One grain in the global world is hit by one of each world; those of different worlds do not meet."""
    one = newtonsim.ModelBuilder()
    one.add_particle((-0.3, 0.0, 0.0), (1.0, 0.0, 0.0), 0.1, radius=RADIUS)
    builder = newtonsim.ModelBuilder()
    builder.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, radius=RADIUS)
    builder.replicate(one, 2, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device)
    model.gravity = (0.0, 0.0, 0.0)
    simulation = Simulator(model, XPBDSolver(model, iterations=4), dt=1.0 / 240.0)
    simulation.step(120)
    x = simulation.state.particle_q.numpy()
    assert np.abs(x[0]).max() == 0.0
    assert np.array_equal(x[1], x[2])
    assert abs(x[1, 0] + 2.0 * RADIUS) < 1e-3


def test_too_many_pairs_are_reported(device):
    """There is room for so many pairs a particle; what is left out is counted."""
    model = scene(np.random.default_rng(0).uniform(-0.02, 0.02, (60, 3)), np.zeros((60, 3)), device)
    pairs = ParticlePairs(model, room=2)
    state = model.state()
    inputs = [model.particle_inv_mass, state.particle_q, state.particle_qd, 0.01]
    pairs.begin_substep(Launcher(model, False), *inputs)
    with pytest.warns(RuntimeWarning, match=f"{60 * 59 // 2 - 120} contacts between particles"):
        pairs.report()
    shift = wp.zeros(60, dtype=wp.vec3, device=device)
    pairs.sweep(Launcher(model, False), shift)
    assert np.all(np.isfinite(shift.numpy()))

"""Particles against triangles of soft surfaces, as the facade has them."""

import numpy as np
import pytest
from physics.scenes import many, z_up

from newtonsim import Simulator
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.solvers.particles.surface_pairs import SurfacePairs
from newtonsim.solvers.xpbd.particles import XPBDParticles

DT = 1.0 / 240.0
RADIUS = 0.01


def add_cloth(builder, low, cells: int, size: float, velocity=(0.0, 0.0, 0.0), mass: float = 0.2) -> None:
    """A square cloth whose corner is at `low`; its cells are much wider than its particles."""
    upright, cell = (0.0, 0.0, 0.0, 1.0), size / cells
    material = {"tri_ke": 300.0, "tri_ka": 100.0, "tri_kd": 0.1, "edge_ke": 1.0e-3, "edge_kd": 1.0e-5}
    each = mass / (cells + 1) ** 2
    builder.add_cloth_grid(
        low, upright, velocity, cells, cells, cell, cell, each, particle_radius=RADIUS, **material
    )


def run(model, steps: int, meets_itself: bool = True) -> tuple[np.ndarray, np.ndarray]:
    system = XPBDParticles(model, model, iterations=8)
    system.pairs = SurfacePairs(model)
    system.pairs.self_contact.fill_(int(meets_itself))
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=system), DT)
    simulator.step(steps)
    return simulator.state.particle_q.numpy(), simulator.state.particle_qd.numpy()


@pytest.mark.parametrize(("speed", "mu"), [(0.5, 0.0), (3.0, 0.0), (3.0, 0.5)])
def test_cloths_that_collide_keep_their_momentum(device: str, speed: float, mu: float):
    """Momentum to 1e-5 of what flies; without friction, whose ends are two radii apart, angular to 2e-4."""
    builder = z_up(0.0)
    add_cloth(builder, (-0.3, -0.3, 0.0), 3, 0.6)
    add_cloth(builder, (-0.27, -0.25, 0.1), 2, 0.5, (0.1, 0.0, -speed), 0.3)
    builder.particle_mu[:] = [mu] * builder.particle_count
    model = builder.finalize(device)
    mass = model.particle_mass.numpy()[:, None].astype(np.float64)
    x0, v0 = model.particle_q.numpy(), model.particle_qd.numpy()
    x, v = run(model, 120)
    assert np.abs((mass * (v - v0)).sum(axis=0)).max() < 1e-5 * 0.3 * speed
    spin = np.cross(x, mass * v).sum(axis=0) - np.cross(x0, mass * v0).sum(axis=0)
    if mu == 0.0:
        assert np.abs(spin).max() < 2e-4 * 0.3 * speed * 0.3
    assert (v - v0)[:16, 2].min() < -0.1 * speed
    middle = x[16:, 2].mean() - x[:16, 2].mean()
    assert middle > RADIUS


def test_a_cloth_rests_on_another(device: str):
    """Points of the upper one lie inside wide triangles: the sum of the radii above the lower one, to 2 %."""
    builder = z_up()
    builder.add_shape_box(-1, pos=(0.0, 0.0, -0.1), hx=1.0, hy=1.0, hz=0.1)
    add_cloth(builder, (-0.3, -0.3, RADIUS), 2, 0.6)
    add_cloth(builder, (-0.2, -0.19, 0.1), 3, 0.4)
    x, v = run(builder.finalize(device), 360)
    assert np.abs(x[:9, 2] - RADIUS).max() < 1e-4
    assert np.abs(x[9:, 2] - 3.0 * RADIUS).max() < 0.02 * 3.0 * RADIUS
    assert np.abs(v).max() < 1e-3


def test_neighbours_at_rest_do_not_push(device: str):
    """Radii wider than half the cells: a flat cloth stays as it is, bit for bit as without contact."""
    builder = z_up(0.0)
    add_cloth(builder, (-0.3, -0.3, 0.0), 8, 8 * 1.5 * RADIUS)
    model = builder.finalize(device)
    x, _ = run(model, 20)
    assert np.array_equal(x, model.particle_q.numpy())


def test_worlds_do_not_meet(device: str):
    """Equal worlds in one place give what a single one gives."""
    builder = z_up(0.0)
    add_cloth(builder, (-0.3, -0.3, 0.0), 3, 0.6)
    add_cloth(builder, (-0.27, -0.25, 0.1), 2, 0.5, (0.1, 0.0, -1.0))
    one = run(builder.finalize(device), 60)[0]
    two = run(many(builder, 2).finalize(device), 60)[0].reshape(2, -1, 3)
    assert np.array_equal(two, np.stack([one, one]))


def test_what_finds_no_room_is_reported(device: str):
    """Forty particles on one triangle, of which twelve have a place."""
    builder = z_up(0.0)
    for corner in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
        builder.add_particle(corner, (0.0, 0.0, 0.0), 1.0, radius=RADIUS)
    builder.add_triangle(0, 1, 2)
    for k in range(40):
        builder.add_particle((0.05 + 0.01 * k, 0.1, 0.015), (0.0, 0.0, 0.0), 0.1, radius=RADIUS)
    model = builder.finalize(device)
    system = XPBDParticles(model, model, iterations=2)
    system.pairs = SurfacePairs(model)
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=system), DT)
    simulator.step()
    with pytest.warns(RuntimeWarning, match="28 contacts between soft surfaces were dropped"):
        system.report()

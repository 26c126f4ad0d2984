"""Cloth on cloth by VBDSolver: no edge ever passes through a triangle, and what happens is physical."""

import numpy as np
import pytest
from intersections import crossings

import newtonsim
from newtonsim.solvers import VBDSolver

GRAVITY = 9.81


class Cloths:
    """A scene of cloths with self-contact.

    Args:
        builder: Its cloths have cells of about the size `cell`.
        cell: Sets the contact radius [m].
        device: Where.
        options: Of VBDSolver.
    """

    def __init__(self, builder, cell, device, dt=1 / 60, friction=0.3, **options):
        builder.color(include_bending=True)
        self.model, self.dt = builder.finalize(device), dt
        self.model.soft_contact_radius, self.model.soft_contact_margin = 0.2 * cell, 0.35 * cell
        self.model.soft_contact_ke, self.model.soft_contact_kd = 100.0, 0.0
        self.model.soft_contact_mu = friction
        self.solver = VBDSolver(self.model, handle_self_contact=True, **options)
        self.state = self.model.state()
        self.triangles = self.model.tri_indices.numpy()

    def at(self) -> np.ndarray:
        return self.state.particle_q.numpy().copy()

    def velocity(self) -> np.ndarray:
        return self.state.particle_qd.numpy().copy()

    def energy(self) -> float:
        """Kinetic energy and that of gravity along -z [J]."""
        mass, x, v = self.model.particle_mass.numpy(), self.at(), self.velocity()
        return float(np.sum(mass * (0.5 * np.sum(v * v, axis=1) + GRAVITY * x[:, 2])))

    def hold(self, particles: np.ndarray) -> None:
        flags = self.model.particle_flags.numpy().copy()
        flags[particles] = 0
        self.model.particle_flags.assign(flags)

    def put(self, particles: np.ndarray, x: np.ndarray) -> None:
        """Put held particles somewhere, as a user does."""
        q, v = self.at(), self.velocity()
        v[particles] = (x - q[particles]) / self.dt
        q[particles] = x
        self.state.particle_q.assign(q)
        self.state.particle_qd.assign(v)

    def step(self, count: int = 1, check: int = 1) -> "Cloths":
        for k in range(count):
            self.solver.step(self.model, self.state, self.state, None, None, self.dt)
            if k % check == check - 1 or k == count - 1:
                assert len(crossings(self.at(), self.triangles)) == 0
        return self


def z_up(gravity: float = -GRAVITY) -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=gravity)


def add_cloth(builder, corner, cells, cell, turn=(0.0, 0.0, 0.0, 1.0), velocity=(0.0, 0.0, 0.0), **options):
    """Add a cloth of 0.3 kg/m^2."""
    material = {"tri_ke": 100.0, "tri_ka": 100.0, "tri_kd": 0.0, "tri_drag": 0.0, "tri_lift": 0.0}
    material |= {"edge_ke": 1e-4, "edge_kd": 0.0, "particle_radius": 0.2 * cell}
    mass = 0.3 * cell * cell
    builder.add_cloth_grid(corner, turn, velocity, *cells, cell, cell, mass, **material | options)


def twist(cloths, cells, frames_per_turn, turns, check, height=1.6):
    """Drop a square cloth on the sphere, pick it up at two edges before they fold, and twist it."""
    columns = cells + 1
    left = np.arange(columns) * columns
    ends = np.concatenate([left, left + cells])
    side = np.repeat([-1.0, 1.0], columns)
    across = np.tile(np.linspace(-0.5, 0.5, columns), 2)
    cloths.step(13, check)
    cloths.hold(ends)
    start = cloths.at()[ends]
    straight = np.stack([0.5 * side, across, np.full(2 * columns, height)], axis=1)
    for k in range(30):
        cloths.put(ends, start + (k + 1) / 30 * (straight - start))
        cloths.step(check=1 if k % check == check - 1 else 10**9)
    for k in range(frames_per_turn * turns):
        angle = np.pi * (k + 1) / frames_per_turn * side
        y, z = across * np.cos(angle), height + across * np.sin(angle)
        cloths.put(ends, np.stack([0.5 * side, y, z], axis=1))
        cloths.step(check=check)
        yield cloths.at()


def twisted(cells, device, **options) -> Cloths:
    builder = z_up()
    add_cloth(builder, (-0.5, -0.5, 1.0), (cells, cells), 1.0 / cells, tri_ke=30.0, tri_ka=30.0)
    builder.particle_mass[:] = [3.0 * mass for mass in builder.particle_mass]
    builder.add_shape_sphere(-1, pos=(0.0, 0.0, 0.7), radius=0.25)
    return Cloths(builder, 1.0 / cells, device, **options)


def test_twisting_by_four_turns(device):
    cloths = twisted(16, device, iterations=4, substeps=2)
    for _ in twist(cloths, 16, frames_per_turn=20, turns=4, check=2):
        pass
    x = cloths.at()
    middle = np.abs(x[:, 0]) < 0.1
    assert np.linalg.norm(x[middle, 1:] - (0.0, 1.6), axis=1).max() < 0.2, "it has become a rope"


def test_heap(device):
    """A cloth that falls on its edge ends as a heap of layers on the ground."""
    builder = z_up()
    quarter = (0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5))
    add_cloth(builder, (0.0, 0.0, 0.77), (30, 10), 0.025, quarter)
    builder.particle_q[::7] = [(p[0] + 0.002, p[1], p[2]) for p in builder.particle_q[::7]]
    builder.set_ground_plane()
    cloths = Cloths(builder, 0.025, device, iterations=5, substeps=2)
    most = cloths.energy()
    for _ in range(15):
        cloths.step(4, check=4)
        assert cloths.energy() < 1.02 * most
    x = cloths.at()
    assert x[:, 2].max() < 0.4
    assert x[:, 2].min() > -0.005


@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_cloths_that_meet_at_speed(device, dt):
    """Two cloths at 10 m/s towards each other stop each other and keep their momentum."""
    builder = z_up(0.0)
    for side in (-1.0, 1.0):
        corner = (-0.2 + 0.03 * side, -0.2 + 0.02 * side, 0.3 * side)
        add_cloth(builder, corner, (12, 12), 0.033, velocity=(0.0, 0.0, -10.0 * side))
    cloths = Cloths(builder, 0.033, device, dt=dt, iterations=10)
    mass = cloths.model.particle_mass.numpy()
    kinetic = 0.5 * np.sum(mass[:, None] * cloths.velocity() ** 2)
    half = len(mass) // 2
    for _ in range(round(0.1 / dt)):
        cloths.step()
        v = cloths.velocity()
        assert 0.5 * np.sum(mass[:, None] * v * v) < 1.01 * kinetic
    assert np.abs((mass[:, None] * v).sum(axis=0)).max() < 0.02 * 10.0 * mass[:half].sum()
    assert np.abs(np.average(v[:half], axis=0, weights=mass[:half])[2]) < 5.0, "they have stopped each other"


def test_a_thrown_heap_flies_freely(device):
    """Self-contact takes nothing of the speed of a folded cloth that nothing touches."""
    builder = z_up()
    add_cloth(builder, (0.0, 0.0, 0.0), (16, 8), 0.02, velocity=(8.0, 0.0, 6.0))
    x = np.array(builder.particle_q)
    folded = x[:, 0] > 0.17
    x[folded, 0], x[folded, 2] = 0.34 - x[folded, 0], 0.008
    builder.particle_q[:] = [tuple(p) for p in x]
    cloths = Cloths(builder, 0.02, device, iterations=10)
    mass = cloths.model.particle_mass.numpy()
    start = cloths.at()
    cloths.step(30)
    velocity = np.average(cloths.velocity(), axis=0, weights=mass)
    np.testing.assert_allclose(velocity, (8.0, 0.0, 6.0 - 0.5 * GRAVITY), atol=0.02)
    assert abs((cloths.at() - start)[:, 0].mean() - 4.0) < 0.02


def test_strips_pulled_through_each_other(device):
    """Two crossed strips, held at their ends, cannot be pulled through: each becomes a loop of the other."""
    builder = z_up(0.0)
    add_cloth(builder, (-0.3, -0.03, 0.02), (30, 3), 0.02)
    quarter = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))
    add_cloth(builder, (0.03, -0.3, -0.02), (30, 3), 0.02, quarter)
    cloths = Cloths(builder, 0.02, device, iterations=6, substeps=4)
    x = cloths.at()
    half = len(x) // 2
    first = np.flatnonzero(np.abs(np.abs(x[:half, 0]) - 0.3) < 1e-5)
    second = half + np.flatnonzero(np.abs(np.abs(x[half:, 1]) - 0.3) < 1e-5)
    ends = np.concatenate([first, second])
    assert len(ends) == 16
    cloths.hold(ends)
    way = np.repeat([[0.0, 0.0, -0.12], [0.0, 0.0, 0.12]], 8, axis=0)
    for k in range(40):
        cloths.put(ends, x[ends] + (k + 1) / 40 * way)
        cloths.step()
    now = cloths.at()
    assert now[first, 2].max() < now[second, 2].min(), "the ends have changed sides"
    middle = [np.linalg.norm(now[part, :2], axis=1).argmin() for part in (slice(half), slice(half, None))]
    assert now[:half, 2][middle[0]] > now[half:, 2][middle[1]], "the middles have not"


@pytest.mark.parametrize(("friction", "slides"), [(0.6, False), (0.1, True)])
def test_friction_holds_a_layer_on_an_incline(device, friction, slides):
    """On a held cloth that slopes by 20 degrees (tangent 0.36), another one stays or slides."""
    angle = np.radians(20.0)
    turn = (0.0, np.sin(0.5 * angle), 0.0, np.cos(0.5 * angle))
    up = np.array([np.sin(angle), 0.0, np.cos(angle)])
    builder = z_up()
    add_cloth(builder, (0.0, 0.0, 0.0), (20, 12), 0.02, turn)
    held = np.arange(builder.particle_count)
    corner = 0.0031 * up + 0.043 * np.array([np.cos(angle), 0.0, -np.sin(angle)]) + (0.0, 0.041, 0.0)
    add_cloth(builder, corner, (6, 7), 0.02, turn)
    cloths = Cloths(builder, 0.02, device, dt=1 / 120, friction=friction, iterations=10)
    cloths.hold(held)
    start = cloths.at()[len(held) :]
    cloths.step(60, check=20)
    moved = np.linalg.norm((cloths.at()[len(held) :] - start).mean(axis=0))
    free = 0.5 * GRAVITY * (np.sin(angle) - friction * np.cos(angle)) * 0.25
    if slides:
        assert moved == pytest.approx(free, rel=0.15)
    else:
        assert moved < 0.01


@pytest.mark.slow
def test_ten_thousand_vertices(device):
    """A cloth of 100 by 100 vertices falls on a sphere and is twisted by four turns."""
    cloths = twisted(99, device, iterations=4, substeps=2)
    for _ in twist(cloths, 99, frames_per_turn=16, turns=4, check=12):
        pass

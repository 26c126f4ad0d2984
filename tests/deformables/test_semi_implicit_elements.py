"""Elements between particles in SemiImplicitSolver, and the air, against their energies and theory."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.builder.particles import dihedral_angles
from newtonsim.solvers import SemiImplicitSolver

GRAVITY = 9.81


def corners(count: int, seed: int, spread: float) -> np.ndarray:
    """A unit simplex, or two triangles side by side, with every corner moved at random."""
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, 0.2, 1.0]])[:count]
    return x + spread * np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 3))


def single(kind: str, activation: float, damping: float) -> newtonsim.ModelBuilder:
    """One element between particles of 1 kg; damping alone if it is above zero."""
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    stiff = 0.0 if damping else 1.0
    count = {"spring": 2, "triangle": 3, "edge": 4, "tetrahedron": 4}[kind]
    for p in corners(count, 0, 0.1):
        builder.add_particle(p, (0.0, 0.0, 0.0), 1.0)
    if kind == "spring":
        builder.add_spring(0, 1, 30.0 * stiff, damping, activation)
    elif kind == "triangle":
        builder.add_triangle(0, 1, 2, 40.0 * stiff, 25.0 * stiff, damping, 0.0, 0.0)
        builder.tri_activations[:] = [activation]
    elif kind == "edge":
        builder.add_edge(0, 3, 1, 2, None, 2.0 * stiff, damping)
    else:
        mu, lame = 50.0, 80.0
        builder.add_tetrahedron(0, 1, 2, 3, mu, lame, damping)
        builder.tet_activations[:] = [activation]
    return builder


def forces(model: newtonsim.Model, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Forces at a state: what a step of 1 s adds to the velocities of particles of 1 kg."""
    state, end = model.state(), model.state()
    state.particle_q.assign(x.astype(np.float32))
    state.particle_qd.assign(v.astype(np.float32))
    SemiImplicitSolver(model).step(model, state, end, None, None, 1.0)
    return end.particle_qd.numpy().astype(np.float64) - v.astype(np.float32)


def gradient(model: newtonsim.Model, shift: np.ndarray) -> np.ndarray:
    """Deformation gradient of the only tetrahedron, or triangle, at rest positions plus a shift (float64)."""
    rest = model.particle_q.numpy().astype(np.float64)
    x = rest + shift
    edges, rest_edges = (x[1:] - x[0]).T, (rest[1:] - rest[0]).T
    if rest_edges.shape[1] == 2:
        normal = np.cross(rest_edges[:, 0], rest_edges[:, 1])
        frame = np.stack([rest_edges[:, 0], np.cross(normal, rest_edges[:, 0])], axis=1)
        frame /= np.linalg.norm(frame, axis=0)
        rest_edges = frame.T @ rest_edges
    return edges @ np.linalg.inv(rest_edges)


def energy(kind: str, model: newtonsim.Model, shift: np.ndarray, activation: float) -> float:
    """Energy of the only element."""
    rest = model.particle_q.numpy().astype(np.float64)
    x = rest + shift
    if kind == "spring":
        length = np.linalg.norm(rest[1] - rest[0]) * (1.0 - activation)
        return 15.0 * (np.linalg.norm(x[1] - x[0]) - length) ** 2
    if kind == "edge":
        # the edge (0, 3, 1, 2)
        angle, angle0 = (dihedral_angles(*(p[i][None] for i in (0, 3, 1, 2)))[0] for p in (x, rest))
        return 1.0 * np.linalg.norm(rest[2] - rest[1]) * (angle - angle0) ** 2
    F = gradient(model, shift)
    if kind == "triangle":
        G = 0.5 * (F.T @ F - np.eye(2))
        area = 0.5 * np.linalg.norm(np.cross(rest[1] - rest[0], rest[2] - rest[0]))
        return area * (40.0 * np.sum(G * G) + 12.5 * (np.trace(G) - activation) ** 2)
    J = np.linalg.det(F)
    volume = np.linalg.det((rest[1:] - rest[0]).T) / 6.0
    mu, lame = 50.0, 80.0
    shear = 0.5 * mu * (np.sum(F * F) - 3.0) - mu * (J - 1.0)
    return volume * (shear + 0.5 * (lame + mu) * (J - 1.0 - activation) ** 2)


@pytest.mark.parametrize("kind", ["spring", "triangle", "edge", "tetrahedron"])
@pytest.mark.parametrize("activation", [0.0, 0.2])
def test_force_is_the_slope_of_the_energy(kind, activation, device):
    model = single(kind, activation, 0.0).finalize(device)
    rest = model.particle_q.numpy().astype(np.float64)
    for seed in range(4):
        shift = np.random.default_rng(seed).uniform(-0.4, 0.4, rest.shape)
        slope = np.zeros_like(shift)
        for entry in np.ndindex(shift.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = shift.copy()
                moved[entry] += sign * 1.0e-6
                ends.append(energy(kind, model, moved, activation))
            slope[entry] = (ends[0] - ends[1]) / 2.0e-6
        found = forces(model, rest + shift, np.zeros_like(rest))
        np.testing.assert_allclose(found, -slope, atol=2.0e-5 * np.abs(slope).max() + 1.0e-6)


def test_border_edges_bend_nothing(device):
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    for p in corners(3, 0, 0.0):
        builder.add_particle(p, (0.0, 0.0, 0.0), 1.0)
    builder.add_edge(0, -1, 1, 2, 0.5, 10.0, 1.0)
    model = builder.finalize(device)
    assert np.all(forces(model, corners(3, 1, 0.3), corners(3, 2, 1.0)) == 0.0)


@pytest.mark.parametrize("kind", ["spring", "triangle", "edge", "tetrahedron"])
def test_damping_takes_the_power_of_its_rate(kind, device):
    damping = 0.3
    model = single(kind, 0.0, damping).finalize(device)
    rest = model.particle_q.numpy().astype(np.float64)
    elastic = np.zeros_like(rest)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shift, v = rng.uniform(-0.2, 0.2, rest.shape), rng.uniform(-1.0, 1.0, rest.shape)
        x = rest + shift
        if kind == "tetrahedron":
            # its damping is in seconds, so the elastic part stays
            elastic = forces(model, x, np.zeros_like(v))
        power = np.sum((forces(model, x, v) - elastic) * v)
        assert power == pytest.approx(-dissipation(kind, model, shift, v, damping), rel=1.0e-4)
        spin = np.cross((0.3, -0.5, 0.8), x) + np.array([[1.0, 2.0, 3.0]])
        turned = forces(model, x, spin) - elastic
        assert np.abs(turned).max() < 2.0e-4 * np.abs(forces(model, x, v) - elastic).max()


def dissipation(kind: str, model: newtonsim.Model, shift: np.ndarray, v: np.ndarray, damping: float) -> float:
    """Power that the only element takes out [W]."""
    rest = model.particle_q.numpy().astype(np.float64)
    x = rest + shift
    if kind == "spring":
        n = (x[1] - x[0]) / np.linalg.norm(x[1] - x[0])
        return damping * np.dot(n, v[1] - v[0]) ** 2
    h = 1.0e-6
    if kind == "edge":
        angles = [dihedral_angles(*((x + s * h * v)[i][None] for i in (0, 3, 1, 2)))[0] for s in (1.0, -1.0)]
        return damping * np.linalg.norm(rest[2] - rest[1]) * ((angles[0] - angles[1]) / (2.0 * h)) ** 2
    F = gradient(model, shift)
    rate = (gradient(model, shift + h * v) - gradient(model, shift - h * v)) / (2.0 * h)
    if kind == "triangle":
        strain = 0.5 * (rate.T @ F + F.T @ rate)
        area = 0.5 * np.linalg.norm(np.cross(rest[1] - rest[0], rest[2] - rest[0]))
        return damping * area * np.sum(strain * strain)
    J = np.linalg.det(F)
    volume = np.linalg.det((rest[1:] - rest[0]).T) / 6.0
    D = rate @ np.linalg.inv(F)
    D = 0.5 * (D + D.T)
    return damping * volume * J * (2.0 * 50.0 * np.sum(D * D) + 80.0 * np.trace(D) ** 2)


def test_momentum_of_free_elements_stays(device):
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    builder.add_soft_grid(
        pos=wp.vec3(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=wp.vec3(0.0, 0.0, 0.0), dim_x=2, dim_y=2,
        dim_z=2, cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1.0e3, k_mu=2.0e4, k_lambda=3.0e4, k_damp=1.0e-3,
    )  # fmt: skip
    builder.add_cloth_grid(
        pos=wp.vec3(1.0, 0.0, 0.0), rot=wp.quat_identity(), vel=wp.vec3(0.0, 0.0, 0.0), dim_x=3, dim_y=3,
        cell_x=0.1, cell_y=0.1, mass=0.1, tri_ke=500.0, tri_ka=500.0, tri_kd=0.5, edge_ke=1.0, edge_kd=0.01,
        add_springs=True, spring_ke=200.0, spring_kd=0.1,
    )  # fmt: skip
    builder.particle_radius[:] = [0.0] * builder.particle_count
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0 / 4000.0)
    rng = np.random.default_rng(0)
    start = rng.uniform(-1.0, 1.0, (model.particle_count, 3)).astype(np.float32)
    simulator.state.particle_qd.assign(start)
    mass = model.particle_mass.numpy().astype(np.float64)[:, None]

    def momenta() -> np.ndarray:
        x = simulator.state.particle_q.numpy().astype(np.float64)
        p = mass * simulator.state.particle_qd.numpy()
        return np.concatenate([p.sum(axis=0), np.cross(x, p).sum(axis=0)])

    before, size = momenta(), np.abs(mass * start).sum()
    simulator.step(400)
    assert np.abs(simulator.state.particle_qd.numpy() - start).max() > 0.1
    assert np.abs(momenta() - before).max() < 1.0e-5 * size


def oscillate(device: str, dt: float, periods: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities of 1 kg on a spring of (2π)² N/m, which swings once a second."""
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    builder.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0)
    builder.add_particle((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0)
    builder.add_spring(0, 1, (2.0 * np.pi) ** 2, 0.0, 0.0)
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=dt)
    # half a step of the force: velocities are those between the positions
    omega = 2.0 * np.pi
    simulator.state.particle_q.assign([[0.0, 0.0, 0.0], [1.1, 0.0, 0.0]])
    simulator.state.particle_qd.assign([[0.0, 0.0, 0.0], [0.5 * dt * omega * omega * 0.1, 0.0, 0.0]])
    x, v = [], []
    for _ in range(round(periods / dt)):
        simulator.step()
        x.append(simulator.state.particle_q.numpy()[1, 0] - 1.0)
        v.append(simulator.state.particle_qd.numpy()[1, 0])
    return np.array(x), np.array(v)


def test_undamped_spring_keeps_its_energy_and_errs_by_the_square_of_the_step(device):
    errors = []
    for steps in (32, 64):
        dt = 1.0 / steps
        x, v = oscillate(device, dt, 20)
        t = dt * (1.0 + np.arange(len(x)))
        errors.append(np.abs(x[-steps:] - 0.1 * np.cos(2.0 * np.pi * t[-steps:])).max())
        # velocity in the middle between the two next to a position
        middle = 0.5 * (v[1:] + v[:-1])
        energy = 0.5 * middle**2 + 0.5 * (2.0 * np.pi * x[:-1]) ** 2
        first, last = energy[:steps].mean(), energy[-steps:].mean()
        assert last == pytest.approx(first, rel=1.0e-4)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def plate(lift: float, drag: float, device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for p in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
        builder.add_particle(p, (0.0, 0.0, 0.0), 0.1)
    builder.add_triangle(0, 1, 2, 1000.0, 1000.0, 1.0, drag, lift)
    return builder.finalize(device)


def test_terminal_velocity(device):
    drag = 0.7
    model = plate(0.0, drag, device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0e-3)
    simulator.step(4000)
    speed = np.sqrt(0.3 * GRAVITY / (drag * 0.5))
    np.testing.assert_allclose(simulator.state.particle_qd.numpy(), [[0.0, 0.0, -speed]] * 3, atol=2.0e-3)


def test_drag_and_lift_of_a_slanting_plate(device):
    drag, lift = 0.7, 0.9
    for seed in range(3):
        model = plate(lift, drag, device)
        v = np.random.default_rng(seed).uniform(-3.0, 3.0, 3)
        state, end = model.state(), model.state()
        state.particle_qd.assign(np.tile(v, (3, 1)).astype(np.float32))
        model.gravity = (0.0, 0.0, 0.0)
        SemiImplicitSolver(model).step(model, state, end, None, None, 0.1)
        force = (end.particle_qd.numpy().astype(np.float64) - v).sum(axis=0) * 0.1 / 0.1
        speed, n = np.linalg.norm(v), np.array([0.0, 0.0, 1.0])
        across = n - v * (n @ v) / speed**2
        expected = -drag * 0.5 * abs(n @ v) * v - lift * 0.5 * speed * (n @ v) * across
        np.testing.assert_allclose(force, expected, rtol=1.0e-4, atol=1.0e-4)
        assert across @ v == pytest.approx(0.0, abs=1.0e-9)
        # nothing but drag takes energy
        assert force @ v == pytest.approx(-drag * 0.5 * abs(n @ v) * speed**2, rel=1.0e-3)


def test_control_contracts(device):
    """Activations of Control count, not those of the model."""
    model = single("tetrahedron", 0.0, 0.0).finalize(device)
    state, end, control = model.state(), model.state(), model.control()
    control.tet_activations.fill_(0.1)
    SemiImplicitSolver(model).step(model, state, end, control, None, 1.0e-2)
    v = end.particle_qd.numpy()
    centre = state.particle_q.numpy().mean(axis=0)
    assert np.all(np.sum(v * (state.particle_q.numpy() - centre), axis=1) > 0.0)

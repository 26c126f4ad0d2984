"""Particles under XPBD: the reference's example and springs with known physics."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelBuilder, Simulator, XPBDSolver

G = 9.81


def test_example_of_the_reference_runs():
    builder = newtonsim.ModelBuilder()

    # anchor point (zero mass)
    builder.add_particle((0, 1.0, 0.0), (0.0, 0.0, 0.0), 0.0)

    # build chain
    for i in range(1, 10):
        builder.add_particle((i, 1.0, 0.0), (0.0, 0.0, 0.0), 1.0)
        builder.add_spring(i - 1, i, 1.0e3, 0.0, 0)

    # create model
    model = builder.finalize("cpu")

    state = model.state()
    control = model.control()
    contact = model.contact()
    integrator = newtonsim.XPBDSolver()

    for _ in range(100):
        state.clear_forces()
        integrator.simulate(model, state, state, control, contact, dt=1.0 / 60.0)

    x = state.particle_q.numpy()
    np.testing.assert_array_equal(x[0], (0, 1, 0))
    assert np.all(np.isfinite(x))
    assert x[9, 1] < -5.0  # the free end has swung down
    np.testing.assert_allclose(x[:, 2], 0.0, atol=1e-6)  # in the plane in which it started


def hanging_chain(count: int = 5, ke: float = 1.0e3, kd: float = 5.0) -> ModelBuilder:
    builder = ModelBuilder()
    builder.add_particle((0, 0, 0), (0, 0, 0), 0.0)
    for i in range(1, count + 1):
        builder.add_particle((0, -i, 0), (0, 0, 0), 1.0)
        builder.add_spring(i - 1, i, ke, kd, 0.0)
    return builder


def test_hanging_chain_stretches_by_the_weight_below(device):
    """Spring k carries the mass below it: extension = m g / ke (Hooke)."""
    model = hanging_chain().finalize(device)
    solver = XPBDSolver(model, iterations=40, soft_body_relaxation=1.0)
    simulator = Simulator(model, solver, 1.0 / 120.0)
    simulator.step(1200)
    extension = -np.diff(simulator.state.particle_q.numpy()[:, 1]) - 1.0
    np.testing.assert_allclose(extension, G * np.arange(5, 0, -1) / 1.0e3, rtol=2e-3)


def test_oscillator_has_the_period_of_its_stiffness():
    """T = 2π √(m/k); the stretch, started from rest at the anchor, swings about m g / k."""
    stiffness = 100.0
    model = hanging_chain(1, stiffness, 0.0).finalize("cpu")
    dt, heights = 1.0e-4, []
    simulator = Simulator(model, XPBDSolver(model, iterations=4, soft_body_relaxation=1.0), dt)
    for _ in range(7000):
        simulator.step()
        heights.append(simulator.state.particle_q.numpy()[1, 1])
    mean = -1.0 - G / stiffness
    crossings = np.flatnonzero(np.diff(np.sign(np.array(heights) - mean)))
    half_period = np.diff(crossings).mean() * dt
    # implicit Euler lengthens the period by (ω h)²/2, here 1e-6; the crossings are counted to 1e-4
    assert half_period == pytest.approx(np.pi * np.sqrt(1.0 / stiffness), rel=1e-3)


def test_free_particle_falls():
    builder = ModelBuilder()
    builder.add_particle((0, 10, 0), (1, 0, 0), 1.0)
    model = builder.finalize("cpu")
    state, n, dt = model.state(), 100, 0.01
    solver = XPBDSolver(model)
    for _ in range(n):
        solver.step(model, state, state, None, None, dt)
    # semi-implicit Euler: exact sum of the discrete steps
    np.testing.assert_allclose(
        state.particle_q.numpy()[0], (1.0, 10.0 - G * dt * dt * n * (n + 1) / 2, 0.0), rtol=1e-5
    )
    np.testing.assert_allclose(state.particle_qd.numpy()[0], (1.0, -G, 0.0), rtol=1e-5)


def test_external_force_acts():
    builder = ModelBuilder(gravity=0.0)
    builder.add_particle((0, 0, 0), (0, 0, 0), 2.0)
    model = builder.finalize("cpu")
    before, after = model.state(), model.state()
    before.particle_f.assign([(4.0, 0.0, 0.0)])
    XPBDSolver(model).step(model, before, after, None, None, 0.1)
    np.testing.assert_allclose(after.particle_qd.numpy()[0], (0.2, 0, 0), rtol=1e-5)
    np.testing.assert_array_equal(before.particle_q.numpy()[0], (0, 0, 0))


def test_particle_rests_on_the_ground_and_friction_stops_it():
    builder = ModelBuilder()
    builder.add_particle((0, 0.5, 0), (2, 0, 0), 1.0, radius=0.2)
    builder.set_ground_plane(offset=0.1)
    model = builder.finalize("cpu")
    model.soft_contact_mu = 0.5
    state = model.state()
    solver = XPBDSolver(model, iterations=4, soft_contact_relaxation=1.0)
    for _ in range(300):
        solver.step(model, state, state, None, None, 1.0 / 120.0)
    x, v = state.particle_q.numpy()[0], state.particle_qd.numpy()[0]
    assert x[1] == pytest.approx(0.3, abs=1e-3)
    np.testing.assert_allclose(v, 0.0, atol=1e-3)
    # slides v²/(2 μ g) after a landing that takes some of its speed
    assert 0.3 < x[0] < 2.0**2 / (2 * 0.5 * G) + 2.0 * 0.21 + 0.05


def test_spring_forces_cancel():
    """Momentum of a free net of springs stays what it was, angular momentum up to the order of the step."""
    builder = ModelBuilder(gravity=0.0)
    rng = np.random.default_rng(2)
    masses = rng.uniform(0.5, 2.0, 8)
    for m in masses:
        builder.add_particle(rng.normal(size=3), rng.normal(size=3), m)
    for i in range(8):
        for j in range(i):
            builder.add_spring(i, j, 50.0, 0.1, 0.0)
    model = builder.finalize("cpu")
    state = model.state()
    solver = XPBDSolver(model, iterations=6)

    def momenta():
        x, v = state.particle_q.numpy().astype(float), state.particle_qd.numpy().astype(float)
        return masses @ v, np.sum(masses[:, None] * np.cross(x, v), axis=0)

    linear, angular = momenta()
    for _ in range(200):
        solver.step(model, state, state, None, None, 0.001)
    after = momenta()
    np.testing.assert_allclose(after[0], linear, atol=1e-4)
    np.testing.assert_allclose(after[1], angular, atol=0.02)


def test_corrections_move_particles_and_change_velocities():
    model = hanging_chain(1).finalize("cpu")
    before, after = model.state(), model.state()
    before.particle_qd.fill_(1.0)
    deltas = wp.array([(0, 1, 0), (0.5, 0, 0)], dtype=wp.vec3, device="cpu")
    XPBDSolver(model).apply_particle_deltas(model, before, after, deltas, 0.1)
    np.testing.assert_allclose(after.particle_q.numpy(), [(0, 0, 0), (0.5, -1, 0)])
    np.testing.assert_allclose(after.particle_qd.numpy(), [(1, 1, 1), (6, 1, 1)], rtol=1e-5)


def test_options_out_of_range_are_named():
    chain = hanging_chain().finalize("cpu")
    for name, value in (("iterations", 0), ("substeps", 0), ("soft_body_relaxation", 2.0)):
        with pytest.raises(ValueError, match=name):
            XPBDSolver(chain, **{name: value})
    with pytest.raises(ValueError, match="dt"):
        XPBDSolver(chain).step(chain, chain.state(), chain.state(), None, None, 0.0)
    with pytest.raises(ValueError, match="without a model"):
        _ = XPBDSolver().particles


def test_a_tape_wants_a_model_with_gradients_and_states_with_gradients_step_as_others():
    chain = hanging_chain().finalize("cpu")
    plain, traced = chain.state(), chain.state(requires_grad=True)
    for state in (plain, traced):
        solver = XPBDSolver(chain)
        for _ in range(5):
            solver.step(chain, state, state, None, None, 0.01)
    np.testing.assert_array_equal(plain.particle_q.numpy(), traced.particle_q.numpy())
    with wp.Tape(), pytest.raises(ValueError, match="must differ"):
        XPBDSolver(chain).step(chain, traced, traced, None, None, 0.1)
    with wp.Tape(), pytest.raises(ValueError, match="requires_grad=True"):
        XPBDSolver(chain).step(chain, traced, chain.state(), None, None, 0.1)


def test_corrections_move_bodies_and_change_velocities():
    """A push p moves by p / m, a twist t turns by I⁻¹ t; both over dt are velocities."""
    builder = ModelBuilder(gravity=0.0)
    body = builder.add_body()
    builder.add_shape_sphere(body, radius=0.5)
    model = builder.finalize("cpu")
    mass, inertia = float(model.body_mass.numpy()[0]), float(model.body_inertia.numpy()[0, 0, 0])
    before, after = model.state(), model.state()
    push = wp.array([(0.0, 0.0, 0.1 * inertia, mass, 0.0, 0.0)], dtype=wp.spatial_vector, device="cpu")
    halved = wp.array([2.0], dtype=float, device="cpu")
    for divisor, factor in ((None, 1.0), (halved, 0.5)):
        XPBDSolver().apply_body_deltas(model, before, after, push, 0.5, divisor)
        turn = 0.1 * factor
        expected = (factor, 0, 0, 0, 0, np.sin(turn / 2), np.cos(turn / 2))
        np.testing.assert_allclose(after.body_q.numpy()[0], expected, atol=1e-6)
        velocity = np.array((0, 0, turn, factor, 0, 0)) / 0.5
        np.testing.assert_allclose(after.body_qd.numpy()[0], velocity, atol=1e-6)

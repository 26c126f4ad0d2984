"""Motion of springs, cloth and soft bodies under XPBD: momentum, energy, damping, worlds, and who
may not move.
"""

import warnings

import numpy as np
import pytest

import newtonsim
from newtonsim import ModelBuilder, SemiImplicitSolver, XPBDSolver

ZERO = (0.0, 0.0, 0.0)


def jelly(builder: ModelBuilder, place: tuple = ZERO, stiffness: float = 1.0) -> None:
    """A strip of cloth, a soft box and a rope, not connected, with all kinds of elements and damping."""
    builder.default_particle_radius = 0.01
    turn = (0.18257419, 0.36514837, 0.54772256, 0.73029674)
    cloth = dict(tri_ke=60.0 * stiffness, tri_ka=40.0 * stiffness, tri_kd=0.2, tri_drag=0.0, tri_lift=0.0)
    x, y, z = place
    bend = dict(edge_ke=0.02 * stiffness, edge_kd=1e-3)
    builder.add_cloth_grid((x, y, z), turn, ZERO, 3, 2, 0.1, 0.1, 0.02, **cloth, **bend)
    skin = dict(tri_ke=0.0, tri_ka=0.0, tri_kd=0.0, tri_drag=0.0, tri_lift=0.0)
    lame = (4.0e3 * stiffness, 6.0e3 * stiffness, 0.01)
    builder.add_soft_grid((x, y + 1.0, z), turn, ZERO, 2, 1, 1, 0.1, 0.1, 0.1, 500.0, *lame, **skin)
    points = np.array([(x + 0.1 * k, y + 2.0, z) for k in range(4)])
    builder.add_rope(points, ZERO, 0.5, 20.0 * stiffness, 0.05)


def stirred(model: newtonsim.Model, seed: int = 3, speed: float = 0.3) -> newtonsim.State:
    """A state in which every particle that can moves at random."""
    state = model.state()
    noise = np.random.default_rng(seed).normal(size=(model.particle_count, 3)) * speed
    state.particle_qd.assign(noise * (model.particle_mass.numpy() > 0.0)[:, None])
    return state


def solver(model: newtonsim.Model, **options: object) -> XPBDSolver:
    return XPBDSolver(model, **dict(iterations=8, particle_contact=False) | options)


def test_elements_change_no_momentum(device: str):
    """Linear momentum stays to 1e-5 of what moves about, angular momentum to 1e-3 at a step of 0.2 ms:
    implicit Euler takes from it with the step."""
    builder = ModelBuilder(gravity=0.0)
    jelly(builder)
    model = builder.finalize(device)
    state = stirred(model)
    mass = model.particle_mass.numpy().astype(float)
    bodies = [range(12), range(12, 24), range(24, 28)]

    centers = [state.particle_q.numpy()[list(b)].mean(axis=0).astype(float) for b in bodies]

    def momenta() -> tuple[np.ndarray, np.ndarray]:
        x, v = state.particle_q.numpy().astype(float), state.particle_qd.numpy().astype(float)
        p = mass[:, None] * v
        of = [np.cross(x[list(b)] - c, p[list(b)]).sum(axis=0) for b, c in zip(bodies, centers)]
        return np.array([p[list(b)].sum(axis=0) for b in bodies]), np.array(of)

    linear, angular = momenta()
    stepper = solver(model)
    for _ in range(500):
        stepper.step(model, state, state, None, None, 2.0e-4)
    after = momenta()
    assert np.abs(after[0] - linear).max() < 1e-5 * np.sum(mass * 0.5)
    assert np.abs(after[1] - angular).max() < 1e-3 * np.abs(angular).max()


def test_damping_and_stiffness_agree_with_the_explicit_solver(device: str):
    """XPBD converged at a small step and symplectic Euler follow the same path: 1 % of the motion."""
    builder = ModelBuilder(gravity=0.0)
    jelly(builder)
    model = builder.finalize(device)
    states = [stirred(model), stirred(model)]
    start = states[0].particle_q.numpy().astype(float)
    solvers = [solver(model, iterations=30, soft_body_relaxation=1.0), SemiImplicitSolver(model)]
    for state, stepper in zip(states, solvers):
        out = model.state()
        for _ in range(200):
            stepper.step(model, state, out, None, None, 1.0e-4)
            state, out = out, state
    ends = [s.particle_q.numpy().astype(float) for s in states]
    moved = np.abs(ends[1] - start).max()
    assert moved > 0.003
    assert np.abs(ends[0] - ends[1]).max() < 0.01 * moved


@pytest.mark.parametrize(("substeps", "lost"), [(1, 0.12), (10, 0.02)])
def test_energy_of_a_swinging_spring_pendulum(device: str, substeps: int, lost: float):
    """A weight on a stiff spring swings from 60°: the energy lost in a swing at 1/240 s, by substeps."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_particle(ZERO, ZERO, 0.0)
    builder.add_particle((np.sin(np.pi / 3), 0.0, -0.5), ZERO, 1.0)
    builder.add_spring(0, 1, 1.0e5, 0.0, 0.0)
    model = builder.finalize(device)
    sim = newtonsim.Simulator(model, solver(model, iterations=10, substeps=substeps), 1.0 / 240.0)
    heights = []
    for _ in range(1000):
        sim.step()
        x, v = sim.state.particle_q.numpy()[1], sim.state.particle_qd.numpy()[1]
        heights.append(1.0 + x[2] + 0.5 * float(v @ v) / 9.81)
    start, end = 0.5, heights[-1]
    swings = 1000 / 240.0 / 1.07  # half a period of 60° at 1 m: 1.07 s
    assert 0.0 < 1.0 - (end / start) ** (1.0 / swings) < lost


def test_gravity_is_that_of_the_whole_step_whatever_the_substeps(device: str):
    for substeps in (1, 4):
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        builder.add_particle((0.0, 0.0, 5.0), (1.0, 0.0, 0.0), 1.0)
        model = builder.finalize(device)
        state = model.state()
        stepper = solver(model, substeps=substeps)
        for _ in range(50):
            stepper.step(model, state, state, None, None, 0.01)
        fallen = 0.5 * 9.81 * 0.5 * (0.5 + 0.01 / substeps)
        np.testing.assert_allclose(state.particle_qd.numpy()[0], (1.0, 0.0, -9.81 * 0.5), rtol=1e-5)
        np.testing.assert_allclose(state.particle_q.numpy()[0], (0.5, 0.0, 5.0 - fallen), rtol=1e-5)


def test_a_falling_sheet_reaches_the_speed_at_which_drag_carries_it(device: str):
    """drag A v² = m g."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    cloth = dict(
        tri_ke=100.0, tri_ka=100.0, tri_kd=0.5, tri_drag=1.5, tri_lift=0.0, edge_ke=0.05, edge_kd=0.01
    )
    builder.add_cloth_grid(ZERO, (0.0, 0.0, 0.0, 1.0), ZERO, 3, 3, 0.1, 0.1, 0.002, **cloth)
    model = builder.finalize(device)
    sim = newtonsim.Simulator(model, solver(model), 1.0 / 200.0)
    sim.step(400)
    v = sim.state.particle_qd.numpy().mean(axis=0)
    assert -v[2] == pytest.approx(np.sqrt(16 * 0.002 * 9.81 / (1.5 * 0.09)), rel=0.02)


def many(worlds: int, device: str) -> newtonsim.Model:
    builder, world = ModelBuilder(), ModelBuilder()
    jelly(world)
    for _ in range(worlds):
        builder.add_builder(world, separate_collision_group=False)
    return builder.finalize(device)


@pytest.mark.parametrize("warm_start", [0.0, 0.5])
def test_a_batch_is_its_worlds_bit_for_bit(device: str, warm_start: float):
    """Three worlds with motions of their own, shared out to two threads, and each of them alone."""
    model, single = many(3, device), many(1, device)
    size = single.particle_count
    noise = np.random.default_rng(5).normal(size=(3, size, 3)).astype(np.float32)
    sim = newtonsim.Simulator(model, solver(model, warm_start=warm_start), 1.0 / 120.0, threads=2)
    sim.state.particle_qd.assign(noise.reshape(-1, 3))
    sim.step(20)
    whole = sim.state.particle_q.numpy().reshape(3, size, 3)
    for k in range(3):
        state, stepper = single.state(), solver(single, warm_start=warm_start)
        state.particle_qd.assign(noise[k])
        for _ in range(20):
            stepper.step(single, state, state, None, None, 1.0 / 120.0)
        np.testing.assert_array_equal(whole[k], state.particle_q.numpy())


def test_a_world_that_is_reset_begins_anew(device: str):
    """With forces of the last step as a start, a reset world repeats its first run, and the others go
    on.
    """
    model = many(2, device)
    sim = newtonsim.Simulator(model, solver(model, warm_start=0.8), 1.0 / 120.0)
    size = model.particle_count // 2
    start = sim.state.clone()
    start.particle_qd.assign(np.random.default_rng(1).normal(size=(2 * size, 3)) * 0.3)
    sim.reset(state=start)
    sim.step(15)
    first = sim.state.particle_q.numpy().copy()
    sim.reset(np.array([False, True]), start)
    sim.step(15)
    again = sim.state.particle_q.numpy().copy()
    np.testing.assert_array_equal(again[size:], first[size:])
    sim.reset(state=start)
    sim.step(30)
    np.testing.assert_array_equal(sim.state.particle_q.numpy()[:size], again[:size])


def test_states_with_gradients_and_other_outputs_step_the_same(device: str):
    model = many(1, device)
    ends = []
    for requires_grad, in_place in ((False, True), (True, True), (False, False)):
        state, stepper = stirred(model), solver(model)
        if requires_grad:
            traced = model.state(requires_grad=True)
            traced.particle_qd.assign(state.particle_qd.numpy())
            state = traced
        other = state if in_place else model.state()
        for _ in range(10):
            stepper.step(model, state, other, None, None, 0.01)
            state, other = other, state
        ends.append(state.particle_q.numpy().copy())
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_a_world_that_is_no_number_stays_alone(device: str):
    model = many(2, device)
    states = [stirred(model), stirred(model)]
    bad = states[1].particle_q.numpy()
    bad[model.particle_count // 2 + 3] = np.nan
    states[1].particle_q.assign(bad)
    for state in states:
        stepper = solver(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(5):
                stepper.step(model, state, state, None, None, 0.01)
            stepper.report()
    assert [str(w.message)[:44] for w in caught] == ["1 of 2 worlds have become non-finite (NaN or"]
    np.testing.assert_array_equal(stepper.world_nonfinite.numpy(), [False, True])
    half = model.particle_count // 2
    np.testing.assert_array_equal(states[0].particle_q.numpy()[:half], states[1].particle_q.numpy()[:half])


def test_held_particles_are_where_the_user_puts_them(device: str):
    """Without the active flag a particle keeps its place and what was written as its velocity, and
    pulls.
    """
    builder = ModelBuilder(gravity=0.0)
    builder.add_rope(np.array([(0.1 * k, 0.0, 0.0) for k in range(3)]), ZERO, 1.0, 50.0)
    model = builder.finalize(device)
    model.particle_flags.assign(np.array([0, 1, 1], np.uint32))
    state, stepper = model.state(), solver(model)
    state.particle_qd.assign([(0.5, 0.0, 0.0), ZERO, ZERO])
    for k in range(40):
        x = state.particle_q.numpy()
        x[0] = (-0.005 * (k + 1), 0.0, 0.0)
        state.particle_q.assign(x)
        stepper.step(model, state, state, None, None, 0.01)
    x = state.particle_q.numpy()
    np.testing.assert_allclose(x[0], (-0.2, 0.0, 0.0), atol=1e-7)
    np.testing.assert_array_equal(state.particle_qd.numpy()[0], (0.5, 0.0, 0.0))
    assert x[1, 0] < 0.0
    assert x[2, 0] < 0.15


def test_speeds_are_cut_off(device: str):
    builder = ModelBuilder(gravity=0.0)
    builder.add_particle(ZERO, (100.0, 0.0, 0.0), 1.0)
    model = builder.finalize(device)
    model.particle_max_velocity = 3.0
    state = model.state()
    solver(model).step(model, state, state, None, None, 0.5)
    np.testing.assert_allclose(state.particle_q.numpy()[0], (1.5, 0.0, 0.0), rtol=1e-6)
    np.testing.assert_allclose(state.particle_qd.numpy()[0], (3.0, 0.0, 0.0), rtol=1e-6)


@pytest.mark.parametrize("stiffness", [1.0, 100.0])
def test_any_step_is_stable(device: str, stiffness: float):
    """Stirred at 2 m/s with steps of 1/30 s and few sweeps, nothing explodes, whatever the stiffness."""
    builder = ModelBuilder(gravity=0.0)
    jelly(builder, stiffness=stiffness)
    model = builder.finalize(device)
    sim = newtonsim.Simulator(model, solver(model, iterations=4), 1.0 / 30.0)
    sim.state.particle_qd.assign(stirred(model, speed=2.0).particle_qd.numpy())
    sim.step(300)
    v = sim.state.particle_qd.numpy()
    assert np.all(np.isfinite(v))
    assert np.abs(v).max() < 10.0

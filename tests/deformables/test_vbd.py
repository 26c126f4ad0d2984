"""VBDSolver: what a step minimises, elements against theory, and the solver among its peers."""

import numpy as np
import pytest
import warp as wp
from oracles.elastic_energy import energy, gradient
from scipy.optimize import minimize

import newtonsim
from newtonsim.errors import NotDifferentiableError
from newtonsim.solvers import SemiImplicitSolver, VBDSolver

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
FLAT = (np.sin(np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4))
AT_REST = (0.0, 0.0, 0.0)
NO_CLOTH = {"tri_ke": 0.0, "tri_ka": 0.0, "tri_kd": 0.0, "edge_ke": 0.0, "edge_kd": 0.0}


def cloth(cells: int = 3, gravity: float = 0.0, **options) -> newtonsim.ModelBuilder:
    """A square cloth of 0.1 m cells."""
    builder = newtonsim.ModelBuilder(gravity=gravity)
    options = NO_CLOTH | options
    builder.add_cloth_grid((0.0, 0.0, 0.0), FLAT, AT_REST, cells, cells, 0.1, 0.1, 0.01, **options)
    return builder


def block(cells=(2, 2, 2), size: float = 0.1, gravity: float = 0.0, **options) -> newtonsim.ModelBuilder:
    """A soft block of 1000 kg/m³."""
    builder = newtonsim.ModelBuilder(gravity=gravity)
    options = {
        "k_mu": 1e3,
        "k_lambda": 2e3,
        "k_damp": 0.0,
        "tri_ke": 0.0,
        "tri_ka": 0.0,
        "tri_kd": 0.0,
    } | options
    sizes = (size, size, size)
    builder.add_soft_grid((0.0, 0.0, 0.0), UPRIGHT, AT_REST, *cells, *sizes, 1000.0, **options)
    return builder


MATERIALS = {
    "springs": lambda: cloth(add_springs=True, spring_ke=100.0, spring_kd=0.0),
    "damped springs": lambda: cloth(add_springs=True, spring_ke=100.0, spring_kd=1.0),
    "triangles": lambda: cloth(tri_ke=100.0, tri_ka=50.0),
    "damped triangles": lambda: cloth(tri_ke=100.0, tri_ka=50.0, tri_kd=1.0),
    "edges": lambda: cloth(tri_ke=10.0, tri_ka=10.0, edge_ke=0.1),
    "damped edges": lambda: cloth(tri_ke=10.0, tri_ka=10.0, edge_ke=0.1, edge_kd=0.01),
    "tetrahedra": lambda: block(),
    "damped tetrahedra": lambda: block(k_damp=0.05),
}


@pytest.mark.parametrize("activation", [0.0, 0.2])
@pytest.mark.parametrize("material", MATERIALS)
def test_a_step_is_one_of_implicit_euler(device, material, activation):
    """Its end is where the gradient of inertia and energy, by differences in float64, is zero."""
    model = MATERIALS[material]().finalize(device=device)
    for array in (model.spring_control, model.tri_activations, model.tet_activations):
        if array is not None and len(array):
            array.fill_(activation)
    rng, dt = np.random.default_rng(4), 0.01
    state = model.state()
    x = model.particle_q.numpy() + rng.normal(0.0, 0.01, (model.particle_count, 3)).astype(np.float32)
    v = rng.normal(0.0, 1.0, x.shape).astype(np.float32)
    state.particle_q.assign(x)
    state.particle_qd.assign(v)
    VBDSolver(model, iterations=300).step(model, state, state, None, None, dt)
    mass = model.particle_mass.numpy()[:, None]
    goal = x + dt * v.astype(np.float64)

    def objective(y: np.ndarray) -> float:
        return energy(model, y, x, dt) + 0.5 * float(np.sum(mass * (y - goal) ** 2)) / dt**2

    left = gradient(objective, state.particle_q.numpy().astype(np.float64))
    at_start = gradient(objective, goal)
    assert np.abs(left).max() < 2e-4 * np.abs(at_start).max()


def test_sweeps_never_raise_the_objective(device):
    """With over-relaxation, the sum of inertia and energy falls from sweep to sweep."""
    model = block((6, 2, 2), gravity=-9.81, k_mu=1e5, k_lambda=1e5, fix_left=True).finalize(device=device)
    dt, x = 1.0 / 60.0, model.particle_q.numpy().astype(np.float64)
    mass = model.particle_mass.numpy()[:, None]
    goal = x + np.array([0.0, -9.81, 0.0]) * dt**2 * (mass > 0.0)
    values = []
    for sweeps in range(3, 40, 4):
        state = model.state()
        VBDSolver(model, iterations=sweeps).step(model, state, state, None, None, dt)
        y = state.particle_q.numpy().astype(np.float64)
        values.append(energy(model, y, x, dt) + 0.5 * np.sum(mass * (y - goal) ** 2) / dt**2)
    assert np.all(np.diff(values) < 1e-6 * abs(values[0]))


def settled(model: newtonsim.Model, steps: int, dt: float, force=None, **options) -> np.ndarray:
    """Positions after steps that start at rest each, which lead to where forces balance."""
    solver, state = VBDSolver(model, **options), model.state()
    if force is not None:
        state.particle_f.assign(force.astype(np.float32))
    for _ in range(steps):
        state.particle_qd.zero_()
        solver.step(model, state, state, None, None, dt)
    return state.particle_q.numpy().astype(np.float64)


def test_a_hanging_chain_is_a_catenary(device):
    links, span, length = 30, 1.0, 1.25
    builder = newtonsim.ModelBuilder(gravity=-9.81)
    for k in range(links + 1):
        held = k in (0, links)
        builder.add_particle((length * k / links, 0.0, 0.0), AT_REST, 0.0 if held else 0.01)
    for k in range(links):
        builder.add_spring(k, k + 1, 1e4, 0.0, 0.0)
    model = builder.finalize(device=device)
    start = model.particle_q.numpy()
    start[:, 0] *= span / length
    start[:, 1] = -0.3 * np.sin(np.pi * np.arange(links + 1) / links)
    model.particle_q.assign(start)
    y = settled(model, 60, 0.05, iterations=100, relaxation=1.5)
    # 2 a sinh(span / 2 a) = length
    low, high = 0.05, 5.0
    for _ in range(60):
        a = 0.5 * (low + high)
        low, high = (a, high) if 2.0 * a * np.sinh(0.5 * span / a) > length else (low, a)
    curve = a * (np.cosh((y[:, 0] - 0.5 * span) / a) - np.cosh(0.5 * span / a))
    assert np.abs(y[:, 1] - curve).max() < 0.01 * np.abs(curve).max()


def tip_deflection(device, across: int, expected: float) -> float:
    """Of a beam 1 m x 0.125 m x 0.125 m under a small load, over that of Euler-Bernoulli.

    The start is the expected deflection, so that fewer steps lead to where forces balance.
    """
    E, width = 1e6, 0.125
    cells = (8 * across, across, across)
    model = block(cells, width / across, k_mu=0.5 * E, k_lambda=0.0, fix_left=True).finalize(device=device)
    x = model.particle_q.numpy().copy()
    along, up = x[:, 0], x[:, 1] - 0.5 * width
    end, inertia, load = np.flatnonzero(along > 1.0 - 1e-4), width**4 / 12.0, 1e-4 * E * width**2
    bend = expected * load / (2.0 * E * inertia)
    start, force = x.copy(), np.zeros_like(x)
    start[:, 1] -= bend * along**2 * (1.0 - along / 3.0)
    start[:, 0] += bend * up * along * (2.0 - along)
    force[end, 1] = -load / len(end)
    model.particle_q.assign(start)
    y = settled(model, 12, 0.3, force, iterations=100 * across, relaxation=1.9)
    return float(x[end, 1].mean() - y[end, 1].mean()) / (load / (3.0 * E * inertia))


def test_a_cantilever_bends_as_euler_and_bernoulli_say(device):
    """Linear tetrahedra are too stiff in bending; their error falls as the square of the size of a cell."""
    ratios = [tip_deflection(device, *case) for case in ((1, 0.33), (2, 0.65), (4, 0.88))]
    assert 0.25 < ratios[0] < 0.4
    assert 0.6 < ratios[1] < 0.7
    assert (1.0 - ratios[1]) / (1.0 - ratios[2]) == pytest.approx(3.0, abs=0.7)
    assert (4.0 * ratios[2] - ratios[1]) / 3.0 == pytest.approx(1.0, abs=0.05)


def test_a_strip_stretches_by_its_stiffness(device):
    """A long strip of cloth pulled at one end: Young's modulus and Poisson's ratio of the membrane."""
    ke, ka, pull = 100.0, 60.0, 0.5
    builder = newtonsim.ModelBuilder(gravity=0.0)
    options = NO_CLOTH | {"tri_ke": ke, "tri_ka": ka, "fix_left": True}
    builder.add_cloth_grid((0.0, 0.0, 0.0), UPRIGHT, AT_REST, 24, 4, 0.05, 0.05, 0.001, **options)
    model = builder.finalize(device=device)
    x = model.particle_q.numpy().reshape(5, 25, 3)
    force = np.zeros_like(x)
    force[:, -1, 0] = pull * 0.05
    force[(0, -1), -1, 0] *= 0.5
    y = settled(model, 40, 0.1, force.reshape(-1, 3), iterations=100).reshape(5, 25, 3)
    middle = y[:, 18].mean(axis=0) - y[:, 6].mean(axis=0)
    along = 0.5 * ((middle[0] / 0.6) ** 2 - 1.0)
    across = 0.5 * (((y[-1, 12, 1] - y[0, 12, 1]) / 0.2) ** 2 - 1.0)
    # first Piola-Kirchhoff stress F S = pull, S = 2 ke G + ka tr G 1
    young = 4.0 * ke * (ke + ka) / (2.0 * ke + ka)
    assert np.sqrt(1.0 + 2.0 * along) * young * along == pytest.approx(pull, rel=0.01)
    assert -across / along == pytest.approx(ka / (2.0 * ke + ka), rel=0.02)


def test_a_strip_bends_by_its_rigidity(device):
    """A strip that is clamped at one end and pushed at the other: hinges in a row, which turn by M / ke."""
    ke, load, cell, columns, rows = 0.02, 2e-4, 0.05, 7, 3
    builder = newtonsim.ModelBuilder(gravity=0.0)
    options = NO_CLOTH | {"tri_ke": 5.0, "tri_ka": 5.0, "edge_ke": ke}
    builder.add_cloth_grid((0.0, 0.0, 0.0), FLAT, AT_REST, columns - 1, rows - 1, cell, cell, 1e-5, **options)
    for k in range(columns * rows):
        if k % columns < 2:
            builder.particle_mass[k] = 0.0
    for k, (_, _, first, second) in enumerate(builder.edge_indices):
        if (second - first) % columns:  # only edges across the strip give way
            builder.edge_bending_properties[k] = (20.0 * ke, 0.0)
    model = builder.finalize(device=device)
    force = np.zeros((rows, columns, 3))
    force[:, -1, 1] = -load * np.array([0.25, 0.5, 0.25])
    y = settled(model, 100, 0.2, force.reshape(-1, 3), iterations=150, relaxation=1.7)
    sag = -y.reshape(rows, columns, 3)[:, -1, 1].mean()
    lever = cell * (columns - 1 - np.arange(1, columns - 1))
    expected = np.sum(load * lever / (ke * cell * (rows - 1)) * lever)
    assert sag == pytest.approx(expected, rel=0.03)


def test_a_squeezed_cube_has_the_volume_of_its_material(device):
    """Between two plates that hold it: shape and volume are those of least energy, found in float64."""
    model = block(k_mu=1e4, k_lambda=4e4, fix_top=True, fix_bottom=True).finalize(device=device)
    rest = model.particle_q.numpy().astype(np.float64)
    free = model.particle_mass.numpy() > 0.0
    start = rest * np.array([1.0, 0.8, 1.0])

    def of_free(inner: np.ndarray) -> np.ndarray:
        x = start.copy()
        x[free] = inner.reshape(-1, 3)
        return x

    best = minimize(
        lambda inner: energy(model, of_free(inner), rest, 1.0), start[free].ravel(), method="BFGS"
    )
    model.particle_q.assign(start.astype(np.float32))
    y = settled(model, 60, 0.05, iterations=40)
    assert np.abs(y - of_free(best.x)).max() < 1e-4
    corners = model.tet_indices.numpy()
    volumes = [np.linalg.det(x[corners[:, 1:]] - x[corners[:, :1]]).sum() / 6.0 for x in (y, of_free(best.x))]
    assert volumes[0] == pytest.approx(volumes[1], rel=1e-4)
    assert volumes[0] < 0.95 * 0.2**3


def test_solvers_agree_at_rest(device):
    """A cloth that hangs by its upper side is stretched as much by VBDSolver as by SemiImplicitSolver."""
    builder = newtonsim.ModelBuilder(gravity=-9.81)
    options = NO_CLOTH | {"tri_ke": 50.0, "tri_ka": 30.0, "tri_kd": 1.0, "edge_ke": 1e-3, "fix_top": True}
    options["particle_radius"] = 0.01
    builder.add_cloth_grid((0.0, 0.0, 0.0), UPRIGHT, AT_REST, 6, 6, 0.1, 0.1, 0.01, **options)
    model = builder.finalize(device=device)
    ends = []
    for solver, dt in ((VBDSolver(model, iterations=30), 0.02), (SemiImplicitSolver(model), 5e-4)):
        simulator = newtonsim.Simulator(model, solver, dt)
        simulator.step(round(3.0 / dt))
        ends.append(simulator.state.particle_q.numpy())
    stretch = np.abs(ends[0] - model.particle_q.numpy()).max()
    assert stretch > 0.015
    assert np.abs(ends[0] - ends[1]).max() < 0.01 * stretch


def worlds_of(device, worlds: int, **options) -> newtonsim.Model:
    """Cloths and blocks over a ground with a ball, each world the same."""
    world = newtonsim.ModelBuilder(gravity=-9.81)
    cloth_options = NO_CLOTH | {"tri_ke": 100.0, "tri_ka": 100.0, "tri_kd": 0.1, "edge_ke": 1e-3}
    cloth_options |= {"particle_radius": 0.02}
    world.add_cloth_grid((-0.2, 0.35, -0.2), FLAT, AT_REST, 5, 5, 0.08, 0.08, 0.002, **cloth_options)
    world.add_soft_grid((0.5, 0.1, 0.0), UPRIGHT, AT_REST, 2, 2, 2, 0.1, 0.1, 0.1, 500.0, 1e4, 1e4, 0.01)
    ball = world.add_body(origin=wp.transform((0.0, 0.1, 0.0), wp.quat_identity()))
    world.add_shape_sphere(ball, radius=0.1, density=200.0)
    builder = newtonsim.ModelBuilder(gravity=-9.81)
    builder.replicate(world, worlds, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device, **options)
    model.soft_contact_radius, model.soft_contact_margin = 0.01, 0.02
    return model


def simulated(model: newtonsim.Model, steps: int = 40, threads: int = 1, start=None, **options) -> dict:
    """State after steps that fall, touch and fold, with another start in each world."""
    simulator = newtonsim.Simulator(model, VBDSolver(model, **options), 1.0 / 120.0, threads=threads)
    if start is not None:
        start(simulator.state)
    simulator.step(steps)
    names = ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q")
    return {name: getattr(simulator.state, name).numpy() for name in names}


@pytest.mark.parametrize("surfaces", [False, True])
def test_worlds_do_not_see_each_other(device, surfaces):
    """Worlds that start unlike come out as alone, bit for bit, by one thread and by two."""
    single, batch = worlds_of(device, 1), worlds_of(device, 3)
    count = single.particle_count

    def throw(state, worlds=range(3)):
        v = state.particle_qd.numpy().reshape(-1, count, 3)
        for place, w in enumerate(worlds):
            v[place] = (0.3 * w, -1.0, 0.1 * w)
        state.particle_qd.assign(v.reshape(-1, 3))

    together = simulated(batch, start=throw, handle_self_contact=surfaces)
    threaded = simulated(batch, threads=2, start=throw, handle_self_contact=surfaces)
    for w in range(3):
        alone = simulated(single, start=lambda state, w=w: throw(state, [w]), handle_self_contact=surfaces)
        for name, values in alone.items():
            part = together[name].reshape(3, *values.shape)[w]
            assert np.array_equal(part, values), name
    for name, values in together.items():
        assert np.array_equal(values, threaded[name]), name


def test_a_nan_stays_in_its_world_and_is_reset(device):
    model = worlds_of(device, 2)
    simulator = newtonsim.Simulator(model, VBDSolver(model), 1.0 / 120.0)
    q = simulator.state.particle_q.numpy()
    q[3] = np.nan
    simulator.state.particle_q.assign(q)
    with pytest.warns(RuntimeWarning, match="1 of 2 worlds"):
        simulator.step(20)
    x = simulator.state.particle_q.numpy().reshape(2, -1, 3)
    assert np.isnan(x[0]).any()
    assert np.isfinite(x[1]).all()
    assert np.isfinite(simulator.state.body_q.numpy()[1]).all()
    simulator.reset(np.array([True, False]))
    kept = simulator.state.particle_q.numpy().reshape(2, -1, 3)[1].copy()
    assert np.array_equal(kept, x[1])
    simulator.step(20)
    fresh = newtonsim.Simulator(model, VBDSolver(model), 1.0 / 120.0)
    fresh.step(20)
    names = ("particle_q", "particle_qd", "body_q")
    for name in names:
        again, first = (getattr(s.state, name).numpy() for s in (simulator, fresh))
        half = len(again) // 2
        assert np.array_equal(again[:half], first[:half]), name


def test_a_captured_step_is_an_eager_one_with_and_without_gradients(device):
    plain, with_gradients = worlds_of(device, 1), worlds_of(device, 1, requires_grad=True)
    captured = simulated(plain, 10)
    for model in (plain, with_gradients):
        solver, states = VBDSolver(model), [model.state(), model.state()]
        newtonsim.eval_fk(model, states[0].joint_q, states[0].joint_qd, None, states[0])
        for _ in range(10):
            solver.step(model, *states, None, None, 1.0 / 120.0)
            states.reverse()
        for name, values in captured.items():
            assert np.array_equal(getattr(states[0], name).numpy(), values), name


def test_no_gradient_of_self_contact_is_promised(device):
    model = worlds_of(device, 1, requires_grad=True)
    solver, states = VBDSolver(model, handle_self_contact=True), [model.state(), model.state()]
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="handle_self_contact"):
        solver.step(model, *states, None, None, 0.01)


def test_inverted_tetrahedra_recover(device):
    """A block turned inside out, and one pressed flat, come back to their shape."""
    model = block(k_mu=1e4, k_lambda=4e4, k_damp=0.01).finalize(device=device)
    rest = model.particle_q.numpy()
    noise = 1e-3 * np.random.default_rng(2).normal(size=rest.shape)
    for height in (-0.7, 0.0):
        simulator = newtonsim.Simulator(model, VBDSolver(model, iterations=30), 1.0 / 60.0)
        start = rest * np.array([1.0, height, 1.0]) + noise
        simulator.state.particle_q.assign(start.astype(np.float32))
        simulator.step(300)
        x = simulator.state.particle_q.numpy()
        lengths = [np.linalg.norm(y[:, None] - y[None], axis=2) for y in (x, rest)]
        assert np.abs(lengths[0] - lengths[1]).max() < 0.01


def test_degenerate_elements_do_no_harm(device):
    """A spring of length 0, a triangle in a line, an edge folded flat: forces stay finite."""
    builder = cloth(2, -9.81, tri_ke=100.0, tri_ka=100.0, edge_ke=0.1, add_springs=True, spring_ke=10.0)
    model = builder.finalize(device=device)
    x = model.particle_q.numpy()
    x[1] = x[0]
    x[4:] = x[3]
    state = model.state()
    state.particle_q.assign(x)
    solver = VBDSolver(model)
    for _ in range(200):
        solver.step(model, state, state, None, None, 1.0 / 60.0)
    v = state.particle_qd.numpy()
    fall = v + np.array([0.0, 9.81 * 200 / 60.0, 0.0])
    assert np.isfinite(v).all()
    assert np.abs(fall).max() < 20.0


def test_held_particles_stay_and_fast_ones_are_cut_off(device):
    model = cloth(2, -9.81, tri_ke=10.0, tri_ka=10.0, fix_left=True).finalize(device=device)
    flags = model.particle_flags.numpy()
    flags[8] = 0
    model.particle_flags.assign(flags)
    model.particle_max_velocity = 0.5
    state, x = model.state(), model.particle_q.numpy()
    solver = VBDSolver(model)
    for _ in range(30):
        solver.step(model, state, state, None, None, 1.0 / 60.0)
    held = (model.particle_mass.numpy() == 0.0) | (np.arange(9) == 8)
    assert np.array_equal(state.particle_q.numpy()[held], x[held])
    speed = np.linalg.norm(state.particle_qd.numpy(), axis=1)
    assert 0.1 < speed.max() < 0.5 * (1.0 + 1e-5)


def test_colours_of_the_model_are_used_if_they_fit(device):
    from newtonsim.solvers.vbd.stencils import Stencils

    builder = cloth(4, edge_ke=1.0)
    builder.color(include_bending=True)
    own = [group.tolist() for group in builder.particle_color_groups]
    model = builder.finalize(device=device)
    order = Stencils(model).view.vertex.numpy().tolist()
    assert order == [i for group in own for i in sorted(group)]
    builder.set_coloring([np.arange(25)])
    stencils = Stencils(builder.finalize(device=device))
    assert len(stencils.colors) >= 4


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("iterations", 0),
        ("substeps", 0),
        ("relaxation", 2.0),
        ("friction_epsilon", 0.0),
        ("detection_interval", 0),
    ],
)
def test_options_out_of_range_are_named(device, option, value):
    with pytest.raises(ValueError, match=option):
        VBDSolver(cloth().finalize(device=device), **{option: value})


def test_solver_of_no_model_is_refused():
    with pytest.raises(newtonsim.ModelError, match="expected a Model, got a NoneType"):
        VBDSolver(None)

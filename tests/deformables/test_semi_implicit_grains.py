"""Particles on particles in SemiImplicitSolver, and worlds side by side."""

import itertools

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.solvers import SemiImplicitSolver

RADIUS = 0.05


def contact_law(d: np.ndarray, v: np.ndarray, m: dict[str, float], slip: float) -> np.ndarray:
    """Force on the first of two particles, d and v being position and velocity relative to the second."""
    distance = np.linalg.norm(d)
    n, depth = d / distance, 2.0 * RADIUS - distance
    if depth <= 0.0:
        return -m["ke"] * max(min(-depth, m["cohesion"] + depth), 0.0) * n
    vn = n @ v
    normal = max(m["ke"] * depth - m["kd"] * vn * depth / (depth + 1.0e-3), 0.0)
    vt = v - vn * n
    return normal * n - min(m["kf"], m["mu"] * normal / np.sqrt(vt @ vt + slip**2)) * vt


def cloud(seed: int, count: int = 40) -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    rng = np.random.default_rng(seed)
    for _ in range(count):
        builder.add_particle(rng.uniform(-0.2, 0.2, 3), rng.normal(size=3), 1.0, radius=RADIUS)
    return builder


MATERIAL = {"ke": 800.0, "kd": 15.0, "kf": 30.0, "mu": 0.4, "cohesion": 0.02}


def set_material(model: newtonsim.Model) -> None:
    for name, value in MATERIAL.items():
        getattr(model, f"particle_{name}").fill_(value)


def cohesive(builder: newtonsim.ModelBuilder) -> newtonsim.ModelBuilder:
    builder.particle_cohesion[:] = [MATERIAL["cohesion"]] * builder.particle_count
    return builder


def test_forces_of_a_cloud_are_those_of_all_pairs(device):
    scene = newtonsim.ModelBuilder()
    scene.gravity = 0.0
    for seed in range(2):
        scene.add_builder(cohesive(cloud(seed)))
    model = scene.finalize(device)
    set_material(model)
    state, end = model.state(), model.state()
    dt = 0.01
    SemiImplicitSolver(model).step(model, state, end, None, None, dt)
    x, v = state.particle_q.numpy().astype(np.float64), state.particle_qd.numpy().astype(np.float64)
    found = (end.particle_qd.numpy() - v) / dt
    world = model.particle_world.numpy()
    expected = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and world[i] == world[j]:
                expected[i] += contact_law(x[i] - x[j], v[i] - v[j], MATERIAL, 1.0e-3)
    assert np.abs(expected).max() > 10.0
    np.testing.assert_allclose(found, expected, atol=2.0e-5 * np.abs(expected).max())
    # what two do to each other is opposite to the last bit, so that momentum is only rounded in sums
    assert np.abs(found[world == 0].sum(axis=0)).max() < 1.0e-5 * np.abs(expected).sum()


def test_momentum_and_angular_momentum_of_a_cloud_stay(device):
    model = cohesive(cloud(3)).finalize(device)
    set_material(model)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0e-3)
    start = simulator.state.particle_qd.numpy().copy()

    def momenta() -> np.ndarray:
        x, v = (
            a.numpy().astype(np.float64) for a in (simulator.state.particle_q, simulator.state.particle_qd)
        )
        return np.concatenate([v.sum(axis=0), np.cross(x, v).sum(axis=0)])

    before = momenta()
    simulator.step(200)
    assert np.abs(simulator.state.particle_qd.numpy() - start).max() > 0.3
    # friction acts between the centres, across the line that joins them: it turns the pair
    np.testing.assert_allclose(momenta()[:3], before[:3], atol=1.0e-5 * np.abs(start).sum())
    model.particle_mu.zero_()
    simulator.reset()
    simulator.step(200)
    np.testing.assert_allclose(momenta(), before, atol=1.0e-5 * np.abs(start).sum())


def test_neighbours_of_a_cloth_do_not_push_each_other(device):
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    builder.add_cloth_grid(
        pos=(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=(0.0, 0.0, 0.0), dim_x=3, dim_y=3, cell_x=0.06,
        cell_y=0.06, mass=0.1, particle_radius=RADIUS,
    )  # fmt: skip
    model = builder.finalize(device)
    state, end = model.state(), model.state()
    SemiImplicitSolver(model).step(model, state, end, None, None, 1.0e-3)
    assert np.abs(end.particle_qd.numpy()).max() < 1.0e-5


def test_gradient(device):
    """Two that collide off centre and a third that is near, against central differences."""
    builder = newtonsim.ModelBuilder()
    builder.gravity = 0.0
    builder.add_particle((0.0, 0.0, 0.0), (0.2, 0.2, 0.0), 0.3, radius=RADIUS)
    builder.add_particle((0.095, 0.02, 0.01), (-0.3, 0.1, 0.3), 0.2, radius=RADIUS)
    builder.add_particle((0.04, -0.107, 0.0), (0.2, 0.2, 0.0), 5.0, radius=RADIUS)
    model = cohesive(builder).finalize(device, requires_grad=True)
    set_material(model)
    model.particle_kf.fill_(1.0e3)
    model.particle_kd.fill_(1.0)
    solver = SemiImplicitSolver(model, friction_smoothing=500.0)
    states = [model.state() for _ in range(16)]

    def run() -> np.ndarray:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, None, None, 1.0e-3)
        return states[-1].particle_qd.numpy().astype(np.float64)

    with wp.Tape() as tape:
        end = run()
    weights = np.random.default_rng(2).uniform(-1.0, 1.0, end.shape).astype(np.float32)
    tape.backward(grads={states[-1].particle_qd: wp.array(weights, dtype=wp.vec3, device=device)})
    inputs = {"x": (states[0].particle_q, 5.0e-4), "v": (states[0].particle_qd, 0.02)}
    inputs |= {"ke": (model.particle_ke, 20.0), "mu": (model.particle_mu, 0.05)}
    inputs |= {"radius": (model.particle_radius, 5.0e-4), "cohesion": (model.particle_cohesion, 5.0e-4)}
    gradients = {name: a.grad.numpy().astype(np.float64) for name, (a, _) in inputs.items()}
    for name, (array, size) in inputs.items():
        length, base, slopes = np.linalg.norm(gradients[name]), array.numpy().copy(), []
        for step in (size, 0.5 * size):
            ends = []
            for sign in (1.0, -1.0):
                array.assign((base + sign * step * gradients[name] / length).astype(np.float32))
                ends.append(np.sum(run() * weights))
            slopes.append((ends[0] - ends[1]) / (2.0 * step))
        array.assign(base)
        assert slopes[1] + (slopes[1] - slopes[0]) / 3.0 == pytest.approx(length, rel=1.0e-2), name


def busy(seed: int) -> newtonsim.ModelBuilder:
    """A world with everything: cloth, a soft block, grains, an arm with a muscle, a box, the ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    rng = np.random.default_rng(seed)
    builder.add_cloth_grid(
        pos=(0.0, 0.0, 0.5), rot=wp.quat_identity(), vel=(0.0, 0.0, 0.0), dim_x=3, dim_y=3, cell_x=0.1,
        cell_y=0.1, mass=0.05, tri_ke=50.0, tri_ka=50.0, tri_kd=0.1, tri_drag=0.5, edge_ke=0.01,
        particle_radius=0.02, fix_left=bool(seed % 2),
    )  # fmt: skip
    builder.add_soft_grid(
        pos=(0.5, 0.0, 0.1), rot=wp.quat_identity(), vel=(0.0, 0.0, -0.5), dim_x=1, dim_y=1, dim_z=2,
        cell_x=0.1, cell_y=0.1, cell_z=0.1, density=500.0, k_mu=3.0e3, k_lambda=5.0e3, k_damp=5.0e-3,
    )  # fmt: skip
    for _ in range(4 + seed):
        builder.add_particle(
            rng.uniform((0.0, 0.0, 0.55), (0.3, 0.3, 0.7)), (0.0, 0.0, -1.0), 0.05, radius=0.03
        )
    body = builder.add_body(origin=wp.transform((0.15, 0.15, 0.3), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.05, density=300.0)
    builder.add_articulation()
    arm = builder.add_body()
    builder.add_shape_capsule(arm, pos=(0.0, 0.0, -0.2), radius=0.03, half_height=0.1, up_axis=2)
    pose = wp.transform((1.0, 0.0, 1.0), wp.quat_identity())
    builder.add_joint_revolute(-1, arm, parent_xform=pose, axis=(0.0, 1.0, 0.0), armature=0.0)
    builder.joint_q[-1] = 0.2 * seed
    builder.add_muscle([-1, arm], [(0.9, 0.0, 1.0), (0.0, 0.0, -0.1)], 20.0, 0.1, 0.02, 0.1, 0.0)
    builder.muscle_activations[:] = [0.5]
    return builder


def busy_worlds(device: str) -> newtonsim.Model:
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for seed in range(4):
        scene.add_builder(busy(seed))
    scene.set_ground_plane()
    return scene.finalize(device)


NAMES = ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd")


def values_of(state: newtonsim.State) -> dict[str, np.ndarray]:
    return {name: getattr(state, name).numpy().copy() for name in NAMES}


def test_threads_shards_and_eager_steps_agree_to_the_last_bit(device):
    model = busy_worlds(device)
    ends = []
    for threads in (1, 2, 4):
        simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=5.0e-4, threads=threads)
        simulator.step(300)
        ends.append(values_of(simulator.state))
    solver, state = SemiImplicitSolver(model), model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    for _ in range(300):
        solver.step(model, state, state, None, None, 5.0e-4)
    ends.append(values_of(state))
    for end in ends[1:]:
        for name in NAMES:
            assert np.array_equal(ends[0][name], end[name]), name
    assert np.abs(ends[0]["particle_qd"]).max() < 5.0


def test_nan_stays_in_its_world_and_is_reported_and_reset(device):
    model = busy_worlds(device)
    clean = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=5.0e-4)
    broken = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=5.0e-4)
    first = int(model.world_particle_start[1])
    x = broken.state.particle_q.numpy().copy()
    x[first + 5] = np.nan
    broken.state.particle_q.assign(x)
    with pytest.warns(RuntimeWarning, match=r"1 of 4 worlds .*: 1;"):
        broken.step(100)
    clean.step(100)
    for name in NAMES:
        starts = {"p": model.world_particle_start, "b": model.world_body_start}.get(name[0])
        if starts is None:
            starts = model.world_coord_start if name == "joint_q" else model.world_dof_start
        a, b = getattr(clean.state, name).numpy(), getattr(broken.state, name).numpy()
        for world in (0, 2, 3):
            part = slice(int(starts[world]), int(starts[world + 1]))
            assert np.array_equal(a[part], b[part]), (name, world)
    assert broken.solver.world_nonfinite.numpy().tolist() == [False, True, False, False]
    broken.reset(np.array([False, True, False, False]))
    assert not broken.solver.world_nonfinite.numpy().any()
    broken.step(100)
    assert all(np.isfinite(values).all() for values in values_of(broken.state).values())


def test_resting_joint_coordinates_agree_with_bodies(device):
    model = busy_worlds(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model, joint_attach_ke=1.0e5), dt=1.0e-4)
    simulator.step(500)
    state, again = simulator.state, model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, again)
    # up to what the joints give way
    np.testing.assert_allclose(again.body_q.numpy(), state.body_q.numpy(), atol=1.0e-3)
    np.testing.assert_allclose(again.body_qd.numpy(), state.body_qd.numpy(), atol=0.02)


def test_dampers_of_light_particles_stop_them_at_most(device):
    """Grains of a gram with the default damping of 100 N s/m, which is for a kilogram, at 1 ms."""
    builder = newtonsim.ModelBuilder()
    for seed in range(30):
        at = np.random.default_rng(seed).uniform((-0.1, 0.0, -0.1), (0.1, 0.3, 0.1))
        builder.add_particle(at, (0.0, 0.0, 0.0), 1.0e-3, radius=0.02)
    builder.set_ground_plane()
    model = builder.finalize(device)
    model.particle_ke.fill_(50.0)
    model.soft_contact_ke = 50.0
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0e-3)
    fastest = 0.0
    for _ in range(100):
        simulator.step(20)
        fastest = max(fastest, np.linalg.norm(simulator.state.particle_qd.numpy(), axis=1).max())
    # nothing is faster than by falling, or than neighbours that overlap at the start push it
    assert fastest < 5.0
    assert np.linalg.norm(simulator.state.particle_qd.numpy(), axis=1).max() < 0.05
    assert simulator.state.particle_q.numpy()[:, 1].min() > 0.015


@pytest.mark.parametrize("mover", ["flag", "mass"])
def test_held_particles_stay_where_they_are_put(mover, device):
    builder = newtonsim.ModelBuilder()
    flags = 0 if mover == "flag" else newtonsim.PARTICLE_FLAG_ACTIVE
    builder.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0 if mover == "flag" else 0.0, flags=flags)
    builder.add_particle((0.0, -1.0, 0.0), (0.0, 0.0, 0.0), 1.0, radius=0.01)
    builder.add_spring(0, 1, 200.0, 20.0, 0.0)
    model = builder.finalize(device)
    simulator = newtonsim.Simulator(model, SemiImplicitSolver(model), dt=1.0e-3)
    simulator.step(3000)
    x = simulator.state.particle_q.numpy()
    np.testing.assert_array_equal(x[0], 0.0)
    assert x[1, 1] == pytest.approx(-1.0 - 9.81 / 200.0, abs=1.0e-4)

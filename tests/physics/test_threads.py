"""Shards, threads and graphs of Simulator: the same bits however the worlds are shared out."""

import gc
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import warp as wp
from physics.robots import load_robot
from physics.scenes import add_hinge, z_up

import newtonsim
from newtonsim.kernels.views.structs import ModelShapeMaterials
from newtonsim.runtime.shards import Shard, divide, divide_among, wanted_threads
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

DT = 1.0 / 120.0
STATE = ("joint_q", "joint_qd", "body_q", "body_qd")


def at(x: float, y: float, z: float) -> wp.transform:
    return wp.transform((x, y, z), wp.quat_identity())


def captured(solver: FeatherstoneSolver, shard: Shard, state: newtonsim.State) -> wp.Graph:
    with wp.ScopedCapture(device=shard.model.device) as capture:
        solver.step_worlds(shard, state, state, shard.model.control(), None, DT)
    return capture.graph


def bouncing_things() -> newtonsim.ModelBuilder:
    """A ball and two boxes that fall on each other, with restitution and rolling friction."""
    world = z_up()
    material = {"density": 500.0, "restitution": 0.6, "mu": 0.7}
    for z in (0.2, 0.55):
        world.add_shape_box(world.add_body(origin=at(0.03 * z, 0.0, z)), hx=0.1, hy=0.1, hz=0.1, **material)
    ball = world.add_body(origin=at(0.05, 0.02, 0.9))
    world.shape_mu_rolling[world.add_shape_sphere(ball, radius=0.1, **material)] = 0.01
    return world


def limited_chain() -> newtonsim.ModelBuilder:
    """Two links that fall against their limits, with dry friction and a cord to the world."""
    world = z_up()
    upper = add_hinge(world, limit_lower=-0.4, limit_upper=0.3)
    lower = add_hinge(world, parent=upper, limit_lower=-0.2, limit_upper=0.2, target=0.6, target_ke=30.0)
    world.add_shape_sphere(lower, radius=0.05)
    world.joint_friction[:] = [0.1, 0.1]
    world.joint_q[0] = 0.25
    return world


def crowd() -> newtonsim.ModelBuilder:
    """More shapes than are listed pair by pair."""
    world = z_up()
    for i in range(100):
        place = at(0.3 * (i % 5), 0.25 * (i // 5 % 4), 0.15 + 0.22 * (i // 20))
        world.add_shape_sphere(world.add_body(origin=place), radius=0.1, restitution=0.3)
    return world


def scene(device: str, crowded: bool = False) -> newtonsim.Model:
    """Unequal worlds, one of them empty, on terrain that all share."""
    worlds = [load_robot("quadruped"), bouncing_things(), z_up(), limited_chain()]
    builder = z_up()
    builder.add_shape_box(-1, pos=(0.3, 0.0, 0.0), hx=0.25, hy=0.5, hz=0.06)
    for world in [*worlds, worlds[1], *worlds, worlds[3], *([crowd()] if crowded else [])]:
        builder.add_builder(world)
    # the global world has shapes before, between and after those of the worlds
    builder.add_shape_box(-1, pos=(-0.4, 0.0, 0.0), hx=0.2, hy=0.5, hz=0.04)
    builder.add_builder(worlds[0])
    builder.set_ground_plane()
    return builder.finalize(device)


def values(state: newtonsim.State) -> dict[str, np.ndarray]:
    return {name: getattr(state, name).numpy().copy() for name in STATE}


def assert_same(a: newtonsim.State, b: newtonsim.State) -> None:
    for name in STATE:
        np.testing.assert_array_equal(getattr(a, name).numpy(), getattr(b, name).numpy(), err_msg=name)


def stepped_whole(
    model: newtonsim.Model, steps: int, **options
) -> tuple[FeatherstoneSolver, newtonsim.State]:
    solver, state = FeatherstoneSolver(model, **options), start_of(model)
    solver.step(model, state, state, None, None, DT)
    with wp.ScopedCapture(device=model.device) as capture:
        solver.step(model, state, state, None, None, DT)
    for _ in range(steps - 1):
        wp.capture_launch(capture.graph)
    return solver, state


def start_of(model: newtonsim.Model) -> newtonsim.State:
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("sleep", [False, True])
def test_shards_in_any_order_equal_the_whole_model(device: str, crowded: bool, sleep: bool):
    """Worlds hit things, rest, and come out the same alone and in shards of several worlds."""
    model = scene(device, crowded)
    assert (model.shape_contact_pairs is None) == crowded
    steps = 120 if crowded else 280
    options = {"sleep": sleep, "sleep_time": 0.1, "sleep_speed": 0.05, "sleep_spin": 0.3}
    whole, expected = stepped_whole(model, steps, **options)
    if sleep:
        trees = whole.sleep.asleep.numpy()
        assert 0 < trees.sum() < len(trees), "some islands have to sleep, and some not"
    worlds = range(model.world_count)
    cuts = [divide(model, 2), divide(model, 5), [Shard(model, range(w, w + 1)) for w in worlds]]
    for shards in cuts:
        assert len(shards) > 1
        assert [w for shard in shards for w in shard.worlds] == list(worlds)
        solver, state = FeatherstoneSolver(model, **options), start_of(model)
        control = model.control()
        for shard in shards:
            solver.step_worlds(shard, state, state, control, None, DT)
        graphs = [captured(solver, shard, state) for shard in shards]
        for step in range(1, steps):
            for graph in graphs[:: 1 if step % 2 else -1]:
                wp.capture_launch(graph)
        assert_same(state, expected)
        for name in ("world_count", "rigid_contact_count", "contacts_needed"):
            ours, theirs = (getattr(s.contacts, name).numpy() for s in (solver, whole))
            np.testing.assert_array_equal(ours, theirs)


def test_a_shard_touches_only_its_worlds(device: str):
    model = scene(device)
    solver, state, control = FeatherstoneSolver(model), start_of(model), model.control()
    before = values(state)
    first, end = 3, 6
    solver.step_worlds(Shard(model, range(first, end)), state, state, control, None, DT)
    for name, kind in (("joint_q", "coord"), ("joint_qd", "dof"), ("body_q", "body"), ("body_qd", "body")):
        start = getattr(model, f"world_{kind}_start")
        changed = np.any((values(state)[name] != before[name]).reshape(len(before[name]), -1), axis=1)
        assert not changed[: start[first]].any()
        assert not changed[start[end] :].any()
        assert changed[start[first] : start[end]].any()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(device: str, threads: int):
    model = scene(device)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model, sleep=True), DT, threads=threads)
    sim.step()
    for n in (1, 3, 100, 46):
        sim.step(n)
    solver, state = stepped_whole(model, 151, sleep=True)
    assert_same(sim.state, state)
    np.testing.assert_array_equal(sim.solver.sleep.asleep.numpy(), solver.sleep.asleep.numpy())
    assert sim.time == pytest.approx(151 * DT)
    assert sim.threads == (threads if model.device.is_cpu else 1)


def test_masked_reset_with_threads(device: str):
    """Worlds that were reset do as at the start, and the others as if nothing had happened."""
    model = scene(device)
    sim, other = (newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=2) for _ in range(2))
    mask = np.arange(model.world_count) % 3 == 0
    for each in (sim, other):
        each.step(60)
    sim.reset(mask)
    for each in (sim, other):
        each.step(40)
    again = newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=1)
    again.step(40)
    world = np.repeat(np.arange(model.world_count), np.diff(model.world_coord_start))
    q = sim.state.joint_q.numpy()
    np.testing.assert_array_equal(q[mask[world]], again.state.joint_q.numpy()[mask[world]])
    np.testing.assert_array_equal(q[~mask[world]], other.state.joint_q.numpy()[~mask[world]])


def test_a_gpu_runs_all_worlds_at_once(monkeypatch):
    """However many there are: launches over a part of the worlds would leave it idle."""
    builder = z_up()
    builder.replicate(bouncing_things(), 400, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize("cpu")
    assert len(divide_among(model, 1)) > 1
    monkeypatch.setattr(model, "device", types.SimpleNamespace(is_cpu=False))
    assert wanted_threads(model, None) == len(divide_among(model, 1)) == 1


def test_what_cannot_be_divided_is_one_shard(device: str):
    """A kinematic body of the global world is moved once a step; XPBD solves all worlds together."""
    builder = z_up()
    builder.add_shape_box(builder.add_body(origin=at(0.3, 0.0, 0.1)), hx=0.1, hy=0.1, hz=0.1, density=0.0)
    for _ in range(3):
        builder.add_builder(bouncing_things())
    builder.set_ground_plane()
    model = builder.finalize(device)
    model.body_qd.assign(np.vstack([[0.0, 0.0, 0.0, -0.4, 0.0, 0.0], model.body_qd.numpy()[1:]]))
    assert divide(model, 3)[0].worlds is None
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=3)
    sim.step(50)
    assert sim.threads == 1
    assert_same(sim.state, stepped_whole(model, 50)[1])

    builder = newtonsim.ModelBuilder()
    for _ in range(3):
        world = newtonsim.ModelBuilder()
        for x in (0.0, 0.1):
            world.add_particle((x, 1.0, 0.0), (0.0, 0.0, 0.0), 0.1)
        world.add_spring(0, 1, 100.0, 1.0, 0)
        builder.add_builder(world)
    model = builder.finalize(device)
    solver = XPBDSolver(model)
    solver.divides_worlds = False
    sim = newtonsim.Simulator(model, solver, DT, threads=3)
    sim.step(10)
    assert sim.threads == 1
    fallen = -0.5 * 9.81 * DT * DT * 10 * 11
    np.testing.assert_allclose(sim.state.particle_q.numpy()[:, 1] - 1.0, fallen, rtol=1e-4)


def test_a_model_without_bodies_steps(device: str):
    builder = z_up()
    builder.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.1)
    model = builder.finalize(device)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    sim.step(3)
    assert sim.time == pytest.approx(3 * DT)


def test_an_error_in_another_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch):
    model = scene("cpu")
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=2)
    sim.step()
    caller, entered = threading.get_ident(), threading.Event()

    def fail_elsewhere(replay: Callable[[int], None], n: int) -> None:
        if threading.get_ident() != caller:
            entered.set()
            raise RuntimeError("replay failed")
        assert entered.wait(10.0)
        replay(n)

    replays = [partial(fail_elsewhere, replay) for replay in sim._replays]
    monkeypatch.setattr(sim, "_replays", replays)
    with pytest.raises(RuntimeError, match="replay failed"):
        sim.step()
    monkeypatch.undo()
    sim.reset()
    sim.step(20)
    assert_same(sim.state, stepped_whole(model, 20)[1])


def test_a_dropped_simulator_leaves_no_threads():
    model = scene("cpu")
    before = set(threading.enumerate())
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=3)
    sim.step(4)
    gone, helpers = weakref.ref(sim), set(threading.enumerate()) - before
    assert 1 <= len(helpers) <= 2
    del sim
    gc.collect()
    for thread in helpers:
        thread.join(10.0)
    assert gone() is None
    assert set(threading.enumerate()) <= before


def test_threads_are_as_many_as_pay(device: str):
    model = scene(device)
    assert newtonsim.Simulator(model, FeatherstoneSolver(model), DT).threads == 1, "too small to share"
    for threads in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="threads"):
            newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=threads)


def _new_array(holder: object, name: str, factor: float = 1.0, offset: float = 0.0) -> None:
    old = getattr(holder, name)
    replaced = wp.array(factor * old.numpy() + offset, dtype=old.dtype, device=old.device)
    setattr(holder, name, replaced)


def _set(holder: object, name: str, value: object) -> None:
    setattr(holder, name, value)


def _new_materials(model: newtonsim.Model, friction: float) -> None:
    """Replace the struct with all materials by one that counts nothing, then an array in that."""
    materials = ModelShapeMaterials()
    materials.assign(model.shape_materials)
    model.shape_materials = materials
    _new_array(materials, "mu", friction)


CHANGES = {
    "ground": lambda r: _set(r.model, "ground", False),
    "contact margin": lambda r: _set(r.model, "rigid_contact_margin", 0.08),
    "armature": lambda r: _new_array(r.model, "joint_armature", 3.0, 0.1),
    "friction coefficient": lambda r: _new_array(r.model.shape_materials, "mu", 0.1),
    "materials": lambda r: _new_materials(r.model, 0.1),
    "size": lambda r: _new_array(r.model.shape_geo, "scale", 1.3),
    "place of shapes": lambda r: _new_array(r.model, "shape_transform", 1.0, 0.01),
    "state": lambda r: _new_array(r.state, "joint_qd", 0.5),
    "control": lambda r: _new_array(r.control, "joint_f", 1.0, 0.3),
    "option": lambda r: _set(r.solver.options, "tolerance", 1.0),
    "iterations": lambda r: _set(r.solver.options, "iterations", 1),
    "dt": lambda r: _set(r, "dt", 0.3 * DT),
}


class Eager:
    """The bare solver, which sees every change, with the attributes of a Simulator."""

    def __init__(self, model: newtonsim.Model):
        self.model, self.solver, self.dt = model, FeatherstoneSolver(model, direct_cost=0.0), DT
        self.state, self.control = start_of(model), model.control()

    def step(self, n: int) -> None:
        for _ in range(n):
            self.solver.step(self.model, self.state, self.state, self.control, None, self.dt)


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_baked_into_the_graphs_may_be_replaced(device: str, name: str):
    model, twin = scene(device), scene(device)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model, direct_cost=0.0), DT, threads=2)
    eager = Eager(twin)
    for run in (sim, eager):
        run.step(40)
        CHANGES[name](run)
        run.step(10)
    assert_same(sim.state, eager.state)
    plain = Eager(scene(device))
    plain.step(50)
    results = [
        np.append(r.state.joint_q.numpy(), r.solver.contacts.world_count.numpy()) for r in (sim, plain)
    ]
    assert not np.array_equal(*results), "it has to matter"


def test_a_replaced_array_that_does_not_fit_is_refused(device: str):
    model = scene(device)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    sim.step(2)
    sim.control.joint_f = wp.zeros(3, dtype=float, device=device)
    with pytest.raises(newtonsim.ModelError, match="joint_f"):
        sim.step()
    sim.control.joint_f = wp.zeros(model.joint_dof_count, dtype=float, device=device)
    sim.step()
    sim.substeps = 0
    with pytest.raises(ValueError, match="substeps"):
        sim.step()


def test_graphs_are_captured_once(device: str, monkeypatch: pytest.MonkeyPatch):
    """New values in arrays, gravity, resets and options set to what they are do not capture anew."""
    model = scene(device)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model, sleep=True), DT, threads=2)
    captures = []
    capture = newtonsim.Simulator._capture
    monkeypatch.setattr(newtonsim.Simulator, "_capture", lambda self: captures.append(1) or capture(self))
    sim.step(3)
    for k in range(5):
        model.gravity = (0.0, 0.0, -9.0 - k)
        model.ground = True
        model.rigid_contact_margin = 0.01
        sim.dt = DT
        sim.solver.options.iterations = int(sim.solver.options.iterations)
        sim.control.joint_f.fill_(0.01 * k)
        sim.state.body_f.zero_()
        model.joint_armature.fill_(0.01)
        sim.reset(np.arange(model.world_count) == k)
        sim.solver.wake()
        sim.step(2)
        assert sim.solver.contacts.rigid_contact_count.numpy()[0] >= 0
    assert len(captures) == 1
    model.ground = False
    sim.step(2)
    sim.step(2)
    assert len(captures) == 2
    sim.recapture()
    sim.step()
    assert len(captures) == 3


def test_worlds_that_become_non_finite_are_named_once():
    model = scene("cpu")
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT, threads=2)
    sim.step(2)
    dof = model.world_dof_start

    def spoil(world: int) -> None:
        qd = sim.state.joint_qd.numpy()
        qd[dof[world]] = np.nan

    spoil(5)
    with pytest.warns(RuntimeWarning, match=r"1 of 11 worlds have become non-finite .*: 5;"):
        sim.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.step(5)
    spoil(1)
    with pytest.warns(RuntimeWarning, match=r"1 of 11 worlds have become non-finite .*: 1;"):
        sim.step()
    sim.reset(np.arange(model.world_count) == 5)
    spoil(5)
    with pytest.warns(RuntimeWarning, match=r": 5;"):
        sim.step()
    sim.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.step(5)
    assert np.isfinite(sim.state.joint_q.numpy()).all()

"""In motion, too, every step solves its constraints to what is promised, and says where it does not."""

import warnings

import numpy as np
import pytest
import warp as wp
from physics.robots import load_robot
from scenes.running import STEPS_PER_SECOND, SceneRun
from tasks.contact_motion import heap, hit_wall

import newtonsim
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver

PROMISED = 1.0e-4  # [m/s]
SCENES = {
    "wall that is hit": (hit_wall, 2),
    "dominoes": (scenes.domino_row, 1),
    "heap": (lambda: heap(60), 1),
}
"""Scenes, and for how long they are simulated [s]."""

FACTORIZATIONS = 15  # that 99 % of the steps get by with


@pytest.mark.parametrize("name", SCENES)
def test_every_step_is_solved(name: str, device: str):
    build, seconds = SCENES[name]
    run = SceneRun(build(), device)
    solve = run.solver.constraints
    factorizations, deepest = [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(seconds * STEPS_PER_SECOND):
            run.step()
            assert solve.residual.numpy().max() <= PROMISED, f"step {step}"
            factorizations.append(solve.factorizations.numpy().max())
            deepest = max(deepest, run.deepest())
    assert np.isfinite(run.poses).all()
    assert solve.unsolved.view.steps.numpy().sum() == 0
    assert np.percentile(factorizations, 99.0) <= FACTORIZATIONS
    # what a contact lets pass in a step of an impact; penetrations are removed, or they would add up
    assert deepest < 0.01
    assert run.deepest() < 2.0e-3


def wedged_robot() -> newtonsim.ModelBuilder:
    """A robot of two links, the first of which is wider than the slot that it is in."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for side in (-1.0, 1.0):
        builder.add_shape_box(-1, pos=(side * 0.26, 0.0, 0.5), hx=0.2, hy=0.5, hz=0.5)
    chassis = builder.add_body(origin=(0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0), key="chassis")
    builder.add_shape_box(chassis, hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    builder.add_joint_free(chassis)
    arm = builder.add_body(origin=(0.0, 0.3, 0.5, 0.0, 0.0, 0.0, 1.0), key="arm")
    builder.add_shape_capsule(arm, radius=0.03, half_height=0.1, up_axis=1, density=1000.0)
    ends = {
        "parent_xform": (0.0, 0.15, 0.0, 0.0, 0.0, 0.0, 1.0),
        "child_xform": (0.0, -0.15, 0.0, 0.0, 0.0, 0.0, 1.0),
    }
    builder.add_joint_revolute(chassis, arm, axis=(1.0, 0.0, 0.0), **ends)
    return builder


def test_what_is_wedged_in_stays_bounded_and_is_named(device: str):
    """Two walls want to push it apart in opposite directions: no impulses do what both want."""
    run = SceneRun(wedged_robot(), device)
    start, solve = run.energy(), run.solver.constraints
    with pytest.warns(RuntimeWarning, match="body 'chassis' cannot be pushed out of an overlap"):
        run.step(12)
    for _ in range(STEPS_PER_SECOND // 2):
        run.step()
        assert solve.residual.numpy().max() <= PROMISED
        # what gives all of it 100 m/s
        assert solve.rows.contact.impulse.numpy()[:, 0].max() < 100.0 * run.mass.sum()
    assert run.energy() < start
    assert np.abs(run.poses[0, :3] - (0.0, 0.0, 0.5)).max() < 1.0e-3


def test_what_is_wedged_in_now_and_then_is_not_told(device: str):
    """An episode that starts in an overlap and is over soon is no news, however many there are."""
    run = SceneRun(wedged_robot(), device)
    start, away = run.joint_q, run.joint_q
    away[2] = 5.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for q, steps in ((start, 8), (away, 1)):
                run.simulator.state.joint_q.assign(q)
                run.simulator.state.joint_qd.zero_()
                run.step(steps)
        for mask in (None, wp.ones(1, dtype=bool, device=device)):
            run.simulator.state.joint_q.assign(start)
            run.solver.reset(world_mask=mask)
            run.step(8)
    assert run.solver.constraints.unsolved.view.wedged_steps.numpy()[0] == 8


@pytest.mark.parametrize("seed", [1, 2])
def test_robots_that_are_thrown_onto_edges_are_solved(seed: int, device: str):
    """Some come down with legs deep in boxes that push them from several sides."""
    worlds, rng = 128, np.random.default_rng(seed)
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    builder.add_shape_box(-1, pos=(0.3, 0.0, 0.0), hx=0.25, hy=0.5, hz=0.06)
    robot = load_robot("quadruped")
    for _ in range(worlds):
        builder.add_builder(robot)
    builder.add_shape_box(-1, pos=(-0.4, 0.0, 0.0), hx=0.2, hy=0.5, hz=0.04)
    builder.set_ground_plane()
    run = SceneRun(builder, device)
    q = run.joint_q.reshape(worlds, -1)
    q[:, 2] += rng.uniform(0.1, 0.5, worlds)
    turn = rng.normal(size=(worlds, 4))
    q[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    q[:, :2] += rng.uniform(-0.4, 0.4, (worlds, 2))
    run.simulator.state.joint_q.assign(q.ravel())
    run.simulator.state.joint_qd.assign(2.0 * rng.normal(size=run.model.joint_dof_count))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*cannot be pushed out")
        run.step(STEPS_PER_SECOND // 2)
    assert run.solver.constraints.unsolved.view.steps.numpy().sum() == 0
    assert np.isfinite(run.poses).all()


def test_steps_that_are_not_solved_are_counted_and_told_once(device: str):
    """One factorization is not enough for a wall that falls into pieces."""
    model = hit_wall().finalize(device)
    solver = FeatherstoneSolver(model, factorizations=1)
    simulator = newtonsim.Simulator(model, solver, 1.0 / STEPS_PER_SECOND)
    with pytest.warns(
        RuntimeWarning, match=r"left with a residual of .* in world 0 with 96 bodies and \d+ contacts"
    ):
        simulator.step(STEPS_PER_SECOND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.step(10)
    assert solver.constraints.unsolved.view.steps.numpy()[0] > 10
    assert np.abs(simulator.state.body_qd.numpy()[:, 3:]).max() < 20.0  # twice the speed of the ball


def test_sweeps_alone_promise_nothing(device: str):
    model = hit_wall().finalize(device)
    simulator = newtonsim.Simulator(
        model, FeatherstoneSolver(model, factorizations=0), 1.0 / STEPS_PER_SECOND
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.step(STEPS_PER_SECOND // 2)


def test_a_residual_that_grows_tenfold_is_told_again(device: str):
    model = newtonsim.ModelBuilder()
    model.add_joint_free(model.add_body(mass=1.0, I_m=np.eye(3)))
    solver = FeatherstoneSolver(model.finalize(device))
    unsolved = solver.constraints.unsolved
    told = []
    for worst in (0.0, 0.01, 0.05, 0.2, 1.0, 3.0):
        unsolved.view.worst.fill_(worst)
        unsolved.view.any.fill_(int(worst > 0.0))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            unsolved.report(solver.contacts)
        told += [worst] * len(caught)
    assert told == [0.01, 0.2, 3.0]

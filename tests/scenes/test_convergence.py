"""In motion, too, every step solves its constraints to what is promised, and says where it does not."""

import warnings

import numpy as np
import pytest
from scenes.running import STEPS_PER_SECOND, SceneRun
from tasks.contact_motion import heap, hit_wall

import newtonsim
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver

PROMISED = 1.0e-4  # [m/s]
SCENES = {"wall that is hit": hit_wall, "dominoes": scenes.domino_row, "heap": lambda: heap(60)}


FACTORIZATIONS = 15  # that 99 % of the steps get by with


@pytest.mark.parametrize("name", SCENES)
def test_every_step_is_solved(name: str, device: str):
    run = SceneRun(SCENES[name](), device)
    solve = run.solver.constraints
    factorizations, deepest = [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(STEPS_PER_SECOND):
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

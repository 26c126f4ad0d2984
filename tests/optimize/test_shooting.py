"""Shooting: its gradient against differences, and what it finds against the Riccati equation and SciPy."""

import math
import warnings

import numpy as np
import pytest
import small_problems as small
import warp as wp

import newtonsim
from newtonsim import optimize
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.scene.enums import JointType
from newtonsim.testing import random_coordinates, random_model


def cart_problem(device: str, **options) -> optimize.Problem:
    costs = [optimize.JointCost(4.0, 1.0, 20.0, 5.0, joint_q=[0.0]), optimize.ControlCost(0.1)]
    return optimize.Problem(small.cart(), costs, 10, small.H, hold=2, device=device, **options)


def test_gradient_of_all_costs(device):
    """Of a floating tree with hinges and a ball joint, by central differences of the cost of a run."""
    rng = np.random.default_rng(0)
    types = [JointType.BALL, JointType.REVOLUTE, JointType.PRISMATIC]
    robot = random_model(4, body_count=4, joint_types=types, base=JointType.FREE)
    costs = [
        optimize.JointCost(1.0, 0.1, 2.0, 0.2),
        optimize.FrameCost("link3", (0.1, 0.2, 0.3, 0, 0, 0.6, 0.8), 5.0, 1.0, 8.0, 2.0, (0.1, 0.2, 0.3)),
        optimize.ControlCost(0.3, [0.5, -0.5]),
    ]
    problem = optimize.Problem(robot, costs, 4, 0.02, hold=2, device=device)
    shooting = optimize.Shooting(problem)
    q, qd = random_coordinates(problem.model, 3)
    state, u, h = shooting._rollout.state(q, qd), rng.standard_normal((4, 2)), 0.1
    cost, gradient = shooting.evaluate(state, u)
    for _ in range(2):  # nothing is left of the call before
        assert np.array_equal(gradient, shooting.evaluate(state, u)[1])
    ilqr = optimize.ILQR(problem, "difference")
    assert ilqr.solve((q, qd), u, iterations=1).history[0] == pytest.approx(cost, rel=1e-5)
    for t in range(4):
        for k in range(2):
            step = np.zeros((4, 2))
            step[t, k] = h
            ahead, behind = (shooting.evaluate(state, u + s * step)[0] for s in (1.0, -1.0))
            slope = (ahead - behind) / (2.0 * h)
            assert gradient[t, k] == pytest.approx(slope, abs=2e-3 * np.abs(gradient).max())


def test_a_linear_system(device):
    A, B = small.cart_matrices()
    A, B = A @ A, A @ B + B
    Q, R, F = 2 * small.H * np.diag([4.0, 1.0]), 2 * small.H * np.array([[0.1]]), np.diag([20.0, 5.0])
    controls, least = small.best_controls(A, B, np.array([1.0, 0.0]), Q, R, F, 10)
    result = optimize.Shooting(cart_problem(device)).solve()
    assert result.status in ("converged", "stalled")
    assert result.cost == pytest.approx(least, rel=1e-4)
    assert np.allclose(result.controls, controls, atol=0.03 * np.abs(controls).max())
    assert result.history == sorted(result.history, reverse=True)
    x = np.array([1.0, 0.0])
    for u in result.controls:
        x = A @ x + B @ u
    assert np.allclose([result.joint_q[-1, 0], result.joint_qd[-1, 0]], x, atol=1e-4)


def test_bounds_are_kept(device):
    """And the cost within them is that which iLQR finds."""
    problem = cart_problem(device, bounds=(-4.0, 2.0))
    result = optimize.Shooting(problem).solve()
    assert -4.0 == result.controls.min() <= result.controls.max() <= 2.0
    assert result.cost == pytest.approx(optimize.ILQR(problem).solve().cost, rel=1e-4)


def test_iterations_are_counted(device):
    result = optimize.Shooting(cart_problem(device)).solve(iterations=2)
    assert result.status == "iterations"
    assert result.iterations == 2


@wp.kernel
def add_broken_cost(first: int, view: optimize.CostView):
    """One thread per world: the root of what may be negative."""
    w = first + wp.tid()
    wp.atomic_add(view.losses, w, wp.sqrt(view.joint_q[w] - 0.5))


def test_a_cost_that_is_not_finite_is_told(device):
    costs = [optimize.KernelCost(add_broken_cost)]
    shooting = optimize.Shooting(optimize.Problem(small.cart(), costs, 3, small.H, device=device))
    result = shooting.solve(([0.2], [0.0]), controls=[0.5])
    assert result.status == "not finite"
    assert math.isnan(result.cost)
    assert np.all(result.controls == 0.5)


def test_the_search_turns_back_from_what_is_not_finite(device):
    """The root falls towards 0.5 m, beyond which it is none."""
    costs = [optimize.KernelCost(add_broken_cost)]
    problem = optimize.Problem(small.cart(), costs, 3, small.H, device=device)
    result = optimize.Shooting(problem).solve(iterations=20)
    assert result.cost < 0.6 * result.history[0]
    assert math.isfinite(result.cost)
    # the search was stopped by what lies beyond, not by the slope
    assert result.status != "converged"


def fails_beyond(limit: float):
    """An `evaluate` of a solver that has no gradient where a control is larger."""

    def evaluate(self, state, controls):
        if controls.max() > limit:
            raise NotDifferentiableError("the solver has no gradient in worlds [0]")
        return EVALUATE(self, state, controls)

    return evaluate


EVALUATE = optimize.Shooting.evaluate


def test_the_search_turns_back_from_what_has_no_gradient(device, monkeypatch):
    """The best controls within the limit are those with a bound there."""
    costs = [optimize.JointCost(4.0, 1.0, 20.0, 5.0, joint_q=[0.0]), optimize.ControlCost(0.1)]
    problem = optimize.Problem(small.cart(), costs, 10, small.H, hold=2, device=device)
    free = optimize.Shooting(problem).solve(([-1.0], [0.0]), controls=[0.0])
    limit = 0.5 * free.controls.max()
    monkeypatch.setattr(optimize.Shooting, "evaluate", fails_beyond(limit))
    shooting = optimize.Shooting(problem)
    with pytest.warns(
        RuntimeWarning, match=r"Shooting: it ends with the best .* no gradient in worlds \[0\]"
    ):
        result = shooting.solve(([-1.0], [0.0]), controls=[0.0])
    assert result.status == "stalled"
    assert result.controls.max() <= limit
    assert free.cost < result.cost < 0.8 * result.history[0]
    # without a motion to keep the reason is an error
    with pytest.raises(NotDifferentiableError, match="no gradient in worlds"):
        shooting.solve(([-1.0], [0.0]), controls=[2.0 * limit])


def test_two_links_swing_up_past_motions_without_gradient(device):
    """Continuous joints, which trials of the search turn too far in a step for a gradient."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    above = -1
    for place in (0.0, -0.5):
        link = robot.add_body(mass=1.0, com=(0, 0, -0.3), I_m=0.01 * np.eye(3))
        robot.add_joint_revolute(
            above,
            link,
            parent_xform=((0, 0, place), (0, 0, 0, 1)),
            axis=(0, 1, 0),
            limit_lower=-np.inf,
            limit_upper=np.inf,
            target_ke=0.0,
            target_kd=0.0,
        )
        above = link
    costs = [optimize.ControlCost(1e-2), optimize.JointCost(0.0, 0.0, 100.0, 10.0, joint_q=[math.pi, 0.0])]
    problem = optimize.Problem(robot, costs, 40, 0.02, device=device)
    guess = 2e-4 * np.random.default_rng(11).standard_normal((40, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = optimize.Shooting(problem).solve(controls=guess, iterations=300)
    assert result.status in ("converged", "stalled")
    assert result.cost < 1e-3 * result.history[0]


def test_wrong_arguments_are_told():
    shooting = optimize.Shooting(cart_problem("cpu"))
    with pytest.raises(NewtonsimError, match="iterations: expected a whole number of at least 1, got 0"):
        shooting.solve(iterations=0)
    for wrong in (-1.0, math.nan, "x"):
        with pytest.raises(
            NewtonsimError, match=f"tolerance: expected a number of at least 0, got {wrong!r}"
        ):
            shooting.solve(tolerance=wrong)
    with pytest.raises(NewtonsimError, match="checkpoint: expected"):
        optimize.Shooting(cart_problem("cpu"), checkpoint="none")

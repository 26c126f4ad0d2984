"""The backward sweep finds the least of a quadratic function of all controls, by its own rollout."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from newtonsim.optimize.costs import Changes
from newtonsim.optimize.points import Expansion
from newtonsim.optimize.riccati import BackwardSweep

HORIZON, STATES, INPUTS = 4, 5, 2


def linear_problem(with_changes: bool, with_gaps: bool):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(HORIZON, STATES, STATES))
    B = rng.normal(size=(HORIZON, STATES, INPUTS))
    root = rng.normal(size=(HORIZON, STATES + INPUTS, STATES + INPUTS))
    slope, curvature = rng.normal(size=root.shape[:2]), root @ root.swapaxes(1, 2)
    changes = []
    if with_changes:
        weight = rng.uniform(0.5, 2.0, (HORIZON, INPUTS))
        changes = [Changes(rng.normal(size=weight.shape), weight)]
    gaps = rng.normal(size=(HORIZON, STATES)) if with_gaps else None
    return A, B, Expansion(slope, curvature, changes), gaps


def cost(u: np.ndarray, A, B, expansion, gaps) -> float:
    """Of changes of the controls, with the states that they lead to."""
    x, total = np.zeros(STATES), 0.0
    for t in range(HORIZON):
        x = x if gaps is None else x + gaps[t]
        for rise, weight in expansion.changes:
            change = u[t] - x[STATES - INPUTS :]
            total += np.sum(weight[t] * (rise[t] * change + 0.5 * change**2))
        x = A[t] @ x + B[t] @ u[t]
        y = np.concatenate([x, u[t]])
        total += expansion.slope[t] @ y + 0.5 * y @ expansion.curvature[t] @ y
    return total


def follow(step, A, B, gaps) -> np.ndarray:
    """The controls of changes and feedback."""
    x, controls = np.zeros(STATES), []
    for t in range(HORIZON):
        x = x if gaps is None else x + gaps[t]
        controls.append(step.change[t] + step.gains[t] @ x)
        x = A[t] @ x + B[t] @ controls[-1]
    return np.array(controls)


@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize("with_changes", [False, True])
def test_no_other_controls_cost_less(with_changes, with_gaps):
    A, B, expansion, gaps = linear_problem(with_changes, with_gaps)
    free = np.full((HORIZON, INPUTS), np.inf)
    step = BackwardSweep(HORIZON, STATES, INPUTS)(A, B, expansion, -free, free, 0.0, gaps)
    best = follow(step, A, B, gaps)
    least = cost(best, A, B, expansion, gaps)
    for move in np.eye(HORIZON * INPUTS).reshape(-1, HORIZON, INPUTS):
        high, low = (cost(best + side * move, A, B, expansion, gaps) for side in (1.0, -1.0))
        # the slope, from a quadratic function without error, and the curvature
        assert abs(high - low) < 1e-8 * (high + low - 2.0 * least)
    if gaps is None:
        np.testing.assert_allclose(step.decrease, -least, rtol=1e-10)


def test_controls_stay_within_bounds():
    """Of the last control the least in the box is known: that of a quadratic function of it alone."""
    A, B, expansion, _ = linear_problem(False, False)
    bound = np.full((HORIZON, INPUTS), 0.05)
    step = BackwardSweep(HORIZON, STATES, INPUTS)(A, B, expansion, -bound, bound, 0.0)
    assert np.abs(step.change).max() <= 0.05
    C = expansion.curvature[-1]
    F = np.concatenate([B[-1], np.eye(INPUTS)])
    slope = F.T @ (expansion.slope[-1] + C @ F @ step.change[-1])
    inside = np.abs(step.change[-1]) < 0.05
    np.testing.assert_allclose(slope[inside], 0.0, atol=1e-6)
    assert (slope[~inside] * step.change[-1][~inside] < 0.0).all()
    assert not step.gains[-1][~inside].any()


def test_curvature_that_is_not_positive_is_told():
    A, B, expansion, _ = linear_problem(False, False)
    free = np.full((HORIZON, INPUTS), np.inf)
    bent = Expansion(expansion.slope, -expansion.curvature)
    with pytest.raises(LinAlgError):
        BackwardSweep(HORIZON, STATES, INPUTS)(A, B, bent, -free, free, 1e-3)

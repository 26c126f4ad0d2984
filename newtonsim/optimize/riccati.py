"""The backward sweep that all optimisers with linear models share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newtonsim.optimize.box import minimise
from newtonsim.optimize.points import Expansion


class Step(NamedTuple):
    """What a backward sweep finds.

    Attributes:
        change: Changes of the controls, (horizon, M).
        gains: Feedback, (horizon, M, S), with the numbers S of a state: 2 N, and M more where costs ask for
            the control before.
        decrease: The decrease of the cost that is expected of the whole step.
    """

    change: np.ndarray
    gains: np.ndarray
    decrease: float


def sweep(
    A: np.ndarray,
    B: np.ndarray,
    expansion: Expansion,
    low: np.ndarray,
    high: np.ndarray,
    damping: float,
    gaps: np.ndarray | None = None,
) -> Step:
    """Find changes and gains from the horizon back to the start.

    Tassa, Mansard and Todorov, "Control-limited differential dynamic programming", 2014; with gaps the slope
    of the value moves on to where the next state is, as in Mastalli and others, "Crocoddyl: An efficient and
    versatile framework for multi-contact optimal control", 2020, eq. 13.

    Args:
        A: Slopes of the state after each control by that before it, (horizon, S, S).
        B: Slopes by the control, (horizon, S, M).
        expansion: Costs of the states after the controls, before any gap, and of the controls.
        low: Least changes of the controls, (horizon, M).
        high: Greatest changes.
        damping: Share of the diagonal that is added to the curvature by the controls.
        gaps: From the state before each control to where the control before it leads, (horizon, S); None
            where there are none.

    Returns:
        The step. Its decrease does not count what closing the gaps costs.

    Raises:
        LinAlgError: The damping is too small.
    """
    horizon, states, inputs = B.shape
    v, V, decrease = np.zeros(states), np.zeros((states, states)), 0.0
    change, gains = np.zeros((horizon, inputs)), np.zeros((horizon, inputs, states))
    for t in reversed(range(horizon)):
        slope, curvature = expansion.slope[t], expansion.curvature[t]
        w, W = v + slope[:states], V + curvature[:states, :states]
        cross = curvature[states:, :states]
        WB = W @ B[t]
        Qx, Qu = A[t].T @ w, B[t].T @ w + slope[states:]
        Qxx, Qux = A[t].T @ W @ A[t], (WB.T + cross) @ A[t]
        Quu = B[t].T @ WB + cross @ B[t] + (cross @ B[t]).T + curvature[states:, states:]
        before = slice(states - inputs, states)  # in the state, where changes count
        for rise, weight in expansion.changes:
            Qu, Quu = Qu + weight[t] * rise[t], Quu + np.diag(weight[t])
            Qx[before] -= weight[t] * rise[t]
            Qxx[before, before] += np.diag(weight[t])
            Qux[:, before] -= np.diag(weight[t])
        scale = np.diagonal(Quu)
        damped = Quu + damping * np.diag(scale + 1e-9 * max(scale.max(), 1e-12))
        k, free = minimise(damped, Qu, low[t], high[t])
        K = np.zeros((inputs, states))
        if free.any():
            K[free] = -np.linalg.solve(damped[np.ix_(free, free)], Qux[free])
        change[t], gains[t] = k, K
        decrease -= float(k @ Qu + 0.5 * k @ Quu @ k)
        v = Qx + K.T @ (Quu @ k + Qu) + Qux.T @ k
        V = Qxx + K.T @ Quu @ K + K.T @ Qux + Qux.T @ K
        V = 0.5 * (V + V.T)
        if gaps is not None:
            v = v + V @ gaps[t]
    return Step(change, gains, decrease)

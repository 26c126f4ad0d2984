"""Quadratic functions in a box."""

from __future__ import annotations

import numpy as np

_ITERATIONS = 50
_ENOUGH = 1e-9


def minimise_in_box(
    H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ½ xᵀ H x + gᵀ x between bounds by a projected Newton method.

    Tassa, Mansard and Todorov, "Control-limited differential dynamic programming", 2014, algorithm 1.

    Args:
        H: Positive definite, (n, n).
        g: Shape (n,).
        low: Lower bounds of x, (n,).
        high: Upper bounds of x, (n,).
        x: First guess, (n,).

    Returns:
        The minimiser, and which of its entries are free to move, bool (n,).
    """
    x = np.clip(x, low, high)
    free = np.ones(len(x), bool)
    for _ in range(_ITERATIONS):
        slope = H @ x + g
        free = ~((x <= low) & (slope > 0.0) | (x >= high) & (slope < 0.0))
        if not free.any() or np.abs(slope[free]).max() < _ENOUGH * (1.0 + np.abs(g).max()):
            break
        step = np.zeros(len(x))
        step[free] = -np.linalg.solve(H[np.ix_(free, free)], slope[free])
        value, length = 0.5 * x @ H @ x + g @ x, 1.0
        while True:
            moved = np.clip(x + length * step, low, high)
            if 0.5 * moved @ H @ moved + g @ moved <= value + 0.1 * slope @ (moved - x) or length < 1e-8:
                break
            length *= 0.6
        if np.array_equal(moved, x):
            break
        x = moved
    return x, free


def minimise(
    H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise as `minimise_in_box` does, directly if no bound is reached.

    Raises:
        numpy.linalg.LinAlgError: H is not positive definite.
    """
    np.linalg.cholesky(H)
    x = -np.linalg.solve(H, g)
    if np.all((low <= x) & (x <= high)):
        return x, np.ones(len(x), bool)
    return minimise_in_box(H, g, low, high, x)

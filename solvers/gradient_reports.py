"""Reports of backward passes: worlds without a gradient, and steps that ended before they converged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from newtonsim.errors import NotDifferentiableError


def refuse_worlds(solver: str, reasons: np.ndarray, texts: Mapping[int, str]) -> None:
    """Raise if a world has no gradient.

    Args:
        solver: Name of the solver.
        reasons: Why each world has none, 0 where it has one, shape (worlds,).
        texts: What the reasons are, by number.

    Raises:
        NotDifferentiableError: It names the first reason in the order of the texts, and its worlds.
    """
    for number, text in texts.items():
        worlds = np.flatnonzero(reasons == number)
        if len(worlds):
            raise NotDifferentiableError(f"{solver}: {text}, in worlds {worlds[:8].tolist()}")


class Shortfall:
    """How far steps ended from the converged ones; reported when it is too far, and again at twice as much.

    Args:
        tolerance: Fraction of what acts that may be missing without a warning.
    """

    def __init__(self, tolerance: float):
        self._tolerance, self._told = tolerance, 0.0

    def untold(self, sums: np.ndarray, counts: np.ndarray | None = None) -> tuple[int, float] | None:
        """Return the worst entry and which part it misses, or None if that is small or was told before.

        Args:
            sums: Squares of what is missing and of what acts, summed over the steps, shape (n, 2).
            counts: Entries that are looked at, shape (n,); None for all.
        """
        missing, acting = sums.T
        looked = acting > 0.0 if counts is None else counts & (acting > 0.0)
        part = np.nan_to_num(np.sqrt(np.divide(missing, acting, out=np.zeros_like(missing), where=looked)))
        worst = int(np.argmax(part)) if len(part) else 0
        if not len(part) or part[worst] <= max(self._tolerance, 2.0 * self._told):
            return None
        self._told = float(part[worst])
        return worst, self._told

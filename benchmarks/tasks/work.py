"""The work that an engine does in a step, and how it differs from that of another engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

CONVERGED = "until it has converged"
"""Stop criterion of solves that ended by their own tolerance, before the last iteration."""


@dataclass(frozen=True)
class Work:
    """The work of a step in one world. Ratios of rates are meaningful only between engines with equal work.

    Attributes:
        pairs: Pairs of shapes that may collide; None if the engine does not tell.
        shapes: Kind and sizes [m] of each shape that collides, in any order; None likewise.
        time_step: Time of a solver step [s].
        evaluations: Evaluations of the dynamics in a solver step.
        stop: When the constraint solve ends: CONVERGED, or after how many iterations.
    """

    pairs: int | None
    shapes: tuple[tuple[str, tuple[float, ...]], ...] | None
    time_step: float
    evaluations: int
    stop: str

    def differences(self, other: Work) -> list[str]:
        """Return how the work differs from another's, which comes second; empty if it does not."""
        found = []
        if self.pairs is None or other.pairs is None or self.shapes is None or other.shapes is None:
            found.append("shapes and pairs are not known")
        else:
            if self.pairs != other.pairs:
                found.append(f"{self.pairs} pairs against {other.pairs}")
            if not same_shapes(self.shapes, other.shapes):
                found.append(f"{describe(self.shapes)} against {describe(other.shapes)}")
        if not np.isclose(self.time_step, other.time_step, rtol=1e-6):
            found.append(f"steps of {self.time_step:.3g} s against {other.time_step:.3g} s")
        if self.evaluations != other.evaluations:
            found.append(f"{self.evaluations} evaluations per step against {other.evaluations}")
        if self.stop != other.stop:
            found.append(f"solved {self.stop} against {other.stop}")
        return found


def same_shapes(
    a: tuple[tuple[str, tuple[float, ...]], ...], b: tuple[tuple[str, tuple[float, ...]], ...]
) -> bool:
    """Return whether shapes are of the same kinds and sizes, to a thousandth of the size."""
    if Counter(kind for kind, _ in a) != Counter(kind for kind, _ in b):
        return False
    pairs = zip(sorted(a), sorted(b), strict=True)
    return all(len(x) == len(y) and np.allclose(x, y, rtol=1e-3, atol=1e-6) for (_, x), (_, y) in pairs)


def describe(shapes: tuple[tuple[str, tuple[float, ...]], ...]) -> str:
    """Return how many shapes of each kind there are, and the sum of their sizes."""
    counts = Counter(kind for kind, _ in shapes)
    size = sum(sum(sizes) for _, sizes in shapes)
    return ", ".join(f"{n} x {kind}" for kind, n in sorted(counts.items())) + f" of {size:.3g} m in sum"

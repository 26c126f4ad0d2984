"""Derivatives from differences, with an estimate of how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SPANS = (1.0, 0.3, 0.1, 3.0e-2, 1.0e-2, 3.0e-3, 1.0e-3, 3.0e-4)
"""Steps of the scan in natural lengths: long ones cost truncation, short ones rounding of float32 losses."""

_ROUNDING = 2.0**-24

_MOST_ROUNDING = 3.0e-5
"""Relative rounding of a loss after many steps."""

_NEIGHBOUR = 0.1
"""Part of the distance to the next neighbour that counts as uncertainty.

Between steps that are far enough apart, truncation of an extrapolation falls by far more than tenfold.
"""


@dataclass(frozen=True)
class Estimate:
    """A derivative.

    Attributes:
        value: The estimate.
        uncertainty: How far it may be off: disagreement within the scan, and rounding.
        rounding: The part of rounding in that.
        kink: Difference between the slopes on both sides, in the limit of short steps; 0 where that
            cannot be told from curvature and rounding.
    """

    value: float
    uncertainty: float
    rounding: float
    kink: float


def estimate(
    steps: np.ndarray, high: np.ndarray, low: np.ndarray, middle: float, one_sided: bool = False
) -> Estimate:
    """Estimate a derivative from values on both sides, at a scan of steps.

    Central quotients of neighbours in the scan are extrapolated to step zero by Richardson's rule (Press et
    al., "Numerical Recipes", 5.7), and the two neighbours among the extrapolations that agree best are taken,
    weighed by rounding. Two may agree by chance where rounding is large, so it is measured by the spread of
    the values, and the next neighbour has a say, too.

    Args:
        steps: Lengths of the steps, from long to short, (n,).
        high: Values forward, (n,).
        low: Values backward, (n,).
        middle: Value at the place itself.
        one_sided: Whether values backward mean nothing, at the end of a range.
    """
    if one_sided:
        low = np.full_like(high, middle)
    good = np.isfinite(high) & np.isfinite(low) & (steps > 0.0)
    steps, high, low = steps[good], high[good], low[good]
    if len(steps) < 3 or not np.isfinite(middle):
        return Estimate(np.nan, np.inf, 0.0, np.inf)
    if np.all(high == middle) and np.all(low == middle):
        rounding = _ROUNDING * abs(middle) / float(steps[0])
        return Estimate(0.0, rounding, rounding, 0.0)
    quotients = (high - low) / (steps if one_sided else 2.0 * steps)
    noise = _noise(steps, high, low, middle)
    # the error of a central quotient grows with the square of the step, that of a one-sided one with the step
    shrink = (steps[:-1] / steps[1:]) ** (1 if one_sided else 2) - 1.0
    extrapolated = quotients[1:] + (quotients[1:] - quotients[:-1]) / shrink
    # an extrapolation carries the rounding of its two quotients
    rounding = noise / steps[1:] * (1.0 + 2.0 / shrink)
    values = 0.5 * (extrapolated[:-1] + extrapolated[1:])
    apart = np.abs(np.diff(extrapolated)) + _NEIGHBOUR * _astray(extrapolated, rounding, values)
    rounding = np.maximum(rounding[:-1], rounding[1:])
    apart += rounding
    best = int(np.argmin(apart))
    kink = 0.0 if one_sided else _kink(steps, high, low, middle)
    # more than that in the loss is no rounding, but switches
    drowned = noise < _MOST_ROUNDING * max(abs(middle), np.abs(high).min())
    return Estimate(float(values[best]), float(apart[best]), float(rounding[best]) if drowned else 0.0, kink)


def _astray(extrapolated: np.ndarray, rounding: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How much farther than by rounding the nearer neighbour in the scan is off the mean of each pair."""
    away = np.full((2, len(values)), np.inf)
    away[0, 1:] = np.abs(extrapolated[:-2] - values[1:]) - rounding[:-2]
    away[1, :-1] = np.abs(extrapolated[2:] - values[:-1]) - rounding[2:]
    nearer = away.min(axis=0)
    return np.where(np.isfinite(nearer), np.maximum(nearer, 0.0), 0.0)


def _noise(steps: np.ndarray, high: np.ndarray, low: np.ndarray, middle: float) -> float:
    """Rounding of a value: what is left of sums and differences of both sides at short steps.

    A slope makes differences grow in proportion to the step, and a kink makes sums do so: that part is taken
    out by neighbours in the scan. The median of the shortest ones is neither small nor large by chance.
    """
    ratio = steps[:-1] / steps[1:]
    spread = [
        np.median((np.abs(part[:-1] - ratio * part[1:]) / (2.0 * (1.0 + ratio)))[-3:])
        for part in (high - 2.0 * middle + low, high - low)
    ]
    return max(*map(float, spread), _ROUNDING * abs(middle))


def _kink(steps: np.ndarray, high: np.ndarray, low: np.ndarray, middle: float) -> float:
    """Jump of the slope: one-sided quotients differ by it in the limit of short steps.

    Where there is none, the difference shrinks with the step until rounding hides it. So it has to be there
    at all steps of the scan, and the extrapolations to step zero that agree best have to agree much better
    than they are large.
    """
    jumps = (high - 2.0 * middle + low) / steps
    limits = jumps[1:] - (jumps[:-1] - jumps[1:]) / (steps[:-1] / steps[1:] - 1.0)
    apart = np.abs(np.diff(limits))
    best = int(np.argmin(apart))
    size = abs(0.5 * (limits[best] + limits[best + 1]))
    return float(min(size, np.abs(jumps).min())) if size > 4.0 * apart[best] else 0.0

"""Derivatives from differences of rounded values, and their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

SPANS = (1.0, 0.3, 0.1, 3.0e-2, 1.0e-2, 3.0e-3, 1.0e-3, 3.0e-4, 1.0e-4, 3.0e-5, 1.0e-5, 3.0e-6)
"""Steps of the scan in natural lengths: long ones cost truncation, short ones rounding of float32 losses.

Bodies at rest in contact leave it when they are moved by more than the last ones.
"""

NEIGHBOURS = 1.0e-6 * np.arange(1, 9)
"""Where noise is measured, in natural lengths: a few roundings of float32 apart, and not at the place itself,
which may be an edge."""

SIDES = 1.0e-3
"""Step over which both one-sided quotients are reported, in natural lengths."""

_ROUNDING = 2.0**-25
"""Standard deviation of rounding to float32, relative to the value, at the least."""

_LEAST = 1.0e-6
"""Smallest value, relative to the largest one, whose rounding is considered, so that weights stay bounded."""

_MOST_NOISE = 3.0
"""Factor on measured noise, which varies, above which a fit is wrong."""


class Limit(Enum):
    """What limits the accuracy of a derivative."""

    ROUNDING = "rounding at all steps of the scan"
    RANGE = "rounding at short steps, and at longer ones the slope changes"
    JUMPS = "jumps that no rounding explains"


@dataclass(frozen=True)
class Estimate:
    """A derivative.

    Attributes:
        value: The estimate.
        uncertainty: Its uncertainty: two standard deviations of noise, and the change due to the longest step
            that was used.
        kink: Difference between the slopes on both sides, in the limit of short steps; 0 if that cannot be
            distinguished from curvature and noise.
        noise: Standard deviation of a value that the estimate assumes.
        span: Longest step that was used.
        limit: What the uncertainty comes from.
        sides: A step near `SIDES`, and the quotients backward and forward over it.
    """

    value: float
    uncertainty: float
    kink: float
    noise: float
    span: float
    limit: Limit
    sides: tuple[float, float, float] = (np.nan, np.nan, np.nan)

    def scaled(self, length: float) -> Estimate:
        """The same derivative with respect to a variable scaled by a factor."""
        return replace(
            self,
            value=self.value / length,
            uncertainty=self.uncertainty / length,
            kink=self.kink / length,
            span=self.span * length,
            sides=(self.sides[0] * length, self.sides[1] / length, self.sides[2] / length),
        )


@dataclass(frozen=True)
class _Fit:
    """The slope of a polynomial through values near zero."""

    slope: float
    uncertainty: float
    first: int
    residual: float


def measure_noise(values: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise in values at equally spaced neighbours.

    Differences of order k cancel a smooth function, and multiply the variance of independent noise by
    (2k)!/(k!)² (Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33, 2011). The median
    of several orders is taken.

    Args:
        values: One row for each neighbour, at least 6, shape (neighbours, n).

    Returns:
        Shape (n,); NaN where a value is not finite.
    """
    table, factor, levels = np.asarray(values, np.float64), 1.0, []
    for k in range(1, len(table) - 2):
        table = np.diff(table, axis=0)
        factor *= k / (4.0 * k - 2.0)
        if k > 1:
            levels.append(np.sqrt(factor * np.mean(table**2, axis=0)))
    return np.median(levels, axis=0)


def estimate(
    steps: np.ndarray,
    high: np.ndarray,
    low: np.ndarray,
    middle: float,
    noise: float,
    one_sided: bool = False,
) -> Estimate:
    """Estimate a derivative from values on both sides, at a scan of steps.

    Central quotients are extrapolated to step zero, as in Romberg's scheme, by polynomials in the square of
    the step, weighted by noise (Moré and Wild, "Estimating derivatives of noisy simulations", ACM TOMS 38,
    2012, proceed similarly). All steps up to a longest one take part: shorter ones have less truncation and
    more noise, and a polynomial that does not fit them within noise gives no limit. Of the longest steps and
    orders that fit, the one with the least uncertainty is taken. If none fits, not even over the shortest
    steps, the values jump more than by noise, and their scatter there counts as such.

    Args:
        steps: Lengths of the steps, from long to short, (n,).
        high: Values forward, (n,).
        low: Values backward, (n,).
        middle: Value at the point itself.
        noise: Standard deviation of a value, see `measure_noise`; rounding to float32 is the least.
        one_sided: Whether backward values are meaningless, at the end of a range.
    """
    told = _sides(steps, high, low, middle, one_sided)
    if one_sided:
        low = np.full_like(high, middle)
    good = np.isfinite(high) & np.isfinite(low) & (steps > 0.0)
    steps, high, low = steps[good], high[good], low[good]
    if len(steps) < 3 or not np.isfinite(middle + noise):
        return Estimate(np.nan, np.inf, 0.0, noise, 0.0, Limit.JUMPS, told)
    sizes = np.maximum(np.maximum(np.abs(high), np.abs(low)), abs(middle))
    if not sizes.any():
        return Estimate(0.0, 0.0, 0.0, 0.0, float(steps[0]), Limit.ROUNDING, told)
    deviations = np.maximum(noise, _ROUNDING * np.maximum(sizes, _LEAST * sizes.max()))
    # rounding of the value itself, which all steps share, is another unknown
    shared = max(noise, _ROUNDING * max(abs(middle), _LEAST * float(sizes.max())))
    odd = (steps, high - middle, deviations, (1, 2, 3), shared)
    if not one_sided:
        odd = (steps, 0.5 * (high - low), deviations / np.sqrt(2.0), (1, 3, 5, 7), None)
    fit, raised = _fit(*odd), 1.0
    if fit.residual > _MOST_NOISE:
        raised = fit.residual
        fit = _fit(*odd, raised)
    kink = 0.0
    if not one_sided:
        even = (steps, 0.5 * (high + low) - middle, deviations / np.sqrt(2.0), (1, 2, 4, 6), shared)
        sides = _fit(*even, raised)
        if sides.residual <= _MOST_NOISE and abs(sides.slope) > 2.0 * sides.uncertainty:
            kink = 2.0 * abs(sides.slope)
    limit = Limit.ROUNDING if fit.first == 0 else Limit.RANGE
    return Estimate(
        fit.slope,
        fit.uncertainty,
        kink,
        float(deviations[-1]) * raised,
        float(steps[fit.first]),
        Limit.JUMPS if raised > 1.0 else limit,
        told,
    )


def _sides(
    steps: np.ndarray, high: np.ndarray, low: np.ndarray, middle: float, one_sided: bool
) -> tuple[float, float, float]:
    """The step nearest to `SIDES`, and the quotients backward and forward over it."""
    near = int(np.argmin(np.abs(np.log(steps / SIDES))))
    step = float(steps[near])
    backward = np.nan if one_sided else float(middle - low[near]) / step
    return step, backward, float(high[near] - middle) / step


def _fit(
    steps: np.ndarray,
    values: np.ndarray,
    deviations: np.ndarray,
    powers: tuple[int, ...],
    shared: float | None,
    raised: float = 1.0,
) -> _Fit:
    """Return the coefficient of the step in the polynomial that determines it best.

    Args:
        steps: From long to short, (n,).
        values: Values that are zero at step zero, (n,).
        deviations: Their standard deviations, (n,).
        powers: Powers of the step that the polynomial may have, at least the first, never the last.
        shared: Standard deviation of an error that all values share; None if they share none.
        raised: Factor of all standard deviations.

    Returns:
        The fit; if none is within noise, that over the shortest steps, with a larger residual, in units of
        what noise does.
    """
    deviations = raised * deviations
    best = last = None
    for terms in range(1, len(powers)):
        before: tuple[float, float] | None = None
        for first in range(len(steps) - terms, -1, -1):
            h = steps[first:] / steps[first]
            columns = [h**p for p in powers[:terms]]
            target, weights = values[first:], 1.0 / deviations[first:]
            if shared is not None:
                columns = [np.append(c, 0.0) for c in columns] + [np.ones(len(h) + 1)]
                target, weights = np.append(target, 0.0), np.append(weights, 1.0 / (raised * shared))
            matrix = np.stack(columns, axis=1) * weights[:, None]
            inverse = np.linalg.pinv(matrix)
            x = inverse @ (target * weights)
            slope, spread = x[0] / steps[first], np.linalg.norm(inverse[0]) / steps[first]
            freedom = len(h) - terms
            if before is not None and freedom > 0:
                residual = np.linalg.norm(matrix @ x - target * weights) / np.sqrt(4.0 * freedom + 5.0)
                more = max(residual, 1.0)
                # without the longest step truncation is less by the power that is left out; by chance the
                # slope may change less
                left = 1.0 - float(steps[first + 1] / steps[first]) ** (powers[terms] - 1)
                changes = max(abs(slope - before[0]) / left, more * before[1])
                fit = _Fit(float(slope), float(2.0 * more * spread + changes), first, float(residual))
                if terms == 1 and first == len(steps) - 3:
                    last = fit
                if residual <= _MOST_NOISE and (best is None or fit.uncertainty < best.uncertainty):
                    best = fit
            before = slope, spread
    return best or last

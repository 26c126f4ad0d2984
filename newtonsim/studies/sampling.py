"""Candidates for `newtonsim.sweep`: grids, random samples and Latin hypercubes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError, did_you_mean

Ranges = Mapping[str, Sequence[float]]
"""Lowest and highest value of each parameter."""


def grid(axes: Mapping[str, npt.ArrayLike]) -> dict[str, np.ndarray]:
    """Return all combinations of values; those of the last parameter change fastest.

    Args:
        axes: Values of each parameter, shape (n,).

    Returns:
        Values of each parameter in all combinations, shape (product of all n,).

    Raises:
        NewtonsimError: There are no parameters, or values are not a sequence of at least one.
    """
    _check_names("axes", axes)
    values = {name: np.asarray(axis) for name, axis in axes.items()}
    for name, axis in values.items():
        if axis.ndim != 1 or not axis.size:
            raise NewtonsimError(f"axes: {name!r}: expected a sequence of values, got shape {axis.shape}")
    crossed = np.meshgrid(*values.values(), indexing="ij")
    return {name: axis.ravel() for name, axis in zip(values, crossed)}


def random(ranges: Ranges, count: int, seed: int = 0, log: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return independent samples, uniform in the box of all ranges.

    Args:
        ranges: Lowest and highest value of each parameter.
        count: Number of samples.
        seed: Seed of the random numbers.
        log: Parameters whose logarithm is uniform: sizes that are only known to an order of magnitude.

    Returns:
        Values of each parameter, shape (count,).

    Raises:
        NewtonsimError: A range is invalid, or the count is not positive.
    """
    low, high = _check_box(ranges, count, log)
    unit = np.random.default_rng(seed).random((count, len(low)))
    return _scaled(ranges, unit, low, high, log)


def latin_hypercube(
    ranges: Ranges, count: int, seed: int = 0, log: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Return samples that cover each range evenly: one in each of `count` equal slices of every parameter.

    McKay, Beckman, Conover, "A comparison of three methods for selecting values of input variables in the
    analysis of output from a computer code", 1979.

    Args:
        ranges: Lowest and highest value of each parameter.
        count: Number of samples.
        seed: Seed of the random numbers.
        log: Parameters whose logarithm is covered evenly.

    Returns:
        Values of each parameter, shape (count,).

    Raises:
        NewtonsimError: A range is invalid, or the count is not positive.
    """
    from scipy.stats import qmc

    low, high = _check_box(ranges, count, log)
    unit = qmc.LatinHypercube(len(low), rng=np.random.default_rng(seed)).random(count)
    return _scaled(ranges, unit, low, high, log)


def _scaled(
    ranges: Ranges, unit: np.ndarray, low: np.ndarray, high: np.ndarray, log: Collection[str]
) -> dict[str, np.ndarray]:
    """Stretch samples of the unit cube (count, n) over the ranges."""
    values = low + unit * (high - low)
    return {name: np.exp(v) if name in log else v for name, v in zip(ranges, values.T.copy())}


def _check_box(ranges: Ranges, count: int, log: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the box, (n,) each, logarithms for the parameters in `log`."""
    _check_names("ranges", ranges)
    if not isinstance(count, (int, np.integer)) or count < 1:
        raise NewtonsimError(f"count: expected a whole number of at least 1, got {count!r}")
    for name in log:
        if name not in ranges:
            raise NewtonsimError(f"log: there is no range of {name!r}{did_you_mean(name, ranges)}")
    corners = []
    for name, limits in ranges.items():
        corner = np.asarray(limits, dtype=float)
        if corner.shape != (2,) or not np.isfinite(corner).all() or corner[0] > corner[1]:
            raise NewtonsimError(f"ranges: {name!r}: expected (lowest, highest), got {limits!r}")
        if name in log:
            if corner[0] <= 0.0:
                raise NewtonsimError(f"ranges: {name!r}: a logarithm needs values above 0, got {limits!r}")
            corner = np.log(corner)
        corners.append(corner)
    low, high = np.array(corners).T
    return low, high


def _check_names(argument: str, parameters: Mapping) -> None:
    if not isinstance(parameters, Mapping) or not parameters:
        raise NewtonsimError(f"{argument}: expected a dict with at least one parameter, got {parameters!r}")

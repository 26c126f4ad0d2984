"""Checks of users' arguments to optimisers, before anything is changed."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError, NotDifferentiableError


def check_count(name: str, value: object) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise NewtonsimError(f"{name}: expected a whole number of at least 1, got {value!r}")


def check_share(name: str, value: object) -> None:
    """Refuse what is not a number of at least 0.

    Raises:
        NewtonsimError: It is not; the message has the name.
    """
    if not isinstance(value, (int, float, np.number)) or not 0.0 <= float(value) < np.inf:
        raise NewtonsimError(f"{name}: expected a number of at least 0, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """Return a positive number.

    Raises:
        NewtonsimError: It is not; the message has the name.
    """
    if not (isinstance(value, (int, float, np.number)) and 0.0 < float(value) < np.inf):
        raise NewtonsimError(f"{name}: expected a positive number, got {value!r}")
    return float(value)


def warn_of_costs(optimizer: object) -> None:
    """Warn a control loop that its optimiser found no finite cost."""
    warnings.warn(
        f"{type(optimizer).__name__}: nothing tried from this state has a finite cost; the controls are "
        "unchanged",
        RuntimeWarning,
        stacklevel=3,
    )


def warn_of_gradients(optimizer: object, reason: NotDifferentiableError) -> None:
    """Warn that an optimiser ended where the solver has no gradient."""
    warnings.warn(
        f"{type(optimizer).__name__}: it ends with the best controls so far, since beyond them {reason}",
        RuntimeWarning,
        stacklevel=3,
    )


def read_numbers(
    name: str, values: npt.ArrayLike, *shapes: tuple[int, ...], finite: bool = True
) -> np.ndarray:
    """Return numbers of one of some shapes, float64.

    Raises:
        NewtonsimError: They have another shape, are not numbers, or not finite; the message has the name.
    """
    try:
        array = np.asarray(values.numpy() if hasattr(values, "numpy") else values, np.float64)  # pyright: ignore[reportAttributeAccessIssue]
    except (TypeError, ValueError):
        raise NewtonsimError(f"{name}: expected numbers, got {values!r}") from None
    if array.shape not in shapes:
        raise NewtonsimError(f"{name}: expected shape {' or '.join(map(str, shapes))}, got {array.shape}")
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if bad.any():
        where = np.unravel_index(int(np.flatnonzero(bad)[0]), array.shape) if array.ndim else ()
        raise NewtonsimError(
            f"{name}: expected finite numbers, got {array[where]} at {tuple(map(int, where))}"
        )
    return array

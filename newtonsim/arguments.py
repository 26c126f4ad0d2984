"""Numbers that doors take, checked before kernels read them."""

from __future__ import annotations

import operator

from newtonsim.errors import NewtonsimError

LEAST_STEP, LARGEST_STEP = 1.0e-15, 1.0e12
"""Time steps [s] that single precision can square and divide by."""


def check_time_step(dt: object, name: str = "dt") -> None:
    """Raise a NewtonsimError unless an argument is a time step that single precision can calculate with."""
    try:
        fits = not isinstance(dt, bool | str | bytes)
        fits = fits and LEAST_STEP <= float(dt) <= LARGEST_STEP  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise NewtonsimError(
            f"{name}: expected a positive number of {LEAST_STEP:g} to {LARGEST_STEP:g}, got {show(dt)}"
        )


def check_count(name: str, value: object, least: int) -> int:
    """Return an argument as a whole number, or raise a NewtonsimError that names it."""
    try:
        count = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        count = None
    if count is None or count < least:
        raise NewtonsimError(f"{name}: expected a whole number of at least {least}, got {show(value)}")
    return count


def show(value: object, most: int = 80) -> str:
    """Return the text of a value for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= most else text[:most] + "..."

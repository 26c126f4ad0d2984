"""Numbers that doors take, checked before kernels read them."""

from __future__ import annotations

import math
import operator

from newtonsim.errors import NewtonsimError

LEAST_STEP, LARGEST_STEP = 1.0e-15, 1.0e12
"""Time steps [s] that single precision can square and divide by."""


def read_number(value: object) -> float | None:
    """Return an argument as a number, None for what is none; NaN, texts and truth values are none."""
    try:
        number = None if isinstance(value, bool | str | bytes) else float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if number is None or number != number else number


def read_count(value: object) -> int | None:
    """Return an argument as a whole number, None for what is none."""
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def check_time_step(dt: object, name: str = "dt") -> None:
    """Raise a NewtonsimError unless an argument is a time step that single precision can calculate with."""
    number = read_number(dt)
    if number is None or not LEAST_STEP <= number <= LARGEST_STEP:
        raise NewtonsimError(
            f"{name}: expected a positive number of {LEAST_STEP:g} to {LARGEST_STEP:g}, got {show(dt)}"
        )


def check_count(name: str, value: object, least: int) -> int:
    """Return an argument as a whole number, or raise a NewtonsimError that names it."""
    count = read_count(value)
    if count is None or count < least:
        raise NewtonsimError(f"{name}: expected a whole number of at least {least}, got {show(value)}")
    return count


def check_time(name: str, value: object) -> float:
    """Return an argument as a time [s], or raise a NewtonsimError that names it."""
    number = read_number(value)
    if number is None or not abs(number) < math.inf:
        raise NewtonsimError(f"{name}: expected a finite number of seconds, got {show(value)}")
    return number


def show(value: object, most: int = 80) -> str:
    """Return the text of a value for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= most else text[:most] + "..."

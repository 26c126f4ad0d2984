"""Kinds of values of options."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from newtonsim.errors import NewtonsimError


def is_number(value: object) -> bool:
    """Tell whether a value is a number, which may be infinite, but neither NaN nor a bool."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and not math.isnan(value)


def is_range(value: object) -> bool:
    """Tell whether a value is a pair of numbers (low, high) with low <= high."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
        return False
    return all(map(is_number, value)) and bool(value[0] <= value[1])


def check_kind(name: str, value: Any, default: Any) -> None:
    """Raise an error unless a value has the type of a default that is a bool, a float or a range.

    Other defaults allow any value.

    Raises:
        NewtonsimError: It has not; the error starts with the name.
    """
    if isinstance(default, bool):
        right, expected = isinstance(value, (bool, np.bool_)), "True or False"
    elif isinstance(default, float):
        right, expected = is_number(value), f"a number such as {default}"
    elif is_range(default):
        right, expected = is_range(value), f"a range (low, high) such as {default}"
    else:
        return
    if not right:
        raise NewtonsimError(f"{name}: expected {expected}, got {value!r}")

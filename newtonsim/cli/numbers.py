"""Numeric arguments of commands, as the `type` of argparse."""

from __future__ import annotations

import argparse
import math


def positive_int(text: str) -> int:
    """Read a whole number of at least one."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def positive_count(text: str) -> int:
    """Read a whole number of at least one, which may be written as 2e6."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 1.0 and value.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(value)


def natural_int(text: str) -> int:
    """Read a whole number of at least zero."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return value


def positive_float(text: str) -> float:
    """Read a finite number above zero; fractions such as 1/240 are understood."""
    numerator, slash, denominator = text.partition("/")
    try:
        value = float(numerator) / (float(denominator) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value

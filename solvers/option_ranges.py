"""Ranges of the options of solvers; a value outside raises a NewtonsimError that names the option."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from newtonsim.arguments import read_count, read_number, show
from newtonsim.errors import NewtonsimError

LARGEST = 1.0e30
"""Largest number that is no bound: single precision holds it."""
LARGEST_COUNT = 2**31 - 1


def check_counts(options: object, names: Iterable[str], least: int = 1) -> None:
    """Raise a NewtonsimError for an attribute that is no whole number, or below `least`."""
    for name in names:
        count = read_count(getattr(options, name))
        if count is None or not least <= count <= LARGEST_COUNT:
            raise NewtonsimError(f"{name}: expected at least {least}, got {show(getattr(options, name))}")


def check_shares(options: object, names: Iterable[str]) -> None:
    """Raise a NewtonsimError for an attribute that is not from 0 to 1."""
    _check(options, names, lambda number: 0.0 <= number <= 1.0, "a number from 0 to 1")


def check_not_negative(options: object, names: Iterable[str], finite: bool = False) -> None:
    """Raise a NewtonsimError for an attribute that is below 0, not a number, or infinite where it may not."""
    largest = LARGEST if finite else float("inf")
    _check(options, names, lambda number: 0.0 <= number <= largest, "a number of at least 0")


def check_positive(options: object, names: Iterable[str]) -> None:
    """Raise a NewtonsimError for an attribute that is not above 0, or infinite."""
    _check(options, names, lambda number: 0.0 < number <= LARGEST, "a positive number")


def check_relaxations(options: object, names: Iterable[str]) -> None:
    """Raise a NewtonsimError for a factor on corrections outside 0 to 2, where sweeps converge."""
    _check(options, names, lambda number: 0.0 < number < 2.0, "a number between 0 and 2")


def check_words(options: object, choices: dict[str, tuple[str, ...]]) -> None:
    """Raise a NewtonsimError for an attribute that is not one of its words."""
    for name, words in choices.items():
        given = getattr(options, name)
        if not isinstance(given, str) or given not in words:
            raise NewtonsimError(f"{name}: expected {' or '.join(map(repr, words))}, got {show(given)}")


def _check(options: object, names: Iterable[str], fits: Callable[[float], bool], expected: str) -> None:
    for name in names:
        given = getattr(options, name)
        number = read_number(given)
        if number is None or not fits(number):
            raise NewtonsimError(f"{name}: expected {expected}, got {show(given)}")

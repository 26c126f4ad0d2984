"""Ranges of the options of solvers; a value outside raises a ValueError that names the option."""

from __future__ import annotations

from collections.abc import Iterable


def check_counts(options: object, names: Iterable[str]) -> None:
    """Raise a ValueError for an attribute below 1."""
    for name in names:
        if getattr(options, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(options, name)}")


def check_shares(options: object, names: Iterable[str]) -> None:
    """Raise a ValueError for an attribute that is not from 0 to 1."""
    for name in names:
        if not 0.0 <= getattr(options, name) <= 1.0:
            raise ValueError(f"{name}: expected a number from 0 to 1, got {getattr(options, name)}")


def check_not_negative(options: object, names: Iterable[str]) -> None:
    """Raise a ValueError for an attribute that is below 0 or not a number."""
    for name in names:
        if not getattr(options, name) >= 0.0:
            raise ValueError(f"{name}: expected a number of at least 0, got {getattr(options, name)}")


def check_relaxations(options: object, names: Iterable[str]) -> None:
    """Raise a ValueError for a factor on corrections that is not between 0 and 2, where sweeps converge."""
    for name in names:
        if not 0.0 < getattr(options, name) < 2.0:
            raise ValueError(f"{name}: expected a number between 0 and 2, got {getattr(options, name)}")


def check_words(options: object, choices: dict[str, tuple[str, ...]]) -> None:
    """Raise a ValueError for an attribute that is not one of its words."""
    for name, words in choices.items():
        given = getattr(options, name)
        if given not in words:
            raise ValueError(f"{name}: expected {' or '.join(map(repr, words))}, got {given!r}")

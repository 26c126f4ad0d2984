"""Pairs NAME=VALUE on the command line, and options that do not go together."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from typing import Any

from newtonsim.errors import NewtonsimError


def key_values(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE pairs; values are Python literals or plain text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise NewtonsimError(f"{option}: expected NAME=VALUE, got {pair!r}")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def refuse(arguments: argparse.Namespace, algorithm: str, *names: str) -> None:
    """Refuse options that an algorithm doesn't have.

    Raises:
        NewtonsimError: One of them was given.
    """
    for name in names:
        if getattr(arguments, name) not in (None, []):
            raise NewtonsimError(f"--{name.replace('_', '-')}: --algorithm {algorithm} has no such option")

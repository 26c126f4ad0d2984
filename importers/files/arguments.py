"""Arguments that all importers take, and what is wrong with them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Real

import numpy as np

from newtonsim.errors import ModelError


@dataclass(frozen=True, slots=True)
class ContactSettings:
    """Contact material of shapes, as the `contact_*` arguments give it."""

    ke: float
    kd: float
    kf: float
    ka: float
    mu: float
    restitution: float
    thickness: float

    def __post_init__(self):
        for field in fields(self):
            check_number(f"contact_{field.name}", getattr(self, field.name))

    def arguments(self, mu: float | None = None) -> dict[str, float]:
        """Arguments for `add_shape_*`, with a coefficient of friction of the file's if there is one."""
        names = ("ke", "kd", "kf", "ka", "restitution", "thickness")
        return {**{name: getattr(self, name) for name in names}, "mu": self.mu if mu is None else mu}


def check_number(name: str, value: object) -> None:
    """Raise unless an argument is a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(value):
        raise ModelError(f"{name}: expected a finite number, got {value!r}")


def check_scale(scale: float) -> None:
    """Raise unless the factor on all lengths is a positive number."""
    if not 0.0 < scale < np.inf:
        raise ModelError(f"scale must be a positive number, got {scale}")


def patterns(name: str, expressions: Iterable[str] | None) -> tuple[re.Pattern, ...]:
    """Compile the regular expressions of an argument."""
    if isinstance(expressions, str) or not isinstance(expressions, Iterable | None):
        raise ModelError(f"{name}: expected a list of regular expressions, got {expressions!r}")
    try:
        return tuple(re.compile(expression) for expression in expressions or ())
    except re.error as error:
        raise ModelError(f"{name}: {error.pattern!r} is not a regular expression: {error}") from error

"""Arguments that all importers take, and what is wrong with them."""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

from newtonsim.arguments import show
from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.scene.arrays import LARGEST_NUMBER

LARGEST_SINGLE = float(np.finfo(np.float32).max)
_FILES = ("urdf_filename", "mjcf_filename", "sdf_filename", "path")
_TEXTS = ("root_path", "cloned_env", "up_axis")
_NOT_NEGATIVE = {
    *("density", "default_density", "armature", "armature_scale", "static_link_mass", "stiffness", "damping"),
    *("contact_ke", "contact_kd", "contact_kf", "contact_ka", "contact_mu", "contact_thickness"),
    *("limit_ke", "limit_kd", "joint_limit_ke", "joint_limit_kd", "joint_drive_gains_scaling"),
}
_SHARES = ("contact_restitution",)
_MAY_BE_ENDLESS = ("joint_limit_lower", "joint_limit_upper")


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


def check_arguments(reader: Callable, given: Mapping[str, Any]) -> None:
    """Check what a reader of files was called with, by the annotations of its parameters.

    Args:
        reader: The function.
        given: Its arguments by name.

    Raises:
        ModelError: One has the wrong type or is out of range; the message names it and its value.
    """
    for name, kind in reader.__annotations__.items():
        if name in given:
            _check_argument(name, kind, given[name])
    lower, upper = (given.get(name, 0.0) for name in _MAY_BE_ENDLESS)
    if lower > upper:
        raise ModelError(f"joint_limit_lower: {show(lower)} is above joint_limit_upper, {show(upper)}")


def _check_argument(name: str, kind: object, value: Any) -> None:
    """Check one argument; where annotations are not evaluated, they are text."""
    if name in _FILES:
        if not isinstance(value, (str, os.PathLike) if name == "path" else (str, bytes, os.PathLike)):
            raise ModelError(f"{name}: expected the name of a file, got {show(value)}")
    elif name == "builder":
        if not isinstance(value, ModelBuilder):
            raise ModelError(f"builder: expected a ModelBuilder, got {show(value)}")
    elif name == "base_joint":
        if not isinstance(value, str | Mapping | None):
            raise ModelError(
                f'base_joint: expected a text such as "px,py,rz" or arguments of ModelBuilder.add_joint by '
                f"name, got {show(value)}"
            )
    elif name == "package_paths":
        _check_folders(name, value)
    elif name in _TEXTS:
        if not (isinstance(value, str) or (value is None and name == "cloned_env")):
            raise ModelError(f"{name}: expected a text, got {show(value)}")
    elif name == "scale":
        check_scale(value)
    elif name in _MAY_BE_ENDLESS:
        if not _is_number(value) or not (abs(value) <= LARGEST_SINGLE or abs(value) == math.inf):
            raise ModelError(
                f"{name}: expected a number of at most {LARGEST_SINGLE:g} or infinity, got {show(value)}"
            )
    elif kind in (float, "float"):
        check_number(name, value)
        if name in _NOT_NEGATIVE and value < 0.0:
            raise ModelError(f"{name}: expected a number of at least 0, got {show(value)}")
        if name in _SHARES and not 0.0 <= value <= 1.0:
            raise ModelError(f"{name}: expected a number from 0 to 1, got {show(value)}")
    elif kind in (bool, "bool") and not (
        isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1))
    ):
        raise ModelError(f"{name}: expected True or False, got {show(value)}")


def _check_folders(name: str, value: Any) -> None:
    """Check that an argument is a folder, several, or a mapping to folders."""
    folders = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, str | os.PathLike):
        folders = (value,)
    if not isinstance(folders, Iterable) or isinstance(folders, bytes | np.ndarray):
        raise ModelError(f"{name}: expected folders, got {show(value)}")
    if isinstance(folders, list | tuple) or isinstance(value, Mapping):  # others can be gone through but once
        for folder in folders:
            if not isinstance(folder, str | os.PathLike):
                raise ModelError(f"{name}: expected folders, got {show(folder)} among them")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def check_number(name: str, value: object) -> None:
    """Raise unless an argument is a number that single precision can calculate with."""
    if not _is_number(value) or not abs(value) <= LARGEST_NUMBER:  # pyright: ignore[reportArgumentType]
        raise ModelError(f"{name}: expected a finite number of at most {LARGEST_NUMBER:g}, got {show(value)}")


def check_scale(scale: object) -> None:
    """Raise unless the factor on all lengths is a positive number."""
    if not _is_number(scale) or not 0.0 < scale <= LARGEST_NUMBER:  # pyright: ignore[reportOperatorIssue]
        raise ModelError(
            f"scale: expected a positive number of at most {LARGEST_NUMBER:g}, got {show(scale)}"
        )


def patterns(name: str, expressions: Iterable[str] | None) -> tuple[re.Pattern, ...]:
    """Compile the regular expressions of an argument."""
    if isinstance(expressions, str) or not isinstance(expressions, Iterable | None):
        raise ModelError(f"{name}: expected a list of regular expressions, got {expressions!r}")
    listed = () if expressions is None else tuple(expressions)
    for expression in listed:
        if not isinstance(expression, str | re.Pattern):
            raise ModelError(f"{name}: expected regular expressions, got {show(expression)} among them")
    try:
        return tuple(re.compile(expression) for expression in listed)
    except re.error as error:
        raise ModelError(f"{name}: {error.pattern!r} is not a regular expression: {error}") from error

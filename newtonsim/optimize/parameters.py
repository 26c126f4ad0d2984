"""Parameters of a model that a log can determine: masses, friction, gains."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.diff.layout import find_array, find_place
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.fields.table import FIELDS
from newtonsim.fields.updates import follow
from newtonsim.optimize.checks import read_numbers
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_OF_JOINTS = ("joint", "axis", "dof")
_FAR = 100.0
"""Factor about the first guess within which positive numbers are sought."""


class Parameter:
    """A parameter of the model to find.

    If it is positive within its bounds, the search is over its logarithm, so that the scale does not matter.

    Args:
        array: Name of an array of the model that has a gradient, such as "body_mass", "shape_materials.mu",
            "joint_target_ke", "joint_friction", "joint_armature", or of `newtonsim.fields.FIELDS`.
        entries: Names of bodies, shapes or joints, or indices of the array, whose entries all have the
            number; None for all entries. The inertia of a body does not follow its mass.
        guess: First guess; None for the robot's value.
        bounds: Least and greatest value; None for a hundredth to a hundred times the guess.

    Raises:
        NewtonsimError: An argument is out of range, or no array has that name.
        NotDifferentiableError: The array has no gradient.
    """

    indices: npt.NDArray[np.intp]
    """Entries of the array that have the number, of a parameter that `bind` returned."""

    def __init__(
        self,
        array: str,
        entries: str | int | Sequence[str | int] | None = None,
        guess: float | None = None,
        bounds: tuple[float, float] | None = None,
    ):
        self.place = find_place(array if array in FIELDS else f"model.{array}")
        self.array = array
        if isinstance(entries, (str, int, np.integer)):
            entries = [entries]
        if entries is not None and not len(entries):
            raise NewtonsimError(f"Parameter {array}: expected names or indices, got {entries!r}")
        self._entries = entries
        self.name = array if entries is None else f"{array} of {', '.join(map(str, entries))}"
        self.guess = None if guess is None else float(read_numbers(f"{self.name}: guess", guess, ()))
        self.low, self.high = -np.inf, np.inf
        if bounds is not None:
            self.low, self.high = read_numbers(f"{self.name}: bounds", bounds, (2,)).tolist()
            if not self.low < self.high:
                raise NewtonsimError(f"{self.name}: low {self.low:g} is not below high {self.high:g}")
        self._bounded = bounds is not None

    def bind(self, model: Model) -> Parameter:
        """Return a copy with the entries, the guess and the bounds that it has in a model of one world.

        Raises:
            NewtonsimError: The model has no such entries, they are not single numbers, or the guess is 0 and
                there are no bounds.
        """
        values = find_array(self.place, model)
        if values.dtype is not wp.float32 or values.ndim > 1:
            raise NewtonsimError(f"{self.name}: expected an array of single numbers")
        of_entry, keys = _owners(model, self.place.per, values.size)
        bound = copy.copy(self)
        bound.indices = np.arange(values.size)
        if self._entries is not None:
            found = [self._find(entry, of_entry, keys) for entry in self._entries]
            bound.indices = np.unique(np.concatenate(found))
        if bound.guess is None:
            bound.guess = float(values.numpy()[bound.indices[0]])
        if not self._bounded:
            if not bound.guess > 0.0:
                raise NewtonsimError(f"{self.name}: give bounds, the guess {bound.guess:g} is not positive")
            bound.low, bound.high = bound.guess / _FAR, bound.guess * _FAR
        if not bound.low <= bound.guess <= bound.high:
            raise NewtonsimError(
                f"{self.name}: the guess {bound.guess:g} is not within {bound.low:g} and {bound.high:g}"
            )
        return bound

    @property
    def positive(self) -> bool:
        """Whether the search is over the logarithm."""
        return self.low > 0.0

    def write(self, model: Model, value: float) -> None:
        """Write a value to the model, and update inverses."""
        array = find_array(self.place, model)
        values = array.numpy()
        values[self.indices] = value
        array.assign(values)
        follow(model, self.place.attribute)

    def slope(self, gradient: npt.NDArray) -> float:
        """The gradient by the number, from that by all entries of the array."""
        return float(gradient[self.indices].astype(np.float64).sum())

    def _find(self, entry: str | int, of_entry: np.ndarray, keys: Sequence[str]) -> np.ndarray:
        """Indices of an entry."""
        if isinstance(entry, str):
            if entry not in keys:
                raise NewtonsimError(f"{self.name}: there is no {entry!r}{did_you_mean(entry, keys)}")
            indices = np.flatnonzero(of_entry == list(keys).index(entry))
        else:
            indices = np.array([entry]) if 0 <= entry < len(of_entry) else np.empty(0, int)
        if not len(indices):
            raise NewtonsimError(f"{self.name}: {entry!r} has none of the {len(of_entry)} entries")
        return indices


def _owners(model: Model, per: str, count: int) -> tuple[np.ndarray, Sequence[str]]:
    """Body, shape or joint that each entry of an array belongs to, and the names of these."""
    if per == "axis":
        starts = np.append(model.joint_axis_start.numpy()[: model.joint_count], model.joint_axis_count)
        return np.repeat(np.arange(model.joint_count), np.diff(starts)), model.joint_key
    if per == "dof":
        return topology_of(model).dof_joint, model.joint_key
    keys = {"body": "body_key", "shape": "shape_key", "joint": "joint_key"}
    return np.arange(count), getattr(model, keys[per]) if per in keys else ()

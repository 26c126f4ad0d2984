"""Independent directions in which the entries of an array can be moved: rotations have three, not four."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.layout import Place, worlds_of
from newtonsim.scene.joint_types import JOINT_KINDS

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_FORCES = ("body_f", "joint_f", "particle_f")
"""Arrays that act on velocities linearly, so that long steps do no harm."""

_ANY_SIGN = frozenset(
    (
        "body_com",
        "constraint_limit_lower",
        "constraint_limit_upper",
        "edge_rest_angle",
        "gravity_vec",
        "joint_X_c",
        "joint_X_p",
        "joint_limit_lower",
        "joint_limit_upper",
        "joint_spring_ref",
        "joint_twist_lower",
        "joint_twist_upper",
        "muscle_points",
        "spring_control",
        "tet_activations",
        "tet_poses",
        "tri_activations",
        "tri_poses",
    )
)
"""Parameters of a model that may take any value; the others keep their sign."""


@dataclass(frozen=True)
class Tangents:
    """Directions of an array, each of which moves up to four floats of it.

    Quaternions (of joints, poses and frames) turn about the three axes x, y, z on their left, that is about
    world or parent axes; axes of joints turn likewise; inertias stay symmetric. All other entries move one by
    one.

    Attributes:
        index: Floats that each direction moves, shape (n, 4), filled up by repeating the last one.
        slope: Their derivatives, zero where repeated, shape (n, 4).
        turns: Directions whose floats are a quaternion, which keeps unit length, bool, (n,).
        world: World of each direction, -1 if worlds share it, (n,).
        scale: Natural length of a step, (n,).
        border: Entries at the end of their range, such as a damping of zero, that can only grow, bool, (n,).
        label: Name of each direction.
    """

    index: np.ndarray
    slope: np.ndarray
    turns: np.ndarray
    world: np.ndarray
    scale: np.ndarray
    border: np.ndarray
    label: list[str]

    def __len__(self) -> int:
        return len(self.label)

    @property
    def first(self) -> np.ndarray:
        """First float that each direction moves, (n,)."""
        return self.index[:, 0]

    def derivative(self, gradient: np.ndarray) -> np.ndarray:
        """Derivatives along all directions of something with a gradient with respect to floats."""
        return (gradient.astype(np.float64).reshape(-1)[self.index] * self.slope).sum(axis=1)

    def move(self, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values moved along the directions at once, in the type that is stored.

        Args:
            values: The array, float32.
            offsets: Lengths along all directions, (n,).
        """
        flat = values.reshape(-1)
        moved = flat.astype(np.float64)
        np.add.at(moved, self.index, offsets[:, None] * self.slope)
        for quaternion in np.unique(self.index[self.turns & (offsets != 0.0)], axis=0):
            moved[quaternion] /= np.linalg.norm(moved[quaternion])
        return moved.astype(np.float32).reshape(values.shape)


@dataclass(frozen=True)
class FloatDirections:
    """Directions of an array that moves float by float, which may be large; see `Tangents`."""

    world: np.ndarray
    scale: np.ndarray
    border: np.ndarray

    def __len__(self) -> int:
        return len(self.world)

    @property
    def first(self) -> np.ndarray:
        """Float that each direction moves, (n,)."""
        return np.arange(len(self))

    def derivative(self, gradient: np.ndarray) -> np.ndarray:
        """Derivatives along all directions of something with a gradient with respect to floats."""
        return gradient.reshape(-1).astype(np.float64)

    def move(self, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values moved along the directions at once, see `Tangents.move`."""
        return (values.reshape(-1) + offsets).astype(np.float32).reshape(values.shape)


def find_directions(
    model: Model, place: Place, values: np.ndarray, dtype: type
) -> Tangents | FloatDirections:
    """Find the directions of an array, without labels where it moves float by float; see `find_tangents`."""
    if place.attribute in ("joint_q", "body_inertia", "joint_axis") or dtype is wp.transform:
        return find_tangents(model, place, values, dtype)
    first = np.arange(values.size)
    turns = np.zeros(values.size, bool)
    return FloatDirections(
        _worlds(model, place, values, first),
        _scales(place, first, turns, values),
        _at_border(place, first, turns, values),
    )


def find_tangents(model: Model, place: Place, values: np.ndarray, dtype: type) -> Tangents:
    """Find the directions of an array.

    Args:
        model: The model.
        place: What the array is.
        values: Its contents; a sequence of controls has shape (steps, n).
        dtype: Warp type of its entries.
    """
    rows = _Rows(values.reshape(-1).astype(np.float64))
    if place.attribute == "joint_q":
        _add_coordinates(model, rows)
    elif dtype is wp.transform:
        for first in range(0, values.size, 7):
            rows.add_floats(range(first, first + 3))
            rows.add_quaternion(first + 3)
    elif place.attribute == "body_inertia":
        for first in range(0, values.size, 9):
            rows.add_symmetric(first)
    elif place.attribute == "joint_axis":
        for first in range(0, values.size, 3):
            rows.add_axis(first)
    else:
        rows.add_floats(range(values.size))
    index = np.array(rows.index, np.int64).reshape(-1, 4)
    first, turns = index[:, 0], np.array(rows.turns, bool)
    return Tangents(
        index,
        np.array(rows.slope, np.float64).reshape(-1, 4),
        turns,
        _worlds(model, place, values, first),
        _scales(place, first, turns, values),
        _at_border(place, first, turns, values),
        rows.label,
    )


def _worlds(model: Model, place: Place, values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """World of some floats of an array."""
    world = worlds_of(model, place.per)
    width = values.size // len(world) if len(world) else 1
    sequence = place.owner == "control" and values.ndim == 2
    return world[first % values.shape[1] if sequence else first // width]


class _Rows:
    """Directions being collected."""

    def __init__(self, values: np.ndarray):
        self.values = values
        self.index: list[list[int]] = []
        self.slope: list[list[float]] = []
        self.turns: list[bool] = []
        self.label: list[str] = []

    def add(self, index: list[int], slope: list[float], label: str, turns: bool = False) -> None:
        missing = 4 - len(index)
        self.index.append(index + index[-1:] * missing)
        self.slope.append(list(slope) + [0.0] * missing)
        self.turns.append(turns)
        self.label.append(label)

    def add_floats(self, floats: range) -> None:
        for i in floats:
            self.add([i], [1.0], f"[{i}]")

    def add_quaternion(self, first: int) -> None:
        x, y, z, w = self.values[first : first + 4]
        slopes = ([w, -z, y, -x], [z, w, -x, -y], [-y, x, w, -z])
        for axis, slope in zip("xyz", slopes):
            label = f"[{first}:{first + 4}] turn {axis}"
            self.add(list(range(first, first + 4)), [0.5 * s for s in slope], label, turns=True)

    def add_symmetric(self, first: int) -> None:
        for i in range(3):
            for j in range(i, 3):
                label = f"[{first + 3 * i + j}]"
                if i == j:
                    self.add([first + 4 * i], [1.0], label)
                else:
                    self.add([first + 3 * i + j, first + 3 * j + i], [1.0, 1.0], label)

    def add_axis(self, first: int) -> None:
        x, y, z = self.values[first : first + 3]
        for axis, slope in zip("xyz", ([0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0])):
            self.add(list(range(first, first + 3)), slope, f"[{first}:{first + 3}] turn {axis}")


def _add_coordinates(model: Model, rows: _Rows) -> None:
    """Directions of joint coordinates."""
    start = model.joint_q_start.numpy()
    for kind, first, end in zip(model.joint_type.numpy(), start[:-1], start[1:]):
        first, end = int(first), int(end)
        made_of = JOINT_KINDS[kind]
        if made_of.quaternion:
            rows.add_floats(range(first, first + made_of.place))
            rows.add_quaternion(first + made_of.place)
        else:
            rows.add_floats(range(first, end))


def _at_border(place: Place, first: np.ndarray, turns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Entries that are zero and may not become negative."""
    free = place.owner != "model" or place.attribute in (*_ANY_SIGN, "body_inertia", "joint_axis")
    return (values.reshape(-1)[first] == 0.0) & ~turns & (not free)


def _scales(place: Place, first: np.ndarray, turns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Lengths of steps: 1 where values may be anything, 10 for forces; half of values with a sign to keep."""
    flat = values.reshape(-1).astype(np.float64)
    size = np.abs(flat[first])
    # columns have units of their own, and entries that are zero are moved as far as others of their column
    columns = values.shape[1] if place.owner == "model" and values.ndim == 2 and values.size else 1
    finite = np.where(np.isfinite(values), np.abs(values), 0.0).reshape(-1, columns)
    largest = finite.max(axis=0, initial=0.0)[first % columns]
    largest = np.where(largest > 0.0, largest, 1.0)
    if place.attribute == "body_inertia":
        # inertias stay positive
        diagonal = np.abs(flat.reshape(-1, 9)[first // 9][:, ::4]).min(axis=1)
        return np.where(first % 9 % 4 == 0, 0.5 * size, 0.3 * diagonal)
    if place.owner != "model" or place.attribute == "joint_axis":
        return np.maximum(10.0 if place.attribute in _FORCES else 1.0, size)
    if place.attribute in _ANY_SIGN:
        return np.where(turns, 1.0, np.maximum(size, largest))
    return 0.5 * np.where(size > 0.0, size, largest)

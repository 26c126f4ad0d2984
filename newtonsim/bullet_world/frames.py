"""Poses of frames as plain numbers, and checks of users' poses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

import newtonsim.pybullet_compat as p

Vector = tuple[float, ...]


class Pose(NamedTuple):
    """The pose of a frame in another one.

    Attributes:
        position: x, y, z [m].
        orientation: Unit quaternion x, y, z, w.
    """

    position: Vector
    orientation: Vector

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(*p.multiplyTransforms(*self, *other))

    def inverse(self) -> Pose:
        """The other frame in this one."""
        return Pose(*p.invertTransform(*self))

    def lists(self) -> list[list[float]]:
        """Position and orientation as lists, as they are returned to users."""
        return [list(self.position), list(self.orientation)]


LARGEST = 1.0e30
"""Beyond this, squares are not numbers in single precision."""
IDENTITY = Pose((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def expect(value: object, kind: type | tuple[type, ...], argument: str) -> None:
    """Do nothing if an argument is of a type.

    Raises:
        TypeError: It is not; the message names it.
    """
    if not isinstance(value, kind):
        kinds = " or ".join(x.__name__ for x in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"{argument}: expected {kinds}, got {value!r}")


def numbers(values: Sequence[float], count: int, name: str) -> Vector:
    """Return finite numbers.

    Raises:
        ValueError: There are more or fewer than `count`, or one is not finite.
    """
    try:
        found = tuple(values)
    except TypeError:
        raise ValueError(f"{name}: expected {count} numbers, got {values!r}") from None
    right = all(isinstance(x, Real) and abs(x) <= LARGEST for x in found)  # false of NaN, too
    if len(found) != count or not right:
        raise ValueError(f"{name}: expected {count} finite numbers, got {values!r}")
    return tuple(map(float, found))


def as_color(values: Sequence[float]) -> Vector:
    """Return red, green, blue and alpha.

    Raises:
        ValueError: They are not four numbers in 0..1.
    """
    found = numbers(values, 4, "color")
    if not all(0.0 <= x <= 1.0 for x in found):
        raise ValueError(f"color: expected four numbers in 0..1, got {values!r}")
    return found


def as_position(values: Sequence[float], name: str = "position") -> Vector:
    """Return x, y, z.

    Raises:
        ValueError: They are not three finite numbers.
    """
    return numbers(values, 3, name)


def as_orientation(values: Sequence[float], name: str = "orientation") -> Vector:
    """Return a quaternion x, y, z, w of length one.

    Raises:
        ValueError: It is not four finite numbers, or zero.
    """
    found = numbers(values, 4, name)
    length = math.hypot(*found)
    if length == 0.0:
        raise ValueError(f"{name}: a quaternion of length zero is not a rotation, got {values!r}")
    return found if length == 1.0 else tuple(x / length for x in found)


def as_pose(values: Sequence[Sequence[float]], name: str = "pose") -> Pose:
    """Return a pose from position and orientation.

    Raises:
        ValueError: It is not a pair of both.
    """
    try:
        position, orientation = values
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected position and orientation, got {values!r}") from None
    return Pose(
        as_position(position, f"{name}: position"), as_orientation(orientation, f"{name}: orientation")
    )


def pose_rows(poses: Sequence | np.ndarray, name: str = "poses") -> np.ndarray:
    """Return many poses as an array (n, 7) of positions and unit quaternions.

    Args:
        poses: Pairs of position and orientation, or rows of seven numbers, in a sequence or an array (n, 7).
        name: Their name in errors.

    Raises:
        ValueError: One of them is not a pose; the message says which. Or they are a single pose.
    """
    if is_pose(poses):
        raise ValueError(f"{name}: expected a list of poses, got a single one, {poses!r}")
    try:
        pairs = [(pose[:3], pose[3:]) if _length(pose) == 7 else pose for pose in poses]
    except TypeError:
        raise ValueError(f"{name}: expected a list of poses, got {poses!r}") from None
    found = [as_pose(pose, f"{name}[{i}]") for i, pose in enumerate(pairs)]
    return np.array([[*pose.position, *pose.orientation] for pose in found]).reshape(-1, 7)


def is_pose(values: Any) -> bool:
    """Whether something has the form of one pose: a pair of position and orientation, or seven numbers."""
    if _length(values) == 7:
        return all(isinstance(x, Real) for x in values)
    return _length(values) == 2 and [_length(x) for x in values] == [3, 4]


def _length(values: Any) -> int | None:
    """Number of entries of a sequence or an array, None of anything else."""
    return len(values) if isinstance(values, Sequence) or np.ndim(values) else None


def compose_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the poses a b, of which one may be a single row; shapes (n, 7)."""
    a, b = np.broadcast_arrays(a, b)
    (x, y, z, w), (i, j, k, r) = np.moveaxis(a[..., 3:], -1, 0), np.moveaxis(b[..., 3:], -1, 0)
    turn = 2.0 * np.cross(a[..., 3:6], b[..., :3])
    position = a[..., :3] + b[..., :3] + w[..., None] * turn + np.cross(a[..., 3:6], turn)
    orientation = np.stack(
        [
            w * i + x * r + y * k - z * j,
            w * j - x * k + y * r + z * i,
            w * k + x * j - y * i + z * r,
            w * r - x * i - y * j - z * k,
        ],
        axis=-1,
    )
    return np.concatenate([position, orientation], axis=-1)


def inverse_row(pose: np.ndarray) -> np.ndarray:
    """Return the inverse of one pose (7,)."""
    return np.concatenate(p.invertTransform(pose[:3], pose[3:]))

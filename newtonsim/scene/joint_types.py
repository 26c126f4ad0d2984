"""Coordinates of each type of joint, in one table that all code reads which lays out coordinates.

A joint's coordinates are a position, a quaternion xyzw, and one number for each of its axes, linear ones
first; its degrees of freedom are the rotation, the translation, and one for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newtonsim.scene.enums import JointType, among


@dataclass(frozen=True)
class JointKind:
    """Coordinates of one type of joint.

    Attributes:
        axes: Linear and angular axes that it takes; None for up to three of each.
        place: Number of its coordinates that are a position [m]; they come first.
        quaternion: Whether a quaternion follows them.
    """

    axes: tuple[int, int] | None = (0, 0)
    place: int = 0
    quaternion: bool = False

    @property
    def own_coords(self) -> int:
        """Number of coordinates in addition to those of the axes."""
        return self.place + 4 * self.quaternion

    @property
    def own_dofs(self) -> int:
        """Number of degrees of freedom in addition to those of the axes."""
        return self.place + 3 * self.quaternion


JOINT_KINDS = {
    JointType.PRISMATIC: JointKind(axes=(1, 0)),
    JointType.REVOLUTE: JointKind(axes=(0, 1)),
    JointType.BALL: JointKind(quaternion=True),
    JointType.FIXED: JointKind(),
    JointType.FREE: JointKind(place=3, quaternion=True),
    JointType.COMPOUND: JointKind(axes=(0, 3)),
    JointType.UNIVERSAL: JointKind(axes=(0, 2)),
    JointType.DISTANCE: JointKind(place=3, quaternion=True),
    JointType.D6: JointKind(axes=None),
}

FLOATING = tuple(kind for kind, joint in JOINT_KINDS.items() if joint.place)
"""Types that leave the child all six degrees of freedom."""

TURNING = tuple(kind for kind, joint in JOINT_KINDS.items() if joint.quaternion)
"""Types with a quaternion among their coordinates."""


def is_floating(kind: np.ndarray) -> np.ndarray:
    """Return which of the types (n,) are `FLOATING`, bool (n,)."""
    return among(kind, FLOATING)


def coordinate_counts(kind: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count coordinates and degrees of freedom of joints.

    Args:
        kind: JointType, shape (n,).
        axes: Linear and angular axes together, shape (n,).

    Returns:
        Both counts, (n,) each.
    """
    place, turns = 3 * among(kind, FLOATING), among(kind, TURNING)
    return axes + place + 4 * turns, axes + place + 3 * turns


def quaternion_starts(kind: np.ndarray, q_start: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the first coordinates of the quaternions of joints that have one.

    Args:
        kind: JointType, shape (n,).
        q_start: First coordinate of each joint, shape (n,).
    """
    return (np.asarray(q_start) + 3 * among(kind, FLOATING))[among(kind, TURNING)]


def axes_problem(kind: JointType, axes: tuple[int, int]) -> str | None:
    """Return what is wrong with the numbers of linear and angular axes of a joint, None if they are valid."""
    expected = JOINT_KINDS[kind].axes
    if expected is not None and axes != expected:
        return f"{kind.name} takes (linear, angular) axes {expected}, got {axes}"
    if max(axes) > 3:
        return f"at most 3 linear and 3 angular axes, got {axes}"
    return None


def least_effort(lower: npt.ArrayLike, limit: npt.ArrayLike) -> np.ndarray:
    """Return the least efforts of drives, given their `joint_effort_lower` and `joint_effort_limit`."""
    lower = np.asarray(lower, np.float64)
    return np.where(lower == -np.inf, -np.asarray(limit, np.float64), lower)

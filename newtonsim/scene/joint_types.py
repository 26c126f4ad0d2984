"""What each type of joint is made of: one table, which whoever lays out coordinates reads.

A joint's coordinates are a position, a quaternion xyzw, and one number for each of its axes, linear ones
first; its degrees of freedom are the rotation, the translation, and one for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.scene.enums import JointType, among


@dataclass(frozen=True)
class JointKind:
    """Coordinates of one type of joint.

    Attributes:
        axes: Linear and angular axes that it takes; None for up to three of each.
        place: Numbers of its coordinates that are a position [m], which come first.
        quaternion: Whether a quaternion follows them.
    """

    axes: tuple[int, int] | None = (0, 0)
    place: int = 0
    quaternion: bool = False

    @property
    def own_coords(self) -> int:
        """Coordinates beside those of axes."""
        return self.place + 4 * self.quaternion

    @property
    def own_dofs(self) -> int:
        """Degrees of freedom beside those of axes."""
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
"""Types that leave all six degrees of freedom to the child."""

TURNING = tuple(kind for kind, joint in JOINT_KINDS.items() if joint.quaternion)
"""Types with a quaternion among their coordinates."""


def is_floating(kind: np.ndarray) -> np.ndarray:
    """Which of the types (n,) are `FLOATING`, bool (n,)."""
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
    """First coordinates of the quaternions of those joints that have one.

    Args:
        kind: JointType, shape (n,).
        q_start: First coordinate of each joint, shape (n,).
    """
    return (np.asarray(q_start) + 3 * among(kind, FLOATING))[among(kind, TURNING)]


def axes_problem(kind: JointType, axes: tuple[int, int]) -> str | None:
    """Return what is wrong with the numbers of linear and angular axes of a joint, None if nothing is."""
    expected = JOINT_KINDS[kind].axes
    if expected is not None and axes != expected:
        return f"{kind.name} takes (linear, angular) axes {expected}, got {axes}"
    if max(axes) > 3:
        return f"at most 3 linear and 3 angular axes, got {axes}"
    return None

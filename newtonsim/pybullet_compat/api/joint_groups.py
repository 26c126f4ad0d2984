"""Joints that a script names together again and again: where their coordinates are, found once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body, Servos

NO_SEQUENCE = "expected a sequence of joint indices"
OUT_OF_RANGE = "Joint index out-of-range."
_MOST = 64
"""Groups that a body remembers."""


@dataclass(slots=True)
class JointGroup:
    """Different joints of a body with one coordinate each.

    Attributes:
        count: Number of joints.
        coords: Columns of their positions, a slice where one follows the other.
        dofs: Columns of their velocities, likewise.
        lower, upper: Limits (W, count), or (count,) with one world [rad or m], infinite where there are none.
    """

    count: int
    coords: slice | np.ndarray
    dofs: slice | np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    _views: tuple | None = None

    def servo_views(self, servos: Servos) -> tuple[np.ndarray, ...] | None:
        """Views of mode, kp, kd, target_q, target_qd, max_force and max_speed of the joints (W, count).

        None if the joints do not follow one another.
        """
        if self._views is None or self._views[0] is not servos.kp:
            if not isinstance(self.dofs, slice) or not isinstance(self.coords, slice):
                return None
            arrays = (servos.mode, servos.kp, servos.kd, servos.target_q, servos.target_qd)
            arrays += (servos.max_force, servos.max_speed)
            columns = [self.dofs] * 3 + [self.coords] + [self.dofs] * 3
            views = [array[:, column] for array, column in zip(arrays, columns)]
            # one world is the common case, and rows are written faster than tables
            self._views = (servos.kp, tuple(v[0] if len(v) == 1 else v for v in views))
        return self._views[1]


def joint_group(body: Body, indices: Sequence[int]) -> JointGroup | None:
    """Return joints as a group, None if one has not exactly one coordinate or occurs twice.

    Raises:
        error: Indices are not a sequence of indices of joints.
    """
    key = ()
    try:
        key = tuple(indices)
        return body.joint_groups[key]
    except (TypeError, KeyError):
        joints = joint_list(body, key or indices)
    places = [joint + 1 for joint in joints]
    group = None
    if places and len(set(places)) == len(places) and all(body.u_count[place] == 1 for place in places):
        lower, upper = body.limits[:, places, 0], body.limits[:, places, 1]
        free = lower > upper
        group = JointGroup(
            len(places),
            _columns([body.q_start[place] for place in places]),
            _columns([body.u_start[place] for place in places]),
            _row(np.where(free, -np.inf, lower)),
            _row(np.where(free, np.inf, upper)),
        )
    if len(body.joint_groups) >= _MOST:
        body.joint_groups.clear()
    body.joint_groups[key] = group
    return group


def _row(table: np.ndarray) -> np.ndarray:
    return table[0] if len(table) == 1 else table


def is_empty(indices: Sequence[int]) -> bool:
    """Return whether a script names no joints: then nothing happens, whatever the body.

    Raises:
        error: They are not a sequence.
    """
    try:
        return not len(indices)
    except TypeError:
        raise error(NO_SEQUENCE) from None


def joint_list(body: Body, indices: Sequence[int]) -> list[int]:
    """Return indices of joints as integers.

    Raises:
        error: They are no sequence of integers, or there is no such joint.
    """
    if not isinstance(indices, Iterable):
        raise error(NO_SEQUENCE)
    try:
        joints = [index(i) for i in indices]
    except TypeError:
        raise error(OUT_OF_RANGE) from None
    for joint in joints:
        if not 0 <= joint < len(body.links) - 1:
            raise error(OUT_OF_RANGE)
    return joints


def _columns(numbers: list[int]) -> slice | np.ndarray:
    first = numbers[0]
    if numbers == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return np.array(numbers)

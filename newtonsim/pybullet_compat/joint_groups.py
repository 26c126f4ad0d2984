"""Joints that a script names together again and again: where their coordinates are, found once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from newtonsim.pybullet_compat.errors import error
from newtonsim.pybullet_compat.multibody import Body

NO_SEQUENCE = "expected a sequence of joint indices"
OUT_OF_RANGE = "Joint index out-of-range."
_MOST = 64
"""Groups that a body remembers."""


@dataclass(frozen=True, slots=True)
class JointGroup:
    """Different joints of a body with one coordinate each.

    Attributes:
        count: Number of joints.
        coords: Columns of their positions, a slice where one follows the other.
        dofs: Columns of their velocities, likewise.
        lower, upper: Limits (W, count) [rad or m], infinite where there are none.
    """

    count: int
    coords: slice | np.ndarray
    dofs: slice | np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def joint_group(body: Body, indices: Sequence[int]) -> JointGroup | None:
    """Return joints as a group, None if one has not exactly one coordinate or occurs twice.

    Raises:
        error: Indices are no sequence of indices of joints.
    """
    try:
        key = tuple(indices)
        return body.joint_groups[key]
    except TypeError:
        raise error(NO_SEQUENCE) from None
    except KeyError:
        joints = joint_list(body, key)
    places = [joint + 1 for joint in joints]
    group = None
    if places and len(set(places)) == len(places) and all(body.u_count[place] == 1 for place in places):
        lower, upper = body.limits[:, places, 0], body.limits[:, places, 1]
        free = lower > upper
        group = JointGroup(
            len(places),
            _columns([body.q_start[place] for place in places]),
            _columns([body.u_start[place] for place in places]),
            np.where(free, -np.inf, lower),
            np.where(free, np.inf, upper),
        )
    if len(body.joint_groups) >= _MOST:
        body.joint_groups.clear()
    body.joint_groups[key] = group
    return group


def joint_list(body: Body, indices: Sequence[int]) -> list[int]:
    """Return indices of joints as integers.

    Raises:
        error: They are no sequence of integers, or there is no such joint.
    """
    try:
        joints = [index(i) for i in indices]
    except TypeError:
        raise error(NO_SEQUENCE) from None
    for joint in joints:
        if not 0 <= joint < len(body.links) - 1:
            raise error(OUT_OF_RANGE)
    return joints


def _columns(numbers: list[int]) -> slice | np.ndarray:
    first = numbers[0]
    if numbers == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return np.array(numbers)

"""Poses and velocities of the links of one body in one world, in plain numbers.

Arrays of a few numbers cost more than what is computed with them; this takes some microseconds a link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.surface.constants import (
    JOINT_PLANAR,
    JOINT_PRISMATIC,
    JOINT_REVOLUTE,
    JOINT_SPHERICAL,
)

if TYPE_CHECKING:
    import numpy as np

Numbers = Sequence[float]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
NO_TURN = (0.0, 0.0, 0.0, 1.0)
AT_REST = (0.0, 0.0, 0.0)


def rotated(q: Numbers, v: Numbers) -> Vector:
    """Turn a vector by a quaternion xyzw."""
    x, y, z, w = q
    i, j, k = v
    a, b, c = 2.0 * (y * k - z * j), 2.0 * (z * i - x * k), 2.0 * (x * j - y * i)
    return i + w * a + y * c - z * b, j + w * b + z * a - x * c, k + w * c + x * b - y * a


def product(q: Numbers, s: Numbers) -> Quaternion:
    """The product of two quaternions xyzw."""
    x, y, z, w = q
    a, b, c, d = s
    return (
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    )


def turned_back(before: Numbers, now: Numbers, v: Numbers, w: Numbers) -> tuple[Vector, Vector]:
    """Turn two vectors with a link to the orientation that it had before.

    Args:
        before: Quaternion xyzw that it had.
        now: The one that it has.
        v: A vector in the world now.
        w: Another.
    """
    a, b, c, d = before
    i, j, k, h = now
    x, y, z = a * h - d * i - b * k + c * j, b * h - d * j - c * i + a * k, c * h - d * k - a * j + b * i
    s = d * h + a * i + b * j + c * k
    xx, yy, zz, xy, xz, yz = 2 * x * x, 2 * y * y, 2 * z * z, 2 * x * y, 2 * x * z, 2 * y * z
    sx, sy, sz = 2 * s * x, 2 * s * y, 2 * s * z
    p, q, r = v
    l, m, n = w
    return (
        (
            (1 - yy - zz) * p + (xy - sz) * q + (xz + sy) * r,
            (xy + sz) * p + (1 - xx - zz) * q + (yz - sx) * r,
            (xz - sy) * p + (yz + sx) * q + (1 - xx - yy) * r,
        ),
        (
            (1 - yy - zz) * l + (xy - sz) * m + (xz + sy) * n,
            (xy + sz) * l + (1 - xx - zz) * m + (yz - sx) * n,
            (xz - sy) * l + (yz + sx) * m + (1 - xx - yy) * n,
        ),
    )


def compose(p: Numbers, q: Numbers, r: Numbers, s: Numbers) -> tuple[Vector, Quaternion]:
    """The pose (p, q) times the pose (r, s)."""
    x, y, z = rotated(q, r)
    return (p[0] + x, p[1] + y, p[2] + z), product(q, s)


def cross(a: Numbers, b: Numbers) -> Vector:
    """The vector product."""
    x, y, z = a
    i, j, k = b
    return y * k - z * j, z * i - x * k, x * j - y * i


def place_links(joints: Sequence[tuple], q: Numbers, u: Numbers, pose: np.ndarray, twist: np.ndarray) -> None:
    """Find pose and twist of all links but the base from those of the base and the coordinates.

    Args:
        joints: Place, parent, type, axes, frames and first coordinates of each joint, parents first; see
            `Body.plain_joints`.
        q: Positions.
        u: Velocities.
        pose: World poses of the inertial frames (links, 7); those beyond the base are written.
        twist: (ω, v of the centre of mass) in the world (links, 6); likewise.
    """
    base = pose[0].tolist()
    frames = [(tuple(base[:3]), tuple(base[3:]))] * len(pose)
    twists = None
    if any(u) or twist[0].any():
        first = twist[0].tolist()
        twists = [(tuple(first[:3]), tuple(first[3:]))] * len(pose)
    for place, parent, kind, axis, before, after, i, d in joints:
        p, turn = compose(*frames[parent], *before)
        slide, move = _moved(kind, axis, q, i)
        origin, frame = compose(p, turn, slide, move)
        frames[place] = compose(origin, frame, *after)
        if twists is not None:
            twists[place] = _twist(
                twists[parent], frames[parent][0], origin, frames[place][0], turn, _rates(kind, axis, u, d)
            )
    pose[...] = [p + turn for p, turn in frames]
    twist[...] = 0.0 if twists is None else [w + v for w, v in twists]


def _moved(kind: int, axis: tuple, q: Numbers, i: int) -> tuple[Numbers, Numbers]:
    """How far a joint has slid and turned, in its frame at rest."""
    (x, y, z), first, second = axis
    if kind == JOINT_REVOLUTE:
        s = math.sin(0.5 * q[i])
        return AT_REST, (s * x, s * y, s * z, math.cos(0.5 * q[i]))
    if kind == JOINT_PRISMATIC:
        return tuple(q[i] * m for m in first), NO_TURN
    if kind == JOINT_SPHERICAL:
        return AT_REST, q[i : i + 4]
    if kind == JOINT_PLANAR:
        a, b, s = q[i], q[i + 1], math.sin(0.5 * q[i + 2])
        slide = tuple(a * m + b * n for m, n in zip(first, second))
        return slide, (s * x, s * y, s * z, math.cos(0.5 * q[i + 2]))
    return AT_REST, NO_TURN


def _rates(kind: int, axis: tuple, u: Numbers, d: int) -> tuple[Numbers, Numbers]:
    """Angular and linear velocity across a joint, in its frame at rest."""
    (x, y, z), first, second = axis
    if kind == JOINT_REVOLUTE:
        return tuple(u[d] * m for m in first), AT_REST
    if kind == JOINT_PRISMATIC:
        return AT_REST, tuple(u[d] * m for m in first)
    if kind == JOINT_SPHERICAL:
        return u[d : d + 3], AT_REST
    if kind == JOINT_PLANAR:
        a, b, w = u[d : d + 3]
        return (w * x, w * y, w * z), tuple(a * m + b * n for m, n in zip(first, second))
    return AT_REST, AT_REST


def _twist(
    parent: tuple[Numbers, Numbers],
    parent_place: Numbers,
    joint_place: Numbers,
    place: Numbers,
    turn: Numbers,
    rates: tuple[Numbers, Numbers],
) -> tuple[Vector, Vector]:
    """Angular velocity and velocity of the centre of mass of a link in the world.

    Args:
        parent: Those of its parent.
        parent_place: Centre of mass of the parent.
        joint_place: Where the moved joint frame is.
        place: Centre of mass of the link.
        turn: Orientation of the joint at rest.
        rates: Angular and linear velocity across the joint in that frame.
    """
    spin, velocity = parent
    across, sliding = rotated(turn, rates[0]), rotated(turn, rates[1])
    omega = (spin[0] + across[0], spin[1] + across[1], spin[2] + across[2])
    carried = cross(spin, [a - b for a, b in zip(joint_place, parent_place)])
    swung = cross(omega, [a - b for a, b in zip(place, joint_place)])
    x, y, z = (sum(parts) for parts in zip(velocity, carried, sliding, swung))
    return omega, (x, y, z)

"""Rigid poses for file parsing, in float64 so that the only rounding is the one into device arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import (
    IDENTITY_QUATERNION,
    as_transform,
    multiply_one,
    quat_conjugate,
    quat_rotate,
    rotate_one,
    warp_transform,
)


def quat_from_axis_angle(axis: np.ndarray, angle: float) -> np.ndarray:
    """Unit quaternion xyzw of a rotation by `angle` [rad] about the unit vector `axis` (3,)."""
    x, y, z = axis
    sine = math.sin(0.5 * angle)
    return np.array([x * sine, y * sine, z * sine, math.cos(0.5 * angle)])


def quat_from_euler(angles: np.ndarray, sequence: str) -> np.ndarray:
    """Rotation by three angles [rad] in a sequence such as "xyz".

    Lower-case letters rotate about the axis that moves along, upper-case ones about the fixed axis.
    """
    q = (0.0, 0.0, 0.0, 1.0)
    turns = np.asarray(angles, np.float64).tolist()
    if not any(turns):
        return IDENTITY_QUATERNION.copy()
    for angle, letter in zip(turns, sequence, strict=True):
        sine = math.sin(0.5 * angle)
        x, y, z = (sine if letter.lower() == axis else 0.0 for axis in "xyz")
        turn = (x, y, z, math.cos(0.5 * angle))
        q = multiply_one(*q, *turn) if letter.islower() else multiply_one(*turn, *q)
    return _unit(q)


def quat_from_rpy(rpy: np.ndarray) -> np.ndarray:
    """URDF's roll, pitch, yaw [rad]: rotations about the fixed axes x, y, z in this order."""
    return quat_from_euler(rpy, "XYZ")


def _unit(q: tuple[float, float, float, float]) -> np.ndarray:
    x, y, z, w = q
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return np.array((x / norm, y / norm, z / norm, w / norm))


@dataclass(frozen=True, slots=True, eq=False)
class Pose:
    """A rigid transform: position p (3,) and unit quaternion q (4,) xyzw, both float64."""

    p: np.ndarray
    q: np.ndarray

    @staticmethod
    def identity() -> "Pose":
        """The transform that changes nothing, always the same; its arrays cannot be written."""
        return _IDENTITY

    @staticmethod
    def of(xform: Sequence | np.ndarray | wp.transform | None, name: str = "xform") -> "Pose":
        """Read a wp.transform, seven numbers or a pair (p, q); None is the identity."""
        row = as_transform(xform, name)
        if not np.isfinite(row).all():
            raise ModelError(f"{name}: not finite: {row.tolist()}")
        return Pose(row[:3], row[3:])

    def __matmul__(self, other: "Pose") -> "Pose":
        if self is _IDENTITY or other is _IDENTITY:
            return other if self is _IDENTITY else self
        q = multiply_one(*self.q.tolist(), *other.q.tolist())
        return Pose(self.apply(other.p), _unit(q))

    def inverse(self) -> "Pose":
        """The inverse transform."""
        q = quat_conjugate(self.q)
        return Pose(-quat_rotate(q, self.p), q)

    def apply(self, point: np.ndarray) -> np.ndarray:
        """Transform a point (3,)."""
        if self is _IDENTITY:
            return np.asarray(point, np.float64)
        px, py, pz = self.p.tolist()
        x, y, z = rotate_one(*self.q.tolist(), *np.asarray(point, np.float64).tolist())
        return np.array((px + x, py + y, pz + z))

    def scaled(self, scale: float) -> "Pose":
        """The same rotation with the position multiplied by `scale`."""
        return self if scale == 1.0 else Pose(self.p * scale, self.q)

    def row(self) -> np.ndarray:
        """The seven numbers (p, q)."""
        return np.concatenate([self.p, self.q])

    def numbers(self) -> tuple[float, ...]:
        """The same, as plain numbers."""
        return (*self.p.tolist(), *self.q.tolist())

    def warp(self) -> wp.transform:
        """The transform as wp.transform."""
        return warp_transform(self.numbers())


def _constant(*numbers: float) -> np.ndarray:
    array = np.array(numbers)
    array.flags.writeable = False
    return array


_IDENTITY = Pose(_constant(0.0, 0.0, 0.0), _constant(*IDENTITY_QUATERNION))

"""Transforms and quaternions on the host, in double precision, over any leading dimensions.

Quaternions are xyzw; a transform is a row of seven numbers (position, quaternion).
"""

import math
import struct
from array import array
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError

IDENTITY_QUATERNION = np.array([0.0, 0.0, 0.0, 1.0])
_IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
_IDENTITY_BYTES = array("f", _IDENTITY).tobytes()
IDENTITY = np.array(_IDENTITY)


def as_vector(value: npt.ArrayLike, length: int, name: str) -> np.ndarray:
    """Read `length` numbers, or raise a ModelError that shows the value."""
    try:
        numbers = np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{name}: expected {length} numbers, got {value!r}") from error
    if numbers.shape != (length,):
        raise ModelError(f"{name}: expected {length} numbers, got {value!r}")
    return numbers


def as_quaternion(value: npt.ArrayLike | None, name: str) -> np.ndarray:
    """Read a quaternion xyzw (4,) and normalise it; None is the identity, zero an error."""
    if value is None:
        return IDENTITY_QUATERNION.copy()
    q = as_vector(value, 4, name)
    norm = math.sqrt(q @ q)  # as `np.linalg.norm`, at a fifth of its time
    if not norm > 1e-12:
        raise ModelError(f"{name}: quaternion {q.tolist()} has no direction")
    return q / norm


def as_transform(value: Sequence | np.ndarray | wp.transform | None, name: str) -> np.ndarray:
    """Read seven numbers or a pair (position, quaternion) and normalise; None is the identity."""
    return np.array(_transform_numbers(value, name))


def as_warp_transform(value: Sequence | np.ndarray | wp.transform | None, name: str) -> wp.transform:
    """Read what `as_transform` reads, as Warp's transform."""
    if value is None:
        return wp.transform.from_buffer_copy(_IDENTITY_BYTES)
    return warp_transform(_transform_numbers(value, name))


def _transform_numbers(value: Sequence | np.ndarray | wp.transform | None, name: str) -> tuple[float, ...]:
    if value is None:
        return _IDENTITY
    if isinstance(value, wp.transform):
        px, py, pz, x, y, z, w = struct.unpack("7f", value)
    elif isinstance(value, Sized) and len(value) == 2:
        pair: Any = value
        return tuple(pose(pair[0], pair[1], name).tolist())
    else:
        px, py, pz, x, y, z, w = as_vector(value, 7, name).tolist()
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if not norm > 1e-12:
        raise ModelError(f"{name}: quaternion {[x, y, z, w]} has no direction")
    return px, py, pz, x / norm, y / norm, z / norm, w / norm


def pose(position: npt.ArrayLike | None, rotation: npt.ArrayLike | None, name: str) -> np.ndarray:
    """Join a position and a quaternion to a transform (7,); None stands for zero and identity."""
    p = np.zeros(3) if position is None else as_vector(position, 3, name)
    return np.concatenate([p, as_quaternion(rotation, name)])


def warp_transform(row: npt.ArrayLike) -> wp.transform:
    """Return a row (7,) as Warp's transform: byte by byte, five times faster than number by number."""
    return wp.transform.from_buffer_copy(array("f", _numbers(row)))


def warp_vector(row: npt.ArrayLike) -> wp.vec3:
    """Return three numbers as Warp's vector, likewise."""
    if isinstance(row, wp.vec3):
        return wp.vec3.from_buffer_copy(row)
    return wp.vec3.from_buffer_copy(array("f", _numbers(row)))


def _numbers(row: Any) -> Sequence[float]:
    """Return a row as Python's numbers, which `array` takes faster than NumPy's."""
    return row if isinstance(row, tuple) else np.asarray(row, np.float64).tolist()


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products over the last dimension; on few vectors ten times faster than `np.cross`."""
    result = np.empty(a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        result[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return result


def quat_multiply(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
    """Return the product a b, the rotation b followed by a."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim == 1 and b.ndim == 1:
        return np.array(multiply_one(*a.tolist(), *b.tolist()))
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    vector = aw * bv + bw * av + cross(av, bv)
    scalar = aw * bw - np.sum(av * bv, axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def multiply_one(
    ax: float, ay: float, az: float, aw: float, bx: float, by: float, bz: float, bw: float
) -> tuple[float, float, float, float]:
    """`quat_multiply` of one pair, digit for digit; on single numbers NumPy takes ten times as long."""
    x = aw * bx + bw * ax + (ay * bz - az * by)
    y = aw * by + bw * ay + (az * bx - ax * bz)
    z = aw * bz + bw * az + (ax * by - ay * bx)
    return x, y, z, aw * bw - (ax * bx + ay * by + az * bz)


def rotate_one(
    x: float, y: float, z: float, w: float, vx: float, vy: float, vz: float
) -> tuple[float, float, float]:
    """`quat_rotate` of one vector, likewise."""
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return (
        vx + w * tx + (y * tz - z * ty),
        vy + w * ty + (z * tx - x * tz),
        vz + w * tz + (x * ty - y * tx),
    )


def quat_conjugate(q: npt.ArrayLike) -> np.ndarray:
    """Return the inverse of a unit quaternion."""
    return np.asarray(q, np.float64) * np.array([-1.0, -1.0, -1.0, 1.0])


def quat_rotate(q: npt.ArrayLike, v: npt.ArrayLike) -> np.ndarray:
    """Rotate vectors (..., 3) by quaternions (..., 4)."""
    q, v = np.asarray(q, np.float64), np.asarray(v, np.float64)
    if q.ndim == 1 and v.ndim == 1:
        return np.array(rotate_one(*q.tolist(), *v.tolist()))
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * cross(u, v)
    return v + w * t + cross(u, t)


def quat_matrix(q: npt.ArrayLike) -> np.ndarray:
    """Return rotation matrices (..., 3, 3) of quaternions (..., 4)."""
    q = np.asarray(q, np.float64)
    if q.ndim == 1:
        x, y, z, w = q.tolist()
        columns = (
            rotate_one(x, y, z, w, 1.0, 0.0, 0.0),
            rotate_one(x, y, z, w, 0.0, 1.0, 0.0),
            rotate_one(x, y, z, w, 0.0, 0.0, 1.0),
        )
        return np.array([*zip(*columns)])
    return np.stack([quat_rotate(q, np.broadcast_to(e, (*q.shape[:-1], 3))) for e in np.eye(3)], axis=-1)


def quat_from_matrix(m: np.ndarray) -> np.ndarray:
    """Unit quaternion xyzw of a rotation matrix (3, 3), by its largest component (Shepperd 1978)."""
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    k = int(np.argmax([m[0, 0], m[1, 1], m[2, 2], trace]))
    q = np.empty(4)
    if k == 3:
        q[3] = 1.0 + trace
        q[:3] = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    else:
        i, j, l = k, (k + 1) % 3, (k + 2) % 3
        q[i] = 1.0 + 2.0 * m[i, i] - trace
        q[j] = m[j, i] + m[i, j]
        q[l] = m[l, i] + m[i, l]
        q[3] = m[l, j] - m[j, l]
    return q / np.linalg.norm(q)


def quat_between(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
    """Return the shortest rotation that turns the unit vector a (3,) into b (3,)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    w = 1.0 + float(a @ b)
    if w < 1e-9:  # opposite: half a turn about any perpendicular axis
        axis = np.cross(a, np.eye(3)[np.argmin(np.abs(a))])
        return np.append(axis / np.linalg.norm(axis), 0.0)
    q = np.append(np.cross(a, b), w)
    return q / np.linalg.norm(q)


def transform_multiply(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
    """Return the composition a b of transforms (..., 7)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    p = a[..., :3] + quat_rotate(a[..., 3:], b[..., :3])
    return np.concatenate([p, quat_multiply(a[..., 3:], b[..., 3:])], axis=-1)


def transform_inverse(t: npt.ArrayLike) -> np.ndarray:
    """Return the inverses of transforms (..., 7)."""
    t = np.asarray(t, np.float64)
    q = quat_conjugate(t[..., 3:])
    return np.concatenate([-quat_rotate(q, t[..., :3]), q], axis=-1)


def transform_point(t: npt.ArrayLike, p: npt.ArrayLike) -> np.ndarray:
    """Map points (..., 3) through transforms (..., 7)."""
    t = np.asarray(t, np.float64)
    return t[..., :3] + quat_rotate(t[..., 3:], p)

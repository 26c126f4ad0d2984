"""Rotations, transforms and camera matrices: the functions of the API that need no client.

Quaternions are x, y, z, w, and Euler angles are roll, pitch, yaw about fixed axes, as in URDF. Where PyBullet
normalises its input these functions do, and where it does not they do not. All is plain Python in float64:
a call costs about a microsecond, a tenth of what NumPy would need for three numbers. What divides by zero
gives inf or nan, and what turns by an infinite angle nan.

References:
    Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985. Diebel, "Representing attitude:
    Euler angles, unit quaternions, and rotation vectors", 2006. OpenGL 1.0 specification, section 2.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import acos, asin, atan2, copysign, cos, inf, isnan, nan, pi, radians, sin, sqrt, tan

from newtonsim.pybullet_compat.surface.errors import error

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

GIMBAL_SINE = 0.99999
"""Sine of the pitch from which on roll is taken to be zero."""
NO_QUATERNION = (nan, nan, nan, nan)
"""What a rotation by an infinite angle gives."""
SMALL_SINE2 = 1e-14
"""Square of the sine of half an angle below which a rotation has no axis of its own."""

_EULER = "Euler angles need a 3 coordinates [roll, pitch, yaw]."
_QUATERNION = "Quaternion need a 4 components [x,y,z,w]."
_MATRIX = "Couldn't convert quaternion [x,y,z,w]."
_TRANSFORMS = "Invalid input: expected positionA [x,y,z], orientationA [x,y,z,w], positionB, orientationB."
_TRANSFORM = "Invalid input: expected position [x,y,z] and orientation [x,y,z,w]."
_TWO = "Require start and end quaternion, each with 4 components [x,y,z,w]."
_AXIS = "Require axis [x,y,z] and angle."
_AXIS_ANGLE = "Require a quaternion with 4 components [x,y,z,w]."
_ROTATE = "Require quaternion with 4 components [x,y,z,w] and a vector [x,y,z]."
_VIEW = "Error in computeViewMatrix."


def getQuaternionFromEuler(eulerAngles: Sequence[float], physicsClientId: int = 0) -> Quaternion:
    """Return the quaternion of roll, pitch and yaw.

    Args:
        eulerAngles: Roll about x, pitch about y, yaw about z [rad].
        physicsClientId: Not used.
    """
    roll, pitch, yaw = _three(eulerAngles, _EULER)
    try:
        sr, cr = sin(0.5 * roll), cos(0.5 * roll)
        sp, cp = sin(0.5 * pitch), cos(0.5 * pitch)
        sy, cy = sin(0.5 * yaw), cos(0.5 * yaw)
    except ValueError:
        return NO_QUATERNION
    return (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def getEulerFromQuaternion(quaternion: Sequence[float], physicsClientId: int = 0) -> Vector:
    """Return roll, pitch and yaw [rad]; roll is zero where pitch is a right angle.

    Args:
        quaternion: Of length one.
        physicsClientId: Not used.
    """
    return _euler(*_four(quaternion, _QUATERNION))


def getMatrixFromQuaternion(quaternion: Sequence[float], physicsClientId: int = 0) -> tuple[float, ...]:
    """Return the nine elements of the rotation matrix, row by row.

    Args:
        quaternion: Of any length.
        physicsClientId: Not used.
    """
    x, y, z, w = _four(quaternion, _MATRIX)
    s = _divide(2.0, x * x + y * y + z * z + w * w)
    xs, ys, zs = x * s, y * s, z * s
    wx, wy, wz = w * xs, w * ys, w * zs
    xx, xy, xz, yy, yz, zz = x * xs, x * ys, x * zs, y * ys, y * zs, z * zs
    return (
        *(1.0 - (yy + zz), xy - wz, xz + wy),
        *(xy + wz, 1.0 - (xx + zz), yz - wx),
        *(xz - wy, yz + wx, 1.0 - (xx + yy)),
    )


def multiplyTransforms(
    positionA: Sequence[float],
    orientationA: Sequence[float],
    positionB: Sequence[float],
    orientationB: Sequence[float],
    physicsClientId: int = 0,
) -> tuple[Vector, Quaternion]:
    """Return pose B, given in the frame A, in the frame that A is given in.

    Args:
        positionA: Position of A.
        orientationA: Orientation of A, of any length.
        positionB: Position of B.
        orientationB: Orientation of B, of any length.
        physicsClientId: Not used.
    """
    px, py, pz = _three(positionA, _TRANSFORMS)
    a, b = _four(orientationA, _TRANSFORMS), _four(orientationB, _TRANSFORMS)
    x, y, z = _rotate(*a, *_three(positionB, _TRANSFORMS))
    s = _divide(1.0, _dot(a, a))
    return (px + s * x, py + s * y, pz + s * z), _unit(*_multiply(*a, *b))


def invertTransform(
    position: Sequence[float], orientation: Sequence[float], physicsClientId: int = 0
) -> tuple[Vector, Quaternion]:
    """Return the inverse of a pose.

    Args:
        position: Its position.
        orientation: Its orientation, of any length.
        physicsClientId: Not used.
    """
    px, py, pz = _three(position, _TRANSFORM)
    x, y, z, w = _unit(*_four(orientation, _TRANSFORM))
    return _rotate(-x, -y, -z, w, -px, -py, -pz), _unit(-x, -y, -z, w)


def getQuaternionSlerp(
    quaternionStart: Sequence[float],
    quaternionEnd: Sequence[float],
    interpolationFraction: float,
    physicsClientId: int = 0,
) -> Quaternion:
    """Return the quaternion on the shorter arc between two; lengths are interpolated too.

    Args:
        quaternionStart: At fraction 0.
        quaternionEnd: At fraction 1.
        interpolationFraction: Part of the way.
        physicsClientId: Not used.
    """
    a, b = _four(quaternionStart, _TWO), _four(quaternionEnd, _TWO)
    cosine = _divide(_dot(a, b), sqrt(_dot(a, a) * _dot(b, b)))
    if isnan(cosine) or abs(cosine) >= 1.0:
        return a
    angle = acos(abs(cosine))
    scale = 1.0 / sin(angle)
    try:
        u = sin((1.0 - interpolationFraction) * angle) * scale
        v = copysign(1.0, cosine) * sin(interpolationFraction * angle) * scale
    except ValueError:
        return NO_QUATERNION
    return (a[0] * u + b[0] * v, a[1] * u + b[1] * v, a[2] * u + b[2] * v, a[3] * u + b[3] * v)


def getQuaternionFromAxisAngle(axis: Sequence[float], angle: float, physicsClientId: int = 0) -> Quaternion:
    """Return the quaternion of a rotation about an axis.

    Args:
        axis: Of any length; x where it is zero.
        angle: Angle [rad].
        physicsClientId: Not used.
    """
    x, y, z = _direction(*_three(axis, _AXIS))
    try:
        s = sin(0.5 * angle)
    except ValueError:
        return NO_QUATERNION
    return x * s, y * s, z * s, cos(0.5 * angle)


def getAxisAngleFromQuaternion(quaternion: Sequence[float], physicsClientId: int = 0) -> tuple[Vector, float]:
    """Return the axis and the angle [rad] of a rotation; the axis is x where there is no rotation.

    Args:
        quaternion: Of length one; others give axes of other lengths.
        physicsClientId: Not used.
    """
    x, y, z, w = _four(quaternion, _AXIS_ANGLE)
    angle = 2.0 * _arc_cosine(w)
    sine2 = 1.0 - w * w
    if sine2 < SMALL_SINE2:
        return (1.0, 0.0, 0.0), angle
    s = 1.0 / sqrt(sine2)
    return (x * s, y * s, z * s), angle


def getDifferenceQuaternion(
    quaternionStart: Sequence[float], quaternionEnd: Sequence[float], physicsClientId: int = 0
) -> Quaternion:
    """Return the rotation from one orientation to another the shorter way, `end * conjugate(start)`.

    Args:
        quaternionStart: First orientation.
        quaternionEnd: Second orientation.
        physicsClientId: Not used.
    """
    return _difference(_four(quaternionStart, _TWO), _four(quaternionEnd, _TWO))


def getAxisDifferenceQuaternion(
    quaternionStart: Sequence[float], quaternionEnd: Sequence[float], physicsClientId: int = 0
) -> Vector:
    """Return the negative Euler angles [rad] of one orientation in the frame of another.

    Args:
        quaternionStart: Frame.
        quaternionEnd: Orientation.
        physicsClientId: Not used.
    """
    x, y, z, w = _four(quaternionStart, _TWO)
    roll, pitch, yaw = _euler(*_unit(*_multiply(-x, -y, -z, w, *_four(quaternionEnd, _TWO))))
    return -roll, -pitch, -yaw


def calculateVelocityQuaternion(
    quaternionStart: Sequence[float],
    quaternionEnd: Sequence[float],
    deltaTime: float,
    physicsClientId: int = 0,
) -> Vector:
    """Return the constant angular velocity [rad/s] that turns one orientation into another.

    Args:
        quaternionStart: First orientation.
        quaternionEnd: Second orientation.
        deltaTime: Time between them [s].
        physicsClientId: Not used.
    """
    x, y, z, w = _difference(_four(quaternionStart, _TWO), _four(quaternionEnd, _TWO))
    speed = _divide(2.0 * _arc_cosine(w), float(deltaTime))
    x, y, z = _direction(x, y, z)
    return x * speed, y * speed, z * speed


def rotateVector(quaternion: Sequence[float], vector: Sequence[float], physicsClientId: int = 0) -> Vector:
    """Return a rotated vector.

    Args:
        quaternion: Rotation; the result grows with the square of its length.
        vector: Vector.
        physicsClientId: Not used.
    """
    return _rotate(*_four(quaternion, _ROTATE), *_three(vector, _ROTATE))


def computeViewMatrix(
    cameraEyePosition: Sequence[float],
    cameraTargetPosition: Sequence[float],
    cameraUpVector: Sequence[float],
    physicsClientId: int = 0,
) -> tuple[float, ...]:
    """Return the view matrix of a camera, column by column.

    Args:
        cameraEyePosition: Where it is.
        cameraTargetPosition: What it looks at.
        cameraUpVector: Its upward direction, of any length.
        physicsClientId: Not used.
    """
    return _look_at(
        _three(cameraEyePosition, _VIEW), _three(cameraTargetPosition, _VIEW), _three(cameraUpVector, _VIEW)
    )


def computeViewMatrixFromYawPitchRoll(
    cameraTargetPosition: Sequence[float],
    distance: float,
    yaw: float,
    pitch: float,
    roll: float,
    upAxisIndex: int,
    physicsClientId: int = 0,
) -> tuple[float, ...]:
    """Return the view matrix of a camera that looks at a point, column by column.

    Args:
        cameraTargetPosition: The point.
        distance: Distance of the camera from it.
        yaw: Angle about the upward axis [degrees].
        pitch: Angle upwards [degrees].
        roll: Angle about the line of sight [degrees].
        upAxisIndex: 1 for y, 2 for z upwards.
        physicsClientId: Not used.

    Raises:
        error: The target is not a vector, or the axis another one.
    """
    x, y, z = _three(cameraTargetPosition, "Cannot convert cameraTargetPosition.")
    yaw, pitch, roll = radians(yaw), radians(pitch), radians(roll)
    try:
        sy, cy, sp, cp, sr, cr = sin(yaw), cos(yaw), sin(pitch), cos(pitch), sin(roll), cos(roll)
    except ValueError:
        sy = cy = sp = cp = sr = cr = nan
    if upAxisIndex == 2:  # rotation about z, then y, then x; the camera looks along y
        rx, ry, rz = cy * cr, sy * cr, -sr
        ux, uy, uz = cy * cp * sr + sy * sp, sy * cp * sr - cy * sp, cp * cr
        fx, fy, fz = cy * sp * sr - sy * cp, sy * sp * sr + cy * cp, sp * cr
    elif upAxisIndex == 1:  # rotation about z, then y, then -x; the camera looks along z
        rx, ry, rz = -cy * cr, -cy * sr, sy
        ux, uy, uz = -sp * sy * cr - cp * sr, -sp * sy * sr + cp * cr, -sp * cy
        fx, fy, fz = cp * sy * cr - sp * sr, cp * sy * sr + sp * cr, cp * cy
    else:
        raise error(f"upAxisIndex must be 1 or 2, not {upAxisIndex}.")
    if distance < 0.0:
        rx, ry, rz, fx, fy, fz, distance = -rx, -ry, -rz, -fx, -fy, -fz, -distance
    return (
        *(rx, ux, -fx, 0.0, ry, uy, -fy, 0.0, rz, uz, -fz, 0.0),
        -(rx * x + ry * y + rz * z),
        -(ux * x + uy * y + uz * z),
        fx * x + fy * y + fz * z - distance,
        1.0,
    )


def computeProjectionMatrix(
    left: float,
    right: float,
    bottom: float,
    top: float,
    nearVal: float,
    farVal: float,
    physicsClientId: int = 0,
) -> tuple[float, ...]:
    """Return the projection matrix of a frustum, column by column.

    Args:
        left: Left edge of the near plane.
        right: Right edge.
        bottom: Lower edge.
        top: Upper edge.
        nearVal: Distance of the near plane.
        farVal: Distance of the far plane.
        physicsClientId: Not used.
    """
    width, height, depth = right - left, top - bottom, farVal - nearVal
    return (
        *(_divide(2.0 * nearVal, width), 0.0, 0.0, 0.0),
        *(0.0, _divide(2.0 * nearVal, height), 0.0, 0.0),
        *(
            _divide(right + left, width),
            _divide(top + bottom, height),
            -_divide(farVal + nearVal, depth),
            -1.0,
        ),
        *(0.0, 0.0, -_divide(2.0 * farVal * nearVal, depth), 0.0),
    )


def computeProjectionMatrixFOV(
    fov: float, aspect: float, nearVal: float, farVal: float, physicsClientId: int = 0
) -> tuple[float, ...]:
    """Return the projection matrix of a field of view, column by column.

    Args:
        fov: Vertical field of view [degrees].
        aspect: Width divided by height.
        nearVal: Distance of the near plane.
        farVal: Distance of the far plane.
        physicsClientId: Not used.
    """
    try:
        scale = _divide(1.0, tan(0.5 * radians(fov)))
    except ValueError:
        scale = nan
    depth = nearVal - farVal
    return (
        *(_divide(scale, aspect), 0.0, 0.0, 0.0),
        *(0.0, scale, 0.0, 0.0),
        *(0.0, 0.0, _divide(farVal + nearVal, depth), -1.0),
        *(0.0, 0.0, _divide(2.0 * farVal * nearVal, depth), 0.0),
    )


def _three(value: Sequence[float], message: str) -> Vector:
    """Return three floats, or raise the message."""
    try:
        x, y, z = value
        return float(x), float(y), float(z)
    except (TypeError, ValueError):
        raise error(message) from None


def _four(value: Sequence[float], message: str) -> Quaternion:
    """Return four floats, or raise the message."""
    try:
        x, y, z, w = value
        return float(x), float(y), float(z), float(w)
    except (TypeError, ValueError):
        raise error(message) from None


def _divide(a: float, b: float) -> float:
    """Return a quotient, inf or nan where the divisor is zero."""
    try:
        return a / b
    except ZeroDivisionError:
        return nan if a == 0.0 or isnan(a) else copysign(inf, a) * copysign(1.0, b)


def _arc_cosine(x: float) -> float:
    """Return the arc cosine of a number that rounding may have put outside -1 to 1."""
    return acos(min(1.0, max(-1.0, x)))


def _dot(a: Quaternion, b: Quaternion) -> float:
    """Return a scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


def _multiply(
    ax: float, ay: float, az: float, aw: float, bx: float, by: float, bz: float, bw: float
) -> Quaternion:
    """Return the product a b of two quaternions."""
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by + ay * bw + az * bx - ax * bz,
        aw * bz + az * bw + ax * by - ay * bx,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def _rotate(x: float, y: float, z: float, w: float, a: float, b: float, c: float) -> Vector:
    """Return the vector part of q (a, b, c) q*."""
    u, v, t, s = w * a + y * c - z * b, w * b + z * a - x * c, w * c + x * b - y * a, x * a + y * b + z * c
    return (
        u * w + s * x + t * y - v * z,
        v * w + s * y + u * z - t * x,
        t * w + s * z + v * x - u * y,
    )


def _unit(x: float, y: float, z: float, w: float) -> Quaternion:
    """Return a quaternion at length one, of the two of a rotation that which Shepperd's method gives.

    Where the angle is below 120 degrees w is positive, beyond that the largest of x, y and z.

    References:
        Shepperd, "Quaternion from rotation matrix", Journal of Guidance and Control, 1978.
    """
    length2 = x * x + y * y + z * z + w * w
    s = _divide(1.0, sqrt(length2))
    leading = w if 4.0 * w * w > length2 else max(x, y, z, key=abs)
    if leading < 0.0:
        s = -s
    return x * s, y * s, z * s, w * s


def _direction(x: float, y: float, z: float) -> Vector:
    """Return a vector at length one, x for a vector of length zero."""
    length = sqrt(x * x + y * y + z * z)
    return (x / length, y / length, z / length) if length > 0.0 else (1.0, 0.0, 0.0)


def _difference(start: Quaternion, end: Quaternion) -> Quaternion:
    """Return `end * conjugate(start)` with the sign of end that is nearer to start."""
    x, y, z, w = start
    if _dot(start, end) > 0.0:
        return _multiply(*end, -x, -y, -z, w)
    return _multiply(*end, x, y, z, -w)


def _euler(x: float, y: float, z: float, w: float) -> Vector:
    """Return roll, pitch and yaw of a quaternion; pitch is right for those of length one."""
    sine = -2.0 * (x * z - w * y)
    if sine <= -GIMBAL_SINE:
        return 0.0, -0.5 * pi, 2.0 * atan2(x, -y)
    if sine >= GIMBAL_SINE:
        return 0.0, 0.5 * pi, 2.0 * atan2(-x, y)
    xx, yy, zz, ww = x * x, y * y, z * z, w * w
    roll = atan2(2.0 * (y * z + w * x), ww - xx - yy + zz)
    return roll, asin(sine), atan2(2.0 * (x * y + w * z), ww + xx - yy - zz)


def _look_at(eye: Vector, target: Vector, up: Vector) -> tuple[float, ...]:
    """Return the matrix that takes the world to the frame of a camera, column by column."""
    fx, fy, fz = _normalized(target[0] - eye[0], target[1] - eye[1], target[2] - eye[2])
    ux, uy, uz = _normalized(*up)
    sx, sy, sz = _normalized(fy * uz - fz * uy, fz * ux - fx * uz, fx * uy - fy * ux)
    ux, uy, uz = sy * fz - sz * fy, sz * fx - sx * fz, sx * fy - sy * fx
    ex, ey, ez = eye
    return (
        *(sx, ux, -fx, 0.0),
        *(sy, uy, -fy, 0.0),
        *(sz, uz, -fz, 0.0),
        *(-(sx * ex + sy * ey + sz * ez), -(ux * ex + uy * ey + uz * ez), fx * ex + fy * ey + fz * ez, 1.0),
    )


def _normalized(x: float, y: float, z: float) -> Vector:
    """Return a vector at length one, nan for a vector of length zero."""
    s = _divide(1.0, sqrt(x * x + y * y + z * z))
    return x * s, y * s, z * s

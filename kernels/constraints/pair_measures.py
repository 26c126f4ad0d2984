"""What rows between two bodies measure: offsets, cosines, angles and distances, with their derivatives.

Each measure is a number c of the motion of body 1 relative to body 0. Its rate is the power of opposite unit
wrenches on both bodies, its second derivative is taken at constant joint rates.

Source: Dobrowolski, "Swing-twist decomposition in Clifford algebra", 2015 (twist angle).

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/row_terms.py, kernels/constraints/pair_rows.py,
    kernels/penalty/loops.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.pair_rows import (
    PAIR_ACROSS,
    PAIR_ANGLES,
    PAIR_COSINE,
    PAIR_FRICTION_SHIFT,
    PAIR_FRICTION_TURN,
    PAIR_OFFSET,
    PAIR_ROTATION,
    PAIR_SLIDE,
    PAIR_SPAN,
    PAIR_SWING,
    PAIR_TWIST,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

TINY = wp.constant(1.0e-9)
# squared cosine of a pitch that counts as a right angle, where the derivative of a square root is not finite
UPRIGHT = wp.constant(1.0e-12)


@wp.struct
class BodyMotion:
    """Motion of a body about its anchor, in world axes."""

    x: wp.vec3  # [m] anchor
    q: wp.quat  # orientation of the anchor frame
    w: wp.vec3  # [rad/s]
    v: wp.vec3  # [m/s] of the anchor
    alpha: wp.vec3  # [rad/s²] at constant joint rates
    a: wp.vec3  # [m/s²] of the anchor, at constant joint rates


@wp.struct
class RowMeasure:
    """The measure of a row: value, wrench whose power is its rate, and second derivative."""

    force: wp.vec3
    torque: wp.vec3
    value: float
    curvature: float


@wp.func
def turning_curvature(w: wp.vec3, alpha: wp.vec3, n: wp.vec3) -> wp.vec3:
    """Second derivative of a vector n that rotates with a body."""
    return wp.cross(alpha, n) + wp.cross(w, wp.cross(w, n))


@wp.func
def measure_offset(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """n·(x1 - x0) with n fixed in body 0; forces act on both bodies at x1."""
    row = RowMeasure()
    n = wp.quat_rotate(m0.q, axis)
    d = m1.x - m0.x
    row.force = n
    row.value = wp.dot(n, d)
    turning = wp.dot(turning_curvature(m0.w, m0.alpha, n), d) + wp.dot(n, m1.a - m0.a)
    row.curvature = turning + 2.0 * wp.dot(wp.cross(m0.w, n), m1.v - m0.v)
    return row


@wp.func
def measure_cosine(m0: BodyMotion, m1: BodyMotion, axis0: wp.vec3, axis1: wp.vec3) -> RowMeasure:
    """n0·n1 minus its value when the frames coincide."""
    row = RowMeasure()
    n0 = wp.quat_rotate(m0.q, axis0)
    n1 = wp.quat_rotate(m1.q, axis1)
    row.torque = wp.cross(n1, n0)
    row.value = wp.dot(n0, n1) - wp.dot(axis0, axis1)
    bend0 = wp.dot(turning_curvature(m0.w, m0.alpha, n0), n1)
    bend1 = wp.dot(turning_curvature(m1.w, m1.alpha, n1), n0)
    row.curvature = bend0 + bend1 + 2.0 * wp.dot(wp.cross(m0.w, n0), wp.cross(m1.w, n1))
    return row


@wp.func
def relative_rotation(m0: BodyMotion, m1: BodyMotion) -> wp.quat:
    """Shortest rotation from frame 0 to frame 1."""
    q = wp.quat_inverse(m0.q) * m1.q
    if q[3] < 0.0:
        q = -q
    return q


@wp.func
def measure_rotation(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """Component of the rotation vector from frame 0 to frame 1."""
    row = RowMeasure()
    q = relative_rotation(m0, m1)
    v = wp.vec3(q[0], q[1], q[2])
    sine = wp.length(v)
    scale = float(2.0)
    if sine > 1.0e-4:
        scale = 2.0 * wp.atan2(sine, q[3]) / sine
    row.torque = wp.quat_rotate(m0.q, axis)
    row.value = scale * wp.dot(v, axis)
    row.curvature = wp.dot(row.torque, m1.alpha - m0.alpha + wp.cross(m1.w, m0.w))
    return row


@wp.func
def measure_reference(kind: int, m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """The measure of a row by reference between bodies.

    It is the offset of the anchors along an axis of the world, with forces at the anchor of each body; or
    twice a component of the vector part of the rotation from frame 0 to frame 1.
    """
    row = RowMeasure()
    if kind == PAIR_ROTATION or kind == PAIR_ANGLES:
        q = relative_rotation(m0, m1)
        v = wp.vec3(q[0], q[1], q[2])
        row.value = 2.0 * wp.dot(v, axis)
        row.torque = wp.quat_rotate(m0.q, q[3] * axis + wp.cross(v, axis))
        turning = m1.alpha - m0.alpha + wp.cross(m1.w, m0.w)
        row.curvature = wp.dot(row.torque, turning) - 0.5 * wp.length_sq(m1.w - m0.w) * wp.dot(v, axis)
    else:
        row.value = wp.dot(axis, m1.x - m0.x)
        row.force = axis
        row.curvature = wp.dot(axis, m1.a - m0.a)
    return row


@wp.func
def is_friction(kind: int) -> bool:
    """True for rows of dry friction."""
    return kind == PAIR_FRICTION_TURN or kind == PAIR_FRICTION_SHIFT


@wp.func
def measure_span(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """Offset of the anchors along an axis of the world."""
    row = RowMeasure()
    row.force = axis
    row.value = wp.dot(axis, m1.x - m0.x)
    return row


@wp.func
def measure_across(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """Offset of the anchors along an axis of frame 0 as it is at the start of the step."""
    return measure_span(m0, m1, wp.quat_rotate(m0.q, axis))


@wp.func
def measure_angles(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """One of the angles by which frame 1 is turned about the axes x, y and z of frame 0, in this order.

    Bodies are pushed about the axis itself, which is how the angle changes while the others are small.
    """
    row = RowMeasure()
    q = relative_rotation(m0, m1)
    roll = wp.atan2(2.0 * (q[3] * q[0] + q[1] * q[2]), 1.0 - 2.0 * (q[0] * q[0] + q[1] * q[1]))
    cosine = 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2])
    sine = 2.0 * (q[3] * q[2] + q[0] * q[1])
    yaw = wp.atan2(sine, cosine)
    level = wp.sqrt(cosine * cosine + sine * sine + UPRIGHT)
    pitch = wp.atan2(2.0 * (q[3] * q[1] - q[2] * q[0]), level)
    row.torque = wp.quat_rotate(m0.q, axis)
    row.value = wp.dot(axis, wp.vec3(roll, pitch, yaw))
    return row


@wp.func
def measure_twist(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """Angle about `axis` that remains when the swing of that axis is removed."""
    row = RowMeasure()
    q = relative_rotation(m0, m1)
    row.value = 2.0 * wp.atan2(wp.dot(wp.vec3(q[0], q[1], q[2]), axis), q[3])
    n0 = wp.quat_rotate(m0.q, axis)
    n1 = wp.quat_rotate(m1.q, axis)
    # the decomposition is singular at a swing by half a turn
    row.torque = (n0 + n1) / wp.max(1.0 + wp.dot(n0, n1), 0.1)
    return row


@wp.func
def measure_swing(m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """Angle between the axis of frame 0 and that of frame 1."""
    row = RowMeasure()
    n0 = wp.quat_rotate(m0.q, axis)
    n1 = wp.quat_rotate(m1.q, axis)
    u = wp.cross(n0, n1)
    sine = wp.length(u)
    row.value = wp.atan2(sine, wp.dot(n0, n1))
    if sine > TINY:
        row.torque = u / sine
    return row


@wp.func
def measure_distance(m0: BodyMotion, m1: BodyMotion) -> RowMeasure:
    """Distance of the anchors."""
    row = RowMeasure()
    d = m1.x - m0.x
    v = m1.v - m0.v
    distance = wp.length(d)
    # if the anchors coincide, any direction will do
    direction = wp.vec3(0.0, 1.0, 0.0)
    bend = float(0.0)
    if distance > TINY:
        direction = d / distance
        along = wp.dot(v, direction)
        bend = wp.dot(direction, m1.a - m0.a) + (wp.length_sq(v) - along * along) / distance
    row.value = distance
    row.force = direction
    row.curvature = bend
    return row


@wp.func
def measure_friction(kind: int, m0: BodyMotion, m1: BodyMotion, axis: wp.vec3) -> RowMeasure:
    """A velocity that dry friction slows down, and its rate as curvature; it has no value."""
    row = RowMeasure()
    if kind == PAIR_FRICTION_TURN:
        row.torque = wp.quat_rotate(m1.q, axis)
        row.curvature = wp.dot(row.torque, m1.alpha - m0.alpha + wp.cross(m1.w, m0.w))
    else:
        row.force = axis
        row.curvature = wp.dot(axis, m1.a - m0.a)
    return row


@wp.func
def measure_row(kind: int, m0: BodyMotion, m1: BodyMotion, axis0: wp.vec3, axis1: wp.vec3) -> RowMeasure:
    """The measure of a row of the given kind."""
    row = RowMeasure()
    if kind == PAIR_OFFSET or kind == PAIR_SLIDE:
        row = measure_offset(m0, m1, axis0)
    elif kind == PAIR_COSINE:
        row = measure_cosine(m0, m1, axis0, axis1)
    elif kind == PAIR_ROTATION:
        row = measure_rotation(m0, m1, axis0)
    elif kind == PAIR_SPAN:
        row = measure_span(m0, m1, axis0)
    elif kind == PAIR_ACROSS:
        row = measure_across(m0, m1, axis0)
    elif kind == PAIR_ANGLES:
        row = measure_angles(m0, m1, axis0)
    elif kind == PAIR_TWIST:
        row = measure_twist(m0, m1, axis0)
    elif kind == PAIR_SWING:
        row = measure_swing(m0, m1, axis0)
    elif is_friction(kind):
        row = measure_friction(kind, m0, m1, axis0)
    else:
        row = measure_distance(m0, m1)
    return row

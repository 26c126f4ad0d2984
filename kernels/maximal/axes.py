"""Coordinates of joint axes between bodies in maximal coordinates, and forces along them.

The impulse along an axis is found exactly for its single degree of freedom: drive, spring, damping, armature
and limit are evaluated at the velocity at the end of the substep, so that any gain is stable with any time
step.

Stage: substep in maximal coordinates, drives and limits
Called by: kernels/maximal/adjoint/modes.py, kernels/maximal/adjoint/substep.py, kernels/maximal/joints.py,
    kernels/maximal/motion.py, kernels/maximal/sweeps.py
Reads: AxisView, JointView, RowView, near
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.rows import ROW_LINEAR_AXIS, Pair, RowView, Wrench
from newtonsim.kernels.trees.inverse_kinematics import (
    PARALLEL,
    angle_between,
    axis_of,
    components,
    twist_angle,
    wrap_angle,
)
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.views.model import MODE_FORCE, MODE_POSITION, MODE_VELOCITY, DriveView, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# squared sine of the angle between axes near gimbal lock, below which they count as this far apart
LOCKED = wp.constant(1.0e-3)


@wp.struct
class AxisView:
    """Forces and limits along the axes of joints; see `views` for the lengths."""

    drive: DriveView
    limit_lower: wp.array(dtype=float)  # (A)
    limit_upper: wp.array(dtype=float)  # (A)
    limit_ke: wp.array(dtype=float)  # (A)
    limit_kd: wp.array(dtype=float)  # (A)
    velocity_limit: wp.array(dtype=float)  # (A)
    friction: wp.array(dtype=float)  # (D)
    act: wp.array(dtype=float)  # (A)
    force: wp.array(dtype=float)  # (D) generalised forces of the step
    soft_limits: int  # 1 for limits with their stiffness and damping
    limit_speed: float  # [rad/s or m/s] at which a violated limit is restored


@wp.func
def near_angle(x: float, near: float) -> float:
    """x plus the whole turns that bring it nearest to another angle."""
    return near + wrap_angle(x - near)


@wp.func
def angles_near(q: wp.quat, a0: wp.vec3, a1: wp.vec3, a2: wp.vec3, middle: float, near: wp.vec3) -> wp.vec3:
    """Three successive angles for a given second one, in the turns nearest to others."""
    turned = wp.quat_from_axis_angle(a1, middle)
    first = angle_between(a0, wp.quat_rotate(turned, a2), wp.quat_rotate(q, a2))
    rest = wp.quat_inverse(wp.quat_from_axis_angle(a0, first) * turned) * q
    last = twist_angle(rest, a2)
    return wp.vec3(near_angle(first, near[0]), near_angle(middle, near[1]), near_angle(last, near[2]))


@wp.func
def split_near(q: wp.quat, n: int, a0: wp.vec3, a1: wp.vec3, a2: wp.vec3, near: wp.vec3) -> wp.vec3:
    """Angles about up to three successive axes, of all solutions the one nearest to earlier angles.

    For three axes see `inverse_kinematics`.
    """
    angles = near
    if n == 1:
        angles[0] = near_angle(twist_angle(q, a0), near[0])
    elif n == 2:
        first = angle_between(a0, a1, wp.quat_rotate(q, a1))
        rest = wp.quat_inverse(wp.quat_from_axis_angle(a0, first)) * q
        angles[0] = near_angle(first, near[0])
        angles[1] = near_angle(twist_angle(rest, a1), near[1])
    elif n == 3:
        constant = wp.dot(a0, a1) * wp.dot(a1, a2)
        cosine = wp.dot(a0, a2) - constant
        sine = wp.dot(a0, wp.cross(a1, a2))
        size = wp.sqrt(cosine * cosine + sine * sine)
        middle = float(0.0)
        half = float(0.0)
        if size * size > PARALLEL:
            middle = wp.atan2(sine, cosine)
            half = wp.acos(wp.clamp((wp.dot(a0, wp.quat_rotate(q, a2)) - constant) / size, -1.0, 1.0))
        angles = angles_near(q, a0, a1, a2, middle + half, near)
        other = angles_near(q, a0, a1, a2, middle - half, near)
        if wp.length_sq(other - near) < wp.length_sq(angles - near):
            angles = other
    return angles


@wp.func
def joint_angles(j: int, joint: JointView, q: wp.quat, near: wp.array(dtype=float)) -> wp.vec3:
    """Angles of the axes of joint j for the rotation q between its frames, nearest to earlier coordinates."""
    lin = joint.axis_dim[j, 0]
    ang = joint.axis_dim[j, 1]
    b0 = axis_of(joint, j, lin, lin + ang)
    b1 = axis_of(joint, j, lin + 1, lin + ang)
    b2 = axis_of(joint, j, lin + 2, lin + ang)
    before = wp.vec3(0.0)
    for k in range(ang):
        before[k] = near[joint.q_start[j] + lin + k]
    return split_near(q, ang, b0, b1, b2, before)


@wp.func
def joint_offsets(j: int, joint: JointView, p: Pair) -> wp.vec3:
    """Coordinates of the linear axes of joint j."""
    lin = joint.axis_dim[j, 0]
    a0 = axis_of(joint, j, 0, lin)
    a1 = axis_of(joint, j, 1, lin)
    a2 = axis_of(joint, j, 2, lin)
    return components(lin, a0, a1, a2, wp.quat_rotate_inv(p.q0, p.d))


@wp.func
def axis_value(
    r: int, j: int, joint: JointView, p: Pair, near: wp.array(dtype=float), rows: RowView
) -> float:
    """Coordinate of the axis of row r of joint j."""
    values = wp.vec3(0.0)
    if rows.kind[r] == ROW_LINEAR_AXIS:
        values = joint_offsets(j, joint, p)
    else:
        values = joint_angles(j, joint, wp.quat_inverse(p.q0) * p.q1, near)
    return values[rows.number[r]]


@wp.func
def dual_axis(n: int, k: int, c0: wp.vec3, c1: wp.vec3, c2: wp.vec3) -> wp.vec3:
    """The vector whose product with the k-th of n unit vectors is 1, and with the others 0."""
    d = c0
    if n == 2:
        other = c1
        if k == 1:
            d = c1
            other = c0
        cosine = wp.dot(d, other)
        d = (d - cosine * other) / wp.max(1.0 - cosine * cosine, LOCKED)
    elif n == 3:
        d = wp.cross(c1, c2)
        if k == 1:
            d = wp.cross(c2, c0)
        elif k == 2:
            d = wp.cross(c0, c1)
        volume = wp.dot(c0, wp.cross(c1, c2))
        size = wp.max(wp.abs(volume), wp.sqrt(LOCKED))
        if volume < 0.0:
            size = -size
        d = d / size
    return d


@wp.func
def axis_wrench(
    r: int, j: int, joint: JointView, p: Pair, near: wp.array(dtype=float), rows: RowView
) -> Wrench:
    """The wrench whose power is the rate of the axis of row r of joint j."""
    w = Wrench()
    lin = joint.axis_dim[j, 0]
    ang = joint.axis_dim[j, 1]
    if rows.kind[r] == ROW_LINEAR_AXIS:
        a0 = axis_of(joint, j, 0, lin)
        a1 = axis_of(joint, j, 1, lin)
        a2 = axis_of(joint, j, 2, lin)
        w.force = wp.quat_rotate(p.q0, dual_axis(lin, rows.number[r], a0, a1, a2))
    else:
        b0 = axis_of(joint, j, lin, lin + ang)
        b1 = axis_of(joint, j, lin + 1, lin + ang)
        b2 = axis_of(joint, j, lin + 2, lin + ang)
        if ang > 1:
            angles = joint_angles(j, joint, wp.quat_inverse(p.q0) * p.q1, near)
            r0 = wp.quat_from_axis_angle(b0, angles[0])
            b1 = wp.quat_rotate(r0, b1)
            if ang > 2:
                b2 = wp.quat_rotate(
                    r0 * wp.quat_from_axis_angle(axis_of(joint, j, lin + 1, lin + ang), angles[1]), b2
                )
        w.torque = wp.quat_rotate(p.q0, dual_axis(ang, rows.number[r], b0, b1, b2))
    return w


@wp.func
def drive_impulse(a: int, start: float, axis: AxisView, dt: float) -> wp.vec2:
    """Impulse of the drive of axis a in a substep that begins at `start`, without its effort limit.

    Returns:
        The impulse at a mean rate of zero, and its decrease per unit rate.
    """
    drive = float(0.0)
    drive_slope = float(0.0)
    if axis.drive.mode[a] == MODE_FORCE:
        drive = dt * axis.act[a]
    elif axis.drive.mode[a] == MODE_POSITION:
        drive = dt * axis.drive.target_ke[a] * (axis.act[a] - start)
        drive_slope = dt * (dt * axis.drive.target_ke[a] + axis.drive.target_kd[a])
    elif axis.drive.mode[a] == MODE_VELOCITY:
        drive_slope = dt * axis.drive.target_ke[a]
        drive = drive_slope * axis.act[a]
    return wp.vec2(drive, drive_slope)


@wp.func
def axis_velocity(r: int, free: float, axis: AxisView, dt: float, rows: RowView) -> float:
    """Rate of the axis of row r under all forces along it; without these, it would be `free`.

    Forces depend on the mean rate of the coordinate in the substep, as in a discrete Lagrangian: the rate
    along the initial wrench falls behind it as directions rotate.
    """
    w = rows.mobility[r]
    d = rows.dof[r]
    a = rows.index[r]
    start = rows.start[r]
    turning = (rows.rest[r] - start) / dt
    mean = free + turning
    # impulses are constant - slope * rate
    constant = dt * axis.force[d] + axis.drive.armature[d] * rows.before[r]
    slope = dt * axis.drive.damping[d] + axis.drive.armature[d]
    v = float(0.0)
    if a >= 0:
        stiffness = dt * axis.drive.stiffness[a]
        constant += stiffness * (axis.drive.spring_ref[a] - start)
        slope += dt * stiffness
        most = dt * axis.drive.effort_limit[a]
        least = dt * least_effort(axis.drive.effort_lower[a], axis.drive.effort_limit[a])
        driven = drive_impulse(a, start, axis, dt)
        drive = driven[0]
        drive_slope = driven[1]
        v = (mean + w * (constant + drive)) / (1.0 + w * (slope + drive_slope))
        effort = drive - drive_slope * v
        if effort > most or effort < least:
            drive = wp.clamp(effort, least, most)
            drive_slope = 0.0
        constant += drive
        slope += drive_slope
    v = (mean + w * constant) / (1.0 + w * slope)
    friction = axis.friction[d] * dt
    if friction > 0.0:
        friction = wp.min(friction, wp.abs(v) * (1.0 + w * slope) / w)
        if v > 0.0:
            friction = -friction
        constant += friction
        v = (mean + w * constant) / (1.0 + w * slope)
    if a >= 0:
        v = limit_velocity(r, a, v, mean + w * constant, w * slope, axis, dt, rows)
    return v - turning


@wp.func
def limit_velocity(
    r: int,
    a: int,
    v: float,
    pushed: float,
    scaled_slope: float,
    axis: AxisView,
    dt: float,
    rows: RowView,
) -> float:
    """Mean rate of row r within the limits of axis a; without them (1 + scaled_slope) v = pushed."""
    lower = axis.limit_lower[a]
    upper = axis.limit_upper[a]
    result = v
    start = rows.start[r]
    end = start + dt * v
    if end < lower or end > upper:
        bound = wp.where(end < lower, lower, upper)
        ke = axis.limit_ke[a]
        gap = bound - start
        if axis.soft_limits == 1 and ke > 0.0:
            w = dt * rows.mobility[r]
            result = (pushed + w * ke * gap) / (1.0 + scaled_slope + w * (dt * ke + axis.limit_kd[a]))
            # limits push, and never pull
            result = wp.where(end < lower, wp.max(result, v), wp.min(result, v))
        else:
            back = gap / dt
            # from outside, no faster than this
            if gap > 0.0 and end < lower:
                back = wp.min(back, axis.limit_speed)
            elif gap < 0.0 and end > upper:
                back = wp.max(back, -axis.limit_speed)
            result = wp.where(end < lower, wp.max(v, back), wp.min(v, back))
    return wp.clamp(result, -axis.velocity_limit[a], axis.velocity_limit[a])

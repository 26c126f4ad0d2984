"""Rotation of bodies in a substep, and results of a step: poses, velocities, joint coordinates.

Impulses change the angular momentum of a body; in a substep, it rotates with the angular velocity that
corresponds to this momentum in its orientation in the middle. This midpoint rule is of second order,
symmetric, and stable at any spin, since it preserves the magnitude of the momentum for any angular velocity
(after Hairer, Lubich, Wanner, "Geometric Numerical Integration", 2006, section VII.5).

Stage: substep in maximal coordinates, free motion first, poses last
Called by: solvers/maximal/sweeps.py, kernels/maximal/adjoint/substep.py, kernels/maximal/adjoint/system.py
Reads: JointView, MotionView, SpinView, angular, body_qd, enabled, inertia, linear, near, q
Writes: MotionView, SpinView, body_q, body_qd, near, q, qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import power_of_two, quat_exp, rotate_inertia, unit_quat
from newtonsim.kernels.maximal.axes import split_near
from newtonsim.kernels.maximal.moving_bodies import MotionView, moved
from newtonsim.kernels.maximal.rows import SpinView
from newtonsim.kernels.trees.inverse_kinematics import axis_of, components
from newtonsim.kernels.views.model import JOINT_BALL, JOINT_DISTANCE, JOINT_FREE, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# relative change of the angular velocity by the gyroscopic torque that float32 does not resolve
SMALL = wp.constant(1.0e-7)
# relative error of the angular velocity in the middle
CONVERGED = wp.constant(1.0e-6)
# remaining error where the iteration converges, but slowly
ROUGH = wp.constant(1.0e-2)

# rotation in a substep [rad] that impulses must not exceed for bodies with joints, unless it was nearly as
# large before
LARGEST_TURN = wp.constant(0.5 * wp.pi)
LARGEST_GAIN = wp.constant(1.1)
# cosine of half the angle between the expected orientation in the middle and the actual one
AGREED = wp.constant(0.9988)


@wp.func
def turn(q: wp.quat, v: wp.vec3) -> wp.vec3:
    """Rotate a vector; rounding errors of the quaternion's length do not change that of the vector."""
    u = wp.vec3(q[0], q[1], q[2])
    c = wp.cross(u, v)
    return v + (q[3] * c + wp.cross(u, c)) * (2.0 / wp.dot(q, q))


@wp.func
def half_way(momentum: wp.vec3, inv_inertia: wp.mat33, dt: float) -> wp.vec3:
    """Angular velocity in body axes in the middle of a substep, from the momentum in those of its start."""
    start = inv_inertia * momentum
    w = start
    heading = momentum / power_of_two(wp.max(wp.abs(momentum)))  # whose square is in single precision
    if dt * wp.length(wp.cross(w, heading)) > SMALL * wp.length(heading):
        found = bool(False)
        for _k in range(12):
            turned = turn(quat_exp(w * (-0.5 * dt)), momentum)
            change = inv_inertia * turned - w
            w = w + change
            error = wp.length_sq(change)
            if error < CONVERGED * CONVERGED * wp.length_sq(w):
                found = bool(True)
                break
            if _k == 11:
                found = error < ROUGH * ROUGH * wp.length_sq(w)
        if not found:
            # it rotates too far for convergence; this solution has the initial energy
            w = start
    return w


@wp.kernel
def keep_velocities(
    first: int,
    body_qd: wp.array(dtype=wp.spatial_vector),
    spin: SpinView,
):
    """One thread per body: its velocity at the start of the step."""
    b = first + wp.tid()
    spin.entering[b] = body_qd[b]


@wp.func
def is_welded(
    b: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    spin: SpinView,
) -> bool:
    """Whether rigid joints fix body b to the world, maybe by way of other bodies."""
    body = b
    while body >= 0:
        j = spin.weld[body]
        if j < 0:
            return False
        if enabled[j] == 0 or linear[j] > 0.0 or angular[j] > 0.0:
            return False
        body = joint.parent[j]
    return True


@wp.kernel
def turn_bodies(
    first: int,
    inertia: wp.array(dtype=wp.mat33),
    joint: JointView,
    enabled: wp.array(dtype=int),
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
):
    """One thread per body: spin of the substep, inertia in its middle. Welded bodies stand still."""
    b = first + wp.tid()
    spin.com[b] = wp.transform_point(bodies.origin[b], bodies.com[b])
    r = wp.transform_get_rotation(bodies.origin[b])
    spin.middle[b] = r
    spin.inv_inertia[b] = wp.mat33()
    spin.shift[b] = wp.spatial_vector()
    if spin.weld[b] >= 0:
        if is_welded(b, joint, enabled, linear, angular, spin):
            # otherwise, links would pull a light base away from the world before sweeps converge
            bodies.inv_mass[b] = 0.0
            bodies.inv_inertia[b] = wp.mat33()
            bodies.velocity[b] = wp.spatial_vector()
    if bodies.inv_mass[b] > 0.0:
        twist = bodies.velocity[b]
        momentum = inertia[b] * turn(wp.quat_inverse(r), wp.spatial_top(twist))
        w = half_way(momentum, bodies.inv_inertia[b], dt)
        r = unit_quat(r * quat_exp(w * (0.5 * dt)))
        spin.middle[b] = r
        spin.inv_inertia[b] = rotate_inertia(r, bodies.inv_inertia[b])
        bodies.velocity[b] = wp.spatial_vector(turn(r, w), wp.spatial_bottom(twist))


@wp.func
def cut_short(
    b: int, twist: wp.spatial_vector, dt: float, bodies: MotionView, spin: SpinView
) -> wp.spatial_vector:
    """Velocity of body b, limited to rotations by impulses that joints can follow."""
    result = twist
    speed = wp.length(wp.spatial_top(twist))
    if dt * speed > LARGEST_TURN and bodies.inv_mass[b] > 0.0 and spin.weld[b] >= -1:
        most = wp.max(LARGEST_TURN / dt, LARGEST_GAIN * wp.length(wp.spatial_top(spin.entering[b])))
        if speed > most:
            result = wp.spatial_vector(wp.spatial_top(twist) * (most / speed), wp.spatial_bottom(twist))
            wp.atomic_add(spin.limited, 0, 1)
    return result


@wp.func
def turns_otherwise(twist: wp.spatial_vector, origin: wp.transform, middle: wp.quat, dt: float) -> bool:
    """Whether impulses rotated a body far from the orientation of its inertia."""
    half = quat_exp(wp.spatial_top(twist) * (0.5 * dt)) * wp.transform_get_rotation(origin)
    return wp.abs(wp.dot(half, middle)) < AGREED


@wp.kernel
def finish_bodies(
    first: int,
    inertia: wp.array(dtype=wp.mat33),
    angular_damping: float,
    dt: float,
    bodies: MotionView,
    spin: SpinView,
):
    """One thread per body: move it to the end of the substep, where its momentum is that of the middle."""
    b = first + wp.tid()
    twist = bodies.velocity[b]
    twist = cut_short(b, twist, dt, bodies, spin)
    otherwise = turns_otherwise(twist, bodies.origin[b], spin.middle[b], dt)
    end = moved(bodies.origin[b], bodies.com[b], twist + spin.shift[b], dt)
    bodies.origin[b] = end
    spin.com[b] = wp.transform_point(end, bodies.com[b])
    if bodies.inv_mass[b] > 0.0:
        r = wp.transform_get_rotation(end)
        middle = spin.middle[b]
        momentum = turn(middle, inertia[b] * turn(wp.quat_inverse(middle), wp.spatial_top(twist)))
        w = turn(r, bodies.inv_inertia[b] * turn(wp.quat_inverse(r), momentum))
        spin.inv_inertia[b] = rotate_inertia(r, bodies.inv_inertia[b])
        if otherwise:
            # this must not add energy
            before = wp.dot(momentum, wp.spatial_top(twist))
            after = wp.dot(momentum, w)
            if after > before:
                w = w * wp.sqrt(wp.max(before, 0.0) / after)
        w = w / (1.0 + angular_damping * dt)
        bodies.velocity[b] = wp.spatial_vector(w, wp.spatial_bottom(twist))


@wp.kernel
def keep_end_velocities(first: int, dt: float, bodies: MotionView, spin: SpinView):
    """One thread per body: its velocity at the start of the next substep."""
    b = first + wp.tid()
    bodies.velocity[b] = cut_short(b, bodies.velocity[b], dt, bodies, spin)
    spin.entering[b] = bodies.velocity[b]


@wp.kernel
def write_bodies(
    first: int,
    bodies: MotionView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: the state at the end of the step."""
    b = first + wp.tid()
    body_q[b] = bodies.origin[b]
    body_qd[b] = bodies.velocity[b]


@wp.kernel
def copy_coordinates(first: int, q: wp.array(dtype=float), near: wp.array(dtype=float)):
    """One thread per coordinate: its value before the step."""
    i = first + wp.tid()
    near[i] = q[i]


@wp.kernel
def follow_joints(
    first: int,
    joint: JointView,
    near: wp.array(dtype=float),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """One thread per joint: of all coordinates that give the same pose, those nearest to the earlier ones."""
    j = first + wp.tid()
    kind = joint.type[j]
    i = joint.q_start[j]
    if kind == JOINT_FREE or kind == JOINT_DISTANCE or kind == JOINT_BALL:
        start = i
        if kind != JOINT_BALL:
            start = i + 3
        same = float(0.0)
        for k in range(4):
            same += near[start + k] * q[start + k]
        if same < 0.0:
            for k in range(4):
                q[start + k] = -q[start + k]
        return
    lin = joint.axis_dim[j, 0]
    ang = joint.axis_dim[j, 1]
    if ang > 0:
        b0 = axis_of(joint, j, lin, lin + ang)
        b1 = axis_of(joint, j, lin + 1, lin + ang)
        b2 = axis_of(joint, j, lin + 2, lin + ang)
        r0 = wp.quat_from_axis_angle(b0, q[i + lin])
        turn = r0
        before = wp.vec3(0.0)
        for k in range(ang):
            before[k] = near[i + lin + k]
        if ang > 1:
            turn = r0 * wp.quat_from_axis_angle(b1, q[i + lin + 1])
        if ang > 2:
            d = joint.qd_start[j] + lin
            w = qd[d] * b0 + qd[d + 1] * wp.quat_rotate(r0, b1) + qd[d + 2] * wp.quat_rotate(turn, b2)
            angles = split_near(turn * wp.quat_from_axis_angle(b2, q[i + lin + 2]), ang, b0, b1, b2, before)
            r0 = wp.quat_from_axis_angle(b0, angles[0])
            r1 = r0 * wp.quat_from_axis_angle(b1, angles[1])
            rate = components(ang, b0, wp.quat_rotate(r0, b1), wp.quat_rotate(r1, b2), w)
            for k in range(ang):
                q[i + lin + k] = angles[k]
                qd[d + k] = rate[k]
        else:
            angles = split_near(turn, ang, b0, b1, b2, before)
            for k in range(ang):
                q[i + lin + k] = angles[k]

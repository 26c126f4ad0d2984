"""Joints of bodies in maximal coordinates: springs and dampers resist motion that a joint does not allow.

Drive, limits, spring, damping and friction act along the free directions of a joint. Opposite forces act on
both bodies at the child's anchor, so that momentum and angular momentum are conserved.

The rotational stiffness is the translational one times rotational inertia over mass: all errors of a joint
oscillate at the same frequency, and a slender rod needs no shorter step than a ball.

Stage: penalty forces, joints
Called by: solvers/semi_implicit/bodies.py, kernels/penalty/loops.py
Reads: AttachView, BodyMotionView, DriveView, JointInputView, JointView, before, raw, torque
Writes: part, q, torque
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.algebra.spatial import inverse_of, rotate_inertia, unit_quat
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.trees.inverse_kinematics import DEPENDENT, twist_angle
from newtonsim.kernels.trees.joint_forces import bounded_effort
from newtonsim.kernels.views.model import (
    JOINT_BALL,
    JOINT_DISTANCE,
    JOINT_FREE,
    MODE_FORCE,
    MODE_POSITION,
    MODE_VELOCITY,
    DriveView,
    JointView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class AttachView:
    """Parameters of joints besides `JointView` and `DriveView`."""

    ke: float  # [N/m]
    kd: float  # [N s/m]
    dt: float  # [s] length of the step
    slip: float  # [m/s or rad/s] speed below which dry friction fades out
    fade: float  # [m or rad] distance beyond a limit below which its damping fades
    enabled: wp.array(dtype=int)  # (J)
    linear_compliance: wp.array(dtype=float)  # (J) [m/N]
    angular_compliance: wp.array(dtype=float)  # (J) [rad/(N m)]
    twist_lower: wp.array(dtype=float)  # (J)
    twist_upper: wp.array(dtype=float)  # (J)
    swing_limit: wp.array(dtype=float)  # (J)
    distance_lower: wp.array(dtype=float)  # (J) [m]
    distance_upper: wp.array(dtype=float)  # (J) [m]
    limit_lower: wp.array(dtype=float)  # (A)
    limit_upper: wp.array(dtype=float)  # (A)
    limit_ke: wp.array(dtype=float)  # (A)
    limit_kd: wp.array(dtype=float)  # (A)
    velocity_limit: wp.array(dtype=float)  # (A)
    friction: wp.array(dtype=float)  # (D)


@wp.struct
class JointInputView:
    """Coordinates and inputs of the joints."""

    q: wp.array(dtype=float)  # (C)
    qd: wp.array(dtype=float)  # (D)
    act: wp.array(dtype=float)  # (A)
    f: wp.array(dtype=float)  # (D)


@wp.struct
class BodyMotionView:
    """Bodies in maximal coordinates."""

    q: wp.array(dtype=wp.transform)  # (B)
    qd: wp.array(dtype=wp.spatial_vector)  # (B)
    com: wp.array(dtype=wp.vec3)  # (B)
    mass: wp.array(dtype=float)  # (B)
    inertia: wp.array(dtype=wp.mat33)  # (B)


@wp.kernel
def unwind_angles(
    first: int,
    joint: JointView,
    raw: wp.array(dtype=float),
    before: wp.array(dtype=float),
    q: wp.array(dtype=float),
):
    """One thread per joint: coordinates, with single angles in the turn nearest to `before`."""
    j = first + wp.tid()
    begin = joint.q_start[j]
    for i in range(begin, joint.q_start[j + 1]):
        q[i] = raw[i]
    if joint.axis_dim[j, 1] == 1:
        i = begin + joint.axis_dim[j, 0]
        q[i] = raw[i] + 2.0 * wp.pi * wp.round((before[i] - raw[i]) / (2.0 * wp.pi))


@wp.func
def joint_anchor(b: int, frame: wp.transform, bodies: BodyMotionView) -> wp.transform:
    """World pose of a joint frame of body b."""
    X = frame
    if b >= 0:
        X = bodies.q[b] * frame
    return X


@wp.func
def turning(b: int, bodies: BodyMotionView) -> wp.vec3:
    """Angular velocity of body b."""
    w = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        w = wp.spatial_top(bodies.qd[b])
    return w


@wp.func
def inverse_mass(b: int, bodies: BodyMotionView) -> float:
    """1/mass of body b."""
    m = float(0.0)
    if b >= 0:
        if bodies.mass[b] > 0.0:
            m = 1.0 / bodies.mass[b]
    return m


@wp.func
def inverse_inertia(b: int, bodies: BodyMotionView) -> wp.mat33:
    """Inverse inertia of body b in world axes."""
    inverse = wp.mat33(0.0)
    if b >= 0:
        if bodies.mass[b] > 0.0:
            r = wp.transform_get_rotation(bodies.q[b])
            inverse = rotate_inertia(r, inverse_of(bodies.inertia[b]))
    return inverse


@wp.func
def column(C: wp.mat33, k: int) -> wp.vec3:
    """Column k."""
    return wp.vec3(C[0, k], C[1, k], C[2, k])


@wp.func
def unit_or_zero(v: wp.vec3) -> wp.vec3:
    """v scaled to length one; zero if it is close to rounding."""
    n = wp.vec3(0.0, 0.0, 0.0)
    size2 = wp.dot(v, v)
    if size2 > DEPENDENT:
        n = v / wp.sqrt(size2)
    return n


@wp.func
def orthonormal(C: wp.mat33) -> wp.mat33:
    """Gram-Schmidt of the columns; those that depend on previous ones become zero."""
    t0 = unit_or_zero(column(C, 0))
    t1 = column(C, 1)
    t1 = unit_or_zero(t1 - wp.dot(t0, t1) * t0)
    t2 = column(C, 2)
    t2 = unit_or_zero(t2 - wp.dot(t0, t2) * t0 - wp.dot(t1, t2) * t1)
    return wp.matrix_from_cols(t0, t1, t2)


@wp.func
def outside(T: wp.mat33, v: wp.vec3) -> wp.vec3:
    """Component of v perpendicular to the orthonormal columns of T."""
    return v - T * (wp.transpose(T) * v)


@wp.func
def quotient(a: float, b: float) -> float:
    """a / b, or 0 for a zero direction."""
    y = float(0.0)
    if b > 0.0:
        y = a / b
    return y


@wp.func
def along_axes(C: wp.mat33, T: wp.mat33, effort: wp.vec3) -> wp.vec3:
    """The vector in the span of C's columns whose component along each of them is the effort."""
    c1 = column(C, 1)
    c2 = column(C, 2)
    t0 = column(T, 0)
    t1 = column(T, 1)
    t2 = column(T, 2)
    y0 = effort[0]
    y1 = quotient(effort[1] - y0 * wp.dot(t0, c1), wp.dot(t1, c1))
    y2 = quotient(effort[2] - y0 * wp.dot(t0, c2) - y1 * wp.dot(t1, c2), wp.dot(t2, c2))
    return y0 * t0 + y1 * t1 + y2 * t2


@wp.func
def dof_effort(d: int, drive: DriveView, attach: AttachView, inputs: JointInputView) -> float:
    """Input, damping and dry friction of a degree of freedom [N or N m]."""
    v = inputs.qd[d]
    dry = attach.friction[d] / wp.sqrt(v * v + attach.slip * attach.slip)
    return inputs.f[d] - (drive.damping[d] + dry) * v


@wp.func
def axis_effort(
    k: int, j: int, joint: JointView, drive: DriveView, attach: AttachView, inputs: JointInputView
) -> float:
    """Total effort along axis k of joint j: drive, spring, limits and `dof_effort` [N or N m]."""
    a = joint.axis_start[j] + k
    d = joint.qd_start[j] + k
    q = inputs.q[joint.q_start[j] + k]
    v = inputs.qd[d]
    act = inputs.act[a]
    effort = float(0.0)
    if drive.mode[a] == MODE_FORCE:
        effort = act
    if drive.mode[a] == MODE_POSITION:
        effort = drive.target_ke[a] * (act - q) - drive.target_kd[a] * v
    if drive.mode[a] == MODE_VELOCITY:
        effort = drive.target_ke[a] * (act - v)
    effort = bounded_effort(drive, a, effort)
    effort += drive.stiffness[a] * (drive.spring_ref[a] - q) + dof_effort(d, drive, attach, inputs)
    # limits push, and never pull; their damping fades in, since it would jump at the limit otherwise
    below = attach.limit_lower[a] - q
    if below > 0.0:
        damping = attach.limit_kd[a] * below / (below + attach.fade)
        effort += wp.max(attach.limit_ke[a] * below - damping * v, 0.0)
    above = q - attach.limit_upper[a]
    if above > 0.0:
        damping = attach.limit_kd[a] * above / (above + attach.fade)
        effort += wp.min(-attach.limit_ke[a] * above - damping * v, 0.0)
    if wp.abs(v) > attach.velocity_limit[a]:
        effort -= attach.limit_kd[a] * (v - wp.clamp(v, -attach.velocity_limit[a], attach.velocity_limit[a]))
    return effort


@wp.func
def free_effort(
    begin: int,
    count: int,
    j: int,
    joint: JointView,
    drive: DriveView,
    attach: AttachView,
    inputs: JointInputView,
) -> wp.vec3:
    """`axis_effort` of up to three axes from `begin` on."""
    e0 = float(0.0)
    e1 = float(0.0)
    e2 = float(0.0)
    if count > 0:
        e0 = axis_effort(begin, j, joint, drive, attach, inputs)
    if count > 1:
        e1 = axis_effort(begin + 1, j, joint, drive, attach, inputs)
    if count > 2:
        e2 = axis_effort(begin + 2, j, joint, drive, attach, inputs)
    return wp.vec3(e0, e1, e2)


@wp.func
def dof_efforts(d: int, drive: DriveView, attach: AttachView, inputs: JointInputView) -> wp.vec3:
    """`dof_effort` of three degrees of freedom."""
    return wp.vec3(
        dof_effort(d, drive, attach, inputs),
        dof_effort(d + 1, drive, attach, inputs),
        dof_effort(d + 2, drive, attach, inputs),
    )


@wp.func
def linear_axes(j: int, r: wp.quat, joint: JointView) -> wp.mat33:
    """World directions of the linear axes of joint j in columns, zero where there are fewer than three."""
    c0 = wp.vec3(0.0, 0.0, 0.0)
    c1 = wp.vec3(0.0, 0.0, 0.0)
    c2 = wp.vec3(0.0, 0.0, 0.0)
    a = joint.axis_start[j]
    if joint.axis_dim[j, 0] > 0:
        c0 = wp.quat_rotate(r, joint.axis[a])
    if joint.axis_dim[j, 0] > 1:
        c1 = wp.quat_rotate(r, joint.axis[a + 1])
    if joint.axis_dim[j, 0] > 2:
        c2 = wp.quat_rotate(r, joint.axis[a + 2])
    return wp.matrix_from_cols(c0, c1, c2)


@wp.func
def axis_turn(k: int, j: int, joint: JointView, q: wp.array(dtype=float)) -> wp.quat:
    """Rotation of joint j about its angular axis k, or the identity if it has fewer."""
    turn = wp.quat_identity()
    if k < joint.axis_dim[j, 1]:
        n = joint.axis_dim[j, 0] + k
        turn = wp.quat_from_axis_angle(joint.axis[joint.axis_start[j] + n], q[joint.q_start[j] + n])
    return turn


@wp.func
def angular_axes(j: int, r: wp.quat, joint: JointView, q: wp.array(dtype=float)) -> wp.mat33:
    """World directions of the angular axes of joint j in columns, each rotated by the previous ones."""
    c0 = wp.vec3(0.0, 0.0, 0.0)
    c1 = wp.vec3(0.0, 0.0, 0.0)
    c2 = wp.vec3(0.0, 0.0, 0.0)
    a = joint.axis_start[j] + joint.axis_dim[j, 0]
    if joint.axis_dim[j, 1] > 0:
        c0 = wp.quat_rotate(r, joint.axis[a])
    if joint.axis_dim[j, 1] > 1:
        behind = r * axis_turn(0, j, joint, q)
        c1 = wp.quat_rotate(behind, joint.axis[a + 1])
        if joint.axis_dim[j, 1] > 2:
            c2 = wp.quat_rotate(behind * axis_turn(1, j, joint, q), joint.axis[a + 2])
    return wp.matrix_from_cols(c0, c1, c2)


@wp.func
def stable_gains(attach: AttachView, inv_mass: float) -> wp.vec2:
    """Stiffness [N/m] and damping [N s/m] of a joint, limited to what is stable for step and mass.

    Args:
        attach: Requested stiffness and damping, and the step.
        inv_mass: Largest inverse mass that the joint moves [1/kg].
    """
    damping = 0.5 / (attach.dt * inv_mass)
    return wp.vec2(wp.min(attach.ke, damping / attach.dt), wp.min(attach.kd, damping))


@wp.func
def lever(b: int, x: wp.vec3, bodies: BodyMotionView) -> float:
    """Largest contribution of rotation to the inverse mass of body b at world point x [1/kg]."""
    added = float(0.0)
    if b >= 0:
        arm = x - wp.transform_point(bodies.q[b], bodies.com[b])
        added = wp.dot(arm, arm) * wp.trace(inverse_inertia(b, bodies))
    return added


@wp.func
def limit_ball(
    j: int, r: wp.quat, relative: wp.quat, w: wp.vec3, stiff: wp.mat33, gain: wp.vec2, attach: AttachView
) -> wp.vec3:
    """Torque on the child of a ball joint beyond its swing and twist limits.

    Args:
        j: The joint.
        r: Orientation of the joint frame in the parent.
        relative: Orientation of the child's joint frame in the parent's.
        w: Angular velocity of the child relative to the parent, world axes [rad/s].
        stiff: Inertia over mass [m²]; times the first gain the stiffness.
        gain: Stiffness [N/m] and damping [N s/m].
        attach: Limits.
    """
    torque = wp.vec3(0.0, 0.0, 0.0)
    x = wp.vec3(1.0, 0.0, 0.0)
    end = wp.quat_rotate(relative, x)
    across = wp.cross(x, end)
    sine = wp.length(across)
    if sine > 0.0:
        swing = wp.atan2(sine, end[0])
        if swing > attach.swing_limit[j]:
            n = wp.quat_rotate(r, across / sine)
            push = gain[0] * (swing - attach.swing_limit[j]) + gain[1] * wp.dot(n, w)
            torque -= wp.max(push, 0.0) * wp.dot(n, stiff * n) * n
    twist = twist_angle(relative, x)
    beyond = twist - wp.clamp(twist, attach.twist_lower[j], attach.twist_upper[j])
    real = relative[3]
    v = wp.vec3(relative[0], relative[1], relative[2])
    size = real * real + v[0] * v[0]
    if beyond != 0.0 and size > DEPENDENT:
        # derivative of the twist angle by a rotation of the child
        g = wp.quat_rotate(r, (real * real * x + real * wp.cross(v, x) + v[0] * v) / size)
        torque -= (gain[0] * beyond + gain[1] * wp.dot(g, w)) * wp.dot(g, stiff * g) * g
    return torque


@wp.kernel
def turn_joints(
    first: int,
    joint: JointView,
    drive: DriveView,
    attach: AttachView,
    inputs: JointInputView,
    bodies: BodyMotionView,
    torque: wp.array(dtype=wp.vec3),
):
    """One thread per joint: torque on its child, in addition to that of the force at the anchor."""
    j = first + wp.tid()
    torque[j] = wp.vec3(0.0, 0.0, 0.0)
    if attach.enabled[j] == 0:
        return
    parent = joint.parent[j]
    child = joint.child[j]
    r = wp.transform_get_rotation(joint_anchor(parent, joint.X_p[j], bodies))
    if is_floating(joint.type[j]):
        total = dof_efforts(joint.qd_start[j], drive, attach, inputs)
        if parent >= 0:
            total = wp.quat_rotate(r, total)
        torque[j] = total
        return
    inv_mass = inverse_mass(parent, bodies) + inverse_mass(child, bodies)
    if inv_mass <= 0.0:
        return
    end = wp.transform_get_rotation(joint_anchor(child, joint.X_c[j], bodies))
    relative = wp.quat_inverse(r) * end
    w = turning(child, bodies) - turning(parent, bodies)
    gain = stable_gains(attach, inv_mass)
    stiff = inv_mass * inverse_of(inverse_inertia(parent, bodies) + inverse_inertia(child, bodies))
    if joint.type[j] == JOINT_BALL:
        driven = wp.quat_rotate(r, dof_efforts(joint.qd_start[j], drive, attach, inputs))
        torque[j] = driven + limit_ball(j, r, relative, w, stiff, gain, attach)
        return
    C = angular_axes(j, r, joint, inputs.q)
    T = orthonormal(C)
    effort = free_effort(joint.axis_dim[j, 0], joint.axis_dim[j, 1], j, joint, drive, attach, inputs)
    held = wp.vec3(0.0, 0.0, 0.0)
    if joint.axis_dim[j, 1] < 3:
        reached = axis_turn(0, j, joint, inputs.q) * axis_turn(1, j, joint, inputs.q)
        rest = unit_quat(relative * wp.quat_inverse(reached))
        error = wp.vec3(rest[0], rest[1], rest[2]) * (2.0 * wp.where(rest[3] < 0.0, -1.0, 1.0))
        pull = gain[0] * wp.quat_rotate(r, error) + gain[1] * w
        yielding = 1.0 + attach.angular_compliance[j] * gain[0] * wp.trace(stiff) / 3.0
        held = outside(T, stiff * outside(T, pull)) / yielding
    torque[j] = along_axes(C, T, effort) - held


@wp.func
def distance_force(j: int, r: wp.vec3, v: wp.vec3, gain: wp.vec2, attach: AttachView) -> wp.vec3:
    """Force on the child's anchor at r from the parent's, where a distance joint is too short or too long."""
    force = wp.vec3(0.0, 0.0, 0.0)
    length = wp.length(r)
    least = attach.distance_lower[j]
    most = attach.distance_upper[j]
    if length > 0.0:
        n = r / length
        damping = gain[1] * wp.dot(n, v)
        both = least >= 0.0 and most == least
        if least >= 0.0 and (length < least or both):
            push = gain[0] * (least - length) - damping
            if not both:
                push = wp.max(push, 0.0)
            force = push * n
        elif most >= 0.0 and length > most:
            force = wp.min(gain[0] * (most - length) - damping, 0.0) * n
    return force / (1.0 + attach.linear_compliance[j] * gain[0])


@wp.func
def anchor_force(
    j: int,
    frame: wp.transform,
    x: wp.vec3,
    v: wp.vec3,
    gain: wp.vec2,
    joint: JointView,
    drive: DriveView,
    attach: AttachView,
    inputs: JointInputView,
) -> wp.vec3:
    """Force on the child at its anchor, at world position x and velocity v relative to the parent.

    Args:
        j: The joint.
        frame: World pose of its frame in the parent.
        x: World position of the child's anchor [m].
        v: Its velocity relative to the parent [m/s].
        gain: Stiffness [N/m] and damping [N s/m] of the constrained directions.
        joint: The joints.
        drive: Their drives.
        attach: Limits and compliances.
        inputs: Coordinates and inputs.
    """
    r = x - wp.transform_get_translation(frame)
    force = wp.vec3(0.0, 0.0, 0.0)
    if joint.type[j] == JOINT_DISTANCE:
        force = distance_force(j, r, v, gain, attach)
    elif joint.type[j] != JOINT_FREE:
        C = linear_axes(j, wp.transform_get_rotation(frame), joint)
        T = orthonormal(C)
        held = outside(T, gain[0] * r + gain[1] * v) / (1.0 + attach.linear_compliance[j] * gain[0])
        effort = free_effort(0, joint.axis_dim[j, 0], j, joint, drive, attach, inputs)
        force = along_axes(C, T, effort) - held
    return force


@wp.kernel
def pull_joints(
    first: int,
    joint: JointView,
    drive: DriveView,
    attach: AttachView,
    inputs: JointInputView,
    bodies: BodyMotionView,
    torque: wp.array(dtype=wp.vec3),
    part: wp.array(dtype=wp.spatial_vector),
):
    """One thread per joint: wrenches on parent and child at their centres of mass, `torque` included."""
    j = first + wp.tid()
    part[2 * j] = wp.spatial_vector()
    part[2 * j + 1] = wp.spatial_vector()
    if attach.enabled[j] == 0:
        return
    parent = joint.parent[j]
    child = joint.child[j]
    frame = joint_anchor(parent, joint.X_p[j], bodies)
    com = wp.transform_point(bodies.q[child], bodies.com[child])
    x = wp.transform_get_translation(joint_anchor(child, joint.X_c[j], bodies))
    v = point_velocity(child, x, bodies.q, bodies.com, bodies.qd)
    v -= point_velocity(parent, x, bodies.q, bodies.com, bodies.qd)
    inv_mass = inverse_mass(parent, bodies) + inverse_mass(child, bodies)
    inv_mass += lever(parent, x, bodies) + lever(child, x, bodies)
    if inv_mass <= 0.0:
        return
    gain = stable_gains(attach, inv_mass)
    hold = anchor_force(j, frame, x, v, gain, joint, drive, attach, inputs)
    force = hold
    if is_floating(joint.type[j]):
        # inputs of floating joints act at the centre of mass
        push = dof_efforts(joint.qd_start[j] + 3, drive, attach, inputs)
        if parent >= 0:
            push = wp.quat_rotate(wp.transform_get_rotation(frame), push)
        force = hold + push
    moment = wp.cross(x - com, hold) + torque[j]
    part[2 * j + 1] = wp.spatial_vector(moment, force)
    if parent >= 0:
        base = wp.transform_point(bodies.q[parent], bodies.com[parent])
        part[2 * j] = -wp.spatial_vector(moment + wp.cross(com - base, force), force)

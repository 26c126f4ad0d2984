"""Joint coordinates from body poses and velocities.

Three successive rotations about arbitrary axes are split by the generalised Euler-angle formula of Piovan
and Bullo, "On coordinate-free rotation decomposition: Euler angles about arbitrary axes", 2012.

Stage: last of a substep in maximal coordinates, joint coordinates
Called by: newtonsim/kinematics.py, solvers/maximal/sweeps.py, solvers/semi_implicit/bodies.py,
    kernels/maximal/adjoint/substep.py, kernels/maximal/, kernels/penalty/joints.py
Reads: JointView, body_com, body_q, body_qd, mask, tree_articulation
Writes: q, qd, tree_mask
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

PARALLEL = wp.constant(1.0e-10)
# squared sine below which a direction depends on others: float32 resolves no smaller angle at a gimbal lock
DEPENDENT = wp.constant(2.5e-7)


@wp.func
def wrap_angle(x: float) -> float:
    """x shifted into [-π, π]."""
    return x - 2.0 * wp.pi * wp.floor((x + wp.pi) / (2.0 * wp.pi))


@wp.func
def twist_angle(q: wp.quat, axis: wp.vec3) -> float:
    """Rotation of q about axis [rad], in [-π, π]."""
    return wrap_angle(2.0 * wp.atan2(wp.dot(wp.vec3(q[0], q[1], q[2]), axis), q[3]))


@wp.func
def angle_between(axis: wp.vec3, a: wp.vec3, b: wp.vec3) -> float:
    """Angle about axis that turns the projection of a into that of b; zero if they lie on the axis."""
    u = a - wp.dot(a, axis) * axis
    v = b - wp.dot(b, axis) * axis
    angle = float(0.0)
    if wp.length_sq(u) > PARALLEL and wp.length_sq(v) > PARALLEL:
        angle = wp.atan2(wp.dot(axis, wp.cross(u, v)), wp.dot(u, v))
    return angle


@wp.func
def finish_angles(q: wp.quat, a0: wp.vec3, a1: wp.vec3, a2: wp.vec3, second: float) -> wp.vec3:
    """First and third angle for a given second one."""
    turned = wp.quat_from_axis_angle(a1, second)
    first = angle_between(a0, wp.quat_rotate(turned, a2), wp.quat_rotate(q, a2))
    rest = wp.quat_inverse(wp.quat_from_axis_angle(a0, first) * turned) * q
    return wp.vec3(wrap_angle(first), wrap_angle(second), twist_angle(rest, a2))


@wp.func
def split_rotation(q: wp.quat, n: int, a0: wp.vec3, a1: wp.vec3, a2: wp.vec3) -> wp.vec3:
    """Angles about up to three successive axes; of two solutions, the one with the smaller angles."""
    angles = wp.vec3(0.0, 0.0, 0.0)
    if n == 1:
        angles = wp.vec3(twist_angle(q, a0), 0.0, 0.0)
    elif n == 2:
        first = angle_between(a0, a1, wp.quat_rotate(q, a1))
        rest = wp.quat_inverse(wp.quat_from_axis_angle(a0, first)) * q
        angles = wp.vec3(first, twist_angle(rest, a1), 0.0)
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
        plus = finish_angles(q, a0, a1, a2, middle + half)
        minus = finish_angles(q, a0, a1, a2, middle - half)
        angles = plus
        if wp.length_sq(minus) < wp.length_sq(plus):
            angles = minus
    return angles


@wp.func
def components(n: int, c0: wp.vec3, c1: wp.vec3, c2: wp.vec3, v: wp.vec3) -> wp.vec3:
    """Least-squares coefficients of v in the first n of three unit directions.

    By Gram-Schmidt: normal equations would square the condition number, which is large near gimbal lock.
    The coefficient of a direction that depends on previous ones is zero.
    """
    w1 = wp.vec3(0.0, 0.0, 0.0)
    w2 = wp.vec3(0.0, 0.0, 0.0)
    if n > 1:
        w1 = c1 - wp.dot(c0, c1) * c0
    s1 = wp.dot(w1, w1)
    if n > 2:
        w2 = c2 - wp.dot(c0, c2) * c0
        if s1 > DEPENDENT:
            w2 = w2 - wp.dot(w1, w2) / s1 * w1
    s2 = wp.dot(w2, w2)
    x2 = float(0.0)
    if s2 > DEPENDENT:
        x2 = wp.dot(w2, v) / s2
    x1 = float(0.0)
    if s1 > DEPENDENT:
        x1 = wp.dot(w1, v - x2 * c2) / s1
    x0 = wp.dot(c0, v - x1 * c1 - x2 * c2)
    return wp.vec3(x0, x1, x2)


@wp.func
def axis_of(joint: JointView, j: int, k: int, n: int) -> wp.vec3:
    """Axis k of joint j, or a harmless direction if the joint has fewer."""
    axis = wp.vec3(1.0, 0.0, 0.0)
    if k < n:
        axis = joint.axis[joint.axis_start[j] + k]
    return axis


@wp.func
def read_offsets(
    j: int,
    joint: JointView,
    x: wp.vec3,
    v: wp.vec3,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """Coordinates and rates of the linear axes of joint j, from an offset and its rate."""
    i = joint.q_start[j]
    d = joint.qd_start[j]
    n = joint.axis_dim[j, 0]
    a0 = axis_of(joint, j, 0, n)
    a1 = axis_of(joint, j, 1, n)
    a2 = axis_of(joint, j, 2, n)
    offsets = components(n, a0, a1, a2, x)
    rates = components(n, a0, a1, a2, v)
    for k in range(n):
        q[i + k] = offsets[k]
        qd[d + k] = rates[k]


@wp.func
def write_angles(
    i: int,
    d: int,
    n: int,
    a0: wp.vec3,
    a1: wp.vec3,
    a2: wp.vec3,
    angles: wp.vec3,
    w: wp.vec3,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """Coordinates from i on and rates from d on of n angular axes, at an angular velocity."""
    r0 = wp.quat_from_axis_angle(a0, angles[0])
    r1 = r0 * wp.quat_from_axis_angle(a1, angles[1])
    rates = components(n, a0, wp.quat_rotate(r0, a1), wp.quat_rotate(r1, a2), w)
    for k in range(n):
        q[i + k] = angles[k]
        qd[d + k] = rates[k]


@wp.func
def read_axes(
    j: int,
    joint: JointView,
    pose: wp.transform,
    w: wp.vec3,
    v: wp.vec3,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """Coordinates and rates of a joint made of axes; motion relative to the parent in its joint frame."""
    lin = joint.axis_dim[j, 0]
    ang = joint.axis_dim[j, 1]
    i = joint.q_start[j]
    d = joint.qd_start[j]
    if lin > 0:
        read_offsets(j, joint, wp.transform_get_translation(pose), v, q, qd)
    if ang > 0:
        b0 = axis_of(joint, j, lin, lin + ang)
        b1 = axis_of(joint, j, lin + 1, lin + ang)
        b2 = axis_of(joint, j, lin + 2, lin + ang)
        angles = split_rotation(wp.transform_get_rotation(pose), ang, b0, b1, b2)
        write_angles(i + lin, d + lin, ang, b0, b1, b2, angles, w, q, qd)


@wp.struct
class RelativeMotion:
    """Motion of a joint's child relative to its parent, in the frame of the joint on the parent."""

    pose: wp.transform
    w: wp.vec3  # angular velocity
    v: wp.vec3  # velocity of the centre of mass of floating bodies, else of the anchor on the child


@wp.func
def relative_motion(
    j: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
) -> RelativeMotion:
    """Motion from which the coordinates and rates of joint j follow; floating bodies move in world axes."""
    parent = joint.parent[j]
    child = joint.child[j]
    anchor = joint.X_p[j]
    end = body_q[child] * joint.X_c[j]
    com = wp.transform_point(body_q[child], body_com[child])
    x = wp.transform_get_translation(end)
    floating = is_floating(joint.type[j])
    if floating:
        x = com
    w = wp.spatial_top(body_qd[child])
    v = wp.spatial_bottom(body_qd[child]) + wp.cross(w, x - com)
    if parent >= 0:
        anchor = body_q[parent] * joint.X_p[j]
        parent_w = wp.spatial_top(body_qd[parent])
        parent_com = wp.transform_point(body_q[parent], body_com[parent])
        v = v - (wp.spatial_bottom(body_qd[parent]) + wp.cross(parent_w, x - parent_com))
        w = w - parent_w
    if parent >= 0 or not floating:
        w = wp.quat_rotate_inv(wp.transform_get_rotation(anchor), w)
        v = wp.quat_rotate_inv(wp.transform_get_rotation(anchor), v)
    motion = RelativeMotion()
    motion.pose = wp.transform_inverse(anchor) * end
    motion.w = w
    motion.v = v
    return motion


@wp.kernel
def read_joints(
    first: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """One thread per joint: its coordinates and velocities."""
    j = first + wp.tid()
    motion = relative_motion(j, joint, body_com, body_q, body_qd)
    w = motion.w
    v = motion.v
    i = joint.q_start[j]
    d = joint.qd_start[j]
    p = wp.transform_get_translation(motion.pose)
    o = wp.transform_get_rotation(motion.pose)
    if is_floating(joint.type[j]):
        for k in range(3):
            q[i + k] = p[k]
            qd[d + k] = w[k]
            qd[d + 3 + k] = v[k]
        for k in range(4):
            q[i + 3 + k] = o[k]
    elif joint.type[j] == JOINT_BALL:
        for k in range(3):
            qd[d + k] = w[k]
        for k in range(4):
            q[i + k] = o[k]
    else:
        read_axes(j, joint, motion.pose, w, v, q, qd)


@wp.kernel
def spread_mask(
    tree_articulation: wp.array(dtype=int), mask: wp.array(dtype=bool), tree_mask: wp.array(dtype=bool)
):
    """One thread per tree: the mask of its articulation."""
    t = wp.tid()
    tree_mask[t] = mask[tree_articulation[t]]

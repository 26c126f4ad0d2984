"""Substep of rigid bodies between two solves of their rows, in kernels that a tape can reverse.

Results of sweeps and iterations are given and held fixed: the kernels evaluate the terms of the Lagrangian of
a substep, whose gradient with respect to anything but velocities and impulses is that of the step (the
implicit function theorem; Griewank, Walther, "Evaluating Derivatives", 2008, chapter 15).

Stage: backward pass in maximal coordinates, free motion, before and after the rows
Called by: solvers/maximal/adjoint.py
Reads: JointView, 26 arrays
Writes: 12 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import (
    inverse_of,
    load_vec3,
    quat_exp,
    rotate_inertia,
    unit_quat,
    world_axis,
)
from newtonsim.kernels.maximal.axes import split_near
from newtonsim.kernels.maximal.joints import resisted
from newtonsim.kernels.maximal.motion import turn
from newtonsim.kernels.maximal.moving_bodies import moved
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.trees.inverse_kinematics import axis_of, read_offsets, relative_motion, write_angles
from newtonsim.kernels.views.gravity import gravity_of
from newtonsim.kernels.views.model import JOINT_BALL, JointView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# role of a body
BODY_MOVES = wp.constant(0)
BODY_DRIVEN = wp.constant(1)  # without mass: it keeps its velocity
BODY_WELDED = wp.constant(2)  # fixed to the world


@wp.struct
class BodySystemView:
    """Bodies in the adjoint system of a substep; B bodies, W worlds."""

    world: wp.array(dtype=int)  # (B) or -1
    place: wp.array(dtype=int)  # (B) of a body within its world
    body_start: wp.array(dtype=int)  # (W + 1)
    role: wp.array(dtype=int)  # (B) BODY_*
    mass: wp.array(dtype=float)  # (B)
    inertia: wp.array(dtype=wp.mat33)  # (B) body axes
    reason: wp.array(dtype=int)  # (W) REASON_* of a world without gradients, 0 for none


@wp.kernel
def kick_bodies(
    first: int,
    world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    com: wp.array(dtype=wp.vec3),
    gravity: wp.array(dtype=wp.vec3),
    dt: float,
    x0: wp.array(dtype=wp.transform),
    u0: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: `moving_bodies.begin_bodies`."""
    b = first + wp.tid()
    twist = body_qd[b]
    x0[b] = moved(body_q[b], com[b], wp.spatial_vector(), 0.0)
    if mass[b] > 0.0:
        r = wp.transform_get_rotation(body_q[b])
        torque = wp.quat_rotate_inv(r, wp.spatial_top(body_f[b]))
        spun = wp.quat_rotate(r, inverse_of(inertia[b]) * torque)
        push = wp.spatial_bottom(body_f[b]) / mass[b] + gravity_of(gravity, world[b])
        twist = twist + wp.spatial_vector(spun, push) * dt
    u0[b] = twist


@wp.kernel
def free_bodies(
    first: int,
    x0: wp.array(dtype=wp.transform),
    u0: wp.array(dtype=wp.spatial_vector),
    inertia: wp.array(dtype=wp.mat33),
    com: wp.array(dtype=wp.vec3),
    role: wp.array(dtype=int),
    half: wp.array(dtype=wp.vec3),
    half_slope: wp.array(dtype=wp.mat33),
    dt: float,
    center: wp.array(dtype=wp.vec3),
    middle: wp.array(dtype=wp.quat),
    free: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: `maximal.motion.turn_bodies`, given the spin in the middle of the substep.

    Args:
        first: First body.
        x0: Poses.
        u0: Velocities.
        inertia: Inertias.
        com: Centres of mass.
        role: How bodies take part.
        half: Angular velocity in body axes in the middle of the substep.
        half_slope: Inverse slope of the equation that `half` solves: one Newton step at the solution has its
            derivative.
        dt: Length of the substep.
        center: Centres of mass in the world.
        middle: Orientations half-way.
        free: Velocities without forces.
    """
    b = first + wp.tid()
    center[b] = wp.transform_point(x0[b], com[b])
    r = wp.transform_get_rotation(x0[b])
    q = r
    twist = u0[b]
    if role[b] == BODY_MOVES:
        momentum = inertia[b] * turn(wp.quat_inverse(r), wp.spatial_top(twist))
        residual = inertia[b] * half[b] - turn(quat_exp(half[b] * (-0.5 * dt)), momentum)
        w = half[b] - half_slope[b] * residual
        q = unit_quat(r * quat_exp(w * (0.5 * dt)))
        twist = wp.spatial_vector(turn(q, w), wp.spatial_bottom(twist))
    if role[b] == BODY_WELDED:
        twist = wp.spatial_vector()
    middle[b] = q
    free[b] = twist


@wp.kernel
def push_floating(
    first: int,
    joint: JointView,
    force: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    friction: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    role: wp.array(dtype=int),
    x0: wp.array(dtype=wp.transform),
    center: wp.array(dtype=wp.vec3),
    middle: wp.array(dtype=wp.quat),
    free: wp.array(dtype=wp.spatial_vector),
    dt: float,
    kick: wp.array(dtype=wp.spatial_vector),
):
    """One thread per joint: `maximal.joints.push_floating`, as impulses."""
    j = first + wp.tid()
    d = joint.qd_start[j]
    if joint.qd_start[j + 1] - d != 6:
        return
    b = joint.child[j]
    p = joint.parent[j]
    if role[b] != BODY_MOVES:
        return
    w_rel = wp.spatial_top(free[b])
    v_rel = wp.spatial_bottom(free[b])
    axes = wp.quat_identity()
    arm = wp.vec3(0.0)
    if p >= 0:
        axes = wp.transform_get_rotation(x0[p]) * wp.transform_get_rotation(joint.X_p[j])
        arm = center[b] - center[p]
        w_rel = w_rel - wp.spatial_top(free[p])
        v_rel = v_rel - wp.spatial_bottom(free[p]) - wp.cross(wp.spatial_top(free[p]), arm)
    w = wp.quat_rotate_inv(axes, w_rel)
    v = wp.quat_rotate_inv(axes, v_rel)
    yields = rotate_inertia(middle[b], inverse_of(inertia[b]))
    e0 = wp.quat_rotate(axes, world_axis(0))
    e1 = wp.quat_rotate(axes, world_axis(1))
    e2 = wp.quat_rotate(axes, world_axis(2))
    t = load_vec3(force, d)
    f = load_vec3(force, d + 3)
    m = 1.0 / mass[b]
    torque = (
        resisted(t[0], w[0], wp.dot(e0, yields * e0), damping[d], friction[d], dt) * e0
        + resisted(t[1], w[1], wp.dot(e1, yields * e1), damping[d + 1], friction[d + 1], dt) * e1
        + resisted(t[2], w[2], wp.dot(e2, yields * e2), damping[d + 2], friction[d + 2], dt) * e2
    )
    push = (
        resisted(f[0], v[0], m, damping[d + 3], friction[d + 3], dt) * e0
        + resisted(f[1], v[1], m, damping[d + 4], friction[d + 4], dt) * e1
        + resisted(f[2], v[2], m, damping[d + 5], friction[d + 5], dt) * e2
    )
    wp.atomic_add(kick, b, wp.spatial_vector(torque * dt, push * dt))
    if p >= 0:
        wp.atomic_sub(kick, p, wp.spatial_vector((torque + wp.cross(arm, push)) * dt, push * dt))


@wp.func
def momentum_of(mass: float, inertia: wp.mat33, q: wp.quat, twist: wp.spatial_vector) -> wp.spatial_vector:
    """Momentum of a body (angular about its centre of mass, linear), world axes."""
    return wp.spatial_vector(
        wp.quat_rotate(q, inertia * wp.quat_rotate_inv(q, wp.spatial_top(twist))),
        mass * wp.spatial_bottom(twist),
    )


@wp.kernel
def balance_bodies(
    first: int,
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    role: wp.array(dtype=int),
    orientation: wp.array(dtype=wp.quat),
    free: wp.array(dtype=wp.spatial_vector),
    kick: wp.array(dtype=wp.spatial_vector),
    u: wp.array(dtype=wp.spatial_vector),
    multiplier: wp.array(dtype=wp.spatial_vector),
    term: wp.array(dtype=float),
):
    """One thread per body: change of its momentum by its rows, times the multiplier.

    Args:
        first: First body.
        mass: Masses.
        inertia: Inertias.
        role: How bodies take part.
        orientation: Orientations for their inertias.
        free: Velocities without rows.
        kick: Impulses of other forces.
        u: Velocities with rows.
        multiplier: Multipliers, as velocities.
        term: The terms.
    """
    b = first + wp.tid()
    total = float(0.0)
    if role[b] == BODY_MOVES:
        gained = momentum_of(mass[b], inertia[b], orientation[b], u[b] - free[b]) - kick[b]
        total = wp.dot(multiplier[b], gained)
    if role[b] == BODY_DRIVEN:
        total = wp.dot(multiplier[b], u[b] - free[b])
    term[b] = total


@wp.kernel
def finish_bodies(
    first: int,
    x0: wp.array(dtype=wp.transform),
    u: wp.array(dtype=wp.spatial_vector),
    shift: wp.array(dtype=wp.spatial_vector),
    middle: wp.array(dtype=wp.quat),
    inertia: wp.array(dtype=wp.mat33),
    com: wp.array(dtype=wp.vec3),
    role: wp.array(dtype=int),
    angular_damping: float,
    dt: float,
    x1: wp.array(dtype=wp.transform),
    u1: wp.array(dtype=wp.spatial_vector),
    center: wp.array(dtype=wp.vec3),
    turned: wp.array(dtype=wp.quat),
):
    """One thread per body: `maximal.motion.finish_bodies`, with the orientations at the end."""
    b = first + wp.tid()
    twist = u[b]
    end = moved(x0[b], com[b], twist + shift[b], dt)
    r = wp.transform_get_rotation(end)
    x1[b] = end
    turned[b] = r
    center[b] = wp.transform_point(end, com[b])
    if role[b] == BODY_MOVES:
        q = middle[b]
        momentum = turn(q, inertia[b] * turn(wp.quat_inverse(q), wp.spatial_top(twist)))
        w = turn(r, inverse_of(inertia[b]) * turn(wp.quat_inverse(r), momentum))
        twist = wp.spatial_vector(w / (1.0 + angular_damping * dt), wp.spatial_bottom(twist))
    u1[b] = twist


@wp.kernel
def read_coordinates(
    first: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    near: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """One thread per joint: `inverse_kinematics.read_joints` followed by `maximal.motion.follow_joints`."""
    j = first + wp.tid()
    motion = relative_motion(j, joint, body_com, body_q, body_qd)
    w = motion.w
    v = motion.v
    floating = is_floating(joint.type[j])
    i = joint.q_start[j]
    d = joint.qd_start[j]
    p = wp.transform_get_translation(motion.pose)
    o = wp.transform_get_rotation(motion.pose)
    start = i
    if floating:
        start = i + 3
        for k in range(3):
            q[i + k] = p[k]
            qd[d + k] = w[k]
            qd[d + 3 + k] = v[k]
    if floating or joint.type[j] == JOINT_BALL:
        same = near[start] * o[0] + near[start + 1] * o[1] + near[start + 2] * o[2] + near[start + 3] * o[3]
        o = o * wp.where(same < 0.0, -1.0, 1.0)
        for k in range(4):
            q[start + k] = o[k]
        if not floating:
            for k in range(3):
                qd[d + k] = w[k]
        return
    lin = joint.axis_dim[j, 0]
    ang = joint.axis_dim[j, 1]
    read_offsets(j, joint, p, v, q, qd)
    b0 = axis_of(joint, j, lin, lin + ang)
    b1 = axis_of(joint, j, lin + 1, lin + ang)
    b2 = axis_of(joint, j, lin + 2, lin + ang)
    before = wp.vec3(0.0)
    for k in range(ang):
        before[k] = near[i + lin + k]
    angles = split_near(o, ang, b0, b1, b2, before)
    write_angles(i + lin, d + lin, ang, b0, b1, b2, angles, w, q, qd)

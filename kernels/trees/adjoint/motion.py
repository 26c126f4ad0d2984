"""Reverse passes of velocities, accelerations and inverse dynamics.

Each follows its forward pass against the direction of its recursion, once, with the derivatives written out:
a gradient of generalised forces goes from the root to the tips as motion does, and gradients of accelerations
and velocities come back from the tips as forces do. The derivatives are those of the products in
`forward_kinematics.move_joint`, `rnea.accelerate_joint` and `rnea.body_wrench`. As on a tape, gradients of
inputs are added to, and those of results are cleared.

Stage: backward pass of smooth dynamics
Called by: newtonsim/runtime/launcher.py
Reads: BodyView, JointView, KinematicsView, TreeView, body_A, body_F, body_f, qd, qdd
Writes: BodyView, JointView, KinematicsView, by_body_A, by_body_F, by_body_f, by_dof_A, by_gravity, by_qd,
    by_qdd, by_tau
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.rotation_adjoint import left_slope, right_slope, rotation_slope
from newtonsim.kernels.algebra.spatial import load_vec3
from newtonsim.kernels.trees.adjoint.sums import (
    add_coordinates,
    add_matrix,
    add_number,
    add_spatial,
    add_transform,
    add_vector,
    taken,
)
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def reverse_velocities(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
):
    """One thread per tree: from `dof_V` and `body_V` back to `S` and qd; `by_...` are gradients."""
    t = first + wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        g = taken(by_kin.body_V, joint.child[j])
        begin = joint.qd_start[j]
        behind = joint.qd_start[j + 1]
        for n in range(begin, behind):
            d = begin + behind - 1 - n
            g += taken(by_kin.dof_V, d)
            by_kin.S[d] = by_kin.S[d] + g * qd[d]
            add_number(by_qd, d, wp.dot(kin.S[d], g))
        if joint.parent[j] >= 0:
            by_kin.body_V[joint.parent[j]] = by_kin.body_V[joint.parent[j]] + g


@wp.func
def reverse_floating_bias(
    j: int,
    a: wp.vec3,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    by_joint: JointView,
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
):
    """From a · (v × ω), the term of `rnea.floating_bias`, with both turned by the joint's axes."""
    begin = joint.qd_start[j]
    parent = joint.parent[j]
    w = load_vec3(qd, begin)
    v = load_vec3(qd, begin + 3)
    back = a
    if parent >= 0:
        q0 = wp.transform_get_rotation(kin.body_X[parent])
        q1 = wp.transform_get_rotation(joint.X_p[j])
        axes = q0 * q1
        back = wp.quat_rotate_inv(axes, a)
        # both are turned: v × ω turns with them
        w_w = wp.quat_rotate(axes, w)
        v_w = wp.quat_rotate(axes, v)
        by_axes = rotation_slope(axes, w, wp.cross(a, v_w)) + rotation_slope(axes, v, wp.cross(w_w, a))
        none = wp.vec3(0.0, 0.0, 0.0)
        add_transform(by_kin.body_X, parent, wp.transform(none, left_slope(q1, by_axes)))
        add_transform(by_joint.X_p, j, wp.transform(none, right_slope(q0, by_axes)))
    add_coordinates(by_qd, begin, wp.cross(back, v))
    add_coordinates(by_qd, begin + 3, wp.cross(w, back))


@wp.func
def reverse_acceleration(
    j: int,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    by_joint: JointView,
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
    by_qdd: wp.array(dtype=float),
    by_dof_A: wp.array(dtype=wp.spatial_vector),
    by_body_A: wp.array(dtype=wp.spatial_vector),
) -> wp.spatial_vector:
    """From the acceleration of joint j's child back; returns the gradient by that of its parent."""
    parent = joint.parent[j]
    begin = joint.qd_start[j]
    end = joint.qd_start[j + 1]
    floating = is_floating(joint.type[j])
    parallel = joint.type[j] == JOINT_BALL or floating
    a = taken(by_body_A, joint.child[j])
    for n in range(begin, end):
        d = begin + end - 1 - n
        a += taken(by_dof_A, d)
        in_dof = d > begin and not parallel
        before = wp.spatial_vector()
        if in_dof:
            before = kin.dof_V[d - 1]
        elif parent >= 0:
            before = kin.body_V[parent]
        S = kin.S[d]
        rate = qd[d]
        aw = wp.spatial_top(a)
        av = wp.spatial_bottom(a)
        w = wp.spatial_top(before)
        # a · (V ×ₘ S rate) by its second factor, and by V
        by_moving = wp.spatial_vector(
            wp.cross(aw, w) + wp.cross(av, wp.spatial_bottom(before)), wp.cross(av, w)
        )
        by_kin.S[d] = by_kin.S[d] + a * qdd[d] + by_moving * rate
        add_number(by_qdd, d, wp.dot(S, a))
        add_number(by_qd, d, wp.dot(S, by_moving))
        Sw = wp.spatial_top(S) * rate
        by_before = wp.spatial_vector(
            wp.cross(Sw, aw) + wp.cross(wp.spatial_bottom(S) * rate, av), wp.cross(Sw, av)
        )
        if in_dof:
            by_kin.dof_V[d - 1] = by_kin.dof_V[d - 1] + by_before
        elif parent >= 0:
            by_kin.body_V[parent] = by_kin.body_V[parent] + by_before
    if floating:
        reverse_floating_bias(j, wp.spatial_bottom(a), joint, kin, qd, by_joint, by_kin, by_qd)
    return a


@wp.func
def reverse_accelerations(
    t: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    by_joint: JointView,
    by_gravity: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
    by_qdd: wp.array(dtype=float),
    by_dof_A: wp.array(dtype=wp.spatial_vector),
    by_body_A: wp.array(dtype=wp.spatial_vector),
):
    """From the accelerations of tree t back, the tips first."""
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        a = reverse_acceleration(j, joint, kin, qd, qdd, by_joint, by_kin, by_qd, by_qdd, by_dof_A, by_body_A)
        if joint.parent[j] >= 0:
            by_body_A[joint.parent[j]] = by_body_A[joint.parent[j]] + a
        elif by_gravity.shape[0] > 0:
            wp.atomic_add(by_gravity, tree.world[t], -wp.spatial_bottom(a))


@wp.kernel
def reverse_body_accelerations(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    by_joint: JointView,
    by_gravity: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
    by_qdd: wp.array(dtype=float),
    by_dof_A: wp.array(dtype=wp.spatial_vector),
    by_body_A: wp.array(dtype=wp.spatial_vector),
):
    """One thread per tree: the way back through `rnea.accelerate_bodies`; `by_...` are gradients."""
    t = first + wp.tid()
    reverse_accelerations(
        t, tree, joint, kin, qd, qdd, by_joint, by_gravity, by_kin, by_qd, by_qdd, by_dof_A, by_body_A
    )


@wp.func
def reverse_wrench(
    b: int,
    body: BodyView,
    kin: KinematicsView,
    acceleration: wp.spatial_vector,
    external: wp.spatial_vector,
    g: wp.spatial_vector,
    by_body: BodyView,
    by_kin: KinematicsView,
    by_body_f: wp.array(dtype=wp.spatial_vector),
    by_body_A: wp.array(dtype=wp.spatial_vector),
):
    """From g, the gradient by the wrench that moves body b, back through `rnea.body_wrench`."""
    t = wp.spatial_top(g)
    f = wp.spatial_bottom(g)
    m = body.mass[b]
    c = kin.body_com[b]
    inertia = kin.body_I[b]
    w = wp.spatial_top(kin.body_V[b])
    v = wp.spatial_bottom(kin.body_V[b])
    alpha = wp.spatial_top(acceleration)
    v_c = v + wp.cross(w, c)
    a_c = wp.spatial_bottom(acceleration) + wp.cross(alpha, c)
    p = m * v_c
    push = m * a_c
    f_ext = wp.spatial_bottom(external)
    spin = inertia * w + wp.cross(c, p)

    by_push = f + wp.cross(t, c)
    by_spin = wp.cross(t, w)
    by_p = wp.cross(f, w) + wp.cross(t, v) + wp.cross(by_spin, c)
    by_c = (
        wp.cross(push - f_ext, t) + wp.cross(p, by_spin) + m * (wp.cross(by_push, alpha) + wp.cross(by_p, w))
    )
    by_w = wp.cross(spin, t) + wp.cross(p, f) + wp.transpose(inertia) * by_spin + m * wp.cross(c, by_p)
    by_v = wp.cross(p, t) + m * by_p
    by_alpha = wp.transpose(inertia) * t + m * wp.cross(c, by_push)

    add_number(by_body.mass, b, wp.dot(by_push, a_c) + wp.dot(by_p, v_c))
    add_vector(by_kin.body_com, b, by_c)
    add_matrix(by_kin.body_I, b, wp.outer(t, alpha) + wp.outer(by_spin, w))
    by_kin.body_V[b] = by_kin.body_V[b] + wp.spatial_vector(by_w, by_v)
    by_body_A[b] = by_body_A[b] + wp.spatial_vector(by_alpha, m * by_push)
    add_spatial(by_body_f, b, wp.spatial_vector(-t, -by_push))


@wp.kernel
def reverse_inverse_dynamics(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    body_F: wp.array(dtype=wp.spatial_vector),
    by_joint: JointView,
    by_body: BodyView,
    by_gravity: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_qd: wp.array(dtype=float),
    by_qdd: wp.array(dtype=float),
    by_body_f: wp.array(dtype=wp.spatial_vector),
    by_dof_A: wp.array(dtype=wp.spatial_vector),
    by_body_A: wp.array(dtype=wp.spatial_vector),
    by_body_F: wp.array(dtype=wp.spatial_vector),
    by_tau: wp.array(dtype=float),
):
    """One thread per tree: the way back through `rnea.inverse_dynamics`; `by_...` are gradients."""
    t = first + wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[i]
        b = joint.child[j]
        g = by_body_F[b]
        if joint.parent[j] >= 0:
            g += by_body_F[joint.parent[j]]
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            work = by_tau[d]
            by_tau[d] = 0.0
            by_kin.S[d] = by_kin.S[d] + work * body_F[b]
            g += work * kin.S[d]
        by_body_F[b] = g
        reverse_wrench(b, body, kin, body_A[b], body_f[b], g, by_body, by_kin, by_body_f, by_body_A)
    for i in range(start, end):
        by_body_F[joint.child[tree.joint[i]]] = wp.spatial_vector()
    reverse_accelerations(
        t, tree, joint, kin, qd, qdd, by_joint, by_gravity, by_kin, by_qd, by_qdd, by_dof_A, by_body_A
    )

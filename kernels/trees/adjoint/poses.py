"""Reverse passes of the poses of bodies, and of their inertias in world axes.

They go back through `forward_kinematics` from the tips to the root, frame by frame, with the derivatives
written out by the components of quaternions (`rotation_adjoint`). As on a tape, gradients of inputs are added
to, and those of results are cleared. Nothing depends on where the origins of trees are, so no gradient goes
there.

Stage: backward pass of smooth dynamics
Called by: newtonsim/runtime/launcher.py
Reads: BodyView, JointView, KinematicsView, TreeView, body_com, q
Writes: BodyView, JointView, KinematicsView, by_body_com, by_q
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.rotation_adjoint import (
    inverse_transform_slope,
    left_slope,
    left_transform_slope,
    right_slope,
    right_transform_slope,
    rotation_slope,
    unit_slope,
)
from newtonsim.kernels.algebra.spatial import load_vec3, unit_quat, world_axis
from newtonsim.kernels.trees.adjoint.sums import (
    add_coordinates,
    add_matrix,
    add_number,
    add_transform,
    add_vector,
    taken,
    taken_transform,
)
from newtonsim.kernels.trees.forward_kinematics import UNIT, anchor_frame, is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def no_transform() -> wp.transform:
    """Gradient of nothing."""
    return wp.transform(wp.vec3(0.0, 0.0, 0.0), wp.quat(0.0, 0.0, 0.0, 0.0))


@wp.func
def sum_of(a: wp.transform, b: wp.transform) -> wp.transform:
    """Sum of two gradients, component by component."""
    return wp.transform(
        wp.transform_get_translation(a) + wp.transform_get_translation(b),
        wp.transform_get_rotation(a) + wp.transform_get_rotation(b),
    )


@wp.func
def reverse_axis(
    j: int,
    k: int,
    frame: wp.transform,
    g: wp.transform,
    joint: JointView,
    q: wp.array(dtype=float),
    by_joint: JointView,
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
) -> wp.transform:
    """From g, the gradient by the frame behind axis k, and that by S, to the one by the frame before it."""
    d = joint.qd_start[j] + k
    at = joint.axis_start[j] + k
    axis = joint.axis[at]
    x = q[joint.q_start[j] + k]
    p = wp.transform_get_translation(frame)
    r = wp.transform_get_rotation(frame)
    axis_w = wp.quat_rotate(r, axis)
    by_S = taken(by_kin.S, d)
    by_p = wp.transform_get_translation(g)
    by_r = wp.transform_get_rotation(g)
    if k < joint.axis_dim[j, 0]:
        add_number(by_q, joint.q_start[j] + k, wp.dot(axis_w, by_p))
        by_axis_w = wp.spatial_bottom(by_S) + x * by_p
        by_axis = wp.vec3(0.0, 0.0, 0.0)
    else:
        moment = wp.spatial_bottom(by_S)
        by_axis_w = wp.spatial_top(by_S) + wp.cross(moment, p)
        by_p += wp.cross(axis_w, moment)
        turned = axis
        length_sq = wp.dot(axis, axis)
        scaled = wp.abs(length_sq - 1.0) > UNIT
        if scaled:
            turned = axis / wp.sqrt(length_sq)
        by_turn = right_slope(r, by_r)
        by_r = left_slope(wp.quat_from_axis_angle(turned, x), by_r)
        s = wp.sin(0.5 * x)
        c = wp.cos(0.5 * x)
        by_sine = wp.vec3(by_turn[0], by_turn[1], by_turn[2])
        add_number(by_q, joint.q_start[j] + k, 0.5 * (c * wp.dot(turned, by_sine) - s * by_turn[3]))
        by_axis = s * by_sine
        if scaled:
            by_axis = (by_axis - turned * wp.dot(turned, by_axis)) / wp.sqrt(length_sq)
    add_vector(by_joint.axis, at, by_axis + wp.quat_rotate_inv(r, by_axis_w))
    return wp.transform(by_p, by_r + rotation_slope(r, axis, by_axis_w))


@wp.func
def reverse_axes(
    j: int,
    anchor: wp.transform,
    by_behind: wp.transform,
    joint: JointView,
    q: wp.array(dtype=float),
    kin: KinematicsView,
    by_joint: JointView,
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
) -> wp.transform:
    """Way back through `forward_kinematics.place_axes`; returns the gradient by the anchor."""
    d0 = joint.qd_start[j]
    count = joint.axis_dim[j, 0] + joint.axis_dim[j, 1]
    g = by_behind
    for n in range(count):
        k = count - 1 - n
        frame = anchor
        if k > 0:
            frame = kin.dof_X[d0 + k - 1]
        g = sum_of(g, taken_transform(by_kin.dof_X, d0 + k))
        g = reverse_axis(j, k, frame, g, joint, q, by_joint, by_kin, by_q)
    return g


@wp.func
def reverse_turn(
    start: int, r: wp.quat, g: wp.quat, q: wp.array(dtype=float), by_q: wp.array(dtype=float)
) -> wp.quat:
    """From g, the gradient by r times the unit quaternion at q[start], back; returns the one by r."""
    turn = wp.quat(q[start], q[start + 1], q[start + 2], q[start + 3])
    by_turn = unit_slope(turn, right_slope(r, g))
    for k in range(4):
        add_number(by_q, start + k, by_turn[k])
    return left_slope(unit_quat(turn), g)


@wp.func
def reverse_ball(
    j: int,
    anchor: wp.transform,
    by_behind: wp.transform,
    joint: JointView,
    q: wp.array(dtype=float),
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
) -> wp.transform:
    """Way back through `forward_kinematics.place_ball`; returns the gradient by the anchor."""
    p = wp.transform_get_translation(anchor)
    r = wp.transform_get_rotation(anchor)
    g = by_behind
    by_p = wp.vec3(0.0, 0.0, 0.0)
    by_r = wp.quat(0.0, 0.0, 0.0, 0.0)
    for k in range(3):
        d = joint.qd_start[j] + k
        by_S = taken(by_kin.S, d)
        moment = wp.spatial_bottom(by_S)
        by_p += wp.cross(wp.quat_rotate(r, world_axis(k)), moment)
        by_r += rotation_slope(r, world_axis(k), wp.spatial_top(by_S) + wp.cross(moment, p))
        g = sum_of(g, taken_transform(by_kin.dof_X, d))
    by_r += reverse_turn(joint.q_start[j], r, wp.transform_get_rotation(g), q, by_q)
    return wp.transform(by_p + wp.transform_get_translation(g), by_r)


@wp.func
def reverse_free(
    j: int,
    anchor: wp.transform,
    by_behind: wp.transform,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
    by_joint: JointView,
    by_body_com: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
) -> wp.transform:
    """Way back through `forward_kinematics.place_floating`; returns the gradient by the anchor."""
    start = joint.q_start[j]
    d0 = joint.qd_start[j]
    child = joint.child[j]
    r = wp.transform_get_rotation(anchor)
    behind = kin.dof_X[d0]
    back = wp.transform_inverse(joint.X_c[j])
    pose = behind * back
    com = wp.transform_point(pose, body_com[child])
    axes = wp.quat_identity()
    if joint.parent[j] >= 0:
        axes = r
    g = by_behind
    by_com = wp.vec3(0.0, 0.0, 0.0)
    by_r = wp.quat(0.0, 0.0, 0.0, 0.0)
    for k in range(3):
        by_S = taken(by_kin.S, d0 + k)
        moment = wp.spatial_bottom(by_S)
        e = wp.quat_rotate(axes, world_axis(k))
        by_com += wp.cross(e, moment)
        by_e = wp.spatial_top(by_S) + wp.cross(moment, com) + wp.spatial_bottom(taken(by_kin.S, d0 + k + 3))
        if joint.parent[j] >= 0:
            by_r += rotation_slope(axes, world_axis(k), by_e)
        g = sum_of(g, taken_transform(by_kin.dof_X, d0 + k))
        g = sum_of(g, taken_transform(by_kin.dof_X, d0 + k + 3))
    turn = wp.transform_get_rotation(pose)
    by_pose = wp.transform(by_com, rotation_slope(turn, body_com[child], by_com))
    add_vector(by_body_com, child, wp.quat_rotate_inv(turn, by_com))
    by_back = right_transform_slope(behind, by_pose)
    add_transform(by_joint.X_c, j, inverse_transform_slope(joint.X_c[j], by_back))
    g = sum_of(g, left_transform_slope(behind, back, by_pose))
    by_p = wp.transform_get_translation(g)
    by_r += reverse_turn(start + 3, r, wp.transform_get_rotation(g), q, by_q)
    by_r += rotation_slope(r, load_vec3(q, start), by_p)
    add_coordinates(by_q, start, wp.quat_rotate_inv(r, by_p))
    return wp.transform(by_p, by_r)


@wp.func
def reverse_joint(
    j: int,
    origin: wp.vec3,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
    by_joint: JointView,
    by_body_com: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
):
    """Way back through `forward_kinematics.place_joint`."""
    parent = joint.parent[j]
    anchor = anchor_frame(j, origin, joint, kin)
    last = joint.qd_start[j + 1] - 1
    behind = anchor
    if last >= joint.qd_start[j]:
        behind = kin.dof_X[last]
    by_body_X = taken_transform(by_kin.body_X, joint.child[j])
    by_back = right_transform_slope(behind, by_body_X)
    add_transform(by_joint.X_c, j, inverse_transform_slope(joint.X_c[j], by_back))
    g = left_transform_slope(behind, wp.transform_inverse(joint.X_c[j]), by_body_X)
    if joint.type[j] == JOINT_BALL:
        g = reverse_ball(j, anchor, g, joint, q, by_kin, by_q)
    elif is_floating(joint.type[j]):
        g = reverse_free(j, anchor, g, joint, body_com, q, kin, by_joint, by_body_com, by_kin, by_q)
    else:
        g = reverse_axes(j, anchor, g, joint, q, kin, by_joint, by_kin, by_q)
    parent_X = wp.transform(-origin, wp.quat_identity())
    if parent >= 0:
        parent_X = kin.body_X[parent]
        add_transform(by_kin.body_X, parent, left_transform_slope(parent_X, joint.X_p[j], g))
    add_transform(by_joint.X_p, j, right_transform_slope(parent_X, g))


@wp.kernel
def reverse_poses(
    first: int,
    tree: TreeView,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
    by_joint: JointView,
    by_body_com: wp.array(dtype=wp.vec3),
    by_kin: KinematicsView,
    by_q: wp.array(dtype=float),
):
    """One thread per tree: from body frames, dof frames and motion subspaces back; `by_...` are gradients."""
    t = first + wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        reverse_joint(j, kin.origin[t], joint, body_com, q, kin, by_joint, by_body_com, by_kin, by_q)


@wp.kernel
def reverse_inertias(
    first: int, tree: TreeView, body: BodyView, kin: KinematicsView, by_body: BodyView, by_kin: KinematicsView
):
    """One thread per body: way back through `forward_kinematics.turn_inertias`; `by_...` are gradients."""
    b = first + wp.tid()
    if tree.body_tree[b] < 0:
        return
    by_com = by_kin.body_com[b]
    G = by_kin.body_I[b]
    by_kin.body_com[b] = wp.vec3(0.0, 0.0, 0.0)
    by_kin.body_I[b] = wp.mat33(0.0)
    q = wp.transform_get_rotation(kin.body_X[b])
    R = wp.quat_to_matrix(q)
    inertia = body.inertia[b]
    # of R I Rᵀ by R
    by_R = G * R * wp.transpose(inertia) + wp.transpose(G) * R * inertia
    by_q = rotation_slope(q, body.com[b], by_com)
    for k in range(3):
        by_q += rotation_slope(q, world_axis(k), wp.vec3(by_R[0, k], by_R[1, k], by_R[2, k]))
    add_transform(by_kin.body_X, b, wp.transform(by_com, by_q))
    add_vector(by_body.com, b, wp.quat_rotate_inv(q, by_com))
    add_matrix(by_body.inertia, b, wp.transpose(R) * G * R)

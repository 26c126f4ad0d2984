"""Poses and velocities of all bodies from joint coordinates.

Every joint axis is treated as a one-degree-of-freedom virtual link, so that one recursion serves all joint
types (Featherstone, "Rigid Body Dynamics Algorithms", 2008, sections 4.4 and 5.3). Loop-carried values are
stored in arrays: otherwise, Warp's adjoint of a dynamic loop would be wrong. Functions are inlined because
the adjoint of a call copies its views, which makes backward passes a quarter slower.

Stage: forward kinematics, first and last of a step
Called by: newtonsim/runtime/launcher.py, solvers/featherstone/step_adjoint.py,
    kernels/constraints/adjoint/row_terms.py, kernels/constraints/geometric_stiffness.py,
    kernels/constraints/linear/models.py, kernels/maximal/adjoint/substep.py,
    kernels/maximal/articulated_bodies.py, kernels/penalty/joints.py, kernels/queries/joint_sensors.py,
    kernels/trees/adjoint/, kernels/trees/
Reads: BodyView, JointView, KinematicsView, TreeView, body_com, mask, q, qd
Writes: KinematicsView, body_q, body_qd, origin
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import (
    load_quat,
    load_vec3,
    quat_exp,
    rotate_inertia,
    unit_quat,
    world_axis,
)
from newtonsim.kernels.views.model import (
    JOINT_BALL,
    JOINT_DISTANCE,
    JOINT_FREE,
    BodyView,
    JointView,
    KinematicsView,
    TreeView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# largest difference of squared lengths of axes from 1, except for those that PyBullet clients write
UNIT = wp.constant(1.0e-6)


@wp.func
def is_floating(joint_type: int) -> bool:
    """True for joints with the coordinates of a free body."""
    return joint_type == JOINT_FREE or joint_type == JOINT_DISTANCE


@wp.func(inline=True)
def place_axes(j: int, anchor: wp.transform, joint: JointView, q: wp.array(dtype=float), kin: KinematicsView):
    """Frames and motion subspaces of the axes of joint j, one after the other."""
    d0 = joint.qd_start[j]
    for k in range(joint.axis_dim[j, 0] + joint.axis_dim[j, 1]):
        d = d0 + k
        axis = joint.axis[joint.axis_start[j] + k]
        x = q[joint.q_start[j] + k]
        frame = anchor
        if k > 0:
            frame = kin.dof_X[d - 1]
        p = wp.transform_get_translation(frame)
        r = wp.transform_get_rotation(frame)
        axis_w = wp.quat_rotate(r, axis)
        if k < joint.axis_dim[j, 0]:
            kin.S[d] = wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), axis_w)
            kin.dof_X[d] = wp.transform(p + axis_w * x, r)
        else:
            kin.S[d] = wp.spatial_vector(axis_w, wp.cross(p, axis_w))
            turned = axis
            length_sq = wp.dot(axis, axis)
            if wp.abs(length_sq - 1.0) > UNIT:  # rotates by x, but moves by its length times the rate
                turned = axis / wp.sqrt(length_sq)
            kin.dof_X[d] = wp.transform(p, r * wp.quat_from_axis_angle(turned, x))


@wp.func(inline=True)
def place_ball(j: int, anchor: wp.transform, joint: JointView, q: wp.array(dtype=float), kin: KinematicsView):
    """Frame and motion subspace of a ball joint: angular velocity in the axes of the parent's joint frame."""
    p = wp.transform_get_translation(anchor)
    r = wp.transform_get_rotation(anchor)
    behind = wp.transform(p, r * load_quat(q, joint.q_start[j]))
    for k in range(3):
        d = joint.qd_start[j] + k
        axis_w = wp.quat_rotate(r, world_axis(k))
        kin.S[d] = wp.spatial_vector(axis_w, wp.cross(p, axis_w))
        kin.dof_X[d] = behind


@wp.func(inline=True)
def floating_axes(j: int, anchor: wp.transform, joint: JointView) -> wp.quat:
    """Orientation of the axes in which the velocity of a floating joint is expressed."""
    r = wp.quat_identity()
    if joint.parent[j] >= 0:
        r = wp.transform_get_rotation(anchor)
    return r


@wp.func(inline=True)
def place_floating(
    j: int,
    anchor: wp.transform,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
):
    """Frame and motion subspace of a free joint: angular velocity and velocity of the centre of mass."""
    r = wp.transform_get_rotation(anchor)
    start = joint.q_start[j]
    p = wp.transform_get_translation(anchor) + wp.quat_rotate(r, load_vec3(q, start))
    behind = wp.transform(p, r * load_quat(q, start + 3))
    com = wp.transform_point(behind * wp.transform_inverse(joint.X_c[j]), body_com[joint.child[j]])
    axes = floating_axes(j, anchor, joint)
    for k in range(3):
        d = joint.qd_start[j] + k
        e = wp.quat_rotate(axes, world_axis(k))
        kin.S[d] = wp.spatial_vector(e, wp.cross(com, e))
        kin.S[d + 3] = wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), e)
        kin.dof_X[d] = behind
        kin.dof_X[d + 3] = behind


@wp.func(inline=True)
def anchor_frame(j: int, origin: wp.vec3, joint: JointView, kin: KinematicsView) -> wp.transform:
    """Joint frame on the parent's side, relative to the tree's origin."""
    parent_X = wp.transform(-origin, wp.quat_identity())
    parent = joint.parent[j]
    if parent >= 0:
        parent_X = kin.body_X[parent]
    return parent_X * joint.X_p[j]


@wp.func
def root_position(j: int, joint: JointView, q: wp.array(dtype=float)) -> wp.vec3:
    """World position of the body that root joint j moves [m]."""
    p = wp.transform_get_translation(joint.X_p[j])
    if is_floating(joint.type[j]):
        p += wp.quat_rotate(wp.transform_get_rotation(joint.X_p[j]), load_vec3(q, joint.q_start[j]))
    return p


@wp.func(inline=True)
def place_dofs(
    j: int,
    anchor: wp.transform,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
):
    """Frames and motion subspaces of joint j, given its frame on the parent's side."""
    joint_type = joint.type[j]
    if joint_type == JOINT_BALL:
        place_ball(j, anchor, joint, q, kin)
    elif is_floating(joint_type):
        place_floating(j, anchor, joint, body_com, q, kin)
    else:
        place_axes(j, anchor, joint, q, kin)


@wp.func(inline=True)
def place_joint(
    j: int,
    origin: wp.vec3,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
):
    """Frames and motion subspaces of joint j, and the frame of its child; needs those of the parent."""
    child = joint.child[j]
    anchor = anchor_frame(j, origin, joint, kin)
    place_dofs(j, anchor, joint, body_com, q, kin)
    last = joint.qd_start[j + 1] - 1
    if last >= joint.qd_start[j]:
        kin.body_X[child] = kin.dof_X[last] * wp.transform_inverse(joint.X_c[j])
    else:
        kin.body_X[child] = anchor * wp.transform_inverse(joint.X_c[j])


@wp.func(inline=True)
def move_joint(j: int, joint: JointView, qd: wp.array(dtype=float), kin: KinematicsView):
    """Spatial velocities behind the dofs of joint j, and of its child; needs those of the parent."""
    parent = joint.parent[j]
    begin = joint.qd_start[j]
    end = joint.qd_start[j + 1]
    carried = wp.spatial_vector()
    if parent >= 0:
        carried = kin.body_V[parent]
    for d in range(begin, end):
        before = carried
        if d > begin:
            before = kin.dof_V[d - 1]
        kin.dof_V[d] = before + kin.S[d] * qd[d]
    if end > begin:
        kin.body_V[joint.child[j]] = kin.dof_V[end - 1]
    else:
        kin.body_V[joint.child[j]] = carried


@wp.func
def world_pose(b: int, origin: wp.vec3, kin: KinematicsView) -> wp.transform:
    """World pose of body b."""
    pose = kin.body_X[b]
    return wp.transform(wp.transform_get_translation(pose) + origin, wp.transform_get_rotation(pose))


@wp.func
def world_velocity(b: int, body: BodyView, kin: KinematicsView) -> wp.spatial_vector:
    """(ω, v of the centre of mass) of body b in world axes."""
    velocity = kin.body_V[b]
    w = wp.spatial_top(velocity)
    com = wp.transform_point(kin.body_X[b], body.com[b])
    return wp.spatial_vector(w, wp.spatial_bottom(velocity) + wp.cross(w, com))


@wp.kernel(enable_backward=False)
def place_origins(
    first: int, tree: TreeView, joint: JointView, q: wp.array(dtype=float), origin: wp.array(dtype=wp.vec3)
):
    """One thread per tree: reference point at the root joint, so that distant worlds lose no digits."""
    t = first + wp.tid()
    origin[t] = root_position(tree.joint[tree.joint_start[t]], joint, q)


@wp.kernel
def compute_poses(
    first: int,
    tree: TreeView,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
):
    """One thread per tree: body frames, dof frames and motion subspaces relative to the tree's origin."""
    t = first + wp.tid()
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        place_joint(tree.joint[i], kin.origin[t], joint, body_com, q, kin)


@wp.kernel
def compute_velocities(
    first: int, tree: TreeView, joint: JointView, qd: wp.array(dtype=float), kin: KinematicsView
):
    """One thread per tree: spatial velocities of dof frames and bodies."""
    t = first + wp.tid()
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        move_joint(tree.joint[i], joint, qd, kin)


@wp.func
def turn_inertia(b: int, body: BodyView, kin: KinematicsView):
    """Centre of mass and inertia of body b in world axes."""
    pose = kin.body_X[b]
    kin.body_com[b] = wp.transform_point(pose, body.com[b])
    kin.body_I[b] = rotate_inertia(wp.transform_get_rotation(pose), body.inertia[b])


@wp.kernel
def turn_inertias(first: int, tree: TreeView, body: BodyView, kin: KinematicsView):
    """One thread per body: centre of mass and inertia in world axes."""
    b = first + wp.tid()
    if tree.body_tree[b] >= 0:
        turn_inertia(b, body, kin)


@wp.kernel
def write_body_state(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    mask: wp.array(dtype=bool),
    masked: int,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: world pose and (ω, v of the centre of mass) in world axes."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t < 0:
        return
    if masked == 1:
        if not mask[t]:
            return
    body_q[b] = world_pose(b, kin.origin[t], kin)
    body_qd[b] = world_velocity(b, body, kin)


@wp.func
def end_pose(
    b: int,
    tree: TreeView,
    kin: KinematicsView,
    com: wp.array(dtype=wp.vec3),
    loose_q: wp.array(dtype=wp.transform),
    loose_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
) -> wp.transform:
    """World pose of body b; for a body on no tree, its pose after a time dt."""
    t = tree.body_tree[b]
    if t >= 0:
        return world_pose(b, kin.origin[t], kin)
    r = wp.transform_get_rotation(loose_q[b])
    c = wp.transform_point(loose_q[b], com[b]) + dt * wp.spatial_bottom(loose_qd[b])
    r_end = unit_quat(quat_exp(dt * wp.spatial_top(loose_qd[b])) * r)
    return wp.transform(c - wp.quat_rotate(r_end, com[b]), r_end)


@wp.func
def body_velocity(
    b: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    loose_qd: wp.array(dtype=wp.spatial_vector),
    share: float,
) -> wp.spatial_vector:
    """(ω, v of the centre of mass); for a body on no tree, `share` of its own."""
    if tree.body_tree[b] >= 0:
        return world_velocity(b, body, kin)
    return share * loose_qd[b]

"""Smooth dynamics of a single free body in closed form, for steps without a gradient.

With world axes about the origin of the body and the velocity of the centre of mass, the joint-space inertia
of a free body is its rotational inertia and its mass, without terms between these (Featherstone, "Rigid Body
Dynamics Algorithms", 2008, section 2.13). The functions take the same operations in the same order as the
passes over trees, without those that add or multiply by zero and one, and yield the same bits. On a GPU,
where lanes share a tree, the passes over trees serve free bodies as well.

Stage: smooth dynamics and integration, without gradient
Called by: kernels/constraints/step_end.py, kernels/trees/tree_smooth.py
Reads: BodyView, DriveView, JointView, KinematicsView, L, TreeView, body_f, joint_f, predicted, q, qd, qdd,
    start, used
Writes: CompositeView, ForceView, KinematicsView, L, body_q, body_qd, diagonal, implicit, middle, q_out,
    qd_end
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import (
    load_quat,
    load_vec3,
    quat_exp,
    rotate_inertia,
    unit_quat,
)
from newtonsim.kernels.algebra.teams import Team, has_one_lane
from newtonsim.kernels.trees.crba import PIVOT_FLOOR, CompositeView
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.trees.middle_velocity import middle_spin
from newtonsim.kernels.trees.rnea import body_wrench
from newtonsim.kernels.views.model import (
    BodyView,
    DriveView,
    ForceView,
    JointView,
    KinematicsView,
    TreeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def is_identity(X: wp.transform) -> bool:
    """True if a transform changes nothing."""
    p = wp.transform_get_translation(X)
    r = wp.transform_get_rotation(X)
    return (
        p[0] == 0.0
        and p[1] == 0.0
        and p[2] == 0.0
        and r[0] == 0.0
        and r[1] == 0.0
        and r[2] == 0.0
        and r[3] == 1.0
    )


@wp.func
def is_free_body(team: Team, tree: wp.ref[TreeView], joint: wp.ref[JointView]) -> bool:
    """True if a team of one lane has a tree of one body whose coordinates are its pose in the world."""
    if not has_one_lane(team):
        return False
    first = tree.joint_start[team.index]
    j = tree.joint[first]
    single = (
        tree.joint_start[team.index + 1] - first == 1 and is_floating(joint.type[j]) and joint.parent[j] < 0
    )
    return single and is_identity(joint.X_p[j]) and is_identity(joint.X_c[j])


@wp.func
def move_free_body(
    j: int, com: wp.vec3, w: wp.vec3, v: wp.vec3, joint: wp.ref[JointView], kin: wp.ref[KinematicsView]
):
    """Spatial velocities behind the dofs of joint j, and of its body."""
    d = joint.qd_start[j]
    x = wp.vec3(0.0, com[2] * w[0], -(com[1] * w[0]))
    y = wp.vec3(-(com[2] * w[1]), x[1], x[2] + com[0] * w[1])
    z = wp.cross(com, w)
    kin.dof_V[d] = wp.spatial_vector(wp.vec3(w[0], 0.0, 0.0), x)
    kin.dof_V[d + 1] = wp.spatial_vector(wp.vec3(w[0], w[1], 0.0), y)
    kin.dof_V[d + 2] = wp.spatial_vector(w, z)
    kin.dof_V[d + 3] = wp.spatial_vector(w, wp.vec3(z[0] + v[0], z[1], z[2]))
    kin.dof_V[d + 4] = wp.spatial_vector(w, wp.vec3(z[0] + v[0], z[1] + v[1], z[2]))
    kin.dof_V[d + 5] = wp.spatial_vector(w, z + v)
    kin.body_V[joint.child[j]] = wp.spatial_vector(w, z + v)


@wp.func
def place_free_body(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: wp.ref[KinematicsView],
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """`tree_state.place_tree`, but for the frames behind the dofs, which are that of the body."""
    j = tree.joint[tree.joint_start[t]]
    b = joint.child[j]
    d = joint.qd_start[j]
    origin = load_vec3(q, joint.q_start[j])
    r = load_quat(q, joint.q_start[j] + 3)
    com = wp.quat_rotate(r, body.com[b])
    w = load_vec3(qd, d)
    none = wp.vec3(0.0, 0.0, 0.0)
    ex = wp.vec3(1.0, 0.0, 0.0)
    ey = wp.vec3(0.0, 1.0, 0.0)
    ez = wp.vec3(0.0, 0.0, 1.0)
    kin.origin[t] = origin
    kin.S[d] = wp.spatial_vector(ex, wp.vec3(0.0, com[2], -com[1]))
    kin.S[d + 1] = wp.spatial_vector(ey, wp.vec3(-com[2], 0.0, com[0]))
    kin.S[d + 2] = wp.spatial_vector(ez, wp.vec3(com[1], -com[0], 0.0))
    kin.S[d + 3] = wp.spatial_vector(none, ex)
    kin.S[d + 4] = wp.spatial_vector(none, ey)
    kin.S[d + 5] = wp.spatial_vector(none, ez)
    kin.body_X[b] = wp.transform(none, r)
    move_free_body(j, com, w, load_vec3(qd, d + 3), joint, kin)
    body_q[b] = wp.transform(origin, r)
    body_qd[b] = wp.spatial_vector(w, wp.spatial_bottom(kin.body_V[b]) + wp.cross(w, com))


@wp.func
def inverse_pivot(pivot: float, start: float) -> float:
    """Inverse of a pivot, which is at least a share of the diagonal that it started from."""
    return 1.0 / wp.max(pivot, PIVOT_FLOOR * start)


@wp.func
def factorize_free_body(
    t: int,
    dt: float,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    drive: wp.ref[DriveView],
    kin: wp.ref[KinematicsView],
    composite: wp.ref[CompositeView],
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    L: wp.array(dtype=float),
):
    """Joint-space inertia with armature and damping, and its factors, as in `crba`."""
    j = tree.joint[tree.joint_start[t]]
    b = joint.child[j]
    d = joint.qd_start[j]
    r = wp.transform_get_rotation(kin.body_X[b])
    mass = body.mass[b]
    inertia = rotate_inertia(r, body.inertia[b])
    com = wp.quat_rotate(r, body.com[b])
    kin.body_com[b] = com
    kin.body_I[b] = inertia
    composite.mass[b] = mass
    composite.com[b] = com
    composite.inertia[b] = inertia
    for k in range(d, d + 6):
        implicit[k] = 1
        diagonal[k] = drive.armature[k] + dt * drive.damping[k]
    for k in range(d + 3, d + 6):
        row = tree.dof_row[k]
        for m in range(row, row + k - d):
            L[m] = 0.0
        pivot = mass + diagonal[k]
        L[row + k - d] = wp.sqrt(inverse_pivot(pivot, pivot))
    x = tree.dof_row[d]
    y = tree.dof_row[d + 1]
    z = tree.dof_row[d + 2]
    start = wp.get_diag(inertia) + load_vec3(diagonal, d)
    zz = inverse_pivot(start[2], start[2])
    zx = inertia[0, 2] * zz
    zy = inertia[1, 2] * zz
    yx = inertia[0, 1] - zy * inertia[0, 2]
    yy = inverse_pivot(start[1] - zy * inertia[1, 2], start[1])
    xx = inverse_pivot((start[0] - zx * inertia[0, 2]) - yx * yy * yx, start[0])
    L[x] = wp.sqrt(xx)
    L[y] = yx * yy
    L[y + 1] = wp.sqrt(yy)
    L[z] = zx
    L[z + 1] = zy
    L[z + 2] = wp.sqrt(zz)


@wp.func
def solve_free_axes(d: int, k: int, tree: wp.ref[TreeView], L: wp.array(dtype=float), b: wp.vec3) -> wp.vec3:
    """The three dofs from d + k on, of which the others of the body are independent."""
    x = tree.dof_row[d + k] + k
    y = tree.dof_row[d + k + 1] + k
    z = tree.dof_row[d + k + 2] + k
    x0 = b[0] - b[2] * L[z]
    x1 = b[1] - b[2] * L[z + 1]
    x0 = x0 - x1 * L[y]
    x0 = x0 * L[x] * L[x]
    x1 = x1 * L[y + 1] * L[y + 1] - L[y] * x0
    x2 = b[2] * L[z + 2] * L[z + 2] - (L[z] * x0 + L[z + 1] * x1)
    return wp.vec3(x0, x1, x2)


@wp.func
def solve_free_body(
    d: int, tree: wp.ref[TreeView], L: wp.array(dtype=float), b: wp.spatial_vector
) -> wp.spatial_vector:
    """H⁻¹ b for the factors of the body whose first dof is d, as `crba.solve_tree`."""
    turning = solve_free_axes(d, 0, tree, L, wp.spatial_top(b))
    return wp.spatial_vector(turning, solve_free_axes(d, 3, tree, L, wp.spatial_bottom(b)))


@wp.func
def advance_free_body(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    drive: wp.ref[DriveView],
    gravity: wp.vec3,
    kin: wp.ref[KinematicsView],
    L: wp.array(dtype=float),
    used: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    joint_f: wp.array(dtype=float),
    dt: float,
    forces: wp.ref[ForceView],
    qd_end: wp.array(dtype=float),
):
    """`tree_advance.balance_forces` at the velocities `used`, then `tree_advance.advance_tree` from `qd`."""
    j = tree.joint[tree.joint_start[t]]
    b = joint.child[j]
    d = joint.qd_start[j]
    com = kin.body_com[b]
    w = load_vec3(used, d)
    v = load_vec3(used, d + 3)
    turning = load_vec3(qdd, d)
    rising = wp.cross(v, w) - gravity
    A = wp.spatial_vector(turning, rising + wp.cross(com, turning) + load_vec3(qdd, d + 3))
    F = body_wrench(body.mass[b], com, kin.body_I[b], kin.body_V[b], A, body_f[b])
    forces.body_A[b] = A
    forces.body_F[b] = F
    f = wp.spatial_bottom(F)
    tau = wp.spatial_top(F)
    forces.tau[d] = (tau[0] + com[2] * f[1]) - com[1] * f[2]
    forces.tau[d + 1] = (tau[1] - com[2] * f[0]) + com[0] * f[2]
    forces.tau[d + 2] = (tau[2] + com[1] * f[0]) - com[0] * f[1]
    for k in range(3):
        forces.tau[d + 3 + k] = f[k]
    residual = wp.spatial_vector()
    for k in range(6):
        force = forces.tau[d + k] - joint_f[d + k]
        residual[k] = -dt * (force + drive.armature[d + k] * qdd[d + k] + drive.damping[d + k] * qd[d + k])
    x = solve_free_body(d, tree, L, residual)
    for k in range(6):
        qd_end[d + k] = x[k] + qd[d + k] + dt * qdd[d + k]


@wp.func
def move_free_body_to_middle(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    kin: wp.ref[KinematicsView],
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """Joint velocities in the middle of the step, see `middle_velocity`, and the spatial velocities there."""
    j = tree.joint[tree.joint_start[t]]
    b = joint.child[j]
    d = joint.qd_start[j]
    w = middle_spin(load_vec3(start, d), load_vec3(predicted, d), kin.body_I[b], dt)
    v = 0.5 * (load_vec3(start, d + 3) + load_vec3(predicted, d + 3))
    for k in range(3):
        middle[d + k] = w[k]
        middle[d + 3 + k] = v[k]
    move_free_body(j, kin.body_com[b], w, v, joint, kin)


@wp.func
def integrate_free_body(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
    q_out: wp.array(dtype=float),
):
    """`joint_forces.integrate_floating`."""
    j = tree.joint[tree.joint_start[t]]
    i = joint.q_start[j]
    d = joint.qd_start[j]
    com = body.com[joint.child[j]]
    r = load_quat(q, i + 3)
    r_end = unit_quat(quat_exp(dt * load_vec3(qd, d)) * r)
    p = load_vec3(q, i) + wp.quat_rotate(r, com) + dt * load_vec3(qd, d + 3) - wp.quat_rotate(r_end, com)
    for k in range(3):
        q_out[i + k] = p[k]
    for k in range(4):
        q_out[i + 3 + k] = r_end[k]

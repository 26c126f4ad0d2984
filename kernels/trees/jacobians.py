"""Geometric Jacobians of bodies, their rates, and operational-space inertias.

Rows are (ω, velocity of the centre of mass) in world axes, columns the dofs of the body's articulation. The
rate is that of Siciliano and others, "Robotics: Modelling, Planning and Control", 2009, section 3.8; the
operational-space inertia (J M⁻¹ Jᵀ)⁻¹ is that of Khatib, "A unified approach for motion and force control of
robot manipulators: the operational space formulation", 1987.

Stage: queries of dynamics between steps
Called by: newtonsim/dynamics/stages.py, kernels/actuators/operational_space.py,
    kernels/trees/rnea_derivatives.py
Reads: BodyView, JointView, KinematicsView, L, TreeView, bodies, dof_joint, dof_local, inverse, qd
Writes: inertia, inverse, jacobian, rate, work
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import cross_motion, load_vec3
from newtonsim.kernels.trees.forward_kinematics import anchor_frame, floating_axes, is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def point_column(s: wp.spatial_vector, point: wp.vec3) -> wp.spatial_vector:
    """(ω, velocity of a point) of a motion about the origin."""
    w = wp.spatial_top(s)
    return wp.spatial_vector(w, wp.spatial_bottom(s) + wp.cross(w, point))


@wp.kernel
def fill_jacobian(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    dof_local: wp.array(dtype=int),
    jacobian: wp.array3d(dtype=float),
):
    """One thread per body: columns of the dofs that move it, rows (ω, v of the COM) in world axes."""
    b = first + wp.tid()
    leaf = tree.body_leaf[b]
    if leaf < 0:
        return
    com = wp.transform_point(kin.body_X[b], body.com[b])
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        d = tree.row_dof[row + k]
        w = wp.spatial_top(kin.S[d])
        v = wp.spatial_bottom(kin.S[d]) + wp.cross(w, com)
        for i in range(3):
            jacobian[b, i, dof_local[d]] = w[i]
            jacobian[b, 3 + i, dof_local[d]] = v[i]


@wp.func
def carrier_velocity(
    j: int, d: int, origin: wp.vec3, joint: JointView, qd: wp.array(dtype=float), kin: KinematicsView
) -> wp.spatial_vector:
    """Velocity V of the frame that carries the motion subspace S of dof d of joint j: the rate of S is V × S.

    The axes of a ball joint are fixed in the parent; so are those of a floating joint, but they pass through
    the moving centre of mass.
    """
    V = kin.dof_V[d]
    if joint.type[j] == JOINT_BALL or is_floating(joint.type[j]):
        V = wp.spatial_vector()
        if joint.parent[j] >= 0:
            V = kin.body_V[joint.parent[j]]
    if is_floating(joint.type[j]):
        axes = floating_axes(j, anchor_frame(j, origin, joint, kin), joint)
        v = wp.quat_rotate(axes, load_vec3(qd, joint.qd_start[j] + 3))
        V = V + wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), v)
    return V


@wp.kernel
def fill_jacobian_rate(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    dof_joint: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    rate: wp.array3d(dtype=float),
):
    """One thread per body: time derivative of what `fill_jacobian` writes."""
    b = first + wp.tid()
    leaf = tree.body_leaf[b]
    if leaf < 0:
        return
    com = wp.transform_point(kin.body_X[b], body.com[b])
    com_velocity = wp.spatial_bottom(point_column(kin.body_V[b], com))
    origin = kin.origin[tree.body_tree[b]]
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        d = tree.row_dof[row + k]
        V = carrier_velocity(dof_joint[d], d, origin, joint, qd, kin)
        column = point_column(cross_motion(V, kin.S[d]), com)
        moved = wp.cross(wp.spatial_top(kin.S[d]), com_velocity)
        for i in range(3):
            rate[b, i, dof_local[d]] = column[i]
            rate[b, 3 + i, dof_local[d]] = column[3 + i] + moved[i]


@wp.kernel
def fill_inverse_inertia(
    first: int,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    L: wp.array(dtype=float),
    damping: float,
    bodies: wp.array(dtype=int),
    work: wp.array2d(dtype=wp.spatial_vector),
    inverse: wp.array3d(dtype=float),
):
    """One thread per entry of a list of bodies: J M⁻¹ Jᵀ + damping 1 of the body's own 6 rows.

    `work` holds D^(-1/2) L^(-T) Jᵀ of the chain that moves the body.
    """
    i = first + wp.tid()
    b = bodies[i]
    leaf = tree.body_leaf[b]
    total = wp.spatial_matrix()
    if leaf >= 0:
        com = wp.transform_point(kin.body_X[b], body.com[b])
        row = tree.dof_row[leaf]
        n = tree.dof_depth[leaf] + 1
        for k in range(n):
            work[i, k] = point_column(kin.S[tree.row_dof[row + k]], com)
        for m in range(n):
            k = n - 1 - m
            own = tree.dof_row[tree.row_dof[row + k]]
            x = work[i, k]
            for other in range(k):
                work[i, other] = work[i, other] - L[own + other] * x
            x = L[own + k] * x
            total = total + wp.outer(x, x)
    for j in range(6):
        for k in range(6):
            inverse[i, j, k] = total[j, k]
        inverse[i, j, j] = total[j, j] + damping


@wp.func
def factorize_block(blocks: wp.array3d(dtype=float), i: int) -> wp.spatial_matrix:
    """Cholesky factor of one of several symmetric 6 by 6 blocks; NaN where it is not positive definite."""
    L = wp.spatial_matrix()
    for row in range(6):
        for column in range(row + 1):
            total = blocks[i, row, column]
            for m in range(column):
                total -= L[row, m] * L[column, m]
            if row == column:
                L[row, row] = wp.sqrt(total)
            else:
                L[row, column] = total / L[column, column]
    return L


@wp.func
def solve_block(L: wp.spatial_matrix, rhs: wp.spatial_vector) -> wp.spatial_vector:
    """Solution of L Lᵀ x = rhs."""
    x = wp.spatial_vector()
    for i in range(6):
        total = rhs[i]
        for m in range(i):
            total -= L[i, m] * x[m]
        x[i] = total / L[i, i]
    for n in range(6):
        i = 5 - n
        total = x[i]
        for m in range(i + 1, 6):
            total -= L[m, i] * x[m]
        x[i] = total / L[i, i]
    return x


@wp.kernel
def invert_inertia(first: int, inverse: wp.array3d(dtype=float), inertia: wp.array3d(dtype=float)):
    """One thread per body: inertia = inverse⁻¹ by Cholesky factorization; NaN where it is singular."""
    b = first + wp.tid()
    L = factorize_block(inverse, b)
    for column in range(6):
        unit = wp.spatial_vector()
        unit[column] = 1.0
        x = solve_block(L, unit)
        for i in range(6):
            inertia[b, i, column] = x[i]

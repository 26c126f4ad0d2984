"""Joint-space inertia, its sparse factorization, and solves with it.

Composite-rigid-body algorithm and LᵀDL factorization that preserves branch-induced sparsity (Featherstone,
"Rigid Body Dynamics Algorithms", 2008, sections 6.2, 6.5 and table 6.3). Row d holds the entries of d's
ancestors from the root down to d, contiguous, so factor and solves have no fill-in and no gaps.
"""

import warp as wp

from newtonsim.kernels.spatial import rotate_inertia
from newtonsim.kernels.views import BodyView, DriveView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class CompositeView:
    """Inertia of the subtree behind each body, about the tree's origin, world axes."""

    mass: wp.array(dtype=float)  # (B) [kg]
    moment: wp.array(dtype=wp.vec3)  # (B) [kg m] mass times COM position
    inertia: wp.array(dtype=wp.mat33)  # (B) [kg m²] about the origin


@wp.func
def composite_momentum(c: CompositeView, b: int, s: wp.spatial_vector) -> wp.spatial_vector:
    """Momentum of the subtree behind b when it moves with s."""
    w = wp.spatial_top(s)
    v = wp.spatial_bottom(s)
    h = c.moment[b]
    return wp.spatial_vector(c.inertia[b] * w + wp.cross(h, v), c.mass[b] * v + wp.cross(w, h))


@wp.kernel
def composite_inertia(
    tree: TreeView, joint: JointView, body: BodyView, kin: KinematicsView, composite: CompositeView
):
    """One thread per tree: sum the inertias of each subtree, leaves first."""
    t = wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        b = joint.child[tree.joint[i]]
        pose = kin.body_X[b]
        m = body.mass[b]
        c = wp.transform_point(pose, body.com[b])
        about_com = rotate_inertia(wp.transform_get_rotation(pose), body.inertia[b])
        composite.mass[b] = m
        composite.moment[b] = m * c
        composite.inertia[b] = about_com + m * (wp.dot(c, c) * wp.identity(n=3, dtype=float) - wp.outer(c, c))
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        b = joint.child[j]
        p = joint.parent[j]
        if p >= 0:
            composite.mass[p] = composite.mass[p] + composite.mass[b]
            composite.moment[p] = composite.moment[p] + composite.moment[b]
            composite.inertia[p] = composite.inertia[p] + composite.inertia[b]


@wp.kernel
def joint_space_inertia(
    tree: TreeView,
    kin: KinematicsView,
    composite: CompositeView,
    diagonal: wp.array(dtype=float),
    H: wp.array(dtype=float),
):
    """One thread per dof: its row of the joint-space inertia plus an addition to the diagonal."""
    d = wp.tid()
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    f = composite_momentum(composite, tree.dof_body[d], kin.S[d])
    for k in range(depth + 1):
        H[row + k] = wp.dot(kin.S[tree.row_dof[row + k]], f)
    H[row + depth] = H[row + depth] + diagonal[d]


@wp.kernel
def implicit_diagonal(
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    dt: float,
    diagonal: wp.array(dtype=float),
):
    """One thread per dof: armature plus h kd + h² ke of drives, springs and damping."""
    d = wp.tid()
    a = tree.dof_axis[d]
    add = drive.armature[d] + dt * drive.damping[d]
    if a >= 0:
        add += dt * dt * drive.stiffness[a]
        if implicit[d] != 0:
            if drive.mode[a] == 1:
                add += dt * drive.target_kd[a] + dt * dt * drive.target_ke[a]
            if drive.mode[a] == 2:
                add += dt * drive.target_ke[a]
    diagonal[d] = add


@wp.kernel
def factorize(tree: TreeView, H: wp.array(dtype=float)):
    """One thread per tree: H becomes L (below the diagonal) and D (on it), H = Lᵀ D L."""
    t = wp.tid()
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        inv_pivot = 1.0 / H[row + depth]
        for n in range(depth):
            k = depth - 1 - n
            ancestor_row = tree.dof_row[tree.row_dof[row + k]]
            a = H[row + k] * inv_pivot
            for m in range(k + 1):
                H[ancestor_row + m] = H[ancestor_row + m] - a * H[row + m]
            H[row + k] = a


@wp.kernel
def solve(
    tree: TreeView,
    L: wp.array(dtype=float),
    rhs: wp.array(dtype=float),
    scale: float,
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """One thread per tree: x = base + scale H⁻¹ rhs."""
    t = wp.tid()
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[i]
        x[d] = scale * rhs[d]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        for k in range(tree.dof_depth[d]):
            a = tree.row_dof[row + k]
            x[a] = x[a] - L[row + k] * x[d]
    for i in range(start, end):
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        y = x[d] / L[row + depth]
        for k in range(depth):
            y -= L[row + k] * x[tree.row_dof[row + k]]
        x[d] = y
    for i in range(start, end):
        d = tree.dof[i]
        x[d] = x[d] + base[d]

"""Joint-space inertia, its sparse factorization, and solves with it.

Composite-rigid-body algorithm and LᵀDL factorization that preserves branch-induced sparsity (Featherstone,
"Rigid Body Dynamics Algorithms", 2008, sections 6.2, 6.5 and table 6.3). Row d holds the entries of d's
ancestors from the root down to d, contiguous, so factor and solves have no fill-in and no gaps.

Stage: smooth dynamics, joint-space inertia
Called by: newtonsim/dynamics.py, newtonsim/runtime/inertia_factors.py,
    kernels/maximal/articulated_bodies.py, kernels/trees/tree_advance.py
Reads: BodyView, CompositeView, JointView, KinematicsView, L, TreeView, base, diagonal, floor, rhs
Writes: CompositeView, H, KinematicsView, floor, x
"""

import warp as wp

from newtonsim.kernels.algebra.sparse_blas import axpy, axpyi, doti
from newtonsim.kernels.trees.forward_kinematics import turn_inertia
from newtonsim.kernels.views.model import (
    BodyView,
    JointView,
    KinematicsView,
    TreeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


# pivots below this share of their diagonal are rounding, as at gimbal lock
PIVOT_FLOOR = wp.constant(1.0e-6)


@wp.struct
class CompositeView:
    """Inertia of the subtree behind each body, world axes.

    About the subtree's own centre of mass: about a far origin, the inertia of a small link would drown.
    """

    mass: wp.array(dtype=float)  # (B) [kg]
    com: wp.array(dtype=wp.vec3)  # (B) [m] relative to the tree's origin
    inertia: wp.array(dtype=wp.mat33)  # (B) [kg m²] about com


@wp.func
def composite_momentum(c: CompositeView, b: int, s: wp.spatial_vector) -> wp.spatial_vector:
    """Momentum of the subtree behind b about the origin when it moves with s."""
    w = wp.spatial_top(s)
    com = c.com[b]
    p = c.mass[b] * (wp.spatial_bottom(s) + wp.cross(w, com))
    return wp.spatial_vector(c.inertia[b] * w + wp.cross(com, p), p)


@wp.func
def attach_composite(c: CompositeView, b: int, parent: int):
    """Add the subtree behind b to that behind its parent (parallel-axis theorem)."""
    m0 = c.mass[parent]
    m1 = c.mass[b]
    m = m0 + m1
    if m > 0.0:
        d = c.com[b] - c.com[parent]
        shift = (m0 * m1 / m) * (wp.dot(d, d) * wp.identity(n=3, dtype=float) - wp.outer(d, d))
        c.inertia[parent] = c.inertia[parent] + c.inertia[b] + shift
        c.com[parent] = c.com[parent] + (m1 / m) * d
        c.mass[parent] = m


@wp.kernel
def composite_inertia(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    composite: CompositeView,
):
    """One thread per tree: inertias of the bodies, and of each subtree, summed from the leaves on."""
    t = first + wp.tid()
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        b = joint.child[tree.joint[i]]
        turn_inertia(b, body, kin)
        composite.mass[b] = body.mass[b]
        composite.com[b] = kin.body_com[b]
        composite.inertia[b] = kin.body_I[b]
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        if joint.parent[j] >= 0:
            attach_composite(composite, joint.child[j], joint.parent[j])


@wp.kernel
def joint_space_inertia(
    first: int,
    tree: TreeView,
    kin: KinematicsView,
    composite: CompositeView,
    diagonal: wp.array(dtype=float),
    H: wp.array(dtype=float),
    floor: wp.array(dtype=float),
):
    """One thread per dof: its row of the joint-space inertia plus an addition to the diagonal.

    `floor` receives the smallest pivot that the factorization may meet.
    """
    d = first + wp.tid()
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    f = composite_momentum(composite, tree.dof_body[d], kin.S[d])
    for k in range(depth + 1):
        H[row + k] = wp.dot(kin.S[tree.row_dof[row + k]], f)
    H[row + depth] = H[row + depth] + diagonal[d]
    floor[d] = PIVOT_FLOOR * H[row + depth]


@wp.kernel
def factorize(first: int, tree: TreeView, floor: wp.array(dtype=float), H: wp.array(dtype=float)):
    """One thread per tree: H = Lᵀ D L becomes L (below the diagonal) and D^(-1/2) (on it).

    The root of the inverse is what rows of Jacobians and velocities in energy coordinates are scaled by.
    """
    t = first + wp.tid()
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        inv_pivot = 1.0 / wp.max(H[row + depth], floor[d])
        H[row + depth] = wp.sqrt(inv_pivot)
        for n in range(depth):
            k = depth - 1 - n
            ancestor_row = tree.dof_row[tree.row_dof[row + k]]
            a = H[row + k] * inv_pivot
            axpy(k + 1, -a, H, row, H, ancestor_row)
            H[row + k] = a


@wp.func
def solve_tree(t: int, tree: wp.ref[TreeView], L: wp.array(dtype=float), x: wp.array(dtype=float)):
    """x = H⁻¹ x of one tree."""
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        axpyi(tree.dof_depth[d], -x[d], L, tree.row_dof, row, x)
    for i in range(start, end):
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        x[d] = x[d] * L[row + depth] * L[row + depth] - doti(depth, L, tree.row_dof, row, x)


@wp.kernel
def solve(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    rhs: wp.array(dtype=float),
    scale: float,
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """One thread per tree: x = base + scale H⁻¹ rhs."""
    t = first + wp.tid()
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        x[d] = scale * rhs[d]
    solve_tree(t, tree, L, x)
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        x[d] = x[d] + base[d]

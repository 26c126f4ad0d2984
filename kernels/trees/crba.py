"""Joint-space inertia, its sparse factorization, and solves with it.

Composite-rigid-body algorithm and LᵀDL factorization that preserves branch-induced sparsity (Featherstone,
"Rigid Body Dynamics Algorithms", 2008, sections 6.2, 6.5 and table 6.3). Row d contains the entries of d's
ancestors from the root down to d, contiguously, so that factorization and solves have neither fill-in nor
gaps.

Stage: smooth dynamics, joint-space inertia
Called by: newtonsim/dynamics/, newtonsim/runtime/inertia_factors.py, kernels/maximal/articulated_bodies.py,
    kernels/trees/
Reads: BodyView, JointView, KinematicsView, L, LevelView, Teams, TreeView, base, diagonal, rhs
Writes: CompositeView, H, KinematicsView, L, floor, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import (
    doti,
    lane_axpyi,
    lane_eliminate,
    lane_scal,
    motion_products,
)
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.trees.forward_kinematics import turn_inertia
from newtonsim.kernels.views.model import (
    BodyView,
    JointView,
    KinematicsView,
    LevelView,
    TreeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


# pivots below this share of their diagonal are rounding, as at gimbal lock
PIVOT_FLOOR = wp.constant(1.0e-6)


@wp.struct
class CompositeView:
    """Inertia of the subtree behind each body, world axes.

    It is taken about the subtree's own centre of mass: about a distant origin, the inertia of a small link
    would be lost to rounding.
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


@wp.func(inline=True)
def sum_composites(
    team: Team,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    composite: CompositeView,
):
    """Inertias of the bodies of a tree, and of each subtree, summed from the leaves on."""
    begin = levels.first[team.index]
    end = levels.first[team.index + 1]
    for i in range(levels.joint_start[begin] + team.lane, levels.joint_start[end], lanes(team)):
        b = joint.child[levels.joint[i]]
        turn_inertia(b, body, kin)
        composite.mass[b] = body.mass[b]
        composite.com[b] = kin.body_com[b]
        composite.inertia[b] = kin.body_I[b]
    sync(team)
    for n in range(end - begin):
        level = end - 1 - n
        for family in range(levels.family[level] + team.lane, levels.family[level + 1], lanes(team)):
            start = levels.family_start[family]
            last = levels.family_start[family + 1] - 1
            for i in range(start, last + 1):
                j = levels.joint[start + last - i]
                if joint.parent[j] >= 0:
                    attach_composite(composite, joint.child[j], joint.parent[j])
        sync(team)


@wp.func(inline=True)
def fill_inertia(
    team: Team,
    tree: TreeView,
    kin: KinematicsView,
    composite: CompositeView,
    diagonal: wp.array(dtype=float),
    H: wp.array(dtype=float),
    floor: wp.array(dtype=float),
):
    """Rows of the joint-space inertia of a tree plus an addition to the diagonal.

    `floor` receives the smallest pivots that the factorization may encounter.
    """
    i = int(tree.dof_start[team.index] + team.lane)
    end = tree.dof_start[team.index + 1]
    while i < end:
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        f = composite_momentum(composite, tree.dof_body[d], kin.S[d])
        motion_products(depth + 1, kin.S, tree.row_dof, row, f, H)
        pivot = H[row + depth] + diagonal[d]
        H[row + depth] = pivot
        floor[d] = PIVOT_FLOOR * pivot
        i += lanes(team)
    sync(team)


@wp.func(inline=True)
def eliminate(team: Team, tree: TreeView, floor: wp.array(dtype=float), H: wp.array(dtype=float)):
    """H = Lᵀ D L of a tree becomes L (below the diagonal) and D^(-1/2) (on it).

    The square root of the inverse scales rows of Jacobians and velocities in energy coordinates. Lanes share
    the ancestors of a dof, each of which has its own row.
    """
    start = tree.dof_start[team.index]
    i = int(tree.dof_start[team.index + 1])
    while i > start:
        i -= 1
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        inv_pivot = 1.0 / wp.max(H[row + depth], floor[d])
        lane_eliminate(team.lane, lanes(team), depth, inv_pivot, tree.dof_row, tree.row_dof, row, H)
        sync(team)
        lane_scal(team.lane, lanes(team), depth, inv_pivot, H, row)
        if team.lane == 0:
            H[row + depth] = wp.sqrt(inv_pivot)


@wp.kernel
def expand_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    diagonal: wp.array(dtype=float),
    kin: KinematicsView,
    composite: CompositeView,
    H: wp.array(dtype=float),
    floor: wp.array(dtype=float),
):
    """One team per tree: joint-space inertia plus an addition to the diagonal."""
    team = own_team(teams, wp.tid())
    sum_composites(team, levels, joint, body, kin, composite)
    fill_inertia(team, tree, kin, composite, diagonal, H, floor)


@wp.kernel
def factorize_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    diagonal: wp.array(dtype=float),
    kin: KinematicsView,
    composite: CompositeView,
    L: wp.array(dtype=float),
    floor: wp.array(dtype=float),
):
    """One team per tree: factors of the joint-space inertia plus an addition to the diagonal."""
    team = own_team(teams, wp.tid())
    sum_composites(team, levels, joint, body, kin, composite)
    fill_inertia(team, tree, kin, composite, diagonal, L, floor)
    eliminate(team, tree, floor, L)


@wp.func
def solve_tree(
    team: Team,
    tree: wp.ref[TreeView],
    levels: wp.ref[LevelView],
    L: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """x = H⁻¹ x of one tree; begins and ends with a `sync`."""
    start = tree.dof_start[team.index]
    i = int(tree.dof_start[team.index + 1])
    sync(team)
    while i > start:
        i -= 1
        d = tree.dof[i]
        row = tree.dof_row[d]
        lane_axpyi(team.lane, lanes(team), tree.dof_depth[d], -x[d], L, tree.row_dof, row, x)
        sync(team)
    for level in range(levels.dof_first[team.index], levels.dof_first[team.index + 1]):
        k = int(levels.dof_start[level] + team.lane)
        while k < levels.dof_start[level + 1]:
            d = levels.dof[k]
            row = tree.dof_row[d]
            depth = tree.dof_depth[d]
            x[d] = x[d] * L[row + depth] * L[row + depth] - doti(depth, L, tree.row_dof, row, x)
            k += lanes(team)
        sync(team)


@wp.kernel
def solve(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    L: wp.array(dtype=float),
    rhs: wp.array(dtype=float),
    scale: float,
    base: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    """One team per tree: x = base + scale H⁻¹ rhs."""
    team = own_team(teams, wp.tid())
    start = tree.dof_start[team.index] + team.lane
    end = tree.dof_start[team.index + 1]
    for i in range(start, end, lanes(team)):
        d = tree.dof[i]
        x[d] = scale * rhs[d]
    solve_tree(team, tree, levels, L, x)
    for i in range(start, end, lanes(team)):
        d = tree.dof[i]
        x[d] = x[d] + base[d]

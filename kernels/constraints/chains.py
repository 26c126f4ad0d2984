"""Rows of constraint Jacobians along the chains of dofs that move one or two bodies, in energy coordinates.

With H = Lᵀ D L, a row J of a constraint Jacobian becomes B = D^(-1/2) L^(-T) Jᵀ, so that J v = Bᵀ z for
z = D^(1/2) L v and the Delassus matrix is BᵀB. B is non-zero only for the dofs between the world and the
touched body: the cost of a row is proportional to the depth of its body and not to the size of the robot
(sparsity: Featherstone, RBDA, 2008, section 6.5). If both bodies of a constraint belong to the same tree,
their common ancestors form a common prefix of both chains, and the entries of the second chain are added to
those of the first.

`B[c]` holds the chains of both sides one after the other, the second from entry `depth` on; `leaf` is the
last dof of each side, or -1. An entry is a number, or a vector for three rows that share their chains.

Stage: any that handles constraint rows, assembly, solve, backward pass
Called by: kernels/constraints/adjoint/, kernels/constraints/, kernels/constraints/solve/,
    kernels/maximal/articulated_bodies.py, kernels/tendons/rows.py
Reads: B, KinematicsView, L, TreeView, dof_body, dof_row, mass, row_dof, z
Writes: B, z
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import (
    lane_row_axpyi,
    lane_row_axpyi3,
    lane_row_doti,
    lane_row_doti3,
    point_velocities,
    row_doti,
    row_doti3,
    row_solve,
)
from newtonsim.kernels.algebra.teams import Team, alone, lanes, sum_lanes, sum_triples
from newtonsim.kernels.views.model import KinematicsView, TreeView

LEAST_MASS = wp.constant(1.0e-12)  # [kg]


@wp.func
def leaf_of(tree: wp.ref[TreeView], b: int) -> int:
    """Last dof that moves body b, or -1."""
    leaf = int(-1)
    if b >= 0:
        leaf = tree.body_leaf[b]
    return leaf


@wp.func
def is_single(tree: wp.ref[TreeView], d: int) -> bool:
    """True if dof d moves a body without a parent or children."""
    t = tree.body_tree[tree.dof_body[d]]
    return tree.joint_start[t + 1] - tree.joint_start[t] == 1


@wp.func
def head_of(
    leaf: int, dof_row: wp.array(dtype=int), row_dof: wp.array(dtype=int), dof_body: wp.array(dtype=int)
) -> int:
    """Body that the first dof of a chain moves, or -1; arrays of a `TreeView`."""
    head = int(-1)
    if leaf >= 0:
        head = dof_body[row_dof[dof_row[leaf]]]
    return head


@wp.func
def weight_of_heads(head0: int, head1: int, mass: wp.array(dtype=float)) -> float:
    """Sum of the inverse masses behind the heads of two chains, see `inverse_weight` [1/kg]."""
    total = float(0.0)
    if head0 >= 0:
        total = 1.0 / wp.max(mass[head0], LEAST_MASS)
    if head1 >= 0 and head1 != head0:
        total = total + 1.0 / wp.max(mass[head1], LEAST_MASS)
    return total


@wp.func
def inverse_weight(tree: wp.ref[TreeView], leaf: wp.vec2i, mass: wp.array(dtype=float)) -> float:
    """Sum, over both sides, of the inverse of the mass that the first dof of the chain moves [1/kg].

    A side that no dof moves adds nothing, and two sides with the same first dof add it once. A floating tree
    has at most this effective mass in any direction.

    Args:
        tree: Topology.
        leaf: Last dof of each side, or -1.
        mass: Mass of the subtree behind each body [kg].
    """
    head0 = head_of(leaf[0], tree.dof_row, tree.row_dof, tree.dof_body)
    head1 = head_of(leaf[1], tree.dof_row, tree.row_dof, tree.dof_body)
    return weight_of_heads(head0, head1, mass)


@wp.func
def fill_chain(
    tree: wp.ref[TreeView],
    kin: wp.ref[KinematicsView],
    c: int,
    leaf: int,
    offset: int,
    wrench: wp.spatial_vector,
    B: wp.array2d(dtype=float),
):
    """Jacobian entries of one side: power of a unit impulse in each dof of the chain."""
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        B[c, offset + k] = wp.dot(kin.S[tree.row_dof[row + k]], wrench)


@wp.func
def fill_velocity(
    tree: wp.ref[TreeView],
    kin: wp.ref[KinematicsView],
    c: int,
    leaf: int,
    offset: int,
    frame: wp.mat33,
    arm: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
):
    """Entries of one side: velocity of the point at `arm` from the tree's origin, in the frame's axes."""
    row = tree.dof_row[leaf]
    point_velocities(tree.dof_depth[leaf] + 1, kin.S, tree.row_dof, row, frame, arm, B, c, offset)


@wp.func
def fill_turning(
    tree: wp.ref[TreeView],
    kin: wp.ref[KinematicsView],
    c: int,
    leaf: int,
    offset: int,
    frame: wp.mat33,
    B: wp.array2d(dtype=wp.vec3),
):
    """Entries of one side: angular velocity, in the axes of the frame."""
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        B[c, offset + k] = frame * wp.spatial_top(kin.S[tree.row_dof[row + k]])


@wp.func
def whiten_chain(
    tree: TreeView,
    L: wp.array(dtype=float),
    c: int,
    leaf: int,
    offset: int,
    shared: int,
    B: wp.array2d(dtype=Any),
):
    """Half solve D^(-1/2) L^(-T) of one side, down to the first `shared` dofs."""
    n = tree.dof_depth[leaf] + 1
    row_solve(n, shared, L, tree.dof_row, tree.row_dof, tree.dof_row[leaf], B, c, offset)


@wp.func
def shared_prefix(tree: wp.ref[TreeView], leaf0: int, leaf1: int) -> int:
    """Number of dofs that move both sides."""
    n = int(0)
    if leaf0 >= 0 and leaf1 >= 0:
        row0 = tree.dof_row[leaf0]
        row1 = tree.dof_row[leaf1]
        if tree.row_dof[row0] == tree.row_dof[row1]:
            for k in range(wp.min(tree.dof_depth[leaf0], tree.dof_depth[leaf1]) + 1):
                if tree.row_dof[row0 + k] == tree.row_dof[row1 + k]:
                    n = k + 1
    return n


@wp.func
def merge_prefix(c: int, shared: int, depth: int, B: wp.array2d(dtype=Any)):
    """Move the second side's entries of common ancestors into the chain of the first side."""
    for k in range(shared):
        B[c, k] = B[c, k] + B[c, depth + k]
        B[c, depth + k] = 0.0 * B[c, depth + k]


@wp.func
def whiten_sides(
    tree: TreeView, L: wp.array(dtype=float), c: int, leaf: wp.vec2i, depth: int, B: wp.array2d(dtype=Any)
):
    """Transform the Jacobians of both sides to energy coordinates."""
    shared = shared_prefix(tree, leaf[0], leaf[1])
    if leaf[1] >= 0:
        whiten_chain(tree, L, c, leaf[1], depth, shared, B)
        merge_prefix(c, shared, depth, B)
    if leaf[0] >= 0:
        whiten_chain(tree, L, c, leaf[0], 0, 0, B)


@wp.func
def team_row_velocity(
    team: Team,
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    B: wp.array2d(dtype=float),
    z: wp.array(dtype=float),
) -> float:
    """J v of one row; each lane of the team handles its own entries of the chains.

    A dof has the same place in all chains, so that the same lane always reads and writes its z.
    """
    v = float(0.0)
    n = lanes(team)
    if leaf[0] >= 0:
        row0 = tree.dof_row[leaf[0]]
        v += lane_row_doti(team.lane, n, tree.dof_depth[leaf[0]] + 1, B, c, 0, tree.row_dof, row0, z)
    if leaf[1] >= 0:
        row1 = tree.dof_row[leaf[1]]
        v += lane_row_doti(team.lane, n, tree.dof_depth[leaf[1]] + 1, B, c, depth, tree.row_dof, row1, z)
    return sum_lanes(team, v)


@wp.func
def team_triple_velocity(
    team: Team,
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    B: wp.array2d(dtype=wp.vec3),
    z: wp.array(dtype=float),
) -> wp.vec3:
    """J v of three rows, see `team_row_velocity`."""
    v = wp.vec3(0.0, 0.0, 0.0)
    n = lanes(team)
    if leaf[0] >= 0:
        row0 = tree.dof_row[leaf[0]]
        v += lane_row_doti3(team.lane, n, tree.dof_depth[leaf[0]] + 1, B, c, 0, tree.row_dof, row0, z)
    if leaf[1] >= 0:
        row1 = tree.dof_row[leaf[1]]
        v += lane_row_doti3(team.lane, n, tree.dof_depth[leaf[1]] + 1, B, c, depth, tree.row_dof, row1, z)
    return sum_triples(team, v)


@wp.func
def team_push_row(
    team: Team,
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    impulse: float,
    B: wp.array2d(dtype=float),
    z: wp.array(dtype=float),
):
    """z += B impulse, see `team_row_velocity`."""
    n = lanes(team)
    if leaf[0] >= 0:
        row0 = tree.dof_row[leaf[0]]
        lane_row_axpyi(team.lane, n, tree.dof_depth[leaf[0]] + 1, impulse, B, c, 0, tree.row_dof, row0, z)
    if leaf[1] >= 0:
        row1 = tree.dof_row[leaf[1]]
        lane_row_axpyi(team.lane, n, tree.dof_depth[leaf[1]] + 1, impulse, B, c, depth, tree.row_dof, row1, z)


@wp.func
def team_push_triple(
    team: Team,
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    impulse: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
    z: wp.array(dtype=float),
):
    """z += B impulse, of three rows, see `team_row_velocity`."""
    n = lanes(team)
    if leaf[0] >= 0:
        row0 = tree.dof_row[leaf[0]]
        lane_row_axpyi3(team.lane, n, tree.dof_depth[leaf[0]] + 1, impulse, B, c, 0, tree.row_dof, row0, z)
    if leaf[1] >= 0:
        row1 = tree.dof_row[leaf[1]]
        lane_row_axpyi3(
            team.lane, n, tree.dof_depth[leaf[1]] + 1, impulse, B, c, depth, tree.row_dof, row1, z
        )


@wp.func
def row_velocity(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    B: wp.array2d(dtype=float),
    z: wp.array(dtype=float),
) -> float:
    """`team_row_velocity` by one thread."""
    v = float(0.0)
    if leaf[0] >= 0:
        v += row_doti(tree.dof_depth[leaf[0]] + 1, B, c, 0, tree.row_dof, tree.dof_row[leaf[0]], z)
    if leaf[1] >= 0:
        v += row_doti(tree.dof_depth[leaf[1]] + 1, B, c, depth, tree.row_dof, tree.dof_row[leaf[1]], z)
    return v


@wp.func
def triple_velocity(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    B: wp.array2d(dtype=wp.vec3),
    z: wp.array(dtype=float),
) -> wp.vec3:
    """`team_triple_velocity` by one thread."""
    v = wp.vec3(0.0, 0.0, 0.0)
    if leaf[0] >= 0:
        v += row_doti3(tree.dof_depth[leaf[0]] + 1, B, c, 0, tree.row_dof, tree.dof_row[leaf[0]], z)
    if leaf[1] >= 0:
        v += row_doti3(tree.dof_depth[leaf[1]] + 1, B, c, depth, tree.row_dof, tree.dof_row[leaf[1]], z)
    return v


@wp.func
def push_row(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    impulse: float,
    B: wp.array2d(dtype=float),
    z: wp.array(dtype=float),
):
    """`team_push_row` by one thread."""
    team_push_row(alone(0), tree, leaf, c, depth, impulse, B, z)


@wp.func
def push_triple(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    c: int,
    depth: int,
    impulse: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
    z: wp.array(dtype=float),
):
    """`team_push_triple` by one thread."""
    team_push_triple(alone(0), tree, leaf, c, depth, impulse, B, z)

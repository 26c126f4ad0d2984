"""The Hessian of Newton's method as a sparse symmetric matrix with one block per tree.

Stage: constraints, solve
Called by: kernels/constraints/adjoint/system.py, kernels/constraints/solve/apart.py,
    kernels/constraints/solve/newton.py, kernels/constraints/solve/solve.py
Reads: BlockSystemView, IslandView, RowsView, SolveViews, TreeView
Writes: BlockSystemView, SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import (
    BlockSystemView,
    add_row,
    add_triple,
    begin_system,
    couple,
    lay_out,
    set_identity,
)
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sync
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import (
    contact_law,
    dof_law,
    dof_leaf,
    has_spin,
    pair_law,
    slope_matrix,
    spin_law,
)
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# regularisation of contacts, over their weight, where bodies move apart
APART = wp.constant(1.0e-3)


@wp.func(inline=False)
def lay_out_rows(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    sys: wp.ref[BlockSystemView],
) -> float:
    """Lay out the matrix for all rows of an island; see `lay_out`."""
    cost = float(0.0)
    if team.lane == 0:
        trees = islands.trees[k]
        begin_system(sys, w, islands.tree, trees[0], trees[1])
        if trees[1] > trees[0] + 1:
            pairs = islands.pairs[k]
            for i in range(pairs[0], pairs[1]):
                couple(tree, sys, w, rows.pair.leaf[islands.pair[i]])
            touches = islands.contacts[k]
            for i in range(touches[0], touches[1]):
                couple(tree, sys, w, rows.contact.leaf[islands.contact[i]])
        cost = lay_out(sys, w)
    return max_lanes(team, cost)


@wp.func
def push_of(rows: wp.ref[RowsView], c: int) -> float:
    """Speed at which contact c removes a penetration, in addition to its target [m/s]."""
    push = float(0.0)
    if rows.contact.impact[c][1] == rows.contact.impact[c][2]:
        push = rows.contact.push[c]
    return push


@wp.func
def parts_slowly(rows: wp.ref[RowsView], c: int, v: wp.vec3) -> bool:
    """True if contact c presses, or separates more slowly than its penetration should be removed."""
    presses = rows.contact.impulse[c][0] > 0.0
    push = push_of(rows, c)
    return presses or (push > 0.0 and v[0] - rows.contact.target[c][0] < push)


@wp.func(inline=False)
def assemble(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    apart: bool,
):
    """Set the matrix to the Hessian.

    If bodies should move `apart`, contacts that press or separate too slowly are hard.
    """
    set_identity(team, views.sys, team.index)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = views.islands.dof_row[i]
        law = dof_law(views.rows, views.laws, r, views.newton.dof_v[r][0])
        views.laws.dof_branch[r] = law.branch
        if law.slope > 0.0:
            add_row(
                team.lane,
                lanes(team),
                tree,
                views.sys,
                team.index,
                dof_leaf(views.rows, r),
                depth,
                r,
                law.slope,
                views.rows.dof.B,
            )
    pairs = views.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = views.islands.pair[i]
        law = pair_law(views.rows, views.laws, p, views.newton.pair_v[p][0])
        views.laws.pair_branch[p] = law.branch
        if law.slope > 0.0:
            add_row(
                team.lane,
                lanes(team),
                tree,
                views.sys,
                team.index,
                views.rows.pair.leaf[p],
                depth,
                p,
                law.slope,
                views.rows.pair.B,
            )
    touches = views.islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = views.islands.contact[i]
        triple = contact_law(views.rows, views.laws, c, views.laws.contact_v[c], pyramidal)
        G = slope_matrix(triple.slope)
        if apart and parts_slowly(views.rows, c, views.laws.contact_v[c]):
            G[0, 0] = 1.0 / (APART * views.rows.contact.weight[c][0] + views.rows.contact.softness[c])
        views.laws.contact_branch[c] = triple.branch
        views.laws.contact_slope[c] = G[0, 0]
        if G[0, 0] + G[1, 1] + G[2, 2] > 0.0:
            add_triple(
                team.lane,
                lanes(team),
                tree,
                views.sys,
                team.index,
                views.rows.contact.leaf[c],
                depth,
                c,
                G,
                views.rows.contact.B,
            )
        if has_spin(views.rows, c):
            turn = spin_law(views.rows, views.laws, c, views.newton.spin_v[c], pyramidal)
            S = slope_matrix(turn.slope)
            views.laws.spin_branch[c] = turn.branch
            if S[0, 0] + S[1, 1] + S[2, 2] > 0.0:
                add_triple(
                    team.lane,
                    lanes(team),
                    tree,
                    views.sys,
                    team.index,
                    views.rows.contact.leaf[c],
                    depth,
                    c,
                    S,
                    views.rows.spin.B,
                )
        i += 1
    sync(team)

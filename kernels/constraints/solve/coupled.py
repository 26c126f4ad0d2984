"""Newton's step of a small island, with friction that follows the normal impulses.

The bound of a contact's friction is its normal impulse times the coefficient. The derivative of the impulses
therefore has additional entries for each sliding contact, which make it unsymmetric. With them, a few steps
suffice where the symmetric matrix, whose bounds are frozen, needs many (Alart, Curnier, "A mixed formulation
for frictional contact problems prone to Newton like solution methods", 1991). Such a matrix

    1 + B G Bᵀ

is dense: that of one robot, or of a robot and what it touches. Its inverse is explicit, see `dense_inverse`.

Stage: constraints, solve
Called by: kernels/constraints/solve/newton.py, kernels/constraints/solve/solve.py
Reads: SolveViews, TreeView
Writes: SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.dense_inverse import (
    add_row,
    add_triples,
    row_length,
    row_times,
    set_identity,
)
from newtonsim.kernels.algebra.teams import Team, lanes, sum_lanes, sync
from newtonsim.kernels.constraints.laws import (
    contact_law,
    coupled_slope,
    dof_law,
    dof_leaf,
    has_spin,
    pair_law,
    slope_matrix,
    spin_by_contact,
    spin_law,
)
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most unknowns of a dense matrix, for one tree and for several
MOST_UNKNOWNS = wp.constant(96)
MOST_SHARED = wp.constant(48)


@wp.func(inline=False)
def number_unknowns(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    articulated: bool,
):
    """Number the dofs of an island if its matrix is to be dense; else `unknowns` is 0.

    Args:
        team: The team.
        views: What the solve works on; receives the result.
        k: The island.
        articulated: Whether one of its trees has more than one joint.
    """
    trees = views.islands.trees[k]
    start = views.newton.dense.start[team.index]
    count = int(0)
    for e in range(trees[0], trees[1]):
        t = views.islands.tree[e]
        count += views.islands.dof_start[t + 1] - views.islands.dof_start[t]
    room = views.newton.dense.entry_start[team.index + 1] - views.newton.dense.entry_start[team.index]
    most = int(MOST_UNKNOWNS)
    if trees[1] > trees[0] + 1:
        most = MOST_SHARED
    if not articulated or count > most or count * row_length(count) > room:
        count = 0
    if team.lane == 0:
        views.newton.dense.unknowns[team.index] = count
    if count > 0:
        # leaves first: what they couple to is little until their ancestors are eliminated
        last = int(count - 1)
        for e in range(trees[0], trees[1]):
            t = views.islands.tree[e]
            begin = views.islands.dof_start[t]
            dofs = views.islands.dof_start[t + 1] - begin
            for i in range(team.lane, dofs, lanes(team)):
                d = views.islands.dof[begin + i]
                views.newton.dense.unknown[d] = last - i
                views.newton.dense.dof[start + last - i] = d
            last -= dofs


@wp.func(inline=False)
def find_slopes(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    pyramidal: bool,
    follow: bool,
):
    """Slopes of all laws at the current velocities, with those of bounds that `follow` normal impulses."""
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        law = dof_law(views.rows, views.laws, r, views.newton.dof_v[r][0])
        views.laws.dof_branch[r] = law.branch
        views.newton.dof_slope[r] = law.slope
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        law = pair_law(views.rows, views.laws, p, views.newton.pair_v[p][0])
        views.laws.pair_branch[p] = law.branch
        views.newton.pair_slope[p] = law.slope
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        triple = contact_law(views.rows, views.laws, c, views.laws.contact_v[c], pyramidal)
        views.laws.contact_branch[c] = triple.branch
        G = slope_matrix(triple.slope)
        if follow:
            G = coupled_slope(views.rows, views.laws, c, triple)
        views.newton.contact_slope[c] = G
        if has_spin(views.rows, c):
            turn = spin_law(views.rows, views.laws, c, views.newton.spin_v[c], pyramidal)
            views.laws.spin_branch[c] = turn.branch
            views.newton.spin_slope[c] = slope_matrix(turn.slope)
            M = wp.mat33()
            if follow:
                M = spin_by_contact(views.rows, views.laws, c, turn, triple.slope[0])
            views.newton.spin_by_contact[c] = M


@wp.func
def is_zero(G: wp.mat33) -> bool:
    """True if no row of a contact yields; the slopes of friction on its own are on the diagonal."""
    return G[0, 0] + G[1, 1] + G[2, 2] == 0.0


@wp.func(inline=False)
def assemble_densely(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
):
    """Set the dense matrix to 1 + B G Bᵀ with the slopes of `find_slopes`."""
    count = views.newton.dense.unknowns[team.index]
    lane = team.lane
    set_identity(lane, lanes(team), views.newton.dense, team.index, count)
    sync(team)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = views.islands.dof_row[i]
        slope = views.newton.dof_slope[r]
        if slope > 0.0:
            add_row(
                lane,
                lanes(team),
                tree,
                views.newton.dense,
                team.index,
                count,
                dof_leaf(views.rows, r),
                depth,
                r,
                slope,
                views.rows.dof.B,
            )
    pairs = views.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = views.islands.pair[i]
        steep = views.newton.pair_slope[p]
        if steep > 0.0:
            leaf = views.rows.pair.leaf[p]
            add_row(
                lane,
                lanes(team),
                tree,
                views.newton.dense,
                team.index,
                count,
                leaf,
                depth,
                p,
                steep,
                views.rows.pair.B,
            )
    touches = views.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = views.islands.contact[i]
        ends = views.rows.contact.leaf[c]
        G = views.newton.contact_slope[c]
        B = views.rows.contact.B
        if not is_zero(G):
            add_triples(
                lane, lanes(team), tree, views.newton.dense, team.index, count, ends, depth, c, G, B, B
            )
        if has_spin(views.rows, c):
            S = views.newton.spin_slope[c]
            if not is_zero(S):
                add_triples(
                    lane,
                    lanes(team),
                    tree,
                    views.newton.dense,
                    team.index,
                    count,
                    ends,
                    depth,
                    c,
                    S,
                    views.rows.spin.B,
                    views.rows.spin.B,
                )
            M = views.newton.spin_by_contact[c]
            if M[0, 0] != 0.0 or M[1, 0] != 0.0 or M[2, 0] != 0.0:
                add_triples(
                    lane,
                    lanes(team),
                    tree,
                    views.newton.dense,
                    team.index,
                    count,
                    ends,
                    depth,
                    c,
                    M,
                    views.rows.spin.B,
                    B,
                )
    sync(team)


@wp.func(inline=False)
def take_dense_direction(
    team: Team,
    views: wp.ref[SolveViews],
) -> wp.vec3:
    """`method.take_direction` by the inverse of a dense matrix."""
    count = views.newton.dense.unknowns[team.index]
    start = views.newton.dense.start[team.index]
    slope = float(0.0)
    square = float(0.0)
    whole = float(0.0)
    for i in range(team.lane, count, lanes(team)):
        d = views.newton.dense.dof[start + i]
        x = -row_times(views.newton.dense, team.index, count, i, views.newton.gap)
        views.newton.step[d] = x
        slope += views.newton.gap[d] * x
        square += x * x
        whole += views.newton.y[d] * views.newton.y[d]
    return wp.vec3(sum_lanes(team, slope), sum_lanes(team, square), sum_lanes(team, whole))

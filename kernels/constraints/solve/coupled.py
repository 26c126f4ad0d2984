"""Newton's step of a small island, with friction that follows the normal impulses.

The bound of a contact's friction is its normal impulse times the coefficient. The derivative of the impulses
therefore has additional entries for each sliding contact, which make it unsymmetric. With them, a few steps
suffice where the symmetric matrix, whose bounds are frozen, needs many (Alart, Curnier, "A mixed formulation
for frictional contact problems prone to Newton like solution methods", 1991). Such a matrix

    1 + B G Bᵀ

is dense: that of one robot, or of a robot and what it touches. Its inverse is explicit, see `dense_inverse`.

Stage: constraints, solve
Called by: kernels/constraints/solve/newton.py, kernels/constraints/solve/solve.py
Reads: IslandView, LawView, NewtonView, RowsView, TreeView
Writes: LawView, NewtonView
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
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import (
    LawView,
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
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.velocities import NewtonView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most unknowns of a dense matrix, for one tree and for several
MOST_UNKNOWNS = wp.constant(96)
MOST_SHARED = wp.constant(48)


@wp.func(inline=False)
def number_unknowns(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    articulated: bool,
    n: wp.ref[NewtonView],
):
    """Number the dofs of an island if its matrix is to be dense; else `unknowns` is 0.

    Args:
        team: The team.
        islands: Islands.
        k: The island.
        w: Its world.
        articulated: Whether one of its trees has more than one joint.
        n: Receives the numbers.
    """
    trees = islands.trees[k]
    start = n.dense.start[w]
    count = int(0)
    for e in range(trees[0], trees[1]):
        t = islands.tree[e]
        count += islands.dof_start[t + 1] - islands.dof_start[t]
    room = n.dense.entry_start[w + 1] - n.dense.entry_start[w]
    most = int(MOST_UNKNOWNS)
    if trees[1] > trees[0] + 1:
        most = MOST_SHARED
    if not articulated or count > most or count * row_length(count) > room:
        count = 0
    if team.lane == 0:
        n.dense.unknowns[w] = count
    if count > 0:
        # leaves first: what they couple to is little until their ancestors are eliminated
        last = int(count - 1)
        for e in range(trees[0], trees[1]):
            t = islands.tree[e]
            begin = islands.dof_start[t]
            dofs = islands.dof_start[t + 1] - begin
            for i in range(team.lane, dofs, lanes(team)):
                d = islands.dof[begin + i]
                n.dense.unknown[d] = last - i
                n.dense.dof[start + last - i] = d
            last -= dofs


@wp.func(inline=False)
def find_slopes(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    follow: bool,
    n: wp.ref[NewtonView],
):
    """Slopes of all laws at the current velocities, with those of bounds that `follow` normal impulses."""
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        law = dof_law(rows, laws, r, n.dof_v[r][0])
        laws.dof_branch[r] = law.branch
        n.dof_slope[r] = law.slope
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        law = pair_law(rows, laws, p, n.pair_v[p][0])
        laws.pair_branch[p] = law.branch
        n.pair_slope[p] = law.slope
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        triple = contact_law(rows, laws, c, laws.contact_v[c], pyramidal)
        laws.contact_branch[c] = triple.branch
        G = slope_matrix(triple.slope)
        if follow:
            G = coupled_slope(rows, laws, c, triple)
        n.contact_slope[c] = G
        if has_spin(rows, c):
            turn = spin_law(rows, laws, c, n.spin_v[c], pyramidal)
            laws.spin_branch[c] = turn.branch
            n.spin_slope[c] = slope_matrix(turn.slope)
            M = wp.mat33()
            if follow:
                M = spin_by_contact(rows, laws, c, turn, triple.slope[0])
            n.spin_by_contact[c] = M


@wp.func
def is_zero(G: wp.mat33) -> bool:
    """True if no row of a contact yields; the slopes of friction on its own are on the diagonal."""
    return G[0, 0] + G[1, 1] + G[2, 2] == 0.0


@wp.func(inline=False)
def assemble_densely(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    n: wp.ref[NewtonView],
):
    """Set the dense matrix to 1 + B G Bᵀ with the slopes of `find_slopes`."""
    count = n.dense.unknowns[w]
    lane = team.lane
    set_identity(lane, lanes(team), n.dense, w, count)
    sync(team)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        slope = n.dof_slope[r]
        if slope > 0.0:
            add_row(
                lane, lanes(team), tree, n.dense, w, count, dof_leaf(rows, r), depth, r, slope, rows.dof.B
            )
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        steep = n.pair_slope[p]
        if steep > 0.0:
            leaf = rows.pair.leaf[p]
            add_row(lane, lanes(team), tree, n.dense, w, count, leaf, depth, p, steep, rows.pair.B)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        ends = rows.contact.leaf[c]
        G = n.contact_slope[c]
        B = rows.contact.B
        if not is_zero(G):
            add_triples(lane, lanes(team), tree, n.dense, w, count, ends, depth, c, G, B, B)
        if has_spin(rows, c):
            S = n.spin_slope[c]
            if not is_zero(S):
                add_triples(
                    lane, lanes(team), tree, n.dense, w, count, ends, depth, c, S, rows.spin.B, rows.spin.B
                )
            M = n.spin_by_contact[c]
            if M[0, 0] != 0.0 or M[1, 0] != 0.0 or M[2, 0] != 0.0:
                add_triples(lane, lanes(team), tree, n.dense, w, count, ends, depth, c, M, rows.spin.B, B)
    sync(team)


@wp.func(inline=False)
def take_dense_direction(team: Team, w: int, n: wp.ref[NewtonView]) -> wp.vec3:
    """`method.take_direction` by the inverse of a dense matrix."""
    count = n.dense.unknowns[w]
    start = n.dense.start[w]
    slope = float(0.0)
    square = float(0.0)
    whole = float(0.0)
    for i in range(team.lane, count, lanes(team)):
        d = n.dense.dof[start + i]
        x = -row_times(n.dense, w, count, i, n.gap)
        n.step[d] = x
        slope += n.gap[d] * x
        square += x * x
        whole += n.y[d] * n.y[d]
    return wp.vec3(sum_lanes(team, slope), sum_lanes(team, square), sum_lanes(team, whole))

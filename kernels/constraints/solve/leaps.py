"""Conjugate directions of the rounds of Newton's method, where constraints bear loads.

Unless bounds interfere, a round with the regularisation R solves (A + C + R) s = t - u for the changes s of
impulses, where A is the Delassus matrix, C the softness of the rows, and t - u what their velocities lack.
What is stiff moves at once. But where light links bear a heavy load, A moves the load by a millionth of what
it moves the links, single precision does not allow an R as small, and hundreds of rounds would be needed.
Therefore a round serves as the preconditioner of the method of conjugate gradients for (A + C) p = t - u.
Nearly all of its eigenvalues are one; each direction in which a load is heavy adds another, at the cost of a
round. Rounding errors do not add up, since what rows lack is measured at the velocities that the impulses
have caused.

Sources: Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952; Golub and
Ye, "Inexact preconditioned conjugate gradient method with inner-outer iteration", 1999 (directions that are
made conjugate explicitly, since the preconditioner changes).

Stage: constraints, solve
Called by: kernels/constraints/solve/solve.py
Reads: IslandView, LawView, NewtonView, RowsView
Writes: LawView, NewtonView, RowsView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes
from newtonsim.kernels.constraints.islands import IslandView, copy_island, tree_share
from newtonsim.kernels.constraints.laws import SOFT_SPIN, LawView, return_to_centres
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.velocities import NewtonView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func(inline=False)
def passed_by_pairs(
    team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int, laws: wp.ref[LawView]
) -> float:
    """Largest velocity error of rows between bodies due to the regularisation of a round [m/s or rad/s]."""
    most = float(0.0)
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        most = wp.max(most, laws.pair_R[p] * wp.abs(rows.pair.impulse[p] - laws.centre.pair[p]))
    return max_lanes(team, most)


@wp.func(inline=False)
def largest_response(team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int) -> float:
    """Largest velocity that one row would have by its own impulse alone [m/s or rad/s].

    Where impulses hold one another, rounding leaves an error of the velocities in proportion to it.
    """
    most = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        most = wp.max(most, rows.dof.delassus[r] * wp.abs(rows.dof.impulse[r]))
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        most = wp.max(most, rows.pair.delassus[p] * wp.abs(rows.pair.impulse[p]))
    return max_lanes(team, most)


@wp.func(inline=False)
def note_changes(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
) -> wp.vec2:
    """Note the changes s of a round; returns sᵀ (A + C) d and dᵀ (A + C) d.

    d is the last direction.
    """
    both = float(0.0)
    square = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        s = rows.dof.impulse[r] - laws.centre.dof[r]
        n.shift.dof[r] = s
        both += rows.dof.softness[r] * s * n.leap.dof[r]
        square += rows.dof.softness[r] * n.leap.dof[r] * n.leap.dof[r]
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        change = rows.pair.impulse[p] - laws.centre.pair[p]
        n.shift.pair[p] = change
        both += rows.pair.softness[p] * change * n.leap.pair[p]
        square += rows.pair.softness[p] * n.leap.pair[p] * n.leap.pair[p]
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        push = rows.contact.impulse[c] - laws.centre.contact[c]
        n.shift.contact[c] = push
        both += rows.contact.softness[c] * push[0] * n.leap.contact[c][0]
        square += rows.contact.softness[c] * n.leap.contact[c][0] * n.leap.contact[c][0]
        if rows.spins == 1:
            n.shift.spin[c] = rows.spin.impulse[c] - laws.centre.spin[c]
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            n.shift.z[d] = n.z[d] - n.centre[d]
            both += n.shift.z[d] * n.leap.z[d]
            square += n.leap.z[d] * n.leap.z[d]
    return wp.vec2(sum_lanes(team, both), sum_lanes(team, square))


@wp.func
def weigh_triple(R: wp.vec2, s: wp.vec3, d: wp.vec3) -> float:
    """sᵀ R d of three rows, of which the first has another regularisation than the others."""
    return R[0] * s[0] * d[0] + R[1] * (s[1] * d[1] + s[2] * d[2])


@wp.func
def turn_contact(
    rows: wp.ref[RowsView],
    laws: wp.ref[LawView],
    c: int,
    first: bool,
    keep: float,
    n: wp.ref[NewtonView],
) -> wp.vec2:
    """Next direction of the rows of a contact; returns sᵀ (R + C) d and dᵀ C d."""
    s = n.shift.contact[c]
    softness = rows.contact.softness[c]
    d = s
    if not first:
        d = s + keep * n.leap.contact[c]
    n.leap.contact[c] = d
    lacks = weigh_triple(laws.contact_R[c] + wp.vec2(softness, 0.0), s, d)
    if rows.spins == 1:
        turn = n.shift.spin[c]
        x = turn
        if not first:
            x = turn + keep * n.leap.spin[c]
        n.leap.spin[c] = x
        lacks += weigh_triple(SOFT_SPIN * rows.spin.delassus[c], turn, x)
    return wp.vec2(lacks, softness * d[0] * d[0])


@wp.func(inline=False)
def find_leap(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    first: bool,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
) -> float:
    """Find the next direction from the changes of a round, before the centres move; returns its length.

    `first` tells that there is no direction yet.
    """
    products = note_changes(team, rows, islands, k, laws, n)
    keep = float(0.0)
    if not first and products[1] > 0.0:
        keep = -products[0] / products[1]
    lacks = float(0.0)
    square = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        s = n.shift.dof[r]
        along = s + wp.where(first, 0.0, keep * n.leap.dof[r])
        n.leap.dof[r] = along
        lacks += (laws.dof_R[r] + rows.dof.softness[r]) * s * along
        square += rows.dof.softness[r] * along * along
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        change = n.shift.pair[p]
        turn = change + wp.where(first, 0.0, keep * n.leap.pair[p])
        n.leap.pair[p] = turn
        lacks += (laws.pair_R[p] + rows.pair.softness[p]) * change * turn
        square += rows.pair.softness[p] * turn * turn
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        parts = turn_contact(rows, laws, islands.contact[i], first, keep, n)
        lacks += parts[0]
        square += parts[1]
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            x = n.shift.z[d] + wp.where(first, 0.0, keep * n.leap.z[d])
            n.leap.z[d] = x
            lacks += n.shift.z[d] * x
            square += x * x
    lacks = sum_lanes(team, lacks)
    square = sum_lanes(team, square)
    length = float(1.0)
    if square > 0.0:
        length = lacks / square
    return length


@wp.func
def exceeds(impulse: float, lower: float, upper: float) -> float:
    """1 for an impulse beyond its bounds."""
    return float(int(impulse < lower or impulse > upper))


@wp.func(inline=False)
def leap_is_bounded(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    length: float,
    n: wp.ref[NewtonView],
) -> bool:
    """Note what a leap along the direction adds to a round; True if impulses stay within their bounds.

    Those of friction are left to the next round, as the normal impulses move.
    """
    beyond = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        n.shift.dof[r] = length * n.leap.dof[r] - n.shift.dof[r]
        x = rows.dof.impulse[r] + n.shift.dof[r]
        beyond = wp.max(beyond, exceeds(x, rows.dof.lower[r], rows.dof.upper[r]))
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        n.shift.pair[p] = length * n.leap.pair[p] - n.shift.pair[p]
        y = rows.pair.impulse[p] + n.shift.pair[p]
        beyond = wp.max(beyond, exceeds(y, rows.pair.lower[p], rows.pair.upper[p]))
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        n.shift.contact[c] = length * n.leap.contact[c] - n.shift.contact[c]
        if rows.spins == 1:
            n.shift.spin[c] = length * n.leap.spin[c] - n.shift.spin[c]
        push = rows.contact.impulse[c][0] + n.shift.contact[c][0]
        beyond = wp.max(beyond, float(int(push < 0.0 or rows.contact.slip_width[c] > 0.0)))
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            n.shift.z[d] = length * n.leap.z[d] - n.shift.z[d]
    return max_lanes(team, beyond) == 0.0


@wp.func(inline=False)
def shift_centres(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    spins: int,
    sign: float,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
):
    """Add what a leap adds to the centres, or take it back."""
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        laws.centre.dof[r] = laws.centre.dof[r] + sign * n.shift.dof[r]
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        laws.centre.pair[p] = laws.centre.pair[p] + sign * n.shift.pair[p]
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        laws.centre.contact[c] = laws.centre.contact[c] + sign * n.shift.contact[c]
        if spins == 1:
            laws.centre.spin[c] = laws.centre.spin[c] + sign * n.shift.spin[c]
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            n.centre[d] = n.centre[d] + sign * n.shift.z[d]


@wp.func(inline=False)
def take_leap(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    length: float,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
) -> bool:
    """Move centres, impulses and velocities along the direction that `find_leap` found.

    Returns False, and moves nothing, where an impulse would exceed a bound: the direction is of no use then.
    """
    bounded = leap_is_bounded(team, rows, islands, k, length, n)
    if bounded:
        shift_centres(team, islands, k, rows.spins, 1.0, laws, n)
        return_to_centres(team, rows, islands, k, laws)
        copy_island(team, islands, k, n.centre, n.z)
        copy_island(team, islands, k, n.centre, n.y)
    return bounded

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
Reads: LawView, NewtonView, RowsView, SolveViews
Writes: NewtonView, SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes
from newtonsim.kernels.constraints.islands import copy_island, tree_share
from newtonsim.kernels.constraints.laws import SOFT_SPIN, LawView, return_to_centres
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.views import NewtonView, SolveViews

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func(inline=False)
def passed_by_pairs(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Largest velocity error of rows between bodies due to the regularisation of a round [m/s or rad/s]."""
    most = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        most = wp.max(
            most, views.laws.pair_R[p] * wp.abs(views.rows.pair.impulse[p] - views.laws.centre.pair[p])
        )
    return max_lanes(team, most)


@wp.func(inline=False)
def largest_response(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Largest velocity that one row would have by its own impulse alone [m/s or rad/s].

    Where impulses hold one another, rounding leaves an error of the velocities in proportion to it.
    """
    most = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        most = wp.max(most, views.rows.dof.delassus[r] * wp.abs(views.rows.dof.impulse[r]))
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        most = wp.max(most, views.rows.pair.delassus[p] * wp.abs(views.rows.pair.impulse[p]))
    return max_lanes(team, most)


@wp.func(inline=False)
def note_changes(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> wp.vec2:
    """Note the changes s of a round; returns sᵀ (A + C) d and dᵀ (A + C) d.

    d is the last direction.
    """
    both = float(0.0)
    square = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        s = views.rows.dof.impulse[r] - views.laws.centre.dof[r]
        views.newton.shift.dof[r] = s
        both += views.rows.dof.softness[r] * s * views.newton.leap.dof[r]
        square += views.rows.dof.softness[r] * views.newton.leap.dof[r] * views.newton.leap.dof[r]
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        change = views.rows.pair.impulse[p] - views.laws.centre.pair[p]
        views.newton.shift.pair[p] = change
        both += views.rows.pair.softness[p] * change * views.newton.leap.pair[p]
        square += views.rows.pair.softness[p] * views.newton.leap.pair[p] * views.newton.leap.pair[p]
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        push = views.rows.contact.impulse[c] - views.laws.centre.contact[c]
        views.newton.shift.contact[c] = push
        both += views.rows.contact.softness[c] * push[0] * views.newton.leap.contact[c][0]
        square += (
            views.rows.contact.softness[c] * views.newton.leap.contact[c][0] * views.newton.leap.contact[c][0]
        )
        if views.rows.spins == 1:
            views.newton.shift.spin[c] = views.rows.spin.impulse[c] - views.laws.centre.spin[c]
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.shift.z[d] = views.newton.z[d] - views.newton.centre[d]
            both += views.newton.shift.z[d] * views.newton.leap.z[d]
            square += views.newton.leap.z[d] * views.newton.leap.z[d]
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
    views: wp.ref[SolveViews],
    k: int,
    first: bool,
) -> float:
    """Find the next direction from the changes of a round, before the centres move; returns its length.

    `first` tells that there is no direction yet.
    """
    products = note_changes(team, views, k)
    keep = float(0.0)
    if not first and products[1] > 0.0:
        keep = -products[0] / products[1]
    lacks = float(0.0)
    square = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        s = views.newton.shift.dof[r]
        along = s + wp.where(first, 0.0, keep * views.newton.leap.dof[r])
        views.newton.leap.dof[r] = along
        lacks += (views.laws.dof_R[r] + views.rows.dof.softness[r]) * s * along
        square += views.rows.dof.softness[r] * along * along
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        change = views.newton.shift.pair[p]
        turn = change + wp.where(first, 0.0, keep * views.newton.leap.pair[p])
        views.newton.leap.pair[p] = turn
        lacks += (views.laws.pair_R[p] + views.rows.pair.softness[p]) * change * turn
        square += views.rows.pair.softness[p] * turn * turn
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        parts = turn_contact(views.rows, views.laws, views.islands.contact[i], first, keep, views.newton)
        lacks += parts[0]
        square += parts[1]
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            x = views.newton.shift.z[d] + wp.where(first, 0.0, keep * views.newton.leap.z[d])
            views.newton.leap.z[d] = x
            lacks += views.newton.shift.z[d] * x
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
    views: wp.ref[SolveViews],
    k: int,
    length: float,
) -> bool:
    """Note what a leap along the direction adds to a round; True if impulses stay within their bounds.

    Those of friction are left to the next round, as the normal impulses move.
    """
    beyond = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        views.newton.shift.dof[r] = length * views.newton.leap.dof[r] - views.newton.shift.dof[r]
        x = views.rows.dof.impulse[r] + views.newton.shift.dof[r]
        beyond = wp.max(beyond, exceeds(x, views.rows.dof.lower[r], views.rows.dof.upper[r]))
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        views.newton.shift.pair[p] = length * views.newton.leap.pair[p] - views.newton.shift.pair[p]
        y = views.rows.pair.impulse[p] + views.newton.shift.pair[p]
        beyond = wp.max(beyond, exceeds(y, views.rows.pair.lower[p], views.rows.pair.upper[p]))
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        views.newton.shift.contact[c] = length * views.newton.leap.contact[c] - views.newton.shift.contact[c]
        if views.rows.spins == 1:
            views.newton.shift.spin[c] = length * views.newton.leap.spin[c] - views.newton.shift.spin[c]
        push = views.rows.contact.impulse[c][0] + views.newton.shift.contact[c][0]
        beyond = wp.max(beyond, float(int(push < 0.0 or views.rows.contact.slip_width[c] > 0.0)))
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.shift.z[d] = length * views.newton.leap.z[d] - views.newton.shift.z[d]
    return max_lanes(team, beyond) == 0.0


@wp.func(inline=False)
def shift_centres(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    spins: int,
    sign: float,
):
    """Add what a leap adds to the centres, or take it back."""
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        views.laws.centre.dof[r] = views.laws.centre.dof[r] + sign * views.newton.shift.dof[r]
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        views.laws.centre.pair[p] = views.laws.centre.pair[p] + sign * views.newton.shift.pair[p]
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        views.laws.centre.contact[c] = views.laws.centre.contact[c] + sign * views.newton.shift.contact[c]
        if spins == 1:
            views.laws.centre.spin[c] = views.laws.centre.spin[c] + sign * views.newton.shift.spin[c]
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.centre[d] = views.newton.centre[d] + sign * views.newton.shift.z[d]


@wp.func(inline=False)
def take_leap(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    length: float,
) -> bool:
    """Move centres, impulses and velocities along the direction that `find_leap` found.

    Returns False, and moves nothing, where an impulse would exceed a bound: the direction is of no use then.
    """
    bounded = leap_is_bounded(team, views, k, length)
    if bounded:
        shift_centres(team, views, k, views.rows.spins, 1.0)
        return_to_centres(team, views.rows, views.islands, k, views.laws)
        copy_island(team, views.islands, k, views.newton.centre, views.newton.z)
        copy_island(team, views.islands, k, views.newton.centre, views.newton.y)
    return bounded

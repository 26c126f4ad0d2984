"""Length of a step of Newton's method.

Stage: constraints, solve
Called by: kernels/constraints/solve/newton.py
Reads: SolveViews
Writes: SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sum_lanes
from newtonsim.kernels.constraints.laws import (
    contact_law,
    coupled_slope,
    dof_law,
    has_spin,
    pair_law,
    slope_along,
    spin_by_contact,
    spin_law,
)
from newtonsim.kernels.constraints.solve.velocities import follow_bound
from newtonsim.kernels.constraints.solve.views import SolveViews

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# slope that ends a line search, over that at its start; most evaluations of the slope; and the longest step
# while bounds follow, along which the slope may never vanish
FLAT = wp.constant(1.0e-2)
SEARCHES = wp.constant(20)
LONGEST = wp.constant(2.0)


@wp.func(inline=False)
def total_slope(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    alpha: float,
    pyramidal: bool,
    follow: bool,
) -> wp.vec2:
    """Contributions of the rows to slope and curvature along the step, minus the slope at its start.

    The bounds of friction `follow` the normal impulses along the step, or stay.
    """
    slope = float(0.0)
    curvature = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        v = views.newton.dof_v[r]
        law = dof_law(views.rows, views.laws, r, v[0] + alpha * v[1])
        slope -= (law.impulse - views.rows.dof.impulse[r]) * v[1]
        curvature += law.slope * v[1] * v[1]
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        u = views.newton.pair_v[p]
        law = pair_law(views.rows, views.laws, p, u[0] + alpha * u[1])
        slope -= (law.impulse - views.rows.pair.impulse[p]) * u[1]
        curvature += law.slope * u[1] * u[1]
    touches = views.islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = views.islands.contact[i]
        d = views.newton.contact_dv[c]
        x = views.laws.contact_v[c] + alpha * d
        if follow:
            follow_bound(views.rows, views.laws, c, x)
        triple = contact_law(views.rows, views.laws, c, x, pyramidal)
        slope -= wp.dot(triple.impulse - views.rows.contact.impulse[c], d)
        curvature += slope_along(triple.slope, d)
        if follow:
            G = coupled_slope(views.rows, views.laws, c, triple)
            curvature += d[0] * (G[1, 0] * d[1] + G[2, 0] * d[2])
        if has_spin(views.rows, c):
            e = views.newton.spin_dv[c]
            turn = spin_law(views.rows, views.laws, c, views.newton.spin_v[c] + alpha * e, pyramidal)
            slope -= wp.dot(turn.impulse - views.rows.spin.impulse[c], e)
            curvature += slope_along(turn.slope, e)
            if follow:
                M = spin_by_contact(views.rows, views.laws, c, turn, triple.slope[0])
                curvature += d[0] * (M[0, 0] * e[0] + M[1, 0] * e[1] + M[2, 0] * e[2])
        i += lanes(team)
    return wp.vec2(sum_lanes(team, slope), sum_lanes(team, curvature))


@wp.func(inline=False)
def search(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    start: float,
    square: float,
    pyramidal: bool,
    follow: bool,
) -> float:
    """Length of the step at which the slope along it vanishes, by safeguarded Newton steps.

    Args:
        team: The team.
        views: What the solve works on; receives the result.
        k: The island.
        start: Slope at its start, negative.
        square: Square of the step.
        pyramidal: Whether friction is bounded by pyramids.
        follow: Whether the bounds of friction follow the normal impulses; they stay where the search ends.
    """
    low = float(0.0)
    high = float(-1.0)
    alpha = float(1.0)
    for _k in range(SEARCHES):
        more = total_slope(team, views, k, alpha, pyramidal, follow)
        slope = start + alpha * square + more[0]
        if wp.abs(slope) <= -FLAT * start or (follow and alpha >= LONGEST and slope < 0.0):
            break
        if slope < 0.0:
            low = alpha
        else:
            high = alpha
        next = alpha - slope / (square + more[1])
        if high >= 0.0 and (next <= low or next >= high):
            next = 0.5 * (low + high)
        elif next <= low:
            next = 2.0 * alpha
        alpha = next
        if follow:
            alpha = wp.min(alpha, LONGEST)
    return alpha

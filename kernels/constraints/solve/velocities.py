"""Velocities of constraint rows in Newton's method, and the impulses that obey their laws.

Stage: constraints, solve
Called by: kernels/constraints/solve/line_search.py, kernels/constraints/solve/newton.py,
    kernels/constraints/solve/solve.py
Reads: IslandView, LawView, NewtonView, RowsView, SolveViews, TreeView, x
Writes: LawView, NewtonView, SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.chains import (
    row_velocity,
    team_push_row,
    team_push_triple,
    triple_velocity,
)
from newtonsim.kernels.constraints.contact_rows import weighed_bound
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import (
    LawView,
    contact_law,
    dof_law,
    dof_leaf,
    has_spin,
    pair_law,
    spin_law,
    unbounded_friction,
)
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.views import NewtonView, SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


# length of a step that leaves the velocities of the rows as they are
KEPT = wp.constant(-1.0)


@wp.func(inline=False)
def follow_bound(rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, v: wp.vec3):
    """Set the friction bounds of a contact to those of its normal impulse at the velocity v."""
    R = laws.contact_R[c][0]
    left = rows.contact.target[c][0] - v[0]
    push = wp.max(0.0, (R * laws.centre.contact[c][0] + left) / (R + rows.contact.softness[c]))
    bound = rows.contact.friction[c] * push
    stretch = rows.contact.stretch[c]
    if stretch[0] != stretch[1]:
        bound = weighed_bound(unbounded_friction(rows, laws, c, v), bound, stretch)
    laws.contact_bound[c] = bound
    if has_spin(rows, c):
        laws.spin_bound[c] = push * wp.vec2(rows.spin.torsion[c], rows.spin.rolling[c])


@wp.func
def push_changes(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    n: wp.ref[NewtonView],
):
    """z += B times the changes of all impulses, which are stored in place of those of velocities."""
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        if n.dof_v[r][1] != 0.0:
            team_push_row(team, tree, dof_leaf(rows, r), r, depth, n.dof_v[r][1], rows.dof.B, n.z)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        if n.pair_v[p][1] != 0.0:
            team_push_row(team, tree, rows.pair.leaf[p], p, depth, n.pair_v[p][1], rows.pair.B, n.z)
    touches = islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = islands.contact[i]
        change = n.contact_dv[c]
        if wp.length_sq(change) > 0.0:
            team_push_triple(team, tree, rows.contact.leaf[c], c, depth, change, rows.contact.B, n.z)
        if has_spin(rows, c):
            team_push_triple(team, tree, rows.contact.leaf[c], c, depth, n.spin_dv[c], rows.spin.B, n.z)
        i += 1


@wp.func(inline=False)
def apply_laws(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    follow: bool,
    alpha: float,
) -> wp.vec2i:
    """Give every row the impulse of its law at the velocities y; z follows.

    The velocities of the rows are recomputed if `alpha` is 0, and stay if it is KEPT; otherwise they advance
    along the last step by this length. Returns the number of rows on other branches of their laws than in the
    matrix, and that of contacts whose friction is limited by its bound.
    """
    switched = int(0)
    sliding = int(0)
    ahead = wp.max(alpha, 0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        v = float(views.newton.dof_v[r][0] + ahead * views.newton.dof_v[r][1])
        if alpha == 0.0:
            v = row_velocity(tree, dof_leaf(views.rows, r), r, depth, views.rows.dof.B, views.newton.y)
        law = dof_law(views.rows, views.laws, r, v)
        views.newton.dof_v[r] = wp.vec2(v, law.impulse - views.rows.dof.impulse[r])
        views.rows.dof.impulse[r] = law.impulse
        switched += int(law.branch != views.laws.dof_branch[r])
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        u = float(views.newton.pair_v[p][0] + ahead * views.newton.pair_v[p][1])
        if alpha == 0.0:
            u = row_velocity(tree, views.rows.pair.leaf[p], p, depth, views.rows.pair.B, views.newton.y)
        law = pair_law(views.rows, views.laws, p, u)
        views.newton.pair_v[p] = wp.vec2(u, law.impulse - views.rows.pair.impulse[p])
        views.rows.pair.impulse[p] = law.impulse
        switched += int(law.branch != views.laws.pair_branch[p])
    touches = views.islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = views.islands.contact[i]
        x = views.laws.contact_v[c] + ahead * views.newton.contact_dv[c]
        if alpha == 0.0:
            x = triple_velocity(
                tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, views.newton.y
            )
        views.laws.contact_v[c] = x
        if follow:
            follow_bound(views.rows, views.laws, c, x)
        triple = contact_law(views.rows, views.laws, c, x, pyramidal)
        switched += int(triple.branch != views.laws.contact_branch[c])
        limited = triple.branch & 1 == 1 and triple.branch < 7
        sliding += int(limited or views.rows.contact.slip_width[c] > 0.0)
        views.newton.contact_dv[c] = triple.impulse - views.rows.contact.impulse[c]
        views.rows.contact.impulse[c] = triple.impulse
        if has_spin(views.rows, c):
            s = views.newton.spin_v[c] + ahead * views.newton.spin_dv[c]
            if alpha == 0.0:
                s = triple_velocity(
                    tree, views.rows.contact.leaf[c], c, depth, views.rows.spin.B, views.newton.y
                )
            views.newton.spin_v[c] = s
            turn = spin_law(views.rows, views.laws, c, s, pyramidal)
            switched += int(turn.branch != views.laws.spin_branch[c])
            views.newton.spin_dv[c] = turn.impulse - views.rows.spin.impulse[c]
            views.rows.spin.impulse[c] = turn.impulse
        i += lanes(team)
    sync(team)
    push_changes(team, tree, views.rows, views.islands, k, depth, views.newton)
    return wp.vec2i(int(sum_lanes(team, float(switched))), int(sum_lanes(team, float(sliding))))


@wp.func(inline=False)
def fastest_row(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    x: wp.array(dtype=float),
) -> float:
    """Largest velocity of a row for x."""
    most = float(0.0)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        most = wp.max(
            most, wp.abs(row_velocity(tree, dof_leaf(views.rows, r), r, depth, views.rows.dof.B, x))
        )
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        most = wp.max(
            most, wp.abs(row_velocity(tree, views.rows.pair.leaf[p], p, depth, views.rows.pair.B, x))
        )
    touches = views.islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = views.islands.contact[i]
        v = triple_velocity(tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, x)
        most = wp.max(most, wp.max(wp.abs(v)))
        if has_spin(views.rows, c):
            s = triple_velocity(tree, views.rows.contact.leaf[c], c, depth, views.rows.spin.B, x)
            most = wp.max(most, wp.max(wp.abs(s)))
        i += lanes(team)
    return max_lanes(team, most)


@wp.func(inline=False)
def project_step(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
):
    """Velocities of all rows by the step."""
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        v = row_velocity(tree, dof_leaf(views.rows, r), r, depth, views.rows.dof.B, views.newton.step)
        views.newton.dof_v[r] = wp.vec2(views.newton.dof_v[r][0], v)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        u = row_velocity(tree, views.rows.pair.leaf[p], p, depth, views.rows.pair.B, views.newton.step)
        views.newton.pair_v[p] = wp.vec2(views.newton.pair_v[p][0], u)
    touches = views.islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = views.islands.contact[i]
        views.newton.contact_dv[c] = triple_velocity(
            tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, views.newton.step
        )
        if has_spin(views.rows, c):
            views.newton.spin_dv[c] = triple_velocity(
                tree, views.rows.contact.leaf[c], c, depth, views.rows.spin.B, views.newton.step
            )
        i += lanes(team)

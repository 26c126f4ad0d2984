"""Velocities of constraint rows in Newton's method, and the impulses that obey their laws.

Stage: constraints, solve
Called by: kernels/constraints/solve/line_search.py, kernels/constraints/solve/newton.py,
    kernels/constraints/solve/solve.py
Reads: IslandView, LawView, NewtonView, RowsView, TreeView, x
Writes: LawView, NewtonView, RowsView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.dense_inverse import DenseView
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
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# steps that Broyden's correction uses
MOST_KEPT = wp.constant(6)


@wp.struct
class NewtonView:
    """Workspace: D dofs, T trees, R rows on dofs, P rows between bodies, C contacts."""

    z: wp.array(dtype=float)  # (D) velocities that the impulses cause, energy coordinates; that of the solve
    y: wp.array(dtype=float)  # (D) velocities of the iteration, energy coordinates
    centre: wp.array(dtype=float)  # (D) velocities that the impulses at the centres of the laws cause
    gap: wp.array(dtype=float)  # (D) y minus the velocities that its impulses cause
    step: wp.array(dtype=float)  # (D)
    steps: wp.array(dtype=float)  # (MOST_KEPT D) steps with the current factor, one after the other
    leap: ImpulseView  # direction of rows on dofs, of rows between bodies, and of z, see `leaps`
    shift: ImpulseView  # changes of the same in a round, then those that a leap adds to them
    dense: DenseView  # matrix of a small island
    tree_reach: wp.array(dtype=float)  # (T) square root of the largest Delassus number of the rows of a tree
    dof_v: wp.array(dtype=wp.vec2)  # (R) velocity, and its change in the step, or that of the impulse
    pair_v: wp.array(dtype=wp.vec2)  # (P)
    contact_dv: wp.array(dtype=wp.vec3)  # (C) change of a contact's velocity in the step, or of its impulse
    spin_v: wp.array(dtype=wp.vec3)  # (C)
    spin_dv: wp.array(dtype=wp.vec3)  # (C)
    dof_slope: wp.array(dtype=float)  # (R) negative slopes of the laws in a dense matrix
    pair_slope: wp.array(dtype=float)  # (P)
    contact_slope: wp.array(dtype=wp.mat33)  # (C) impulses by velocities; unsymmetric
    spin_slope: wp.array(dtype=wp.mat33)  # (C)
    spin_by_contact: wp.array(dtype=wp.mat33)  # (C) impulses of spin rows by velocities of contact rows


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
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    follow: bool,
    alpha: float,
    n: wp.ref[NewtonView],
) -> wp.vec2i:
    """Give every row the impulse of its law at the velocities y; z follows.

    The velocities of the rows are recomputed if `alpha` is 0; otherwise they advance along the last step by
    this length. Returns the number of rows on other branches of their laws than in the matrix, and that of
    contacts whose friction is limited by its bound.
    """
    switched = int(0)
    sliding = int(0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        v = float(n.dof_v[r][0] + alpha * n.dof_v[r][1])
        if alpha == 0.0:
            v = row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, n.y)
        law = dof_law(rows, laws, r, v)
        n.dof_v[r] = wp.vec2(v, law.impulse - rows.dof.impulse[r])
        rows.dof.impulse[r] = law.impulse
        switched += int(law.branch != laws.dof_branch[r])
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        u = float(n.pair_v[p][0] + alpha * n.pair_v[p][1])
        if alpha == 0.0:
            u = row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, n.y)
        law = pair_law(rows, laws, p, u)
        n.pair_v[p] = wp.vec2(u, law.impulse - rows.pair.impulse[p])
        rows.pair.impulse[p] = law.impulse
        switched += int(law.branch != laws.pair_branch[p])
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        x = laws.contact_v[c] + alpha * n.contact_dv[c]
        if alpha == 0.0:
            x = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, n.y)
        laws.contact_v[c] = x
        if follow:
            follow_bound(rows, laws, c, x)
        triple = contact_law(rows, laws, c, x, pyramidal)
        switched += int(triple.branch != laws.contact_branch[c])
        limited = triple.branch & 1 == 1 and triple.branch < 7
        sliding += int(limited or rows.contact.slip_width[c] > 0.0)
        n.contact_dv[c] = triple.impulse - rows.contact.impulse[c]
        rows.contact.impulse[c] = triple.impulse
        if has_spin(rows, c):
            s = n.spin_v[c] + alpha * n.spin_dv[c]
            if alpha == 0.0:
                s = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, n.y)
            n.spin_v[c] = s
            turn = spin_law(rows, laws, c, s, pyramidal)
            switched += int(turn.branch != laws.spin_branch[c])
            n.spin_dv[c] = turn.impulse - rows.spin.impulse[c]
            rows.spin.impulse[c] = turn.impulse
        i += lanes(team)
    sync(team)
    push_changes(team, tree, rows, islands, k, depth, n)
    return wp.vec2i(int(sum_lanes(team, float(switched))), int(sum_lanes(team, float(sliding))))


@wp.func(inline=False)
def fastest_row(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    x: wp.array(dtype=float),
) -> float:
    """Largest velocity of a row for x."""
    most = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        most = wp.max(most, wp.abs(row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, x)))
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        most = wp.max(most, wp.abs(row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, x)))
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, x)
        most = wp.max(most, wp.max(wp.abs(v)))
        if has_spin(rows, c):
            s = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, x)
            most = wp.max(most, wp.max(wp.abs(s)))
        i += lanes(team)
    return max_lanes(team, most)


@wp.func(inline=False)
def project_step(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    n: wp.ref[NewtonView],
):
    """Velocities of all rows by the step."""
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        v = row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, n.step)
        n.dof_v[r] = wp.vec2(n.dof_v[r][0], v)
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        u = row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, n.step)
        n.pair_v[p] = wp.vec2(n.pair_v[p][0], u)
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        n.contact_dv[c] = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, n.step)
        if has_spin(rows, c):
            n.spin_dv[c] = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, n.step)
        i += lanes(team)

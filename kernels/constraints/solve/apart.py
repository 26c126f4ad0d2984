"""Velocities that remove penetrations of single bodies, in addition to the solution of the rows.

Impulses that push single bodies apart move them, but add no velocity (as in Catto, "Solver2D", 2024, and the
split impulses of Bullet). Where Newton's method solved the rows, the linear response of these yields them, at
the cost of one factorization; where sweeps did, some more sweeps find them.

Stage: constraints, after the solve of an island
Called by: kernels/constraints/adjoint/outcome.py, kernels/constraints/solve/solve.py
Reads: SolveViews, TreeView, z
Writes: SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_cholesky import factorize, solve
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sync
from newtonsim.kernels.constraints.chains import team_push_triple, triple_velocity
from newtonsim.kernels.constraints.contact_rows import SLOW_PUSH
from newtonsim.kernels.constraints.dof_rows import ACTED, NOTHING_ACTED, PUSHED
from newtonsim.kernels.constraints.islands import copy_impulses, copy_island, tree_share
from newtonsim.kernels.constraints.laws import (
    WEDGED,
    contact_law,
    is_wedged,
    return_to_centres,
    set_centres,
    slope_matrix,
)
from newtonsim.kernels.constraints.solve.matrix import assemble, parts_slowly, push_of
from newtonsim.kernels.constraints.solve.sweeps import sweep_island
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.constraints.solve.wedges import note_wedged_push
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least share of its impulse that a contact keeps where bodies move apart
STILL_PRESSES = wp.constant(1.0e-3)
# most sweeps to find how penetrations are removed
APART_SWEEPS = wp.constant(10)
# contacts contradict each other where the largest push [m/s], and the change of a velocity in the last sweep
# over this push and over the change halfway, are above these; they are then softened by this share of their
# weight
DEEP_PUSH = wp.constant(0.05)
CONTRADICTED = wp.constant(0.3)
NO_PROGRESS = wp.constant(0.9)
SOFT_APART = wp.constant(0.5)
# share of the impulse of a wedged contact with which the next step starts
EASED = wp.constant(0.5)


@wp.func
def acts(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
) -> int:
    """ACTED if a row of the island has an impulse, PUSHED if a contact removes a penetration besides."""
    state = int(NOTHING_ACTED)
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        if views.rows.dof.impulse[views.islands.dof_row[i]] != 0.0:
            state = wp.max(state, ACTED)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        if views.rows.pair.impulse[views.islands.pair[i]] != 0.0:
            state = wp.max(state, ACTED)
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        if views.rows.contact.impulse[c][0] != 0.0:
            state = wp.max(state, ACTED)
        if state != PUSHED and push_of(views.rows, c) > 0.0:
            v = triple_velocity(
                tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, views.newton.z
            )
            if parts_slowly(views.rows, c, v):
                state = PUSHED
    return int(max_lanes(team, float(state)))


@wp.func(inline=False)
def keep_impulses(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    z: wp.array(dtype=float),
):
    """Set the solution that moves the positions to the current one."""
    copy_island(team, views.islands, k, z, views.moving.z)
    copy_impulses(team, views.islands, k, views.rows.spins, views.rows.impulse, views.moving)


@wp.func(inline=False)
def swap_impulses(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
):
    """Swap the impulses of the rows and those that move the positions."""
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        one = views.rows.dof.impulse[r]
        views.rows.dof.impulse[r] = views.moving.dof[r]
        views.moving.dof[r] = one
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        other = views.rows.pair.impulse[p]
        views.rows.pair.impulse[p] = views.moving.pair[p]
        views.moving.pair[p] = other
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        force = views.rows.contact.impulse[c]
        views.rows.contact.impulse[c] = views.moving.contact[c]
        views.moving.contact[c] = force
        if views.rows.spins == 1:
            torque = views.rows.spin.impulse[c]
            views.rows.spin.impulse[c] = views.moving.spin[c]
            views.moving.spin[c] = torque


@wp.func
def add_pushes(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    sign: float,
) -> float:
    """Add the removal of penetrations to targets of an island's contacts (sign 1), or take it off (-1).

    Returns the largest [m/s].
    """
    largest = float(0.0)
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        target = views.rows.contact.target[c]
        views.rows.contact.target[c] = wp.vec3(
            target[0] + sign * views.rows.contact.push[c], target[1], target[2]
        )
        largest = wp.max(largest, views.rows.contact.push[c])
    return max_lanes(team, largest)


@wp.func(inline=False)
def sweep_apart(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    tolerance: float,
):
    """Find the velocities that remove penetrations by sweeps that start from the solution without them.

    Contacts on opposite sides of a wedged body would push it to and fro, and their impulses grow; they are
    softened then, which leaves the body in the middle.
    """
    keep_impulses(team, views, k, views.newton.z)
    set_centres(team, views.rows, views.islands, k, views.laws)
    pushes = add_pushes(team, views, k, 1.0)
    share = float(0.0)
    halfway = float(0.0)
    sweeps = int(0)
    while sweeps < APART_SWEEPS:
        change = sweep_island(team, tree, views, k, depth, pyramidal, share, views.moving.z)
        sweeps += 1
        if 2 * sweeps == APART_SWEEPS:
            halfway = change
        contradicted = change > wp.max(CONTRADICTED * pushes, NO_PROGRESS * halfway) and pushes > DEEP_PUSH
        if change <= tolerance:
            sweeps = int(APART_SWEEPS)
        elif sweeps == APART_SWEEPS and contradicted and share == 0.0:
            note_wedged_push(team, views, k, pushes)
            return_to_centres(team, views.rows, views.islands, k, views.laws)
            copy_island(team, views.islands, k, views.newton.z, views.moving.z)
            share = float(SOFT_APART)
            sweeps = 0
    add_pushes(team, views, k, -1.0)
    swap_impulses(team, views, k)


@wp.func(inline=False)
def add_response(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
):
    """Add what the velocities that move bodies apart change to the impulses of contacts in `moving`."""
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        G = slope_matrix(contact_law(views.rows, views.laws, c, views.laws.contact_v[c], pyramidal).slope)
        G[0, 0] = views.laws.contact_slope[c]
        v = triple_velocity(
            tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, views.newton.step
        )
        p = views.rows.contact.impulse[c]
        moved = p + G * (wp.vec3(push_of(views.rows, c), 0.0, 0.0) - v)
        # contacts that press stay pressed, see `solve_apart`
        views.moving.contact[c] = wp.vec3(wp.max(moved[0], STILL_PRESSES * p[0]), moved[1], moved[2])


@wp.func(inline=False)
def solve_apart(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    keep: bool,
):
    """Find the velocities that remove penetrations as a linear response of the solution.

    Contacts that press keep pressing, and contacts that stick keep sticking. A contact that does not press,
    but should be pushed apart, counts as pressing. Impulses of `moving` are stored only on request.
    """
    assemble(team, tree, views, k, depth, pyramidal, True)
    factorize(team, views.sys, team.index)
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            views.newton.gap[views.islands.dof[i]] = 0.0
    sync(team)
    touches = views.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = views.islands.contact[i]
        wanted = views.laws.contact_slope[c] * push_of(views.rows, c)
        if wanted > 0.0:
            impulse = wp.vec3(wanted, 0.0, 0.0)
            team_push_triple(
                team,
                tree,
                views.rows.contact.leaf[c],
                c,
                depth,
                impulse,
                views.rows.contact.B,
                views.newton.gap,
            )
    sync(team)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            views.sys.x[i] = views.newton.gap[views.islands.dof[i]]
    sync(team)
    solve(team, views.sys, team.index)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.step[d] = views.sys.x[i]
            views.moving.z[d] = views.newton.z[d] + views.sys.x[i]
    if keep:
        keep_impulses(team, views, k, views.moving.z)
        add_response(team, tree, views, k, depth, pyramidal)


@wp.func(inline=False)
def choose_starts(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    swept: bool,
):
    """Choose the impulses of contacts with which the next step starts: usually those of the solution.

    Wedged bodies, which sweeps could not push apart, start with larger impulses, so that friction holds them.
    Contacts that hardly yield start with smaller ones, which would otherwise grow without limit.
    """
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        p = views.rows.contact.impulse[c]
        share = float(1.0)
        more = float(0.0)
        push = views.rows.contact.push[c]
        if swept and push > SLOW_PUSH:
            u = triple_velocity(
                tree, views.rows.contact.leaf[c], c, depth, views.rows.contact.B, views.moving.z
            )
            lacks = views.rows.contact.target[c][0] + push - u[0]
            if lacks > WEDGED * push:
                more = EASED * wp.max(0.0, views.moving.contact[c][0] - p[0])
            if is_wedged(views.rows, c, push, lacks, p[0]):
                share = EASED
        views.start[c] = share * (p + wp.vec3(more, 0.0, 0.0))


@wp.func
def move_singles(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
):
    """Move single bodies apart, and articulated bodies with their velocities."""
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        single = tree.joint_start[t + 1] - tree.joint_start[t] == 1
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.z_moving[d] = views.newton.z[d]
            if single:
                views.z_moving[d] = views.moving.z[d]

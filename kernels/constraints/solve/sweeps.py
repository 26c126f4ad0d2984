"""Sweeps over the rows of an island, and their starting impulses; sweeps over rows between bodies alone.

Stage: constraints, solve
Called by: kernels/constraints/adjoint/outcome.py, kernels/constraints/solve/apart.py,
    kernels/constraints/solve/pushes.py, kernels/constraints/solve/solve.py
Reads: SolveViews, TreeView, z
Writes: SolveViews, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sum_lanes, sync
from newtonsim.kernels.constraints.chains import team_push_row, team_push_triple
from newtonsim.kernels.constraints.islands import copy_island, tree_share
from newtonsim.kernels.constraints.laws import has_spin, set_centres
from newtonsim.kernels.constraints.solve.gauss_seidel import (
    larger,
    push_dof,
    relax_contact,
    relax_dof,
    relax_pair,
    relax_spin,
)
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def apply_impulses(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    sign: float,
):
    """z += sign B p for all rows of an island."""
    pairs = views.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = views.islands.pair[i]
        team_push_row(
            team,
            tree,
            views.rows.pair.leaf[p],
            p,
            depth,
            sign * views.rows.pair.impulse[p],
            views.rows.pair.B,
            views.newton.z,
        )
    dofs = views.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = views.islands.dof_row[i]
        push_dof(team, tree, views.rows.dof, r, sign * views.rows.dof.impulse[r], views.newton.z)
    touches = views.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = views.islands.contact[i]
        team_push_triple(
            team,
            tree,
            views.rows.contact.leaf[c],
            c,
            depth,
            sign * views.rows.contact.impulse[c],
            views.rows.contact.B,
            views.newton.z,
        )
        if views.rows.spins == 1:
            if wp.length_sq(views.rows.spin.impulse[c]) > 0.0:
                team_push_triple(
                    team,
                    tree,
                    views.rows.contact.leaf[c],
                    c,
                    depth,
                    sign * views.rows.spin.impulse[c],
                    views.rows.spin.B,
                    views.newton.z,
                )


@wp.func(inline=False)
def work_of(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Work of the impulses of an island at their target velocities [J]."""
    work = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        impulse = views.rows.pair.impulse[p]
        work += wp.max(impulse, 0.0) * views.rows.pair.target_lower[p]
        work += wp.min(impulse, 0.0) * views.rows.pair.target_upper[p]
        work -= 0.5 * views.rows.pair.softness[p] * impulse * impulse
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        push = views.rows.dof.impulse[r]
        work += wp.max(push, 0.0) * views.rows.dof.target_lower[r]
        work += wp.min(push, 0.0) * views.rows.dof.target_upper[r]
        work -= 0.5 * views.rows.dof.softness[r] * push * push
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        work += wp.dot(views.rows.contact.impulse[c], views.rows.contact.target[c])
        work -= (
            0.5
            * views.rows.contact.softness[c]
            * views.rows.contact.impulse[c][0]
            * views.rows.contact.impulse[c][0]
        )
        if has_spin(views.rows, c):
            work += wp.dot(views.rows.spin.impulse[c], views.rows.spin.target[c])
    return sum_lanes(team, work)


@wp.func
def island_energy(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    z: wp.array(dtype=float),
) -> float:
    """Kinetic energy of an island [J]."""
    total = float(0.0)
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            total += z[views.islands.dof[i]] * z[views.islands.dof[i]]
    return 0.5 * sum_lanes(team, total)


@wp.func(inline=False)
def drop_impulses(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
):
    """Set the impulses of all rows of an island to zero."""
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        views.rows.pair.impulse[views.islands.pair[i]] = 0.0
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        views.rows.dof.impulse[views.islands.dof_row[i]] = 0.0
    touches = views.islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = views.islands.contact[i]
        views.rows.contact.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
        if views.rows.spins == 1:
            views.rows.spin.impulse[c] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=False)
def start_anew(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> bool:
    """Discard the impulses of the last step if they are worse than none, even after a sweep.

    Impulses p that solve the rows minimise |z|² / 2 - pᵀt within their bounds. The energy is therefore at
    most that without impulses plus their work at the target velocities t. The impulses of a different step,
    such as before a load was removed, may lead to much more energy.
    """
    before = island_energy(team, views, k, views.z_moving)
    worse = island_energy(team, views, k, views.newton.z) > before + work_of(team, views, k)
    if worse:
        copy_island(team, views.islands, k, views.z_moving, views.newton.z)
        drop_impulses(team, views, k)
        set_centres(team, views.rows, views.islands, k, views.laws)
        sync(team)
    return worse


@wp.func(inline=False)
def sweep_island(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    share: float,
    z: wp.array(dtype=float),
) -> float:
    """Update every row of an island once; returns the largest velocity change.

    Contacts are softened about the centres by the `share` of their weight, see `solve.SOFT_SWEEPS`.
    """
    change = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        change = wp.max(change, relax_pair(team, tree, views.rows.pair, views.islands.pair[i], depth, z))
    dofs = views.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        change = wp.max(change, relax_dof(team, tree, views.rows.dof, views.islands.dof_row[i], z))
    touches = views.islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = views.islands.contact[i]
        moved = relax_contact(
            team, tree, views.rows.contact, c, depth, pyramidal, share, views.laws.centre.contact, z
        )
        change = larger(change, moved)
        if views.rows.spins == 1:
            change = wp.max(
                change, relax_spin(team, tree, views.rows.contact, views.rows.spin, c, depth, pyramidal, z)
            )
        i += 1
    sync(team)
    return change

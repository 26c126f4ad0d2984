"""Sweeps over the rows of an island, and their starting impulses; sweeps over rows between bodies alone.

Stage: constraints, solve
Called by: kernels/constraints/solve/apart.py, kernels/constraints/solve/pushes.py,
    kernels/constraints/solve/solve.py
Reads: IslandView, LawView, RowsView, TreeView, z, z_free
Writes: LawView, RowsView, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sum_lanes, sync
from newtonsim.kernels.constraints.chains import team_push_row, team_push_triple
from newtonsim.kernels.constraints.islands import IslandView, copy_island, tree_share
from newtonsim.kernels.constraints.laws import LawView, has_spin, set_centres
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.gauss_seidel import (
    larger,
    push_dof,
    relax_contact,
    relax_dof,
    relax_pair,
    relax_spin,
)
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def apply_impulses(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    sign: float,
    z: wp.array(dtype=float),
):
    """z += sign B p for all rows of an island."""
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        team_push_row(team, tree, rows.pair.leaf[p], p, depth, sign * rows.pair.impulse[p], rows.pair.B, z)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        push_dof(team, tree, rows.dof, r, sign * rows.dof.impulse[r], z)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        team_push_triple(
            team, tree, rows.contact.leaf[c], c, depth, sign * rows.contact.impulse[c], rows.contact.B, z
        )
        if rows.spins == 1:
            if wp.length_sq(rows.spin.impulse[c]) > 0.0:
                team_push_triple(
                    team, tree, rows.contact.leaf[c], c, depth, sign * rows.spin.impulse[c], rows.spin.B, z
                )


@wp.func(inline=False)
def work_of(team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int) -> float:
    """Work of the impulses of an island at their target velocities [J]."""
    work = float(0.0)
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        impulse = rows.pair.impulse[p]
        work += wp.max(impulse, 0.0) * rows.pair.target_lower[p]
        work += wp.min(impulse, 0.0) * rows.pair.target_upper[p]
        work -= 0.5 * rows.pair.softness[p] * impulse * impulse
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        push = rows.dof.impulse[r]
        work += wp.max(push, 0.0) * rows.dof.target_lower[r]
        work += wp.min(push, 0.0) * rows.dof.target_upper[r]
        work -= 0.5 * rows.dof.softness[r] * push * push
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        work += wp.dot(rows.contact.impulse[c], rows.contact.target[c])
        work -= 0.5 * rows.contact.softness[c] * rows.contact.impulse[c][0] * rows.contact.impulse[c][0]
        if has_spin(rows, c):
            work += wp.dot(rows.spin.impulse[c], rows.spin.target[c])
    return sum_lanes(team, work)


@wp.func
def island_energy(team: Team, islands: wp.ref[IslandView], k: int, z: wp.array(dtype=float)) -> float:
    """Kinetic energy of an island [J]."""
    total = float(0.0)
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            total += z[islands.dof[i]] * z[islands.dof[i]]
    return 0.5 * sum_lanes(team, total)


@wp.func(inline=False)
def drop_impulses(team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int):
    """Set the impulses of all rows of an island to zero."""
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        rows.pair.impulse[islands.pair[i]] = 0.0
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        rows.dof.impulse[islands.dof_row[i]] = 0.0
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        rows.contact.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
        if rows.spins == 1:
            rows.spin.impulse[c] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=False)
def start_anew(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    z_free: wp.array(dtype=float),
    laws: wp.ref[LawView],
    z: wp.array(dtype=float),
) -> bool:
    """Discard the impulses of the last step if they are worse than none, even after a sweep.

    Impulses p that solve the rows minimise |z|² / 2 - pᵀt within their bounds. The energy is therefore at
    most that without impulses plus their work at the target velocities t. The impulses of a different step,
    such as before a load was removed, may lead to much more energy.
    """
    before = island_energy(team, islands, k, z_free)
    worse = island_energy(team, islands, k, z) > before + work_of(team, rows, islands, k)
    if worse:
        copy_island(team, islands, k, z_free, z)
        drop_impulses(team, rows, islands, k)
        set_centres(team, rows, islands, k, laws)
        sync(team)
    return worse


@wp.func(inline=False)
def sweep_island(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    pyramidal: bool,
    share: float,
    laws: wp.ref[LawView],
    z: wp.array(dtype=float),
) -> float:
    """Update every row of an island once; returns the largest velocity change.

    Contacts are softened about the centres by the `share` of their weight, see `solve.SOFT_SWEEPS`.
    """
    change = float(0.0)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        change = wp.max(change, relax_pair(team, tree, rows.pair, islands.pair[i], depth, z))
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        change = wp.max(change, relax_dof(team, tree, rows.dof, islands.dof_row[i], z))
    touches = islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = islands.contact[i]
        moved = relax_contact(team, tree, rows.contact, c, depth, pyramidal, share, laws.centre.contact, z)
        change = larger(change, moved)
        if rows.spins == 1:
            change = wp.max(change, relax_spin(team, tree, rows.contact, rows.spin, c, depth, pyramidal, z))
        i += 1
    sync(team)
    return change

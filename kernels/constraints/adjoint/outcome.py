"""Impulses that a step found, which its backward pass takes over instead of finding them again.

This is for worlds whose rows the solve leaves as they were built: without rebounds, without a solution of
their own for the positions, and without rows between bodies, which it may soften.

Stage: all constraints, after the solve; backward pass of constraints, before it
Called by: solvers/featherstone/step.py
Reads: ContactView, OutcomeView, RowsView, Teams, TreeView, residual, world_state
Writes: OutcomeView, SolveViews, world_state
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, own_team, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.dof_rows import PUSHED
from newtonsim.kernels.constraints.islands import copy_island, find_islands
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.apart import keep_impulses
from newtonsim.kernels.constraints.solve.solve import UNSOLVED
from newtonsim.kernels.constraints.solve.sweeps import apply_impulses
from newtonsim.kernels.constraints.solve.views import SolveReport, SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class OutcomeView:
    """Result of the solve of worlds, where it can be taken over; elsewhere what the solve began with."""

    state: wp.array(dtype=int)  # (W) UNSOLVED where it cannot
    residual: wp.array(dtype=float)  # (W) [m/s or rad/s]
    dof: wp.array(dtype=float)  # (R) impulses
    contact: wp.array(dtype=wp.vec3)  # (C)
    spin: wp.array(dtype=wp.vec3)  # (C)


@wp.func
def rebounds(rows: RowsView, c: int) -> bool:
    """True if contact c rebounds in the step, at its end or within it."""
    impact = rows.contact.impact[c]
    return impact[2] > impact[1] or rows.contact.first_impact[c][0] > 0.0


@wp.kernel
def keep_outcome(
    first: int,
    rows: RowsView,
    contacts: ContactView,
    world_state: wp.array(dtype=int),
    residual: wp.array(dtype=float),
    outcome: OutcomeView,
):
    """One thread per world: replace what the solve began with by its result, where that is enough."""
    w = first + wp.tid()
    state = world_state[w]
    c0 = contacts.world_start[w]
    c1 = c0 + contacts.world_count[w]
    if state >= PUSHED or rows.pair.world_start[w + 1] > rows.pair.world_start[w]:
        state = UNSOLVED
    for c in range(c0, c1):
        if rebounds(rows, c):
            state = UNSOLVED
    outcome.state[w] = state
    if state == UNSOLVED:
        return
    outcome.residual[w] = residual[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        outcome.dof[r] = rows.dof.impulse[r]
    for c in range(c0, c1):
        outcome.contact[c] = rows.contact.impulse[c]
        if rows.spins == 1:
            outcome.spin[c] = rows.spin.impulse[c]


@wp.kernel
def resume_rows(
    teams: Teams,
    tree: wp.array(dtype=TreeView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    outcome: OutcomeView,
    views: wp.array(dtype=SolveViews),
    world_state: wp.array(dtype=int),
):
    """One team per world: what `solve.solve_rows` leaves, from impulses that are its result."""
    team = own_team(teams, wp.tid())
    w = team.index
    state = outcome.state[w]
    if team.lane == 0:
        world_state[w] = state
    if state == UNSOLVED:
        return
    if team.lane == 0:
        views[0].totals[w] = SolveReport()
        views[0].residual[w] = outcome.residual[w]
        find_islands(tree[0], views[0].rows, contacts[0], w, views[0].islands)
    sync(team)
    begin = views[0].islands.tree_start[w]
    for k in range(begin, begin + views[0].islands.count[w]):
        apply_impulses(team, tree[0], views[0], k, depth, 1.0)
        sync(team)
        copy_island(team, views[0].islands, k, views[0].newton.z, views[0].z_moving)
        keep_impulses(team, views[0], k, views[0].newton.z)

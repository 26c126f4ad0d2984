"""Sweeps over the constraint rows of all worlds, before Newton's method goes on in those that need it.

On a GPU, a launch ends with its slowest world, so that worlds solved by sweeps would wait for the few on
which Newton's method spends a hundred times as long. A kernel with the code of both would also use the
instruction cache poorly. A separate kernel therefore sweeps, and `solve.solve_rows` continues with the
unsolved islands.

Stage: constraints, first part of the solve on a GPU
Called by: solvers/featherstone/constraints.py
Reads: ContactView, SolveOptions, Teams, TreeView, WorldDofsView
Writes: SolveReport, SolveViews, world_state
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, own_team
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.rows import WorldDofsView
from newtonsim.kernels.constraints.solve.pushes import share_of_pushes
from newtonsim.kernels.constraints.solve.solve import (
    LAID_OUT_BEFORE,
    UNSOLVED,
    SolveOptions,
    add_report,
    begin_island,
    begin_world,
    end_island,
    gains_energy,
    has_rows,
    note_energy,
    state_at_start,
    write_report,
)
from newtonsim.kernels.constraints.solve.views import SolveReport, SolveViews
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def sweep_rows(
    teams: Teams,
    tree: wp.array(dtype=TreeView),
    dofs: wp.array(dtype=WorldDofsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    dt: float,
    restitution_speed: float,
    s: SolveOptions,
    resumed: int,
    reports: wp.array(dtype=SolveReport),
    views: wp.array(dtype=SolveViews),
    world_state: wp.array(dtype=int),
):
    """One team per world: as `solve.solve_rows`, except for the islands that sweeps do not solve."""
    team = own_team(teams, wp.tid())
    w = team.index
    if resumed == 1:
        if world_state[w] != UNSOLVED:
            return
    has_impact = begin_world(team, tree[0], dofs[0], views[0], contacts[0], depth, dt, restitution_speed)
    begin = views[0].islands.tree_start[w]
    end = begin + views[0].islands.count[w]
    state = state_at_start(has_impact)
    left = int(has_impact)
    if team.lane == 0:
        views[0].totals[w] = SolveReport()
    report = SolveReport()
    for k in range(begin, end):
        begin_island(team, tree[0], views[0], contacts[0], k, depth, s, report)
        if has_impact and has_rows(views[0].islands, k):
            note_energy(team, views[0], k)
            if report.hopeless == 0 and gains_energy(team, tree[0], views[0], k, True):
                report.hopeless = 2
        if report.hopeless == 0 and has_rows(views[0].islands, k):
            if share_of_pushes(team, views[0], k) < 1.0:
                report.hopeless = 2
        if report.hopeless > 0:
            left = 1
            if report.laid_out == 1:
                report.laid_out = LAID_OUT_BEFORE
        elif has_rows(views[0].islands, k):
            own = end_island(team, tree[0], views[0], k, depth, s, has_impact, False)
            state = wp.max(state, own)
            add_report(team, report, views[0])
        if team.lane == 0:
            reports[k] = report
    if team.lane == 0:
        total = views[0].totals[w]
        total.hopeless = left
        views[0].totals[w] = total
        world_state[w] = state
        if left == 0:
            write_report(w, views[0])

"""Sweeps over the constraint rows of all worlds, before Newton's method goes on in those that need it.

On a GPU, a launch ends with its slowest world, so that worlds solved by sweeps would wait for the few on
which Newton's method spends a hundred times as long. A kernel with the code of both would also use the
instruction cache poorly. A separate kernel therefore sweeps, and `solve.solve_rows` continues with the
unsolved islands.

Stage: constraints, first part of the solve on a GPU
Called by: solvers/featherstone/constraints.py
Reads: ContactView, SolveOptions, Teams, TreeView, WorldDofsView
Writes: BlockSystemView, ImpulseView, IslandView, LawView, NewtonView, RowsView, SolveReport, UnsolvedView,
    factorizations, iterations, passed, residual, start, world_state, z, z_moving
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.algebra.teams import Teams, own_team
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import LawView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView, UnsolvedView, WorldDofsView
from newtonsim.kernels.constraints.solve.pushes import share_of_pushes
from newtonsim.kernels.constraints.solve.solve import (
    LAID_OUT_BEFORE,
    SolveOptions,
    SolveReport,
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
from newtonsim.kernels.constraints.solve.velocities import NewtonView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def sweep_rows(
    teams: Teams,
    tree: wp.array(dtype=TreeView),
    dofs: wp.array(dtype=WorldDofsView),
    rows: wp.array(dtype=RowsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    dt: float,
    restitution_speed: float,
    s: SolveOptions,
    reports: wp.array(dtype=SolveReport),
    totals: wp.array(dtype=SolveReport),
    islands: wp.array(dtype=IslandView),
    laws: wp.array(dtype=LawView),
    newton: wp.array(dtype=NewtonView),
    sys: wp.array(dtype=BlockSystemView),
    moving: wp.array(dtype=ImpulseView),
    start: wp.array(dtype=wp.vec3),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    iterations: wp.array(dtype=int),
    factorizations: wp.array(dtype=int),
    residual: wp.array(dtype=float),
    passed: wp.array(dtype=float),
    unsolved: wp.array(dtype=UnsolvedView),
):
    """One team per world: as `solve.solve_rows`, except for the islands that sweeps do not solve."""
    team = own_team(teams, wp.tid())
    w = team.index
    has_impact = begin_world(
        team, tree[0], dofs[0], rows[0], contacts[0], depth, dt, restitution_speed, islands[0], moving[0], z
    )
    begin = islands[0].tree_start[w]
    end = begin + islands[0].count[w]
    state = state_at_start(has_impact)
    left = int(has_impact)
    if team.lane == 0:
        totals[w] = SolveReport()
    for k in range(begin, end):
        report = begin_island(
            team,
            tree[0],
            rows[0],
            contacts[0],
            islands[0],
            k,
            depth,
            s,
            laws[0],
            sys[0],
            moving[0],
            z,
            z_moving,
        )
        if has_impact and has_rows(islands[0], k):
            note_energy(team, islands[0], k, z_moving)
            if report.hopeless == 0 and gains_energy(team, tree[0], rows[0], islands[0], k, True, z):
                report.hopeless = 2
        if report.hopeless == 0 and has_rows(islands[0], k):
            if share_of_pushes(team, rows[0], islands[0], k) < 1.0:
                report.hopeless = 2
        if report.hopeless > 0:
            left = 1
            if report.laid_out == 1:
                report.laid_out = LAID_OUT_BEFORE
        elif has_rows(islands[0], k):
            own = end_island(
                team,
                tree[0],
                rows[0],
                islands[0],
                k,
                depth,
                s,
                has_impact,
                False,
                laws[0],
                newton[0],
                sys[0],
                moving[0],
                start,
                z_moving,
                unsolved[0],
            )
            state = wp.max(state, own)
            add_report(team, report, totals)
        if team.lane == 0:
            reports[k] = report
    if team.lane == 0:
        total = totals[w]
        total.hopeless = left
        totals[w] = total
        world_state[w] = state
        if left == 0:
            write_report(w, totals, iterations, factorizations, residual, passed, unsolved[0])

"""Constraint rows on single dofs of a world by one team: which ones there are, and their numbers.

Stage: constraints, assembly of rows
Called by: solvers/featherstone/constraints.py
Reads: ConstraintSettings, DofRowView, DriveView, L, LimitView, ServoView, Teams, TreeView, WorldDofsView,
    act, implicit, mass, q, v_free
Writes: DofRowView, ServoView, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, scan_lanes, sync
from newtonsim.kernels.constraints.dof_rows import (
    ConstraintSettings,
    DofRow,
    DofRowView,
    LimitView,
    build_row,
    candidate_row,
    forget_row,
    is_held,
    put_row,
)
from newtonsim.kernels.constraints.energy_coordinates import energy_coordinate
from newtonsim.kernels.constraints.rows import WorldDofsView
from newtonsim.kernels.constraints.servos import ServoView
from newtonsim.kernels.views.model import DriveView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def to_energy(
    team: Team,
    tree: TreeView,
    dofs: WorldDofsView,
    L: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    z: wp.array(dtype=float),
):
    """Energy coordinates z of the velocities qd of a world."""
    w = team.index
    for i in range(dofs.world_start[w] + team.lane, dofs.world_start[w + 1], lanes(team)):
        d = dofs.dof[i]
        z[d] = energy_coordinate(d, tree, L, qd)


@wp.func
def holds_any(
    team: Team,
    tree: TreeView,
    dofs: WorldDofsView,
    limit: LimitView,
    implicit: wp.array(dtype=int),
    v_free: wp.array(dtype=float),
) -> bool:
    """True if a dof of the world is held; includes a `sync`."""
    w = team.index
    held = int(0)
    for i in range(dofs.world_start[w] + team.lane, dofs.world_start[w + 1], lanes(team)):
        if is_held(dofs.dof[i], tree, limit, implicit, v_free):
            held = 1
    return scan_lanes(team, held)[1] > 0


@wp.func
def select_rows(
    team: Team,
    drive: DriveView,
    tree: TreeView,
    dofs: WorldDofsView,
    limit: LimitView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    servo: ServoView,
    s: ConstraintSettings,
    rows: DofRowView,
) -> int:
    """List the joint limits in reach, the bounded drives, dry frictions and servos; returns their number."""
    w = team.index
    begin = rows.world_start[w]
    end = rows.world_start[w + 1]
    any_held = holds_any(team, tree, dofs, limit, implicit, v_free)
    n = int(0)
    for chunk in range(begin, end, lanes(team)):
        source = chunk + team.lane
        row = DofRow()
        if source < end:
            row = candidate_row(
                rows.source_kind[source],
                rows.source_dof[source],
                drive,
                tree,
                limit,
                implicit,
                q,
                v_free,
                act,
                mass,
                servo,
                any_held,
                s,
            )
        needed = int(0)
        if row.upper > row.lower:
            needed = 1
        places = scan_lanes(team, needed)
        if needed == 1:
            put_row(begin + n + places[0], source, row, rows)
        elif source < end:
            forget_row(source, servo, rows)
        n += places[1]
    if team.lane == 0:
        rows.world_count[w] = n
    return n


@wp.func
def build_rows_on_dofs(
    team: Team,
    drive: DriveView,
    tree: TreeView,
    dofs: WorldDofsView,
    limit: LimitView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    L: wp.array(dtype=float),
    servo: ServoView,
    s: ConstraintSettings,
    rows: DofRowView,
):
    """All rows on single dofs of a world."""
    n = select_rows(team, drive, tree, dofs, limit, implicit, q, v_free, act, mass, servo, s, rows)
    sync(team)
    begin = rows.world_start[team.index]
    for r in range(begin + team.lane, begin + n, lanes(team)):
        build_row(r, tree, L, s, rows)


@wp.kernel
def build_dof_rows(
    teams: Teams,
    drive: DriveView,
    tree: TreeView,
    dofs: WorldDofsView,
    limit: LimitView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    L: wp.array(dtype=float),
    s: ConstraintSettings,
    servo: ServoView,
    rows: DofRowView,
    z: wp.array(dtype=float),
):
    """One team per world: energy coordinates of the free velocity, and the rows on single dofs."""
    team = own_team(teams, wp.tid())
    to_energy(team, tree, dofs, L, v_free, z)
    build_rows_on_dofs(team, drive, tree, dofs, limit, implicit, q, v_free, act, mass, L, servo, s, rows)

"""Joint velocities to energy coordinates, in which constraint rows are solved, and back.

Stage: constraints, before and after the solve
Called by: solvers/featherstone/constraints.py, solvers/featherstone/solver.py,
    kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/velocities.py,
    kernels/constraints/step_end.py, kernels/constraints/world_dof_rows.py
Reads: L, LevelView, Teams, TreeView, limit, qd, v_free, world_state, z, z_moving
Writes: MarksView, moving_qd, qd, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import copyi, doti, lane_copyi
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, max_lanes, own_team, sync
from newtonsim.kernels.constraints.dof_rows import NOTHING_ACTED, PUSHED
from newtonsim.kernels.steps.nonfinite import MarksView, mark
from newtonsim.kernels.views.model import LevelView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# what made velocities non-finite
FROM_FORCES = wp.constant(1)  # the velocity without constraints is none
FROM_CONSTRAINTS = wp.constant(2)


@wp.func
def energy_coordinate(d: int, tree: TreeView, L: wp.array(dtype=float), qd: wp.array(dtype=float)) -> float:
    """z of dof d, z = √D L qd, in which the kinetic energy is zᵀz / 2."""
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    y = qd[d] + doti(depth, L, tree.row_dof, row, qd)
    return y / L[row + depth]


@wp.kernel
def to_energy_coordinates(
    first: int, tree: TreeView, L: wp.array(dtype=float), qd: wp.array(dtype=float), z: wp.array(dtype=float)
):
    """One thread per dof: energy coordinates z of the velocities qd."""
    d = first + wp.tid()
    z[d] = energy_coordinate(d, tree, L, qd)


@wp.func
def to_joint_velocities(
    tree: wp.ref[TreeView],
    L: wp.array(dtype=float),
    t: int,
    z: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """qd = L⁻¹ D^(-1/2) z of one tree."""
    for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[n]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        qd[d] = z[d] * L[row + depth] - doti(depth, L, tree.row_dof, row, qd)


@wp.func
def copy_tree(tree: wp.ref[TreeView], t: int, source: wp.array(dtype=float), target: wp.array(dtype=float)):
    """Copy the dofs of one tree."""
    start = tree.dof_start[t]
    copyi(tree.dof_start[t + 1] - start, tree.dof, start, source, target)


@wp.func
def leave_energy_coordinates(
    team: Team,
    tree: wp.ref[TreeView],
    levels: wp.ref[LevelView],
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """qd = L⁻¹ D^(-1/2) z of one tree; ends with a `sync`."""
    for level in range(levels.dof_first[team.index], levels.dof_first[team.index + 1]):
        for i in range(levels.dof_start[level] + team.lane, levels.dof_start[level + 1], lanes(team)):
            d = levels.dof[i]
            row = tree.dof_row[d]
            depth = tree.dof_depth[d]
            qd[d] = z[d] * L[row + depth] - doti(depth, L, tree.row_dof, row, qd)
        sync(team)


@wp.func
def copy_dofs(
    team: Team, tree: wp.ref[TreeView], source: wp.array(dtype=float), target: wp.array(dtype=float)
):
    """Copy the values of the dofs of one tree."""
    start = tree.dof_start[team.index]
    count = tree.dof_start[team.index + 1] - start
    lane_copyi(team.lane, lanes(team), count, tree.dof, start, source, target)


@wp.func
def what_broke(
    team: Team, tree: wp.ref[TreeView], qd: wp.array(dtype=float), v_free: wp.array(dtype=float)
) -> int:
    """0 if the velocities of one tree are finite, else the cause; includes a `sync`."""
    constraints = float(0.0)
    forces = float(0.0)
    for i in range(tree.dof_start[team.index] + team.lane, tree.dof_start[team.index + 1], lanes(team)):
        d = tree.dof[i]
        if not wp.isfinite(qd[d]):
            constraints = 1.0
            if not wp.isfinite(v_free[d]):
                forces = 1.0
    broken = max_lanes(team, constraints + forces)
    cause = int(0)
    if broken > 1.5:
        cause = FROM_FORCES
    elif broken > 0.5:
        cause = FROM_CONSTRAINTS
    return cause


@wp.func
def accept_tree(
    team: Team,
    tree: wp.ref[TreeView],
    levels: wp.ref[LevelView],
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    moving_qd: wp.array(dtype=float),
    marks: wp.ref[MarksView],
):
    """Find the joint velocities of one tree, and those that move its positions; all lanes then see them.

    In worlds without impulses, velocities keep every bit. Non-finite velocities mark their tree and its
    world, with FROM_FORCES or FROM_CONSTRAINTS as the cause.
    """
    t = team.index
    state = world_state[tree.world[t]]
    if state == NOTHING_ACTED:
        copy_dofs(team, tree, v_free, qd)
    else:
        leave_energy_coordinates(team, tree, levels, L, z, qd)
    if state >= PUSHED:
        leave_energy_coordinates(team, tree, levels, L, z_moving, moving_qd)
    else:
        copy_dofs(team, tree, qd, moving_qd)
    cause = what_broke(team, tree, qd, v_free)
    if team.lane == 0:
        mark(marks, tree.world[t], t, cause != 0, cause)


@wp.kernel
def accept_velocities(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    moving_qd: wp.array(dtype=float),
    marks: MarksView,
):
    """One team per tree: joint velocities, and those that move the positions, see `accept_tree`."""
    team = own_team(teams, wp.tid())
    accept_tree(team, tree, levels, L, z, z_moving, v_free, world_state, qd, moving_qd, marks)


@wp.func
def bound(d: int, limit: float, qd: wp.array(dtype=float)):
    """Bring a velocity within a limit; one that is not finite stays so, for the world to be found."""
    if wp.abs(qd[d]) > limit and wp.isfinite(qd[d]):
        qd[d] = wp.clamp(qd[d], -limit, limit)


@wp.kernel
def clamp_velocities(
    first: int, limit: wp.array(dtype=float), qd: wp.array(dtype=float), moving_qd: wp.array(dtype=float)
):
    """One thread per dof: bound its velocities."""
    d = first + wp.tid()
    bound(d, limit[d], qd)
    bound(d, limit[d], moving_qd)


@wp.kernel
def accept_prediction(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
):
    """One team per tree: joint velocities after impulses, where there were any."""
    team = own_team(teams, wp.tid())
    if world_state[tree.world[team.index]] != NOTHING_ACTED:
        leave_energy_coordinates(team, tree, levels, L, z, qd)

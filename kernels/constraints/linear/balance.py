"""Linearised force balance of a step: a row for each dof, a column for each input of the step.

With the change w = δv⁺ - δv of velocities, the force balance h r(q, v̄, v⁺, u) = Jᵀ p of a step becomes

    H w = -h (r_q + k) δq - h r_v̄ δv̄ - D δv + h g δu + δ(Jᵀ p),

where k is the stiffness of springs and drives, D the terms of damping and stiffness in the inertia in
addition to the armature, and g the derivative of the force by each input. Velocity-dependent forces are
evaluated at the mean v̄ of the initial velocity and a predicted one. The change of the latter is w' = δv' -
δv from the same equation without constraints, with the forces at the start; the spin of single bodies that
rotate freely follows the implicit midpoint rule (`linear.middle_spin`). Derivatives r_q and r_v̄ of inverse
dynamics are those of `trees.rnea_derivatives`.

Stage: linear models of steps, smooth dynamics
Called by: solvers/featherstone/linear_model.py
Reads: ColumnsView, DriveView, L, Teams, TreeView, act, by_q, by_qd, diagonal, implicit, middle
Writes: columns
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.row_blas import add_rows, pull_row, push_row
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team
from newtonsim.kernels.trees.joint_forces import exceeds_bounds
from newtonsim.kernels.views.model import (
    MODE_FORCE,
    MODE_POSITION,
    MODE_VELOCITY,
    DriveView,
    TreeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

BY_JOINT_F = wp.constant(0)
BY_JOINT_ACT = wp.constant(1)


@wp.struct
class ColumnsView:
    """Sizes of the linear equations of every world; row d belongs to dof d."""

    dofs: int  # n, of a world
    inputs: int  # m, of a world
    width: int  # 2 n + m, columns of δq, δv and δu
    kind: int  # BY_*, what u is


@wp.func
def axis_stiffness(a: int, drive: DriveView, implicit: int) -> float:
    """Negative slope of the effort of springs and drive of axis a by its position."""
    stiffness = drive.stiffness[a]
    if implicit != 0 and drive.mode[a] == MODE_POSITION:
        stiffness += drive.target_ke[a]
    return stiffness


@wp.func
def effort_by_input(a: int, drive: DriveView, implicit: int, act: float) -> float:
    """Slope of the effort of the drive of axis a by its input, for the part that is not in a row."""
    slope = float(0.0)
    if drive.mode[a] == MODE_FORCE:
        if not exceeds_bounds(drive, a, act):
            slope = 1.0
    elif implicit != 0:
        if drive.mode[a] == MODE_POSITION or drive.mode[a] == MODE_VELOCITY:
            slope = drive.target_ke[a]
    return slope


@wp.func_native(
    """
    const float* q = by_q.data + (size_t)d * n;
    const float* qd = by_qd.data + (size_t)d * n;
    float* row = columns.data + (size_t)d * (2 * n + inputs);
    for (int e = 0; e < n; ++e) row[e] = -dt * q[e];
    for (int e = 0; e < n; ++e) row[n + e] = -dt * qd[e];
    for (int i = 0; i < inputs; ++i) row[2 * n + i] = 0.0f;
    """
)
def begin_row(
    d: int,
    n: int,
    inputs: int,
    dt: float,
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
    columns: wp.array(dtype=float),
):
    """Impulses of inverse dynamics, negative, in all columns of dof d."""
    ...


@wp.func
def write_row(
    d: int,
    view: ColumnsView,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
    columns: wp.array(dtype=float),
):
    """Write the right-hand side of the balance of dof d at a given velocity v̄ = v, with δv̄ = δv."""
    n = view.dofs
    w = d / n
    own = d - w * n
    at = d * view.width
    begin_row(d, n, view.inputs, dt, by_q, by_qd, columns)
    columns[at + n + own] = columns[at + n + own] - (diagonal[d] - drive.armature[d])
    a = tree.dof_axis[d]
    if a >= 0:
        columns[at + own] = columns[at + own] - dt * axis_stiffness(a, drive, implicit[d])
        if view.kind == BY_JOINT_ACT:
            columns[at + 2 * n + a - w * view.inputs] = dt * effort_by_input(a, drive, implicit[d], act[a])
    if view.kind == BY_JOINT_F:
        columns[at + 2 * n + own] = dt


@wp.func
def whiten_columns(
    team: Team, tree: TreeView, L: wp.array(dtype=float), n: int, dense: wp.array(dtype=float)
):
    """dense = D^(-1/2) L^(-T) dense, rows of n entries; lanes share the columns."""
    start = tree.dof_start[team.index]
    end = tree.dof_start[team.index + 1]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        push_row(team.lane, lanes(team), n, tree.dof_depth[d], tree.row_dof, tree.dof_row[d], L, d, dense)


@wp.func
def unwhiten_columns(
    team: Team, tree: TreeView, L: wp.array(dtype=float), n: int, dense: wp.array(dtype=float)
):
    """dense = L⁻¹ D^(-1/2) dense, likewise."""
    for i in range(tree.dof_start[team.index], tree.dof_start[team.index + 1]):
        d = tree.dof[i]
        pull_row(team.lane, lanes(team), n, tree.dof_depth[d], tree.row_dof, tree.dof_row[d], L, d, dense)


@wp.kernel
def linearize_prediction(
    first: int,
    view: ColumnsView,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
    columns: wp.array(dtype=float),
):
    """One thread per dof: right-hand side of the predicted velocity."""
    write_row(first + wp.tid(), view, tree, drive, implicit, diagonal, act, dt, by_q, by_qd, columns)


@wp.kernel
def solve_prediction(
    teams: Teams, view: ColumnsView, tree: TreeView, L: wp.array(dtype=float), columns: wp.array(dtype=float)
):
    """One team per tree: w' = H⁻¹ times the right-hand side."""
    team = own_team(teams, wp.tid())
    whiten_columns(team, tree, L, view.width, columns)
    unwhiten_columns(team, tree, L, view.width, columns)


@wp.kernel
def linearize_balance(
    first: int,
    view: ColumnsView,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
    middle: wp.array(dtype=float),
    columns: wp.array(dtype=float),
):
    """One thread per dof: right-hand side of the velocity at the end, without constraints.

    `middle` is δv̄ - δv, see `middle_spin.move_to_middle`.
    """
    d = first + wp.tid()
    write_row(d, view, tree, drive, implicit, diagonal, act, dt, by_q, by_qd, columns)
    n = view.dofs
    add_rows(view.width, n, -dt, by_qd, d * n, middle, (d / n) * n * view.width, columns, d * view.width)


@wp.kernel
def to_energy_columns(
    teams: Teams, view: ColumnsView, tree: TreeView, L: wp.array(dtype=float), columns: wp.array(dtype=float)
):
    """One team per tree: right-hand side in energy coordinates."""
    whiten_columns(own_team(teams, wp.tid()), tree, L, view.width, columns)


@wp.kernel
def to_velocity_columns(
    teams: Teams, view: ColumnsView, tree: TreeView, L: wp.array(dtype=float), columns: wp.array(dtype=float)
):
    """One team per tree: changes of velocities from those in energy coordinates."""
    unwhiten_columns(own_team(teams, wp.tid()), tree, L, view.width, columns)

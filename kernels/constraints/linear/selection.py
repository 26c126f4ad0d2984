"""Rows of a solved step that act, their weights in its linear model, and changes of rows on dofs.

Stage: linear models of steps, rows
Called by: solvers/featherstone/linear_model.py
Reads: ConstraintSettings, ContactView, DriveView, FeatureView, ImpulseView, LimitView, RowsView, TreeView,
    q, world_state
Writes: RowAdjointView, RowChangeView, SystemView, lacking
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contact_features import NORMAL_UNKNOWN, FeatureView
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    RowAdjointView,
    select_rows,
)
from newtonsim.kernels.constraints.adjoint.solve import is_rigid, weigh_friction
from newtonsim.kernels.constraints.adjoint.system import SystemView
from newtonsim.kernels.constraints.dof_rows import (
    PUSHED,
    ROW_DRIVE,
    ROW_LIMIT,
    ConstraintSettings,
    LimitView,
    drive_rate,
)
from newtonsim.kernels.constraints.laws import has_spin
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.views.model import MODE_POSITION, DriveView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# what the linear model of a world lacks: rules for shapes in contact, which exist nowhere, or for rows that
# act
NO_RULE = wp.constant(1)
NOT_COVERED = wp.constant(2)


@wp.struct
class RowChangeView:
    """Rows that act, and changes of those on dofs."""

    count: wp.array(dtype=int)  # (W) rows that act
    shared: wp.array(dtype=int)  # (W) 1 where rigid contacts have to agree
    dof_by_q: wp.array(dtype=float)  # (R)
    dof_by_act: wp.array(dtype=float)  # (R)
    dense: wp.array(dtype=wp.float64)  # (W n (n + width)) system of each world
    agreed: wp.array(dtype=wp.float64)  # (W n (n + width)) that of its rigid contacts


@wp.func
def limit_slope(gap: float, top: float, lever: float, s: ConstraintSettings) -> float:
    """Derivative of the clamped `dof_rows.axis_limit_speed` by the gap."""
    speed = -gap / s.dt
    slope = -1.0 / s.dt
    if gap < 0.0:
        if s.smoothing > 0.0:
            width = s.smoothing / lever
            bend = wp.tanh(s.limit_rate * gap * gap / (width * s.max_limit_speed))
            speed = s.max_limit_speed * bend
            slope = 2.0 * s.limit_rate * gap / width * (1.0 - bend * bend)
        else:
            speed = -gap * s.limit_rate
            slope = -s.limit_rate
            if speed >= s.max_limit_speed:
                slope = 0.0
    if wp.abs(speed) >= top:
        slope = 0.0
    return slope


@wp.func
def change_dof_row(
    r: int,
    tree: TreeView,
    drive: DriveView,
    limit: LimitView,
    q: wp.array(dtype=float),
    s: ConstraintSettings,
    rows: RowsView,
    change: RowChangeView,
):
    """Changes of an active row on one dof by its coordinate and its input."""
    source = rows.dof.source[r]
    kind = rows.dof.source_kind[source]
    d = rows.dof.source_dof[source]
    a = tree.dof_axis[d]
    by_q = float(0.0)
    by_act = float(0.0)
    if kind == ROW_LIMIT:
        x = q[tree.dof_coord[d]]
        gap = limit.upper[a] - x
        if rows.dof.impulse[r] > 0.0:
            gap = x - limit.lower[a]
        by_q = -limit_slope(gap, limit.velocity[a], limit.lever[a], s)
    elif kind == ROW_DRIVE:
        by_act = -1.0
        if drive.mode[a] == MODE_POSITION:
            by_q = drive.target_ke[a] / drive_rate(drive, a, s.dt)
            by_act = -by_q
    change.dof_by_q[r] = by_q
    change.dof_by_act[r] = by_act


@wp.kernel
def select_rows_that_act(
    first: int,
    tree: wp.array(dtype=TreeView),
    drive: DriveView,
    limit: LimitView,
    q: wp.array(dtype=float),
    s: ConstraintSettings,
    rows: wp.array(dtype=RowsView),
    contacts: wp.array(dtype=ContactView),
    features: FeatureView,
    depth: int,
    impulse: ImpulseView,
    adj: wp.array(dtype=RowAdjointView),
    world_state: wp.array(dtype=int),
    weights: wp.array(dtype=SystemView),
    change: RowChangeView,
    lacking: wp.array(dtype=int),
):
    """One thread per world: find rows that act, and what its model lacks: NO_RULE, NOT_COVERED or both."""
    w = first + wp.tid()
    change.count[w] = select_rows(tree[0], rows[0], contacts[0], w, depth, impulse, adj[0])
    r0 = rows[0].dof.world_start[w]
    for r in range(r0, r0 + rows[0].dof.world_count[w]):
        if adj[0].dof_mode[r] == ROW_HOLDS:
            change_dof_row(r, tree[0], drive, limit, q, s, rows[0], change)
    found = int(0)
    if world_state[w] >= PUSHED:
        found = NOT_COVERED
    for p in range(rows[0].pair.world_start[w], rows[0].pair.world_start[w + 1]):
        if adj[0].pair_mode[p] != ROW_OPEN:
            found = found | NOT_COVERED
    rigid = int(0)
    slides = bool(False)
    c0 = contacts[0].world_start[w]
    for c in range(c0, c0 + contacts[0].world_count[w]):
        if adj[0].contact_mode[c] != ROW_OPEN:
            if features.normal[c] == NORMAL_UNKNOWN:
                found = found | NO_RULE
            if rows[0].contact.impact[c][2] > rows[0].contact.impact[c][1] or has_spin(rows[0], c):
                found = found | NOT_COVERED
            weigh_friction(tree[0], rows[0], weights[0], c, depth, impulse, adj[0])
            if is_rigid(rows[0], c, adj[0]):
                rigid += 1
                if adj[0].contact_mode[c] == ROW_BOUNDED and rows[0].contact.friction[c] > 0.0:
                    slides = True
    change.shared[w] = int(slides and rigid > 1)
    lacking[w] = found

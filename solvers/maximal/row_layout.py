"""Which rows the joints and constraints of a model have, for sweeps over bodies that move freely."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.maximal import rows as maximal_rows
from newtonsim.kernels.maximal.rows import RowView
from newtonsim.kernels.views import pair_rows
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.model import Model
from newtonsim.solvers.constraint_rows import loop_rows

_ZERO = (0.0, 0.0, 0.0)
_X_AXIS = (1.0, 0.0, 0.0)
_TILT = int(maximal_rows.ROW_TILT)
_HELD = (int(pair_rows.PAIR_OFFSET), int(pair_rows.PAIR_COSINE), int(pair_rows.PAIR_ROTATION), _TILT)

_ROW = np.dtype(
    [(name, np.int32) for name in ("block", "kind", "number", "index", "dof")]
    + [("axis0", np.float32, 3), ("axis1", np.float32, 3), ("coupled", np.int32, 2)]
)
"""A row: its block, what it is, and what of the model it belongs to."""


def body_rows_of(model: Model) -> tuple[RowView, wp.array]:
    """Lay out the rows of all joints and constraints.

    Returns:
        The rows, and the joint of each, -1 for none, on the device.
    """
    joints = model.joint_count
    table = np.concatenate([_joint_rows(model), _constraint_rows(model)])
    table = table[np.argsort(table["block"], kind="stable")]
    held = np.isin(table["kind"], _HELD)
    blocks, device = joints + model.constraint_count, model.device
    _couple(model, table)

    rows = RowView()
    start = np.searchsorted(table["block"], np.arange(blocks + 1))
    rows.row_start = put(start, dtype=int, device=device)
    rows.held = put(np.bincount(table["block"][held], minlength=blocks), dtype=int, device=device)
    rows.inverse = zeros(blocks, dtype=wp.spatial_matrix, device=device)
    world = _block_worlds(model)
    order = np.argsort(world, kind="stable")
    rows.block = put(order, dtype=int, device=device)
    world_start = np.searchsorted(world[order], np.arange(model.world_count + 1))
    rows.world_start = put(world_start, dtype=int, device=device)
    rows.kind = put(table["kind"], dtype=int, device=device)
    rows.number = put(table["number"], dtype=int, device=device)
    rows.index = put(table["index"], dtype=int, device=device)
    rows.dof = put(table["dof"], dtype=int, device=device)
    rows.axis0 = put(table["axis0"], dtype=wp.vec3, device=device)
    rows.axis1 = put(table["axis1"], dtype=wp.vec3, device=device)
    rows.coupled = put(table["coupled"], dtype=wp.vec2i, device=device)
    rows.force = zeros(len(table), dtype=wp.vec3, device=device)
    rows.torque0 = zeros(len(table), dtype=wp.vec3, device=device)
    rows.torque1 = zeros(len(table), dtype=wp.vec3, device=device)
    rows.turn0 = zeros(len(table), dtype=wp.vec3, device=device)
    rows.turn1 = zeros(len(table), dtype=wp.vec3, device=device)
    rows.mobility = zeros(len(table), dtype=float, device=device)
    rows.start = zeros(len(table), dtype=float, device=device)
    rows.before = zeros(len(table), dtype=float, device=device)
    rows.rate_excess = zeros(len(table), dtype=float, device=device)
    rows.rest = zeros(len(table), dtype=float, device=device)
    rows.scaled_compliance = zeros(len(table), dtype=float, device=device)
    rows.goal = zeros(len(table), dtype=float, device=device)
    rows.impulse = zeros(len(table), dtype=float, device=device)
    rows.carried = zeros(len(table), dtype=float, device=device)
    rows.relaxed = zeros(len(table), dtype=float, device=device)
    rows.held_response = zeros(len(table), dtype=wp.spatial_vector, device=device)
    owner = np.where(table["block"] < joints, table["block"], -1)
    return rows, put(owner, dtype=int, device=device)


def _block_worlds(model: Model) -> np.ndarray:
    """World of each joint and constraint; what belongs to the global world counts to the first."""
    worlds = [model.joint_world.numpy()] if model.joint_count else []
    if model.constraint_count:
        of_body = np.append(model.body_world.numpy(), -1)
        of_axis = np.append(_axis_joints(model), -1)
        of_joint = np.append(model.joint_world.numpy() if model.joint_count else [], -1).astype(int)
        ends = of_body[[model.constraint_parent.numpy(), model.constraint_child.numpy()]].max(axis=0)
        coupled = of_joint[of_axis[model.constraint_coupled_axes.numpy().reshape(-1, 2)]].max(axis=1)
        worlds.append(np.maximum(ends, coupled))
    return np.maximum(np.concatenate(worlds), 0) if worlds else np.zeros(0, int)


def _axis_joints(model: Model) -> np.ndarray:
    """Joint of each joint axis."""
    if not model.joint_count:
        return np.zeros(0, int)
    return np.repeat(np.arange(model.joint_count), model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1))


def _couple(model: Model, table: np.ndarray) -> None:
    """Name the rows of coupled axes."""
    members = np.flatnonzero(table["kind"] == pair_rows.PAIR_COUPLING)
    if not len(members):
        return
    row_of_axis = np.full(model.joint_axis_count + 1, -1)
    along = np.flatnonzero(table["kind"] >= maximal_rows.ROW_LINEAR_AXIS)
    along = along[table["index"][along] >= 0]
    row_of_axis[table["index"][along]] = along
    axes = model.constraint_coupled_axes.numpy().reshape(-1, 2)
    table["coupled"][members] = row_of_axis[axes[table["block"][members] - model.joint_count]]


def _table(rows: list[tuple], block: np.ndarray, index: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """The same rows (kind, number, axis 0, axis 1, offset of index, offset of dof) for each of n blocks.

    Args:
        rows: Offsets are -1 where there is none.
        block: Blocks (n,).
        index: First axis of each (n,).
        dof: First degree of freedom of each (n,).
    """
    table = np.zeros((len(block), len(rows)), _ROW)
    table["block"] = block[:, None]
    table["coupled"] = -1
    for r, (kind, number, axis0, axis1, axis, freedom) in enumerate(rows):
        table["kind"][:, r], table["number"][:, r] = kind, number
        table["axis0"][:, r], table["axis1"][:, r] = axis0, axis1
        table["index"][:, r] = index + axis if axis >= 0 else -1
        table["dof"][:, r] = dof + freedom if freedom >= 0 else -1
    return table.reshape(-1)


def _groups(*columns: np.ndarray) -> list[np.ndarray]:
    """Indices of elements whose columns are equal."""
    patterns = np.column_stack([column.reshape(len(column), -1) for column in columns])
    _, group = np.unique(patterns, axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    return np.split(order, np.cumsum(np.bincount(group.reshape(-1)))[:-1])


def _padded_axes(start: np.ndarray, dim: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Axes of each joint or constraint (n, 6, 3), zeros where it has fewer."""
    axes = np.zeros((len(start), 6, 3), np.float32)
    counts = dim.sum(axis=1)
    owner = np.repeat(np.arange(len(start)), counts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    axes[owner, place] = axis.reshape(-1, 3)[start[owner] + place] if len(owner) else 0.0
    return axes


def _joint_rows(model: Model) -> np.ndarray:
    """Rows of the joints."""
    if not model.joint_count:
        return np.zeros(0, _ROW)
    kind, start = model.joint_type.numpy(), model.joint_axis_start.numpy()
    dim = model.joint_axis_dim.numpy().reshape(-1, 2)
    dof = model.joint_qd_start.numpy()
    axis = model.joint_axis.numpy() if model.joint_axis_count else np.zeros((0, 3), np.float32)
    axes = _padded_axes(start, dim, axis)
    tables = [np.zeros(0, _ROW)]
    for members in _groups(kind, dim, axes):
        first = members[0]
        linear, angular = dim[first]
        rows = _rows_of_joint(JointType(kind[first]), axes[first], int(linear), int(angular))
        tables.append(_table(rows, members, start[members], dof[members]))
    return np.concatenate(tables)


def _rows_of_joint(kind: JointType, axes: np.ndarray, linear: int, angular: int) -> list[tuple]:
    """Rows of a joint, what it holds first."""
    if kind == JointType.FREE:
        return []
    if kind == JointType.DISTANCE:
        return [(pair_rows.PAIR_DISTANCE, 0, _ZERO, _ZERO, -1, -1)]
    if kind == JointType.BALL:
        held = [(pair_rows.PAIR_OFFSET, 0, tuple(n), _ZERO, -1, -1) for n in np.eye(3)]
        free = [(maximal_rows.ROW_BALL_DOF, k, _ZERO, _ZERO, -1, k) for k in range(3)]
        limits = [
            (pair_rows.PAIR_SWING, 0, _X_AXIS, _ZERO, -1, -1),
            (pair_rows.PAIR_TWIST, 0, _X_AXIS, _ZERO, -1, -1),
        ]
        return held + free + limits
    needed = _rows_of_axes(axes[:linear].astype(float), axes[linear : linear + angular].astype(float))
    rows = [(kind, number, a, b, -1, -1) for kind, number, a, b in needed if kind in _HELD]
    rows += [(maximal_rows.ROW_LINEAR_AXIS, k, _ZERO, _ZERO, k, k) for k in range(linear)]
    rows += [(maximal_rows.ROW_ANGULAR_AXIS, k, _ZERO, _ZERO, linear + k, linear + k) for k in range(angular)]
    return rows


def _rows_of_axes(linear: np.ndarray, angular: np.ndarray) -> list[tuple]:
    """`loop_rows`, with a single axis held by the rotation between its directions.

    Other than cosines, that has a slope however far the bodies are out of place.
    """
    single = len(angular) == 1
    return [
        (_TILT if single and kind == pair_rows.PAIR_COSINE else kind, number, axis0, axis1)
        for kind, number, axis0, axis1 in loop_rows(linear, angular)
    ]


def _constraint_rows(model: Model) -> np.ndarray:
    """Rows of the constraints."""
    if not model.constraint_count:
        return np.zeros(0, _ROW)
    kind, start = model.constraint_type.numpy(), model.constraint_axis_start.numpy()
    dim = model.constraint_axis_dim.numpy().reshape(-1, 2)
    axis = model.constraint_axis.numpy() if model.constraint_axis_count else np.zeros((0, 3), np.float32)
    axes = _padded_axes(start, dim, axis)
    tables = [np.zeros(0, _ROW)]
    for members in _groups(kind, dim, axes):
        first = members[0]
        linear, angular = dim[first]
        if kind[first] == ConstraintType.COUPLING:
            rows = [(pair_rows.PAIR_COUPLING, 0, _ZERO, _ZERO, -1, -1)]
        elif kind[first] == ConstraintType.DISTANCE:
            rows = [(pair_rows.PAIR_DISTANCE, 0, _ZERO, _ZERO, -1, -1)]
        else:
            axes_of = axes[first].astype(float)
            needed = _rows_of_axes(axes_of[:linear], axes_of[linear : linear + angular])
            needed.sort(key=lambda row: row[0] not in _HELD)
            rows = [(k, 0, a, b, -1 if k in _HELD else number, -1) for k, number, a, b in needed]
        block = model.joint_count + members
        tables.append(_table(rows, block, start[members], np.zeros(len(members), int)))
    return np.concatenate(tables)

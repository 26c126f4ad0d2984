"""Buffers of the constraint stage: which rows a model can have, and where they stand."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.algebra.envelope import EnvelopeView
from newtonsim.kernels.constraints import dof_rows as constraints_dof_rows
from newtonsim.kernels.constraints import pair_rows
from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of

_ZERO = (0.0, 0.0, 0.0)
_X_AXIS = (1.0, 0.0, 0.0)


def _zeros(view: object, count: int, device: wp.Device, **fields: type) -> None:
    for name, dtype in fields.items():
        setattr(view, name, zeros(count, dtype=dtype, device=device))


def dof_rows(model: Model, servos: bool) -> DofRowView:
    """Find every dof that can have a row of its own, grouped by world; with servos or without."""
    view = topology_of(model).view
    # every axis is a candidate whatever its limits are now: their values may change between steps
    with_axis = np.flatnonzero(view.dof_axis.numpy() >= 0)
    candidates = {
        constraints_dof_rows.ROW_LIMIT: with_axis,
        constraints_dof_rows.ROW_DRIVE: with_axis,
        constraints_dof_rows.ROW_FRICTION: np.arange(model.joint_dof_count),
    }
    if servos:
        candidates[constraints_dof_rows.ROW_SERVO] = _servo_dofs(model)
    dof = np.concatenate(list(candidates.values()))
    kind = np.repeat(list(candidates), [len(dofs) for dofs in candidates.values()])
    world = view.dof_world.numpy()[dof]
    order = np.lexsort((kind, world))
    count = len(dof)

    rows = DofRowView()
    device = model.device
    rows.source_kind = put(kind[order], dtype=int, device=device)
    rows.source_dof = put(dof[order], dtype=int, device=device)
    rows.world = put(world[order], dtype=int, device=device)
    rows.world_start = _starts(world[order], model)
    rows.world_count = zeros(model.world_count, dtype=int, device=device)
    rows.world_servos = zeros(model.world_count, dtype=int, device=device)
    rows.source = zeros(count, dtype=int, device=device)
    numbers = ("lower", "upper", "target_lower", "target_upper", "softness", "delassus", "impulse", "memory")
    _zeros(rows, count, device, **dict.fromkeys(numbers, float))
    rows.B = zeros((count, topology_of(model).max_depth), dtype=float, device=device)
    return rows


def _servo_dofs(model: Model) -> np.ndarray:
    """All dofs but those of free bodies."""
    kinds = model.joint_type.numpy()[topology_of(model).dof_joint]
    return np.flatnonzero((kinds != JointType.FREE) & (kinds != JointType.DISTANCE))


def _starts(world: np.ndarray, model: Model) -> wp.array:
    """First entry of each world in a sorted list, and the end."""
    start = np.searchsorted(world, np.arange(model.world_count + 1))
    return put(start, dtype=int, device=model.device)


_PAIR_ROW = np.dtype(
    [(name, np.int32) for name in ("kind", "constraint", "joint", "index", "parent", "child")]
    + [("dofs", np.int32, 2), ("axis0", np.float32, 3), ("axis1", np.float32, 3)]
)
"""A row between two bodies, or two dofs: what it is, and which element of the model it belongs to."""


def _pair_table(rows: list[tuple], **elements: np.ndarray) -> np.ndarray:
    """Return the same rows for each of n elements, element by element, as _PAIR_ROW, shape (n * len(rows),).

    Args:
        rows: (kind, number of the axis, axis in frame 0, axis in frame 1) of each row.
        elements: Other fields of _PAIR_ROW by element (n,); "index" is that of the element's first axis.
    """
    count = len(elements["parent"])
    table = np.zeros((count, len(rows)), _PAIR_ROW)
    for name in ("constraint", "joint"):
        table[name] = -1
    table["dofs"] = -1
    for name, values in elements.items():
        table[name] = values[:, None]
    for r, (kind, number, axis0, axis1) in enumerate(rows):
        table["kind"][:, r] = kind
        table["index"][:, r] += number
        table["axis0"][:, r], table["axis1"][:, r] = axis0, axis1
    return table.reshape(-1)


def pair_rows_of(model: Model) -> PairRowView:
    """Lay out the rows of constraints, ball joints and distance joints, grouped by world."""
    table = np.concatenate([constraint_row_table(model), *_joint_limit_rows(model)])
    view = topology_of(model).view
    leaf_of, dof_world = np.append(view.body_leaf.numpy(), -1), view.dof_world.numpy()
    leaf = np.maximum(leaf_of[table["parent"]], leaf_of[table["child"]])
    dof = np.where(table["kind"] == pair_rows.PAIR_COUPLING, table["dofs"][:, 0], leaf)
    table, dof = table[dof >= 0], dof[dof >= 0]  # nothing moves either body
    world = dof_world[dof]
    order = np.argsort(world, kind="stable")
    table, world = table[order], world[order]
    count, device = len(table), model.device

    rows = PairRowView()
    rows.world_start = _starts(world, model)
    rows.world = put(world, dtype=int, device=device)
    for name in ("kind", "constraint", "joint", "index"):
        setattr(rows, name, put(table[name], dtype=int, device=device))
    rows.dofs = put(table["dofs"], dtype=wp.vec2i, device=device)
    for name in ("axis0", "axis1"):
        setattr(rows, name, put(table[name], dtype=wp.vec3, device=device))
    numbers = ("lower", "upper", "target_lower", "target_upper", "softness", "delassus", "impulse")
    vectors = dict.fromkeys(("force", "torque", "point"), wp.vec3)
    _zeros(rows, count, device, leaf=wp.vec2i, **dict.fromkeys(numbers, float), **vectors)
    rows.B = zeros((count, 2 * topology_of(model).max_depth), dtype=float, device=device)
    return rows


def constraint_row_table(model: Model) -> np.ndarray:
    """Return the rows of the constraints in their order, as _PAIR_ROW."""
    if not model.constraint_count:
        return np.zeros(0, _PAIR_ROW)
    names = ("type", "parent", "child", "axis_start", "axis_dim", "coupled_axes", "axis")
    kind, parent, child, start, dim, coupled, axis = (
        getattr(model, f"constraint_{name}").numpy() for name in names
    )
    dof_axis = topology_of(model).view.dof_axis.numpy()
    dof_of_axis = np.full(model.joint_axis_count + 1, -1)
    dof_of_axis[dof_axis[dof_axis >= 0]] = np.flatnonzero(dof_axis >= 0)
    tables = [np.zeros(0, _PAIR_ROW)]
    for members, rows in _row_patterns(kind, start, dim, axis):
        table = _pair_table(
            rows,
            constraint=members,
            index=np.where(kind[members] == ConstraintType.LOOP, start[members], 0),
            parent=parent[members],
            child=child[members],
        )
        if kind[members[0]] == ConstraintType.COUPLING:
            table["dofs"] = dof_of_axis[coupled[members]]
        tables.append(table)
    table = np.concatenate(tables)
    return table[np.argsort(table["constraint"], kind="stable")]


def _row_patterns(
    kind: np.ndarray, start: np.ndarray, dim: np.ndarray, axis: np.ndarray
) -> list[tuple[np.ndarray, list[tuple]]]:
    """Group constraints whose rows are the same but for the bodies; copies of a robot share theirs."""
    axes = np.zeros((len(kind), 6, 3), np.float32)
    counts = dim.sum(axis=1)
    owner = np.repeat(np.arange(len(kind)), counts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    axes[owner, place] = axis[start[owner] + place]
    patterns = np.column_stack([kind, dim, axes.reshape(len(kind), -1)])
    _, first, group = np.unique(patterns, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(group.reshape(-1)))[:-1])
    result = []
    for k, members in zip(first.tolist(), parts):
        linear, angular = dim[k]
        rows = {
            ConstraintType.COUPLING: [(pair_rows.PAIR_COUPLING, 0, _ZERO, _ZERO)],
            ConstraintType.DISTANCE: [(pair_rows.PAIR_DISTANCE, 0, _ZERO, _ZERO)],
        }.get(kind[k])
        if rows is None:
            rows = loop_rows(axes[k, :linear].astype(float), axes[k, linear : linear + angular].astype(float))
        result.append((members, rows))
    return result


def loop_rows(linear: np.ndarray, angular: np.ndarray) -> list[tuple]:
    """Rows (kind, axis number, axis in frame 0, axis in frame 1) of a joint with the given free axes.

    The directions that the axes leave over are held: all others of the offset; the whole rotation, or the
    direction of a single axis in both bodies, or the angle between the first and the last of two axes.
    """
    rows = [(pair_rows.PAIR_OFFSET, 0, tuple(n), _ZERO) for n in _complement(linear)]
    if len(angular) == 0:
        rows += [(pair_rows.PAIR_ROTATION, 0, tuple(n), _ZERO) for n in np.eye(3)]
    elif len(angular) == 1:
        rows += [(pair_rows.PAIR_COSINE, 0, tuple(n), tuple(angular[0])) for n in _complement(angular)]
        rows.append((pair_rows.PAIR_TWIST, len(linear), tuple(angular[0]), _ZERO))
    elif len(angular) == 2:
        rows.append((pair_rows.PAIR_COSINE, 0, tuple(angular[0]), tuple(angular[1])))
    dual = np.linalg.pinv(linear).T if len(linear) else linear
    rows += [(pair_rows.PAIR_SLIDE, number, tuple(n), _ZERO) for number, n in enumerate(dual)]
    return rows


def _complement(axes: np.ndarray) -> np.ndarray:
    """Orthonormal vectors (n, 3) normal to all axes (m, 3)."""
    if not len(axes):
        return np.eye(3)
    _, size, basis = np.linalg.svd(axes)
    return basis[int((size > 1.0e-6).sum()) :]


def _joint_limit_rows(model: Model) -> list[np.ndarray]:
    """Rows of the swing and twist limits of ball joints and of the limits of distance joints."""
    kind, parent, child = (getattr(model, f"joint_{name}").numpy() for name in ("type", "parent", "child"))
    wanted = {
        JointType.BALL: [
            (row_kind, 0, _X_AXIS, _ZERO) for row_kind in (pair_rows.PAIR_SWING, pair_rows.PAIR_TWIST)
        ],
        JointType.DISTANCE: [(pair_rows.PAIR_DISTANCE, 0, _ZERO, _ZERO)],
    }
    tables = []
    for joint_type, rows in wanted.items():
        joints = np.flatnonzero(kind == joint_type)
        tables.append(_pair_table(rows, joint=joints, parent=parent[joints], child=child[joints]))
    return tables


def contact_rows_of(model: Model) -> ContactRowView:
    """Make room for the rows of all contacts."""
    count, device = collision_plan_of(model).contact_count, model.device
    rows = ContactRowView()
    numbers = {"leaf": wp.vec2i, "friction": float, "softness": float, "soft": int}
    vectors = dict.fromkeys(("target", "impact", "timed", "impulse", "memory"), wp.vec3)
    vectors |= dict.fromkeys(("moving", "early", "delassus", "coupling"), wp.vec2)
    _zeros(rows, count, device, **numbers, **vectors)
    rows.B = zeros((count, _contact_row_length(model)), dtype=wp.vec3, device=device)
    return rows


def _contact_row_length(model: Model) -> int:
    """Entries of a contact's row: the chain of the first shape, then that of the second if any can move."""
    return (2 if collision_plan_of(model).two_sided else 1) * topology_of(model).max_depth


def spin_rows_of(model: Model) -> SpinRowView:
    """Make room for torsional and rolling friction if a shape of the model has it now."""
    coefficients = (model.shape_mu_torsion, model.shape_mu_rolling)
    spins = any(mu.size and np.any(mu.numpy() > 0.0) for mu in coefficients)
    count = collision_plan_of(model).contact_count if spins else 0
    rows = SpinRowView()
    vectors = dict.fromkeys(("target", "impulse", "memory"), wp.vec3)
    _zeros(
        rows, count, model.device, torsion=float, rolling=float, **vectors, delassus=wp.vec2, coupling=wp.vec2
    )
    rows.B = zeros((count, _contact_row_length(model)), dtype=wp.vec3, device=model.device)
    return rows


def envelope_of(model: Model, rows: RowsView, most: float) -> EnvelopeView:
    """Make room for the direct solve.

    Args:
        model: The model.
        rows: All rows.
        most: Largest sum of squared row lengths of a world's matrix.
    """
    device = model.device
    world = topology_of(model).view.dof_world.numpy()
    order = np.argsort(world, kind="stable")
    start = np.searchsorted(world[order], np.arange(model.world_count + 1))
    size = np.diff(start).astype(np.int64)
    # of all rows with that sum of squares, equal ones are the longest in total
    room = np.minimum(size * (size + 1) // 2, np.sqrt(size * most).astype(np.int64) + 1) * (most > 0.0)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order)) - np.repeat(start[:-1], size)
    env = EnvelopeView()
    env.world_start = put(start, dtype=int, device=device)
    env.dof = put(order, dtype=int, device=device)
    env.place = put(place, dtype=int, device=device)
    env.entry_start = put(np.concatenate(([0], np.cumsum(room))), dtype=int, device=device)
    env.L = zeros(int(room.sum()), dtype=wp.float64, device=device)
    env.x = zeros(len(order), dtype=wp.float64, device=device)
    _zeros(env, len(order), device, first=int, row=int, z=float, kept_z=float)
    env.pause = zeros(model.world_count, dtype=int, device=device)
    env.kept_dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
    env.kept_pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
    env.kept_contact = zeros(len(rows.contact.impulse), dtype=wp.vec3, device=device)
    env.kept_spin = zeros(len(rows.spin.impulse), dtype=wp.vec3, device=device)
    env.kept_share = zeros(len(rows.contact.impulse), dtype=float, device=device)
    return env

"""Rows of the model's constraints: loop joints, distances, couplings."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.fields.presence import acting_constraints
from newtonsim.kernels.views import pair_rows
from newtonsim.scene.allocation import zeros
from newtonsim.scene.enums import ConstraintType
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of

ZERO = (0.0, 0.0, 0.0)

PAIR_ROW = np.dtype(
    [(name, np.int32) for name in ("kind", "constraint", "joint", "index", "parent", "child")]
    + [("dofs", np.int32, 2), ("axis0", np.float32, 3), ("axis1", np.float32, 3)]
)
"""A row between two bodies, or two dofs: what it is, and which element of the model it belongs to."""


def pair_table(rows: list[tuple], **elements: np.ndarray) -> np.ndarray:
    """Return the same rows for each of n elements, element by element, as PAIR_ROW, shape (n * len(rows),).

    Args:
        rows: (kind, number of the axis, axis in frame 0, axis in frame 1) of each row.
        elements: Other fields of PAIR_ROW by element (n,); "index" is that of the element's first axis.
    """
    count = len(elements["parent"])
    table = np.zeros((count, len(rows)), PAIR_ROW)
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


def constraint_row_table(model: Model) -> np.ndarray:
    """Return the rows of the constraints in their order, as PAIR_ROW."""
    if not model.constraint_count:
        return np.zeros(0, PAIR_ROW)
    names = ("type", "parent", "child", "axis_start", "axis_dim", "coupled_axes", "axis")
    kind, parent, child, start, dim, coupled, axis = (
        getattr(model, f"constraint_{name}").numpy() for name in names
    )
    dof_axis = topology_of(model).view.dof_axis.numpy()
    dof_of_axis = np.full(model.joint_axis_count + 1, -1)
    dof_of_axis[dof_axis[dof_axis >= 0]] = np.flatnonzero(dof_axis >= 0)
    tables = [np.zeros(0, PAIR_ROW)]
    for members, rows in _row_patterns(kind, start, dim, axis):
        table = pair_table(
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
    """Group constraints whose rows are equal except for the bodies; copies of a robot share theirs."""
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
        rows_of: dict[int, list[tuple]] = {
            ConstraintType.COUPLING: [(pair_rows.PAIR_COUPLING, 0, ZERO, ZERO)],
            ConstraintType.DISTANCE: [(pair_rows.PAIR_DISTANCE, 0, ZERO, ZERO)],
        }
        rows = rows_of.get(int(kind[k]))
        if rows is None:
            rows = loop_rows(axes[k, :linear].astype(float), axes[k, linear : linear + angular].astype(float))
        result.append((members, rows))
    return result


def loop_rows(linear: np.ndarray, angular: np.ndarray) -> list[tuple]:
    """Rows (kind, axis number, axis in frame 0, axis in frame 1) of a joint with the given free axes.

    The directions that the axes leave over are held: all others of the offset; the whole rotation, or the
    direction of a single axis in both bodies, or the angle between the first and the last of two axes.
    """
    rows = [(pair_rows.PAIR_OFFSET, 0, tuple(n), ZERO) for n in _complement(linear)]
    if len(angular) == 0:
        rows += [(pair_rows.PAIR_ROTATION, 0, tuple(n), ZERO) for n in np.eye(3)]
    elif len(angular) == 1:
        rows += [(pair_rows.PAIR_COSINE, 0, tuple(n), tuple(angular[0])) for n in _complement(angular)]
        rows.append((pair_rows.PAIR_TWIST, len(linear), tuple(angular[0]), ZERO))
    elif len(angular) == 2:
        rows.append((pair_rows.PAIR_COSINE, 0, tuple(angular[0]), tuple(angular[1])))
    dual = np.linalg.pinv(linear).T if len(linear) else linear
    rows += [(pair_rows.PAIR_SLIDE, number, tuple(n), ZERO) for number, n in enumerate(dual)]
    return rows


def _complement(axes: np.ndarray) -> np.ndarray:
    """Orthonormal vectors (n, 3) normal to all axes (m, 3)."""
    if not len(axes):
        return np.eye(3)
    _, size, basis = np.linalg.svd(axes)
    return basis[int((size > 1.0e-6).sum()) :]


def loop_view(model: Model) -> pair_rows.LoopView:
    """Return the arrays of the model's constraints; called for each step, since they may be replaced."""
    view = pair_rows.LoopView()
    view.parent = model.constraint_parent
    view.child = model.constraint_child
    view.X_p = model.constraint_X_p
    view.X_c = model.constraint_X_c
    view.enabled = acting_constraints(model)
    view.max_force = model.constraint_max_force
    view.recovery_time = model.constraint_recovery_time
    view.linear_compliance = model.constraint_linear_compliance
    view.angular_compliance = model.constraint_angular_compliance
    view.distance_lower = model.constraint_distance_lower
    view.distance_upper = model.constraint_distance_upper
    view.coefficients = model.constraint_coefficients
    view.limit_lower = model.constraint_limit_lower
    view.limit_upper = model.constraint_limit_upper
    view.joint_twist_lower = model.joint_twist_lower
    view.joint_twist_upper = model.joint_twist_upper
    view.joint_swing_limit = model.joint_swing_limit
    view.joint_distance_lower = model.joint_distance_lower
    view.joint_distance_upper = model.joint_distance_upper
    # what FeatherstoneSolver alone has parameters by reference for; tapes want every array of a struct
    view.ref, view.imp = model.constraint_solref, model.constraint_solimp
    view.turn = model.constraint_torque_scale
    view.light, view.weight = model.cached("rows without references", _no_weights)
    view.heavy = view.qd = view.dof_weight = view.light
    view.friction = model.joint_friction
    view.friction_ref, view.friction_imp = model.joint_friction_solref, model.joint_friction_solimp
    return view


def _no_weights(model: Model) -> tuple[wp.array, wp.array]:
    device = model.device
    return zeros(0, dtype=float, device=device), zeros(0, dtype=wp.vec3, device=device)

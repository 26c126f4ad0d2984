"""Buffers of the constraint stage: which rows a model can have, and where they stand."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.enums import ConstraintType, JointType
from newtonsim.kernels import constraint_rows, pair_rows
from newtonsim.kernels.constraint_rows import DofRowView
from newtonsim.kernels.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.envelope import EnvelopeView
from newtonsim.kernels.pair_rows import PairRowView
from newtonsim.kernels.rows import RowsView
from newtonsim.model import Model

_ZERO = (0.0, 0.0, 0.0)
_X_AXIS = (1.0, 0.0, 0.0)


def _zeros(view: object, count: int, device: wp.Device, **fields: type) -> None:
    for name, dtype in fields.items():
        setattr(view, name, wp.zeros(count, dtype=dtype, device=device))


def dof_rows(model: Model) -> DofRowView:
    """Find every dof that can have a row of its own, grouped by world."""
    view = model.topology.view
    # every axis is a candidate whatever its limits are now: their values may change between steps
    with_axis = np.flatnonzero(view.dof_axis.numpy() >= 0)
    candidates = {
        constraint_rows.ROW_LIMIT: with_axis,
        constraint_rows.ROW_DRIVE: with_axis,
        constraint_rows.ROW_FRICTION: np.arange(model.joint_dof_count),
    }
    dof = np.concatenate(list(candidates.values()))
    kind = np.repeat(list(candidates), [len(dofs) for dofs in candidates.values()])
    world = view.dof_world.numpy()[dof]
    order = np.lexsort((kind, world))
    count = len(dof)

    rows = DofRowView()
    device = model.device
    rows.source_kind = wp.array(kind[order], dtype=int, device=device)
    rows.source_dof = wp.array(dof[order], dtype=int, device=device)
    rows.world = wp.array(world[order], dtype=int, device=device)
    rows.world_start = _starts(world[order], model)
    rows.world_count = wp.zeros(model.world_count, dtype=int, device=device)
    rows.source = wp.zeros(count, dtype=int, device=device)
    numbers = ("lower", "upper", "target_lower", "target_upper", "softness", "delassus", "impulse", "memory")
    _zeros(rows, count, device, **dict.fromkeys(numbers, float))
    rows.B = wp.zeros((count, model.topology.max_depth), dtype=float, device=device)
    return rows


def _starts(world: np.ndarray, model: Model) -> wp.array:
    """First entry of each world in a sorted list, and the end."""
    start = np.searchsorted(world, np.arange(model.world_count + 1))
    return wp.array(start, dtype=int, device=model.device)


class _PairList:
    """Collects rows between two bodies or dofs; every entry is one row."""

    def __init__(self, model: Model):
        view = model.topology.view
        self.body_leaf = np.append(view.body_leaf.numpy(), -1)
        self.dof_world = view.dof_world.numpy()
        self.rows: list[tuple] = []

    def add_bodies(
        self,
        parent: int,
        child: int,
        kind: int,
        constraint: int = -1,
        joint: int = -1,
        index: int = 0,
        axis0=_ZERO,
        axis1=_ZERO,
    ) -> None:
        """Add a row unless no dof moves either body."""
        leaf = max(self.body_leaf[parent], self.body_leaf[child])
        if leaf >= 0:
            self.rows.append((self.dof_world[leaf], kind, constraint, joint, index, (-1, -1), axis0, axis1))

    def add_dofs(self, dofs: tuple[int, int], constraint: int) -> None:
        """Add a coupling."""
        world = self.dof_world[dofs[0]]
        self.rows.append((world, pair_rows.PAIR_COUPLING, constraint, -1, 0, dofs, _ZERO, _ZERO))


def pair_rows_of(model: Model) -> PairRowView:
    """Lay out the rows of constraints, ball joints and distance joints, grouped by world."""
    found = _PairList(model)
    _add_constraints(model, found)
    _add_joint_limits(model, found)
    columns = [np.array(column) for column in zip(*found.rows)] or [np.zeros(0, int)] * 8
    world, kind, constraint, joint, index, dofs, axis0, axis1 = columns
    order = np.argsort(world, kind="stable")
    count, device = len(order), model.device

    rows = PairRowView()
    rows.world_start = _starts(world[order], model)
    fields = {"world": world, "kind": kind, "constraint": constraint, "joint": joint, "index": index}
    for name, values in fields.items():
        setattr(rows, name, wp.array(values[order], dtype=int, device=device))
    rows.dofs = wp.array(dofs[order].reshape(-1, 2).astype(np.int32), dtype=wp.vec2i, device=device)
    for name, values in (("axis0", axis0), ("axis1", axis1)):
        rows_of_axes = values[order].reshape(-1, 3).astype(np.float32)
        setattr(rows, name, wp.array(rows_of_axes, dtype=wp.vec3, device=device))
    numbers = ("lower", "upper", "target_lower", "target_upper", "softness", "delassus", "impulse")
    vectors = dict.fromkeys(("force", "torque", "point"), wp.vec3)
    _zeros(rows, count, device, leaf=wp.vec2i, **dict.fromkeys(numbers, float), **vectors)
    rows.B = wp.zeros((count, 2 * model.topology.max_depth), dtype=float, device=device)
    return rows


def _add_constraints(model: Model, found: _PairList) -> None:
    if not model.constraint_count:
        return
    names = ("type", "parent", "child", "axis_start", "axis_dim", "coupled_axes", "axis")
    kind, parent, child, start, dim, coupled, axis = (
        getattr(model, f"constraint_{name}").numpy() for name in names
    )
    dof_axis = model.topology.view.dof_axis.numpy()
    dof_of_axis = np.full(model.joint_axis_count + 1, -1)
    dof_of_axis[dof_axis[dof_axis >= 0]] = np.flatnonzero(dof_axis >= 0)
    known: dict[bytes, list[tuple]] = {}
    for k in range(model.constraint_count):
        if kind[k] == ConstraintType.COUPLING:
            found.add_dofs(tuple(dof_of_axis[coupled[k]]), k)
        elif kind[k] == ConstraintType.DISTANCE:
            found.add_bodies(parent[k], child[k], pair_rows.PAIR_DISTANCE, constraint=k)
        else:
            linear, angular = dim[k]
            axes = axis[start[k] : start[k] + linear + angular]
            pattern = bytes(dim[k]) + axes.tobytes()
            if pattern not in known:
                known[pattern] = _loop_rows(axes[:linear].astype(float), axes[linear:].astype(float))
            for row_kind, number, axis0, axis1 in known[pattern]:
                index = start[k] + number
                found.add_bodies(
                    parent[k], child[k], row_kind, constraint=k, index=index, axis0=axis0, axis1=axis1
                )


def _loop_rows(linear: np.ndarray, angular: np.ndarray) -> list[tuple]:
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


def _add_joint_limits(model: Model, found: _PairList) -> None:
    """Rows of the swing and twist limits of ball joints and of the limits of distance joints."""
    kind, parent, child = (getattr(model, f"joint_{name}").numpy() for name in ("type", "parent", "child"))
    for j in np.flatnonzero(kind == JointType.BALL).tolist():
        for row_kind in (pair_rows.PAIR_SWING, pair_rows.PAIR_TWIST):
            found.add_bodies(parent[j], child[j], row_kind, joint=j, axis0=_X_AXIS)
    for j in np.flatnonzero(kind == JointType.DISTANCE).tolist():
        found.add_bodies(parent[j], child[j], pair_rows.PAIR_DISTANCE, joint=j)


def contact_rows_of(model: Model) -> ContactRowView:
    """Make room for the rows of all contacts."""
    count, device = model.collision_plan.contact_count, model.device
    rows = ContactRowView()
    numbers = {"leaf": wp.vec2i, "friction": float, "softness": float}
    vectors = dict.fromkeys(("target", "impact", "impulse", "memory"), wp.vec3)
    _zeros(rows, count, device, **numbers, **vectors, delassus=wp.vec2, coupling=wp.vec2)
    rows.B = wp.zeros((count, 2 * model.topology.max_depth), dtype=wp.vec3, device=device)
    return rows


def spin_rows_of(model: Model) -> SpinRowView:
    """Make room for torsional and rolling friction if a shape of the model has it now."""
    coefficients = (model.shape_mu_torsion, model.shape_mu_rolling)
    spins = any(mu.size and np.any(mu.numpy() > 0.0) for mu in coefficients)
    count = model.collision_plan.contact_count if spins else 0
    rows = SpinRowView()
    vectors = dict.fromkeys(("target", "impulse", "memory"), wp.vec3)
    _zeros(
        rows, count, model.device, torsion=float, rolling=float, **vectors, delassus=wp.vec2, coupling=wp.vec2
    )
    rows.B = wp.zeros((count, 2 * model.topology.max_depth), dtype=wp.vec3, device=model.device)
    return rows


def envelope_of(model: Model, rows: RowsView, most: float) -> EnvelopeView:
    """Make room for the direct solve.

    Args:
        model: The model.
        rows: All rows.
        most: Largest sum of squared row lengths of a world's matrix.
    """
    device = model.device
    world = model.topology.view.dof_world.numpy()
    order = np.argsort(world, kind="stable")
    start = np.searchsorted(world[order], np.arange(model.world_count + 1))
    size = np.diff(start).astype(np.int64)
    # of all rows with that sum of squares, equal ones are the longest in total
    room = np.minimum(size * (size + 1) // 2, np.sqrt(size * most).astype(np.int64) + 1) * (most > 0.0)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order)) - np.repeat(start[:-1], size)
    env = EnvelopeView()
    env.world_start = wp.array(start, dtype=int, device=device)
    env.dof = wp.array(order, dtype=int, device=device)
    env.place = wp.array(place, dtype=int, device=device)
    env.entry_start = wp.array(np.concatenate(([0], np.cumsum(room))), dtype=int, device=device)
    env.L = wp.zeros(int(room.sum()), dtype=wp.float64, device=device)
    env.x = wp.zeros(len(order), dtype=wp.float64, device=device)
    _zeros(env, len(order), device, first=int, row=int, z=float, kept_z=float)
    env.pause = wp.zeros(model.world_count, dtype=int, device=device)
    env.kept_dof = wp.zeros_like(rows.dof.impulse)
    env.kept_pair = wp.zeros_like(rows.pair.impulse)
    env.kept_contact = wp.zeros_like(rows.contact.impulse)
    env.kept_spin = wp.zeros_like(rows.spin.impulse)
    return env

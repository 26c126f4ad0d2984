"""Buffers of the constraint stage: possible rows of a model, and their places."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.constraints import dof_rows as constraints_dof_rows
from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView, WorldDofsView
from newtonsim.kernels.views import pair_rows
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.joint_types import is_floating
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.constraint_rows import ZERO, constraint_row_table, pair_table
from newtonsim.solvers.tendons import tendon_row_table

_X_AXIS = (1.0, 0.0, 0.0)


def dof_rows(model: Model, servos: bool) -> DofRowView:
    """Find every dof that can have its own row, grouped by world, with or without servos."""
    view = topology_of(model).view
    # every axis is a candidate regardless of its current limits, whose values may change between steps
    with_axis = np.flatnonzero(view.dof_axis.numpy() >= 0)
    candidates = {
        constraints_dof_rows.ROW_LIMIT: with_axis,
        constraints_dof_rows.ROW_DRIVE: with_axis,
        constraints_dof_rows.ROW_FRICTION: np.setdiff1d(
            np.arange(model.joint_dof_count), _slowed_as_bodies(model)
        ),
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
    rows.source_limit = put(_limits_of_drives(kind[order], dof[order]), dtype=int, device=device)
    rows.place = put(np.full(count, -1), dtype=int, device=device)
    rows.world = put(world[order], dtype=int, device=device)
    rows.world_start = _starts(world[order], model)
    rows.world_count = zeros(model.world_count, dtype=int, device=device)
    rows.source = zeros(count, dtype=int, device=device)
    rows.lower = zeros(count, dtype=float, device=device)
    rows.upper = zeros(count, dtype=float, device=device)
    rows.target_lower = zeros(count, dtype=float, device=device)
    rows.target_upper = zeros(count, dtype=float, device=device)
    rows.softness = zeros(count, dtype=float, device=device)
    rows.delassus = zeros(count, dtype=float, device=device)
    rows.impulse = zeros(count, dtype=float, device=device)
    rows.memory = zeros(count, dtype=float, device=device)
    rows.B = zeros((count, topology_of(model).max_depth), dtype=float, device=device)
    return rows


def _limits_of_drives(kind: np.ndarray, dof: np.ndarray) -> np.ndarray:
    """Candidate for the limits of the dof of each drive, -1 for other candidates."""
    limits = np.flatnonzero(kind == constraints_dof_rows.ROW_LIMIT)
    drives = np.flatnonzero(kind == constraints_dof_rows.ROW_DRIVE)
    of_dof = np.full(dof.max(initial=-1) + 1, -1)
    of_dof[dof[limits]] = limits
    found = np.full(len(dof), -1)
    found[drives] = of_dof[dof[drives]]
    return found


def _servo_dofs(model: Model) -> np.ndarray:
    """All dofs except those of free bodies."""
    kinds = model.joint_type.numpy()[topology_of(model).dof_joint]
    return np.flatnonzero((kinds != JointType.FREE) & (kinds != JointType.DISTANCE))


def _starts(world: np.ndarray, model: Model) -> wp.array:
    """First entry of each world in a sorted list, and the end."""
    start = np.searchsorted(world, np.arange(model.world_count + 1))
    return put(start, dtype=int, device=model.device)


def push_at_own_anchors(rows: PairRowView, model: Model) -> None:
    """Let loop joints push each body at its own anchor, see `FeatherstoneSolver.push_at_own_anchors`."""
    kind, constraint = rows.kind.numpy(), rows.constraint.numpy()
    dims = np.append(model.constraint_axis_dim.numpy(), [[0, 0]], axis=0)[constraint]
    of_joints = np.append(model.constraint_type.numpy() == ConstraintType.LOOP, False)[constraint]
    offsets = of_joints & (kind == pair_rows.PAIR_OFFSET)
    kind[offsets & (dims[:, 0] == 0)] = pair_rows.PAIR_SPAN
    kind[offsets & (dims[:, 0] > 0)] = pair_rows.PAIR_ACROSS
    kind[of_joints & (kind == pair_rows.PAIR_ROTATION)] = pair_rows.PAIR_ANGLES
    rows.kind.assign(kind)


def pair_rows_of(model: Model) -> PairRowView:
    """Lay out the rows of constraints, ball joints and distance joints, grouped by world."""
    tendons = tendon_row_table(model)
    joints = [*_joint_limit_rows(model), _friction_rows(model)]
    table = np.concatenate([constraint_row_table(model), *joints, tendons])
    view = topology_of(model).view
    leaf_of, dof_world = np.append(view.body_leaf.numpy(), -1), view.dof_world.numpy()
    leaf = np.maximum(leaf_of[table["parent"]], leaf_of[table["child"]])
    by_dofs = np.isin(table["kind"], (pair_rows.PAIR_COUPLING, pair_rows.PAIR_TENDON))
    dof = np.where(by_dofs, table["dofs"][:, 0], leaf)
    table, dof = table[dof >= 0], dof[dof >= 0]  # nothing moves either body
    world = dof_world[dof]
    order = np.argsort(world, kind="stable")
    table, world = table[order], world[order]
    count, device = len(table), model.device

    rows = PairRowView()
    rows.world_start = _starts(world, model)
    rows.world = put(world, dtype=int, device=device)
    rows.kind = put(table["kind"], dtype=int, device=device)
    rows.constraint = put(table["constraint"], dtype=int, device=device)
    rows.joint = put(table["joint"], dtype=int, device=device)
    rows.index = put(table["index"], dtype=int, device=device)
    rows.dofs = put(table["dofs"], dtype=wp.vec2i, device=device)
    rows.axis0 = put(table["axis0"], dtype=wp.vec3, device=device)
    rows.axis1 = put(table["axis1"], dtype=wp.vec3, device=device)
    rows.leaf = zeros(count, dtype=wp.vec2i, device=device)
    rows.lower = zeros(count, dtype=float, device=device)
    rows.upper = zeros(count, dtype=float, device=device)
    rows.target_lower = zeros(count, dtype=float, device=device)
    rows.target_upper = zeros(count, dtype=float, device=device)
    rows.softness = zeros(count, dtype=float, device=device)
    rows.delassus = zeros(count, dtype=float, device=device)
    rows.push = zeros(count, dtype=float, device=device)
    rows.bend = zeros(count, dtype=float, device=device)
    rows.turn = zeros(count, dtype=float, device=device)
    rows.free = zeros(count, dtype=float, device=device)
    rows.centre = zeros(count, dtype=float, device=device)
    rows.mass = zeros(count, dtype=float, device=device)
    rows.impulse = zeros(count, dtype=float, device=device)
    rows.force = zeros(count, dtype=wp.vec3, device=device)
    rows.torque = zeros(count, dtype=wp.vec3, device=device)
    rows.point = zeros(count, dtype=wp.vec3, device=device)
    rows.point0 = zeros(count, dtype=wp.vec3, device=device)
    rows.B = zeros((count, 2 * topology_of(model).max_depth), dtype=float, device=device)
    return rows


def _joint_limit_rows(model: Model) -> list[np.ndarray]:
    """Rows of the swing and twist limits of ball joints and of the limits of distance joints."""
    kind, parent, child = (a.numpy() for a in (model.joint_type, model.joint_parent, model.joint_child))
    patterns = {
        JointType.BALL: [
            (row_kind, 0, _X_AXIS, ZERO) for row_kind in (pair_rows.PAIR_SWING, pair_rows.PAIR_TWIST)
        ],
        JointType.DISTANCE: [(pair_rows.PAIR_DISTANCE, 0, ZERO, ZERO)],
    }
    tables = []
    for joint_type, rows in patterns.items():
        joints = np.flatnonzero(kind == joint_type)
        tables.append(pair_table(rows, joint=joints, parent=parent[joints], child=child[joints]))
    return tables


def _slowed_as_bodies(model: Model) -> np.ndarray:
    """Dofs of ball joints, and of floating ones at roots, that have dry friction when this is called."""
    kind: np.ndarray = model.joint_type.numpy()[topology_of(model).dof_joint]
    parent: np.ndarray = model.joint_parent.numpy()[topology_of(model).dof_joint]
    turns_or_floats = (kind == JointType.BALL) | (is_floating(kind) & (parent < 0))
    return np.flatnonzero(turns_or_floats & (model.joint_friction.numpy() > 0.0))


def _friction_rows(model: Model) -> np.ndarray:
    """Rows of the dry friction of these dofs, see `kernels.constraints.pair_rows`."""
    dofs = _slowed_as_bodies(model)
    joints = topology_of(model).dof_joint[dofs]
    place = dofs - model.joint_qd_start.numpy()[joints]
    table = pair_table(
        [(0, 0, ZERO, ZERO)],
        joint=joints,
        index=dofs,
        parent=model.joint_parent.numpy()[joints],
        child=model.joint_child.numpy()[joints],
    )
    table["kind"] = np.where(place < 3, pair_rows.PAIR_FRICTION_TURN, pair_rows.PAIR_FRICTION_SHIFT)
    table["axis0"] = np.eye(3)[place % 3]
    return table


def contact_rows_of(model: Model) -> ContactRowView:
    """Make room for the rows of all contacts."""
    count, device = collision_plan_of(model).contact_count, model.device
    rows = ContactRowView()
    rows.leaf = zeros(count, dtype=wp.vec2i, device=device)
    rows.place = zeros(count, dtype=wp.vec3, device=device)
    rows.friction = zeros(count, dtype=float, device=device)
    rows.softness = zeros(count, dtype=float, device=device)
    rows.slip_width = zeros(count, dtype=float, device=device)
    rows.weight = zeros(count, dtype=wp.vec2, device=device)
    rows.push_share = zeros(count, dtype=float, device=device)
    rows.push = zeros(count, dtype=float, device=device)
    rows.soft = zeros(count, dtype=int, device=device)
    rows.target = zeros(count, dtype=wp.vec3, device=device)
    rows.impact = zeros(count, dtype=wp.vec3, device=device)
    rows.first_impact = zeros(count, dtype=wp.vec3, device=device)
    rows.impulse = zeros(count, dtype=wp.vec3, device=device)
    rows.memory = zeros(count, dtype=wp.vec3, device=device)
    rows.moving = zeros(count, dtype=wp.vec4, device=device)
    rows.slip_before_impact = zeros(count, dtype=wp.vec2, device=device)
    rows.delassus = zeros(count, dtype=wp.vec2, device=device)
    rows.coupling = zeros(count, dtype=wp.vec2, device=device)
    rows.stretch = zeros(count, dtype=wp.vec2, device=device)
    rows.B = zeros((count, _contact_row_length(model)), dtype=wp.vec3, device=device)
    return rows


def _contact_row_length(model: Model) -> int:
    """Entries of a contact's row: the chain of the first shape, then that of the second if any can move."""
    return (2 if collision_plan_of(model).two_sided else 1) * topology_of(model).max_depth


def spin_rows_of(model: Model) -> SpinRowView:
    """Make room for torsional and rolling friction if a shape of the model currently has it."""
    coefficients = (model.shape_mu_torsion, model.shape_mu_rolling)
    spins = any(mu.size and np.any(mu.numpy() > 0.0) for mu in coefficients)
    count, device = collision_plan_of(model).contact_count if spins else 0, model.device
    rows = SpinRowView()
    rows.torsion = zeros(count, dtype=float, device=device)
    rows.rolling = zeros(count, dtype=float, device=device)
    rows.target = zeros(count, dtype=wp.vec3, device=device)
    rows.impulse = zeros(count, dtype=wp.vec3, device=device)
    rows.memory = zeros(count, dtype=wp.vec3, device=device)
    rows.delassus = zeros(count, dtype=wp.vec2, device=device)
    rows.coupling = zeros(count, dtype=wp.vec2, device=device)
    rows.B = zeros((count, _contact_row_length(model)), dtype=wp.vec3, device=device)
    return rows


def world_dofs(model: Model) -> WorldDofsView:
    """Sort the degrees of freedom by worlds."""
    device = model.device
    world = topology_of(model).view.dof_world.numpy()
    order = np.argsort(world, kind="stable")
    start = np.searchsorted(world[order], np.arange(model.world_count + 1))
    dofs = WorldDofsView()
    dofs.world_start = put(start, dtype=int, device=device)
    dofs.dof = put(order, dtype=int, device=device)
    return dofs


def gather_impulses(rows: RowsView) -> None:
    """Set `rows.impulse` to the impulses of all families."""
    rows.impulse.dof, rows.impulse.pair = rows.dof.impulse, rows.pair.impulse
    rows.impulse.contact, rows.impulse.spin = rows.contact.impulse, rows.spin.impulse


def impulses_of(model: Model, rows: RowsView) -> ImpulseView:
    """Make room for a solution of all rows."""
    device = model.device
    view = ImpulseView()
    view.dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.contact = zeros(len(rows.contact.impulse), dtype=wp.vec3, device=device)
    view.spin = zeros(len(rows.spin.impulse), dtype=wp.vec3, device=device)
    view.z = zeros(model.joint_dof_count, dtype=float, device=device)
    return view

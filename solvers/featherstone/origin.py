"""Cause of a non-finite tree of FeatherstoneSolver, from the buffers after its first such step."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.energy_coordinates import FROM_FORCES
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.pair_rows import PAIR_TENDON
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.nonfinite import Origin
from newtonsim.solvers.tendons import tendon_layout


def explain(origin: Origin, smooth: SmoothStage, constraints: ConstraintStage) -> str:
    """Return the known cause, to follow the name of the tree; waits for the device.

    Args:
        origin: Where it started.
        smooth: The smooth stage. After another step, its buffers no longer hold the cause, and no joint or
            row is named.
        constraints: The constraint stage, likewise.
    """
    if origin.kind != "tree":
        return ""
    if origin.cause == int(FROM_FORCES):
        joint = _joint_of_forces(smooth, constraints.model, origin) if origin.age == 1 else None
        return ", caused by its state, forces or inputs" + (f" at joint '{joint}'" if joint else "")
    row = _row(constraints, origin.world) if origin.age == 1 else None
    return ", caused by its constraints" + (f", {row}" if row else "")


def _joint_of_forces(smooth: SmoothStage, model: Model, origin: Origin) -> str | None:
    """The last joint on the path from the root whose forces are not finite; None if all are finite."""
    view, topology = topology_of(model).view, topology_of(model)
    start = view.dof_start.numpy()
    dofs = view.dof.numpy()[start[origin.element] : start[origin.element + 1]]
    broken = dofs[~np.isfinite(smooth.mid.tau.numpy()[dofs])]
    if not len(broken):
        return None
    return model.joint_key[topology.dof_joint[broken[np.argmax(topology.dof_depth[broken])]]]


def _row(stage: ConstraintStage, world: int) -> str | None:
    """The first row of a world whose numbers are not finite; None if there is none."""
    model, rows = stage.model, stage.rows
    contacts = stage.last_contacts
    first = int(contacts.world_start.numpy()[world])
    places = range(first, first + int(contacts.world_count.numpy()[world]))
    place = _first_broken(places, rows.contact.target, rows.contact.delassus, rows.contact.impulse)
    if place is not None:
        shapes = (getattr(contacts, f"rigid_contact_shape{side}").numpy()[place] for side in (0, 1))
        return "at the contact of shapes " + " and ".join(f"'{model.shape_key[s]}'" for s in shapes)
    return _dof_row(rows, stage, world) or _pair_row(rows, stage, world)


def _dof_row(rows: RowsView, stage: ConstraintStage, world: int) -> str | None:
    if not stage.dof_count:
        return None
    first = int(rows.dof.world_start.numpy()[world])
    places = range(first, first + int(rows.dof.world_count.numpy()[world]))
    place = _first_broken(places, rows.dof.target_lower, rows.dof.delassus, rows.dof.impulse)
    if place is None:
        return None
    dof = rows.dof.source_dof.numpy()[rows.dof.source.numpy()[place]]
    return f"at a row of joint '{stage.model.joint_key[topology_of(stage.model).dof_joint[dof]]}'"


def _pair_row(rows: RowsView, stage: ConstraintStage, world: int) -> str | None:
    if not stage.pair_count:
        return None
    places = range(*rows.pair.world_start.numpy()[world : world + 2].tolist())
    place = _first_broken(places, rows.pair.target_lower, rows.pair.delassus, rows.pair.impulse)
    if place is None:
        return None
    if rows.pair.kind.numpy()[place] == PAIR_TENDON:
        number = tendon_layout(stage.model).row_tendons[rows.pair.index.numpy()[place], 0]
        return f"at a row of tendon '{stage.model.tendon_key[number]}'"
    kind = "constraint" if rows.pair.constraint.numpy()[place] >= 0 else "joint"
    key = getattr(stage.model, f"{kind}_key")[getattr(rows.pair, kind).numpy()[place]]
    return f"at a row of {kind} '{key}'"


def _first_broken(places: range, *arrays: wp.array) -> int | None:
    """The first of the places at which one of the arrays is not finite."""
    for array in arrays if len(places) else ():
        values = array.numpy()[places.start : places.stop]
        broken = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        if len(broken):
            return places.start + int(broken[0])
    return None

"""The arrays with respect to which a rollout can differentiate, their names, and the world of each entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.errors import NewtonsimError, NotDifferentiableError, did_you_mean
from newtonsim.fields.table import FIELDS, array_name
from newtonsim.scene.allocation import put
from newtonsim.scene.arrays import CONTROL_ARRAYS, MODEL_ARRAYS, STATE_ARRAYS, ArraySpec

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

FORCES = ("particle_f", "body_f")
"""Arrays of a state that steps read and do not write: those of the first state act in all steps."""

_MATERIALS = "shape_materials."


@dataclass(frozen=True)
class Place:
    """The meaning of a name such as "state.joint_q".

    Attributes:
        name: The whole name.
        owner: "state", "control" or "model".
        attribute: The rest of the name.
        per: Kind of element with one entry each, see `newtonsim.scene.arrays`, or "world".
    """

    name: str
    owner: str
    attribute: str
    per: str


_CONTROL = {spec.name: spec for spec in CONTROL_ARRAYS}
_STATE = {spec.name: spec for spec in STATE_ARRAYS}
_MODEL = {spec.name: spec for spec in MODEL_ARRAYS}
_OWNERS: dict[str, dict[str, ArraySpec]] = {"state": _STATE, "control": _CONTROL, "model": _MODEL}


def find_place(name: str) -> Place:
    """Read a name.

    Args:
        name: Name, such as "state.joint_q", "control.joint_act", "model.body_mass",
            "model.shape_materials.mu", or one of `newtonsim.fields.FIELDS`, such as "joints.q" and
            "bodies.mass".

    Raises:
        NewtonsimError: No array has that name.
        NotDifferentiableError: The array takes no part in differentiation.
    """
    owner, _, attribute = array_name(str(name)).partition(".")
    specs = _OWNERS.get(owner)
    if specs is None or not attribute:
        choice = [full for owner in _OWNERS for full in _names(owner)]
        unowned = [full for full in choice if full.endswith(f".{name}")]
        raise NewtonsimError(
            "wrt: expected names that start with 'state.', 'control.' or 'model.', or fields such as "
            f"'bodies.mass', got {name!r}{did_you_mean(name, unowned or [*FIELDS, *choice])}"
        )
    if attribute == "gravity_vec":
        return Place(name, owner, attribute, "world")
    key = attribute
    if owner == "model" and attribute.startswith(_MATERIALS):
        key = "shape_material_" + attribute.removeprefix(_MATERIALS)
    spec = specs.get(key)
    if spec is None or (spec.host and key == attribute):
        choice = _names(owner)
        nearest = did_you_mean(name, choice)
        raise NewtonsimError(f"wrt: there is no array {name!r}; there are {', '.join(choice)}{nearest}")
    if not spec.grad:
        raise NotDifferentiableError(f"wrt: {name} has no gradient")
    return Place(name, owner, attribute, spec.per)


def _names(owner: str) -> list[str]:
    """Names of what can be differentiated with respect to."""
    specs = [spec for spec in _OWNERS[owner].values() if spec.grad]
    names = [f"{owner}.{spec.name}" for spec in specs if not spec.host]
    if owner == "model":
        materials = (spec.name for spec in specs if spec.name.startswith("shape_material_"))
        names += [f"model.{_MATERIALS}{name.removeprefix('shape_material_')}" for name in materials]
        names.append("model.gravity_vec")
    return names


def find_array(place: Place, holder: object) -> wp.array:
    """Return the array that a name refers to.

    Args:
        place: The name.
        holder: The model, state or control.

    Raises:
        NewtonsimError: The model has no such elements.
    """
    found = holder
    for part in place.attribute.split("."):
        found = getattr(found, part, None)
    if found is None or not found.size:
        raise NewtonsimError(f"{place.name}: the model has none")
    return found


def worlds_of(model: Model, per: str) -> np.ndarray:
    """World of each entry of an array, -1 for what worlds share, int32.

    Args:
        model: The model.
        per: Kind of element with one entry each, see `newtonsim.scene.arrays`.

    Raises:
        NewtonsimError: Entries of this kind do not belong to worlds.
    """
    of_element = {"body", "joint", "shape", "particle"}
    if per in of_element:
        return getattr(model, f"{per}_world").numpy().astype(np.int32)
    if per in ("coord", "dof", "axis"):
        joint_world = worlds_of(model, "joint")
        start = {"coord": model.joint_q_start, "dof": model.joint_qd_start}.get(per, model.joint_axis_start)
        total = {"coord": model.joint_coord_count, "dof": model.joint_dof_count}.get(
            per, model.joint_axis_count
        )
        bounds = np.append(start.numpy()[: model.joint_count], total)
        return np.repeat(joint_world, np.diff(bounds)).astype(np.int32)
    corners = {"tri": "tri_indices", "tet": "tet_indices", "spring": "spring_indices", "edge": "edge_indices"}
    if per in corners:
        count = getattr(model, f"{per}_count")
        of_particle = worlds_of(model, "particle")
        # the last corner: the first ones of border edges are missing
        return of_particle[getattr(model, corners[per]).numpy().reshape(count, -1)[:, -1]]
    if per in ("tendon", "tendon_element"):
        of_axis, of_body = (np.append(worlds_of(model, kind), -1) for kind in ("axis", "body"))
        of_axis = of_axis[model.tendon_element_axis.numpy()]
        of_element = np.maximum(of_axis, of_body[model.tendon_element_body.numpy()])
        if per == "tendon_element":
            return of_element
        return np.maximum.reduceat(of_element, model.tendon_start.numpy())
    if per == "tendon_equality":
        return worlds_of(model, "tendon")[model.tendon_equality_tendons.numpy()[:, 0]]
    if per == "contact_pair":
        return worlds_of(model, "shape")[model.contact_pair_shapes.numpy().reshape(-1, 2)].max(axis=1)
    if per in ("muscle", "muscle_point"):
        of_point = worlds_of(model, "body")[model.muscle_bodies.numpy()]
        return of_point if per == "muscle_point" else of_point[model.muscle_start.numpy()[:-1]]
    if per in ("constraint", "constraint_axis"):
        of_constraint = _worlds_of_constraints(model)
        if per == "constraint":
            return of_constraint
        start = np.append(model.constraint_axis_start.numpy(), model.constraint_axis_count)
        return np.repeat(of_constraint, np.diff(start[: model.constraint_count + 1])).astype(np.int32)
    if per == "world":
        return np.arange(model.world_count, dtype=np.int32)
    raise NewtonsimError(f"entries per {per} have no world")


def _worlds_of_constraints(model: Model) -> np.ndarray:
    """World of each constraint: that of a body it holds, or of the first axis that it couples."""
    worlds = np.full(model.constraint_count, -1, np.int32)
    of_body, of_axis = worlds_of(model, "body"), worlds_of(model, "axis")
    coupled = model.constraint_coupled_axes.numpy().reshape(-1, 2)[:, 0]
    for ends, of_end in (
        (coupled, of_axis),
        (model.constraint_parent.numpy(), of_body),
        (model.constraint_child.numpy(), of_body),
    ):
        worlds[ends >= 0] = of_end[ends[ends >= 0]]
    return worlds


def world_array(model: Model, per: str) -> wp.array:
    """`worlds_of` on the model's device."""
    return put(worlds_of(model, per), dtype=int, device=model.device)


def as_floats(array: wp.array, rows: int = 1) -> wp.array:
    """The same memory as rows of floats, shape (rows, floats of a row); no gradient belongs to it."""
    count = array.size * wp.types.type_size_in_bytes(array.dtype) // 4
    flat = wp.array(ptr=array.ptr, dtype=float, shape=(rows, count // rows), device=array.device)
    flat.memory = array
    return flat

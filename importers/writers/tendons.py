"""Tendons of a model as records."""

from collections.abc import Mapping

import numpy as np

from newtonsim.builder.tendons import TendonWrap, belongings, path_length
from newtonsim.importers.writers.records import Scene, TendonElement, TendonEqualityRecord, TendonRecord
from newtonsim.kinematics import eval_fk, reference_state
from newtonsim.scene.enums import AXIS, ON_AXIS, PULLEY, SIDE, WRAP
from newtonsim.scene.model import Model

_NUMBERS = (
    *("offset", "stiffness", "damping", "spring_lower", "spring_upper", "limit_lower", "limit_upper"),
    *("limit_margin", "friction", "armature", "mode", "target_ke", "target_kd", "effort_limit", "act"),
)


def read_tendons(model: Model, scene: Scene, body_number: Mapping[int, int]) -> None:
    """Add the tendons whose bodies and axes are in a scene, and the equalities between them.

    Args:
        model: The model.
        scene: Holds bodies and joints; receives the tendons.
        body_number: Number in the scene of each body of the model in it.
    """
    if not model.tendon_count:
        return
    axes = {axis.index: (n, i) for n, joint in enumerate(scene.joints) for i, axis in enumerate(joint.axes)}
    names = ("kind", "axis", "body", "point", "factor")
    path = {name: getattr(model, f"tendon_element_{name}").numpy() for name in names}
    ends = np.append(model.tendon_start.numpy(), model.tendon_element_count)
    numbers = {name: getattr(model, f"tendon_{name}").numpy() for name in (*_NUMBERS, "muscle")}
    refs, imps = model.tendon_limit_solref.numpy(), model.tendon_limit_solimp.numpy()
    poses, muscles = _poses_at_zero(model), numbers.pop("muscle")
    places: dict[int, int] = {}
    for t in range(model.tendon_count):
        span = range(ends[t], ends[t + 1])
        own = [i for i in span if path["kind"][i] not in (AXIS, SIDE)]
        found = [_element(path, i, axes, body_number) for i in own]
        elements = [one for one in found if one is not None]
        if len(elements) < len(found):
            continue
        places[t] = len(scene.tendons)
        scene.tendons.append(
            TendonRecord(
                key=model.tendon_key[t],
                index=t,
                elements=elements,
                numbers={name: float(values[t]) for name, values in numbers.items()},
                limit_solref=refs[t].astype(np.float64),
                limit_solimp=imps[t].astype(np.float64),
                muscle=muscles[t].astype(np.float64),
                length=float(numbers["offset"][t]) + path_length(path, span, poses),
            )
        )
    _read_equalities(model, scene, places)


def _element(
    path: dict, i: int, axes: Mapping[int, tuple[int, int]], body_number: Mapping[int, int]
) -> TendonElement | None:
    """An element of a path, None if what it goes along is not in the scene."""
    kind, factor = int(path["kind"][i]), float(path["factor"][i])
    if kind == PULLEY:
        return factor
    if kind == ON_AXIS:
        place = axes.get(int(path["axis"][i]))
        return None if place is None else (*place, factor)
    body = body_number.get(int(path["body"][i]))
    if kind == WRAP:
        return None if body is None else _wrap(path, i, body, body_number)
    return None if body is None else (body, path["point"][i].astype(np.float64))


def _wrap(path: dict, i: int, body: int, body_number: Mapping[int, int]) -> TendonWrap | None:
    """What element i wraps around; None if its side point is on no body of the scene."""
    axis, side = belongings(path, i)
    point = path["point"].astype(np.float64)
    direction = None if axis is None else point[axis] - point[i]
    place = None
    if side is not None:
        owner = body_number.get(int(path["body"][side]))
        if owner is None:
            return None
        place = (owner, point[side])
    return TendonWrap(body, point[i], float(path["factor"][i]), direction, place)


def _poses_at_zero(model: Model) -> np.ndarray:
    """Poses of the bodies where all joint coordinates are zero (body_count, 7)."""
    state = reference_state(model)
    if model.joint_coord_count:
        eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state.body_q.numpy().astype(np.float64)


def _read_equalities(model: Model, scene: Scene, places: Mapping[int, int]) -> None:
    if not model.tendon_equality_count:
        return
    names = ("tendons", "coefficients", "lengths", "enabled", "solref", "solimp")
    table = {name: getattr(model, f"tendon_equality_{name}").numpy() for name in names}
    for k, (first, second) in enumerate(table["tendons"].tolist()):
        if first not in places or (second >= 0 and second not in places):
            continue
        scene.tendon_equalities.append(
            TendonEqualityRecord(
                key=model.tendon_equality_key[k],
                first=places[first],
                second=places.get(second),
                coefficients=table["coefficients"][k].astype(np.float64),
                lengths=table["lengths"][k].astype(np.float64),
                enabled=bool(table["enabled"][k]),
                solref=table["solref"][k].astype(np.float64),
                solimp=table["solimp"][k].astype(np.float64),
            )
        )

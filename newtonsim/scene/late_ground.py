"""The ground plane of a model whose builder set none: it is made when it is first switched on."""

from __future__ import annotations

from typing import Any

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.kernels.views.structs import ModelShapeGeometry, ModelShapeMaterials
from newtonsim.scene.allocation import put
from newtonsim.scene.arrays import MODEL_ARRAYS, ArraySpec
from newtonsim.scene.columns import Column
from newtonsim.scene.revisions import counted

RADIUS = 1.0e6
"""Collision radius of an infinite plane [m]."""


def append_ground(model: Any, plane: dict[str, Any]) -> None:
    """Append a ground plane to the shapes of a model, as `finalize` does if the builder has set one.

    Args:
        model: The model, a `Model`; nothing may depend on its shapes yet.
        plane: One entry of each array of shapes, by the names of `MODEL_ARRAYS`.

    Raises:
        ModelError: A solver, a query or a contact buffer depends on the existing shapes.
    """
    if model.shapes_settled:
        raise ModelError(
            "ground: the model has no ground plane yet, and a solver or a query depends on its existing "
            "shapes; switch the ground on before they are made, or call set_ground_plane before finalize"
        )
    ground = model.shape_count
    for spec in MODEL_ARRAYS:
        if spec.per == "shape" and spec.dtype is not None and not spec.host:
            model.resize(spec.name, _longer(model, spec, getattr(model, spec.name), plane))
        elif spec.per == "shape" and spec.dtype is None:
            column = Column(spec, [*getattr(model, spec.name), plane[spec.name]])
            setattr(model, spec.name, column)
    _append_structs(model, plane)
    radius = ArraySpec("shape_collision_radius", "shape", float)
    row = {radius.name: np.array([RADIUS], np.float32)}
    model.resize(radius.name, _longer(model, radius, model.shape_collision_radius, row))
    model.shape_count = ground + 1
    model.ground_shape = ground
    _append_pairs(model, ground)
    model.forget("body_shapes", "shape_collision_group_map", "shape_collision_filter_pairs")


def _append_structs(model: Any, plane: dict[str, Any]) -> None:
    """Give the structs of materials and geometry arrays with an entry for the plane."""
    specs = {spec.name: spec for spec in MODEL_ARRAYS}
    materials, geometry = counted(ModelShapeMaterials), counted(ModelShapeGeometry)
    for name in ("ke", "kd", "kf", "ka", "mu", "restitution"):
        spec = specs[f"shape_material_{name}"]
        setattr(materials, name, _longer(model, spec, getattr(model.shape_materials, name), plane))
    for name in ("type", "scale", "is_solid", "thickness"):
        spec = specs[f"shape_geo_{name}"]
        setattr(geometry, name, _longer(model, spec, getattr(model.shape_geo, name), plane))
    sources = np.append(_host(model.shape_geo.source, np.zeros(0, np.uint64)), np.uint64(0))
    geometry.source = put(sources, dtype=model.shape_geo.source.dtype, device=model.device)
    model.resize("shape_materials", materials)
    model.resize("shape_geo", geometry)


def _append_pairs(model: Any, ground: int) -> None:
    """Pair the plane with moving shapes that collide with a ground, and renumber the filters."""
    rules = model.contact_rules
    a, b = np.divmod(rules.filter_keys, max(ground, 1))
    model.contact_rules = type(rules)(
        rigid=np.append(rules.rigid, -1),
        group=np.append(rules.group, -1),
        collides=np.append(rules.collides, True),
        meets_ground=np.append(rules.meets_ground, False),
        filter_keys=a * (ground + 1) + b,
    )
    shapes = np.flatnonzero(rules.meets_ground & (rules.rigid >= 0))
    world = _host(model.shape_world, np.zeros(0, np.int32))
    shapes = shapes[np.argsort(world[shapes], kind="stable")]
    pairs = np.stack([shapes, np.full(len(shapes), ground)], axis=1).astype(np.int32)
    model.shape_ground_contact_pairs = put(pairs, dtype=int, device=model.device)
    model.shape_ground_contact_pair_count = len(pairs)


def _longer(model: Any, spec: ArraySpec, array: Any, plane: dict[str, Any]) -> Any:
    """Return an array with the plane's entry at its end."""
    row = plane[spec.name]
    values = np.concatenate([_host(array, row[:0]), row])
    return put(values, dtype=spec.dtype, device=model.device, requires_grad=spec.grad and model.requires_grad)


def _host(array: Any, empty: np.ndarray) -> np.ndarray:
    return empty if array is None or not len(array) else array.numpy()

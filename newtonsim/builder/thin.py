"""Bodies that are given a mass but no inertia: the mass is spread over their shapes."""

import warnings
from typing import Any

import numpy as np

from newtonsim.geometry.inertia import MassProperties, combine, mesh_inertia, shape_inertia, shift_inertia
from newtonsim.geometry.transforms import quat_matrix
from newtonsim.scene.enums import GeoType


def spread_masses(builder: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a builder, or a copy in which bodies with mass and no inertia get that of their shapes.

    The mass fills the shapes evenly, or covers the surfaces of their meshes where none has a volume. Mass and
    centre of mass are kept; bodies without shapes are left alone. A warning names the first body.

    Args:
        builder: The builder.
        arrays: The lists of the builder as arrays; `body_inertia` is changed.
    """
    mass, inertia, owner = arrays["body_mass"], arrays["body_inertia"], arrays["shape_body"]
    bare = np.flatnonzero((mass > 0.0) & ~inertia.any(axis=(1, 2)))
    twin, found = builder, []
    for body in bare.tolist():
        whole, middle, tensor = _of_shapes(builder, np.flatnonzero(owner == body).tolist())
        if whole > 0.0:
            given = float(mass[body])
            offset = middle - arrays["body_com"][body].astype(np.float64)
            twin = twin if found else builder._shallow_copy()
            twin.body_inertia[body] = shift_inertia(tensor * given / whole, given, offset)
            inertia[body] = twin.body_inertia[body]
            found.append(body)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.warn(
            f"body '{builder.body_key[found[0]]}'{more}: mass without inertia; the inertia is "
            "computed from the mass spread over the shapes",
            stacklevel=3,
        )
    return twin


def _of_shapes(builder: Any, shapes: list[int]) -> MassProperties:
    """Mass properties of shapes at density 1 in the body frame; of surfaces if nothing has a volume."""
    for hollow in (False, True):
        parts = [_in_body(builder, shape, hollow) for shape in shapes]
        parts = [part for part in parts if part[0] > 0.0]
        if parts:
            return combine(*parts)
    return 0.0, np.zeros(3), np.zeros((3, 3))


def _in_body(builder: Any, shape: int, surface: bool) -> MassProperties:
    kind, source = builder.shape_geo_type[shape], builder.shape_geo_src[shape]
    size = np.array(builder.shape_geo_scale[shape], np.float64)
    if not surface:
        mass, com, inertia = shape_inertia(kind, 1.0, size, source, True, 0.0)
    elif kind == GeoType.MESH:
        mass, com, inertia = mesh_inertia(1.0, source.vertices * size, source.indices, False, 1.0)
    else:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    pose = np.array(builder.shape_transform[shape], np.float64)
    turn = quat_matrix(pose[3:])
    return mass, pose[:3] + turn @ com, turn @ inertia @ turn.T

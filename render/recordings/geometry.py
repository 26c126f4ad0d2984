"""Meshes, height fields and distance fields as plain numbers and arrays, and back."""

from __future__ import annotations

from typing import Any, cast

import warp as wp

from newtonsim.errors import RecordingError
from newtonsim.geometry import SDF, Heightfield, Mesh

Source = Mesh | Heightfield | SDF | None


def plain_source(source: Source) -> dict | None:
    """Return the data from which `restored_source` makes an equal source.

    Raises:
        RecordingError: It is of another class.
    """
    if source is None:
        return None
    if isinstance(source, Mesh):
        names = ("vertices", "indices", "name", "is_solid", "has_inertia", "mass", "com", "I")
        names += ("uvs", "texture")
        return {"kind": "mesh", **{name: getattr(source, name) for name in names}}
    if isinstance(source, Heightfield):
        return {"kind": "heightfield", "heights": source.heights, "size": list(source.size)}
    if isinstance(source, SDF):
        return _plain_field(source)
    raise RecordingError(f"a shape with a {type(source).__name__} cannot be recorded")


def restored_source(plain: dict | None) -> Source:
    """Restore a source with its mass properties."""
    if plain is None:
        return None
    if plain["kind"] == "mesh":
        # recordings of earlier versions have no textures
        optional: dict[str, Any] = {name: plain.get(name) for name in ("uvs", "texture")}
        mesh = Mesh(plain["vertices"], plain["indices"], False, plain["is_solid"], plain["name"], **optional)
        for name in ("has_inertia", "mass", "com", "I"):
            setattr(mesh, name, plain[name])
        return mesh
    if plain["kind"] == "heightfield":
        return Heightfield(plain["heights"], tuple(plain["size"]))
    return _restored_field(plain)


def _plain_field(field: SDF) -> dict:
    plain = {"kind": "sdf", "I": field.I, "mass": field.mass, "com": field.com}
    if field._values is not None:
        plain |= {"values": field._values, "lower": field._lower, "voxel": field._voxel}
        plain["mesh"] = plain_source(field.source_mesh)
    elif field.volume is not None:
        plain["volume"] = field.volume.array().numpy()
    return plain


def _restored_field(plain: dict) -> SDF:
    volume = None
    if "volume" in plain:
        volume = wp.Volume(wp.array(plain["volume"], dtype=wp.uint8, device="cpu"))
    field = SDF(volume, plain["I"], plain["mass"], plain["com"])
    if "values" in plain:
        field._values, field._lower, field._voxel = plain["values"], plain["lower"], plain["voxel"]
        field._mesh = cast("Mesh | None", restored_source(plain["mesh"]))
    return field

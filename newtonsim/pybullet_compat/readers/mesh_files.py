"""Mesh files: OBJ with its groups and materials, STL, and COLLADA and the rest through trimesh.

Files are read once as long as they do not change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.geometry import Mesh
from newtonsim.importers.files.xml import read_bytes
from newtonsim.importers.geometry.mesh_parts import MeshPart
from newtonsim.importers.geometry.meshes import MAX_FACES, MAX_MESH_BYTES, scene_parts
from newtonsim.importers.geometry.obj_files import read_obj


@dataclass(slots=True, eq=False)
class MeshFile:
    """All parts of a file, with their meshes by scale."""

    path: str
    parts: list[MeshPart]
    scaled: dict[tuple, list[Mesh]] = field(default_factory=dict)

    def meshes(self, scale: np.ndarray) -> list[Mesh]:
        """Return one mesh for each part, scaled by `scale` (3,); the same objects for the same scale."""
        return self._scaled("parts", scale, [[part] for part in self.parts])

    def groups(self, scale: np.ndarray) -> list[Mesh]:
        """Return one mesh for each group, whatever its materials; see `meshes`."""
        numbers = dict.fromkeys(part.group for part in self.parts)
        return self._scaled("groups", scale, [[p for p in self.parts if p.group == n] for n in numbers])

    def whole(self, scale: np.ndarray) -> list[Mesh]:
        """Return one mesh of all parts, in a list; see `meshes`."""
        return self._scaled("whole", scale, [self.parts])

    def _scaled(self, kind: str, scale: np.ndarray, sets: list[list[MeshPart]]) -> list[Mesh]:
        key = (kind, *(float(value) for value in scale))
        if key not in self.scaled:
            self.scaled[key] = [self._join(parts, np.array(key[1:])) for parts in sets]
        return self.scaled[key]

    def _join(self, parts: list[MeshPart], scale: np.ndarray) -> Mesh:
        starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
        vertices = np.concatenate([part.vertices for part in parts]) * scale
        if np.prod(scale) < 0.0:
            faces = faces[:, ::-1]
        return Mesh(vertices, faces, compute_inertia=False, name=Path(self.path).name)


def read_mesh_file(path: str, use_cache: bool = True) -> MeshFile:
    """Read a mesh.

    Raises:
        ImportFileError: The file is missing, unreadable or has no triangles.
    """
    try:
        stat = Path(path).stat()
    except (OSError, ValueError) as error:
        raise ImportFileError(f"cannot be read: {error}", path=str(path)[:300]) from error
    read = _read if use_cache else _read.__wrapped__
    return read(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=512)
def _read(path: str, changed: int, size: int) -> MeshFile:
    suffix = Path(path).suffix.lower()
    if suffix == ".obj":
        parts = read_obj(path)
    elif suffix == ".stl":
        parts = _read_stl(path)
    else:
        parts = _read_other(path)
    parts = [part for part in parts if len(part.faces)]
    if not parts:
        raise ImportFileError("the mesh has no triangles", path)
    if sum(len(part.faces) for part in parts) > MAX_FACES:
        raise ImportFileError(f"the mesh has more than {MAX_FACES} triangles", path)
    for part in parts:
        finite = np.isfinite(part.vertices).all(axis=1)
        if not finite.all():
            part.vertices[~finite] = part.vertices[np.argmax(finite)] if finite.any() else 0.0
        if part.faces.min() < 0 or part.faces.max() >= len(part.vertices):
            raise ImportFileError("the mesh has triangles that refer to missing vertices", path)
    return MeshFile(path, parts)


# -- STL and others ------------------------------------------------------------------------------------------

_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def _read_stl(path: str) -> list[MeshPart]:
    """Read binary STL, or text, which starts with "solid" and has the wrong length for binary."""
    data = read_bytes(Path(path), MAX_MESH_BYTES)
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else 0
    if len(data) >= 84 + count * _STL_RECORD.itemsize and count:
        corners = np.frombuffer(data, _STL_RECORD, count, 84)["corners"].astype(np.float64)
    else:
        words = data.decode("utf-8", errors="replace").split()
        try:
            values = [words[k + 1 : k + 4] for k, word in enumerate(words) if word == "vertex"]
            corners = np.array(values, dtype=np.float64).reshape(-1, 3, 3)
        except ValueError as error:
            raise ImportFileError(f"the mesh cannot be read: {error}", path) from error
    vertices, inverse = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return [MeshPart(vertices, inverse.reshape(-1, 3).astype(np.int32))]


def _read_other(path: str) -> list[MeshPart]:
    if Path(path).stat().st_size > MAX_MESH_BYTES:
        raise ImportFileError(f"the file is larger than the limit of {MAX_MESH_BYTES} bytes", path)
    try:
        return scene_parts(path)
    except Exception as error:  # the loaders raise whatever their parsers raise
        raise ImportFileError(f"the mesh cannot be read: {str(error)[:200]}", path) from error

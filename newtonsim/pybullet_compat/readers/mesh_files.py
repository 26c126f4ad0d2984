"""Mesh files with their meshes by scale; files are read once as long as they do not change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, LimitError
from newtonsim.geometry import Mesh
from newtonsim.importers.files.clock import check_time, limited_time
from newtonsim.importers.files.limits import limits
from newtonsim.importers.geometry.mesh_files import read_parts
from newtonsim.importers.geometry.mesh_parts import MeshPart

MOST_VERTICES = 1 << 30
"""Largest number of vertices of the hull of a mesh: PyBullet omits none."""


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
        name = Path(self.path).name
        return Mesh(vertices, faces, compute_inertia=False, name=name, max_hull_vertices=MOST_VERTICES)


@limited_time()
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
    if size > limits.mesh_bytes:
        raise LimitError(f"the file is larger than the limit of {limits.mesh_bytes} bytes", path)
    check_time(path)
    try:
        parts = read_parts(path, in_metres=False, tolerant=True)
    except ImportFileError:
        raise
    except Exception as error:  # the loaders raise whatever their parsers raise
        raise ImportFileError(f"the mesh cannot be read: {str(error)[:200]}", path) from error
    if not parts:
        raise ImportFileError("the mesh has no triangles", path)
    if sum(len(part.faces) for part in parts) > limits.triangles:
        raise LimitError(f"the mesh has more than {limits.triangles} triangles", path)
    for part in parts:
        if part.faces.min() < 0 or part.faces.max() >= len(part.vertices):
            raise ImportFileError("the mesh has triangles that refer to missing vertices", path)
    return MeshFile(path, parts)

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
from newtonsim.importers.meshes import MAX_FACES, MAX_MESH_BYTES
from newtonsim.importers.xml import read_bytes


@dataclass(slots=True, eq=False)
class Material:
    """What an MTL file says about one material.

    Attributes:
        rgba: Diffuse colour and opacity.
        texture: Image file for the diffuse colour, "" for none.
    """

    rgba: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    texture: str = ""


@dataclass(slots=True, eq=False)
class MeshPart:
    """One group of a mesh file.

    Attributes:
        vertices: Points, shape (n, 3), float64 [m].
        faces: Corners of triangles, shape (m, 3), int32.
        uvs: Texture coordinates of the points (n, 2), or None.
        material: Its material, or None.
        group: Number of the group that it belongs to; one group may have several materials.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None = None
    material: Material | None = None
    group: int = 0


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
        parts = _read_obj(path)
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


# -- Wavefront OBJ -------------------------------------------------------------------------------------------


class _ObjReader:
    """Collects the lines of an OBJ file; a part ends at the next g, o or usemtl line, a group at g or o."""

    def __init__(self, path: str):
        self.path = path
        self.points: list[list[float]] = []
        self.uvs: list[list[float]] = []
        self.corners: list[tuple[int, int]] = []
        self.parts: list[MeshPart] = []
        self.materials: dict[str, Material] = {}
        self.material: Material | None = None
        self.group = 0

    def read(self, text: str) -> list[MeshPart]:
        for line in text.splitlines():
            words = line.split()
            if not words:
                continue
            head = words[0]
            if head == "v":
                self.points.append([float(word) for word in words[1:4]])
            elif head == "vt":
                self.uvs.append([float(word) for word in words[1:3]])
            elif head == "f":
                self._face(words[1:])
            elif head in ("g", "o"):
                self._close()
                self.group += 1
            elif head == "usemtl":
                self._close()
                self.material = self.materials.get(" ".join(words[1:]))
            elif head == "mtllib":
                self.materials.update(read_mtl(Path(self.path).parent / line.split(None, 1)[1].strip()))
        self._close()
        return self.parts

    def _face(self, words: list[str]) -> None:
        """Add a polygon as a fan of triangles."""
        ring = []
        for word in words:
            fields = word.split("/")
            point = int(fields[0])
            uv = int(fields[1]) if len(fields) > 1 and fields[1] else 0
            ring.append(
                (
                    point - 1 if point > 0 else len(self.points) + point,
                    uv - 1 if uv > 0 else (len(self.uvs) + uv if uv < 0 else -1),
                )
            )
        for k in range(1, len(ring) - 1):
            self.corners += (ring[0], ring[k], ring[k + 1])

    def _close(self) -> None:
        if self.corners:
            self.parts.append(self._part(np.array(self.corners, dtype=np.int64)))
            self.corners = []

    def _part(self, corners: np.ndarray) -> MeshPart:
        if corners.min() < -1 or corners[:, 0].min() < 0 or corners[:, 0].max() >= len(self.points):
            raise ImportFileError("a face refers to a vertex that is not there", self.path)
        pairs, inverse = np.unique(corners, axis=0, return_inverse=True)
        vertices = np.array(self.points)[pairs[:, 0]]
        uvs = None
        if self.uvs and (pairs[:, 1] >= 0).all() and pairs[:, 1].max() < len(self.uvs):
            uvs = np.array(self.uvs)[pairs[:, 1]]
        return MeshPart(vertices, inverse.reshape(-1, 3).astype(np.int32), uvs, self.material, self.group)


def _read_obj(path: str) -> list[MeshPart]:
    text = read_bytes(Path(path), MAX_MESH_BYTES).decode("utf-8", errors="replace")
    try:
        return _ObjReader(path).read(text.replace("\\\n", " "))
    except (ValueError, IndexError) as error:
        raise ImportFileError(f"the mesh cannot be read: {error}", path) from error


def read_mtl(path: Path) -> dict[str, Material]:
    """Read the materials of an MTL file; a missing file has none."""
    if not path.is_file():
        return {}
    table: dict[str, Material] = {}
    current = Material()
    for line in read_bytes(path, MAX_MESH_BYTES).decode("utf-8", errors="replace").splitlines():
        head, _, rest = line.strip().partition(" ")
        words = rest.split()
        try:
            if head == "newmtl":
                current = table.setdefault(rest.strip(), Material())
            elif head == "Kd" and len(words) >= 3:
                current.rgba = (*(float(word) for word in words[:3]), current.rgba[3])
            elif head == "d" and words:
                current.rgba = (*current.rgba[:3], float(words[-1]))
            elif head == "Tr" and words:
                current.rgba = (*current.rgba[:3], 1.0 - float(words[-1]))
            elif head == "map_Kd" and words:
                image = path.parent / words[-1]
                current.texture = str(image) if image.is_file() else ""
        except ValueError as error:
            raise ImportFileError(f"the material cannot be read: {line.strip()[:80]!r}", str(path)) from error
    return table


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
    import trimesh

    if Path(path).stat().st_size > MAX_MESH_BYTES:
        raise ImportFileError(f"the file is larger than the limit of {MAX_MESH_BYTES} bytes", path)
    try:
        scene = trimesh.load_scene(path, process=False)
        meshes = scene.dump(concatenate=False)
        return [
            MeshPart(np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int32))
            for mesh in meshes
            if hasattr(mesh, "faces")
        ]
    except Exception as error:  # the loaders raise whatever their parsers raise
        raise ImportFileError(f"the mesh cannot be read: {str(error)[:200]}", path) from error

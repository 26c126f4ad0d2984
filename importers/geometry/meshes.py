"""Triangle meshes from files."""

import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from newtonsim.geometry import Mesh
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import Node, read_bytes
from newtonsim.importers.geometry.mesh_appearance import corner_appearance, paint
from newtonsim.importers.geometry.mesh_files import obj_points, read_parts
from newtonsim.importers.geometry.mesh_parts import Material, MeshPart


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Triangles and what they wear.

    Attributes:
        vertices: Points (n, 3), float64 [m].
        faces: Triangles (m, 3), int32.
        uvs: Texture coordinates of their corners (m, 3, 2), v up, or None.
        numbers: Material of each triangle (m,), or None for none.
        materials: The materials.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None = None
    numbers: np.ndarray | None = None
    materials: list[Material] = field(default_factory=list)

    @property
    def is_textured(self) -> bool:
        """Whether there is an image to wear, and texture coordinates."""
        return self.uvs is not None and any(m.texture or m.image is not None for m in self.materials)

    def scaled(self, scale: np.ndarray) -> "Surface":
        """Scale per axis; a mirroring scale turns the triangles, so that normals keep pointing outwards."""
        scale = np.asarray(scale, dtype=np.float64)
        scaled = replace(self, vertices=self.vertices * scale)
        return scaled.turned() if np.prod(scale) < 0.0 else scaled

    def turned(self) -> "Surface":
        """The triangles seen from the other side."""
        uvs = None if self.uvs is None else self.uvs[:, ::-1]
        return replace(self, faces=self.faces[:, ::-1], uvs=uvs)

    def welded(self) -> "Surface":
        """Merge equal vertices and drop triangles that use one vertex twice."""
        unique, inverse = np.unique(self.vertices, axis=0, return_inverse=True)
        faces = inverse.reshape(-1)[self.faces]
        proper = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
        uvs = None if self.uvs is None else self.uvs[proper]
        numbers = None if self.numbers is None else self.numbers[proper]
        return Surface(unique, faces[proper].astype(np.int32), uvs, numbers, self.materials)

    def mesh(self, painted: bool = False) -> Mesh:
        """Make a mesh with texture coordinates, and with the images of its materials if it is painted."""
        uvs, image = self.uvs, None
        if painted and self.is_textured:
            uvs, image = paint(uvs, self.numbers, self.materials)
        return Mesh(self.vertices, self.faces, uvs=uvs, texture=image)


class MeshLibrary:
    """Loads each mesh file of an import once.

    Vertices are welded, scenes merged into one mesh, and the scale is worked into the vertices.
    """

    def __init__(self) -> None:
        self._raw: dict[tuple[Path, bool], list[Surface]] = {}
        self._scaled: dict[tuple, list[Surface]] = {}

    def load(self, path: Path, node: Node, scale: np.ndarray) -> Surface:
        """Return the triangles of a file, stretched by `scale` (3,); the same object for the same scale."""
        return self._load(path, node, scale, by_object=False)[0]

    def load_objects(self, path: Path, node: Node, scale: np.ndarray) -> list[Surface]:
        """Return each object (o or g) of a Wavefront file by itself, any other file as a whole."""
        return self._load(path, node, scale, by_object=path.suffix.lower() == ".obj")

    def _load(self, path: Path, node: Node, scale: np.ndarray, by_object: bool) -> list[Surface]:
        key = (path, by_object, *np.asarray(scale, dtype=np.float64))
        if key not in self._scaled:
            if (path, by_object) not in self._raw:
                whole = [_read_mesh(path, node)]
                self._raw[path, by_object] = (_read_objects(path) if by_object else None) or whole
            self._scaled[key] = [surface.scaled(scale) for surface in self._raw[path, by_object]]
        return self._scaled[key]


def check_mesh(vertices: np.ndarray, faces: np.ndarray, node: Node, name: str = "the mesh") -> None:
    """Raise when a mesh is empty, too large, not finite or refers to vertices that are not there."""
    if len(vertices) < 3 or len(faces) == 0:
        raise node.error(f"{name} has no triangles")
    if len(faces) > limits.triangles:
        raise node.limit_error(
            f"{name} has {len(faces)} triangles, more than the limit of {limits.triangles}"
        )
    if not np.isfinite(vertices).all():
        raise node.error(f"{name} has vertices that are not finite")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise node.error(f"{name} has triangles that refer to missing vertices")


def convex_hull(vertices: np.ndarray, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Convex hull of points as an outward-oriented mesh."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError) as error:
        raise node.error("the points of the mesh do not span a volume") from error
    faces = hull.simplices.copy()
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    faces[inward] = faces[inward][:, ::-1]
    used, inverse = np.unique(faces, return_inverse=True)
    return vertices[used], inverse.reshape(-1, 3).astype(np.int32)


def _read_mesh(path: Path, node: Node) -> Surface:
    node.check_time()
    if path.suffix.lower() == ".msh":
        return _read_msh(path, node)
    if path.stat().st_size > limits.mesh_bytes:
        raise node.limit_error(f"mesh file {path} is larger than the limit of {limits.mesh_bytes} bytes")
    if path.suffix.lower() == ".dae" and not _has_module("collada"):
        raise node.error(f"mesh file {path}: COLLADA files need pycollada (pip install 'newtonsim[mesh]')")
    try:
        surface = _join(read_parts(str(path)))
    except Exception as error:  # the loaders raise whatever their parsers raise
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise node.error(f"mesh file {path} cannot be read: {reason}") from error
    vertices = surface.vertices
    if surface.faces.size == 0 and path.suffix.lower() == ".obj":
        vertices = obj_points(path)  # the loader drops points without triangles
    if len(vertices) > 3 and surface.faces.size == 0:
        return Surface(*convex_hull(vertices, node))
    check_mesh(vertices, surface.faces, node, f"mesh file {path}")
    surface = surface.welded()
    check_mesh(surface.vertices, surface.faces, node, f"mesh file {path}")
    return surface


def _read_objects(path: Path) -> list[Surface]:
    """Read the objects of a Wavefront file that have triangles; nothing if there are fewer than two."""
    objects: dict[int, list[MeshPart]] = {}
    for part in read_parts(str(path)):
        objects.setdefault(part.group, []).append(part)
    surfaces = [_join(parts).welded() for parts in objects.values()] if len(objects) > 1 else []
    return [surface for surface in surfaces if len(surface.faces)]


def _join(parts: list[MeshPart]) -> Surface:
    """Put parts into one surface, their vertices one after the other."""
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    empty = MeshPart(np.zeros((0, 3)), np.zeros((0, 3), np.int64))
    vertices = np.concatenate([part.vertices for part in (*parts, empty)])
    faces = np.concatenate(
        [part.faces + start for part, start in zip((*parts, empty), starts)], dtype=np.int64
    )
    return Surface(vertices, faces, *(corner_appearance(parts) if len(faces) else ()))


def _read_msh(path: Path, node: Node) -> Surface:
    """Read MuJoCo's binary mesh: four counts, then vertices, normals, texture coordinates, triangles."""
    data = read_bytes(path, limits.mesh_bytes)
    if len(data) < 16:
        raise node.error(f"mesh file {path} is truncated")
    vertex_count, normal_count, texture_count, face_count = struct.unpack_from("<4i", data)
    counts = (vertex_count, normal_count, texture_count, face_count)
    size = 16 + 4 * (3 * vertex_count + 3 * normal_count + 2 * texture_count + 3 * face_count)
    if min(counts) < 0 or size != len(data):
        raise node.error(f"mesh file {path} has a wrong length for its counts {counts}")
    vertices = np.frombuffer(data, "<f4", 3 * vertex_count, 16).reshape(-1, 3).astype(np.float64)
    if face_count == 0:
        return Surface(*convex_hull(vertices, node))
    faces = np.frombuffer(data, "<i4", 3 * face_count, size - 12 * face_count).reshape(-1, 3)
    check_mesh(vertices, faces, node, f"mesh file {path}")
    uvs = None
    if texture_count == vertex_count:
        table = np.frombuffer(data, "<f4", 2 * texture_count, 16 + 12 * (vertex_count + normal_count))
        uvs = upside_down(table.reshape(-1, 2))[faces]
    return Surface(vertices, faces, uvs).welded()


def upside_down(uvs: np.ndarray) -> np.ndarray:
    """Texture coordinates with v down, as MuJoCo has them, with v up."""
    return np.asarray(uvs, np.float64) * (1.0, -1.0) + (0.0, 1.0)


def read_png_heights(path: Path, node: Node) -> np.ndarray:
    """Brightness of the pixels of a height map (rows, columns), 0 to 255, top row first."""
    try:
        from PIL import Image
    except ImportError as error:
        raise node.error(f"height field {path}: PNG files need pillow (pip install pillow)") from error
    try:
        with Image.open(path) as image:
            if image.width * image.height > limits.heights:
                raise node.error(f"height field {path} has more than {limits.heights} pixels")
            return np.asarray(image.convert("L"), dtype=np.float64)
    except OSError as error:
        raise node.error(f"height field {path} cannot be read: {error}") from error


def _has_module(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None

"""Triangle meshes from files: the one place that knows trimesh."""

import io
import re
import struct
from pathlib import Path

import numpy as np

from newtonsim.importers.xml import Node, read_bytes

MAX_MESH_BYTES = 512 * 1024 * 1024
MAX_FACES = 5_000_000
MAX_HEIGHTS = 16_000_000

_COLLADA_LOOKS = re.compile(
    rb"<(bind_material|library_(?:effects|materials|images))\b[^>]*(?<!/)>.*?</\1>", re.DOTALL
)


class MeshLibrary:
    """Loads each mesh file of an import once.

    Vertices are welded, scenes merged into one mesh, and the scale is worked into the vertices.
    """

    def __init__(self) -> None:
        self._raw: dict[Path, tuple[np.ndarray, np.ndarray]] = {}
        self._scaled: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}

    def load(self, path: Path, node: Node, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return vertices (n, 3) float64 [m] and triangles (m, 3) int32 of a file.

        A mirroring scale also turns the triangles, so that normals keep pointing outwards.
        """
        key = (path, *np.asarray(scale, dtype=np.float64))
        if key not in self._scaled:
            if path not in self._raw:
                self._raw[path] = _read_mesh(path, node)
            self._scaled[key] = scale_mesh(*self._raw[path], scale)
        return self._scaled[key]


def scale_mesh(vertices: np.ndarray, faces: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale a mesh per axis; a mirroring scale turns the triangles."""
    scale = np.asarray(scale, dtype=np.float64)
    return vertices * scale, (faces[:, ::-1] if np.prod(scale) < 0.0 else faces)


def check_mesh(vertices: np.ndarray, faces: np.ndarray, node: Node, name: str = "the mesh") -> None:
    """Raise when a mesh is empty, too large, not finite or refers to vertices that are not there."""
    if len(vertices) < 3 or len(faces) == 0:
        raise node.error(f"{name} has no triangles")
    if len(faces) > MAX_FACES:
        raise node.error(f"{name} has {len(faces)} triangles, more than the limit of {MAX_FACES}")
    if not np.isfinite(vertices).all():
        raise node.error(f"{name} has vertices that are not finite")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise node.error(f"{name} has triangles that refer to missing vertices")


def weld(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge equal vertices and drop triangles that use one vertex twice."""
    unique, inverse = np.unique(vertices, axis=0, return_inverse=True)
    faces = inverse.reshape(-1)[faces]
    proper = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return unique, faces[proper].astype(np.int32)


def convex_hull(vertices: np.ndarray, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Convex hull of points as an outward-oriented mesh."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError) as error:
        raise node.error("the points of the mesh span no volume") from error
    faces = hull.simplices.copy()
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    faces[inward] = faces[inward][:, ::-1]
    used, inverse = np.unique(faces, return_inverse=True)
    return vertices[used], inverse.reshape(-1, 3).astype(np.int32)


def _read_mesh(path: Path, node: Node) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix.lower() == ".msh":
        return _read_msh(path, node)
    import trimesh

    if path.stat().st_size > MAX_MESH_BYTES:
        raise node.error(f"mesh file {path} is larger than the limit of {MAX_MESH_BYTES} bytes")
    if path.suffix.lower() == ".dae" and not _has_module("collada"):
        raise node.error(f"mesh file {path}: COLLADA files need pycollada (pip install newtonsim[mesh])")
    try:
        mesh = trimesh.load_mesh(
            _bare_file(path), path.suffix[1:].lower(), process=False, skip_materials=True
        )
        vertices = np.asarray(mesh.vertices, dtype=np.float64)
        if path.suffix.lower() == ".dae" and mesh.units:
            # As ROS tools read COLLADA: its unit counts, its up axis does not.
            vertices = vertices * trimesh.units.unit_conversion(mesh.units, "meters")
        faces = np.asarray(mesh.faces, dtype=np.int64)
    except Exception as error:  # the loaders raise whatever their parsers raise
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise node.error(f"mesh file {path} cannot be read: {reason}") from error
    if faces.size == 0 and path.suffix.lower() == ".obj":
        vertices = _obj_points(path)  # the loader drops points without triangles
    if vertices.ndim == 2 and len(vertices) > 3 and faces.size == 0:
        return convex_hull(vertices, node)
    if vertices.ndim != 2 or faces.ndim != 2:
        raise node.error(f"mesh file {path} has no triangles")
    check_mesh(vertices, faces, node, f"mesh file {path}")
    vertices, faces = weld(vertices, faces)
    check_mesh(vertices, faces, node, f"mesh file {path}")
    return vertices, faces


def _bare_file(path: Path) -> str | io.BytesIO:
    """What the loader is to read: COLLADA without its materials, as a broken one costs the whole mesh."""
    if path.suffix.lower() != ".dae":
        return str(path)
    return io.BytesIO(_COLLADA_LOOKS.sub(b"", read_bytes(path, MAX_MESH_BYTES)))


def _obj_points(path: Path) -> np.ndarray:
    """Vertices (n, 3) of a Wavefront file."""
    lines = (line.split() for line in read_bytes(path, MAX_MESH_BYTES).splitlines())
    rows = [words[1:4] for words in lines if len(words) >= 4 and words[0] == b"v"]
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        return np.zeros((0, 3))


def _read_msh(path: Path, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Read MuJoCo's binary mesh: four counts, then vertices, normals, texture coordinates, triangles."""
    data = read_bytes(path, MAX_MESH_BYTES)
    if len(data) < 16:
        raise node.error(f"mesh file {path} is truncated")
    vertex_count, normal_count, texture_count, face_count = struct.unpack_from("<4i", data)
    counts = (vertex_count, normal_count, texture_count, face_count)
    size = 16 + 4 * (3 * vertex_count + 3 * normal_count + 2 * texture_count + 3 * face_count)
    if min(counts) < 0 or size != len(data):
        raise node.error(f"mesh file {path} has a wrong length for its counts {counts}")
    vertices = np.frombuffer(data, "<f4", 3 * vertex_count, 16).reshape(-1, 3).astype(np.float64)
    if face_count == 0:
        return convex_hull(vertices, node)
    faces = np.frombuffer(data, "<i4", 3 * face_count, size - 12 * face_count).reshape(-1, 3)
    check_mesh(vertices, faces, node, f"mesh file {path}")
    return weld(vertices, faces.astype(np.int64))


def read_png_heights(path: Path, node: Node) -> np.ndarray:
    """Brightness of the pixels of a height map (rows, columns), 0 to 255, top row first."""
    try:
        from PIL import Image
    except ImportError as error:
        raise node.error(f"height field {path}: PNG files need pillow (pip install pillow)") from error
    try:
        with Image.open(path) as image:
            if image.width * image.height > MAX_HEIGHTS:
                raise node.error(f"height field {path} has more than {MAX_HEIGHTS} pixels")
            return np.asarray(image.convert("L"), dtype=np.float64)
    except OSError as error:
        raise node.error(f"height field {path} cannot be read: {error}") from error


def _has_module(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None

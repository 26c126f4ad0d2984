"""Wavefront files: groups, texture coordinates and materials.

Lines are sorted by what they are, and their numbers read in bulk, because files have hundreds of thousands.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, LimitError, UnsupportedElementWarning
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import read_bytes
from newtonsim.importers.geometry.mesh_parts import Material, MeshPart


def read_obj(path: str) -> list[MeshPart]:
    """Read the parts of a file; a part ends at the next g, o or usemtl line, a group at the next g or o.

    Raises:
        ImportFileError: The file is unreadable, or a face names a vertex that is not there.
    """
    text = read_bytes(Path(path), limits.mesh_bytes).decode("utf-8", errors="replace")
    try:
        return _ObjReader(path).read(text.replace("\\\n", " "))
    except (ValueError, IndexError) as error:
        raise ImportFileError(f"the mesh cannot be read: {error}", path) from error


class _ObjReader:
    def __init__(self, path: str):
        self.path = path
        self.materials: dict[str, Material] = {}
        self.material: Material | None = None
        self.group = 0
        self.points: list[str] = []
        self.uvs: list[str] = []
        self.faces: list[str] = []
        self.pending: list[tuple[np.ndarray, slice, Material | None, int]] = []

    def read(self, text: str) -> list[MeshPart]:
        for raw in text.splitlines():
            head, rest = _split(raw)
            if head == "v":
                self.points.append(rest)
            elif head == "f":
                self.faces.append(self._absolute(rest) if "-" in rest else rest)
            elif head == "vt":
                self.uvs.append(rest)
            elif head in ("g", "o"):
                self._close()
                self.group += 1
            elif head == "usemtl":
                self._close()
                self.material = self.materials.get(rest.strip())
            elif head == "mtllib" and rest:
                self.materials.update(read_mtl(Path(self.path).parent / rest.strip()))
        self._close()
        points, uvs = _columns(self.points, 3), _columns(self.uvs, 2)
        return [self._part(points, uvs, *pending) for pending in self.pending]

    def _absolute(self, face: str) -> str:
        """A face whose negative numbers, which count back from its line, are replaced."""
        counts = (len(self.points) + 1, len(self.uvs) + 1, 0)
        words = [word.split("/") for word in face.split()]
        return " ".join(
            "/".join(str(int(n) + counts[k]) if n.startswith("-") else n for k, n in enumerate(numbers))
            for numbers in words
        )

    def _close(self) -> None:
        """Turn the faces that have gathered into corners of triangles."""
        if self.faces:
            self.pending.append((*_corners(self.faces), self.material, self.group))
            self.faces = []

    def _part(
        self,
        points: np.ndarray,
        uvs: np.ndarray,
        corners: np.ndarray,
        quads: slice,
        material: Material | None,
        group: int,
    ) -> MeshPart:
        """One part from the (point, uv) pairs of its corners (n, 2), with each pair once."""
        if corners[:, 0].min() < 0 or corners[:, 0].max() >= len(points):
            raise ImportFileError("a face refers to a vertex that does not exist", self.path)
        _split_along_shorter_diagonals(corners, points, quads)
        has_uvs = len(uvs) > 0 and corners[:, 1].min() >= 0 and corners[:, 1].max() < len(uvs)
        keys = corners[:, 0] * (len(uvs) + 1) + (corners[:, 1] if has_uvs else 0)
        unique, inverse = np.unique(keys, return_inverse=True)
        of_point, of_uv = np.divmod(unique, len(uvs) + 1)
        return MeshPart(
            points[of_point],
            inverse.reshape(-1, 3).astype(np.int32),
            uvs[of_uv] if has_uvs else None,
            material,
            group,
        )


def _split(line: str) -> tuple[str, str]:
    """The first word of a line and the rest."""
    words = line.split(None, 1)
    return (words[0], words[1].rstrip()) if len(words) == 2 else (line.strip(), "")


def _columns(lines: list[str], count: int) -> np.ndarray:
    """The first `count` numbers of each line."""
    if not lines:
        return np.zeros((0, count))
    values = np.array(" ".join(lines).split(), dtype=np.float64)
    if len(values) == len(lines) * len(lines[0].split()) and len(values) >= count * len(lines):
        return np.ascontiguousarray(values.reshape(len(lines), -1)[:, :count])
    return np.array([[float(word) for word in line.split()[:count]] for line in lines])


def _corners(lines: list[str]) -> tuple[np.ndarray, slice]:
    """Corners of the triangles that polygons fall into, as places of point and uv (n, 2), -1 for none.

    The second result tells which of them are of quadrilaterals: first all halves a, b, c, then all a, c, d.
    """
    sizes = np.array([len(line.split()) for line in lines])
    count = int(np.maximum(sizes - 2, 0).sum())
    if count > limits.triangles:
        raise LimitError(f"{count} triangles are more than the limit of {limits.triangles}")
    words = " ".join(lines).split()
    slashes = words[0].count("/")
    if all(word.count("/") == slashes for word in words):
        numbers = np.array(" ".join(words).replace("//", "/0/").replace("/", " ").split(), dtype=np.int64)
        table = numbers.reshape(len(words), -1)
        pairs = table[:, :2] if table.shape[1] > 1 else np.column_stack([table, np.zeros_like(table)])
    else:
        fields = [word.split("/") for word in words]
        pairs = np.array([[int(f[0]), int(f[1]) if len(f) > 1 and f[1] else 0] for f in fields])
    places = pairs - 1
    starts = np.cumsum(sizes) - sizes
    triangles = [_fans(starts[sizes == size], int(size)) for size in np.unique(sizes) if size > 2]
    if not triangles:
        raise ValueError("a face has fewer than three corners")
    first = 3 * int((sizes == 3).sum())
    quads = slice(first, first + 6 * int((sizes == 4).sum()))
    return places[np.concatenate(triangles).reshape(-1)], quads


def _split_along_shorter_diagonals(corners: np.ndarray, points: np.ndarray, quads: slice) -> None:
    """Turn the halves of quadrilaterals (in `corners`, in place) to their shorter diagonals, as MuJoCo does.

    It matters where the four corners lie in no plane.
    """
    halves = corners[quads].reshape(2, -1, 3, corners.shape[1])
    a, b, c, d = halves[0, :, 0], halves[0, :, 1], halves[0, :, 2], halves[1, :, 2]
    at = [points[one[:, 0]] for one in (a, b, c, d)]
    turned = ((at[1] - at[3]) ** 2).sum(axis=1) < ((at[0] - at[2]) ** 2).sum(axis=1)
    others = np.array([[a, b, d], [b, c, d]]).transpose(0, 2, 1, 3)
    halves[:, turned] = others[:, turned]


def _fans(first: np.ndarray, size: int) -> np.ndarray:
    """Places of corners of triangles (m, 3) that polygons with `size` corners from `first` on fall into."""
    second = first + np.arange(1, size - 1)[:, None]
    return np.stack([np.broadcast_to(first, second.shape), second, second + 1], axis=-1).reshape(-1, 3)


def read_mtl(path: Path) -> dict[str, Material]:
    """Read the materials of an MTL file; a missing file has none, a line that is wrong is left out."""
    if not path.is_file():
        return {}
    table: dict[str, Material] = {}
    current = Material()
    for line in read_bytes(path, limits.mesh_bytes).decode("utf-8", errors="replace").splitlines():
        head, rest = _split(line)
        words = rest.split()
        try:
            if head == "newmtl":
                current = table.setdefault(rest.strip(), Material())
            elif head == "Kd" and len(words) >= 3:
                red, green, blue = (float(word) for word in words[:3])
                current.rgba = (red, green, blue, current.rgba[3])
            elif head == "d" and words:
                current.rgba = (*current.rgba[:3], float(words[-1]))
            elif head == "Tr" and words:
                current.rgba = (*current.rgba[:3], 1.0 - float(words[-1]))
            elif head == "map_Kd" and words:
                image = path.parent / words[-1]
                current.texture = str(image) if image.is_file() else ""
        except ValueError as error:
            text = f"{path}: {line.strip()[:80]!r} is left out: {error}"
            warnings.warn(text, UnsupportedElementWarning, stacklevel=2)
    return table

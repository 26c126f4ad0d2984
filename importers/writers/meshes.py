"""Triangles of shapes, and mesh files beside a robot file."""

from pathlib import Path

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.geometry import SDF
from newtonsim.geometry.hull import flat_normal
from newtonsim.importers.geometry.meshes import Surface
from newtonsim.importers.writers.names import Names
from newtonsim.importers.writers.records import ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.scene.enums import GeoType

_SIDES = 64
_RINGS = 32
_THIN = 1.0e-5
"""Half the thickness of a sheet over its largest coordinate, so that it outlasts rounding by 1e-7."""


def triangles_of(shape: ShapeRecord) -> tuple[np.ndarray, np.ndarray] | None:
    """Return vertices (n, 3) float64 in the shape's frame and triangles (m, 3) of its surface.

    Round shapes become polyhedra with their corners on the surface; None for distance fields whose mesh is
    not known, and for planes and the rest.
    """
    if shape.kind == GeoType.CONE:
        return _cone(float(shape.scale[0]), float(shape.scale[1]))
    if shape.kind == GeoType.ELLIPSOID:
        vertices, faces = unit_ball()
        return _stretched(vertices, faces, shape.scale)
    source = shape.source
    if shape.kind == GeoType.HFIELD:
        source = source.to_mesh()
    elif isinstance(source, SDF):
        source = source.source_mesh
    if source is None:
        return None
    vertices, faces = source.surface
    return _stretched(vertices.astype(np.float64), faces, shape.scale)


def _stretched(vertices: np.ndarray, faces: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stretched = Surface(vertices, faces).scaled(scale)
    return stretched.vertices, stretched.faces


def _cone(radius: float, half_height: float) -> tuple[np.ndarray, np.ndarray]:
    """Cone along y, apex at the top."""
    angle = np.arange(_SIDES) * (2.0 * np.pi / _SIDES)
    rim = np.stack([radius * np.sin(angle), np.full(_SIDES, -half_height), radius * np.cos(angle)], axis=1)
    vertices = np.vstack([rim, [0.0, half_height, 0.0], [0.0, -half_height, 0.0]])
    this, following = np.arange(_SIDES), (np.arange(_SIDES) + 1) % _SIDES
    side = np.stack([this, following, np.full(_SIDES, _SIDES)], axis=1)
    lid = np.stack([following, this, np.full(_SIDES, _SIDES + 1)], axis=1)
    return vertices, np.vstack([side, lid])


def unit_ball(sides: int = _SIDES, rings: int = _RINGS) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (n, 3) and triangles (m, 3) of a polyhedron in the unit sphere, with its poles on y.

    Args:
        sides: Corners of a ring.
        rings: Bands from pole to pole.
    """
    polar = np.arange(1, rings) * (np.pi / rings)
    around = np.arange(sides) * (2.0 * np.pi / sides)
    p, a = (grid.reshape(-1) for grid in np.meshgrid(polar, around, indexing="ij"))
    points = np.stack([np.sin(p) * np.sin(a), np.cos(p), np.sin(p) * np.cos(a)], axis=1)
    north, south = len(points), len(points) + 1
    vertices = np.vstack([points, [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    this = np.arange(sides)
    following = (this + 1) % sides
    last = (rings - 2) * sides
    faces = [np.stack([this, following, np.full(sides, north)], axis=1)]
    faces.append(np.stack([last + following, last + this, np.full(sides, south)], axis=1))
    for ring in range(rings - 2):
        upper, lower = ring * sides, (ring + 1) * sides
        faces.append(np.stack([lower + this, lower + following, upper + this], axis=1))
        faces.append(np.stack([lower + following, upper + following, upper + this], axis=1))
    return vertices, np.vstack(faces)


def thickened(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a mesh that lies in a plane as two sheets with next to nothing between; None for any other mesh.

    Args:
        vertices: Points (n, 3).
        faces: Triangles (m, 3).
    """
    normal = flat_normal(vertices)
    if normal is None:
        return None
    level = vertices - np.outer((vertices - vertices.mean(axis=0)) @ normal, normal)
    step = _THIN * np.abs(vertices).max() * normal
    return np.vstack([level + step, level - step]), np.vstack([faces, faces[:, ::-1] + len(vertices)])


class MeshFolder:
    """Writes each mesh once, as an OBJ file in a folder named after the robot file."""

    def __init__(self, path: Path, names: Names, report: ExportReport):
        self.folder = path.parent / f"{path.stem}_meshes"
        self.names, self.report = names, report
        self._written: dict[tuple, str] = {}
        self._sources: list[object] = []

    def add(self, shape: ShapeRecord, vertices: np.ndarray, faces: np.ndarray) -> str:
        """Write a mesh, unless a shape with the same source and scale has it; return the name of the file.

        Args:
            shape: The first shape that needs it gives it its name.
            vertices: Points (n, 3).
            faces: Triangles (m, 3).
        """
        # of the points there are twice as many in a mesh that was thickened
        source = id(shape.source) if shape.source is not None else shape.kind
        key = (source, len(vertices), *shape.scale.tolist())
        if key not in self._written:
            name = self.names.unique(getattr(shape.source, "name", None) or shape.key)
            self._sources.append(shape.source)
            self._written[key] = name
            path = self.folder / f"{name}.obj"
            self._write(path, vertices, faces)
            self.report.files.append(str(path))
        return self._written[key]

    def reference(self, name: str) -> str:
        """Return how the robot file calls the mesh."""
        return f"{self.folder.name}/{name}.obj"

    @staticmethod
    def _write(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
        try:
            path.parent.mkdir(exist_ok=True)
            with path.open("w", encoding="ascii") as file:
                # one format for all rows: np.savetxt formats row by row, which takes five times as long
                file.write(("v %.9g %.9g %.9g\n" * len(vertices)) % tuple(vertices.ravel().tolist()))
                file.write(("f %d %d %d\n" * len(faces)) % tuple((faces + 1).ravel().tolist()))
        except OSError as error:
            raise ModelError(f"cannot write the mesh {str(path)!r}: {error}") from error


def file_name(key: str) -> str:
    """Return a key as the stem of a portable file name."""
    allowed = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in key)
    return allowed.strip("_")[:80] or "mesh"

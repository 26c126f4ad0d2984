"""Tetrahedral meshes, and how to fill a closed surface with one."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.geometry.mesh import Mesh

_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
"""Faces of a tetrahedron of positive volume, counter-clockwise seen from outside."""


class TetMesh:
    """Points and the tetrahedra between them, all of positive volume.

    Two corners of an inverted tetrahedron are exchanged. Pass the mesh to a builder with
    `builder.add_soft_mesh(pos, rot, scale, vel, mesh.vertices, mesh.indices, ...)`.

    Attributes:
        vertices: Points, shape [n, 3], float64 [m].
        tetrahedra: Corners, shape [m, 4], int32.
        name: Name of the mesh in messages, or None.

    Raises:
        ModelError: There are no tetrahedra, a corner does not exist, or a point is not finite.
    """

    def __init__(self, vertices: npt.ArrayLike, tetrahedra: npt.ArrayLike, name: str | None = None):
        self.name = name
        self.vertices = self._numbers(vertices, np.float64, 3, "vertices")
        corners = self._numbers(tetrahedra, np.int64, 4, "tetrahedra")
        if not len(corners):
            raise ModelError(f"{self.label}: has no tetrahedra")
        outside = np.flatnonzero(((corners < 0) | (corners >= len(self.vertices))).any(axis=1))
        if len(outside):
            raise ModelError(
                f"{self.label}: tetrahedron {outside[0]} has the corners {corners[outside[0]].tolist()}, "
                f"outside 0..{len(self.vertices) - 1}"
            )
        bad = np.flatnonzero(~np.isfinite(self.vertices).all(axis=1))
        if len(bad):
            raise ModelError(f"{self.label}: vertex {bad[0]} is not finite: {self.vertices[bad[0]].tolist()}")
        inverted = _signed_volumes(self.vertices, corners) < 0.0
        corners[inverted] = corners[inverted][:, [0, 2, 1, 3]]
        self.tetrahedra = corners.astype(np.int32)

    def _numbers(self, values: npt.ArrayLike, dtype: type, width: int, what: str) -> np.ndarray:
        """Read rows of numbers, given flat or as rows."""
        try:
            array = np.array(values, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{self.label}: the {what} are not numbers: {error}") from error
        if array.size % width:
            raise ModelError(
                f"{self.label}: {array.size} numbers are not a whole number of rows of {width} {what}"
            )
        return array.reshape(-1, width)

    @property
    def label(self) -> str:
        """Name of the mesh in messages."""
        return "tetrahedral mesh" if self.name is None else f"tetrahedral mesh '{self.name}'"

    @property
    def indices(self) -> np.ndarray:
        """The corners in one row (m * 4,)."""
        return self.tetrahedra.reshape(-1)

    @functools.cached_property
    def volumes(self) -> np.ndarray:
        """Volume of each tetrahedron (m,), zero for flat ones [m^3]."""
        return _signed_volumes(self.vertices, self.tetrahedra)

    @property
    def volume(self) -> float:
        """Total volume [m^3]."""
        return float(self.volumes.sum())

    @functools.cached_property
    def surface(self) -> Mesh:
        """The faces that belong to one tetrahedron only; its vertices are all of this mesh's."""
        return Mesh(
            self.vertices,
            surface_triangles(self.tetrahedra).reshape(-1),
            compute_inertia=False,
            name=f"surface of {self.label}",
        )

    def __repr__(self) -> str:
        return f"TetMesh({len(self.vertices)} vertices, {len(self.tetrahedra)} tetrahedra)"


def _signed_volumes(vertices: np.ndarray, tetrahedra: np.ndarray) -> np.ndarray:
    a, b, c, d = (vertices[tetrahedra[:, k]] for k in range(4))
    return np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6.0


def surface_triangles(tetrahedra: np.ndarray) -> np.ndarray:
    """Return the faces (m, 3) that belong to one tetrahedron only, wound outward for positive volumes."""
    faces = np.concatenate([tetrahedra[:, face] for face in _FACES])
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return faces[np.sort(first[count == 1])]


def tetrahedralize(
    surface: Mesh, edge_length: float | None = None, tolerance: float = 1.0e-3, optimize: bool = True
) -> TetMesh:
    """Fill a closed surface with tetrahedra, by the library fTetWild (package pytetwild, extra `tetrahedra`).

    Y. Hu, T. Schneider, B. Wang, D. Zorin, D. Panozzo, "Fast tetrahedral meshing in the wild", ACM
    Transactions on Graphics 39(4), 2020.

    Args:
        surface: The surface. Its triangles may be of any quality; the boundary of the result follows it
            within the tolerance, but with its own triangles.
        edge_length: Target edge length [m], None for a twentieth of the diagonal of the bounding box. Edges
            are shorter where the surface requires it.
        tolerance: Largest distance of the result's boundary from the surface, relative to that diagonal.
        optimize: Whether to improve the shape of the tetrahedra, which takes most of the time.

    Returns:
        The mesh. Details differ between runs: store the result if that matters.

    Raises:
        ModelError: pytetwild is not installed, the surface is empty, open or inside out, an argument is out
            of range, or no mesh was found.
    """
    diagonal = _check_surface(surface, edge_length, tolerance)
    if importlib.util.find_spec("pytetwild") is None:
        raise ModelError(
            f"{surface.label}: tetrahedra need the package pytetwild: pip install 'newtonsim[tetrahedra]'"
        )
    if edge_length is None:
        edge_length = 0.05 * diagonal
    points, corners = _run_library(surface, float(edge_length), float(tolerance), bool(optimize))
    if not len(corners):
        raise ModelError(f"{surface.label}: no tetrahedral mesh was found")
    return TetMesh(points, corners, surface.name)


_SCRIPT = """
import sys
import numpy
import pytetwild
given = numpy.load(sys.argv[1])
points, corners = pytetwild.tetrahedralize(
    given["vertices"],
    given["triangles"],
    edge_length_abs=float(given["edge_length"]),
    epsilon=float(given["tolerance"]),
    optimize=bool(given["optimize"]),
)
numpy.savez(sys.argv[2], points=points, corners=corners)
"""
"""Program run in a separate process: the library ends its process on some inputs, and leaves files behind."""


def _run_library(
    surface: Mesh, edge_length: float, tolerance: float, optimize: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 3) and corners (m, 4) that fTetWild finds."""
    vertices, triangles = surface.surface
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(
            given,
            vertices=vertices.astype(np.float64),
            triangles=triangles.astype(np.int32),
            edge_length=edge_length,
            tolerance=tolerance,
            optimize=optimize,
        )
        command = [sys.executable, "-c", _SCRIPT, str(given), str(found)]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode or not found.exists():
            reason = run.stderr.strip().splitlines()[-1:] or [f"pytetwild ended with code {run.returncode}"]
            raise ModelError(f"{surface.label}: no tetrahedral mesh was found: {reason[0][:300]}")
        with np.load(found) as result:
            return result["points"], result["corners"]


def _check_surface(surface: Mesh, edge_length: float | None, tolerance: float) -> float:
    """Raise unless a mesh can be filled; return the diagonal of its bounding box [m]."""
    vertices, triangles = surface.surface
    if not len(triangles):
        raise ModelError(f"{surface.label}: has no triangles")
    if not surface.is_closed:
        raise ModelError(
            f"{surface.label}: is open or inside out; only a closed surface, each edge between two triangles "
            "and normals outwards, has an inside to fill"
        )
    diagonal = float(np.linalg.norm(np.ptp(vertices.astype(np.float64), axis=0)))
    if edge_length is not None and not 1.0e-3 * diagonal <= edge_length <= diagonal:
        raise ModelError(
            f"{surface.label}: edge_length {edge_length:g} must be {1.0e-3 * diagonal:g} to {diagonal:g}, "
            "a thousandth of the diagonal of the bounding box to the whole"
        )
    if not 1.0e-5 <= tolerance <= 0.1:
        raise ModelError(f"{surface.label}: tolerance {tolerance:g} must be 1e-5 to 0.1")
    return diagonal

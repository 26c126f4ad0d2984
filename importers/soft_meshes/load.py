"""Doors: a file by its ending, as tetrahedra or as cloth."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, ModelError
from newtonsim.geometry.mesh import Mesh
from newtonsim.geometry.tetmesh import TetMesh
from newtonsim.importers.files.arguments import check_arguments, check_number
from newtonsim.importers.files.clock import check_time, limited_time
from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import read_bytes
from newtonsim.importers.soft_meshes.cells import CellFile, gather
from newtonsim.importers.soft_meshes.gmsh import read_gmsh
from newtonsim.importers.soft_meshes.obj import read_obj
from newtonsim.importers.soft_meshes.vtk import read_vtk
from newtonsim.importers.soft_meshes.vtu import read_vtu

_READERS = {".vtk": read_vtk, ".vtu": read_vtu, ".msh": read_gmsh, ".obj": read_obj}


@limited_time()
def load_tet_mesh(path: str | Path, keep_unused: bool = False, scale: float = 1.0) -> TetMesh:
    """Read the tetrahedra of a file.

    Args:
        path: A .vtk (legacy, text or binary), .vtu, or Gmsh .msh (2.2 or 4.1, text or binary) file.
        keep_unused: Whether points that no tetrahedron uses stay, so that vertices are numbered as in the
            file; otherwise the others keep their order.
        scale: Factor on the points, for files that are not in metres.

    Returns:
        The mesh, inverted tetrahedra turned.

    Raises:
        ImportFileError: The file cannot be read or has no tetrahedra.
        ModelError: An argument is wrong.

    Warns:
        UnsupportedElementWarning: The file has solid cells of other kinds.
    """
    check_arguments(load_tet_mesh, locals())
    file = read_cells(path)
    corners = file.tetrahedra()
    file.warn_of_rest(3, stacklevel=3)  # one is the clock
    points, corners = gather(file.points * scale, corners, keep_unused)
    return TetMesh(points, corners, name=Path(path).name)


@limited_time()
def load_cloth_mesh(
    path: str | Path, weld: float | None = None, keep_unused: bool = False, scale: float = 1.0
) -> Mesh:
    """Read the triangles of a file; quads, polygons and strips are cut into triangles.

    Args:
        path: An .obj, .vtk, .vtu or .msh file.
        weld: Points that are no further apart than this become one, which closes seams [m, after scaling];
            0 for those at the same place, None to leave them. Triangles that lose a corner by it go.
        keep_unused: Whether points that no triangle uses stay, so that vertices are numbered as in the file;
            otherwise the others keep their order. A cloth would have particles of mass 0 there.
        scale: Factor on the points, for files that are not in metres.

    Returns:
        The surface without mass properties, for `ModelBuilder.add_cloth_mesh(..., vertices=mesh.vertices,
        indices=mesh.indices)`.

    Raises:
        ImportFileError: The file cannot be read or has no triangles.
        ModelError: An argument is wrong.

    Warns:
        UnsupportedElementWarning: The file has faces of other kinds.
    """
    check_arguments(load_cloth_mesh, locals())
    if weld is not None:
        check_number("weld", weld)
    file = read_cells(path)
    triangles = file.triangles()
    file.warn_of_rest(2, stacklevel=3)  # one is the clock
    check_time(str(path))
    points = file.points * scale
    if weld is not None:
        triangles = weld_points(points, weld)[triangles]
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (c != a)]
    if not len(triangles):
        raise ImportFileError("no triangle has three different corners", str(path))
    points, triangles = gather(points, triangles, keep_unused)
    return Mesh(points, triangles.reshape(-1), compute_inertia=False, is_solid=False, name=Path(path).name)


@limited_time()
def read_cells(path: str | Path) -> CellFile:
    """Read all points and cells of a file, by the ending of its name.

    Args:
        path: A .vtk, .vtu, .msh or .obj file.

    Raises:
        ImportFileError: It cannot be read, a point is not finite or a cell refers to one that is not there.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        raise ImportFileError(f"cells are read from {', '.join(_READERS)} files, not {suffix!r}", str(path))
    data = read_bytes(Path(path), limits.mesh_bytes)
    check_time(str(path))
    try:
        file = _READERS[suffix](data, str(path))
    except ImportFileError as error:
        if error.path is None:
            raise type(error)(error.message, str(path), error.line, error.element) from error
        raise
    except (ValueError, IndexError, OverflowError, KeyError, struct.error) as error:
        raise ImportFileError(f"the mesh cannot be read: {error}", str(path)) from error
    check_time(str(path))
    file.check()
    return file


def weld_points(points: np.ndarray, distance: float) -> np.ndarray:
    """Return for each point (n, 3) the lowest number of the points that it becomes one with (n,).

    Chains of points, each no further than the distance from the next, become one.

    Raises:
        ModelError: The distance is negative or not finite.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    if not 0.0 <= distance < np.inf:
        raise ModelError(f"weld {distance:g} must be at least 0")
    places, same = np.unique(points + 0.0, axis=0, return_inverse=True)
    same = same.reshape(-1)
    if distance > 0.0:
        near = KDTree(places).query_pairs(distance, output_type="ndarray")
        links = coo_array((np.ones(len(near), bool), (near[:, 0], near[:, 1])), shape=(len(places),) * 2)
        same = connected_components(links, directed=False)[1][same]
    _, first = np.unique(same, return_index=True)
    return first[same]

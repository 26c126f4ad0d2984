"""Meshes of soft bodies: surfaces, tetrahedra, links between points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from newtonsim.importers.soft_meshes import read_cells

_CORNERS = np.array([[1, 0, 2], [3, 0, 1], [3, 1, 2], [2, 0, 3]])
_EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


@dataclass(slots=True, eq=False)
class SoftMesh:
    """Points and what connects them.

    Attributes:
        points: Shape (n, 3) [m].
        faces: Triangles that are seen and collide (m, 3).
        tetrahedra: Shape (t, 4), none for surfaces.
    """

    points: np.ndarray
    faces: np.ndarray
    tetrahedra: np.ndarray

    def links(self) -> np.ndarray:
        """Edges of all elements (k, 2), each once, the lower point first."""
        if len(self.tetrahedra):
            pairs = self.tetrahedra[:, _EDGES].reshape(-1, 2)
        else:
            pairs = self.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
        pairs = np.sort(pairs, axis=1)
        return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)

    def bending_links(self) -> np.ndarray:
        """Pairs of points that are two edges apart (k, 2)."""
        neighbours: list[set[int]] = [set() for _ in self.points]
        for a, b in self.links().tolist():
            neighbours[a].add(b)
            neighbours[b].add(a)
        pairs = {
            (min(a, c), max(a, c))
            for a, around in enumerate(neighbours)
            for b in around
            for c in neighbours[b]
            if c != a and c not in around
        }
        return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def read_soft_mesh(path: str) -> SoftMesh:
    """Read a mesh by the ending of its name.

    Args:
        path: A file of tetrahedra or triangles that `read_cells` knows, such as OBJ and VTK.

    Returns:
        The tetrahedra if it has any, otherwise the triangles. Points are numbered as in the file; of surfaces
        those after the last that a face uses are left out.

    Raises:
        ImportFileError: The file cannot be read, or holds no elements.
    """
    file = read_cells(path)
    if any(block.kind.dimension == 3 for block in file.blocks):
        tetrahedra = file.tetrahedra()
        return SoftMesh(file.points, surface_of(tetrahedra), tetrahedra)
    triangles = file.triangles()
    return SoftMesh(file.points[: int(triangles.max()) + 1], triangles, np.zeros((0, 4), np.int64))


def surface_of(tetrahedra: np.ndarray) -> np.ndarray:
    """Triangles that belong to one tetrahedron only (m, 3), ordered by their ascending corners.

    They are seen counter-clockwise from outside where tetrahedra have a positive volume.
    """
    faces = tetrahedra[:, _CORNERS].reshape(-1, 3)
    _, place, times = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return faces[place[times == 1]]


@dataclass(slots=True, eq=False)
class ShownMesh:
    """What is seen of a soft body: points that follow those of the simulation.

    Attributes:
        faces: Triangles (m, 3) of the shown points.
        corners: Simulated points that each shown point follows (n, k).
        weights: Of these points (n, k).
    """

    faces: np.ndarray
    corners: np.ndarray
    weights: np.ndarray

    def points(self, x: np.ndarray) -> np.ndarray:
        """Shown points (W, n, 3) for simulated ones (W, N, 3)."""
        return np.einsum("nk,wnki->wni", self.weights, x[:, self.corners])


def show(mesh: SoftMesh, shown: SoftMesh | None = None) -> ShownMesh:
    """Bind a mesh to a simulated one.

    Args:
        mesh: The simulated mesh.
        shown: The mesh that is seen, None for the same one. Its points follow the tetrahedron that they are
            in or next to; if `mesh` is a surface, the nearest point.
    """
    if shown is None:
        every = np.arange(len(mesh.points))[:, None]
        return ShownMesh(mesh.faces, every, np.ones(every.shape))
    if not len(mesh.tetrahedra):
        from scipy.spatial import KDTree

        nearest = KDTree(mesh.points).query(shown.points)[1][:, None]
        return ShownMesh(shown.faces, nearest, np.ones(nearest.shape))
    base = mesh.points[mesh.tetrahedra[:, 0]]
    inverse = np.linalg.pinv(mesh.points[mesh.tetrahedra[:, 1:]] - base[:, None])
    corners, weights = [], []
    for point in shown.points:
        last = np.einsum("ti,tik->tk", point - base, inverse)
        all_four = np.concatenate([1.0 - last.sum(axis=1, keepdims=True), last], axis=1)
        best = int(np.argmax(all_four.min(axis=1)))
        corners.append(mesh.tetrahedra[best])
        weights.append(all_four[best])
    return ShownMesh(shown.faces, np.array(corners), np.array(weights))

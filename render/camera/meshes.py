"""Surfaces for the ray camera: triangles with a normal and texture coordinates at each corner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.camera.scene import CornerView

CREASE = np.cos(np.radians(40.0))
"""Cosine of the angle between neighbours above which an edge is sharp, if a mesh has no normals."""


class CameraMesh:
    """Triangles for cameras.

    Attributes:
        points: Corners in space, shape (n, 3), float32.
        triangles: Indices of their corners, counter-clockwise seen from the front, shape (m, 3), int32.
        corner_normals: Normals of the triangles' corners, shape (3 m, 3), float32; zero where unknown.
        corner_uvs: Texture coordinates likewise, shape (3 m, 2), float32.
        has_uvs: Whether texture coordinates were given.

    Args:
        points: Points, shape (n, 3) [m].
        triangles: Triangles, shape (m, 3) or flat.
        normals: Normals of the points, shape (n, 3); None to compute them, with sharp edges where
            neighbouring triangles meet at more than 40 degrees.
        uvs: Texture coordinates of the points, shape (n, 2), v up; None for none.
        corner_uvs: Those of the corners instead, shape (3 m, 2).

    Raises:
        ModelError: Array shapes do not match or an index is out of range.
    """

    def __init__(
        self,
        points: npt.ArrayLike,
        triangles: npt.ArrayLike,
        normals: npt.ArrayLike | None = None,
        uvs: npt.ArrayLike | None = None,
        corner_uvs: npt.ArrayLike | None = None,
    ):
        self.points = np.ascontiguousarray(points, np.float32).reshape(-1, 3)
        self.triangles = np.ascontiguousarray(triangles, np.int32).reshape(-1, 3)
        count = len(self.points)
        if len(self.triangles) and (self.triangles.min() < 0 or self.triangles.max() >= count):
            raise ModelError(f"camera mesh: an index is outside 0..{count - 1}")
        if not np.isfinite(self.points).all():
            raise ModelError("camera mesh: a point is not finite")
        corners = self.triangles.reshape(-1)
        self.has_uvs = uvs is not None or corner_uvs is not None
        if normals is None:
            self.corner_normals = crease_normals(self.points, self.triangles)
        else:
            self.corner_normals = _of_points("normals", normals, (count, 3))[corners]
        if uvs is not None:
            corner_uvs = _of_points("uvs", uvs, (count, 2))[corners]
        elif corner_uvs is None:
            corner_uvs = np.zeros((len(corners), 2))
        self.corner_uvs = _of_points("corner_uvs", corner_uvs, (len(corners), 2))
        self._meshes: dict[str, wp.Mesh] = {}
        self._bounds: tuple[np.ndarray, np.ndarray] | None = None

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corner of the box about the points (3,), zero if there are none."""
        if self._bounds is None:
            used = self.points[np.unique(self.triangles)] if len(self.triangles) else np.zeros((1, 3))
            self._bounds = used.min(axis=0), used.max(axis=0)
        return self._bounds

    def move(self, points: npt.ArrayLike) -> None:
        """Set new points (n, 3), with normals that are smooth everywhere."""
        self.points = _of_points("points", points, self.points.shape)
        self._bounds = None
        self.corner_normals = smooth_normals(self.points, self.triangles)
        for mesh in self._meshes.values():
            mesh.points.assign(self.points)
            mesh.refit()

    def on_device(self, device: wp.Device) -> wp.Mesh:
        """Return the triangles with their hierarchy on a device, created once."""
        if device.alias not in self._meshes:
            points = wp.array(self.points, dtype=wp.vec3, device=device)
            indices = wp.array(self.triangles.reshape(-1), dtype=int, device=device)
            self._meshes[device.alias] = wp.Mesh(points, indices)
        return self._meshes[device.alias]


def pack_corners(meshes: Sequence[CameraMesh], device: wp.Device) -> tuple[CornerView, list[int]]:
    """Return the corners of the triangles of all meshes for kernels, and the first triangle of each mesh."""
    corners = CornerView()
    normals = np.concatenate([np.zeros((0, 3), np.float32), *(mesh.corner_normals for mesh in meshes)])
    uvs = np.concatenate([np.zeros((0, 2), np.float32), *(mesh.corner_uvs for mesh in meshes)])
    corners.normal = wp.array(normals, dtype=wp.vec3, device=device)
    corners.uv = wp.array(uvs, dtype=wp.vec2, device=device)
    first = np.cumsum([0, *(len(mesh.triangles) for mesh in meshes)])
    return corners, first[:-1].tolist()


def _of_points(name: str, values: npt.ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    array = np.asarray(values, np.float32)
    if array.shape != shape:
        raise ModelError(f"camera mesh: {name}: expected shape {shape}, got {array.shape}")
    return array


def crease_normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return normals of the corners of triangles, smooth across all but sharp edges.

    Each corner has the mean of the triangles around its place that differ from its own by less than the
    crease angle, weighted by their angles there (Thuermer and Wuethrich, "Computing vertex normals from
    polygonal facets", 1998). Points at the same place count as one.

    Args:
        points: Points (n, 3).
        triangles: Triangles (m, 3).

    Returns:
        Unit normals (3 m, 3), float32; zero for triangles without area.
    """
    count = len(triangles)
    if not count:
        return np.zeros((0, 3), np.float32)
    corner = points[triangles].astype(np.float64)
    faces = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(faces, axis=1, keepdims=True)
    faces = np.divide(faces, length, out=np.zeros_like(faces), where=length > 0.0)
    weights = _angles(corner).reshape(-1)
    place = np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)[triangles.reshape(-1)]
    order = np.argsort(place, kind="stable")
    start = np.searchsorted(place[order], place)
    around = np.bincount(place)[place]
    owner = np.arange(3 * count) // 3
    normals = np.zeros((3 * count, 3))
    for k in range(int(around.max())):
        mine = np.flatnonzero(k < around)
        other = order[start[mine] + k]
        near = np.einsum("ij,ij->i", faces[owner[mine]], faces[owner[other]]) > CREASE
        mine, other = mine[near], other[near]
        normals[mine] += weights[other, None] * faces[owner[other]]
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.divide(normals, length, out=np.zeros_like(normals), where=length > 0.0).astype(np.float32)


def smooth_normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return normals of the corners of triangles, smooth across all edges that share points.

    Args:
        points: Points (n, 3).
        triangles: Triangles (m, 3).

    Returns:
        Means of the normals around each point, weighted by area, unit, (3 m, 3), float32.
    """
    corner = points[triangles]
    faces = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    flat, spread = triangles.reshape(-1), np.repeat(faces, 3, axis=0)
    sums = [np.bincount(flat, spread[:, k], len(points)) for k in range(3)]
    length = np.sqrt(sums[0] ** 2 + sums[1] ** 2 + sums[2] ** 2)
    normals = np.stack(sums, axis=1) / np.maximum(length, np.finfo(np.float64).tiny)[:, None]
    return normals[flat].astype(np.float32)


def _angles(corner: np.ndarray) -> np.ndarray:
    """Angle of each triangle (m, 3, 3) at each corner (m, 3) [rad]."""
    along = np.roll(corner, -1, axis=1) - corner
    back = np.roll(corner, 1, axis=1) - corner
    across = np.linalg.norm(np.cross(along, back), axis=2)
    return np.arctan2(across, np.einsum("ijk,ijk->ij", along, back))

"""Convex hulls of point sets, as polyhedra with polygonal faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.views.shapes import HullView
from newtonsim.runtime.devices import find_device
from newtonsim.scene.allocation import put

# thickness of a point set, over its extent, below which it counts as flat, straight or a point
_FLAT = 1.0e-6
# distance of a facet's corners from a plane, over the extent, up to which it is part of the same polygon
_COPLANAR = 1.0e-5
# cosine of the angle to the polygon's normal that such a facet must keep: slivers point anywhere
_ALIGNED = 0.99


@dataclass(frozen=True)
class HullTables:
    """Concatenated neighbours and faces of a hull, and their numbers for each vertex and face."""

    neighbor_counts: list[int]
    neighbors: np.ndarray
    corner_counts: list[int]
    corners: np.ndarray


def _joined(parts: Sequence[npt.ArrayLike]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)


def _parts(joined: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Return the parts of an array that `_joined` concatenated."""
    ends = np.cumsum(counts).tolist()
    return [joined[end - count : end] for count, end in zip(counts.tolist(), ends, strict=True)]


class ConvexHull:
    """The smallest convex polyhedron about a set of points, or about a subset of them.

    Coplanar facets are merged. Points in a plane give a polygon with two faces, points on a line a segment
    without faces, coinciding points one vertex.

    Attributes:
        vertices: Corners, shape (n, 3), float32 [m], sorted along the longest side of their bounds.
        faces: Vertices of each face, counter-clockwise seen from outside.
        normals: Outward unit normals of the faces, shape (len(faces), 3), float32.
        neighbors: For each vertex, the vertices with which it shares an edge.
    """

    def __init__(self, points: npt.ArrayLike, max_vertices: int = 64):
        """Build the hull.

        Args:
            points: Points, shape (n, 3) [m], with the scale of the shape applied.
            max_vertices: Largest number of vertices, at least 6. A hull with more keeps those that extend
                farthest along the coordinate axes, so that its bounds are unchanged, and then repeatedly the
                vertex farthest outside the hull so far; it lies inside the full one.

        Raises:
            ModelError: If there are no points, one is not finite, or `max_vertices` is less than 6.
        """
        points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
        if not len(points):
            raise ModelError("convex hull: there are no points")
        if not np.all(np.isfinite(points)):
            raise ModelError("convex hull: a point is not finite")
        if max_vertices < 6:
            raise ModelError(f"convex hull: max_vertices must be at least 6, got {max_vertices}")
        # what kernels see is rounded; the hull is that of the rounded points
        points = np.unique(points.astype(np.float32), axis=0).astype(np.float64)
        extent = float(np.max(np.ptp(points, axis=0)))
        axes, rank = _principal_axes(points, _FLAT * extent)
        if rank == 3:
            points = _reduce(points, _solid_corners(points), max_vertices)
            polygons = _merge_facets(points, _COPLANAR * extent)
        elif rank == 2:
            points = _reduce(points, _flat_corners(points, axes), max_vertices)
            polygons = _two_sides(points, axes)
        else:
            along = points @ axes[0]
            points = points[[np.argmin(along), np.argmax(along)]] if rank == 1 else points[:1]
            polygons = []
        self._number(points, polygons)

    def _number(self, points: np.ndarray, polygons: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Keep the points that are corners, sorted, and set all attributes."""
        used = np.arange(len(points))
        if polygons:
            used = np.unique(np.concatenate([corners for corners, _ in polygons]))
        used = used[np.argsort(points[used, np.argmax(np.ptp(points, axis=0))], kind="stable")]
        number = np.full(len(points), -1)
        number[used] = np.arange(len(used))
        self.vertices = points[used].astype(np.float32)
        self.faces = [number[corners].astype(np.int32) for corners, _ in polygons]
        self.normals = np.array([normal for _, normal in polygons], dtype=np.float32).reshape(-1, 3)
        linked: list[set[int]] = [set() for _ in used]
        for face in self.faces:
            for i, j in zip(face.tolist(), np.roll(face, -1).tolist()):
                linked[i].add(j)
                linked[j].add(i)
        if not polygons and len(used) == 2:
            linked = [{1}, {0}]
        self.neighbors = [np.array(sorted(ids), dtype=np.int32) for ids in linked]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the hull as arrays, by name."""
        tables = self.tables
        return {
            "vertices": self.vertices,
            "normals": self.normals,
            "corner_counts": np.array(tables.corner_counts, np.int32),
            "corners": tables.corners,
            "neighbor_counts": np.array(tables.neighbor_counts, np.int32),
            "neighbors": tables.neighbors,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> ConvexHull:
        """Return the hull from the arrays of `to_arrays`."""
        hull = cls.__new__(cls)
        hull.vertices, hull.normals = arrays["vertices"], arrays["normals"]
        hull.faces = _parts(arrays["corners"], arrays["corner_counts"])
        hull.neighbors = _parts(arrays["neighbors"], arrays["neighbor_counts"])
        return hull

    @cached_property
    def tables(self) -> HullTables:
        """Neighbours and faces as flat arrays, computed once."""
        return HullTables(
            neighbor_counts=[len(ids) for ids in self.neighbors],
            neighbors=_joined(self.neighbors),
            corner_counts=[len(face) for face in self.faces],
            corners=_joined(self.faces),
        )

    def __repr__(self) -> str:
        return f"ConvexHull({len(self.vertices)} vertices, {len(self.faces)} faces)"


def pack_hulls(hulls: Sequence[ConvexHull], device: wp.DeviceLike = None) -> HullView:
    """Concatenate hulls into arrays for kernels.

    Args:
        hulls: The hulls, each in the frame of its shape.
        device: Where the arrays live.
    """
    device = find_device(device)

    def starts(counts: list[int]) -> wp.array:
        return put(np.concatenate(([0], np.cumsum(counts))).astype(np.int32), dtype=int, device=device)

    def joined(parts: list[np.ndarray], dtype: type) -> wp.array:
        empty = np.zeros((0, 3), np.float32) if dtype is wp.vec3 else np.zeros(0, np.int32)
        return put(np.concatenate([empty, *parts]), dtype=dtype, device=device)

    tables = [hull.tables for hull in hulls]
    view = HullView()
    view.vertex_start = starts([len(hull.vertices) for hull in hulls])
    view.vertex = joined([hull.vertices for hull in hulls], wp.vec3)
    view.neighbor_start = starts([n for table in tables for n in table.neighbor_counts])
    view.neighbor = joined([table.neighbors for table in tables], int)
    view.face_start = starts([len(hull.faces) for hull in hulls])
    view.face_normal = joined([hull.normals for hull in hulls], wp.vec3)
    view.corner_start = starts([n for table in tables for n in table.corner_counts])
    view.corner = joined([table.corners for table in tables], int)
    return view


def flat_normal(points: np.ndarray) -> np.ndarray | None:
    """Return the normal of the plane in which points (n, 3) lie up to rounding; None if they do not."""
    axes, rank = _principal_axes(points, _FLAT * float(np.max(np.ptp(points, axis=0))))
    return axes[2] if rank < 3 else None


def _principal_axes(points: np.ndarray, flat: float) -> tuple[np.ndarray, int]:
    """Orthonormal axes (3, 3), longest first, and along how many the points extend by more than flat."""
    offsets = points - points.mean(axis=0)
    _, vectors = np.linalg.eigh(offsets.T @ offsets)
    axes = vectors.T[::-1]
    return axes, int(np.sum(np.ptp(offsets @ axes.T, axis=0) > flat))


def _solid_corners(points: np.ndarray) -> np.ndarray:
    """Indices of the points that are corners of their hull in space."""
    from scipy.spatial import ConvexHull as Qhull

    return Qhull(points).vertices


def _flat_corners(points: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Indices of the points that are corners of their hull in the plane of the first two axes."""
    from scipy.spatial import ConvexHull as Qhull

    return Qhull(points @ axes[:2].T).vertices


def _reduce(points: np.ndarray, corners: np.ndarray, count: int) -> np.ndarray:
    """Choose at most `count` of the points, all corners of their hull, that leave out little of it."""
    points = points[corners]
    if len(points) <= count:
        return points
    chosen = set()
    for axis in range(3):
        chosen |= {int(np.argmin(points[:, axis])), int(np.argmax(points[:, axis]))}
    while len(chosen) < count:
        outside = _distance_outside(points, points[sorted(chosen)])
        outside[sorted(chosen)] = -np.inf
        chosen.add(int(np.argmax(outside)))
    return points[sorted(chosen)]


def _distance_outside(points: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Greatest height [m] of each point over the facets of the hull of the kept ones, shape (n,)."""
    from scipy.spatial import ConvexHull as Qhull

    axes, rank = _principal_axes(kept, _FLAT * float(np.max(np.ptp(points, axis=0))))
    if rank == 3:
        planes = Qhull(kept).equations
        return np.max(points @ planes[:, :3].T + planes[:, 3], axis=1)
    offsets = (points - kept.mean(axis=0)) @ axes.T
    away = np.linalg.norm(offsets[:, rank:], axis=1)
    if rank < 2 or np.max(away) > _FLAT * np.max(np.abs(offsets)):
        return away
    planes = Qhull((kept - kept.mean(axis=0)) @ axes[:2].T).equations
    return np.max(offsets[:, :2] @ planes[:, :2].T + planes[:, 2], axis=1)


def _two_sides(points: np.ndarray, axes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both faces of a flat set of corners: their corners in order, and their normals."""
    offsets = (points - points.mean(axis=0)) @ axes[:2].T
    order = np.argsort(np.arctan2(offsets[:, 1], offsets[:, 0]))
    normal = np.cross(axes[0], axes[1])
    return [(order, normal), (order[::-1], -normal)]


def _merge_facets(points: np.ndarray, tolerance: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Faces of the hull of points, from the triangles of Qhull: their corners in order, and their normals."""
    from scipy.spatial import ConvexHull as Qhull

    hull = Qhull(points)
    triangles, normals = hull.simplices.copy(), hull.equations[:, :3]
    edge_a = points[triangles[:, 1]] - points[triangles[:, 0]]
    edge_b = points[triangles[:, 2]] - points[triangles[:, 0]]
    area_vector = np.cross(edge_a, edge_b)
    inward = np.sum(area_vector * normals, axis=1) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    # two facets of one polygon are both aligned with its normal
    similar = np.einsum("fi,fki->fk", normals, normals[hull.neighbors]) > 2.0 * _ALIGNED**2 - 1.0
    linked = [ids[row].tolist() for ids, row in zip(hull.neighbors, similar, strict=True)]
    taken = np.zeros(len(triangles), dtype=bool)
    polygons = []
    # large facets first: their normals are the most exact
    for seed in np.argsort(-np.linalg.norm(area_vector, axis=1)).tolist():
        if taken[seed]:
            continue
        taken[seed] = True
        group, waiting = [seed], [seed]
        while waiting:
            for other in linked[waiting.pop()]:
                if taken[other]:
                    continue
                heights = (points[triangles[other]] - points[triangles[seed, 0]]) @ normals[seed]
                if np.max(np.abs(heights)) <= tolerance and normals[other] @ normals[seed] > _ALIGNED:
                    taken[other] = True
                    group.append(other)
                    waiting.append(other)
        polygons.append((_outline(triangles[group]), normals[seed]))
    return polygons


def _outline(triangles: np.ndarray) -> np.ndarray:
    """Corners around a connected group of triangles (n, 3) with a common orientation."""
    edges = {
        (int(a), int(b)) for corner in triangles for a, b in zip(corner, np.roll(corner, -1), strict=True)
    }
    following = {a: b for a, b in edges if (b, a) not in edges}
    start = min(following)
    corners = [start]
    while following[corners[-1]] != start:
        corners.append(following[corners[-1]])
    return np.array(corners)

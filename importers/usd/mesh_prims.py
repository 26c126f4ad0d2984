"""Points and faces of Mesh prims as triangles."""

import numpy as np

from newtonsim.importers.meshes import MAX_FACES
from newtonsim.importers.usd.element import Element


def triangles_of(element: Element) -> tuple[np.ndarray, np.ndarray]:
    """Read a Mesh prim.

    Its control cage is taken as it is, whatever the subdivision scheme; faces that are holes are left out.

    Returns:
        Vertices (n, 3) in local space and triangles (m, 3), counter-clockwise seen from outside.
    """
    points = element.array("points", np.float64, 3)
    counts = element.array("faceVertexCounts", np.int64)
    indices = element.array("faceVertexIndices", np.int64)
    if len(counts) and counts.min() < 3:
        raise element.error(f"attribute 'faceVertexCounts' has a face of {counts.min()} corners")
    if counts.sum() != len(indices):
        raise element.error(
            f"attribute 'faceVertexIndices' has {len(indices)} entries, expected {counts.sum()}, the sum of"
            " 'faceVertexCounts'"
        )
    if len(indices) and (indices.min() < 0 or indices.max() >= len(points)):
        raise element.error(f"attribute 'faceVertexIndices' names a point outside 0..{len(points) - 1}")
    if len(indices) - 2 * len(counts) > MAX_FACES:
        raise element.error(f"the mesh has more triangles than the limit of {MAX_FACES}")
    faces = _triangulate(points, counts, indices, _holes(element, len(counts)))
    if element.token("orientation", "rightHanded", ("rightHanded", "leftHanded")) == "leftHanded":
        faces = faces[:, ::-1]
    return points, faces


def _holes(element: Element, count: int) -> np.ndarray:
    """Which faces are left out."""
    holes = np.zeros(count, bool)
    listed = element.array("holeIndices", np.int64)
    if len(listed) and (listed.min() < 0 or listed.max() >= count):
        raise element.error(f"attribute 'holeIndices' names a face outside 0..{count - 1}")
    holes[listed] = True
    return holes


def _triangulate(
    points: np.ndarray, counts: np.ndarray, indices: np.ndarray, holes: np.ndarray
) -> np.ndarray:
    """Cut all faces into triangles, in the order of the faces of each number of corners."""
    starts = np.cumsum(counts) - counts
    parts = [np.zeros((0, 3), np.int64)]
    for corners in np.unique(counts[~holes]):
        rows = starts[(counts == corners) & ~holes][:, None] + np.arange(corners)
        polygons = indices[rows]
        if corners == 3:
            parts.append(polygons)
            continue
        bent = _is_bent(points[polygons])
        parts.append(_fans(polygons[~bent]))
        parts += [clip_ears(points, polygon) for polygon in polygons[bent]]
    return np.concatenate(parts).astype(np.int64)


def _fans(polygons: np.ndarray) -> np.ndarray:
    corners = polygons.shape[1]
    fan = np.stack([np.zeros(corners - 2, int), np.arange(1, corners - 1), np.arange(2, corners)], axis=1)
    return polygons[:, fan].reshape(-1, 3)


def _normals(corners: np.ndarray) -> np.ndarray:
    """Normals (n, 3) of polygons (n, k, 3) by Newell's method, twice the area long."""
    return np.cross(corners, np.roll(corners, -1, axis=1)).sum(axis=1)


def _is_bent(corners: np.ndarray) -> np.ndarray:
    """Which polygons (n, k, 3) turn the wrong way at a corner, so that a fan would lie outside."""
    before, after = corners - np.roll(corners, 1, axis=1), np.roll(corners, -1, axis=1) - corners
    turns = np.einsum("nki,ni->nk", np.cross(before, after), _normals(corners))
    return (turns < 0.0).any(axis=1)


def clip_ears(points: np.ndarray, polygon: np.ndarray) -> np.ndarray:
    """Triangulate a simple polygon by cutting off ears (Meisters 1975).

    Args:
        points: Points (n, 3).
        polygon: Indices of its corners (k,).

    Returns:
        Triangles (k - 2, 3).
    """
    normal = _normals(points[polygon][None])[0]
    left, triangles = list(polygon.tolist()), []
    while len(left) > 3:
        ear = next((i for i in range(len(left)) if _is_ear(points, left, i, normal)), 0)
        triangles.append([left[ear - 1], left[ear], left[(ear + 1) % len(left)]])
        del left[ear]
    return np.array([*triangles, left], dtype=np.int64)


def _is_ear(points: np.ndarray, polygon: list[int], at: int, normal: np.ndarray) -> bool:
    a, b, c = (points[polygon[k % len(polygon)]] for k in (at - 1, at, at + 1))
    if np.cross(b - a, c - b) @ normal <= 0.0:
        return False
    corners = {polygon[k % len(polygon)] for k in (at - 1, at, at + 1)}
    others = points[[index for index in polygon if index not in corners]]
    sides = [np.cross(end - start, others - start) @ normal for start, end in ((a, b), (b, c), (c, a))]
    return not np.all(np.array(sides) >= 0.0, axis=0).any()

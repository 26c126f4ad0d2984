"""Points, faces and texture coordinates of Mesh prims as triangles."""

import warnings

import numpy as np

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.importers.files.limits import limits
from newtonsim.importers.geometry.meshes import Surface
from newtonsim.importers.usd.element import Element


def triangles_of(element: Element) -> Surface:
    """Read a Mesh prim.

    Its control cage is taken as it is, whatever the subdivision scheme; faces that are holes are left out.

    Returns:
        Its triangles in local space, counter-clockwise seen from outside.
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
    if len(indices) - 2 * len(counts) > limits.triangles:
        raise element.error(f"the mesh has more triangles than the limit of {limits.triangles}")
    corners = _triangulate(points, counts, indices, _holes(element, len(counts)))
    surface = Surface(points, indices[corners], _texture_coordinates(element, indices, corners, len(points)))
    if element.token("orientation", "rightHanded", ("rightHanded", "leftHanded")) == "leftHanded":
        return surface.turned()
    return surface


def _texture_coordinates(
    element: Element, indices: np.ndarray, corners: np.ndarray, points: int
) -> np.ndarray | None:
    """Texture coordinates of the triangles' corners (m, 3, 2): `primvars:st`, or the first of their type."""
    from pxr import UsdGeom

    primvars = UsdGeom.PrimvarsAPI(element.prim).GetPrimvarsWithValues()
    named = [p for p in primvars if "texCoord2" in str(p.GetTypeName()) or p.GetPrimvarName() == "st"]
    if not named:
        return None
    primvar = next((p for p in named if p.GetPrimvarName() == "st"), named[0])
    per_corner = primvar.GetInterpolation() == UsdGeom.Tokens.faceVarying
    if not per_corner and primvar.GetInterpolation() not in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
        return None  # all corners of a face have the same
    values = np.array(primvar.ComputeFlattened(element.time), np.float64)
    expected = (len(indices) if per_corner else points, 2)
    if values.shape != expected or not np.isfinite(values).all():
        name = primvar.GetPrimvarName()
        text = f"expected {expected} finite numbers, got {values.shape}; the mesh has no texture coordinates"
        warnings.warn(f"{element.label}: primvar '{name}': {text}", UnsupportedElementWarning, stacklevel=2)
        return None
    return values[corners if per_corner else indices[corners]]


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
    """Cut all faces into triangles, in the order of the faces of each number of corners.

    Returns:
        Places of their corners in `indices` (m, 3).
    """
    starts = np.cumsum(counts) - counts
    parts = [np.zeros((0, 3), np.int64)]
    for corners in np.unique(counts[~holes]):
        rows = starts[(counts == corners) & ~holes][:, None] + np.arange(corners)
        polygons = indices[rows]
        if corners == 3:
            parts.append(rows)
            continue
        bent = _is_bent(points[polygons])
        parts.append(_fans(rows[~bent]))
        parts += [row[clip_ears(points, polygon)] for row, polygon in zip(rows[bent], polygons[bent])]
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
        Triangles (k - 2, 3), places of corners in `polygon`.
    """
    normal = _normals(points[polygon][None])[0]
    left, triangles = list(range(len(polygon))), []
    while len(left) > 3:
        rest = polygon[left].tolist()
        ear = next((i for i in range(len(rest)) if _is_ear(points, rest, i, normal)), 0)
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

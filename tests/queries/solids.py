"""Convex solids as level functions in double precision, and rays against them without closed forms.

A point p is inside where level(p) < 0, and level is convex. Along a ray it is a convex function of the
distance: golden section finds its least value, bisection the entry and the exit.
"""

import numpy as np
from scipy.spatial import ConvexHull as SciPyHull
from scipy.spatial.transform import Rotation

from newtonsim.scene.enums import GeoType


def level(kind, size, p: np.ndarray, planes: np.ndarray | None = None) -> np.ndarray:
    """Convex level function (...) of a solid at points (..., 3) of its frame."""
    radial = np.hypot(p[..., 0], p[..., 2])
    y = p[..., 1]
    if kind == "hull":
        return np.max(p @ planes[:, :3].T + planes[:, 3], axis=-1)
    if kind == GeoType.SPHERE:
        return np.linalg.norm(p, axis=-1) - size[0]
    if kind == GeoType.BOX:
        return np.max(np.abs(p) - size, axis=-1)
    if kind == GeoType.CAPSULE:
        return np.hypot(radial, np.maximum(np.abs(y) - size[1], 0.0)) - size[0]
    if kind == GeoType.CYLINDER:
        return np.maximum(radial - size[0], np.abs(y) - size[1])
    if kind == GeoType.CONE:
        return np.maximum(radial - 0.5 * size[0] / size[1] * (size[1] - y), -y - size[1])
    if kind == GeoType.ELLIPSOID:
        return (np.linalg.norm(p / size, axis=-1) - 1.0) * np.min(size)
    raise ValueError(kind)


def hull_planes(points: np.ndarray) -> np.ndarray:
    """Half-spaces (n, 4) of a point set: n·x + d <= 0."""
    return SciPyHull(points).equations


def to_frame(pose: np.ndarray, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    turn = Rotation.from_quat(np.asarray(pose[3:], np.float64))
    return turn.inv().apply(origins - pose[:3]), turn.inv().apply(directions)


def spans(kind, size, pose, origins, directions, reach: float, planes=None):
    """Entry, exit and least level (n,) of rays with unit directions; lines reach from -reach to reach."""
    o, d = to_frame(np.asarray(pose, np.float64), origins, directions)
    shift = -np.einsum("ij,ij->i", o, d)
    o = o + shift[:, None] * d

    def f(t):
        return level(kind, size, o + t[:, None] * d, planes)

    low, high = np.full(len(o), -reach), np.full(len(o), reach)
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(80):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        left = f(a) < f(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    best = 0.5 * (low + high)
    least = f(best)

    def edge(outer):
        near, far = best.copy(), np.full(len(o), outer)
        for _ in range(60):
            middle = 0.5 * (near + far)
            inside = f(middle) < 0.0
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        return near

    enter, leave = edge(-reach) + shift, edge(reach) + shift
    miss = least >= 0.0
    return np.where(miss, np.inf, enter), np.where(miss, -np.inf, leave), least


def triangle_hits(vertices, triangles, origins, directions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distance (rays, triangles), cosine to the front normal, and how far the point is from the rim.

    Moeller and Trumbore, "Fast, minimum storage ray/triangle intersection", 1997, in double precision.
    """
    a, b, c = (np.asarray(vertices, np.float64)[triangles[:, k]] for k in range(3))
    e1, e2 = b - a, c - a
    n = np.cross(e1, e2)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    p = np.cross(directions[:, None], e2[None])
    det = np.einsum("jk,ijk->ij", e1, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        s = origins[:, None] - a[None]
        u = np.einsum("ijk,ijk->ij", s, p) / det
        q = np.cross(s, e1[None])
        v = np.einsum("ik,ijk->ij", directions, q) / det
        t = np.einsum("jk,ijk->ij", e2, q) / det
    rim = np.minimum(np.minimum(u, v), 1.0 - u - v)
    hit = (rim >= 0.0) & (t >= 0.0) & np.isfinite(t)
    return np.where(hit, t, np.inf), directions @ n.T, np.where(np.isfinite(rim), rim, -1.0)

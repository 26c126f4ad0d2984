"""Signed distance of convex shapes in float64, by nothing but support functions and membership.

For a unit direction n the gap g(n) between the supporting planes of A and B across n never exceeds the
signed distance, and the signed distance is the largest gap over all n. So a distance d with normal n and
points p, q is proved right if g(n) = d and, for shapes apart, if p is in A, q in B and |p - q| = d; for
overlapping shapes a search over the whole sphere must find no larger gap, and for polyhedra it is known.
"""

import dataclasses

import numpy as np

from newtonsim.kernels.views.shapes import KIND_HULL, KIND_TRIANGLE
from newtonsim.scene.enums import GeoType

SPHERE, BOX, CAPSULE = int(GeoType.SPHERE), int(GeoType.BOX), int(GeoType.CAPSULE)
CYLINDER, CONE, ELLIPSOID = int(GeoType.CYLINDER), int(GeoType.CONE), int(GeoType.ELLIPSOID)
HULL, TRIANGLE = int(KIND_HULL), int(KIND_TRIANGLE)
NAMES = {
    SPHERE: "sphere",
    BOX: "box",
    CAPSULE: "capsule",
    CYLINDER: "cylinder",
    CONE: "cone",
    ELLIPSOID: "ellipsoid",
    HULL: "hull",
    TRIANGLE: "triangle",
}


@dataclasses.dataclass
class Shapes:
    """Many shapes of one kind, one a pose.

    Attributes:
        kind: One of the numbers above.
        size: Scale, shape (n, 3) [m]; zeros for hulls and triangles.
        corners: Vertices of hulls and triangles, shape (n, k, 3) [m].
        planes: Outward normals and offsets of the facets of hulls, shape (n, f, 4).
        rotation: Body to world, shape (n, 3, 3).
        position: Shape (n, 3) [m].
    """

    kind: int
    size: np.ndarray
    corners: np.ndarray | None = None
    planes: np.ndarray | None = None
    rotation: np.ndarray | None = None
    position: np.ndarray | None = None

    def extent(self) -> np.ndarray:
        """Half of the longest side of the bounds in the own frame, shape (n,) [m]."""
        if self.corners is not None:
            return 0.5 * np.max(np.ptp(self.corners, axis=1), axis=1)
        if self.kind == SPHERE:
            return self.size[:, 0]
        if self.kind == CAPSULE:
            return self.size[:, 0] + self.size[:, 1]
        return np.max(self.size, axis=1)

    def select(self, rows: np.ndarray) -> "Shapes":
        """The shapes of some rows."""
        parts = (self.size, self.corners, self.planes, self.rotation, self.position)
        return Shapes(self.kind, *(None if part is None else part[rows] for part in parts))

    def world_corners(self) -> np.ndarray:
        """Corners of boxes, hulls or triangles in the world, shape (n, k, 3) [m]."""
        corners = self.corners
        if corners is None:
            signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
            corners = self.size[:, None] * signs
        return np.einsum("nij,nkj->nki", self.rotation, corners) + self.position[:, None]

    def support(self, d: np.ndarray) -> np.ndarray:
        """Farthest points along world directions (n, k, 3), in the world."""
        local = self.support_local(np.einsum("nji,nkj->nki", self.rotation, d))
        return np.einsum("nij,nkj->nki", self.rotation, local) + self.position[:, None]

    def support_local(self, d: np.ndarray) -> np.ndarray:
        """Farthest points along directions (n, k, 3) of the own frame, in that frame."""
        if self.corners is not None:
            best = np.argmax(np.einsum("nkj,nvj->nkv", d, self.corners), axis=2)
            return np.take_along_axis(self.corners, best[:, :, None], axis=1)
        size = self.size[:, None]
        up = np.zeros_like(d)
        up[..., 1] = size[..., 1]
        ball = size[..., :1] * unit(d)
        disc = size[..., :1] * unit(d * np.array([1.0, 0.0, 1.0]))
        side = np.where(d[..., 1:2] < 0, -up, up)
        if self.kind == SPHERE:
            return ball
        if self.kind == BOX:
            return np.where(d < 0, -size, size)
        if self.kind == CAPSULE:
            return side + ball
        if self.kind == CYLINDER:
            return side + disc
        if self.kind == CONE:
            base = disc - up
            return np.where(np.sum((base - up) * d, axis=-1, keepdims=True) > 0, base, up)
        return size * unit(size * d)

    def height_over(self, points: np.ndarray) -> np.ndarray:
        """How far (n,) [m] world points (n, 3) are outside of the surface, negative inside; first order."""
        p = np.einsum("nji,nj->ni", self.rotation, points - self.position)
        s = self.size
        y, across = p[:, 1], np.hypot(p[:, 0], p[:, 2])
        if self.kind == SPHERE:
            return np.linalg.norm(p, axis=1) - s[:, 0]
        if self.kind == BOX:
            return np.max(np.abs(p) - s, axis=1)
        if self.kind == CAPSULE:
            return np.hypot(across, np.maximum(np.abs(y) - s[:, 1], 0.0)) - s[:, 0]
        if self.kind == CYLINDER:
            return np.maximum(across - s[:, 0], np.abs(y) - s[:, 1])
        if self.kind == CONE:
            slant = (2.0 * s[:, 1] * across + s[:, 0] * (y - s[:, 1])) / np.hypot(2.0 * s[:, 1], s[:, 0])
            return np.maximum(slant, -s[:, 1] - y)
        if self.kind == ELLIPSOID:
            value = np.linalg.norm(p / s, axis=1)
            return (value - 1.0) * value / np.maximum(np.linalg.norm(p / s**2, axis=1), 1e-300)
        if self.kind == HULL:
            return np.max(np.einsum("nfj,nj->nf", self.planes[:, :, :3], p) + self.planes[:, :, 3], axis=1)
        return triangle_distance(p, self.corners)


def unit(d: np.ndarray) -> np.ndarray:
    """Vectors divided by their length; zero stays zero."""
    return d / np.maximum(np.linalg.norm(d, axis=-1, keepdims=True), 1e-300)


def triangle_distance(p: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Distance of points (n, 3) from the planes of triangles (n, 3, 3) or beyond their edges, the larger."""
    normal = unit(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    height = np.abs(np.sum(normal * (p - corners[:, 0]), axis=1))
    for k in range(3):
        edge = corners[:, (k + 1) % 3] - corners[:, k]
        outward = unit(np.cross(edge, normal))
        height = np.maximum(height, np.sum(outward * (p - corners[:, k]), axis=1))
    return height


def matrices(q: np.ndarray) -> np.ndarray:
    """Rotation matrices (n, 3, 3) of quaternions xyzw (n, 4), unit to rounding."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(q).as_matrix()


def gaps(a: Shapes, b: Shapes, n: np.ndarray) -> np.ndarray:
    """Gaps (m, k) [m] between the supporting planes across unit directions n (m, k, 3) from B to A."""
    return np.sum(n * (a.support(-n) - b.support(n)), axis=-1)


def sphere_directions(count: int) -> np.ndarray:
    """Evenly spread unit vectors (count, 3): a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    y, angle = 1.0 - 2.0 * k / count, np.pi * (1.0 + 5.0**0.5) * k
    r = np.sqrt(1.0 - y * y)
    return np.stack([r * np.cos(angle), y, r * np.sin(angle)], axis=1)


def polyhedron_depth(a: Shapes, b: Shapes) -> np.ndarray:
    """Signed distances (m,) [m] of overlapping boxes, hulls and triangles; positive where they are apart.

    The facets of the hull of all differences of corners are those of the Minkowski difference.
    """
    from scipy.spatial import ConvexHull

    depths = []
    for p, q in zip(a.world_corners(), b.world_corners(), strict=True):
        hull = ConvexHull((p[:, None] - q[None]).reshape(-1, 3))
        depths.append(np.max(hull.equations[:, 3]))
    return np.array(depths)


def largest_gap(a: Shapes, b: Shapes, starts: int = 300, climbers: int = 4, rounds: int = 32) -> np.ndarray:
    """Largest gap (m,) [m] over all directions, by climbing from the best of evenly spread ones.

    Returns:
        A lower bound of the signed distance.
    """
    count = len(a.size)
    start = np.broadcast_to(sphere_directions(starts), (count, starts, 3))
    values = gaps(a, b, start)
    best = np.argsort(-values, axis=1)[:, :climbers]
    n = np.take_along_axis(start, best[:, :, None], axis=1)
    value = np.take_along_axis(values, best, axis=1)
    rng = np.random.default_rng(1)
    step = np.full((count, climbers, 1, 1), 2.0 / starts**0.5)
    for _ in range(rounds):
        tried = unit(n[:, :, None] + step * unit(rng.normal(size=(count, climbers, 8, 3))))
        found = gaps(a, b, tried.reshape(count, -1, 3)).reshape(count, climbers, 8)
        k = np.argmax(found, axis=2)[:, :, None]
        top = np.take_along_axis(found, k, axis=2)[..., 0]
        better = top > value
        n = np.where(better[..., None], np.take_along_axis(tried, k[..., None], axis=2)[:, :, 0], n)
        value = np.maximum(value, top)
        step = np.where(better[..., None, None], 1.3 * step, 0.6 * step)
    return np.max(value, axis=1)

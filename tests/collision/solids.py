"""What the narrow phase is compared with: support functions and surfaces of solids, and another library."""

import numpy as np
from collision.harness import Solid, rotation

from newtonsim.scene.enums import GeoType


def support(solid: Solid, d: np.ndarray) -> np.ndarray:
    """Farthest points (n, 3) of a solid along unit directions d (n, 3), in its own frame."""
    size = np.asarray(solid.size, np.float64)
    across = np.linalg.norm(d[:, [0, 2]], axis=1, keepdims=True)
    around = np.divide(d * [1.0, 0.0, 1.0], across, out=np.zeros_like(d), where=across > 0.0)
    up = np.where(d[:, 1:2] < 0.0, -1.0, 1.0) * [0.0, 1.0, 0.0]
    if solid.hull is not None:
        vertices = solid.hull.vertices.astype(np.float64)
        return vertices[np.argmax(d @ vertices.T, axis=1)]
    if solid.kind == GeoType.SPHERE:
        return size[0] * d
    if solid.kind == GeoType.BOX:
        return np.where(d < 0.0, -1.0, 1.0) * size
    if solid.kind == GeoType.CAPSULE:
        return size[1] * up + size[0] * d
    if solid.kind == GeoType.CYLINDER:
        return size[1] * up + size[0] * around
    if solid.kind == GeoType.CONE:
        tip, rim = np.array([0.0, size[1], 0.0]), size[0] * around - [0.0, size[1], 0.0]
        return np.where(
            np.sum(d * tip, axis=1, keepdims=True) > np.sum(d * rim, axis=1, keepdims=True), tip, rim
        )
    assert solid.kind == GeoType.ELLIPSOID
    return size * size * d / np.linalg.norm(size * d, axis=1, keepdims=True)


def height_along(solid: Solid, X: np.ndarray, d: np.ndarray) -> float:
    """Largest coordinate [m] along the unit vector d (world) of a solid with pose X."""
    local = rotation(X).T @ d
    return float(support(solid, local[None])[0] @ local + X[:3] @ d)


def gap_along(a: Solid, X_a: np.ndarray, b: Solid, X_b: np.ndarray, n: np.ndarray) -> float:
    """Gap [m] between two solids along n, which points from b to a; no larger than their signed distance."""
    return -height_along(a, X_a, -n) - height_along(b, X_b, n)


def off_surface(solid: Solid, p: np.ndarray) -> np.ndarray:
    """Signed distance [m] of points (n, 3) to the surface of a solid, in its frame; a bound of it outside."""
    size = np.asarray(solid.size, np.float64)
    rho = np.linalg.norm(p[:, [0, 2]], axis=1)
    if solid.hull is not None:
        normals = solid.hull.normals.astype(np.float64)
        offsets = np.max(solid.hull.vertices.astype(np.float64) @ normals.T, axis=0)
        return np.max(p @ normals.T - offsets, axis=1)
    if solid.kind == GeoType.SPHERE:
        return np.linalg.norm(p, axis=1) - size[0]
    if solid.kind == GeoType.BOX:
        return np.max(np.abs(p) - size, axis=1)
    if solid.kind == GeoType.CAPSULE:
        axis_point = np.clip(p[:, 1:2], -size[1], size[1]) * [0.0, 1.0, 0.0]
        return np.linalg.norm(p - axis_point, axis=1) - size[0]
    if solid.kind == GeoType.CYLINDER:
        return np.maximum(rho - size[0], np.abs(p[:, 1]) - size[1])
    if solid.kind == GeoType.CONE:
        slant = np.hypot(2.0 * size[1], size[0])
        side = (2.0 * size[1] * rho + size[0] * (p[:, 1] - size[1])) / slant
        return np.maximum(side, -size[1] - p[:, 1])
    assert solid.kind == GeoType.ELLIPSOID
    return (np.linalg.norm(p / size, axis=1) - 1.0) * np.min(size)


def coal_shape(solid: Solid):
    """The solid in coal, whose axes lie along z, and the rotation (3, 3) from coal's frame to ours."""
    import coal

    turned = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    r, h = solid.size[:2]
    if solid.hull is not None:
        points = coal.StdVec_Vec3s()
        for v in solid.hull.vertices.astype(np.float64):
            points.append(v)
        return coal.Convex.convexHull(points, False, ""), np.eye(3)
    if solid.kind == GeoType.SPHERE:
        return coal.Sphere(r), np.eye(3)
    if solid.kind == GeoType.BOX:
        return coal.Box(*(2.0 * s for s in solid.size)), np.eye(3)
    if solid.kind == GeoType.CAPSULE:
        return coal.Capsule(r, 2.0 * h), turned
    if solid.kind == GeoType.CYLINDER:
        return coal.Cylinder(r, 2.0 * h), turned
    if solid.kind == GeoType.CONE:
        return coal.Cone(r, 2.0 * h), turned
    return coal.Ellipsoid(*solid.size), np.eye(3)


def coal_distances(a: Solid, X_a: np.ndarray, b: Solid, X_b: np.ndarray) -> np.ndarray:
    """Signed distances [m] of two solids in poses X_a and X_b (n, 7), as coal finds them."""
    import coal

    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = 1e-8
    request.gjk_max_iterations = request.epa_max_iterations = 500
    (shape_a, turn_a), (shape_b, turn_b) = coal_shape(a), coal_shape(b)
    distances = []
    for A, B in zip(X_a, X_b):
        result.clear()
        pose_a = coal.Transform3s(rotation(A) @ turn_a, A[:3])
        pose_b = coal.Transform3s(rotation(B) @ turn_b, B[:3])
        distances.append(coal.distance(shape_a, pose_a, shape_b, pose_b, request, result))
    return np.array(distances)

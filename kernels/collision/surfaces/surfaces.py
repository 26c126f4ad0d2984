"""Distances of surfaces and half-spaces: the minimum over nearby triangles, found in the mesh's hierarchy.

The search is branch and bound (Larsen, Gottschalk, Lin, Manocha, "Fast proximity queries with swept sphere
volumes", 1999): the triangle nearest to the middle of the other shape gives the first bound; the hierarchy
then returns the triangles whose boxes lie within it.

A surface that touches another shape overlaps it by the depth of the deepest triangle. The overlap of a shape
inside a closed mesh that does not touch the surface is the distance to leave through the nearest face.

Stage: narrow phase and queries, meshes
Called by: kernels/collision/families/sdf.py, kernels/collision/surfaces/fields.py,
    kernels/queries/closest_points.py
Reads: HullView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import (
    Closest,
    Convex,
    centre_of,
    convex_triangle,
    rounding,
    support,
)
from newtonsim.kernels.collision.convex.gjk import closest_points
from newtonsim.kernels.collision.pairs.bounds import Bounds
from newtonsim.kernels.views.shapes import HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class Surface:
    """A triangle mesh in the world."""

    mesh: wp.uint64
    scale: wp.vec3
    X: wp.transform
    closed: int  # 1 if the mesh bounds a solid


@wp.func
def none_found() -> Closest:
    """The result if nothing is near."""
    c = Closest()
    c.distance = wp.inf
    return c


@wp.func
def flipped(c: Closest) -> Closest:
    """The same with A and B exchanged."""
    f = Closest()
    f.found = c.found
    f.distance = c.distance
    f.normal = -c.normal
    f.point_a = c.point_b
    f.point_b = c.point_a
    return f


@wp.func
def moved(X: wp.transform, c: Closest) -> Closest:
    """The same, transformed by X."""
    m = Closest()
    m.found = c.found
    m.distance = c.distance
    m.normal = wp.transform_vector(X, c.normal)
    m.point_a = wp.transform_point(X, c.point_a)
    m.point_b = wp.transform_point(X, c.point_b)
    return m


@wp.func(inline=False)
def reach_along(a: Convex, hulls: HullView, X: wp.transform, d: wp.vec3) -> wp.vec3:
    """Farthest point of a convex shape at pose X along a unit direction."""
    local = wp.quat_rotate_inv(wp.transform_get_rotation(X), d)
    return wp.transform_point(X, support(a, hulls, local) + rounding(a) * local)


@wp.func
def convex_bounds(a: Convex, hulls: HullView, X: wp.transform) -> Bounds:
    """Box about a convex shape at pose X."""
    box = Bounds()
    lower = wp.vec3()
    upper = wp.vec3()
    for i in range(3):
        axis = wp.vec3()
        axis[i] = 1.0
        upper[i] = reach_along(a, hulls, X, axis)[i]
        lower[i] = reach_along(a, hulls, X, -axis)[i]
    box.lower = lower
    box.upper = upper
    return box


@wp.func(inline=False)
def closest_of_convex(
    a: Convex, X_a: wp.transform, b: Convex, X_b: wp.transform, hulls: HullView, reach: float
) -> Closest:
    """`closest_points`, compiled once: it is large, and called at several places."""
    return closest_points(a, X_a, b, X_b, hulls, reach)


@wp.func
def box_gap(lower: wp.vec3, upper: wp.vec3, other_lower: wp.vec3, other_upper: wp.vec3) -> float:
    """Distance between two boxes, 0 if they overlap."""
    gap_sq = float(0.0)
    for i in range(3):
        gap = wp.max(wp.max(lower[i] - other_upper[i], other_lower[i] - upper[i]), 0.0)
        gap_sq += gap * gap
    return wp.sqrt(gap_sq)


@wp.func
def corner(surface: Surface, triangle: int, k: int) -> wp.vec3:
    """Corner k of a triangle in the frame of the shape [m]."""
    p = wp.mesh_get_point(surface.mesh, 3 * triangle + k)
    return wp.cw_mul(p, surface.scale)


@wp.func
def nearest_triangle(surface: Surface, p: wp.vec3) -> int:
    """A triangle near a point of the shape's frame: the nearest one if the scale is uniform."""
    query = wp.mesh_query_point_no_sign(surface.mesh, wp.cw_div(p, surface.scale), 1.0e30)
    triangle = int(0)
    if query.result:
        triangle = query.face
    return triangle


@wp.func(inline=False)
def is_inside(surface: Surface, p: wp.vec3) -> bool:
    """True if a point of the shape's frame lies in the solid that a closed mesh bounds."""
    inside = bool(False)
    if surface.closed == 1:
        query = wp.mesh_query_point(surface.mesh, wp.cw_div(p, surface.scale), 1.0e30)
        inside = query.result and query.sign < 0.0
    return inside


@wp.func
def outward_normal(surface: Surface, triangle: int) -> wp.vec3:
    """Normal of a triangle in the frame of the shape; mirroring scales reverse it."""
    return wp.normalize(wp.cw_div(wp.mesh_eval_face_normal(surface.mesh, triangle), surface.scale))


@wp.func
def deeper_of(best: Closest, c: Closest) -> Closest:
    """The one with the smaller distance, or the first if equal."""
    lesser = best
    if c.found == 1 and (best.found == 0 or c.distance < best.distance):
        lesser = c
    return lesser


@wp.func(inline=False)
def search_surface(
    a: Convex, X: wp.transform, surface: Surface, hulls: HullView, reach: float, first: int
) -> Closest:
    """Convex shape at pose X against triangles, all in the frame of the surface; `first` is tried first."""
    identity = wp.transform_identity()
    box = convex_bounds(a, hulls, X)
    tri = convex_triangle(corner(surface, first, 0), corner(surface, first, 1), corner(surface, first, 2))
    best = closest_of_convex(a, X, tri, identity, hulls, reach)
    limit = reach
    if best.found == 1:
        limit = wp.clamp(best.distance, 0.0, reach)
    spread = wp.vec3(limit, limit, limit)
    low = wp.cw_div(box.lower - spread, surface.scale)
    high = wp.cw_div(box.upper + spread, surface.scale)
    query = wp.mesh_query_aabb(surface.mesh, wp.min(low, high), wp.max(low, high))
    triangle = int(0)
    while wp.mesh_query_aabb_next(query, triangle):
        p = corner(surface, triangle, 0)
        q = corner(surface, triangle, 1)
        r = corner(surface, triangle, 2)
        gap = box_gap(box.lower, box.upper, wp.min(wp.min(p, q), r), wp.max(wp.max(p, q), r))
        if triangle != first and gap <= limit:
            c = closest_of_convex(a, X, convex_triangle(p, q, r), identity, hulls, limit)
            best = deeper_of(best, c)
            if best.found == 1:
                limit = wp.clamp(best.distance, 0.0, limit)
    return best


@wp.func
def is_flat(scale: wp.vec3) -> bool:
    """True if a scale leaves no surface to search."""
    return scale[0] * scale[1] * scale[2] == 0.0


@wp.func(inline=False)
def closest_on_surface(
    a: Convex, X_a: wp.transform, surface: Surface, hulls: HullView, reach: float
) -> Closest:
    """A convex shape (A) and a triangle mesh or height field (B)."""
    if is_flat(surface.scale) or wp.mesh_get(surface.mesh).indices.shape[0] == 0:
        return none_found()
    X = wp.transform_inverse(surface.X) * X_a
    middle = wp.transform_point(X, centre_of(a, hulls))
    first = nearest_triangle(surface, middle)
    inside = is_inside(surface, middle)
    far = reach
    if inside:
        far = wp.inf
    best = search_surface(a, X, surface, hulls, far, first)
    if inside and best.found == 1 and best.distance > 0.0:
        # out through the nearest face
        face = nearest_triangle(surface, best.point_b)
        n = outward_normal(surface, face)
        deepest = reach_along(a, hulls, X, -n)
        best.distance = wp.dot(n, deepest - best.point_b)
        best.normal = n
        best.point_a = deepest
        best.point_b = deepest - best.distance * n
    return moved(surface.X, best)


@wp.func
def lowest_vertex(surface: Surface, n: wp.vec3) -> wp.vec3:
    """Lowest vertex along n, in the frame of the shape."""
    points = wp.mesh_get(surface.mesh).points
    lowest = wp.vec3()
    height = float(wp.inf)
    for i in range(points.shape[0]):
        p = wp.cw_mul(points[i], surface.scale)
        if wp.dot(n, p) < height:
            height = wp.dot(n, p)
            lowest = p
    return lowest


@wp.func(inline=False)
def closest_of_surfaces(a: Surface, b: Surface, hulls: HullView, reach: float) -> Closest:
    """Two triangle meshes or height fields: each triangle of A is searched for in B."""
    best = none_found()
    count = wp.mesh_get(a.mesh).indices.shape[0] // 3
    if is_flat(a.scale) or is_flat(b.scale) or count == 0 or wp.mesh_get(b.mesh).indices.shape[0] == 0:
        return best
    X = wp.transform_inverse(b.X) * a.X
    inside = is_inside(b, wp.transform_point(X, corner(a, 0, 0)))
    limit = wp.where(inside, wp.inf, reach)
    first = nearest_triangle(b, wp.transform_point(X, corner(a, 0, 0)))
    for t in range(count):
        triangle = convex_triangle(corner(a, t, 0), corner(a, t, 1), corner(a, t, 2))
        c = search_surface(triangle, X, b, hulls, limit, first)
        best = deeper_of(best, c)
        if best.found == 1:
            limit = wp.clamp(best.distance, 0.0, limit)
    if inside and best.found == 1 and best.distance > 0.0:
        n = outward_normal(b, nearest_triangle(b, best.point_b))
        local = wp.quat_rotate_inv(wp.transform_get_rotation(X), n)
        deepest = wp.transform_point(X, lowest_vertex(a, local))
        best.distance = wp.dot(n, deepest - best.point_b)
        best.normal = n
        best.point_a = deepest
        best.point_b = deepest - best.distance * n
    return moved(b.X, best)


@wp.func
def above_half_space(lowest: wp.vec3, n: wp.vec3, plane_X: wp.transform, reach: float) -> Closest:
    """A shape (A) whose lowest point is known, and the half-space (B) below a plane."""
    c = none_found()
    height = wp.dot(n, lowest - wp.transform_get_translation(plane_X))
    if height <= reach:
        c.found = 1
        c.distance = height
        c.normal = n
        c.point_a = lowest
        c.point_b = lowest - height * n
    return c

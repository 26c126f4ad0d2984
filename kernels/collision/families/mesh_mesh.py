"""Contact points of triangle meshes and height fields with each other.

Where two polyhedra touch, a vertex of one is near a face of the other, or two edges cross (C. Ericson,
"Real-Time Collision Detection", 2005, section 5.1.9). The vertices of each are tested against the signed
distance of the other, which distinguishes inside from outside at any depth. Crossing edges are found from
pairs of triangles, whose closest points count if both surfaces may push in that direction.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, SurfaceView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.clip import CLIP_ROOM, CODE_BITS, CODE_CROSSING, flat
from newtonsim.kernels.collision.convex.convex import Convex, convex_triangle
from newtonsim.kernels.collision.convex.gjk import closest_points
from newtonsim.kernels.collision.convex.manifold_points import facing, hashed, offer_point
from newtonsim.kernels.collision.pairs.bounds import Bounds
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH_MESH, ManifoldView, PairView
from newtonsim.kernels.collision.surfaces.mesh_boxes import triangles_after, triangles_in_box
from newtonsim.kernels.collision.surfaces.triangle_distance import (
    Level,
    Surface,
    level_of_surface,
    surface_of,
)
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    ROLE_SHEET,
    ROLE_TERRAIN,
    Facing,
    SurfaceView,
    allowed_normal,
    bare_triangle,
    corner_of,
    surface_triangle,
    with_edges,
)
from newtonsim.kernels.views.shapes import HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# greatest gap between crossing edges, over the size of the smaller surface
EDGE_REACH = wp.constant(0.25)
# cosine to the normals that both surfaces allow above which the normal of crossing edges is used
NEARLY_ALLOWED = wp.constant(0.998)
# numbers that distinguish features
OF_VERTEX = wp.constant(1)
OF_EDGES = wp.constant(3)


@wp.struct
class Encounter:
    """Vertices and edges of one surface tested against another."""

    pair: int
    of: Surface  # surface whose vertices and edges are tested
    to: Surface
    X: wp.transform  # from the frame of the first to that of the second
    origin: wp.vec3  # [m] origin of the first in the frame of the second
    viewer: wp.vec3  # [m] middle of the first in the frame of the second
    size: float  # [m] of the smaller one
    reach: float  # [m]
    swapped: int  # 1 if the vertices are those of shape 1


@wp.func
def encounter(of: Surface, to: Surface, pair: int, reach: float, swapped: int) -> Encounter:
    """Prepare the test of the vertices of one surface against another."""
    e = Encounter()
    e.pair = pair
    e.of = of
    e.to = to
    e.X = wp.transform_inverse(to.X) * of.X
    e.origin = wp.transform_get_translation(e.X)
    e.viewer = wp.transform_point(e.X, 0.5 * (of.lower + of.upper))
    e.size = wp.min(of.size, to.size)
    e.reach = reach
    e.swapped = swapped
    return e


@wp.func
def offer_level(e: Encounter, p: wp.vec3, level: Level, feature: int, manifolds: ManifoldView):
    """Offer a point of the first surface, in the frame of the second, where the second has a level."""
    n = wp.transform_vector(e.to.X, level.slope)
    point = wp.transform_point(e.to.X, p)
    if e.swapped == 1:
        point -= level.value * n
        n = -n
    offer_point(manifolds, e.pair, point, n, level.value, feature, e.size)


@wp.func
def box_of_other(e: Encounter) -> Bounds:
    """Box in the first, unscaled mesh that contains all points within reach of the second surface."""
    back = wp.transform_inverse(e.X)
    rotation = wp.quat_to_matrix(wp.transform_get_rotation(back))
    middle = wp.transform_point(back, 0.5 * (e.to.lower + e.to.upper))
    half = 0.5 * (e.to.upper - e.to.lower) + wp.vec3(e.reach, e.reach, e.reach)
    if e.to.role == ROLE_TERRAIN:
        # shapes below the terrain must come up again
        half[1] += e.of.size
    spread = wp.vec3()
    for i in range(3):
        for j in range(3):
            spread[i] += wp.abs(rotation[i, j]) * half[j]
    low = wp.cw_div(middle - spread, e.of.scale)
    high = wp.cw_div(middle + spread, e.of.scale)
    box = Bounds()
    box.lower = wp.min(low, high)
    box.upper = wp.max(low, high)
    return box


@wp.func
def try_vertices(e: Encounter, surfaces: SurfaceView, manifolds: ManifoldView):
    """Offer the vertices of the first surface that are within reach of the second."""
    box = box_of_other(e)
    near = triangles_in_box(e.of.mesh, box, 0)
    while near.count > 0:
        for i in range(near.count):
            t = near.triangle[i]
            triangle = surface_triangle(e.of.mesh, e.of.scale, wp.vec3(), t)
            owned = surfaces.owned[e.of.first + t]
            for k in range(3):
                if (owned >> k) & 1 == 1:
                    p = wp.transform_point(e.X, corner_of(triangle, k))
                    level = level_of_surface(e.to, p, e.viewer, e.size, e.reach)
                    if level.found == 1:
                        feature = hashed(3 * t + k, OF_VERTEX + e.swapped)
                        offer_level(e, p, level, feature, manifolds)
        near = triangles_after(e.of.mesh, box, near)


@wp.func(inline=False)
def facing_triangle(r: Surface, t: int, origin: wp.vec3, viewer: wp.vec3, surfaces: SurfaceView) -> Facing:
    """Triangle t with its edges, relative to a point of the shape's frame; `valid` is 0 for slivers."""
    triangle = surface_triangle(r.mesh, r.scale, origin, t)
    f = bare_triangle(triangle, r.winding)
    if f.valid == 1:
        away = r.role == ROLE_SHEET and wp.dot(f.normal, viewer - origin - triangle.a) < 0.0
        if away or (r.role == ROLE_TERRAIN and f.normal[1] < 0.0):
            f.normal = -f.normal
        f = with_edges(f, r.mesh, r.scale, origin, surfaces.opposite, 3 * (r.first + t))
    return f


@wp.func
def turned(f: Facing, rotation: wp.mat33) -> Facing:
    """The triangle in rotated axes."""
    g = f
    g.triangle = convex_triangle(rotation * f.triangle.a, rotation * f.triangle.b, rotation * f.triangle.c)
    g.normal = rotation * f.normal
    g.across = f.across * wp.transpose(rotation)
    return g


@wp.func
def least_height(f: Facing, other: Convex) -> float:
    """Height [m] of the lowest corner of another triangle over the plane of one."""
    a = wp.dot(other.a - f.triangle.a, f.normal)
    b = wp.dot(other.b - f.triangle.a, f.normal)
    c = wp.dot(other.c - f.triangle.a, f.normal)
    return wp.min(wp.min(a, b), c)


@wp.func
def edge_name(r: Surface, t: int, k: int) -> int:
    """Number of edge k of a triangle, the same in both triangles that have it."""
    indices = wp.mesh_get(r.mesh).indices
    i = indices[3 * t + k]
    j = indices[3 * t + (k + 1) % 3]
    return hashed(wp.min(i, j), wp.max(i, j))


@wp.func(inline=False)
def cross_edges(
    e: Encounter, a: Facing, t_a: int, b: Facing, t_b: int, hulls: HullView, manifolds: ManifoldView
):
    """Offer where edges of two triangles cross; b and a are in the axes of the second surface."""
    reach = wp.min(e.reach, EDGE_REACH * e.size)
    if least_height(a, b.triangle) > reach or least_height(b, a.triangle) > reach:
        return
    identity = wp.transform_identity()
    c = closest_points(a.triangle, identity, b.triangle, identity, hulls, reach)
    if c.found == 0:
        return
    n = c.normal
    if wp.dot(n, b.normal) < 0.0 or wp.dot(n, a.normal) > 0.0:
        return
    if wp.dot(allowed_normal(b, n), n) < NEARLY_ALLOWED or wp.dot(allowed_normal(a, -n), -n) < NEARLY_ALLOWED:
        return
    x = wp.zeros(shape=CLIP_ROOM, dtype=wp.vec3)
    code = wp.zeros(shape=CLIP_ROOM, dtype=int)
    found = facing(a.triangle, identity, b.triangle, identity, hulls, c, x, code)
    normal = wp.transform_vector(e.to.X, n)
    if found.count == 0:
        point = wp.transform_point(e.to.X, e.origin + c.point_a)
        offer_point(manifolds, e.pair, point, normal, c.distance, hashed(hashed(t_a, t_b), OF_EDGES), e.size)
    mask = (1 << CODE_BITS) - 1
    for i in range(found.count):
        k = (code[i] >> CODE_BITS) & mask
        j = code[i] & mask
        if code[i] >= CODE_CROSSING and x[i][2] <= reach and k < 3:
            if ((a.flat >> k) | (b.flat >> j)) & 1 == 0:
                height = found.a.height + wp.dot(found.a.slope, flat(x[i]))
                p = found.frame.origin + wp.transpose(found.frame.axes) * wp.vec3(x[i][0], x[i][1], height)
                feature = hashed(hashed(edge_name(e.of, t_a, k), edge_name(e.to, t_b, j)), OF_EDGES)
                point = wp.transform_point(e.to.X, e.origin + p)
                offer_point(manifolds, e.pair, point, normal, x[i][2], feature, e.size)


@wp.func
def cross_triangle(
    e: Encounter,
    a: Facing,
    t_a: int,
    reach: float,
    surfaces: SurfaceView,
    hulls: HullView,
    manifolds: ManifoldView,
):
    """Offer where edges of one triangle, in the axes of the second surface, cross edges of that surface."""
    spread = wp.vec3(reach, reach, reach)
    low = wp.min(wp.min(a.triangle.a, a.triangle.b), a.triangle.c) + e.origin - spread
    high = wp.max(wp.max(a.triangle.a, a.triangle.b), a.triangle.c) + e.origin + spread
    low = wp.cw_div(low, e.to.scale)
    high = wp.cw_div(high, e.to.scale)
    query = wp.mesh_query_aabb(e.to.mesh, wp.min(low, high), wp.max(low, high))
    t_b = int(0)
    while wp.mesh_query_aabb_next(query, t_b):
        b = facing_triangle(e.to, t_b, e.origin, e.viewer, surfaces)
        if b.valid == 1 and b.open == 1:
            cross_edges(e, a, t_a, b, t_b, hulls, manifolds)


@wp.func
def try_edges(e: Encounter, surfaces: SurfaceView, hulls: HullView, manifolds: ManifoldView):
    """Offer the places where edges of both surfaces cross."""
    box = box_of_other(e)
    rotation = wp.quat_to_matrix(wp.transform_get_rotation(e.X))
    viewer = wp.transform_point(wp.transform_inverse(e.X), 0.5 * (e.to.lower + e.to.upper))
    reach = wp.min(e.reach, EDGE_REACH * e.size)
    near = triangles_in_box(e.of.mesh, box, 0)
    while near.count > 0:
        for i in range(near.count):
            t = near.triangle[i]
            a = facing_triangle(e.of, t, wp.vec3(), viewer, surfaces)
            if a.valid == 1 and a.open == 1:
                cross_triangle(e, turned(a, rotation), t, reach, surfaces, hulls, manifolds)
        near = triangles_after(e.of.mesh, box, near)


@wp.func(inline=False)
def find_mesh_mesh_points(
    pair: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """Points of two meshes or height fields within reach of each other."""
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    a = surface_of(shape, surfaces, s0, shape_X[s0])
    b = surface_of(shape, surfaces, s1, shape_X[s1])
    if a.first < 0 or b.first < 0 or a.winding == 0.0 or b.winding == 0.0:
        return
    reach = pairs.reach[pair]
    e = encounter(a, b, pair, reach, 0)
    try_vertices(e, surfaces, manifolds)
    try_vertices(encounter(b, a, pair, reach, 1), surfaces, manifolds)
    try_edges(e, surfaces, hulls, manifolds)


@wp.kernel
def collide_mesh_mesh(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """One thread per pair place: points of two meshes or height fields within reach of each other."""
    pair = first + wp.tid()
    # a function of its own: Warp clears all local variables at the start of the one that they are in
    if pairs.family[pair] == FAMILY_MESH_MESH:
        find_mesh_mesh_points(pair, pairs, shape, hulls, shape_X, manifolds, surfaces)

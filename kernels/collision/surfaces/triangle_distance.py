"""Signed distance of points, and of edges, from the surface of a triangle mesh.

Stage: narrow phase, meshes
Called by: kernels/collision/families/mesh_mesh.py, kernels/collision/families/sdf.py,
    kernels/particles/point_distance.py
Reads: ShapeView, SurfaceView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    ROLE_SHEET,
    ROLE_TERRAIN,
    SurfaceView,
    bare_triangle,
    is_hidden,
    mirrored,
    nearest_on_triangle,
    surface_triangle,
)
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# relative difference of the axes of a scale up to which it counts as uniform
SAME_SCALE = wp.constant(1.0e-5)
# distance, over the size of the surface, below which the face gives the direction, and cosine above which it
# does
TOUCHING = wp.constant(1.0e-5)
ALONG = wp.constant(0.9999)
# share of the size of the smaller shape up to which a point behind a sheet counts as having passed through it
THROUGH = wp.constant(0.1)


@wp.struct
class Surface:
    """A mesh or height field in a pair of shapes."""

    mesh: wp.uint64
    scale: wp.vec3
    X: wp.transform  # world pose
    role: int
    winding: float  # -1 if the scale mirrors, 0 if it is flat
    first: int  # triangle 0 in the arrays of SurfaceView; -1 without triangles
    lower: wp.vec3  # [m] box in the frame of the shape
    upper: wp.vec3
    size: float  # [m] of the box


@wp.struct
class Level:
    """The signed distance of a surface at a point."""

    found: int
    value: float  # [m] signed distance, negative inside
    slope: wp.vec3  # unit vector out of the surface, along which the distance grows


@wp.func
def surface_of(shape: ShapeView, surfaces: SurfaceView, s: int, X: wp.transform) -> Surface:
    """Shape s, which must be a mesh or height field, at world pose X."""
    r = Surface()
    r.mesh = shape.geo.source[s]
    r.scale = shape.geo.scale[s]
    r.X = X
    r.role = surfaces.role[s]
    r.winding = mirrored(r.scale)
    r.first = surfaces.triangle_start[s]
    r.lower = shape.local_lower[s]
    r.upper = shape.local_upper[s]
    r.size = wp.length(r.upper - r.lower)
    return r


@wp.func
def is_uniform(scale: wp.vec3) -> bool:
    """Whether a scale stretches all axes alike, mirrored or not."""
    s = wp.abs(scale)
    largest = wp.max(wp.max(s[0], s[1]), s[2])
    return largest - wp.min(wp.min(s[0], s[1]), s[2]) <= SAME_SCALE * largest


@wp.func
def least_scale(scale: wp.vec3) -> float:
    """Smallest stretch of any axis."""
    return wp.min(wp.min(wp.abs(scale[0]), wp.abs(scale[1])), wp.abs(scale[2]))


@wp.func(inline=False)
def refine_nearest(r: Surface, p: wp.vec3, guess: int) -> wp.vec4:
    """Nearest point of a surface whose scale differs by axis, and its triangle in the fourth place.

    Such a scale does not preserve the order of distances: the nearest point without it is a guess, and all
    triangles within its distance are compared.
    """
    q = nearest_on_triangle(surface_triangle(r.mesh, r.scale, p, guess), wp.vec3())
    limit = wp.length(q)
    best = int(guess)
    spread = wp.vec3(limit, limit, limit)
    low = wp.cw_div(p - spread, r.scale)
    high = wp.cw_div(p + spread, r.scale)
    query = wp.mesh_query_aabb(r.mesh, wp.min(low, high), wp.max(low, high))
    t = int(0)
    while wp.mesh_query_aabb_next(query, t):
        other = nearest_on_triangle(surface_triangle(r.mesh, r.scale, p, t), wp.vec3())
        if wp.length(other) < limit:
            limit = wp.length(other)
            q = other
            best = t
    q += p
    return wp.vec4(q[0], q[1], q[2], float(best))


@wp.func
def near_box(r: Surface, p: wp.vec3, reach: float) -> bool:
    """Whether a point of the shape's frame is within reach of its box; below a terrain every point is."""
    inside = bool(True)
    for i in range(3):
        above = p[i] > r.upper[i] + reach
        below = p[i] < r.lower[i] - reach
        if above or (below and (i != 1 or r.role != ROLE_TERRAIN)):
            inside = False
    return inside


@wp.func(inline=False)
def level_of_surface(r: Surface, p: wp.vec3, viewer: wp.vec3, smaller: float, reach: float) -> Level:
    """Signed distance of a point.

    Args:
        r: The surface.
        p: The point, in the frame of the surface's shape [m].
        viewer: The middle of the other shape, which is on the outer side of a sheet [m].
        smaller: Size of the smaller shape [m].
        reach: Nothing is found beyond this distance [m].
    """
    level = Level()
    # largest depth of a point: a solid pushes from anywhere inside
    far = r.size
    near = reach
    if r.role == ROLE_SHEET:
        far = wp.max(reach, THROUGH * smaller)
        near = far
    if not near_box(r, p, near):
        return level
    place = wp.cw_div(p, r.scale)
    query = wp.mesh_query_point_sign_normal(r.mesh, place, (far + reach) / least_scale(r.scale))
    if not query.result:
        return level
    t = query.face
    q = wp.cw_mul(wp.mesh_eval_position(r.mesh, t, query.u, query.v), r.scale)
    if not is_uniform(r.scale):
        refined = refine_nearest(r, p, t)
        q = wp.vec3(refined[0], refined[1], refined[2])
        t = int(refined[3])
    f = bare_triangle(surface_triangle(r.mesh, r.scale, q, t), r.winding)
    n = f.normal
    outside = query.sign > 0.0
    if r.role == ROLE_SHEET:
        if wp.dot(n, viewer - q) < 0.0:
            n = -n
        outside = wp.dot(n, p - q) >= 0.0 or not is_hidden(r.mesh, r.scale, viewer, p, -1)
    elif r.role == ROLE_TERRAIN:
        if n[1] < 0.0:
            n = -n
        outside = wp.dot(n, p - q) >= 0.0
    d = wp.length(p - q)
    level.value = d
    if not outside:
        level.value = -d
        if r.role == ROLE_SHEET and d > THROUGH * smaller:
            return level
    level.slope = n
    if d > TOUCHING * r.size:
        away = (p - q) / level.value
        if wp.dot(away, n) < ALONG and (outside or r.role != ROLE_TERRAIN):
            level.slope = away
    if level.value <= reach:
        level.found = 1
    return level

"""Contact points of convex shapes and mesh vertices with planes.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, SurfaceView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_PLANE, ManifoldView, PairView, put_point
from newtonsim.kernels.collision.surfaces.triangle_surface import SurfaceView
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_HFIELD,
    GEO_MESH,
    GEO_SDF,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
    ShapeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# below this tilt [rad] the rim points of a standing cylinder or cone are fixed in the shape
UPRIGHT_TILT = wp.constant(0.01)
SPREAD_DIRECTIONS = wp.constant(7)
# least tilt [rad] on which vertices of a body that hardly moves are to touch
LEAST_TILT = wp.constant(0.02)
# ratio of the largest tilt of a body to that of a round one from which it counts as slender
SLENDER = wp.constant(3.0)
# least radius of a body about an axis, over that about its origin, by which it turns
LEAST_THINNESS = wp.constant(0.01)


@wp.func
def rim_direction(k: int, n: wp.vec3) -> wp.vec3:
    """Direction number k (of 4) around local y, the first one pointing most downwards."""
    u = wp.vec3(-n[0], 0.0, -n[2])
    tilt = wp.length(u)
    if tilt > UPRIGHT_TILT:
        u = u / tilt
    else:
        u = wp.vec3(1.0, 0.0, 0.0)
    if k == 1:
        u = -u
    if k == 2:
        u = wp.vec3(u[2], 0.0, -u[0])
    if k == 3:
        u = wp.vec3(-u[2], 0.0, u[0])
    return u


@wp.func
def candidate_point(geo_type: int, scale: wp.vec3, k: int, n: wp.vec3) -> wp.vec3:
    """Point number k of a shape that may touch a plane with normal n, all in the shape's frame."""
    p = wp.vec3(0.0, 0.0, 0.0)
    if geo_type == GEO_SPHERE:
        p = -scale[0] * n
    elif geo_type == GEO_CAPSULE:
        p = wp.vec3(0.0, scale[1] * float(2 * k - 1), 0.0) - scale[0] * n
    elif geo_type == GEO_BOX:
        p = wp.vec3(
            scale[0] * float(2 * (k & 1) - 1),
            scale[1] * float((k & 2) - 1),
            scale[2] * (0.5 * float(k & 4) - 1.0),
        )
    elif geo_type == GEO_CYLINDER:
        p = scale[0] * rim_direction(k / 2, n) + wp.vec3(0.0, scale[1] * float(2 * (k & 1) - 1), 0.0)
    elif geo_type == GEO_CONE:
        p = wp.vec3(0.0, scale[1], 0.0)
        if k > 0:
            p = scale[0] * rim_direction(k - 1, n) - wp.vec3(0.0, scale[1], 0.0)
    elif geo_type == GEO_ELLIPSOID:
        scaled = wp.cw_mul(scale, n)
        p = -wp.cw_mul(scale, scaled) / wp.length(scaled)
    return p


@wp.func
def on_plane(p: wp.vec3, plane_X: wp.transform, size: wp.vec3) -> bool:
    """True if the projection of p lies within a finite plane (sizes along local x and z, 0 = infinite)."""
    local = wp.transform_point(wp.transform_inverse(plane_X), p)
    inside_x = size[0] <= 0.0 or wp.abs(local[0]) <= 0.5 * size[0]
    inside_z = size[1] <= 0.0 or wp.abs(local[2]) <= 0.5 * size[1]
    return inside_x and inside_z


@wp.func
def vertex_count(shape: ShapeView, hulls: HullView, surfaces: SurfaceView, s: int) -> int:
    """Number of vertices of a hull or mesh, or of samples on the surface of a distance field."""
    n = int(0)
    if shape.kind[s] == KIND_HULL:
        h = shape.hull[s]
        n = hulls.vertex_start[h + 1] - hulls.vertex_start[h]
    elif shape.kind[s] == GEO_SDF:
        n = surfaces.sample_count[s]
    else:
        n = wp.mesh_get(shape.geo.source[s]).points.shape[0]
    return n


@wp.func
def vertex_point(shape: ShapeView, hulls: HullView, surfaces: SurfaceView, s: int, i: int) -> wp.vec3:
    """Vertex or sample i in the shape's frame."""
    p = wp.vec3(0.0, 0.0, 0.0)
    if shape.kind[s] == KIND_HULL:
        p = hulls.vertex[hulls.vertex_start[shape.hull[s]] + i]
    elif shape.kind[s] == GEO_SDF:
        p = wp.cw_mul(surfaces.sample[surfaces.sample_start[s] + i], shape.geo.scale[s])
    else:
        p = wp.cw_mul(wp.mesh_get(shape.geo.source[s]).points[i], shape.geo.scale[s])
    return p


@wp.func
def farthest_vertices(
    shape: ShapeView,
    hulls: HullView,
    surfaces: SurfaceView,
    s: int,
    n: wp.vec3,
    along0: wp.vec3,
    along1: wp.vec3,
    limit: float,
) -> wp.vec2i:
    """Vertices farthest in two directions among those not higher than `limit` along n; -1 if none."""
    best = wp.vec2i(-1, -1)
    reach = wp.vec2(-1.0e30, -1.0e30)
    for i in range(vertex_count(shape, hulls, surfaces, s)):
        p = vertex_point(shape, hulls, surfaces, s, i)
        if wp.dot(p, n) <= limit:
            x0 = wp.dot(p, along0)
            x1 = wp.dot(p, along1)
            if x0 > reach[0]:
                reach[0] = x0
                best[0] = i
            if x1 > reach[1]:
                reach[1] = x1
                best[1] = i
    return best


@wp.func
def slender_tilts(shape: ShapeView, s: int, t: wp.vec3, u: wp.vec3, way: float) -> wp.vec3:
    """Largest tilts about a vertex on a plane of a body that goes on by `way` [m] beside it.

    A body turns about each axis of its box by up to `way` over its radius about that axis, so that slender
    bodies turn most about their length. The tilts of the plane's normal in the shape's frame fill an ellipse.

    Args:
        shape: Shapes.
        s: The shape.
        t: Unit vector along the plane, in the shape's frame.
        u: Normal x t.
        way: Distance [m].

    Returns:
        Entries 11, 21, 22 of the lower triangular matrix that maps the unit circle to the ellipse of tilts
        along t and u [rad].
    """
    half = 0.5 * (shape.local_upper[s] - shape.local_lower[s])
    tt = LEAST_TILT * LEAST_TILT
    uu = tt
    tu = float(0.0)
    for i in range(3):
        radius = wp.sqrt(wp.max(0.0, wp.length_sq(half) - half[i] * half[i]))
        turn = way / wp.max(radius, LEAST_THINNESS * shape.radius[s])
        tt += turn * turn * u[i] * u[i]
        uu += turn * turn * t[i] * t[i]
        tu -= turn * turn * t[i] * u[i]
    first = wp.sqrt(tt)
    across = tu / first
    return wp.vec3(first, across, wp.sqrt(wp.max(0.0, uu - across * across)))


@wp.func
def put_vertices(
    shape: ShapeView,
    hulls: HullView,
    surfaces: SurfaceView,
    s: int,
    shape_X: wp.transform,
    plane_X: wp.transform,
    plane_size: wp.vec3,
    n: wp.vec3,
    reach: float,
    travel: float,
    manifolds: ManifoldView,
    pair: int,
):
    """Deepest vertex, and the vertices within reach that touch first on tilts in evenly spread directions.

    The deepest vertex stops, and the others go on until they touch, too: the tilts are those by which the
    body may turn within the step, or that it needs to turn by if it is to be lifted.
    """
    to_local = wp.quat_inverse(wp.transform_get_rotation(shape_X))
    n_local = wp.quat_rotate(to_local, n)
    plane_p = wp.transform_get_translation(plane_X)
    # height of the shape's frame above the plane, subtracted from the reach so that vertices compare directly
    limit = reach - wp.dot(n, wp.transform_get_translation(shape_X) - plane_p)
    t = wp.quat_rotate(to_local * wp.transform_get_rotation(plane_X), wp.vec3(1.0, 0.0, 0.0))
    u = wp.cross(n_local, t)
    # lower triangular matrices of the tilts along t and u
    even = wp.vec3(0.0, 0.0, 0.0)
    slender = wp.vec3(0.0, 0.0, 0.0)
    for k in range(SPREAD_DIRECTIONS + 1):
        angle = 2.0 * wp.pi * float(k - 1) / float(SPREAD_DIRECTIONS)
        x = wp.cos(angle)
        y = wp.sin(angle)
        along0 = even[0] * x * t + (even[1] * x + even[2] * y) * u - n_local
        along1 = slender[0] * x * t + (slender[1] * x + slender[2] * y) * u - n_local
        farthest = farthest_vertices(shape, hulls, surfaces, s, n_local, along0, along1, limit)
        if farthest[0] < 0:
            return
        for j in range(2):
            p = wp.transform_point(shape_X, vertex_point(shape, hulls, surfaces, s, farthest[j]))
            distance = wp.dot(n, p - plane_p)
            fresh = int(1)
            for i in range(manifolds.count[pair]):
                if wp.length_sq(manifolds.point[pair, i] - p) < 1.0e-12:
                    fresh = 0
            if fresh == 1 and on_plane(p, plane_X, plane_size):
                put_point(manifolds, pair, p, n, distance, farthest[j])
            if k == 0:
                way = wp.max(0.0, travel - distance)
                tilt = wp.max(LEAST_TILT, way / shape.radius[s])
                even = wp.vec3(tilt, 0.0, tilt)
                slender = slender_tilts(shape, s, t, u, way)
                if wp.max(slender[0], slender[2]) < SLENDER * tilt:
                    slender = even


@wp.func
def candidate_count(kind: int) -> int:
    """Number of points of a primitive shape that may touch a plane."""
    n = int(1)
    if kind == GEO_CAPSULE:
        n = 2
    elif kind == GEO_CONE:
        n = 5
    elif kind == GEO_BOX or kind == GEO_CYLINDER:
        n = 8
    return n


@wp.kernel
def collide_plane(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """One thread per pair place: points of a shape within reach of a plane."""
    pair = first + wp.tid()
    if pairs.family[pair] != FAMILY_PLANE:
        return
    s = pairs.shape0[pair]
    plane = pairs.shape1[pair]
    X = shape_X[s]
    plane_X = shape_X[plane]
    plane_p = wp.transform_get_translation(plane_X)
    n = wp.transform_vector(plane_X, wp.vec3(0.0, 1.0, 0.0))
    size = shape.geo.scale[plane]
    height = wp.dot(n, wp.transform_get_translation(X) - plane_p)
    if height < 0.0 and (size[0] > 0.0 or size[1] > 0.0):
        # a finite plane is a sheet: shapes behind it must not be pulled through
        return
    kind = shape.kind[s]
    if kind == KIND_HULL or kind == GEO_MESH or kind == GEO_HFIELD or kind == GEO_SDF:
        reach = pairs.reach[pair]
        travel = pairs.travel[pair]
        put_vertices(shape, hulls, surfaces, s, X, plane_X, size, n, reach, travel, manifolds, pair)
        return
    n_local = wp.quat_rotate_inv(wp.transform_get_rotation(X), n)
    for k in range(candidate_count(kind)):
        p = wp.transform_point(X, candidate_point(kind, shape.geo.scale[s], k, n_local))
        distance = wp.dot(n, p - plane_p)
        if distance <= pairs.reach[pair] and on_plane(p, plane_X, size):
            put_point(manifolds, pair, p, n, distance, k)

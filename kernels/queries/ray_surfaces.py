"""First intersections of a ray with planes, triangle meshes and signed distance fields, in their frames.

Meshes use their bounding volume hierarchy with the watertight triangle test of Woop, Benthin and Wald
("Watertight ray/triangle intersection", JCGT, 2013); distance fields are sphere traced (Hart, "Sphere
tracing", The Visual Computer, 1996) and the sign change is bisected.

Stage: queries between steps; ray casting
Called by: kernels/camera/scene.py, kernels/queries/rays.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.surfaces.field_values import field_normal, field_value
from newtonsim.kernels.collision.surfaces.height_grid import surface_at
from newtonsim.kernels.queries.ray_solids import span_of_box

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# number of back faces that a ray passes before it gives up
MAX_BACKS = wp.constant(64)
MAX_MARCH = wp.constant(256)
# step through a field, as a share of the distance there: interpolated fields are not exact distances
MARCH = wp.constant(0.9)
BISECTIONS = wp.constant(24)


@wp.struct
class SurfaceHit:
    """Intersection of a ray with one shape."""

    distance: float  # [m] along the ray, infinite for a miss
    normal: wp.vec3  # outward, unit
    triangle: int  # of a mesh or height field, else -1


@wp.func
def no_hit() -> SurfaceHit:
    """A miss."""
    hit = SurfaceHit()
    hit.distance = wp.inf
    hit.triangle = -1
    return hit


@wp.func
def cast_on_sheet(size: wp.vec3, o: wp.vec3, d: wp.vec3, backs: bool) -> SurfaceHit:
    """Rectangle in the plane y = 0, sizes along x and z, 0 = endless."""
    hit = no_hit()
    if d[1] < 0.0 or (backs and d[1] > 0.0):
        t = -o[1] / d[1]
        p = o + t * d
        across = size[0] <= 0.0 or wp.abs(p[0]) <= 0.5 * size[0]
        along = size[1] <= 0.0 or wp.abs(p[2]) <= 0.5 * size[1]
        if t >= 0.0 and across and along:
            hit.distance = t
            hit.normal = wp.vec3(0.0, 1.0, 0.0)
    return hit


@wp.func
def cast_on_half_space(o: wp.vec3, d: wp.vec3, inside: bool) -> SurfaceHit:
    """The half-space y <= 0."""
    hit = no_hit()
    if (d[1] < 0.0 and o[1] >= 0.0) or (inside and d[1] > 0.0 and o[1] <= 0.0):
        hit.distance = -o[1] / d[1]
        hit.normal = wp.vec3(0.0, 1.0, 0.0)
    return hit


@wp.func
def cast_on_mesh(
    mesh: wp.uint64, scale: wp.vec3, o: wp.vec3, d: wp.vec3, max_distance: float, backs: bool
) -> SurfaceHit:
    """Triangle mesh stretched by a scale, which may be mirrored but not flat."""
    hit = no_hit()
    if scale[0] * scale[1] * scale[2] == 0.0:
        return hit
    # scaling preserves the parameter of the line, so that t stays in metres
    start = wp.cw_div(o, scale)
    along = wp.cw_div(d, scale)
    t = float(0.0)
    for _k in range(MAX_BACKS):
        query = wp.mesh_query_ray(mesh, start + t * along, along, max_distance - t)
        if not query.result:
            return hit
        n = wp.normalize(wp.cw_div(query.normal, scale))
        t += query.t
        if backs or wp.dot(n, d) < 0.0:
            hit.distance = t
            hit.normal = n
            hit.triangle = query.face
            return hit
        t += 1.0e-6 * (t + wp.length(o))
    return hit


@wp.func
def cast_along_heights(mesh: wp.uint64, scale: wp.vec3, o: wp.vec3, d: wp.vec3, backs: bool) -> SurfaceHit:
    """Height field, stretched by a scale, on a ray along y."""
    hit = no_hit()
    if scale[0] * scale[1] * scale[2] == 0.0:
        return hit
    place = surface_at(mesh, o[0] / scale[0], o[2] / scale[2])
    if place.triangle < 0:
        return hit
    t = (scale[1] * place.height - o[1]) / d[1]
    n = wp.normalize(wp.cw_div(place.normal, scale))
    if t >= 0.0 and (backs or wp.dot(n, d) < 0.0):
        hit.distance = t
        hit.normal = n
        hit.triangle = place.triangle
    return hit


@wp.func
def cast_on_field(
    volume: wp.uint64,
    scale: float,
    lower: wp.vec3,
    upper: wp.vec3,
    o: wp.vec3,
    d: wp.vec3,
    max_distance: float,
    inside: bool,
) -> SurfaceHit:
    """Zero of a distance field within its box (of the scaled field), at one scale for all axes."""
    hit = no_hit()
    if scale == 0.0:
        return hit
    middle = 0.5 * (lower + upper)
    box = span_of_box(upper - middle, o - middle, d)
    if box.enter > box.exit:
        return hit
    t = wp.max(box.enter, 0.0)
    end = wp.min(box.exit, max_distance)
    if t > end:
        return hit
    size = wp.length(upper - lower)
    least = 1.0e-4 * size
    value = scale * field_value(volume, (o + t * d) / scale)
    outside = bool(value >= 0.0)
    if not outside and not inside:
        return hit
    for _k in range(MAX_MARCH):
        ahead = wp.min(t + wp.max(MARCH * wp.abs(value), least), end)
        value = scale * field_value(volume, (o + ahead * d) / scale)
        if (value >= 0.0) != outside:
            near = t
            far = ahead
            for _i in range(BISECTIONS):
                half = 0.5 * (near + far)
                if (field_value(volume, (o + half * d) / scale) * scale >= 0.0) == outside:
                    near = half
                else:
                    far = half
            hit.distance = far
            hit.normal = field_normal(volume, (o + far * d) / scale, least / wp.abs(scale)) * wp.sign(scale)
            return hit
        if ahead >= end:
            return hit
        t = ahead
    return hit

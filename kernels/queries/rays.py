"""Rays against the shapes of a world.

A ray may hit the shapes of its own world and the global ones. The bounding boxes of the shapes are tested
first by their slabs (Kay and Kajiya, "Ray tracing complex scenes", 1986), and the remaining shapes in their
own frames. A ray hits each shape at most once, at the first point.

Stage: queries between steps; sensors of environments
Called by: newtonsim/queries/prepared_segments.py, newtonsim/queries/rays.py, kernels/envs/heights.py,
    kernels/envs/scanners.py, kernels/queries/closest_points.py
Reads: RayView, SceneView
Writes: RayHitView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.queries.ray_solids import is_solid, normal_of_rounded, span_of_solid
from newtonsim.kernels.queries.ray_surfaces import (
    SurfaceHit,
    cast_along_heights,
    cast_on_field,
    cast_on_half_space,
    cast_on_mesh,
    cast_on_sheet,
    no_hit,
)
from newtonsim.kernels.views.shapes import (
    GEO_HFIELD,
    GEO_MESH,
    GEO_PLANE,
    GEO_SDF,
    HullView,
    ShapeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# what a ray hits besides the outside of solids and the fronts of surfaces; flags may be added
SEE_BACKS = wp.constant(1)  # surfaces (mesh, height field, finite plane) from behind
SEE_INSIDE = wp.constant(2)  # solids (convex shapes, distance fields, half-spaces) from within
SEE_BELOW = wp.constant(4)  # half-spaces from within, but not other solids
SEE_MARGINS = wp.constant(8)  # hulls with their contact thickness
SEE_ROUNDED = wp.constant(16)  # edges of boxes and cylinders with normals that turn, within EDGE

# component of a direction below which it counts as parallel to a plane
LEAST_SLOPE = wp.constant(1.0e-12)
# squared sine of the angle to the heights of a height field below which a ray counts as parallel to them
PARALLEL = wp.constant(1.0e-12)
# [m] distance from an edge within which a rounded one turns its normal
EDGE = wp.constant(1.0e-3)


@wp.struct
class SceneView:
    """The shapes of a model at their current poses; S shapes, W worlds."""

    shape: ShapeView
    hulls: HullView
    pose: wp.array(dtype=wp.transform)  # (S) world poses
    lower: wp.array(dtype=wp.vec3)  # (S) [m] boxes in the world
    upper: wp.array(dtype=wp.vec3)  # (S) [m]
    mask: wp.array(dtype=wp.uint32)  # (S) bits; a query includes shapes that share a bit with its own mask
    world: wp.array(dtype=int)  # (S) -1 for global shapes
    closed: wp.array(dtype=int)  # (S) 1 for meshes that bound a solid
    disabled: int  # absent shape, -1 for none: the ground plane while it is off
    world_count: int
    list_start: wp.array(dtype=int)  # (W + 2) first place of each world in `listed`; entry W: only the global
    listed: wp.array(dtype=int)  # shapes of each world and the global ones, ascending


@wp.struct
class RayHit:
    """Intersection of a ray."""

    shape: int  # -1 for nothing
    distance: float  # [m] along the ray, infinite for nothing
    point: wp.vec3  # [m] world
    normal: wp.vec3  # world, unit, outward
    triangle: int  # of a mesh or height field, else -1


@wp.func
def scene_row(scene: SceneView, world: int) -> int:
    """Row of the lists for a world, -1 being the global one."""
    row = world
    if world < 0 or world >= scene.world_count:
        row = scene.world_count
    return row


@wp.func
def inverse_direction(d: wp.vec3) -> wp.vec3:
    """Inverse of each component of a direction, those near zero rounded to a large number."""
    inverse = wp.vec3()
    for i in range(3):
        least = wp.where(d[i] < 0.0, -LEAST_SLOPE, LEAST_SLOPE)
        inverse[i] = 1.0 / wp.where(wp.abs(d[i]) < LEAST_SLOPE, least, d[i])
    return inverse


@wp.func
def ray_meets_box(o: wp.vec3, inverse: wp.vec3, lower: wp.vec3, upper: wp.vec3, max_distance: float) -> bool:
    """True if a ray, given by its inverse direction, comes near a box before max_distance."""
    slack = 1.0e-6 * (wp.abs(o) + wp.abs(lower) + wp.abs(upper))
    t = wp.cw_mul(lower - slack - o, inverse)
    u = wp.cw_mul(upper + slack - o, inverse)
    enter = wp.max(wp.max(wp.min(t, u)), 0.0)
    leave = wp.min(wp.min(wp.max(t, u)), max_distance)
    return enter <= leave * 1.000001


@wp.func
def cast_on_shape(
    scene: SceneView, s: int, origin: wp.vec3, direction: wp.vec3, max_distance: float, sight: int
) -> SurfaceHit:
    """First point of shape s on a ray with unit direction, at most max_distance away.

    `sight` adds up SEE_*.
    """
    X = scene.pose[s]
    kind = scene.shape.kind[s]
    size = scene.shape.geo.scale[s]
    to_local = wp.transform_inverse(X)
    o = wp.transform_point(to_local, origin)
    d = wp.transform_vector(to_local, direction)
    backs = (sight & SEE_BACKS) != 0
    inside = (sight & SEE_INSIDE) != 0
    hit = no_hit()
    if is_solid(kind):
        margin = float(0.0)
        if (sight & SEE_MARGINS) != 0:
            margin = scene.shape.geo.thickness[s]
        # from the point nearest to the shape's origin, where rounding is least
        middle = -wp.dot(o, d)
        near = o + middle * d
        span = span_of_solid(kind, size, scene.hulls, scene.shape.hull[s], margin, near, d)
        if span.enter <= span.exit:
            if middle + span.enter >= 0.0:
                hit.distance = middle + span.enter
                hit.normal = span.enter_normal
                if (sight & SEE_ROUNDED) != 0:
                    hit.normal = normal_of_rounded(kind, size, EDGE, near + span.enter * d, hit.normal)
            elif inside and middle + span.exit >= 0.0:
                hit.distance = middle + span.exit
                hit.normal = span.exit_normal
    elif kind == GEO_PLANE:
        if size[0] <= 0.0 and size[1] <= 0.0:
            hit = cast_on_half_space(o, d, inside or (sight & SEE_BELOW) != 0)
        else:
            hit = cast_on_sheet(size, o, d, backs)
    elif kind == GEO_HFIELD and d[0] * d[0] + d[2] * d[2] < PARALLEL:
        hit = cast_along_heights(scene.shape.geo.source[s], size, o, d, backs)
    elif kind == GEO_MESH or kind == GEO_HFIELD:
        hit = cast_on_mesh(scene.shape.geo.source[s], size, o, d, max_distance, backs)
    elif kind == GEO_SDF and scene.shape.geo.source[s] != wp.uint64(0):
        lower = scene.shape.local_lower[s]
        upper = scene.shape.local_upper[s]
        source = scene.shape.geo.source[s]
        hit = cast_on_field(source, size[0], lower, upper, o, d, max_distance, inside)
    if hit.distance > max_distance:
        hit = no_hit()
    hit.normal = wp.transform_vector(X, hit.normal)
    return hit


@wp.func
def next_hit(
    scene: SceneView,
    world: int,
    origin: wp.vec3,
    direction: wp.vec3,
    max_distance: float,
    mask: wp.uint32,
    ignored_body: int,
    sight: int,
    after: RayHit,
) -> RayHit:
    """First hit that comes after another, by distance and then by shape."""
    best = RayHit()
    best.shape = -1
    best.distance = wp.inf
    best.triangle = -1
    row = scene_row(scene, world)
    inverse = inverse_direction(direction)
    for k in range(scene.list_start[row], scene.list_start[row + 1]):
        s = scene.listed[k]
        body = scene.shape.body[s]
        ignored = (body >= 0 and body == ignored_body) or s == scene.disabled
        reach = wp.min(best.distance, max_distance)
        if (scene.mask[s] & mask) != wp.uint32(0) and not ignored:
            lower = scene.lower[s]
            upper = scene.upper[s]
            if (sight & SEE_MARGINS) != 0:
                t = scene.shape.geo.thickness[s]
                lower = lower - wp.vec3(t, t, t)
                upper = upper + wp.vec3(t, t, t)
            if ray_meets_box(origin, inverse, lower, upper, reach):
                hit = cast_on_shape(scene, s, origin, direction, max_distance, sight)
                later = hit.distance > after.distance or (hit.distance == after.distance and s > after.shape)
                if later and hit.distance < best.distance:
                    best.shape = s
                    best.distance = hit.distance
                    best.normal = hit.normal
                    best.triangle = hit.triangle
    if best.shape >= 0:
        best.point = origin + best.distance * direction
    return best


@wp.func
def cast_ray(
    scene: SceneView,
    world: int,
    origin: wp.vec3,
    direction: wp.vec3,
    max_distance: float,
    mask: wp.uint32,
    ignored_body: int,
    sight: int,
) -> RayHit:
    """First hit of a ray with unit direction.

    World -1 means only the global shapes. The ray passes through shapes that share no bit with `mask`, and
    through those of `ignored_body` (-1 for none). `sight` adds up SEE_*.
    """
    before = RayHit()
    before.shape = -1
    before.distance = -1.0
    return next_hit(scene, world, origin, direction, max_distance, mask, ignored_body, sight, before)


@wp.struct
class RayView:
    """Rays to cast; R rays. For arrays of length 0, the single value next to them applies."""

    origin: wp.array(dtype=wp.vec3)  # (R) [m] world
    direction: wp.array(dtype=wp.vec3)  # (R) of any length; end points [m] if ends is 1
    ends: int  # 1 if rays end at `direction`
    max_distance: float  # [m]
    world: int
    rays_per_world: int  # ray i belongs to world i / rays_per_world; 0 to use `world` or `worlds`
    worlds: wp.array(dtype=int)  # (R) or (0)
    mask: wp.uint32
    masks: wp.array(dtype=wp.uint32)  # (R) or (0)
    ignored_body: int
    ignored_bodies: wp.array(dtype=int)  # (R) or (0)
    sight: int
    skip: int  # number of hits to skip


@wp.struct
class RayHitView:
    """Hits of R rays, K of each."""

    distance: wp.array2d(dtype=float)  # (R, K) [m], infinite for nothing
    fraction: wp.array2d(dtype=float)  # (R, K) distance over the length of the given direction
    shape: wp.array2d(dtype=int)  # (R, K) -1 for nothing
    body: wp.array2d(dtype=int)  # (R, K) -1 for static shapes and nothing
    point: wp.array2d(dtype=wp.vec3)  # (R, K) [m] world
    normal: wp.array2d(dtype=wp.vec3)  # (R, K) world, unit, outward
    triangle: wp.array2d(dtype=int)  # (R, K) of meshes and height fields, else -1


@wp.kernel
def cast_rays(scene: SceneView, rays: RayView, hits: RayHitView):
    """One thread per ray: its first hits in order, after the skipped ones."""
    i = wp.tid()
    origin = rays.origin[i]
    direction = rays.direction[i]
    reach = rays.max_distance
    if rays.ends == 1:
        direction = direction - origin
    length = wp.length(direction)
    if rays.ends == 1:
        reach = wp.min(reach, length)
    if length > 0.0:
        direction = direction / length
    else:
        reach = -1.0
    world = rays.world
    if rays.rays_per_world > 0:
        world = i // rays.rays_per_world
    elif rays.worlds.shape[0] > 0:
        world = rays.worlds[i]
    mask = rays.mask
    if rays.masks.shape[0] > 0:
        mask = rays.masks[i]
    ignored_body = rays.ignored_body
    if rays.ignored_bodies.shape[0] > 0:
        ignored_body = rays.ignored_bodies[i]
    hit = RayHit()
    hit.shape = -1
    hit.distance = -1.0
    for k in range(rays.skip + hits.shape.shape[1]):
        if hit.distance < wp.inf and reach >= 0.0:
            hit = next_hit(scene, world, origin, direction, reach, mask, ignored_body, rays.sight, hit)
        else:
            hit = RayHit()
            hit.shape = -1
            hit.distance = wp.inf
            hit.triangle = -1
        c = k - rays.skip
        if c >= 0:
            hits.distance[i, c] = hit.distance
            hits.fraction[i, c] = hit.distance / wp.max(length, 1.0e-30)
            hits.shape[i, c] = hit.shape
            hits.body[i, c] = -1
            if hit.shape >= 0:
                hits.body[i, c] = scene.shape.body[hit.shape]
            hits.point[i, c] = hit.point
            hits.normal[i, c] = hit.normal
            hits.triangle[i, c] = hit.triangle

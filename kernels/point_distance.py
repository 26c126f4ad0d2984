"""Signed distance of a point from the surface of a collision shape."""

import warp as wp

from newtonsim.kernels.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CYLINDER,
    GEO_HFIELD,
    GEO_MESH,
    GEO_PLANE,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
    ShapeView,
)
from newtonsim.kernels.triangle_distance import level_of_surface, surface_of
from newtonsim.kernels.triangle_surface import SurfaceView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# [m] a gap that counts as none: farther than any contact
FAR = wp.constant(1.0e6)
# [m] distance below which the direction to a core is not used
TINY = wp.constant(1.0e-9)


@wp.struct
class RigidView:
    """Collision shapes of rigid bodies by world; S shapes, W worlds."""

    shape: ShapeView
    hulls: HullView
    surfaces: SurfaceView
    start: wp.array(dtype=int)  # (W + 1) places of each world in `listed`
    listed: wp.array(dtype=int)  # shapes that soft bodies may touch


@wp.struct
class Gap:
    """Distance of a point from a shape, and the direction in which it grows."""

    distance: float  # [m] negative inside
    normal: wp.vec3  # unit, out of the shape


@wp.func
def along(core: wp.vec3, radius: float) -> Gap:
    """Gap of a point at `core` from the nearest point of a core that is grown by a radius."""
    gap = Gap()
    length = wp.length(core)
    gap.distance = length - radius
    gap.normal = wp.vec3(0.0, 1.0, 0.0)
    if length > TINY:
        gap.normal = core / length
    return gap


@wp.func
def box_distance(size: wp.vec3, p: wp.vec3) -> Gap:
    """Gap from a box with half extents `size`."""
    beyond = wp.abs(p) - size
    deepest = wp.max(wp.max(beyond[0], beyond[1]), beyond[2])
    if deepest > 0.0:
        nearest = wp.max(wp.min(p, size), -size)
        return along(p - nearest, 0.0)
    gap = Gap()
    gap.distance = deepest
    if beyond[0] == deepest:
        gap.normal = wp.vec3(wp.where(p[0] < 0.0, -1.0, 1.0), 0.0, 0.0)
    elif beyond[1] == deepest:
        gap.normal = wp.vec3(0.0, wp.where(p[1] < 0.0, -1.0, 1.0), 0.0)
    else:
        gap.normal = wp.vec3(0.0, 0.0, wp.where(p[2] < 0.0, -1.0, 1.0))
    return gap


@wp.func
def cylinder_distance(radius: float, half_height: float, p: wp.vec3) -> Gap:
    """Gap from a cylinder about local y."""
    across = wp.vec3(p[0], 0.0, p[2])
    length = wp.length(across)
    outward = wp.vec3(1.0, 0.0, 0.0)
    if length > TINY:
        outward = across / length
    upward = wp.vec3(0.0, wp.where(p[1] < 0.0, -1.0, 1.0), 0.0)
    beside = length - radius
    above = wp.abs(p[1]) - half_height
    gap = Gap()
    if beside > 0.0 and above > 0.0:
        return along(outward * beside + upward * above, 0.0)
    if beside > above:
        gap.distance = beside
        gap.normal = outward
    else:
        gap.distance = above
        gap.normal = upward
    return gap


@wp.func
def hull_distance(hulls: HullView, hull: int, p: wp.vec3) -> Gap:
    """Gap from the planes of a hull's faces: exact inside and above a face, too small beside edges."""
    gap = Gap()
    gap.distance = -FAR
    first = hulls.vertex_start[hull]
    for f in range(hulls.face_start[hull], hulls.face_start[hull + 1]):
        n = hulls.face_normal[f]
        height = wp.dot(n, p - hulls.vertex[first + hulls.corner[hulls.corner_start[f]]])
        if height > gap.distance:
            gap.distance = height
            gap.normal = n
    return gap


@wp.func
def shape_distance(
    rigid: RigidView, s: int, X: wp.transform, point: wp.vec3, viewer: wp.vec3, reach: float
) -> Gap:
    """Gap of a point from shape s at world pose X.

    Args:
        rigid: The shapes.
        s: The shape.
        X: Its world pose.
        point: In the world [m].
        viewer: A world point on the outer side of surfaces that are touched from both sides [m].
        reach: Beyond this distance the gap may be any larger number [m].

    Returns:
        The gap, its normal in the world.
    """
    inverse = wp.transform_inverse(X)
    p = wp.transform_point(inverse, point)
    size = rigid.shape.geo.scale[s]
    kind = rigid.shape.kind[s]
    gap = Gap()
    gap.distance = FAR
    if kind == GEO_PLANE:
        gap.distance = p[1]
        gap.normal = wp.vec3(0.0, 1.0, 0.0)
    elif wp.length(p) > rigid.shape.radius[s] + reach and kind != GEO_HFIELD and kind != GEO_MESH:
        return gap
    elif kind == GEO_SPHERE:
        gap = along(p, size[0])
    elif kind == GEO_BOX:
        gap = box_distance(size, p)
    elif kind == GEO_CAPSULE:
        core = wp.vec3(0.0, wp.clamp(p[1], -size[1], size[1]), 0.0)
        gap = along(p - core, size[0])
    elif kind == GEO_CYLINDER:
        gap = cylinder_distance(size[0], size[1], p)
    elif kind == KIND_HULL:
        gap = hull_distance(rigid.hulls, rigid.shape.hull[s], p)
    elif kind == GEO_MESH or kind == GEO_HFIELD:
        surface = surface_of(rigid.shape, rigid.surfaces, s, X)
        level = level_of_surface(surface, p, wp.transform_point(inverse, viewer), reach, reach)
        if level.found != 0:
            gap.distance = level.value
            gap.normal = level.slope
    gap.normal = wp.transform_vector(X, gap.normal)
    return gap

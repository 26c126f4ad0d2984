"""Signed distance of a static or moving point from the surface of a collision shape.

Ellipsoids: D. Eberly, "Distance from a point to an ellipse, an ellipsoid, or a hyperellipsoid", 2013; moving
points: conservative advancement (B. Mirtich, "Impulse-based dynamic simulation of rigid body systems", 1996,
section 2.3).

Stage: narrow phase of particles with shapes
Called by: solvers/particles/contacts.py, kernels/particles/contacts.py, kernels/particles/features.py
Reads: MotionView, RigidView
Writes: RigidView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import convex_triangle
from newtonsim.kernels.collision.surfaces.fields import Field, level_at
from newtonsim.kernels.collision.surfaces.triangle_distance import level_of_surface, surface_of
from newtonsim.kernels.collision.surfaces.triangle_surface import SurfaceView, nearest_on_triangle
from newtonsim.kernels.maximal.moving_bodies import MotionView, velocity_at
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_HFIELD,
    GEO_MESH,
    GEO_PLANE,
    GEO_SDF,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
    ShapeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# [m] a gap that means no contact: larger than any other
FAR = wp.constant(1.0e6)
# [m] distance below which the direction to a core is not used
TINY = wp.constant(1.0e-9)
# bisections of the interval that contains the root for an ellipsoid
ELLIPSOID_STEPS = wp.constant(32)
# most steps of a point along its path, and the share of its radius at which it counts as arrived
PATH_STEPS = wp.constant(24)
ARRIVED = wp.constant(0.05)


@wp.struct
class RigidView:
    """Collision shapes of rigid bodies by world; S shapes, W worlds."""

    shape: ShapeView
    hulls: HullView
    surfaces: SurfaceView
    start: wp.array(dtype=int)  # (W + 1) places of each world in `listed`
    listed: wp.array(dtype=int)  # shapes that particles may touch
    pose: wp.array(dtype=wp.transform)  # (S) world pose
    centre: wp.array(dtype=wp.vec4)  # (S) centre and radius of a ball about the shape, in the world [m]
    disabled: int  # a shape that particles ignore, -1 for none


@wp.struct
class Gap:
    """Distance of a point from a shape, and the direction in which it grows."""

    distance: float  # [m] negative inside
    normal: wp.vec3  # unit, out of the shape


@wp.func
def along(core: wp.vec3, radius: float) -> Gap:
    """Gap of a point at `core` from the nearest point of a core that is extended by a radius."""
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
def cone_distance(radius: float, half_height: float, p: wp.vec3) -> Gap:
    """Gap from a cone about local y, its tip at +y."""
    across = wp.vec3(p[0], 0.0, p[2])
    length = wp.length(across)
    outward = wp.vec3(1.0, 0.0, 0.0)
    if length > TINY:
        outward = across / length
    upward = wp.vec3(0.0, 1.0, 0.0)
    slant = wp.sqrt(4.0 * half_height * half_height + radius * radius)
    # the side, from the rim of the base to the tip
    side_out = 2.0 * half_height / slant
    side_up = radius / slant
    side = side_out * (length - radius) + side_up * (p[1] + half_height)
    below = -half_height - p[1]
    gap = Gap()
    if side <= 0.0 and below <= 0.0:
        gap.distance = side
        gap.normal = outward * side_out + upward * side_up
        if below > side:
            gap.distance = below
            gap.normal = -upward
        return gap
    t = wp.clamp((side_out * (p[1] + half_height) - side_up * (length - radius)) / slant, 0.0, 1.0)
    on_side = outward * (length - radius * (1.0 - t)) + upward * (p[1] + half_height - 2.0 * half_height * t)
    on_base = outward * wp.max(length - radius, 0.0) + upward * (p[1] + half_height)
    if wp.length_sq(on_base) < wp.length_sq(on_side):
        on_side = on_base
    return along(on_side, 0.0)


@wp.func(inline=False)
def ellipsoid_distance(size: wp.vec3, p: wp.vec3) -> Gap:
    """Gap from an ellipsoid with half axes `size`.

    The nearest point is a_k² p_k / (t + a_k²), with t the largest root of a decreasing function.
    """
    q = wp.abs(p)
    a = wp.max(size, wp.vec3(TINY, TINY, TINY))
    least = wp.min(wp.min(a[0], a[1]), a[2])
    # a point in a plane of symmetry is moved slightly off it
    q = wp.max(q, wp.vec3(1.0e-6, 1.0e-6, 1.0e-6) * least)
    low = float(-least * least + least * 1.0e-6 * least)
    high = float(wp.length(wp.cw_mul(a, q)) - least * least)
    high = wp.max(high, low)
    for _k in range(ELLIPSOID_STEPS):
        t = 0.5 * (low + high)
        u = wp.cw_div(wp.cw_mul(a, q), wp.cw_mul(a, a) + wp.vec3(t, t, t))
        if wp.length_sq(u) > 1.0:
            low = t
        else:
            high = t
    t = 0.5 * (low + high)
    squares = wp.cw_mul(a, a)
    nearest = wp.cw_div(wp.cw_mul(squares, q), squares + wp.vec3(t, t, t))
    unit = wp.cw_div(nearest, a)
    nearest = nearest / wp.length(unit)
    outward = wp.normalize(wp.cw_div(nearest, squares))
    for k in range(3):
        if p[k] < 0.0:
            outward[k] = -outward[k]
            nearest[k] = -nearest[k]
    gap = Gap()
    gap.distance = wp.dot(outward, p - nearest)
    gap.normal = outward
    return gap


@wp.func
def plane_distance(size: wp.vec3, p: wp.vec3, viewer: wp.vec3, reach: float) -> Gap:
    """Gap from a half-space y < 0, or from the upper side of a rectangle; 0 means infinite sides."""
    gap = Gap()
    gap.distance = p[1]
    gap.normal = wp.vec3(0.0, 1.0, 0.0)
    if size[0] > 0.0 or size[1] > 0.0:
        beyond = wp.vec3(0.0)
        if size[0] > 0.0:
            beyond[0] = p[0] - wp.clamp(p[0], -0.5 * size[0], 0.5 * size[0])
        if size[1] > 0.0:
            beyond[2] = p[2] - wp.clamp(p[2], -0.5 * size[1], 0.5 * size[1])
        if viewer[1] < -reach:
            gap.distance = FAR
        elif beyond[0] != 0.0 or beyond[2] != 0.0:
            beyond[1] = p[1]
            gap = along(beyond, 0.0)
    return gap


@wp.func(inline=False)
def hull_distance(hulls: HullView, hull: int, p: wp.vec3, reach: float) -> Gap:
    """Gap from a convex polyhedron, which may be flat; any larger number beyond `reach`."""
    gap = Gap()
    gap.distance = -FAR
    gap.normal = wp.vec3(0.0, 1.0, 0.0)
    first = hulls.vertex_start[hull]
    faces = hulls.face_start[hull]
    for f in range(faces, hulls.face_start[hull + 1]):
        n = hulls.face_normal[f]
        height = wp.dot(n, p - hulls.vertex[first + hulls.corner[hulls.corner_start[f]]])
        if height > gap.distance:
            gap.distance = height
            gap.normal = n
    if faces == hulls.face_start[hull + 1]:
        a = hulls.vertex[first]
        e = hulls.vertex[hulls.vertex_start[hull + 1] - 1] - a
        t = wp.clamp(wp.dot(p - a, e) / wp.max(wp.length_sq(e), TINY), 0.0, 1.0)
        return along(p - a - t * e, 0.0)
    if gap.distance <= 0.0 or gap.distance > reach:
        return gap
    best = wp.vec3(FAR, 0.0, 0.0)
    for f in range(faces, hulls.face_start[hull + 1]):
        start = hulls.corner_start[f]
        a = hulls.vertex[first + hulls.corner[start]] - p
        if wp.dot(hulls.face_normal[f], a) < 0.0:
            b = hulls.vertex[first + hulls.corner[start + 1]] - p
            for k in range(start + 2, hulls.corner_start[f + 1]):
                c = hulls.vertex[first + hulls.corner[k]] - p
                q = nearest_on_triangle(convex_triangle(a, b, c), wp.vec3())
                if wp.length_sq(q) < wp.length_sq(best):
                    best = q
                b = c
    n = gap.normal
    gap = along(-best, 0.0)
    if gap.distance < 1.0e-6:
        gap.normal = n
    return gap


@wp.func(inline=False)
def field_distance(shape: ShapeView, s: int, X: wp.transform, p: wp.vec3, reach: float) -> Gap:
    """Gap from a signed distance field."""
    gap = Gap()
    gap.distance = FAR
    field = Field()
    field.volume = shape.geo.source[s]
    field.scale = shape.geo.scale[s][0]
    field.lower = shape.local_lower[s]
    field.upper = shape.local_upper[s]
    field.X = X
    outside = wp.length(p - wp.min(wp.max(p, field.lower), field.upper))
    if field.volume != wp.uint64(0) and field.scale != 0.0 and outside <= reach:
        level = level_at(field, p)
        gap.distance = level.value
        gap.normal = level.slope
    return gap


@wp.func
def solid_distance(kind: int, size: wp.vec3, p: wp.vec3) -> Gap:
    """Gap from a solid given by kind and size; none for other kinds."""
    gap = Gap()
    gap.distance = FAR
    if kind == GEO_SPHERE:
        gap = along(p, size[0])
    elif kind == GEO_BOX:
        gap = box_distance(size, p)
    elif kind == GEO_CAPSULE:
        core = wp.vec3(0.0, wp.clamp(p[1], -size[1], size[1]), 0.0)
        gap = along(p - core, size[0])
    elif kind == GEO_CYLINDER:
        gap = cylinder_distance(size[0], size[1], p)
    elif kind == GEO_CONE:
        gap = cone_distance(size[0], size[1], p)
    elif kind == GEO_ELLIPSOID:
        gap = ellipsoid_distance(size, p)
    return gap


@wp.func(inline=False)
def surface_distance(
    rigid: RigidView, s: int, X: wp.transform, p: wp.vec3, viewer: wp.vec3, reach: float
) -> Gap:
    """Gap from a hull, mesh, height field or distance field; points are in the frame of the shape."""
    gap = Gap()
    gap.distance = FAR
    kind = rigid.shape.kind[s]
    if kind == KIND_HULL:
        gap = hull_distance(rigid.hulls, rigid.shape.hull[s], p, reach)
    elif kind == GEO_SDF:
        gap = field_distance(rigid.shape, s, X, p, reach)
    elif kind == GEO_MESH or kind == GEO_HFIELD:
        surface = surface_of(rigid.shape, rigid.surfaces, s, X)
        level = level_of_surface(surface, p, viewer, reach, reach)
        if level.found != 0:
            gap.distance = level.value
            gap.normal = level.slope
    return gap


@wp.func
def shape_distance(
    rigid: RigidView, s: int, X: wp.transform, point: wp.vec3, viewer: wp.vec3, reach: float
) -> Gap:
    """Gap of a point from shape s at world pose X, whose thickness counts.

    Args:
        rigid: The shapes.
        s: The shape.
        X: Its world pose.
        point: In the world [m].
        viewer: A world point on the outer side of two-sided surfaces [m].
        reach: Beyond this distance the gap may be any larger number [m].

    Returns:
        The gap, its normal in the world.
    """
    inverse = wp.transform_inverse(X)
    p = wp.transform_point(inverse, point)
    size = rigid.shape.geo.scale[s]
    kind = rigid.shape.kind[s]
    thickness = rigid.shape.geo.thickness[s]
    far = reach + thickness
    gap = Gap()
    # code that needs all views is separate, since they are copied at each call
    if kind == GEO_PLANE:
        gap = plane_distance(size, p, wp.transform_point(inverse, viewer), far)
    elif kind == KIND_HULL or kind == GEO_SDF or kind == GEO_MESH or kind == GEO_HFIELD:
        gap = surface_distance(rigid, s, X, p, wp.transform_point(inverse, viewer), far)
    else:
        gap = solid_distance(kind, size, p)
    gap.distance = gap.distance - thickness
    gap.normal = wp.transform_vector(X, gap.normal)
    return gap


@wp.func
def is_near(rigid: RigidView, s: int, p: wp.vec3, reach: float) -> bool:
    """Whether a world point is within reach of a shape's bounding sphere, or of the space below a plane."""
    ball = rigid.centre[s]
    apart = p - wp.vec3(ball[0], ball[1], ball[2])
    if rigid.shape.kind[s] == GEO_PLANE:
        n = wp.transform_vector(rigid.pose[s], wp.vec3(0.0, 1.0, 0.0))
        return wp.dot(n, apart) <= reach + rigid.shape.geo.thickness[s]
    radius = ball[3] + reach
    return wp.length_sq(apart) < radius * radius


@wp.func
def gap_after(rigid: RigidView, s: int, start: wp.vec3, end: wp.vec3, radius: float, reach: float) -> Gap:
    """Gap of a ball's centre from shape s at the end of its path, up to its first contact on the way.

    A ball that moves by more than its radius could pass through a thin shape, or past its middle. It is then
    stopped at the first contact, and the gap is measured along the normal there.

    Args:
        rigid: The shapes.
        s: The shape.
        start: Start of the path, relative to the pose of the shape at its end, in the world [m].
        end: Its end [m].
        radius: Radius of the ball [m].
        reach: Beyond this distance the gap may be any larger number [m].

    Returns:
        The gap of the centre.
    """
    way = end - start
    length = wp.length(way)
    p = end
    ahead = float(0.0)
    if length > radius:
        p = start
        ahead = length
    gap = Gap()
    for k in range(PATH_STEPS):
        gap = shape_distance(rigid, s, rigid.pose[s], p, start, ahead + reach)
        if ahead <= 0.0:
            return gap
        height = gap.distance - radius
        if height <= ARRIVED * wp.max(radius, ARRIVED * length) or k == PATH_STEPS - 2:
            approach = wp.dot(gap.normal, way)
            if approach < 0.0 and gap.distance > 0.0 and height < reach:
                gap.distance = gap.distance + approach * (ahead / length)
                return gap
            ahead = 0.0
        ahead = wp.max(ahead - wp.max(height, 0.0), 0.0)
        p = end
        if ahead > 0.0:
            p = end - way * (ahead / length)
    return gap


@wp.kernel
def place_shapes(first: int, bodies: MotionView, dt: float, endless: float, rigid: RigidView):
    """One thread per shape: its world pose, and a bounding sphere of its positions in the substep."""
    s = first + wp.tid()
    X = rigid.shape.transform[s]
    b = rigid.shape.body[s]
    if b >= 0:
        X = bodies.pose[b] * X
    rigid.pose[s] = X
    kind = rigid.shape.kind[s]
    middle = wp.vec3(0.0)
    radius = rigid.shape.radius[s]
    if kind == GEO_PLANE or kind == GEO_HFIELD:
        # all points below a terrain are inside
        radius = endless
    elif kind == GEO_MESH or kind == GEO_SDF:
        middle = 0.5 * (rigid.shape.local_lower[s] + rigid.shape.local_upper[s])
        radius = 0.5 * wp.length(rigid.shape.local_upper[s] - rigid.shape.local_lower[s])
    c = wp.transform_point(X, middle)
    radius += rigid.shape.geo.thickness[s] + wp.length(velocity_at(bodies, b, c)) * dt
    rigid.centre[s] = wp.vec4(c[0], c[1], c[2], radius)

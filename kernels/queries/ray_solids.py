"""The part of a line inside a convex solid, in closed form.

Each solid is cut out of the line as the interval between its entry and its exit: half-spaces and faces after
Cyrus and Beck ("Generalized two- and three-dimensional clipping", 1978), quadrics by the numerically stable
root of the quadratic through the point of closest approach (Haines, Guenther, Akenine-Moeller, "Precision
improvements for ray/sphere intersection", Ray Tracing Gems, 2019). Lines are given in the frame of the solid.

Stage: queries between steps; ray casting
Called by: kernels/camera/elements.py, kernels/camera/scene.py, kernels/queries/closest_points.py,
    kernels/queries/ray_surfaces.py, kernels/queries/ray_times.py, kernels/queries/rays.py
Reads: HullView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# relative thickness below which a cone or ellipsoid counts as flat
FLAT = wp.constant(1.0e-6)


@wp.struct
class Span:
    """Interval of a line; enter above exit where the line misses."""

    enter: float  # [m] along the line
    exit: float  # [m]
    enter_normal: wp.vec3  # outward at the entry, unit
    exit_normal: wp.vec3  # outward at the exit, unit


@wp.func
def whole_line() -> Span:
    """The line without limits."""
    span = Span()
    span.enter = -wp.inf
    span.exit = wp.inf
    return span


@wp.func
def no_span() -> Span:
    """A miss."""
    span = Span()
    span.enter = wp.inf
    span.exit = -wp.inf
    return span


@wp.func
def cut_half_space(span: Span, n: wp.vec3, offset: float, o: wp.vec3, d: wp.vec3) -> Span:
    """The part of the span in n·x <= offset."""
    rate = wp.dot(n, d)
    room = offset - wp.dot(n, o)
    cut = span
    if rate == 0.0:
        if room < 0.0:
            cut = no_span()
    else:
        t = room / rate
        if rate < 0.0 and t > span.enter:
            cut.enter = t
            cut.enter_normal = n
        if rate > 0.0 and t < span.exit:
            cut.exit = t
            cut.exit_normal = n
    return cut


@wp.func
def meet(a: Span, b: Span) -> Span:
    """The intersection of two spans."""
    both = a
    if b.enter > a.enter:
        both.enter = b.enter
        both.enter_normal = b.enter_normal
    if b.exit < a.exit:
        both.exit = b.exit
        both.exit_normal = b.exit_normal
    return both


@wp.func
def join(a: Span, b: Span) -> Span:
    """From the first entry to the last exit of two spans, one of which may be a miss."""
    either = a
    if b.enter <= b.exit:
        if b.enter < a.enter:
            either.enter = b.enter
            either.enter_normal = b.enter_normal
        if b.exit > a.exit:
            either.exit = b.exit
            either.exit_normal = b.exit_normal
    return either


@wp.func
def span_of_ellipsoid(axes: wp.vec3, o: wp.vec3, d: wp.vec3) -> Span:
    """Ellipsoid of semi-axes [m] about the origin."""
    least = FLAT * wp.max(axes)
    a = wp.max(axes, wp.vec3(least, least, least))
    span = no_span()
    if least <= 0.0:
        return span
    p = wp.cw_div(o, a)
    v = wp.cw_div(d, a)
    rate = wp.dot(v, v)
    middle = -wp.dot(p, v) / rate
    nearest = p + middle * v
    room = 1.0 - wp.dot(nearest, nearest)
    if room >= 0.0:
        half = wp.sqrt(room / rate)
        span.enter = middle - half
        span.exit = middle + half
        span.enter_normal = wp.normalize(wp.cw_div(nearest - half * v, a))
        span.exit_normal = wp.normalize(wp.cw_div(nearest + half * v, a))
    return span


@wp.func
def span_of_ball(radius: float, centre: wp.vec3, o: wp.vec3, d: wp.vec3) -> Span:
    """Ball."""
    return span_of_ellipsoid(wp.vec3(radius, radius, radius), o - centre, d)


@wp.func
def span_of_box(half: wp.vec3, o: wp.vec3, d: wp.vec3) -> Span:
    """Box of half extents about the origin."""
    span = whole_line()
    for i in range(3):
        n = wp.vec3()
        n[i] = 1.0
        span = cut_half_space(span, n, half[i], o, d)
        span = cut_half_space(span, -n, half[i], o, d)
    return span


@wp.func
def cut_ends(span: Span, half_height: float, o: wp.vec3, d: wp.vec3) -> Span:
    """The part of the span in |y| <= half_height."""
    up = wp.vec3(0.0, 1.0, 0.0)
    cut = cut_half_space(span, up, half_height, o, d)
    return cut_half_space(cut, -up, half_height, o, d)


@wp.func
def span_of_tube(radius: float, o: wp.vec3, d: wp.vec3) -> Span:
    """Infinite cylinder about local y."""
    span = no_span()
    p = wp.vec3(o[0], 0.0, o[2])
    v = wp.vec3(d[0], 0.0, d[2])
    rate = wp.dot(v, v)
    if rate < 1.0e-14:
        if wp.dot(p, p) <= radius * radius:
            span = whole_line()
        return span
    middle = -wp.dot(p, v) / rate
    nearest = p + middle * v
    room = radius * radius - wp.dot(nearest, nearest)
    if room >= 0.0:
        half = wp.sqrt(room / rate)
        span.enter = middle - half
        span.exit = middle + half
        span.enter_normal = wp.normalize(nearest - half * v)
        span.exit_normal = wp.normalize(nearest + half * v)
    return span


@wp.func
def span_of_capsule(radius: float, half_height: float, o: wp.vec3, d: wp.vec3) -> Span:
    """Capsule along local y."""
    end = wp.vec3(0.0, half_height, 0.0)
    span = join(span_of_ball(radius, end, o, d), span_of_ball(radius, -end, o, d))
    return join(span, cut_ends(span_of_tube(radius, o, d), half_height, o, d))


@wp.func
def nappe_normal(slope: float, apex: float, p: wp.vec3) -> wp.vec3:
    """Outward normal of a cone's flank at p; up at the apex."""
    n = wp.vec3(p[0], slope * slope * (apex - p[1]), p[2])
    if wp.length_sq(n) == 0.0:
        n = wp.vec3(0.0, 1.0, 0.0)
    return wp.normalize(n)


@wp.func
def span_of_nappe(slope: float, apex: float, o: wp.vec3, d: wp.vec3) -> Span:
    """Infinite cone about local y that opens downwards from height `apex`, radius = slope * depth."""
    depth = apex - o[1]
    sink = -d[1]
    k = slope * slope
    a = d[0] * d[0] + d[2] * d[2] - k * sink * sink
    b = o[0] * d[0] + o[2] * d[2] - k * depth * sink
    c = o[0] * o[0] + o[2] * o[2] - k * depth * depth
    span = no_span()
    if wp.abs(a) < 1.0e-12:
        # along the flank: the far root goes to infinity
        a = float(1.0e-12)
    room = b * b - a * c
    if room < 0.0 and a > 0.0:
        return span
    q = b + wp.where(b < 0.0, -1.0, 1.0) * wp.sqrt(wp.max(room, 0.0))
    first = -q / a
    second = first
    if q != 0.0:
        second = -c / q
    lower = wp.min(first, second)
    upper = wp.max(first, second)
    if a > 0.0:
        # between the roots, which lie on one nappe
        if depth + 0.5 * (lower + upper) * sink < 0.0:
            return span
        span.enter = lower
        span.exit = upper
    elif sink > 0.0:
        span.enter = upper
        span.exit = wp.inf
    else:
        span.enter = -wp.inf
        span.exit = lower
    if span.enter > -wp.inf:
        span.enter_normal = nappe_normal(slope, apex, o + span.enter * d)
    if span.exit < wp.inf:
        span.exit_normal = nappe_normal(slope, apex, o + span.exit * d)
    return span


@wp.func
def span_of_cone(radius: float, half_height: float, o: wp.vec3, d: wp.vec3) -> Span:
    """Cone along local y, apex up."""
    span = whole_line()
    if half_height <= FLAT * radius:
        span = cut_ends(span_of_tube(radius, o, d), half_height, o, d)
    else:
        span = span_of_nappe(0.5 * radius / half_height, half_height, o, d)
        span = cut_half_space(span, wp.vec3(0.0, -1.0, 0.0), half_height, o, d)
    return span


@wp.func
def in_polygon(hulls: HullView, hull: int, face: int, p: wp.vec3) -> bool:
    """True if p, in the plane of a face, lies within its edges."""
    vertex = hulls.vertex_start[hull]
    n = hulls.face_normal[face]
    first = hulls.corner_start[face]
    last = hulls.corner_start[face + 1] - 1
    a = hulls.vertex[vertex + hulls.corner[last]]
    inside = bool(last - first >= 2)
    for k in range(first, last + 1):
        b = hulls.vertex[vertex + hulls.corner[k]]
        if wp.dot(n, wp.cross(b - a, p - a)) < 0.0:
            inside = False
        a = b
    return inside


@wp.func
def span_of_hull(hulls: HullView, hull: int, margin: float, o: wp.vec3, d: wp.vec3) -> Span:
    """Convex polyhedron with its faces moved out by a margin [m].

    A line hits a flat one where it crosses it, and never one without faces.
    """
    span = whole_line()
    vertex = hulls.vertex_start[hull]
    first = hulls.face_start[hull]
    end = hulls.face_start[hull + 1]
    for face in range(first, end):
        n = hulls.face_normal[face]
        corner = hulls.vertex[vertex + hulls.corner[hulls.corner_start[face]]]
        span = cut_half_space(span, n, wp.dot(n, corner) + margin, o, d)
    if end == first:
        span = no_span()
    elif end - first <= 2:
        if wp.dot(hulls.face_normal[first], d) == 0.0:
            span = no_span()
        elif not in_polygon(hulls, hull, first, o + span.enter * d):
            span = no_span()
        else:
            span.exit = span.enter
    return span


@wp.func
def is_solid(kind: int) -> bool:
    """True for the kinds that `span_of_solid` knows."""
    round = kind == GEO_SPHERE or kind == GEO_CAPSULE or kind == GEO_ELLIPSOID
    return round or kind == GEO_BOX or kind == GEO_CYLINDER or kind == GEO_CONE or kind == KIND_HULL


@wp.func
def span_of_solid(
    kind: int, size: wp.vec3, hulls: HullView, hull: int, margin: float, o: wp.vec3, d: wp.vec3
) -> Span:
    """The part of a line inside a convex shape; the margin [m] is that of hulls."""
    span = no_span()
    if kind == GEO_SPHERE:
        span = span_of_ball(size[0], wp.vec3(), o, d)
    elif kind == GEO_BOX:
        span = span_of_box(size, o, d)
    elif kind == GEO_CAPSULE:
        span = span_of_capsule(size[0], size[1], o, d)
    elif kind == GEO_CYLINDER:
        span = cut_ends(span_of_tube(size[0], o, d), size[1], o, d)
    elif kind == GEO_CONE:
        span = span_of_cone(size[0], size[1], o, d)
    elif kind == GEO_ELLIPSOID:
        span = span_of_ellipsoid(size, o, d)
    elif kind == KIND_HULL:
        span = span_of_hull(hulls, hull, margin, o, d)
    return span


@wp.func
def excess(size: float, margin: float, p: float) -> float:
    """How far a coordinate p >= 0 lies beyond the core of a solid, which ends a margin within its size [m].

    From the distance to the face, which is exact in float32 where p itself is rounded to more than a margin.
    """
    return wp.max(wp.min(margin, size) - (size - p), 0.0)


@wp.func
def normal_of_rounded(kind: int, size: wp.vec3, margin: float, p: wp.vec3, n: wp.vec3) -> wp.vec3:
    """Normal at a point p of a box or cylinder whose edges are rounded within a margin [m].

    Args:
        kind: Kind of the solid; normals of others are left as they are.
        size: Its size [m].
        margin: Radius of the edges [m]; that of a thinner solid is its half thickness.
        p: The point on a face, in the frame of the solid [m].
        n: Normal of the face (unit).
    """
    out = wp.vec3(0.0)
    if kind == GEO_BOX:
        for i in range(3):
            out[i] = excess(size[i], margin, wp.abs(p[i])) * wp.sign(p[i])
            if wp.abs(n[i]) > 0.5:
                out[i] = wp.min(margin, size[i]) * n[i]
    if kind == GEO_CYLINDER:
        radial = wp.vec3(p[0], 0.0, p[2])
        if wp.abs(n[1]) > 0.5:
            out = wp.normalize(radial) * excess(size[0], margin, wp.length(radial))
            out[1] = wp.min(margin, size[1]) * n[1]
        else:
            out = n * wp.min(margin, size[0])
            out[1] = excess(size[1], margin, wp.abs(p[1])) * wp.sign(p[1])
    rounded = n
    if wp.length_sq(out) > 0.0:
        rounded = wp.normalize(out)
    return rounded

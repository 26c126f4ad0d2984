"""Contact points of spheres and capsules with each other and with boxes, in closed form.

A sphere is a capsule without length. The closest points of two axes are those of C. Ericson, Real-Time
Collision Detection, 2005, section 5.1.9. The squared distance of a point that moves along an axis to a box is
convex and piecewise quadratic, so that the root of its derivative lies between two of the at most six places
where the axis crosses a face plane. An axis inside a box is pushed out along the normal of least depth of the
box swept along the axis, whose faces are those of the box and the parallelograms of its edges and the axis.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: PairView, ShapeView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import sign_of
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_ROUND, ManifoldView, PairView, put_point
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_CAPSULE, HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# distance of two cores, over their size, below which it defines no direction
COINCIDENT = wp.constant(1.0e-6)
# the same for an axis and a box, below which the axis counts as inside of it
TOUCHING = wp.constant(1.0e-5)
# share of the radii by which the gap at the nearer end of a contact line may exceed that of the closest
# points
EVEN = wp.constant(2.0e-4)
# squared cosine of the angle between two axes above which they may run alongside each other
BESIDE = wp.constant(0.8)
# distance by which an axis may extend beyond the rim of a face, over the size
OUTSIDE = wp.constant(1.0e-5)
# sine of the angle to a face above which an axis is deepest at an end
DEEPER = wp.constant(1.0e-6)
# least length of a contact line over the length of the axis
SHORT = wp.constant(1.0e-3)
# squared sine of the angle between two lines below which they count as parallel
PARALLEL = wp.constant(1.0e-8)
# margin by which an axis must be better than a previous one to be chosen, over the size
BETTER = wp.constant(2.0e-5)


@wp.struct
class Axis:
    """Axis of a capsule, or centre of a sphere: points center + t * half for t from -1 to 1."""

    center: wp.vec3  # [m]
    half: wp.vec3  # [m]
    radius: float  # [m]


@wp.struct
class Writer:
    """Destination of points: the manifold of a pair, and the roles of its shapes."""

    pair: int
    reach: float  # [m]
    flipped: int  # 1 if the axis for which points are given is that of shape 1
    radius: float  # [m] of the shape with that axis


@wp.func
def axis_of(shape: ShapeView, s: int, X: wp.transform, origin: wp.vec3) -> Axis:
    """Axis of shape s with pose X, relative to a point [m]."""
    axis = Axis()
    axis.center = wp.transform_get_translation(X) - origin
    axis.radius = shape.geo.scale[s][0]
    if shape.kind[s] == GEO_CAPSULE:
        axis.half = wp.transform_vector(X, wp.vec3(0.0, shape.geo.scale[s][1], 0.0))
    return axis


@wp.func
def any_across(u: wp.vec3) -> wp.vec3:
    """A unit vector across u: the up axis if u is zero."""
    e = wp.vec3(0.0, 1.0, 0.0)
    if wp.length_sq(u) == 0.0:
        return e
    if u[1] * u[1] > 0.5 * wp.length_sq(u):
        e = wp.vec3(1.0, 0.0, 0.0)
    return wp.normalize(e - u * (wp.dot(e, u) / wp.length_sq(u)))


@wp.func
def write_point(w: Writer, core: wp.vec3, n: wp.vec3, distance: float, feature: int, manifolds: ManifoldView):
    """Write a point within reach, given a point [m] of the axis, the normal towards it, and the gap [m]."""
    if distance > w.reach:
        return
    p = core - w.radius * n
    if w.flipped == 1:
        put_point(manifolds, w.pair, p - distance * n, -n, distance, feature)
    else:
        put_point(manifolds, w.pair, p, n, distance, feature)


@wp.func
def nearest_on(a: Axis, p: wp.vec3) -> float:
    """Parameter of the point of an axis nearest to p."""
    length_sq = wp.length_sq(a.half)
    t = float(0.0)
    if length_sq > 0.0:
        t = wp.clamp(wp.dot(p - a.center, a.half) / length_sq, -1.0, 1.0)
    return t


@wp.func
def nearest_axes(a: Axis, b: Axis) -> float:
    """Parameter of the point of axis a nearest to axis b; in the middle where many are."""
    uu = wp.length_sq(a.half)
    vv = wp.length_sq(b.half)
    uv = wp.dot(a.half, b.half)
    r = b.center - a.center
    across = uu * vv - uv * uv
    if across > PARALLEL * uu * vv and across > 0.0:
        s = (wp.dot(a.half, r) * vv - wp.dot(b.half, r) * uv) / across
        s = wp.clamp(s, -1.0, 1.0)
        q = b.center + nearest_on(b, a.center + s * a.half) * b.half
        return nearest_on(a, q)
    if uu == 0.0:
        return 0.0
    # parallel: the middle of the part where they run alongside each other
    middle = wp.dot(a.half, r) / uu
    extent = wp.abs(uv) / uu
    return 0.5 * (wp.clamp(middle - extent, -1.0, 1.0) + wp.clamp(middle + extent, -1.0, 1.0))


@wp.func
def axis_normal(a: Axis, b: Axis, apart: wp.vec3) -> wp.vec3:
    """Unit vector along `apart`, from b to a, or perpendicular to both axes if it is too short."""
    size = wp.length(a.half) + wp.length(b.half) + a.radius + b.radius
    if wp.length(apart) > COINCIDENT * size:
        return wp.normalize(apart)
    n = wp.cross(a.half, b.half)
    if wp.length_sq(n) > PARALLEL * wp.length_sq(a.half) * wp.length_sq(b.half):
        n = wp.normalize(n)
        if wp.dot(n, a.center - b.center) < 0.0:
            n = -n
        return n
    if wp.length_sq(a.half) >= wp.length_sq(b.half):
        return any_across(a.half)
    return any_across(b.half)


@wp.func
def axis_gap(a: Axis, b: Axis, t: float) -> float:
    """Distance [m] of the point of axis a with parameter t to axis b."""
    p = a.center + t * a.half
    return wp.length(p - b.center - nearest_on(b, p) * b.half)


@wp.func
def write_axis_point(
    w: Writer, a: Axis, b: Axis, origin: wp.vec3, t: float, feature: int, manifolds: ManifoldView
):
    """Write the contact of the point of axis a with parameter t and the point of b nearest to it."""
    p = a.center + t * a.half
    apart = p - b.center - nearest_on(b, p) * b.half
    n = axis_normal(a, b, apart)
    write_point(w, origin + p, n, wp.dot(n, apart) - a.radius - b.radius, feature, manifolds)


@wp.func
def collide_axes(w: Writer, a: Axis, b: Axis, origin: wp.vec3, manifolds: ManifoldView):
    """Write the contact of two axes with radii: two points if they run alongside each other, else one."""
    t = nearest_axes(a, b)
    uu = wp.length_sq(a.half)
    uv = wp.dot(a.half, b.half)
    if uv * uv > BESIDE * uu * wp.length_sq(b.half):
        middle = wp.dot(a.half, b.center - a.center) / uu
        extent = wp.abs(uv) / uu
        low = wp.clamp(middle - extent, -1.0, 1.0)
        high = wp.clamp(middle + extent, -1.0, 1.0)
        least = wp.min(axis_gap(a, b, low), axis_gap(a, b, high))
        # if the axes cross, their ends are separated on both sides
        if high - low > SHORT and least <= axis_gap(a, b, t) + EVEN * (a.radius + b.radius):
            write_axis_point(w, a, b, origin, low, 0, manifolds)
            write_axis_point(w, a, b, origin, high, 1, manifolds)
            return
    write_axis_point(w, a, b, origin, t, 2, manifolds)


@wp.func
def beyond(p: wp.vec3, size: wp.vec3) -> wp.vec3:
    """Vector [m] to a point from the nearest point of a box about the origin."""
    return p - wp.max(wp.min(p, size), -size)


@wp.func
def nearest_to_box(a: Axis, size: wp.vec3) -> float:
    """Parameter of the point of an axis nearest to a box about the origin; any inside if it enters it."""
    low = float(-1.0)
    high = float(1.0)
    slope_low = wp.dot(beyond(a.center - a.half, size), a.half)
    slope_high = wp.dot(beyond(a.center + a.half, size), a.half)
    if slope_low >= 0.0 and slope_high <= 0.0:
        return 0.0
    if slope_low >= 0.0:
        return low
    if slope_high <= 0.0:
        return high
    for k in range(6):
        i = k / 2
        face = size[i] * float(2 * (k & 1) - 1)
        if a.half[i] != 0.0:
            t = (face - a.center[i]) / a.half[i]
            if t > low and t < high:
                slope = wp.dot(beyond(a.center + t * a.half, size), a.half)
                if slope < 0.0:
                    low = t
                    slope_low = slope
                else:
                    high = t
                    slope_high = slope
    return low - slope_low * (high - low) / (slope_high - slope_low)


@wp.func
def face_along(n: wp.vec3) -> int:
    """Axis of the face of a box whose normal is closest to n."""
    k = int(0)
    if wp.abs(n[1]) > wp.abs(n[k]):
        k = 1
    if wp.abs(n[2]) > wp.abs(n[k]):
        k = 2
    return k


@wp.func
def span_over(a: Axis, size: wp.vec3, n: wp.vec3, k: int) -> wp.vec2:
    """Range of parameters in which an axis lies over the face of a box across axis k, as seen along n."""
    outside = OUTSIDE * wp.length(size)
    face = sign_of(n[k]) * size[k]
    center = a.center - n * ((a.center[k] - face) / n[k])
    half = a.half - n * (a.half[k] / n[k])
    low = float(-1.0)
    high = float(1.0)
    for i in range(3):
        if i != k:
            room = size[i] + outside
            if wp.abs(half[i]) > 0.0:
                t0 = (-room - center[i]) / half[i]
                t1 = (room - center[i]) / half[i]
                low = wp.max(low, wp.min(t0, t1))
                high = wp.min(high, wp.max(t0, t1))
            elif wp.abs(center[i]) > room:
                high = low
    return wp.vec2(low, high)


@wp.func
def way_out(a: Axis, size: wp.vec3) -> wp.vec4:
    """Normal of the shortest way out of a box for an axis that passes through it, and the separation [m]."""
    best = float(-wp.inf)
    n = wp.vec3(0.0, 0.0, 0.0)
    slack = BETTER * (wp.length(size) + wp.length(a.half))
    for i in range(3):
        separation = wp.abs(a.center[i]) - wp.abs(a.half[i]) - size[i]
        if separation > best + slack:
            best = separation
            n = wp.vec3(0.0, 0.0, 0.0)
            n[i] = sign_of(a.center[i])
    for i in range(3):
        e = wp.vec3(0.0, 0.0, 0.0)
        e[i] = 1.0
        m = wp.cross(e, a.half)
        if wp.length_sq(m) > PARALLEL * wp.length_sq(a.half):
            m = wp.normalize(m)
            separation = wp.abs(wp.dot(m, a.center)) - wp.dot(wp.abs(m), size)
            if separation > best + slack:
                best = separation
                n = m * sign_of(wp.dot(m, a.center))
    return wp.vec4(n[0], n[1], n[2], best)


@wp.func
def deepest_along(a: Axis, size: wp.vec3, n: wp.vec3) -> float:
    """Parameter where an axis lies deepest in a box along n: at its lower end, or where it passes an edge."""
    along = wp.dot(n, a.half)
    if wp.abs(along) > DEEPER * wp.length(a.half):
        return -sign_of(along)
    # seen along the edge, which is a point
    k = face_along(wp.vec3(float(n[0] == 0.0), float(n[1] == 0.0), float(n[2] == 0.0)))
    across = a.half
    r = wp.cw_mul(wp.vec3(sign_of(n[0]), sign_of(n[1]), sign_of(n[2])), size) - a.center
    across[k] = 0.0
    t = float(0.0)
    if wp.length_sq(across) > 0.0:
        t = wp.clamp(wp.dot(r, across) / wp.length_sq(across), -1.0, 1.0)
    return t


@wp.func
def write_box_point(
    w: Writer, X: wp.transform, p: wp.vec3, n: wp.vec3, core: float, feature: int, manifolds: ManifoldView
):
    """Write the contact of a point [m] of an axis in a box's frame, core [m] outside of the box along n."""
    write_point(
        w,
        wp.transform_point(X, p),
        wp.transform_vector(X, n),
        core - w.radius,
        feature,
        manifolds,
    )


@wp.func
def write_box_points(
    w: Writer,
    X: wp.transform,
    a: Axis,
    size: wp.vec3,
    n: wp.vec3,
    t: float,
    gap: float,
    manifolds: ManifoldView,
):
    """Write the ends of the part of an axis that lies over a face of a box, or one point alone.

    Args:
        w: Where to write.
        X: Pose of the box.
        a: The axis, in the frame of the box.
        size: Half extents of the box [m].
        n: Normal from the box to the axis.
        t: Parameter of the point of the axis with the least gap.
        gap: That gap [m], without the radius.
        manifolds: Contact points of all pairs.
    """
    k = face_along(n)
    if wp.length_sq(a.half) > 0.0:
        span = span_over(a, size, n, k)
        if span[1] - span[0] > SHORT:
            face = sign_of(n[k]) * size[k]
            for end in range(2):
                p = a.center + span[end] * a.half
                write_box_point(w, X, p, n, (p[k] - face) / n[k], end, manifolds)
            return
    write_box_point(w, X, a.center + t * a.half, n, gap, 2, manifolds)


@wp.func
def collide_with_box(w: Writer, a: Axis, X: wp.transform, size: wp.vec3, manifolds: ManifoldView):
    """Write the contact of an axis with radius, in the frame of a box with pose X, and the box."""
    t = float(0.0)
    if wp.length_sq(a.half) > 0.0:
        t = nearest_to_box(a, size)
    way = beyond(a.center + t * a.half, size)
    gap = wp.length(way)
    n = way / wp.max(gap, 1.0e-30)
    if gap <= TOUCHING * (wp.length(size) + wp.length(a.half)):
        out = way_out(a, size)
        n = wp.vec3(out[0], out[1], out[2])
        t = deepest_along(a, size, n)
        gap = out[3]
    write_box_points(w, X, a, size, n, t, gap, manifolds)


@wp.kernel
def collide_round(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
):
    """One thread per pair place: points of a sphere or capsule and a sphere, capsule or box."""
    pair = first + wp.tid()
    if pairs.family[pair] != FAMILY_ROUND:
        return
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    w = Writer()
    w.pair = pair
    w.reach = pairs.reach[pair]
    if shape.kind[s0] != GEO_BOX and shape.kind[s1] != GEO_BOX:
        origin = wp.transform_get_translation(shape_X[s1])
        a = axis_of(shape, s0, shape_X[s0], origin)
        b = axis_of(shape, s1, shape_X[s1], origin)
        w.radius = a.radius
        collide_axes(w, a, b, origin, manifolds)
        return
    if shape.kind[s0] == GEO_BOX:
        w.flipped = 1
        s0 = s1
        s1 = pairs.shape0[pair]
    X = shape_X[s1]
    origin = wp.transform_get_translation(X)
    a = axis_of(shape, s0, shape_X[s0], origin)
    a.center = wp.quat_rotate_inv(wp.transform_get_rotation(X), a.center)
    a.half = wp.quat_rotate_inv(wp.transform_get_rotation(X), a.half)
    w.radius = a.radius
    collide_with_box(w, a, X, shape.geo.scale[s1], manifolds)

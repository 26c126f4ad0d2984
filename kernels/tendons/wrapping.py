"""Shortest paths of tendons around spheres and cylinders.

A path around a sphere lies in the plane of both ends and the centre. A path around a cylinder is straight
when unrolled: seen along the axis, it is a path around a circle, and it climbs in proportion to its length
there. A path around a circle consists of two tangents and an arc. Since the path is the shortest, sliding of
the points of contact does not affect the rate of its length: this follows from the velocities of its ends and
of the body that it wraps around, as if these points were fixed.

A side point selects the side of the path. A side point inside the body selects a path through the inside,
which touches the circle where both straight parts meet it at the same angle.

Source: MuJoCo's documentation, "XML reference", elements spatial/geom; Garner and Pandy, "The obstacle-set
method for representing muscle paths in musculoskeletal models", 2000.

Stage: forces at the start of a step, first of tendons
Called by: newtonsim/builder/tendons.py, kernels/tendons/paths.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# directions closer than this coincide
PARALLEL = wp.constant(1.0e-6)
# if the straight line passes the circle on the other side, the path wraps on the side of the side point as
# long as both points of contact lie behind the centre by less than this share of the radius
BEHIND = wp.constant(0.4)


@wp.struct
class Around:
    """A path around a circle with its centre at 0."""

    wraps: int
    first: wp.vec2  # where it touches the circle first
    last: wp.vec2  # where it leaves it
    arc: float  # length of the arc


@wp.func
def turned(v: wp.vec2) -> wp.vec2:
    """The vector rotated by a right angle."""
    return wp.vec2(-v[1], v[0])


@wp.func
def around_circle(a: wp.vec2, b: wp.vec2, radius: float, sense: float) -> Around:
    """Tangents from a and b and the arc between them, counter-clockwise for sense = 1, else clockwise."""
    path = Around()
    path.wraps = 1
    u = wp.normalize(a)
    v = wp.normalize(b)
    ca = radius / wp.length(a)
    cb = radius / wp.length(b)
    path.first = radius * (ca * u + sense * wp.sqrt(1.0 - ca * ca) * turned(u))
    path.last = radius * (cb * v - sense * wp.sqrt(1.0 - cb * cb) * turned(v))
    cross = path.first[0] * path.last[1] - path.first[1] * path.last[0]
    angle = sense * wp.atan2(cross, wp.dot(path.first, path.last))
    if angle < 0.0:
        angle = angle + 2.0 * wp.pi
    path.arc = radius * angle
    return path


@wp.func
def cross(a: wp.vec2, b: wp.vec2) -> float:
    """Signed area of the parallelogram of two vectors."""
    return a[0] * b[1] - a[1] * b[0]


@wp.func
def crossing(a: wp.vec2, b: wp.vec2, c: wp.vec2, d: wp.vec2) -> bool:
    """True if the segments ab and cd meet."""
    along = cross(b - a, d - c)
    first = cross(c - a, d - c) * along
    second = cross(c - a, b - a) * along
    most = along * along
    return first >= 0.0 and first <= most and second >= 0.0 and second <= most


@wp.func
def slope(t: float, a: wp.vec2, b: wp.vec2, radius: float) -> wp.vec2:
    """First and second derivative of the length of the path from a over the point at angle t to b."""
    x = radius * wp.vec2(wp.cos(t), wp.sin(t))
    dx = turned(x)
    da = x - a
    db = x - b
    la = wp.length(da)
    lb = wp.length(db)
    first = wp.dot(da, dx) / la + wp.dot(db, dx) / lb
    # d(da · dx) = dx · dx - da · x
    curve = radius * radius
    second = (curve - wp.dot(da, x)) / la - wp.dot(da, dx) * wp.dot(da, dx) / (la * la * la)
    second = second + (curve - wp.dot(db, x)) / lb - wp.dot(db, dx) * wp.dot(db, dx) / (lb * lb * lb)
    return wp.vec2(first, second)


@wp.func
def halved(span: wp.vec2, a: wp.vec2, b: wp.vec2, radius: float) -> wp.vec2:
    """The half of a span of angles in which the path through a point of the circle is shortest."""
    middle = 0.5 * (span[0] + span[1])
    half = wp.vec2(middle, span[1])
    if slope(middle, a, b, radius)[0] * (span[1] - span[0]) > 0.0:
        half = wp.vec2(span[0], middle)
    return half


@wp.func
def halved_often(span: wp.vec2, a: wp.vec2, b: wp.vec2, radius: float) -> wp.vec2:
    """Five bisections, written out because the backward pass does not know loop-carried values."""
    one = halved(span, a, b, radius)
    two = halved(one, a, b, radius)
    three = halved(two, a, b, radius)
    four = halved(three, a, b, radius)
    return halved(four, a, b, radius)


@wp.func
def through_inside(a: wp.vec2, b: wp.vec2, radius: float) -> Around:
    """The path that touches the circle from the inside."""
    path = Around()
    path.wraps = 1
    start = wp.atan2(a[1], a[0])
    span = wp.vec2(start, start + wp.atan2(cross(a, b), wp.dot(a, b)))
    span = halved_often(span, a, b, radius)
    span = halved_often(span, a, b, radius)
    span = halved_often(span, a, b, radius)
    t = 0.5 * (span[0] + span[1])
    # two steps of Newton's method, through which the derivative is that of the root
    s = slope(t, a, b, radius)
    t = t - s[0] / wp.max(s[1], PARALLEL)
    s = slope(t, a, b, radius)
    t = t - s[0] / wp.max(s[1], PARALLEL)
    path.first = radius * wp.vec2(wp.cos(t), wp.sin(t))
    path.last = path.first
    return path


@wp.func
def path_around(a: wp.vec2, b: wp.vec2, radius: float, sided: int, inside: bool, side: wp.vec2) -> Around:
    """The path from a to b around a circle, in its plane; `wraps` is 0 if it is straight."""
    path = Around()
    if wp.length(a) <= radius or wp.length(b) <= radius:
        return path
    along = b - a
    t = wp.clamp(-wp.dot(a, along) / wp.max(wp.dot(along, along), PARALLEL * PARALLEL), 0.0, 1.0)
    nearest = a + t * along
    clear = wp.length(nearest) >= radius
    if inside:
        if clear:
            path = through_inside(a, b, radius)
        return path
    if clear and (sided == 0 or wp.dot(nearest, side) >= 0.0):
        return path
    left = around_circle(a, b, radius, 1.0)
    right = around_circle(a, b, radius, -1.0)
    if sided == 0:
        if left.arc <= right.arc:
            path = left
        else:
            path = right
        return path
    if wp.min(wp.dot(side, left.first), wp.dot(side, left.last)) >= wp.min(
        wp.dot(side, right.first), wp.dot(side, right.last)
    ):
        path = left
    else:
        path = right
    if clear:
        behind = wp.min(wp.dot(side, path.first), wp.dot(side, path.last))
        far = behind < -BEHIND * radius * wp.length(side)
        if far or crossing(a, path.first, b, path.last):
            path.wraps = 0
    return path


@wp.struct
class Wrapping:
    """A path around a body, or past it."""

    first: wp.vec3  # [m] where it touches the body first; its middle if it is straight
    last: wp.vec3  # [m] where it leaves it; likewise
    arc: float  # [m] length between both


@wp.func
def wrap_around(
    start: wp.vec3,
    end: wp.vec3,
    centre: wp.vec3,
    axis: wp.vec3,
    radius: float,
    sided: int,
    side: wp.vec3,
) -> Wrapping:
    """The path from start to end.

    Args:
        start: Its start [m].
        end: Its end [m].
        centre: A point on the axis of the cylinder, or the centre of the sphere [m].
        axis: Along the axis of a cylinder; zero for a sphere.
        radius: Radius [m].
        sided: 1 if there is a side point.
        side: The side point [m].
    """
    a = start - centre
    b = end - centre
    s = side - centre
    normal = wp.vec3(0.0, 0.0, 0.0)
    climb = float(0.0)
    round = wp.length(axis) < PARALLEL
    if round:
        normal = wp.cross(a, b)
        if wp.length(normal) < PARALLEL * wp.length(a) * wp.length(b):
            # any plane will do; this one is not parallel to a
            other = wp.vec3(1.0, 0.0, 0.0)
            if wp.abs(a[0]) > 0.5 * wp.length(a):
                other = wp.vec3(0.0, 1.0, 0.0)
            normal = wp.cross(a, other)
        normal = wp.normalize(normal)
    else:
        normal = wp.normalize(axis)
        climb = wp.dot(b - a, normal)
    low = wp.dot(a, normal)
    e = a - low * normal
    if wp.length(e) < PARALLEL:
        # an end on the axis: nothing is wrapped in any frame
        e = wp.vec3(normal[1] - normal[2], normal[2] - normal[0], normal[0] - normal[1])
    e = wp.normalize(e)
    f = wp.cross(normal, e)
    flat_a = wp.vec2(wp.dot(a, e), wp.dot(a, f))
    flat_b = wp.vec2(wp.dot(b, e), wp.dot(b, f))
    flat_s = wp.vec2(wp.dot(s, e), wp.dot(s, f))
    inside = sided == 1 and wp.length(s) < radius
    path = path_around(flat_a, flat_b, radius, sided, inside, flat_s)
    found = Wrapping()
    if path.wraps == 0:
        found.first = 0.5 * (start + end)
        found.last = found.first
        return found
    to = wp.length(path.first - flat_a)
    away = wp.length(flat_b - path.last)
    total = to + path.arc + away
    rise = climb * to / total
    rest = climb * path.arc / total
    found.first = centre + path.first[0] * e + path.first[1] * f + (low + rise) * normal
    found.last = centre + path.last[0] * e + path.last[1] * f + (low + rise + rest) * normal
    if path.arc > 0.0:
        found.arc = wp.sqrt(path.arc * path.arc + rest * rest)
    return found

"""Intersection of rays with triangles, spheres and capsules between particles.

The boxes about the elements of a world form one group of a bounding volume hierarchy. Triangles are hit from
both sides (Moeller and Trumbore, "Fast, minimum storage ray-triangle intersection", 1997), spheres and
capsules in closed form (see `newtonsim.kernels.queries.ray_solids`). Normals of surfaces are area-weighted
means over the triangles around each particle (Gouraud, "Continuous shading of curved surfaces", 1971).

Stage: ray casting, before the rays, deformable elements
Called by: render/camera/elements.py, kernels/camera/pictures.py, kernels/camera/scene.py
Reads: around, flags, position, start, thickness
Writes: ElementView, lower, upper
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.queries.ray_solids import span_of_ball, span_of_capsule

# axes are unrolled, for vectors in registers
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# part of a triangle by which its edges are widened, so that rays do not pass between neighbours
WELD = wp.constant(2.0e-6)
ACTIVE = wp.constant(wp.uint32(1))


@wp.struct
class ElementView:
    """E elements between P particles."""

    bvh: wp.uint64  # over the boxes of the elements, a group for each world
    particle: wp.array(dtype=wp.vec3i)  # (E) corners; (a, b, -1) for capsules, (a, -1, -1) for spheres
    position: wp.array(dtype=wp.vec3)  # (P) [m]
    normal: wp.array(dtype=wp.vec3)  # (P) of surfaces, not normalised
    radius: wp.array(dtype=float)  # (E) [m] of spheres and capsules, 0 if not visible
    color: wp.array(dtype=wp.vec4)  # (E) RGBA, 0..1; alpha 0 is invisible
    label: wp.array(dtype=int)  # (E) what segmentation shows


@wp.func
def turn_to_y(axis: wp.vec3) -> wp.mat33:
    """A rotation that takes a unit vector to the y axis."""
    side = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(axis[0]) > 0.7:
        side = wp.vec3(0.0, 0.0, 1.0)
    x = wp.normalize(wp.cross(side, axis))
    return wp.matrix_from_rows(x, axis, wp.cross(x, axis))


@wp.func
def meet_triangle(a: wp.vec3, b: wp.vec3, c: wp.vec3, origin: wp.vec3, direction: wp.vec3):
    """Intersection of a ray with a triangle: t, infinite for a miss, and weights of the first two corners."""
    ab = b - a
    ac = c - a
    p = wp.cross(direction, ac)
    det = wp.dot(ab, p)
    if det == 0.0:
        return wp.inf, float(0.0), float(0.0)
    s = origin - a
    v = wp.dot(s, p) / det
    q = wp.cross(s, ab)
    w = wp.dot(direction, q) / det
    t = wp.dot(ac, q) / det
    if v >= -WELD and w >= -WELD and v + w <= 1.0 + WELD and t >= 0.0:
        return t, 1.0 - v - w, v
    return wp.inf, float(0.0), float(0.0)


@wp.func
def meet_element(
    view: wp.array(dtype=ElementView), e: int, origin: wp.vec3, direction: wp.vec3, reach: float
):
    """First point of an element on a ray, nearer than `reach`; t is infinite for a miss."""
    t = float(wp.inf)
    u = float(0.0)
    v = float(0.0)
    part = view[0].particle[e]
    a = view[0].position[part[0]]
    if part[2] >= 0:
        t, u, v = meet_triangle(a, view[0].position[part[1]], view[0].position[part[2]], origin, direction)
    elif view[0].radius[e] > 0.0:
        b = a
        if part[1] >= 0:
            b = view[0].position[part[1]]
        middle = 0.5 * (a + b)
        length = wp.length(b - a)
        # from the point nearest to the middle, where rounding is least
        shift = wp.dot(middle - origin, direction) / wp.dot(direction, direction)
        o = origin + shift * direction - middle
        if length > 0.0:
            turn = turn_to_y((b - a) / length)
            span = span_of_capsule(view[0].radius[e], 0.5 * length, turn * o, turn * direction)
            if span.enter <= span.exit and shift + span.enter >= 0.0:
                t = shift + span.enter
        else:
            ball = span_of_ball(view[0].radius[e], wp.vec3(), o, direction)
            if ball.enter <= ball.exit and shift + ball.enter >= 0.0:
                t = shift + ball.enter
    if t >= reach:
        t = wp.inf
    return t, u, v


@wp.func
def element_normals(view: wp.array(dtype=ElementView), e: int, u: float, v: float, point: wp.vec3):
    """Smooth normal and geometric normal at a point of an element; either may be zero."""
    part = view[0].particle[e]
    a = view[0].position[part[0]]
    if part[2] >= 0:
        flat = wp.cross(view[0].position[part[1]] - a, view[0].position[part[2]] - a)
        smooth = u * view[0].normal[part[0]] + v * view[0].normal[part[1]]
        return smooth + (1.0 - u - v) * view[0].normal[part[2]], wp.normalize(flat)
    axis = wp.vec3()
    if part[1] >= 0:
        axis = view[0].position[part[1]] - a
    along = wp.dot(point - a, axis) / wp.max(wp.dot(axis, axis), 1.0e-30)
    n = wp.normalize(point - a - wp.clamp(along, 0.0, 1.0) * axis)
    return n, n


@wp.func
def meet_elements(
    view: wp.array(dtype=ElementView),
    world: int,
    grouped: bool,
    origin: wp.vec3,
    direction: wp.vec3,
    reach: float,
):
    """Nearest visible element on a ray, as its number, t and weights; -1 and `reach` for none."""
    best_e = int(-1)
    best = float(reach)
    best_u = float(0.0)
    best_v = float(0.0)
    root = int(-1)
    if grouped:
        root = wp.bvh_get_group_root(view[0].bvh, world)
    query = wp.bvh_query_ray(view[0].bvh, origin, direction, root)
    e = int(0)
    while wp.bvh_query_next(query, e, best):
        if view[0].color[e][3] > 0.0:
            t, u, v = meet_element(view, e, origin, direction, best)
            if t < best:
                best = t
                best_e = e
                best_u = u
                best_v = v
    return best_e, best, best_u, best_v


@wp.func
def meets_elements(
    view: wp.array(dtype=ElementView),
    world: int,
    grouped: bool,
    origin: wp.vec3,
    direction: wp.vec3,
    reach: float,
) -> bool:
    """Whether a ray meets any visible element nearer than `reach`."""
    root = int(-1)
    if grouped:
        root = wp.bvh_get_group_root(view[0].bvh, world)
    query = wp.bvh_query_ray(view[0].bvh, origin, direction, root)
    e = int(0)
    while wp.bvh_query_next(query, e, reach):
        if view[0].color[e][3] > 0.0:
            t, _u, _v = meet_element(view, e, origin, direction, reach)
            if t < reach:
                return True
    return False


@wp.kernel
def take_positions(position: wp.array(dtype=wp.vec3), view: wp.array(dtype=ElementView)):
    """One thread per particle: its position [m]."""
    p = wp.tid()
    view[0].position[p] = position[p]


@wp.kernel
def enclose_elements(
    view: wp.array(dtype=ElementView),
    thickness: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per element: its box, and its visible radius [m]."""
    e = wp.tid()
    part = view[0].particle[e]
    a = view[0].position[part[0]]
    low = a
    high = a
    for k in range(1, 3):
        if part[k] >= 0:
            p = view[0].position[part[k]]
            low = wp.min(low, p)
            high = wp.max(high, p)
    r = thickness[e]
    if part[1] < 0 and (flags[part[0]] & ACTIVE) == wp.uint32(0):
        r = 0.0
    if not wp.isfinite(wp.length_sq(low + high)):
        # no ray hits such an element, and it must not spoil the hierarchy
        low = wp.vec3()
        high = wp.vec3()
        r = 0.0
    view[0].radius[e] = r
    # room for rounding, so that rays hit flat boxes
    room = wp.vec3(r, r, r) + 1.0e-6 * (high - low + wp.max(wp.abs(low), wp.abs(high)))
    lower[e] = low - room
    upper[e] = high + room


@wp.kernel
def smooth_elements(
    view: wp.array(dtype=ElementView), start: wp.array(dtype=int), around: wp.array(dtype=int)
):
    """One thread per particle: the sum of the normals of the triangles around it, weighted by area."""
    p = wp.tid()
    n = wp.vec3()
    for k in range(start[p], start[p + 1]):
        part = view[0].particle[around[k]]
        a = view[0].position[part[0]]
        n += wp.cross(view[0].position[part[1]] - a, view[0].position[part[2]] - a)
    view[0].normal[p] = n

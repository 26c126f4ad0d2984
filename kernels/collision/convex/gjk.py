"""Closest points of two convex shapes, separated or overlapping.

The distance between the cores is found with the algorithm of E. G. Gilbert, D. W. Johnson, S. S. Keerthi ("A
fast procedure for computing the distance between complex objects in three-dimensional space", IEEE Journal of
Robotics and Automation 4(2), 1988), with the bounds of G. van den Bergen ("A Fast and Robust GJK
Implementation for Collision Detection of Convex Objects", Journal of Graphics Tools 4(2), 1999): the point of
the simplex nearest to the origin bounds the distance from above, and the supporting plane perpendicular to it
from below. The depth of overlapping cores is found by kernels/collision/convex/epa.py.

Stage: narrow phase, distance of convex shapes
Called by: kernels/collision/families/convex.py, kernels/collision/families/mesh.py,
    kernels/collision/families/mesh_mesh.py, kernels/collision/surfaces/surfaces.py
Reads: HullView, w
Writes: a, w, weight
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import (
    Closest,
    Convex,
    centre_of,
    extent_of,
    flat_normal,
    rounding,
)
from newtonsim.kernels.collision.convex.epa import Depth, penetration_depth
from newtonsim.kernels.collision.convex.minkowski import (
    Difference,
    farthest_vertex,
    reduce_simplex,
    weighted_point,
)
from newtonsim.kernels.views.shapes import GEO_BOX, HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

CORES_FAR = wp.constant(0)
CORES_APART = wp.constant(1)
CORES_OVERLAP = wp.constant(2)

GJK_ITERATIONS = wp.constant(64)
# steps without progress, due to rounding, after which to stop
GJK_STALLS = wp.constant(4)
# gap between the bounds of the distance at which to stop, over the size of the difference
GJK_TOLERANCE = wp.constant(3.0e-7)
# squared angle [rad^2] between directions that need not be told apart
SAME_DIRECTION = wp.constant(1.0e-11)
# steps that improve an incomplete depth, and the distance that they create, over the depth
REFINEMENTS = wp.constant(10)
REFINE_MARGIN = wp.constant(0.2)
# cosine to the normal above which the normal of a face is tried
FACE_ANGLE = wp.constant(0.999)
# distance below which cores count as overlapping, over the size of the difference: the noise of 32-bit floats
TOUCHING = wp.constant(4.0e-7)


@wp.func
def simplex_normal(w: wp.array(dtype=wp.vec3), count: int, nearest: wp.vec3) -> wp.vec3:
    """Unit vector from the origin to the simplex; its edges define it even if the simplex is very near."""
    n = wp.normalize(nearest)
    if count == 2:
        e = w[1] - w[0]
        n = wp.normalize(n - e * (wp.dot(n, e) / wp.dot(e, e)))
    elif count == 3:
        n = wp.normalize(wp.cross(w[1] - w[0], w[2] - w[0]))
        if wp.dot(n, w[0]) < 0.0:
            n = -n
    return n


@wp.func
def first_direction(m: Difference, between: wp.vec3) -> wp.vec3:
    """A guess of the direction from B to A: between centres, or from B's centre to the nearest of a box."""
    d = between
    if m.a.kind == GEO_BOX:
        centre = m.offset
        inside = wp.vec3(
            wp.clamp(centre[0], -m.a.size[0], m.a.size[0]),
            wp.clamp(centre[1], -m.a.size[1], m.a.size[1]),
            wp.clamp(centre[2], -m.a.size[2], m.a.size[2]),
        )
        if wp.length_sq(inside - centre) > 0.0:
            d = inside - centre
    if wp.length_sq(d) == 0.0:
        d = wp.vec3(0.0, 1.0, 0.0)
    return d


@wp.struct
class Cores:
    """The distance between two cores, in the frame of A."""

    state: int  # CORES_*
    count: int  # vertices of the last simplex
    size: float  # [m] greatest distance of a vertex of the difference from the origin
    gap: float  # [m] along the normal
    normal: wp.vec3  # unit, from B to A
    point_a: wp.vec3  # [m]
    point_b: wp.vec3


@wp.func(inline=False)
def core_distance(
    m: Difference,
    hulls: HullView,
    first: wp.vec3,
    reach: float,
    w: wp.array(dtype=wp.vec3),
    a: wp.array(dtype=wp.vec3),
    weight: wp.array(dtype=float),
) -> Cores:
    """Distance between cores, unless they overlap.

    Args:
        m: The difference.
        hulls: Vertices of hulls.
        first: A guess of the normal, unit.
        reach: Greatest distance [m] of interest.
        w: Receives the vertices of the last simplex (4).
        a: Receives their points of A (4).
        weight: Room for their weights (4).
    """
    cores = Cores()
    n = first
    best_n = first
    nearest = wp.vec3(0.0, 0.0, 0.0)
    upper = float(wp.inf)
    lower = float(-wp.inf)
    size = float(0.0)
    count = int(0)
    stalled = int(0)
    hull_a = int(0)
    hull_b = int(0)
    iteration = int(0)
    while iteration < GJK_ITERATIONS:
        iteration += 1
        v = farthest_vertex(m, hulls, -n, hull_a, hull_b)
        hull_a = v.hull_a
        hull_b = v.hull_b
        size = wp.max(size, wp.length(v.w))
        gap = wp.dot(n, v.w)
        if gap > lower:
            lower = gap
            best_n = n
        if lower > reach:
            return cores
        seen = upper - lower <= GJK_TOLERANCE * size
        for i in range(count):
            if w[i] == v.w:
                seen = True
        if seen:
            iteration = GJK_ITERATIONS
        else:
            w[count] = v.w
            a[count] = v.a
            count = reduce_simplex(w, a, weight, count + 1)
            nearest = weighted_point(w, weight, count)
            distance = wp.length(nearest)
            if count == 4 or distance <= TOUCHING * size:
                cores.state = CORES_OVERLAP
                cores.count = count
                cores.size = size
                return cores
            if distance >= upper:
                stalled += 1
            upper = wp.min(upper, distance)
            n = simplex_normal(w, count, nearest)
            if stalled == GJK_STALLS:
                iteration = GJK_ITERATIONS

    # among directions as good as the best, the one from point to point
    n = simplex_normal(w, count, nearest)
    if wp.length_sq(n - best_n) > SAME_DIRECTION:
        v = farthest_vertex(m, hulls, -n, hull_a, hull_b)
        gap = wp.dot(n, v.w)
        if gap >= lower - GJK_TOLERANCE * size:
            lower = gap
            best_n = n
    cores.state = CORES_APART
    cores.count = count
    cores.size = size
    cores.gap = lower
    cores.normal = best_n
    cores.point_a = weighted_point(a, weight, count)
    cores.point_b = cores.point_a - nearest
    return cores


@wp.func(inline=False)
def refine_depth(
    m: Difference,
    hulls: HullView,
    depth: Depth,
    size: float,
    w: wp.array(dtype=wp.vec3),
    a: wp.array(dtype=wp.vec3),
    weight: wp.array(dtype=float),
) -> Depth:
    """Improve a depth whose polytope was full: separate the cores along the normal, and recompute the normal.

    The gap cannot become worse. With a shift of s the distance is the greatest of gap(n) + s n.n0 over all n,
    at least gap(n0) + s, so that gap(n) >= gap(n0) + s (1 - n.n0).
    """
    best = depth
    step = int(0)
    while step < REFINEMENTS:
        step += 1
        shift = -(1.0 + REFINE_MARGIN) * best.gap
        apart = m
        apart.offset = m.offset - shift * best.normal
        cores = core_distance(apart, hulls, best.normal, wp.inf, w, a, weight)
        gain = float(0.0)
        if cores.state == CORES_APART:
            gain = cores.gap - shift * wp.dot(cores.normal, best.normal) - best.gap
        if gain > 0.0:
            best.gap += gain
            best.point_a = cores.point_a
            best.point_b = cores.point_b + shift * best.normal
            best.normal = cores.normal
        if gain <= GJK_TOLERANCE * size:
            step = REFINEMENTS
    return best


@wp.func
def face_gap(m: Difference, hulls: HullView, n: wp.vec3, face: wp.vec3) -> float:
    """Gap [m] along the normal of a face if it is nearly n, else minus infinity."""
    if wp.dot(n, face) < FACE_ANGLE:
        return -wp.inf
    v = farthest_vertex(m, hulls, -face, 0, 0)
    return wp.dot(face, v.w)


@wp.func
def closest_in_frame(m: Difference, hulls: HullView, reach: float) -> Closest:
    """Closest points of the cores with the radii on top, in the frame of A."""
    closest = Closest()
    radius_a = rounding(m.a)
    radius_b = rounding(m.b)
    between = centre_of(m.a, hulls) - (m.rotation * centre_of(m.b, hulls) + m.offset)
    w = wp.zeros(shape=4, dtype=wp.vec3)
    a = wp.zeros(shape=4, dtype=wp.vec3)
    weight = wp.zeros(shape=4, dtype=float)
    first = wp.normalize(first_direction(m, between))
    cores = core_distance(m, hulls, first, reach + radius_a + radius_b, w, a, weight)
    if cores.state == CORES_FAR:
        return closest
    gap = cores.gap
    n = cores.normal
    middle = 0.5 * (cores.point_a + cores.point_b)
    if cores.state == CORES_OVERLAP:
        depth = penetration_depth(m, hulls, w, a, cores.count, between, cores.size)
        if depth.complete == 0:
            depth = refine_depth(m, hulls, depth, cores.size, w, a, weight)
        gap = depth.gap
        n = depth.normal
        middle = 0.5 * (depth.point_a + depth.point_b)
    # normals of faces are exact where they are as good
    face = -flat_normal(m.a, -n)
    face_gap_a = face_gap(m, hulls, n, face)
    if face_gap_a >= gap - GJK_TOLERANCE * cores.size:
        gap = face_gap_a
        n = face
    else:
        face = m.rotation * flat_normal(m.b, wp.transpose(m.rotation) * n)
        face_gap_b = face_gap(m, hulls, n, face)
        if face_gap_b >= gap - GJK_TOLERANCE * cores.size:
            gap = face_gap_b
            n = face
    closest.found = 1
    closest.normal = n
    closest.distance = gap - radius_a - radius_b
    closest.point_a = middle + (0.5 * gap - radius_a) * n
    closest.point_b = middle - (0.5 * gap - radius_b) * n
    return closest


@wp.func
def closest_points(
    a: Convex, X_a: wp.transform, b: Convex, X_b: wp.transform, hulls: HullView, reach: float
) -> Closest:
    """Signed distance, normal and closest points of two convex shapes.

    The work is done in the frame of the larger shape, where its large coordinates are exact.

    Args:
        a: Shape A.
        X_a: Its pose in the world.
        b: Shape B.
        X_b: Its pose in the world.
        hulls: Vertices of hulls.
        reach: Nothing is found if the shapes are farther apart than this [m].
    """
    swapped = extent_of(b, hulls) > extent_of(a, hulls)
    m = Difference()
    X = X_a
    X_other = X_b
    m.a = a
    m.b = b
    if swapped:
        X = X_b
        X_other = X_a
        m.a = b
        m.b = a
    inverse = wp.quat_inverse(wp.transform_get_rotation(X))
    # positions are subtracted before rotation: far from the origin, rounding would otherwise dominate
    m.offset = wp.quat_rotate(
        inverse, wp.transform_get_translation(X_other) - wp.transform_get_translation(X)
    )
    m.rotation = wp.quat_to_matrix(inverse * wp.transform_get_rotation(X_other))
    found = closest_in_frame(m, hulls, reach)
    closest = Closest()
    if found.found == 0:
        return closest
    closest.found = 1
    closest.distance = found.distance
    normal = wp.transform_vector(X, found.normal)
    point_a = wp.transform_point(X, found.point_a)
    point_b = wp.transform_point(X, found.point_b)
    if swapped:
        closest.normal = -normal
        closest.point_a = point_b
        closest.point_b = point_a
    else:
        closest.normal = normal
        closest.point_a = point_a
        closest.point_b = point_b
    return closest

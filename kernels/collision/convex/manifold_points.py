"""Reduction of the contact between two convex shapes to a few points, given closest points and a normal.

Of many points, the first is kept, the one farthest from it, and those that span the largest triangles with
these two on either side (D. Gregorius, "Robust Contact Creation for Physics Simulations", Game Developers
Conference, 2015). The deepest point replaces one of these at the end. If values are nearly equal, the first
point wins, so that the choice persists from step to step, whichever corner is the deepest.

Stage: narrow phase, contact points of convex shapes
Called by: kernels/collision/families/box.py, kernels/collision/families/convex.py,
    kernels/collision/families/mesh.py, kernels/collision/families/mesh_mesh.py,
    kernels/collision/families/sdf.py
Reads: HullView, x
Writes: ManifoldView, code, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.clip import CLIP_ROOM, CODE_CLOSEST, cross2, flat, overlap
from newtonsim.kernels.collision.convex.convex import Closest, Convex, extent_of
from newtonsim.kernels.collision.convex.facets import (
    FACET_SIZE,
    ContactFrame,
    Facet,
    contact_frame,
    support_facet,
)
from newtonsim.kernels.collision.pairs.manifolds import MANIFOLD_SIZE, ManifoldView, put_point
from newtonsim.kernels.views.shapes import HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# lengths over the size of the smaller shape: noise of a gap, depth by which a point must exceed the most
# spread points to be chosen, largest distance of corners outside a face, and distance below which points
# coincide
GAP_NOISE = wp.constant(2.0e-5)
DEEPER = wp.constant(5.0e-5)
OUTSIDE = wp.constant(1.0e-4)
SAME_PLACE = wp.constant(1.0e-3)
# margin by which a point must be farther, or a triangle larger, than a previous one to be chosen
FARTHER = wp.constant(1.01)
# distance, over the size, that counts as much as a right angle between the normals of two points
TURN_LENGTH = wp.constant(0.5)


@wp.struct
class Overlap:
    """Overlap of the support facets of two shapes; its corners are in separate arrays."""

    frame: ContactFrame
    a: Facet  # of shape A
    count: int
    size: float  # [m] of the smaller shape


@wp.func
def smaller_size(a: Convex, b: Convex, hulls: HullView) -> float:
    """Rough length [m] of the smaller of two shapes; spheres, which have no facets, do not count."""
    size_a = extent_of(a, hulls)
    size_b = extent_of(b, hulls)
    if size_a <= 0.0:
        return size_b
    if size_b <= 0.0:
        return size_a
    return wp.min(size_a, size_b)


@wp.func
def facing(
    a: Convex,
    X_a: wp.transform,
    b: Convex,
    X_b: wp.transform,
    hulls: HullView,
    closest: Closest,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
) -> Overlap:
    """Corners of the area over which two shapes face each other along the normal of their closest points.

    The corners are places in the tangent plane and gaps; x and code have room for CLIP_ROOM.
    """
    found = Overlap()
    found.frame = contact_frame(0.5 * (closest.point_a + closest.point_b), closest.normal)
    found.size = smaller_size(a, b, hulls)
    corner_a = wp.zeros(shape=FACET_SIZE, dtype=wp.vec3)
    corner_b = wp.zeros(shape=FACET_SIZE, dtype=wp.vec3)
    label_a = wp.zeros(shape=FACET_SIZE, dtype=int)
    label_b = wp.zeros(shape=FACET_SIZE, dtype=int)
    found.a = support_facet(a, X_a, hulls, found.frame, -1.0, corner_a, label_a)
    if found.a.count > 1:
        facet_b = support_facet(b, X_b, hulls, found.frame, 1.0, corner_b, label_b)
        tolerance = OUTSIDE * found.size
        found.count = overlap(found.a, corner_a, label_a, facet_b, corner_b, label_b, tolerance, x, code)
    return found


@wp.func
def smallest_gap(found: Overlap, x: wp.array(dtype=wp.vec3)) -> float:
    """Smallest gap [m] among the corners of an overlap; infinite if there are none."""
    gap = float(wp.inf)
    for k in range(found.count):
        gap = wp.min(gap, x[k][2])
    return gap


@wp.func
def hashed(base: int, code: int) -> int:
    """Number of a feature that differs for different bases and codes, and is not negative."""
    return int((wp.uint32(base) * wp.uint32(-1640531535) + wp.uint32(code)) & wp.uint32(0x7FFFFFFF))


@wp.func
def within_reach(
    count: int, least: float, reach: float, x: wp.array(dtype=wp.vec3), code: wp.array(dtype=int)
) -> int:
    """Move the points with gaps up to `reach` to the front of both arrays; returns their number.

    No gap is smaller than `least`, that of the closest points.
    """
    kept = int(0)
    for k in range(count):
        if x[k][2] <= reach:
            x[kept] = wp.vec3(x[k][0], x[k][1], wp.max(x[k][2], least))
            code[kept] = code[k]
            kept += 1
    return kept


@wp.func
def spread_four(count: int, x: wp.array(dtype=wp.vec3)) -> wp.vec4i:
    """The four most spread points: the first, the one farthest from it, and one on either side or -1."""
    p = flat(x[0])
    second = int(0)
    farthest = float(0.0)
    for k in range(1, count):
        distance_sq = wp.length_sq(flat(x[k]) - p)
        if distance_sq > FARTHER * farthest:
            farthest = distance_sq
            second = k
    chosen = wp.vec4i(0, second, -1, -1)
    u = flat(x[second]) - p
    left = float(0.0)
    right = float(0.0)
    for k in range(1, count):
        area = cross2(u, flat(x[k]) - p)
        if area > FARTHER * left:
            left = area
            chosen[2] = k
        if -area > FARTHER * right:
            right = -area
            chosen[3] = k
    return chosen


@wp.func(inline=False)
def choose_four(count: int, noise: float, x: wp.array(dtype=wp.vec3)) -> wp.vec4i:
    """The four most spread of more points, including the deepest; -1 for one that is not needed."""
    chosen = spread_four(count, x)
    deepest = int(0)
    for k in range(1, count):
        if x[k][2] < x[deepest][2] - noise:
            deepest = k
    nearest = float(wp.inf)
    goes = int(0)
    for i in range(4):
        k = chosen[i]
        distance_sq = float(0.0)
        if k >= 0:
            if x[k][2] <= x[deepest][2] + noise:
                return chosen
            distance_sq = wp.length_sq(flat(x[k]) - flat(x[deepest]))
        if distance_sq < nearest:
            nearest = distance_sq
            goes = i
    chosen[goes] = deepest
    return chosen


@wp.func
def separation(p: wp.vec3, n: wp.vec3, q: wp.vec3, m: wp.vec3, size: float) -> float:
    """Squared distance [m^2] of two contact points, different normals counted as a distance as well."""
    turn = TURN_LENGTH * size
    return wp.length_sq(p - q) + turn * turn * wp.length_sq(n - m)


@wp.func
def offer_point(
    manifolds: ManifoldView,
    pair: int,
    p: wp.vec3,
    n: wp.vec3,
    distance: float,
    feature: int,
    size: float,
):
    """Add a contact point to a manifold that may be full.

    A point that coincides with another, with the same normal, is merged with it: the deeper of the two
    remains. Of nine points, the shallower of the two nearest to each other is removed.

    Args:
        manifolds: Contact points of all pairs.
        pair: Place of the pair.
        p: The point on shape 0 [m], world.
        n: Normal, world.
        distance: Gap [m].
        feature: Number of the feature.
        size: Rough length of the smaller shape [m], against which distances between points are judged.
    """
    count = manifolds.count[pair]
    limit = SAME_PLACE * size * SAME_PLACE * size
    for k in range(count):
        if separation(p, n, manifolds.point[pair, k], manifolds.normal[pair, k], size) <= limit:
            if distance < manifolds.distance[pair, k]:
                set_point(manifolds, pair, k, p, n, distance, feature)
            return
    if count < MANIFOLD_SIZE:
        put_point(manifolds, pair, p, n, distance, feature)
        return
    nearest = float(wp.inf)
    # the place of the new point; MANIFOLD_SIZE if the new point is removed
    goes = int(MANIFOLD_SIZE)
    for i in range(MANIFOLD_SIZE):
        q = manifolds.point[pair, i]
        m = manifolds.normal[pair, i]
        apart = separation(p, n, q, m, size)
        if apart < nearest:
            nearest = apart
            goes = MANIFOLD_SIZE
            if distance < manifolds.distance[pair, i]:
                goes = i
        for k in range(i):
            apart = separation(manifolds.point[pair, k], manifolds.normal[pair, k], q, m, size)
            if apart < nearest:
                nearest = apart
                goes = i
                if manifolds.distance[pair, k] > manifolds.distance[pair, i]:
                    goes = k
    if goes < MANIFOLD_SIZE:
        set_point(manifolds, pair, goes, p, n, distance, feature)


@wp.func
def set_point(
    manifolds: ManifoldView, pair: int, k: int, p: wp.vec3, n: wp.vec3, distance: float, feature: int
):
    """Replace contact point k of a manifold."""
    manifolds.point[pair, k] = p
    manifolds.normal[pair, k] = n
    manifolds.distance[pair, k] = distance
    manifolds.feature[pair, k] = feature


@wp.func
def write_overlap(
    found: Overlap,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
    closest: Closest,
    reach: float,
    feature_base: int,
    manifolds: ManifoldView,
    pair: int,
):
    """Write at most four points of an overlap, the closest points among them if they are deeper than it."""
    count = within_reach(found.count, closest.distance, reach, x, code)
    least = float(wp.inf)
    for k in range(count):
        least = wp.min(least, x[k][2])
    if closest.distance < least - GAP_NOISE * found.size and closest.distance <= reach:
        # the closest points lie above the origin of the contact frame
        x[count] = wp.vec3(0.0, 0.0, closest.distance)
        code[count] = CODE_CLOSEST
        count += 1
    chosen = wp.vec4i(0, 1, 2, 3)
    if count > 4:
        chosen = choose_four(count, DEEPER * found.size, x)
    for i in range(4):
        k = chosen[i]
        if k >= 0 and k < count:
            p = closest.point_a
            if code[k] != CODE_CLOSEST:
                height = found.a.height + wp.dot(found.a.slope, flat(x[k]))
                p = found.frame.origin + wp.transpose(found.frame.axes) * wp.vec3(x[k][0], x[k][1], height)
            feature = hashed(feature_base, code[k])
            offer_point(manifolds, pair, p, closest.normal, x[k][2], feature, found.size)


@wp.func(inline=False)
def write_manifold(
    a: Convex,
    X_a: wp.transform,
    b: Convex,
    X_b: wp.transform,
    hulls: HullView,
    closest: Closest,
    reach: float,
    feature_base: int,
    manifolds: ManifoldView,
    pair: int,
):
    """Write the contact of two convex shapes: at most four points, all with the normal of the closest points.

    The points lie on the facets of both shapes that face each other along the normal, at the corners of their
    overlap. The depth of the closest points is always included. Since points are offered, the function may be
    called for many triangles of a surface, one after the other, with the same pair.

    Args:
        a: Shape A, which is shape 0 of the pair.
        X_a: Its pose in the world.
        b: Shape B, which is shape 1 of the pair; a triangle may be touched from both sides.
        X_b: Its pose in the world.
        hulls: Vertices and faces of hulls.
        closest: Closest points, as `closest_points` finds them; they must have been found.
        reach: Points with a gap up to this are written [m].
        feature_base: Number that tells different parts of a pair apart, such as the triangles of a surface.
        manifolds: Contact points of all pairs.
        pair: Place of the pair.
    """
    x = wp.zeros(shape=CLIP_ROOM, dtype=wp.vec3)
    code = wp.zeros(shape=CLIP_ROOM, dtype=int)
    found = facing(a, X_a, b, X_b, hulls, closest, x, code)
    write_overlap(found, x, code, closest, reach, feature_base, manifolds, pair)

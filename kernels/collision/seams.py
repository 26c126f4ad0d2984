"""Contacts at the seams of floors that several shapes make up.

A body that slides from one tile of a floor to the next meets the side or an edge of the next one, if it lies
in the floor by the slightest penetration or will have crossed the edge at the end of the step. For the pair
alone this is the right contact, but not for the floor: the plane in which the body touches one tile parts it
from the next tile as well, whose surface is level with it. Convex shapes that a plane parts do not touch (the
separating axis theorem), and need no contact in another direction. The triangles of one mesh know this from
the angles between neighbours, see kernels/collision/surfaces/triangle_surface.py; shapes are compared with
what else the body touches. A point is left out if, for another contact of the same body,

- both contacts are with shapes of the world, which do not give way,
- the point's other shape lies behind the plane of that contact, and the body's shape before it,
- the converse does not hold, as it does on the two sides of a ridge, where either contact may be needed,
- the point does not pass the plane within the step, as where a body tips over an edge,
- that contact is not left out itself.

Stage: narrow phase, seams between shapes
Called by: newtonsim/collision/collide.py
Reads: HullView, ManifoldView, PairView, SeamView, ShapeView, body_com, body_q, body_qd, shape_X, shape_body
Writes: SeamView, hidden
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import convex_shape, rounding, support
from newtonsim.kernels.collision.pairs.manifolds import (
    FAMILY_BOX,
    FAMILY_CONVEX,
    FAMILY_PLANE,
    FAMILY_ROUND,
    ManifoldView,
    PairView,
)
from newtonsim.kernels.views.shapes import GEO_BOX, KIND_HULL, HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# height by which a shape may stand out of the plane of another contact and still be level with it [m], about
# what bodies under different loads sink into what bears them; and the same over the smaller shape's radius
LEVEL = wp.constant(2.0e-4)
LEVEL_SHARE = wp.constant(0.01)
# length, over that radius, by which the touching point of a surface must lie before a plane; it is all that
# is known of a surface that is not convex
BEFORE = wp.constant(1.0e-3)
# width [m] from which an area of contact is no strip along an edge
BROAD = wp.constant(5.0e-3)
# slope of the gap between faces that count as parallel
PARALLEL = wp.constant(0.06)
# depth [m] in a body or the world beyond which this bears nothing reliably, as after an impact
DEEP = wp.constant(1.0e-3)
# cosine of the angle between normals up to which they count as one; and of that for two polyhedra, which may
# stand on several others at once that are tilted against each other
ALIGNED = wp.constant(0.99995)
ALIGNED_FACES = wp.constant(0.995)


@wp.struct
class SeamView:
    """Lists of the pairs in which each body touches a shape of a world with tiles.

    Entry 2 p + i is shape i of pair p.
    """

    tiled: wp.array(dtype=int)  # (S) 1 for shapes that are fixed to a world with tiles
    head: wp.array(dtype=int)  # (B) first entry of each body, or -1
    next: wp.array(dtype=int)  # (2 P) next entry of the same body, or -1
    # (2 P) normal, and distance [m] from the world's origin, of the plane in which the pair's deepest point
    # touches the entry's shape; zero if the pair's normals differ
    plane: wp.array(dtype=wp.vec4)


@wp.struct
class Scene:
    """All that touches at the start of a step, and how it moves."""

    pairs: PairView
    manifolds: ManifoldView
    seams: SeamView
    shape: ShapeView
    hulls: HullView
    shape_X: wp.array(dtype=wp.transform)
    body_q: wp.array(dtype=wp.transform)
    body_qd: wp.array(dtype=wp.spatial_vector)
    body_com: wp.array(dtype=wp.vec3)
    dt: float  # [s]


@wp.struct
class Touch:
    """A contact point as seen from one of its shapes, which lies before its plane; the other lies behind."""

    normal: wp.vec3  # world, unit, towards the shape
    before: wp.vec3  # [m] world, point of the shape
    behind: wp.vec3  # [m] world, point of the other one
    gap: float  # [m]


@wp.func
def shape_of(pairs: PairView, entry: int) -> int:
    """The shape of an entry; that of `entry ^ 1` is the other one of the pair."""
    s = pairs.shape0[entry >> 1]
    if entry & 1 == 1:
        s = pairs.shape1[entry >> 1]
    return s


@wp.func
def touch_of(manifolds: ManifoldView, entry: int, k: int) -> Touch:
    """Point k of the pair of an entry, as seen from the entry's shape."""
    p = entry >> 1
    on_first = manifolds.point[p, k]
    t = Touch()
    t.normal = manifolds.normal[p, k]
    t.gap = manifolds.distance[p, k]
    t.before = on_first
    t.behind = on_first - t.gap * t.normal
    if entry & 1 == 1:
        t.before = t.behind
        t.behind = on_first
        t.normal = -t.normal
    return t


@wp.func
def is_convex(family: int) -> bool:
    """Whether both shapes of the pairs of a family are convex and bounded."""
    return family == FAMILY_ROUND or family == FAMILY_BOX or family == FAMILY_CONVEX


@wp.func
def height(s: int, n: wp.vec3, origin: wp.vec3, scene: wp.ref[Scene]) -> float:
    """Height [m] along n of the highest point of a convex shape over a plane through `origin`."""
    c = convex_shape(scene.shape, s)
    X = scene.shape_X[s]
    local = wp.quat_rotate_inv(wp.transform_get_rotation(X), n)
    above = wp.dot(n, wp.transform_get_translation(X) - origin)
    return above + wp.dot(local, support(c, scene.hulls, local)) + rounding(c)


@wp.func
def parts(t: Touch, before: int, behind: int, level: float, scene: wp.ref[Scene]) -> bool:
    """Whether the plane of a contact parts two convex shapes, but for the contact's own penetration."""
    if height(behind, t.normal, t.behind, scene) > level:
        return False
    return height(before, -t.normal, t.behind, scene) <= wp.max(-t.gap, 0.0) + level


@wp.func
def level_of(entry: int, scene: wp.ref[Scene]) -> float:
    """Height [m] that counts as none for the shapes of a pair."""
    a = scene.shape.radius[shape_of(scene.pairs, entry)]
    b = scene.shape.radius[shape_of(scene.pairs, entry ^ 1)]
    return wp.min(LEVEL, LEVEL_SHARE * wp.min(a, b))


@wp.func
def is_polyhedron(kind: int) -> bool:
    """Whether shapes of a kind have flat faces alone."""
    return kind == GEO_BOX or kind == KIND_HULL


@wp.func
def aligned_cosine(entry: int, scene: wp.ref[Scene]) -> float:
    """Cosine of the angle up to which another normal counts as that of a pair."""
    a = scene.shape.kind[shape_of(scene.pairs, entry)]
    b = scene.shape.kind[shape_of(scene.pairs, entry ^ 1)]
    if is_polyhedron(a) and is_polyhedron(b):
        return ALIGNED_FACES
    return ALIGNED


@wp.func
def moved(s: int, p: wp.vec3, scene: wp.ref[Scene]) -> wp.vec3:
    """Where a point p [m] of a shape is at the end of the step, if the body turns on about its centre."""
    b = scene.shape.body[s]
    if b < 0:
        return p
    com = wp.transform_point(scene.body_q[b], scene.body_com[b])
    turn = scene.dt * wp.spatial_top(scene.body_qd[b])
    arm = p - com
    angle = wp.length(turn)
    if angle > 0.0:
        arm = wp.quat_rotate(wp.quat_from_axis_angle(turn / angle, angle), arm)
    return com + scene.dt * wp.spatial_bottom(scene.body_qd[b]) + arm


@wp.func
def rise(n: wp.vec3, t: Touch, entry: int, scene: wp.ref[Scene]) -> float:
    """Height [m] along n of the front point of a touch over the back one, at the end of the step."""
    front = moved(shape_of(scene.pairs, entry), t.before, scene)
    return wp.dot(n, front - moved(shape_of(scene.pairs, entry ^ 1), t.behind, scene))


@wp.func
def is_ridge(a: Touch, entry: int, by: int, b: Touch, level: float, scene: wp.ref[Scene]) -> bool:
    """Whether what bears the body in contact b of entry `by` lies behind the plane of point a, too."""
    family = scene.pairs.family[by >> 1]
    if is_convex(family):
        return parts(a, shape_of(scene.pairs, by), shape_of(scene.pairs, by ^ 1), level, scene)
    if family == FAMILY_PLANE:
        return False
    radius = scene.shape.radius[shape_of(scene.pairs, entry)]
    return wp.dot(a.normal, b.behind - a.behind) <= BEFORE * radius


@wp.func(inline=False)
def points_beyond(entry: int, by: int, b: Touch, scene: wp.ref[Scene]) -> int:
    """Bits of the points of an entry that contact b of entry `by` rules out; both are of one body.

    If the body would sink in deeper within the step, the world holds it up.
    """
    if b.gap < -DEEP or scene.seams.tiled[shape_of(scene.pairs, entry ^ 1)] == 0:
        return 0
    level = level_of(entry, scene)
    own = shape_of(scene.pairs, entry)
    if not parts(b, own, shape_of(scene.pairs, entry ^ 1), level, scene):
        return 0
    aligned = aligned_cosine(entry, scene)
    depth = wp.min(b.gap, 0.0)
    lifted = wp.max(depth - rise(b.normal, b, by, scene), 0.0)
    bits = int(0)
    for k in range(scene.manifolds.count[entry >> 1]):
        a = touch_of(scene.manifolds, entry, k)
        if (
            wp.dot(a.normal, b.normal) <= aligned
            and rise(b.normal, a, entry, scene) + lifted >= depth - level
        ):
            if not is_ridge(a, entry, by, b, level, scene):
                bits = bits | (1 << k)
    return bits


@wp.func
def may_rule_out(entry: int, by: int, j: int, manifolds: wp.ref[ManifoldView]) -> bool:
    """Whether point j of entry `by` may rule out points of an entry, which takes a short look.

    They have another normal, and do not stand out of its plane.
    """
    b = touch_of(manifolds, by, j)
    for k in range(manifolds.count[entry >> 1]):
        a = touch_of(manifolds, entry, k)
        if wp.dot(b.normal, a.behind - b.behind) <= LEVEL and wp.dot(a.normal, b.normal) <= ALIGNED:
            return True
    return False


@wp.func
def first_entry(entry: int, pairs: PairView, shape_body: wp.array(dtype=int), seams: SeamView) -> int:
    """First entry of the body of an entry, -1 if this is the world, which has no list."""
    body = shape_body[shape_of(pairs, entry)]
    first = int(-1)
    if body >= 0:
        first = seams.head[body]
    return first


@wp.func
def is_broad(p: int, manifolds: ManifoldView) -> bool:
    """Whether faces of both shapes, about parallel, face each other over more than a strip along an edge."""
    for i in range(1, manifolds.count[p] - 1):
        u = manifolds.point[p, i] - manifolds.point[p, 0]
        rise_u = manifolds.distance[p, i] - manifolds.distance[p, 0]
        for k in range(i + 1, manifolds.count[p]):
            v = manifolds.point[p, k] - manifolds.point[p, 0]
            rise_v = manifolds.distance[p, k] - manifolds.distance[p, 0]
            # twice the area of the triangle, which is its longest side times its height
            area_sq = wp.length_sq(wp.cross(u, v))
            side_sq = wp.max(wp.length_sq(u - v), wp.max(wp.length_sq(u), wp.length_sq(v)))
            # the gap's gradient over the triangle is at right angles to this, and as long over twice the area
            gradient_sq = wp.length_sq(rise_u * v - rise_v * u)
            if area_sq > BROAD * BROAD * side_sq and gradient_sq <= PARALLEL * PARALLEL * area_sq:
                return True
    return False


@wp.func
def may_be_at_seam(
    p: int, pairs: PairView, manifolds: ManifoldView, shape_body: wp.array(dtype=int), seams: SeamView
) -> bool:
    """Whether some contact may rule out a point of pair p, which takes a short look."""
    if is_broad(p, manifolds):
        return False
    for side in range(2):
        a = touch_of(manifolds, 2 * p + side, 0)
        by = int(-1)
        if seams.tiled[shape_of(pairs, (2 * p + side) ^ 1)] == 1:
            by = first_entry(2 * p + side, pairs, shape_body, seams)
        while by >= 0:
            plane = seams.plane[by]
            n = wp.vec3(plane[0], plane[1], plane[2])
            # twice the level, for the rounding of coordinates
            if wp.dot(n, a.behind) <= plane[3] + 2.0 * LEVEL and by >> 1 != p:
                if manifolds.count[p] > 1 or wp.dot(n, a.normal) <= ALIGNED:
                    return True
            by = seams.next[by]
    return False


@wp.func(inline=False)
def is_ruled_out(p: int, k: int, scene: wp.ref[Scene]) -> bool:
    """Whether some contact rules out point k of pair p."""
    if not is_convex(scene.pairs.family[p]) or is_broad(p, scene.manifolds):
        return False
    for side in range(2):
        entry = 2 * p + side
        by = first_entry(entry, scene.pairs, scene.shape.body, scene.seams)
        while by >= 0:
            if by >> 1 != p:
                for j in range(scene.manifolds.count[by >> 1]):
                    if may_rule_out(entry, by, j, scene.manifolds):
                        bits = points_beyond(entry, by, touch_of(scene.manifolds, by, j), scene)
                        if (bits >> k) & 1 == 1:
                            return True
            by = scene.seams.next[by]
    return False


@wp.func(inline=False)
def points_to_hide(p: int, scene: wp.ref[Scene]) -> int:
    """Bits of the points of pair p that contacts rule out which are not ruled out themselves."""
    hidden = int(0)
    for side in range(2):
        entry = 2 * p + side
        by = first_entry(entry, scene.pairs, scene.shape.body, scene.seams)
        while by >= 0:
            if by >> 1 != p:
                for j in range(scene.manifolds.count[by >> 1]):
                    if may_rule_out(entry, by, j, scene.manifolds):
                        bits = points_beyond(entry, by, touch_of(scene.manifolds, by, j), scene)
                        if bits & ~hidden != 0:
                            if not is_ruled_out(by >> 1, j, scene):
                                hidden = hidden | bits
            by = scene.seams.next[by]
    return hidden


@wp.func
def plane_of(p: int, side: int, pairs: PairView, manifolds: ManifoldView) -> wp.vec4:
    """See `SeamView.plane`."""
    family = pairs.family[p]
    deepest = int(0)
    for k in range(1, manifolds.count[p]):
        if manifolds.distance[p, k] < manifolds.distance[p, deepest]:
            deepest = k
        if family != FAMILY_PLANE and family != FAMILY_BOX and family != FAMILY_CONVEX:
            return wp.vec4(0.0, 0.0, 0.0, 0.0)
    t = touch_of(manifolds, 2 * p + side, deepest)
    return wp.vec4(t.normal[0], t.normal[1], t.normal[2], wp.dot(t.normal, t.behind))


@wp.kernel
def link_pairs(
    first: int, pairs: PairView, manifolds: ManifoldView, shape_body: wp.array(dtype=int), seams: SeamView
):
    """One thread per pair place: enter a pair that touches in the lists of its bodies, which are empty first.

    The order in a list depends on that of the threads; nothing that is found from it does.
    """
    p = first + wp.tid()
    if manifolds.count[p] == 0:
        return
    for side in range(2):
        entry = 2 * p + side
        body = shape_body[shape_of(pairs, entry)]
        if body >= 0 and seams.tiled[shape_of(pairs, entry ^ 1)] == 1:
            seams.plane[entry] = plane_of(p, side, pairs, manifolds)
            seams.next[entry] = wp.atomic_exch(seams.head, body, entry)


@wp.func(inline=False)
def hidden_points(
    p: int,
    pairs: PairView,
    manifolds: ManifoldView,
    seams: SeamView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    dt: float,
) -> int:
    """Bits of the points of pair p, which touches, that are at seams."""
    scene = Scene()
    scene.pairs = pairs
    scene.manifolds = manifolds
    scene.seams = seams
    scene.shape = shape
    scene.hulls = hulls
    scene.shape_X = shape_X
    scene.body_q = body_q
    scene.body_qd = body_qd
    scene.body_com = body_com
    scene.dt = dt
    return points_to_hide(p, scene)


@wp.kernel
def find_hidden_points(
    first: int,
    pairs: PairView,
    manifolds: ManifoldView,
    seams: SeamView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    dt: float,
    hidden: wp.array(dtype=int),
):
    """One thread per pair place: bits of the points at seams between other shapes, to be left out."""
    p = first + wp.tid()
    if manifolds.count[p] == 0:
        return
    bits = int(0)
    if is_convex(pairs.family[p]) and may_be_at_seam(p, pairs, manifolds, shape.body, seams):
        # a function of its own, for which alone all of this is copied
        bits = hidden_points(p, pairs, manifolds, seams, shape, hulls, shape_X, body_q, body_qd, body_com, dt)
    hidden[p] = bits

"""Contact points of two boxes.

The normal is found among the fifteen axes that can separate two boxes (S. Gottschalk, M. C. Lin, D. Manocha,
"OBBTree: A Hierarchical Structure for Rapid Interference Detection", SIGGRAPH 1996): face normals are
preferred to cross products of edges with equal separation, and those of the larger box to those of the
smaller one (D. Gregorius, "The Separating Axis Test between Convex Polyhedra", Game Developers Conference,
2013). For separated boxes, the axis of greatest separation need not be that of the closest points, which may
be a corner and any point of the other box; these are found from the corners themselves.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.clip import CLIP_ROOM
from newtonsim.kernels.collision.convex.convex import Closest, Convex, sign_of
from newtonsim.kernels.collision.convex.manifold_points import Overlap, facing, smallest_gap, write_overlap
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_BOX, ManifoldView, PairView
from newtonsim.kernels.views.shapes import GEO_BOX, HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# margin by which an axis must be better than a preferred one, over the size of the smaller box
BETTER = wp.constant(2.0e-5)
# squared sine of the angle between two edges below which they count as parallel
PARALLEL = wp.constant(1.0e-6)


FACE_OF_A = wp.constant(0)
FACE_OF_B = wp.constant(1)
EDGES = wp.constant(2)


@wp.struct
class Boxes:
    """Two boxes in the frame of A."""

    a: wp.vec3  # [m] half extents
    b: wp.vec3
    rotation: wp.mat33  # from the frame of B to that of A
    offset: wp.vec3  # [m] centre of B
    spread: wp.mat33  # absolute values of the rotation


@wp.struct
class Axis:
    """An axis that may separate two boxes."""

    separation: float  # [m] negative in penetration
    normal: wp.vec3  # from B to A, in the frame of A
    kind: int  # FACE_OF_A, FACE_OF_B or EDGES
    edge_a: int  # the axes of the edges whose cross product it is
    edge_b: int


@wp.func
def best_face(own: wp.vec3, offset: wp.vec3, others: wp.vec3) -> wp.vec2:
    """Greatest separation along the normals of a box, and the axis.

    Args:
        own: Half extents of the box [m].
        offset: Centre of the other box in the frame of this one [m].
        others: Half extents of the other box's bounds in that frame [m].
    """
    gap = wp.abs(offset) - own - others
    best = wp.vec2(gap[0], 0.0)
    if gap[1] > best[0]:
        best = wp.vec2(gap[1], 1.0)
    if gap[2] > best[0]:
        best = wp.vec2(gap[2], 2.0)
    return best


@wp.func
def box_of(size: wp.vec3) -> Convex:
    """Box with the given half extents [m]; its kind is a constant, which helps the compiler."""
    c = Convex()
    c.kind = GEO_BOX
    c.size = size
    c.hull = -1
    return c


@wp.func
def unit_axis(k: int) -> wp.vec3:
    """Unit vector along axis k."""
    return wp.vec3(float(k == 0), float(k == 1), float(k == 2))


@wp.func
def face_axis(m: Boxes, slack: float) -> Axis:
    """The face normal of greatest separation; the larger box's if they are equal within the slack [m]."""
    offset_b = wp.transpose(m.rotation) * m.offset
    of_a = best_face(m.a, m.offset, m.spread * m.b)
    of_b = best_face(m.b, offset_b, wp.transpose(m.spread) * m.a)
    lead = slack
    if wp.length_sq(m.b) > wp.length_sq(m.a):
        lead = -slack
    axis = Axis()
    if of_a[0] + lead > of_b[0]:
        k = int(of_a[1])
        axis.separation = of_a[0]
        axis.normal = -sign_of(m.offset[k]) * unit_axis(k)
    else:
        k = int(of_b[1])
        axis.kind = FACE_OF_B
        axis.separation = of_b[0]
        axis.normal = m.rotation * (-sign_of(offset_b[k]) * unit_axis(k))
    return axis


@wp.func
def edge_axis(m: Boxes, least: float) -> Axis:
    """The cross product of two edges of greatest separation, if that is more than `least` [m]."""
    axis = Axis()
    axis.separation = least
    for j in range(3):
        e = wp.vec3(m.rotation[0, j], m.rotation[1, j], m.rotation[2, j])
        f = wp.vec3(m.spread[0, j], m.spread[1, j], m.spread[2, j])
        # half extents of B perpendicular to its edge j, along the axis: those of the other two edges
        j1 = (j + 1) % 3
        j2 = (j + 2) % 3
        for i in range(3):
            i1 = (i + 1) % 3
            i2 = (i + 2) % 3
            # e_i x e, of which only the components i1 and i2 differ from zero
            sine = e[i1] * e[i1] + e[i2] * e[i2]
            if sine > PARALLEL:
                along = e[i1] * m.offset[i2] - e[i2] * m.offset[i1]
                extent = m.a[i1] * f[i2] + m.a[i2] * f[i1]
                extent += m.b[j1] * m.spread[i, j2] + m.b[j2] * m.spread[i, j1]
                separation = (wp.abs(along) - extent) / wp.sqrt(sine)
                if separation > axis.separation:
                    axis.separation = separation
                    n = wp.cross(unit_axis(i), e) / wp.sqrt(sine)
                    axis.normal = -sign_of(along) * n
                    axis.kind = EDGES
                    axis.edge_a = i
                    axis.edge_b = j
    return axis


@wp.func
def best_axis(m: Boxes, reach: float) -> Axis:
    """The axis of greatest separation, which is also that of least penetration."""
    slack = BETTER * wp.sqrt(wp.min(wp.length_sq(m.a), wp.length_sq(m.b)))
    axis = face_axis(m, slack)
    if axis.separation > reach:
        return axis
    edge = edge_axis(m, axis.separation + slack)
    if edge.kind == EDGES:
        return edge
    return axis


@wp.func
def corner_along(size: wp.vec3, d: wp.vec3) -> wp.vec3:
    """Corner of a box farthest along d."""
    return wp.vec3(sign_of(d[0]) * size[0], sign_of(d[1]) * size[1], sign_of(d[2]) * size[2])


@wp.func
def clamped(p: wp.vec3, size: wp.vec3) -> wp.vec3:
    """Point of a box nearest to p."""
    return wp.max(wp.min(p, size), -size)


@wp.func
def points_along(m: Boxes, axis: Axis) -> Closest:
    """Points that face each other along an axis, in the frame of A: a corner, or where edges cross."""
    closest = Closest()
    closest.found = 1
    closest.distance = axis.separation
    closest.normal = axis.normal
    n = axis.normal
    p = corner_along(m.a, -n)
    q = m.rotation * corner_along(m.b, wp.transpose(m.rotation) * n) + m.offset
    if axis.kind == EDGES:
        u = unit_axis(axis.edge_a)
        v = m.rotation * unit_axis(axis.edge_b)
        # the parameter of edge A where the lines come closest (Ericson, Real-Time Collision Detection, 5.1.8)
        r = q - p
        # squared sine from the cross product, since one minus the squared cosine rounds to zero at small
        # angles
        along = (wp.dot(u, r) - wp.dot(u, v) * wp.dot(v, r)) / wp.length_sq(wp.cross(u, v))
        p = clamped(p + u * along, m.a)
    elif axis.kind == FACE_OF_A:
        p = q + n * axis.separation
    closest.point_a = p
    closest.point_b = p - n * axis.separation
    return closest


@wp.func
def nearest_corner(m: Boxes) -> Closest:
    """Closest pair of a corner of either box and a point of the other, in the frame of A."""
    closest = Closest()
    closest.found = 1
    nearest = float(wp.inf)
    for k in range(8):
        side = wp.vec3(float(2 * (k & 1) - 1), float((k & 2) - 1), 0.5 * float(k & 4) - 1.0)
        p = m.rotation * wp.cw_mul(side, m.b) + m.offset
        q = clamped(p, m.a)
        if wp.length_sq(q - p) < nearest:
            nearest = wp.length_sq(q - p)
            closest.point_a = q
            closest.point_b = p
        p = wp.cw_mul(side, m.a)
        q = m.rotation * clamped(wp.transpose(m.rotation) * (p - m.offset), m.b) + m.offset
        if wp.length_sq(q - p) < nearest:
            nearest = wp.length_sq(q - p)
            closest.point_a = p
            closest.point_b = q
    closest.distance = wp.sqrt(nearest)
    closest.normal = wp.normalize(closest.point_a - closest.point_b)
    return closest


@wp.func
def to_world(closest: Closest, X: wp.transform) -> Closest:
    """Closest points turned from a frame with pose X to the world."""
    turned = Closest()
    turned.found = closest.found
    turned.distance = closest.distance
    turned.normal = wp.transform_vector(X, closest.normal)
    turned.point_a = wp.transform_point(X, closest.point_a)
    turned.point_b = wp.transform_point(X, closest.point_b)
    return turned


@wp.func(inline=False)
def find_box_points(
    pair: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
):
    """Points of two boxes within reach of each other."""
    a = box_of(shape.geo.scale[pairs.shape0[pair]])
    b = box_of(shape.geo.scale[pairs.shape1[pair]])
    X_a = shape_X[pairs.shape0[pair]]
    X_b = shape_X[pairs.shape1[pair]]
    reach = pairs.reach[pair]
    m = Boxes()
    m.a = a.size
    m.b = b.size
    inverse = wp.quat_inverse(wp.transform_get_rotation(X_a))
    m.offset = wp.quat_rotate(inverse, wp.transform_get_translation(X_b) - wp.transform_get_translation(X_a))
    m.rotation = wp.quat_to_matrix(inverse * wp.transform_get_rotation(X_b))
    r = m.rotation
    m.spread = wp.matrix_from_rows(wp.abs(r[0]), wp.abs(r[1]), wp.abs(r[2]))
    axis = best_axis(m, reach)
    if axis.separation > reach:
        return
    x = wp.zeros(shape=CLIP_ROOM, dtype=wp.vec3)
    code = wp.zeros(shape=CLIP_ROOM, dtype=int)
    closest = to_world(points_along(m, axis), X_a)
    found = Overlap()
    attempts = int(2)
    while attempts > 0:
        found = facing(a, X_a, b, X_b, hulls, closest, x, code)
        attempts -= 1
        slack = 2.0 * BETTER * found.size
        apart = axis.separation > slack and smallest_gap(found, x) > axis.separation + slack
        if attempts == 1 and apart:
            # no points face each other at this distance: a corner is nearest to an edge or a corner
            closest = to_world(nearest_corner(m), X_a)
            if closest.distance > reach:
                return
        else:
            attempts = 0
    write_overlap(found, x, code, closest, reach, 0, manifolds, pair)


@wp.kernel
def collide_box(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
):
    """One thread per pair place: points of two boxes within reach of each other."""
    pair = first + wp.tid()
    # a function of its own: Warp clears all local variables at the start of the one that they are in
    if pairs.family[pair] == FAMILY_BOX:
        find_box_points(pair, pairs, shape, hulls, shape_X, manifolds)

"""Features of two shapes in contact, and motion of a contact with the poses of its bodies.

On each side, a contact touches with a vertex, an edge, a face, the rim of a disc or a point of an ellipsoid,
apart from the radius of round shapes: a sphere is a vertex, and the axis of a capsule or cylinder is an edge.
With the features fixed, the normal is that of a face, or the cross product of two edges, or the direction
between the features, perpendicular to an edge if there is one (C. Ericson, "Real-Time Collision Detection",
2005, chapter 5). For all features, the derivative of the distance is n · (δx₀ - δx₁) for the points x of both
bodies; they differ in how normal and point move.

Stage: collision, its last part for gradients
Called by: solvers/featherstone/, solvers/maximal/contact_adjoint.py, solvers/semi_implicit/adjoint.py,
    kernels/constraints/adjoint/, kernels/constraints/linear/, kernels/maximal/adjoint/contact_terms.py,
    kernels/penalty/
Reads: ContactView, FeatureView, HullView, ShapeView, body_q
Writes: FeatureView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_HFIELD,
    GEO_MESH,
    GEO_PLANE,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
    ShapeView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# features
VERTEX = wp.constant(0)
EDGE = wp.constant(1)
FACE = wp.constant(2)
RIM = wp.constant(3)
ROUND = wp.constant(4)  # a point of an ellipsoid
FIXED = wp.constant(5)  # a point that a face touches as if it were fixed in the body
CURVED = wp.constant(6)  # all others
# rules for the normal
NORMAL_UNKNOWN = wp.constant(0)
NORMAL_OF_0 = wp.constant(1)  # a face of side 0
NORMAL_OF_1 = wp.constant(2)
NORMAL_BETWEEN = wp.constant(3)  # the direction between both features
NORMAL_ACROSS = wp.constant(4)  # the cross product of two edges
NORMAL_SHARED = wp.constant(5)  # the normal of another contact of both shapes
# number of places within which another contact of both shapes is searched
NEIGHBOURS = wp.constant(4)
# side whose feature holds the point; both if two edges cross there
HOLDER_BOTH = wp.constant(2)
# cosine above which a normal is that of a face, and length, over the size, below which points coincide
ALIGNED = wp.constant(0.999999)
SAME = wp.constant(1.0e-4)
# sine of the tilt of a cylinder's axis below which its rim touches at points that are fixed in it; as in
# `kernels.collision.families.plane`
UPRIGHT = wp.constant(0.01)
# cosine of the angle between a normal and a cylinder's axis below which it is normal to its side
SIDEWAYS = wp.constant(1.0e-3)
# largest difference of normal and distance, over the size, between features and contact
ASKEW = wp.constant(2.0e-3)
# largest difference between normals of one manifold
SAME_NORMAL = wp.constant(1.0e-6)
# sine of the angle between two edges below which they count as parallel
PARALLEL = wp.constant(1.0e-3)


@wp.struct
class FeatureView:
    """Features in contact per contact place; see the constants of this module."""

    normal: wp.array(dtype=int)  # (C) NORMAL_*
    partner: wp.array(dtype=int)  # (C) place of the contact whose normal is shared
    holder: wp.array(dtype=int)  # (C) side that holds the point, or HOLDER_BOTH
    face: wp.array(dtype=wp.vec3)  # (C) the normal in the frame of the body with which it rotates
    kind: wp.array2d(dtype=int)  # (C, 2) feature of each side
    core: wp.array2d(dtype=wp.vec3)  # (C, 2) [m] a point of the feature or its centre, body frame
    axis: wp.array2d(dtype=wp.vec3)  # (C, 2) direction of an edge, axis of a rim; unit, body frame
    radius: wp.array2d(dtype=float)  # (C, 2) [m] distance of the surface from the feature
    size: wp.array2d(dtype=wp.vec3)  # (C, 2) [m] semi-axes of an ellipsoid, or place on a rim
    turn: wp.array2d(dtype=wp.quat)  # (C, 2) shape frame in the body frame


@wp.struct
class Feature:
    """Feature of one side, in the shape's frame."""

    kind: int
    core: wp.vec3  # [m]
    axis: wp.vec3
    radius: float  # [m] beyond that of the contact's own offset
    size: wp.vec3  # [m]
    flat: int  # 1 if the normal is that of a face


@wp.struct
class ContactGeometry:
    """Normal from side 1 to side 0, point in the middle of the gap [m], gap [m]; world."""

    normal: wp.vec3
    point: wp.vec3
    distance: float


@wp.func
def box_feature(p: wp.vec3, size: wp.vec3, n: wp.vec3) -> Feature:
    """Vertex, edge or face by the number of coordinates at their bounds."""
    f = Feature()
    f.core = p
    slack = SAME * wp.length(size)
    bounds = int(0)
    for i in range(3):
        if wp.abs(wp.abs(p[i]) - size[i]) <= slack:
            bounds += 1
        else:
            f.axis[i] = 1.0
        if wp.abs(n[i]) > ALIGNED:
            f.flat = 1
    f.kind = VERTEX
    if bounds == 2:
        f.kind = EDGE
    elif bounds < 2:
        f.kind = FACE
    return f


@wp.func
def hull_feature(p: wp.vec3, n: wp.vec3, hull: int, hulls: HullView) -> Feature:
    """The nearest vertex, edge or face of a convex polyhedron."""
    f = Feature()
    f.core = p
    f.kind = FACE
    first = hulls.vertex_start[hull]
    end = hulls.vertex_start[hull + 1]
    extent = float(0.0)
    for v in range(first, end):
        extent = wp.max(extent, wp.length(hulls.vertex[v] - hulls.vertex[first]))
    slack = SAME * extent
    for i in range(hulls.face_start[hull], hulls.face_start[hull + 1]):
        if wp.abs(wp.dot(hulls.face_normal[i], n)) > ALIGNED:
            f.flat = 1
    for v in range(first, end):
        for k in range(hulls.neighbor_start[v], hulls.neighbor_start[v + 1]):
            edge = hulls.vertex[first + hulls.neighbor[k]] - hulls.vertex[v]
            way = p - hulls.vertex[v]
            along = wp.dot(way, edge) / wp.length_sq(edge)
            off = wp.length(way - along * edge)
            if f.kind == FACE and off <= slack and along > 0.0 and along < 1.0:
                f.kind = EDGE
                f.axis = wp.normalize(edge)
        if wp.length(p - hulls.vertex[v]) <= slack:
            f.kind = VERTEX
    return f


@wp.func
def round_feature(kind: int, p: wp.vec3, size: wp.vec3, n: wp.vec3) -> Feature:
    """Cap, rim or side of a cylinder; base, rim or tip of a cone. n points out of the shape."""
    f = Feature()
    f.core = p
    f.kind = CURVED
    radial = wp.vec3(p[0], 0.0, p[2])
    across = wp.vec3(n[0], 0.0, n[2])
    slack = SAME * wp.length(wp.vec2(size[0], size[1]))
    at_rim = wp.abs(wp.length(radial) - size[0]) <= slack and wp.abs(wp.abs(p[1]) - size[1]) <= slack
    if kind == GEO_CONE:
        at_rim = at_rim and p[1] < 0.0
        if wp.length(p - wp.vec3(0.0, size[1], 0.0)) <= slack:
            f.kind = VERTEX
    if wp.abs(n[1]) > ALIGNED:
        f.flat = 1
        f.kind = FIXED
        if not at_rim:
            f.kind = FACE
    elif at_rim:
        f.kind = FIXED
        if wp.length(across) > UPRIGHT:
            # the position relative to the lowest point does not change when the shape rotates about its axis
            u = wp.normalize(across)
            f.kind = RIM
            f.axis = wp.vec3(0.0, 1.0, 0.0)
            f.core = wp.vec3(0.0, p[1], 0.0)
            f.size = wp.vec3(wp.dot(radial, u), wp.dot(radial, wp.cross(f.axis, u)), 0.0)
    elif kind == GEO_CYLINDER and wp.abs(n[1]) < SIDEWAYS:
        f.kind = EDGE
        f.axis = wp.vec3(0.0, 1.0, 0.0)
        f.core = wp.vec3(0.0, p[1], 0.0)
        f.radius = size[0]
    return f


@wp.func
def feature_of(shape: ShapeView, hulls: HullView, s: int, p: wp.vec3, n: wp.vec3) -> Feature:
    """Feature of shape s at the core point p [m]; n points out of the shape. All in the shape's frame."""
    kind = shape.kind[s]
    size = shape.geo.scale[s]
    f = Feature()
    f.core = p
    f.kind = CURVED
    if kind == GEO_SPHERE:
        f.kind = VERTEX
    elif kind == GEO_CAPSULE:
        f.kind = VERTEX
        if wp.abs(p[1]) < size[1] * (1.0 - SAME):
            f.kind = EDGE
            f.axis = wp.vec3(0.0, 1.0, 0.0)
    elif kind == GEO_BOX:
        f = box_feature(p, size, n)
    elif kind == KIND_HULL:
        f = hull_feature(p, n, shape.hull[s], hulls)
    elif kind == GEO_CYLINDER or kind == GEO_CONE:
        f = round_feature(kind, p, size, n)
    elif kind == GEO_ELLIPSOID:
        f.kind = ROUND
        f.core = wp.vec3(0.0, 0.0, 0.0)
        f.size = size
    elif kind == GEO_PLANE or kind == GEO_MESH or kind == GEO_HFIELD:
        f.kind = FACE
        f.flat = 1
    return f


@wp.func
def reference_side(shape: ShapeView, s0: int, s1: int, f0: Feature, f1: Feature) -> int:
    """Side whose face defines the normal, or -1. Of two faces, that of a surface or of the larger shape."""
    side = int(-1)
    if f1.flat == 1:
        side = 1
        if f0.flat == 1:
            surface0 = (
                shape.kind[s0] == GEO_PLANE or shape.kind[s0] == GEO_MESH or shape.kind[s0] == GEO_HFIELD
            )
            surface1 = (
                shape.kind[s1] == GEO_PLANE or shape.kind[s1] == GEO_MESH or shape.kind[s1] == GEO_HFIELD
            )
            larger = wp.length_sq(shape.geo.scale[s0]) >= wp.length_sq(shape.geo.scale[s1])
            if shape.kind[s0] == KIND_HULL or shape.kind[s1] == KIND_HULL:
                larger = shape.radius[s0] >= shape.radius[s1]
            if not surface1 and (surface0 or larger):
                side = 0
            if surface0 and surface1:
                side = int(shape.body[s0] >= 0)
    elif f0.flat == 1:
        side = 0
    return side


@wp.func
def point_holder(held: int, far: int, side: int) -> int:
    """Side whose feature holds the point, given both features and that of the face; see FeatureView."""
    holder = 1 - side
    if far == EDGE and held == EDGE:
        holder = HOLDER_BOTH
    elif (far == EDGE or far == FACE) and held == VERTEX:
        holder = side
    return holder


@wp.func
def body_pose(b: int, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """World pose of body b; body -1 is the world."""
    X = wp.transform_identity()
    if b >= 0:
        X = body_q[b]
    return X


@wp.func
def choose_rule(
    c: int,
    contacts: ContactView,
    shape: ShapeView,
    f0: Feature,
    f1: Feature,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """Write the rule for the normal of contact c, and the side that holds its point."""
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    rule = int(NORMAL_UNKNOWN)
    holder = int(0)
    side = reference_side(shape, s0, s1, f0, f1)
    if side >= 0:
        s = s0
        far = f1.kind
        held = f0.kind
        rule = NORMAL_OF_0
        if side == 1:
            s = s1
            far = f0.kind
            held = f1.kind
            rule = NORMAL_OF_1
        holder = point_holder(held, far, side)
        if far == CURVED:
            rule = NORMAL_UNKNOWN
        turn = wp.transform_get_rotation(body_pose(shape.body[s], body_q))
        features.face[c] = wp.quat_rotate_inv(turn, contacts.normal[c])
    elif f0.kind <= EDGE and f1.kind <= EDGE:
        rule = NORMAL_BETWEEN
        if f0.kind == EDGE:
            holder = 1
        if f0.kind == EDGE and f1.kind == EDGE:
            rule = NORMAL_ACROSS
            holder = HOLDER_BOTH
    features.normal[c] = rule
    features.holder[c] = holder


@wp.func
def on_feature(
    kind: int, X: wp.transform, core: wp.vec3, axis: wp.vec3, size: wp.vec3, turn: wp.quat, out: wp.vec3
):
    """World point [m] of a feature whose body has pose X, where it touches with the outward normal `out`."""
    p = wp.transform_point(X, core)
    if kind == RIM:
        a = wp.transform_vector(X, axis)
        u = wp.normalize(out - wp.dot(a, out) * a)
        p = wp.transform_point(X, core) + size[0] * u + size[1] * wp.cross(a, u)
    if kind == ROUND:
        q = wp.transform_get_rotation(X) * turn
        scaled = wp.cw_mul(size, wp.quat_rotate_inv(q, out))
        p = wp.transform_point(X, core) + wp.quat_rotate(q, wp.cw_mul(size, scaled) / wp.length(scaled))
    return p


@wp.func
def contact_normal(
    c: int, X0: wp.transform, X1: wp.transform, nominal: wp.vec3, features: FeatureView
) -> wp.vec3:
    """Normal of contact c at these poses of its bodies, near the one with which it was found."""
    k = c
    if features.normal[c] == NORMAL_SHARED:
        k = features.partner[c]
    rule = features.normal[k]
    a = wp.transform_vector(X0, features.axis[k, 0])
    b = wp.transform_vector(X1, features.axis[k, 1])
    n = nominal
    if rule == NORMAL_OF_0:
        n = wp.transform_vector(X0, features.face[k])
    if rule == NORMAL_OF_1:
        n = wp.transform_vector(X1, features.face[k])
    if rule == NORMAL_BETWEEN:
        way = wp.transform_point(X0, features.core[k, 0]) - wp.transform_point(X1, features.core[k, 1])
        # at most one of the axes differs from zero
        across = wp.normalize(way - wp.dot(way, a) * a - wp.dot(way, b) * b)
        n = wp.sign(wp.dot(across, nominal)) * across
    if rule == NORMAL_ACROSS:
        cross = wp.normalize(wp.cross(a, b))
        n = wp.sign(wp.dot(cross, nominal)) * cross
    return n


@wp.func
def contact_geometry(
    c: int, X0: wp.transform, X1: wp.transform, nominal: wp.vec3, features: FeatureView
) -> ContactGeometry:
    """Normal, point and distance of contact c at these poses of its bodies; differentiable.

    Args:
        c: Contact place.
        X0: World pose of the body of side 0.
        X1: World pose of the body of side 1.
        nominal: The normal with which the contact was found, which determines the sign.
        features: Features in contact.
    """
    n = contact_normal(c, X0, X1, nominal, features)
    y0 = on_feature(
        features.kind[c, 0],
        X0,
        features.core[c, 0],
        features.axis[c, 0],
        features.size[c, 0],
        features.turn[c, 0],
        -n,
    )
    y1 = on_feature(
        features.kind[c, 1],
        X1,
        features.core[c, 1],
        features.axis[c, 1],
        features.size[c, 1],
        features.turn[c, 1],
        n,
    )
    r0 = features.radius[c, 0]
    r1 = features.radius[c, 1]
    slide0 = float(0.0)
    slide1 = float(0.0)
    a = wp.transform_vector(X0, features.axis[c, 0])
    b = wp.transform_vector(X1, features.axis[c, 1])
    along = wp.dot(a, wp.cross(b, n))
    if features.holder[c] == HOLDER_BOTH and wp.abs(along) > PARALLEL:
        # crossing of the edges, seen along the normal
        slide0 = wp.dot(y1 - y0, wp.cross(b, n)) / along
        slide1 = wp.dot(y1 - y0, wp.cross(a, n)) / along
    x0 = y0 + slide0 * a
    x1 = y1 + slide1 * b
    # the gap between the features is along the normal from x1 to x0, at least one of which is known
    gap = wp.dot(n, x0 - x1)
    if features.normal[c] == NORMAL_SHARED and features.holder[c] != HOLDER_BOTH:
        # and ends on a face that is not perpendicular to it
        face = wp.transform_vector(X0, features.face[c])
        if features.kind[c, 1] == FACE:
            face = wp.transform_vector(X1, features.face[c])
        gap = wp.dot(face, x0 - x1) / wp.dot(face, n)
    middle = x0 - (0.5 * (gap + r0 - r1)) * n
    if features.holder[c] == 1:
        middle = x1 + (0.5 * (gap - r0 + r1)) * n
    g = ContactGeometry()
    g.normal = n
    g.point = middle
    g.distance = gap - r0 - r1
    return g


@wp.func
def check_rule(
    c: int,
    contacts: ContactView,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """Drop a rule that does not reproduce the normal and the distance of the collision pass."""
    b0 = shape.body[contacts.shape0[c]]
    b1 = shape.body[contacts.shape1[c]]
    n = contacts.normal[c]
    g = contact_geometry(c, body_pose(b0, body_q), body_pose(b1, body_q), n, features)
    size = wp.min(shape.radius[contacts.shape0[c]], shape.radius[contacts.shape1[c]])
    off = wp.abs(g.distance - contacts.distance[c])
    if not (wp.length(g.normal - n) < ASKEW and off < ASKEW * size):
        features.normal[c] = NORMAL_UNKNOWN


@wp.func
def face_normal(f: Feature, local: wp.transform) -> wp.vec3:
    """Normal of the face of a box in the body frame, up to its sign; zero for other shapes."""
    n = wp.vec3(1.0, 1.0, 1.0) - f.axis
    if wp.length_sq(f.axis) != 2.0:
        n = wp.vec3(0.0, 0.0, 0.0)
    return wp.transform_vector(local, n)


@wp.kernel
def find_features(
    first: int,
    contacts: ContactView,
    shape: ShapeView,
    hulls: HullView,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """One thread per contact place: the features in contact; NORMAL_UNKNOWN where there is no rule."""
    c = first + wp.tid()
    if contacts.shape0[c] < 0:
        return
    n = contacts.normal[c]
    f0 = Feature()
    f1 = Feature()
    for side in range(2):
        s = contacts.shape0[c]
        p = contacts.point0[c]
        offset = contacts.offset0[c]
        out = -n
        if side == 1:
            s = contacts.shape1[c]
            p = contacts.point1[c]
            offset = contacts.offset1[c]
            out = n
        local = shape.transform[s]
        # normalised: rounding of quaternions and normals would tilt it off a face
        to_local = wp.transform_inverse(body_pose(shape.body[s], body_q) * local)
        out_local = wp.normalize(wp.transform_vector(to_local, out))
        f = feature_of(shape, hulls, s, wp.transform_point(wp.transform_inverse(local), p), out_local)
        features.kind[c, side] = f.kind
        features.core[c, side] = wp.transform_point(local, f.core)
        features.axis[c, side] = wp.transform_vector(local, f.axis)
        features.radius[c, side] = f.radius + wp.length(offset)
        features.size[c, side] = f.size
        features.turn[c, side] = wp.transform_get_rotation(local)
        if side == 0:
            f0 = f
        else:
            f1 = f
    choose_rule(c, contacts, shape, f0, f1, body_q, features)
    if features.normal[c] != NORMAL_UNKNOWN:
        check_rule(c, contacts, shape, body_q, features)
    elif f0.kind == FACE and f1.kind == VERTEX:
        features.face[c] = face_normal(f0, shape.transform[contacts.shape0[c]])
        features.holder[c] = 1
    elif f0.kind == VERTEX and f1.kind == FACE:
        features.face[c] = face_normal(f1, shape.transform[contacts.shape1[c]])
        features.holder[c] = 0


@wp.kernel
def share_normals(
    first: int,
    contacts: ContactView,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    features: FeatureView,
):
    """One thread per contact place: other points of a manifold that share the normal of one point.

    Manifolds of two crossing edges, or of the end of a capsule beside an edge, have further points where an
    end lies over a face, or where other edges cross, seen along the normal.
    """
    c = first + wp.tid()
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    w = contacts.world[c]
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    if s0 < 0 or c >= end or features.normal[c] != NORMAL_UNKNOWN:
        return
    kind0 = features.kind[c, 0]
    kind1 = features.kind[c, 1]
    over = wp.min(kind0, kind1) == VERTEX and wp.max(kind0, kind1) == FACE
    crossing = kind0 == EDGE and kind1 == EDGE
    if (over and wp.length_sq(features.face[c]) > 0.0) or crossing:
        for k in range(wp.max(begin, c - NEIGHBOURS), wp.min(end, c + NEIGHBOURS + 1)):
            rule = features.normal[k]
            same = contacts.shape0[k] == s0 and contacts.shape1[k] == s1
            known = rule == NORMAL_BETWEEN or rule == NORMAL_ACROSS
            if same and known and wp.length(contacts.normal[k] - contacts.normal[c]) < SAME_NORMAL:
                features.partner[c] = k
                features.normal[c] = NORMAL_SHARED
        if features.normal[c] == NORMAL_SHARED:
            if crossing:
                features.holder[c] = HOLDER_BOTH
            check_rule(c, contacts, shape, body_q, features)

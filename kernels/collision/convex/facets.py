"""Support facets: the face, line or point of a convex shape that touches another one.

Two shapes touch along a common normal; the support facet of each is the set of points farthest along it (D.
Gregorius, "Robust Contact Creation for Physics Simulations", Game Developers Conference, 2015). A facet is
described in the contact frame, whose third axis is the normal, by its corners and by its height as a linear
function of the other two coordinates. The tangents are those of T. Duff et al., "Building an Orthonormal
Basis, Revisited", Journal of Computer Graphics Techniques 6(1), 2017.

Stage: narrow phase, contact points of convex shapes
Called by: kernels/collision/convex/manifold_points.py, kernels/collision/families/sdf.py
Reads: HullView, corner
Writes: corner, label
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Convex, sign_of
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    KIND_HULL,
    KIND_TRIANGLE,
    HullView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most corners of a facet; faces with more are represented by a choice
FACET_SIZE = wp.constant(16)
# corners of a rim, which are fixed in the shape but for the one nearest to the lowest point
RIM_SIZE = wp.constant(8)
# numbers of the rim points that follow the lowest point, and number of a cone's tip
RIM_TOP = wp.constant(16)
RIM_BOTTOM = wp.constant(17)
CONE_TIP = wp.constant(18)
# squared tilt of a disc below which no rim point counts as the lowest: they differ by less than GAP_NOISE
UPRIGHT = wp.constant(6.0e-8)
# cosine of half the angle between two fixed corners, or a little less
SECTOR = wp.constant(0.9238)
# cosine between a face and the normal below which only an edge of the face lies against the other shape
EDGE_ON = wp.constant(0.1)
# squared sine between a line and the normal below which only an end of the line does
END_ON = wp.constant(0.1)
# area of a face in the tangent plane, over its squared length, below which it counts as a line
FLAT = wp.constant(1.0e-5)
# margin by which a face must be better aligned than a previous one to be chosen
BETTER_ALIGNED = wp.constant(1.0e-3)


@wp.struct
class ContactFrame:
    """Origin, tangents and normal of a contact; the normal points from shape B to shape A."""

    origin: wp.vec3  # [m] world
    axes: wp.mat33  # rows: two tangents and the normal, world


@wp.struct
class Facet:
    """A support facet in the contact frame; its corners are in separate arrays."""

    count: int  # corners: 1 point, 2 line, 3 and more face
    height: float  # [m] above the origin
    slope: wp.vec2  # of the height
    radius: wp.vec2  # [m] of curvature across both ends of a line, 0 for an edge
    turn: float  # of a face: 1 if its corners run counter-clockwise in the tangent plane, -1 if clockwise


@wp.func
def contact_frame(origin: wp.vec3, n: wp.vec3) -> ContactFrame:
    """Frame with the given origin [m] and unit normal."""
    s = sign_of(n[2])
    a = -1.0 / (s + n[2])
    b = n[0] * n[1] * a
    frame = ContactFrame()
    frame.origin = origin
    frame.axes = wp.matrix_from_rows(
        wp.vec3(1.0 + s * n[0] * n[0] * a, s * b, -s * n[0]),
        wp.vec3(b, s + n[1] * n[1] * a, -n[1]),
        n,
    )
    return frame


@wp.func
def point_to_frame(X: wp.transform, p: wp.vec3) -> wp.vec3:
    """Point p [m] of the world in the frame with pose X."""
    return wp.quat_rotate_inv(wp.transform_get_rotation(X), p - wp.transform_get_translation(X))


@wp.func
def box_face(size: wp.vec3, d: wp.vec3, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)) -> int:
    """Corners of the face of a box that looks along d; the return value is the number of its axis."""
    k = int(0)
    if wp.abs(d[1]) > wp.abs(d[k]) + BETTER_ALIGNED:
        k = 1
    if wp.abs(d[2]) > wp.abs(d[k]) + BETTER_ALIGNED:
        k = 2
    i = (k + 1) % 3
    j = (k + 2) % 3
    side = wp.vec3(0.0, 0.0, 0.0)
    side[k] = sign_of(d[k])
    for c in range(4):
        side[j] = 1.0 - 2.0 * float(c >> 1)
        side[i] = side[j] * (1.0 - 2.0 * float(c & 1))
        corner[c] = wp.cw_mul(side, size)
        label[c] = int(side[0] > 0.0) + 2 * int(side[1] > 0.0) + 4 * int(side[2] > 0.0)
    return k


@wp.func
def rim_corners(
    radius: float,
    y: float,
    first: int,
    lowest: int,
    d: wp.vec3,
    corner: wp.array(dtype=wp.vec3),
    label: wp.array(dtype=int),
) -> int:
    """Corners of a disc about local y at height y: fixed in the shape, but for the one farthest along d.

    Args:
        radius: Radius of the disc [m].
        y: Its height [m].
        first: Number of the first fixed corner.
        lowest: Number of the corner farthest along d.
        d: Direction.
        corner: Corners found [m].
        label: Their numbers.
    """
    tilt = d[0] * d[0] + d[2] * d[2]
    low = wp.vec2(0.0, 0.0)
    if tilt > UPRIGHT:
        low = wp.vec2(d[0], d[2]) / wp.sqrt(tilt)
    moved = bool(False)
    u = wp.vec2(1.0, 0.0)
    for k in range(RIM_SIZE):
        corner[k] = wp.vec3(radius * u[0], y, radius * u[1])
        label[k] = first + k
        if wp.dot(u, low) > SECTOR and not moved:
            corner[k] = wp.vec3(radius * low[0], y, radius * low[1])
            label[k] = lowest
            moved = True
        # turned by 45 degrees
        u = wp.vec2(u[0] - u[1], u[0] + u[1]) * 0.70710678
    return RIM_SIZE


@wp.func(inline=False)
def hull_face(hulls: HullView, hull: int, d: wp.vec3) -> int:
    """Face of a hull that looks along d; -1 if the hull has none."""
    best = int(-1)
    aligned = float(-2.0)
    for f in range(hulls.face_start[hull], hulls.face_start[hull + 1]):
        cosine = wp.dot(hulls.face_normal[f], d)
        if cosine > aligned + BETTER_ALIGNED:
            aligned = cosine
            best = f
    return best


@wp.func
def hull_corners(
    hulls: HullView, hull: int, face: int, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)
) -> int:
    """Corners of a face of a hull, or of a hull without faces (a line or point); returns their number."""
    first = hulls.vertex_start[hull]
    count = hulls.vertex_start[hull + 1] - first
    start = int(0)
    if face >= 0:
        start = hulls.corner_start[face]
        count = hulls.corner_start[face + 1] - start
    kept = wp.min(count, FACET_SIZE)
    for c in range(kept):
        # for a face with too many corners, some of them, spread along its rim
        vertex = (c * count) / kept
        if face >= 0:
            vertex = hulls.corner[start + vertex]
        corner[c] = hulls.vertex[first + vertex]
        label[c] = vertex
    return kept


@wp.func
def cylinder_facet(
    size: wp.vec3, d: wp.vec3, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)
) -> int:
    """Cap or side line of a cylinder that looks along d; returns the number of corners."""
    across = wp.sqrt(d[0] * d[0] + d[2] * d[2])
    if wp.abs(d[1]) >= across:
        if d[1] > 0.0:
            return rim_corners(size[0], size[1], 0, RIM_TOP, d, corner, label)
        return rim_corners(size[0], -size[1], RIM_SIZE, RIM_BOTTOM, d, corner, label)
    scale = size[0] / across
    corner[0] = wp.vec3(d[0] * scale, size[1], d[2] * scale)
    corner[1] = wp.vec3(d[0] * scale, -size[1], d[2] * scale)
    label[0] = RIM_TOP
    label[1] = RIM_BOTTOM
    return 2


@wp.func
def cone_facet(size: wp.vec3, d: wp.vec3, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)) -> int:
    """Base or side line of a cone that looks along d; returns the number of corners."""
    across = wp.sqrt(d[0] * d[0] + d[2] * d[2])
    height = 2.0 * size[1]
    along_side = (height * across + size[0] * d[1]) / wp.sqrt(height * height + size[0] * size[0])
    if across == 0.0 or -d[1] >= along_side:
        if d[1] < 0.0:
            return rim_corners(size[0], -size[1], 0, RIM_BOTTOM, d, corner, label)
        corner[0] = wp.vec3(0.0, size[1], 0.0)
        label[0] = CONE_TIP
        return 1
    scale = size[0] / across
    corner[0] = wp.vec3(0.0, size[1], 0.0)
    corner[1] = wp.vec3(d[0] * scale, -size[1], d[2] * scale)
    label[0] = CONE_TIP
    label[1] = RIM_BOTTOM
    return 2


@wp.func
def triangle_corners(c: Convex, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)) -> int:
    """Corners of a triangle; returns their number."""
    corner[0] = c.a
    corner[1] = c.b
    corner[2] = c.c
    for k in range(3):
        label[k] = k
    return 3


@wp.func
def best_edge(count: int, side: float, corner: wp.array(dtype=wp.vec3), label: wp.array(dtype=int)):
    """Move the edge of a face that lies farthest along the third axis times `side` to the front."""
    best = int(0)
    farthest = float(-wp.inf)
    for k in range(count):
        reached = side * (corner[k][2] + corner[(k + 1) % count][2])
        if reached > farthest:
            farthest = reached
            best = k
    p = corner[best]
    q = corner[(best + 1) % count]
    label_p = label[best]
    label_q = label[(best + 1) % count]
    corner[0] = p
    corner[1] = q
    label[0] = label_p
    label[1] = label_q


@wp.func
def turn_of(corner: wp.array(dtype=wp.vec3), count: int) -> float:
    """1 if corners run counter-clockwise in the tangent plane, -1 if clockwise, 0 if they lie in a line."""
    area = float(0.0)
    longest = float(0.0)
    p = wp.vec2(0.0, 0.0)
    for k in range(1, count):
        q = wp.vec2(corner[k][0] - corner[0][0], corner[k][1] - corner[0][1])
        area += p[0] * q[1] - p[1] * q[0]
        longest = wp.max(longest, wp.dot(q, q))
        p = q
    if wp.abs(area) <= FLAT * longest:
        return 0.0
    return sign_of(area)


@wp.func(inline=False)
def line_facet(corner: wp.array(dtype=wp.vec3)) -> Facet:
    """Height of a line through the first two corners; a point if the line stands on its end."""
    facet = Facet()
    e = corner[1] - corner[0]
    flat = wp.vec2(e[0], e[1])
    across = wp.dot(flat, flat)
    facet.count = 1
    if across > END_ON * wp.dot(e, e):
        facet.count = 2
        facet.slope = flat * (e[2] / across)
        facet.height = corner[0][2] - wp.dot(facet.slope, wp.vec2(corner[0][0], corner[0][1]))
    return facet


@wp.func(inline=False)
def support_facet(
    c: Convex,
    X: wp.transform,
    hulls: HullView,
    frame: ContactFrame,
    side: float,
    corner: wp.array(dtype=wp.vec3),
    label: wp.array(dtype=int),
) -> Facet:
    """Facet of a shape that lies farthest along the normal times `side`.

    Args:
        c: The shape.
        X: Its pose in the world.
        hulls: Vertices and faces of hulls.
        frame: The contact frame.
        side: -1 for shape A, 1 for shape B.
        corner: Corners of the facet in the contact frame [m]; room for FACET_SIZE.
        label: Their numbers, which stay the same as the shape moves.
    """
    rotation = frame.axes * wp.quat_to_matrix(wp.transform_get_rotation(X))
    offset = frame.axes * (wp.transform_get_translation(X) - frame.origin)
    d = side * wp.vec3(rotation[2, 0], rotation[2, 1], rotation[2, 2])
    # of curved shapes the height of a cap follows from the axis
    normal = wp.vec3(0.0, 1.0, 0.0)
    count = int(0)
    radius = wp.vec2(0.0, 0.0)
    if c.kind == GEO_BOX:
        k = box_face(c.size, d, corner, label)
        count = 4
        normal = wp.vec3(float(k == 0), float(k == 1), float(k == 2))
    elif c.kind == KIND_HULL:
        face = hull_face(hulls, c.hull, d)
        count = hull_corners(hulls, c.hull, face, corner, label)
        if face >= 0:
            normal = hulls.face_normal[face]
    elif c.kind == KIND_TRIANGLE:
        count = triangle_corners(c, corner, label)
        normal = wp.normalize(wp.cross(c.b - c.a, c.c - c.a))
    elif c.kind == GEO_CYLINDER:
        count = cylinder_facet(c.size, d, corner, label)
        radius = wp.vec2(c.size[0], c.size[0])
    elif c.kind == GEO_CONE:
        count = cone_facet(c.size, d, corner, label)
        radius = wp.vec2(0.0, c.size[0])
    elif c.kind == GEO_CAPSULE:
        count = 2
        radius = wp.vec2(c.size[0], c.size[0])
        for k in range(2):
            corner[k] = wp.vec3(0.0, c.size[1] * float(2 * k - 1), 0.0) + c.size[0] * d
            label[k] = k
    # in the shape's frame, where the coordinates of a vast face are exact
    height = wp.dot(normal, corner[0] - point_to_frame(X, frame.origin))
    for k in range(count):
        corner[k] = rotation * corner[k] + offset
    facet = Facet()
    if count > 2:
        m = rotation * normal
        facet.turn = turn_of(corner, count)
        if wp.abs(m[2]) > EDGE_ON and facet.turn != 0.0:
            facet.count = count
            facet.slope = wp.vec2(-m[0] / m[2], -m[1] / m[2])
            facet.height = height / m[2]
            return facet
        best_edge(count, side, corner, label)
        count = 2
        radius = wp.vec2(0.0, 0.0)
    if count == 2:
        facet = line_facet(corner)
        facet.radius = radius
    return facet

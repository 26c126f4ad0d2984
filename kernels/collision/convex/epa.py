"""Depth of penetration of two convex cores by the expanding polytope algorithm.

G. van den Bergen, "Proximity Queries and Penetration Depth Computation on 3D Game Objects", Game
Developers Conference 2001. A polytope inside the Minkowski difference grows where it is nearest to the
origin. Its nearest face bounds the depth from below, and the supporting plane in any direction from above.

Stage: narrow phase, depth of convex shapes
Called by: kernels/collision/convex/gjk.py
Reads: HullView, a, corners, edges, normal, offset, simplex_a, simplex_w, w
Writes: a, corners, edges, normal, offset, w
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.minkowski import Difference, farthest_vertex, triangle_weights
from newtonsim.kernels.views.shapes import HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

EPA_VERTICES = wp.constant(48)
# a polytope with V vertices has at most 2 V - 4 faces
EPA_FACES = wp.constant(92)
EPA_EDGES = wp.constant(96)
# excess of the depth over its lower bound at which to stop, over the size of the difference
EPA_TOLERANCE = wp.constant(1.0e-6)
# rounding error of heights above faces, over the same size
NOISE = wp.constant(2.0e-7)
# thickness over length below which the difference counts as flat
NO_EXTENT = wp.constant(1.0e-6)
# squared sine below which a face has no normal
FLAT_FACE = wp.constant(1.0e-11)

# least cosine between the normal and those of faces that may carry the points
SIMILAR = wp.constant(0.7)


@wp.struct
class Depth:
    """Deepest points of two overlapping cores, in the frame of A."""

    complete: int  # 0 if there were too few vertices to find the depth to the tolerance
    gap: float  # [m] along the normal, zero or negative
    normal: wp.vec3  # unit, from B to A
    point_a: wp.vec3  # [m]
    point_b: wp.vec3


@wp.func
def put_face(
    w: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    face: int,
    i: int,
    j: int,
    k: int,
):
    """Write the face with corners i, j, k, counter-clockwise seen from outside."""
    p = w[i]
    e = w[j] - p
    f = w[k] - p
    n = wp.cross(e, f)
    nn = wp.dot(n, n)
    corners[face] = i | (j << 8) | (k << 16)
    if nn > FLAT_FACE * wp.dot(e, e) * wp.dot(f, f):
        n = n / wp.sqrt(nn)
        normal[face] = n
        offset[face] = wp.dot(n, p)
    else:
        # nothing is outside such a face, and it is never the nearest
        normal[face] = wp.vec3(0.0, 0.0, 0.0)
        offset[face] = wp.inf


@wp.func
def toggle_edge(edges: wp.array(dtype=int), count: int, i: int, j: int) -> int:
    """Add the edge from i to j, or remove it if it is there from j to i; return the number of edges."""
    reverse = j | (i << 8)
    for k in range(count):
        if edges[k] == reverse:
            edges[k] = edges[count - 1]
            return count - 1
    if count < EPA_EDGES:
        edges[count] = i | (j << 8)
        return count + 1
    return count


@wp.func
def has_edge(edges: wp.array(dtype=int), count: int, i: int, j: int) -> bool:
    """Whether the edge from i to j is in the list."""
    edge = i | (j << 8)
    for k in range(count):
        if edges[k] == edge:
            return True
    return False


@wp.func
def move_face(
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    source: int,
    target: int,
):
    """Overwrite the face at target with the one at source."""
    corners[target] = corners[source]
    normal[target] = normal[source]
    offset[target] = offset[source]


@wp.func
def gather_visible(
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    faces: int,
    p: wp.vec3,
    tolerance: float,
) -> int:
    """Move the faces that see the point p to the end; return the number of the others."""
    hidden = int(faces)
    f = int(0)
    while f < hidden:
        if wp.dot(normal[f], p) > offset[f] + tolerance:
            hidden -= 1
            n = wp.vec3(normal[f])
            height = float(offset[f])
            packed = int(corners[f])
            move_face(normal, offset, corners, hidden, f)
            normal[hidden] = n
            offset[hidden] = height
            corners[hidden] = packed
        else:
            f += 1
    return hidden


@wp.func(inline=False)
def expand_polytope(
    w: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    edges: wp.array(dtype=int),
    face_count: int,
    nearest: int,
    vertex: int,
    tolerance: float,
) -> int:
    """Replace the face `nearest` and those that see the vertex around it by faces with the vertex.

    The region grows over shared edges: of faces in one plane, rounding may let distant ones see the vertex.

    Returns:
        The number of faces.
    """
    p = w[vertex]
    i = corners[nearest] & 255
    j = (corners[nearest] >> 8) & 255
    k = (corners[nearest] >> 16) & 255
    edges[0] = i | (j << 8)
    edges[1] = j | (k << 8)
    edges[2] = k | (i << 8)
    edge_count = int(3)
    faces = int(face_count - 1)
    move_face(normal, offset, corners, faces, nearest)
    hidden = gather_visible(normal, offset, corners, faces, p, tolerance)
    growing = int(1)
    while growing == 1:
        growing = int(0)
        f = int(hidden)
        while f < faces:
            i = corners[f] & 255
            j = (corners[f] >> 8) & 255
            k = (corners[f] >> 16) & 255
            if (
                has_edge(edges, edge_count, j, i)
                or has_edge(edges, edge_count, k, j)
                or has_edge(edges, edge_count, i, k)
            ):
                edge_count = toggle_edge(edges, edge_count, i, j)
                edge_count = toggle_edge(edges, edge_count, j, k)
                edge_count = toggle_edge(edges, edge_count, k, i)
                faces -= 1
                move_face(normal, offset, corners, faces, f)
                growing = int(1)
            else:
                f += 1
    for e in range(edge_count):
        if faces < EPA_FACES:
            put_face(w, normal, offset, corners, faces, edges[e] & 255, (edges[e] >> 8) & 255, vertex)
            faces += 1
    return faces


@wp.func
def any_perpendicular(d: wp.vec3) -> wp.vec3:
    """A unit vector perpendicular to d."""
    axis = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(d[0]) > wp.abs(d[1]) or wp.abs(d[0]) > wp.abs(d[2]):
        axis = wp.vec3(0.0, 1.0, 0.0)
        if wp.abs(d[1]) > wp.abs(d[2]):
            axis = wp.vec3(0.0, 0.0, 1.0)
    return wp.normalize(wp.cross(d, axis))


@wp.func
def grow_simplex(
    m: Difference, hulls: HullView, w: wp.array(dtype=wp.vec3), a: wp.array(dtype=wp.vec3), count: int
) -> int:
    """Add far vertices of the difference to a point or segment until it is a triangle; return their number.

    Fewer are left if the difference itself is a segment or a point.
    """
    n = int(count)
    if n == 1:
        farthest = float(0.0)
        for k in range(6):
            d = wp.vec3(0.0, 0.0, 0.0)
            d[k / 2] = float(1 - 2 * (k & 1))
            v = farthest_vertex(m, hulls, d, 0, 0)
            away = wp.length(v.w - w[0])
            if away > farthest:
                farthest = away
                w[1] = v.w
                a[1] = v.a
                n = 2
    if n == 2:
        e = w[1] - w[0]
        length = wp.length(e)
        e = e / length
        u = any_perpendicular(e)
        farthest = float(NO_EXTENT * length)
        for _k in range(4):
            v = farthest_vertex(m, hulls, u, 0, 0)
            away = wp.length(wp.cross(v.w - w[0], e))
            if away > farthest:
                farthest = away
                w[2] = v.w
                a[2] = v.a
                n = 3
            u = wp.cross(e, u)
    return n


@wp.func
def flat_depth(
    w: wp.array(dtype=wp.vec3),
    a: wp.array(dtype=wp.vec3),
    count: int,
    toward_a: wp.vec3,
) -> Depth:
    """Depth zero of a difference without volume that contains the origin, along its normal."""
    n = wp.vec3(0.0, 1.0, 0.0)
    point = a[0]
    if count == 2:
        e = w[1] - w[0]
        t = wp.clamp(-wp.dot(w[0], e) / wp.dot(e, e), 0.0, 1.0)
        point = (1.0 - t) * a[0] + t * a[1]
        n = any_perpendicular(e)
        across = wp.cross(e, wp.cross(toward_a, e))
        if wp.length_sq(across) > 1.0e-6 * wp.length_sq(e) * wp.length_sq(e) * wp.length_sq(toward_a):
            n = wp.normalize(across)
    elif count == 3:
        k = triangle_weights(w[0], w[1], w[2])
        point = k[0] * a[0] + k[1] * a[1] + k[2] * a[2]
        n = wp.normalize(wp.cross(w[1] - w[0], w[2] - w[0]))
    elif wp.length_sq(toward_a) > 0.0:
        n = wp.normalize(toward_a)
    if wp.dot(n, toward_a) < 0.0:
        n = -n
    depth = Depth()
    depth.complete = 1
    depth.gap = 0.0
    depth.normal = n
    depth.point_a = point
    depth.point_b = point
    return depth


@wp.func(inline=False)
def first_polytope(
    m: Difference,
    hulls: HullView,
    w: wp.array(dtype=wp.vec3),
    a: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    count: int,
) -> int:
    """Write the faces of a tetrahedron; a triangle gets a fourth corner on the side that reaches farther.

    Returns:
        The number of faces, or 0 if the difference is flat.
    """
    d = wp.normalize(wp.cross(w[1] - w[0], w[2] - w[0]))
    if count == 3:
        above = farthest_vertex(m, hulls, d, 0, 0)
        below = farthest_vertex(m, hulls, -d, 0, 0)
        up = wp.dot(d, above.w - w[0])
        down = wp.dot(d, w[0] - below.w)
        if wp.max(up, down) <= NO_EXTENT * wp.length(w[1] - w[0]):
            return 0
        w[3] = above.w
        a[3] = above.a
        if down > up:
            w[3] = below.w
            a[3] = below.a
    j = int(1)
    k = int(2)
    if wp.dot(d, w[3] - w[0]) > 0.0:
        j = 2
        k = 1
    put_face(w, normal, offset, corners, 0, 0, j, k)
    put_face(w, normal, offset, corners, 1, 0, k, 3)
    put_face(w, normal, offset, corners, 2, 0, 3, j)
    put_face(w, normal, offset, corners, 3, j, 3, k)
    return 4


@wp.func
def face_points(
    w: wp.array(dtype=wp.vec3),
    a: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    offset: wp.array(dtype=float),
    corners: wp.array(dtype=int),
    faces: int,
    n: wp.vec3,
    height: float,
    tolerance: float,
) -> Depth:
    """Deepest points for the supporting plane with outward normal n at this height [m] over the origin."""
    depth = Depth()
    depth.gap = -height
    depth.normal = -n
    # the points lie on the face nearest to the projection of the origin onto the supporting plane
    foot = height * n
    nearest_sq = float(wp.inf)
    for f in range(faces):
        if offset[f] <= height + 2.0 * tolerance and wp.dot(normal[f], n) > SIMILAR:
            i = corners[f] & 255
            j = (corners[f] >> 8) & 255
            k = (corners[f] >> 16) & 255
            weight = triangle_weights(w[i] - foot, w[j] - foot, w[k] - foot)
            p = weight[0] * w[i] + weight[1] * w[j] + weight[2] * w[k]
            if wp.length_sq(p - foot) < nearest_sq:
                nearest_sq = wp.length_sq(p - foot)
                depth.point_a = weight[0] * a[i] + weight[1] * a[j] + weight[2] * a[k]
                depth.point_b = depth.point_a - p
    return depth


@wp.func(inline=False)
def penetration_depth(
    m: Difference,
    hulls: HullView,
    simplex_w: wp.array(dtype=wp.vec3),
    simplex_a: wp.array(dtype=wp.vec3),
    simplex_count: int,
    toward_a: wp.vec3,
    least_size: float,
) -> Depth:
    """Depth of overlapping cores.

    Args:
        m: The difference; the origin is inside of it, or on its boundary.
        hulls: Vertices of hulls.
        simplex_w: One to four vertices of the difference whose hull contains the origin.
        simplex_a: The points of A that belong to them.
        simplex_count: Their number.
        toward_a: Direction of the normal if the difference is flat.
        least_size: Distance [m] of some point of the difference from the origin.
    """
    w = wp.zeros(shape=EPA_VERTICES, dtype=wp.vec3)
    a = wp.zeros(shape=EPA_VERTICES, dtype=wp.vec3)
    normal = wp.zeros(shape=EPA_FACES, dtype=wp.vec3)
    offset = wp.zeros(shape=EPA_FACES, dtype=float)
    corners = wp.zeros(shape=EPA_FACES, dtype=int)
    edges = wp.zeros(shape=EPA_EDGES, dtype=int)

    count = int(simplex_count)
    for i in range(simplex_count):
        w[i] = simplex_w[i]
        a[i] = simplex_a[i]
    if count < 3:
        count = grow_simplex(m, hulls, w, a, count)
        if count < 3:
            return flat_depth(w, a, count, toward_a)
    faces = first_polytope(m, hulls, w, a, normal, offset, corners, count)
    if faces == 0:
        return flat_depth(w, a, 3, toward_a)
    count = int(4)
    size = float(least_size)
    for i in range(4):
        size = wp.max(size, wp.length(w[i]))

    best_height = float(wp.inf)
    best_normal = wp.vec3(0.0, 1.0, 0.0)
    hull_a = int(0)
    hull_b = int(0)
    searching = int(1)
    complete = int(0)
    while searching == 1:
        nearest = int(0)
        for f in range(1, faces):
            if offset[f] < offset[nearest]:
                nearest = f
        n = normal[nearest]
        v = farthest_vertex(m, hulls, n, hull_a, hull_b)
        hull_a = v.hull_a
        hull_b = v.hull_b
        height = wp.dot(n, v.w)
        size = wp.max(size, wp.length(v.w))
        if height < best_height + NOISE * size:
            best_normal = n
            best_height = height
        if height - offset[nearest] <= EPA_TOLERANCE * size:
            complete = int(1)
            searching = int(0)
        elif count == EPA_VERTICES or faces + 4 > EPA_FACES:
            searching = int(0)
        else:
            w[count] = v.w
            a[count] = v.a
            faces = expand_polytope(w, normal, offset, corners, edges, faces, nearest, count, NOISE * size)
            count += 1
            # rounding may let a vertex see every face
            searching = int(faces > 0)

    depth = face_points(w, a, normal, offset, corners, faces, best_normal, best_height, EPA_TOLERANCE * size)
    depth.complete = complete
    return depth

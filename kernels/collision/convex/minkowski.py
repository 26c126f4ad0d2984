"""The Minkowski difference A - B of two convex cores, and the point of a simplex nearest to the origin.

The nearest point is found from signed sub-volumes, face by face (M. Montanari, N. Petrinic, E. Barbieri,
"Improving the GJK algorithm for faster and more reliable distance queries between convex objects", ACM
Transactions on Graphics 36(3), 2017): unlike Johnson's recursion it does not divide by cofactors that vanish.

Stage: narrow phase, distance of convex shapes
Called by: kernels/collision/convex/epa.py, kernels/collision/convex/gjk.py
Reads: HullView, p, weight
Writes: a, w, weight
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Convex, core_support, hull_support
from newtonsim.kernels.views.shapes import KIND_HULL, HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# squared sine of the angle between two edges below which a triangle counts as a segment
FLAT_TRIANGLE = wp.constant(1.0e-12)


@wp.struct
class Difference:
    """Cores of A and B, in the frame of A."""

    a: Convex
    b: Convex
    rotation: wp.mat33  # from the frame of B to that of A
    offset: wp.vec3  # [m] origin of the frame of B


@wp.struct
class Vertex:
    """A point w = a - b of the boundary of the difference."""

    w: wp.vec3  # [m]
    a: wp.vec3  # [m] the point of A
    hull_a: int  # vertex of A's hull at which the next search may start
    hull_b: int


@wp.func
def farthest_vertex(m: Difference, hulls: HullView, d: wp.vec3, hull_a: int, hull_b: int) -> Vertex:
    """Farthest point of the difference along d; hulls are searched from the given vertices."""
    v = Vertex()
    d_b = -(wp.transpose(m.rotation) * d)
    if m.a.kind == KIND_HULL:
        v.hull_a = hull_support(hulls, m.a.hull, d, hull_a)
        v.a = hulls.vertex[hulls.vertex_start[m.a.hull] + v.hull_a]
    else:
        v.a = core_support(m.a, d)
    if m.b.kind == KIND_HULL:
        v.hull_b = hull_support(hulls, m.b.hull, d_b, hull_b)
        v.w = hulls.vertex[hulls.vertex_start[m.b.hull] + v.hull_b]
    else:
        v.w = core_support(m.b, d_b)
    v.w = v.a - (m.rotation * v.w + m.offset)
    return v


@wp.func
def segment_weights(p: wp.vec3, q: wp.vec3) -> wp.vec2:
    """Weights of p and q whose mean is nearest to the origin."""
    e = q - p
    ee = wp.dot(e, e)
    t = float(0.0)
    if ee > 0.0:
        t = wp.clamp(-wp.dot(p, e) / ee, 0.0, 1.0)
    return wp.vec2(1.0 - t, t)


@wp.func
def triangle_weights(p: wp.vec3, q: wp.vec3, r: wp.vec3) -> wp.vec3:
    """Weights of p, q and r whose mean is nearest to the origin."""
    e = q - p
    f = r - p
    n = wp.cross(e, f)
    nn = wp.dot(n, n)
    s = float(-1.0)
    t = float(-1.0)
    if nn > FLAT_TRIANGLE * wp.dot(e, e) * wp.dot(f, f):
        # of vectors from p, since p itself is long compared with a small triangle
        s = wp.dot(wp.cross(f, p), n) / nn
        t = wp.dot(wp.cross(p, e), n) / nn
    u = 1.0 - s - t
    if s > 0.0 and t > 0.0 and u > 0.0:
        return wp.vec3(u, s, t)
    # the nearest point is on an edge beyond which the origin's projection lies
    flat = s < 0.0 and t < 0.0
    best = wp.vec3(1.0, 0.0, 0.0)
    nearest = wp.dot(p, p)
    if t <= 0.0 or flat:
        k = segment_weights(p, q)
        v = k[0] * p + k[1] * q
        if wp.dot(v, v) <= nearest:
            nearest = wp.dot(v, v)
            best = wp.vec3(k[0], k[1], 0.0)
    if s <= 0.0 or flat:
        k = segment_weights(p, r)
        v = k[0] * p + k[1] * r
        if wp.dot(v, v) <= nearest:
            nearest = wp.dot(v, v)
            best = wp.vec3(k[0], 0.0, k[1])
    if u <= 0.0 or flat:
        k = segment_weights(q, r)
        v = k[0] * q + k[1] * r
        if wp.dot(v, v) < nearest:
            best = wp.vec3(0.0, k[0], k[1])
    return best


@wp.func
def is_outside(p: wp.vec3, q: wp.vec3, r: wp.vec3, opposite: wp.vec3) -> bool:
    """Whether the plane of p, q, r separates the origin from the opposite corner, or contains that corner."""
    n = wp.cross(q - p, r - p)
    height = wp.dot(n, opposite - p)
    return wp.dot(n, p) * height >= 0.0


@wp.func
def tetrahedron_weights(p: wp.vec3, q: wp.vec3, r: wp.vec3, s: wp.vec3) -> wp.vec4:
    """Weights of the corners whose mean is nearest to the origin; all positive if the origin is inside."""
    best = wp.vec4(1.0, 1.0, 1.0, 1.0)
    nearest = float(wp.inf)
    if is_outside(p, q, r, s):
        k = triangle_weights(p, q, r)
        v = k[0] * p + k[1] * q + k[2] * r
        if wp.dot(v, v) < nearest:
            nearest = wp.dot(v, v)
            best = wp.vec4(k[0], k[1], k[2], 0.0)
    if is_outside(p, q, s, r):
        k = triangle_weights(p, q, s)
        v = k[0] * p + k[1] * q + k[2] * s
        if wp.dot(v, v) < nearest:
            nearest = wp.dot(v, v)
            best = wp.vec4(k[0], k[1], 0.0, k[2])
    if is_outside(p, r, s, q):
        k = triangle_weights(p, r, s)
        v = k[0] * p + k[1] * r + k[2] * s
        if wp.dot(v, v) < nearest:
            nearest = wp.dot(v, v)
            best = wp.vec4(k[0], 0.0, k[1], k[2])
    if is_outside(q, r, s, p):
        k = triangle_weights(q, r, s)
        v = k[0] * q + k[1] * r + k[2] * s
        if wp.dot(v, v) < nearest:
            best = wp.vec4(0.0, k[0], k[1], k[2])
    return best


@wp.func
def reduce_simplex(
    w: wp.array(dtype=wp.vec3), a: wp.array(dtype=wp.vec3), weight: wp.array(dtype=float), count: int
) -> int:
    """Keep the corners that carry the point nearest to the origin, and their weights; return their number.

    Four corners are left if the origin is inside of a tetrahedron.
    """
    k = wp.vec4(1.0, 0.0, 0.0, 0.0)
    if count == 2:
        k2 = segment_weights(w[0], w[1])
        k = wp.vec4(k2[0], k2[1], 0.0, 0.0)
    elif count == 3:
        k3 = triangle_weights(w[0], w[1], w[2])
        k = wp.vec4(k3[0], k3[1], k3[2], 0.0)
    elif count == 4:
        k = tetrahedron_weights(w[0], w[1], w[2], w[3])
    left = int(0)
    for i in range(count):
        if k[i] > 0.0:
            w[left] = w[i]
            a[left] = a[i]
            weight[left] = k[i]
            left += 1
    return left


@wp.func
def weighted_point(p: wp.array(dtype=wp.vec3), weight: wp.array(dtype=float), count: int) -> wp.vec3:
    """Weighted mean of the first points."""
    mean = wp.vec3(0.0, 0.0, 0.0)
    for i in range(count):
        mean += weight[i] * p[i]
    return mean

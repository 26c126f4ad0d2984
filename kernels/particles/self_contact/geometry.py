"""Closest points of a point and a triangle, and of two segments, as weights of their corners.

Ericson, "Real-Time Collision Detection", Morgan Kaufmann 2005, sections 5.1.5 and 5.1.9. Corners are first
expressed relative to one of them, so that small distances keep their digits far from the origin.

Stage: self-contact, distances
Called by: kernels/particles/self_contact/contact.py, kernels/particles/surface_pairs.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least parameter at which a nearest point counts as inside a segment
INSIDE = wp.constant(1.0e-6)


@wp.func
def nearest_on_triangle(p: Any, a: Any, b: Any, c: Any):
    """Weights of the corners in the nearest point of a triangle to p; exactly 0 for corners off it.

    Args:
        p: The point, vec3 of single or double precision like the others.
        a: First corner.
        b: Second corner.
        c: Third corner.
    """
    zero = p.dtype(0.0)
    one = p.dtype(1.0)
    ab = b - a
    ac = c - a
    ap = p - a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    if d1 <= zero and d2 <= zero:
        return type(p)(one, zero, zero)
    bp = p - b
    d3 = wp.dot(ab, bp)
    d4 = wp.dot(ac, bp)
    if d3 >= zero and d4 <= d3:
        return type(p)(zero, one, zero)
    vc = d1 * d4 - d3 * d2
    if vc <= zero and d1 >= zero and d3 <= zero:
        t = d1 / (d1 - d3)
        return type(p)(one - t, t, zero)
    cp = p - c
    d5 = wp.dot(ab, cp)
    d6 = wp.dot(ac, cp)
    if d6 >= zero and d5 <= d6:
        return type(p)(zero, zero, one)
    vb = d5 * d2 - d1 * d6
    if vb <= zero and d2 >= zero and d6 <= zero:
        t = d2 / (d2 - d6)
        return type(p)(one - t, zero, t)
    va = d3 * d6 - d5 * d4
    if va <= zero and d4 - d3 >= zero and d5 - d6 >= zero:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return type(p)(zero, one - t, t)
    total = va + vb + vc
    if total <= zero:  # a triangle without area, whose longest side the cases above missed
        return type(p)(one, zero, zero)
    v = vb / total
    w = vc / total
    return type(p)(one - v - w, v, w)


@wp.func
def nearest_of_segments(u: Any, v: Any, r: Any, parallel: Any):
    """Where the segments a0 + s u and b0 + t v, s and t in 0..1, are nearest to each other: (s, t, 0).

    Args:
        u: First segment, end minus start [m], vec3 of single or double precision like the others.
        v: Second segment.
        r: a0 - b0.
        parallel: Squared sine of the angle below which the segments are taken to be parallel.
    """
    zero = u.dtype(0.0)
    one = u.dtype(1.0)
    a = wp.dot(u, u)
    e = wp.dot(v, v)
    f = wp.dot(v, r)
    c = wp.dot(u, r)
    b = wp.dot(u, v)
    if a <= zero or e <= zero:
        if a > zero:
            return type(u)(wp.clamp(-c / a, zero, one), zero, zero)
        if e > zero:
            return type(u)(zero, wp.clamp(f / e, zero, one), zero)
        return type(u)(zero, zero, zero)
    denominator = a * e - b * b
    s = u.dtype(0.5)
    if denominator > parallel * a * e:
        s = wp.clamp((b * f - c * e) / denominator, zero, one)
    t = (b * s + f) / e
    if t < zero:
        t = zero
        s = wp.clamp(-c / a, zero, one)
    elif t > one:
        t = one
        s = wp.clamp((b - c) / a, zero, one)
    return type(u)(s, t, zero)


@wp.func
def is_inside(t: float) -> bool:
    """Whether a parameter lies strictly between the ends of a segment."""
    return t > INSIDE and t < 1.0 - INSIDE


@wp.func
def fine(x: wp.vec3) -> wp.vec3d:
    """A vector in double precision."""
    return wp.vec3d(wp.float64(x[0]), wp.float64(x[1]), wp.float64(x[2]))


@wp.func(inline=False)
def fine_normal(edges: bool, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3) -> wp.vec3:
    """Direction of the gap of a pair, in double precision.

    Args:
        edges: True for the edges (x0, x1), (x2, x3), False for the vertex x0 and triangle (x1, x2, x3).
        x0: First corner [m].
        x1: Second corner [m].
        x2: Third corner [m].
        x3: Fourth corner [m].
    """
    a = fine(x0)
    b = fine(x1)
    c = fine(x2)
    d = fine(x3)
    gap = wp.vec3d()
    if edges:
        st = nearest_of_segments(b - a, d - c, a - c, wp.float64(1.0e-12))
        gap = (a - c) + st[0] * (b - a) - st[1] * (d - c)
    else:
        w = nearest_on_triangle(a, b, c, d)
        gap = w[0] * (a - b) + w[1] * (a - c) + w[2] * (a - d)
    n = wp.normalize(gap)
    return wp.vec3(float(n[0]), float(n[1]), float(n[2]))

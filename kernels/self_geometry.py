"""Nearest points between a point and a triangle and between two segments, as weights of their corners.

Ericson, "Real-Time Collision Detection", Morgan Kaufmann 2005, sections 5.1.5 and 5.1.9. Corners are taken
relative to one of them first, so that small distances keep their digits far from the origin.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# part of the weights that must be exceeded for a nearest point to count as inside a segment
INSIDE = wp.constant(1.0e-6)


@wp.func
def nearest_on_triangle(p: wp.vec3, a: wp.vec3, b: wp.vec3, c: wp.vec3) -> wp.vec3:
    """Weights of the corners in the nearest point of a triangle to p; exactly 0 for corners off it."""
    ab = b - a
    ac = c - a
    ap = p - a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return wp.vec3(1.0, 0.0, 0.0)
    bp = p - b
    d3 = wp.dot(ab, bp)
    d4 = wp.dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return wp.vec3(0.0, 1.0, 0.0)
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / (d1 - d3)
        return wp.vec3(1.0 - t, t, 0.0)
    cp = p - c
    d5 = wp.dot(ab, cp)
    d6 = wp.dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return wp.vec3(0.0, 0.0, 1.0)
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / (d2 - d6)
        return wp.vec3(1.0 - t, 0.0, t)
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return wp.vec3(0.0, 1.0 - t, t)
    total = va + vb + vc
    if total <= 0.0:  # a triangle without area, whose longest side the cases above have missed
        return wp.vec3(1.0, 0.0, 0.0)
    v = vb / total
    w = vc / total
    return wp.vec3(1.0 - v - w, v, w)


@wp.func
def nearest_of_segments(u: wp.vec3, v: wp.vec3, r: wp.vec3, parallel: float) -> wp.vec2:
    """Where the segments a0 + s u and b0 + t v, s and t in 0..1, are nearest to each other: (s, t).

    Args:
        u: First segment, end minus start [m].
        v: Second segment.
        r: a0 - b0.
        parallel: Squared sine of the angle below which the segments are taken to be parallel.
    """
    a = wp.dot(u, u)
    e = wp.dot(v, v)
    f = wp.dot(v, r)
    c = wp.dot(u, r)
    b = wp.dot(u, v)
    if a <= 0.0 or e <= 0.0:
        s0 = float(0.0)
        t0 = float(0.0)
        if a > 0.0:
            s0 = wp.clamp(-c / a, 0.0, 1.0)
        elif e > 0.0:
            t0 = wp.clamp(f / e, 0.0, 1.0)
        return wp.vec2(s0, t0)
    denominator = a * e - b * b
    s = float(0.5)
    if denominator > parallel * a * e:
        s = wp.clamp((b * f - c * e) / denominator, 0.0, 1.0)
    t = (b * s + f) / e
    if t < 0.0:
        t = 0.0
        s = wp.clamp(-c / a, 0.0, 1.0)
    elif t > 1.0:
        t = 1.0
        s = wp.clamp((b - c) / a, 0.0, 1.0)
    return wp.vec2(s, t)


@wp.func
def is_inside(t: float) -> bool:
    """Whether a parameter lies between the ends of a segment and not on one of them."""
    return t > INSIDE and t < 1.0 - INSIDE

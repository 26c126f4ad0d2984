"""Derivatives of contact geometry by the poses of the bodies, in forward mode.

These are directional derivatives of `collision.contact_features.contact_geometry`, where the rules and their
source are described, along a displacement of one body or both.

Stage: linear models of steps, contacts
Called by: kernels/constraints/linear/contacts.py
Reads: FeatureView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contact_features import (
    FACE,
    HOLDER_BOTH,
    NORMAL_ACROSS,
    NORMAL_BETWEEN,
    NORMAL_OF_0,
    NORMAL_OF_1,
    NORMAL_SHARED,
    PARALLEL,
    RIM,
    ROUND,
    ContactGeometry,
    FeatureView,
    on_feature,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class Displacement:
    """A small motion of a body: a rotation about `at`, and the translation there."""

    turn: wp.vec3  # [rad]
    move: wp.vec3  # [m]
    at: wp.vec3  # [m] world


@wp.func
def displaced(m: Displacement, x: wp.vec3) -> wp.vec3:
    """Displacement of the world point x with the body."""
    return m.move + wp.cross(m.turn, x - m.at)


@wp.func
def unit_change(v: wp.vec3, change: wp.vec3) -> wp.vec3:
    """Change of v / |v|."""
    length = wp.length(v)
    n = v / length
    return (change - wp.dot(change, n) * n) / length


@wp.func
def normal_change(
    c: int,
    X0: wp.transform,
    X1: wp.transform,
    m0: Displacement,
    m1: Displacement,
    n: wp.vec3,
    features: FeatureView,
) -> wp.vec3:
    """Change of the normal n of contact c."""
    k = c
    if features.normal[c] == NORMAL_SHARED:
        k = features.partner[c]
    rule = features.normal[k]
    change = wp.vec3()
    if rule == NORMAL_OF_0:
        change = wp.cross(m0.turn, n)
    elif rule == NORMAL_OF_1:
        change = wp.cross(m1.turn, n)
    else:
        a = wp.transform_vector(X0, features.axis[k, 0])
        b = wp.transform_vector(X1, features.axis[k, 1])
        da = wp.cross(m0.turn, a)
        db = wp.cross(m1.turn, b)
        way = wp.cross(a, b)
        dway = wp.cross(da, b) + wp.cross(a, db)
        if rule == NORMAL_BETWEEN:
            y0 = wp.transform_point(X0, features.core[k, 0])
            y1 = wp.transform_point(X1, features.core[k, 1])
            gap = y0 - y1
            dgap = displaced(m0, y0) - displaced(m1, y1)
            way = gap - wp.dot(gap, a) * a - wp.dot(gap, b) * b
            dway = dgap - (wp.dot(dgap, a) + wp.dot(gap, da)) * a - wp.dot(gap, a) * da
            dway = dway - (wp.dot(dgap, b) + wp.dot(gap, db)) * b - wp.dot(gap, b) * db
        if rule == NORMAL_BETWEEN or rule == NORMAL_ACROSS:
            change = wp.sign(wp.dot(way, n)) * unit_change(way, dway)
    return change


@wp.func
def feature_change(
    c: int,
    side: int,
    X: wp.transform,
    m: Displacement,
    out: wp.vec3,
    dout: wp.vec3,
    y: wp.vec3,
    features: FeatureView,
) -> wp.vec3:
    """Change of the point y of the feature of one side that touches with the outward normal `out`."""
    kind = features.kind[c, side]
    size = features.size[c, side]
    core = wp.transform_point(X, features.core[c, side])
    change = displaced(m, y)
    if kind == RIM:
        a = wp.transform_vector(X, features.axis[c, side])
        da = wp.cross(m.turn, a)
        h = out - wp.dot(a, out) * a
        dh = dout - (wp.dot(da, out) + wp.dot(a, dout)) * a - wp.dot(a, out) * da
        u = wp.normalize(h)
        du = unit_change(h, dh)
        change = displaced(m, core) + size[0] * du + size[1] * (wp.cross(da, u) + wp.cross(a, du))
    elif kind == ROUND:
        q = wp.transform_get_rotation(X) * features.turn[c, side]
        # derivative of the surface point by the normal, in the frame of the body
        seen = wp.quat_rotate_inv(q, out)
        dseen = wp.quat_rotate_inv(q, dout - wp.cross(m.turn, out))
        scaled = wp.cw_mul(size, seen)
        moved = wp.cw_mul(size, unit_change(scaled, wp.cw_mul(size, dseen)))
        change = change + wp.quat_rotate(q, moved)
    return change


@wp.func
def touching_point(c: int, side: int, X: wp.transform, out: wp.vec3, features: FeatureView) -> wp.vec3:
    """Point of the feature of one side that touches with the outward normal `out` [m], world."""
    return on_feature(
        features.kind[c, side],
        X,
        features.core[c, side],
        features.axis[c, side],
        features.size[c, side],
        features.turn[c, side],
        out,
    )


@wp.func
def geometry_change(
    c: int,
    X0: wp.transform,
    X1: wp.transform,
    y0: wp.vec3,
    y1: wp.vec3,
    m0: Displacement,
    m1: Displacement,
    n: wp.vec3,
    features: FeatureView,
) -> ContactGeometry:
    """Changes of normal, point and distance of contact c, whose normal is n.

    Args:
        c: Contact place.
        X0: World pose of the body of side 0.
        X1: World pose of the body of side 1.
        y0: Point of the feature of side 0, see `touching_point`.
        y1: That of side 1.
        m0: Displacement of the body of side 0.
        m1: Displacement of the body of side 1.
        n: The normal.
        features: Features in contact.
    """
    dn = normal_change(c, X0, X1, m0, m1, n, features)
    dy0 = feature_change(c, 0, X0, m0, -n, -dn, y0, features)
    dy1 = feature_change(c, 1, X1, m1, n, dn, y1, features)
    x0 = y0
    x1 = y1
    dx0 = dy0
    dx1 = dy1
    if features.holder[c] == HOLDER_BOTH:
        a = wp.transform_vector(X0, features.axis[c, 0])
        b = wp.transform_vector(X1, features.axis[c, 1])
        along = wp.dot(a, wp.cross(b, n))
        if wp.abs(along) > PARALLEL:
            da = wp.cross(m0.turn, a)
            db = wp.cross(m1.turn, b)
            bn = wp.cross(b, n)
            an = wp.cross(a, n)
            dbn = wp.cross(db, n) + wp.cross(b, dn)
            dan = wp.cross(da, n) + wp.cross(a, dn)
            dalong = wp.dot(da, bn) + wp.dot(a, dbn)
            way = y1 - y0
            dway = dy1 - dy0
            slide0 = wp.dot(way, bn) / along
            slide1 = wp.dot(way, an) / along
            dslide0 = (wp.dot(dway, bn) + wp.dot(way, dbn) - slide0 * dalong) / along
            dslide1 = (wp.dot(dway, an) + wp.dot(way, dan) - slide1 * dalong) / along
            x0 = y0 + slide0 * a
            x1 = y1 + slide1 * b
            dx0 = dy0 + dslide0 * a + slide0 * da
            dx1 = dy1 + dslide1 * b + slide1 * db
    way = x0 - x1
    dway = dx0 - dx1
    gap = wp.dot(n, way)
    dgap = wp.dot(dn, way) + wp.dot(n, dway)
    if features.normal[c] == NORMAL_SHARED and features.holder[c] != HOLDER_BOTH:
        face = wp.transform_vector(X0, features.face[c])
        dface = wp.cross(m0.turn, face)
        if features.kind[c, 1] == FACE:
            face = wp.transform_vector(X1, features.face[c])
            dface = wp.cross(m1.turn, face)
        slant = wp.dot(face, n)
        gap = wp.dot(face, way) / slant
        dslant = wp.dot(dface, n) + wp.dot(face, dn)
        dgap = (wp.dot(dface, way) + wp.dot(face, dway) - gap * dslant) / slant
    step = features.radius[c, 0] - features.radius[c, 1]
    g = ContactGeometry()
    g.normal = dn
    g.distance = dgap
    if features.holder[c] == 1:
        g.point = dx1 + 0.5 * dgap * n + 0.5 * (gap - step) * dn
    else:
        g.point = dx0 - 0.5 * dgap * n - 0.5 * (gap + step) * dn
    return g

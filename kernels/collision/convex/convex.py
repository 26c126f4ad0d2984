"""Convex shapes by their support mappings.

A shape is a core extended by a radius: the core of a sphere is a point, that of a capsule a segment, and any
other shape is its own core. Distances between cores are cheaper and more accurate than between the rounded
shapes (G. van den Bergen, Collision Detection in Interactive 3D Environments, 2004, section 4.3, where the
mappings are listed as well).

Stage: narrow phase, support points of convex shapes
Called by: kernels/collision/convex/, kernels/collision/families/, kernels/collision/seams.py,
    kernels/collision/surfaces/, kernels/particles/, kernels/queries/closest_points.py
Reads: HullView, ShapeView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_SPHERE,
    KIND_HULL,
    KIND_TRIANGLE,
    HullView,
    ShapeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# hulls with more vertices are searched by hill climbing along edges
CLIMB_VERTICES = wp.constant(24)
# squared sine of the angle to the axis below which the rim of a disc counts as its centre
ALIGNED = wp.constant(1.0e-14)


@wp.struct
class Convex:
    """A convex shape, or a triangle of a surface, in its own frame."""

    kind: int  # GEO_* of a convex shape, KIND_HULL or KIND_TRIANGLE
    size: wp.vec3  # [m] scale of the shape, see GeoType
    hull: int  # index into HullView for KIND_HULL, else -1
    a: wp.vec3  # [m] corners of a triangle, counter-clockwise seen from its front
    b: wp.vec3
    c: wp.vec3


@wp.struct
class Closest:
    """Closest points of two convex shapes, or those of deepest penetration."""

    found: int  # 0 if the shapes are farther apart than the requested reach
    distance: float  # [m] negative in penetration
    normal: wp.vec3  # world, unit, from shape B to shape A
    point_a: wp.vec3  # [m] world, on the surface of A
    point_b: wp.vec3  # [m] world, on the surface of B; point_a - point_b = distance * normal


@wp.func
def convex_shape(shape: ShapeView, s: int) -> Convex:
    """Shape s, which must be convex."""
    c = Convex()
    c.kind = shape.kind[s]
    c.size = shape.geo.scale[s]
    c.hull = shape.hull[s]
    return c


@wp.func
def convex_triangle(a: wp.vec3, b: wp.vec3, c: wp.vec3) -> Convex:
    """The triangle with these corners [m], counter-clockwise seen from its front."""
    t = Convex()
    t.kind = KIND_TRIANGLE
    t.hull = -1
    t.a = a
    t.b = b
    t.c = c
    return t


@wp.func
def rounding(c: Convex) -> float:
    """Radius [m] by which the shape exceeds its core."""
    if c.kind == GEO_SPHERE or c.kind == GEO_CAPSULE:
        return c.size[0]
    return 0.0


@wp.func
def sign_of(x: float) -> float:
    """1 or -1; 1 for zero."""
    if x < 0.0:
        return -1.0
    return 1.0


@wp.func
def disc_support(radius: float, d: wp.vec3) -> wp.vec3:
    """Farthest point along d of a disc about local y; its centre if d is along y."""
    across = d[0] * d[0] + d[2] * d[2]
    if across <= ALIGNED * d[1] * d[1]:
        return wp.vec3(0.0, 0.0, 0.0)
    scale = radius / wp.sqrt(across)
    return wp.vec3(d[0] * scale, 0.0, d[2] * scale)


@wp.func
def hull_support(hulls: HullView, hull: int, d: wp.vec3, start: int) -> int:
    """Vertex of a hull farthest along d, counted from the hull's first; the search starts at `start`."""
    first = hulls.vertex_start[hull]
    count = hulls.vertex_start[hull + 1] - first
    best = int(start)
    highest = float(wp.dot(d, hulls.vertex[first + best]))
    if count <= CLIMB_VERTICES:
        for k in range(count):
            height = wp.dot(d, hulls.vertex[first + k])
            if height > highest:
                highest = height
                best = k
        return best
    # in a convex polyhedron, a vertex above all its neighbours is above all others
    came_to = int(-1)
    while came_to != best:
        came_to = best
        for k in range(hulls.neighbor_start[first + came_to], hulls.neighbor_start[first + came_to + 1]):
            vertex = hulls.neighbor[k]
            height = wp.dot(d, hulls.vertex[first + vertex])
            if height > highest:
                highest = height
                best = vertex
    return best


@wp.func
def core_support(c: Convex, d: wp.vec3) -> wp.vec3:
    """Farthest point along d of the core of a shape that is no hull."""
    if c.kind == GEO_BOX:
        return wp.vec3(sign_of(d[0]) * c.size[0], sign_of(d[1]) * c.size[1], sign_of(d[2]) * c.size[2])
    if c.kind == KIND_TRIANGLE:
        along_a = wp.dot(d, c.a)
        along_b = wp.dot(d, c.b)
        along_c = wp.dot(d, c.c)
        if along_a >= along_b and along_a >= along_c:
            return c.a
        if along_b >= along_c:
            return c.b
        return c.c
    if c.kind == GEO_CAPSULE:
        return wp.vec3(0.0, sign_of(d[1]) * c.size[1], 0.0)
    if c.kind == GEO_CYLINDER:
        return disc_support(c.size[0], d) + wp.vec3(0.0, sign_of(d[1]) * c.size[1], 0.0)
    if c.kind == GEO_CONE:
        base = disc_support(c.size[0], d) - wp.vec3(0.0, c.size[1], 0.0)
        if wp.dot(base, d) > c.size[1] * d[1]:
            return base
        return wp.vec3(0.0, c.size[1], 0.0)
    if c.kind == GEO_ELLIPSOID:
        u = wp.cw_mul(c.size, d)
        length = wp.length(u)
        if length > 0.0:
            return wp.cw_mul(c.size, u / length)
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def support(c: Convex, hulls: HullView, d: wp.vec3) -> wp.vec3:
    """Farthest point [m] along d (of any length) of the core of a shape, both in its frame."""
    if c.kind == KIND_HULL:
        return hulls.vertex[hulls.vertex_start[c.hull] + hull_support(hulls, c.hull, d, 0)]
    return core_support(c, d)


@wp.func
def flat_normal(c: Convex, d: wp.vec3) -> wp.vec3:
    """Normal of the face of a box, disc or triangle most along the unit vector d; zero if it has none."""
    if c.kind == GEO_BOX:
        if wp.abs(d[0]) > wp.abs(d[1]) and wp.abs(d[0]) > wp.abs(d[2]):
            return wp.vec3(sign_of(d[0]), 0.0, 0.0)
        if wp.abs(d[1]) > wp.abs(d[2]):
            return wp.vec3(0.0, sign_of(d[1]), 0.0)
        return wp.vec3(0.0, 0.0, sign_of(d[2]))
    if c.kind == GEO_CYLINDER or c.kind == GEO_CONE:
        return wp.vec3(0.0, sign_of(d[1]), 0.0)
    if c.kind == KIND_TRIANGLE:
        n = wp.normalize(wp.cross(c.b - c.a, c.c - c.a))
        return n * sign_of(wp.dot(n, d))
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def centre_of(c: Convex, hulls: HullView) -> wp.vec3:
    """A point [m] of the shape, in its middle unless it is a hull."""
    if c.kind == KIND_TRIANGLE:
        return (c.a + c.b + c.c) / 3.0
    if c.kind == KIND_HULL:
        first = hulls.vertex_start[c.hull]
        return 0.5 * (hulls.vertex[first] + hulls.vertex[hulls.vertex_start[c.hull + 1] - 1])
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def extent_of(c: Convex, hulls: HullView) -> float:
    """Rough length [m] of the shape, to distinguish large shapes from small ones."""
    if c.kind == KIND_TRIANGLE:
        return wp.max(wp.length(c.b - c.a), wp.length(c.c - c.a))
    if c.kind == KIND_HULL:
        first = hulls.vertex_start[c.hull]
        return wp.length(hulls.vertex[first] - hulls.vertex[hulls.vertex_start[c.hull + 1] - 1])
    if c.kind == GEO_SPHERE:
        return 0.0
    return wp.max(wp.max(c.size[0], c.size[1]), c.size[2])

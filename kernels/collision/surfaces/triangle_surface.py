"""Triangles of a surface with their edges, and the directions in which contacts may push.

A triangle is part of a surface. A normal found from one triangle alone may lean over an edge at which the
neighbouring triangle continues the surface, and bodies would then catch on edges inside flat faces. At an
edge, the surface pushes in the directions between the normals of both triangles, its Voronoi region, and only
along the face normal if the edge is flat or concave (Voronoi regions: C. Ericson, "Real-Time Collision
Detection", 2005, sections 5.1.5 and 9.5).

Stage: narrow phase, meshes
Called by: kernels/collision/families/mesh.py, kernels/collision/families/mesh_mesh.py,
    kernels/collision/families/sdf.py, kernels/collision/surfaces/triangle_distance.py,
    kernels/particles/contacts.py, kernels/particles/point_distance.py
Reads: opposite
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Convex, convex_triangle

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# roles that a surface can have
ROLE_SHEET = wp.constant(0)  # two-sided: open, or not consistently wound
ROLE_SOLID = wp.constant(1)  # closed: pushes outwards
ROLE_TERRAIN = wp.constant(2)  # a height field: pushes upwards

# sine of the angle at an edge up to which it counts as flat
FLAT_EDGE = wp.constant(2.0e-4)
# sine below which a normal does not lean over an edge, and slack of its cosine
LEANING = wp.constant(1.0e-4)
# cosine to the allowed normal above which a normal found is allowed as it is
ALLOWED = wp.constant(0.9999)
# share of the distance to a point within which something else may hide it
BEFORE = wp.constant(0.999)
# twice the area over the longest edge squared below which a triangle is a segment
SLIVER = wp.constant(1.0e-6)


@wp.struct
class SurfaceView:
    """Data of meshes, height fields and distance fields for contacts, besides their `wp.Mesh` or `wp.Volume`.

    S shapes, T triangles of all different meshes, N sample points of all different distance fields.
    """

    role: wp.array(dtype=int)  # (S) ROLE_* of meshes and height fields
    triangle_start: wp.array(dtype=int)  # (S) first triangle of the shape's mesh in the arrays below, or -1
    opposite: wp.array(dtype=int)  # (3 T) corner, across edge k, of the neighbour; -1 at a border
    owned: wp.array(dtype=int)  # (T) bits 0..2: corners, bits 3..5: edges, see edge_table
    sample_start: wp.array(dtype=int)  # (S) first point on the surface of a distance field
    sample_count: wp.array(dtype=int)  # (S)
    sample: wp.array(dtype=wp.vec3)  # (N) [m] before scale


@wp.struct
class Facing:
    """A triangle with its outward normal, and the range of contact normals at its edges."""

    triangle: Convex
    normal: wp.vec3  # unit
    across: wp.mat33  # row k: unit vector in the plane, out of edge k (from corner k to the next)
    cosine: wp.vec3  # of the angle by which a normal may lean over each edge
    sine: wp.vec3
    flat: int  # bits of the edges at which the surface continues flat
    open: int  # 1 if a normal may lean over some edge
    valid: int  # 0 for slivers


@wp.func
def mirrored(scale: wp.vec3) -> float:
    """-1 if a scale mirrors, 1 if it does not, 0 if it is flat."""
    return wp.sign(scale[0]) * wp.sign(scale[1]) * wp.sign(scale[2]) * float(is_full(scale))


@wp.func
def is_full(scale: wp.vec3) -> bool:
    """Whether a surface stays three-dimensional under a scale."""
    return scale[0] != 0.0 and scale[1] != 0.0 and scale[2] != 0.0


@wp.func
def surface_point(mesh: wp.uint64, scale: wp.vec3, origin: wp.vec3, vertex: int) -> wp.vec3:
    """Vertex of a mesh relative to a point of the shape's frame [m]."""
    return wp.cw_mul(wp.mesh_get(mesh).points[vertex], scale) - origin


@wp.func
def surface_triangle(mesh: wp.uint64, scale: wp.vec3, origin: wp.vec3, t: int) -> Convex:
    """Triangle t of a mesh, its corners relative to a point of the shape's frame [m]."""
    indices = wp.mesh_get(mesh).indices
    return convex_triangle(
        surface_point(mesh, scale, origin, indices[3 * t]),
        surface_point(mesh, scale, origin, indices[3 * t + 1]),
        surface_point(mesh, scale, origin, indices[3 * t + 2]),
    )


@wp.func
def corner_of(c: Convex, k: int) -> wp.vec3:
    """Corner k of a triangle."""
    p = c.a
    if k == 1:
        p = c.b
    elif k == 2:
        p = c.c
    return p


@wp.func
def bare_triangle(triangle: Convex, winding: float) -> Facing:
    """A triangle with its normal, without its edges; `winding` is -1 if it is clockwise seen from outside."""
    f = Facing()
    f.triangle = triangle
    e0 = triangle.b - triangle.a
    e1 = triangle.c - triangle.b
    e2 = triangle.a - triangle.c
    n = winding * wp.cross(e0, -e2)
    area = wp.length(n)
    longest = wp.max(wp.max(wp.dot(e0, e0), wp.dot(e1, e1)), wp.dot(e2, e2))
    if area > SLIVER * longest:
        f.valid = 1
        f.normal = n / area
    return f


@wp.func(inline=False)
def with_edges(
    bare: Facing, mesh: wp.uint64, scale: wp.vec3, origin: wp.vec3, opposite: wp.array(dtype=int), first: int
) -> Facing:
    """The triangle with the normals allowed at its edges; `opposite` has those from entry `first` on."""
    f = bare
    for k in range(3):
        p = corner_of(f.triangle, k)
        m = wp.normalize(wp.cross(corner_of(f.triangle, (k + 1) % 3) - p, f.normal))
        if wp.dot(m, corner_of(f.triangle, (k + 2) % 3) - p) > 0.0:
            m = -m
        f.across[k] = m
        f.cosine[k] = -1.0
        vertex = opposite[first + k]
        if vertex >= 0:
            o = surface_point(mesh, scale, origin, vertex) - p
            x = wp.dot(o, m)
            down = -wp.dot(o, f.normal)
            r = wp.sqrt(x * x + down * down)
            flat = x > 0.0 and wp.abs(down) <= FLAT_EDGE * r
            f.cosine[k] = 1.0
            if flat:
                f.flat = f.flat | (1 << k)
            elif down > 0.0:
                f.cosine[k] = x / r
                f.sine[k] = down / r
        if f.cosine[k] < 1.0:
            f.open = 1
    return f


@wp.func(inline=False)
def allowed_normal(f: Facing, normal: wp.vec3) -> wp.vec3:
    """The direction nearest to a unit normal, edge by edge, in which the surface may push at the triangle."""
    n = normal
    for k in range(3):
        m = f.across[k]
        lean = wp.dot(n, m)
        if lean > LEANING:
            up = wp.dot(n, f.normal)
            r = wp.sqrt(lean * lean + up * up)
            if up < (f.cosine[k] - LEANING) * r:
                n += (r * f.cosine[k] - up) * f.normal + (r * f.sine[k] - lean) * m
    return wp.normalize(n)


@wp.func(inline=False)
def nearest_on_triangle(t: Convex, p: wp.vec3) -> wp.vec3:
    """Point of a triangle nearest to p (C. Ericson, Real-Time Collision Detection, 2005, section 5.1.5)."""
    ab = t.b - t.a
    ac = t.c - t.a
    ap = p - t.a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return t.a
    bp = p - t.b
    d3 = wp.dot(ab, bp)
    d4 = wp.dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return t.b
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return t.a + (d1 / (d1 - d3)) * ab
    cp = p - t.c
    d5 = wp.dot(ab, cp)
    d6 = wp.dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return t.c
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return t.a + (d2 / (d2 - d6)) * ac
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        return t.b + ((d4 - d3) / ((d4 - d3) + (d5 - d6))) * (t.c - t.b)
    scale = 1.0 / (va + vb + vc)
    return t.a + (vb * scale) * ab + (vc * scale) * ac


@wp.func
def is_hidden(mesh: wp.uint64, scale: wp.vec3, viewer: wp.vec3, p: wp.vec3, t: int) -> bool:
    """Whether a surface, apart from triangle t at p, lies between two points of the shape's frame [m]."""
    start = wp.cw_div(viewer, scale)
    way = wp.cw_div(p, scale) - start
    ray = wp.mesh_query_ray(mesh, start, way, BEFORE)
    hidden = bool(False)
    if ray.result:
        hidden = ray.face != t
    return hidden


@wp.func
def height_along(f: Facing, p: wp.vec3, n: wp.vec3, tolerance: float) -> float:
    """Gap [m] from the triangle to p along n; infinite if the line through p misses the triangle.

    Args:
        f: The triangle.
        p: The point [m].
        n: Unit direction.
        tolerance: Length [m] by which the line may pass outside.
    """
    slope = wp.dot(n, f.normal)
    if slope <= LEANING:
        return wp.inf
    gap = wp.dot(p - f.triangle.a, f.normal) / slope
    q = p - gap * n
    for k in range(3):
        if wp.dot(q - corner_of(f.triangle, k), f.across[k]) > tolerance:
            return wp.inf
    return gap

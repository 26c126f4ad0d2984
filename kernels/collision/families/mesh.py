"""Contact points of convex shapes with triangle meshes and height fields.

The triangles near the shape are taken from the mesh's bounding volume hierarchy, those of a height field from
the cells below it, and treated one by one, as pairs of convex shapes;
kernels/collision/surfaces/triangle_surface.py determines the directions in which each of them may push. All
points of a pair form one manifold.

Everything is computed in the axes of the mesh with the origin at the convex shape: on a wide terrain,
rounding of the shape's coordinates would otherwise affect the gaps.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, SurfaceView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.clip import (
    CLIP_ROOM,
    CODE_B,
    CODE_BITS,
    CODE_CLOSEST,
    CODE_CROSSING,
    flat,
)
from newtonsim.kernels.collision.convex.convex import (
    Closest,
    Convex,
    centre_of,
    convex_shape,
    extent_of,
    rounding,
    support,
)
from newtonsim.kernels.collision.convex.gjk import closest_points
from newtonsim.kernels.collision.convex.manifold_points import GAP_NOISE, OUTSIDE, facing, hashed, offer_point
from newtonsim.kernels.collision.pairs.bounds import Bounds
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH, ManifoldView, PairView
from newtonsim.kernels.collision.surfaces.height_grid import height_grid, surface_at
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    ALLOWED,
    ROLE_SHEET,
    ROLE_TERRAIN,
    Facing,
    SurfaceView,
    allowed_normal,
    bare_triangle,
    height_along,
    is_full,
    is_hidden,
    mirrored,
    nearest_on_triangle,
    surface_triangle,
    with_edges,
)
from newtonsim.kernels.views.shapes import GEO_SPHERE, HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# share of a shape's width behind a triangle above which the shape counts as being on its other side
BEHIND = wp.constant(0.75)
# least cosine to the way out of a solid of a triangle that pushes a shape deep inside
OUTWARD = wp.constant(0.5)
FAR = wp.constant(1.0e30)
# share of a cell by which a box is widened against rounding, and cells that are visited one by one
EDGE = wp.constant(1.0e-3)
MOST_CELLS = wp.constant(400)

# longest distance out of a triangle in a direction other than the shortest: over the shortest, and over the
# size
LONGER = wp.constant(4.0)
SHORT = wp.constant(0.02)


@wp.struct
class Meeting:
    """A convex shape and a surface, in the axes of the surface with the origin at the shape."""

    pair: int
    a: Convex
    X_a: wp.transform  # rotation only
    X_world: wp.transform  # these axes in the world
    centre: wp.vec3  # [m] of the shape
    size: float  # [m] rough length of the smaller of both
    reach: float  # [m]
    mesh: wp.uint64
    scale: wp.vec3
    origin: wp.vec3  # [m] position of the shape in the frame of the surface
    role: int
    winding: float  # -1 if the scale mirrors
    first: int  # triangle 0 in the arrays of SurfaceView
    deep: int  # 1 if the shape's centre is inside of the solid
    way_out: wp.vec3  # unit, if deep: from the centre to the surface
    surface: wp.vec3  # [m] if deep: point where the centre would leave


@wp.func
def farthest(m: Meeting, hulls: HullView, d: wp.vec3) -> wp.vec3:
    """Farthest point [m] of the convex shape along a unit direction."""
    local = wp.quat_rotate_inv(wp.transform_get_rotation(m.X_a), d)
    return wp.transform_point(m.X_a, support(m.a, hulls, local) + rounding(m.a) * local)


@wp.func
def meeting_bounds(m: Meeting, hulls: HullView) -> Bounds:
    """Box, in the coordinates of the unscaled mesh, in which triangles within reach lie."""
    lower = wp.vec3()
    upper = wp.vec3()
    for i in range(3):
        axis = wp.vec3()
        axis[i] = 1.0
        lower[i] = farthest(m, hulls, -axis)[i] + m.origin[i] - m.reach
        upper[i] = farthest(m, hulls, axis)[i] + m.origin[i] + m.reach
    if m.role == ROLE_TERRAIN and m.deep == 1:
        # shapes below the surface must come up again
        upper[1] = wp.inf
    lower = wp.cw_div(lower, m.scale)
    upper = wp.cw_div(upper, m.scale)
    box = Bounds()
    box.lower = wp.min(lower, upper)
    box.upper = wp.max(lower, upper)
    return box


@wp.func
def axis_number(n: wp.vec3) -> int:
    """Which of the six directions of the axes is nearest to n."""
    k = int(0)
    if wp.abs(n[1]) > wp.abs(n[k]):
        k = 1
    if wp.abs(n[2]) > wp.abs(n[k]):
        k = 2
    return 2 * k + int(n[k] > 0.0)


@wp.func
def feature_number(m: Meeting, t: int, code: int, n: wp.vec3) -> int:
    """Number of a contact feature, independent of the triangle if the feature is.

    A corner of the shape keeps its number as it moves over a surface, and a corner or edge of the surface has
    the same number in all triangles that share it.
    """
    indices = wp.mesh_get(m.mesh).indices
    if code >= CODE_CLOSEST:
        return hashed(t + 1, code)
    if code >= CODE_CROSSING:
        k = code & ((1 << CODE_BITS) - 1)
        i = indices[3 * t + k]
        j = indices[3 * t + (k + 1) % 3]
        label = (code - CODE_CROSSING) >> CODE_BITS
        return hashed(hashed(wp.min(i, j), wp.max(i, j)), CODE_CROSSING + label)
    if code >= CODE_B:
        return hashed(indices[3 * t + code - CODE_B], CODE_B)
    return hashed(0, 8 * code + axis_number(n))


@wp.func(inline=False)
def offer(m: Meeting, t: int, code: int, p: wp.vec3, n: wp.vec3, gap: float, manifolds: ManifoldView):
    """Offer a point on the convex shape to the manifold of the pair."""
    point = wp.transform_point(m.X_world, p)
    normal = wp.transform_vector(m.X_world, n)
    offer_point(manifolds, m.pair, point, normal, gap, feature_number(m, t, code, n), m.size)


@wp.func
def inside_flat_part(f: Facing, code: int) -> bool:
    """Whether a corner of an overlap is one only because a flat face is made of several triangles."""
    if code >= CODE_CROSSING:
        return (f.flat >> (code & ((1 << CODE_BITS) - 1))) & 1 == 1
    if code >= CODE_B:
        k = code - CODE_B
        return (f.flat >> k) & (f.flat >> ((k + 2) % 3)) & 1 == 1
    return False


@wp.func
def sphere_on_triangle(radius: float, f: Facing, reach: float) -> Closest:
    """Closest points of a sphere about the origin and a triangle."""
    c = Closest()
    q = nearest_on_triangle(f.triangle, wp.vec3(0.0, 0.0, 0.0))
    d = wp.length(q)
    c.distance = d - radius
    if c.distance <= reach:
        c.found = 1
        c.normal = f.normal
        if d > 0.0:
            c.normal = -q / d
        c.point_a = -radius * c.normal
        c.point_b = q
    return c


@wp.func
def pushing(m: Meeting, f: Facing, hulls: HullView, low: float, high: float) -> Closest:
    """Direction in which a triangle pushes the shape.

    Args:
        m: Shape and surface.
        f: The triangle.
        hulls: Vertices of hulls.
        low: Height [m] of the shape's lowest point over the triangle's plane.
        high: Height [m] of its highest point.

    Returns:
        `found` is 0 if it does not push, 1 if `normal` and the points are those of the closest points, 2 if
        only `normal` is valid.
    """
    none = Closest()
    outward = m.deep == 1 and wp.dot(f.normal, m.way_out) > OUTWARD
    c = Closest()
    c.found = 2
    c.normal = f.normal
    if f.open == 1 and high > 0.0:
        if m.a.kind == GEO_SPHERE:
            c = sphere_on_triangle(m.a.size[0], f, m.reach)
        else:
            c = closest_points(m.a, m.X_a, f.triangle, wp.transform_identity(), hulls, m.reach)
        if c.found == 0:
            return none
        n = c.normal
        if c.distance <= 0.0 and wp.dot(n, f.normal) < 0.0:
            n = f.normal
        n = allowed_normal(f, n)
        if wp.dot(n, c.normal) < ALLOWED:
            if c.distance > 0.0 and wp.dot(c.normal, f.normal) < 0.0:
                # seen from behind
                return none
            c.found = 2
            c.normal = n
    if c.found == 2 and not outward and -low > BEHIND * (high - low):
        return none
    if m.role == ROLE_TERRAIN and c.normal[1] < 0.0:
        return none
    return c


@wp.func(inline=False)
def touch_triangle(m: Meeting, hulls: HullView, surfaces: SurfaceView, t: int, manifolds: ManifoldView):
    """Offer the points at which the shape touches triangle t."""
    triangle = surface_triangle(m.mesh, m.scale, m.origin, t)
    f = bare_triangle(triangle, m.winding)
    if f.valid == 0:
        return
    if m.role == ROLE_SHEET and wp.dot(f.normal, m.centre - triangle.a) < 0.0:
        f.normal = -f.normal
    if m.role == ROLE_TERRAIN and f.normal[1] < 0.0:
        f.normal = -f.normal
    lowest = farthest(m, hulls, -f.normal)
    low = wp.dot(f.normal, lowest - triangle.a)
    if low > m.reach:
        return
    high = wp.dot(f.normal, farthest(m, hulls, f.normal) - triangle.a)
    if high <= 0.0 and m.role != ROLE_SHEET and m.deep == 0:
        return
    if m.role == ROLE_SHEET and low < 0.0:
        # folds of a sheet are touched from the side that faces the shape
        seen = nearest_on_triangle(triangle, m.centre)
        if is_hidden(m.mesh, m.scale, m.centre + m.origin, seen + m.origin, t):
            return
    f = with_edges(f, m.mesh, m.scale, m.origin, surfaces.opposite, 3 * (m.first + t))
    c = pushing(m, f, hulls, low, high)
    if c.found == 0:
        return
    n = c.normal
    exact = c.found == 1
    # in a direction other than the shortest one, a much longer distance is ignored: the faces at the ends of
    # a rod that lies across a solid do not push it out lengthwise
    deepest = float(wp.inf)
    if not exact and f.open == 1:
        deepest = LONGER * wp.max(-c.distance, 0.0) + SHORT * m.size
    x = wp.zeros(shape=CLIP_ROOM, dtype=wp.vec3)
    code = wp.zeros(shape=CLIP_ROOM, dtype=int)
    found = facing(m.a, m.X_a, triangle, wp.transform_identity(), hulls, c, x, code)
    least = float(wp.inf)
    for k in range(found.count):
        gap = x[k][2]
        least = wp.min(least, gap)
        if gap <= m.reach and -gap <= deepest and not inside_flat_part(f, code[k]):
            height = found.a.height + wp.dot(found.a.slope, flat(x[k]))
            p = found.frame.origin + wp.transpose(found.frame.axes) * wp.vec3(x[k][0], x[k][1], height)
            offer(m, t, code[k], p, n, gap, manifolds)
    noise = GAP_NOISE * found.size
    p = c.point_a
    gap = c.distance
    if not exact:
        # the lowest point of the shape need not be on the face that is best aligned
        p = farthest(m, hulls, -n)
        gap = height_along(f, p, n, OUTSIDE * m.size)
    if gap < least - noise and gap <= m.reach and -gap <= deepest:
        offer(m, t, CODE_CLOSEST, p, n, gap, manifolds)


@wp.func
def cells_of(mesh: wp.uint64, box: Bounds) -> wp.vec4i:
    """Columns of a height field's cells under a box, first and end, and their rows likewise."""
    grid = height_grid(mesh)
    begin = wp.vec2((box.lower[0] - grid.corner[0]) / grid.dx, (box.lower[2] - grid.corner[2]) / grid.dz)
    end = wp.vec2((box.upper[0] - grid.corner[0]) / grid.dx, (box.upper[2] - grid.corner[2]) / grid.dz)
    cells = wp.vec4i(0, 0, 0, 0)
    for k in range(2):
        most = float(grid.columns - 1)
        if k == 1:
            most = float(grid.rows - 1)
        # non-finite numbers yield an empty range
        if end[k] >= -EDGE and begin[k] <= most + EDGE:
            cells[2 * k] = int(wp.clamp(begin[k] - EDGE, 0.0, most))
            cells[2 * k + 1] = int(wp.min(wp.clamp(end[k] + EDGE, 0.0, most) + 1.0, most))
    return cells


@wp.func
def touch_cells(
    m: Meeting, hulls: HullView, surfaces: SurfaceView, box: Bounds, cells: wp.vec4i, manifolds: ManifoldView
):
    """Offer the points at which the shape touches the triangles of some cells within a box."""
    points = wp.mesh_get(m.mesh).points
    columns = height_grid(m.mesh).columns
    for j in range(cells[2], cells[3]):
        for i in range(cells[0], cells[1]):
            k = j * columns + i
            near = points[k][1]
            right = points[k + 1][1]
            below = points[k + columns][1]
            across = points[k + columns + 1][1]
            low = wp.min(right, below)
            high = wp.max(right, below)
            t = 2 * (j * (columns - 1) + i)
            if wp.min(low, near) <= box.upper[1] and wp.max(high, near) >= box.lower[1]:
                touch_triangle(m, hulls, surfaces, t, manifolds)
            if wp.min(low, across) <= box.upper[1] and wp.max(high, across) >= box.lower[1]:
                touch_triangle(m, hulls, surfaces, t + 1, manifolds)


@wp.func
def find_way_out(m: Meeting) -> Meeting:
    """Record whether the shape's centre is inside the solid, and the direction to the nearest face.

    A terrain is solid below its surface, and the direction out is up.
    """
    noted = m
    place = m.centre + m.origin
    if m.role == ROLE_TERRAIN:
        ground = surface_at(m.mesh, place[0] / m.scale[0], place[2] / m.scale[2])
        depth = ground.height * m.scale[1] - place[1]
        if ground.triangle >= 0 and depth >= 0.0:
            noted.deep = 1
            noted.way_out = wp.vec3(0.0, 1.0, 0.0)
            noted.surface = m.centre + wp.vec3(0.0, depth, 0.0)
        return noted
    query = wp.mesh_query_point(m.mesh, wp.cw_div(place, m.scale), FAR)
    if query.result:
        if query.sign < 0.0:
            f = bare_triangle(surface_triangle(m.mesh, m.scale, m.origin, query.face), m.winding)
            q = wp.cw_mul(wp.mesh_eval_position(m.mesh, query.face, query.u, query.v), m.scale)
            noted.deep = f.valid
            noted.way_out = f.normal
            noted.surface = q - m.origin
    return noted


@wp.func
def push_out(m: Meeting, hulls: HullView, manifolds: ManifoldView):
    """Offer a point that leads out of the solid if no triangle does."""
    out = wp.transform_vector(m.X_world, m.way_out)
    for k in range(manifolds.count[m.pair]):
        if wp.dot(manifolds.normal[m.pair, k], out) > OUTWARD:
            return
    p = farthest(m, hulls, -m.way_out)
    gap = wp.dot(m.way_out, p - m.surface)
    offer(m, -1, CODE_CLOSEST, p, m.way_out, gap, manifolds)


@wp.func
def meet(
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    surfaces: SurfaceView,
    shape_X: wp.array(dtype=wp.transform),
    pair: int,
) -> Meeting:
    """Shape and surface of a pair."""
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    p = wp.transform_get_translation(shape_X[s0])
    q = wp.transform_get_rotation(shape_X[s1])
    inverse = wp.quat_inverse(q)
    m = Meeting()
    m.pair = pair
    m.a = convex_shape(shape, s0)
    m.X_a = wp.transform(wp.vec3(), wp.normalize(inverse * wp.transform_get_rotation(shape_X[s0])))
    m.X_world = wp.transform(p, q)
    m.centre = wp.transform_point(m.X_a, centre_of(m.a, hulls))
    m.reach = pairs.reach[pair]
    m.mesh = shape.geo.source[s1]
    m.scale = shape.geo.scale[s1]
    m.origin = wp.quat_rotate(inverse, p - wp.transform_get_translation(shape_X[s1]))
    m.role = surfaces.role[s1]
    m.winding = mirrored(m.scale)
    m.first = surfaces.triangle_start[s1]
    extent = wp.max(extent_of(m.a, hulls), rounding(m.a))
    m.size = wp.min(extent, wp.length(shape.local_upper[s1] - shape.local_lower[s1]))
    return m


@wp.func(inline=False)
def find_mesh_points(
    pair: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """Points of a convex shape within reach of a mesh or height field."""
    s1 = pairs.shape1[pair]
    if surfaces.triangle_start[s1] < 0 or not is_full(shape.geo.scale[s1]):
        return
    m = meet(pairs, shape, hulls, surfaces, shape_X, pair)
    if m.role != ROLE_SHEET:
        m = find_way_out(m)
    box = meeting_bounds(m, hulls)
    if m.role == ROLE_TERRAIN:
        cells = cells_of(m.mesh, box)
        if (cells[1] - cells[0]) * (cells[3] - cells[2]) <= MOST_CELLS:
            touch_cells(m, hulls, surfaces, box, cells, manifolds)
            if m.deep == 1:
                push_out(m, hulls, manifolds)
            return
    query = wp.mesh_query_aabb(m.mesh, box.lower, box.upper)
    t = int(0)
    while wp.mesh_query_aabb_next(query, t):
        touch_triangle(m, hulls, surfaces, t, manifolds)
    if m.deep == 1:
        push_out(m, hulls, manifolds)


@wp.kernel
def collide_mesh(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """One thread per pair place: points of a convex shape within reach of a mesh or height field."""
    pair = first + wp.tid()
    # a function of its own: Warp clears all local variables at the start of the one that they are in
    if pairs.family[pair] == FAMILY_MESH:
        find_mesh_points(pair, pairs, shape, hulls, shape_X, manifolds, surfaces)

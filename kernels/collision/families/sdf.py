"""Contact points of shapes with signed distance fields.

The point of a convex shape that is deepest in the field is found by descent along the gradient, projected
onto the shape, from several seeds (M. Macklin et al., "Local optimization for robust signed distance field
collision", Proceedings of the ACM on Computer Graphics 3(1), 2020). Vertices of the shape and points of the
field's own surface that lie against the facing side of the shape complete the manifold. Meshes and other
fields are represented by their vertices, edges and surface points.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, SurfaceView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Convex, convex_shape, disc_support, extent_of, rounding
from newtonsim.kernels.collision.convex.facets import FACET_SIZE, Facet, contact_frame, support_facet
from newtonsim.kernels.collision.convex.manifold_points import hashed, offer_point
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_SDF, ManifoldView, PairView
from newtonsim.kernels.collision.surfaces.fields import Field, Level, level_at, project
from newtonsim.kernels.collision.surfaces.surfaces import convex_bounds
from newtonsim.kernels.collision.surfaces.triangle_distance import Surface, level_of_surface, surface_of
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    SurfaceView,
    corner_of,
    surface_triangle,
)
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_HFIELD,
    GEO_MESH,
    GEO_SDF,
    GEO_SPHERE,
    KIND_HULL,
    HullView,
    ShapeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

DESCENT_STEPS = wp.constant(24)
# factor on the step after one that did not descend
SHORTER = wp.constant(0.3)
# shortest step, and least gain of a step, over the size of the shape
SHORTEST = wp.constant(1.0e-4)
LEAST_GAIN = wp.constant(1.0e-6)
SEEDS = wp.constant(6)
# cosine between directions of push above which a seed found nothing new
SAME_PUSH = wp.constant(0.9)
# largest number of hull vertices that are tested
HULL_VERTICES = wp.constant(64)
RIM_POINTS = wp.constant(8)
# cosine between the surface normal at a sample and the direction of push below which the sample faces
# elsewhere
LOOKING = wp.constant(0.5)
# golden-section steps to find the deepest point of an edge
EDGE_STEPS = wp.constant(12)
GOLDEN = wp.constant(0.618034)
# least depth of a point below the adjacent vertices, over the size, for a separate point
DEEPER = wp.constant(1.0e-3)
# numbers that tell features apart
OF_DESCENT = wp.constant(1)
OF_VERTEX = wp.constant(2)
OF_SAMPLE = wp.constant(3)
OF_OTHER_SAMPLE = wp.constant(4)
OF_EDGE = wp.constant(5)


@wp.struct
class Approach:
    """A distance field in a test against another shape."""

    pair: int
    field: Field
    reach: float  # [m]
    size: float  # [m] of the smaller of both shapes
    swapped: int  # 1 if the field is that of shape 0


@wp.func(inline=False)
def offer_level(m: Approach, p: wp.vec3, radius: float, level: Level, feature: int, manifolds: ManifoldView):
    """Offer the surface of a ball of the given radius [m] about p, a point of the field's frame."""
    gap = level.value - radius
    if gap <= m.reach:
        n = wp.transform_vector(m.field.X, level.slope)
        point = wp.transform_point(m.field.X, p) - radius * n
        if m.swapped == 1:
            point -= gap * n
            n = -n
        offer_point(manifolds, m.pair, point, n, gap, feature, m.size)


@wp.func(inline=False)
def nearest_in(core: Convex, X: wp.transform, p: wp.vec3, hulls: HullView) -> wp.vec3:
    """Point of a convex shape nearest to p; of a capsule its axis counts."""
    q = wp.transform_point(wp.transform_inverse(X), p)
    size = core.size
    if core.kind == GEO_SPHERE:
        length = wp.length(q)
        if length > size[0]:
            q *= size[0] / length
    elif core.kind == GEO_CAPSULE:
        q = wp.vec3(0.0, wp.clamp(q[1], -size[1], size[1]), 0.0)
    elif core.kind == GEO_BOX:
        q = wp.min(wp.max(q, -size), size)
    elif core.kind == GEO_CYLINDER:
        across = wp.length(wp.vec2(q[0], q[2]))
        if across > size[0]:
            q = wp.vec3(q[0] * size[0] / across, q[1], q[2] * size[0] / across)
        q[1] = wp.clamp(q[1], -size[1], size[1])
    else:
        return project(core, X, p, hulls)
    return wp.transform_point(X, q)


@wp.func(inline=False)
def descend(
    field: Field, core: Convex, X: wp.transform, start: wp.vec3, size: float, hulls: HullView
) -> wp.vec3:
    """Point of the shape where the field is locally least, from a starting point of the shape.

    While the two are separated, a step as long as the field's value is the projection onto its surface.
    """
    x = start
    here = level_at(field, x)
    step = wp.max(wp.abs(here.value), size)
    for _k in range(DESCENT_STEPS):
        if step < SHORTEST * size:
            break
        y = nearest_in(core, X, x - step * here.slope, hulls)
        ahead = level_at(field, y)
        if ahead.value < here.value - LEAST_GAIN * size:
            x = y
            here = ahead
        else:
            step *= SHORTER
    return x


@wp.func
def vertex_count(core: Convex, hulls: HullView) -> int:
    """Number of tested vertices of a convex shape: corners, ends, and points of the rims."""
    n = int(0)
    if core.kind == GEO_BOX:
        n = 8
    elif core.kind == GEO_CAPSULE:
        n = 2
    elif core.kind == GEO_CYLINDER:
        n = 2 * RIM_POINTS
    elif core.kind == GEO_CONE:
        n = RIM_POINTS + 1
    elif core.kind == KIND_HULL:
        n = wp.min(HULL_VERTICES, hulls.vertex_start[core.hull + 1] - hulls.vertex_start[core.hull])
    return n


@wp.func
def vertex_of(core: Convex, hulls: HullView, k: int, down: wp.vec3) -> wp.vec3:
    """Vertex k in the frame of the shape; the first of a rim is the one farthest along `down`."""
    size = core.size
    p = wp.vec3()
    if core.kind == GEO_BOX:
        p = wp.vec3(
            size[0] * float(2 * (k & 1) - 1),
            size[1] * float((k & 2) - 1),
            size[2] * (0.5 * float(k & 4) - 1.0),
        )
    elif core.kind == GEO_CAPSULE:
        p[1] = size[1] * float(2 * k - 1)
    elif core.kind == KIND_HULL:
        p = hulls.vertex[hulls.vertex_start[core.hull] + k]
    elif core.kind == GEO_CONE and k == RIM_POINTS:
        p[1] = size[1]
    else:
        lowest = disc_support(size[0], down)
        if wp.length_sq(lowest) == 0.0:
            lowest[0] = size[0]
        angle = 2.0 * wp.pi * float(k % RIM_POINTS) / float(RIM_POINTS)
        p = wp.quat_rotate(wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), angle), lowest)
        p[1] = size[1] * float(2 * (k / RIM_POINTS) - 1)
    return p


@wp.func
def seed_point(core: Convex, k: int) -> wp.vec3:
    """Starting point k of further descents, in the frame of the shape."""
    p = wp.vec3()
    p[k % 3] = float(1 - 2 * (k / 3)) * wp.max(wp.max(core.size[0], core.size[1]), core.size[2])
    return p


@wp.func
def covers(facet: Facet, corner: wp.array(dtype=wp.vec3), place: wp.vec3) -> bool:
    """Whether a face covers a point of the contact frame."""
    inside = bool(True)
    for j in range(facet.count):
        p = corner[j]
        e = corner[(j + 1) % facet.count] - p
        if facet.turn * (e[0] * (place[1] - p[1]) - e[1] * (place[0] - p[0])) < 0.0:
            inside = False
    return inside


@wp.func(inline=False)
def try_samples_on_face(
    m: Approach,
    a: Convex,
    X: wp.transform,
    deepest: wp.vec3,
    n: wp.vec3,
    surfaces: SurfaceView,
    field_shape: int,
    hulls: HullView,
    manifolds: ManifoldView,
):
    """Offer points of the field's surface that lie against the face of the shape that looks along -n."""
    corner = wp.zeros(shape=FACET_SIZE, dtype=wp.vec3)
    label = wp.zeros(shape=FACET_SIZE, dtype=int)
    frame = contact_frame(deepest, n)
    facet = support_facet(a, X, hulls, frame, -1.0, corner, label)
    if facet.count < 3:
        return
    box = convex_bounds(a, hulls, X)
    spread = wp.vec3(m.reach, m.reach, m.reach)
    box.lower -= spread
    box.upper += spread
    normal = wp.transform_vector(m.field.X, n)
    first = surfaces.sample_start[field_shape]
    for i in range(first, first + surfaces.sample_count[field_shape]):
        p = m.field.scale * surfaces.sample[i]
        if wp.min(p, box.lower) == box.lower and wp.max(p, box.upper) == box.upper:
            place = frame.axes * (p - frame.origin)
            height = facet.height + facet.slope[0] * place[0] + facet.slope[1] * place[1]
            gap = height - place[2]
            if gap <= m.reach and covers(facet, corner, place):
                if wp.dot(level_at(m.field, p).slope, n) > LOOKING:
                    point = wp.transform_point(m.field.X, p + gap * n)
                    offer_point(manifolds, m.pair, point, normal, gap, hashed(i - first, OF_SAMPLE), m.size)


@wp.func
def try_convex(
    m: Approach,
    a: Convex,
    X: wp.transform,
    surfaces: SurfaceView,
    field_shape: int,
    hulls: HullView,
    manifolds: ManifoldView,
):
    """Offer the points of a convex shape, at pose X in the field's frame."""
    radius = rounding(a)
    size = wp.max(extent_of(a, hulls), radius)
    core = a
    centre = wp.transform_get_translation(X)
    if a.kind == GEO_SPHERE:
        core.size = wp.vec3()
    level = level_at(m.field, centre)
    start = nearest_in(core, X, centre - level.value * level.slope, hulls)
    deepest = descend(m.field, core, X, start, size, hulls)
    level = level_at(m.field, deepest)
    if level.value - radius > m.reach:
        return
    n = level.slope
    least = float(wp.inf)
    down = wp.quat_rotate_inv(wp.transform_get_rotation(X), -n)
    for k in range(vertex_count(core, hulls)):
        p = wp.transform_point(X, vertex_of(core, hulls, k, down))
        at_vertex = level_at(m.field, p)
        least = wp.min(least, at_vertex.value)
        offer_level(m, p, radius, at_vertex, hashed(k, OF_VERTEX), manifolds)
    if level.value < least - DEEPER * size:
        offer_level(m, deepest, radius, level, hashed(0, OF_DESCENT), manifolds)
    if a.kind != GEO_CAPSULE:
        # elsewhere on the surface, the field may push in another direction
        for k in range(SEEDS):
            start = nearest_in(a, X, wp.transform_point(X, seed_point(a, k)), hulls)
            p = descend(m.field, a, X, start, size, hulls)
            level = level_at(m.field, p)
            if wp.dot(level.slope, n) < SAME_PUSH:
                offer_level(m, p, 0.0, level, hashed(k + 1, OF_DESCENT), manifolds)
    try_samples_on_face(m, a, X, deepest, n, surfaces, field_shape, hulls, manifolds)


@wp.func(inline=False)
def try_edge(m: Approach, p: wp.vec3, q: wp.vec3, feature: int, manifolds: ManifoldView):
    """Offer the deepest point of an edge from p to q, in the field's frame, if it is not an end."""
    length = wp.length(q - p)
    if level_at(m.field, 0.5 * (p + q)).value > m.reach + 0.5 * length:
        return
    low = float(0.0)
    high = float(1.0)
    left = 1.0 - GOLDEN
    right = float(GOLDEN)
    value_left = level_at(m.field, p + left * (q - p)).value
    value_right = level_at(m.field, p + right * (q - p)).value
    for _k in range(EDGE_STEPS):
        if value_left < value_right:
            high = right
            right = left
            value_right = value_left
            left = high - GOLDEN * (high - low)
            value_left = level_at(m.field, p + left * (q - p)).value
        else:
            low = left
            left = right
            value_left = value_right
            right = low + GOLDEN * (high - low)
            value_right = level_at(m.field, p + right * (q - p)).value
    x = p + 0.5 * (low + high) * (q - p)
    level = level_at(m.field, x)
    ends = wp.min(level_at(m.field, p).value, level_at(m.field, q).value)
    if level.value < ends - DEEPER * length:
        offer_level(m, x, 0.0, level, feature, manifolds)


@wp.func
def try_mesh(m: Approach, r: Surface, surfaces: SurfaceView, manifolds: ManifoldView):
    """Offer vertices and edges of a mesh or height field."""
    X = wp.transform_inverse(m.field.X) * r.X
    back = wp.transform_inverse(X)
    rotation = wp.quat_to_matrix(wp.transform_get_rotation(back))
    middle = wp.transform_point(back, 0.5 * (m.field.lower + m.field.upper))
    half = 0.5 * (m.field.upper - m.field.lower) + wp.vec3(m.reach, m.reach, m.reach)
    spread = wp.vec3()
    for i in range(3):
        for j in range(3):
            spread[i] += wp.abs(rotation[i, j]) * half[j]
    low = wp.cw_div(middle - spread, r.scale)
    high = wp.cw_div(middle + spread, r.scale)
    query = wp.mesh_query_aabb(r.mesh, wp.min(low, high), wp.max(low, high))
    t = int(0)
    while wp.mesh_query_aabb_next(query, t):
        triangle = surface_triangle(r.mesh, r.scale, wp.vec3(), t)
        owned = surfaces.owned[r.first + t]
        for k in range(3):
            p = wp.transform_point(X, corner_of(triangle, k))
            if (owned >> k) & 1 == 1:
                offer_level(m, p, 0.0, level_at(m.field, p), hashed(3 * t + k, OF_VERTEX), manifolds)
            if (owned >> (k + 3)) & 1 == 1:
                q = wp.transform_point(X, corner_of(triangle, (k + 1) % 3))
                try_edge(m, p, q, hashed(3 * t + k, OF_EDGE), manifolds)


@wp.func
def try_samples_on_surface(
    m: Approach, r: Surface, surfaces: SurfaceView, field_shape: int, manifolds: ManifoldView
):
    """Offer points of the field's surface against a mesh or height field, which is shape 0."""
    X = wp.transform_inverse(r.X) * m.field.X
    viewer = wp.transform_point(X, 0.5 * (m.field.lower + m.field.upper))
    first = surfaces.sample_start[field_shape]
    for i in range(first, first + surfaces.sample_count[field_shape]):
        p = wp.transform_point(X, m.field.scale * surfaces.sample[i])
        level = level_of_surface(r, p, viewer, m.size, m.reach)
        if level.found == 1:
            n = wp.transform_vector(r.X, level.slope)
            point = wp.transform_point(r.X, p) - level.value * n
            offer_point(manifolds, m.pair, point, -n, level.value, hashed(i - first, OF_SAMPLE), m.size)


@wp.func
def try_samples(m: Approach, other: Field, surfaces: SurfaceView, other_shape: int, manifolds: ManifoldView):
    """Offer points of the surface of another field."""
    X = wp.transform_inverse(m.field.X) * other.X
    low = m.field.lower - wp.vec3(m.reach, m.reach, m.reach)
    high = m.field.upper + wp.vec3(m.reach, m.reach, m.reach)
    first = surfaces.sample_start[other_shape]
    for i in range(first, first + surfaces.sample_count[other_shape]):
        p = wp.transform_point(X, other.scale * surfaces.sample[i])
        if wp.min(p, low) == low and wp.max(p, high) == high:
            feature = hashed(i - first, OF_SAMPLE + m.swapped)
            offer_level(m, p, 0.0, level_at(m.field, p), feature, manifolds)


@wp.func
def field_of(shape: ShapeView, s: int, X: wp.transform) -> Field:
    """Shape s, which must be a distance field, at world pose X."""
    field = Field()
    field.volume = shape.geo.source[s]
    field.scale = shape.geo.scale[s][0]
    field.lower = shape.local_lower[s]
    field.upper = shape.local_upper[s]
    field.X = X
    return field


@wp.func(inline=False)
def find_sdf_points(
    pair: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """Points of a shape within reach of a signed distance field."""
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    kind = shape.kind[s0]
    m = Approach()
    m.pair = pair
    m.field = field_of(shape, s1, shape_X[s1])
    m.reach = pairs.reach[pair]
    if m.field.volume == wp.uint64(0) or m.field.scale == 0.0:
        return
    size = wp.length(m.field.upper - m.field.lower)
    if kind == GEO_SDF:
        other = field_of(shape, s0, shape_X[s0])
        if other.volume == wp.uint64(0) or other.scale == 0.0:
            return
        m.size = wp.min(size, wp.length(other.upper - other.lower))
        try_samples(m, other, surfaces, s0, manifolds)
        field = m.field
        m.field = other
        m.swapped = 1
        try_samples(m, field, surfaces, s1, manifolds)
    elif kind == GEO_MESH or kind == GEO_HFIELD:
        r = surface_of(shape, surfaces, s0, shape_X[s0])
        if r.first < 0 or r.winding == 0.0:
            return
        m.size = wp.min(size, r.size)
        try_mesh(m, r, surfaces, manifolds)
        try_samples_on_surface(m, r, surfaces, s1, manifolds)
    else:
        a = convex_shape(shape, s0)
        m.size = wp.min(size, wp.max(extent_of(a, hulls), rounding(a)))
        X = wp.transform_inverse(m.field.X) * shape_X[s0]
        try_convex(m, a, X, surfaces, s1, hulls, manifolds)


@wp.kernel
def collide_sdf(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    surfaces: SurfaceView,
):
    """One thread per pair place: points of a shape within reach of a signed distance field."""
    pair = first + wp.tid()
    # a function of its own: Warp clears all local variables at the start of the one that they are in
    if pairs.family[pair] == FAMILY_SDF:
        find_sdf_points(pair, pairs, shape, hulls, shape_X, manifolds, surfaces)

"""What a ray camera looks at: instances of meshes and primitives in each world, and a ray's way through them.

The boxes about the instances of a world form one group of a bounding volume hierarchy; what a ray meets there
is answered in the frame of the instance, by the hierarchy of its mesh or in closed form (see
`newtonsim.kernels.ray_solids`). Directions of rays need not be of length one: t counts in their lengths.
"""

import warp as wp

from newtonsim.kernels.ray_solids import (
    Span,
    cut_ends,
    no_span,
    span_of_box,
    span_of_capsule,
    span_of_ellipsoid,
    span_of_tube,
)
from newtonsim.kernels.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_MESH,
    GEO_PLANE,
    GEO_SPHERE,
)

# axes are unrolled, for vectors in registers
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# triangles of a mesh that are tried one by one, which is faster for so few
FEW_TRIANGLES = wp.constant(4)
# part of a triangle by which its edges are widened, so that rays do not pass between neighbours
WELD = wp.constant(2.0e-6)
# triangles seen from behind that a ray goes through before it gives up
MAX_BACKS = wp.constant(32)


@wp.struct
class Body:
    """Geometry of an instance."""

    kind: int  # GEO_MESH, GEO_PLANE or a primitive along y
    double_sided: int
    triangles: int  # of its mesh
    mesh: wp.uint64  # 0 for primitives
    size: wp.vec3  # dimensions of primitives [m]


@wp.struct
class Place:
    """Where an instance is."""

    body: int  # row of the poses of a world, -1 for the world frame
    local: wp.transform  # pose in the frame of the body
    middle: wp.vec3  # of the box about the instance, in its frame [m]
    half: wp.vec3  # half extents of that box [m]
    stretch: wp.vec3  # scale of meshes, one for primitives


@wp.struct
class Frame:
    """Frame of an instance in the world, with the unstretched mesh as its unit."""

    origin: wp.vec3  # [m]
    to_local: wp.mat33  # inverse of turn and stretch; its transpose takes normals to the world


@wp.struct
class Look:
    """How an instance looks."""

    label: int  # what segmentation shows
    texture: int  # -1 for none
    first_triangle: int  # of its mesh, in the lists of corners
    specular: wp.vec3  # weight of highlights by channel


@wp.struct
class CornerView:
    """Corners of the triangles of all meshes, three for each triangle."""

    normal: wp.array(dtype=wp.vec3)
    uv: wp.array(dtype=wp.vec2)


@wp.struct
class TraceView:
    """I instances in each of W worlds, as rays meet them; row = world * I + instance."""

    count: int  # I
    body: wp.array(dtype=Body)  # (I)
    color: wp.array(dtype=wp.vec4)  # (W I) RGBA, 0..1; alpha 0 is invisible
    frame: wp.array(dtype=Frame)  # (W I)
    plane_count: int
    planes: wp.array(dtype=int)  # (plane_count) instances that are endless planes
    world_count: int  # W
    bvh: wp.uint64  # over the boxes in the world, a group for each world; 0 if there are none


@wp.struct
class CameraHit:
    """The nearest point on a ray."""

    row: int  # of the instance, -1 for nothing
    t: float  # in lengths of the ray's direction
    triangle: int  # of a mesh, else -1
    u: float  # weight of the first corner
    v: float  # weight of the second corner


@wp.func
def span_of_primitive(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3) -> Span:
    """The part of a line inside a primitive."""
    span = no_span()
    if kind == GEO_BOX:
        span = span_of_box(size, o, d)
    elif kind == GEO_SPHERE:
        span = span_of_ellipsoid(wp.vec3(size[0], size[0], size[0]), o, d)
    elif kind == GEO_CAPSULE:
        span = span_of_capsule(size[0], size[1], o, d)
    elif kind == GEO_CYLINDER:
        span = cut_ends(span_of_tube(size[0], o, d), size[1], o, d)
    elif kind == GEO_ELLIPSOID:
        span = span_of_ellipsoid(size, o, d)
    return span


# What follows returns t, the triangle and the weights of its first two corners, without a struct, which would
# go through memory: t is infinite for a miss.


@wp.func
def meet_mesh(mesh: wp.uint64, o: wp.vec3, d: wp.vec3, reach: float, backs: bool):
    """First point of a mesh on a local ray, nearer than `reach`."""
    t = float(0.0)
    for _k in range(MAX_BACKS):
        query = wp.mesh_query_ray(mesh, o + t * d, d, reach - t)
        if not query.result:
            break
        t += query.t
        if backs or wp.dot(query.normal, d) < 0.0:
            return t, query.face, query.u, query.v
        t += 1.0e-6 * (t + wp.length(o) / wp.length(d))
    return wp.inf, int(-1), float(0.0), float(0.0)


@wp.func
def meet_few_triangles(mesh: wp.uint64, count: int, o: wp.vec3, d: wp.vec3, reach: float, backs: bool):
    """First point of a mesh of a few triangles on a local ray, nearer than `reach`."""
    best = float(wp.inf)
    triangle = int(-1)
    u = float(0.0)
    v = float(0.0)
    for k in range(count):
        a = wp.mesh_get_point(mesh, 3 * k)
        ab = wp.mesh_get_point(mesh, 3 * k + 1) - a
        ac = wp.mesh_get_point(mesh, 3 * k + 2) - a
        n = wp.cross(ab, ac)
        rate = wp.dot(n, d)
        if rate < 0.0 or (backs and rate > 0.0):
            t = wp.dot(n, a - o) / rate
            if t >= 0.0 and t < reach and t < best:
                p = o + t * d - a
                square = wp.dot(n, n)
                b = wp.dot(wp.cross(p, ac), n) / square
                c = wp.dot(wp.cross(ab, p), n) / square
                if b >= -WELD and c >= -WELD and b + c <= 1.0 + WELD:
                    best = t
                    triangle = k
                    u = 1.0 - b - c
                    v = b
    return best, triangle, u, v


@wp.func
def meet_primitive(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> float:
    """First point of a primitive on a local ray, nearer than `reach`."""
    # from the point nearest to the origin, where rounding is least
    middle = -wp.dot(o, d) / wp.dot(d, d)
    span = span_of_primitive(kind, size, o + middle * d, d)
    t = middle + span.enter
    if t < 0.0 and backs:
        t = middle + span.exit
    if span.enter <= span.exit and t >= 0.0 and t < reach:
        return t
    return wp.inf


@wp.func
def meet_plane(o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> float:
    """Where a local ray crosses the endless plane y = 0, nearer than `reach`."""
    if d[1] < 0.0 or (backs and d[1] > 0.0):
        t = -o[1] / d[1]
        if t >= 0.0 and t < reach:
            return t
    return wp.inf


@wp.func
def meet_body(body: Body, frame: Frame, origin: wp.vec3, direction: wp.vec3, reach: float, all_backs: bool):
    """First point of an instance on a ray, nearer than `reach`."""
    o = frame.to_local * (origin - frame.origin)
    d = frame.to_local * direction
    backs = all_backs or body.double_sided != 0
    if body.kind == GEO_MESH and body.triangles <= FEW_TRIANGLES:
        t, triangle, u, v = meet_few_triangles(body.mesh, body.triangles, o, d, reach, backs)
        return t, triangle, u, v
    if body.kind == GEO_MESH:
        t, triangle, u, v = meet_mesh(body.mesh, o, d, reach, backs)
        return t, triangle, u, v
    if body.kind == GEO_PLANE:
        return meet_plane(o, d, reach, backs), int(-1), float(0.0), float(0.0)
    return meet_primitive(body.kind, body.size, o, d, reach, backs), int(-1), float(0.0), float(0.0)


@wp.func
def normal_at(body: Body, triangle: int, o: wp.vec3, d: wp.vec3, backs: bool) -> wp.vec3:
    """Normal of the surface as it is where a local ray first meets it, in the frame of the instance."""
    if body.kind == GEO_MESH:
        return wp.mesh_eval_face_normal(body.mesh, triangle)
    if body.kind == GEO_PLANE:
        return wp.vec3(0.0, 1.0, 0.0)
    middle = -wp.dot(o, d) / wp.dot(d, d)
    span = span_of_primitive(body.kind, body.size, o + middle * d, d)
    normal = span.enter_normal
    if middle + span.enter < 0.0 and backs:
        normal = span.exit_normal
    return normal


@wp.func
def hit_of(row: int, t: float, triangle: int, u: float, v: float) -> CameraHit:
    """A hit from its parts."""
    hit = CameraHit()
    hit.row = row
    hit.t = t
    hit.triangle = triangle
    hit.u = u
    hit.v = v
    return hit


@wp.func
def meet_planes(
    scene: TraceView, world: int, origin: wp.vec3, direction: wp.vec3, reach: float, shadow: bool
):
    """Nearest point of the endless planes on a ray, as row and t; row -1 and `reach` for none."""
    best_row = int(-1)
    best = float(reach)
    for k in range(scene.plane_count):
        i = scene.planes[k]
        row = world * scene.count + i
        if scene.color[row][3] > 0.0:
            t, _triangle, _u, _v = meet_body(scene.body[i], scene.frame[row], origin, direction, best, shadow)
            if t < best:
                best = t
                best_row = row
    return best_row, best


@wp.func
def trace(scene: TraceView, world: int, origin: wp.vec3, direction: wp.vec3, reach: float) -> CameraHit:
    """Nearest visible point on a ray, nearer than `reach`."""
    best_row, best = meet_planes(scene, world, origin, direction, reach, False)
    best_triangle = int(-1)
    best_u = float(0.0)
    best_v = float(0.0)
    if scene.bvh != wp.uint64(0):
        root = int(-1)
        if scene.world_count > 1:
            root = wp.bvh_get_group_root(scene.bvh, world)
        query = wp.bvh_query_ray(scene.bvh, origin, direction, root)
        row = int(0)
        while wp.bvh_query_next(query, row, best):
            if scene.color[row][3] > 0.0:
                i = row % scene.count
                t, triangle, u, v = meet_body(scene.body[i], scene.frame[row], origin, direction, best, False)
                if t < best:
                    best = t
                    best_row = row
                    best_triangle = triangle
                    best_u = u
                    best_v = v
    return hit_of(best_row, best, best_triangle, best_u, best_v)


@wp.func
def is_lit(scene: TraceView, world: int, origin: wp.vec3, direction: wp.vec3) -> bool:
    """Whether nothing visible, seen from either side, lies on a ray."""
    row, _t = meet_planes(scene, world, origin, direction, wp.inf, True)
    if row >= 0:
        return False
    if scene.bvh != wp.uint64(0):
        root = int(-1)
        if scene.world_count > 1:
            root = wp.bvh_get_group_root(scene.bvh, world)
        query = wp.bvh_query_ray(scene.bvh, origin, direction, root)
        other = int(0)
        while wp.bvh_query_next(query, other, wp.inf):
            if scene.color[other][3] > 0.0:
                i = other % scene.count
                t, _triangle, _u, _v = meet_body(
                    scene.body[i], scene.frame[other], origin, direction, wp.inf, True
                )
                if t < wp.inf:
                    return False
    return True


@wp.kernel
def place_instances(
    place: wp.array(dtype=Place),
    body_pose: wp.array2d(dtype=wp.transform),
    frame: wp.array(dtype=Frame),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per instance of a world: its frame in the world and the box about it."""
    row = wp.tid()
    i = row % place.shape[0]
    world = row // place.shape[0]
    own = place[i]
    X = own.local
    if own.body >= 0:
        X = wp.transform_multiply(body_pose[world, own.body], X)
    middle = wp.transform_point(X, own.middle)
    turn = wp.quat_to_matrix(wp.transform_get_rotation(X))
    placed = Frame()
    placed.origin = wp.transform_get_translation(X)
    one = wp.vec3(1.0, 1.0, 1.0)
    placed.to_local = wp.diag(wp.cw_div(one, own.stretch)) * wp.transpose(turn)
    frame[row] = placed
    extent = wp.vec3()
    for k in range(3):
        for j in range(3):
            extent[k] += wp.abs(turn[k, j]) * own.half[j]
        # room for rounding, so that flat boxes are met
        extent[k] += 1.0e-6 * (extent[k] + wp.abs(middle[k]))
    lower[row] = middle - extent
    upper[row] = middle + extent

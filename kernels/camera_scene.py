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

# triangles seen from behind that a ray goes through before it gives up
MAX_BACKS = wp.constant(32)


@wp.struct
class Body:
    """Geometry of an instance."""

    kind: int  # GEO_MESH, GEO_PLANE or a primitive along y
    double_sided: int
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
    normal: wp.vec3  # of the surface as it is, in the frame of the instance
    triangle: int  # of a mesh, else -1
    u: float  # weight of the first corner
    v: float  # weight of the second corner


@wp.func
def nothing_before(t: float) -> CameraHit:
    """A miss up to t."""
    hit = CameraHit()
    hit.row = -1
    hit.t = t
    hit.triangle = -1
    return hit


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


@wp.func
def meet_mesh(mesh: wp.uint64, o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> CameraHit:
    """First point of a mesh on a local ray, nearer than `reach`."""
    hit = nothing_before(reach)
    t = float(0.0)
    for _k in range(MAX_BACKS):
        query = wp.mesh_query_ray(mesh, o + t * d, d, reach - t)
        if not query.result:
            return hit
        t += query.t
        if backs or wp.dot(query.normal, d) < 0.0:
            hit.row = 0
            hit.t = t
            hit.normal = query.normal
            hit.triangle = query.face
            hit.u = query.u
            hit.v = query.v
            return hit
        t += 1.0e-6 * (t + wp.length(o) / wp.length(d))
    return hit


@wp.func
def meet_primitive(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> CameraHit:
    """First point of a primitive on a local ray, nearer than `reach`."""
    hit = nothing_before(reach)
    # from the point nearest to the origin, where rounding is least
    middle = -wp.dot(o, d) / wp.dot(d, d)
    span = span_of_primitive(kind, size, o + middle * d, d)
    t = middle + span.enter
    normal = span.enter_normal
    if t < 0.0 and backs:
        t = middle + span.exit
        normal = span.exit_normal
    if span.enter <= span.exit and t >= 0.0 and t < reach:
        hit.row = 0
        hit.t = t
        hit.normal = normal
    return hit


@wp.func
def meet_plane(o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> CameraHit:
    """Where a local ray crosses the endless plane y = 0, nearer than `reach`."""
    hit = nothing_before(reach)
    if d[1] < 0.0 or (backs and d[1] > 0.0):
        t = -o[1] / d[1]
        if t >= 0.0 and t < reach:
            hit.row = 0
            hit.t = t
            hit.normal = wp.vec3(0.0, 1.0, 0.0)
    return hit


@wp.func
def meet_body(
    body: Body, frame: Frame, origin: wp.vec3, direction: wp.vec3, reach: float, all_backs: bool
) -> CameraHit:
    """First point of an instance on a ray, nearer than `reach`; row 0 stands for a hit."""
    o = frame.to_local * (origin - frame.origin)
    d = frame.to_local * direction
    backs = all_backs or body.double_sided != 0
    hit = nothing_before(reach)
    if body.kind == GEO_MESH:
        hit = meet_mesh(body.mesh, o, d, reach, backs)
    elif body.kind == GEO_PLANE:
        hit = meet_plane(o, d, reach, backs)
    else:
        hit = meet_primitive(body.kind, body.size, o, d, reach, backs)
    return hit


@wp.func
def meet_planes(
    scene: TraceView, world: int, origin: wp.vec3, direction: wp.vec3, reach: float, shadow: bool
) -> CameraHit:
    """Nearest point of the endless planes on a ray, nearer than `reach`; for shadows from either side."""
    best = nothing_before(reach)
    for k in range(scene.plane_count):
        i = scene.planes[k]
        row = world * scene.count + i
        if scene.color[row][3] > 0.0:
            hit = meet_body(scene.body[i], scene.frame[row], origin, direction, best.t, shadow)
            if hit.row >= 0:
                best = hit
                best.row = row
    return best


@wp.func
def trace(
    scene: TraceView, world: int, origin: wp.vec3, direction: wp.vec3, reach: float, shadow: bool
) -> CameraHit:
    """Nearest visible point on a ray, nearer than `reach`; for shadows any point, seen from either side."""
    best = meet_planes(scene, world, origin, direction, reach, shadow)
    if scene.bvh == wp.uint64(0) or (shadow and best.row >= 0):
        return best
    root = int(-1)
    if scene.world_count > 1:
        root = wp.bvh_get_group_root(scene.bvh, world)
    query = wp.bvh_query_ray(scene.bvh, origin, direction, root)
    row = int(0)
    while wp.bvh_query_next(query, row, best.t):
        if scene.color[row][3] > 0.0:
            i = row % scene.count
            hit = meet_body(scene.body[i], scene.frame[row], origin, direction, best.t, shadow)
            if hit.row >= 0:
                best = hit
                best.row = row
                if shadow:
                    return best
    return best


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

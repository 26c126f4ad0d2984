"""The scene of a ray camera: instances of meshes and primitives in each world, and intersection with rays.

The bounding boxes of the instances of a world form one group of a bounding volume hierarchy; intersections
are found in the frame of the instance, by the hierarchy of its mesh or in closed form (see
`newtonsim.kernels.queries.ray_solids`). Directions of rays need not be unit vectors: t is in units of their
length.

Stage: ray casting, before the rays, instances
Called by: render/camera/rows.py, kernels/camera/pictures.py, kernels/camera/tiles.py
Reads: Place, body_pose
Writes: TraceView, lower, upper
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.camera.elements import ElementView, meet_elements, meets_elements
from newtonsim.kernels.collision.surfaces.field_values import field_normal
from newtonsim.kernels.queries.ray_solids import (
    Span,
    cut_ends,
    no_span,
    span_of_box,
    span_of_capsule,
    span_of_cone,
    span_of_ellipsoid,
    span_of_tube,
)
from newtonsim.kernels.queries.ray_surfaces import cast_on_field
from newtonsim.kernels.queries.ray_times import times_of_primitive
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_MESH,
    GEO_PLANE,
    GEO_SDF,
    GEO_SPHERE,
)

# axes are unrolled, for vectors in registers
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# number of triangles of a mesh up to which they are tested one by one, which is faster
FEW_TRIANGLES = wp.constant(4)
# share of a triangle by which its edges are widened, so that rays do not pass between neighbours
WELD = wp.constant(2.0e-6)
# number of back faces that a ray passes before it gives up
MAX_BACKS = wp.constant(32)
# step of the finite differences for a field's normal, as a share of its extent
FIELD_STEP = wp.constant(2.0e-3)


@wp.struct
class Body:
    """Geometry of an instance."""

    kind: int  # GEO_MESH, GEO_SDF, GEO_PLANE or a primitive along y
    double_sided: int
    triangles: int  # of its mesh
    mesh: wp.uint64  # or id of the volume of a distance field; 0 for primitives
    size: wp.vec3  # dimensions of primitives [m]; half extents of a field; size of a texture on a plane
    middle: wp.vec3  # centre of the box of a field [m]; for planes, half extents along x and z, 0 if infinite


@wp.struct
class Place:
    """Placement of an instance."""

    body: int  # row of the poses of a world, -1 for the world frame
    local: wp.transform  # pose in the frame of the body
    middle: wp.vec3  # centre of the box of the instance, in its frame [m]
    half: wp.vec3  # half extents of that box [m]
    stretch: wp.vec3  # scale of meshes, one for primitives


@wp.struct
class Frame:
    """Frame of an instance in the world, with the unstretched mesh as its unit."""

    origin: wp.vec3  # [m]
    to_local: wp.mat33  # inverse of rotation and scale; its transpose transforms normals to the world


@wp.struct
class Appearance:
    """Appearance of an instance."""

    label: int  # what segmentation shows
    shape: int  # of the model, what else segmentation shows
    body: int
    joint: int
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
    """R rows, instances of I items in W worlds, for ray tracing; rows are in the order of the worlds."""

    start: wp.array(dtype=int)  # (W + 1) first row of each world
    item: wp.array(dtype=int)  # (R)
    body: wp.array(dtype=Body)  # (I)
    color: wp.array(dtype=wp.vec4)  # (R) RGBA, 0..1; alpha 0 is invisible
    frame: wp.array(dtype=Frame)  # (R)
    plane_start: wp.array(dtype=int)  # (W + 1) first plane of each world
    planes: wp.array(dtype=int)  # rows of endless planes
    world_count: int  # W
    bvh: wp.uint64  # hierarchy of the boxes in the world, one group per world; 0 if there are none
    elements: wp.array(dtype=ElementView)  # (1) elements between particles, or (0)


@wp.struct
class CameraHit:
    """The nearest point on a ray."""

    row: int  # of the instance, -1 for none
    element: int  # between particles, -1 for none
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
    elif kind == GEO_CONE:
        span = span_of_cone(size[0], size[1], o, d)
    elif kind == GEO_ELLIPSOID:
        span = span_of_ellipsoid(size, o, d)
    return span


@wp.func
def is_endless(body: Body) -> bool:
    """Whether an instance is a plane without a bounding box."""
    return body.kind == GEO_PLANE and (body.middle[0] <= 0.0 or body.middle[2] <= 0.0)


# The following functions return t, the triangle and the weights of its first two corners, not in a struct,
# which would go through memory; t is infinite for a miss.


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
    enter, leave = times_of_primitive(kind, size, o + middle * d, d)
    t = middle + enter
    if t < 0.0 and backs:
        t = middle + leave
    if enter <= leave and t >= 0.0 and t < reach:
        return t
    return wp.inf


@wp.func
def meet_plane(half: wp.vec3, o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> float:
    """Where a local ray hits the plane y = 0 of half extents (0 = infinite), nearer than `reach`."""
    if d[1] < 0.0 or (backs and d[1] > 0.0):
        t = -o[1] / d[1]
        p = o + t * d
        across = half[0] <= 0.0 or wp.abs(p[0]) <= half[0]
        along = half[2] <= 0.0 or wp.abs(p[2]) <= half[2]
        if t >= 0.0 and t < reach and across and along:
            return t
    return wp.inf


@wp.func
def meet_field(body: Body, o: wp.vec3, d: wp.vec3, reach: float, backs: bool) -> float:
    """First point of a distance field on a local ray, nearer than `reach`."""
    length = wp.length(d)
    low = body.middle - body.size
    high = body.middle + body.size
    hit = cast_on_field(body.mesh, 1.0, low, high, o, d / length, reach * length, backs)
    return hit.distance / length


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
        return meet_plane(body.middle, o, d, reach, backs), int(-1), float(0.0), float(0.0)
    if body.kind == GEO_SDF:
        return meet_field(body, o, d, reach, backs), int(-1), float(0.0), float(0.0)
    return meet_primitive(body.kind, body.size, o, d, reach, backs), int(-1), float(0.0), float(0.0)


@wp.func
def normal_at(body: Body, hit: CameraHit, o: wp.vec3, d: wp.vec3) -> wp.vec3:
    """Geometric normal at the first intersection of a local ray, in the frame of the instance."""
    if body.kind == GEO_MESH:
        return wp.mesh_eval_face_normal(body.mesh, hit.triangle)
    if body.kind == GEO_SDF:
        return field_normal(body.mesh, o + hit.t * d, FIELD_STEP * wp.length(body.size))
    if body.kind == GEO_PLANE:
        return wp.vec3(0.0, 1.0, 0.0)
    middle = -wp.dot(o, d) / wp.dot(d, d)
    span = span_of_primitive(body.kind, body.size, o + middle * d, d)
    normal = span.enter_normal
    if middle + span.enter < 0.0 and body.double_sided != 0:
        normal = span.exit_normal
    return normal


@wp.func
def hit_of(row: int, t: float, triangle: int, u: float, v: float) -> CameraHit:
    """A hit from its parts."""
    hit = CameraHit()
    hit.row = row
    hit.element = -1
    hit.t = t
    hit.triangle = triangle
    hit.u = u
    hit.v = v
    return hit


@wp.func
def meet_planes(
    scene: wp.array(dtype=TraceView),
    world: int,
    origin: wp.vec3,
    direction: wp.vec3,
    reach: float,
    shadow: bool,
):
    """Nearest point of the infinite planes on a ray, as row and t; row -1 and `reach` for none."""
    best_row = int(-1)
    best = float(reach)
    for k in range(scene[0].plane_start[world], scene[0].plane_start[world + 1]):
        row = scene[0].planes[k]
        if scene[0].color[row][3] > 0.0:
            i = scene[0].item[row]
            frame = scene[0].frame[row]
            o = frame.to_local * (origin - frame.origin)
            d = frame.to_local * direction
            backs = shadow or scene[0].body[i].double_sided != 0
            t = meet_plane(scene[0].body[i].middle, o, d, best, backs)
            if t < best:
                best = t
                best_row = row
    return best_row, best


@wp.func
def trace(
    scene: wp.array(dtype=TraceView), world: int, origin: wp.vec3, direction: wp.vec3, reach: float
) -> CameraHit:
    """Nearest visible point on a ray, nearer than `reach`."""
    best_row, best = meet_planes(scene, world, origin, direction, reach, False)
    best_triangle = int(-1)
    best_u = float(0.0)
    best_v = float(0.0)
    if scene[0].bvh != wp.uint64(0):
        root = int(-1)
        if scene[0].world_count > 1:
            root = wp.bvh_get_group_root(scene[0].bvh, world)
        query = wp.bvh_query_ray(scene[0].bvh, origin, direction, root)
        row = int(0)
        while wp.bvh_query_next(query, row, best):
            if scene[0].color[row][3] > 0.0:
                i = scene[0].item[row]
                t, triangle, u, v = meet_body(
                    scene[0].body[i], scene[0].frame[row], origin, direction, best, False
                )
                if t < best:
                    best = t
                    best_row = row
                    best_triangle = triangle
                    best_u = u
                    best_v = v
    return hit_of(best_row, best, best_triangle, best_u, best_v)


@wp.func
def is_lit(
    scene: wp.array(dtype=TraceView), world: int, origin: wp.vec3, direction: wp.vec3, reach: float
) -> bool:
    """Whether no visible surface, from either side, lies on a ray nearer than `reach`."""
    row, _t = meet_planes(scene, world, origin, direction, reach, True)
    if row >= 0:
        return False
    if scene[0].bvh != wp.uint64(0):
        root = int(-1)
        if scene[0].world_count > 1:
            root = wp.bvh_get_group_root(scene[0].bvh, world)
        query = wp.bvh_query_ray(scene[0].bvh, origin, direction, root)
        other = int(0)
        while wp.bvh_query_next(query, other, reach):
            if scene[0].color[other][3] > 0.0:
                body = scene[0].body[scene[0].item[other]]
                t, _triangle, _u, _v = meet_body(body, scene[0].frame[other], origin, direction, reach, True)
                if t < reach:
                    return False
    if scene[0].elements.shape[0] > 0:
        grouped = scene[0].world_count > 1
        return not meets_elements(scene[0].elements, world, grouped, origin, direction, reach)
    return True


@wp.func
def behind_elements(
    scene: wp.array(dtype=TraceView),
    world: int,
    origin: wp.vec3,
    direction: wp.vec3,
    reach: float,
    hit: CameraHit,
) -> CameraHit:
    """The hit, or that of an element between particles if it is nearer."""
    nearest = hit
    if scene[0].elements.shape[0] > 0:
        element, t, u, v = meet_elements(
            scene[0].elements, world, scene[0].world_count > 1, origin, direction, wp.min(hit.t, reach)
        )
        if element >= 0:
            nearest.row = -1
            nearest.element = element
            nearest.t = t
            nearest.u = u
            nearest.v = v
    return nearest


@wp.kernel
def place_instances(
    scene: wp.array(dtype=TraceView),
    place: wp.array(dtype=Place),
    body_pose: wp.array(dtype=wp.transform),
    bodies_per_world: int,
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per row: its frame in the world and its bounding box.

    Bodies count from the first of each world, or, with `bodies_per_world` 0, in the whole model.
    """
    row = wp.tid()
    own = place[scene[0].item[row]]
    X = own.local
    if own.body >= 0:
        first = int(0)
        if bodies_per_world > 0:
            # the worlds have equal numbers of rows then
            first = (row // scene[0].start[1]) * bodies_per_world
        X = wp.transform_multiply(body_pose[first + own.body], X)
    middle = wp.transform_point(X, own.middle)
    turn = wp.quat_to_matrix(wp.transform_get_rotation(X))
    placed = Frame()
    placed.origin = wp.transform_get_translation(X)
    one = wp.vec3(1.0, 1.0, 1.0)
    placed.to_local = wp.diag(wp.cw_div(one, own.stretch)) * wp.transpose(turn)
    scene[0].frame[row] = placed
    extent = wp.vec3()
    for k in range(3):
        for j in range(3):
            extent[k] += wp.abs(turn[k, j]) * own.half[j]
        # room for rounding, so that rays hit flat boxes
        extent[k] += 1.0e-6 * (extent[k] + wp.abs(middle[k]))
    if not wp.isfinite(wp.length_sq(middle) + wp.length_sq(extent)):
        # no ray hits such an instance, and it must not spoil the hierarchy
        middle = wp.vec3()
        extent = wp.vec3()
    lower[row] = middle - extent
    upper[row] = middle + extent

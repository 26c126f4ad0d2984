"""Contact points of convex shapes and mesh vertices with planes.

Every pair owns a fixed range of slots, one for each point of the shape that can touch a plane. A slot keeps
its meaning from step to step, so its number identifies the contact feature for warm starting.
"""

import warp as wp

from newtonsim.kernels.body_points import point_velocity
from newtonsim.kernels.structs import ModelShapeGeometry

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

GEO_SPHERE = wp.constant(0)
GEO_BOX = wp.constant(1)
GEO_CAPSULE = wp.constant(2)
GEO_CYLINDER = wp.constant(3)
GEO_CONE = wp.constant(4)
GEO_MESH = wp.constant(5)
GEO_ELLIPSOID = wp.constant(9)

# below this tilt [rad] the rim points of a standing cylinder or cone are fixed in the shape
UPRIGHT_TILT = wp.constant(0.01)
MESH_DIRECTIONS = wp.constant(7)


@wp.struct
class ShapeView:
    """Placement and geometry of shapes."""

    body: wp.array(dtype=int)
    transform: wp.array(dtype=wp.transform)
    geo: ModelShapeGeometry
    radius: wp.array(dtype=float)  # [m] about the shape's origin


@wp.struct
class SlotView:
    """Contact points of all pairs, at fixed places."""

    start: wp.array(dtype=int)  # (P + 1) first slot of each pair
    count: wp.array(dtype=int)  # (P) points found
    index: wp.array(dtype=int)  # (S) slots in use, packed to the front of each pair's range
    point: wp.array(dtype=wp.vec3)  # (S) [m] on the shape's surface, world
    distance: wp.array(dtype=float)  # (S) [m] gap along the normal, negative in penetration
    normal: wp.array(dtype=wp.vec3)  # (P) plane normal, world


@wp.func
def shape_pose(shape: ShapeView, s: int, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """World pose of shape s."""
    pose = shape.transform[s]
    if shape.body[s] >= 0:
        pose = body_q[shape.body[s]] * pose
    return pose


@wp.func
def rim_direction(k: int, n: wp.vec3) -> wp.vec3:
    """Direction number k (of 4) around local y, the first one pointing most downwards."""
    u = wp.vec3(-n[0], 0.0, -n[2])
    tilt = wp.length(u)
    if tilt > UPRIGHT_TILT:
        u = u / tilt
    else:
        u = wp.vec3(1.0, 0.0, 0.0)
    if k == 1:
        u = -u
    if k == 2:
        u = wp.vec3(u[2], 0.0, -u[0])
    if k == 3:
        u = wp.vec3(-u[2], 0.0, u[0])
    return u


@wp.func
def candidate_point(geo_type: int, scale: wp.vec3, k: int, n: wp.vec3) -> wp.vec3:
    """Point number k of a shape that may touch a plane with normal n, all in the shape's frame."""
    p = wp.vec3(0.0, 0.0, 0.0)
    if geo_type == GEO_SPHERE:
        p = -scale[0] * n
    elif geo_type == GEO_CAPSULE:
        p = wp.vec3(0.0, scale[1] * float(2 * k - 1), 0.0) - scale[0] * n
    elif geo_type == GEO_BOX:
        p = wp.vec3(
            scale[0] * float(2 * (k & 1) - 1),
            scale[1] * float((k & 2) - 1),
            scale[2] * (0.5 * float(k & 4) - 1.0),
        )
    elif geo_type == GEO_CYLINDER:
        p = scale[0] * rim_direction(k / 2, n) + wp.vec3(0.0, scale[1] * float(2 * (k & 1) - 1), 0.0)
    elif geo_type == GEO_CONE:
        p = wp.vec3(0.0, scale[1], 0.0)
        if k > 0:
            p = scale[0] * rim_direction(k - 1, n) - wp.vec3(0.0, scale[1], 0.0)
    elif geo_type == GEO_ELLIPSOID:
        scaled = wp.cw_mul(scale, n)
        p = -wp.cw_mul(scale, scaled) / wp.length(scaled)
    return p


@wp.func
def on_plane(p: wp.vec3, plane_X: wp.transform, size: wp.vec3) -> bool:
    """True if the projection of p lies within a finite plane (sizes along local x and z, 0 = infinite)."""
    local = wp.transform_point(wp.transform_inverse(plane_X), p)
    inside_x = size[0] <= 0.0 or wp.abs(local[0]) <= 0.5 * size[0]
    inside_z = size[1] <= 0.0 or wp.abs(local[2]) <= 0.5 * size[1]
    return inside_x and inside_z


@wp.func
def mesh_support(mesh: wp.uint64, scale: wp.vec3, n: wp.vec3, along: wp.vec3, limit: float) -> int:
    """Vertex farthest in direction `along` among those not higher than `limit` along n; -1 if none."""
    points = wp.mesh_get(mesh).points
    best = int(-1)
    reach = float(-1.0e30)
    for i in range(points.shape[0]):
        p = wp.cw_mul(points[i], scale)
        if wp.dot(p, n) <= limit:
            x = wp.dot(p, along)
            if x > reach:
                reach = x
                best = i
    return best


@wp.func
def mesh_point(mesh: wp.uint64, scale: wp.vec3, vertex: int) -> wp.vec3:
    """Scaled vertex in the shape's frame."""
    return wp.cw_mul(wp.mesh_get(mesh).points[vertex], scale)


@wp.func
def put_slot(slots: SlotView, pair: int, feature: int, p: wp.vec3, distance: float):
    """Store a point under its feature and append the feature to the pair's list."""
    slot = slots.start[pair] + feature
    slots.point[slot] = p
    slots.distance[slot] = distance
    slots.index[slots.start[pair] + slots.count[pair]] = slot
    slots.count[pair] = slots.count[pair] + 1


@wp.func
def put_mesh_points(
    slots: SlotView,
    pair: int,
    mesh: wp.uint64,
    scale: wp.vec3,
    shape_X: wp.transform,
    plane_X: wp.transform,
    plane_size: wp.vec3,
    offset: float,
    margin: float,
):
    """Deepest vertex, and the vertices within the margin that reach farthest in evenly spread directions."""
    n = slots.normal[pair]
    n_local = wp.quat_rotate_inv(wp.transform_get_rotation(shape_X), n)
    plane_p = wp.transform_get_translation(plane_X)
    # height of the shape's frame above the plane, taken off the margin so that vertices compare directly
    height = wp.dot(n, wp.transform_get_translation(shape_X) - plane_p) - offset
    limit = margin - height
    first = slots.start[pair]
    t = wp.quat_rotate(wp.transform_get_rotation(plane_X), wp.vec3(1.0, 0.0, 0.0))
    s = wp.cross(n, t)
    for k in range(MESH_DIRECTIONS + 1):
        along = -n_local
        if k > 0:
            angle = 2.0 * wp.pi * float(k - 1) / float(MESH_DIRECTIONS)
            spread = wp.cos(angle) * t + wp.sin(angle) * s
            along = wp.quat_rotate_inv(wp.transform_get_rotation(shape_X), spread)
        vertex = mesh_support(mesh, scale, n_local, along, limit)
        if vertex < 0:
            return
        p = wp.transform_point(shape_X, mesh_point(mesh, scale, vertex))
        fresh = int(1)
        for i in range(slots.count[pair]):
            if wp.length_sq(slots.point[slots.index[first + i]] - p) < 1.0e-12:
                fresh = 0
        if fresh == 1 and on_plane(p, plane_X, plane_size):
            put_slot(slots, pair, k, p, wp.dot(n, p - plane_p) - offset)


@wp.kernel
def find_plane_contacts(
    pairs: wp.array(dtype=wp.vec2i),
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    margin: float,
    dt: float,
    disabled_plane: int,
    slots: SlotView,
):
    """One thread per (shape, plane) pair: points nearer than the margin, or arriving within dt."""
    pair = wp.tid()
    s = pairs[pair][0]
    plane = pairs[pair][1]
    slots.count[pair] = 0
    if plane == disabled_plane:
        return
    shape_X = shape_pose(shape, s, body_q)
    plane_X = shape_pose(shape, plane, body_q)
    n = wp.transform_vector(plane_X, wp.vec3(0.0, 1.0, 0.0))
    size = shape.geo.scale[plane]
    height = wp.dot(n, wp.transform_get_translation(shape_X) - wp.transform_get_translation(plane_X))
    if height < 0.0 and (size[0] > 0.0 or size[1] > 0.0):
        # a finite plane is a sheet: what is behind it must not be pulled through
        return
    plane_p = wp.transform_get_translation(plane_X)
    offset = shape.geo.thickness[s] + shape.geo.thickness[plane]
    geo_type = shape.geo.type[s]
    scale = shape.geo.scale[s]
    slots.normal[pair] = n
    if geo_type == GEO_MESH:
        reach = margin
        b = shape.body[s]
        if b >= 0:
            arm = wp.transform_get_translation(shape_X) - wp.transform_point(body_q[b], body_com[b])
            spin = wp.length(wp.spatial_top(body_qd[b])) * (shape.radius[s] + wp.length(arm))
            reach += dt * (wp.length(wp.spatial_bottom(body_qd[b])) + spin)
        put_mesh_points(
            slots, pair, shape.geo.source[s], scale, shape_X, plane_X, shape.geo.scale[plane], offset, reach
        )
        return
    n_local = wp.quat_rotate_inv(wp.transform_get_rotation(shape_X), n)
    for k in range(slots.start[pair + 1] - slots.start[pair]):
        p = wp.transform_point(shape_X, candidate_point(geo_type, scale, k, n_local))
        distance = wp.dot(n, p - plane_p) - offset
        v = point_velocity(shape.body[s], p, body_q, body_com, body_qd)
        v -= point_velocity(shape.body[plane], p, body_q, body_com, body_qd)
        approach = wp.max(0.0, -wp.dot(n, v)) * dt
        if distance <= margin + approach and on_plane(p, plane_X, shape.geo.scale[plane]):
            put_slot(slots, pair, k, p, distance)

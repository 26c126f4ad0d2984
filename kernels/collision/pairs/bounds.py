"""World-aligned bounding boxes of shapes and bodies.

A convex shape reaches farthest along an axis at its support point in that direction (Ericson, "Real-Time
Collision Detection", 2005, sections 4.2 and 9.5), which makes the box of a primitive exact. Meshes, height
fields and distance fields have the box about their turned local box (Arvo, "Transforming axis-aligned
bounding boxes", Graphics Gems, 1990). So do large hulls in the broad phase, which then compares the local
boxes themselves.

Stage: broad phase
Called by: newtonsim/pybullet_compat/queries/scene_queries.py, newtonsim/queries/scene_query.py,
    kernels/collision/pairs/broad_phase.py
Reads: HullView, ShapeView, body_q, shape_lower, shape_start, shape_upper, shapes
Writes: lower, shape_X, upper
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_HFIELD,
    GEO_MESH,
    GEO_NONE,
    GEO_PLANE,
    GEO_SDF,
    KIND_HULL,
    HullView,
    ShapeView,
    shape_pose,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# below this sine a plane counts as parallel to a world plane
PARALLEL = wp.constant(1.0e-6)
# share of a reach by which boxes that touch may seem apart in float32
ROUNDING = wp.constant(1.0e-5)
# vertices up to which an exact box costs less than the pairs that a larger one lets through
SMALL_HULL = wp.constant(32)


@wp.struct
class Bounds:
    """Axis-aligned box; empty if lower is above upper."""

    lower: wp.vec3  # [m]
    upper: wp.vec3  # [m]


@wp.func
def empty_bounds() -> Bounds:
    """The empty box."""
    box = Bounds()
    box.lower = wp.vec3(wp.inf, wp.inf, wp.inf)
    box.upper = wp.vec3(-wp.inf, -wp.inf, -wp.inf)
    return box


@wp.func
def join_bounds(box: Bounds, lower: wp.vec3, upper: wp.vec3) -> Bounds:
    """The bounding box of two boxes."""
    joined = Bounds()
    joined.lower = wp.min(box.lower, lower)
    joined.upper = wp.max(box.upper, upper)
    return joined


@wp.func
def half_extent(kind: int, size: wp.vec3, d: wp.vec3) -> float:
    """Reach of a point-symmetric primitive along a unit direction in its frame [m]."""
    reach = size[0]
    if kind == GEO_BOX:
        reach = wp.dot(wp.abs(d), size)
    elif kind == GEO_CAPSULE:
        reach = size[0] + wp.abs(d[1]) * size[1]
    elif kind == GEO_CYLINDER:
        reach = wp.abs(d[1]) * size[1] + wp.sqrt(d[0] * d[0] + d[2] * d[2]) * size[0]
    elif kind == GEO_ELLIPSOID:
        reach = wp.length(wp.cw_mul(d, size))
    return reach


@wp.func
def cone_bounds(size: wp.vec3, X: wp.transform) -> Bounds:
    """Box about a cone: its apex and its base disc."""
    # rows of the rotation: the sine comes from the other two entries, as 1 - cos^2 would lose it
    x = wp.transform_vector(X, wp.vec3(1.0, 0.0, 0.0))
    axis = wp.transform_vector(X, wp.vec3(0.0, 1.0, 0.0))
    z = wp.transform_vector(X, wp.vec3(0.0, 0.0, 1.0))
    p = wp.transform_get_translation(X)
    apex = p + size[1] * axis
    base = p - size[1] * axis
    rim = wp.vec3()
    for i in range(3):
        rim[i] = size[0] * wp.sqrt(x[i] * x[i] + z[i] * z[i])
    box = Bounds()
    box.lower = wp.min(apex, base - rim)
    box.upper = wp.max(apex, base + rim)
    return box


@wp.func
def plane_bounds(size: wp.vec3, X: wp.transform) -> Bounds:
    """Box about a sheet of finite size, or about the half-space below an infinite plane."""
    x = wp.transform_vector(X, wp.vec3(1.0, 0.0, 0.0))
    n = wp.transform_vector(X, wp.vec3(0.0, 1.0, 0.0))
    z = wp.transform_vector(X, wp.vec3(0.0, 0.0, 1.0))
    p = wp.transform_get_translation(X)
    half_space = size[0] <= 0.0 and size[1] <= 0.0
    lower = p
    upper = p
    for i in range(3):
        reach = 0.5 * (wp.abs(x[i]) * size[0] + wp.abs(z[i]) * size[1])
        if size[0] <= 0.0 and wp.abs(x[i]) > PARALLEL:
            reach = wp.inf
        if size[1] <= 0.0 and wp.abs(z[i]) > PARALLEL:
            reach = wp.inf
        lower[i] = p[i] - reach
        upper[i] = p[i] + reach
        if half_space and n[i] > PARALLEL:
            lower[i] = -wp.inf
        if half_space and n[i] < -PARALLEL:
            upper[i] = wp.inf
    box = Bounds()
    box.lower = lower
    box.upper = upper
    return box


@wp.func
def hull_bounds(hulls: HullView, hull: int, X: wp.transform) -> Bounds:
    """Box about the vertices of a hull."""
    # each of the many vertices costs a matrix product; rotation by a quaternion would cost twice as much
    R = wp.quat_to_matrix(wp.transform_get_rotation(X))
    p = wp.transform_get_translation(X)
    box = empty_bounds()
    lower = box.lower
    upper = box.upper
    for v in range(hulls.vertex_start[hull], hulls.vertex_start[hull + 1]):
        r = R @ hulls.vertex[v]
        # not wp.min and wp.max, which look for NaN and take twice as long
        for i in range(3):
            lower[i] = wp.where(r[i] < lower[i], r[i], lower[i])
            upper[i] = wp.where(r[i] > upper[i], r[i], upper[i])
    box.lower = lower + p
    box.upper = upper + p
    return box


@wp.func
def turned_bounds(lower: wp.vec3, upper: wp.vec3, X: wp.transform) -> Bounds:
    """Box about a box given in another frame."""
    R = wp.quat_to_matrix(wp.transform_get_rotation(X))
    middle = R @ (0.5 * (lower + upper)) + wp.transform_get_translation(X)
    half = 0.5 * (upper - lower)
    reach = wp.vec3()
    for i in range(3):
        reach[i] = wp.abs(R[i, 0]) * half[0] + wp.abs(R[i, 1]) * half[1] + wp.abs(R[i, 2]) * half[2]
    box = Bounds()
    box.lower = middle - reach
    box.upper = middle + reach
    return box


@wp.func
def has_local_box(kind: int) -> bool:
    """True for shapes that are bounded by a box in their own frame."""
    return kind == KIND_HULL or kind == GEO_MESH or kind == GEO_HFIELD or kind == GEO_SDF


@wp.func
def quick_box(shape: ShapeView, s: int, X: wp.transform) -> Bounds:
    """Box about shape s at world pose X, of the bare geometry; of hulls it is that of their local box."""
    kind = shape.kind[s]
    size = shape.geo.scale[s]
    box = empty_bounds()
    if kind == GEO_CONE:
        box = cone_bounds(size, X)
    elif kind == GEO_PLANE:
        box = plane_bounds(size, X)
    elif has_local_box(kind):
        box = turned_bounds(shape.local_lower[s], shape.local_upper[s], X)
    elif kind != GEO_NONE:
        p = wp.transform_get_translation(X)
        q = wp.transform_get_rotation(X)
        reach = wp.vec3()
        for i in range(3):
            axis = wp.vec3()
            axis[i] = 1.0
            reach[i] = half_extent(kind, size, wp.quat_rotate_inv(q, axis))
        box.lower = p - reach
        box.upper = p + reach
    return box


@wp.func
def shape_box(shape: ShapeView, hulls: HullView, s: int, X: wp.transform) -> Bounds:
    """Box about shape s at world pose X, of the bare geometry (no thickness); exact for hulls."""
    if shape.kind[s] == KIND_HULL:
        return hull_bounds(hulls, shape.hull[s], X)
    return quick_box(shape, s, X)


@wp.func
def near_box(shape: ShapeView, hulls: HullView, s: int, X: wp.transform) -> Bounds:
    """Box about shape s at world pose X: exact for small hulls, that of the local box for larger ones."""
    hull = shape.hull[s]
    if shape.kind[s] == KIND_HULL and hulls.vertex_start[hull + 1] - hulls.vertex_start[hull] <= SMALL_HULL:
        return hull_bounds(hulls, hull, X)
    return quick_box(shape, s, X)


@wp.func
def reach_along(shape: ShapeView, s: int, d: wp.vec3) -> float:
    """Reach of shape s, or of its local box, from its middle along a unit direction in its frame [m]."""
    kind = shape.kind[s]
    if has_local_box(kind):
        return 0.5 * wp.dot(wp.abs(d), shape.local_upper[s] - shape.local_lower[s])
    if kind == GEO_CONE:
        kind = GEO_CYLINDER
    return half_extent(kind, shape.geo.scale[s], d)


@wp.func
def middle_of(shape: ShapeView, s: int, X: wp.transform) -> wp.vec3:
    """World point about which `reach_along` counts [m]."""
    if has_local_box(shape.kind[s]):
        return wp.transform_point(X, 0.5 * (shape.local_lower[s] + shape.local_upper[s]))
    return wp.transform_get_translation(X)


@wp.func
def box_separates(shape: ShapeView, a: int, b: int, Xa: wp.transform, Xb: wp.transform, slack: float) -> bool:
    """True if a face of the local box of shape a lies between it and shape b, farther apart than `slack` [m].

    The axes of faces are those of the separating axis test that are cheap and decide nearly always
    (S. Gottschalk, M. C. Lin and D. Manocha, "OBBTree", 1996, section 5).
    """
    Ra = wp.quat_to_matrix(wp.transform_get_rotation(Xa))
    Rb = wp.quat_to_matrix(wp.transform_get_rotation(Xb))
    apart = middle_of(shape, b, Xb) - middle_of(shape, a, Xa)
    half = 0.5 * (shape.local_upper[a] - shape.local_lower[a])
    for i in range(3):
        axis = wp.vec3(Ra[0, i], Ra[1, i], Ra[2, i])
        reach = half[i] + reach_along(shape, b, axis @ Rb)
        if wp.abs(wp.dot(axis, apart)) > slack + (1.0 + ROUNDING) * reach:
            return True
    return False


@wp.func
def shape_bounds(
    shape: ShapeView,
    hulls: HullView,
    s: int,
    X: wp.transform,
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """Write the box about shape s at world pose X."""
    box = shape_box(shape, hulls, s, X)
    lower[s] = box.lower
    upper[s] = box.upper


@wp.kernel
def bound_shapes(
    first: int,
    shape: ShapeView,
    hulls: HullView,
    body_q: wp.array(dtype=wp.transform),
    shape_X: wp.array(dtype=wp.transform),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per shape: its world pose and the box about it."""
    s = first + wp.tid()
    X = shape_pose(shape, s, body_q)
    shape_X[s] = X
    shape_bounds(shape, hulls, s, X, lower, upper)


@wp.kernel
def bound_bodies(
    first: int,
    shape_start: wp.array(dtype=int),
    shapes: wp.array(dtype=int),
    shape_lower: wp.array(dtype=wp.vec3),
    shape_upper: wp.array(dtype=wp.vec3),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    """One thread per body: the box about its shapes."""
    b = first + wp.tid()
    box = empty_bounds()
    for k in range(shape_start[b], shape_start[b + 1]):
        s = shapes[k]
        box = join_bounds(box, shape_lower[s], shape_upper[s])
    lower[b] = box.lower
    upper[b] = box.upper

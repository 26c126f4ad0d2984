"""Closest points of sets of shapes, and shapes in boxes.

The result for two sets is that of the pair of shapes with the least signed distance. The pair with the
nearest boxes is tested first, so that the boxes rule out most of the others.

Stage: queries between steps
Called by: newtonsim/queries/scene_query.py, kernels/queries/closest_records.py
Reads: SceneView, SetView, lower, upper, worlds
Writes: ClosestView, count, shapes
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Closest, Convex, convex_shape
from newtonsim.kernels.collision.surfaces.fields import (
    Field,
    closest_on_field,
    lowest_of_field,
    surface_on_field,
)
from newtonsim.kernels.collision.surfaces.surfaces import (
    Surface,
    above_half_space,
    box_gap,
    closest_of_convex,
    closest_of_surfaces,
    closest_on_surface,
    flipped,
    lowest_vertex,
    none_found,
    reach_along,
)
from newtonsim.kernels.queries.ray_solids import is_solid
from newtonsim.kernels.queries.rays import SceneView, scene_row
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_HFIELD, GEO_MESH, GEO_PLANE, GEO_SDF

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# classes of shapes by how their distances are found
CLASS_NONE = wp.constant(0)
CLASS_CONVEX = wp.constant(1)
CLASS_SURFACE = wp.constant(2)
CLASS_FIELD = wp.constant(3)
CLASS_HALF_SPACE = wp.constant(4)

# half extent [m] that represents an infinite side of a plane that is finite along the other
ENDLESS = wp.constant(1.0e4)


@wp.struct
class SetView:
    """Sets of shapes, and the sets that each group compares."""

    start: wp.array(dtype=int)  # (sets + 1)
    shape: wp.array(dtype=int)
    index: wp.array(dtype=int)  # (groups) set of each group


@wp.struct
class ClosestView:
    """Closest points of each group; arrays of shape (groups)."""

    found: wp.array(dtype=int)  # 1 if there is a pair within reach
    distance: wp.array(dtype=float)  # [m] infinite if there is none
    normal: wp.array(dtype=wp.vec3)  # world, unit, from B to A
    point_a: wp.array(dtype=wp.vec3)  # [m] world
    point_b: wp.array(dtype=wp.vec3)  # [m] world
    shape_a: wp.array(dtype=int)  # -1 if there is none
    shape_b: wp.array(dtype=int)


@wp.func
def class_of(scene: SceneView, s: int) -> int:
    """CLASS_* of a shape."""
    kind = scene.shape.kind[s]
    size = scene.shape.geo.scale[s]
    found = CLASS_NONE
    if is_solid(kind):
        found = CLASS_CONVEX
    elif kind == GEO_MESH or kind == GEO_HFIELD:
        found = CLASS_SURFACE
    elif kind == GEO_SDF:
        found = CLASS_FIELD
    elif kind == GEO_PLANE:
        found = CLASS_CONVEX
        if size[0] <= 0.0 and size[1] <= 0.0:
            found = CLASS_HALF_SPACE
    return found


@wp.func
def as_convex(scene: SceneView, s: int) -> Convex:
    """A convex shape; a plane of finite size is a box without height."""
    c = convex_shape(scene.shape, s)
    if c.kind == GEO_PLANE:
        width = wp.where(c.size[0] > 0.0, 0.5 * c.size[0], ENDLESS)
        length = wp.where(c.size[1] > 0.0, 0.5 * c.size[1], ENDLESS)
        c.kind = GEO_BOX
        c.size = wp.vec3(width, 0.0, length)
    return c


@wp.func
def as_surface(scene: SceneView, s: int) -> Surface:
    """A mesh or height field."""
    surface = Surface()
    surface.mesh = scene.shape.geo.source[s]
    surface.scale = scene.shape.geo.scale[s]
    surface.X = scene.pose[s]
    surface.closed = scene.closed[s]
    return surface


@wp.func
def as_field(scene: SceneView, s: int) -> Field:
    """A signed distance field."""
    field = Field()
    field.volume = scene.shape.geo.source[s]
    field.scale = scene.shape.geo.scale[s][0]
    field.lower = scene.shape.local_lower[s]
    field.upper = scene.shape.local_upper[s]
    field.X = scene.pose[s]
    return field


@wp.func(inline=False)
def closest_in_order(scene: SceneView, a: int, b: int, class_a: int, class_b: int, reach: float) -> Closest:
    """Shapes a and b, the class of a at most that of b."""
    c = none_found()
    X_a = scene.pose[a]
    X_b = scene.pose[b]
    if class_b == CLASS_CONVEX:
        c = closest_of_convex(as_convex(scene, a), X_a, as_convex(scene, b), X_b, scene.hulls, reach)
    elif class_b == CLASS_SURFACE and class_a == CLASS_CONVEX:
        c = closest_on_surface(as_convex(scene, a), X_a, as_surface(scene, b), scene.hulls, reach)
    elif class_b == CLASS_SURFACE:
        c = closest_of_surfaces(as_surface(scene, a), as_surface(scene, b), scene.hulls, reach)
    elif class_b == CLASS_FIELD and class_a == CLASS_CONVEX:
        c = closest_on_field(as_convex(scene, a), X_a, as_field(scene, b), scene.hulls, reach)
    elif class_b == CLASS_FIELD and class_a == CLASS_SURFACE:
        c = surface_on_field(as_surface(scene, a), as_field(scene, b), scene.hulls, reach)
    elif class_b == CLASS_HALF_SPACE and class_a != CLASS_HALF_SPACE:
        n = wp.transform_vector(X_b, wp.vec3(0.0, 1.0, 0.0))
        lowest = wp.vec3()
        if class_a == CLASS_CONVEX:
            lowest = reach_along(as_convex(scene, a), scene.hulls, X_a, -n)
        elif class_a == CLASS_FIELD:
            lowest = lowest_of_field(as_field(scene, a), n, scene.hulls)
        else:
            local = wp.quat_rotate_inv(wp.transform_get_rotation(X_a), n)
            lowest = wp.transform_point(X_a, lowest_vertex(as_surface(scene, a), local))
        c = above_half_space(lowest, n, X_b, reach)
    return c


@wp.func
def closest_on_shapes(scene: SceneView, a: int, b: int, reach: float) -> Closest:
    """Signed distance, normal from b to a, and closest points of two shapes, if nearer than reach [m]."""
    class_a = class_of(scene, a)
    class_b = class_of(scene, b)
    c = none_found()
    if class_a != CLASS_NONE and class_b != CLASS_NONE:
        if class_a <= class_b:
            c = closest_in_order(scene, a, b, class_a, class_b, reach)
        else:
            c = flipped(closest_in_order(scene, b, a, class_b, class_a, reach))
    if c.found == 0 or c.distance > reach:
        c = none_found()
    return c


@wp.func
def may_meet(scene: SceneView, a: int, b: int) -> bool:
    """True if two shapes are different ones and of one world, or one of them is global."""
    together = scene.world[a] == scene.world[b] or scene.world[a] < 0 or scene.world[b] < 0
    return a != b and together and a != scene.disabled and b != scene.disabled


@wp.func
def shape_gap(scene: SceneView, a: int, b: int) -> float:
    """Distance between the boxes about two shapes."""
    return box_gap(scene.lower[a], scene.upper[a], scene.lower[b], scene.upper[b])


@wp.kernel
def find_closest(scene: SceneView, sets_a: SetView, sets_b: SetView, reach: float, closest: ClosestView):
    """One thread per group: the least distance between two sets of shapes."""
    g = wp.tid()
    first_a = sets_a.start[sets_a.index[g]]
    end_a = sets_a.start[sets_a.index[g] + 1]
    first_b = sets_b.start[sets_b.index[g]]
    end_b = sets_b.start[sets_b.index[g] + 1]
    # the pair with the nearest boxes first
    start = int(-1)
    least = float(wp.inf)
    for i in range(first_a, end_a):
        for j in range(first_b, end_b):
            a = sets_a.shape[i]
            b = sets_b.shape[j]
            if may_meet(scene, a, b):
                gap = shape_gap(scene, a, b)
                if gap < least:
                    least = gap
                    start = (i - first_a) * (end_b - first_b) + j - first_b
    best = none_found()
    best_a = int(-1)
    best_b = int(-1)
    limit = float(reach)
    count = (end_a - first_a) * (end_b - first_b)
    if start < 0 or least > reach:
        count = 0
    for k in range(count):
        # `start` moves to the front, the others keep their order
        place = k - 1
        if k == 0:
            place = start
        elif k > start:
            place = k
        a = sets_a.shape[first_a + place // (end_b - first_b)]
        b = sets_b.shape[first_b + place % (end_b - first_b)]
        if may_meet(scene, a, b):
            if shape_gap(scene, a, b) <= limit:
                c = closest_on_shapes(scene, a, b, limit)
                if c.found == 1 and (best.found == 0 or c.distance < best.distance):
                    best = c
                    best_a = a
                    best_b = b
                    limit = wp.min(limit, wp.max(c.distance, 0.0))
    closest.found[g] = best.found
    closest.distance[g] = best.distance
    closest.normal[g] = best.normal
    closest.point_a[g] = best.point_a
    closest.point_b[g] = best.point_b
    closest.shape_a[g] = best_a
    closest.shape_b[g] = best_b


@wp.kernel
def find_in_boxes(
    scene: SceneView,
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
    world: int,
    boxes_per_world: int,
    worlds: wp.array(dtype=int),
    mask: wp.uint32,
    shapes: wp.array2d(dtype=int),
    count: wp.array(dtype=int),
):
    """One thread per box: the shapes whose boxes overlap it, and their number."""
    i = wp.tid()
    w = world
    if boxes_per_world > 0:
        w = i // boxes_per_world
    elif worlds.shape[0] > 0:
        w = worlds[i]
    row = scene_row(scene, w)
    found = int(0)
    for k in range(scene.list_start[row], scene.list_start[row + 1]):
        s = scene.listed[k]
        seen = (scene.mask[s] & mask) != wp.uint32(0) and s != scene.disabled
        if seen and box_gap(lower[i], upper[i], scene.lower[s], scene.upper[s]) == 0.0:
            if found < shapes.shape[1]:
                shapes[i, found] = s
            found += 1
    for k in range(found, shapes.shape[1]):
        shapes[i, k] = -1
    count[i] = found

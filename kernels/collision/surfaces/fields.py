"""Distances of signed distance fields.

Projected gradient descent with backtracking finds the point of a convex core with the least value of the
field (Bertsekas, "Nonlinear programming", 1999, section 2.3) from several starts. While the two are
separated, steps as long as the field's value make this an alternating projection between both (Cheney and
Goldstein, "Proximity maps for convex sets", 1959). The minimum is local: fields with many bumps may have a
nearer point.

Stage: narrow phase and queries, distance fields
Called by: kernels/collision/families/sdf.py, kernels/particles/point_distance.py,
    kernels/queries/closest_points.py
Reads: HullView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import (
    Closest,
    Convex,
    centre_of,
    convex_triangle,
    extent_of,
    rounding,
)
from newtonsim.kernels.collision.surfaces.field_values import field_normal, field_value
from newtonsim.kernels.collision.surfaces.surfaces import (
    Surface,
    closest_of_convex,
    corner,
    deeper_of,
    moved,
    none_found,
)
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_CAPSULE, GEO_SPHERE, HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

FIELD_STARTS = wp.constant(10)
FIELD_STEPS = wp.constant(48)
FOOT_STEPS = wp.constant(8)


@wp.struct
class Field:
    """A signed distance field in the world."""

    volume: wp.uint64
    scale: float
    lower: wp.vec3  # [m] box of the field in the frame of the shape, scale included
    upper: wp.vec3  # [m]
    X: wp.transform


@wp.struct
class Level:
    """A field at a point."""

    value: float  # [m] signed distance
    slope: wp.vec3  # unit gradient


@wp.func
def level_in_box(field: Field, p: wp.vec3) -> Level:
    """The field at a point of its box, in the frame of the shape."""
    step = 1.0e-3 * wp.length(field.upper - field.lower)
    rim = wp.vec3(step, step, step)
    inner = wp.min(wp.max(p, field.lower + rim), field.upper - rim)
    level = Level()
    level.value = field.scale * field_value(field.volume, p / field.scale)
    level.slope = field_normal(field.volume, inner / field.scale, step / wp.abs(field.scale))
    level.slope *= wp.sign(field.scale)
    return level


@wp.func(inline=False)
def level_at(field: Field, p: wp.vec3) -> Level:
    """The field at a point of the shape's frame; outside the box, the distance to the surface.

    The surface point is found iteratively, from where the line to the point leaves the box.
    """
    q = wp.min(wp.max(p, field.lower), field.upper)
    level = level_in_box(field, q)
    if wp.length_sq(p - q) > 0.0:
        value = float(wp.inf)
        slope = level.slope
        for _k in range(FOOT_STEPS):
            foot = q - level.value * level.slope
            line = p - foot
            if wp.length(line) >= value:
                break
            value = wp.length(line)
            slope = line / value
            leave = float(1.0)
            for i in range(3):
                if line[i] > 0.0:
                    leave = wp.min(leave, (field.upper[i] - foot[i]) / line[i])
                elif line[i] < 0.0:
                    leave = wp.min(leave, (field.lower[i] - foot[i]) / line[i])
            q = foot + wp.max(leave, 0.0) * line
            level = level_in_box(field, q)
        level.value = value
        level.slope = slope
    return level


@wp.func(inline=False)
def project(core: Convex, X: wp.transform, p: wp.vec3, hulls: HullView) -> wp.vec3:
    """Point of a convex shape nearest to p."""
    dot = Convex()
    dot.kind = GEO_SPHERE
    dot.hull = -1
    c = closest_of_convex(core, X, dot, wp.transform(p, wp.quat_identity()), hulls, wp.inf)
    nearest = p
    if c.found == 1 and c.distance > 0.0:
        nearest = c.point_a
    return nearest


@wp.func
def start_point(field: Field, core: Convex, X: wp.transform, k: int, hulls: HullView) -> wp.vec3:
    """Start k of the descent: nearest to a corner of the box, to its middle, or the middle of the core."""
    p = 0.5 * (field.lower + field.upper)
    if k < 8:
        for i in range(3):
            if (k >> i) & 1 == 1:
                p[i] = field.upper[i]
            else:
                p[i] = field.lower[i]
    elif k == 9:
        p = wp.transform_point(X, centre_of(core, hulls))
    return project(core, X, p, hulls)


@wp.func
def descend(field: Field, core: Convex, X: wp.transform, start: wp.vec3, hulls: HullView) -> wp.vec3:
    """Point of the core with locally least distance."""
    x = start
    here = level_at(field, x)
    least = 1.0e-5 * wp.length(field.upper - field.lower)
    step = wp.max(wp.abs(here.value), extent_of(core, hulls))
    for _k in range(FIELD_STEPS):
        if step < least:
            break
        y = project(core, X, x - step * here.slope, hulls)
        ahead = level_at(field, y)
        if ahead.value < here.value - 1.0e-3 * least:
            x = y
            here = ahead
        else:
            step *= 0.5
    return x


@wp.func(inline=False)
def closest_on_field(a: Convex, X_a: wp.transform, field: Field, hulls: HullView, reach: float) -> Closest:
    """A convex shape (A) and a distance field (B)."""
    best = none_found()
    if field.volume == wp.uint64(0) or field.scale == 0.0:
        return best
    X = wp.transform_inverse(field.X) * X_a
    radius = rounding(a)
    core = a
    if core.kind == GEO_SPHERE or core.kind == GEO_CAPSULE:
        core.size = wp.vec3(0.0, a.size[1], 0.0)
    least = float(wp.inf)
    nearest = wp.vec3()
    for k in range(FIELD_STARTS):
        x = descend(field, core, X, start_point(field, core, X, k, hulls), hulls)
        value = level_at(field, x).value
        if value < least:
            least = value
            nearest = x
    if least - radius <= reach:
        n = level_at(field, nearest).slope
        best.found = 1
        best.distance = least - radius
        best.normal = n
        best.point_a = nearest - radius * n
        best.point_b = nearest - least * n
    return moved(field.X, best)


@wp.func
def lowest_of_field(field: Field, n: wp.vec3, hulls: HullView) -> wp.vec3:
    """Lowest point of the surface along n, both in the world."""
    local = wp.quat_rotate_inv(wp.transform_get_rotation(field.X), n)
    size = wp.length(field.upper - field.lower)
    # a plate perpendicular to n below the box: the point of the field nearest to it is the lowest one
    plate = Convex()
    plate.kind = GEO_BOX
    plate.size = wp.vec3(2.0 * size, 0.0, 2.0 * size)
    plate.hull = -1
    middle = 0.5 * (field.lower + field.upper)
    turn = wp.quat_between_vectors(wp.vec3(0.0, 1.0, 0.0), local)
    X = wp.transform(middle - 0.5 * size * local, turn)
    c = closest_on_field(plate, field.X * X, field, hulls, wp.inf)
    return c.point_b


@wp.func(inline=False)
def surface_on_field(a: Surface, field: Field, hulls: HullView, reach: float) -> Closest:
    """A triangle mesh or height field (A) and a distance field (B), triangle by triangle."""
    best = none_found()
    limit = float(reach)
    to_field = wp.transform_inverse(field.X) * a.X
    for t in range(wp.mesh_get(a.mesh).indices.shape[0] // 3):
        p = corner(a, t, 0)
        q = corner(a, t, 1)
        r = corner(a, t, 2)
        middle = (p + q + r) / 3.0
        radius = wp.max(wp.max(wp.length(p - middle), wp.length(q - middle)), wp.length(r - middle))
        bound = limit
        if best.found == 1:
            bound = wp.min(limit, best.distance)
        if level_at(field, wp.transform_point(to_field, middle)).value - radius <= bound:
            best = deeper_of(best, closest_on_field(convex_triangle(p, q, r), a.X, field, hulls, limit))
    return best

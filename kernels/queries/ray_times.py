"""Entry and exit of a line through a convex solid, without normals; faster than `kernels.queries.ray_solids`.

Boxes by slabs (Kay and Kajiya, "Ray tracing complex scenes", 1986), quadrics by the numerically stable root
through the point of closest approach (Haines, Guenther, Akenine-Moeller, "Precision improvements for
ray/sphere intersection", Ray Tracing Gems, 2019). A line that leaves the tube of a capsule beyond an end is
inside the ball there. Lines are given in the frame of the solid; functions return the entry and the exit, in
lengths of the direction, and the entry is above the exit where the line misses.

Stage: ray casting
Called by: kernels/camera/scene.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.queries.ray_solids import span_of_cone
from newtonsim.kernels.views.shapes import (
    GEO_BOX,
    GEO_CAPSULE,
    GEO_CONE,
    GEO_CYLINDER,
    GEO_ELLIPSOID,
    GEO_SPHERE,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# squared length of a direction across an axis below which it counts as along it
ALONG = wp.constant(1.0e-14)


@wp.func
def times_of_ball(radius: float, o: wp.vec3, d: wp.vec3):
    """Ball about the origin."""
    rate = wp.dot(d, d)
    middle = -wp.dot(o, d) / rate
    nearest = o + middle * d
    room = radius * radius - wp.dot(nearest, nearest)
    if room < 0.0:
        return wp.inf, -wp.inf
    half = wp.sqrt(room / rate)
    return middle - half, middle + half


@wp.func
def times_of_slab(half: float, o: float, d: float):
    """Values within half extents, along one axis."""
    if d == 0.0:
        if wp.abs(o) > half:
            return wp.inf, -wp.inf
        return -wp.inf, wp.inf
    a = (-half - o) / d
    b = (half - o) / d
    return wp.min(a, b), wp.max(a, b)


@wp.func
def times_of_box(half: wp.vec3, o: wp.vec3, d: wp.vec3):
    """Box of half extents about the origin."""
    enter = float(-wp.inf)
    leave = float(wp.inf)
    for k in range(3):
        a, b = times_of_slab(half[k], o[k], d[k])
        enter = wp.max(enter, a)
        leave = wp.min(leave, b)
    return enter, leave


@wp.func
def times_of_tube(radius: float, o: wp.vec3, d: wp.vec3):
    """Infinite cylinder about y."""
    rate = d[0] * d[0] + d[2] * d[2]
    middle = float(0.0)
    if rate > ALONG:
        middle = -(o[0] * d[0] + o[2] * d[2]) / rate
    x = o[0] + middle * d[0]
    z = o[2] + middle * d[2]
    room = radius * radius - x * x - z * z
    if room < 0.0:
        return wp.inf, -wp.inf
    if rate <= ALONG:
        return -wp.inf, wp.inf
    half = wp.sqrt(room / rate)
    return middle - half, middle + half


@wp.func
def times_of_cylinder(radius: float, half_height: float, o: wp.vec3, d: wp.vec3):
    """Cylinder along y."""
    enter, leave = times_of_tube(radius, o, d)
    a, b = times_of_slab(half_height, o[1], d[1])
    return wp.max(enter, a), wp.min(leave, b)


@wp.func
def times_of_capsule(radius: float, half_height: float, o: wp.vec3, d: wp.vec3):
    """Capsule along y."""
    enter, leave = times_of_tube(radius, o, d)
    if enter > leave:
        return enter, leave
    # heights of entry and exit; infinite for lines along the axis
    low = o[1] + enter * d[1]
    high = o[1] + leave * d[1]
    if wp.abs(low) > half_height:
        end = wp.where(low > 0.0, half_height, -half_height)
        a, b = times_of_ball(radius, o - wp.vec3(0.0, end, 0.0), d)
        enter = a
        if a > b:
            return wp.inf, -wp.inf
    if wp.abs(high) > half_height:
        end = wp.where(high > 0.0, half_height, -half_height)
        a, b = times_of_ball(radius, o - wp.vec3(0.0, end, 0.0), d)
        leave = b
    return enter, leave


@wp.func
def times_of_ellipsoid(axes: wp.vec3, o: wp.vec3, d: wp.vec3):
    """Ellipsoid of semi-axes about the origin; flat ones are missed."""
    if wp.min(axes) <= 0.0:
        return wp.inf, -wp.inf
    enter, leave = times_of_ball(1.0, wp.cw_div(o, axes), wp.cw_div(d, axes))
    return enter, leave


@wp.func
def times_of_primitive(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3):
    """Convex primitive of a GeoType."""
    enter = float(wp.inf)
    leave = float(-wp.inf)
    if kind == GEO_BOX:
        enter, leave = times_of_box(size, o, d)
    elif kind == GEO_SPHERE:
        enter, leave = times_of_ball(size[0], o, d)
    elif kind == GEO_CAPSULE:
        enter, leave = times_of_capsule(size[0], size[1], o, d)
    elif kind == GEO_CYLINDER:
        enter, leave = times_of_cylinder(size[0], size[1], o, d)
    elif kind == GEO_CONE:
        span = span_of_cone(size[0], size[1], o, d)
        enter = span.enter
        leave = span.exit
    elif kind == GEO_ELLIPSOID:
        enter, leave = times_of_ellipsoid(size, o, d)
    return enter, leave

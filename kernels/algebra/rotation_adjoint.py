"""Reverse derivatives of rotations and transforms, by the components of their quaternions.

They are those of Warp's formulas: a quaternion q = (u, w) rotates x to (2 w² - 1) x + 2 w u × x + 2 u u · x,
whether it has unit length or not.

Stage: backward passes
Called by: kernels/trees/adjoint/motion.py, kernels/trees/adjoint/poses.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def rotation_slope(q: wp.quat, x: wp.vec3, g: wp.vec3) -> wp.quat:
    """Gradient by q of g · (q rotating x)."""
    u = wp.vec3(q[0], q[1], q[2])
    w = q[3]
    du = 2.0 * (w * wp.cross(x, g) + wp.dot(u, x) * g + wp.dot(u, g) * x)
    return wp.quat(du, 4.0 * w * wp.dot(x, g) + 2.0 * wp.dot(wp.cross(u, x), g))


@wp.func
def left_slope(b: wp.quat, g: wp.quat) -> wp.quat:
    """Gradient by a of g · (a b)."""
    return g * wp.quat_inverse(b)


@wp.func
def right_slope(a: wp.quat, g: wp.quat) -> wp.quat:
    """Gradient by b of g · (a b)."""
    return wp.quat_inverse(a) * g


@wp.func
def left_transform_slope(a: wp.transform, b: wp.transform, g: wp.transform) -> wp.transform:
    """Gradient by a of g · (a b)."""
    q = wp.transform_get_rotation(a)
    p = wp.transform_get_translation(g)
    turn = rotation_slope(q, wp.transform_get_translation(b), p)
    return wp.transform(p, turn + left_slope(wp.transform_get_rotation(b), wp.transform_get_rotation(g)))


@wp.func
def right_transform_slope(a: wp.transform, g: wp.transform) -> wp.transform:
    """Gradient by b of g · (a b)."""
    q = wp.transform_get_rotation(a)
    return wp.transform(
        wp.quat_rotate_inv(q, wp.transform_get_translation(g)),
        right_slope(q, wp.transform_get_rotation(g)),
    )


@wp.func
def inverse_transform_slope(a: wp.transform, g: wp.transform) -> wp.transform:
    """Gradient by a of g · a⁻¹."""
    back = wp.quat_inverse(wp.transform_get_rotation(a))
    p = -wp.transform_get_translation(g)
    turn = rotation_slope(back, wp.transform_get_translation(a), p) + wp.transform_get_rotation(g)
    return wp.transform(wp.quat_rotate_inv(back, p), wp.quat_inverse(turn))


@wp.func
def unit_slope(q: wp.quat, g: wp.quat) -> wp.quat:
    """Gradient by q of g · q / |q|."""
    inverse = 1.0 / wp.length(q)
    unit = q * inverse
    return (g - unit * wp.dot(g, unit)) * inverse

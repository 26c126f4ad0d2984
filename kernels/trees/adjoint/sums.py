"""Sums of gradients in arrays, which are empty where no gradient is kept.

Stage: backward pass of smooth dynamics
Called by: kernels/trees/adjoint/motion.py, kernels/trees/adjoint/poses.py
Reads: its arguments
Writes: a
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def add_number(a: wp.array(dtype=float), i: int, x: float):
    """a[i] += x."""
    if a.shape[0] > 0:
        a[i] = a[i] + x


@wp.func
def add_vector(a: wp.array(dtype=wp.vec3), i: int, x: wp.vec3):
    """a[i] += x."""
    if a.shape[0] > 0:
        a[i] = a[i] + x


@wp.func
def add_spatial(a: wp.array(dtype=wp.spatial_vector), i: int, x: wp.spatial_vector):
    """a[i] += x."""
    if a.shape[0] > 0:
        a[i] = a[i] + x


@wp.func
def add_matrix(a: wp.array(dtype=wp.mat33), i: int, x: wp.mat33):
    """a[i] += x."""
    if a.shape[0] > 0:
        a[i] = a[i] + x


@wp.func
def add_transform(a: wp.array(dtype=wp.transform), i: int, x: wp.transform):
    """a[i] += x, component by component."""
    if a.shape[0] > 0:
        old = a[i]
        a[i] = wp.transform(
            wp.transform_get_translation(old) + wp.transform_get_translation(x),
            wp.transform_get_rotation(old) + wp.transform_get_rotation(x),
        )


@wp.func
def add_coordinates(a: wp.array(dtype=float), start: int, x: wp.vec3):
    """a[start : start + 3] += x."""
    for k in range(3):
        add_number(a, start + k, x[k])


@wp.func
def taken(a: wp.array(dtype=wp.spatial_vector), i: int) -> wp.spatial_vector:
    """Entry i, which is cleared, as the way back through a store does."""
    x = a[i]
    a[i] = wp.spatial_vector()
    return x


@wp.func
def taken_transform(a: wp.array(dtype=wp.transform), i: int) -> wp.transform:
    """Entry i, which is cleared."""
    x = a[i]
    a[i] = wp.transform(wp.vec3(0.0, 0.0, 0.0), wp.quat(0.0, 0.0, 0.0, 0.0))
    return x

"""Bounding boxes of the space that shapes swept in many steps.

Stage: after each step of a PyBullet client
Called by: newtonsim/pybullet_compat/engine/swept_stage.py
Reads: lower, upper
Writes: swept_lower, swept_upper
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def widen_bounds(
    first: int,
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
    swept_lower: wp.array(dtype=wp.vec3),
    swept_upper: wp.array(dtype=wp.vec3),
):
    """One thread per shape: extend its box to contain that of this step, corners in [m]."""
    s = first + wp.tid()
    swept_lower[s] = wp.min(swept_lower[s], lower[s])
    swept_upper[s] = wp.max(swept_upper[s], upper[s])

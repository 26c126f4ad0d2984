"""Values and directions of a signed distance field at a point.

Stage: narrow phase and queries, distance fields
Called by: kernels/camera/scene.py, kernels/collision/surfaces/fields.py, kernels/queries/ray_surfaces.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def field_value(volume: wp.uint64, p: wp.vec3) -> float:
    """Signed distance at a point of the field's frame."""
    return wp.volume_sample_f(volume, wp.volume_world_to_index(volume, p), wp.Volume.LINEAR)


@wp.func
def field_normal(volume: wp.uint64, p: wp.vec3, step: float) -> wp.vec3:
    """Direction in which the field grows, by central differences."""
    n = wp.vec3()
    for i in range(3):
        shift = wp.vec3()
        shift[i] = step
        n[i] = field_value(volume, p + shift) - field_value(volume, p - shift)
    return wp.normalize(n)

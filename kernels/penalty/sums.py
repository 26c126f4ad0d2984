"""Sums of forces that elements wrote to separate places, for each particle and body.

Each sum runs over a list of places, `slot[start[i]:start[i + 1]]`, in a fixed order.

Stage: penalty forces, last, sums
Called by: solvers/semi_implicit/bodies.py, solvers/semi_implicit/elements.py
Reads: corner, external, part, slot, start
Writes: f
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def sum_forces(
    first: int,
    start: wp.array(dtype=int),
    slot: wp.array(dtype=int),
    corner: wp.array(dtype=wp.vec3),
    external: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: external force and those of its elements."""
    i = first + wp.tid()
    total = external[i]
    for k in range(start[i], start[i + 1]):
        total += corner[slot[k]]
    f[i] = total


@wp.kernel
def sum_wrenches(
    first: int,
    start: wp.array(dtype=int),
    slot: wp.array(dtype=int),
    part: wp.array(dtype=wp.spatial_vector),
    external: wp.array(dtype=wp.spatial_vector),
    f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: external wrench and those of its joints and muscles."""
    b = first + wp.tid()
    total = external[b]
    for k in range(start[b], start[b + 1]):
        total += part[slot[k]]
    f[b] = total

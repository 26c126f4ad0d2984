"""Forces that compensate a share of the weight of bodies.

Stage: forces at the start of a step
Called by: solvers/featherstone/stages.py
Reads: body_com, body_q, gravity, mass, point, share, world
Writes: body_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.gravity import gravity_of

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def carry_weight(
    first: int,
    world: wp.array(dtype=int),
    mass: wp.array(dtype=float),
    gravity: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    share: wp.array(dtype=float),
    point: wp.array(dtype=wp.vec3),
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: add -share m g at a point of the body."""
    b = first + wp.tid()
    force = -share[b] * mass[b] * gravity_of(gravity, world[b])
    arm = wp.transform_vector(body_q[b], point[b] - body_com[b])
    body_f[b] = body_f[b] + wp.spatial_vector(wp.cross(arm, force), force)

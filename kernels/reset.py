"""Per-world reset of flat arrays."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def restore_floats(
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source: wp.array(dtype=float),
    target: wp.array(dtype=float),
):
    """One thread per entry: copy the entries of masked worlds."""
    i = wp.tid()
    if world[i] >= 0 and mask[world[i]]:
        target[i] = source[i]


@wp.kernel
def restore_bodies(
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source_q: wp.array(dtype=wp.transform),
    source_qd: wp.array(dtype=wp.spatial_vector),
    target_q: wp.array(dtype=wp.transform),
    target_qd: wp.array(dtype=wp.spatial_vector),
    target_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: copy pose and velocity of masked worlds, and clear their forces."""
    b = wp.tid()
    if world[b] >= 0 and mask[world[b]]:
        target_q[b] = source_q[b]
        target_qd[b] = source_qd[b]
        target_f[b] = wp.spatial_vector()


@wp.kernel
def restore_particles(
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source_q: wp.array(dtype=wp.vec3),
    source_qd: wp.array(dtype=wp.vec3),
    target_q: wp.array(dtype=wp.vec3),
    target_qd: wp.array(dtype=wp.vec3),
    target_f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: copy position and velocity of masked worlds, and clear their forces."""
    i = wp.tid()
    if world[i] >= 0 and mask[world[i]]:
        target_q[i] = source_q[i]
        target_qd[i] = source_qd[i]
        target_f[i] = wp.vec3(0.0, 0.0, 0.0)

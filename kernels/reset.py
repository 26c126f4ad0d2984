"""Per-world reset of flat arrays, and of what solvers remember of a world."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def restore_floats(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source: wp.array(dtype=float),
    target: wp.array(dtype=float),
):
    """One thread per entry: copy the entries of masked worlds."""
    i = first + wp.tid()
    if world[i] >= 0 and mask[world[i]]:
        target[i] = source[i]


@wp.kernel
def restore_bodies(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source_q: wp.array(dtype=wp.transform),
    source_qd: wp.array(dtype=wp.spatial_vector),
    target_q: wp.array(dtype=wp.transform),
    target_qd: wp.array(dtype=wp.spatial_vector),
    target_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: copy pose and velocity of masked worlds, and clear their forces."""
    b = first + wp.tid()
    if world[b] >= 0 and mask[world[b]]:
        target_q[b] = source_q[b]
        target_qd[b] = source_qd[b]
        target_f[b] = wp.spatial_vector()


@wp.kernel
def restore_particles(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    source_q: wp.array(dtype=wp.vec3),
    source_qd: wp.array(dtype=wp.vec3),
    target_q: wp.array(dtype=wp.vec3),
    target_qd: wp.array(dtype=wp.vec3),
    target_f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: copy position and velocity of masked worlds, and clear their forces."""
    i = first + wp.tid()
    if world[i] >= 0 and mask[world[i]]:
        target_q[i] = source_q[i]
        target_qd[i] = source_qd[i]
        target_f[i] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def forget_floats(
    first: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), memory: wp.array(dtype=float)
):
    """One thread per entry: clear those of the masked worlds."""
    i = first + wp.tid()
    if mask[world[i]]:
        memory[i] = 0.0


@wp.kernel
def forget_vectors(
    first: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), memory: wp.array(dtype=wp.vec3)
):
    """One thread per entry: clear those of the masked worlds."""
    i = first + wp.tid()
    if mask[world[i]]:
        memory[i] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def forget_counts(first: int, mask: wp.array(dtype=bool), counts: wp.array(dtype=int)):
    """One thread per world: clear the count of the masked ones."""
    w = first + wp.tid()
    if mask[w]:
        counts[w] = 0


@wp.kernel
def clear_wrenches(first: int, wrenches: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: no wrench."""
    wrenches[first + wp.tid()] = wp.spatial_vector()


@wp.kernel
def clear_flags(first: int, mask: wp.array(dtype=bool), flags: wp.array(dtype=bool)):
    """One thread per world: unset the flags of the masked ones."""
    w = first + wp.tid()
    if mask[w]:
        flags[w] = False

"""Particles at the borders of a step of FeatherstoneSolver."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def copy_particles(
    first: int,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    x_out: wp.array(dtype=wp.vec3),
    v_out: wp.array(dtype=wp.vec3),
):
    """One thread per particle: copy its state."""
    i = first + wp.tid()
    x_out[i] = x[i]
    v_out[i] = v[i]


@wp.kernel
def mark_nonfinite(
    first: int,
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    world_nonfinite: wp.array(dtype=bool),
    any_nonfinite: wp.array(dtype=int),
):
    """One thread per particle: mark its world, and element 0 of `any_nonfinite`, if it is at no place."""
    i = first + wp.tid()
    if not (wp.isfinite(x[i]) and wp.isfinite(v[i])) and world[i] >= 0:
        world_nonfinite[world[i]] = True
        any_nonfinite[0] = 1

"""Particles in a substep of extended position-based dynamics.

Macklin, Müller, Chentanez, "XPBD: position-based simulation of compliant constrained dynamics", MIG 2016.

Corrections are summed in `shift`, separately from the predicted positions: velocities are then free of the
rounding error of a difference of positions, which, divided by a short step, would exceed the motion.

Stage: XPBD substep, before and after the sweeps
Called by: solvers/xpbd/particles.py, kernels/particles/xpbd/edges.py, kernels/particles/xpbd/springs.py,
    kernels/particles/xpbd/tetrahedra.py, kernels/particles/xpbd/triangles.py
Reads: external, flags, force, gravity, inv_mass, shift, weight, world
Writes: force, shift, v, weight, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.gravity import gravity_of

PARTICLE_FLAG_ACTIVE = wp.constant(wp.uint32(1))

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def is_cleared(masked: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), i: int) -> bool:
    """Whether stored forces of an element with particle i are cleared: in masked worlds, or in all.

    Args:
        masked: 0 for all worlds.
        mask: Which worlds are masked, shape (world_count,).
        world: World of each particle, -1 for none.
        i: A particle of the element.
    """
    clear = masked == 0
    if not clear:
        owner = world[i]
        if owner >= 0:
            clear = mask[owner]
    return clear


@wp.kernel
def begin_particles(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    external: wp.array(dtype=wp.vec3),
    has_external: int,
    weight: wp.array(dtype=float),
    force: wp.array(dtype=wp.vec3),
):
    """One thread per particle: inverse mass, 0 if held, and the force of this step."""
    i = first + wp.tid()
    weight[i] = wp.where((flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0), inv_mass[i], 0.0)
    given = wp.vec3(0.0)
    if has_external != 0:
        given = external[i]
    force[i] = given


@wp.kernel
def predict_particles(
    first: int,
    world: wp.array(dtype=int),
    weight: wp.array(dtype=float),
    force: wp.array(dtype=wp.vec3),
    gravity: wp.array(dtype=wp.vec3),
    max_speed: float,
    dt: float,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: move it as without elements and contacts; held particles stay."""
    i = first + wp.tid()
    shift[i] = wp.vec3(0.0)
    if weight[i] > 0.0:
        end = v[i] + (gravity_of(gravity, world[i]) + force[i] * weight[i]) * dt
        speed = wp.length(end)
        if speed > max_speed:
            end = end * (max_speed / speed)
        v[i] = end
        x[i] = x[i] + end * dt


@wp.kernel
def finish_particles(
    first: int,
    weight: wp.array(dtype=float),
    max_speed: float,
    dt: float,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: a correction of the position is a velocity over the substep."""
    i = first + wp.tid()
    if weight[i] > 0.0:
        x[i] = x[i] + shift[i]
        end = v[i] + shift[i] / dt
        speed = wp.length(end)
        if speed > max_speed:
            end = end * (max_speed / speed)
        v[i] = end

"""Particles before and after the sweeps of vertex block descent.

Stage: VBD substep, before and after the sweeps
Called by: solvers/vbd/particles.py
Reads: DescentView, StencilView, 9 arrays
Writes: DescentView, StencilView, v, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.vbd.elements import StencilView
from newtonsim.kernels.views.gravity import gravity_of

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

PARTICLE_FLAG_ACTIVE = wp.constant(wp.uint32(1))


@wp.struct
class DescentView:
    """Particles during a step; N of them."""

    mass: wp.array(dtype=float)  # (N) [kg] 0 for held particles
    inv_mass: wp.array(dtype=float)  # (N) [1/kg] likewise
    force: wp.array(dtype=wp.vec3)  # (N) [N] external, and then with gravity the acceleration [m/s²]
    goal: wp.array(dtype=wp.vec3)  # (N) [m] displacement by inertia and external forces alone
    predicted: wp.array(dtype=wp.vec3)  # (N) [m] position after it
    former: wp.array(dtype=wp.vec3)  # (N) [m/s] velocity at the start of the step
    gain: wp.array(dtype=wp.vec3)  # (N) [m/s²] acceleration in the last step


@wp.kernel
def begin_particles(
    first: int,
    mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    force: wp.array(dtype=wp.vec3),
    forced: int,
    descent: DescentView,
):
    """One thread per particle: mass, or 0 if it is held, and force."""
    i = first + wp.tid()
    held = (flags[i] & PARTICLE_FLAG_ACTIVE) == wp.uint32(0) or not mass[i] > 0.0
    descent.mass[i] = wp.where(held, 0.0, mass[i])
    descent.inv_mass[i] = wp.where(held, 0.0, 1.0 / mass[i])
    descent.force[i] = wp.vec3(0.0)
    if forced != 0:
        descent.force[i] = force[i]


@wp.kernel
def accelerate(
    first: int,
    world: wp.array(dtype=int),
    gravity: wp.array(dtype=wp.vec3),
    dt: float,
    descent: DescentView,
    v: wp.array(dtype=wp.vec3),
):
    """One thread per particle: velocity after gravity and external forces."""
    i = first + wp.tid()
    descent.former[i] = v[i]
    acceleration = gravity_of(gravity, world[i]) + descent.force[i] * descent.inv_mass[i]
    descent.force[i] = acceleration
    if descent.mass[i] > 0.0:
        v[i] = v[i] + acceleration * dt


@wp.kernel
def predict(
    first: int,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    descent: DescentView,
    stencils: StencilView,
):
    """One thread per particle: displacement by inertia."""
    i = first + wp.tid()
    stencils.x[i] = x[i]
    stencils.u[i] = wp.vec3(0.0)
    descent.goal[i] = wp.vec3(0.0)
    if descent.mass[i] > 0.0:
        descent.goal[i] = v[i] * dt
    descent.predicted[i] = x[i] + v[i] * dt


@wp.kernel
def guess(first: int, step: float, dt: float, descent: DescentView, stencils: StencilView):
    """One thread per particle: guess with the share of the free acceleration of the last step (section 3.5).

    Args:
        first: First particle.
        step: Length of the step, over which external forces acted already [s].
        dt: Length of the substep [s].
        descent: The particles.
        stencils: Their displacement is written.
    """
    i = first + wp.tid()
    a = descent.force[i]
    a2 = wp.dot(a, a)
    part = float(1.0)
    if a2 > 0.0:
        part = wp.clamp(wp.dot(descent.gain[i], a) / a2, 0.0, 1.0)
    if descent.mass[i] > 0.0:
        stencils.u[i] = descent.goal[i] - a * ((1.0 - part) * step * dt)


@wp.kernel
def finish(
    first: int,
    dt: float,
    fastest: float,
    descent: DescentView,
    stencils: StencilView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
):
    """One thread per particle: position and velocity at the end of a substep."""
    i = first + wp.tid()
    if descent.mass[i] > 0.0:
        u = stencils.u[i]
        x[i] = x[i] + u
        velocity = u / dt
        speed = wp.length(velocity)
        if speed > fastest:
            velocity = velocity * (fastest / speed)
        v[i] = velocity


@wp.kernel
def note_gain(first: int, dt: float, v: wp.array(dtype=wp.vec3), descent: DescentView):
    """One thread per particle: store the acceleration of this step for the initial guess of the next one."""
    i = first + wp.tid()
    descent.gain[i] = (v[i] - descent.former[i]) / dt


@wp.kernel
def forget_gain(
    first: int,
    world_mask: wp.array(dtype=bool),
    masked: int,
    particle_world: wp.array(dtype=int),
    descent: DescentView,
):
    """One thread per particle: clear that acceleration in the masked worlds, or in all."""
    i = first + wp.tid()
    w = particle_world[i]
    if masked == 0:
        descent.gain[i] = wp.vec3(0.0)
    elif w >= 0:
        if world_mask[w]:
            descent.gain[i] = wp.vec3(0.0)

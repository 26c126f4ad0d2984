"""Backward pass of the explicit parts of an implicit Euler step of particles: prediction, velocities, forces.

Kernels read gradients of the outputs of a stage from `slope_*` arrays, and write those of its inputs there.

Stage: backward pass of particles, before and after the linear system
Called by: solvers/particles/adjoint.py, solvers/vbd/adjoint.py, solvers/xpbd/adjoint.py,
    kernels/particles/adjoint/contacts.py
Reads: ReverseView, SubstepView, 18 arrays
Writes: ReverseView, SubstepView, 11 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.kernels.particles.aerodynamics import air_force
from newtonsim.kernels.views.gravity import gravity_of

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.struct
class ReverseView:
    """Gradients within a step; N particles."""

    x: wp.array(dtype=wp.vec3d)  # (N) by positions
    v: wp.array(dtype=wp.vec3d)  # (N) by velocities
    goal: wp.array(dtype=wp.vec3d)  # (N) by displacements by inertia
    force: wp.array(dtype=wp.vec3d)  # (N) by forces
    mass: wp.array(dtype=wp.float64)  # (N) by masses
    gravity: wp.array(dtype=wp.vec3d)  # (W)


@wp.kernel
def note_sweeps(
    first: int,
    dt: float,
    inv_mass: wp.array(dtype=float),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
    u: wp.array(dtype=wp.vec3),
    rate: wp.array(dtype=wp.vec3),
    goal: wp.array(dtype=wp.vec3),
):
    """One thread per particle: displacements in a substep of XPBD, after its sweeps."""
    i = first + wp.tid()
    by_inertia = v[i] * dt
    goal[i] = by_inertia
    u[i] = wp.vec3(0.0)
    rate[i] = by_inertia
    if inv_mass[i] > 0.0:
        u[i] = by_inertia + shift[i]
        rate[i] = u[i]


@wp.kernel
def note_descent(
    first: int,
    displacement: wp.array(dtype=wp.vec3),
    inertial: wp.array(dtype=wp.vec3),
    u: wp.array(dtype=wp.vec3),
    rate: wp.array(dtype=wp.vec3),
    goal: wp.array(dtype=wp.vec3),
):
    """One thread per particle: displacements in a substep of VBD, after its sweeps."""
    i = first + wp.tid()
    u[i] = displacement[i]
    rate[i] = displacement[i]
    goal[i] = inertial[i]


@wp.kernel
def begin_reverse(
    first: int,
    inv_mass: wp.array(dtype=float),
    by_x: wp.array(dtype=wp.vec3),
    by_v: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=wp.float64),
    reverse: ReverseView,
):
    """One thread per particle: gradients of the end of the step."""
    i = first + wp.tid()
    mass[i] = ZERO
    if inv_mass[i] > 0.0:
        mass[i] = ONE / wp.float64(inv_mass[i])
    reverse.x[i] = wp.vec3d(by_x[i])
    reverse.v[i] = wp.vec3d(by_v[i])
    reverse.force[i] = wp.vec3d()
    reverse.mass[i] = ZERO


@wp.func
def cut_off(v: wp.vec3d, fastest: wp.float64) -> wp.vec3d:
    """Velocity, limited to a speed."""
    speed = wp.length(v)
    if speed > fastest:
        return v * (fastest / speed)
    return v


@wp.func
def through_limit(g: wp.vec3d, v: wp.vec3d, fastest: wp.float64) -> wp.vec3d:
    """Gradient with respect to a velocity, from that with respect to the limited one."""
    speed = wp.length(v)
    if speed > fastest:
        n = v / speed
        return (g - n * wp.dot(n, g)) * (fastest / speed)
    return g


@wp.kernel
def begin_substep(first: int, s: SubstepView, reverse: ReverseView, right: wp.array(dtype=wp.vec3d)):
    """One thread per particle: clear what belongs to one substep."""
    i = first + wp.tid()
    right[i] = wp.vec3d()
    s.slope_rate[i] = wp.vec3d()
    s.residual[i] = wp.vec3d()
    reverse.goal[i] = wp.vec3d()


@wp.kernel
def reverse_end(
    first: int, fastest: float, s: SubstepView, reverse: ReverseView, right: wp.array(dtype=wp.vec3d)
):
    """One thread per particle: from the end of a substep to its displacements."""
    i = first + wp.tid()
    if s.mass[i] > ZERO:
        g = through_limit(reverse.v[i], wp.vec3d(s.u[i]) / s.dt, wp.float64(fastest))
        right[i] = right[i] + reverse.x[i] + g / s.dt
        reverse.v[i] = wp.vec3d()


@wp.kernel
def reverse_inertia(first: int, goal: wp.array(dtype=wp.vec3), s: SubstepView, reverse: ReverseView):
    """One thread per particle: from the multipliers to the displacement by inertia and the mass."""
    i = first + wp.tid()
    if s.mass[i] > ZERO:
        push = s.multiplier[i] / (s.dt * s.dt)
        pulled = wp.vec3d(s.u[i]) - wp.vec3d(goal[i])
        reverse.goal[i] = reverse.goal[i] + push * s.mass[i]
        reverse.mass[i] = reverse.mass[i] - wp.dot(push, pulled)
        s.residual[i] = s.residual[i] + pulled * (s.mass[i] / (s.dt * s.dt))


@wp.kernel
def reverse_prediction(first: int, s: SubstepView, reverse: ReverseView):
    """One thread per particle: from the displacement by inertia, or that for damping, to the velocity."""
    i = first + wp.tid()
    if s.mass[i] > ZERO:
        reverse.v[i] = reverse.v[i] + reverse.goal[i] * s.dt
    elif s.secant == 0:
        reverse.v[i] = reverse.v[i] + s.slope_rate[i] * s.dt


@wp.kernel
def reverse_acceleration(
    first: int,
    dt: float,
    fastest: float,
    world: wp.array(dtype=int),
    gravity: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=wp.float64),
    reverse: ReverseView,
):
    """One thread per particle: from the velocity after external forces acted for dt to that before."""
    i = first + wp.tid()
    if mass[i] > ZERO:
        h = wp.float64(dt)
        f = wp.vec3d(force[i])
        after = wp.vec3d(v[i]) + (wp.vec3d(gravity_of(gravity, world[i])) + f / mass[i]) * h
        g = through_limit(reverse.v[i], after, wp.float64(fastest))
        reverse.v[i] = g
        reverse.force[i] = reverse.force[i] + g * (h / mass[i])
        reverse.mass[i] = reverse.mass[i] - wp.dot(g, f) * h / (mass[i] * mass[i])
        wp.atomic_add(reverse.gravity, wp.max(world[i], 0), g * h)


@wp.kernel
def reverse_descent(
    first: int,
    dt: float,
    world: wp.array(dtype=int),
    gravity: wp.array(dtype=wp.vec3),
    acceleration: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=wp.float64),
    reverse: ReverseView,
):
    """One thread per particle: as `reverse_acceleration`, from the acceleration by gravity and forces."""
    i = first + wp.tid()
    if mass[i] > ZERO:
        h = wp.float64(dt)
        g = reverse.v[i]
        by_force = wp.vec3d(acceleration[i]) - wp.vec3d(gravity_of(gravity, world[i]))
        reverse.force[i] = reverse.force[i] + g * (h / mass[i])
        reverse.mass[i] = reverse.mass[i] - wp.dot(g, by_force) * h / mass[i]
        wp.atomic_add(reverse.gravity, wp.max(world[i], 0), g * h)


@wp.func
def air_work(
    ab: wp.vec3, ac: wp.vec3, v: wp.vec3, drag: float, lift: float, multiplier: wp.vec3
) -> wp.float64:
    """Work of the force of the air on a triangle; `wp.grad` of a single precision number does not compile."""
    return wp.float64(wp.dot(air_force(ab, ac, v, drag, lift), multiplier))


@wp.kernel
def reverse_air(
    first: int,
    indices: wp.array2d(dtype=int),
    materials: wp.array2d(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    reverse: ReverseView,
    materials_grad: wp.array2d(dtype=float),
):
    """One thread per triangle: from the force of the air to positions, velocities and coefficients."""
    t = first + wp.tid()
    i = indices[t, 0]
    j = indices[t, 1]
    k = indices[t, 2]
    g = wp.vec3(reverse.force[i] + reverse.force[j] + reverse.force[k]) / 3.0
    by_b, by_c, by_v, by_drag, by_lift, by_g = wp.grad(air_work)(
        x[j] - x[i], x[k] - x[i], (v[i] + v[j] + v[k]) / 3.0, materials[t, 3], materials[t, 4], g
    )
    third = wp.vec3d(by_v / 3.0)
    for c in range(3):
        wp.atomic_add(reverse.v, indices[t, c], third)
    wp.atomic_add(reverse.x, i, -wp.vec3d(by_b + by_c))
    wp.atomic_add(reverse.x, j, wp.vec3d(by_b))
    wp.atomic_add(reverse.x, k, wp.vec3d(by_c))
    materials_grad[t, 3] = materials_grad[t, 3] + by_drag
    materials_grad[t, 4] = materials_grad[t, 4] + by_lift


@wp.kernel
def end_reverse(
    first: int,
    reverse: ReverseView,
    reason: wp.array(dtype=int),
    system: wp.array(dtype=int),
    by_x: wp.array(dtype=wp.vec3),
    by_v: wp.array(dtype=wp.vec3),
    by_f: wp.array(dtype=wp.vec3),
    by_mass: wp.array(dtype=float),
):
    """One thread per particle: add the gradients of the start of the step, NaN in worlds that have none."""
    i = first + wp.tid()
    factor = wp.float64(wp.where(reason[system[i]] != 0, wp.nan, 1.0))
    by_x[i] = by_x[i] + wp.vec3(reverse.x[i] * factor)
    by_v[i] = by_v[i] + wp.vec3(reverse.v[i] * factor)
    by_f[i] = by_f[i] + wp.vec3(reverse.force[i] * factor)
    by_mass[i] = by_mass[i] + float(reverse.mass[i] * factor)


@wp.kernel
def clear_gravity(first: int, reverse: ReverseView):
    """One thread per world: clear the gradient by its gravity."""
    reverse.gravity[first + wp.tid()] = wp.vec3d()


@wp.kernel
def add_gravity(first: int, reverse: ReverseView, by_gravity: wp.array(dtype=wp.vec3)):
    """One thread per world: add the gradient by its gravity."""
    w = first + wp.tid()
    by_gravity[w] = by_gravity[w] + wp.vec3(reverse.gravity[w])

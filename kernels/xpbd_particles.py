"""Extended position-based dynamics of particles.

Macklin, Müller, Chentanez, "XPBD: position-based simulation of compliant constrained dynamics", MIG 2016.

Corrections are summed apart from the predicted positions: velocities are then free of the rounding that a
difference of two positions has, which divided by a short step would be larger than the motion.
"""

import warp as wp

PARTICLE_FLAG_ACTIVE = wp.constant(wp.uint32(1))

wp.set_module_options({"enable_backward": False})


@wp.kernel
def solve_springs(
    spring: wp.array(dtype=int),
    indices: wp.array(dtype=int),
    rest_length: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    relaxation: float,
    dt: float,
    shift: wp.array(dtype=wp.vec3),
    multiplier: wp.array(dtype=float),
):
    """One thread per spring of one colour: no two of them share a particle (eqs. 18 and 26 of the paper)."""
    s = spring[wp.tid()]
    i = indices[2 * s]
    j = indices[2 * s + 1]
    w_i = wp.where((flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0), inv_mass[i], 0.0)
    w_j = wp.where((flags[j] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0), inv_mass[j], 0.0)
    w = w_i + w_j
    d = (x[i] - x[j]) + (shift[i] - shift[j])
    length = wp.length(d)
    if w > 0.0 and stiffness[s] > 0.0 and length > 0.0:
        n = d / length
        alpha = 1.0 / (stiffness[s] * dt * dt)
        gamma = damping[s] / (stiffness[s] * dt)
        motion = wp.dot(n, (v[i] - v[j]) * dt + (shift[i] - shift[j]))
        error = length - rest_length[s] + alpha * multiplier[s] + gamma * motion
        change = -relaxation * error / ((1.0 + gamma) * w + alpha)
        multiplier[s] = multiplier[s] + change
        shift[i] = shift[i] + n * (w_i * change)
        shift[j] = shift[j] - n * (w_j * change)


@wp.kernel
def solve_ground(
    plane: wp.array(dtype=float),
    radius: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    mu: float,
    relaxation: float,
    dt: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: push it out of the plane and hold it by friction."""
    i = wp.tid()
    n = wp.vec3(plane[0], plane[1], plane[2])
    depth = radius[i] - (wp.dot(n, x[i] + shift[i]) + plane[3])
    if depth > 0.0 and inv_mass[i] > 0.0 and (flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0):
        push = relaxation * depth
        moved = v[i] * dt + shift[i]
        slide = moved - n * wp.dot(n, moved)
        distance = wp.length(slide)
        hold = wp.vec3(0.0)
        if distance > 0.0:
            hold = slide * (wp.min(mu * push, distance) / distance)
        shift[i] = shift[i] + n * push - hold


@wp.kernel
def apply_shift(
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
    max_speed: float,
    dt: float,
    x_out: wp.array(dtype=wp.vec3),
    v_out: wp.array(dtype=wp.vec3),
):
    """One thread per particle: a correction of the position is a velocity over the step."""
    i = wp.tid()
    x_end = x[i]
    v_end = v[i]
    if inv_mass[i] > 0.0 and (flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0):
        x_end = x_end + shift[i]
        v_end = v_end + shift[i] / dt
        speed = wp.length(v_end)
        if speed > max_speed:
            v_end = v_end * (max_speed / speed)
    x_out[i] = x_end
    v_out[i] = v_end

"""Corrections of positions as changes of position and velocity: particles and rigid bodies.

Stage: XPBD, its function for external corrections
Called by: solvers/xpbd/solver.py
Reads: 11 arrays
Writes: body_q_out, body_qd_out, v_out, x_out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import quat_exp, unit_quat

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

PARTICLE_FLAG_ACTIVE = wp.constant(wp.uint32(1))


@wp.kernel
def apply_particle_deltas(
    first: int,
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
    i = first + wp.tid()
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


@wp.kernel
def apply_body_deltas(
    first: int,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    com: wp.array(dtype=wp.vec3),
    inv_mass: wp.array(dtype=float),
    inv_inertia: wp.array(dtype=wp.mat33),
    deltas: wp.array(dtype=wp.spatial_vector),
    divisor: wp.array(dtype=float),
    divides: int,
    dt: float,
    body_q_out: wp.array(dtype=wp.transform),
    body_qd_out: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: move and rotate it by impulses times dt, optionally divided by its own number."""
    b = first + wp.tid()
    delta = deltas[b]
    if divides != 0:
        if divisor[b] > 0.0:
            delta = delta / divisor[b]
    r = wp.transform_get_rotation(body_q[b])
    move = wp.spatial_bottom(delta) * inv_mass[b]
    turn = wp.quat_rotate(r, inv_inertia[b] * wp.quat_rotate_inv(r, wp.spatial_top(delta)))
    c = wp.transform_point(body_q[b], com[b]) + move
    r_end = unit_quat(quat_exp(turn) * r)
    body_q_out[b] = wp.transform(c - wp.quat_rotate(r_end, com[b]), r_end)
    body_qd_out[b] = body_qd[b] + wp.spatial_vector(turn, move) / dt

"""Semi-implicit Euler steps of particles and of bodies in maximal coordinates.

Stage: integration, last of a step
Called by: solvers/base.py, solvers/kinematic_bodies.py
Reads: 15 arrays
Writes: body_q_out, body_qd_out, v_out, x_out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import quat_exp, unit_quat
from newtonsim.kernels.views.gravity import gravity_of

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

PARTICLE_FLAG_ACTIVE = wp.constant(wp.uint32(1))


@wp.kernel
def integrate_particles(
    first: int,
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    gravity: wp.array(dtype=wp.vec3),
    max_speed: float,
    dt: float,
    x_out: wp.array(dtype=wp.vec3),
    v_out: wp.array(dtype=wp.vec3),
):
    """One thread per particle; particles without mass and inactive ones stay."""
    i = first + wp.tid()
    end_v = v[i]
    end_x = x[i]
    if inv_mass[i] > 0.0 and (flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0):
        end_v = v[i] + (f[i] * inv_mass[i] + gravity_of(gravity, world[i])) * dt
        speed = wp.length(end_v)
        if speed > max_speed:
            end_v = end_v * (max_speed / speed)
        end_x = x[i] + end_v * dt
    x_out[i] = end_x
    v_out[i] = end_v


@wp.kernel
def integrate_bodies(
    first: int,
    world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    com: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    inv_inertia: wp.array(dtype=wp.mat33),
    gravity: wp.array(dtype=wp.vec3),
    angular_damping: float,
    dt: float,
    body_q_out: wp.array(dtype=wp.transform),
    body_qd_out: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: Newton-Euler equations about the COM; massless bodies keep their velocity."""
    b = first + wp.tid()
    r = wp.transform_get_rotation(body_q[b])
    w = wp.spatial_top(body_qd[b])
    v = wp.spatial_bottom(body_qd[b])
    c = wp.transform_point(body_q[b], com[b])
    if mass[b] > 0.0:
        v = v + (wp.spatial_bottom(body_f[b]) * inv_mass[b] + gravity_of(gravity, world[b])) * dt
        wb = wp.quat_rotate_inv(r, w)
        torque = wp.quat_rotate_inv(r, wp.spatial_top(body_f[b])) - wp.cross(wb, inertia[b] * wb)
        w = wp.quat_rotate(r, wb + inv_inertia[b] * torque * dt) * (1.0 - angular_damping * dt)
    r_end = unit_quat(quat_exp(w * dt) * r)
    body_q_out[b] = wp.transform(c + v * dt - wp.quat_rotate(r_end, com[b]), r_end)
    body_qd_out[b] = wp.spatial_vector(w, v)


@wp.kernel(enable_backward=False)
def move_kinematic_bodies(
    first: int,
    body_tree: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    com: wp.array(dtype=wp.vec3),
    dt: float,
    body_q_out: wp.array(dtype=wp.transform),
    body_qd_out: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: bodies on no tree move with the velocity that the user gave them."""
    b = first + wp.tid()
    if body_tree[b] >= 0:
        return
    r = wp.transform_get_rotation(body_q[b])
    velocity = body_qd[b]
    c = wp.transform_point(body_q[b], com[b]) + dt * wp.spatial_bottom(velocity)
    r_end = unit_quat(quat_exp(dt * wp.spatial_top(velocity)) * r)
    body_q_out[b] = wp.transform(c - wp.quat_rotate(r_end, com[b]), r_end)
    body_qd_out[b] = velocity

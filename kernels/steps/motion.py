"""Motion of bodies and particles under their forces, and marks of non-finite worlds.

Inverse masses are computed here, so that gradients reach masses and inertias.

Stage: integration, last of a step
Called by: solvers/nonfinite.py, solvers/semi_implicit/solver.py
Reads: 12 arrays
Writes: MarksView, body_q_out, body_qd_out, v_out, x_out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import inverse_of, quat_exp, rotate_inertia, unit_quat
from newtonsim.kernels.steps.integrate import PARTICLE_FLAG_ACTIVE
from newtonsim.kernels.steps.nonfinite import MarksView, mark
from newtonsim.kernels.views.gravity import gravity_of

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def move_bodies(
    first: int,
    world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    com: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    gravity: wp.array(dtype=wp.vec3),
    angular_damping: float,
    dt: float,
    body_q_out: wp.array(dtype=wp.transform),
    body_qd_out: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: momenta change by the forces, then the body moves with the new momenta.

    A free rotation conserves angular momentum: the angular velocity follows from it at the start, in the
    middle and at the end (explicit midpoint rule). Bodies without mass keep their velocity.
    """
    b = first + wp.tid()
    r = wp.transform_get_rotation(body_q[b])
    w = wp.spatial_top(body_qd[b])
    v = wp.spatial_bottom(body_qd[b])
    c = wp.transform_point(body_q[b], com[b])
    r_end = unit_quat(quat_exp(w * dt) * r)
    if mass[b] > 0.0:
        inverse = inverse_of(inertia[b])
        v = v + (wp.spatial_bottom(body_f[b]) / mass[b] + gravity_of(gravity, world[b])) * dt
        momentum = rotate_inertia(r, inertia[b]) * w
        change = wp.spatial_top(body_f[b]) * dt
        change = change - (momentum + change) * (angular_damping * dt)
        # in terms of differences from w: momentum times inverse inertia would have the same relative error in
        # each step
        w_start = w + rotate_inertia(r, inverse) * change
        r_middle = unit_quat(quat_exp(w_start * (0.5 * dt)) * r)
        gained = momentum - rotate_inertia(r_middle, inertia[b]) * w + change
        w_middle = w + rotate_inertia(r_middle, inverse) * gained
        r_end = unit_quat(quat_exp(w_middle * dt) * r)
        gained_end = momentum - rotate_inertia(r_end, inertia[b]) * w + change
        w = w + rotate_inertia(r_end, inverse) * gained_end
    body_q_out[b] = wp.transform(c + v * dt - wp.quat_rotate(r_end, com[b]), r_end)
    body_qd_out[b] = wp.spatial_vector(w, v)


@wp.kernel
def move_particles(
    first: int,
    world: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
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
    if mass[i] > 0.0 and (flags[i] & PARTICLE_FLAG_ACTIVE) != wp.uint32(0):
        end_v = v[i] + (f[i] / mass[i] + gravity_of(gravity, world[i])) * dt
        speed = wp.length(end_v)
        if speed > max_speed:
            end_v = end_v * (max_speed / speed)
        end_x = x[i] + end_v * dt
    x_out[i] = end_x
    v_out[i] = end_v


@wp.kernel(enable_backward=False)
def mark_bodies(
    first: int,
    world: wp.array(dtype=int),
    body_qd: wp.array(dtype=wp.spatial_vector),
    marks: MarksView,
):
    """One thread per body: mark it and its world if its velocity is not finite."""
    b = first + wp.tid()
    mark(marks, world[b], b, not wp.isfinite(body_qd[b]), 0)

"""Forces of a medium on bodies that move in it.

Stage: forces at the start of a step
Called by: solvers/featherstone/stages.py
Reads: 9 arrays
Writes: ResistanceView, body_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.articulated_factors import ResistanceView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def begin_resistance(first: int, resistance: ResistanceView):
    """One thread per body: nothing resists its motion yet."""
    b = first + wp.tid()
    resistance.rotational[b] = wp.mat33()
    resistance.translational[b] = wp.mat33()


@wp.kernel
def resist_motion(
    first: int,
    dt: float,
    world: wp.array(dtype=int),
    mass: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    half_extents: wp.array(dtype=wp.vec3),
    axes: wp.array(dtype=wp.quat),
    density: wp.array(dtype=float),
    viscosity: wp.array(dtype=float),
    wind: wp.array(dtype=wp.vec3),
    body_f: wp.array(dtype=wp.spatial_vector),
    resistance: ResistanceView,
):
    """One thread per body: add what resists the motion of its box through the medium, and its slope."""
    b = first + wp.tid()
    e = wp.max(world[b], 0)
    rho, mu = density[e], viscosity[e]
    if mass[b] == 0.0 or (rho == 0.0 and mu == 0.0):
        return
    r = half_extents[b]
    turn = wp.transform_get_rotation(body_q[b]) * axes[b]
    w = wp.quat_rotate_inv(turn, wp.spatial_top(body_qd[b]))
    v = wp.quat_rotate_inv(turn, wp.spatial_bottom(body_qd[b]) - wind[e])
    radius = (r[0] + r[1] + r[2]) / 3.0
    squares = wp.cw_mul(r, r)
    torque, force = wp.vec3(), wp.vec3()
    by_spin, by_speed = wp.vec3(), wp.vec3()
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        viscous = 6.0 * wp.pi * mu * radius
        drag = 2.0 * rho * r[j] * r[k] * wp.abs(v[i])
        force[i] = -(viscous + drag) * v[i]
        by_speed[i] = dt * (viscous + 2.0 * drag)
        viscous = 8.0 * wp.pi * mu * radius * radius * radius
        drag = 0.5 * rho * r[i] * (squares[j] * squares[j] + squares[k] * squares[k]) * wp.abs(w[i])
        torque[i] = -(viscous + drag) * w[i]
        by_spin[i] = dt * (viscous + 2.0 * drag)
    body_f[b] = body_f[b] + wp.spatial_vector(wp.quat_rotate(turn, torque), wp.quat_rotate(turn, force))
    R = wp.quat_to_matrix(turn)
    resistance.rotational[b] = resistance.rotational[b] + R * wp.diag(by_spin) * wp.transpose(R)
    resistance.translational[b] = resistance.translational[b] + R * wp.diag(by_speed) * wp.transpose(R)

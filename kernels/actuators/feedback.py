"""Efforts of PD and PID control of positions, from the state at the start of a step.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/groups.py
Reads: 10 arrays
Writes: effort, integral_out
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def apply_pd(
    first: int,
    coord: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    target: wp.array(dtype=float),
    effort: wp.array(dtype=float),
):
    """One thread per actuator: kp (u - q) - kd v."""
    i = first + wp.tid()
    effort[i] = stiffness[i] * (target[i] - q[coord[i]]) - damping[i] * qd[dof[i]]


@wp.kernel
def apply_pid(
    first: int,
    coord: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    integral_gain: wp.array(dtype=float),
    integral_limit: wp.array(dtype=float),
    dt: float,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    target: wp.array(dtype=float),
    integral: wp.array2d(dtype=float),
    integral_out: wp.array2d(dtype=float),
    effort: wp.array(dtype=float),
):
    """One thread per actuator: kp e + ki s - kd v with s the integral of e = u - q.

    The term ki s stays within the limit, and s does not grow beyond it (anti-windup).
    """
    i = first + wp.tid()
    error = target[i] - q[coord[i]]
    part = integral[i, 0] + integral_gain[i] * dt * error
    part = wp.clamp(part, -integral_limit[i], integral_limit[i])
    integral_out[i, 0] = part
    effort[i] = stiffness[i] * error + part - damping[i] * qd[dof[i]]

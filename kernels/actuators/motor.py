"""Torque-speed curve of a motor.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/groups.py
Reads: dof, qd, speeds, torques, wanted
Writes: effort
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def torque_at(speed: float, speeds: wp.array(dtype=float), torques: wp.array(dtype=float)) -> float:
    """Largest torque at a speed of at least 0: linear between the points of a curve, constant after the last.

    Computed as a sum over the segments, which backward passes differentiate correctly.
    """
    most = torques[0]
    for k in range(speeds.shape[0] - 1):
        width = speeds[k + 1] - speeds[k]
        most += (torques[k + 1] - torques[k]) * wp.clamp((speed - speeds[k]) / width, 0.0, 1.0)
    return most


@wp.kernel
def saturate_motors(
    first: int,
    dof: wp.array(dtype=int),
    speeds: wp.array(dtype=float),
    torques: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    wanted: wp.array(dtype=float),
    effort: wp.array(dtype=float),
):
    """One thread per actuator: limit its effort to that of the motor.

    In the direction of motion, the limit follows the curve; against it, when braking, it is that at rest.
    """
    i = first + wp.tid()
    v = qd[dof[i]]
    up = torque_at(wp.max(v, 0.0), speeds, torques)
    down = torque_at(wp.max(-v, 0.0), speeds, torques)
    effort[i] = wp.clamp(wanted[i], -down, up)

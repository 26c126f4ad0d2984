"""What a motor can do at a speed: its torque-speed curve.

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
    """Most torque at a speed from 0 on, linear between the points of a curve and constant beyond the last.

    A sum over the segments of what each takes away, since backward passes are right for sums.
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
    """One thread per actuator: as much of an effort as the motor has.

    Along the motion that falls with the speed by the curve. Against it, as it brakes, it is that at rest.
    """
    i = first + wp.tid()
    v = qd[dof[i]]
    up = torque_at(wp.max(v, 0.0), speeds, torques)
    down = torque_at(wp.max(-v, 0.0), speeds, torques)
    effort[i] = wp.clamp(wanted[i], -down, up)

"""First-order activation: the effective command follows the given one with a time constant.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/groups.py
Reads: activation, command, count, time_constant
Writes: activated, activation_out
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def activate_commands(
    first: int,
    time_constant: wp.array(dtype=float),
    dt: float,
    command: wp.array(dtype=float),
    count: wp.array(dtype=int),
    activation: wp.array2d(dtype=float),
    activation_out: wp.array2d(dtype=float),
    activated: wp.array(dtype=float),
):
    """One thread per actuator: solve a' = (u - a) / T exactly over a step with constant u; a = u at first."""
    i = first + wp.tid()
    value = command[i]
    if count[i] > 0:
        decay = wp.exp(-dt / time_constant[i])
        value = command[i] + decay * (activation[i, 0] - command[i])
    activation_out[i, 0] = value
    activated[i] = value

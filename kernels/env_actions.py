"""From actions to controls."""

import warp as wp

from newtonsim.kernels.env_views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def drive_motors(first: int, env: EnvView):
    """One thread per world: each action drives its motor, within its bounds."""
    w = first + wp.tid()
    for k in range(env.actions.shape[1]):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        env.joint_act[w * env.axes + env.motor_axis[k]] = env.motor_gear[k] * action

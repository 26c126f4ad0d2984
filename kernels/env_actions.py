"""From actions to controls."""

import warp as wp

from newtonsim.kernels.env_views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def drive(env: EnvView, w: int):
    """Each action of a world drives its motor, within its bounds."""
    for k in range(env.actions.shape[1]):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        env.joint_act[w * env.axes + env.motor_axis[k]] = env.strength[w] * env.motor_gear[k] * action


@wp.kernel
def drive_motors(first: int, env: EnvView):
    """One thread per world: drive its motors."""
    drive(env, first + wp.tid())

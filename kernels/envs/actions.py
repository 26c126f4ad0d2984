"""Conversion of actions to controls.

Stage: environment, first of a step, actions
Called by: newtonsim/envs/task.py, kernels/envs/free.py
Reads: EnvView
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import EnvView
from newtonsim.kernels.views.model import MODE_FORCE

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def drive(env: EnvView, w: int):
    """Each action of a world drives its motor, within its bounds."""
    for k in range(env.actions.shape[1]):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        axis = w * env.axes + env.motor_axis[k]
        size = env.motor_gear[k] * action
        if env.joint_axis_mode[axis] == MODE_FORCE:
            size = env.strength[w] * size
        env.joint_act[axis] = size


@wp.kernel
def drive_motors(first: int, env: EnvView):
    """One thread per world: drive its motors."""
    drive(env, first + wp.tid())

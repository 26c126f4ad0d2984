"""Robots that run in the x-z plane: hopper, walker, half cheetah.

The first three coordinates of a world are x, z and pitch of the torso. Memory: x before the step.

Stage: environment, starts, observations, rewards
Called by: newtonsim/envs/tasks/planar.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

HEIGHT = wp.constant(0)  # [m] of the torso at coordinate z = 0
CONTROL_COST = wp.constant(1)
HEALTHY_REWARD = wp.constant(2)
TERMINATES = wp.constant(3)  # 1 if the episode ends when the robot is not healthy
Z_LOW = wp.constant(4)
Z_HIGH = wp.constant(5)
ANGLE_LOW = wp.constant(6)
ANGLE_HIGH = wp.constant(7)
STATE_BOUND = wp.constant(8)
VELOCITY_CLIP = wp.constant(9)  # in observations; 0 for none
POSITION_NOISE = wp.constant(10)
VELOCITY_NOISE = wp.constant(11)
NORMAL_VELOCITY = wp.constant(12)  # 1 if the noise of velocities is normal rather than uniform
FORWARD_WEIGHT = wp.constant(13)


@wp.kernel
def observe_runner(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: all coordinates except x, then all velocities."""
    w = first + wp.tid()
    if not mask[w]:
        return
    for k in range(1, env.coords):
        env.obs[w, k - 1] = env.joint_q[w * env.coords + k]
    env.obs[w, 0] = env.obs[w, 0] + env.numbers[HEIGHT]
    clip = env.numbers[VELOCITY_CLIP]
    for k in range(env.dofs):
        v = env.joint_qd[w * env.dofs + k]
        if clip > 0.0:
            v = wp.clamp(v, -clip, clip)
        env.obs[w, env.coords - 1 + k] = v


@wp.func
def is_healthy(env: EnvView, w: int) -> bool:
    """Whether height, pitch and all other coordinates and velocities are within their bounds."""
    z = env.joint_q[w * env.coords + 1] + env.numbers[HEIGHT]
    angle = env.joint_q[w * env.coords + 2]
    if not (z > env.numbers[Z_LOW] and z < env.numbers[Z_HIGH]):
        return False
    if not (angle > env.numbers[ANGLE_LOW] and angle < env.numbers[ANGLE_HIGH]):
        return False
    for k in range(2, env.coords):
        if not wp.abs(env.joint_q[w * env.coords + k]) < env.numbers[STATE_BOUND]:
            return False
    for k in range(env.dofs):
        if not wp.abs(env.joint_qd[w * env.dofs + k]) < env.numbers[STATE_BOUND]:
            return False
    return True


@wp.kernel
def score_runner(first: int, env: EnvView):
    """One thread per world: speed along x and a bonus for health, minus the squares of the actions."""
    w = first + wp.tid()
    x = env.joint_q[w * env.coords]
    forward = (x - env.memory[w, 0]) / env.control_dt
    env.memory[w, 0] = x
    effort = float(0.0)
    for k in range(env.actions.shape[1]):
        effort += env.actions[w, k] * env.actions[w, k]
    healthy = is_healthy(env, w)
    reward = env.numbers[FORWARD_WEIGHT] * forward - env.numbers[CONTROL_COST] * effort
    if healthy:
        reward += env.numbers[HEALTHY_REWARD]
    env.reward[w] = reward
    env.terminated[w] = env.numbers[TERMINATES] == 1.0 and not healthy


@wp.kernel
def spawn_runner(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: noise on all coordinates and velocities."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, SPAWN)
    size = env.numbers[POSITION_NOISE]
    for k in range(env.coords):
        c = w * env.coords + k
        env.joint_q[c] = env.joint_q[c] + uniform(-size, size, wp.randf(state))
    size = env.numbers[VELOCITY_NOISE]
    for k in range(env.dofs):
        noise = uniform(-size, size, wp.randf(state))
        if env.numbers[NORMAL_VELOCITY] == 1.0:
            noise = size * wp.randn(state)
        env.joint_qd[w * env.dofs + k] = noise
    env.memory[w, 0] = env.joint_q[w * env.coords]

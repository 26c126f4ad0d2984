"""A quadruped with position drives that follows commanded velocities on flat ground.

Memory: command (x and y [m/s], turning [rad/s]), the last actions, and the actions before.
Numbers: those named below, then the angles of the home pose.

Stage: environment, starts, actions, observations, rewards
Called by: newtonsim/envs/tasks/quadruped.py, kernels/envs/terrain.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ACTION_SCALE = wp.constant(0)  # [rad] at action 1
MAX_FORWARD = wp.constant(1)
MAX_SIDEWAYS = wp.constant(2)
MAX_TURN = wp.constant(3)
MIN_HEIGHT = wp.constant(4)
MAX_TILT = wp.constant(5)  # cosine of it
POSITION_NOISE = wp.constant(6)
SPEED_WIDTH = wp.constant(7)  # [m²/s², rad²/s²] of the bell around the command
HOME = wp.constant(8)  # first of the angles


@wp.func
def orientation(env: EnvView, w: int) -> wp.quat:
    """Orientation of the trunk."""
    return wp.transform_get_rotation(env.body_q[w * env.bodies])


@wp.func
def own_velocity(env: EnvView, w: int) -> wp.vec3:
    """Velocity of the trunk's centre of mass in its own axes."""
    return wp.quat_rotate_inv(orientation(env, w), wp.spatial_bottom(env.body_qd[w * env.bodies]))


@wp.func
def own_spin(env: EnvView, w: int) -> wp.vec3:
    """Angular velocity of the trunk in its own axes."""
    return wp.quat_rotate_inv(orientation(env, w), wp.spatial_top(env.body_qd[w * env.bodies]))


@wp.func
def own_down(env: EnvView, w: int) -> wp.vec3:
    """Direction of gravity in the trunk's axes."""
    return wp.quat_rotate_inv(orientation(env, w), wp.vec3(0.0, 0.0, -1.0))


@wp.kernel
def aim_legs(first: int, env: EnvView):
    """One thread per world: actions shift the targets of the drives from the home pose."""
    w = first + wp.tid()
    n = env.actions.shape[1]
    for k in range(n):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        target = env.numbers[HOME + k] + env.numbers[ACTION_SCALE] * action
        env.joint_act[w * env.axes + env.motor_axis[k]] = env.motor_gear[k] * target
        env.memory[w, 3 + n + k] = env.memory[w, 3 + k]
        env.memory[w, 3 + k] = action


@wp.func
def observe_trunk(env: EnvView, w: int):
    """Velocity, spin, gravity, command, angles from home, their rates, last actions."""
    velocity = own_velocity(env, w)
    spin = own_spin(env, w)
    down = own_down(env, w)
    for i in range(3):
        env.obs[w, i] = velocity[i]
        env.obs[w, 3 + i] = spin[i]
        env.obs[w, 6 + i] = down[i]
        env.obs[w, 9 + i] = env.memory[w, i]
    n = env.actions.shape[1]
    for k in range(n):
        env.obs[w, 12 + k] = env.joint_q[w * env.coords + 7 + k] - env.numbers[HOME + k]
        env.obs[w, 12 + n + k] = env.joint_qd[w * env.dofs + 6 + k]
        env.obs[w, 12 + 2 * n + k] = env.memory[w, 3 + k]


@wp.kernel
def observe_legs(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: the numbers of `observe_trunk`."""
    w = first + wp.tid()
    if mask[w]:
        observe_trunk(env, w)


@wp.func
def tracking_reward(env: EnvView, w: int, tilt_cost: float) -> float:
    """Bells around the command, less bouncing, rolling, leaning and jerky actions, times the step."""
    velocity = own_velocity(env, w)
    spin = own_spin(env, w)
    down = own_down(env, w)
    dx = env.memory[w, 0] - velocity[0]
    dy = env.memory[w, 1] - velocity[1]
    turn = env.memory[w, 2] - spin[2]
    width = env.numbers[SPEED_WIDTH]
    n = env.actions.shape[1]
    jerk = float(0.0)
    for k in range(n):
        change = env.memory[w, 3 + k] - env.memory[w, 3 + n + k]
        jerk += change * change
    reward = wp.exp(-(dx * dx + dy * dy) / width) + 0.5 * wp.exp(-turn * turn / width)
    reward -= 2.0 * velocity[2] * velocity[2] + 0.05 * (spin[0] * spin[0] + spin[1] * spin[1])
    reward -= tilt_cost * (down[0] * down[0] + down[1] * down[1]) + 0.01 * jerk
    return env.control_dt * reward


@wp.kernel
def score_legs(first: int, env: EnvView):
    """One thread per world: reward; over when the trunk is low or tilted."""
    w = first + wp.tid()
    env.reward[w] = tracking_reward(env, w, 0.2)
    down = own_down(env, w)
    height = wp.transform_get_translation(env.body_q[w * env.bodies])[2]
    env.terminated[w] = height < env.numbers[MIN_HEIGHT] or -down[2] < env.numbers[MAX_TILT]


@wp.func
def spawn_pose(env: EnvView, w: int, state: wp.uint32):
    """A command, and the home pose with noise and any heading."""
    for i in range(3):
        most = env.numbers[MAX_FORWARD + i]
        env.memory[w, i] = uniform(-most, most, wp.randf(state))
    q = w * env.coords
    half = 3.14159265 * wp.randf(state)
    env.joint_q[q + 5] = wp.sin(half)
    env.joint_q[q + 6] = wp.cos(half)
    size = env.numbers[POSITION_NOISE]
    for k in range(env.coords - 7):
        env.joint_q[q + 7 + k] = env.joint_q[q + 7 + k] + uniform(-size, size, wp.randf(state))
    for k in range(env.axes):
        env.joint_act[w * env.axes + k] = env.numbers[HOME + k]


@wp.kernel
def spawn_legs(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: see `spawn_pose`."""
    w = first + wp.tid()
    if mask[w]:
        spawn_pose(env, w, random_of(env, w, SPAWN))

"""Arms and pendulums on a fixed base.

Stage: environment, starts, observations, rewards
Called by: newtonsim/envs/tasks/arms.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# numbers of the inverted double pendulum
TIP = wp.constant(0)  # [m] from the second hinge to the tip, along z of the last body
HEALTHY_REWARD = wp.constant(1)
NOISE = wp.constant(2)

# numbers of the reacher
TIP_X = wp.constant(0)  # [m] from the second hinge to the tip, along x of the second link
DISTANCE_WEIGHT = wp.constant(1)
CONTROL_WEIGHT = wp.constant(2)
GOAL_RADIUS = wp.constant(3)
TARGET_X = wp.constant(4)  # [m] of the target at coordinates 0
TARGET_Y = wp.constant(5)


@wp.kernel
def observe_pendulum(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: position, sines and cosines of the angles, velocities clamped to ±10."""
    w = first + wp.tid()
    if not mask[w]:
        return
    q = w * env.coords
    env.obs[w, 0] = env.joint_q[q]
    for k in range(2):
        env.obs[w, 1 + k] = wp.sin(env.joint_q[q + 1 + k])
        env.obs[w, 3 + k] = wp.cos(env.joint_q[q + 1 + k])
    for k in range(3):
        env.obs[w, 5 + k] = wp.clamp(env.joint_qd[w * env.dofs + k], -10.0, 10.0)


@wp.kernel
def score_pendulum(first: int, env: EnvView):
    """One thread per world: bonus while the tip is above 1 m, minus its distance from the top and turning."""
    w = first + wp.tid()
    tip = wp.transform_point(env.body_q[(w + 1) * env.bodies - 1], wp.vec3(0.0, 0.0, env.numbers[TIP]))
    v1 = env.joint_qd[w * env.dofs + 1]
    v2 = env.joint_qd[w * env.dofs + 2]
    over = tip[2] <= 1.0
    reward = -0.01 * tip[0] * tip[0] - (tip[2] - 2.0) * (tip[2] - 2.0) - 1.0e-3 * v1 * v1 - 5.0e-3 * v2 * v2
    if not over:
        reward += env.numbers[HEALTHY_REWARD]
    env.reward[w] = reward
    env.terminated[w] = over


@wp.kernel
def spawn_pendulum(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: uniform noise on coordinates, normal noise on velocities."""
    w = first + wp.tid()
    if mask[w]:
        state = random_of(env, w, SPAWN)
        size = env.numbers[NOISE]
        for k in range(env.coords):
            c = w * env.coords + k
            env.joint_q[c] = env.joint_q[c] + uniform(-size, size, wp.randf(state))
        for k in range(env.dofs):
            env.joint_qd[w * env.dofs + k] = size * wp.randn(state)


@wp.func
def tip_to_target(env: EnvView, w: int) -> wp.vec3:
    """Tip of the reacher minus its target; the second link is body 1, the target the last coordinates."""
    tip = wp.transform_point(env.body_q[w * env.bodies + 1], wp.vec3(env.numbers[TIP_X], 0.0, 0.0))
    x = env.joint_q[w * env.coords + 2] + env.numbers[TARGET_X]
    y = env.joint_q[w * env.coords + 3] + env.numbers[TARGET_Y]
    return wp.vec3(tip[0] - x, tip[1] - y, 0.0)


@wp.kernel
def observe_reacher(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: cosines, sines, target, velocities, and from the target to the tip."""
    w = first + wp.tid()
    if not mask[w]:
        return
    q = w * env.coords
    apart = tip_to_target(env, w)
    for k in range(2):
        env.obs[w, k] = wp.cos(env.joint_q[q + k])
        env.obs[w, 2 + k] = wp.sin(env.joint_q[q + k])
        env.obs[w, 4 + k] = env.joint_q[q + 2 + k] + env.numbers[TARGET_X + k]
        env.obs[w, 6 + k] = env.joint_qd[w * env.dofs + k]
        env.obs[w, 8 + k] = apart[k]


@wp.kernel
def score_reacher(first: int, env: EnvView):
    """One thread per world: minus the distance and the squared actions; never over."""
    w = first + wp.tid()
    effort = env.actions[w, 0] * env.actions[w, 0] + env.actions[w, 1] * env.actions[w, 1]
    distance = wp.length(tip_to_target(env, w))
    env.reward[w] = -env.numbers[DISTANCE_WEIGHT] * distance - env.numbers[CONTROL_WEIGHT] * effort
    env.terminated[w] = False


@wp.kernel
def spawn_reacher(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: noise on the arm, a target anywhere in a disk, at rest."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, SPAWN)
    q = w * env.coords
    v = w * env.dofs
    for k in range(2):
        env.joint_q[q + k] = env.joint_q[q + k] + uniform(-0.1, 0.1, wp.randf(state))
        env.joint_qd[v + k] = uniform(-0.005, 0.005, wp.randf(state))
        env.joint_qd[v + 2 + k] = 0.0
    radius = env.numbers[GOAL_RADIUS] * wp.sqrt(wp.randf(state))
    angle = 6.283185307 * wp.randf(state)
    env.joint_q[q + 2] = radius * wp.cos(angle) - env.numbers[TARGET_X]
    env.joint_q[q + 3] = radius * wp.sin(angle) - env.numbers[TARGET_Y]

"""Cart and pole: balance (Barto, Sutton and Anderson 1983) and swing-up.

Coordinates of a world: position of the cart [m], angle of the pole from upright [rad].
Numbers: bound of the position, bound of the angle, half the width of the start's range, force of a push,
mean start angle.

Stage: environment, starts, actions, observations, rewards
Called by: newtonsim/envs/tasks/cartpole.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

MAX_POSITION = wp.constant(0)
MAX_ANGLE = wp.constant(1)
START_RANGE = wp.constant(2)
PUSH_FORCE = wp.constant(3)
START_ANGLE = wp.constant(4)


@wp.kernel
def push_cart(first: int, env: EnvView):
    """One thread per world: action 0 pushes to the left, any other to the right."""
    w = first + wp.tid()
    side = 1.0
    if env.actions[w, 0] == 0.0:
        side = -1.0
    env.joint_act[w * env.axes] = side * env.strength[w] * env.numbers[PUSH_FORCE]


@wp.kernel
def observe_balance(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: position, velocity, angle, angular velocity."""
    w = first + wp.tid()
    if mask[w]:
        q = w * env.coords
        v = w * env.dofs
        env.obs[w, 0] = env.joint_q[q]
        env.obs[w, 1] = env.joint_qd[v]
        env.obs[w, 2] = env.joint_q[q + 1]
        env.obs[w, 3] = env.joint_qd[v + 1]


@wp.kernel
def score_balance(first: int, env: EnvView):
    """One thread per world: 1 per step; over when the pole leans or the cart leaves the track."""
    w = first + wp.tid()
    q = w * env.coords
    off = wp.abs(env.joint_q[q]) > env.numbers[MAX_POSITION]
    env.terminated[w] = off or wp.abs(env.joint_q[q + 1]) > env.numbers[MAX_ANGLE]
    env.reward[w] = 1.0


@wp.kernel
def observe_swing(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: position, velocity, cosine and sine of the angle, angular velocity."""
    w = first + wp.tid()
    if mask[w]:
        q = w * env.coords
        v = w * env.dofs
        env.obs[w, 0] = env.joint_q[q]
        env.obs[w, 1] = env.joint_qd[v]
        env.obs[w, 2] = wp.cos(env.joint_q[q + 1])
        env.obs[w, 3] = wp.sin(env.joint_q[q + 1])
        env.obs[w, 4] = env.joint_qd[v + 1]


@wp.func
def gaussian_tolerance(distance: float, margin: float) -> float:
    """1 at distance 0, a tenth at the margin, smooth."""
    scaled = distance / margin
    return wp.exp(-2.302585093 * scaled * scaled)


@wp.kernel
def score_swing(first: int, env: EnvView):
    """One thread per world: upright times centred times little effort times slow; over off the track."""
    w = first + wp.tid()
    q = w * env.coords
    upright = 0.5 * (1.0 + wp.cos(env.joint_q[q + 1]))
    centred = 0.5 * (1.0 + gaussian_tolerance(env.joint_q[q], 2.0))
    effort = wp.clamp(env.actions[w, 0], -1.0, 1.0)
    small_control = (4.0 + wp.max(0.0, 1.0 - effort * effort)) / 5.0
    slow = 0.5 * (1.0 + gaussian_tolerance(env.joint_qd[w * env.dofs + 1], 5.0))
    env.reward[w] = upright * centred * small_control * slow
    env.terminated[w] = wp.abs(env.joint_q[q]) > env.numbers[MAX_POSITION]


@wp.kernel
def spawn_cart(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: uniform coordinates and velocities about the start."""
    w = first + wp.tid()
    if mask[w]:
        state = random_of(env, w, SPAWN)
        size = env.numbers[START_RANGE]
        for k in range(2):
            env.joint_q[w * env.coords + k] = uniform(-size, size, wp.randf(state))
        for k in range(2):
            env.joint_qd[w * env.dofs + k] = uniform(-size, size, wp.randf(state))
        angle = w * env.coords + 1
        env.joint_q[angle] = env.joint_q[angle] + env.numbers[START_ANGLE]

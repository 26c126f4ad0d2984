"""Imperfections between a policy and its robot: delayed actions, noisy observations.

Stage: environment, actions and observations
Called by: newtonsim/envs/imperfections.py
Reads: DelayView, EnvView, mask, noise
Writes: DelayView, EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import RANDOMISE, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

DELAY_STREAM = wp.constant(-1)
NOISE_STREAM = wp.constant(-2)


@wp.struct
class DelayView:
    """Delayed actions; W worlds, A actions, H stored steps."""

    low: float  # [steps] least delay
    high: float  # [steps] greatest delay
    steps: wp.array(dtype=int)  # (W) delay of the episode
    sent: wp.array3d(dtype=float)  # (W, H, A) actions of the last steps
    applied: wp.array2d(dtype=float)  # (W, A) those that arrive now


@wp.kernel
def draw_delays(first: int, env: EnvView, mask: wp.array(dtype=bool), delay: DelayView):
    """One thread per world: delay of the actions of the episode, a whole number of steps."""
    w = first + wp.tid()
    if mask[w]:
        state = wp.rand_init(int(random_of(env, w, RANDOMISE)), DELAY_STREAM)
        # rounded up or down at random, so that the mean is correct
        delay.steps[w] = int(wp.floor(uniform(delay.low, delay.high, wp.randf(state)) + wp.randf(state)))


@wp.kernel
def delay_actions(first: int, env: EnvView, delay: DelayView):
    """One thread per world: store the actions, and apply those from a delay ago, or zeros at first."""
    w = first + wp.tid()
    now = env.length[w]
    room = delay.sent.shape[1]
    past = now - delay.steps[w]
    for k in range(env.actions.shape[1]):
        delay.sent[w, now % room, k] = env.actions[w, k]
    for k in range(env.actions.shape[1]):
        arrived = float(0.0)
        if past >= 0:
            arrived = delay.sent[w, past % room, k]
        delay.applied[w, k] = arrived


@wp.kernel
def blur_observations(first: int, env: EnvView, mask: wp.array(dtype=bool), noise: wp.array(dtype=float)):
    """One thread per world: add normal noise of a standard deviation for each number observed."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = wp.rand_init(int(random_of(env, w, RANDOMISE)), NOISE_STREAM)
    state = wp.rand_init(int(state), env.length[w])
    size = env.obs.shape[1]
    for i in range((size + 1) // 2):
        # Box and Muller, "A note on the generation of random normal deviates", 1958: two at a time
        radius = wp.sqrt(-2.0 * wp.log(1.0 - wp.randf(state)))
        angle = 2.0 * wp.pi * wp.randf(state)
        k = 2 * i
        env.obs[w, k] = env.obs[w, k] + noise[k] * radius * wp.cos(angle)
        if k + 1 < size:
            env.obs[w, k + 1] = env.obs[w, k + 1] + noise[k + 1] * radius * wp.sin(angle)

"""Start and end of episodes: time limits, statistics, restarts of worlds.

Stage: environment, last of a step, episodes
Called by: newtonsim/envs/batched.py
Reads: EnvView, mask
Writes: EnvView, EpisodeView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

RESET_SAME_STEP = wp.constant(0)
RESET_NEXT_STEP = wp.constant(1)
RESET_DISABLED = wp.constant(2)


@wp.struct
class EpisodeView:
    """Results and statistics of episodes, one entry per world."""

    truncated: wp.array(dtype=bool)
    ended: wp.array(dtype=bool)  # the last step was the last of an episode
    fresh: wp.array(dtype=bool)  # starts a new episode within this step
    waiting: wp.array(dtype=bool)  # starts a new episode within the next step
    broken: wp.array(dtype=bool)  # was found to be non-finite in the last step
    nonfinite: wp.array(dtype=bool)  # the solver's marks; empty if it has none
    failures: wp.array(dtype=int)  # episodes that ended as a NaN
    episode_return: wp.array(dtype=float)  # of the episode so far
    final_return: wp.array(dtype=float)  # of the last episode that ended
    final_length: wp.array(dtype=int)
    final_obs: wp.array2d(dtype=float)  # (W, O) last observation of the last episode that ended
    privileged: wp.array2d(dtype=float)  # (W, P) what only critics observe
    final_privileged: wp.array2d(dtype=float)  # (W, P) the last of it in the last episode that ended


@wp.kernel
def finish_step(first: int, env: EnvView, episodes: EpisodeView, limit: int, mode: int):
    """One thread per world: count the step, end the episode if it is over, and mark it for a restart.

    A broken world is terminated with reward 0; its observation becomes zeros, since a product of zero and NaN
    would spoil a learner. `limit` is the most steps of an episode, 0 for none.

    On the CPU, functions receive copies of structs, which would take longer than the rest; none are passed
    here.
    """
    w = first + wp.tid()
    if episodes.waiting[w]:
        episodes.waiting[w] = False
        episodes.fresh[w] = True
        episodes.ended[w] = False
        episodes.truncated[w] = False
        episodes.broken[w] = False
        env.reward[w] = 0.0
        env.terminated[w] = False
        env.success[w] = False
        return
    reward = float(env.reward[w])
    # the product is NaN unless the number is finite
    check = float(0.0 * reward)
    for k in range(env.obs.shape[1]):
        check = check + 0.0 * env.obs[w, k]
    for k in range(episodes.privileged.shape[1]):
        check = check + 0.0 * episodes.privileged[w, k]
    broken = bool(check != 0.0)
    if episodes.nonfinite.shape[0] > 0:
        broken = broken or episodes.nonfinite[w]
        if mode != RESET_DISABLED:
            # the environment reports it and restarts the world, so that no other warning is needed
            episodes.nonfinite[w] = False
    if broken:
        reward = 0.0
        env.reward[w] = 0.0
        env.terminated[w] = True
        env.success[w] = False
        episodes.failures[w] = episodes.failures[w] + 1
        for k in range(env.obs.shape[1]):
            env.obs[w, k] = 0.0
        for k in range(episodes.privileged.shape[1]):
            episodes.privileged[w, k] = 0.0
    length = env.length[w] + 1
    total = episodes.episode_return[w] + reward
    truncated = limit > 0 and length >= limit
    ended = truncated or env.terminated[w]
    env.length[w] = length
    episodes.episode_return[w] = total
    episodes.broken[w] = broken
    episodes.truncated[w] = truncated
    episodes.ended[w] = ended
    episodes.fresh[w] = ended and mode == RESET_SAME_STEP
    if ended:
        episodes.waiting[w] = mode == RESET_NEXT_STEP
        episodes.final_return[w] = total
        episodes.final_length[w] = length
        for k in range(env.obs.shape[1]):
            episodes.final_obs[w, k] = env.obs[w, k]
        for k in range(episodes.privileged.shape[1]):
            episodes.final_privileged[w, k] = episodes.privileged[w, k]


@wp.kernel
def begin_episodes(first: int, env: EnvView, episodes: EpisodeView, mask: wp.array(dtype=bool)):
    """One thread per world: the masked ones start their next episode."""
    w = first + wp.tid()
    if not mask[w]:
        return
    env.episode[w] = env.episode[w] + 1
    env.length[w] = 0
    episodes.episode_return[w] = 0.0
    episodes.waiting[w] = False
    for k in range(env.memory.shape[1]):
        env.memory[w, k] = 0.0
    if env.episode[w] == 0:
        for k in range(env.kept.shape[1]):
            env.kept[w, k] = 0.0
    for k in range(env.axes):
        env.joint_act[w * env.axes + k] = 0.0
    for k in range(env.dofs):
        env.joint_f[w * env.dofs + k] = 0.0
    if env.body_wrench.shape[0] > 0:
        for k in range(env.bodies):
            env.body_wrench[w * env.bodies + k] = wp.spatial_vector()


@wp.kernel
def clear_results(first: int, env: EnvView, episodes: EpisodeView, mask: wp.array(dtype=bool)):
    """One thread per world: clear the results of the last step of masked worlds after a reset."""
    w = first + wp.tid()
    if mask[w]:
        env.reward[w] = 0.0
        env.terminated[w] = False
        env.success[w] = False
        episodes.truncated[w] = False
        episodes.ended[w] = False

"""How good a policy is, and what it looks like."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from newtonsim.envs import BatchedEnv
from newtonsim.errors import NewtonsimError

Policy = Callable[[np.ndarray], np.ndarray]
"""From observations (n, ...) to actions (n, ...)."""


@dataclass(frozen=True)
class Episodes:
    """Episodes that went to their end.

    Attributes:
        returns: Their returns.
        lengths: Their lengths.
        failures: How many of them ended because a world became NaN or infinite.
    """

    returns: np.ndarray
    lengths: np.ndarray
    failures: int = 0

    def __str__(self) -> str:
        failed = f", {self.failures} of them failed (NaN or infinite)" if self.failures else ""
        return (
            f"return {self.returns.mean():.1f} ± {self.returns.std():.1f} (least {self.returns.min():.1f}), "
            f"{self.lengths.mean():.0f} steps, {len(self.returns)} episodes{failed}"
        )


def evaluate(policy: Policy, env: BatchedEnv, episodes: int = 100, seed: int = 0) -> Episodes:
    """Run a policy for as many episodes in each world, so that short ones do not count more than long ones.

    Args:
        policy: The policy.
        env: Environment with NumPy output, whose episodes end by time at the latest, and start anew in the
            same step.
        episodes: Episodes at least.
        seed: Of the environment.

    Raises:
        NewtonsimError: Episodes have no limit in time, or the infos do not tell of them.
    """
    if not env.max_episode_steps:
        raise NewtonsimError("evaluate: expected episodes with a limit in time, got max_episode_steps=0")
    if not env.episode_infos:
        raise NewtonsimError("evaluate: expected an environment with episode_infos=True, got False")
    each = math.ceil(episodes / env.num_envs)
    returns: list[list[float]] = [[] for _ in range(env.num_envs)]
    lengths: list[list[int]] = [[] for _ in range(env.num_envs)]
    failures = 0
    obs, _ = env.reset(seed=seed)
    while min(map(len, returns)) < each:
        obs, _, _, _, infos = env.step(policy(obs))
        if "episode" not in infos:
            continue
        for world in np.flatnonzero(infos["_episode"]):
            failures += int(infos["failed"][world] and len(returns[world]) < each)
            returns[world].append(float(infos["episode"]["r"][world]))
            lengths[world].append(int(infos["episode"]["l"][world]))
    firsts = [values[:each] for values in (*returns,)], [values[:each] for values in (*lengths,)]
    return Episodes(np.concatenate(firsts[0]), np.concatenate(firsts[1]), failures)


def film(
    policy: Policy, env: BatchedEnv, path: str | os.PathLike, seconds: float = 10.0, seed: int = 0
) -> None:
    """Write a video of a policy in the first world of an environment.

    Args:
        policy: The policy.
        env: Environment with NumPy output and `render_mode="rgb_array"`.
        path: The video; see `newtonsim.render.VideoWriter`.
        seconds: Its length.
        seed: Of the environment.

    Raises:
        NewtonsimError: The environment does not draw, or the video cannot be written.
    """
    from newtonsim.render.films.video import VideoWriter

    if env.render_mode is None:
        raise NewtonsimError("film: expected an environment with render_mode='rgb_array', got None")
    rate = env.metadata["render_fps"]
    every = max(1, round(rate / 30.0))
    obs, _ = env.reset(seed=seed)
    with VideoWriter(path, rate / every) as video:
        for step in range(max(1, round(seconds * rate))):
            if step % every == 0:
                frames: Any = env.render()
                video.add(frames[0])
            obs, *_ = env.step(policy(obs))

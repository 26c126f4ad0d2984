"""Evaluation and videos of policies."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from newtonsim.envs import BatchedEnv
from newtonsim.errors import NewtonsimError

Policy = Callable[[np.ndarray], np.ndarray]
"""Maps observations (n, ...) to actions (n, ...)."""


@dataclass(frozen=True)
class Episodes:
    """Complete episodes.

    Attributes:
        returns: Their returns.
        lengths: Their lengths.
        failures: Number of them that ended because a world became NaN or infinite.
        errors: Mean tracking error of each, if the task has one and it was requested.
        unit: Its unit.
        reached: Whether the goal was reached when each ended, if the task has one.
    """

    returns: np.ndarray
    lengths: np.ndarray
    failures: int = 0
    errors: np.ndarray | None = None
    unit: str = ""
    reached: np.ndarray | None = None

    def __str__(self) -> str:
        failed = f", {self.failures} of them failed (NaN or infinite)" if self.failures else ""
        error = "" if self.errors is None else f"tracking error {np.nanmean(self.errors):.3f} {self.unit}, "
        goal = "" if self.reached is None else f"goal reached in {100.0 * self.reached.mean():.0f} %, "
        r = self.returns
        return (
            f"return {r.mean():.1f} ± {r.std():.1f} (minimum {r.min():.1f}), {error}{goal}"
            f"{self.lengths.mean():.0f} steps, {len(self.returns)} episodes{failed}"
        )


def evaluate(
    policy: Policy,
    env: BatchedEnv,
    episodes: int = 100,
    seed: int = 0,
    track: bool = False,
    watch: Callable[[Callable[[], Episodes]], None] | None = None,
) -> Episodes:
    """Run a policy for the same number of episodes in each world, so that short ones are not overrepresented.

    Args:
        policy: The policy.
        env: Environment with NumPy output, whose episodes have a time limit and restart in the same step.
        episodes: Smallest number of episodes.
        seed: Seed of the environment.
        track: Whether to compute tracking errors, see `Task.tracking_error`.
        watch: Called after each step with a function that returns the episodes that count and are complete by
            then, without tracking errors.

    Raises:
        NewtonsimError: Episodes have no time limit, or the infos do not report them.
    """
    if not env.max_episode_steps:
        raise NewtonsimError("evaluate: expected episodes with a time limit, got max_episode_steps=0")
    if not env.episode_infos:
        raise NewtonsimError("evaluate: expected an environment with episode_infos=True, got False")
    each = math.ceil(episodes / env.num_envs)
    returns: list[list[float]] = [[] for _ in range(env.num_envs)]
    lengths: list[list[int]] = [[] for _ in range(env.num_envs)]
    reached: list[list[bool]] = [[] for _ in range(env.num_envs)]
    failures = 0
    obs, _ = env.reset(seed=seed)
    errors = _Errors(env) if track else None

    def found() -> Episodes:
        goals = _firsts(reached, each) if env.task.has_goal else None
        return Episodes(_firsts(returns, each), _firsts(lengths, each), failures, reached=goals)

    while min(map(len, returns)) < each:
        obs, _, terminated, truncated, infos = env.step(policy(obs))
        if errors is not None:
            errors.add(terminated | truncated)
        for world in np.flatnonzero(infos["_episode"]) if "episode" in infos else ():
            failures += int(infos["failed"][world] and len(returns[world]) < each)
            returns[world].append(float(infos["episode"]["r"][world]))
            lengths[world].append(int(infos["episode"]["l"][world]))
            reached[world].append("is_success" in infos and bool(infos["is_success"][world]))
        if watch is not None:
            watch(found)
    if errors is None or not errors.unit:
        return found()
    return dataclasses.replace(found(), errors=_firsts(errors.means, each), unit=errors.unit)


def _firsts(values: Sequence[Sequence[float]], count: int) -> np.ndarray:
    """Return the first values of each world, by world."""
    return np.concatenate([of_world[:count] for of_world in values])


class _Errors:
    """Mean tracking errors of episodes; a world that has restarted is past the last step of its old episode.

    Attributes:
        means: Means of each world, by episode.
        unit: Their unit, "" if the task has none.
    """

    def __init__(self, env: BatchedEnv):
        self._env = env
        self._sum, self._count = np.zeros(env.num_envs), np.zeros(env.num_envs)
        self.means: list[list[float]] = [[] for _ in range(env.num_envs)]
        self.unit = ""

    def add(self, ended: np.ndarray) -> None:
        """Take a step."""
        found = self._env.task.tracking_error(self._env.buffers.attach(self._env.sim))
        if found is None:
            return
        errors, self.unit = found
        self._sum[~ended] += errors[~ended]
        self._count[~ended] += 1
        for world in np.flatnonzero(ended):
            count = self._count[world]
            self.means[world].append(self._sum[world] / count if count else math.nan)
            self._sum[world] = self._count[world] = 0.0


def film(
    policy: Policy, env: BatchedEnv, path: str | os.PathLike, seconds: float = 10.0, seed: int = 0
) -> None:
    """Write a video of a policy in the first world of an environment.

    Args:
        policy: The policy.
        env: Environment with NumPy output and `render_mode="rgb_array"`.
        path: The video; see `newtonsim.render.VideoWriter`.
        seconds: Its length.
        seed: Seed of the environment.

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

"""Evaluation and videos of policies."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newtonsim.envs import BatchedEnv, Metric
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
        early: Number of them that an ending of the task ended before their time, such as a fall.
        metrics: Means over each of what `Task.metrics` tells, by name.
        reached: Whether the goal was reached when each ended, if the task has one.
    """

    returns: np.ndarray
    lengths: np.ndarray
    failures: int = 0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reached: np.ndarray | None = None
    early: int = 0

    def __str__(self) -> str:
        failed = f", {self.failures} of them failed (NaN or infinite)" if self.failures else ""
        early = f", {self.early} of them ended early" if self.early else ""
        told = "".join(f"{name} {metric}, " for name, metric in self.metrics.items())
        goal = "" if self.reached is None else f"goal reached in {100.0 * self.reached.mean():.0f} %, "
        r = self.returns
        return (
            f"return {r.mean():.1f} ± {r.std():.1f} (minimum {r.min():.1f}), {told}{goal}"
            f"{self.lengths.mean():.0f} steps, {len(self.returns)} episodes{early}{failed}"
        )


def evaluate(
    policy: Policy,
    env: BatchedEnv,
    episodes: int = 100,
    seed: int = 0,
    watch: Callable[[Callable[[], Episodes]], None] | None = None,
) -> Episodes:
    """Run a policy for the same number of episodes in each world, so that short ones are not overrepresented.

    Args:
        policy: The policy.
        env: Environment with NumPy output, whose episodes have a time limit and restart in the same step.
        episodes: Smallest number of episodes.
        seed: Seed of the environment.
        watch: Called after each step with a function that returns the episodes that count and are complete by
            then.

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
    failures = early = 0
    obs, _ = env.reset(seed=seed)
    means = _Means(env)

    def found() -> Episodes:
        goals = _firsts(reached, each) if env.task.has_goal else None
        done = _firsts(returns, each), _firsts(lengths, each)
        return Episodes(*done, failures, means.firsts(each), goals, early)

    while min(map(len, returns)) < each:
        obs, _, terminated, truncated, infos = env.step(policy(obs))
        means.add(terminated | truncated)
        for world in np.flatnonzero(infos["_episode"]) if "episode" in infos else ():
            counts, failed = len(returns[world]) < each, infos["failed"][world]
            failures += int(failed and counts)
            early += int(terminated[world] and counts and not failed)
            returns[world].append(float(infos["episode"]["r"][world]))
            lengths[world].append(int(infos["episode"]["l"][world]))
            reached[world].append("is_success" in infos and bool(infos["is_success"][world]))
        if watch is not None:
            watch(found)
    return found()


def _firsts(values: Sequence[Sequence[float]], count: int) -> np.ndarray:
    """Return the first values of each world, by world."""
    return np.concatenate([of_world[:count] for of_world in values])


class _Means:
    """Means of metrics over episodes; a world that has restarted is past the last step of its old episode."""

    def __init__(self, env: BatchedEnv):
        self._env, self._count = env, np.zeros(env.num_envs)
        self._sums: dict[str, np.ndarray] = {}
        self._means: list[list[dict[str, np.ndarray]]] = [[] for _ in range(env.num_envs)]
        self._latest: dict[str, Metric] = {}

    def add(self, ended: np.ndarray) -> None:
        """Take a step."""
        self._latest = self._env.metrics()
        self._count[~ended] += 1
        for name, metric in self._latest.items():
            numbers = metric.table()
            self._sums.setdefault(name, np.zeros(numbers.shape))[~ended] += numbers[~ended]
        for world in np.flatnonzero(ended):
            count = self._count[world] or math.nan
            self._means[world].append({name: sums[world] / count for name, sums in self._sums.items()})
            for sums in self._sums.values():
                sums[world] = 0.0
        self._count[ended] = 0.0

    def firsts(self, count: int) -> dict[str, Metric]:
        """Return the metrics of the first episodes of each world, by world."""
        means = [of_episode for of_world in self._means for of_episode in of_world[:count]]
        found = {}
        for name, metric in self._latest.items():
            columns = metric.table().shape[1]
            table = np.array([of_episode[name] for of_episode in means]).reshape(-1, columns)
            found[name] = metric.with_table(table)
        return found


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

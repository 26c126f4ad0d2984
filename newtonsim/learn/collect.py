"""Rollouts of an iteration, and the collectors that gather them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
import warp as wp

from newtonsim.envs.task import Metric, joined_metrics
from newtonsim.learn.models import PolicySpaces, explore, make_network
from newtonsim.learn.settings import Settings

if TYPE_CHECKING:
    from newtonsim.envs import BatchedEnv

Weights = dict[str, torch.Tensor]
"""Parameters and normalisation of an actor, on the CPU."""


@dataclass(frozen=True)
class Plan:
    """What a collector must know to simulate its share of the worlds; it can be sent to another process.

    Attributes:
        make: Makes the environment from `num_envs`, `device`, `output`, and `threads` if remote workers limit
            them.
        settings: How the policy learns.
        seed: Seed of everything random.
        device: Device; None for Warp's default.
    """

    make: Callable[..., BatchedEnv]
    settings: Settings
    seed: int
    device: str | None = None


@dataclass
class Rollout:
    """Steps of n worlds in one iteration; T steps, all tensors on one device.

    Attributes:
        obs: Observations before each step, (T, n, ...).
        privileged: What only the critic observes, (T, n, P); P is 0 if there is nothing.
        actions: Actions of the policy, in its own units, (T, n, columns).
        rewards: Rewards, (T, n).
        ended: Whether an episode ended with the step, (T, n).
        cut: Step and world of truncated episodes, (k, 2).
        cut_obs: The last observations of those, (k, ...).
        cut_privileged: The last privileged ones of those, (k, P).
        last_obs: Observations after the last step, (n, ...).
        last_privileged: Privileged ones after the last step, (n, P).
        returns: Returns of the episodes that ended, were observed completely and did not fail, (e,).
        lengths: Their lengths, (e,).
        failures: Number of episodes that ended because a world became NaN or infinite.
        reached: Whether the goal was reached when they ended, (e,); (0,) of tasks without one.
        metrics: What `Task.metrics` tells of all worlds after the last step, by name.
    """

    obs: torch.Tensor
    privileged: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    ended: torch.Tensor
    cut: torch.Tensor
    cut_obs: torch.Tensor
    cut_privileged: torch.Tensor
    last_obs: torch.Tensor
    last_privileged: torch.Tensor
    returns: torch.Tensor
    lengths: torch.Tensor
    failures: int
    reached: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    metrics: dict[str, Metric] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Rollout:
        """Return the rollout on a device."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Rollout(**{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in values.items()})

    @staticmethod
    def joined(parts: list[Rollout]) -> Rollout:
        """Return the rollout of all worlds, from those of consecutive shares."""
        if len(parts) == 1:
            return parts[0]
        firsts = np.cumsum([0] + [part.obs.shape[1] for part in parts]).tolist()
        cuts = [part.cut + torch.tensor([0, first]).to(part.cut) for part, first in zip(parts, firsts)]
        of_worlds = {
            name: torch.cat([getattr(part, name) for part in parts], dim=1)
            for name in ("obs", "privileged", "actions", "rewards", "ended")
        }
        observed = ("cut_obs", "cut_privileged", "last_obs", "last_privileged")
        rows = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in (*observed, "returns", "lengths", "reached")
        }
        return Rollout(
            **of_worlds,
            **rows,
            cut=torch.cat(cuts),
            failures=sum(p.failures for p in parts),
            metrics=joined_metrics([p.metrics for p in parts]),
        )


def seeds_of_worlds(seed: int, iteration: int, first: int, count: int) -> list[int]:
    """Return the seeds of worlds that start in an iteration; they depend only on these numbers."""
    words = (np.random.SeedSequence([seed, iteration, first + k]).generate_state(1) for k in range(count))
    return [int(word[0]) for word in words]


def noise_of(plan: Plan, iteration: int, columns: int, device: torch.device | str) -> torch.Tensor:
    """Return the noise of an iteration for all worlds, (T, num_envs, columns)."""
    words = np.random.SeedSequence([plan.seed, iteration]).generate_state(1, np.uint64)
    generator = torch.Generator(device).manual_seed(int(words[0] >> 1))
    shape = (plan.settings.steps, plan.settings.num_envs, columns)
    return torch.randn(shape, generator=generator, device=device)


class Collector:
    """Steps a share of the worlds by a policy.

    Its worlds continue from iteration to iteration. In its first iteration they start from seeds of that
    iteration, so that neither its past nor the partition of the worlds matters.

    Args:
        plan: What to collect.
        first: First world of the share.
        count: Number of worlds.
    """

    def __init__(self, plan: Plan, first: int, count: int):
        self.plan, self.first, self.count = plan, first, count
        self.env = plan.make(num_envs=count, device=plan.device, output="torch")
        self.policy = PolicySpaces.of_env(self.env, plan.settings)
        self.device = wp.device_to_torch(self.env.device)
        self.actor = make_network("actor", self.policy, plan.settings).to(self.device).eval()
        self._obs: torch.Tensor | None = None
        self._privileged = torch.zeros(count, 0, device=self.device)
        self._partial = torch.zeros(count, dtype=torch.bool, device=self.device)
        self._failures = 0

    def collect(self, weights: Weights, iteration: int) -> Rollout:
        """Return the rollout of an iteration under a policy.

        Args:
            weights: State of the actor.
            iteration: Number of the iteration.
        """
        self.actor.load_state_dict(weights)
        steps = self.plan.settings.steps
        noise = noise_of(self.plan, iteration, self.policy.columns, self.device)
        noise = noise[:, self.first : self.first + self.count]
        if self._obs is None:
            self._obs = self._start(iteration)
        store = _Store(steps, self._obs, self._privileged, noise, self._partial, self.env.task.has_goal)
        with torch.inference_mode():
            for t in range(steps):
                store.obs[t], store.privileged[t] = self._obs, self._privileged
                store.actions[t] = explore(self.actor, self.policy.groups(self._obs), noise[t])
                self._obs, *results = self.env.step(self.policy.to_env(store.actions[t]))
                store.take(t, *results)
                self._privileged = results[-1].get("privileged", self._privileged)
        failures = int(self.env.failures.sum())
        new, self._failures = failures - self._failures, failures
        rollout = store.rollout(self._obs.clone(), self._privileged.clone(), new)
        # of one step of an iteration: that is enough for a mean over many worlds, and waits once
        rollout.metrics = self.env.metrics()
        return rollout

    def _start(self, iteration: int) -> torch.Tensor:
        """Start all worlds at different times of their episodes, so that these do not all end together.

        Statistics leave out episodes that are short for this reason.
        """
        seeds = seeds_of_worlds(self.plan.seed, iteration, self.first, self.count)
        obs, infos = self.env.reset(seed=seeds)
        self._privileged = infos.get("privileged", self._privileged)
        limit = self.env.max_episode_steps
        if limit:
            wp.to_torch(self.env.buffers.view.length).copy_(torch.tensor([seed % limit for seed in seeds]))
            self._partial.fill_(True)
        return obs

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class _Store:
    """Arrays of a rollout in progress; nothing in `take` waits for a GPU."""

    def __init__(
        self,
        steps: int,
        obs: torch.Tensor,
        privileged: torch.Tensor,
        noise: torch.Tensor,
        partial: torch.Tensor,
        has_goal: bool,
    ):
        worlds, self._partial = len(obs), partial
        options = {"device": obs.device}
        self.obs = torch.empty((steps, *obs.shape), dtype=obs.dtype, **options)
        self.final_obs = torch.empty_like(self.obs)
        self.privileged = torch.empty((steps, *privileged.shape), **options)
        self.final_privileged = torch.empty_like(self.privileged)
        self.actions = torch.empty(noise.shape, **options)
        self.rewards, self.returns = (torch.empty((steps, worlds), **options) for _ in range(2))
        self.lengths = torch.empty((steps, worlds), dtype=torch.int32, **options)
        self.terminated, self.truncated, self.counted = (
            torch.empty((steps, worlds), dtype=torch.bool, **options) for _ in range(3)
        )
        self.reached = torch.empty_like(self.counted) if has_goal else None

    def take(
        self,
        t: int,
        rewards: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        infos: dict,
    ) -> None:
        """Keep the results of a step."""
        self.rewards[t], self.terminated[t], self.truncated[t] = rewards, terminated, truncated
        self.final_obs[t] = infos["final_obs"]
        if self.privileged.shape[-1]:
            self.final_privileged[t] = infos["final_privileged"]
        self.returns[t], self.lengths[t] = infos["episode"]["r"], infos["episode"]["l"]
        ended = terminated | truncated
        self.counted[t] = ended & ~self._partial & ~infos["failed"]
        self._partial &= ~ended
        if self.reached is not None:
            self.reached[t] = infos["is_success"]

    def rollout(self, last_obs: torch.Tensor, last_privileged: torch.Tensor, failures: int) -> Rollout:
        """Return the rollout."""
        ended = self.terminated | self.truncated
        cut = (self.truncated & ~self.terminated).nonzero()
        return Rollout(
            obs=self.obs,
            privileged=self.privileged,
            actions=self.actions,
            rewards=self.rewards,
            ended=ended,
            cut=cut,
            cut_obs=self.final_obs[cut[:, 0], cut[:, 1]],
            cut_privileged=self.final_privileged[cut[:, 0], cut[:, 1]],
            last_obs=last_obs,
            last_privileged=last_privileged,
            returns=self.returns[self.counted],
            lengths=self.lengths[self.counted],
            failures=failures,
            reached=self.counted[:0, 0] if self.reached is None else self.reached[self.counted],
        )

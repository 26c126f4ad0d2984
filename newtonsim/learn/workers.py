"""Workers that collect samples: collectors in this process."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

from newtonsim.errors import NewtonsimError
from newtonsim.learn.collect import Collector, Plan, Rollout, Weights
from newtonsim.learn.models import PolicySpaces


class Workers(Protocol):
    """Collectors of all worlds of a plan, wherever they are.

    Attributes:
        policy: What a policy observes and does in their environment.
    """

    policy: PolicySpaces

    def collect(self, weights: Weights, iteration: int) -> list[Rollout]:
        """Return the rollouts of an iteration, in the order of the worlds, each world in one of them.

        Rollouts are complete: if a worker is lost, its replacement collects the iteration again, starting new
        episodes.
        """
        ...

    def close(self) -> None:
        """Release the workers' resources."""


def shares(worlds: int, count: int) -> list[tuple[int, int]]:
    """Return the first world and number of worlds of each worker, as evenly as possible.

    Raises:
        NewtonsimError: There are more workers than worlds.
    """
    if not 1 <= count <= worlds:
        raise NewtonsimError(f"workers: expected 1 to {worlds}, at least one world for each, got {count}")
    bounds = [worlds * k // count for k in range(count + 1)]
    return [(low, high - low) for low, high in pairwise(bounds)]


class LocalWorkers:
    """Collectors in this process, one after the other.

    Args:
        plan: What to collect.
        count: Number of collectors; more than one is for comparisons with remote workers.
    """

    def __init__(self, plan: Plan, count: int = 1):
        self._collectors = [
            Collector(plan, first, number) for first, number in shares(plan.settings.num_envs, count)
        ]
        self.policy = self._collectors[0].policy

    def collect(self, weights: Weights, iteration: int) -> list[Rollout]:
        """See `Workers.collect`."""
        return [collector.collect(weights, iteration) for collector in self._collectors]

    def close(self) -> None:
        """See `Workers.close`."""
        for collector in self._collectors:
            collector.close()

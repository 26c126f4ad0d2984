"""Collectors in other processes and on other machines, by Ray (extra `ray`)."""

from __future__ import annotations

import dataclasses
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import warp as wp

from newtonsim.envs.batched import BatchedEnv
from newtonsim.errors import NewtonsimError
from newtonsim.learn.collect import Collector, Plan, Rollout, Weights
from newtonsim.learn.models import PolicySpaces
from newtonsim.learn.workers import shares
from newtonsim.studies import ray_cluster

RETRIES = 30
"""How often a worker may fail in one iteration before training ends with an error.

The loss of a machine counts about seven times, since Ray tries to reach it for a while.
"""


class RayWorkers:
    """Collectors that are Ray actors and run in parallel, each with a share of the worlds.

    Ray replaces a worker whose process or machine dies, and calls the replacement. It restarts the worlds of
    the share, from seeds of the iteration, and collects the whole iteration; what the lost worker had
    collected of it is lost. So every iteration has each world in one rollout, whatever dies; a RuntimeWarning
    names the worker.

    Args:
        plan: What to collect. On a GPU, workers take the one that Ray shows to them.
        count: Number of workers.
        address: Address of a cluster, see `ray_cluster.connect`.
        cpus: CPUs that Ray reserves for a worker, whose simulation has as many threads unless the run says
            otherwise; None for equal shares of all.
        gpus: GPUs that Ray reserves for a worker; None for equal shares of all, at most one; none on "cpu".

    Attributes:
        policy: What a policy sees and does.

    Raises:
        NewtonsimError: There are more workers than worlds, Ray is not installed or not reachable, or the
            environment cannot be created.
    """

    policy: PolicySpaces

    def __init__(
        self,
        plan: Plan,
        count: int,
        address: str | None = None,
        cpus: float | None = None,
        gpus: float | None = None,
    ):
        self._shares = shares(plan.settings.num_envs, count)
        self._ray = ray_cluster.connect(address)
        on_cpu = str(plan.device) == "cpu"
        cpus, gpus = ray_cluster.shares(count, cpus, 0.0 if on_cpu else gpus)
        device = "cuda:0" if gpus else "cpu" if on_cpu else None
        plan = dataclasses.replace(plan, make=_with_threads(plan.make, max(1, int(cpus))), device=device)
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": -1, "max_task_retries": RETRIES}
        kind = self._ray.remote(**options)(_Actor)
        log_level = max(wp.config.log_level, wp.LOG_WARNING)
        self._names: dict[int, str] = {}
        self._actors = [kind.remote(plan, *share, log_level) for share in self._shares]
        try:
            self.policy = self._answers([self._actors[0].policy.remote()])[0]
        except BaseException:
            self.close()
            raise

    def collect(self, weights: Weights, iteration: int) -> list[Rollout]:
        """See `Workers.collect`.

        Raises:
            NewtonsimError: A worker has failed too often in this iteration.
        """
        shared = self._ray.put({name: value.numpy() for name, value in weights.items()})
        answers = self._answers([actor.collect.remote(shared, iteration) for actor in self._actors])
        for k, (name, _) in enumerate(answers):
            if name != self._names.setdefault(k, name):
                self._names[k] = name
                warnings.warn(
                    f"Ray worker {k} of {len(answers)} was lost; its replacement collected iteration "
                    f"{iteration + 1} again",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return [_unpacked(answer) for _, answer in answers]

    def close(self) -> None:
        """See `Workers.close`."""
        for actor in self._actors:
            self._ray.kill(actor)

    def _answers(self, calls: list[Any]) -> list[Any]:
        """Return the results of one call to each worker; an exception of a worker is raised here."""
        try:
            return self._ray.get(calls)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayActorError as error:
            raise NewtonsimError(f"a Ray worker has failed too often in one iteration: {error}") from error


class _Actor:
    """A collector that is created on first use, so that its errors reach the caller."""

    def __init__(self, plan: Plan, first: int, count: int, log_level: int):
        wp.config.log_level = log_level
        self._share = plan, first, count
        # tells a replacement from the worker that was lost
        self._name = uuid.uuid4().hex
        self._made: Collector | None = None
        self._last: tuple[int, dict[str, Any]] | None = None

    @property
    def _collector(self) -> Collector:
        if self._made is None:
            self._made = Collector(*self._share)
        return self._made

    def policy(self) -> PolicySpaces:
        return self._collector.policy

    def collect(self, weights: dict[str, np.ndarray], iteration: int) -> tuple[str, dict[str, Any]]:
        """Return who collected a rollout, and the rollout, packed.

        A repeated call, which Ray makes if an answer was lost, returns the same one.
        """
        if self._last is None or self._last[0] != iteration:
            tensors = {name: torch.tensor(value) for name, value in weights.items()}
            self._last = iteration, _packed(self._collector.collect(tensors, iteration))
        return self._name, self._last[1]


def _with_threads(make: Callable[..., BatchedEnv], threads: int) -> Callable[..., BatchedEnv]:
    """Return a function that makes environments with a number of threads, unless it already sets one."""
    return make if "threads" in getattr(make, "keywords", {}) else partial(make, threads=threads)


def _packed(rollout: Rollout) -> dict[str, Any]:
    """Return the fields of a rollout, tensors as NumPy arrays, which Ray sends without pickling."""
    fields = vars(rollout.to("cpu"))
    return {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in fields.items()}


def _unpacked(fields: dict[str, Any]) -> Rollout:
    """Return a rollout; arrays are copied, since those of Ray cannot be written to."""
    copied: dict[str, Any] = {
        k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in fields.items()
    }
    return Rollout(**copied)

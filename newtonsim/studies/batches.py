"""Batches of a sweep: their candidates, evaluation and results."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.studies import ray_cluster

Arrays = dict[str, np.ndarray]

Evaluate = Callable[[Arrays], Mapping[str, npt.ArrayLike]]
"""Simulates a batch: from parameters to results, arrays with one entry per candidate."""


class BatchError(Exception):
    """A batch was not evaluated; `__cause__` says why, if a call raised an exception.

    Attributes:
        batch: Its number; None if workers could not be set up.
    """

    def __init__(self, batch: int | None, message: str):
        super().__init__(message)
        self.batch = batch


@dataclass(frozen=True)
class Batches:
    """Candidates split into batches of equal length.

    Attributes:
        parameters: Parameters of all candidates.
        count: Number of candidates.
        size: Candidates in a batch; the last one is filled up with copies of the last candidate.
    """

    parameters: Arrays
    count: int
    size: int

    def __len__(self) -> int:
        return (self.count + self.size - 1) // self.size

    def candidates(self, batch: int) -> np.ndarray:
        """Return the numbers of a batch's candidates, without the copies."""
        return np.arange(batch * self.size, min((batch + 1) * self.size, self.count))

    def __getitem__(self, batch: int) -> Arrays:
        """Return the parameters of a batch, copied."""
        rows = np.minimum(np.arange(batch * self.size, (batch + 1) * self.size), self.count - 1)
        return {name: values[rows] for name, values in self.parameters.items()}


class Evaluator:
    """Evaluates batches in this process; what that needs is set up once.

    Args:
        evaluate: Function of a batch, or class of such functions, see `newtonsim.sweep`.
        size: Candidates in a batch.
    """

    def __init__(self, evaluate: Evaluate | Callable[[int], Evaluate], size: int):
        self._evaluate: Any = evaluate
        self._size = size
        self._function: Any = None

    def set_up(self) -> None:
        """Create the function of a batch, unless it exists."""
        if self._function is None:
            kind = self._evaluate.func if isinstance(self._evaluate, partial) else self._evaluate
            self._function = self._evaluate(self._size) if isinstance(kind, type) else self._evaluate

    def __call__(self, parameters: Arrays) -> Arrays:
        """Return the results of a batch.

        Raises:
            NewtonsimError: They are not arrays with one entry for each candidate.
        """
        self.set_up()
        results = self._function(parameters)
        if not isinstance(results, Mapping) or not results:
            raise NewtonsimError(f"evaluate: expected a dict of arrays, got {results!r}")
        arrays = {}
        for name, values in results.items():
            arrays[name] = array = np.array(values)
            if array.ndim < 1 or len(array) != self._size:
                raise NewtonsimError(
                    f"evaluate: result {name!r}: expected {self._size} entries, one for each candidate, got "
                    f"shape {array.shape}"
                )
            if array.dtype.hasobject:
                raise NewtonsimError(f"evaluate: result {name!r}: expected numbers, got {array.dtype}")
        return arrays


def evaluate_here(
    evaluate: Evaluate | Callable[[int], Evaluate], batches: Batches, missing: Sequence[int]
) -> Iterator[tuple[int, Arrays]]:
    """Evaluate batches in this process, one after the other.

    Yields:
        Number of a batch and its results.

    Raises:
        BatchError: The evaluation of a batch raised, or its preparation.
    """
    run, batch = Evaluator(evaluate, batches.size), None
    try:
        run.set_up()
        for batch in missing:
            yield batch, run(batches[batch])
    except Exception as error:  # whatever a function of others raises
        raise BatchError(batch, _described(error)) from error


def evaluate_by_ray(
    evaluate: Evaluate | Callable[[int], Evaluate],
    batches: Batches,
    missing: Sequence[int],
    workers: int,
    cpus: float,
    gpus: float | None,
    retries: int,
) -> Iterator[tuple[int, Arrays]]:
    """Evaluate batches by Ray actors, each in its own process; see `newtonsim.sweep`.

    A worker gets its first batch once it is set up, so that workers for which the cluster has no room yet
    hold nothing up. After an error no further batch is started, and running ones are awaited.

    Yields:
        Number of a batch and its results, in the order in which they arrive.

    Raises:
        BatchError: The evaluation of a batch raised, or its worker died once too often.
        NewtonsimError: Ray is not installed, or the function cannot be sent to other processes.
    """
    ray = ray_cluster.connect()
    cpus, gpus = ray_cluster.shares(workers, cpus, gpus)
    kind = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=-1, max_task_retries=retries)(_Worker)
    arguments = evaluate, batches.size, max(wp.config.log_level, wp.LOG_WARNING)
    try:
        actors = [kind.remote(*arguments) for _ in range(min(workers, len(missing)))]
    except (TypeError, pickle.PicklingError) as error:
        raise NewtonsimError(f"evaluate: it cannot be sent to other processes: {error}") from error
    waiting, failure = deque(missing), None
    under_way = {actor.set_up.remote(): (actor, None) for actor in actors}
    try:
        while waiting or any(batch is not None for _, batch in under_way.values()):
            (ready,), _ = ray.wait(list(under_way), num_returns=1)
            actor, batch = under_way.pop(ready)
            try:
                results = ray.get(ready)
            except ray.exceptions.RayError as error:
                failure = failure or _failure(batch, error)
                waiting.clear()
                continue
            if waiting:
                following = waiting.popleft()
                under_way[actor.evaluate.remote(batches[following])] = actor, following  # pyright: ignore[reportArgumentType]
            if batch is not None:
                yield batch, results
    finally:
        for actor in actors:
            ray.kill(actor)
    if failure is not None:
        raise failure


class _Worker:
    """A Ray actor; one that dies is restarted, and sets up again what it needs."""

    def __init__(self, evaluate: Evaluate | Callable[[int], Evaluate], size: int, log_level: int):
        wp.config.log_level = log_level
        self._run = Evaluator(evaluate, size)

    def set_up(self) -> None:
        self._run.set_up()

    def evaluate(self, parameters: Arrays) -> Arrays:
        return self._run(parameters)


def _failure(batch: int | None, error: Exception) -> BatchError:
    """Return what to raise for an error of Ray, with that error as its cause."""
    cause = getattr(error, "cause", None)  # of a RayTaskError: what the function raised
    if isinstance(cause, Exception):
        failure = BatchError(batch, _described(cause))
    else:
        failure = BatchError(batch, f"its workers died: {error}")
    failure.__cause__ = error
    return failure


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""Parameter studies: a simulation evaluated for many sets of parameters, batch by batch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError, SweepError
from newtonsim.runtime.progress import SweepProgress
from newtonsim.studies.batches import Arrays, BatchError, Batches, Evaluate, evaluate_by_ray, evaluate_here


def sweep(
    evaluate: Evaluate | Callable[[int], Evaluate],
    parameters: Mapping[str, npt.ArrayLike],
    *,
    batch: int = 256,
    workers: int | None = None,
    resume: str | os.PathLike | None = None,
    cpus: float = 1.0,
    gpus: float | None = None,
    retries: int = 20,
) -> Arrays:
    """Evaluate many candidates, which are sets of parameters, and return their results in the same order.

    Each candidate is evaluated in a batch, such as by one world each of a model of `batch` worlds. All
    batches have the same length: the last one is filled up with copies of the last candidate, whose results
    are dropped. How candidates are split into batches does not depend on the workers, so that a function
    whose results depend only on its parameters gives the same bits with any number of them.

    With workers, batches are evaluated by actors of Ray (extra `ray`), on the cluster that this process is
    connected to (`ray.init`), or else that the environment variable RAY_ADDRESS names or `ray start` runs on
    this machine, or else on a new one. Ray replaces a worker that dies, and restarts its batch; each
    candidate has one result. Workers for which the cluster has no room wait until it has.

    Args:
        evaluate: Function from the parameters of a batch to its results: dict of arrays to dict of arrays,
            with one entry a candidate. Or a class (or `functools.partial` of one) of such functions, which
            is called once by each worker with the number of candidates in a batch: the place to build a
            model, which then serves many batches. With workers, it must be importable by them or picklable by
            cloudpickle.
        parameters: Arrays of equal length by name, with one entry a candidate; see
            `newtonsim.studies.sampling` for grids and samples.
        batch: Candidates in a batch.
        workers: Processes; None for this one. With several on one machine, let each `Simulator` have as many
            threads as the worker has CPUs.
        resume: File with the results of each finished batch. If it exists, those batches are not evaluated
            again. It records the parameters, but not the function: after changing that, use another file.
        cpus: CPUs that Ray reserves for a worker.
        gpus: GPUs that Ray reserves for a worker, and shows to it; None for an equal share of those in the
            cluster, at most one.
        retries: How often a batch is started again because its worker failed; the loss of a machine, which
            Ray tries to reach for a while, counts about seven times.

    Returns:
        Results by name, shape (count, ...).

    Raises:
        NewtonsimError: Arguments are out of range, or the file belongs to another sweep.
        SweepError: A batch could not be evaluated. No further one is started then; the error contains the
            results of the finished ones, and so does the file.
    """
    batches = _read_parameters(parameters, batch)
    _check(evaluate, workers, cpus, gpus, retries)
    with contextlib.ExitStack() as stack:
        done: dict[int, Arrays] = {}
        write = None
        if resume is not None:
            from newtonsim.studies.results_file import SweepFile

            file = stack.enter_context(SweepFile(resume, batches))
            done, write = file.read(), file.write
        missing = [number for number in range(len(batches)) if number not in done]
        if workers is None or not missing:
            run = evaluate_here(evaluate, batches, missing)
        else:
            run = evaluate_by_ray(evaluate, batches, missing, workers, cpus, gpus, retries)
        stack.enter_context(contextlib.closing(run))  # pyright: ignore[reportArgumentType]
        before = sum(len(batches.candidates(number)) for number in done)
        progress = stack.enter_context(SweepProgress(batches.count, before))
        try:
            for number, results in _checked_alike(run, done):
                own = {name: values[: len(batches.candidates(number))] for name, values in results.items()}
                if write is not None:
                    write(number, own)
                done[number] = own
                progress.add(len(batches.candidates(number)))
        except BatchError as error:
            raise _sweep_error(error, batches, done) from error.__cause__
    return {name: np.concatenate([done[n][name] for n in range(len(batches))]) for name in done[0]}


def _checked_alike(
    run: Iterator[tuple[int, Arrays]], done: Mapping[int, Arrays]
) -> Iterator[tuple[int, Arrays]]:
    """Pass results on, and compare their names, types and shapes with those of batches before.

    Raises:
        BatchError: They differ.
    """
    for number, results in run:
        if done:
            first = next(iter(done.values()))
            was, now = _layout(first), _layout(results)
            if was != now:
                raise BatchError(number, f"evaluate: results were {was} in other batches, but are {now} here")
        yield number, results


def _layout(results: Arrays) -> dict[str, str]:
    """Type and shape of one candidate's entry of each result."""
    return {name: f"{values.dtype}{list(values.shape[1:])}" for name, values in sorted(results.items())}


def _sweep_error(error: BatchError, batches: Batches, done: Mapping[int, Arrays]) -> SweepError:
    """Return the error about a batch, with its parameters and the results of the others."""
    candidates = np.concatenate([np.empty(0, int), *map(batches.candidates, sorted(done))])
    results = {}
    if done:
        names = next(iter(done.values()))
        results = {name: np.concatenate([done[n][name] for n in sorted(done)]) for name in names}
    if error.batch is None:
        return SweepError(f"evaluate: it could not be set up: {error}", None, {}, candidates, results)
    own = batches.candidates(error.batch)
    parameters = {name: values[own] for name, values in batches.parameters.items()}
    text = f"batch {error.batch}, candidates {own[0]} to {own[-1]} ({_ranges(parameters)}): {error}"
    return SweepError(text, error.batch, parameters, candidates, results)


def _ranges(parameters: Arrays) -> str:
    """Return the smallest and largest value of each parameter, for a message."""
    texts = []
    for name, values in parameters.items():
        if np.issubdtype(values.dtype, np.number):
            texts.append(f"{name} {values.min():.6g} to {values.max():.6g}")
        else:
            texts.append(f"{name} {values[0]} ...")
    return ", ".join(texts)


def _read_parameters(parameters: Mapping[str, npt.ArrayLike], batch: int) -> Batches:
    if not isinstance(parameters, Mapping) or not parameters:
        raise NewtonsimError(f"parameters: expected a dict with at least one array, got {parameters!r}")
    arrays = {name: np.asarray(values) for name, values in parameters.items()}
    for name, values in arrays.items():
        if values.ndim < 1 or not len(values):
            raise NewtonsimError(
                f"parameters: {name!r}: expected an entry for each candidate, got shape {values.shape}"
            )
        if values.dtype.hasobject:
            raise NewtonsimError(f"parameters: {name!r}: expected numbers, got {values.dtype}")
    lengths = {name: len(values) for name, values in arrays.items()}
    count = next(iter(lengths.values()))
    if set(lengths.values()) != {count}:
        raise NewtonsimError(f"parameters: expected arrays of equal length, got {lengths}")
    if not isinstance(batch, (int, np.integer)) or batch < 1:
        raise NewtonsimError(f"batch: expected a whole number of at least 1, got {batch!r}")
    return Batches(arrays, count, min(int(batch), count))


def _check(
    evaluate: Evaluate | Callable[[int], Evaluate],
    workers: int | None,
    cpus: float,
    gpus: float | None,
    retries: int,
) -> None:
    if not callable(evaluate):
        raise NewtonsimError(f"evaluate: expected a function or a class, got {evaluate!r}")
    if workers is not None and (not isinstance(workers, (int, np.integer)) or workers < 1):
        raise NewtonsimError(f"workers: expected a whole number of at least 1, or None, got {workers!r}")
    for name, value in (("cpus", cpus), ("gpus", 0.0 if gpus is None else gpus)):
        if not isinstance(value, (int, float)) or not 0.0 <= value < np.inf:
            raise NewtonsimError(f"{name}: expected a number of at least 0, got {value!r}")
    if not isinstance(retries, (int, np.integer)) or retries < 0:
        raise NewtonsimError(f"retries: expected a whole number of at least 0, got {retries!r}")

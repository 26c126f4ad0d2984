"""Recordings of all simulations in a program, without changing the program."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import RecordingError
from newtonsim.render.recordings.recorder import Recorder
from newtonsim.simulator import watch_simulators

if TYPE_CHECKING:
    from newtonsim.simulator import Simulator

FRAMES_PER_SECOND = 60.0


@contextmanager
def record_simulators(
    folder: str | os.PathLike, name: str = "simulation", fps: float = FRAMES_PER_SECOND
) -> Iterator[list[pathlib.Path]]:
    """Record every Simulator that steps within the context, each into its own files.

    A Simulator whose time goes back, as after `Simulator.reset`, starts another file.

    Args:
        folder: Where the files NAME-1.nsr, NAME-2.nsr, ... go, in the order of their first steps; it is
            created.
        name: First part of the names of the files.
        fps: Frames per simulated second; no more than one for each step.

    Yields:
        The files so far.

    Raises:
        RecordingError: The rate is not positive.
        OSError: The folder cannot be written to.

    Example:
        >>> import tempfile
        >>> import newtonsim
        >>> from newtonsim.render import Recording, record_simulators
        >>> builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        >>> _ = builder.add_shape_sphere(builder.add_body(origin=(0, 0, 5, 0, 0, 0, 1)), radius=0.1)
        >>> model = builder.finalize("cpu")
        >>> with record_simulators(tempfile.mkdtemp(), "fall") as paths:
        ...     newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1 / 240).step(240)
        >>> [path.name for path in paths], len(Recording.open(paths[0], "cpu"))
        (['fall-1.nsr'], 61)
    """
    if not (fps > 0.0 and np.isfinite(fps)):
        raise RecordingError(f"fps: expected a positive number, got {fps}")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[pathlib.Path] = []
    # keyed by the objects themselves: ids of objects that are gone come again
    runs: dict[Simulator, _Run] = {}

    def watch(simulator: Simulator) -> None:
        run = runs.get(simulator)
        if run is None or simulator.time < run.latest:
            if run is not None:
                run.recorder.close()
            paths.append(folder / f"{name}-{len(paths) + 1}.nsr")
            run = runs[simulator] = _Run(stack.enter_context(Recorder(paths[-1], simulator.model)), fps)
        run.look(simulator)

    with ExitStack() as stack, watch_simulators(watch):
        yield paths


class _Run:
    """A simulation from its start to the end or to a reset."""

    def __init__(self, recorder: Recorder, fps: float):
        self.recorder, self.latest = recorder, -np.inf
        self._fps, self._start = fps, 0.0

    def look(self, simulator: Simulator) -> None:
        """Record the state if it is due."""
        if self.latest < 0.0:
            self._start = simulator.time
        elif (simulator.time - self._start) * self._fps < self.recorder.frames - 1e-6:
            self.latest = simulator.time
            return
        elif simulator.time == self.latest:
            return
        self.latest = simulator.time
        self.recorder.record(simulator.state, simulator.time)

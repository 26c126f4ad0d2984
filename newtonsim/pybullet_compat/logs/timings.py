"""Timings as a trace that chrome://tracing and Perfetto show."""

from __future__ import annotations

import json
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine


class TimingLogger:
    """Spans of steps and of submitProfileTiming, as begin and end events in the Trace Event Format.

    Args:
        path: Start of the file name; "_0.json" is added to it.
    """

    of_world = False

    def __init__(self, path: str):
        self._path = f"{path}_0.json"
        self._start = time.perf_counter_ns()
        self._events: list[dict] = []
        self._open: list[str] = []

    def begin(self, name: str) -> None:
        """Open a span."""
        self._open.append(name)
        self._add("B", name)

    def end(self) -> None:
        """Close the span that was opened last, if there is one."""
        if self._open:
            self._add("E", self._open.pop())

    def before_step(self, engine: Engine) -> None:
        """Open the span of a step."""
        self.begin("stepSimulation")

    def after_step(self, engine: Engine) -> None:
        """Close it."""
        self.end()

    def close(self) -> None:
        """Write the file; spans that are open end now."""
        while self._open:
            self.end()
        try:
            with open(self._path, "w") as file:
                json.dump({"traceEvents": self._events, "displayTimeUnit": "ns"}, file, indent=0)
        except OSError as failure:
            warnings.warn(f"no timings are written: {failure}", stacklevel=4)

    def _add(self, phase: str, name: str) -> None:
        microseconds = (time.perf_counter_ns() - self._start) / 1000.0
        common = {"cat": "timing", "pid": 1, "tid": 0, "args": {}}
        self._events.append({**common, "ts": microseconds, "ph": phase, "name": name})

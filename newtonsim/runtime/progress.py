"""Says on stderr what is under way, so that nobody looks at a screen that stands still."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType

import warp as wp

QUIET_FOR = 0.5
"""How long [s] nothing is said."""
_TICK = 0.5
_LOG_EVERY = 3.0
_WIDTH = 79

_asked_for = False


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Show progress also where Warp is told to be quiet, as the command line does."""
    global _asked_for
    before, _asked_for = _asked_for, True
    try:
        yield
    finally:
        _asked_for = before


class ProgressLine(ABC):
    """Progress of something: one line that is written over on a terminal, plain lines elsewhere.

    Nothing is said in the first half second, nor if `wp.config.log_level` is above that of warnings (unless
    within `shown`). What the line tells is up to `_now` and `_end`, which are called with the lock held.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._start = time.perf_counter()
        self._last_line = -_LOG_EVERY
        self._said = False
        self._silent = wp.config.log_level > wp.LOG_WARNING and not _asked_for
        # Warp writes lines of its own about every module, which a line that is written over would swallow
        self._rewrites = sys.stderr.isatty() and wp.config.log_level > wp.LOG_INFO
        self._thread = threading.Thread(target=self._tick, name="newtonsim-progress", daemon=True)

    def __enter__(self):
        if not self._silent:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._silent:
            return
        self._stop.set()
        self._thread.join()
        if not self._said:
            return
        if self._rewrites:
            _write("\r" + " " * _WIDTH + "\r")
        if error is None:
            with self._lock:
                _write(self._end() + "\n")

    @abstractmethod
    def _now(self) -> str:
        """Return what is under way."""

    @abstractmethod
    def _end(self) -> str:
        """Return what was done."""

    def _tick(self) -> None:
        """Write now and then until it is over."""
        while not self._stop.wait(_TICK if self._said else QUIET_FOR):
            with self._lock:
                self._said = True
                self._write_line()

    def _write_line(self) -> None:
        text = self._now()
        if self._rewrites:
            text = text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
            _write("\r" + text.ljust(_WIDTH))
        elif self._seconds() - self._last_line >= _LOG_EVERY:
            self._last_line = self._seconds()
            _write(text + "\n")

    def _seconds(self) -> float:
        return time.perf_counter() - self._start


class Progress(ProgressLine):
    """Progress of a compilation. Methods may be called by several threads.

    Args:
        device: What is compiled for.
        names: What will be compiled.
    """

    def __init__(self, device: str, names: Sequence[str]):
        super().__init__()
        self._device, self._count = device, len(names)
        self._running: list[str] = []
        self._done = 0

    def begin(self, name: str) -> None:
        """Tell that a module is being compiled."""
        with self._lock:
            self._running.append(name)

    def end(self, name: str) -> None:
        """Tell that a module is ready."""
        with self._lock:
            self._running.remove(name)
            self._done += 1

    def _now(self) -> str:
        text = f"compiling {self._what()}: {self._done} done, {self._seconds():.0f} s, now "
        return text + ", ".join(self._running)

    def _end(self) -> str:
        return f"compiled {self._what()} in {self._seconds():.1f} s"

    def _what(self) -> str:
        plural = "s" if self._count > 1 else ""
        return f"{self._count} kernel module{plural} for {self._device}"


class SweepProgress(ProgressLine):
    """Progress of a sweep.

    Args:
        count: Number of candidates.
        before: How many of them an earlier run has evaluated.
    """

    def __init__(self, count: int, before: int):
        super().__init__()
        self._count, self._before, self._done = count, before, before

    def add(self, count: int) -> None:
        """Tell that further candidates were evaluated."""
        with self._lock:
            self._done += count

    def _now(self) -> str:
        seconds, new = self._seconds(), self._done - self._before
        text = f"sweeping: {self._done} of {self._count} candidates, {seconds:.0f} s"
        return text + (f", {seconds / new * (self._count - self._done):.0f} s left" if new else "")

    def _end(self) -> str:
        earlier = f" ({self._before} of them in an earlier run)" if self._before else ""
        return f"swept {self._count} candidates{earlier} in {self._seconds():.1f} s"


class OptimizationProgress(ProgressLine):
    """Progress of an optimisation.

    Args:
        name: Name of the optimiser.
        count: Most iterations.
    """

    def __init__(self, name: str, count: int):
        super().__init__()
        self._name, self._count, self._done = name, count, 0
        self._cost: float | None = None

    def tell(self, done: int, cost: float) -> None:
        """Tell how many iterations are done, and the lowest cost so far."""
        with self._lock:
            self._done, self._cost = done, cost

    def _now(self) -> str:
        cost = "" if self._cost is None else f", cost {self._cost:.6g}"
        return f"{self._name}: {self._done} of {self._count} iterations{cost}, {self._seconds():.0f} s"

    def _end(self) -> str:
        cost = "" if self._cost is None else f"cost {self._cost:.6g} "
        return f"{self._name}: {cost}after {self._done} iterations, {self._seconds():.1f} s"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()

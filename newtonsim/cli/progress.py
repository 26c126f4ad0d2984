"""A progress line for commands that take long."""

from __future__ import annotations

import math
import sys
import textwrap
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from newtonsim.envs import Metric
    from newtonsim.learn import Episodes

_WIDTH = 100  # characters in a line of text
_PRINT_EVERY = (0.5, 10.0)  # [s] on a terminal, elsewhere


class ProgressLine:
    """The latest progress, on a line of stderr that a terminal overwrites."""

    def __init__(self) -> None:
        self._last, self._line, self._printed = -math.inf, "", ""
        self._terminal = sys.stderr.isatty()

    @property
    def due(self) -> bool:
        """Whether it is time to print."""
        return time.perf_counter() - self._last > _PRINT_EVERY[not self._terminal]

    def show(self, line: str) -> None:
        """Set the line, and print it if it is time."""
        self._line = line
        if self.due:
            self._print()

    def end(self) -> None:
        """Print the last line, unless it has been printed."""
        if self._line:
            if self._line != self._printed:
                self._print()
            if self._terminal:
                sys.stderr.write("\n")

    def _print(self) -> None:
        self._last, self._printed = time.perf_counter(), self._line
        text = f"\r\x1b[K{self._line}" if self._terminal else f"{self._line}\n"
        sys.stderr.write(text)
        sys.stderr.flush()


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def advise(metrics: Mapping[str, Metric]) -> None:
    """Print what metrics advise, on lines that fit a terminal."""
    for name, metric in metrics.items():
        advice = metric.advise(name)
        if advice:
            print(textwrap.fill(f"note: {advice}", _WIDTH, subsequent_indent="  ", break_long_words=False))


class EpisodesProgress:
    """The progress of a policy that is evaluated over a number of episodes."""

    def __init__(self, name: str, count: int):
        self._name, self._count, self._steps = name, count, 0
        self._start = time.perf_counter()
        self._found: Callable[[], Episodes] | None = None
        self._line = ProgressLine()

    def show(self, found: Callable[[], Episodes]) -> None:
        """Show the progress after a step, given what returns the episodes that are complete."""
        self._steps, self._found = self._steps + 1, found
        if self._line.due:
            self._line.show(self._text(found()))

    def end(self) -> None:
        """Print how far it came."""
        if self._found is not None:
            self._line.show(self._text(self._found()))
        self._line.end()

    def _text(self, found: Episodes) -> str:
        seconds = time.perf_counter() - self._start
        done = len(found.returns)
        mean = f", return {found.returns.mean():.1f}, length {found.lengths.mean():.0f}" if done else ""
        return (
            f"{self._name}: {done:,} of {self._count:,} episodes{mean}, "
            f"{self._steps:,} steps at {self._steps / seconds:,.0f}/s, {clock(seconds)}"
        )

    def summary(self) -> str:
        """Describe what has been played, for a run that ends early."""
        steps = f"{self._steps:,} steps"
        found = None if self._found is None else self._found()
        if found is None or not len(found.returns):
            return f"{steps}, no whole episode"
        return f"{steps}; {found}; short episodes are overrepresented"


class TransferProgress:
    """The progress of a policy that is played here and in another engine, from several seeds."""

    def __init__(self, name: str, count: int):
        self._name, self._count = name, count
        self._playing: tuple[str, int] | None = None
        self._episodes: EpisodesProgress | None = None

    def show(self, place: str, seed: int, found: Callable[[], Episodes]) -> None:
        """Show the progress after a step: "here" or the engine, the seed, and what returns its episodes."""
        if self._episodes is None or self._playing != (place, seed):
            self.end()
            self._playing = place, seed
            self._episodes = EpisodesProgress(f"{self._name}, seed {seed}, {place}", self._count)
        self._episodes.show(found)

    def end(self) -> None:
        """Print how far it came."""
        if self._episodes is not None:
            self._episodes.end()
        self._episodes = None

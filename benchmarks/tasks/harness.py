"""What all benchmarks share: interleaved timing, tables, the machine, the command line."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

DT = 1.0 / 240.0
"""Time step of all tables [s]."""

PACKAGES = ("newtonsim", "warp-lang", "numpy", "mujoco", "mujoco-warp", "newton", "pybullet", "gymnasium")


@dataclass(frozen=True)
class Sample:
    """Times of one contestant.

    Attributes:
        seconds: Time of one unit of work in each block [s].
        units: Units of work in a block.
    """

    seconds: list[float]
    units: int

    @property
    def median(self) -> float:
        """Median over the blocks [s]."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles over the median."""
        if len(self.seconds) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return 0.5 * (high - low) / self.median


@dataclass(frozen=True)
class Timing:
    """How contestants are timed.

    Attributes:
        blocks: Blocks of each contestant.
        seconds: Wall-clock time of a block [s]; each contestant gets as many units of work as fit.
        clock: What tells the time: `time.perf_counter`, or `time.process_time` for contestants with one
            thread on a machine that others load as well.
    """

    blocks: int
    seconds: float
    clock: Callable[[], float] = time.perf_counter


def timing(options: argparse.Namespace, seconds: float, short: tuple[int, float] = (3, 0.05)) -> Timing:
    """Return what the command line says about timing.

    Args:
        options: What the parser of `arguments` read.
        seconds: Time of a block [s].
        short: Number of blocks and time of one [s] in the short form.
    """
    clock = time.process_time if options.cpu_time else time.perf_counter
    return Timing(*(short if options.short else (options.blocks, seconds)), clock)


def interleave(
    contestants: Mapping[Name, Callable[[int], None]], how: Timing, longest: int = 10**9
) -> dict[Name, Sample]:
    """Time contestants in turn, so that a machine that slows down slows all of them.

    Args:
        contestants: Functions that do a number of units of work.
        how: Blocks and clock.
        longest: Most units in a block.
    """
    counts = {name: min(longest, block_size(work, how.seconds)) for name, work in contestants.items()}
    times: dict[Name, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for block in range(how.blocks if names else 0):
        shift = block % len(names)
        for name in names[shift:] + names[:shift]:
            times[name].append(seconds_per_unit(contestants[name], counts[name], how.clock))
    return {name: Sample(times[name], counts[name]) for name in names}


def block_size(work: Callable[[int], None], block_seconds: float) -> int:
    """Return how many units of work fit into a block, found with growing trials."""
    count = 1
    while True:
        each = seconds_per_unit(work, count)
        if each * count >= 0.1 * block_seconds:
            return max(1, round(block_seconds / each))
        count = max(2 * count, round(0.2 * block_seconds / max(each, 1.0e-7)))


def seconds_per_unit(
    work: Callable[[int], None], count: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Do a number of units of work, and return the time of one [s]."""
    start = clock()
    work(count)
    return (clock() - start) / count


def missing(module: str) -> str | None:
    """Return a line that says how to get a module that is not installed, None if it is."""
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{module} is not installed: pip install 'newtonsim[bench]'"


def installed(modules: Mapping[str, str], notes: list[str]) -> list[str]:
    """Return the contestants whose module is installed, and note how to get those of the others.

    Args:
        modules: Module that each contestant needs.
        notes: Extended.
    """
    notes += [line for module in modules.values() if (line := missing(module))]
    return [name for name, module in modules.items() if not missing(module)]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine(device: str = "cpu") -> dict[str, object]:
    """Describe where and with what the figures were measured."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "date": date.today().isoformat(),
        "cpu": _cpu_name(),
        "cores": cores(),
        "device": device if device == "cpu" else _gpu_name(device),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit(),
    }


def commit() -> str | None:
    """Return the commit that is checked out, shortened, or None outside a clone."""
    command = ["git", "-C", os.path.dirname(__file__), "rev-parse", "--short=10", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _gpu_name(device: str) -> str:
    import warp as wp

    return f"{device} {wp.get_device(device).name}"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under a header, the first column to the left and the others to the right."""
    lines = [list(header)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    text = []
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def arguments(doc: str, *, device: bool = True, blocks: int = 9) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark.

    Args:
        doc: Docstring of the script; its first line describes it.
        device: Whether it can run on a GPU.
        blocks: Default number of blocks.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a quick, coarse form")
    parser.add_argument("--alone", action="store_true", help="newtonsim only, without its peers")
    parser.add_argument("--blocks", type=int, default=blocks, help=f"timed blocks (default: {blocks})")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="time of the processor instead of the clock, one thread only: for a machine that others load",
    )
    parser.add_argument("--json", metavar="OUT", help="write all figures")
    if device:
        parser.add_argument("--device", default="cpu", help="cpu, cuda:0, ... (default: cpu)")
    return parser


def write_json(path: str | None, results: object, device: str = "cpu") -> None:
    """Write results and the machine, if a path is given."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(device), "results": results}, file, indent=1)
            file.write("\n")


def finish(options: argparse.Namespace, results: dict[str, object], notes: list[str]) -> None:
    """Print what there is to note, each line once, and write it with the results.

    Args:
        options: What the parser of `arguments` read.
        results: Lists of figures by name.
        notes: Lines.
    """
    print("\n".join(dict.fromkeys(notes)))
    write_json(options.json, results | {"notes": notes}, getattr(options, "device", "cpu"))

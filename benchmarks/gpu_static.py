"""What a GPU can make of a step, kernel by kernel, told without one: width, registers, memory, least time.

    python benchmarks/gpu_static.py [ant] [--self-collision] [--worlds 8192] [--arch 80 90 100] [--json OUT]
    python benchmarks/gpu_static.py [ant] --arch 90 --execute [solve_rows ...]

Each kernel of a step is compiled for the architecture and assembled (`ptxas` of PyPI's nvidia-cuda-nvcc, in
the extra `bench`), which tells registers, stack, spills and shared memory, and from these how many warps fit
on a multiprocessor. Threads a world are those of a launch on a GPU, over all worlds. The share of the work is
that of the CPU's time, of few worlds, one kernel after the other, as `profile_step` takes it; so are the
bytes, an estimate from above: each array of a kernel's arguments counts once with all its entries.

`bound` is the least time that a launch could take on the card (see `gpu.cards`): memory at its peak, all
lanes of all warps busy, no instruction waiting for anything but its operands. How much slower a step really
is, only a card tells.

With `--execute`, a machine on the CPU runs the compiled kernels themselves, compares their results with the
CPU's, and tells instructions and least cycles of warps, function by function (`gpu.instructions`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import warp as wp
from gpu import instructions
from gpu.cards import CARDS, least_time, occupancy
from gpu.launches import lanes_of, step_launches
from gpu.ptxas import NoAssembler, Resources, resources
from profile_step import bytes_of, prepare
from tasks.harness import arguments, finish, table
from tasks.robots import ROBOTS

from newtonsim import Simulator
from newtonsim.solvers.featherstone.options import GPU_SWEEPS

NARROW = 8
"""Threads a world below which work counts as narrow."""

PROFILED = 256
"""Worlds whose work is measured on the CPU: they fit into its caches, as few worlds of a warp do."""


EXECUTED = 64
"""Worlds whose kernels are executed: enough for some in which the constraint solve takes long."""


@dataclass
class Work:
    """One launch of a step.

    Attributes:
        kernel: The kernel.
        seconds: Its time on the CPU for each world [s].
        threads: Threads on a GPU for each world.
        moved: Memory that it reads or writes for each world, at most [B].
    """

    kernel: Any
    seconds: float
    threads: float
    moved: float


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=50)
    parser.add_argument("what", nargs="?", choices=ROBOTS, default="ant", help="robot (default: ant)")
    parser.add_argument("--self-collision", action="store_true", help="links collide with each other, too")
    parser.add_argument("--worlds", type=int, default=8192, help="copies on the card (default: 8192)")
    parser.add_argument("--arch", type=int, nargs="*", choices=CARDS, default=list(CARDS))
    parser.add_argument("--execute", nargs="*", metavar="KERNEL", help="run these kernels, or all of a step")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    if options.execute is not None:
        execute(options)
        return
    worlds = 16 if options.short else PROFILED
    works = measure(options.what, worlds, 5 if options.short else options.blocks, options.self_collision)
    archs = options.arch[:1] if options.short else options.arch
    share = narrow_share(works)
    figures: list[dict[str, Any]] = []
    notes = [f"{len(works)} launches; {share:.0%} of the work on < {NARROW} threads a world"]
    for arch in archs:
        try:
            found = report(works, arch, options.worlds)
        except NoAssembler as error:
            notes.append(str(error))
            continue
        show(found, options, arch)
        bound = sum(row["bound_microseconds"] for row in found)
        whole = bound * options.worlds
        notes.append(f"sm_{arch}: a step takes at least {bound:.4f} us a world, {whole:.0f} us in all")
        figures += found
    cpu = 1.0e6 * sum(work.seconds for work in works)
    step = {
        "robot": options.what,
        "self_collision": options.self_collision,
        "launches": len(works),
        "narrow_share": share,
        "cpu_microseconds": cpu,
    }
    finish(options, {"steps": [step], "figures": figures}, notes)


def execute(options: argparse.Namespace) -> None:
    """Tell what warps do in the kernels of a step, see `gpu.instructions`."""
    worlds = 4 if options.short else EXECUTED
    collide = options.self_collision
    simulator = prepare(options.what, worlds, "cpu", "control", self_collision=collide, iterations=GPU_SWEEPS)
    arch = options.arch[0]
    accounts = instructions.run_step(simulator, arch, options.execute)
    figures = [instructions.summary(account, arch) for account in accounts]
    print(f"{options.what}, {worlds} worlds, sm_{arch} ({CARDS[arch].name})")
    print(table([name.replace("_", " ") for name in figures[0]], [list(row.values()) for row in figures]))
    for account in accounts:
        header, lines = instructions.functions_of(account)
        if len(lines) > 1:
            print(f"\n{account.kernel}\n{table(header, lines)}")
    finish(options, {"robot": options.what, "worlds": worlds, "executed": figures}, [])


def measure(what: str, worlds: int, repetitions: int, self_collision: bool = False) -> list[Work]:
    """Return all launches of a step of a robot under random control."""
    simulator = prepare(what, worlds, "cpu", "control", self_collision=self_collision)
    commands = step_launches(simulator)
    seconds = [float("inf")] * len(commands)
    for _ in range(repetitions):
        for i, command in enumerate(commands):
            start = time.perf_counter()
            command.launch()
            seconds[i] = min(seconds[i], time.perf_counter() - start)
    return [
        Work(c.kernel, s / worlds, threads(c, simulator) / worlds, bytes_of(c.fwd_args) / worlds)
        for c, s in zip(commands, seconds)
    ]


def threads(command: Any, simulator: Simulator) -> int:
    """Return how many threads a launch would have on a GPU."""
    return command.bounds.size * lanes_of(command, simulator.model)


def narrow_share(works: Iterable[Work]) -> float:
    """Return the share of the work that is done by less than `NARROW` threads a world."""
    works = list(works)
    narrow = sum(work.seconds for work in works if work.threads < NARROW)
    return narrow / sum(work.seconds for work in works)


def report(works: Sequence[Work], arch: int, worlds: int) -> list[dict[str, Any]]:
    """Return a row of figures for every kernel, the ones with most work first."""
    compiled = {m: resources(m, arch) for m in {work.kernel.module for work in works}}
    card, total = CARDS[arch], sum(work.seconds for work in works)
    rows = []
    for kernel in dict.fromkeys(work.kernel for work in works):
        own = [work for work in works if work.kernel is kernel]
        taken: Resources = compiled[kernel.module][kernel.key]
        bound = sum(least_time(card, w.seconds * worlds, w.threads * worlds, w.moved * worlds) for w in own)
        rows.append(
            {
                "kernel": kernel.key,
                "arch": arch,
                "launches": len(own),
                "threads": own[0].threads,
                "registers": taken.registers,
                "stack": taken.stack,
                "spills": taken.spills,
                "shared": taken.shared,
                "occupancy": occupancy(card, taken),
                "bytes": sum(work.moved for work in own),
                "share": sum(work.seconds for work in own) / total,
                "bound_microseconds": 1.0e6 * bound / worlds,
            }
        )
    return sorted(rows, key=lambda row: -row["share"])


def show(rows: Sequence[dict[str, Any]], options: argparse.Namespace, arch: int) -> None:
    """Print the table of an architecture."""
    print(f"\n{options.what}, {options.worlds} worlds, sm_{arch} ({CARDS[arch].name})")
    columns = ("kernel", "launches", "threads", "registers", "stack", "spills", "shared")
    header = (*columns, "occupancy", "bytes/world", "share", "bound us/world")
    lines = [
        (
            *(row[name] for name in columns),
            *(f"{row['occupancy']:.0%}", row["bytes"], f"{row['share']:.1%}"),
            f"{row['bound_microseconds']:.4f}",
        )
        for row in rows
    ]
    print(table(header, lines), flush=True)


if __name__ == "__main__":
    main()

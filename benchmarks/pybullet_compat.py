"""Scripts for PyBullet under newtonsim.pybullet_compat and under PyBullet itself, calls included.

    python benchmarks/pybullet_compat.py [--cases kuka ant ...] [--worlds 1024] [--short] [--json OUT]
    python benchmarks/pybullet_compat.py --programs 1000 [--short] [--json OUT]

Both modules run the same scripts (`tasks/pybullet_scripts.py`) with the same models: those of pybullet_data
where it is installed. A unit of work is one step of the script's loop with all its calls, or one call.
`ratio` is PyBullet's time over that of newtonsim: above 1 newtonsim is faster. `worlds` compares one script
for many arms in one client (`num_worlds`) with the script for one arm, made once for each.

With --programs nothing is timed: random programs of 50 calls, those of `tests/pybullet/random_programs.py`,
run under both modules in lockstep, and those whose answers differ are counted.

PyBullet runs as it comes, with at most 50 sweeps of its solver. The file is not called pybullet.py because it
would be found instead of the module of that name.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from types import ModuleType

import warp as wp
from tasks import pybullet_programs
from tasks.harness import DT, Timing, arguments, finish, installed, interleave, missing, table, timing
from tasks.pybullet_scripts import SCENES, Work, kuka

DIRECT = 2
SHORT = (3, 0.02)  # blocks, and the time of one [s]
OURS, PEER = "newtonsim.pybullet_compat", "pybullet"


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=15)
    parser.add_argument("--cases", nargs="+", choices=[*SCENES, "worlds"], default=[*SCENES, "worlds"])
    parser.add_argument("--worlds", type=int, default=1024, help="copies of the arm (default: 1024)")
    parser.add_argument("--programs", type=int, metavar="N", help="compare so many random programs instead")
    options = parser.parse_args()
    if options.programs:
        results = pybullet_programs.compare(8 if options.short else options.programs)
        print(table(list(results["programs"][0]), [list(row.values()) for row in results["programs"]]))
        finish(options, results, [])
        return
    wp.config.log_level = wp.LOG_ERROR
    notes: list[str] = []
    names = [OURS] if options.alone else [OURS, *installed({PEER: PEER}, notes)]
    modules = {name: importlib.import_module(name) for name in names}
    figures, worlds = [], []
    for case in options.cases:
        if case == "worlds":
            worlds.append(measure_worlds(options))
        else:
            figures += measure(case, modules, options, notes)
    if figures:
        print(table(list(figures[0]), [list(figure.values()) for figure in figures]) + "\n")
    if worlds:
        print(table(list(worlds[0]), [list(figure.values()) for figure in worlds]) + "\n")
    finish(options, {"figures": figures, "worlds": worlds}, notes)


def model_folder() -> str:
    """Return the folder of the models: that of pybullet_data if it is installed, or else ours."""
    if missing("pybullet_data"):
        return str(Path(importlib.import_module(OURS).__file__).parent / "data")
    return importlib.import_module("pybullet_data").getDataPath()


def measure(
    case: str, modules: dict[str, ModuleType], options: argparse.Namespace, notes: list[str]
) -> list[dict[str, object]]:
    """Return the figures of each module for a scene."""
    build, settling = SCENES[case]
    if options.short:
        settling = min(settling, 0.5)
    work: dict[str, Work] = {}
    for name, module in modules.items():
        module.connect(module.DIRECT)
        module.setAdditionalSearchPath(model_folder())
        module.setGravity(0.0, 0.0, -9.81)
        try:
            work[name] = build(module)
        except module.error as problem:
            notes.append(f"{case}, {name}: {problem}")
        else:
            work[name](round(settling / DT) + 1)
    samples = interleave(work, timing(options, 0.1, SHORT))
    for module in modules.values():
        module.disconnect()
    base = samples.get(OURS)
    return [
        {
            "case": case,
            "module": name,
            "microseconds": 1.0e6 * sample.median,
            "least_microseconds": 1.0e6 * min(sample.seconds),
            "spread": sample.spread,
            "ratio": sample.median / base.median if base is not None and name != OURS else None,
        }
        for name, sample in samples.items()
    ]


def measure_worlds(options: argparse.Namespace) -> dict[str, object]:
    """Return the times of a step of the arm's script with one world and with many."""
    from newtonsim.pybullet_compat.bullet_client import BulletClient

    count = min(options.worlds, 16) if options.short else options.worlds
    clients, work = [], {}
    for worlds in (1, count):
        client = BulletClient(DIRECT, num_worlds=worlds, device="cpu")
        client.setAdditionalSearchPath(model_folder())
        client.setGravity(0.0, 0.0, -9.81)
        clients.append(client)
        work[str(worlds)] = kuka(client)
        work[str(worlds)](20)
    how = Timing(*(SHORT if options.short else (options.blocks, 0.3)))
    one, many = (sample.median for sample in interleave(work, how).values())
    for client in clients:
        client.disconnect()
    return {
        "worlds": count,
        "one_world_microseconds": 1.0e6 * one,
        "all_worlds_microseconds": 1.0e6 * many,
        "times_faster": one * count / many,
    }


if __name__ == "__main__":
    main()

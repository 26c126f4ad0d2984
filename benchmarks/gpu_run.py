"""What is worth knowing of a card, most important first, within a time: one command for when there is one.

    python benchmarks/gpu_run.py [--minutes 8] [--device cuda:0 ...] [--folder OUT] [--only robots ...]
    python benchmarks/gpu_run.py --device cpu --short
    python benchmarks/publish.py --only gpu                # figures into results/README.md

Each part is a benchmark of this folder, or a set of tests, in a process of its own: what fails or takes too
long takes nothing else with it. A part has a limit, which grows with --minutes, for machines that are slow or
busy; none runs longer than what is left of the time.
What a part has measured is written to a file of its own in the folder (`results/gpu`) as soon as it is there,
and `parts.json` says after each of them how all have ended. --short does the same with few worlds, so that it
is known beforehand that everything runs, on a CPU, too; figures of a CPU go to a temporary folder.

On a fresh machine most of the time goes to compiling. A wheel with machine code for the card, which
`tools/build_kernels_wheel.py dist --cuda-arch 90` builds anywhere, leaves it to what is measured.

With several devices the parts of the kind `cards` share their worlds out, a process for each card at the same
time; a file ends with the number of its card, and the rates add up. All other parts run on the first device.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.harness import table, write_json

HERE = Path(__file__).parent
FEW = ("--worlds", "2", "--alone")
"""Arguments of the short form of most parts."""

MINUTES = 8.0
"""Time for all parts on a card."""

PEERS = ("mujoco_warp", "newton")
"""Engines that run on a GPU."""


@dataclass(frozen=True)
class Part:
    """Something to run.

    Attributes:
        name: Of its file.
        kind: What --only calls it.
        command: Script and its arguments.
        short: Arguments that follow in the short form.
        limit: Most seconds that it may take of `MINUTES`.
        writes: Whether it writes figures.
        worlds: Worlds that are shared out over all devices; 0 if it runs on the first one alone.
    """

    name: str
    kind: str
    command: Sequence[str]
    short: Sequence[str] = ()
    limit: float = 120.0
    writes: bool = True
    worlds: int = 0


def parts() -> list[Part]:
    """Return all parts, the most important ones first."""
    tests = ("tests/kernels/test_teams.py", "tests/kernels/test_trees_motion.py")
    tests += ("tests/physics/test_worlds.py", "tests/physics/test_constraints_contacts.py")
    found = [Part("tests", "tests", ("-m", "pytest", "-q", *tests), limit=150.0, writes=False)]
    found += [
        robots("ant", 8192),
        robots("humanoid", 8192, "--self-collision"),
        profile("ant", 8192),
        robots("ant", 32768),
        Part(
            "gradient_cost",
            "gradients",
            ("gradient_cost.py", "ant", "--worlds", "4096", "--steps", "32"),
            ("--worlds", "2"),
        ),
        robots("quadruped", 8192),
        robots("humanoid29", 8192, "--self-collision"),
        Part("envs_arm", "envs", ("envs.py", "--names", "ArmPick", "--worlds", "8192"), FEW),
        training("Ant"),
        profile("humanoid", 8192, "--self-collision"),
        robots("humanoid", 32768, "--self-collision"),
        robots("ant", 65536),
        robots("ant", 1024),
        Part("cameras", "cameras", ("cameras.py", "--worlds", "4096", "--size", "64"), FEW),
        Part("memory", "memory", ("building.py", "--blocks", "1"), ("--worlds", "128", "--alone")),
        Part("profile_heap", "profiles", ("profile_step.py", "heap")),
        Part("profile_cloth", "profiles", ("profile_step.py", "cloth")),
        training("Quadruped"),
        Part("cards_ant_65536", "cards", ("robots.py", "--robots", "ant", "--alone"), worlds=65536),
    ]
    return found


def robots(robot: str, worlds: int, *options: str) -> Part:
    """Robots under random control, beside the peers."""
    command = ("robots.py", "--robots", robot, *options, "--peers", *PEERS, "--blocks", "5", "--worlds")
    return Part(f"robots_{robot}_{worlds}", "robots", (*command, str(worlds)), FEW)


def profile(robot: str, worlds: int, *options: str) -> Part:
    """Times of the kernels of a step."""
    command = ("profile_step.py", robot, *options, "--motion", "control", "--worlds", str(worlds))
    return Part(f"profile_{robot}_{worlds}", "profiles", command)


def training(name: str) -> Part:
    """How fast a policy learns; half of the time is left for compiling before and playing after it."""
    command = ("learning.py", "--names", name, "--seeds", "0", "--samples", "20000000", "--seconds", "60")
    return Part(f"training_{name}", "training", command, ("--samples", "2000", "--num-envs", "8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time for all (default: 8)")
    parser.add_argument(
        "--device", nargs="+", default=["cuda:0"], help="cuda:0 ..., or cpu (default: cuda:0)"
    )
    parser.add_argument("--folder", type=Path, help="where figures go (default: results/gpu)")
    parser.add_argument("--only", nargs="+", choices=sorted({part.kind for part in parts()}))
    parser.add_argument("--short", action="store_true", help="few worlds, without peers")
    options = parser.parse_args()
    on_card = options.device[0] != "cpu"
    kept = HERE / "results" / "gpu" if on_card else Path(tempfile.gettempdir()) / "newtonsim_gpu_run"
    options.folder = (options.folder or kept).resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60.0 * options.minutes
    ended: list[dict[str, object]] = []
    for part in parts():
        if options.only and part.kind not in options.only:
            continue
        if part.worlds and len(options.device) == 1:
            continue
        start = time.monotonic()
        how = run(part, options, min(part.limit * options.minutes / MINUTES, end - start))
        ended.append({"part": part.name, "seconds": time.monotonic() - start, "ended": how})
        write_json(str(options.folder / "parts.json"), {"parts": ended}, options.device[0])
        print(f"== {part.name}: {how}", flush=True)
    print(f"\nfigures are in {options.folder}\n")
    print(table(("part", "seconds", "ended"), [tuple(row.values()) for row in ended]))
    sys.exit(any(row["ended"] != "complete" for row in ended))


def run(part: Part, options: argparse.Namespace, seconds: float) -> str:
    """Run a part; return how it ended."""
    if seconds <= 0.0:
        return "no time left"
    end = time.monotonic() + seconds
    processes = [
        subprocess.Popen(line, cwd=HERE.parent, start_new_session=True) for line in commands(part, options)
    ]
    try:
        codes = [process.wait(timeout=max(end - time.monotonic(), 0.0)) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return f"cut off after {seconds:.0f} s"
    return "failed" if any(codes) else "complete"


def commands(part: Part, options: argparse.Namespace) -> list[list[str]]:
    """Return the command lines of a part, one for each device that takes part."""
    if not part.writes:
        chosen = "cpu" if options.device[0] == "cpu" else "cuda"
        return [[sys.executable, *part.command, "-k", chosen]]
    if not part.worlds:
        return [command(part, options, options.device[0], part.name)]
    share = 2 if options.short else -(-part.worlds // len(options.device))
    return [
        [*command(part, options, device, f"{part.name}_{i}"), "--worlds", str(share)]
        for i, device in enumerate(options.device)
    ]


def command(part: Part, options: argparse.Namespace, device: str, name: str) -> list[str]:
    """Return the command line of a benchmark on a device, with the name of its file."""
    script, *arguments = part.command
    line = [sys.executable, str(HERE / script), *arguments]
    line += ["--device", device, "--json", str(options.folder / f"{name}.json")]
    if part.kind == "training":
        line += ["--folder", str(options.folder / "runs")]
    return [*line, "--short", *part.short] if options.short else line


if __name__ == "__main__":
    main()

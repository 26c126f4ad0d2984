"""Random programs under PyBullet and under newtonsim.pybullet_compat in lockstep, and how many differ."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SWEEPS = 1000
SCRIPT = Path(__file__).parents[2] / "tests" / "pybullet" / "random_programs.py"


def compare(count: int) -> dict[str, list[dict[str, Any]]]:
    """Run the programs of the first seeds, and return what became of them.

    Those that differ in a number run again with more sweeps of PyBullet's solver, as PyBullet leaves forces
    unsolved with its own.

    Args:
        count: Number of programs.
    """
    results = outcome(_run(0, count), count)
    unsolved = 0
    for row in results["differing"]:
        again = outcome(_run(row["seed"], 1, SWEEPS), 1)["differing"]
        row[f"with_{SWEEPS}_sweeps"] = "differs" if again else "agrees"
        unsolved += bool(again) and row["kind"] == "number"
    results["programs"][0][f"differ_with_{SWEEPS}_sweeps_too"] = unsolved
    return results


def _run(first: int, count: int, sweeps: int = 0) -> list[str]:
    command = [sys.executable, str(SCRIPT), str(first), str(first + count), f"--sweeps={sweeps}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace", check=True)
    return done.stdout.splitlines()


def outcome(lines: Iterable[str], count: int) -> dict[str, list[dict[str, Any]]]:
    """Return what the lines of `random_programs.py` say, in total and program by program.

    Args:
        lines: Its output.
        count: Number of programs.
    """
    differing, ended = [], []
    for line in lines:
        if found := re.fullmatch(r"(\d+): first (\w+) \|.*\| (.*)", line):
            number = " apart, " in found[3]
            kind = "number" if number else "structure"
            differing.append({"seed": int(found[1]), "call": found[2], "kind": kind, "difference": found[3]})
        elif found := re.fullmatch(r"(\d+): the process ended with .*", line):
            ended.append(int(found[1]))
    total = {
        "programs": count,
        "end_the_process": len(ended),
        "differ_in_structure": _of_kind(differing, "structure"),
        "differ_in_a_number": _of_kind(differing, "number"),
    }
    return {"programs": [total], "differing": differing}


def _of_kind(differing: Sequence[dict[str, object]], kind: str) -> int:
    return sum(entry["kind"] == kind for entry in differing)

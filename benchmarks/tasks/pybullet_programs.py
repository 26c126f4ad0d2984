"""Random programs under PyBullet and under newtonsim.pybullet_compat in lockstep, and how many differ."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tests" / "pybullet" / "random_programs.py"


def compare(count: int) -> dict[str, list[dict[str, object]]]:
    """Run the programs of the first seeds, and return what became of them.

    Args:
        count: Number of programs.
    """
    command = [sys.executable, str(SCRIPT), "0", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace", check=True)
    return outcome(done.stdout.splitlines(), count)


def outcome(lines: Iterable[str], count: int) -> dict[str, list[dict[str, object]]]:
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

"""MuJoCoSolver beside MuJoCo on the file itself, for every MJCF file: how far apart they are, and why."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engines import import_facts, processes

from newtonsim.fidelity import compare_mujoco_solver
from newtonsim.fidelity.comparison import PLACES, WEIGHS
from newtonsim.fidelity.motion import SINGLE

SECONDS = 120.0


@dataclass
class MotionRow:
    """How far MuJoCoSolver is from MuJoCo on a file.

    Attributes:
        package: Package that holds it.
        file: Path inside the package.
        uncompared: Why they were not compared, "" if they were.
        item: What `newtonsim.fidelity.compare_mujoco_solver` finds: error (None if infinite), where, remark.
    """

    package: str
    file: str
    uncompared: str = ""
    item: list = field(default_factory=list)


def sweep(
    packages: Iterable[tuple[str, Path]], done: dict[tuple[str, str], MotionRow], left_out: tuple[str, ...]
) -> Iterator[MotionRow]:
    """Move every MJCF file of some folders, each in a process of its own.

    Args:
        packages: Name and folder of each.
        done: Rows that are not made again.
        left_out: Folders that are not searched.
    """
    for package, folder in packages:
        for kind, path in import_facts.find_models(folder):
            if kind != "mjcf" or any(part in left_out for part in path.parts):
                continue
            file = str(path.relative_to(folder))
            if (package, file) in done:
                yield done[package, file]
                continue
            answer = processes.answer_of(_motion_of, path, seconds=SECONDS)
            if answer is None:
                answer = f"no answer within {SECONDS:g} s, or a crash"
            if isinstance(answer, str):
                yield MotionRow(package, file, answer.replace(f"{folder}/", ""))
            else:
                yield MotionRow(package, file, "", answer)


def _motion_of(path: Path) -> list | str:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MuJoCo warns of motions that diverge
    try:
        item = compare_mujoco_solver(path)
    except Exception as error:  # whatever it is, it belongs into the table
        text = " ".join(str(error).split()).partition("; looked at")[0]  # in folders of this machine
        return f"{type(error).__name__}: {text}"[:300]
    return [float(f"{item.error:.2e}") if math.isfinite(item.error) else None, item.where, item.remark]


def read_rows(path: Path | None) -> dict[tuple[str, str], MotionRow]:
    """Rows of a log, by package and file."""
    if path is None or not path.exists():
        return {}
    rows = [MotionRow(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(row.package, row.file): row for row in rows}


# -- pages ---------------------------------------------------------------------------------------------------


def section(rows: list[MotionRow]) -> list[str]:
    """Section of docs/import_fidelity.md on MuJoCoSolver; nothing without rows."""
    if not rows:
        return []
    moved = [row for row in rows if row.item]
    lines = ["| package | moved | equal | MuJoCo diverges | further apart |", "|---|---|---|---|---|"]
    for package in [*sorted({row.package for row in moved}, key=str.lower), None]:
        chosen = [row for row in moved if package in (row.package, None)]
        lost = [row for row in chosen if row.item[0] is None]
        apart = [row for row in chosen if not _agrees(row) and row.item[0] is not None]
        counts = (len(chosen), len(chosen) - len(lost) - len(apart), len(lost), len(apart))
        lines.append(f"| {package or '**all**'} | {' | '.join(map(str, counts))} |")
    lines += ["", "What is not equal:", "", "| file | distance | where | why |", "|---|---|---|---|"]
    for row in (one for one in moved if not _agrees(one)):
        error, where, _ = row.item
        size = "" if error is None else f"{error:.1e} m"
        lines.append(f"| {row.package}: {row.file} | {size} | {where} | {reason(row)} |")
    left = [f"- {row.package}: {row.file}: {row.uncompared}" for row in rows if _is_left(row)]
    return [
        "",
        "## MuJoCoSolver",
        "",
        TEXT,
        *lines,
        "",
        "What is not moved, though MuJoCo reads it:",
        "",
        *left,
    ]


def _agrees(row: MotionRow) -> bool:
    return row.item[0] is not None and row.item[0] <= PLACES


def _is_left(row: MotionRow) -> bool:
    """Whether a file is not compared although MuJoCo reads it and something in it moves."""
    return bool(row.uncompared) and not any(text in row.uncompared for text in EXPECTED)


def reason(row: MotionRow) -> str:
    """Why the motions of a file differ, as far as figures tell."""
    error, _, remark = row.item
    if error is None:
        return remark
    if WEIGHS in remark:
        return f"{WEIGHS}{remark.split(WEIGHS)[1]}"
    nearby, rounded = (_number(text, remark) for text in ("if it starts", SINGLE))
    if nearby is not None and error <= 3.0 * nearby:
        beside = re.search(r"if it starts (\S+) away", remark)
        return f"chaotic: MuJoCo is {nearby:.1e} m from itself if it starts {beside[1]} beside"
    if rounded is not None and error <= 3.0 * rounded:
        return f"single precision: MuJoCo is {rounded:.1e} m from itself {SINGLE}"
    return f"not explained; {remark}"


def _number(what: str, remark: str) -> float | None:
    found = re.search(rf"([\d.]+e[+-]\d+) m from itself {re.escape(what)}", remark)
    return float(found[1]) if found else None


EXPECTED = ("MuJoCo refuses", "nothing in it moves")
"""Why files are not compared that nobody expects to be."""

TEXT = """`MuJoCoSolver(use_mujoco=True)` beside MuJoCo on the file itself: a second from the reference pose
without contacts, with time step, integrator and all other options of the file, under a tenth of its largest
controls. *Equal* are motions in which the origins and centres of mass of all bodies stay within 1e-5 m. A
motion that diverges in MuJoCo, which warns of it and would start anew, counts by itself, since there is
nothing to agree with.

Written by `python benchmarks/import_fidelity.py --mujoco-solver --folder ... --write`; every figure is in
`benchmarks/results/mujoco_solver_fidelity.json`.
"""

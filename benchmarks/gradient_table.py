"""Errors of the gradients of every solver in every scene, measured by `newtonsim.diff.gradcheck`.

python benchmarks/gradient_table.py                     # all entries
python benchmarks/gradient_table.py --scene box cloth --solver XPBD --details    # some, others as they were
python benchmarks/gradient_table.py --short             # two scenes; nothing is kept or written

Each entry is written to results/gradient_errors.json and docs/gradient_errors.md as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import warp as wp
from tasks.gradient_cases import COLUMNS, GROUPS, Case, group_of, make_case, rollout
from tasks.gradient_scenes import CONTACT, SCENES, SMOOTH, STEPS

from newtonsim import diff
from newtonsim.diff.check_report import CHANCE

OUT = Path(__file__).parents[1] / "docs" / "gradient_errors.md"
KEPT = Path(__file__).parent / "results" / "gradient_errors.json"
"""Entries of earlier runs, so that some can be measured anew."""

SHORT = ("free body", "2-link arm, drives")

HEAD = f"""# Errors of gradients

Gradients of rollouts of {STEPS} steps in float32 compared with central differences of the same rollouts by
`newtonsim.diff.gradcheck`: the relative error |g - d| / |d| of the whole gradient vector (where it was
measured), followed in parentheses by that of its three parts: with respect to the initial state, to inputs
and external forces, and to parameters. Entries are scaled by natural lengths: 1, 10 for forces, and half of
its value for a parameter. The figure of a part is the largest of three: the error of a sample of entries,
the error of the slope along the gradient, and half of the error of the slope along random mixtures of all
entries, which can by chance be twice as large as the error of the vector. The loss is the sum of all final
positions, orientations and velocities with random weights. Tolerance: {SMOOTH:g} without contact,
{CONTACT:g} with contact or limits. Written by
`python benchmarks/gradient_table.py`, which measured every number.
"""


@dataclass
class Entry:
    """What was measured of one scene under one solver.

    Attributes:
        groups: Errors by group.
        whole: Error of the whole gradient vector; None in entries that were kept before it was measured.
        zero: Arrays whose gradient is zero, and so is the difference.
        failure: Why there is no number, "" if there is one.
        seconds: Time that it took.
        report: Table of the check.
    """

    groups: dict[str, GroupError] = field(default_factory=dict)
    whole: GroupError | None = None
    zero: list[str] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0
    report: str = ""


def check(case: Case, samples: int = 8, groups: Sequence[str] = GROUPS) -> diff.GradCheck:
    """Return the comparison of a case's gradients with differences, for some parts of them."""
    case.loss.centre(rollout(case))
    case.solver.reset()
    wrt = [name for name in case.wrt if group_of(name) in groups]
    given = (case.model, case.solver, case.state, case.steps, case.dt, case.loss, wrt, case.control)
    return diff.gradcheck(*given, samples=samples, tolerance=case.tolerance)


@dataclass(frozen=True)
class GroupError:
    """Comparison of one part of the gradient vector, see `newtonsim.diff.GradCheck`.

    Attributes:
        error: Relative error of the sampled entries together; NaN if no difference is reliable.
        along: Largest relative error of the slope along the gradient of an array; NaN if none is reliable.
        mixed: Relative error of the whole vector, estimated from random mixtures of all entries of an array;
            NaN if their differences are not reliable.
        checked: Number of entries whose differences are reliable.
        total: Number of entries that were sampled.
    """

    error: float
    along: float
    mixed: float
    checked: int
    total: int

    @property
    def vector(self) -> float:
        """Error of the vector: by the sample, or else by mixtures; NaN if none is known."""
        return self.mixed if np.isnan(self.error) else self.error

    @property
    def worst(self) -> float:
        """The largest of all errors that are known, of mixtures what is no chance; NaN if none is."""
        return _largest(self.error, self.along, self.mixed / CHANCE)


def _largest(*errors: float) -> float:
    return max((e for e in errors if not np.isnan(e)), default=np.nan)


def compare(report: diff.GradCheck, groups: Sequence[str]) -> GroupError | None:
    """Return the error of the arrays of some groups as one vector; None if the case has none."""
    parts = {name: part for name, part in report.items() if group_of(name) in groups}
    if not parts:
        return None
    found = diff.GradCheck(parts, report.tolerance)
    reliable = sum(int(part.reliable.sum()) for part in parts.values())
    total = sum(len(part.labels) for part in parts.values())
    return GroupError(found.error, found.direction_error, found.mixture_error, reliable, total)


def measure(
    scene: str,
    column: str,
    device: wp.DeviceLike = None,
    samples: int = 8,
    groups: Sequence[str] = GROUPS,
    steps: int = STEPS,
) -> Entry:
    """Check the gradients of one scene under one solver, for some parts of them, over some steps."""
    entry, begin = Entry(), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = make_case(scene, column, device, steps=steps)
            report = check(case, samples, groups)
    except Exception as error:  # what a solver refuses is an entry of the table
        entry.failure = f"{type(error).__name__}: {error}"
    else:
        entry.report = str(report)
        found = {group: compare(report, (group,)) for group in GROUPS}
        entry.groups = {group: error for group, error in found.items() if error is not None}
        entry.whole = compare(report, GROUPS)
        for name, part in report.items():
            if part.verdict in ("no effect", "zero"):
                entry.zero.append(name)
    entry.seconds = time.perf_counter() - begin
    return entry


def tolerance_of(scene: str) -> float:
    """Return the largest accepted relative error of the gradient vector."""
    return CONTACT if SCENES[scene].contact else SMOOTH


def cell(entry: Entry, tolerance: float) -> str:
    """Return what the table shows of an entry; misses in bold."""
    if entry.failure:
        return f"**{entry.failure.split(':')[0]}**"
    shown = [
        _number(entry.groups[group].worst, tolerance) if group in entry.groups else "-" for group in GROUPS
    ]
    groups = " \\| ".join(shown)
    return groups if entry.whole is None else f"{_number(entry.whole.vector, tolerance)} ({groups})"


def _number(error: float, tolerance: float) -> str:
    text = "?" if np.isnan(error) else f"{error:.0e}"
    return text if error <= tolerance else f"**{text}**"


def table(entries: dict[tuple[str, str], Entry]) -> str:
    """Return the table as Markdown."""
    lines = ["| scene | tolerance | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---|" * len(COLUMNS)]
    for scene in SCENES:
        tolerance = tolerance_of(scene)
        cells = []
        for column in COLUMNS:
            if scene in COLUMNS[column].missing:
                cells.append("none")
            else:
                entry = entries.get((scene, column))
                cells.append("not measured" if entry is None else cell(entry, tolerance))
        lines.append(f"| {scene} | {tolerance:.0e} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(entries: dict[tuple[str, str], Entry]) -> str:
    """Return the page: the table, options of the solvers, misses, and what could not be measured."""
    parts = [HEAD, table(entries), "", _NOTES, "## Solvers", ""]
    for name, column in COLUMNS.items():
        parts.append(f"- **{name}**: {column.options}.")
        parts += [f"  - `{array}`: {reason}." for array, reason in column.silent.items()]
        reasons: dict[str, list[str]] = {}
        for scene, reason in column.missing.items():
            reasons.setdefault(reason, []).append(scene)
        parts += [f"  - none in {', '.join(rows)}: {reason}." for reason, rows in reasons.items()]
    parts += ["", "## Parameters", ""]
    parts += [f"- {name}: {', '.join(short(p) for p in scene.parameters)}" for name, scene in SCENES.items()]
    parts += ["", "## Misses", ""]
    misses = [line for key, entry in entries.items() for line in _misses(*key, entry)]
    parts += misses or ["None."]
    parts += ["", "## Entries with a reliable difference", "", _KNOWN, ""]
    parts += [line for key, entry in entries.items() for line in _unknown(*key, entry)] or ["None."]
    return "\n".join(parts) + "\n"


_NOTES = """`?`: no difference was reliable. `none`: no entry, for the reason below. An exception's
name: the solver refuses the gradient.
"""


_KNOWN = """Differences of float32 rollouts are uncertain themselves. Entries are reliable if their difference
is known to a third of the tolerance beside the largest one of their array, and if no contact or limit
switches there; not all are in:
"""


def short(name: str) -> str:
    """Name of an array without its owner."""
    return "`" + name.removeprefix("model.").removeprefix("shape_materials.") + "`"


def _misses(scene: str, column: str, entry: Entry) -> list[str]:
    if entry.failure:
        return [f"- {scene}, {column}: {entry.failure}"]
    tolerance = tolerance_of(scene)
    large = [
        f"{name} {_plain(group.error)} ({_plain(group.along)} along it, {_plain(group.mixed)} mixed)"
        for name, group in entry.groups.items()
        if not group.worst <= tolerance
    ]
    return [f"- {scene}, {column}: {', '.join(large)}"] if large else []


def _plain(error: float) -> str:
    return "unknown" if np.isnan(error) else f"{error:.1e}"


def _unknown(scene: str, column: str, entry: Entry) -> list[str]:
    counts = [
        f"{name}: {group.checked} of {group.total} entries"
        for name, group in entry.groups.items()
        if group.checked < group.total
    ]
    zero = [f"{short(name)} is zero, and so are its differences" for name in entry.zero]
    return [f"- {scene}, {column}: {', '.join(counts + zero)}"] if counts or zero else []


def load() -> dict[tuple[str, str], Entry]:
    """Return the entries that earlier runs kept."""
    entries = {}
    for item in json.loads(KEPT.read_text()) if KEPT.exists() else []:
        errors = {
            name: GroupError(**{"mixed": np.nan} | {k: np.nan if v is None else v for k, v in group.items()})
            for name, group in item["groups"].items()
        }
        whole = errors.pop("whole", None)
        entry = Entry(errors, whole, item["zero"], item["failure"], item["seconds"])
        entries[item["scene"], item["solver"]] = entry
    return entries


def keep(scene: str, column: str, entry: Entry) -> None:
    """Write an entry for later runs, and the page, beside what others have written meanwhile."""
    everything = load() | {(scene, column): entry}
    ordered = {(s, c): everything[s, c] for s in SCENES for c in COLUMNS if (s, c) in everything}
    items = []
    for (row, name), kept in ordered.items():
        errors = kept.groups | ({"whole": kept.whole} if kept.whole else {})
        groups = {
            group: {k: None if v != v else v for k, v in asdict(error).items()}
            for group, error in errors.items()
        }
        values = {"groups": groups, "zero": kept.zero, "failure": kept.failure}
        items.append({"scene": row, "solver": name, **values, "seconds": round(kept.seconds, 1)})
    for path, text in ((KEPT, json.dumps(items, indent=1) + "\n"), (OUT, document(ordered))):
        whole = path.with_suffix(".new")
        whole.write_text(text)
        whole.replace(path)


def main() -> None:
    """Measure, print, keep, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two scenes; nothing is kept or written")
    parser.add_argument("--scene", nargs="*", default=[""], help="only scenes whose name holds one of these")
    parser.add_argument(
        "--solver", nargs="*", default=[""], help="only solvers whose name holds one of these"
    )
    parser.add_argument("--details", action="store_true", help="print errors by array")
    parser.add_argument("--samples", type=int, default=8, help="entries of each array that are checked")
    parser.add_argument("--device", default=None)
    given = parser.parse_args()
    scenes = [s for s in SCENES if any(part in s for part in given.scene)]
    columns = [c for c in COLUMNS if any(part.lower() in c.lower() for part in given.solver)]
    for scene in scenes:
        for column in columns:
            if scene in COLUMNS[column].missing or (given.short and scene not in SHORT):
                continue
            entry = measure(scene, column, given.device, given.samples)
            shown = cell(entry, tolerance_of(scene)).replace("\\|", "|")
            print(f"{scene:20s} {column:24s} {shown:40s} {entry.seconds:5.1f} s", flush=True)
            if given.details:
                print(entry.report or entry.failure, flush=True)
            if not given.short:
                keep(scene, column, entry)


if __name__ == "__main__":
    main()

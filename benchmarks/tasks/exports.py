"""Exports of every robot file: what is written, what the engine of the format reads, and what came of it."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engines import export_facts, import_facts, processes

from newtonsim.examples import asset_path

SECONDS = 60.0
ENGINES = {"mjcf": "MuJoCo", "urdf": "pinocchio", "usd": "parse_usd"}

NAMED = {
    "M(q)": (
        "no distribution of mass has this inertia",
        "differ by direction are averaged",
        "tendons are left out",  # with their armature
    ),
    "limits": ("limits of swing and twist",),
    "refused": ("a spherical joint",),
}
"""Remarks of the writer that tell why an item differs or an engine refuses the file."""


@dataclass
class ExportRow:
    """What came of the exports of one file.

    Attributes:
        package: Package that holds it.
        file: Path inside the package.
        error: Why nothing was written, "" if something was.
        exports: `engines.export_facts.Export` of each format, as dictionaries.
    """

    package: str
    file: str
    error: str = ""
    exports: list[dict] = field(default_factory=list)


def sweep(
    packages: Iterable[tuple[str, Path]], done: dict[tuple[str, str], ExportRow], left_out: tuple[str, ...]
) -> Iterator[ExportRow]:
    """Write every file of some folders, each in a process of its own that may take a minute.

    Args:
        packages: Name and folder of each.
        done: Rows that are not made again.
        left_out: Folders that are not searched.
    """
    _load_engines()
    for package, folder in packages:
        for kind, path in import_facts.find_models(folder):
            file = str(path.relative_to(folder))
            if any(part in left_out for part in path.parts):
                continue
            if (package, file) in done:
                yield done[package, file]
                continue
            answer = processes.answer_of(_exports_of, kind, path, seconds=SECONDS)
            if answer is None:
                answer = f"no answer within {SECONDS:g} s, or a crash"
            if isinstance(answer, str):
                yield ExportRow(package, file, answer.replace(f"{folder}/", ""))
            else:
                yield ExportRow(package, file, "", answer)


def _load_engines() -> None:
    """Load what each process would load again."""
    with tempfile.TemporaryDirectory() as folder:
        export_facts.write_all("urdf", Path(asset_path("gripper.urdf")), Path(folder))


def _exports_of(kind: str, path: Path) -> list[dict] | str:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # parsers print what they think of a file
    with tempfile.TemporaryDirectory() as folder:
        try:
            return [_plain(export, folder) for export in export_facts.write_all(kind, path, Path(folder))]
        except Exception as error:  # whatever it is, it belongs into the table
            text = " ".join(str(error).split()).partition("; looked at")[0]  # in folders of this machine
            return f"{type(error).__name__}: {text}"[:300]


def _plain(export: export_facts.Export, folder: str) -> dict:
    """An export as what JSON holds, without the folder of this machine."""
    row = asdict(export)
    row["items"] = {
        name: [float(f"{error:.2e}") if math.isfinite(error) else None, where.replace("/World/", "")]
        for name, (error, where) in export.items.items()
    }
    for name in ("error", "refused"):
        row[name] = " ".join(row[name].replace(f"{folder}/", "").split())[:200]
    return row


def read_rows(path: Path | None) -> dict[tuple[str, str], ExportRow]:
    """Rows of a log, by package and file."""
    if path is None or not path.exists():
        return {}
    rows = [ExportRow(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(row.package, row.file): row for row in rows}


# -- pages ---------------------------------------------------------------------------------------------------


def section(rows: list[ExportRow]) -> list[str]:
    """Section of docs/import_fidelity.md on exports."""
    read = [row for row in rows if row.exports]
    packages = len({row.package for row in read})
    return [
        *("", "## Exports", "", TEXT.format(files=len(read), packages=packages)),
        *_table(read),
        *_faults(read),
        *("", "What misses, where the writer does not say so by name:", ""),
        *(_misses(read, named=False) or ["nothing."]),
        *("", "What misses, and the warning of the writer names the cause:", ""),
        *(_misses(read, named=True) or ["nothing."]),
        *("", "What is not written:", ""),
        *(_not_written(read) or ["nothing."]),
    ]


def _table(rows: list[ExportRow]) -> list[str]:
    lines = [
        f"| format | files | written | read by its engine | {' | '.join(export_facts.TOLERANCES)} |",
        "|---" * (4 + len(export_facts.TOLERANCES)) + "|",
    ]
    for kind, engine in ENGINES.items():
        exports = [one for row in rows for one in row.exports if one["format"] == kind]
        written = [one for one in exports if not one["error"]]
        compiled = [one for one in written if not one["refused"]]
        cells = [
            f"{kind} ({engine})",
            str(len(exports)),
            str(len(written)),
            f"{len(compiled)} of {len(written)}",
        ]
        for item, tolerance in export_facts.TOLERANCES.items():
            errors = [one["items"][item][0] for one in compiled if item in one["items"]]
            agreeing = sum(error is not None and error <= tolerance for error in errors)
            cells.append(f"{agreeing} of {len(errors)}" if errors else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _faults(rows: list[ExportRow]) -> list[str]:
    """What OpenUSD's validators say of the stages."""
    found = [(row, one["faults"]) for row in rows for one in row.exports if one.get("faults") is not None]
    text = "OpenUSD's validators, those that `usdchecker` runs, find faults in "
    lines = ["", f"{text}{sum(bool(faults) for _, faults in found)} of {len(found)} stages of USD."]
    faulty = [f"- {row.package}: {row.file}: {faults[0]}" for row, faults in found if faults]
    return [*lines, "", *faulty] if faulty else lines


def _misses(rows: list[ExportRow], named: bool) -> list[str]:
    lines = []
    for row in rows:
        for one in row.exports:
            for item, text in _wrong(one):
                reasons = _reasons(one, item)
                if named == bool(reasons):
                    why = f"; {'; '.join(reasons)}" if reasons else ""
                    lines.append(f"- {row.package}: {row.file}, {one['format']}, {item}: {text}{why}")
    return lines


def _not_written(rows: list[ExportRow]) -> list[str]:
    """How many files are not written in a format, by reason."""
    found = Counter((one["format"], one["error"]) for row in rows for one in row.exports if one["error"])
    return [f"- {kind}, {count} files: {text}" for (kind, text), count in found.most_common()]


def _wrong(export: dict) -> Iterator[tuple[str, str]]:
    """What of a written export is not as it should be, and how much."""
    if export["refused"]:
        yield "refused", export["refused"]
    if export["unplaced"]:
        yield "not placed", export["unplaced"]
    for item, (error, where) in export["items"].items():
        if error is None or error > export_facts.TOLERANCES[item]:
            yield item, f"{'missing' if error is None else f'{error:.1e}'} at {where}"


def _reasons(export: dict, item: str) -> list[str]:
    """What the writer says of why an item differs, each with the first of the elements that it says it of."""
    found: dict[str, list[str]] = {}
    for remark in export["remarks"]:
        element, _, message = remark.partition(": ")
        if any(text in remark for text in NAMED.get(item, ())):
            found.setdefault(message, []).append(element)
    return [f"{message} ({_shown(elements)})" for message, elements in found.items()]


def _shown(elements: list[str]) -> str:
    """The first few of some names."""
    more = len(elements) - _SHOWN
    return ", ".join(elements[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


_SHOWN = 2


TEXT = """Each of the {files} files of {packages} packages that newtonsim reads is written as MJCF, as URDF
and as USD, and read again: MJCF is compiled by MuJoCo, URDF read by pinocchio, USD by `parse_usd`. What they
read is compared with the model that was written, joint by joint and body by body, by the names in the
writer's report: the total mass, limits and settings of hinges and slides (damping, dry friction and largest
efforts, and but for URDF rotor inertia, springs and drives), and in three random states M(q) (without rotor
inertia for URDF) and the frames of all bodies.

Written by `python benchmarks/import_fidelity.py --exports --folder ... --write`; a file may take a minute of
the processor.

"""

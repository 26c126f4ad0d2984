"""Tables of the README of the repository: speed and accuracy beside four other engines.

Every figure is read from a file in results/; `publish.py` writes the tables. "not run" marks what an engine
can do and nobody has measured, "-" what it cannot do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

PEERS = ("MuJoCo", "PyBullet", "Newton", "mujoco_warp")
ENGINES = ("newtonsim", *PEERS)
NOT_RUN, CANNOT = "not run", "-"

MOTIONS = {
    "free body": "body in free flight",
    "double pendulum": "double pendulum",
    "7-link arm": "arm of seven links",
    "sphere bounce": "bouncing ball",
    "box sliding": "sliding box",
}
"""Tasks of gradients.json, in the words of the table."""

Row = dict[str, object]


def speed(results: Path) -> list[Row]:
    """Return steps per second of a world, the best of each engine."""
    name = "steps per second"
    rows: list[Row] = []
    robots = _figures(results / "robots.json")
    for robot in dict.fromkeys(r["robot"] for r in robots):
        for motion, words in (("settled", "at rest"), ("random control", "under random control")):
            found = [r for r in robots if (r["robot"], r["motion"]) == (robot, motion)]
            rates = {engine: _fastest(found, engine) for engine in ENGINES}
            worlds, cores = (max(row[key] for row in found) for key in ("worlds", "threads"))
            kind, _, how = robot.partition(" ")
            cpu = f"{cores} core{'s' if cores > 1 else ''} of a CPU"
            rows.append(_row(name, f"{worlds:,} {kind}s {how} {words}, {cpu}", rates))
    for case, words in (("kuka", "a Kuka arm"), ("ant", "an ant"), ("humanoid", "a humanoid")):
        rows.append(_row(name, f"{words}, called from Python", _calls(results, case, "loop_microseconds")))
    rows.append(_row(name, "a pile of boxes", _calls(results, "pile", "step_microseconds")))
    cloth = [r for r in _figures(results / "deformables.json") if r["scene"] == "cloth"]
    finest = min(r["residual"] for r in cloth)
    rates = {r["engine"]: 1.0e6 / r["microseconds"] for r in cloth if r["residual"] == finest}
    rows.append(_row(name, "a cloth, at equal residual", rates))
    return rows + _card(results / "gpu", name)


def accuracy(results: Path) -> list[Row]:
    """Return errors of gradients, unrest of robots that stand, and robot files read as others read them."""
    name = "error"
    gradients = _figures(results / "gradients.json", "gradients")
    rows: list[Row] = []
    for task, words in MOTIONS.items():
        errors = {engine: _gradient(gradients, task, engine) for engine in ENGINES}
        rows.append(_row(name, f"gradient, {words}, relative", errors, cannot=("PyBullet", "mujoco_warp")))
    for case, words in (("kuka", "Kuka arm"), ("a1", "A1"), ("ant", "ant"), ("humanoid", "humanoid")):
        rows.append(_row(name, f"fastest joint at rest, {words} [rad/s]", _unrest(results, case)))
    return rows


def _card(folder: Path, name: str) -> list[Row]:
    """Return rows of robots under random control on a GPU; engines may be from different runs."""
    files = sorted(folder.glob("robots_*.json"))
    found = [row for path in files for row in _figures(path)]
    found = [row for row in found if row["motion"] == "random control"]
    rows = []
    for robot, worlds in sorted({(r["robot"], r["worlds"]) for r in found}):
        same = [r for r in found if (r["robot"], r["worlds"]) == (robot, worlds)]
        rates = {engine: _fastest(same, engine) for engine in ENGINES}
        kind, _, how = robot.partition(" ")
        task = f"{worlds:,} {kind}s {how}".rstrip() + " under random control, one H100"
        rows.append(_row(name, task, rates, cannot=("MuJoCo", "PyBullet")))
    return rows


def _row(name: str, task: str, values: dict[str, float | None], cannot: Iterable[str] = ()) -> Row:
    row: Row = {name: task}
    for engine in ENGINES:
        value = values.get(engine)
        row[engine] = _digits(value) if value is not None else CANNOT if engine in cannot else NOT_RUN
    return row


def _digits(value: float) -> str:
    """Return a number with two digits, or three above ten."""
    if value >= 10.0:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.2g}"


def _fastest(rows: list[Row], engine: str) -> float | None:
    """Return the highest rate of an engine, whose name may go on with its options."""
    names = {row["engine"] for row in rows}
    mine = {n for n in names if n == engine or (engine != "newtonsim" and n.startswith(f"{engine} "))}
    return max((row["steps_per_second"] for row in rows if row["engine"] in mine), default=None)


def _calls(results: Path, case: str, column: str) -> dict[str, float]:
    rows = _figures(results / "python_calls.json")
    return {row["engine"]: 1.0e6 / row[column] for row in rows if row["case"] == case}


def _gradient(rows: list[Row], task: str, engine: str) -> float | None:
    """Return the least error over the solvers of an engine; ours is that of FeatherstoneSolver."""
    if engine == "newtonsim":
        mine = [row for row in rows if row["engine"] == "newtonsim Featherstone"]
    else:
        mine = [row for row in rows if row["engine"].startswith(f"{engine} ")]
    return min((row["error"] for row in mine if row["task"] == task), default=None)


def _unrest(results: Path, case: str) -> dict[str, float]:
    """Return the speed of the fastest joint of a robot that stands [rad/s], by engine."""
    document = json.loads((results / "python_calls.json").read_text(encoding="utf-8"))
    pattern = re.compile(rf"{case}, (\w+): .* fastest joint (\S+) rad/s")
    found = [pattern.match(note) for note in document["results"]["notes"]]
    return {match[1]: float(match[2]) for match in found if match}


def _figures(path: Path, key: str = "figures") -> list[Row]:
    return json.loads(path.read_text(encoding="utf-8"))["results"][key]

"""Environment steps per second over the number of worlds, and time of a step over the number of bodies.

    python benchmarks/scaling.py [--tables worlds bodies] [--device cpu] [--plots FOLDER] [--short]

Worlds: gymnasium's ant and humanoid at 1/240 s, each world in a pose of its own, settled on the ground; with
one thread and with all cores; MuJoCo (Euler) through `mujoco.rollout` with all cores beside it. `per world`
is the time of a step over that with 256 worlds, over the ratio of the numbers: 1 is linear growth.

Bodies: one world with boxes or spheres, scattered on the ground, or in heaps into which they have fallen in
layers; PyBullet and MuJoCo beside it. `n log n` is the time of a step over n log n, relative to the smallest
scene of 100 bodies or more: no more than 1 is growth no worse than that. An engine that needs more than a
second for a step is left out of larger scenes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import warp as wp
from engines.contacts import Engine, MujocoEngine, NewtonsimEngine, PybulletEngine
from engines.robots import MujocoRobots, NewtonsimRobots
from tasks.contacts import describe
from tasks.harness import DT, arguments, cores, finish, installed, interleave, seconds_per_unit, table, timing
from tasks.robots import RobotEngine, Task, load_task, settle, stability

import newtonsim
from newtonsim.examples.scenes.parts import add_box, new_scene

WORLDS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
BODIES = (10, 30, 100, 300, 1000, 2000)
LINEAR_FROM = 256
AGAIN = 0.5  # [s] of simulated time for an engine to find its own rest
PATIENCE = 1.0  # [s] a step


def main() -> None:
    parser = arguments(__doc__, blocks=7)
    parser.add_argument("--tables", nargs="+", choices=("worlds", "bodies"), default=["worlds", "bodies"])
    parser.add_argument("--robots", nargs="+", default=["ant", "humanoid"])
    parser.add_argument("--worlds", nargs="+", type=int)
    parser.add_argument("--bodies", nargs="+", type=int)
    parser.add_argument("--plots", metavar="FOLDER", help="write worlds.png and bodies.png")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    results: dict[str, list[dict[str, object]]] = {}
    notes: list[str] = []
    if "worlds" in options.tables:
        results["worlds"] = worlds_table(options, notes)
    if "bodies" in options.tables:
        results["bodies"] = bodies_table(options, notes)
    finish(options, results, notes)
    if options.plots:
        plot(results, Path(options.plots))


def worlds_table(options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Measure robots with more and more worlds."""
    counts = options.worlds or (WORLDS[:5] if options.short else WORLDS)
    figures = []
    for robot in options.robots:
        settled = settled_task(robot)
        for count in counts:
            figures += worlds_figures(settled, count, options, notes)
        mine = [f for f in figures if f["robot"] == robot]
        header = ("engine", "threads", "worlds", "steps/s", "us/step", "per world")
        rows = [
            (
                f["engine"],
                f["threads"],
                f["worlds"],
                f["steps_per_second"],
                f["microseconds"],
                linearity(f, mine),
            )
            for f in mine
        ]
        print(f"\n{robot}\n{table(header, rows)}", flush=True)
    return figures


def settled_task(robot: str) -> Task:
    """Return a task whose poses have settled, in newtonsim."""
    task = load_task(robot, LINEAR_FROM)
    engine = NewtonsimRobots(task)
    settle(engine)
    return replace(task, poses=engine.simulator.state.joint_q.numpy().reshape(LINEAR_FROM, -1).astype(float))


def worlds_figures(
    settled: Task, count: int, options: argparse.Namespace, notes: list[str]
) -> list[dict[str, object]]:
    """Measure all engines with one number of worlds, which start from settled poses in turn."""
    robot = settled.name
    task = replace(settled, poses=settled.poses[np.arange(count) % settled.worlds])
    threads = [1] if options.cpu_time else sorted({1, cores()})
    makers: list[Callable[[], RobotEngine]] = [lambda n=n: NewtonsimRobots(task, threads=n) for n in threads]
    if options.device != "cpu":
        makers = [lambda: NewtonsimRobots(task, options.device)]
    elif not options.alone:
        if installed({"MuJoCo": "mujoco"}, notes):
            makers.append(lambda: MujocoRobots(task, threads[-1], "EULER"))
    work = {}
    engines = [maker() for maker in makers]
    for engine in engines:
        settle(engine, AGAIN)
        problem = stability(engine, "settled")
        if problem:
            notes.append(f"{robot}, {engine.name}, {count} worlds: {problem}")
        work[engine.name, engine.threads] = lambda n, run=engine.run: run(n, None)
    samples = interleave(work, timing(options, 0.3))
    for engine in engines:
        engine.close()
    return [
        {
            **{"robot": robot, "engine": name, "threads": n, "worlds": count},
            **{"steps_per_second": count / sample.median, "microseconds": 1.0e6 * sample.median},
        }
        for (name, n), sample in samples.items()
    ]


def linearity(figure: dict[str, object], others: list[dict[str, object]]) -> float | None:
    """Return the time of a world over that of a world among LINEAR_FROM."""
    same = [f for f in others if (f["engine"], f["threads"]) == (figure["engine"], figure["threads"])]
    base = [f for f in same if f["worlds"] == LINEAR_FROM]
    if not base or figure["worlds"] < LINEAR_FROM:
        return None
    return base[0]["steps_per_second"] / figure["steps_per_second"]


def bodies_table(options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Measure scenes with more and more bodies."""
    counts = options.bodies or (BODIES[:4] if options.short else BODIES)
    figures = []
    for scene in ("scattered boxes", "heap of boxes", "scattered spheres", "heap of spheres"):
        slow: set[str] = set()
        mine = [f for count in counts for f in bodies_figures(scene, count, slow, options, notes)]
        enough = [f for f in mine if f["bodies"] >= min(100, max(counts))]
        first = {f["engine"]: f for f in reversed(enough)}
        header = ("engine", "bodies", "contacts", "us/step", "us/body", "n log n")
        rows = [
            (
                *(f["engine"], f["bodies"], f["contacts"], f["microseconds"]),
                *(f["microseconds"] / f["bodies"], growth(f, first.get(f["engine"]))),
            )
            for f in sorted(mine, key=lambda f: (f["engine"] != "newtonsim", f["engine"]))
        ]
        print(f"\n{scene}\n{table(header, rows)}", flush=True)
        figures += mine
    return figures


def bodies_figures(
    scene: str, count: int, slow: set[str], options: argparse.Namespace, notes: list[str]
) -> list[dict[str, object]]:
    """Measure all engines that are not too slow with one scene."""
    model = build_bodies(scene, count).finalize(options.device)
    makers: dict[str, Callable[[], Engine]] = {"newtonsim": lambda: NewtonsimEngine(model, DT)}
    if not options.alone and options.device == "cpu":
        description = describe(model)
        peers = {"PyBullet": PybulletEngine, "MuJoCo": MujocoEngine}
        for name in installed({name: name.lower() for name in peers}, notes):
            if name not in slow:
                makers[name] = lambda maker=peers[name]: maker(description, DT)
    engines = {name: maker() for name, maker in makers.items()}
    for name, engine in list(engines.items()):
        if not ready(engine, 1.0 if options.short else 3.0):
            notes.append(f"{scene}, {count} bodies: {name} needs more than {PATIENCE:g} s for a step")
            slow.add(name)
            del engines[name]
    work = {name: engine.step for name, engine in engines.items()}
    samples = interleave(work, timing(options, 0.2), longest=60)
    return [
        {
            **{"scene": scene, "engine": name, "bodies": count, "contacts": engines[name].contacts()},
            "microseconds": 1.0e6 * sample.median,
        }
        for name, sample in samples.items()
    ]


def ready(engine: Engine, seconds: float) -> bool:
    """Let a scene fall and settle; tell whether the engine was quick enough."""
    engine.step(1)
    return all(seconds_per_unit(engine.step, 20) <= PATIENCE for _ in range(round(seconds / DT / 20)))


def growth(figure: dict[str, object], first: dict[str, object] | None) -> float | None:
    """Return the time over n log n, relative to that of the first scene that is large enough."""
    if first is None or figure["bodies"] < first["bodies"]:
        return None

    def n_log_n(f: dict[str, object]) -> float:
        return f["bodies"] * math.log(f["bodies"])

    return (figure["microseconds"] / n_log_n(figure)) / (first["microseconds"] / n_log_n(first))


def build_bodies(scene: str, count: int) -> newtonsim.ModelBuilder:
    """Return boxes or spheres of 0.2 m that start just above the ground, scattered or ten high."""
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    rng = np.random.default_rng(0)
    heap = scene.startswith("heap")
    high = 10 if heap else 1
    wide = math.ceil(math.sqrt(count / high))
    pitch = 0.22 if heap else 0.4
    for i in range(count):
        layer, place = divmod(i, wide * wide)
        row, column = divmod(place, wide)
        jitter = rng.uniform(-0.02, 0.02, 2)
        position = (pitch * column + jitter[0], pitch * row + jitter[1], 0.11 + 0.22 * layer)
        if scene.endswith("boxes"):
            add_box(builder, position, (0.1, 0.1, 0.1), mass=8.0)
        else:
            body = builder.add_body(origin=(*position, 0.0, 0.0, 0.0, 1.0))
            builder.add_shape_sphere(body, radius=0.1, density=1000.0)
    return builder


def plot(results: dict[str, list[dict[str, object]]], folder: Path) -> None:
    """Write worlds.png and bodies.png, as far as there are figures for them."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "worlds": (("robot", "worlds", "steps_per_second"), "environment steps per second"),
        "bodies": (("scene", "bodies", "microseconds"), "time of a step [µs]"),
    }
    for name, (keys, label) in tables.items():
        if name in results:
            _plot(results[name], keys, label, folder / f"{name}.png")


def _plot(figures: list[dict[str, object]], keys: tuple[str, str, str], label: str, path: Path) -> None:
    """Draw one panel for each robot or scene, one line for each engine."""
    from matplotlib.figure import Figure

    panel, x, y = keys
    names = list(dict.fromkeys(figure[panel] for figure in figures))
    picture = Figure(figsize=(4.2 * len(names), 3.6), layout="constrained")
    axes = picture.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for figure in figures:
            if figure[panel] == name:
                lines.setdefault(_label(figure), []).append((figure[x], figure[y]))
        for engine, points in lines.items():
            axis.loglog(*zip(*sorted(points)), marker="o", markersize=3, label=engine)
        axis.set(title=name, xlabel=x)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(label)
    axes[0].legend(fontsize="small")
    picture.savefig(path, dpi=110)


def _label(figure: dict[str, object]) -> str:
    threads = figure.get("threads")
    return str(figure["engine"]) + (f", {threads} thread{'s' * (threads > 1)}" if threads else "")


if __name__ == "__main__":
    main()

"""Environment steps per second of many robots on the ground, settled and under random control, per engine.

    python benchmarks/robots.py [--robots ant humanoid] [--worlds 1024] [--device cpu] [--short] [--json OUT]
    python benchmarks/robots.py --robots humanoid --self-collision --peers mujoco --worlds 128 --cpu-time

Robots are gymnasium's ant and humanoid, a humanoid of 29 hinges that we made up (tasks/humanoid29.xml), or
our quadruped with position drives, on a plane, at 1/240 s. Each world starts in a pose of its own; all
engines start in the same ones. First all settle for eight simulated seconds without control; then blocks of
each engine follow one another in turn. For the second figure each motor gets a random control 60 times a
second. A figure is the median over the blocks. An engine with a world that is not finite, leaves the scene or
moves faster than it can, or with more than a few worlds that do not come to rest, is reported as unstable and
has no figure. `restless` is the share of worlds that move.

The table has a ratio of rates only if both engines do the same work: the same pairs of the same shapes, time
step, evaluations per step, and stop criterion of the constraint solve (tasks/work.py). Otherwise a line below
the table says how the work differs. Solves that end by the engine's own tolerance before their last iteration
count as equal; the tolerances themselves are in different quantities.

MuJoCo runs as the files say, which is RK4 with four evaluations a step, and with one evaluation a step as the
others. There links collide with each other, in newtonsim only with --self-collision. Newton runs with its
fastest solver that is stable here, found by trial, with as many substeps as it needs. All engines on Warp
replay a captured graph. Where an engine can use several cores there is a figure for one and for all. On a GPU
newtonsim, Newton and mujoco_warp run there, and the others are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import warp as wp
from engines.mujoco_models import describe_options, mujoco_model
from engines.robots import MujocoRobots, NewtonsimRobots, PybulletRobots
from engines.robots_on_warp import NEWTON_CHOICES, NEWTON_SHORT, MujocoWarpRobots, NewtonChoice, NewtonRobots
from tasks.harness import (
    arguments,
    cores,
    finish,
    installed,
    interleave,
    missing,
    seconds_per_unit,
    table,
    timing,
)
from tasks.robots import (
    FLAILING,
    HOLD,
    MOTIONS,
    ROBOTS,
    SETTLING,
    RobotEngine,
    Task,
    load_task,
    restless,
    settle,
    stability,
)

TRIAL_WORLDS = 32

PEERS = ("mujoco", "pybullet", "newton", "mujoco_warp")
"""Modules of the other engines."""


def engines(task: Task, options: argparse.Namespace, notes: list[str]) -> list[RobotEngine]:
    """Make all engines that are installed and run on the device."""
    counts = [1] if options.cpu_time else sorted({1, cores()})
    makers = ours(task, options.device, counts)
    if not options.alone:
        makers += peers(task, options, counts, notes)
    made = []
    for maker in makers:
        start = time.perf_counter()
        engine = maker()
        settle(engine)
        made.append(engine)
        print(f"  {label(engine)} ready in {time.perf_counter() - start:.0f} s", flush=True)
    return made


def ours(task: Task, device: str, counts: list[int]) -> list[Callable[[], RobotEngine]]:
    """Return makers of our engine, one for each number of threads."""
    if device != "cpu":
        return [lambda: NewtonsimRobots(task, device)]
    return [lambda n=n: NewtonsimRobots(task, threads=n) for n in counts]


def peers(
    task: Task, options: argparse.Namespace, counts: list[int], notes: list[str]
) -> list[Callable[[], RobotEngine]]:
    """Return makers of the peers that are asked for and installed, and note those that are not installed."""
    device, wanted = options.device, set(installed({name: name for name in options.peers}, notes))
    makers: list[Callable[[], RobotEngine]] = []
    if device == "cpu" and "mujoco" in wanted:
        for choices in mujoco_options(task):
            makers += [lambda n=n, c=choices: MujocoRobots(task, n, *c) for n in counts]
    if "pybullet" in wanted and task.drives:
        notes.append(f"{task.name}: PyBullet does not read the nested defaults of this file")
    elif device == "cpu" and "pybullet" in wanted:
        makers += [lambda n=n: PybulletRobots(task, n) for n in counts]
    if "newton" in wanted:
        for choice in fastest_newton(task, device, options.short, notes):
            makers.append(lambda c=choice: NewtonRobots(task, c, device))
    if "mujoco_warp" in wanted and not missing("mujoco"):
        makers.append(lambda: MujocoWarpRobots(task, device))
    return makers


def mujoco_options(task: Task) -> list[tuple[str | None, str | None]]:
    """Return integrator and solver: as the file says, Euler with its solver, Euler with the default one."""
    variants = {}
    for options in ((None, None), ("EULER", None), ("EULER", "NEWTON")):
        variants.setdefault(describe_options(mujoco_model(task, *options)), options)
    return list(variants.values())


def fastest_newton(task: Task, device: str, short: bool, notes: list[str]) -> list[NewtonChoice]:
    """Return Newton's fastest stable choice at rest, and that under control, in a trial with few worlds."""
    few = task.first(TRIAL_WORLDS)
    times: dict[str, dict[NewtonChoice, float]] = {motion: {} for motion in MOTIONS}
    for choice in NEWTON_CHOICES[:NEWTON_SHORT] if short else NEWTON_CHOICES:
        slowest = max(min(stable.values(), default=np.inf) for stable in times.values())
        for motion, microseconds, problem in try_newton(few, choice, device, 1.5 * slowest):
            if not problem:
                times[motion][choice] = microseconds
            result = f"{microseconds:.1f} us" + (f", {problem}" if problem else "")
            notes.append(f"trial of Newton {choice}, {task.name}, {motion}: {result}")
    best = [min(stable, key=stable.__getitem__) for stable in times.values() if stable]
    return list(dict.fromkeys(best))


def try_newton(
    task: Task, choice: NewtonChoice, device: str, slowest: float
) -> Iterator[tuple[str, float, str]]:
    """Yield motion, time of an environment step [us] and what is wrong with it, if anything."""
    each = np.nan
    try:
        engine = NewtonRobots(task, choice, device)
        for motion in MOTIONS:
            work = block(engine, task, motion)
            each = 1.0e6 * seconds_per_unit(work, 10) / (HOLD * task.worlds)
            if each > slowest:
                yield motion, each, "slower than others that are stable"
                return
            work(round(60.0 * (SETTLING if motion == "settled" else FLAILING)))
            problem = stability(engine, motion)
            yield motion, each, problem
            if problem:
                return
    except (RuntimeError, ValueError) as error:
        yield "start", each, str(error).splitlines()[0]


def flail(engine: RobotEngine, task: Task, seconds: float, seed: int = 1) -> None:
    """Step under random control."""
    frames = round(60.0 * seconds)
    engine.run(frames * HOLD, task.controls(frames, engine.worlds, seed))


def measure(
    task: Task, engines: list[RobotEngine], options: argparse.Namespace, notes: list[str]
) -> Iterator[dict[str, object]]:
    """Yield a figure for each engine and kind of motion."""
    for motion in MOTIONS:
        if motion != "settled":
            for engine in engines:
                flail(engine, task, FLAILING)
        stable = {}
        for engine in engines:
            problem = stability(engine, motion)
            if problem:
                notes.append(f"{label(engine)}, {task.name}, {motion}: unstable, {problem}")
            else:
                stable[label(engine)] = engine
        shares = {name: restless(engine) for name, engine in stable.items()}
        unequal = unequal_work(stable)
        work = {name: block(engine, task, motion) for name, engine in stable.items()}
        samples = interleave(work, timing(options, 0.4, short=(5, 0.1)))
        for name, engine in stable.items():
            yield {
                "robot": task.title,
                "motion": motion,
                "engine": engine.name,
                "threads": engine.threads,
                "worlds": engine.worlds,
                "microseconds": 1.0e6 * samples[name].median / (HOLD * engine.worlds),
                "steps_per_second": HOLD * engine.worlds / samples[name].median,
                "spread": samples[name].spread,
                "restless": shares[name],
                "unequal": "; ".join(unequal[name]),
            }


def unequal_work(engines: dict[str, RobotEngine]) -> dict[str, list[str]]:
    """Return how the work of each engine differs from ours; it does if ours has no figure."""
    works = {name: engine.work() for name, engine in engines.items()}
    ours = next((works[name] for name, engine in engines.items() if engine.name == "newtonsim"), None)
    if ours is None:
        return {name: ["newtonsim has no figure"] for name in works}
    return {name: work.differences(ours) for name, work in works.items()}


def block(engine: RobotEngine, task: Task, motion: str) -> Callable[[int], None]:
    """Return the function that does n times HOLD steps."""
    if motion == "settled":
        return lambda n: engine.run(n * HOLD, None)
    controls = task.controls(64, engine.worlds, seed=2)

    def run(n: int) -> None:
        for first in range(0, n, len(controls)):
            part = controls[: n - first]
            engine.run(len(part) * HOLD, part)

    return run


def label(engine: RobotEngine) -> str:
    """Name an engine with its threads."""
    return (
        f"{engine.name}, {engine.threads} thread{'s' * (engine.threads > 1)}"
        if engine.threads
        else engine.name
    )


def show(figures: list[dict[str, object]]) -> None:
    """Print a table for each robot and kind of motion, with ratios to our figures where the work is equal."""
    for key in dict.fromkeys((figure["robot"], figure["motion"]) for figure in figures):
        rows = [figure for figure in figures if (figure["robot"], figure["motion"]) == key]
        mine = {row["threads"]: row["steps_per_second"] for row in rows if row["engine"] == "newtonsim"}
        best = max(mine.values(), default=np.nan)
        header = (
            "engine",
            "threads",
            "worlds",
            "steps/s",
            "us/step",
            "spread",
            "restless",
            "same threads",
            "all",
        )
        lines = []
        for row in rows:
            rate = row["steps_per_second"]
            same = mine.get(row["threads"], np.nan) / rate
            ratios = ("-", "-") if row["unequal"] else (f"{same:.2f}x", f"{best / rate:.2f}x")
            lines.append(
                (
                    *(row["engine"], row["threads"], row["worlds"], rate, row["microseconds"]),
                    *(
                        f"{row['spread']:.0%}",
                        f"{row['restless']:.1%}",
                        *ratios,
                    ),
                )
            )
        print(f"\n{', '.join(key)}; ratios: newtonsim's rate over that of the engine")
        print(table(header, lines), flush=True)
        for name, unequal in dict.fromkeys((r["engine"], r["unequal"]) for r in rows if r["unequal"]):
            print(f"no ratio to {name}, whose work differs: {unequal}", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=["ant", "humanoid"])
    parser.add_argument("--worlds", nargs="+", type=int)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="other engines")
    parser.add_argument("--self-collision", action="store_true", help="links collide, as in MuJoCo")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    worlds = options.worlds or ([128] if options.short else [1024])
    figures: list[dict[str, object]] = []
    notes: list[str] = []
    for count in worlds:
        for robot in options.robots:
            task = load_task(robot, count, self_collision=options.self_collision)
            print(f"{task.title}, {count} worlds", flush=True)
            contestants = engines(task, options, notes)
            found = list(measure(task, contestants, options, notes))
            for engine in contestants:
                engine.close()
            show(found)
            figures += found
    print()
    finish(options, {"figures": figures}, notes)


if __name__ == "__main__":
    main()

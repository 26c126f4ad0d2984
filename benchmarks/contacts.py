"""Time of a step with many contacts: newtonsim, MuJoCo and PyBullet in turn, on one scene after the other.

    python benchmarks/contacts.py [--scenes pyramid ball_pit gripper] [--blocks 15] [--json OUT]

All engines simulate the same geometry, masses, inertias and friction at 1/240 s with their default settings,
one world on one thread of the CPU. Only in the ball pit MuJoCo uses its conjugate-gradient solver, which is
there some thirty times as fast as its default one.

First all settle; then they step in blocks, one engine after the other, so that a machine that slows down
slows all. A figure is the median over the blocks. `moved` is how far the body that moved most came during the
blocks: it tells whether a pile stands.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from contact_engines import Engine, MujocoEngine, NewtonsimEngine, PybulletEngine, describe

import newtonsim
from newtonsim.examples import scenes

DT = 1.0 / 240.0
SECONDS_PER_BLOCK = 0.2  # of wall-clock time, at the speed of the settled scene
LONGEST_RUN = 10.0  # [s] of simulated time after settling, however fast an engine is


@dataclass(frozen=True)
class Case:
    """A scene to measure.

    Attributes:
        build: Returns the builder.
        settling: Simulated time before the measurement [s].
        script: What to tell the drives over time, or None.
        mujoco_solver: MuJoCo's "Newton", "CG" or "PGS".
    """

    build: Callable[[], newtonsim.ModelBuilder]
    settling: float
    script: scenes.GripperScript | None = None
    mujoco_solver: str = "Newton"


CASES = {
    "pyramid": Case(scenes.box_pyramid, 2.0),
    "wall": Case(scenes.box_wall, 2.0),
    "ball_pit": Case(scenes.ball_pit, 3.0, mujoco_solver="CG"),
    "gripper": Case(scenes.gripper, 3.0, scenes.GripperScript()),
}


def measure(case: Case, blocks: int) -> dict[str, dict[str, float]]:
    """Return the figures of each engine."""
    model = case.build().finalize("cpu")
    scene = describe(model)
    engines: list[Engine] = [
        NewtonsimEngine(model, DT),
        MujocoEngine(scene, DT, case.mujoco_solver),
        PybulletEngine(scene, DT),
    ]
    for engine in engines:
        settle(engine, case)
    longest = max(1, int(LONGEST_RUN / DT / blocks))
    counts = {engine.name: min(block_size(engine), longest) for engine in engines}
    start = {engine.name: engine.positions() for engine in engines}
    times: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for block in range(blocks):
        shift = block % len(engines)
        for engine in engines[shift:] + engines[:shift]:
            times[engine.name].append(seconds_per_step(engine, counts[engine.name]))
    return {
        engine.name: {
            "microseconds": 1.0e6 * statistics.median(times[engine.name]),
            "contacts": engine.contacts(),
            "steps": blocks * counts[engine.name],
            "moved_mm": 1.0e3 * float(np.linalg.norm(engine.positions() - start[engine.name], axis=1).max()),
            "mean_height_m": float(engine.positions()[:, 2].mean()),
        }
        for engine in engines
    }


def settle(engine: Engine, case: Case) -> None:
    steps = round(case.settling / DT)
    if case.script is None:
        engine.step(steps)
        return
    for i in range(steps):
        engine.aim(case.script.targets(i * DT))
        engine.step(1)


def block_size(engine: Engine) -> int:
    """Return how many steps make a block."""
    return max(1, round(SECONDS_PER_BLOCK / seconds_per_step(engine, 10)))


def seconds_per_step(engine: Engine, steps: int) -> float:
    start = time.perf_counter()
    engine.step(steps)
    return (time.perf_counter() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    results = {}
    columns = ("engine", "us/step", "of newtonsim", "contacts", "steps", "moved [mm]", "mean height [m]")
    print("".join(f"{column:>16}" for column in columns))
    for name in arguments.scenes:
        results[name] = measure(CASES[name], arguments.blocks)
        print(name)
        ours = results[name]["newtonsim"]["microseconds"]
        for engine, r in results[name].items():
            line = f"{engine:>16}{r['microseconds']:>16,.1f}{r['microseconds'] / ours:>15.2f}x"
            line += f"{r['contacts']:>16}{r['steps']:>16}{r['moved_mm']:>16.3f}{r['mean_height_m']:>16.4f}"
            print(line, flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"dt": DT, "results": results}, file, indent=2)


if __name__ == "__main__":
    main()

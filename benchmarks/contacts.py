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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from engines.contacts import Engine, MujocoEngine, NewtonsimEngine, PybulletEngine
from tasks.contacts import describe
from tasks.harness import DT, arguments, finish, installed, interleave, table, timing

import newtonsim
from newtonsim.examples import scenes

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


def measure(name: str, case: Case, options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Return the figures of each engine, ours first."""
    model = case.build().finalize(options.device)
    engines: list[Engine] = [NewtonsimEngine(model, DT)]
    if not options.alone and options.device == "cpu":
        scene = describe(model)
        makers = {
            "mujoco": lambda: MujocoEngine(scene, DT, case.mujoco_solver),
            "pybullet": lambda: PybulletEngine(scene, DT),
        }
        engines += [makers[module]() for module in installed({name: name for name in makers}, notes)]
    for engine in engines:
        settle(engine, case)
    start = {engine.name: engine.positions() for engine in engines}
    how = timing(options, 0.2)
    longest = max(1, int(LONGEST_RUN / DT / how.blocks))
    samples = interleave({e.name: e.step for e in engines}, how, longest)
    return [
        {
            "scene": name,
            "engine": engine.name,
            "microseconds": 1.0e6 * samples[engine.name].median,
            "contacts": engine.contacts(),
            "steps": how.blocks * samples[engine.name].units,
            "moved_mm": 1.0e3 * float(np.linalg.norm(engine.positions() - start[engine.name], axis=1).max()),
            "mean_height_m": float(engine.positions()[:, 2].mean()),
        }
        for engine in engines
    ]


def settle(engine: Engine, case: Case) -> None:
    steps = round(case.settling / DT)
    if case.script is None:
        engine.step(steps)
        return
    for i in range(steps):
        engine.aim(case.script.targets(i * DT))
        engine.step(1)


def main() -> None:
    parser = arguments(__doc__, blocks=15)
    parser.add_argument("--scenes", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    figures: list[dict[str, object]] = []
    notes: list[str] = []
    header = (
        "scene",
        "engine",
        "us/step",
        "of newtonsim",
        "contacts",
        "steps",
        "moved [mm]",
        "mean height [m]",
    )
    for name in options.scenes:
        found = measure(name, CASES[name], options, notes)
        figures += found
        rows = [list(figure.values()) for figure in found]
        for row in rows:
            row.insert(3, f"{row[2] / found[0]['microseconds']:.2f}x")
        print(table(header, rows) + "\n", flush=True)
    finish(options, {"figures": figures}, notes)


if __name__ == "__main__":
    main()

"""Time of one step of one world, called from Python: newtonsim, PyBullet and MuJoCo.

    python benchmarks/python_calls.py [--cases kuka panda a1 a1_self ant humanoid pile] [--short] [--json OUT]

Every engine reads the same file: the Kuka arm, the Panda and the A1 of pybullet_data (URDF), the ant and the
humanoid of gymnasium (MJCF); the pile is our pyramid of 100 boxes. All is on the ground at 1/240 s and has
settled before it is measured. `step` is the time of a call that makes one step; `loop` is that of a control
loop that writes the targets or torques of all joints, makes one step and reads the positions of all joints.
Ratios are times over those of newtonsim.

What differs: PyBullet's position drives are velocity constraints with the effort limits of the file, those
of newtonsim and MuJoCo springs and dampers (200 N m/rad, 10 N m s/rad). PyBullet knows no armature, and has
masses scaled to those of the file, whose densities it ignores. MuJoCo steps with implicitfast. No engine lets
parts of the arms, the quadruped and the ant touch each other; those of the humanoid and of `a1_self` do.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import warp as wp
from engines.calls import MAKERS, MODULES, CallEngine, Robot, known_robots
from tasks.harness import DT, arguments, finish, installed, interleave, table, timing

from newtonsim.errors import UnsupportedElementWarning

CASES = ("kuka", "panda", "a1", "a1_self", "ant", "humanoid", "pile")
SETTLING = 5.0  # [s]
SHORT = (5, 0.05)  # blocks, and the time of one [s]
AT_REST = 1.0  # [rad/s or m/s]


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=15)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    warnings.simplefilter("ignore", UnsupportedElementWarning)
    notes: list[str] = []
    names = ["newtonsim"] if options.alone else installed(MODULES, notes)
    robots = known_robots(notes)
    figures = []
    header = (
        "case",
        "engine",
        "step [us]",
        "loop [us]",
        "spread",
        "step, newtonsim = 1",
        "loop, newtonsim = 1",
    )
    for case in options.cases:
        if case == "pile":
            found = measure_pile(names, options)
        elif case in robots:
            found = measure_robot(case, robots[case], names, options, notes)
        else:
            continue
        figures += found
        print(table(header, [row(figure, found[0]) for figure in found]) + "\n", flush=True)
    finish(options, {"figures": figures}, notes)


def measure_robot(
    case: str, robot: Robot, names: list[str], options: argparse.Namespace, notes: list[str]
) -> list[dict[str, object]]:
    """Return the figures of each engine that is stable with a robot."""
    engines: dict[str, CallEngine] = {name: MAKERS[name](robot) for name in names}
    commands = make_commands(robot, next(iter(engines.values())).joints)
    loops = {name: control_loop(engine, commands) for name, engine in engines.items()}
    steps = {name: steps_of(engine) for name, engine in engines.items()}
    for name, engine in engines.items():
        steps[name](round(SETTLING / DT))
        height, speed = engine.at_rest()
        notes.append(
            f"{case}, {name}: root at {height:.3f} m, fastest joint {speed:.2g} rad/s before the measurement"
        )
        if not speed < AT_REST:
            notes.append(f"{case}, {name}: unstable, not counted")
            del steps[name], loops[name]
    how = timing(options, 0.2, SHORT)
    plain = interleave(steps, how)
    looped = interleave(loops, how)
    for name, engine in engines.items():
        height, speed = engine.at_rest()
        if not np.isfinite(speed):
            notes.append(f"{case}, {name}: not finite after the control loop, not counted")
            looped.pop(name, None)
    return [figure(case, name, plain[name], looped.get(name)) for name in steps]


def measure_pile(names: list[str], options: argparse.Namespace) -> list[dict[str, object]]:
    """Return the figures of each engine for the pyramid of boxes."""
    from engines.contacts import MujocoEngine, NewtonsimEngine, PybulletEngine
    from tasks.contacts import describe

    from newtonsim.examples import scenes

    model = scenes.box_pyramid().finalize("cpu")
    scene = describe(model)
    makers = {
        "newtonsim": lambda: NewtonsimEngine(model, DT),
        "PyBullet": lambda: PybulletEngine(scene, DT),
        "MuJoCo": lambda: MujocoEngine(scene, DT),
    }
    work = {}
    for name in names:
        engine = makers[name]()
        engine.step(round(2.0 / DT))
        work[name] = lambda n, step=engine.step: [step(1) for _ in range(n)] and None
    samples = interleave(work, timing(options, 0.2, SHORT))
    return [figure("pile", name, sample, None) for name, sample in samples.items()]


def steps_of(engine: CallEngine) -> Callable[[int], None]:
    """Return the function that makes n calls for one step each."""

    def run(n: int) -> None:
        step = engine.step
        for _ in range(n):
            step()

    return run


def control_loop(engine: CallEngine, commands: np.ndarray) -> Callable[[int], None]:
    """Return the function that writes commands, steps and reads the joints n times."""

    def run(n: int) -> None:
        for k in range(n):
            engine.command(commands[k % len(commands)])
            engine.step()
            engine.read()

    return run


def make_commands(robot: Robot, joints: int) -> np.ndarray:
    """Return smooth targets [rad] or torques [N m], a second of them, shape (240, joints)."""
    phase = np.arange(240)[:, None] * (2.0 * np.pi / 240.0) + np.arange(joints)[None, :]
    middle = np.array(robot.pose) if robot.task is None else 0.0
    return middle + robot.amplitude * np.sin(phase)


def figure(case: str, engine: str, step, loop) -> dict[str, object]:
    """Return the figures of an engine."""
    return {
        "case": case,
        "engine": engine,
        "step_microseconds": 1.0e6 * step.median,
        "loop_microseconds": 1.0e6 * loop.median if loop else None,
        "spread": step.spread,
    }


def row(figure: dict[str, object], ours: dict[str, object]) -> tuple[object, ...]:
    """Return a row of the table."""
    ratios = []
    for key in ("step_microseconds", "loop_microseconds"):
        known = figure[key] is not None and ours[key] is not None
        ratios.append(f"{figure[key] / ours[key]:.2f}" if known else None)
    return (
        *(figure["case"], figure["engine"], figure["step_microseconds"], figure["loop_microseconds"]),
        *(f"{figure['spread']:.0%}", *ratios),
    )


if __name__ == "__main__":
    main()

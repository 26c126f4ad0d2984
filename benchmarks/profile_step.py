"""Time of each kernel of a step, so that the most expensive ones can be named.

    python benchmarks/profile_step.py [ant] [--worlds 1024] [--motion control] [--self-collision]
        [--device cpu] [--peak 4800]

One of the robots of `robots.py`, a scene of `newtonsim.examples.scenes` in one world (box_pyramid, ball_pit,
...), a heap of 1,000 bodies or a cloth of 4,225 particles under VBD settles first. On the CPU a step is then
run kernel by kernel, each timed alone without the host code of its launch; on a GPU the times are those that
Warp collects from the device.

Times are the least over the repetitions, which others that load the machine disturb least.

`bytes` is an estimate from above of the memory that a kernel moves: each array among its arguments counts
once, with all of its entries, whether they are read, written or left alone. With the peak of the memory
[GB/s] given, the last column is the share of it that bytes over time would be.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import warp as wp
from tasks.deformables import hanging_cloth
from tasks.harness import DT, arguments, table, write_json
from tasks.robots import HOLD, ROBOTS, SETTLING, load_task, robot_path

from newtonsim import Model, ModelBuilder, Simulator
from newtonsim.cli import scene as cli_scene
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver, VBDSolver
from newtonsim.solvers.base import SolverBase

BIG: dict[str, tuple[Callable[[bool], ModelBuilder], Callable[[Model], SolverBase], float]] = {
    "heap": (lambda short: scenes.ball_pit(50 if short else 1000), FeatherstoneSolver, DT),
    "cloth": (lambda short: hanging_cloth(12 if short else 64).builder, VBDSolver, 1.0 / 600.0),
}
"""What fills a card in one world: builder, in short form or not, solver and time step [s]."""


@dataclass
class Cost:
    """What one kernel costs in a step; times and bytes add up over its launches."""

    launches: int = 0
    threads: int = 0
    bytes: int = 0
    seconds: list[float] = field(default_factory=list)


def main() -> None:
    parser = arguments(__doc__, blocks=20)
    parser.add_argument("what", nargs="?", default="ant", help="robot or scene (default: ant)")
    parser.add_argument("--worlds", type=int, default=1024, help="copies of a robot (default: 1024)")
    parser.add_argument("--motion", choices=("settled", "control"), default="settled")
    parser.add_argument("--self-collision", action="store_true", help="links of a robot collide, too")
    parser.add_argument("--peak", type=float, help="peak of the memory's bandwidth [GB/s]")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    worlds = min(options.worlds, 64) if options.short else options.worlds
    if options.what in BIG:
        simulator = prepare_big(options.what, options.short, options.device)
    else:
        simulator = prepare(
            options.what, worlds, options.device, options.motion, self_collision=options.self_collision
        )
    repetitions = 3 if options.short else options.blocks
    costs = profile(simulator, repetitions)
    whole = captured_step(simulator, repetitions)
    unit = simulator.model.world_count
    total = sum(min(cost.seconds, default=0.0) for cost in costs.values())
    rows = [row(name, cost, unit, total, options.peak) for name, cost in costs.items()]
    header = ("kernel", "launches", "threads", "us/world", "share", "bytes/world", "GB/s", "of peak")
    print(f"{options.what}, {unit} worlds, {options.motion}, {options.device}")
    print(table(header, rows))
    print(
        f"\nkernels one by one {1e6 * total / unit:.2f} us a world, captured step {1e6 * whole / unit:.2f} us"
    )
    results = {
        name: {"microseconds": 1.0e6 * min(cost.seconds, default=0.0) / unit, "bytes": cost.bytes / unit}
        for name, cost in costs.items()
    }
    write_json(options.json, {"what": options.what, "worlds": unit, "kernels": results}, options.device)


def prepare(
    what: str, worlds: int, device: str, motion: str, *, self_collision: bool = False, **options: Any
) -> Simulator:
    """Return a settled simulation; under random control, which goes on, if that is asked for.

    Args:
        what: Robot or scene.
        worlds: Copies of a robot.
        device: Where it runs.
        motion: "settled" or "control".
        self_collision: Whether links of a robot collide with each other.
        options: Of the solver.
    """
    if what in ROBOTS:
        task = load_task(what, worlds, self_collision=self_collision)
        robot = cli_scene.load_robot(robot_path(what), self_collision=self_collision)
        model = cli_scene.build_scene(robot, worlds, device)
    else:
        task, model = None, getattr(scenes, what)().finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, **options), DT, threads=1)
    if task is not None:
        start = simulator.state.clone()
        start.joint_q.assign(task.poses.astype(np.float32).reshape(-1))
        simulator.reset(state=start)
    simulator.step(round(SETTLING / DT))
    if motion == "control" and task is not None:
        for frame in task.inputs(task.controls(60, worlds, seed=1)):
            simulator.control.joint_act.assign(frame.reshape(-1))
            simulator.step(HOLD)
    return simulator


def prepare_big(what: str, short: bool, device: str) -> Simulator:
    """Return a simulation of one of `BIG` after a second, in short form after a tenth."""
    build, solver, dt = BIG[what]
    model = build(short).finalize(device)
    simulator = Simulator(model, solver(model), dt, threads=1)
    simulator.step(round((0.1 if short else 1.0) / dt))
    return simulator


def captured_step(simulator: Simulator, repetitions: int) -> float:
    """Return the least time of a step as users make it [s]."""
    device, times = simulator.model.device, []
    for _ in range(repetitions):
        wp.synchronize_device(device)
        start = time.perf_counter()
        simulator.step()
        wp.synchronize_device(device)
        times.append(time.perf_counter() - start)
    return min(times)


def profile(simulator: Simulator, repetitions: int) -> dict[str, Cost]:
    """Return the costs of all kernels, the most expensive ones first."""
    costs: dict[str, Cost] = defaultdict(Cost)
    for repetition in range(repetitions):
        taken: dict[str, float] = defaultdict(float)
        watch = watch_launches(costs if repetition == 0 else None, taken)
        timing = wp.TIMING_KERNEL if simulator.model.device.is_cuda else 0
        wp.timing_begin(cuda_filter=timing)
        with mock.patch.object(wp, "launch", watch):
            state = simulator.state
            simulator.solver.step(simulator.model, state, state, simulator.control, None, simulator.dt)
        results = wp.timing_end()
        if timing:
            taken = defaultdict(float)
            for result in results:
                name, _, _hash = result.name.removeprefix("forward kernel ").rpartition("_")
                taken[name] += result.elapsed / 1.0e3
        for name, seconds in taken.items():
            costs[name].seconds.append(seconds)
    return dict(sorted(costs.items(), key=lambda item: -min(item[1].seconds, default=0.0)))


def watch_launches(costs: dict[str, Cost] | None, taken: dict[str, float]) -> Callable[..., None]:
    """Return a replacement of `wp.launch` that times the kernels, and adds up what is launched."""
    launch = wp.launch

    def watched(kernel: wp.Kernel, dim, *args, **options) -> None:
        name = kernel.key
        command = launch(kernel, dim, *args, **options, record_cmd=True)
        start = time.perf_counter()
        command.launch()
        taken[name] += time.perf_counter() - start
        if costs is not None:
            cost = costs[name]
            cost.launches += 1
            cost.threads += int(np.prod(dim))
            inputs = [*options.get("inputs", []), *options.get("outputs", [])]
            cost.bytes += bytes_of([*inputs, *(a for arg in args if isinstance(arg, list) for a in arg)])

    return watched


def bytes_of(values: list[object]) -> int:
    """Return the size of all arrays among values and in their structs, each counted once."""
    arrays: dict[int, int] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, wp.array):
            arrays[value.ptr or 0] = value.size * wp.types.type_size_in_bytes(value.dtype)
            # of a view that lies on the device
            waiting += getattr(value, "pointed_to", ())
        elif hasattr(value, "__dict__"):
            waiting += [inner for inner in vars(value).values() if isinstance(inner, wp.array)]
    return sum(arrays.values())


def row(name: str, cost: Cost, worlds: int, total: float, peak: float | None) -> tuple[object, ...]:
    """Return a row of the table."""
    seconds = min(cost.seconds) if cost.seconds else float("nan")
    rate = cost.bytes / seconds / 1.0e9
    return (
        *(name, cost.launches, cost.threads, 1.0e6 * seconds / worlds, f"{seconds / total:.1%}"),
        *(cost.bytes / worlds, rate, f"{rate / peak:.0%}" if peak else None),
    )


if __name__ == "__main__":
    main()

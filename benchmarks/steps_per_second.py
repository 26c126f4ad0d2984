"""Environment steps per second of our robots, settled on the ground, by number of worlds.

    python benchmarks/steps_per_second.py [--device cuda:0] [--worlds 1 64 1024] [--json OUT]

Each figure is the best of three runs of about a second, after two simulated seconds of settling. A run counts
only if all worlds are finite at its end.
"""

import argparse
import json
import math
import time

import numpy as np
import warp as wp

from newtonsim import Simulator, cli_scene
from newtonsim.examples import asset_path
from newtonsim.solvers import FeatherstoneSolver

ROBOTS = ("ant.xml", "quadruped.xml", "humanoid.xml")
DT = 1.0 / 240.0
SETTLING = 2.0  # [s]


def measure(name: str, worlds: int, device: str) -> float:
    """Return environment steps per second."""
    model = cli_scene.build_scene(cli_scene.load_robot(asset_path(name)), worlds, device)
    simulator = Simulator(model, FeatherstoneSolver(model), DT)
    start = simulator.state.clone()
    cli_scene.vary_start(model, start, seed=0)
    simulator.reset(state=start)
    simulator.step(round(SETTLING / DT))
    steps = math.ceil(1.0 / seconds_per_step(simulator, 10, device))
    best = min(seconds_per_step(simulator, steps, device) for _ in range(3))
    if not np.isfinite(simulator.state.joint_q.numpy()).all():
        raise RuntimeError(f"{name} with {worlds} worlds went non-finite")
    return worlds / best


def seconds_per_step(simulator: Simulator, steps: int, device: str) -> float:
    wp.synchronize_device(device)
    start = time.perf_counter()
    simulator.step(steps)
    wp.synchronize_device(device)
    return (time.perf_counter() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--json")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    device = str(wp.get_device(arguments.device))
    results = {}
    print(f"{device:<16}" + "".join(f"{f'{n} worlds':>16}" for n in arguments.worlds))
    for name in ROBOTS:
        results[name] = {worlds: measure(name, worlds, device) for worlds in arguments.worlds}
        print(f"{name:<16}" + "".join(f"{rate:>16,.0f}" for rate in results[name].values()))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"device": device, "dt": DT, "steps_per_second": results}, file, indent=2)


if __name__ == "__main__":
    main()

"""Time to build and finalize many humanoids, and the memory that each of them takes.

    python benchmarks/building.py [--worlds 4096] [--device cpu] [--short] [--json OUT]

Each engine builds gymnasium's humanoid, once for few worlds and once for many, in processes of their own.
`build` is the time from the file to a model of all worlds on the device, after the imports; `to first step`
adds solver, state and the first step, with all kernels compiled before. `kB/world` is the growth of the
resident memory of the process (on a GPU: of the memory in use on it) from few worlds to many, over the number
of worlds: what the worlds do not share. `arrays` is the sum of newtonsim's arrays for the same worlds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import warp as wp
from tasks.harness import DT, arguments, finish, installed, table
from tasks.robots import robot_path

FEW = 64
MODULES = {"newtonsim": "newtonsim", "Newton": "newton", "mujoco_warp": "mujoco_warp", "MuJoCo": "mujoco"}


def main() -> None:
    parser = arguments(__doc__, blocks=5)
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--child", choices=MODULES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        wp.init()
        print(json.dumps(CHILDREN[options.child](options.worlds, options.device)))
        return
    worlds = options.worlds or (512 if options.short else 4096)
    notes: list[str] = []
    names = installed(MODULES, notes)
    names = names[:1] if options.alone else [n for n in names if options.device == "cpu" or n != "MuJoCo"]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    few = {name: child(name, FEW, options.device) for name in names}
    for _ in range(1 if options.short else options.blocks):
        for name in names:
            runs[name].append(child(name, worlds, options.device))
    figures = []
    for name, found in runs.items():
        middle = {key: statistics.median(run[key] for run in found) for key in found[0]}
        each = (middle["bytes"] - few[name]["bytes"]) / (worlds - FEW)
        arrays = middle.get("arrays", np.nan) - few[name].get("arrays", np.nan)
        figures.append(
            {
                **{"engine": name, "worlds": worlds, "build_seconds": middle["build"]},
                **{"first_step_seconds": middle["first_step"], "kilobytes_per_world": each / 1.0e3},
                "array_kilobytes_per_world": None if np.isnan(arrays) else arrays / (worlds - FEW) / 1.0e3,
            }
        )
    header = ("engine", "worlds", "build [s]", "to first step [s]", "kB/world", "arrays [kB/world]")
    print(table(header, [tuple(figure.values()) for figure in figures]))
    finish(options, {"figures": figures}, notes)


def child(name: str, worlds: int, device: str) -> dict[str, float]:
    """Run one engine in a process of its own."""
    command = [sys.executable, __file__, "--child", name, "--worlds", str(worlds), "--device", device]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{name}: {result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def timed(build: Callable[[], object], step: Callable[[object], None], device: str) -> tuple[dict, object]:
    """Build, make a step, and return figures with what was built."""
    before = memory(device)
    start = time.perf_counter()
    built = build()
    wp.synchronize_device(device)
    finalized = time.perf_counter()
    kept = step(built)
    wp.synchronize_device(device)
    stepped = time.perf_counter()
    figures = {"build": finalized - start, "first_step": stepped - start, "bytes": memory(device) - before}
    return figures, (built, kept)


def memory(device: str) -> int:
    """Return the memory in use: resident memory of the process, or what Warp has taken on a GPU."""
    if device != "cpu":
        return wp.get_mempool_used_mem_current(device)
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def build_newtonsim(worlds: int, device: str) -> dict[str, float]:
    """Measure newtonsim."""
    from newtonsim import Simulator
    from newtonsim.cli import scene as cli_scene
    from newtonsim.solvers import FeatherstoneSolver

    def build(count: int = worlds):
        return cli_scene.build_scene(cli_scene.load_robot(robot_path("humanoid")), count, device)

    def step(model):
        simulator = Simulator(model, FeatherstoneSolver(model), DT)
        simulator.step(2)
        return simulator

    kept = step(build(1))  # compiles and loads what is needed
    figures, (_, simulator) = timed(build, step, device)
    figures["arrays"] = sum(array_sizes(simulator).values())
    del kept
    return figures


def array_sizes(root: object) -> dict[int, int]:
    """Return the bytes of all Warp arrays that can be reached from an object, by address."""
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, wp.array):
            if value.ptr:
                size = value.size * wp.types.type_size_in_bytes(value.dtype)
                sizes[value.ptr] = max(size, sizes.get(value.ptr, 0))
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif hasattr(value, "__dict__") and not isinstance(value, (type, wp.Kernel, wp.Device)):
            waiting += vars(value).values()
    return sizes


def build_newton(worlds: int, device: str) -> dict[str, float]:
    """Measure Newton with its XPBD solver."""
    import newton

    def build(count: int = worlds):
        robot = newton.ModelBuilder()
        robot.add_mjcf(robot_path("humanoid"), parse_mujoco_options=False)
        scene = newton.ModelBuilder()
        scene.replicate(robot, count)
        return scene.finalize(device)

    def step(model):
        solver = newton.solvers.SolverXPBD(model)
        states, control = (model.state(), model.state()), model.control()
        pipeline = newton.CollisionPipeline(model)
        contacts = pipeline.contacts()
        newton.eval_fk(model, model.joint_q, model.joint_qd, states[0])
        pipeline.collide(states[0], contacts)
        solver.step(*states, control, contacts, DT)
        return solver, states, control, pipeline, contacts

    kept = step(build(1))
    figures, _ = timed(build, step, device)
    del kept
    return figures


def build_mujoco_warp(worlds: int, device: str) -> dict[str, float]:
    """Measure mujoco_warp; its data are made with the room for contacts of the robot tables."""
    import mujoco
    import mujoco_warp

    def build(count: int = worlds):
        host = mujoco.MjModel.from_xml_path(robot_path("humanoid"))
        host.opt.integrator, host.opt.solver = mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtSolver.mjSOL_NEWTON
        with wp.ScopedDevice(device):
            data = mujoco_warp.make_data(host, nworld=count, nconmax=32, njmax=128)
            return mujoco_warp.put_model(host), data

    def step(built):
        with wp.ScopedDevice(device):
            mujoco_warp.step(*built)

    kept = build(1)
    step(kept)
    figures, _ = timed(build, step, device)
    return figures


def build_mujoco(worlds: int, device: str) -> dict[str, float]:
    """Measure MuJoCo with an MjData for each world."""
    import mujoco

    def build():
        model = mujoco.MjModel.from_xml_path(robot_path("humanoid"))
        return model, [mujoco.MjData(model) for _ in range(worlds)]

    def step(built):
        model, data = built
        for each in data:
            mujoco.mj_step(model, each)

    figures, _ = timed(build, step, device)
    return figures


CHILDREN = {
    "newtonsim": build_newtonsim,
    "Newton": build_newton,
    "mujoco_warp": build_mujoco_warp,
    "MuJoCo": build_mujoco,
}


if __name__ == "__main__":
    main()

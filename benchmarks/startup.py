"""Time from a command to the first step and to the first simulated second, with empty and with full caches.

    python benchmarks/startup.py [--repetitions 5] [--cold-repetitions 2] [--wheel FOLDER] [--short]

`newtonsim run --envs 1 --seconds 1` with our quadruped, against scripts for Newton (XPBD) and mujoco_warp
that import the engine, read the same file, put it on a ground and replay the captured step for one simulated
second. Each run is a process of its own. Cold runs start with an empty kernel cache. Figures are medians.

Then processor time of processes that import, make a first step, or a first gradient, in turns with MuJoCo and
PyBullet, and over the time of these. `--wheel` names a folder into which a wheel of compiled kernels was
installed (`pip install --target`): cold runs are then made with it, too.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from tasks.harness import DT, arguments, finish, installed, missing, table
from tasks.starts import PEERS, PROGRAMS

from newtonsim.examples import asset_path

ROBOT = os.fspath(asset_path("quadruped.xml"))
MODULES = {"newtonsim": "newtonsim", "Newton": "newton", "mujoco_warp": "mujoco_warp"}
STEPS = round(1.0 / DT)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="warm runs of each engine (default: 5)")
    parser.add_argument("--cold-repetitions", type=int, default=2, help="cold runs of each (default: 2)")
    parser.add_argument("--wheel", help="folder with an installed wheel of compiled kernels")
    parser.add_argument("--child", choices=("Newton", "mujoco_warp"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        {"Newton": run_newton, "mujoco_warp": run_mujoco_warp}[options.child](options.device)
        return
    cold, warm = (1, 2) if options.short else (options.cold_repetitions, options.repetitions)
    notes: list[str] = []
    names = installed(MODULES, notes)
    names = names[:1] if options.alone else names
    runs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        full = os.path.join(folder, "full")
        for repetition in range(cold):
            for name in names:
                # the first cold run of each fills the cache of the warm ones
                cache = full if repetition == 0 else os.path.join(folder, f"{name}{repetition}")
                runs.setdefault((name, "cold"), []).append(run(name, cache, options.device))
        for _ in range(warm):
            for name in names:
                runs.setdefault((name, "warm"), []).append(run(name, full, options.device))
    figures = []
    for (name, cache), times in runs.items():
        first, end = (statistics.median(column) for column in zip(*times))
        figures.append({"engine": name, "cache": cache, "first_step_seconds": first, "end_seconds": end})
    header = ("engine", "cache", "first step [s]", "end [s]")
    print(table(header, [tuple(figure.values()) for figure in figures]))
    peers = [] if options.alone else [name for name in ("MuJoCo", "PyBullet") if not missing(name.lower())]
    starts = first_steps(peers, warm, cold, options.wheel)
    print(table(("what", "engine", "kernels", "CPU [s]", "over peer", "wall [s]"), starts))
    names = ("task", "engine", "cache", "cpu_seconds", "over_peer", "wall_seconds")
    finish(
        options, {"figures": figures, "starts": [dict(zip(names, row, strict=True)) for row in starts]}, notes
    )


def first_steps(peers: list[str], warm: int, cold: int, wheel: str | None) -> list[tuple]:
    """Start all programs in turns; return rows of the table: medians, and ours over that of the peer."""
    programs = [
        (task, engine, text)
        for task, engines in PROGRAMS.items()
        for engine, text in engines.items()
        if engine in peers or engine.startswith("newtonsim")
    ]
    own = [program for program in programs if program[1] == "newtonsim" and program[0] != "import"]
    times: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        full = os.path.join(folder, "full")
        for repetition in range(cold):
            for task, engine, text in own:
                cache = full if repetition == 0 else os.path.join(folder, f"{task}{repetition}")
                times.setdefault((task, engine, "cold"), []).append(start(text, cache))
                if wheel:
                    cache = os.path.join(folder, f"wheel {task}{repetition}")
                    times.setdefault((task, engine, "wheel"), []).append(start(text, cache, wheel))
        for repetition in range(warm + 1):
            for task, engine, text in programs:
                found = start(text, full)
                if repetition:  # the first one writes bytecode
                    times.setdefault((task, engine, "warm"), []).append(found)
    medians = {key: [statistics.median(column) for column in zip(*runs)] for key, runs in times.items()}
    rows = []
    for (task, engine, cache), (cpu, wall) in medians.items():
        peer = medians.get((task, PEERS.get(task, ""), "warm"))
        rows.append((task, engine, cache, cpu, cpu / peer[0] if peer else None, wall))
    return rows


def start(text: str, cache: str, folder: str = "") -> tuple[float, float]:
    """Run a program in a process of its own; return its processor time and its time [s]."""
    path = os.pathsep.join(name for name in (folder, os.environ.get("PYTHONPATH", "")) if name)
    environment = {**surroundings(cache), "PYTHONPATH": path}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=False
    )
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if result.returncode:
        raise RuntimeError(result.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, end - begin


def surroundings(cache: str) -> dict[str, str]:
    """Environment of a process with a kernel cache, which writes bytecode, as an installation has it."""
    os.makedirs(cache, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "WARP_CACHE_PATH": cache}


def run(name: str, cache: str, device: str) -> tuple[float, float]:
    """Run an engine in a process, and return when it made the first step and when it ended [s].

    newtonsim's first step is not told apart: its end counts for both.
    """
    if name == "newtonsim":
        command = [sys.executable, "-m", "newtonsim", "run", ROBOT, "--envs", "1", "--seconds", "1"]
        command += ["--device", device]
    else:
        command = [sys.executable, __file__, "--child", name, "--device", device]
    environment = surroundings(cache)
    started = time.time()
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    end = time.time() - started
    if result.returncode:
        raise RuntimeError(f"{name}: {result.stderr}")
    first = re.search(r"^first step at ([0-9.]+)$", result.stdout, re.MULTILINE)
    return (float(first[1]) - started if first else end), end


def run_newton(device: str) -> None:
    """Simulate a second with Newton."""
    import newton
    import warp as wp

    robot = newton.ModelBuilder()
    robot.add_mjcf(ROBOT, parse_mujoco_options=False)
    scene = newton.ModelBuilder()
    scene.replicate(robot, 1)
    scene.add_ground_plane()
    model = scene.finalize(device)
    solver = newton.solvers.SolverXPBD(model)
    states, control = [model.state(), model.state()], model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    newton.eval_fk(model, model.joint_q, model.joint_qd, states[0])

    def two_steps() -> None:
        for _ in range(2):
            pipeline.collide(states[0], contacts)
            states[0].clear_forces()
            solver.step(*states, control, contacts, DT)
            states.reverse()

    _simulate(two_steps, STEPS // 2, wp, device)


def run_mujoco_warp(device: str) -> None:
    """Simulate a second with mujoco_warp."""
    import mujoco
    import mujoco_warp
    import warp as wp

    spec = mujoco.MjSpec.from_file(ROBOT)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    host = spec.compile()
    with wp.ScopedDevice(device):
        model, data = mujoco_warp.put_model(host), mujoco_warp.make_data(host)
        _simulate(lambda: mujoco_warp.step(model, data), STEPS, wp, device)


def _simulate(step, count: int, wp, device: str) -> None:
    """Make a step, say when, capture it and replay it."""
    step()
    wp.synchronize_device(device)
    print(f"first step at {time.time():.3f}", flush=True)
    with wp.ScopedCapture(device=device) as capture:
        step()
    for _ in range(count - 1):
        wp.capture_launch(capture.graph)
    wp.synchronize_device(device)


if __name__ == "__main__":
    main()

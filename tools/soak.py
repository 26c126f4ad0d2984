"""Memory, files and threads of a process that runs for long: what each hour leaves behind.

    python tools/soak.py [--minutes 60] [--parts facade viewer ...] [--short] [--json OUT]

Rounds of everything that comes and goes, one after the other in one process: clients of PyBullet's functions
with bodies, constraints, states and files; simulators, their resets, checkpoints and recordings; worlds that
are built and dropped; episodes of environments; a viewer that is opened, looked at and closed; a
process that is killed. After each round the process is looked at: resident memory, open files and threads.
The first quarter fills caches and is left out; a line through the rest gives growth per hour, with its
standard error, by resampling blocks of rounds. What grows by more than three of these and by more than 1 MB,
or by one file or thread in an hour, is named, and ends the program with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable

import numpy as np

import newtonsim
import newtonsim.pybullet_compat as p
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.pybullet_compat.stand_ins import pybullet_data
from newtonsim.render import Recorder, Recording

WARM_UP = 0.25
BLOCKS = 8
LEAST_GROWTH = {"memory [MB]": 1.0, "files": 1.0, "threads": 1.0}
"""Growth in an hour that counts."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help="how long (default: 60, short: 1)")
    parser.add_argument("--short", action="store_true", help="a minute, for a look at whether it runs")
    parser.add_argument("--json", help="file for all samples")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    minutes = options.minutes or (1.0 if options.short else 60.0)
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = soak(minutes, options.parts, folder, notes)
    rows, grown = [], []
    for name, least in LEAST_GROWTH.items():
        first, last, slope, error = growth(samples["hours"], samples[name])
        rows.append([name, first, last, slope, error])
        if slope > max(least, 3.0 * error):
            grown.append(name)
            notes.append(f"{name} grows by {slope:.3g} an hour, with an error of {error:.2g}")
    print(f"{len(samples['hours'])} rounds in {minutes:g} minutes: {', '.join(options.parts)}")
    print(f"{'':12}{'after warm-up':>16}{'at the end':>16}{'per hour':>16}{'standard error':>16}")
    for name, *figures in rows:
        print(f"{name:12}" + "".join(f"{figure:16.3g}" for figure in figures))
    print("\n".join(notes))
    if options.json:
        held = {"minutes": minutes, "samples": samples, "growth": rows, "notes": notes}
        pathlib.Path(options.json).write_text(json.dumps(held, indent=1))
    return 1 if grown else 0


def soak(minutes: float, parts: list[str], folder: str, notes: list[str]) -> dict[str, list[float]]:
    """Run rounds of parts, and look at the process after each."""
    samples: dict[str, list[float]] = {"hours": [], **{name: [] for name in LEAST_GROWTH}}
    start = time.monotonic()
    missing: set[str] = set()
    while time.monotonic() - start < 60.0 * minutes:
        for name in parts:
            if name in missing:
                continue
            try:
                PARTS[name](folder)
            except ImportError as error:
                missing.add(name)
                notes.append(f"without {name}: {error}")
        gc.collect()
        samples["hours"].append((time.monotonic() - start) / 3600.0)
        for name, value in zip(LEAST_GROWTH, resources()):
            samples[name].append(value)
    return samples


def resources() -> tuple[float, float, float]:
    """Resident memory [MB], open files and threads of this process."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return memory, len(os.listdir("/proc/self/fd")) - 1.0, float(len(os.listdir("/proc/self/task")))


def growth(hours: list[float], values: list[float]) -> tuple[float, float, float, float]:
    """Return the first and last value after warming up, and slope per hour with its standard error.

    The error is that of lines through blocks of rounds that are drawn anew, since neighbours are alike.
    """
    begin = int(WARM_UP * len(hours))
    x, y = np.array(hours[begin:]), np.array(values[begin:])
    if len(x) < 3:
        return float(y[0]), float(y[-1]), 0.0, float("inf")
    rng, blocks = np.random.default_rng(0), np.array_split(np.arange(len(x)), min(BLOCKS, len(x)))
    slopes = []
    for _ in range(200):
        drawn = np.concatenate([blocks[n] for n in rng.integers(0, len(blocks), len(blocks))])
        if np.ptp(x[drawn]) > 0.0:
            slopes.append(np.polyfit(x[drawn], y[drawn], 1)[0])
    return float(y[0]), float(y[-1]), float(np.polyfit(x, y, 1)[0]), float(np.std(slopes))


def facade(folder: str) -> None:
    """A client: bodies and constraints come and go, states in memory and in files, a reset, another scene."""
    client = p.connect(p.DIRECT)
    call = {"physicsClientId": client}
    p.setAdditionalSearchPath(pybullet_data.getDataPath(), **call)
    for _ in range(2):
        p.setGravity(0.0, 0.0, -9.81, **call)
        p.loadURDF("plane.urdf", **call)
        arm = p.loadURDF("kuka_iiwa/model.urdf", [1.0, 0.0, 0.0], useFixedBase=True, **call)
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.1] * 3, **call)
        state = p.saveState(**call)
        for number in range(5):
            box = p.createMultiBody(1.0, shape, basePosition=[0.0, 0.3 * number, 0.5], **call)
            held = p.createConstraint(
                box, -1, -1, -1, p.JOINT_POINT2POINT, [0] * 3, [0] * 3, [0, 0, 1], **call
            )
            p.setJointMotorControl2(arm, 2, p.POSITION_CONTROL, 0.1 * number, force=100.0, **call)
            for _ in range(20):
                p.stepSimulation(**call)
            p.getContactPoints(**call)
            p.rayTest([0, 0, 3], [0, 0, -1], **call)
            p.removeConstraint(held, **call)
            p.removeBody(box, **call)
        p.restoreState(state, **call)
        p.saveBullet(os.path.join(folder, "state.bullet"), **call)
        p.restoreState(fileName=os.path.join(folder, "state.bullet"), **call)
        p.resetSimulation(**call)
    p.disconnect(client)


def quadrupeds(worlds: int) -> newtonsim.Model:
    """A model that nobody else has."""
    robot = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(asset_path("quadruped.xml"), robot, floating=None)
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(robot, worlds, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    return scene.finalize("cpu")


def simulators(folder: str) -> None:
    """A model, a Simulator with threads, resets, checkpoints, and a recording that is read again."""
    model = quadrupeds(8)
    solver = newtonsim.FeatherstoneSolver(model)
    simulator = newtonsim.Simulator(model, solver, 1.0 / 240.0, threads=2)
    path = os.path.join(folder, "run.nsr")
    with Recorder(path, model, solver=solver) as recorder:
        for number in range(60):
            simulator.step()
            recorder.record(simulator.state, simulator.time)
            if number % 20 == 10:
                simulator.reset(np.arange(8) % 2 == 0)
                memory = simulator.snapshot()
                simulator.step(3)
                memory.restore()
                simulator.recapture()
    simulator.save(os.path.join(folder, "run.ckpt"))
    simulator.restore(os.path.join(folder, "run.ckpt"))
    with Recording.open(path) as recording:
        recording.load(-1)


def episodes(_: str) -> None:
    """An environment that is made, played with resets and closed."""
    from newtonsim import envs

    env = envs.make("CartPole", num_envs=16)
    try:
        env.reset(seed=0)
        for _ in range(100):
            env.step(env.action_space.sample())
    finally:
        env.close()


def viewer(_: str) -> None:
    """A viewer to which somebody comes and goes while a simulation runs."""
    from newtonsim.render.viewer import Viewer

    model = quadrupeds(2)
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1.0 / 240.0)
    window = Viewer(model, port=0)
    try:
        for _ in range(3):
            with urllib.request.urlopen(window.url, timeout=10) as page:
                page.read()
            simulator.step(10)
            window.update(simulator.state)
    finally:
        window.close()


def killed(_: str) -> None:
    """A process that steps, killed in the middle, as workers of sweeps and of training are."""
    program = (
        "import newtonsim.pybullet_compat as p; p.connect(p.DIRECT); print(1, flush=True)\n"
        "while True: p.stepSimulation()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        child.stdout.readline()  # type: ignore[union-attr]
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)


PARTS: dict[str, Callable[[str], None]] = {
    "facade": facade,
    "simulators": simulators,
    "episodes": episodes,
    "viewer": viewer,
    "killed": killed,
}

if __name__ == "__main__":
    sys.exit(main())

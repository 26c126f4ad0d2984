"""``newtonsim run``: many copies of a robot settle on the ground."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from newtonsim.cli.record import FRAMES_PER_SECOND, OUTPUTS, RunRecorder
from newtonsim.cli.report import Figures, Home, judge, table
from newtonsim.cli.scene import Robot, build_scene, load_robot, vary_start
from newtonsim.cli.start import default_file, load_kernels, start_device
from newtonsim.cli.view import LiveView
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.simulator import Simulator

_COMMON_ENDINGS = ("png", "jpg", "webp", "pdf", "svg", "mp4", "gif", "usd", "usda", "usdc")


def run(arguments: argparse.Namespace) -> int:
    """Simulate as the arguments say, print a table and write the requested files."""
    _check_outputs(arguments)

    device = start_device(arguments.device)
    robot = load_robot(arguments.file or default_file(), arguments.base, hold=True)
    for warning in robot.warnings:
        print(f"note: {warning}", file=sys.stderr)
    loading = load_kernels(robot, device)  # first: the scene uses some, and would compile them one by one
    model = build_scene(robot, arguments.envs, device)
    if not model.joint_coord_count:
        raise NewtonsimError(
            f"{robot.path}: nothing in it can move; --base free lets the root of a URDF robot move"
        )
    figures = _plan(robot, model, arguments)
    figures.compile_seconds = loading
    simulator, home = _prepare(model, figures, arguments)
    recorder = RunRecorder(simulator, arguments, figures)
    live = _live(simulator, arguments, figures.robot)
    _simulate(simulator, recorder, figures, live)
    judge(model, simulator.state, home, figures)
    print(table(figures))
    recorder.write()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(asdict(figures), file, indent=2)
    if live is not None:
        live.stay()
    return 1 if figures.non_finite_worlds else 0


def _live(simulator: Simulator, arguments: argparse.Namespace, name: str) -> LiveView | None:
    """Return what shows the run in the browser, None without --view."""
    if not arguments.view:
        return None
    return LiveView(simulator, arguments, name)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise before the simulation, not after it, if an output cannot be written."""
    if arguments.plot:
        if importlib.util.find_spec("matplotlib") is None:
            raise NewtonsimError("--plot needs matplotlib: pip install 'newtonsim[plot]'")
        from matplotlib.backend_bases import FigureCanvasBase

        _check_ending("plot", arguments.plot, FigureCanvasBase.get_supported_filetypes())
    if arguments.snapshot:
        from PIL import Image

        Image.init()
        _check_ending("snapshot", arguments.snapshot, [ending[1:] for ending in Image.EXTENSION])
    if arguments.video:
        from newtonsim.render.films.video import ENDINGS, require_video

        _check_ending("video", arguments.video, [ending[1:] for ending in ENDINGS])
        require_video()
    for name in (*OUTPUTS, "json"):
        path = getattr(arguments, name)
        folder = os.path.dirname(path or "") or "."
        if path and (os.path.isdir(path) or not os.access(folder, os.W_OK)):
            raise NewtonsimError(f"--{name}: cannot write {path!r}")
    if arguments.usd:
        _check_ending("usd", arguments.usd, ("usd", "usda", "usdc"))


def _check_ending(option: str, path: str, known: Iterable[str]) -> None:
    """Raise if a file of this name cannot be written."""
    suffix = os.path.splitext(path)[1].removeprefix(".").lower()
    if suffix not in known:
        names = ", ".join(f".{ending}" for ending in _COMMON_ENDINGS if ending in known)
        raise NewtonsimError(f"--{option}: unknown file extension in {path!r}; use one such as {names}")


def _plan(robot: Robot, model: Model, arguments: argparse.Namespace) -> Figures:
    """Return the figures that are known before the first step."""
    worlds = arguments.envs
    dt = arguments.dt or robot.time_step
    steps = max(1, round(arguments.seconds / dt))
    return Figures(
        file=robot.path,
        robot=robot.report.name or robot.path,
        device=str(model.device),
        worlds=worlds,
        bodies=model.body_count // worlds,
        joints=model.joint_count // worlds,
        dofs=model.joint_dof_count // worlds,
        shapes=robot.builder.shape_count,
        mass=float(sum(robot.builder.body_mass)),
        time_step=dt,
        substeps=arguments.substeps,
        steps=steps,
        simulated_seconds=steps * dt,
        remarks=robot.remarks,
    )


def _prepare(model: Model, figures: Figures, arguments: argparse.Namespace) -> tuple[Simulator, Home | None]:
    """Capture a step and place the robots; return the simulator and measurements of the home pose."""
    import warp as wp

    from newtonsim import Simulator
    from newtonsim.solvers import FeatherstoneSolver

    start = time.perf_counter()
    solver = {"featherstone": FeatherstoneSolver}[arguments.solver](model)
    simulator = Simulator(model, solver, figures.time_step, substeps=figures.substeps)
    state = simulator.state.clone()
    home = Home.of(model, state)
    # A step before the clock starts: it captures the graph.
    simulator.step(1)
    wp.synchronize_device(model.device)
    vary_start(model, state, arguments.seed)
    simulator.reset(state=state)
    figures.compile_seconds += time.perf_counter() - start
    return simulator, home


def _simulate(simulator: Simulator, recorder: RunRecorder, figures: Figures, live: LiveView | None) -> None:
    """Take all steps, frame by frame, under a progress bar; only the steps are timed."""
    import warp as wp
    from tqdm import tqdm

    stride = max(1, round(1.0 / (FRAMES_PER_SECOND * figures.time_step)))
    step = simulator.step if live is None else live.step
    recorder.frame()
    bar = tqdm(
        total=figures.steps,
        unit="step",
        desc=f"{figures.worlds} x {figures.robot}",
        file=sys.stderr,
        leave=False,
        # Where nothing can be overwritten, such as in a log, every update stays.
        mininterval=0.1 if sys.stderr.isatty() else 10.0,
    )
    with bar:
        for first in range(0, figures.steps, stride):
            count = min(stride, figures.steps - first)
            start = time.perf_counter()
            step(count)
            wp.synchronize_device(figures.device)
            figures.wall_seconds += time.perf_counter() - start
            recorder.frame()
            bar.update(count)
            if live is not None:
                live.show()
    figures.steps_per_second = figures.worlds * figures.steps / figures.wall_seconds
    figures.real_time_factor = figures.worlds * figures.simulated_seconds / figures.wall_seconds

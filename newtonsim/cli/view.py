"""``newtonsim view``: a robot or a recording in the web browser; also the option ``--view`` of ``run``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from newtonsim.cli.scene import build_scene, load_robot, stand, vary_start
from newtonsim.cli.start import default_file, device_name, load_kernels, start_device
from newtonsim.regular_files import open_regular

if TYPE_CHECKING:
    from newtonsim.render.viewer import Viewer
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State
    from newtonsim.simulator import Simulator


def view(arguments: argparse.Namespace) -> int:
    """Show a file in the browser until Ctrl-C."""
    path = arguments.file or default_file()
    if is_recording(path):
        return _view_recording(path, arguments)
    device = start_device(arguments.device)
    robot = load_robot(path, arguments.base, hold=True)
    for warning in robot.warnings:
        print(f"note: {warning}", file=sys.stderr)
    load_kernels(robot, device)
    model = build_scene(robot, arguments.worlds, device)
    simulator = _simulator(model, arguments, robot.time_step)
    name = robot.report.name or os.path.basename(path)
    with open_viewer(simulator.state, model, arguments, name) as viewer:
        viewer.run(simulator, paused=arguments.paused is not False)
        viewer.look_at_all()
        _stay(viewer)
    return 0


def is_recording(path: str | os.PathLike) -> bool:
    """Tell whether a file was written by `newtonsim.render.Recorder`."""
    from newtonsim.render.recordings.format import SIGNATURE

    with open_regular(path) as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def open_viewer(state: State | None, model: Model, arguments: argparse.Namespace, name: str) -> Viewer:
    """Open a viewer as the arguments say, print its address, and open a browser if there is a screen."""
    from newtonsim.render.viewer import Viewer

    viewer = Viewer(
        model, arguments.host, arguments.port, effects=not arguments.plain, title=name, state=state
    )
    print(f"viewer: {viewer.url} (Ctrl-C to quit)")
    if "SSH_CONNECTION" in os.environ:
        tunnel = f"ssh -L {viewer.port}:localhost:{viewer.port} {os.uname().nodename}"
        print(f"on your own machine: {tunnel}, then open the same address")
    elif not arguments.no_browser and _has_screen():
        viewer.open_browser()
    sys.stdout.flush()
    return viewer


class LiveView:
    """Shows a run that a loop steps, no faster than real time.

    Args:
        simulator: What the loop steps.
        arguments: Where to show it.
        name: Title of the page.
    """

    def __init__(self, simulator: Simulator, arguments: argparse.Namespace, name: str):
        self._simulator = simulator
        self._viewer = open_viewer(simulator.state, simulator.model, arguments, name)
        self._start = time.perf_counter() - simulator.time
        self.show()

    def step(self, count: int) -> None:
        """Take steps, with the force of the mouse applied."""
        simulator, mouse = self._simulator, self._viewer.mouse
        if not mouse.holds:
            simulator.step(count)
            return
        for _ in range(count):
            with mouse.pulling(simulator.state, simulator.dt):
                simulator.step(1)

    def show(self) -> None:
        """Show the current state when it is due; wait while the user has paused."""
        simulator = self._simulator
        lead = simulator.time - (time.perf_counter() - self._start)
        if lead > 0.0:
            time.sleep(lead)
        else:
            self._start -= lead
        before = time.perf_counter()
        self._viewer.update(simulator.state, simulator.time, control=simulator.control)
        self._start += time.perf_counter() - before

    def stay(self) -> None:
        """Keep showing the last state until Ctrl-C."""
        _stay(self._viewer)
        self._viewer.close()


def _view_recording(path: str, arguments: argparse.Namespace) -> int:
    from newtonsim.render import Recording

    recording = Recording.open(path, device_name(arguments.device))
    with open_viewer(None, recording.model, arguments, os.path.basename(path)) as viewer:
        viewer.replay(recording, paused=bool(arguments.paused))
        viewer.look_at_all()
        _stay(viewer)
    return 0


def _simulator(model: Model, arguments: argparse.Namespace, time_step: float) -> Simulator:
    """Return a simulator of one robot that stands on the ground, or of many in varied poses above it."""
    from newtonsim import Simulator
    from newtonsim.solvers import FeatherstoneSolver

    simulator = Simulator(model, FeatherstoneSolver(model), arguments.dt or time_step)
    state = simulator.state.clone()
    if model.world_count > 1 and model.joint_coord_count:
        vary_start(model, state, arguments.seed)
    elif model.joint_coord_count:
        stand(model, state)
    simulator.reset(state=state)
    return simulator


def _stay(viewer: Viewer) -> None:
    try:
        viewer.wait()
    except KeyboardInterrupt:
        print()


def _has_screen() -> bool:
    """Tell whether a graphical browser may be there; a text browser would take over this terminal."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY")
    )

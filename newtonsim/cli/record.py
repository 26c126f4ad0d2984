"""What ``newtonsim run`` records, and the files that it writes from it."""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.cli.scene import UP, root_bodies
from newtonsim.scene.enums import JointType

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from newtonsim.cli.report import Figures
    from newtonsim.render import Recorder, Recording
    from newtonsim.simulator import Simulator

FRAMES_PER_SECOND = 30.0
RECORDED_WORLDS = 64
SHEET_WORLDS = 9
FILM_WORLDS = 4
OUTPUTS = ("record", "usd", "plot", "snapshot", "video")


class RunRecorder:
    """Records a run if an output file needs it, and writes these files.

    Args:
        simulator: The simulator of the run.
        arguments: Say which files to write.
        figures: Counts and names.
    """

    def __init__(self, simulator: Simulator, arguments: argparse.Namespace, figures: Figures):
        self.simulator, self.arguments, self.figures = simulator, arguments, figures
        self._folder: tempfile.TemporaryDirectory | None = None
        self._recorder: Recorder | None = None
        if any(getattr(arguments, name) for name in OUTPUTS):
            self._recorder = self._make_recorder()

    def frame(self) -> None:
        """Record the state of the simulator."""
        if self._recorder is not None:
            simulator = self.simulator
            self._recorder.record(simulator.state, simulator.time, stepped=simulator.time > 0.0)

    def write(self) -> None:
        """Write the files."""
        if self._recorder is None:
            return
        from newtonsim.render import Recording

        self._recorder.close()
        with Recording.open(self._recorder.path, self.simulator.model.device) as recording:
            if self.arguments.usd:
                save_usd(self.arguments.usd, recording)
            if self.arguments.plot:
                title = f"{len(recording.worlds)} x {self.figures.robot}"
                plot_run(recording, title).savefig(self.arguments.plot, dpi=130)
            self._draw(recording)
        if self._folder is not None:
            self._folder.cleanup()

    def _make_recorder(self) -> Recorder:
        from newtonsim.render import Recorder

        path = self.arguments.record
        if not path:
            self._folder = tempfile.TemporaryDirectory(prefix="newtonsim_run_")
            path = os.path.join(self._folder.name, "run.nsr")
        worlds = range(min(RECORDED_WORLDS, self.figures.worlds))
        return Recorder(path, self.simulator.model, worlds=worlds, solver=self.simulator.solver)

    def _draw(self, recording: Recording) -> None:
        """Write the picture of the last state, and the video."""
        if self.arguments.snapshot:
            from newtonsim.render import save_sheet

            shown = range(min(SHEET_WORLDS, len(recording.worlds)))
            save_sheet(
                self.arguments.snapshot,
                recording.model,
                recording.load(-1),
                worlds=shown,
                quality=self.arguments.quality,
            )
        if self.arguments.video:
            from newtonsim.render import save_video

            shown = range(min(FILM_WORLDS, len(recording.worlds)))
            quality = self.arguments.quality
            save_video(self.arguments.video, recording, worlds=shown, fps=FRAMES_PER_SECOND, quality=quality)


def save_usd(path: str, recording: Recording) -> None:
    """Write a recording as an animation with its worlds side by side."""
    from newtonsim.render.sim_renderer.usd import UsdAnimation

    model, state = recording.model, recording.load(0)
    size = np.ptp(state.body_q.numpy()[: model.world_body_start[1], :3], axis=0).max()
    animation = UsdAnimation(path, model, fps=FRAMES_PER_SECOND, spacing=1.0 + 1.5 * float(size))
    for index, time in enumerate(recording.times):
        animation.record(recording.load(index, state), time)
    animation.save()


def plot_run(recording: Recording, title: str) -> Figure:
    """Draw heights of bases, joints of the first world, energies and contact forces over time.

    Args:
        recording: A run of equal worlds.
        title: Title of the figure.

    Returns:
        The figure.
    """
    from newtonsim.render.films.plots import COLORS, draw_energy, draw_worlds, new_figure
    from newtonsim.render.films.series import chosen_frames, contact_series, joint_series

    model, frames = recording.model, chosen_frames(recording, None)
    times = recording.times[frames]
    moving = model.joint_type.numpy() != JointType.FREE
    names = [model.joint_key[joint] for joint in np.flatnonzero(moving & (model.joint_world.numpy() == 0))]
    joints = [part.values[:, 0] for part in joint_series(recording, names, worlds=[0])]
    bases = root_bodies(model)
    rows = 2 + bool(joints) + bool(bases.size)
    figure = new_figure((9.0, 2.2 * rows + 0.6))
    axes = list(figure.subplots(rows, 1, sharex=True))
    if bases.size:
        draw_worlds(axes[0], times, recording.series("body_q", frames)[:, bases[:, 0], :3] @ UP, COLORS[0])
        axes[0].set_ylabel("base height [m]")
    if joints:
        axes[-3].plot(times, np.array(joints).T, linewidth=0.8)
        axes[-3].set_ylabel("joints of world 0 [rad, m]")
    draw_energy(axes[-2], recording)
    axes[-2].set_xlabel("")
    draw_worlds(axes[-1], times, contact_series(recording)[0].values, COLORS[3])
    axes[-1].set(ylabel="contact force, upwards [N]", xlabel="time [s]")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    return figure

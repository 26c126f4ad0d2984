"""Plots of recordings with matplotlib: joint trajectories, energies, contact forces."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.render.films.series import Series, chosen_frames, contact_series, energies, joint_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from newtonsim.render.recordings.recording import Recording

MOST_LINES = 4
"""Number of worlds that are drawn as separate lines; more are drawn as a band."""

_TITLE = 30
"""Characters of a title per line."""

COLORS = ("#2f6db5", "#d9772b", "#3f9b57", "#8d5fa8")


def plot_joints(
    recording: Recording,
    *,
    joints: Sequence[str] | None = None,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
    velocities: bool = False,
    path: str | os.PathLike | None = None,
) -> Figure:
    """Draw joint coordinates over time, one panel each.

    Up to four worlds are lines; for more, a line is the median, a band contains 90 % and a pale band all.

    Args:
        recording: Holds joint_q, or joint_qd.
        joints: Names of joints; None for all.
        worlds: Worlds of the recording; None for all.
        frames: Frames; None for all, or 2000 spread evenly.
        velocities: Whether to draw velocities.
        path: File to write, its ending is the format; None for none.

    Raises:
        RecordingError: The recording does not contain the quantity.
        NewtonsimError: There is nothing to draw.
    """
    parts = joint_series(recording, joints, worlds, frames, velocities)
    return _panels(recording, parts, frames, path)


def plot_contact_forces(
    recording: Recording,
    *,
    bodies: Sequence[str] | None = None,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
    path: str | os.PathLike | None = None,
) -> Figure:
    """Draw the magnitude of the contact force on each body over time, and the total upward force.

    Args:
        recording: A recording made with `Recorder(..., solver=solver)`.
        bodies: Names of bodies; None for all that touch something.
        worlds: Worlds of the recording, drawn as by `plot_joints`; None for all.
        frames: Frames; None for all, or 2000 spread evenly.
        path: File to write; None for none.

    Raises:
        RecordingError: The recording does not contain the quantity.
    """
    return _panels(recording, contact_series(recording, bodies, worlds, frames), frames, path)


def plot_energy(
    recording: Recording,
    *,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
    path: str | os.PathLike | None = None,
) -> Figure:
    """Draw kinetic energy, potential energy in gravity and their sum over time.

    Args:
        recording: Holds positions and velocities.
        worlds: Worlds of the recording, drawn as by `plot_joints`; None for all.
        frames: Frames; None for all, or 2000 spread evenly.
        path: File to write; None for none.

    Raises:
        RecordingError: The recording does not contain the quantity.
    """
    figure = new_figure((7.0, 4.0))
    axes = figure.subplots()
    draw_energy(axes, recording, worlds, frames)
    return _finished(figure, path)


def draw_energy(
    axes: Axes,
    recording: Recording,
    worlds: Iterable[int] | None = None,
    frames: slice | Sequence[int] | None = None,
) -> None:
    """Draw the plot of `plot_energy` into axes."""
    times = recording.times[chosen_frames(recording, frames)]
    for part, color in zip(energies(recording, worlds, frames), COLORS):
        draw_worlds(axes, times, part.values, color, part.name)
    axes.set(xlabel="time [s]", ylabel=part.label)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)


def draw_worlds(
    axes: Axes, times: np.ndarray, values: np.ndarray, color: str, label: str | None = None
) -> None:
    """Draw a quantity of all worlds: as lines, or as median and bands of 90 % and of all.

    Args:
        axes: The axes.
        times: Shape (frames,) [s].
        values: Shape (frames, worlds); non-finite values are left out.
        color: Colour.
        label: Text of the legend.
    """
    if values.shape[1] <= MOST_LINES:
        for world in range(values.shape[1]):
            axes.plot(times, values[:, world], color=color, linewidth=1.0, label=label)
            label = None
        return
    finite = np.where(np.isfinite(values), values, np.nan)
    known = np.isfinite(values).any(axis=1)
    curves = np.full((5, len(values)), np.nan)
    curves[:, known] = np.nanpercentile(finite[known], [0, 5, 50, 95, 100], axis=1)
    low, five, middle, rest, high = curves
    axes.fill_between(times, low, high, color=color, alpha=0.12, linewidth=0.0)
    axes.fill_between(times, five, rest, color=color, alpha=0.28, linewidth=0.0)
    axes.plot(times, middle, color=color, linewidth=1.2, label=label)


def new_figure(size: tuple[float, float]) -> Figure:
    """Return a figure [inches] that belongs to no window system.

    Raises:
        NewtonsimError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NewtonsimError("plots need matplotlib: pip install 'newtonsim[plot]'") from error
    return Figure(figsize=size, layout="constrained")


def _panels(
    recording: Recording,
    parts: list[Series],
    frames: slice | Sequence[int] | None,
    path: str | os.PathLike | None,
) -> Figure:
    """Draw each series into a panel."""
    if not parts:
        raise NewtonsimError(f"{recording.path}: there is nothing to draw")
    columns = min(math.ceil(math.sqrt(len(parts))), 5)
    rows = math.ceil(len(parts) / columns)
    figure = new_figure((3.2 * columns + 0.6, 1.9 * rows + 0.6))
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).reshape(-1)
    times = recording.times[chosen_frames(recording, frames)]
    quantities = list(dict.fromkeys(part.label for part in parts))
    for panel, part in zip(panels, parts):
        draw_worlds(panel, times, part.values, COLORS[quantities.index(part.label) % len(COLORS)])
        panel.set_title(_in_lines(part.name), fontsize="small")
        panel.set_ylabel(part.label, fontsize="small")
        panel.tick_params(labelsize="small")
        panel.grid(alpha=0.3)
    for panel in panels[max(0, len(parts) - columns) : len(parts)]:
        panel.set_xlabel("time [s]", fontsize="small")
        panel.tick_params(labelbottom=True)
    for panel in panels[len(parts) :]:
        panel.set_visible(False)
    return _finished(figure, path)


def _in_lines(name: str) -> str:
    """Break a name that is wider than its panel after underscores, slashes and spaces."""
    lines = [""]
    for part in re.split(r"(?<=[_/ ])", name):
        if lines[-1] and len(lines[-1]) + len(part) > _TITLE:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _finished(figure: Figure, path: str | os.PathLike | None) -> Figure:
    """Write a figure to a file, if there is one."""
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure

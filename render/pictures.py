"""Still pictures with matplotlib: outlines of a scene, and curves of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import transform_point
from newtonsim.render.shapes import ShapeTable, shape_outline, world_grid

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State


def save_snapshot(
    path: str | os.PathLike,
    model: Model,
    state: State,
    *,
    worlds: Iterable[int],
    spacing: float,
    title: str = "",
) -> None:
    """Draw the outlines of all visible shapes of some worlds, seen from the front right and above.

    Args:
        path: PNG file to write.
        model: Model of the state.
        state: Its body poses are drawn.
        worlds: Worlds to draw, laid out on a grid.
        spacing: Distance of neighbours on the grid [m].
        title: Line above the picture.
    """
    figure, axes = _new_figure((11.0, 7.0), projection="3d")
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    table, worlds = ShapeTable.of(model), list(worlds)
    poses = table.poses(state.body_q.numpy().astype(float))
    lines, colors = [], []
    for world, offset in zip(
        worlds, world_grid(len(worlds), spacing, np.asarray(model.up_vector)), strict=True
    ):
        for shape in np.flatnonzero(table.visible & (table.world == world)):
            outline = shape_outline(int(table.kind[shape]), table.scale[shape], table.source[shape])
            # transform_point broadcasts one pose over the points of each line.
            lines += [transform_point(poses[shape], line) + offset for line in outline]
            colors += [table.color[shape]] * len(outline)
    if lines:
        points = np.concatenate(lines)
        low, high = points.min(axis=0), points.max(axis=0)
        _draw_ground(axes, model, low, high)
        axes.add_collection3d(Line3DCollection(lines, colors=colors, linewidths=0.9))
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(min(low[2], 0.0), high[2]))
        axes.set_box_aspect(np.maximum(high - np.minimum(low, [low[0], low[1], 0.0]), 1e-3))
        axes.locator_params(axis="z", nbins=3)
    axes.view_init(elev=22.0, azim=-55.0)
    axes.set(zlabel="z [m]", title=title)
    axes.set_xlabel("x [m]", labelpad=12)
    axes.set_ylabel("y [m]", labelpad=12)
    figure.savefig(path, dpi=130, bbox_inches="tight")


def save_curves(
    path: str | os.PathLike, panels: dict[str, tuple[np.ndarray, np.ndarray]], title: str = ""
) -> None:
    """Draw curves over time, one panel a quantity.

    Args:
        path: PNG file to write.
        panels: Label with unit -> (times (n,), values (n, curves)).
        title: Line above the picture.
    """
    figure, axes = _new_figure((9.0, 2.6 * len(panels) + 0.6), rows=len(panels))
    for axis, (label, (time, values)) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        axis.plot(time, values, linewidth=0.8)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[-1].set_xlabel("time [s]")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)


def _new_figure(size: tuple[float, float], rows: int = 1, projection: str | None = None) -> tuple:
    """Return a figure that belongs to no window system, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, 1, sharex=rows > 1, subplot_kw={"projection": projection})


def _draw_ground(axes, model: Model, low: np.ndarray, high: np.ndarray) -> None:
    """Draw the ground as a grey patch under the scene, where it is a height over x and y."""
    if not model.ground:
        return
    nx, ny, nz, d = (float(v) for v in np.asarray(model.ground_plane, dtype=float))
    if abs(nz) < 1e-3:
        return
    x, y = np.meshgrid([low[0], high[0]], [low[1], high[1]])
    axes.plot_surface(x, y, -(nx * x + ny * y + d) / nz, color=(0.6, 0.6, 0.62), alpha=0.35, zorder=-1)

"""Infinite planes, drawn as grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import quat_between, quat_multiply, quat_rotate
from newtonsim.render.shapes import ShapeTable
from newtonsim.render.viewer.bodies import is_endless

if TYPE_CHECKING:
    import viser

_LIFT = 1.0e-3
"""Depth of a grid below its plane, as a fraction of a cell, so that bodies on it do not flicker."""


_NEAR = 2.0
"""Height above the ground up to which the ground is shown too, relative to the size of what is above."""


def add_grounds(server: viser.ViserServer, table: ShapeTable, extent: float) -> list[viser.GridHandle]:
    """Add the static infinite planes to the scene.

    Args:
        server: The server.
        table: The shapes.
        extent: Size of the scene [m], which sets that of the cells.
    """
    cell = _round_size(0.25 * extent)
    upward = quat_between(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]))
    handles = []
    seen: set[tuple] = set()
    for i in np.flatnonzero(is_endless(table) & (table.body < 0)):
        pose = table.transform[i]
        # every world may bring its own
        if tuple(np.round(pose, 6)) in seen:
            continue
        seen.add(tuple(np.round(pose, 6)))
        turn = quat_multiply(pose[3:], upward)
        below = quat_rotate(pose[3:], np.array([0.0, -_LIFT * cell, 0.0]))
        handles.append(
            server.scene.add_grid(
                f"/ground/{i}",
                infinite_grid=True,
                plane="xy",
                cell_size=cell,
                section_size=5.0 * cell,
                cell_color=(205, 208, 214),
                section_color=(165, 170, 180),
                cell_thickness=0.8,
                section_thickness=1.0,
                plane_color=(238, 240, 243),
                plane_opacity=1.0,
                shadow_opacity=0.35,
                fade_distance=40.0 * extent + 20.0,
                fade_from="camera",
                position=pose[:3] + below,
                wxyz=turn[[3, 0, 1, 2]],
            )
        )
    return handles


def ground_below(table: ShapeTable, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return where a box (3,), (3,) [m] would land on nearby infinite planes, shape (n, 3)."""
    planes = np.flatnonzero(is_endless(table) & (table.body < 0))
    centre, reach = 0.5 * (lower + upper), _NEAR * np.linalg.norm(upper - lower)
    pose = table.transform[planes]
    normal = quat_rotate(pose[:, 3:], np.broadcast_to([0.0, 1.0, 0.0], (len(planes), 3)))
    height = np.sum((centre - pose[:, :3]) * normal, axis=1)
    near = (height > 0.0) & (height < reach)
    return (centre - height[:, None] * normal)[near]


def _round_size(size: float) -> float:
    """Return the nearest of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(max(size, 1.0e-6)))
    return float(power * min((1.0, 2.0, 5.0, 10.0), key=lambda step: abs(step - size / power)))

"""Where a camera must be to see what moves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError
from newtonsim.geometry.transforms import transform_point
from newtonsim.render.camera.rows import primitive_extents
from newtonsim.render.shapes import ShapeTable
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

AZIMUTH, ELEVATION, FIELD_OF_VIEW = -55.0, 18.0, 35.0


class Subject:
    """What a picture shows of each world: robots, other bodies and particles, or all if nothing can move.

    Args:
        model: The model.
        worlds: Worlds to show.
    """

    def __init__(self, model: Model, worlds: np.ndarray):
        self.worlds = worlds
        table = ShapeTable.of(model)
        self._particle_world = model.particle_world.numpy()
        self._grain = model.particle_radius.numpy().astype(np.float64)[:, None]
        shown = table.visible & (table.kind != GeoType.PLANE) & (table.kind != GeoType.NONE)
        moves = in_moving_trees(model)[table.body]
        if (shown & moves).any() or len(self._particle_world):
            shown &= moves
        rows = np.flatnonzero(shown)
        self._world, self._body = table.world[rows], table.body[rows]
        corners = _local_corners(table, rows)
        self._corners = transform_point(table.transform[rows, None], corners)

    def boxes(self, state: State) -> np.ndarray:
        """Return lower and upper corner of a box about what each world shows, (worlds, 2, 3) [m]."""
        lower, upper, world = self._bounds(state)
        boxes = np.tile([[-1.0] * 3, [1.0] * 3], (len(self.worlds), 1, 1))
        for row, number in enumerate(self.worlds):
            mine = world == number
            mine = mine if mine.any() else world < 0
            if mine.any():
                boxes[row] = lower[mine].min(axis=0), upper[mine].max(axis=0)
        return boxes

    def _bounds(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return lower corners, upper corners and worlds of all that is shown and finite."""
        corners = self._corners.copy()
        moving = self._body >= 0
        if moving.any():
            pose = state.body_q.numpy().astype(np.float64)[self._body[moving]]
            corners[moving] = transform_point(pose[:, None], corners[moving])
        lower, upper, world = corners.min(axis=1), corners.max(axis=1), self._world
        if len(self._particle_world):
            place = state.particle_q.numpy().astype(np.float64)
            lower = np.concatenate([lower, place - self._grain])
            upper = np.concatenate([upper, place + self._grain])
            world = np.concatenate([world, self._particle_world])
        finite = np.isfinite(lower).all(axis=1)
        return lower[finite], upper[finite], world[finite]


def in_moving_trees(model: Model) -> np.ndarray:
    """Tell which bodies are on articulations of which something can move; a robot's fixed base is one.

    Returns:
        Bool, shape (bodies + 1,): the last entry is that of the world, which shapes without a body have.
    """
    if model.contact_rules is None or not model.body_count:
        return np.zeros(model.body_count + 1, bool)
    body = model.shape_body.numpy()
    tree = np.full(model.body_count + 1, -1)
    starts = model.articulation_start.numpy()
    joints = np.searchsorted(starts, np.arange(model.joint_count), side="right") - 1
    tree[model.joint_child.numpy()] = joints
    moves = np.zeros(len(starts) + 1, bool)
    moves[tree[body[model.contact_rules.rigid >= 0]]] = True
    moves[-1] = False
    return moves[tree]


def _local_corners(table: ShapeTable, rows: np.ndarray) -> np.ndarray:
    """Return the corners of boxes about shapes in their own frames, (rows, 8, 3) [m]."""
    half = primitive_extents(table.kind[rows], table.scale[rows])
    bounds = np.stack([-half, half], axis=1)
    for k, row in enumerate(rows.tolist()):
        if table.source[row] is not None:
            bounds[k] = np.stack(table.source[row].bounds()) * table.scale[row]
    return np.stack([bounds[:, [a, b, c], [0, 1, 2]] for a in (0, 1) for b in (0, 1) for c in (0, 1)], axis=1)


def view_of(
    boxes: npt.ArrayLike,
    up: npt.ArrayLike,
    aspect: float,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FIELD_OF_VIEW,
) -> tuple[np.ndarray, np.ndarray]:
    """Return where cameras see whole boxes, all from the same side and distance.

    Args:
        boxes: Lower and upper corners, shape (n, 2, 3) [m].
        up: Direction that is up (3,).
        aspect: Width over height of the picture.
        azimuth: Direction from the box to the camera about `up` [degrees], from x (from z if y is up).
        elevation: Its angle above the horizon [degrees].
        fov: Vertical field of view [degrees].

    Returns:
        Eyes and targets, each (n, 3) [m].
    """
    boxes, up = np.asarray(boxes, np.float64), np.asarray(up, np.float64)
    if not -90.0 < elevation < 90.0:
        raise NewtonsimError(f"elevation: expected an angle between -90 and 90 degrees, got {elevation}")
    side = np.roll(up, 1)
    side -= up * (side @ up)
    side /= np.linalg.norm(side)
    turn, rise = math.radians(azimuth), math.radians(elevation)
    level = math.cos(turn) * side + math.sin(turn) * np.cross(up, side)
    back = math.cos(rise) * level + math.sin(rise) * up
    targets = boxes.mean(axis=1)
    # every corner of the largest box lies within the upper, lower and side planes of the view
    half = 0.5 * np.ptp(boxes, axis=1).max(axis=0)
    corners = np.stack(np.meshgrid(*([-1.0, 1.0],) * 3), axis=-1).reshape(-1, 3) * half
    right = np.cross(up, back) / np.linalg.norm(np.cross(up, back))
    tall = math.tan(0.5 * math.radians(fov))
    across = np.abs(corners @ right) / (tall * aspect)
    along = np.abs(corners @ np.cross(back, right)) / tall
    distance = 1.08 * float((np.maximum(across, along) + corners @ back).max())
    return targets + max(distance, 1e-3) * back, targets

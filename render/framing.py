"""Where a camera has to be to see what moves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.enums import ShapeFlags
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State

AZIMUTH, ELEVATION, FIELD_OF_VIEW = -55.0, 18.0, 35.0
_ENDLESS = 1.0e5
"""Radius from which on a shape has no end [m]."""


class Subject:
    """What a picture shows of each world: the bodies and particles, or what stands still if there are none.

    Args:
        model: The model.
        worlds: Worlds to show.
    """

    def __init__(self, model: Model, worlds: np.ndarray):
        self.worlds = worlds
        self._up = np.asarray(model.up_vector, np.float64)
        visible = (model.shape_flags.numpy().astype(np.uint32) & int(ShapeFlags.VISIBLE)) != 0
        self._radius = model.shape_collision_radius.numpy().astype(np.float64)
        self._usable = visible & (self._radius < _ENDLESS)
        self._body = model.shape_body.numpy()
        self._place = model.shape_transform.numpy().astype(np.float64)[:, :3]
        self._shape_world, self._particle_world = model.shape_world.numpy(), model.particle_world.numpy()
        self._grain = model.particle_radius.numpy().astype(np.float64)

    def boxes(self, state: State) -> np.ndarray:
        """Return lower and upper corner of a box about what each world shows, (worlds, 2, 3) [m]."""
        centers, radii, worlds = self._spheres(state)
        boxes = np.zeros((len(self.worlds), 2, 3))
        for row, world in enumerate(self.worlds):
            mine = worlds == world
            if not mine.any():
                mine = worlds < 0
            if mine.any():
                boxes[row, 0] = (centers[mine] - radii[mine, None]).min(axis=0)
                boxes[row, 1] = (centers[mine] + radii[mine, None]).max(axis=0)
            else:
                boxes[row] = [[-1.0] * 3, [1.0] * 3]
        return boxes

    def _spheres(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return centres, radii and worlds of spheres about everything that is to be seen."""
        from newtonsim.geometry.transforms import transform_point

        moving = self._usable & (self._body >= 0)
        still = self._usable & (self._body < 0)
        particles = len(self._particle_world) > 0
        shown = moving if moving.any() or particles else still
        centers = self._place[shown]
        if shown is moving and shown.any():
            pose = state.body_q.numpy().astype(np.float64)[self._body[shown]]
            centers = transform_point(pose, centers)
        parts = [(centers, self._radius[shown], self._shape_world[shown])]
        if particles:
            parts.append((state.particle_q.numpy().astype(np.float64), self._grain, self._particle_world))
        centers, radii, worlds = (np.concatenate(columns) for columns in zip(*parts))
        finite = np.isfinite(centers).all(axis=1)
        return centers[finite], radii[finite], worlds[finite]


def view_of(
    boxes: npt.ArrayLike,
    up: npt.ArrayLike,
    aspect: float,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FIELD_OF_VIEW,
) -> tuple[np.ndarray, np.ndarray]:
    """Return where a camera sees boxes whole, all from the same side and distance.

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

"""Pictures of the worlds of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.render import Camera, look_at

if TYPE_CHECKING:
    from newtonsim.envs.task import Task
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class EnvCamera:
    """One camera in each world, which moves and turns with the robot if the task says so.

    Args:
        task: Defines its place.
        model: The model.
        width: Columns.
        height: Rows.
    """

    def __init__(self, task: Task, model: Model, width: int, height: int):
        self._task, self._bodies = task, model.body_count // model.world_count
        self._worlds = model.world_count
        self._points = task.camera_pose()
        self._camera = Camera(model, width, height, pose=look_at(*self._points))

    def take(self, state: State) -> np.ndarray:
        """Return the pictures of a state, RGB (worlds, height, width, 3) uint8."""
        shift, heading = np.zeros((self._worlds, 3)), np.zeros(self._worlds)
        if self._task.camera_follows:
            place = np.nan_to_num(state.body_q.numpy()[:: self._bodies])
            shift[:, :2] = place[:, :2]
            if self._task.camera_turns:
                heading = _heading(place[:, 3:])
            if self._task.has_terrain:
                shift[:, 2] = place[:, 2] - self._points[1][2]
        eyes, targets = (shift + _turned(point, heading) for point in self._points)
        self._camera.move(look_at(eyes, targets)[:, None])
        return self._camera.render(state)["rgb"].numpy()[:, 0].copy()


def _heading(turns: np.ndarray) -> np.ndarray:
    """Return the heading of the x axis [rad], (worlds,), of quaternions xyzw (worlds, 4)."""
    x, y, z, w = turns.T
    return np.arctan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))


def _turned(point: tuple[float, float, float], angle: np.ndarray) -> np.ndarray:
    """Return a point rotated about the vertical by angles (worlds,), shape (worlds, 3)."""
    x, y, z = point
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * x - sin * y, sin * x + cos * y, np.full_like(cos, z)], axis=1)

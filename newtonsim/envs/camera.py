"""Pictures of the worlds of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.render import Camera, look_at

if TYPE_CHECKING:
    from newtonsim.envs.task import Task
    from newtonsim.model import Model
    from newtonsim.state import State


class EnvCamera:
    """One camera in each world, which moves along with the robot, over the ground, if the task says so.

    Args:
        task: Says where it is.
        model: The model.
        width: Columns.
        height: Rows.
    """

    def __init__(self, task: Task, model: Model, width: int, height: int):
        self._task, self._bodies = task, model.body_count // model.world_count
        self._worlds = model.world_count
        self._camera = Camera(model, width, height, pose=look_at(task.camera_eye, task.camera_target))

    def take(self, state: State) -> np.ndarray:
        """Return the pictures of a state, RGB (worlds, height, width, 3) uint8."""
        shift = np.zeros((self._worlds, 3))
        if self._task.camera_follows:
            place = np.nan_to_num(state.body_q.numpy()[:: self._bodies, :3])
            shift[:, :2] = place[:, :2]
            if self._task.has_terrain:
                shift[:, 2] = place[:, 2] - self._task.camera_target[2]
        eyes, targets = shift + self._task.camera_eye, shift + self._task.camera_target
        self._camera.move(look_at(eyes, targets)[:, None])
        return self._camera.render(state)["rgb"].numpy()[:, 0].copy()

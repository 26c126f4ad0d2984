"""Videos of the window of a GUI client, with or without a window."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat.api.debug_items import DebugItems, getDebugVisualizerCamera
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.render.films.video import VideoWriter

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

FRAMES_PER_SECOND = 60


class VideoLogger:
    """Writes an MP4 file: 60 pictures for every simulated second, of the first world.

    Without a library for it, or without a file, a warning says so and nothing is written.

    Args:
        client: A client connected as GUI.
        path: The file.
    """

    of_world = False

    def __init__(self, client: Client, path: str):
        self._client = client
        self._size = client.part(DebugItems).window  # that of the page may change
        self._time = 0.0
        self._pictures = 0
        self._writer: VideoWriter | None = None
        try:
            self._writer = VideoWriter(path, FRAMES_PER_SECOND)
        except (OSError, NewtonsimError) as failure:
            warnings.warn(f"no video is written: {failure}", stacklevel=4)

    def before_step(self, engine: Engine) -> None:
        """Do nothing."""

    def after_step(self, engine: Engine) -> None:
        """Add the pictures that are due."""
        self._time += self._client.settings.time_step
        due = int(self._time * FRAMES_PER_SECOND + 1e-6) - self._pictures
        if due > 0 and self._writer is not None:
            picture = self._picture()
            for _ in range(due):
                self._send(picture)
        self._pictures += max(due, 0)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _send(self, picture: np.ndarray) -> None:
        if self._writer is None:
            return
        try:
            self._writer.add(picture)
        except (OSError, NewtonsimError) as failure:  # the disk is full, or the window has another size
            self._writer = None
            warnings.warn(f"the video ends: {failure}", stacklevel=6)

    def _picture(self) -> np.ndarray:
        """Return what the camera of the window sees, RGB (height, width, 3)."""
        from newtonsim.pybullet_compat.api.rendering import getCameraImage

        width, height = self._size
        view, projection = getDebugVisualizerCamera(self._client)[2:4]
        pixels = getCameraImage(self._client, width, height, viewMatrix=view, projectionMatrix=projection)[2]
        pixels = np.asarray(pixels, dtype=np.uint8).reshape(-1, height, width, 4)
        return pixels[0, :, :, :3]

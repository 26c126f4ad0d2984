"""The cameras of the browsers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    import viser


@dataclass(frozen=True)
class View:
    """Where a camera is.

    Attributes:
        position: The eye (3,) [m].
        target: What it looks at (3,) [m].
        up: Direction that is up in the picture (3,).
        fov: Vertical field of view [rad].
        size: Width and height of the picture in pixels, (0, 0) without a browser.
    """

    position: np.ndarray
    target: np.ndarray
    up: np.ndarray
    fov: float
    size: tuple[int, int]


class ViewerCamera:
    """Moves the cameras of all browsers, also of those that connect later.

    Args:
        server: The server.
        up: Up direction of the scene (3,).
    """

    def __init__(self, server: viser.ViserServer, up: np.ndarray):
        self._server, self._up = server, np.asarray(up, float)
        server.scene.set_up_direction(tuple(self._up))
        server.initial_camera.fov = np.radians(45.0)
        self._position, self._target = np.array([3.0, 3.0, 3.0]), np.zeros(3)

    def look(self, position: npt.ArrayLike, target: npt.ArrayLike) -> None:
        """Place the cameras.

        Args:
            position: The eye (3,) [m].
            target: What to look at (3,) [m].

        Raises:
            NewtonsimError: They are not finite, or coincide.
        """
        eye, aim = np.array(position, float), np.array(target, float)
        if eye.shape != (3,) or aim.shape != (3,) or not np.isfinite([eye, aim]).all():
            raise NewtonsimError(f"camera: expected two points, got {position!r} and {target!r}")
        if np.linalg.norm(eye - aim) < 1e-9:
            raise NewtonsimError(f"camera: it cannot look at its own position {eye}")
        self._position, self._target = eye, aim
        self._server.initial_camera.position = eye
        self._server.initial_camera.look_at = aim
        for client in self._server.get_clients().values():
            client.camera.position = eye
            client.camera.look_at = aim

    def open(self, fov: float) -> None:
        """Choose the vertical field of view [rad] of all cameras."""
        self._server.initial_camera.fov = fov
        for client in self._server.get_clients().values():
            client.camera.fov = fov

    def frame(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Look at a box from the side and half from above."""
        centre = 0.5 * (lower + upper)
        radius = max(0.5 * float(np.linalg.norm(upper - lower)), 0.05)
        sideways = np.roll(self._up, 1)
        forward = np.cross(sideways, self._up)
        direction = 0.85 * sideways + 0.75 * forward + 0.55 * self._up
        self.look(centre + 3.0 * radius * direction / np.linalg.norm(direction), centre)

    @property
    def view(self) -> View:
        """The camera of the browser that connected first, or the start pose of a camera."""
        for client in self._server.get_clients().values():
            camera = client.camera
            size = (int(camera.image_width), int(camera.image_height))
            return View(camera.position, camera.look_at, camera.up_direction, camera.fov, size)
        fov = float(self._server.initial_camera.fov)
        return View(self._position, self._target, self._up, fov, (0, 0))

    def on_move(self, callback: Callable[[View], None]) -> None:
        """Register a function to be called when the camera of a browser moves."""

        def listen(client: viser.ClientHandle) -> None:
            @client.camera.on_update
            def _(camera: viser.CameraHandle) -> None:
                size = (int(camera.image_width), int(camera.image_height))
                callback(View(camera.position, camera.look_at, camera.up_direction, camera.fov, size))

        self._server.on_client_connect(listen)

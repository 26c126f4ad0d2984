"""Synchronisation of the page with the camera and the settings of configureDebugVisualizer."""

from __future__ import annotations

import math
import time

import numpy as np

from newtonsim.pybullet_compat.api.debug_items import DebugCamera, DebugItems, camera_axes
from newtonsim.pybullet_compat.surface import constants as c
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.camera import View

_SETTLED, _LOADED = 1.0, 5.0
"""Time after which a page has certainly received a new camera, and its first one [s]."""
_STEEPEST = 89.9
"""The page's camera cannot look straight up or down [degrees]."""


class Sight:
    """Applies a client's camera and appearance to the page, and records how users move the camera.

    Args:
        viewer: The page.
        items: Has camera and settings.
    """

    def __init__(self, viewer: Viewer, items: DebugItems):
        self._viewer, self._items = viewer, items
        self._camera: DebugCamera | None = None
        self._view: View | None = None
        self._settled_at, self._pages = -math.inf, 0
        self._flags: dict[int, bool] = {}
        self._values: dict[str, object] = {}
        viewer.camera.open(math.radians(90.0))
        viewer.camera.on_move(self._note)

    @property
    def is_rendering(self) -> bool:
        """Whether bodies are shown as they move."""
        return self._flags.get(c.COV_ENABLE_RENDERING, True)

    def refresh(self) -> None:
        """Exchange what has changed."""
        items, pages = self._items, self._viewer.client_count
        if pages > self._pages:  # its camera is initially elsewhere
            self._settled_at, self._view = time.monotonic() + _LOADED, None
        self._pages = pages
        size = self._viewer.camera.view.size
        if min(size) > 0:
            items.window = size
        if items.camera is not self._camera:
            self._camera, self._view = items.camera, None
            self._settled_at = time.monotonic() + _SETTLED
            self._viewer.camera.look(_eye(self._camera), self._camera.target)
        elif self._view is not None:
            view, self._view = self._view, None
            moved = camera_of(view)
            if not _alike(moved, self._camera):
                self._camera = items.camera = moved
        self._apply_settings()

    def _note(self, view: View) -> None:
        """Apply a user's camera motion, unless it preceded a change of the camera by the script."""
        if time.monotonic() < self._settled_at and self._camera is not None:
            if not _alike(camera_of(view), self._camera):
                return
            self._settled_at = -math.inf
        self._view = view

    def _apply_settings(self) -> None:
        settings, viewer = self._items.settings, self._viewer
        if settings.flags != self._flags:
            changed = {f: on for f, on in settings.flags.items() if self._flags.get(f) != on}
            self._flags = dict(settings.flags)
            if c.COV_ENABLE_GUI in changed:
                viewer.show_controls(changed[c.COV_ENABLE_GUI])
            if c.COV_ENABLE_SHADOWS in changed:
                viewer.show_shadows(changed[c.COV_ENABLE_SHADOWS])
            if c.COV_ENABLE_WIREFRAME in changed:
                wires = changed[c.COV_ENABLE_WIREFRAME]
                viewer.show_shapes(*(("hidden", "wireframe") if wires else ("solid", "hidden")))
            if c.COV_ENABLE_MOUSE_PICKING in changed:
                viewer.mouse.can_grab = changed[c.COV_ENABLE_MOUSE_PICKING]
        if settings.values != self._values:
            self._values = dict(settings.values)
            if "rgbBackground" in self._values:
                viewer.paint_background(self._values["rgbBackground"])


def camera_of(view: View) -> DebugCamera:
    """Return where a camera of the page is, as PyBullet says it."""
    away = np.asarray(view.target, float) - view.position
    distance = float(np.linalg.norm(away))
    x, y, z = away / max(distance, 1.0e-9)
    yaw, pitch = math.degrees(math.atan2(-x, y)), math.degrees(math.asin(min(max(z, -1.0), 1.0)))
    return DebugCamera(distance, yaw, pitch, tuple(float(value) for value in view.target))


def _eye(camera: DebugCamera) -> np.ndarray:
    """Where the page's camera is put (3,)."""
    pitch = (camera.pitch + 180.0) % 360.0 - 180.0
    if abs(abs(pitch) - 90.0) < 90.0 - _STEEPEST:
        pitch = math.copysign(_STEEPEST, pitch)
    steep = DebugCamera(max(camera.distance, 1.0e-3), camera.yaw, pitch, camera.target)
    return np.array(camera.target) - steep.distance * camera_axes(steep)[2]


def _alike(one: DebugCamera, other: DebugCamera) -> bool:
    """Whether two cameras are the same, up to rounding by the page."""
    eyes, targets = _eye(one) - _eye(other), np.subtract(one.target, other.target)
    return max(np.abs(eyes).max(), np.abs(targets).max()) < 1.0e-3 * max(other.distance, 1.0e-3)

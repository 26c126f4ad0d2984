"""Debug lines, points and texts on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from newtonsim.geometry.transforms import quat_multiply, quat_rotate, transform_multiply
from newtonsim.pybullet_compat.api.debug_items import DebugCamera, DebugItem, DebugItems, camera_axes
from newtonsim.render.viewer import Viewer

LETTER = 0.1
"""Height of letters of size 1 [m]."""
_PIXELS = 48
_STRAIGHT = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
_UPRIGHT, _OVER = np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0])

Pose = Callable[["tuple[int, int] | None"], "np.ndarray | None"]
"""Returns where a link (body unique id, link index) is shown (7,), None for one that is not there."""


@dataclass(slots=True, eq=False)
class _Drawn:
    """Handles of an item on the page."""

    item: DebugItem
    number: int
    pose: np.ndarray | None = None


class ItemDrawer:
    """Synchronises the drawings of a page with the items of a client.

    Args:
        viewer: The page.
        items: The items.
    """

    def __init__(self, viewer: Viewer, items: DebugItems):
        self._viewer, self._items = viewer, items
        self._drawn: dict[int, _Drawn] = {}

    def refresh(self, pose_of: Pose, facing: np.ndarray) -> None:
        """Draw what is new, remove what is gone, and follow the links.

        Args:
            pose_of: Where links are, and where the world is for None.
            facing: Orientation of texts that face the camera (4,).
        """
        self._items.drop_expired()
        items = self._items.items
        for uid in [uid for uid, drawn in self._drawn.items() if items.get(uid) is not drawn.item]:
            self._viewer.draw.remove(self._drawn.pop(uid).number)
        for uid, item in items.items():
            if uid not in self._drawn:
                self._drawn[uid] = _Drawn(item, self._draw(item))
            self._move(self._drawn[uid], pose_of, facing)

    def _draw(self, item: DebugItem) -> int:
        draw = self._viewer.draw
        if item.kind == "line":
            return draw.lines(item.points[None], item.colors[0], item.size)
        if item.kind == "points":
            return draw.points(item.points, item.colors, item.size * self._pixel())
        image = text_picture(item.text, tuple(item.colors[0].tolist()))
        return draw.picture(image, _STRAIGHT, LETTER * item.size * image.shape[1] / _PIXELS)

    def _pixel(self) -> float:
        """Size of a pixel at the target of the camera [m]; the page has points of a size in metres."""
        camera: DebugCamera = self._items.camera
        return 2.0 * camera.distance / self._items.window[1]

    def _move(self, drawn: _Drawn, pose_of: Pose, facing: np.ndarray) -> None:
        item = drawn.item
        pose = pose_of(item.parent)
        pose = _STRAIGHT if pose is None else pose
        if item.kind == "text":
            turn = _UPRIGHT if item.orientation is None else np.array(item.orientation)
            place = transform_multiply(pose, np.concatenate([item.points[0], turn]))
            place[3:] = facing if item.orientation is None else quat_multiply(place[3:], _OVER)
            # the item's position is where the text begins
            image = text_picture(item.text, tuple(item.colors[0].tolist()))
            half = 0.5 * LETTER * item.size * np.array([image.shape[1] / _PIXELS, -1.0, 0.0])
            place[:3] += quat_rotate(place[3:], half)
            pose = place
        if drawn.pose is None or not np.array_equal(pose, drawn.pose):
            self._viewer.draw.attach(drawn.number, pose)
            drawn.pose = pose


@lru_cache(maxsize=256)
def text_picture(text: str, color: tuple[float, float, float]) -> np.ndarray:
    """Return a text as an image with a clear background (rows, columns, 4)."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_PIXELS - 12)
    left, _, right, bottom = font.getbbox(text or " ")
    lines = text.count("\n") + 1
    picture = Image.new("L", (max(int(right - left), 1) + 4, max(_PIXELS, int(bottom)) * lines), 0)
    ImageDraw.Draw(picture).text((2 - left, 0), text, fill=255, font=font)
    rgb = np.round(255.0 * np.clip(np.asarray(color), 0.0, 1.0)).astype(np.uint8)
    alpha = np.asarray(picture)
    return np.concatenate([np.broadcast_to(rgb, (*alpha.shape, 3)), alpha[..., None]], axis=2)


def facing_camera(camera: DebugCamera) -> np.ndarray:
    """Return the orientation (4,) of pictures that face the camera: x to the right, y down, z away."""
    from scipy.spatial.transform import Rotation

    right, up, forward = camera_axes(camera)
    return Rotation.from_matrix(np.stack([right, -up, forward], axis=1)).as_quat()

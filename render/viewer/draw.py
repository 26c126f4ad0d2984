"""Drawings that users add to the scene."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    import viser

Color = npt.ArrayLike
"""RGB in 0..1 (3,), or one for each thing that is drawn (n, 3)."""


class Draw:
    """Lines, points and texts in world coordinates, each identified by a number.

    Each method returns the number; given one as `replace`, it changes that drawing, which flickers less than
    removing it and drawing again. All may be called from any thread.

    Args:
        server: The server.
    """

    def __init__(self, server: viser.ViserServer):
        self._server = server
        self._handles: dict[int, list[viser.SceneNodeHandle]] = {}
        self._next = itertools.count(1)
        self._lock = threading.RLock()

    def line(
        self,
        start: npt.ArrayLike,
        end: npt.ArrayLike,
        color: Color = (1.0, 0.0, 0.0),
        width: float = 2.0,
        replace: int | None = None,
    ) -> int:
        """Draw a line from start (3,) to end (3,) [m], width in pixels."""
        ends = np.stack([_rows("start", start, 3), _rows("end", end, 3)], axis=1)
        return self.lines(ends, color, width, replace)

    def lines(
        self,
        ends: npt.ArrayLike,
        color: Color = (1.0, 0.0, 0.0),
        width: float = 2.0,
        replace: int | None = None,
    ) -> int:
        """Draw lines with ends (n, 2, 3) [m], width in pixels; one colour for all, or one per line."""
        ends = _rows("ends", ends, 6).reshape(-1, 2, 3)
        colors = _colors(color, len(ends))
        colors = colors if colors.ndim == 1 else np.repeat(colors[:, None], 2, axis=1)
        with self._lock:
            number = self._begin(replace)
            self._keep(
                number,
                self._server.scene.add_line_segments(
                    f"/drawn/{number}/lines",
                    ends,
                    colors,
                    thickness=width,
                    thickness_units="screen",
                    visible=len(ends) > 0,
                ),
            )
        return number

    def points(
        self,
        points: npt.ArrayLike,
        color: Color = (1.0, 0.0, 0.0),
        size: float = 0.01,
        replace: int | None = None,
    ) -> int:
        """Draw points (n, 3) [m] of a diameter [m]; one colour for all, or one per point."""
        points = _rows("points", points, 3)
        colors = _colors(color, len(points))
        with self._lock:
            number = self._begin(replace)
            self._keep(
                number,
                self._server.scene.add_point_cloud(
                    f"/drawn/{number}/points",
                    points,
                    colors,
                    point_size=0.5 * size,  # half of what is drawn
                    point_shape="circle",
                    precision="float32",
                ),
            )
        return number

    def text(
        self,
        text: str,
        position: npt.ArrayLike,
        height: float | None = None,
        replace: int | None = None,
    ) -> int:
        """Write text at a position (3,) [m], facing the camera.

        Args:
            text: What to write.
            position: Where its lower left corner is.
            height: Height of the letters [m]; None for the same size at any distance.
            replace: Drawing to change.
        """
        place = _rows("position", position, 3)[0]
        size = {} if height is None else {"font_size_mode": "scene", "font_scene_height": height}
        with self._lock:
            number = self._begin(replace)
            self._keep(
                number,
                self._server.scene.add_label(
                    f"/drawn/{number}/text", str(text), position=place, anchor="bottom-left", **size
                ),
            )
        return number

    def picture(
        self, image: np.ndarray, pose: npt.ArrayLike, width: float, replace: int | None = None
    ) -> int:
        """Put an image at a pose (7,) of its middle, with x to the right, y down and z away from the viewer.

        Args:
            image: Shape (rows, columns, 3 or 4), uint8; a fourth channel is its opacity.
            pose: Position [m] and quaternion xyzw.
            width: Its width [m].
            replace: Drawing to change.
        """
        place = _rows("pose", pose, 7)[0]
        height = width * image.shape[0] / image.shape[1]
        with self._lock:
            number = self._begin(replace)
            node = self._server.scene.add_image(
                f"/drawn/{number}/picture",
                image,
                width,
                height,
                format="png",
                cast_shadow=False,
                receive_shadow=False,
                position=place[:3],
                wxyz=place[[6, 3, 4, 5]],
            )
            self._keep(number, node)
        return number

    def attach(self, number: int, pose: npt.ArrayLike) -> None:
        """Move a drawing to a pose (7,), quaternion xyzw; its coordinates are then in this frame.

        Raises:
            NewtonsimError: There is no such drawing.
        """
        pose = _rows("pose", pose, 7)[0]
        with self._lock:
            if number not in self._handles:
                raise NewtonsimError(f"there is no drawing {number}")
            for handle in self._handles[number]:
                handle.position, handle.wxyz = pose[:3], pose[[6, 3, 4, 5]]

    def remove(self, number: int) -> bool:
        """Remove a drawing; returns whether there was one."""
        with self._lock:
            handles = self._handles.pop(number, None)
            for handle in handles or ():
                handle.remove()
        return handles is not None

    def clear(self) -> None:
        """Remove all drawings."""
        with self._lock:
            for number in list(self._handles):
                self.remove(number)

    def _begin(self, replace: int | None) -> int:
        if replace is None:
            return next(self._next)
        if replace not in self._handles:
            raise NewtonsimError(f"replace: there is no drawing {replace}")
        return replace

    def _keep(self, number: int, handle: viser.SceneNodeHandle) -> None:
        """Record the node of a drawing; viser replaces a node of the same name, other nodes are removed."""
        for old in self._handles.get(number, ()):
            if old.name != handle.name:
                old.remove()
        self._handles[number] = [handle]


def _rows(name: str, values: npt.ArrayLike, width: int) -> np.ndarray:
    array = np.asarray(values, np.float32)
    if array.size % width or not np.isfinite(array).all():
        raise NewtonsimError(f"{name}: expected rows of {width} finite numbers, got {values!r}")
    return array.reshape(-1, width)


def _colors(color: Color, count: int) -> np.ndarray:
    array = np.asarray(color, np.float64)
    if array.shape not in ((3,), (count, 3)):
        raise NewtonsimError(f"color: expected shape (3,) or ({count}, 3), got {array.shape}")
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise NewtonsimError(f"color: expected RGB in 0..1, got {color!r}")
    return np.round(255.0 * array).astype(np.uint8)

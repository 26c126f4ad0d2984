"""Pictures of many worlds side by side, each seen alone by a ray camera that places itself."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError
from newtonsim.render.camera.lenses import Pinhole, look_at
from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.sensor import Camera
from newtonsim.render.films.framing import AZIMUTH, ELEVATION, FIELD_OF_VIEW, Subject, view_of
from newtonsim.render.recordings.worlds import check_worlds

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

QUALITIES = ("plain", "fine")

_REACH = 0.08
"""Distance within which surfaces occlude each other's ambient light, over that of the camera's target."""

_GAP = 2
"""Pixels between pictures."""


class PictureOptions(TypedDict, total=False):
    """Arguments of `Pictures`, which films and sheets also take."""

    worlds: Iterable[int] | None
    width: int
    height: int
    eye: npt.ArrayLike | None
    target: npt.ArrayLike | None
    follow: str | int | None
    azimuth: float
    elevation: float
    fov: float
    columns: int | None
    labels: Sequence[str] | None
    lighting: Lighting | None
    quality: str


class Pictures:
    """Pictures of chosen worlds, each seen alone, tiled into one.

    The camera sees all that moves in the states given to `frame`, from the same side in every world.

    Args:
        model: The model.
        worlds: Worlds to show; None for all.
        width: Columns of one world's picture.
        height: Rows of it.
        eye: Position of the camera [m], the same in all worlds; None to frame what moves.
        target: Point that it looks at [m]; needed only with `eye`.
        follow: Name of a body that the camera follows, or its index within its world.
        azimuth: Direction from which it looks without `eye`, about the vertical [degrees].
        elevation: Its angle above the horizon [degrees].
        fov: Vertical field of view [degrees].
        columns: Pictures side by side; None for a square.
        labels: Text on each picture; None for none, one for all worlds.
        lighting: See `newtonsim.render.Lighting`; None for that of the quality.
        quality: "plain", or "fine" with four samples a pixel, soft shadows, occluded ambient light and a sky,
            which takes some 20 times as long.

    Raises:
        ModelError: There is no such world or body.
        NewtonsimError: Arguments contradict each other.
    """

    def __init__(
        self,
        model: Model,
        *,
        worlds: Iterable[int] | None = None,
        width: int = 640,
        height: int = 480,
        eye: npt.ArrayLike | None = None,
        target: npt.ArrayLike | None = None,
        follow: str | int | None = None,
        azimuth: float = AZIMUTH,
        elevation: float = ELEVATION,
        fov: float = FIELD_OF_VIEW,
        columns: int | None = None,
        labels: Sequence[str] | None = None,
        lighting: Lighting | None = None,
        quality: str = "plain",
    ):
        if quality not in QUALITIES:
            raise NewtonsimError(f"quality: expected one of {', '.join(QUALITIES)}, got {quality!r}")
        if (eye is None) != (target is None):
            raise NewtonsimError("camera: give both eye and target, or neither")
        if columns is not None and columns < 1:
            raise NewtonsimError(f"columns: expected at least 1, got {columns}")
        self.model, self.worlds = model, check_worlds(model, worlds)
        if labels is not None and len(labels) != len(self.worlds):
            raise NewtonsimError(
                f"labels: expected {len(self.worlds)}, one for each world, got {len(labels)}"
            )
        self._side = (azimuth, elevation, fov)
        self._labels = labels
        self._columns = columns or math.ceil(math.sqrt(len(self.worlds)))
        self._subject = Subject(model, self.worlds)
        self._view: tuple[np.ndarray, np.ndarray] | None = None
        if eye is not None:
            shape = (len(self.worlds), 3)
            self._view = np.broadcast_to(eye, shape), np.broadcast_to(target, shape)
        self._camera = Camera(
            model,
            width,
            height,
            pose=look_at((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), model.up_vector),
            lens=Pinhole(fov=fov),
            worlds=self.worlds,
            lighting=lighting,
            samples=2 if quality == "fine" else 1,
        )
        self._fine = quality == "fine" and lighting is None
        self._followed = None if follow is None else self._find(follow)
        self._start: np.ndarray | None = None
        self._last: np.ndarray | None = None

    def frame(self, states: Iterable[State]) -> Pictures:
        """Frame all that moves in some states; with `follow`, in the first state and relative to the body."""
        if self._view is None:
            boxes = []
            for state in states:
                self.model.check_state(state)
                boxes.append(self._subject.boxes(state))
                if self._followed is not None:
                    break
            lower, upper = np.min(boxes, axis=0)[:, 0], np.max(boxes, axis=0)[:, 1]
            aspect = self._camera.width / self._camera.height
            self._view = view_of(np.stack([lower, upper], axis=1), self.model.up_vector, aspect, *self._side)
        return self

    def take(self, state: State) -> np.ndarray:
        """Return the picture of a state, RGB (height, width, 3) uint8.

        Raises:
            ModelError: It is the state of another model.
        """
        self.model.check_state(state)
        if self._view is None:
            self.frame([state])
        eyes, targets = self._view
        if self._fine:
            reach = _REACH * float(np.median(np.linalg.norm(targets - eyes, axis=1)))
            self._camera.light(Lighting.fine(self.model.up_vector, reach))
            self._fine = False
        shift = self._shift(state)
        poses = look_at(eyes + shift, targets + shift, self.model.up_vector)
        self._camera.move(poses[:, None])
        return self._tile(self._camera.render(state)["rgb"].numpy()[:, 0])

    def _find(self, body: str | int) -> np.ndarray:
        """Return the followed body of each world."""
        starts, keys = np.asarray(self.model.world_body_start), list(self.model.body_key)
        found = []
        for world in self.worlds:
            mine = range(*starts[world : world + 2].tolist())
            matches = [b for k, b in enumerate(mine) if body in (k, keys[b])]
            if len(matches) != 1:
                raise NewtonsimError(
                    f"follow: world {world} has {len(matches)} bodies {body!r}, expected one"
                )
            found += matches
        return np.array(found)

    def _shift(self, state: State) -> np.ndarray | float:
        """Return how far followed bodies have moved along the ground (worlds, 3); non-finite ones stay."""
        if self._followed is None:
            return 0.0
        place = state.body_q.numpy()[self._followed, :3].astype(np.float64)
        if self._start is None:
            self._start = self._last = np.full(place.shape, np.nan)
        self._last = np.where(np.isfinite(place), place, self._last)
        self._start = np.where(np.isfinite(self._start), self._start, self._last)
        moved, up = np.nan_to_num(self._last - self._start), np.asarray(self.model.up_vector)
        return moved - np.outer(moved @ up, up)

    def _tile(self, pictures: np.ndarray) -> np.ndarray:
        """Put pictures (n, height, width, 3) side by side, with their labels."""
        count, height, width, _ = pictures.shape
        if count == 1 and self._labels is None:
            return pictures[0].copy()
        columns = min(self._columns, count)
        rows = math.ceil(count / columns)
        shape = (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3)
        sheet = np.full(shape, 255, np.uint8)
        for number, picture in enumerate(pictures):
            row, column = divmod(number, columns)
            y, x = row * (height + _GAP), column * (width + _GAP)
            sheet[y : y + height, x : x + width] = picture
        return sheet if self._labels is None else self._write_labels(sheet, columns)

    def _write_labels(self, sheet: np.ndarray, columns: int) -> np.ndarray:
        from PIL import Image, ImageDraw, ImageFont

        height, width = self._camera.height, self._camera.width
        size = max(10, min(height // 14, 22))
        image = Image.fromarray(sheet)
        draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
        for number, text in enumerate(self._labels):
            row, column = divmod(number, columns)
            place = (column * (width + _GAP) + size // 2, row * (height + _GAP) + size // 3)
            draw.text(place, text, fill=(20, 24, 30), font=font, stroke_width=1, stroke_fill=(255, 255, 255))
        return np.asarray(image)


def picture_sheet(model: Model, state: State, **options: Unpack[PictureOptions]) -> np.ndarray:
    """Return one picture with all chosen worlds of a state side by side, RGB (height, width, 3) uint8.

    Args:
        model: The model.
        state: A state of it.
        **options: `worlds`, `width` and `height` (320 x 240 for each world), `eye` and `target`, `follow`,
            `azimuth`, `elevation`, `fov`, `columns`, `labels` (the numbers of the worlds), `lighting`,
            `quality`; see `Pictures`.
    """
    worlds = check_worlds(model, options.pop("worlds", None))
    labels = options.pop("labels", [f"world {world}" for world in worlds])
    options = {"width": 320, "height": 240, **options}
    return Pictures(model, worlds=worlds, labels=labels, **options).take(state)


def save_sheet(
    path: str | os.PathLike, model: Model, state: State, **options: Unpack[PictureOptions]
) -> None:
    """Write the result of `picture_sheet` to a file, in the format of its ending.

    Args:
        path: File to write.
        model: The model.
        state: A state of it.
        **options: `worlds`, `width`, `height`, `follow` and others, as for `picture_sheet`.

    Raises:
        NewtonsimError: The ending is unknown, or an option is wrong.
        OSError: The file cannot be written.
    """
    from PIL import Image

    sheet = Image.fromarray(picture_sheet(model, state, **options))
    try:
        sheet.save(path)
    except ValueError as error:
        raise NewtonsimError(f"{os.fspath(path)}: {error}") from error

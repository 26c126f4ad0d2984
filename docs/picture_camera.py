"""Cameras of the films of the docs: only what has changed is drawn, and worlds may stand side by side."""

import math
from collections.abc import Iterator

import numpy as np
from PIL import Image

import newtonsim
from newtonsim.render import Camera, Lighting, Pinhole, look_at

SAMPLES = 1.5
"""Samples along each side of a pixel of a film: two and a quarter for each pixel."""
HUGE = 20.0
"""Shapes from this radius on are floors [m]."""
COARSE = 4
"""Pixels of a film along each side of those that tell where a picture has changed."""
TILES = 5, 4
"""Parts of a picture that are drawn anew if something changes in them, columns and rows."""
REACHED = 6
"""Coarse pixels about a change whose shadows it may change."""


class Eye:
    """A camera that sees several worlds as if they were one.

    Successive pictures differ only where something moves or its shadow does: a coarse picture tells where,
    and only tiles that have changed are drawn anew.

    Args:
        model: The model.
        width: Columns of samples; divisible by the columns of tiles.
        height: Rows of samples; divisible by the rows of tiles.
        eye: Position of the camera (3,) [m].
        target: Point in the middle of the picture (3,) [m].
        angle: Vertical field of view [degrees].
        lighting: The light.
        worlds: Worlds to see, None for all.
        tiles: Columns and rows of tiles; (1, 1) draws whole pictures.
    """

    def __init__(
        self,
        model: newtonsim.Model,
        width: int,
        height: int,
        eye: tuple[float, float, float],
        target: tuple[float, float, float],
        angle: float,
        lighting: Lighting,
        worlds: tuple[int, ...] | None = None,
        tiles: tuple[int, int] = TILES,
    ):
        self.up = model.up_vector
        pose = look_at(eye, target, self.up)
        self.size = width // tiles[0], height // tiles[1]
        assert (self.size[0] * tiles[0], self.size[1] * tiles[1]) == (width, height)
        focal = 0.5 * height / math.tan(0.5 * math.radians(angle))
        places = [(x * self.size[0], y * self.size[1]) for y in range(tiles[1]) for x in range(tiles[0])]
        self.cameras = {
            (x, y): Camera(
                model,
                *self.size,
                pose=pose,
                lens=Pinhole(fx=focal, cx=0.5 * width - x, cy=0.5 * height - y),
                outputs=("rgb", "depth"),
                lighting=lighting,
                worlds=worlds,
            )
            for x, y in places
        }
        self.shape = height, width
        self.images: tuple[np.ndarray, np.ndarray] | None = None
        self.coarse = None
        if len(places) > 1:
            side = round(COARSE * SAMPLES)
            self.coarse = Camera(
                model,
                width // side,
                height // side,
                pose=pose,
                lens=Pinhole(fov=angle),
                lighting=lighting,  # so that shadows fall where they do in the tiles
                worlds=worlds,
            )
            self.drawn: dict[tuple[int, int], np.ndarray] = {}

    def move(self, eye: tuple[float, float, float], target: tuple[float, float, float]) -> None:
        """Look from somewhere else; only for a camera of one tile."""
        for camera in self.cameras.values():
            camera.move(look_at(eye, target, self.up))

    def look(self, state: newtonsim.State) -> tuple[np.ndarray, np.ndarray]:
        """Return colours (rows, columns, 3), uint8, and depths (rows, columns) [m] of all samples."""
        columns, rows = self.size
        for x, y in self.changed(state):
            images = self.cameras[x, y].render(state)
            colors, depths = (images[name].numpy()[:, 0] for name in ("rgb", "depth"))
            if self.images is None:
                shape = len(colors), *self.shape
                self.images = np.zeros((*shape, 3), np.uint8), np.zeros(shape, np.float32)
            for whole, part in zip(self.images, (colors, depths)):
                whole[:, y : y + rows, x : x + columns] = part
        assert self.images is not None
        return merge(*self.images)

    def changed(self, state: newtonsim.State) -> Iterator[tuple[int, int]]:
        """Yield the places of the tiles in which the state looks different from when they were drawn."""
        if self.coarse is None:
            yield from self.cameras
            return
        now = self.coarse.render(state)["rgb"].numpy()[:, 0].copy()
        scale = now.shape[2] / self.shape[1]
        for x, y in self.cameras:
            low = [max(0, math.floor(scale * v) - REACHED) for v in (y, x)]
            high = [math.ceil(scale * (v + size)) + REACHED for v, size in zip((y, x), self.size[::-1])]
            around = np.s_[:, low[0] : high[0], low[1] : high[1]]
            drawn = self.drawn.get((x, y))
            if drawn is None or (now[around] != drawn[around]).any():
                self.drawn[x, y] = now
                yield x, y


class SideBySide:
    """Draws the worlds of a model on a grid, as if they were one world; the model is no longer to be stepped.

    All stand on the floor of the first.

    Args:
        model: The model.
        worlds: Worlds that are drawn, None for all.
        spacing: Distance between neighbours [m].
        columns: Neighbours along y; None for a square.
    """

    def __init__(
        self,
        model: newtonsim.Model,
        worlds: tuple[int, ...] | None,
        spacing: float,
        columns: int | None = None,
    ):
        numbers = np.arange(model.world_count) if worlds is None else np.array(worlds)
        self.places = grid(len(numbers), spacing, columns)
        rows = np.full(model.world_count + 1, -1)
        rows[numbers] = np.arange(len(numbers))
        shifts = np.zeros((model.world_count + 1, 3))
        shifts[numbers, :2] = self.places
        world = model.shape_world.numpy()
        floor = model.shape_collision_radius.numpy() > HUGE
        shown = (world < 0) | (rows[world] >= 0)
        shown &= ~floor | (world < 0) | (world == numbers[0])
        flags = model.shape_flags.numpy().astype(np.int64)
        flags[~shown] &= ~int(newtonsim.ShapeFlags.VISIBLE)
        model.shape_flags.assign(flags.astype(np.uint32))
        transform = model.shape_transform.numpy()
        fixed = model.shape_body.numpy() < 0
        transform[fixed & ~floor, :3] += shifts[world[fixed & ~floor]]
        model.shape_transform.assign(transform)
        model.shape_world.assign(np.minimum(world, 0))
        self.shifts = shifts[model.body_world.numpy()]
        self.shifts[model.shape_body.numpy()[floor & ~fixed]] = 0.0

    def move(self, state: newtonsim.State) -> None:
        """Move the bodies of a state to their worlds' places."""
        poses = state.body_q.numpy()
        poses[:, :3] += self.shifts
        state.body_q.assign(poses)


def add_floor(model: newtonsim.Model, height: float) -> None:
    """Draw a floor at a height [m] in all worlds of a recorded model without one; z is up."""
    # recordings leave out how a ground would be made
    model._ground_plane = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)).finalize("cpu")._ground_plane
    model.ground = True
    transform = model.shape_transform.numpy()
    transform[model.ground_shape, 2] = height
    model.shape_transform.assign(transform)


def grid(count: int, spacing: float, columns: int | None = None) -> np.ndarray:
    """Return places on a grid about the origin (count, 2) [m], with so many columns along y, or a square."""
    columns = columns or math.ceil(math.sqrt(count))
    places = np.stack(np.divmod(np.arange(count), columns), axis=1) * float(spacing)
    return places - 0.5 * (places.min(axis=0) + places.max(axis=0))


def merge(colors: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest of several pictures (n, rows, columns) in each sample; shadows of all are seen."""
    if len(colors) == 1:
        return colors[0], depths[0]
    depth = depths.min(axis=0)
    nearest = depths <= 1.0005 * depth
    return np.where(nearest[..., None], colors, 255).min(axis=0), depth


def smooth(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """Return a picture of which every pixel is the mean of its samples (height, width, 3), uint8."""
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.HAMMING))


def project(
    points: np.ndarray, eye: tuple, target: tuple, angle: float, width: int, height: int
) -> np.ndarray:
    """Return where a camera with z up sees points (n, 3) [m]: column and row of each, (n, 2)."""
    forward = np.subtract(target, eye) / np.linalg.norm(np.subtract(target, eye))
    right = np.cross(forward, (0.0, 0.0, 1.0)) / np.linalg.norm(np.cross(forward, (0.0, 0.0, 1.0)))
    away = np.subtract(np.reshape(points, (-1, 3)), eye)
    pixels = 0.5 * height / math.tan(0.5 * math.radians(angle)) / (away @ forward)
    down = np.cross(forward, right)
    places = np.stack([pixels * (away @ right), pixels * (away @ down)], axis=1)
    return places + np.array([0.5 * width, 0.5 * height])

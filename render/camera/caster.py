"""The launches that fill pictures: tiles, and ranges of pixels that threads share on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count, pairwise

import numpy as np
import warp as wp

from newtonsim.kernels.camera import pictures as camera_pictures
from newtonsim.kernels.camera import tiles as camera_tiles
from newtonsim.render.camera.rows import RayScene
from newtonsim.runtime import compilation

_BAND = 4096
"""Number of pixels for which another thread is used on the CPU, about a millisecond of work."""

_TILE_PIXELS = int(camera_tiles.TILE) ** 2

_TILED = 256
"""Largest number of instances in a world for which tiles list what they see, since each tests all of them."""

_LABELS = ("depth", "axial", "distance", "normal", "label", "shape", "body", "joint")
"""What is seen at the middle of a pixel, unlike colours."""

_pools: dict[int, ThreadPoolExecutor] = {}
"""The thread pools of a process."""


class PictureCaster:
    """Casts the rays of the pictures of several cameras in each world of a scene.

    Attributes:
        scene: What the cameras see.
        threads: Threads that share the pictures on the CPU.

    Args:
        scene: What the cameras see.
        width: Columns.
        height: Rows.
        cameras: Cameras in each world.
        threads: Threads on the CPU, None for the number of available cores.
        offset: Position of a pixel's ray within the pixel, from the upper left corner, 0..1.
        samples: Rays of colours along each side of a pixel, spread evenly; if 1, at the offset.
        outputs: What to fill, fields of `newtonsim.kernels.camera.pictures.PictureView` by name.
    """

    def __init__(
        self,
        scene: RayScene,
        width: int,
        height: int,
        cameras: int,
        threads: int | None,
        offset: tuple[float, float],
        samples: int,
        outputs: dict[str, wp.array | int],
    ):
        self.scene = scene
        self._cameras, self._width, self._height = cameras, width, height
        view = camera_pictures.PictureView()
        view.cameras, view.width, view.height, view.offset = cameras, width, height, wp.vec2(*offset)
        view.samples = samples
        view.labelled = int(any(name in _LABELS for name in outputs))
        for name, value in outputs.items():
            setattr(view, name, value)
        self._view = view
        self._picture = wp.array([view], dtype=camera_pictures.PictureView, device=scene.device)
        self._pictures = scene.num_worlds * cameras
        self._everyone = wp.ones(scene.num_worlds, dtype=bool, device=scene.device)
        self._tiles = self._make_tiles()
        self._bands = self._cut(threads)
        # before threads launch it, each of which would compile it
        kernels = (camera_pictures, camera_tiles)
        compilation.load([wp.get_module(file.__name__) for file in kernels], scene.device)

    def cast(self, cameras: wp.array, light: wp.array, mask: wp.array | None = None) -> None:
        """Fill the pictures.

        Args:
            cameras: Rays of the cameras, world by world, `newtonsim.kernels.camera.rays.CameraRays`.
            light: How the scene is lit, `newtonsim.kernels.camera.pictures.Light`, shape (1,).
            mask: Worlds whose pictures are filled, bool, one for each world of the scene; None for all.
        """
        mask = self._everyone if mask is None else mask
        self._list_candidates(cameras, mask)
        bands = self._bands
        share_out(lambda k: self._launch(cameras, light, mask, *bands[k]), len(bands), self.threads)

    def _make_tiles(self) -> wp.array:
        """Allocate the lists of the tiles of all pictures, `newtonsim.kernels.camera.tiles.TileView`."""
        tiles, size = camera_tiles.TileView(), int(camera_tiles.TILE)
        tiles.columns, tiles.rows = -(-self._width // size), -(-self._height // size)
        self._tile_count = self._pictures * tiles.columns * tiles.rows
        count = self._tile_count if self.scene.crowd <= _TILED else 0
        shape, device = (count, int(camera_tiles.CANDIDATES)), self.scene.device
        tiles.count = wp.zeros(count, dtype=int, device=device)
        tiles.row = wp.zeros(shape, dtype=int, device=device)
        tiles.nearest = wp.zeros(shape, dtype=float, device=device)
        tiles.span = wp.zeros(shape, dtype=wp.vec4ub, device=device)
        self._tile_view = tiles
        return wp.array([tiles], dtype=camera_tiles.TileView, device=device)

    def _list_candidates(self, cameras: wp.array, mask: wp.array) -> None:
        scene, tiles = self.scene, self._tiles
        listed = self._tile_view.count.shape[0]
        if listed:
            lower, upper = scene.boxes
            compilation.launch(
                camera_tiles.list_candidates,
                dim=listed,
                reads=dict(
                    scene=scene.view,
                    lower=lower,
                    upper=upper,
                    cameras=cameras,
                    cameras_per_world=self._cameras,
                    width=self._width,
                    height=self._height,
                    mask=mask,
                ),
                writes=dict(tiles=tiles),
                device=scene.device,
                record_tape=False,
            )

    def _cut(self, threads: int | None) -> list[tuple[int, int]]:
        """Return the number of threads, and ranges of tiles (first, number) that they take in turn."""
        most = _core_count() if threads is None else threads
        pixels = self._pictures * self._width * self._height
        self.threads = max(1, min(most, pixels // _BAND)) if self.scene.device.is_cpu else 1
        if not pixels:
            return []
        tiles = self._tile_count
        bands = 1 if self.threads == 1 else min(8 * self.threads, tiles)
        edges = np.linspace(0, tiles, bands + 1).astype(int).tolist()
        return [(first, end - first) for first, end in pairwise(edges)]

    def _launch(self, cameras: wp.array, light: wp.array, mask: wp.array, first: int, size: int) -> None:
        scene = self.scene
        # on the CPU each thread of a launch copies all arguments, which costs more than many a pixel
        run = _TILE_PIXELS if scene.device.is_cpu else 1
        compilation.launch(
            camera_pictures.render_pixels,
            reads=dict(
                scene=scene.view,
                dress=scene.dress,
                cameras=cameras,
                lights=light,
                tiles=self._tiles,
                first_tile=first,
                run=run,
                mask=mask,
            ),
            writes=dict(picture=self._picture),
            dim=size * _TILE_PIXELS // run,
            device=scene.device,
            record_tape=False,
        )


def share_out(work: Callable[[int], None], tasks: int, threads: int) -> None:
    """Let threads take tasks, 0, 1, 2 and so on, in turn; returns when all are done."""
    turn = count()

    def take() -> None:
        while (k := next(turn)) < tasks:
            work(k)

    others = [_helpers().submit(take) for _ in range(threads - 1)]
    try:
        take()
    finally:
        wait(others)
    for other in others:
        other.result()


def _helpers() -> ThreadPoolExecutor:
    """Return the threads that all cameras share; a forked process has none of its parent's."""
    process = os.getpid()
    if process not in _pools:
        _pools.clear()
        _pools[process] = ThreadPoolExecutor(max(1, _core_count() - 1), thread_name_prefix="camera")
    return _pools[process]


def _core_count() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

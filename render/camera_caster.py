"""The launches that fill pictures: tiles, and ranges of pixels that threads share on the CPU."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count, pairwise

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels import camera, camera_tiles
from newtonsim.render.camera_rows import RayScene

_BAND = 4096
"""Pixels for which another thread is woken on the CPU, about a millisecond of work."""

_TILED = 256
"""Most instances in a world for which tiles list what they see: each looks at all of them."""

_pools: dict[int, ThreadPoolExecutor] = {}
"""The threads of a process."""


class PictureCaster:
    """Casts the rays of the pictures of several cameras in each world of a scene.

    Attributes:
        scene: What the cameras see.
        threads: Threads that share the pictures on the CPU.
        picture: What to fill, `newtonsim.kernels.camera.PictureView`; give it arrays.

    Args:
        scene: What the cameras see.
        width: Columns.
        height: Rows.
        cameras: Cameras in each world.
        threads: Threads on the CPU, None for as many as there are cores to run on.
        offset: Where in a pixel its ray passes, from the upper left corner, 0..1.

    Raises:
        ModelError: A number is negative.
    """

    def __init__(
        self,
        scene: RayScene,
        width: int,
        height: int,
        cameras: int,
        threads: int | None,
        offset: tuple[float, float],
    ):
        if min(width, height) < 0 or cameras < 1:
            raise ModelError(f"camera: {cameras} pictures of {width} x {height} cannot be")
        self.scene = scene
        self.picture = camera.PictureView()
        self.picture.cameras, self.picture.width, self.picture.height = cameras, width, height
        self.picture.offset = wp.vec2(*offset)
        self._pictures = scene.num_worlds * cameras
        self._tiles = self._make_tiles()
        self._bands = self._cut(threads)
        # before threads launch it, each of which would compile it
        wp.load_module(camera, device=scene.device)
        wp.load_module(camera_tiles, device=scene.device)

    def cast(self, cameras: wp.array, light: wp.array) -> None:
        """Fill the pictures.

        Args:
            cameras: Rays of the cameras, world by world, `newtonsim.kernels.camera_rays.CameraRays`.
            light: How the scene is lit, `newtonsim.kernels.camera.Light`, shape (1,).
        """
        self._list_candidates(cameras)
        if self.threads == 1:
            for first, size in self._bands:
                self._launch(cameras, light, first, size)
            return
        turn = count()
        pool = _helpers()
        others = [pool.submit(self._work, cameras, light, turn) for _ in range(self.threads - 1)]
        try:
            self._work(cameras, light, turn)
        finally:
            wait(others)
        for other in others:
            other.result()

    def _make_tiles(self) -> camera_tiles.TileView:
        """Make room for what the tiles of all pictures list."""
        tiles, size = camera_tiles.TileView(), int(camera_tiles.TILE)
        tiles.columns, tiles.rows = -(-self.picture.width // size), -(-self.picture.height // size)
        count = self._pictures * tiles.columns * tiles.rows if self.scene.crowd <= _TILED else 0
        shape, device = (count, int(camera_tiles.CANDIDATES)), self.scene.device
        tiles.count = wp.zeros(count, dtype=int, device=device)
        tiles.row = wp.zeros(shape, dtype=int, device=device)
        tiles.nearest = wp.zeros(shape, dtype=float, device=device)
        return tiles

    def _list_candidates(self, cameras: wp.array) -> None:
        scene, tiles, picture = self.scene, self._tiles, self.picture
        if tiles.count.shape[0]:
            sizes = [picture.cameras, picture.width, picture.height]
            wp.launch(
                camera_tiles.list_candidates,
                dim=tiles.count.shape[0],
                inputs=[scene.view, *scene.boxes, cameras, *sizes, tiles],
                device=scene.device,
                record_tape=False,
            )

    def _cut(self, threads: int | None) -> list[tuple[int, int]]:
        """Find how many threads work, and ranges of tiles (first, number) that they take in turn."""
        wanted = _core_count() if threads is None else threads
        pixels = self._pictures * self.picture.width * self.picture.height
        self.threads = max(1, min(wanted, pixels // _BAND)) if self.scene.device.is_cpu else 1
        if not pixels:
            return []
        tiles = self._pictures * self._tiles.columns * self._tiles.rows
        bands = 1 if self.threads == 1 else min(8 * self.threads, tiles)
        edges = np.linspace(0, tiles, bands + 1).astype(int).tolist()
        return [(first, end - first) for first, end in pairwise(edges)]

    def _work(self, cameras: wp.array, light: wp.array, turn: count) -> None:
        """Take one range after the other; `turn` is shared with the other threads."""
        while (k := next(turn)) < len(self._bands):
            self._launch(cameras, light, *self._bands[k])

    def _launch(self, cameras: wp.array, light: wp.array, first: int, size: int) -> None:
        scene = self.scene
        wp.launch(
            camera.render_pixels,
            dim=size * int(camera_tiles.TILE) ** 2,
            inputs=[
                scene.view,
                scene.looks,
                scene.corners,
                scene.textures,
                cameras,
                light,
                self._tiles,
                first,
                self.picture,
            ],
            device=scene.device,
            record_tape=False,
        )


def _helpers() -> ThreadPoolExecutor:
    """Threads that all cameras share; a forked process has none of its parent's."""
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

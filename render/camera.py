"""A ray camera: colour, depth and segmentation of scenes, for batches of cameras and worlds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels import camera, camera_tiles
from newtonsim.render.camera_scene import CameraScene
from newtonsim.render.staging import StagedArray

_BAND = 4096
"""Pixels for which another thread is woken on the CPU, about a millisecond of work."""

_LIGHT, _RAYS = camera.Light.numpy_dtype(), camera_tiles.CameraRays.numpy_dtype()

_TILED = 256
"""Most instances for which tiles list what they see: each looks at all of them."""

_pools: dict[int, ThreadPoolExecutor] = {}
"""The threads of a process."""


@dataclass(slots=True)
class Lighting:
    """How a scene is lit: by light from everywhere and by one directional light.

    Attributes:
        direction: Towards the light (3,), of any length.
        color: Colour of the directional light (3,).
        ambient: Part of a surface's colour that is seen without light.
        diffuse: Weight of matt reflection.
        specular: Weight of highlights.
        shininess: Power of the cosine of highlights.
        viewer: Direction towards a viewer at infinity that highlights are computed for (3,); None for the
            camera itself.
        shadow: Whether surfaces cast shadows.
        shadowed: Part of the directional light that is left in shadow.
        transparency: Whether surfaces with alpha below 1 are seen through.
        background: RGBA where nothing is seen.
        empty_label: Segmentation where nothing is seen.
    """

    direction: Sequence[float] = (-0.4, 0.3, 0.9)
    color: Sequence[float] = (1.0, 1.0, 1.0)
    ambient: float = 0.4
    diffuse: float = 0.6
    specular: float = 0.1
    shininess: float = 16.0
    viewer: Sequence[float] | None = None
    shadow: bool = True
    shadowed: float = 0.2
    transparency: bool = True
    background: Sequence[float] = (1.0, 1.0, 1.0, 1.0)
    empty_label: int = -1

    def record(self) -> np.ndarray:
        """Return what the kernel reads, shape (1,)."""
        record = np.zeros(1, _LIGHT)
        length = float(np.linalg.norm(self.direction))
        if not length > 0.0:
            raise ModelError(f"light: direction {tuple(self.direction)} has no length")
        record["direction"] = np.asarray(self.direction) / length
        record["color"] = self.color
        for name in ("ambient", "diffuse", "specular", "shininess", "shadowed", "background", "empty_label"):
            record[name] = getattr(self, name)
        if self.viewer is not None:
            record["viewer"] = np.asarray(self.viewer) / np.linalg.norm(self.viewer)
        record["shadow"], record["transparency"] = int(self.shadow), int(self.transparency)
        return record


def camera_rays(view: npt.ArrayLike, projection: npt.ArrayLike) -> np.ndarray:
    """Return the rays of cameras that are given by matrices as in OpenGL.

    Args:
        view: World to eye frame, shape (..., 4, 4), acting on columns; the camera looks along -z.
        projection: Eye frame to clip coordinates, likewise, perspective or orthographic, also off the axis.

    Returns:
        Records of `newtonsim.kernels.camera_tiles.CameraRays`, shape (...).

    Raises:
        ModelError: A matrix is singular, or a depth would depend on more than the distance from the eye.
    """
    view, projection = np.asarray(view, np.float64), np.asarray(projection, np.float64)
    if view.shape[-2:] != (4, 4) or projection.shape[-2:] != (4, 4):
        raise ModelError(f"camera: expected matrices (4, 4), got {view.shape} and {projection.shape}")
    view, projection = np.broadcast_arrays(view, projection)
    if np.any(projection[..., 2:, :2]):
        raise ModelError("camera: rows 2 and 3 of the projection must leave x and y alone")
    try:
        across = np.linalg.inv(projection[..., :2, :2])
        to_world = np.linalg.inv(view)
    except np.linalg.LinAlgError as error:
        raise ModelError("camera: a matrix is singular") from error
    pz, pw = projection[..., :2, 2], projection[..., :2, 3]
    c22, c23 = projection[..., 2, 2], projection[..., 2, 3]
    c32, c33 = projection[..., 3, 2], projection[..., 3, 3]
    turn, place = to_world[..., :3, :3], to_world[..., :3, 3]
    record = np.zeros(view.shape[:-2], _RAYS)

    # at depth t, eye z = -t: across^-1 (x, y) = ndc (c33 - c32 t) + pz t - pw
    def lift(xy: np.ndarray, z: float) -> np.ndarray:
        eye = np.concatenate([np.einsum("...ij,...j->...i", across, xy), np.full((*xy.shape[:-1], 1), z)], -1)
        return np.einsum("...ij,...j->...i", turn, eye)

    record["origin"] = place + lift(-pw, 0.0)
    record["direction"] = lift(pz, -1.0)
    for axis, name in enumerate("xy"):
        unit = np.zeros_like(pw)
        unit[..., axis] = 1.0
        record[f"origin_{name}"] = lift(unit * c33[..., None], 0.0)
        record[f"direction_{name}"] = lift(unit * -c32[..., None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = (c23 + c33) / (c22 + c32)
        far = (c23 - c33) / (c22 - c32)
    record["near"], record["far"] = near, np.where(np.isfinite(far), far, np.inf)
    if not (np.isfinite(near).all() and (record["far"] > near).all() and (near >= 0.0).all()):
        raise ModelError(f"camera: clipping planes at {near} and {far} make no picture")
    # window depth (z / w + 1) / 2 with z = c23 - c22 t, w = c33 - c32 t
    record["depth"] = np.stack([0.5 * (c23 + c33), -0.5 * (c22 + c32), c33, -c32], axis=-1)
    record["empty_depth"] = 1.0
    return record


def linear_depth(records: np.ndarray) -> np.ndarray:
    """Make cameras show the depth along the view axis [m], infinite where nothing is seen."""
    records = records.copy()
    records["depth"], records["empty_depth"] = (0.0, 1.0, 1.0, 0.0), np.inf
    return records


class RayCamera:
    """Pictures of a scene by ray casting, of several cameras in each world.

    On the CPU, threads share the tiles of the pictures. `render` allocates nothing; it can be captured into a
    graph on a GPU, and on the CPU with `threads=1`.

    Attributes:
        scene: What it sees.
        count: Cameras in each world.
        width: Columns.
        height: Rows.
        color: RGBA in bytes, red first, of the last pictures, uint32, shape (worlds, count, height, width).
        depth: Depth likewise, float; as in OpenGL's depth buffer unless the cameras say otherwise.
        label: Segmentation likewise, int.

    Args:
        scene: What to see.
        width: Columns.
        height: Rows.
        count: Cameras in each world.
        threads: Threads on the CPU, None for as many as there are cores to run on.
        offset: Where in a pixel its ray passes, from the upper left corner, 0..1.
    """

    def __init__(
        self,
        scene: CameraScene,
        width: int,
        height: int,
        count: int = 1,
        threads: int | None = None,
        offset: tuple[float, float] = (0.5, 0.5),
    ):
        if min(width, height) < 0 or count < 1:
            raise ModelError(f"camera: {count} pictures of {width} x {height} cannot be")
        self.scene, self.width, self.height, self.count = scene, width, height, count
        device, shape = scene.device, (scene.num_worlds, count, height, width)
        self.color = wp.zeros(shape, dtype=wp.uint32, device=device)
        self.depth = wp.zeros(shape, dtype=float, device=device)
        self.label = wp.zeros(shape, dtype=int, device=device)
        self.pixels = int(np.prod(shape))
        self._cameras = StagedArray(scene.num_worlds * count, camera_tiles.CameraRays, device)
        self._light = StagedArray(1, camera.Light, device)
        self._picture = camera.PictureView()
        self._picture.cameras, self._picture.width, self._picture.height = count, width, height
        self._picture.offset = wp.vec2(*offset)
        self._picture.color, self._picture.depth = self.color.flatten(), self.depth.flatten()
        self._picture.label = self.label.flatten()
        self._tiles = self._make_tiles()
        self.light(Lighting())
        self._bands = self._cut(threads)
        # before threads launch it, each of which would compile it
        wp.load_module(camera, device=device)
        wp.load_module(camera_tiles, device=device)

    def light(self, lighting: Lighting) -> RayCamera:
        """Light the scene."""
        self._light.write(lighting.record())
        return self

    def look(self, records: np.ndarray) -> RayCamera:
        """Take the rays of the cameras, from `camera_rays`; one for all, (count,) or (worlds, count)."""
        shape = (self.scene.num_worlds, self.count)
        try:
            cameras = np.broadcast_to(records, shape)
        except ValueError as error:
            raise ModelError(f"cameras: expected shape {shape}, got {np.shape(records)}") from error
        self._cameras.write(cameras.reshape(-1))
        return self

    def render(self) -> RayCamera:
        """Cast the rays of all pixels."""
        self._list_candidates()
        if self.threads == 1:
            for first, size in self._bands:
                self._launch(first, size)
            return self
        turn = count()
        pool = _helpers()
        others = [pool.submit(self._work, turn) for _ in range(self.threads - 1)]
        try:
            self._work(turn)
        finally:
            wait(others)
        for other in others:
            other.result()
        return self

    def numpy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return colour (worlds, count, height, width, 4) uint8, depth and segmentation as NumPy arrays.

        On the CPU they are views that the next `render` changes.
        """
        color = self.color.numpy()
        return color.view(np.uint8).reshape(*color.shape, 4), self.depth.numpy(), self.label.numpy()

    def _make_tiles(self) -> camera_tiles.TileView:
        """Make room for what the tiles of all pictures list."""
        tiles, size = camera_tiles.TileView(), int(camera_tiles.TILE)
        tiles.columns, tiles.rows = -(-self.width // size), -(-self.height // size)
        pictures = self.scene.num_worlds * self.count
        count = pictures * tiles.columns * tiles.rows if len(self.scene.instances) <= _TILED else 0
        shape, device = (count, int(camera_tiles.CANDIDATES)), self.scene.device
        tiles.count = wp.zeros(count, dtype=int, device=device)
        tiles.row = wp.zeros(shape, dtype=int, device=device)
        tiles.nearest = wp.zeros(shape, dtype=float, device=device)
        return tiles

    def _list_candidates(self) -> None:
        scene, tiles = self.scene, self._tiles
        if tiles.count.shape[0]:
            wp.launch(
                camera_tiles.list_candidates,
                dim=tiles.count.shape[0],
                inputs=[
                    scene.view,
                    *scene.boxes,
                    self._cameras.array,
                    self.count,
                    self.width,
                    self.height,
                    tiles,
                ],
                device=scene.device,
                record_tape=False,
            )

    def _cut(self, threads: int | None) -> list[tuple[int, int]]:
        """Find how many threads work, and ranges of tiles (first, number) that they take in turn."""
        wanted = _core_count() if threads is None else threads
        self.threads = max(1, min(wanted, self.pixels // _BAND)) if self.scene.device.is_cpu else 1
        if not self.pixels:
            return []
        tiles = self.scene.num_worlds * self.count * self._tiles.columns * self._tiles.rows
        bands = 1 if self.threads == 1 else min(8 * self.threads, tiles)
        edges = np.linspace(0, tiles, bands + 1).astype(int).tolist()
        return [(first, end - first) for first, end in pairwise(edges)]

    def _work(self, turn: count) -> None:
        """Take one range after the other; `turn` is shared with the other threads."""
        while (k := next(turn)) < len(self._bands):
            self._launch(*self._bands[k])

    def _launch(self, first: int, size: int) -> None:
        scene = self.scene
        wp.launch(
            camera.render_pixels,
            dim=size * int(camera_tiles.TILE) ** 2,
            inputs=[
                scene.view,
                scene.looks,
                scene.corners,
                scene.textures,
                self._cameras.array,
                self._light.array,
                self._tiles,
                first,
                self._picture,
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

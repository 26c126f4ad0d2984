"""A ray camera for scenes of instances, defined by matrices as in OpenGL."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import pictures as camera_pictures
from newtonsim.kernels.camera.rays import CameraRays
from newtonsim.render.camera.caster import PictureCaster
from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.rows import RayScene
from newtonsim.render.camera.staging import StagedArray

_RAYS = CameraRays.numpy_dtype()


def camera_rays(view: npt.ArrayLike, projection: npt.ArrayLike) -> np.ndarray:
    """Return the rays of cameras defined by matrices as in OpenGL.

    Args:
        view: World to eye frame, shape (..., 4, 4), acting on columns; the camera looks along -z.
        projection: Eye frame to clip coordinates, likewise, perspective or orthographic, also off the axis.

    Returns:
        Records of `newtonsim.kernels.camera.rays.CameraRays`, shape (...).

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
        raise ModelError(f"camera: clipping planes at {near} and {far} leave nothing to see")
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
    """Pictures of a scene by ray casting, from several cameras in each world.

    On the CPU, threads share the tiles of the pictures. `render` allocates nothing; it can be captured into a
    graph on a GPU, and on the CPU with `threads=1`.

    Attributes:
        scene: What it sees.
        count: Cameras in each world.
        width: Columns.
        height: Rows.
        threads: Threads that share the pictures on the CPU.
        color: RGBA in bytes, red first, of the last pictures, uint32, shape (worlds, count, height, width).
        depth: Depth likewise, float; as in OpenGL's depth buffer unless the cameras say otherwise.
        label: Segmentation likewise, int.

    Args:
        scene: What to see.
        width: Columns.
        height: Rows.
        count: Cameras in each world.
        threads: Threads on the CPU, None for the number of available cores.
        offset: Position of a pixel's ray within the pixel, from the upper left corner, 0..1.
    """

    def __init__(
        self,
        scene: RayScene,
        width: int,
        height: int,
        count: int = 1,
        threads: int | None = None,
        offset: tuple[float, float] = (0.5, 0.5),
    ):
        if min(width, height) < 0 or count < 1:
            raise ModelError(f"camera: {count} pictures of {width} x {height} are not possible")
        self.scene, self.width, self.height, self.count = scene, width, height, count
        device, shape = scene.device, (scene.num_worlds, count, height, width)
        self.color = wp.zeros(shape, dtype=wp.uint32, device=device)
        self.depth = wp.zeros(shape, dtype=float, device=device)
        self.label = wp.zeros(shape, dtype=int, device=device)
        flat = {name: getattr(self, name).flatten() for name in ("color", "depth", "label")}
        self._caster = PictureCaster(scene, width, height, count, threads, offset, 1, {**flat, "shaded": 1})
        self.threads = self._caster.threads
        self._cameras = StagedArray(scene.num_worlds * count, CameraRays, device)
        self._light = StagedArray(1, camera_pictures.Light, device)
        self.light(Lighting())

    def light(self, lighting: Lighting) -> RayCamera:
        """Light the scene."""
        self._light.write(lighting.record())
        return self

    def look(self, records: np.ndarray) -> RayCamera:
        """Set the rays of the cameras, from `kernels.camera.rays`; one, (count,) or (worlds, count)."""
        shape = (self.scene.num_worlds, self.count)
        try:
            cameras = np.broadcast_to(records, shape)
        except ValueError as error:
            raise ModelError(f"cameras: expected shape {shape}, got {np.shape(records)}") from error
        self._cameras.write(cameras.reshape(-1))
        return self

    def render(self) -> RayCamera:
        """Cast the rays of all pixels."""
        self._caster.cast(self._cameras.array, self._light.array)
        return self

    def numpy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return colour (worlds, count, height, width, 4) uint8, depth and segmentation as NumPy arrays.

        On the CPU they are views that the next `render` changes.
        """
        color = self.color.numpy()
        return color.view(np.uint8).reshape(*color.shape, 4), self.depth.numpy(), self.label.numpy()

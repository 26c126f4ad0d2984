"""Lenses of cameras, and the poses of cameras that look at a point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.kernels.camera.rays import LENS_FISHEYE, LENS_PINHOLE, CameraRays

_RAYS = CameraRays.numpy_dtype()


@dataclass(frozen=True)
class _Lens:
    """The parameters of a lens."""

    fov: float = 60.0
    fx: float | None = None
    fy: float | None = None
    cx: float | None = None
    cy: float | None = None
    near: float = 0.01
    far: float = math.inf

    def _intrinsics(self, fx: float, width: int, height: int) -> tuple[float, float, float, float]:
        """Return fx, fy, cx, cy after checking all numbers; `fx` is the value for the field of view."""
        name = type(self).__name__.lower()
        if self.fx is None and self.fy is not None:
            raise ModelError(f"{name}: fy requires fx")
        fx = fx if self.fx is None else self.fx
        fy = fx if self.fy is None else self.fy
        for what, value in (("fx", fx), ("fy", fy)):
            if not (value > 0.0 and math.isfinite(value)):
                raise ModelError(f"{name}: {what} is {value}, expected a positive number of pixels")
        if not 0.0 < self.near < self.far:
            raise ModelError(f"{name}: expected 0 < near < far, got {self.near} and {self.far}")
        cx = 0.5 * width if self.cx is None else self.cx
        cy = 0.5 * height if self.cy is None else self.cy
        if not (math.isfinite(cx) and math.isfinite(cy)):
            raise ModelError(f"{name}: the principal point ({cx}, {cy}) is not finite")
        return fx, fy, cx, cy


@dataclass(frozen=True)
class Pinhole(_Lens):
    """A lens that maps straight lines to straight lines.

    It is given by a field of view, or by focal lengths and principal point as in OpenCV, with pixel centres
    at half-integers: the ray of column u and row v goes to ((u - cx) / fx, (v - cy) / fy, 1) to the right,
    down and ahead.

    Attributes:
        fov: Vertical field of view [deg], 0..180, used without `fx` and `fy`.
        fx: Horizontal focal length [pixels].
        fy: Vertical focal length [pixels]; None for `fx`.
        cx: Column of the optical axis [pixels]; None for the middle.
        cy: Row of the optical axis [pixels]; None for the middle.
        near: Depth below which nothing is seen [m].
        far: Depth above which nothing is seen [m], may be infinite.
    """

    def record(self, width: int, height: int) -> np.ndarray:
        """Return the rays in the frame of the camera, record of `newtonsim.kernels.camera.rays.CameraRays`.

        Args:
            width: Columns of the picture.
            height: Rows.

        Raises:
            ModelError: A parameter is invalid.
        """
        if not 0.0 < self.fov < 180.0:
            raise ModelError(f"pinhole: fov is {self.fov}, expected an angle between 0 and 180 degrees")
        focal_length = 0.5 * height / math.tan(0.5 * math.radians(self.fov))
        fx, fy, cx, cy = self._intrinsics(focal_length, width, height)
        n, f = self.near, self.far
        rays = np.zeros((), _RAYS)
        rays["lens"] = int(LENS_PINHOLE)
        rays["direction"] = ((0.5 * width - cx) / fx, (cy - 0.5 * height) / fy, -1.0)
        rays["direction_x"] = (0.5 * width / fx, 0.0, 0.0)
        rays["direction_y"] = (0.0, 0.5 * height / fy, 0.0)
        rays["near"], rays["far"], rays["empty_depth"] = n, f, 1.0
        # of window depth 0 at the near plane and 1 at the far one: (1/n - 1/t) / (1/n - 1/f)
        rays["depth"] = (-n, 1.0, 0.0, 1.0 if math.isinf(f) else 1.0 - n / f)
        return rays


@dataclass(frozen=True)
class Fisheye(_Lens):
    """An equidistant lens: the distance from the principal point grows with the angle from the axis.

    A direction at the angle theta [rad] from the axis is seen at fx theta (fy theta) pixels from the
    principal point.

    Attributes:
        fov: Largest angle between two rays [deg], up to 360; beyond it nothing is seen. Its circle touches
            the nearer edges of the picture unless `fx` is given.
        fx: Horizontal focal length [pixels/rad].
        fy: Vertical focal length [pixels/rad]; None for `fx`.
        cx: Column of the optical axis [pixels]; None for the middle.
        cy: Row of the optical axis [pixels]; None for the middle.
        near: Distance below which nothing is seen [m].
        far: Distance above which nothing is seen [m], may be infinite.
    """

    fov: float = 180.0

    def record(self, width: int, height: int) -> np.ndarray:
        """Return the rays in the frame of the camera, as `Pinhole.record` does.

        Raises:
            ModelError: A parameter is invalid.
        """
        if not 0.0 < self.fov <= 360.0:
            raise ModelError(f"fisheye: fov is {self.fov}, expected an angle up to 360 degrees")
        widest = 0.5 * math.radians(self.fov)
        fx, fy, cx, cy = self._intrinsics(0.5 * min(width, height) / widest, width, height)
        rays = np.zeros((), _RAYS)
        rays["lens"] = int(LENS_FISHEYE)
        rays["direction"], rays["direction_x"], rays["direction_y"] = (0, 0, -1), (1, 0, 0), (0, 1, 0)
        rays["shift"] = ((0.5 * width - cx) / fx, (cy - 0.5 * height) / fy)
        rays["angle"] = (0.5 * width / fx, 0.5 * height / fy)
        rays["widest"], rays["near"], rays["far"] = widest, self.near, self.far
        return rays


def look_at(eye: npt.ArrayLike, target: npt.ArrayLike, up: npt.ArrayLike = (0.0, 0.0, 1.0)) -> np.ndarray:
    """Return the pose of a camera that looks from a point to another.

    Args:
        eye: Position of the camera, shape (..., 3) [m].
        target: Point in the middle of its picture, same shape.
        up: Direction that is up in the picture, same shape; not along the view.

    Returns:
        Poses (..., 7), position and quaternion xyzw; cameras look along their -z axis, with y up.

    Raises:
        ModelError: Eye and target are the same point, or `up` is along the view.
    """
    from scipy.spatial.transform import Rotation

    eye, target, up = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (eye, target, up)))
    if eye.shape[-1:] != (3,):
        raise ModelError(f"look_at: expected vectors (..., 3), got {eye.shape}")
    back = eye - target
    right = np.cross(up, back)
    lengths = np.linalg.norm(back, axis=-1), np.linalg.norm(right, axis=-1)
    if not (np.all(lengths[0] > 0.0) and np.all(lengths[1] > 1.0e-9 * lengths[0])):
        raise ModelError(
            f"look_at: from {eye.tolist()} to {target.tolist()} with {up.tolist()} up does not define a view"
        )
    back, right = back / lengths[0][..., None], right / lengths[1][..., None]
    turn = np.stack([right, np.cross(back, right), back], axis=-1)
    quats = Rotation.from_matrix(turn.reshape(-1, 3, 3)).as_quat().reshape(*eye.shape[:-1], 4)
    return np.concatenate([eye, quats], axis=-1)

"""Cameras that see a model: any number in each world, fixed or carried by bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import pictures as camera_pictures
from newtonsim.kernels.camera import rays as camera_rays
from newtonsim.kernels.camera.rays import CameraRays, Mount
from newtonsim.render.camera.caster import PictureCaster
from newtonsim.render.camera.lenses import Fisheye, Pinhole
from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.model import ModelScene
from newtonsim.render.camera.staging import StagedArray
from newtonsim.runtime import compilation
from newtonsim.scene.model import check_model

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

Lens = Pinhole | Fisheye

MOST_SAMPLES = 16
"""Largest number of samples along a side of a pixel."""

_OUTPUTS: dict[str, tuple[str, type]] = {
    "rgb": ("rgb", wp.vec3ub),
    "rgba": ("color", wp.vec4ub),
    "depth": ("axial", wp.float32),
    "depth_gl": ("depth", wp.float32),
    "distance": ("distance", wp.float32),
    "normal": ("normal", wp.vec3),
    "shape": ("shape", wp.int32),
    "body": ("body", wp.int32),
    "joint": ("joint", wp.int32),
    "label": ("label", wp.int32),
}
"""Names of pictures, the array of `newtonsim.kernels.camera.pictures.PictureView` that holds each, and its
type."""


class Camera:
    """Cameras of equal size that see a model, in all worlds at once, by casting rays.

    They see everything that is visible: shapes of all kinds, cloth and soft bodies, grains and ropes. Worlds
    do not see each other. `render` allocates nothing and reads nothing back; it can be captured into a graph
    on a GPU, and on the CPU with `threads=1`.

    A camera looks along its own -z axis, with x to the right and y up in the picture; see `look_at`.

    Pictures are Warp arrays of shape (worlds, cameras, height, width), rows from the top, which `wp.to_torch`
    and, on the CPU, `numpy()` wrap without a copy:

    - "rgb", "rgba": colours, uint8, which NumPy and Torch see with a last axis of 3 or 4;
    - "depth": distance along the view axis [m], infinite where nothing is seen; may be negative beside a
      fisheye;
    - "depth_gl": as in OpenGL's depth buffer, 0 at the near plane and 1 at the far one and where nothing is
      seen; not for fisheyes;
    - "distance": distance along the ray [m], infinite where nothing is seen;
    - "normal": unit normals towards the camera, world axes, a last axis of 3; zero where nothing is seen;
    - "shape", "body", "joint": indices in the model (the joint is that whose child the body is), int32; or
      SEEN_NOTHING (-1), SEEN_STATIC (-2) for shapes without body and bodies without joint, SEEN_SURFACE (-3)
      for cloth and soft bodies, SEEN_PARTICLE (-4), SEEN_SPRING (-5), which `newtonsim.render` exports;
    - "label": what `labels` says, by default the index of the body within its world.

    Example:
        >>> import newtonsim
        >>> from newtonsim.render import Camera, look_at
        >>> builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        >>> _ = builder.add_shape_sphere(builder.add_body(), radius=0.5)
        >>> model = builder.finalize(device="cpu")
        >>> camera = Camera(model, 64, 48, pose=look_at((3, 0, 0), (0, 0, 0)), outputs=("rgb", "depth"))
        >>> pictures = camera.render(model.state())
        >>> pictures["rgb"].numpy().shape
        (1, 1, 48, 64, 3)

    Attributes:
        model: The model.
        scene: What is seen of it, `newtonsim.render.camera.model.ModelScene`.
        width: Columns.
        height: Rows.
        count: Cameras in each world.
        worlds: Worlds that are seen, shape (n,), the first axis of the pictures.
        outputs: Names of the pictures.
        images: The pictures by name.
        threads: Threads that share the work on the CPU.

    Args:
        model: The model.
        width: Columns.
        height: Rows.
        pose: Poses of the cameras, positions and quaternions xyzw in the frame of their body: (7,),
            (cameras, 7) or (worlds, cameras, 7).
        body: Body that carries them, None for the world: its name or its index within its world, or one such
            entry for each camera.
        lens: `Pinhole` or `Fisheye`, or one for each camera.
        outputs: Names of the pictures.
        lighting: How the scene is lit, see `Lighting`; None for a light from above.
        samples: Rays along each side of a pixel that its colour is the mean of, 1 to 16; everything else is
            what the ray at its centre meets.
        worlds: Worlds to see, None for all.
        colliders: Whether the colliding shapes are seen, in the form in which they collide, instead of the
            visible ones.
        labels: Labels of the shapes (shape_count,), int.
        threads: Threads on the CPU, None for the number of available cores.

    Raises:
        ModelError: An argument is wrong; the message names it.
    """

    def __init__(
        self,
        model: Model,
        width: int,
        height: int,
        *,
        pose: npt.ArrayLike,
        body: str | int | Sequence[str | int | None] | None = None,
        lens: Lens | Sequence[Lens] | None = None,
        outputs: Sequence[str] = ("rgb",),
        lighting: Lighting | None = None,
        samples: int = 1,
        worlds: npt.ArrayLike | None = None,
        colliders: bool = False,
        labels: npt.ArrayLike | None = None,
        threads: int | None = None,
    ):
        check_model(model)
        if not (_is_count(width) and _is_count(height)):
            raise ModelError(f"camera: a picture of {width} x {height} pixels is not possible")
        if threads is not None and not _is_count(threads):
            raise ModelError(f"threads: expected a positive number or None, got {threads!r}")
        if not _is_count(samples) or samples > MOST_SAMPLES:
            raise ModelError(f"samples: expected 1 to {MOST_SAMPLES}, got {samples!r}")
        self.model, self.width, self.height = model, width, height
        self.outputs = _check_outputs(outputs)
        given: Any = Pinhole() if lens is None else lens
        lenses: list[Lens] = list(given) if isinstance(given, (list, tuple)) else [given]
        carriers = [body] if body is None or isinstance(body, (str, int, np.integer)) else list(body)
        self.count = _common_count(np.asarray(pose, np.float64), lenses, carriers)
        self._lenses = lenses * (self.count // len(lenses))
        if "depth_gl" in self.outputs and any(isinstance(one, Fisheye) for one in lenses):
            raise ModelError("outputs: depth_gl is not defined for a fisheye")
        self.scene = ModelScene(model, worlds, colliders, labels)
        self.worlds = self.scene.worlds
        _check_pixels(len(self.worlds), self.count, height, width)
        self._bodies = self._find_bodies(carriers * (self.count // len(carriers)))
        self._mounts = StagedArray(len(self.worlds) * self.count, Mount, model.device)
        self._cameras = wp.zeros(len(self.worlds) * self.count, dtype=CameraRays, device=model.device)  # pyright: ignore[reportArgumentType]
        self._light = StagedArray(1, camera_pictures.Light, model.device)
        targets = self._make_images()
        self._caster = PictureCaster(
            self.scene, width, height, self.count, threads, (0.5, 0.5), samples, targets
        )
        self.threads = self._caster.threads
        self.light(Lighting.above(model.up_vector) if lighting is None else lighting)
        self.move(pose)
        compilation.load([wp.get_module(camera_rays.__name__)], model.device)

    def move(self, pose: npt.ArrayLike) -> Camera:
        """Move the cameras on the bodies that carry them.

        Args:
            pose: As for the constructor.

        Raises:
            ModelError: The shape is wrong, a number is not finite or a quaternion is zero.
        """
        shape = (len(self.worlds), self.count, 7)
        values = np.asarray(pose, np.float64)
        try:
            values = np.broadcast_to(values, shape)
        except ValueError as error:
            raise ModelError(f"pose: expected {shape}, {shape[1:]} or (7,), got {values.shape}") from error
        lengths = np.linalg.norm(values[..., 3:], axis=-1, keepdims=True)
        if not np.isfinite(values).all() or not np.all(lengths > 0.0):
            raise ModelError("pose: a number is not finite, or a quaternion is zero")
        dtype: Any = Mount.numpy_dtype()
        mounts = np.zeros(shape[:2], dtype)
        mounts["body"] = self._bodies
        mounts["pose"] = np.concatenate([values[..., :3], values[..., 3:] / lengths], axis=-1)
        for k, lens in enumerate(self._lenses):
            mounts["rays"][:, k] = lens.record(self.width, self.height)
        self._mounts.write(mounts.reshape(-1))
        return self

    def light(self, lighting: Lighting) -> Camera:
        """Light the scene.

        Raises:
            ModelError: It is not a Lighting, or an invalid one.
        """
        if not isinstance(lighting, Lighting):
            raise ModelError(f"lighting: expected a Lighting, got {lighting!r}")
        self._light.write(lighting.record())
        return self

    def render(self, state: State, mask: wp.array | None = None) -> dict[str, wp.array]:
        """Take the pictures.

        Args:
            state: Its `body_q` and `particle_q` are read.
            mask: Which of `worlds` to take pictures of, bool, on the model's device, read when the launches
                run; the pictures of others are unchanged. None for all.

        Returns:
            The pictures by name, arrays that the next call changes.

        Raises:
            ModelError: The state belongs to another model, or the mask has another length or type.
        """
        if mask is not None and (mask.dtype is not wp.bool or mask.shape != (len(self.worlds),)):
            given = f"{mask.dtype.__name__} {mask.shape}"
            raise ModelError(f"mask: expected bool ({len(self.worlds)},), got {given}")
        self.scene.update(state)
        compilation.launch(
            camera_rays.aim_cameras,
            reads=dict(mount=self._mounts.array, body_pose=self.scene.body_poses(state)),
            writes=dict(camera=self._cameras),
            dim=len(self._cameras),
            device=self.model.device,
            record_tape=False,
        )
        self._caster.cast(self._cameras, self._light.array, mask)
        return self.images

    def _make_images(self) -> dict[str, wp.array | int]:
        """Allocate the requested pictures, and return what the caster must fill."""
        shape, device = (len(self.worlds), self.count, self.height, self.width), self.model.device
        targets: dict[str, wp.array | int] = {
            "shaded": int("rgb" in self.outputs or "rgba" in self.outputs),
            "fade": 1,
        }
        self.images: dict[str, wp.array] = {}
        for name in self.outputs:
            field, dtype = _OUTPUTS[name]
            array = wp.zeros(shape, dtype=dtype, device=device)
            flat = array.flatten()
            if name == "rgba":
                flat = wp.array(ptr=array.ptr, dtype=wp.uint32, shape=(array.size,), device=device)
            targets[field] = flat
            self.images[name] = array
        return targets

    def _find_bodies(self, carriers: list) -> np.ndarray:
        """Model indices of the bodies that carry the cameras (worlds, cameras), -1 for the world."""
        model = self.model
        start = np.asarray(model.world_body_start)
        first, counts = start[self.worlds], np.diff(start)[self.worlds]
        found = np.full((len(self.worlds), self.count), -1)
        for k, carrier in enumerate(carriers):
            if carrier is None:
                continue
            for row, (begin, size) in enumerate(zip(first.tolist(), counts.tolist())):
                found[row, k] = begin + self._local_body(carrier, begin, size, int(self.worlds[row]))
        return found

    def _local_body(self, carrier: str | int, begin: int, size: int, world: int) -> int:
        """Return the index of a body within its world."""
        if not isinstance(carrier, str):
            if isinstance(carrier, (int, np.integer)) and 0 <= carrier < size:
                return int(carrier)
            raise ModelError(f"body: world {world} has bodies 0..{size - 1}, got {carrier!r}")
        keys = self.model.body_key[begin : begin + size]
        places = [k for k, key in enumerate(keys) if key == carrier]
        if len(places) != 1:
            raise ModelError(f"body: world {world} has {len(places)} bodies named {carrier!r}, expected 1")
        return places[0]


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value > 0)


def _check_pixels(worlds: int, cameras: int, height: int, width: int) -> None:
    """Check that kernels can index the pixels."""
    if worlds * cameras * height * width >= 2**31:
        raise ModelError(
            f"camera: {worlds * cameras} pictures of {width} x {height} pixels exceed the limit of 2^31 "
            "pixels"
        )


def _check_outputs(outputs: Sequence[str]) -> tuple[str, ...]:
    names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    for name in names:
        if name not in _OUTPUTS:
            raise ModelError(f"outputs: there is no picture {name!r}, expected some of {', '.join(_OUTPUTS)}")
    if not names or len(set(names)) != len(names):
        raise ModelError(f"outputs: expected distinct names of pictures, got {names}")
    return names


def _common_count(pose: np.ndarray, lenses: list, carriers: list) -> int:
    """Number of cameras in each world, of poses, lenses and bodies that may each stand for all."""
    if pose.ndim not in (1, 2, 3) or pose.shape[-1] != 7:
        raise ModelError(f"pose: expected (7,), (cameras, 7) or (worlds, cameras, 7), got {pose.shape}")
    for lens in lenses:
        if not isinstance(lens, Lens):
            raise ModelError(f"lens: expected Pinhole or Fisheye, got {lens!r}")
    counts = {"pose": 1 if pose.ndim == 1 else pose.shape[-2], "lens": len(lenses), "body": len(carriers)}
    count = max(counts.values())
    if min(counts.values()) < 1 or any(number not in (1, count) for number in counts.values()):
        raise ModelError(f"cameras: numbers of entries do not match: {counts}")
    return count

"""The scene of a ray camera: instances of meshes and primitives, colours and textures, in each world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import scene as camera_scene
from newtonsim.render.camera.meshes import CameraMesh, pack_corners
from newtonsim.render.camera.rows import RayScene, primitive_extents
from newtonsim.render.camera.staging import StagedArray
from newtonsim.render.camera.textures import Textures
from newtonsim.runtime.devices import find_device
from newtonsim.scene.enums import GeoType

IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
PRIMITIVES = (
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
    GeoType.ELLIPSOID,
    GeoType.PLANE,
)


@dataclass(slots=True, eq=False)
class CameraInstance:
    """Something to see.

    Attributes:
        kind: A primitive as for shapes, or MESH: SPHERE (radius), BOX (half extents), CAPSULE,
            CYLINDER and CONE (radius, half height, along y), ELLIPSOID (semi-axes), PLANE (infinite, y = 0).
        size: Its dimensions [m]; of meshes the scale by axis, which may be negative, of planes what the
            image of a texture covers along x and z.
        mesh: The mesh of a MESH.
        body: Row of the poses of a world that it moves with, -1 for the world frame.
        pose: Pose in the frame of the body, (7,) with quaternion xyzw.
        rgba: Colour (4,), 0..1, or one for each world (num_worlds, 4); alpha 0 is invisible.
        specular: Weight of highlights by channel.
        texture: Index of a texture of the scene, -1 for none; the colour is multiplied by it.
        label: Its label in the segmentation.
        double_sided: Whether it is also seen from behind (inside).
    """

    kind: int
    size: Sequence[float] = (1.0, 1.0, 1.0)
    mesh: CameraMesh | None = None
    body: int = -1
    pose: npt.ArrayLike = IDENTITY
    rgba: npt.ArrayLike = (1.0, 1.0, 1.0, 1.0)
    specular: Sequence[float] = (1.0, 1.0, 1.0)
    texture: int = -1
    label: int = 0
    double_sided: bool = False

    def check(self, name: str, textures: int, worlds: int) -> None:
        """Raise a ModelError if a value is invalid."""
        if self.kind == GeoType.MESH:
            if self.mesh is None:
                raise ModelError(f"{name}: a mesh is missing")
        elif self.kind not in PRIMITIVES:
            raise ModelError(f"{name}: cameras cannot render shapes of kind {self.kind}")
        elif min(self.size) < 0.0:
            raise ModelError(f"{name}: size {tuple(self.size)} is negative")
        shapes = {"size": [(3,)], "pose": [(7,)], "specular": [(3,)], "rgba": [(4,), (worlds, 4)]}
        for what, allowed in shapes.items():
            array = np.asarray(getattr(self, what), np.float64)
            if array.shape not in allowed or not np.isfinite(array).all():
                raise ModelError(f"{name}: {what}: expected {allowed[0][0]} finite numbers, got {array}")
        if not -1 <= self.texture < textures:
            raise ModelError(f"{name}: there is no texture {self.texture}; there are {textures}")

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the box about it in its own frame, lower and upper corner (3,) [m]; a point for a plane."""
        size = np.asarray(self.size, np.float64)
        if self.mesh is not None:
            corners = np.stack(self.mesh.bounds()) * size
            return corners.min(axis=0), corners.max(axis=0)
        half = primitive_extents(np.array([self.kind]), size[None])[0]
        return -half, half


class CameraScene(RayScene):
    """Instances in one or many equal worlds, at poses that change.

    Call `update` after bodies have moved; cameras (`newtonsim.render.camera.camera.RayCamera`) then see them
    there. Colours may differ between worlds: write to `color`. `RayScene` describes the other attributes.

    Attributes:
        instances: What there is to see, in each world; rows are world by world.

    Args:
        instances: What there is to see, in each world.
        textures: Images that instances refer to by index.
        num_worlds: Number of worlds.
        device: Warp device, None for the default one.

    Raises:
        ModelError: An instance or a texture is wrong.
    """

    def __init__(
        self,
        instances: Sequence[CameraInstance],
        textures: Textures | None = None,
        num_worlds: int = 1,
        device: wp.DeviceLike = None,
    ):
        self._textures = Textures() if textures is None else textures
        if num_worlds < 1:
            raise ModelError(f"num_worlds: expected at least 1, got {num_worlds}")
        device = find_device(device)
        self.instances, self.num_worlds = list(instances), num_worlds
        self._check()
        meshes = list({id(i.mesh): i.mesh for i in self.instances if i.mesh is not None}.values())
        corners, first = pack_corners(meshes, device)
        self._first_triangle = {id(mesh): number for mesh, number in zip(meshes, first)}
        self._meshes = {id(mesh): mesh.on_device(device) for mesh in meshes if len(mesh.triangles)}
        bodies, self._place_records = self._records()
        items = [np.arange(len(self.instances))] * num_worlds
        super().__init__(items, bodies, self._place_records, self._appearances(), self._colors(), device)
        self.corners = corners
        self.wear(self._textures.view(device))
        self.bodies = 1 + max((instance.body for instance in self.instances), default=-1)
        self._no_bodies = wp.zeros((num_worlds, 0), dtype=wp.transform, device=device)
        self._poses: StagedArray | None = None

    def _check(self) -> None:
        for k, instance in enumerate(self.instances):
            instance.check(f"instance {k}", len(self._textures), self.num_worlds)

    def _colors(self) -> np.ndarray:
        """Colours of all instances in all worlds, (num_worlds * instances, 4)."""
        colors = [np.broadcast_to(i.rgba, (self.num_worlds, 4)) for i in self.instances]
        return np.stack([np.zeros((self.num_worlds, 4)), *colors], 1)[:, 1:].reshape(-1, 4).astype(np.float32)

    def _appearances(self) -> np.ndarray:
        appearances = np.zeros(len(self.instances), camera_scene.Appearance.numpy_dtype())
        for k, i in enumerate(self.instances):
            first = self._first_triangle.get(id(i.mesh), 0)
            appearances[k] = (i.label, k, i.body, -1, i.texture, first, i.specular)
        return appearances

    def update_appearances(self) -> None:
        """Apply what was written to the instances' rgba, specular, texture and label, and the textures.

        Raises:
            ModelError: An instance is wrong; then nothing is changed.
        """
        self._check()
        self.wear(self._textures.view(self.device))
        self.appearances.assign(self._appearances())
        self.color.assign(self._colors())

    def deform(self, number: int, points: npt.ArrayLike) -> None:
        """Move the points of a mesh that no other instance shares; takes effect at the next `update`.

        Args:
            number: The instance.
            points: All points of its mesh, shape (n, 3) [m].

        Raises:
            ModelError: The array has the wrong shape.
        """
        instance = self.instances[number]
        mesh = instance.mesh
        mesh.move(points)
        if len(mesh.triangles):
            first = 3 * self._first_triangle[id(mesh)]
            self.corners.normal[first : first + 3 * len(mesh.triangles)].assign(mesh.corner_normals)
        lower, upper = instance.bounds()
        self._place_records[number]["middle"] = 0.5 * (lower + upper)
        self._place_records[number]["half"] = 0.5 * (upper - lower)
        self.places.assign(self._place_records)

    def _records(self) -> tuple[np.ndarray, np.ndarray]:
        """Geometry and places of the instances, for kernels."""
        count = len(self.instances)
        bodies = np.zeros(count, camera_scene.Body.numpy_dtype())
        places = np.zeros(count, camera_scene.Place.numpy_dtype())
        for k, i in enumerate(self.instances):
            made = self._meshes.get(id(i.mesh))
            # without triangles there is nothing to see, as in a ball without size
            kind = GeoType.SPHERE if i.kind == GeoType.MESH and made is None else i.kind
            size = (0.0, 0.0, 0.0) if kind != i.kind else i.size
            triangles = len(i.mesh.triangles) if made else 0
            bodies[k] = (kind, i.double_sided, triangles, made.id if made else 0, size, (0.0, 0.0, 0.0))
            lower, upper = i.bounds()
            stretch = i.size if kind == GeoType.MESH else (1.0, 1.0, 1.0)
            places[k] = (i.body, i.pose, 0.5 * (lower + upper), 0.5 * (upper - lower), stretch)
        return bodies, places

    def update(
        self, body_poses: wp.array | npt.ArrayLike | None = None, *, rebuild: bool = False
    ) -> CameraScene:
        """Move the instances with their bodies.

        With a Warp array, and after the first call, this can be captured into a graph.

        Args:
            body_poses: World poses of the bodies, transform, shape (num_worlds, bodies), or numbers
                (num_worlds, bodies, 7); more bodies than instances name are allowed. None if none moves.
            rebuild: Whether the hierarchy of the instances is rebuilt, which makes pictures faster after
                bodies have moved far, rather than refitted.

        Returns:
            This object.

        Raises:
            ModelError: The array has the wrong shape.
        """
        if body_poses is None:
            body_poses = self._no_bodies
        elif not isinstance(body_poses, wp.array):
            values = np.asarray(body_poses)
            if values.ndim != 3 or values.shape[2] != 7:
                raise ModelError(f"body_poses: expected shape (worlds, bodies, 7), got {values.shape}")
            if self._poses is None or self._poses.array.shape != values.shape[:2]:
                self._poses = StagedArray(values.shape[:2], wp.transform, self.device)
            body_poses = self._poses.write(values)
        expected = (self.num_worlds, self.bodies)
        given = tuple(body_poses.shape)
        if body_poses.ndim != 2 or given[0] != self.num_worlds or given[1] < self.bodies:
            raise ModelError(f"body_poses: expected poses {expected}, got {given}")
        self.place(body_poses.flatten(), given[1], rebuild)
        return self

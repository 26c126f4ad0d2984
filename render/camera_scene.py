"""The scene of a ray camera: instances of meshes and primitives, colours and textures, in each world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.enums import GeoType
from newtonsim.errors import ModelError
from newtonsim.kernels import camera_scene
from newtonsim.render.camera_meshes import CameraMesh
from newtonsim.render.camera_textures import Textures
from newtonsim.render.staging import StagedArray

IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
PRIMITIVES = (
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.ELLIPSOID,
    GeoType.PLANE,
)


@dataclass(slots=True, eq=False)
class CameraInstance:
    """Something to see.

    Attributes:
        kind: A primitive as shapes have them, or MESH: SPHERE (radius), BOX (half extents), CAPSULE and
            CYLINDER (radius, half height, along y), ELLIPSOID (semi-axes), PLANE (endless, y = 0).
        size: Its dimensions [m]; of meshes the scale by axis, which may be negative, of planes what the
            image of a texture covers along x and z.
        mesh: Of MESH.
        body: Row of the poses of a world that it moves with, -1 for the world frame.
        pose: Pose in the frame of the body, (7,) with quaternion xyzw.
        rgba: Colour (4,), 0..1, or one for each world (num_worlds, 4); alpha 0 is invisible.
        specular: Weight of highlights by channel.
        texture: Number of a texture of the scene, -1 for none; the colour is multiplied by it.
        label: What the segmentation shows for it.
        double_sided: Whether it is seen from behind (inside) too.
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
        """Raise ModelError if something of it cannot be."""
        if self.kind == GeoType.MESH:
            if self.mesh is None:
                raise ModelError(f"{name}: a mesh is missing")
        elif self.kind not in PRIMITIVES:
            raise ModelError(f"{name}: kind {self.kind} is none that a camera sees")
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
        r = size[0]
        half = {
            GeoType.SPHERE: np.full(3, r),
            GeoType.CAPSULE: np.array([r, size[1] + r, r]),
            GeoType.CYLINDER: np.array([r, size[1], r]),
            GeoType.PLANE: np.zeros(3),
        }.get(GeoType(self.kind), size)
        return -half, half


class CameraScene:
    """Instances in one or many worlds that are alike, at poses that change.

    Call `update` after bodies have moved; cameras (`newtonsim.render.camera.RayCamera`) then see them there.
    Colours may differ between worlds: write to `color`.

    Attributes:
        instances: What there is to see.
        num_worlds: Number of worlds.
        device: Where it is.
        view: What kernels take of the instances.
        looks: Likewise, how they look.
        corners: Likewise, of the corners of the meshes.
        textures: Likewise.
        boxes: Lower and upper corners of the boxes about the instances in the world [m], vec3, shape
            (num_worlds * instances,).
        color: Colours of the instances, vec4, shape (num_worlds * instances,), world by world.

    Args:
        instances: What there is to see, in each world.
        textures: Images that instances name by number.
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
        self.device = wp.get_device(device)
        self.instances, self.num_worlds = list(instances), num_worlds
        self._check()
        self.textures = self._textures.view(self.device)
        rows = num_worlds * len(self.instances)
        self.color = wp.array(self._colors(), dtype=wp.vec4, device=self.device)
        self.boxes = tuple(wp.zeros(rows, dtype=wp.vec3, device=self.device) for _ in range(2))
        self._add_meshes()
        self._add_instances()
        self.bodies = 1 + max((instance.body for instance in self.instances), default=-1)
        self._no_bodies = wp.zeros((num_worlds, 0), dtype=wp.transform, device=self.device)
        self._poses: StagedArray | None = None
        self._bvh: wp.Bvh | None = None

    def _column(self, values: Sequence, dtype: type, width: int = 0) -> wp.array:
        """Copy numbers of all instances to the device."""
        kind = np.int32 if dtype is int else np.float32
        shape = (-1, width) if width else (-1,)
        array = np.ascontiguousarray(np.array(values, kind).reshape(shape))
        return wp.array(array, dtype=dtype, device=self.device)

    def _check(self) -> None:
        for k, instance in enumerate(self.instances):
            instance.check(f"instance {k}", len(self._textures), self.num_worlds)

    def _colors(self) -> np.ndarray:
        """Colours of all instances in all worlds, (num_worlds * instances, 4)."""
        colors = [np.broadcast_to(i.rgba, (self.num_worlds, 4)) for i in self.instances]
        return np.stack([np.zeros((self.num_worlds, 4)), *colors], 1)[:, 1:].reshape(-1, 4).astype(np.float32)

    def _looks(self) -> np.ndarray:
        looks = np.zeros(len(self.instances), camera_scene.Look.numpy_dtype())
        for k, i in enumerate(self.instances):
            looks[k] = (i.label, i.texture, self._first_triangle.get(id(i.mesh), 0), i.specular)
        return looks

    def look_again(self) -> None:
        """Take over what was written to the instances' rgba, specular, texture and label, and the textures.

        Raises:
            ModelError: An instance is wrong; nothing has changed then.
        """
        self._check()
        self.textures = self._textures.view(self.device)
        self.looks.assign(self._looks())
        self.color.assign(self._colors())

    def deform(self, number: int, points: npt.ArrayLike) -> None:
        """Move the points of a mesh that no other instance has; takes effect at the next `update`.

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
        self._places.assign(self._place_records)

    def _add_meshes(self) -> None:
        """Copy the meshes to the device, each once, and note where each one's corners begin."""
        meshes = list({id(i.mesh): i.mesh for i in self.instances if i.mesh is not None}.values())
        edges = np.cumsum([0, *(len(mesh.triangles) for mesh in meshes)])
        self._first_triangle = {id(mesh): int(edge) for mesh, edge in zip(meshes, edges)}
        self._meshes = {id(mesh): mesh.on_device(self.device) for mesh in meshes if len(mesh.triangles)}
        self.corners = camera_scene.CornerView()
        normals = [np.zeros((0, 3), np.float32), *(mesh.corner_normals for mesh in meshes)]
        self.corners.normal = self._column(np.concatenate(normals), wp.vec3, 3)
        uvs = [np.zeros((0, 2), np.float32), *(mesh.corner_uvs for mesh in meshes)]
        self.corners.uv = self._column(np.concatenate(uvs), wp.vec2, 2)

    def _add_instances(self) -> None:
        """Copy what is known of the instances to the device."""
        count = len(self.instances)
        bodies = np.zeros(count, camera_scene.Body.numpy_dtype())
        places = np.zeros(count, camera_scene.Place.numpy_dtype())
        for k, i in enumerate(self.instances):
            made = self._meshes.get(id(i.mesh))
            # without triangles there is nothing to see, as in a ball without size
            kind = GeoType.SPHERE if i.kind == GeoType.MESH and made is None else i.kind
            size = (0.0, 0.0, 0.0) if kind != i.kind else i.size
            triangles = len(i.mesh.triangles) if made else 0
            bodies[k] = (kind, i.double_sided, triangles, made.id if made else 0, size)
            lower, upper = i.bounds()
            stretch = i.size if kind == GeoType.MESH else (1.0, 1.0, 1.0)
            places[k] = (i.body, i.pose, 0.5 * (lower + upper), 0.5 * (upper - lower), stretch)
        device = self.device
        self.looks = wp.array(self._looks(), dtype=camera_scene.Look, device=device)
        self._place_records = places
        self._places = wp.array(places, dtype=camera_scene.Place, device=device)
        view = camera_scene.TraceView()
        view.count, view.color = count, self.color
        view.body = wp.array(bodies, dtype=camera_scene.Body, device=device)
        view.frame = wp.zeros(self.num_worlds * count, dtype=camera_scene.Frame, device=device)
        view.world_count = self.num_worlds
        planes = [k for k, i in enumerate(self.instances) if i.kind == GeoType.PLANE]
        view.plane_count, view.planes = len(planes), self._column(planes, int)
        self.view = view

    def update(
        self, body_poses: wp.array | npt.ArrayLike | None = None, *, rebuild: bool = False
    ) -> CameraScene:
        """Move the instances with their bodies.

        With a Warp array, and after the first call, this can be captured into a graph.

        Args:
            body_poses: World poses of the bodies, transform, shape (num_worlds, bodies), or numbers
                (num_worlds, bodies, 7); more bodies than instances name are allowed. None if none moves.
            rebuild: Whether the hierarchy of the instances is built anew, which makes pictures faster after
                bodies have moved far, rather than fitted.

        Returns:
            This object.

        Raises:
            ModelError: The array has the wrong shape.
        """
        rows = self.num_worlds * len(self.instances)
        if body_poses is None:
            body_poses = self._no_bodies
        elif not isinstance(body_poses, wp.array):
            values = np.asarray(body_poses)
            if values.ndim != 3 or values.shape[2] != 7:
                raise ModelError(f"body_poses: expected shape (worlds, bodies, 7), got {values.shape}")
            if self._poses is None or self._poses.array.shape != values.shape[:2]:
                self._poses = StagedArray(values.shape[:2], wp.transform, self.device)
            body_poses = self._poses.write(values)
        if (
            body_poses.ndim != 2
            or body_poses.shape[0] != self.num_worlds
            or body_poses.shape[1] < self.bodies
        ):
            wanted = (self.num_worlds, self.bodies)
            raise ModelError(f"body_poses: expected poses {wanted}, got {body_poses.shape}")
        if not rows:
            return self
        wp.launch(
            camera_scene.place_instances,
            dim=rows,
            inputs=[self._places, body_poses, self.view.frame, *self.boxes],
            device=self.device,
            record_tape=False,
        )
        if self._bvh is None:
            self._bvh = self._build()
            self.view.bvh = self._bvh.id
        elif rebuild:
            self._bvh.rebuild()
        else:
            self._bvh.refit()
        return self

    def _build(self) -> wp.Bvh:
        """Build the hierarchy, a group for each world."""
        worlds = np.repeat(np.arange(self.num_worlds, dtype=np.int32), len(self.instances))
        groups = wp.array(worlds, dtype=int, device=self.device)
        return wp.Bvh(*self.boxes, groups=groups)

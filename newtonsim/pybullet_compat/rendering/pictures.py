"""Scene of a client's cameras: its visual shapes, with the changes of changeVisualShape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.geometry.transforms import quat_between
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry, Visual
from newtonsim.pybullet_compat.rendering.soft_pictures import WHITE, SoftSight, soft_sights
from newtonsim.pybullet_compat.rendering.textures import CHECKER, TextureTable
from newtonsim.pybullet_compat.surface.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
)
from newtonsim.render.camera.camera import RayCamera, camera_rays
from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.meshes import CameraMesh
from newtonsim.render.camera.scene import CameraInstance, CameraScene
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client

LINK_SHIFT = 24
"""Segmentation with links is body + ((link + 1) << 24)."""

PIXEL_CORNER = (0.0, 1.0)
"""Where in a pixel PyBullet's software renderer takes its sample: the lower left corner."""

_CHECKER_PERIOD = 2.0
"""Period of the checker on a plane [m]."""

_KEPT_MESHES = 512
_KEPT_CAMERAS = 4

_Y_TO_Z = Pose(np.zeros(3), np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]))

_meshes: dict[tuple, tuple[list, CameraMesh]] = {}
"""Meshes as cameras see them, by the objects that they were made from, which are kept beside them."""


@dataclass(slots=True, eq=False)
class Appearance:
    """Changes of a visual shape by changeVisualShape; None for no change.

    Attributes:
        rgba: Colour (4,), or (num_worlds, 4).
        texture: Texture unique id, -1 for none.
        specular: Specular colour (3,).
        double_sided: Whether back faces are seen.
    """

    rgba: np.ndarray | None = None
    texture: int | None = None
    specular: tuple[float, float, float] | None = None
    double_sided: bool | None = None


@dataclass(slots=True)
class Light:
    """The light of getCameraImage; values that a call does not give keep their last setting.

    Attributes:
        direction: Towards the light (3,).
        color: (3,), 0..1.
        distance: Of the light [m]; shadows do not depend on it.
        shadow: Whether there are shadows.
        ambient: Coefficient of ambient light.
        diffuse: Coefficient of matt reflection.
        specular: Coefficient of highlights.
    """

    direction: tuple[float, float, float] = (-50.0, 30.0, 100.0)
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    distance: float = 2.0
    shadow: bool = False
    ambient: float = 0.6
    diffuse: float = 0.35
    specular: float = 0.05

    def lighting(self) -> Lighting:
        """As the ray camera has it: highlights are those of a viewer high above, shadows take a fifth."""
        dark = not np.any(self.direction)
        return Lighting(
            direction=(0.0, 0.0, 1.0) if dark else self.direction,
            color=(0.0, 0.0, 0.0) if dark else self.color,
            ambient=self.ambient,
            diffuse=self.diffuse,
            specular=self.specular,
            shininess=2.0,
            viewer=(0.0, 0.0, 1.0),
            shadow=self.shadow,
            shadowed=0.8,
            transparency=False,
        )


@dataclass(slots=True, eq=False)
class _Seen:
    """One visual shape of a link, `shape` counting from 0 on each link, and how it is seen now."""

    uid: int
    link: int
    shape: int
    visual: Visual
    instance: CameraInstance = field(init=False)


class Pictures:
    """The part of a client that cameras see.

    Attributes:
        client: The client.
        textures: Its textures.
        light: How its pictures are lit.
        appearances: Changes by (body, link, shape), shapes counting from 0 on each link.
        reported: Last colour that was asked for by (body, link), for any of its shapes.
        revision: Grows whenever an appearance may have changed.
        clip: Near and far plane of the last projection [m], which the default camera takes over.
    """

    def __init__(self, client: Client):
        self.client = client
        self.textures = TextureTable()
        self.light = Light()
        self.appearances: dict[tuple[int, int, int], Appearance] = {}
        self.reported: dict[tuple[int, int], np.ndarray] = {}
        self.revision = 0
        self.clip = (0.01, 1000.0)
        self._rays: tuple[tuple[bytes, bytes], np.ndarray] | None = None
        self._own_textures: dict[int, tuple[Body, dict[int, int]]] = {}
        self._key: tuple | None = None
        self._stale_appearances = False
        self._texture_revision = -1
        self._mirrored: tuple[TextureTable | None, int, int] = (None, -1, -1)
        self._seen: list[_Seen] = []
        self._soft: list[SoftSight] = []
        self._cameras: dict[tuple[int, int], RayCamera] = {}

    # -- hooks -----------------------------------------------------------------------------------------------

    def body_removed(self, uid: int) -> None:
        """Clear the changes of a body."""
        self.revision += 1
        self._own_textures.pop(uid, None)
        self.appearances = {key: value for key, value in self.appearances.items() if key[0] != uid}
        self.reported = {key: rgba for key, rgba in self.reported.items() if key[0] != uid}

    def reset(self) -> None:
        """Clear the changes of all bodies; textures and light stay."""
        self.revision += 1
        self._own_textures.clear()
        self.appearances.clear()
        self.reported.clear()

    def mirror(self, other: Pictures) -> None:
        """Copy the changes of another client's bodies, with its textures and light."""
        if (other.textures, other.textures.revision) != self._mirrored[:2] or (
            self.textures.revision != self._mirrored[2]
        ):
            self.textures = other.textures.copy()
            self._mirrored = (other.textures, other.textures.revision, self.textures.revision)
            self._key = None
        bodies = self.client.bodies
        self._own_textures = {
            uid: (bodies[uid], found) for uid, (_, found) in other._own_textures.items() if uid in bodies
        }
        self.appearances = {key: copy(value) for key, value in other.appearances.items()}
        self.reported, self.light = dict(other.reported), copy(other.light)
        self._stale_appearances = True
        self.revision += 1

    # -- visual shapes ---------------------------------------------------------------------------------------

    def register(self) -> None:
        """Give ids to the textures of the files of bodies that are new."""
        for uid, body in self.client.bodies.items():
            if self._own_textures.get(uid, (None,))[0] is not body:
                found = {}
                for _, _, visual in visuals_of(body):
                    found[id(visual)] = self._own_texture(visual)
                self._own_textures[uid] = (body, found)

    def _own_texture(self, visual: Visual) -> int:
        if visual.texture >= 0:
            return visual.texture
        path = visual.texture_file
        if visual.geometry.kind in (GEOM_PLANE, GEOM_HEIGHTFIELD) and not path:
            path = CHECKER
        try:
            return self.textures.add_file(path) if path else -1
        except (OSError, ValueError):
            return -1

    def texture_of(self, uid: int, visual: Visual) -> int:
        """Texture that the file of a body gave a visual shape, -1 for none."""
        self.register()
        return self._own_textures[uid][1][id(visual)]

    def appearances_of(self, uid: int, link: int, shape: int = -1) -> list[Appearance]:
        """Return the changes on a visual shape of a link, -1 for all, to write to."""
        self._stale_appearances = True
        self.revision += 1
        soft = uid in self.client.soft_bodies
        count = 1 if soft else len(self.client.bodies[uid].links[link + 1].visuals)
        shapes = range(count) if shape < 0 else range(shape, min(shape + 1, count))
        return [self.appearances.setdefault((uid, link, k), Appearance()) for k in shapes]

    def reported_rgba(self, uid: int, link: int, of_file: Sequence[float]) -> np.ndarray:
        """Colour that getVisualShapeData reports, (4,) or (num_worlds, 4); of files in float32."""
        rgba = self.reported.get((uid, link))
        return np.asarray(of_file, np.float32) if rgba is None else rgba

    def rays(self, view: np.ndarray, projection: np.ndarray) -> np.ndarray:
        """Return what `kernels.camera.rays` does; worked out once for the same matrices in a row."""
        key = (view.tobytes(), projection.tobytes())
        if self._rays is None or self._rays[0] != key:
            rays = camera_rays(view, projection)
            self._rays = (key, rays)
            if rays.size == 1 and np.isfinite(rays["far"]).all():
                self.clip = float(rays["near"].item()), float(rays["far"].item())
        return self._rays[1]

    # -- scene -----------------------------------------------------------------------------------------------

    def camera(self, width: int, height: int) -> RayCamera:
        """Return a camera for pictures of a size, with the bodies where they are now."""
        self.register()
        bodies = self.client.bodies
        poses = self._poses()
        # the bodies themselves, not their id(): that of a body which is gone is used again
        key = (
            *((uid, body, body.revision, body.first_row) for uid, body in bodies.items()),
            *self.client.soft_bodies.items(),
        )
        if key != self._key:
            self._build()
            self._key = key
        elif self._stale_appearances or self._texture_revision != self.textures.revision:
            self._apply_appearances()
            self.scene.update_appearances()
        self._stale_appearances, self._texture_revision = False, self.textures.revision
        first = len(self._seen)
        for soft in self._soft:
            soft.follow(self.scene, first)
            first += len(soft.instances)
        self.scene.update(poses, rebuild=True)
        size = (width, height)
        if size not in self._cameras:
            if len(self._cameras) >= _KEPT_CAMERAS:
                del self._cameras[next(iter(self._cameras))]
            self._cameras[size] = RayCamera(self.scene, width, height, offset=PIXEL_CORNER)
        return self._cameras[size]

    def _poses(self) -> np.ndarray | wp.array:
        """World poses of the inertial frames of all bodies, on the device if there are several worlds."""
        client = self.client
        if client.num_worlds > 1 and client.bodies:
            return client.state.body_q.reshape((client.num_worlds, -1))
        for body in client.bodies.values():
            client.read_poses(body)
        return np.concatenate(
            [np.zeros((client.num_worlds, 0, 7)), *(body.pose for body in client.bodies.values())], axis=1
        )

    def _build(self) -> None:
        """Make the scene of all visual shapes."""
        self._seen, self._cameras = [], {}
        first = 0
        for uid, body in self.client.bodies.items():
            for link, shape, visual in visuals_of(body):
                seen = _Seen(uid, link, shape, visual)
                seen.instance = instance_of(visual, body.inverse_inertial[link + 1])
                seen.instance.body = link + 1 + (first if self.client.num_worlds == 1 else body.first_row)
                seen.instance.label = uid + ((link + 1) << LINK_SHIFT)
                self._seen.append(seen)
            first += len(body.links)
        self._soft = soft_sights(self.client)
        self._apply_appearances()
        instances = [seen.instance for seen in self._seen]
        instances += [instance for soft in self._soft for instance in soft.instances]
        images, client = self.textures.images, self.client
        self.scene = CameraScene(instances, images, client.num_worlds, client.device)

    def _apply_appearances(self) -> None:
        """Write colours and textures to the instances."""
        for seen in self._seen:
            instance = seen.instance
            appearance = self.appearances.get((seen.uid, seen.link, seen.shape), Appearance())
            instance.rgba = shown_color(seen.visual.rgba if appearance.rgba is None else appearance.rgba)
            texture = appearance.texture
            if texture is None:
                texture = self._own_textures[seen.uid][1][id(seen.visual)]
            instance.texture = self.textures.number(texture)
            if appearance.double_sided is not None:
                instance.double_sided = appearance.double_sided
        for soft in self._soft:
            appearance = self.appearances.get((soft.uid, -1, 0), Appearance())
            texture = -1 if appearance.texture is None else self.textures.number(appearance.texture)
            soft.paint(
                shown_color(WHITE if appearance.rgba is None else appearance.rgba),
                texture,
                bool(appearance.double_sided),
            )


def shown_color(rgba: npt.ArrayLike) -> np.ndarray:
    """Return a colour as PyBullet draws it: in bytes that wrap around, invisible only where alpha is 0."""
    color = np.asarray(rgba, np.float64)
    with np.errstate(invalid="ignore"):
        shown = ((color * 255.0).astype(np.int64) & 255) / 255.0
    shown[..., 3] = color[..., 3] != 0.0
    return shown


def visuals_of(body: Body) -> Iterator[tuple[int, int, Visual]]:
    """Yield (link index, number of the shape on the link, shape) in the order of getVisualShapeData."""
    for place, link in enumerate(body.links):
        for number, visual in enumerate(link.visuals):
            yield place - 1, number, visual


def instance_of(visual: Visual, link_frame: np.ndarray) -> CameraInstance:
    """Return a visual shape for the ray camera, without colour and texture.

    Args:
        visual: The shape.
        link_frame: Link frame in the frame that the pose is wanted in (7,).
    """
    geometry = visual.geometry
    kind, pose = geometry.kind, Pose.of(link_frame) @ geometry.pose
    radius, half_height = geometry.radius, 0.5 * geometry.height
    mesh, size = None, (1.0, 1.0, 1.0)
    if kind == GEOM_SPHERE:
        shape, size = GeoType.SPHERE, (radius, radius, radius)
        pose = pose @ _Y_TO_Z
    elif kind == GEOM_BOX:
        shape, size = GeoType.BOX, geometry.half_extents
    elif kind in (GEOM_CAPSULE, GEOM_CYLINDER):
        shape = GeoType.CAPSULE if kind == GEOM_CAPSULE else GeoType.CYLINDER
        size = (radius, half_height, radius)
        pose = pose @ _Y_TO_Z
    elif kind == GEOM_PLANE:
        shape, size = GeoType.PLANE, (_CHECKER_PERIOD, 1.0, _CHECKER_PERIOD)
        turn = quat_between((0.0, 1.0, 0.0), geometry.normal)
        pose = pose @ Pose(np.zeros(3), np.asarray(turn, np.float64))
    else:
        shape, mesh = GeoType.MESH, mesh_of(visual)
    return CameraInstance(
        shape,
        size=size,
        mesh=mesh,
        pose=pose.row(),
        double_sided=visual.double_sided,
        specular=(1.0, 1.0, 1.0),
    )


def mesh_of(visual: Visual) -> CameraMesh:
    """Return the parts of a mesh or a height field as one mesh for cameras, made once for the same parts."""
    parts = visual.geometry.meshes
    uvs = [*visual.uvs, *[None] * (len(parts) - len(visual.uvs))][: len(parts)]
    key = (visual.geometry.kind, *map(id, parts), *map(id, uvs))
    if key not in _meshes:
        if len(_meshes) >= _KEPT_MESHES:
            del _meshes[next(iter(_meshes))]
        _meshes[key] = ([parts, uvs], _joined(visual.geometry, uvs))
    return _meshes[key][1]


def _joined(geometry: Geometry, uvs: list[np.ndarray | None]) -> CameraMesh:
    parts = geometry.meshes
    if not parts:
        return CameraMesh(np.zeros((0, 3)), np.zeros((0, 3)))
    points = np.concatenate([mesh.vertices for mesh in parts])
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in parts)])
    triangles = np.concatenate([mesh.indices + start for mesh, start in zip(parts, starts)])
    coordinates = None
    if geometry.kind == GEOM_HEIGHTFIELD:
        low, high = points.min(axis=0), points.max(axis=0)
        coordinates = (points[:, :2] - low[:2]) / np.maximum(high - low, 1.0e-12)[:2]
    elif any(uv is not None for uv in uvs):
        blank = [np.zeros((len(mesh.vertices), 2)) for mesh in parts]
        coordinates = np.concatenate(
            [none if uv is None or len(uv) != len(none) else uv for uv, none in zip(uvs, blank)]
        )
    return CameraMesh(points, triangles, None, coordinates)


GEOMETRY_DIMENSIONS = {
    GEOM_SPHERE: lambda g: (g.radius, 0.0, 0.0),
    GEOM_BOX: lambda g: tuple(2.0 * x for x in g.half_extents),
    GEOM_CAPSULE: lambda g: (g.height, g.radius, 0.0),
    GEOM_CYLINDER: lambda g: (g.height, g.radius, 0.0),
    GEOM_MESH: lambda g: tuple(g.scale),
}
"""Dimensions of visual shapes as getVisualShapeData reports them; (0, 0, 0) for all others."""

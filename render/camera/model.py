"""The shapes of a model as ray cameras see them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import ModelError
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.geometry.hull import ConvexHull
from newtonsim.geometry.images import read_image
from newtonsim.kernels.camera import pictures as camera_pictures
from newtonsim.kernels.camera import scene as camera_scene
from newtonsim.kernels.steps import presence
from newtonsim.kernels.views.shapes import KIND_HULL
from newtonsim.render.camera.elements import CameraElements
from newtonsim.render.camera.meshes import CameraMesh, pack_corners
from newtonsim.render.camera.rows import RayScene, primitive_extents
from newtonsim.render.camera.textures import Textures
from newtonsim.render.shapes import PALETTE
from newtonsim.runtime import compilation
from newtonsim.scene.allocation import put
from newtonsim.scene.columns import distinct
from newtonsim.scene.enums import GeoType, ShapeFlags

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

STATIC_COLOR = (0.72, 0.71, 0.69, 1.0)
GROUND_COLOR = (0.56, 0.60, 0.52, 1.0)

_CHECKER = np.array([[[168] * 3, [140] * 3], [[140] * 3, [168] * 3]], np.uint8)
_CHECKER_PERIOD = 2.0
"""Period of the checker along a plane [m]."""

_COLLIDES = int(ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)

_camera_meshes: WeakKeyDictionary[Mesh, CameraMesh] = WeakKeyDictionary()
"""Meshes as cameras see them, whose normals take time to make."""


class ModelScene(RayScene):
    """The visible parts of a model: its shapes and the elements of its particles.

    Shapes have the colours and the textures of the model. Those without are coloured by body; static ones are
    grey, and planes have a checker of squares of 1 m. A shape's texture has priority over that of its mesh;
    shapes without texture coordinates show the mean colour.

    Attributes:
        model: The model.
        worlds: Worlds to see, shape (num_worlds,).
        shapes: Shape of each row; rows are world by world, the global shapes first in each.
        elements: Elements of the particles.

    Args:
        model: The model.
        worlds: Worlds to see, None for all.
        colliders: Whether the colliding shapes are seen, in the form in which they collide, instead of the
            visible ones.
        labels: Segmentation label of each shape (shape_count,); None for the index of the body in its world,
            and SEEN_STATIC for shapes without a body.

    Raises:
        ModelError: A world or the number of labels is wrong.
    """

    def __init__(
        self,
        model: Model,
        worlds: npt.ArrayLike | None = None,
        colliders: bool = False,
        labels: npt.ArrayLike | None = None,
    ):
        self.model, self._colliders = model, colliders
        self.worlds = _check_worlds(model, worlds)
        self._used = self._seen_shapes()
        self._read_shapes()
        items = self._items()
        item = np.concatenate(items)
        self.shapes = self._used[item]
        textures, texture, colors = self._paint()
        bodies, places, first = self._records()
        appearances = self._appearance_records(labels, texture, first)
        super().__init__(items, bodies, places, appearances, colors[item], model.device)
        self.corners = self._corners
        self.wear(textures.view(model.device))
        static = int(camera_pictures.SEEN_STATIC)
        soft = (
            int(camera_pictures.SEEN_SURFACE),
            int(camera_pictures.SEEN_PARTICLE),
            int(camera_pictures.SEEN_SPRING),
        )
        self.elements = CameraElements(
            model, self.worlds, (static, static, static) if labels is not None else soft
        )
        self._view.elements = self.elements.view
        self._refresh()
        self._row_shape: wp.array | None = None
        self._no_bodies = wp.zeros(0, dtype=wp.transform, device=model.device)
        self.update(model)

    def update(self, state: State | Model) -> ModelScene:
        """Move everything to the poses of a state; can be captured.

        Args:
            state: Its `body_q` and `particle_q` are read.

        Raises:
            ModelError: It is the state of another model, or another model.
        """
        if state is not self.model:
            self.model.check_state(state)
        self._hide_absent()
        self.place(self.body_poses(state))
        self.elements.update(state.particle_q)
        return self

    def body_poses(self, state: State | Model) -> wp.array:
        """Return the poses of the bodies of a state, an empty array if there are none."""
        return state.body_q if self.model.body_count else self._no_bodies

    def _hide_absent(self) -> None:
        """Make rows on absent bodies invisible."""
        model = self.model
        if not model.bodies_may_be_absent or not len(self.shapes):
            return
        if self._row_shape is None:
            self._row_shape = put(self.shapes, dtype=int, device=self.device)
            self._alpha = put(self.color.numpy()[:, 3], dtype=float, device=self.device)
        compilation.launch(
            presence.hide_rows,
            len(self.shapes),
            reads=dict(
                first=0,
                shape=self._row_shape,
                body=model.shape_body,
                present=model.body_present,
                alpha=self._alpha,
            ),
            writes=dict(color=self.color),
            device=self.device,
            record_tape=False,
        )

    # -- which shapes ----------------------------------------------------------------------------------------

    def _seen_shapes(self) -> np.ndarray:
        """Shapes that are seen in any world."""
        model = self.model
        if not model.shape_count:
            return np.zeros(0, np.int64)
        flags = model.shape_flags.numpy().astype(np.int64)
        seen = (flags & (_COLLIDES if self._colliders else int(ShapeFlags.VISIBLE))) != 0
        if self._colliders and model.ground_shape >= 0:
            seen[model.ground_shape] = True
        return np.flatnonzero(seen & (model.shape_geo.type.numpy() != GeoType.NONE))

    def _items(self) -> list[np.ndarray]:
        """Places in the list of seen shapes, of each world."""
        order = np.argsort(self._owner, kind="stable")
        everywhere = np.flatnonzero(self._owner < 0)
        edges = np.searchsorted(self._owner[order], np.stack([self.worlds, self.worlds + 1], axis=1))
        return [np.concatenate([everywhere, order[a:b]]) for a, b in edges.tolist()]

    def _read_shapes(self) -> None:
        """Copy to the host what is needed of the seen shapes."""
        model, used = self.model, self._used
        none = not model.shape_count
        kinds = np.zeros(0, np.int32) if none else model.shape_geo.type.numpy()
        if self._colliders and not none:
            kinds = collision_plan_of(model).kind
        self._kind = kinds[used]
        self._scale = (np.zeros((0, 3)) if none else model.shape_geo.scale.numpy())[used].astype(np.float64)
        self._body = (np.zeros(0, np.int32) if none else model.shape_body.numpy())[used]
        self._owner = (np.zeros(0, np.int32) if none else model.shape_world.numpy())[used]
        self._source_id = (np.zeros(0, np.uint64) if none else model.shape_geo.source.numpy())[used]
        self._pose = (np.zeros((0, 7)) if none else model.shape_transform.numpy())[used]
        objects, place = distinct(model.shape_geo_src)
        self._objects, self._object = objects, place[used] if len(place) else place

    # -- appearances -----------------------------------------------------------------------------------------

    def _local_body(self) -> np.ndarray:
        """Body of each seen shape, counted from the first of its world; -1 for none."""
        start = np.append(self.model.world_body_start[:-1], 0)
        return np.where(self._body >= 0, self._body - start[self._owner], -1)

    def _paint(self) -> tuple[Textures, np.ndarray, np.ndarray]:
        """Return the images, the index of each shape's image, -1 for none, and its colour (n, 4)."""
        model, body = self.model, self._local_body()
        textures = Textures([_CHECKER])
        palette = np.array(PALETTE)
        colors = np.where(body[:, None] >= 0, palette[body % len(palette)], STATIC_COLOR)
        colors[self._kind == GeoType.HFIELD] = GROUND_COLOR
        texture = np.full(len(body), -1, np.int32)
        files: dict[str, int] = {}
        worn: dict[int, int] = {}
        given, named = list(model.shape_color), list(model.shape_texture)
        for k, shape in enumerate(self._used.tolist()):
            color, file = given[shape], named[shape]
            if color is not None:
                colors[k] = color
            elif self._kind[k] == GeoType.PLANE:
                colors[k], texture[k] = 1.0, 0
            if file is not None:
                if file not in files:
                    files[file] = _add_file(textures, file)
                colors[k] = 1.0 if color is None else color
                texture[k] = files[file]
                continue
            image = getattr(self._objects[self._object[k]], "texture", None)
            if image is not None:
                if id(image) not in worn:
                    worn[id(image)] = textures.add(image)
                colors[k] = 1.0 if color is None else color
                texture[k] = worn[id(image)]
        return textures, *self._mean_of_meshes(textures, texture, colors)

    def _mean_of_meshes(
        self, textures: Textures, texture: np.ndarray, colors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Replace textures of shapes without texture coordinates by their mean colour."""
        mapped = np.array([getattr(source, "uvs", None) is not None for source in self._objects] + [False])
        mapped = mapped[self._object] & (self._kind == GeoType.MESH)
        surfaces = (GeoType.MESH, GeoType.HFIELD, GeoType.SDF, int(KIND_HULL))
        bare = np.isin(self._kind, surfaces) & (texture >= 0) & ~mapped
        for k in np.flatnonzero(bare).tolist():
            colors[k] *= textures.mean(texture[k])
        texture[bare] = -1
        return texture, colors

    def _appearance_records(
        self, labels: np.ndarray | None, texture: np.ndarray, first: np.ndarray
    ) -> np.ndarray:
        model, static = self.model, int(camera_pictures.SEEN_STATIC)
        local = self._local_body()
        appearances = np.zeros(len(self._used), camera_scene.Appearance.numpy_dtype())
        appearances["label"] = np.where(local >= 0, local, static)
        if labels is not None:
            values, expected = np.asarray(labels), (model.shape_count,)
            if values.shape != expected or values.dtype.kind not in "iu":
                raise ModelError(
                    f"labels: expected whole numbers {expected}, got {values.dtype} {values.shape}"
                )
            appearances["label"] = values[self._used]
        joint = np.full(model.body_count + 1, static)
        if model.joint_count:
            joint[model.joint_child.numpy()] = np.arange(model.joint_count)
        appearances["shape"] = self._used
        appearances["body"] = np.where(self._body >= 0, self._body, static)
        appearances["joint"] = joint[self._body]
        appearances["texture"], appearances["first_triangle"], appearances["specular"] = texture, first, 1.0
        return appearances

    # -- geometry --------------------------------------------------------------------------------------------

    def _records(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return geometry and places of the seen shapes for kernels, and their first triangles."""
        count, kind, scale = len(self._used), self._kind, self._scale
        bodies = np.zeros(count, camera_scene.Body.numpy_dtype())
        places = np.zeros(count, camera_scene.Place.numpy_dtype())
        bodies["kind"], bodies["size"], bodies["mesh"] = kind, scale, 0
        places["body"], places["local"], places["stretch"] = self._body, self._pose, 1.0
        half, middle = primitive_extents(kind, scale), np.zeros((count, 3))
        plane = kind == GeoType.PLANE
        bodies["size"][plane] = (_CHECKER_PERIOD, 1.0, _CHECKER_PERIOD)
        # an endless side makes a plane endless
        sides = np.column_stack([scale[:, 0], np.zeros(count), scale[:, 1]]) * 0.5
        bodies["middle"][plane] = sides[plane]
        half[plane] = np.where(sides[plane, ::2].min(axis=1, keepdims=True) > 0.0, sides[plane], 0.0)
        for k in np.flatnonzero(kind == GeoType.SDF).tolist():
            lower, upper = self._objects[self._object[k]].bounds()
            bodies["middle"][k], bodies["size"][k] = 0.5 * (lower + upper), 0.5 * (upper - lower)
            bodies["mesh"][k], places["stretch"][k] = self._source_id[k], scale[k, 0]
            middle[k], half[k] = 0.5 * (lower + upper) * scale[k, 0], 0.5 * (upper - lower) * abs(scale[k, 0])
        first = self._add_meshes(bodies, places, middle, half)
        places["middle"], places["half"] = middle, half
        return bodies, places, first

    def _add_meshes(
        self, bodies: np.ndarray, places: np.ndarray, middle: np.ndarray, half: np.ndarray
    ) -> np.ndarray:
        """Fill the records of meshes, height fields and hulls; return the first triangle of each shape."""
        surfaces: dict[tuple, int] = {}
        meshes: list[CameraMesh] = []
        numbers = np.full(len(bodies), -1)
        meshed = np.isin(self._kind, (GeoType.MESH, GeoType.HFIELD, int(KIND_HULL)))
        for k in np.flatnonzero(meshed).tolist():
            hull, source = self._kind[k] == KIND_HULL, self._objects[self._object[k]]
            key = (self._object[k], *(self._scale[k].tolist() if hull else ()))
            if key not in surfaces:
                surfaces[key] = len(meshes)
                meshes.append(hull_mesh(source.convex_hull(self._scale[k])) if hull else surface_mesh(source))
            numbers[k] = surfaces[key]
            mesh = meshes[numbers[k]]
            stretch = np.ones(3) if hull else self._scale[k]
            corners = np.stack(mesh.bounds()) * stretch
            middle[k], half[k] = 0.5 * corners.sum(axis=0), 0.5 * np.ptp(corners, axis=0)
            sheet = not hull and (isinstance(source, Heightfield) or not source.is_closed)
            has = len(mesh.triangles) > 0
            place = self._source_id[k]
            if hull and has:
                place = mesh.on_device(self.model.device).id
            # without triangles there is nothing to see, as in a ball without size
            bodies[k]["kind"] = GeoType.MESH if has else GeoType.SPHERE
            bodies[k]["size"] = 0.0
            bodies[k]["double_sided"], bodies[k]["triangles"] = sheet, len(mesh.triangles)
            bodies[k]["mesh"], places[k]["stretch"] = place if has else 0, stretch
        self._meshes = meshes
        self._corners, first = pack_corners(meshes, self.model.device)
        return np.append(first, 0)[numbers]


def surface_mesh(source: Mesh | Heightfield) -> CameraMesh:
    """Return a mesh or height field for cameras, created once; its triangles are those of the model."""
    mesh = source.to_mesh() if isinstance(source, Heightfield) else source
    if mesh not in _camera_meshes:
        _camera_meshes[mesh] = CameraMesh(*mesh.surface, corner_uvs=mesh.uvs)
    return _camera_meshes[mesh]


def hull_mesh(hull: ConvexHull) -> CameraMesh:
    """Return a convex hull for cameras, with its faces split into triangles."""
    fans = [np.stack([np.full(len(face) - 2, face[0]), face[1:-1], face[2:]], axis=1) for face in hull.faces]
    return CameraMesh(hull.vertices, np.concatenate([np.zeros((0, 3), np.int32), *fans]))


def _check_worlds(model: Model, worlds: np.ndarray | None) -> np.ndarray:
    if worlds is None:
        return np.arange(model.world_count)
    chosen = np.atleast_1d(np.asarray(worlds))
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise ModelError(f"worlds: expected indices of worlds, got {worlds!r}")
    if chosen.min() < 0 or chosen.max() >= model.world_count:
        raise ModelError(f"worlds: expected 0..{model.world_count - 1}, got {chosen.min()}..{chosen.max()}")
    if len(np.unique(chosen)) != len(chosen):
        raise ModelError(f"worlds: one is listed twice in {chosen.tolist()}")
    return chosen


def _add_file(textures: Textures, file: str) -> int:
    try:
        return textures.add(read_image(file))
    except (OSError, ValueError) as error:
        warnings.warn(f"texture {file} cannot be read; its shapes have no texture: {error}", stacklevel=2)
        return -1

"""Drawing the states of a model with OpenGL, in a window or without one."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp
from warp.render import OpenGLRenderer

from newtonsim.errors import ModelError, RendererUnavailableError
from newtonsim.geometry.transforms import as_vector, quat_between
from newtonsim.kinematics import check_length
from newtonsim.render.marks import (
    CONTACT_COLOR,
    JOINT_COLOR,
    NORMAL_COLOR,
    ContactMarks,
    joint_marks,
    typical_size,
)
from newtonsim.render.shapes import ShapeTable, WorldLayout, body_poses, shape_triangles
from newtonsim.render.sim_renderer.base import StateRenderer, checked_view
from newtonsim.render.sim_renderer.meshes import Balls, MovingMesh, Sheet, Tubes, corner_vertices
from newtonsim.render.sim_renderer.start import start_opengl
from newtonsim.render.sim_renderer.usd import GROUND_HALF_SIZE
from newtonsim.render.soft_parts import (
    CLOTH_COLOR,
    GRAIN_COLOR,
    MUSCLE_COLOR,
    ROPE_COLOR,
    MuscleLines,
    SoftParts,
)
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_PAGE = 64
"""Number of contacts that are drawn as one mesh."""

_DIRECTION = np.array([0.55, 0.45, 1.0])
"""Default direction from the scene to the camera, in the axes of the camera (y up)."""


_open: set[SimRendererOpenGL] = set()
"""Renderers live until they are closed: what the garbage collector frees of one would be freed, under the
same numbers, in the context of another."""


@atexit.register
def _close_all() -> None:
    for renderer in list(_open):
        renderer.close()


class SimRendererOpenGL(StateRenderer, OpenGLRenderer):
    """Draws the states of a model with OpenGL.

    It is a `warp.render.OpenGLRenderer`, whose `render_box`, `setup_tiled_rendering`, `get_pixels` and so on
    can also be used. As there, `camera_pos` and `camera_front` have their y axis up, and lengths multiplied
    by the scaling; `look_at` takes points in the world. Without camera arguments the whole scene is in view.

    Attributes:
        show_particles: Whether to draw particles that are not part of a surface or soft body.
        headless: Whether there is no visible window.

    Args:
        model: The model.
        path: Title of the window.
        scaling: Length at which a metre is drawn.
        fps: Frames per second of the window.
        up_axis: "X", "Y" or "Z"; None for that of the model.
        show_rigid_contact_points: Whether `render` finds and draws contacts.
        contact_points_radius: Radius of contact points [m].
        show_joints: Whether to draw anchors and axes of joints.
        worlds: Worlds to draw; None for all.
        spacing: Distance of neighbouring worlds on a grid [m]; 0 leaves them where they are.
        headless: Whether to draw without a window; None to do so if there is no display.
        **render_kwargs: Further arguments of `warp.render.OpenGLRenderer`: `screen_width`, `camera_pos`, ...

    Raises:
        ModelError: An argument is invalid.
        RendererUnavailableError: This machine cannot draw with OpenGL.
    """

    # update_view_matrix is called before tiles can be there
    _tile_offsets = np.zeros((0, 3))

    def __init__(
        self,
        model: Model,
        path: str | os.PathLike = "newtonsim",
        scaling: float = 1.0,
        fps: int = 60,
        up_axis: str | int | None = None,
        show_rigid_contact_points: bool = False,
        contact_points_radius: float = 1e-3,
        show_joints: bool = False,
        *,
        worlds: Iterable[int] | None = None,
        spacing: float = 0.0,
        headless: bool | None = None,
        **render_kwargs: Any,
    ):
        StateRenderer.__init__(self, model, show_rigid_contact_points, contact_points_radius)
        axis, scaling, fps = checked_view(model, up_axis, scaling, fps)
        self.layout = WorldLayout(model, worlds, spacing)
        headless = start_opengl(headless)
        self._table = ShapeTable.of(model)
        reach = 0.5 * float(np.linalg.norm(np.subtract(*self._bounds(self.layout.worlds))))
        options = {
            "device": model.device,
            "near_plane": 0.01 * scaling * min(reach, 1.0),
            "far_plane": scaling * max(20.0 * reach, 200.0),
            **render_kwargs,
        }
        OpenGLRenderer.__init__(self, os.fspath(path), scaling, fps, axis, headless=headless, **options)
        _open.add(self)
        from pyglet import gl

        # rows of pictures follow one another without gaps, whatever their width
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 1)
        self.show_particles = True
        self._aspect = self.screen_width / self.screen_height
        self._body_q: wp.array | None = None
        self._templates: dict[tuple, int] = {}
        self._instances_of: dict[int, list[int]] = {world: [] for world in [-1, *self.layout.worlds]}
        self._soft: list[tuple[MovingMesh, bool, Callable[[np.ndarray], np.ndarray]]] = []
        self._muscles: list[tuple[MovingMesh, Callable[[np.ndarray], np.ndarray]]] = []
        self._contact_pages: dict[int, list[tuple[MovingMesh, MovingMesh]]] = {}
        self._dots, self._lines = Balls(2 * _PAGE), Tubes(_PAGE)
        self._tiled_worlds: list[int] = []
        self._populate(show_joints)
        self._camera_is_free = not {"camera_pos", "camera_front"} & render_kwargs.keys()
        if self._camera_is_free:
            self.frame_worlds()

    def look_at(self, eye: npt.ArrayLike, target: npt.ArrayLike) -> None:
        """Place the camera, with its picture upright.

        Args:
            eye: Position of the camera [m], shape (3,).
            target: Point in the middle of the picture [m], shape (3,).

        Raises:
            ModelError: They are not points, or coincide.
        """
        eye, target = as_vector(eye, 3, "eye"), as_vector(target, 3, "target")
        front = self._in_camera_axes(target - eye)
        if not np.linalg.norm(front) > 0.0:
            raise ModelError(f"eye and target are both {eye.tolist()}")
        front /= np.linalg.norm(front)
        self._camera_is_free = False
        # what the mouse turns from
        self._pitch = np.degrees(np.arcsin(front[1]))
        self._yaw = np.degrees(np.arctan2(front[2], front[0]))
        self.update_view_matrix(cam_pos=self._scaling * self._in_camera_axes(eye), cam_front=front)

    def frame_worlds(self, worlds: Iterable[int] | None = None) -> None:
        """Place the camera so that it sees all of some worlds, as they are in the model, without infinite
        planes.

        Args:
            worlds: The worlds; None for all that are drawn.
        """
        low, high = self._bounds(self.layout.worlds if worlds is None else list(worlds))
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        back = _DIRECTION / np.linalg.norm(_DIRECTION)
        right = np.cross([0.0, 1.0, 0.0], back)
        right /= np.linalg.norm(right)
        corners = np.stack(np.meshgrid(*([-1.0, 1.0],) * 3), axis=-1).reshape(-1, 3)
        axes = np.stack([right, np.cross(back, right), back], axis=1)
        x, y, z = ((corners * self._in_camera_axes(half)) @ axes).T
        steep = np.tan(np.radians(0.5 * self.camera_fov))
        wide = steep * self._aspect
        distance = 1.1 * float(np.max(z + np.maximum(np.abs(y) / steep, np.abs(x) / wide)))
        free = self._camera_is_free
        self.look_at(middle + distance * self._from_camera_axes(back), middle)
        self._camera_is_free = free

    def tile_worlds(self, worlds: Iterable[int] | None = None, columns: int | None = None) -> None:
        """Draw each world in its own tile, in rows from the upper left; the camera moves equally in all.

        Args:
            worlds: Worlds to draw; None for all that the renderer has.
            columns: Tiles in a row; None for as many as there are rows.

        Raises:
            ModelError: A world is not drawn by this renderer, or the tiles would have no pixels.
        """
        chosen = list(self.layout.worlds if worlds is None else worlds)
        for world in chosen:
            if world not in self._instances_of or world < 0:
                raise ModelError(f"world {world} is not among those of the renderer: {self.layout.worlds}")
        columns = int(np.ceil(np.sqrt(len(chosen)))) if columns is None else columns
        rows = -(-len(chosen) // max(columns, 1))
        if not chosen or columns < 1 or min(self.screen_width // columns, self.screen_height // rows) < 1:
            raise ModelError(f"{len(chosen)} worlds in {columns} columns do not fit into the picture")
        width, height = self.screen_width // columns, self.screen_height // rows
        places = [
            (k % columns * width, self.screen_height - (k // columns + 1) * height)
            for k in range(len(chosen))
        ]
        self._tiled_worlds = chosen
        self.setup_tiled_rendering(
            [self._instances_of[-1] + self._instances_of[world] for world in chosen],
            tile_positions=places,
            tile_sizes=[(width, height)] * len(chosen),
        )
        middle = self._middles()
        self._tile_offsets = middle[chosen] - middle[chosen[0]]
        self._aspect = width / height
        if self._camera_is_free:
            self.frame_worlds(chosen[:1])
        else:
            self.update_view_matrix()

    def picture(self, mode: str = "rgb") -> np.ndarray:
        """Return the picture of the last `end_frame`.

        Args:
            mode: "rgb" or "depth".

        Returns:
            uint8 (height, width, 3), or float32 (height, width): distances along the view [m], those of the
            background being that of the far plane.

        Raises:
            ModelError: There is no such mode.
            RendererUnavailableError: The renderer is closed.
        """
        return self._pixels((self.screen_height, self.screen_width), False, mode)

    def tile_pictures(self, mode: str = "rgb") -> np.ndarray:
        """Return the pictures of the tiles, as `picture` does, with the tiles as first axis.

        Raises:
            ModelError: There is no such mode, or there are no tiles.
        """
        if not self.tiled_rendering:
            raise ModelError("there are no tiles: call tile_worlds first")
        return self._pixels((self.num_tiles, self.tile_height, self.tile_width), True, mode)

    def save_picture(self, path: str | os.PathLike) -> None:
        """Write the picture of the last `end_frame` to a file, PNG, JPEG or any format of Pillow."""
        from PIL import Image

        Image.fromarray(self.picture()).save(path)

    def save(self) -> None:
        """Keep the window open until the user closes it; return at once if there is none."""
        if not self.headless and self in _open:
            OpenGLRenderer.save(self)

    def clear(self) -> None:
        """Free everything that is drawn; `close` and the end of `save` do so."""
        OpenGLRenderer.clear(self)
        self._shape_instancers.clear()
        self._axis_instancer, self.draw_axis = None, False
        _open.discard(self)

    def update(self) -> None:
        """Draw, and process user input; does nothing once the renderer is closed."""
        if self in _open:
            OpenGLRenderer.update(self)

    def update_body_transforms(self, body_tf: wp.array | None) -> None:
        """Move the shapes with the bodies.

        Args:
            body_tf: Poses of the bodies, transform, shape (bodies,); None for the last ones, which the shapes
                need after others were added.

        Raises:
            ModelError: There are more or fewer than the model has bodies.
        """
        if body_tf is not None:
            check_length("body_tf", body_tf, self.model.body_count, wp.transform)
            self._body_q = body_tf
        OpenGLRenderer.update_body_transforms(self, self._body_q)

    def update_view_matrix(
        self, cam_pos: Any = None, cam_front: Any = None, cam_up: Any = None, stiffness: float = 1.0
    ) -> None:
        """Move the camera, equally in all tiles; see `warp.render.OpenGLRenderer`."""
        OpenGLRenderer.update_view_matrix(self, cam_pos, cam_front, cam_up, stiffness)
        for tile, offset in enumerate(self._tile_offsets):
            place = np.array(self.camera_pos) + self._scaling * self._in_camera_axes(offset)
            matrix = self.compute_view_matrix(place, self.camera_front, self.camera_up)
            self.update_tile(tile, view_matrix=matrix)

    def compute_view_matrix(self, cam_pos: Any, cam_front: Any, cam_up: Any) -> np.ndarray:
        """Return the view matrix of a camera, given in axes with y up."""
        from pyglet.math import Mat4, Vec3

        place, front = np.array([*cam_pos]), np.array([*cam_front])
        return np.array(Mat4.look_at(Vec3(*place), Vec3(*(place + front)), Vec3(*cam_up)), dtype=np.float32)

    @staticmethod
    def compute_model_matrix(camera_axis: int, scaling: float) -> np.ndarray:
        """Return the matrix that turns the up axis of the world to y, column by column (16,).

        Warp's own matrix swaps the cases of x up and z up, and adapts the camera to that, but not the light.
        """
        return OpenGLRenderer.compute_model_matrix((2, 1, 0)[camera_axis], scaling)

    def update_model_matrix(self, model_matrix: Any = None) -> None:
        """Pass the matrix to the shaders."""
        OpenGLRenderer.update_model_matrix(self, model_matrix)
        # the sky is there before the world is turned
        self._sky_shader["inv_model"] = tuple(np.eye(4).reshape(-1))

    def _in_camera_axes(self, vector: npt.ArrayLike) -> np.ndarray:
        """Turn a vector of the world so that y is up."""
        return np.roll(np.asarray(vector, dtype=np.float64), 1 - self._camera_axis)

    def _from_camera_axes(self, vector: npt.ArrayLike) -> np.ndarray:
        return np.roll(np.asarray(vector, dtype=np.float64), self._camera_axis - 1)

    def _bounds(self, worlds: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners (3,) of a box about worlds [m], without infinite planes."""
        model, table = self.model, self._table
        reach = model.shape_collision_radius.numpy() if model.shape_count else np.zeros(0)
        shown = table.visible & np.isin(table.world, [-1, *worlds]) & (reach < 1.0e3)
        points = table.poses(body_poses(model, model))[shown, :3] + self.layout.offset(table.world[shown])
        low, high = points - reach[shown, None], points + reach[shown, None]
        if model.particle_count:
            world = model.particle_world.numpy()
            particles = (model.particle_q.numpy() + self.layout.offset(world))[np.isin(world, [-1, *worlds])]
            low, high = np.concatenate([low, particles]), np.concatenate([high, particles])
        if not len(low):
            return np.full(3, -1.0), np.full(3, 1.0)
        return low.min(axis=0) - 1e-3, high.max(axis=0) + 1e-3

    def _middles(self) -> np.ndarray:
        """Return the mean place of the bodies and particles of each world (worlds, 3) [m]."""
        model = self.model
        sums, counts = np.zeros((model.world_count + 1, 3)), np.zeros(model.world_count + 1)
        for world, points in (
            (model.body_world, body_poses(model, model)[:, :3]),
            (model.particle_world, model.particle_q.numpy() if model.particle_count else np.zeros((0, 3))),
        ):
            if len(points):
                np.add.at(sums, world.numpy(), points)
                np.add.at(counts, world.numpy(), 1.0)
        return sums / np.maximum(counts, 1.0)[:, None] + self.layout.offset(
            np.append(np.arange(model.world_count), -1)
        )

    def _populate(self, show_joints: bool) -> None:
        """Add everything that is drawn."""
        soft, muscles = SoftParts.of(self.model), MuscleLines.of(self.model)
        for world in self._instances_of:
            mine = self._table.visible & (self._table.world == world)
            for shape in np.flatnonzero(mine).tolist():
                self._add_shape(world, shape)
            self._add_soft(world, soft.in_world(world))
            self._add_muscles(world, muscles.in_world(world))
        if show_joints:
            self._add_joints()
        if self._instances:
            self.allocate_shape_instances()

    def _add_shape(self, world: int, shape: int) -> None:
        """Add an instance of a shape."""
        table = self._table
        template = self._template(int(table.kind[shape]), table.scale[shape], table.source[shape])
        *color, alpha = table.color[shape]
        if template is None or alpha == 0.0:
            return
        body = int(table.body[shape])
        place = table.transform[shape, :3] + (self.layout.offset(np.array(world)) if body < 0 else 0.0)
        other = 0.8 * np.array(color) if table.kind[shape] == GeoType.PLANE else color
        size = table.scale[shape] if table.kind[shape] == GeoType.ELLIPSOID else np.ones(3)
        self._add_instance(
            world, f"shape_{shape}", template, body, place, table.transform[shape, 3:], size, color, other
        )

    def _add_instance(
        self, world: int, name: str, template: int, body: int, place, rotation, size, color, other
    ) -> None:
        """Add an instance that moves with a body, -1 for none, and is drawn with a world."""
        instance = self.add_shape_instance(
            name,
            template,
            None if body < 0 else body,
            tuple(map(float, place)),
            tuple(map(float, rotation)),
            scale=tuple(map(float, size)),
            color1=tuple(map(float, color)),
            color2=tuple(map(float, other)),
        )
        self._instances_of[world].append(instance)

    def _template(self, kind: int, scale: np.ndarray, source: Any) -> int | None:
        """Return the triangles of a geometry, created once; None if it has none."""
        key = (kind, id(source), *scale.tolist())
        if key not in self._templates:
            self._templates[key] = self._make_template(kind, scale, source)
        return self._templates[key]

    def _make_template(self, kind: int, scale: np.ndarray, source: Any) -> int | None:
        x, y, _ = scale.tolist()
        common = {"name": "template", "pos": (0, 0, 0), "rot": (0, 0, 0, 1), "is_template": True}
        if kind == GeoType.SPHERE:
            return self.render_sphere(radius=x, **common)
        if kind == GeoType.ELLIPSOID:
            return self.render_sphere(radius=1.0, **common)
        if kind == GeoType.BOX:
            return self.render_box(extents=tuple(scale.tolist()), **common)
        if kind == GeoType.PLANE:
            half = [0.5 * size if size > 0.0 else GROUND_HALF_SIZE for size in (x, y)]
            return self.render_plane(width=half[0], length=half[1], **common)
        round_shapes = {
            GeoType.CAPSULE: self.render_capsule,
            GeoType.CYLINDER: self.render_cylinder,
            GeoType.CONE: self.render_cone,
        }
        if kind in round_shapes:
            return round_shapes[GeoType(kind)](radius=x, half_height=y, **common)
        triangles = shape_triangles(kind, scale, source)
        return (
            None
            if triangles is None
            else self.register_shape(("triangles", id(source), *scale.tolist()), *corner_vertices(*triangles))
        )

    def _add_joints(self) -> None:
        """Add a ball at the anchor and an arrow along each axis of the joints."""
        size = typical_size(self.model)
        common = {"name": "template", "pos": (0, 0, 0), "rot": (0, 0, 0, 1), "is_template": True}
        ball = self.render_sphere(radius=0.1 * size, **common)
        arrow = self.render_arrow(
            base_radius=0.03 * size,
            base_height=0.8 * size,
            cap_radius=0.08 * size,
            cap_height=0.2 * size,
            **common,
        )
        one = np.ones(3)
        for mark in joint_marks(self.model):
            if not self.layout.shows(np.array(mark.world)):
                continue
            place = mark.frame[:3] + (self.layout.offset(np.array(mark.world)) if mark.body < 0 else 0.0)
            parts = [(ball, (0.0, 0.0, 0.0, 1.0))]
            parts += [(arrow, quat_between(np.array([0.0, 1.0, 0.0]), axis)) for axis in mark.axes]
            for k, (template, rotation) in enumerate(parts):
                name = f"joint_{mark.joint}_{k}"
                self._add_instance(
                    mark.world, name, template, mark.body, place, rotation, one, JOINT_COLOR, JOINT_COLOR
                )

    def _add_moving(
        self, world: int, name: str, form: Sheet | Balls | Tubes, color: tuple[float, float, float]
    ) -> MovingMesh:
        """Add triangles that move, and are drawn with a world."""
        mesh = MovingMesh(self, f"{name}_{world}", form, color)
        self._instances_of[world].append(mesh.instance)
        return mesh

    def _add_soft(self, world: int, parts: SoftParts) -> None:
        """Add cloth, soft bodies, springs and loose particles of a world."""
        shift = self.layout.offset(np.array(world))
        if len(parts.triangles):
            sheet = Sheet(parts.triangles)
            mesh = self._add_moving(world, "surface", sheet, CLOTH_COLOR)
            self._soft.append((mesh, False, lambda q: sheet.vertices(q + shift)))
        if len(parts.springs):
            tubes, radius = Tubes(len(parts.springs)), parts.spring_radius()
            mesh = self._add_moving(world, "springs", tubes, ROPE_COLOR)
            self._soft.append((mesh, False, lambda q: tubes.vertices(q[parts.springs] + shift, radius)))
        if len(parts.loose):
            balls, sizes = Balls(len(parts.loose)), parts.radius[parts.loose]
            mesh = self._add_moving(world, "particles", balls, GRAIN_COLOR)
            self._soft.append((mesh, True, lambda q: balls.vertices(q[parts.loose] + shift, sizes)))

    def _add_muscles(self, world: int, muscles: MuscleLines) -> None:
        """Add the muscles of a world."""
        if not len(muscles.count):
            return
        segments, radius = muscles.segments(), 0.1 * typical_size(self.model)
        tubes, shift = Tubes(len(segments)), self.layout.offset(np.array(world))
        mesh = self._add_moving(world, "muscles", tubes, MUSCLE_COLOR)
        self._muscles.append((mesh, lambda q: tubes.vertices(muscles.points(q)[segments] + shift, radius)))

    def _draw_state(self, state: State) -> None:
        if self not in _open:  # a user who closes the window does not stop the simulation
            return
        self._switch_context()
        if self.model.body_count:
            self.update_body_transforms(self._shifted(state.body_q))
        if self._soft:
            particle_q = state.particle_q.numpy().astype(np.float64)
            for mesh, is_particles, vertices in self._soft:
                shown = self.show_particles or not is_particles
                mesh.write(vertices(particle_q) if shown else np.zeros((0, 8)))
        if self._muscles:
            body_q = body_poses(self.model, state)
            for mesh, vertices in self._muscles:
                mesh.write(vertices(body_q))

    def _shifted(self, body_q: wp.array) -> wp.array:
        """Return body poses where the layout puts them."""
        if not self.layout.moves:
            return body_q
        poses = body_q.numpy().copy()
        poses[:, :3] += self.layout.offset(self.model.body_world.numpy())
        return wp.array(poses, dtype=wp.transform, device=body_q.device)

    def _draw_contacts(self, marks: ContactMarks, radius: float) -> None:
        if self not in _open:
            return
        self._switch_context()
        for world in self.layout.worlds:
            mine = np.flatnonzero(marks.world == world)
            pages = self._contact_pages.setdefault(world, [])
            while len(pages) * _PAGE < len(mine):
                pages.append(self._new_page(world, len(pages)))
            shift = self.layout.offset(np.array(world))
            for number, (dots, lines) in enumerate(pages):
                few = mine[number * _PAGE : (number + 1) * _PAGE]
                point0, point1 = marks.point0[few] + shift, marks.point1[few] + shift
                ends = np.stack([point1, point1 + 20.0 * radius * marks.normal[few]], axis=1)
                dots.write(self._dots.vertices(np.concatenate([point0, point1]), radius))
                lines.write(self._lines.vertices(ends, 0.5 * radius))

    def _new_page(self, world: int, number: int) -> tuple[MovingMesh, MovingMesh]:
        """Allocate a mesh for more contacts of a world."""
        page = (
            self._add_moving(world, f"contacts_{number}", self._dots, CONTACT_COLOR),
            self._add_moving(world, f"normals_{number}", self._lines, NORMAL_COLOR),
        )
        if world in self._tiled_worlds:
            instances = self._instances_of[-1] + self._instances_of[world]
            self.update_tile(self._tiled_worlds.index(world), instances=instances)
        return page

    def _pixels(self, shape: tuple[int, ...], tiles: bool, mode: str) -> np.ndarray:
        """Read colours, or depths in metres."""
        if mode not in ("rgb", "depth"):
            raise ModelError(f"mode: expected 'rgb' or 'depth', got {mode!r}")
        if self not in _open:
            raise RendererUnavailableError("the renderer is closed")
        rgb = mode == "rgb"
        target = wp.zeros((*shape, 3 if rgb else 1), dtype=wp.uint8 if rgb else float, device=self._device)
        if not self.get_pixels(target, split_up_tiles=tiles, mode=mode, use_uint8=rgb):
            raise RendererUnavailableError("OpenGL gives no picture of this window")
        return target.numpy() if rgb else target.numpy()[..., 0] / self._scaling

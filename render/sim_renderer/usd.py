"""Animations as USD files, which usdview, Omniverse and Blender play."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.render.marks import (
    CONTACT_COLOR,
    JOINT_COLOR,
    NORMAL_COLOR,
    ContactMarks,
    JointMark,
    joint_marks,
    typical_size,
)
from newtonsim.render.shapes import ShapeTable, WorldLayout, body_poses, shape_triangles
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

GROUND_HALF_SIZE = 50.0  # an infinite plane is drawn this far from its origin [m]
_SOFT_NAMES = ("surface", "springs", "particles", "muscles")
_WHOLE = 1.0e-3
"""Times this close to a whole frame, in frames, are rounded to it, since sums of time steps are not exact."""


class UsdAnimation:
    """Writes the states of chosen worlds as time samples of one USD file.

    Args:
        path: File to write; the ending (.usd, .usda, .usdc) chooses the encoding.
        model: Model whose states will be recorded.
        fps: Frames per second of the animation.
        worlds: Worlds to draw; all by default.
        spacing: Distance of neighbouring worlds on the grid [m]; 0 leaves them where they are.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        model: Model,
        *,
        fps: float = 30.0,
        worlds: Iterable[int] | None = None,
        spacing: float = 0.0,
    ):
        from pxr import Usd, UsdGeom

        self.path = checked_path(path)
        self.fps = float(fps)
        self.stage = Usd.Stage.CreateInMemory()
        prepare_stage(self.stage, "XYZ"[model.up_axis], self.fps)
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, "/scene").GetPrim())
        self.scene = UsdScene(self.stage, "/scene", model, WorldLayout(model, worlds, spacing))

    def record(self, state: State, time: float) -> None:
        """Add a frame.

        Args:
            state: The state to record.
            time: Simulated time [s].

        Raises:
            ModelError: It is the state of another model.
        """
        self.scene.model.check_state(state)
        self.scene.write(state, frame_of(time, self.fps))

    def save(self) -> None:
        """Write the file."""
        export_stage(self.stage, self.path)


class UsdScene:
    """The prims of a model below a path of a stage, and their time samples.

    Every world is an Xform with one Xform per body, named after its key; a number is appended if the name is
    taken within the world, so that a body has the same name in all copies of a world. Shapes and joint axes
    are below their bodies as UsdGeom primitives, so only the bodies carry time samples. Cloth, soft bodies
    and loose particles are a mesh, a set of lines and a set of points in each world, whose positions carry
    the samples.

    Args:
        stage: The stage.
        root: Path of the prim below which everything is created.
        model: The model.
        layout: Worlds to draw, and where.
        show_joints: Whether to draw the axes of joints.
    """

    def __init__(self, stage: Any, root: str, model: Model, layout: WorldLayout, show_joints: bool = False):
        self.stage, self.root, self.model, self.layout = stage, root, model, layout
        self.shapes = ShapeTable.of(model)
        self._first_frame: float | None = None
        self._last_frame = 0.0
        self._bodies: list[tuple[int, Any, Any]] = []  # (body, translate op, orient op)
        self._soft: list[tuple[Any, np.ndarray]] = []  # (points attribute, particles)
        self._muscles: list[tuple[Any, MuscleLines]] = []
        self._meshes: dict[tuple, tuple | None] = {}
        self._names: dict[str, set[str]] = {}  # of the prims below each, by path
        self._build(joint_marks(model) if show_joints else [])

    def write(self, state: State, frame: float) -> None:
        """Add time samples.

        Args:
            state: What is drawn.
            frame: Time code.
        """
        from pxr import Gf, Sdf

        self.extend_range(frame)
        body_q = body_poses(self.model, state)
        rows = body_q.tolist()
        with Sdf.ChangeBlock():
            for body, translate, orient in self._bodies:
                x, y, z, qx, qy, qz, qw = rows[body]
                translate.Set(Gf.Vec3d(x, y, z), frame)
                orient.Set(Gf.Quatf(qw, qx, qy, qz), frame)
            for attribute, muscles in self._muscles:
                attribute.Set(_vectors(muscles.points(body_q)), frame)
            if self._soft:
                particle_q = state.particle_q.numpy()
                for attribute, particles in self._soft:
                    attribute.Set(_vectors(particle_q[particles]), frame)

    def write_contacts(self, marks: ContactMarks, frame: float, radius: float) -> None:
        """Add time samples of contacts: points of both shapes, and lines along the normals.

        Args:
            marks: The contacts.
            frame: Time code.
            radius: Radius of the points [m]; lines are 20 times as long.
        """
        shown = self.layout.shows(marks.world)
        offset = self.layout.offset(marks.world[shown])
        point0, point1 = marks.point0[shown] + offset, marks.point1[shown] + offset
        self.extend_range(frame)
        points = self._points(f"{self.root}/contacts", CONTACT_COLOR, radius)
        points.GetPointsAttr().Set(_vectors(np.concatenate([point0, point1])), frame)
        ends = np.stack([point1, point1 + 20.0 * radius * marks.normal[shown]], axis=1)
        lines = self._lines(f"{self.root}/contact_normals", NORMAL_COLOR, 0.5 * radius)
        lines.GetPointsAttr().Set(_vectors(ends), frame)
        lines.GetCurveVertexCountsAttr().Set(_integers(np.full(len(ends), 2)), frame)

    def extend_range(self, frame: float) -> None:
        """Extend the playback range of the stage from the first frame written to a frame."""
        if self._first_frame is None:
            self._first_frame = self._last_frame = frame
        self._first_frame, self._last_frame = min(self._first_frame, frame), max(self._last_frame, frame)
        self.stage.SetStartTimeCode(self._first_frame)
        self.stage.SetEndTimeCode(self._last_frame)

    def _build(self, joints: list[JointMark]) -> None:
        """Create the prims of the chosen worlds and of the global one."""
        body_world = self.model.body_world.numpy() if self.model.body_count else np.zeros(0, np.int32)
        soft, muscles = SoftParts.of(self.model), MuscleLines.of(self.model)
        for world in [-1, *self.layout.worlds]:
            top = f"{self.root}/common" if world < 0 else f"{self.root}/world_{world}"
            bodies = np.flatnonzero(body_world == world)
            shapes = np.flatnonzero(self.shapes.visible & (self.shapes.world == world))
            mine = [joint for joint in joints if joint.world == world]
            if not (len(bodies) or len(shapes) or mine or (soft.world == world).any()):
                continue
            self._place(top, self.layout.offset(np.array([world]))[0])
            paths = {-1: top}
            for body in bodies.tolist():
                paths[body] = self._free_path(top, self.model.body_key[body])
                self._bodies.append((body, *self._place(paths[body])))
            for shape in shapes.tolist():
                self._add_shape(paths[int(self.shapes.body[shape])], shape)
            for joint in mine:
                self._add_joint(paths[joint.body], joint)
            self._add_soft(top, soft.in_world(world))
            self._add_muscles(top, muscles.in_world(world))

    def _free_path(self, parent: str, key: str) -> str:
        """Return the path of a new prim that is named after a key, with a number if the name is taken."""
        taken = self._names.setdefault(parent, set(_SOFT_NAMES))
        name = base = prim_name(key)
        number = 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        return f"{parent}/{name}"

    def _place(self, path: str, position: np.ndarray | None = None) -> tuple:
        """Define an Xform and return its translate and orient operations."""
        from pxr import UsdGeom

        return _set_pose(UsdGeom.Xform.Define(self.stage, path), position, None)

    def _add_shape(self, parent: str, shape: int) -> None:
        """Define the prim of a shape below the prim of its body."""
        from pxr import Gf, Vt

        table = self.shapes
        path = self._free_path(parent, table.key[shape])
        kind, scale = int(table.kind[shape]), table.scale[shape]
        prim, size = self._define_geometry(path, kind, scale, table.source[shape])
        if prim is None:
            return
        _set_pose(prim, table.transform[shape, :3], table.transform[shape, 3:])
        if size is not None:
            prim.AddScaleOp().Set(Gf.Vec3f(*(float(v) for v in size)))
        _set_color(prim, table.color[shape][:3])
        prim.CreateDisplayOpacityAttr(Vt.FloatArray([float(table.color[shape][3])]))

    def _define_geometry(
        self, path: str, kind: int, scale: np.ndarray, source: Any
    ) -> tuple[Any, np.ndarray | None]:
        """Define the prim of a geometry; also return the scale it needs, if any."""
        from pxr import UsdGeom

        if kind in (GeoType.SPHERE, GeoType.ELLIPSOID):
            sphere = UsdGeom.Sphere.Define(self.stage, path)
            sphere.CreateRadiusAttr(float(scale[0]) if kind == GeoType.SPHERE else 1.0)
            return sphere, scale if kind == GeoType.ELLIPSOID else None
        if kind == GeoType.BOX:
            cube = UsdGeom.Cube.Define(self.stage, path)
            cube.CreateSizeAttr(2.0)
            return cube, scale
        round_types = {
            GeoType.CAPSULE: UsdGeom.Capsule,
            GeoType.CYLINDER: UsdGeom.Cylinder,
            GeoType.CONE: UsdGeom.Cone,
        }
        if kind in round_types:
            prim = round_types[GeoType(kind)].Define(self.stage, path)
            prim.CreateAxisAttr(UsdGeom.Tokens.y)
            prim.CreateRadiusAttr(float(scale[0]))
            prim.CreateHeightAttr(2.0 * float(scale[1]))
            return prim, None
        # copies of a mesh share their arrays, which the binary encoding stores once
        key = (kind, id(source), *scale.tolist())
        if key not in self._meshes:
            triangles = (
                plane_corners(scale) if kind == GeoType.PLANE else shape_triangles(kind, scale, source)
            )
            self._meshes[key] = None if triangles is None else _mesh_arrays(*triangles)
        arrays = self._meshes[key]
        return (None, None) if arrays is None else (_define_mesh(self.stage, path, *arrays), None)

    def _add_joint(self, parent: str, mark: JointMark) -> None:
        """Define a ball at the anchor of a joint, and its axes, below the prim of its parent body."""
        from pxr import UsdGeom

        size = typical_size(self.model)
        path = self._free_path(parent, f"joint_{self.model.joint_key[mark.joint]}")
        ball = UsdGeom.Sphere.Define(self.stage, f"{path}_anchor")
        ball.CreateRadiusAttr(0.1 * size)
        _set_pose(ball, mark.frame[:3], None)
        _set_color(ball, JOINT_COLOR)
        if len(mark.axes):
            start = np.broadcast_to(mark.frame[:3], mark.axes.shape)
            lines = self._lines(f"{path}_axes", JOINT_COLOR, 0.04 * size)
            lines.GetPointsAttr().Set(_vectors(np.stack([start, start + size * mark.axes], axis=1)))
            lines.GetCurveVertexCountsAttr().Set(_integers(np.full(len(mark.axes), 2)))

    def _add_soft(self, top: str, parts: SoftParts) -> None:
        """Define the prims of cloth, soft bodies, springs and loose particles of a world."""
        if len(parts.triangles):
            used, faces = np.unique(parts.triangles, return_inverse=True)
            mesh = _define_mesh(self.stage, f"{top}/surface", *_mesh_arrays([], faces.reshape(-1, 3)))
            mesh.CreateDoubleSidedAttr(True)
            _set_color(mesh, CLOTH_COLOR)
            self._soft.append((mesh.GetPointsAttr(), used))
        if len(parts.springs):
            lines = self._lines(f"{top}/springs", ROPE_COLOR, parts.spring_radius())
            lines.GetCurveVertexCountsAttr().Set(_integers(np.full(len(parts.springs), 2)))
            self._soft.append((lines.GetPointsAttr(), parts.springs.reshape(-1)))
        if len(parts.loose):
            points = self._points(f"{top}/particles", GRAIN_COLOR, parts.radius[parts.loose])
            self._soft.append((points.GetPointsAttr(), parts.loose))

    def _add_muscles(self, top: str, muscles: MuscleLines) -> None:
        """Define the lines of the muscles of a world."""
        if len(muscles.count):
            lines = self._lines(f"{top}/muscles", MUSCLE_COLOR, 0.1 * typical_size(self.model))
            lines.GetCurveVertexCountsAttr().Set(_integers(muscles.count))
            self._muscles.append((lines.GetPointsAttr(), muscles))

    def _points(self, path: str, color: tuple[float, float, float], radius: npt.ArrayLike) -> Any:
        """Return a set of points, defined if it is new."""
        from pxr import UsdGeom

        points = UsdGeom.Points.Get(self.stage, path)
        if not points:
            points = UsdGeom.Points.Define(self.stage, path)
            _set_widths(points, radius)
            _set_color(points, color)
        return points

    def _lines(self, path: str, color: tuple[float, float, float], radius: float) -> Any:
        """Return a set of straight lines, defined if it is new."""
        from pxr import UsdGeom

        lines = UsdGeom.BasisCurves.Get(self.stage, path)
        if not lines:
            lines = UsdGeom.BasisCurves.Define(self.stage, path)
            lines.CreateTypeAttr(UsdGeom.Tokens.linear)
            _set_widths(lines, radius)
            _set_color(lines, color)
        return lines


def checked_path(path: str | os.PathLike) -> str:
    """Return the path of a file that can be written as USD.

    Raises:
        ModelError: The ending is none of USD's, or there is no such folder.
    """
    from pxr import Sdf

    path = os.fspath(path)
    if not Sdf.FileFormat.FindByExtension(os.path.splitext(path)[1].lstrip(".")):
        raise ModelError(f"{path}: the name of a USD file must end in .usd, .usda or .usdc")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ModelError(f"{path}: there is no folder {os.path.dirname(path)}")
    return path


def export_stage(stage: Any, path: str) -> None:
    """Write a stage to a file.

    Raises:
        OSError: The file cannot be written.
    """
    from pxr import Tf

    try:
        written = stage.Export(path)
    except Tf.ErrorException as error:
        raise OSError(f"{path}: {error}") from error
    if not written:
        raise OSError(f"{path}: cannot be written")


def prepare_stage(stage: Any, up_axis: str, fps: float, meters_per_unit: float = 1.0) -> None:
    """Write units, up axis and frame rate of a stage.

    Raises:
        ModelError: The up axis is not one that USD has.
    """
    from pxr import UsdGeom

    axis = {"Y": UsdGeom.Tokens.y, "Z": UsdGeom.Tokens.z}.get(up_axis)
    if axis is None:
        raise ModelError(f"up axis {up_axis}: a USD stage has its up axis along Y or Z")
    UsdGeom.SetStageUpAxis(stage, axis)
    UsdGeom.SetStageMetersPerUnit(stage, meters_per_unit)
    stage.SetTimeCodesPerSecond(fps)
    stage.SetFramesPerSecond(fps)


def frame_of(time: float, fps: float) -> float:
    """Return the time code of a simulated time [s]."""
    frame = float(time) * fps
    return float(round(frame)) if abs(frame - round(frame)) < _WHOLE else frame


def prim_name(key: str) -> str:
    """Return a legal name of a prim that still shows the key."""
    name = re.sub("[^A-Za-z0-9_]", "_", key) or "unnamed"
    return f"_{name}" if name[0].isdigit() else name


def plane_corners(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners (4, 3) and the face (1, 4) of a plane with normal y; infinite ones are cut off."""
    x, z = (float(size) / 2.0 if size > 0.0 else GROUND_HALF_SIZE for size in scale[:2])
    return np.array([[-x, 0, -z], [-x, 0, z], [x, 0, z], [x, 0, -z]]), np.array([[0, 1, 2, 3]])


def _set_pose(prim: Any, position: np.ndarray | None, rotation: np.ndarray | None) -> tuple:
    """Add translate and orient operations, set to a pose with an xyzw quaternion."""
    from pxr import Gf

    translate, orient = prim.AddTranslateOp(), prim.AddOrientOp()
    translate.Set(Gf.Vec3d(*(float(v) for v in (position if position is not None else np.zeros(3)))))
    x, y, z, w = (float(v) for v in (rotation if rotation is not None else (0, 0, 0, 1)))
    orient.Set(Gf.Quatf(w, x, y, z))
    return translate, orient


def _set_color(prim: Any, color: tuple[float, ...]) -> None:
    """Give a prim one colour."""
    from pxr import Gf, Vt

    prim.CreateDisplayColorAttr(Vt.Vec3fArray([Gf.Vec3f(*(float(v) for v in color))]))


def _set_widths(prim: Any, radius: npt.ArrayLike) -> None:
    """Give points or lines one radius [m], or each point its own."""
    from pxr import UsdGeom, Vt

    widths = 2.0 * np.atleast_1d(np.asarray(radius, dtype=np.float32))
    prim.CreateWidthsAttr(Vt.FloatArray.FromNumpy(widths))
    same = np.ndim(radius) == 0
    prim.SetWidthsInterpolation(UsdGeom.Tokens.constant if same else UsdGeom.Tokens.vertex)


def _vectors(values: npt.ArrayLike) -> Any:
    """Return vectors (..., 3) as an array of USD."""
    from pxr import Vt

    return Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(values, dtype=np.float32).reshape(-1, 3))


def _integers(values: npt.ArrayLike) -> Any:
    """Return whole numbers (n,) as an array of USD."""
    from pxr import Vt

    return Vt.IntArray.FromNumpy(np.ascontiguousarray(values, dtype=np.int32).reshape(-1))


def _mesh_arrays(points: npt.ArrayLike, faces: np.ndarray) -> tuple:
    """Return points, corners of faces and corners per face as arrays of USD."""
    return _vectors(points), _integers(faces), _integers(np.full(len(faces), faces.shape[1]))


def _define_mesh(stage: Any, path: str, points: Any, corners: Any, counts: Any) -> Any:
    """Define a polygon mesh without subdivision."""
    from pxr import UsdGeom

    mesh = UsdGeom.Mesh.Define(stage, path)
    if len(points):
        mesh.CreatePointsAttr(points)
    mesh.CreateFaceVertexIndicesAttr(corners)
    mesh.CreateFaceVertexCountsAttr(counts)
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    return mesh

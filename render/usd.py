"""Animations as USD files, which usdview, Omniverse and Blender play."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.enums import GeoType
from newtonsim.render.shapes import ShapeTable, shape_triangles, world_grid

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State

GROUND_HALF_SIZE = 50.0  # an infinite plane is drawn this far from its origin [m]


class UsdAnimation:
    """Writes body poses of chosen worlds as time samples of one USD stage.

    Every world is an Xform with one Xform a body; shapes hang below their bodies as UsdGeom primitives, so
    only the bodies carry time samples. Worlds that lie on one another in the model are laid out on a grid.

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

        self.path = os.fspath(path)
        self.fps = float(fps)
        self.shapes = ShapeTable.of(model)
        self.worlds = list(range(model.world_count)) if worlds is None else [int(w) for w in worlds]
        self.stage = Usd.Stage.CreateInMemory()
        up = np.asarray(model.up_vector, dtype=np.float64)
        UsdGeom.SetStageUpAxis(self.stage, UsdGeom.Tokens.y if abs(up[1]) > 0.5 else UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        self.stage.SetTimeCodesPerSecond(self.fps)
        self.stage.SetFramesPerSecond(self.fps)
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, "/scene").GetPrim())
        self._last_frame: float | None = None
        self._bodies: list[tuple[int, Any, Any]] = []  # (body, translate op, orient op)
        self._build(model, world_grid(len(self.worlds), spacing, up))

    def record(self, state: State, time: float) -> None:
        """Add a frame.

        Args:
            state: Its body poses are recorded.
            time: Simulated time [s].
        """
        from pxr import Gf

        frame = float(time) * self.fps
        body_q = state.body_q.numpy().astype(float)
        for body, translate, orient in self._bodies:
            x, y, z, qx, qy, qz, qw = body_q[body].tolist()
            translate.Set(Gf.Vec3d(x, y, z), frame)
            orient.Set(Gf.Quatf(qw, qx, qy, qz), frame)
        if self._last_frame is None:
            self.stage.SetStartTimeCode(frame)
        self._last_frame = frame

    def save(self) -> None:
        """Write the file."""
        if self._last_frame is not None:
            self.stage.SetEndTimeCode(self._last_frame)
        self.stage.Export(self.path)

    def _build(self, model: Model, offsets: np.ndarray) -> None:
        """Create the prims of the chosen worlds and of the global one."""
        body_world, body_key = model.body_world.numpy(), list(model.body_key)
        for world, offset in [(-1, np.zeros(3)), *zip(self.worlds, offsets, strict=True)]:
            top = "/scene/common" if world < 0 else f"/scene/world_{world}"
            bodies = np.flatnonzero(body_world == world)
            statics = np.flatnonzero((self.shapes.world == world) & (self.shapes.body < 0))
            if not len(bodies) and not len(statics):
                continue
            self._place(top, offset)
            paths = {-1: top}
            for body in bodies:
                paths[int(body)] = f"{top}/{prim_name(body_key[body], body)}"
                self._bodies.append((int(body), *self._place(paths[int(body)])))
            for shape in np.flatnonzero(self.shapes.visible & (self.shapes.world == world)):
                self._add_shape(paths[int(self.shapes.body[shape])], int(shape))

    def _place(self, path: str, position: np.ndarray | None = None) -> tuple:
        """Define an Xform and return its translate and orient operations."""
        from pxr import UsdGeom

        return _set_pose(UsdGeom.Xform.Define(self.stage, path), position, None)

    def _add_shape(self, parent: str, shape: int) -> None:
        """Define the prim of a shape below the prim of its body."""
        from pxr import Gf, Vt

        table = self.shapes
        path = f"{parent}/{prim_name(table.key[shape], shape)}"
        kind, scale = int(table.kind[shape]), table.scale[shape]
        prim, size = _define_geometry(self.stage, path, kind, scale, table.source[shape])
        if prim is None:
            return
        _set_pose(prim, table.transform[shape, :3], table.transform[shape, 3:])
        if size is not None:
            prim.AddScaleOp().Set(Gf.Vec3f(*(float(v) for v in size)))
        red, green, blue, alpha = table.color[shape]
        prim.CreateDisplayColorAttr(Vt.Vec3fArray([Gf.Vec3f(red, green, blue)]))
        prim.CreateDisplayOpacityAttr(Vt.FloatArray([float(alpha)]))


def prim_name(key: str, index: int) -> str:
    """Return a legal, unique prim name that still shows the key."""
    return f"{re.sub('[^A-Za-z0-9_]', '_', key) or 'unnamed'}_{index}".lstrip("0123456789")


def _set_pose(prim: Any, position: np.ndarray | None, rotation: np.ndarray | None) -> tuple:
    """Add translate and orient operations, set to a pose with an xyzw quaternion."""
    from pxr import Gf

    translate, orient = prim.AddTranslateOp(), prim.AddOrientOp()
    translate.Set(Gf.Vec3d(*(float(v) for v in (position if position is not None else np.zeros(3)))))
    x, y, z, w = (float(v) for v in (rotation if rotation is not None else (0, 0, 0, 1)))
    orient.Set(Gf.Quatf(w, x, y, z))
    return translate, orient


def _define_geometry(
    stage: Any, path: str, kind: int, scale: np.ndarray, source: Any
) -> tuple[Any, np.ndarray | None]:
    """Define the prim of a geometry; also return the scale it needs, if any."""
    from pxr import UsdGeom

    if kind in (GeoType.SPHERE, GeoType.ELLIPSOID):
        sphere = UsdGeom.Sphere.Define(stage, path)
        sphere.CreateRadiusAttr(float(scale[0]) if kind == GeoType.SPHERE else 1.0)
        return sphere, scale if kind == GeoType.ELLIPSOID else None
    if kind == GeoType.BOX:
        cube = UsdGeom.Cube.Define(stage, path)
        cube.CreateSizeAttr(2.0)
        return cube, scale
    round_types = {
        GeoType.CAPSULE: UsdGeom.Capsule,
        GeoType.CYLINDER: UsdGeom.Cylinder,
        GeoType.CONE: UsdGeom.Cone,
    }
    if kind in round_types:
        prim = round_types[GeoType(kind)].Define(stage, path)
        prim.CreateAxisAttr(UsdGeom.Tokens.y)
        prim.CreateRadiusAttr(float(scale[0]))
        prim.CreateHeightAttr(2.0 * float(scale[1]))
        return prim, None
    if kind == GeoType.PLANE:
        x = float(scale[0]) / 2.0 or GROUND_HALF_SIZE
        z = float(scale[1]) / 2.0 or GROUND_HALF_SIZE
        corners = [[-x, 0, -z], [-x, 0, z], [x, 0, z], [x, 0, -z]]
        return _define_mesh(stage, path, corners, [[0, 1, 2, 3]]), None
    triangles = shape_triangles(kind, scale, source)
    return (_define_mesh(stage, path, *triangles), None) if triangles is not None else (None, None)


def _define_mesh(stage: Any, path: str, points: Any, faces: Any) -> Any:
    """Define a polygon mesh without subdivision."""
    from pxr import UsdGeom, Vt

    mesh = UsdGeom.Mesh.Define(stage, path)
    corners = np.asarray(faces, dtype=np.int32)
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points, dtype=np.float32)))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(np.ascontiguousarray(corners.reshape(-1))))
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray([corners.shape[1]] * len(corners)))
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    return mesh

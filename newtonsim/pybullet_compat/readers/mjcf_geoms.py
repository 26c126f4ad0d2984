"""Geoms of MJCF files: shapes, masses and the boxes that inertias come from."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.geometry.transforms import quat_between
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose, quat_from_axis_angle
from newtonsim.importers.mjcf.document import Defaults
from newtonsim.pybullet_compat.descriptions.description import Geometry, Visual
from newtonsim.pybullet_compat.descriptions.kinds import Geom as Kind
from newtonsim.pybullet_compat.descriptions.kinds import LoadFlag
from newtonsim.pybullet_compat.descriptions.mass import (
    box_inertia,
    inertia_of_shapes,
    is_plain,
    moved_box,
    placed_box,
)
from newtonsim.pybullet_compat.readers.geometry import UNNAMED_MESH, find_file, mesh_geometry
from newtonsim.pybullet_compat.readers.options import LoadOptions

DENSITY = 1000.0
"""Of all geoms [kg/m³]; the density in the file does not count."""
LINE_MARGIN = 0.04
"""Margin of capsules that are given by their ends [m]."""
WHITE = (1.0, 1.0, 1.0, 1.0)


@dataclass(slots=True)
class Geom:
    """One geom.

    Attributes:
        shape: How it collides.
        visual: How it looks.
        mass: Of the solid at the density of water [kg].
        centre: Where the inertial frame of its body lies if it is the last geom (3,).
        ends: Ends of a capsule that is given by them (2, 3), or None.
        from_ends: Whether it is given by its ends.
        friction: Coefficient of sliding friction.
        group: Collision group (contype).
        mask: Collision mask (conaffinity).
    """

    shape: Geometry
    visual: Visual
    mass: float
    centre: np.ndarray
    ends: np.ndarray | None
    from_ends: bool
    friction: float
    group: int
    mask: int


class GeomReader:
    """Reads the geoms of one document.

    Args:
        root: The <mujoco> element.
        path: The file.
        defaults: Default classes.
        options: How the file is loaded.
        faults: Meets what is not taken as it stands.
    """

    def __init__(
        self,
        root: Node,
        path: str,
        defaults: Defaults,
        options: LoadOptions,
        faults: Faults,
    ):
        self.path, self.defaults, self.options, self.faults = path, defaults, options, faults
        folder = ""
        for node in root.findall("compiler"):
            folder = node.text_of("meshdir") or folder
        self.meshes: dict[str, str] = {}
        for asset in root.findall("asset"):
            for mesh in asset.findall("mesh"):
                name, file = mesh.text_of("name"), mesh.text_of("file")
                if file:
                    place = f"{folder.rstrip('/')}/{file}" if folder else file
                    self.meshes[name or file.rsplit("/", 1)[-1].rsplit(".", 1)[0]] = place

    def read(self, node: Node, inherited: str | None) -> Geom | None:
        """Read a geom; None for kinds that PyBullet does not know.

        Args:
            node: The element.
            inherited: Default class of the body.
        """
        full, _ = self.defaults.resolve(node, inherited)
        ends = self._ends(full)
        pose = self._pose(full)
        size = self._numbers(full, "size")
        shape, seen, mass = self._shape(full, pose, size, ends)
        if shape is None:
            return None
        rgba = WHITE
        if self.options.flags & LoadFlag.COLORS_FROM_FILE and len(self._numbers(full, "rgba")) == 4:
            rgba = tuple(self._numbers(full, "rgba"))
        friction = self._numbers(full, "friction")
        is_line = ends is not None and shape.kind in (Kind.CAPSULE, Kind.CYLINDER)
        return Geom(
            shape=shape,
            visual=Visual(seen, rgba),
            mass=mass,
            centre=ends.mean(axis=0) if is_line else np.zeros(3),
            ends=ends if is_line and shape.kind == Kind.CAPSULE else None,
            from_ends=is_line,
            friction=friction[0] if friction else 0.5,
            group=int(full.float("contype", 1.0, self.faults)),
            mask=int(full.float("conaffinity", 1.0, self.faults)),
        )

    def _numbers(self, node: Node, name: str) -> list[float]:
        """All numbers of an attribute, none where it is missing."""
        return node.floats(name, default=(), faults=self.faults).tolist()

    def _ends(self, node: Node) -> np.ndarray | None:
        values = self._numbers(node, "fromto")
        return np.array(values[:6]).reshape(2, 3) if len(values) >= 6 else None

    def _pose(self, node: Node) -> Pose:
        position = node.floats("pos", 3, (0.0, 0.0, 0.0), faults=self.faults)
        quaternion = node.floats("quat", 4, np.zeros(4), faults=self.faults)
        turn = node.floats("axisangle", 4, np.zeros(4), faults=self.faults)
        q = Pose.identity().q
        if quaternion.any():
            q = quat_of_wxyz(quaternion)
        elif turn[:3].any():
            q = quat_from_axis_angle(turn[:3] / np.linalg.norm(turn[:3]), turn[3])
        elif node.text_of("euler") or node.text_of("zaxis") or node.text_of("xyaxes"):
            self.faults.meet(node.error("only quat and axisangle are read as orientations"))
        return Pose(position, q)

    def _shape(
        self, node: Node, pose: Pose, size: list[float], ends: np.ndarray | None
    ) -> tuple[Geometry | None, Geometry | None, float]:
        """Return how a geom collides and looks, and its mass."""
        kind = node.text_of("type")
        size = [*size, 0.0, 0.0, 0.0]
        r = size[0]
        if kind == "sphere":
            shape = Geometry(Kind.SPHERE, pose, radius=r)
            return shape, shape, DENSITY * 4.0 / 3.0 * pi * r**3
        if kind == "box":
            shape = Geometry(Kind.BOX, pose, half_extents=tuple(size[:3]))
            return shape, shape, DENSITY * 8.0 * size[0] * size[1] * size[2]
        if kind == "plane":
            shape = Geometry(Kind.PLANE, pose)
            return shape, shape, 0.0
        if kind in ("capsule", "cylinder"):
            length = 2.0 * size[1] if ends is None else float(np.linalg.norm(ends[1] - ends[0]))
            if ends is not None:
                pose = _along(ends)
            code = Kind.CAPSULE if kind == "capsule" else Kind.CYLINDER
            shape = Geometry(code, pose, radius=r, height=length, by_ends=ends is not None)
            caps = 4.0 / 3.0 * pi * r**3 if kind == "capsule" else 0.0
            return shape, shape, DENSITY * (pi * r * r * length + caps)
        if kind == "mesh":
            return self._mesh(node, pose)
        self.faults.meet(node.error(f"geoms of type {kind!r} are not read"))
        return None, None, 0.0

    def _mesh(self, node: Node, pose: Pose) -> tuple[Geometry | None, Geometry | None, float]:
        name = node.text_of("mesh") or ""
        path = find_file(self.meshes[name], self.path) if name in self.meshes else None
        if path is None:
            self.faults.meet(node.error(f"mesh {name!r} is not found"))
            return None, None, 0.0
        try:
            shape = mesh_geometry(path, (1.0, 1.0, 1.0), pose, use_cache=self.options.use_cache)
        except ImportFileError as error:
            self.faults.meet(node.error(str(error)))
            return None, None, 0.0
        seen = Geometry(Kind.MESH, pose, file=path, meshes=shape.meshes)
        shape.file = UNNAMED_MESH
        return shape, seen, 0.0


def quat_of_wxyz(values: np.ndarray) -> np.ndarray:
    """Unit quaternion xyzw of the file's four numbers."""
    return np.array([*values[1:4], values[0]]) / np.linalg.norm(values)


def _along(ends: np.ndarray) -> Pose:
    """Pose of a shape along z that reaches from one end to the other."""
    direction = ends[1] - ends[0]
    length = float(np.linalg.norm(direction))
    q = Pose.identity().q
    if length > 0.0:
        q = quat_between(np.array([0.0, 0.0, 1.0]), direction / length)
    return Pose(ends.mean(axis=0), q)


def inertia_of_geoms(mass: float, geoms: list[Geom], frame: Pose) -> tuple[np.ndarray, float]:
    """Diagonal inertia (3,) and collision margin of a body.

    A capsule that is given by its ends counts as the box around the two balls at its ends; in company, or
    away from the inertial frame, with a margin of 4 cm.

    Args:
        mass: Of the body [kg].
        geoms: Its geoms.
        frame: Inertial frame in the frame of the body.
    """
    if not geoms:
        return np.zeros(3), 0.0
    identity = Pose.identity()
    if len(geoms) == 1 and geoms[0].ends is not None and is_plain([Geometry(Kind.SPHERE)], frame):
        low, high = _box_of_ends(geoms[0], 0.0)
        return (box_inertia(mass, 0.5 * (high - low)) if mass else np.zeros(3)), LINE_MARGIN
    shapes = [geom.shape for geom in geoms]
    if not any(geom.from_ends for geom in geoms) and is_plain(shapes, frame):
        return inertia_of_shapes(mass, shapes, frame, compound_margin=0.0), _plain_margin(shapes[0])
    if mass == 0.0:
        return np.zeros(3), 0.0
    to_frame = frame.inverse()
    boxes = []
    for geom in geoms:
        if geom.ends is not None:
            boxes.append(moved_box(*_box_of_ends(geom, LINE_MARGIN), to_frame @ identity))
        else:
            boxes.append(placed_box(geom.shape, to_frame @ geom.shape.pose))
    low = np.min([box[0] for box in boxes], axis=0)
    high = np.max([box[1] for box in boxes], axis=0)
    return box_inertia(mass, 0.5 * (high - low)), 0.0


def _box_of_ends(geom: Geom, margin: float) -> tuple[np.ndarray, np.ndarray]:
    grown = geom.shape.radius + margin
    return geom.ends.min(axis=0) - grown, geom.ends.max(axis=0) + grown


def _plain_margin(shape: Geometry) -> float:
    """Margin of a shape that is the only one of its body."""
    if shape.kind in (Kind.SPHERE, Kind.CAPSULE):
        return shape.radius
    if shape.kind == Kind.BOX:
        return min(LINE_MARGIN, 0.1 * min(shape.half_extents))
    if shape.kind == Kind.CYLINDER:
        return min(LINE_MARGIN, 0.1 * min(shape.radius, 0.5 * shape.height))
    return 0.0

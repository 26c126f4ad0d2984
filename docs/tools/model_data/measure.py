"""Facts about a model, asked from PyBullet through its API: names, frames, masses, limits and sizes.

No file of the model is read, except that the extents of a mesh are taken from its bounding boxes.
"""

# ruff: noqa: TID253

from __future__ import annotations

import functools
import multiprocessing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pybullet as p
import pybullet_data
import trimesh
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

REAL = Path(pybullet_data.getDataPath())


@dataclass
class Frame:
    """A pose: position (3,) [m] and rotation."""

    position: np.ndarray
    rotation: Rotation

    def __matmul__(self, other: Frame) -> Frame:
        return Frame(self.position + self.rotation.apply(other.position), self.rotation * other.rotation)

    def inverse(self) -> Frame:
        rotation = self.rotation.inv()
        return Frame(-rotation.apply(self.position), rotation)


def frame(position: object, quaternion: object) -> Frame:
    """Return a Frame from what the API returns."""
    return Frame(np.array(position, float), Rotation.from_quat(quaternion))


@dataclass
class Shape:
    """A geometry of a link: kind is box, sphere, cylinder, capsule, plane or mesh; size as the API says."""

    kind: str
    size: tuple[float, ...]
    pose: Frame
    mesh: str = ""
    rgba: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)


@dataclass
class LinkFacts:
    """A link and the joint to its parent (which the base does not use)."""

    name: str
    mass: float
    inertia: np.ndarray
    inertial: Frame
    world: Frame
    friction: float
    restitution: float
    rolling: float
    spinning: float
    stiffness: float
    damping: float
    joint: str = ""
    joint_type: int = 4
    parent: int = -2
    pose: Frame | None = None
    axis: np.ndarray | None = None
    limits: tuple[float, float] = (0.0, -1.0)
    inertia_scaling: float = 1.0
    effort: float = 0.0
    velocity: float = 0.0
    joint_damping: float = 0.0
    joint_friction: float = 0.0
    collisions: list[Shape] = field(default_factory=list)
    visuals: list[Shape] = field(default_factory=list)


@dataclass
class ModelFacts:
    """A multibody: base first, then links in PyBullet's order."""

    name: str
    links: list[LinkFacts]


KINDS = {2: "sphere", 3: "box", 4: "cylinder", 5: "mesh", 6: "plane", 7: "capsule"}


def _shapes(rows: list[tuple], rgba: int | None) -> list[Shape]:
    shapes = []
    for row in rows:
        kind, size, file, position, quaternion = row[2:7]
        if kind not in KINDS:
            continue
        name = file.decode()
        name = str(Path(name).resolve().relative_to(REAL)) if name and Path(name).is_absolute() else name
        colour = tuple(round(float(c), 6) for c in row[rgba]) if rgba else (1.0,) * 4
        shapes.append(Shape(KINDS[kind], tuple(size), frame(position, quaternion), name, colour))
    return shapes


def _link(
    body: int, index: int, links: dict[int, LinkFacts], collide: bool, visuals: list[tuple]
) -> LinkFacts:
    dynamics = p.getDynamicsInfo(body, index)
    if index < 0:
        inertial = frame(*dynamics[3:5])
        world = frame(*p.getBasePositionAndOrientation(body)) @ inertial.inverse()
        link = LinkFacts(
            p.getBodyInfo(body)[0].decode(),
            dynamics[0],
            np.diag(dynamics[2]),
            inertial,
            world,
            dynamics[1],
            *dynamics[5:8],
            dynamics[9],
            dynamics[8],
        )
    else:
        state = p.getLinkState(body, index)
        inertial = frame(*state[2:4])
        info = p.getJointInfo(body, index)
        link = LinkFacts(
            info[12].decode(),
            dynamics[0],
            np.diag(dynamics[2]),
            inertial,
            frame(*state[4:6]),
            dynamics[1],
            *dynamics[5:8],
            dynamics[9],
            dynamics[8],
            info[1].decode(),
            info[2],
            info[16],
        )
        parent = links[info[16]]
        # The reported rotation turns the inertial frame of the parent into that of the child, as a matrix of
        # coordinates: the inverse of the rotation of the frame.
        rotation = parent.inertial.rotation * Rotation.from_quat(info[15]).inv() * inertial.rotation.inv()
        link.pose = Frame((parent.inertial @ frame(info[14], (0, 0, 0, 1))).position, rotation)
        seen = parent.world @ link.pose
        error = np.abs(seen.position - link.world.position).max()
        error = max(error, (seen.rotation * link.world.rotation.inv()).magnitude())
        if error > 1e-5 and info[2] != p.JOINT_SPHERICAL:
            link.pose = parent.world.inverse() @ link.world
        link.axis = inertial.rotation.apply(info[13])
        link.limits, (link.effort, link.velocity) = info[8:10], info[10:12]
        link.joint_damping, link.joint_friction = info[6:8]
    if collide:
        link.collisions = [
            Shape(s.kind, s.size, inertial @ s.pose, s.mesh)
            for s in _shapes(p.getCollisionShapeData(body, index), None)
        ]
    link.visuals = _shapes([row for row in visuals if row[1] == index], 7)
    return link


def _scale(link: LinkFacts) -> None:
    """Set the factor on the inertia that the file asks for, which shows on a link that is one box."""
    if [shape.kind for shape in link.collisions] == ["box"] and link.mass > 0.0:
        squares = np.square(link.collisions[0].size[:3])
        plain = link.mass * (squares.sum() - squares) / 12
        factor = float(np.round(np.trace(link.inertia) / plain.sum()))
        if factor > 1.0 and np.allclose(np.diag(link.inertia), factor * plain, rtol=0.3):
            link.inertia_scaling = factor


def _measure(file: str, pipe: object) -> None:
    p.connect(p.DIRECT)
    p.setAdditionalSearchPath(str(REAL))
    if file.endswith(".urdf"):
        bodies = [p.loadURDF(file, flags=p.URDF_USE_IMPLICIT_CYLINDER)]
    else:
        bodies = p.loadSDF(file) if file.endswith(".sdf") else p.loadMJCF(file)
    models = []
    for body in bodies:
        links: dict[int, LinkFacts] = {}
        visuals = p.getVisualShapeData(body)
        for index in range(-1, p.getNumJoints(body)):
            links[index] = _link(body, index, links, not file.endswith(".xml"), visuals)
        models.append(ModelFacts(p.getBodyInfo(body)[1].decode(), list(links.values())))
    if file.endswith(".urdf"):
        for link in models[0].links:
            _scale(link)
        exact = p.loadURDF(file, flags=p.URDF_USE_INERTIA_FROM_FILE)
        for index, link in enumerate(models[0].links):
            # The frame of the principal axes, relative to that of the file.
            dynamics = p.getDynamicsInfo(exact, index - 1)
            turn = (link.inertial.rotation.inv() * Rotation.from_quat(dynamics[4])).as_matrix()
            link.inertia = turn @ np.diag(dynamics[2]) @ turn.T / link.inertia_scaling
    pipe.send(models)


def measure(file: str) -> list[ModelFacts]:
    """Return the facts of a file of pybullet_data, measured in a process of its own.

    Args:
        file: URDF, SDF or MJCF file, relative to pybullet_data.

    Raises:
        RuntimeError: PyBullet cannot load the file.
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(file, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        raise RuntimeError(f"{file}: PyBullet cannot load it") from None
    finally:
        process.join()


@dataclass
class Extents:
    """Bounding boxes of a mesh.

    Attributes:
        center: Of the box along the axes (3,).
        half: Half sides of that box (3,).
        fill: Volume of the convex hull per volume of the box.
        cylinder: Axis along which the hull is about a cylinder, -1 for none.
        tight: Frame and half sides of the smallest box at any angle, and fill of it.
    """

    center: np.ndarray
    half: np.ndarray
    fill: float
    cylinder: int
    tight: tuple[Frame, np.ndarray, float]


def _hull_volume(points: np.ndarray) -> float:
    try:
        return ConvexHull(points).volume
    except QhullError:
        return 0.0


@functools.cache
def extents(mesh: str) -> Extents:
    """Return the bounding boxes of a mesh file of pybullet_data (OBJ or STL)."""
    points = np.asarray(trimesh.load(REAL / mesh, force="mesh", process=False).vertices, float)
    low, high = points.min(0), points.max(0)
    half = np.maximum((high - low) / 2, 1e-6)
    volume = _hull_volume(points)
    fill = volume / (8 * half.prod())
    cylinder = -1
    for axis in range(3):
        u, v = [k for k in range(3) if k != axis]
        area = _hull_volume(points[:, [u, v]]) / (4 * half[u] * half[v])
        if abs(area - np.pi / 4) < 0.06 and abs(half[u] / half[v] - 1) < 0.08 and fill > 0.8 * area:
            cylinder = axis
    to_origin, sides = trimesh.bounds.oriented_bounds(points)
    pose = np.linalg.inv(to_origin)
    tight = Frame(pose[:3, 3], Rotation.from_matrix(pose[:3, :3]))
    sides = np.maximum(sides / 2, 1e-6)
    return Extents((low + high) / 2, half, fill, cylinder, (tight, sides, volume / (8 * sides.prod())))

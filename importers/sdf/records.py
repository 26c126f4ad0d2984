"""What an SDFormat file says in metres and radians, with all poses resolved."""

from dataclasses import dataclass, field

import numpy as np

from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.geometry.shapes import Geometry

WORLD = ""
"""Stands for the world where a joint names its links; old files have links named "world"."""


@dataclass(slots=True, eq=False)
class Surface:
    """Contact settings of a collision; torsion and rolling friction in metres."""

    mu: float = 1.0
    torsion: float = 0.0
    rolling: float = 0.0
    restitution: float = 0.0
    category: int = 0xFFFF
    collide: int = 0xFFFF


@dataclass(slots=True, eq=False)
class Collision:
    """A shape that touches, how, and its density for masses that follow from shapes [kg/m^3]."""

    shape: Geometry
    surface: Surface
    density: float | None = None


@dataclass(slots=True, eq=False)
class Link:
    """A link; `pose` in the world of the file, `inertial` None where it follows from the collisions."""

    name: str
    node: Node
    pose: Pose
    static: bool
    inertial: MassProps | None = None
    density: float | None = None
    visuals: list[Geometry] = field(default_factory=list)
    collisions: list[Collision] = field(default_factory=list)
    self_collide: bool = False
    tree: int = 0


@dataclass(slots=True, eq=False)
class Axis:
    """One axis of a joint; the direction in the joint frame (3,), limits in rad or m, infinite for none."""

    node: Node
    direction: np.ndarray
    lower: float = -np.inf
    upper: float = np.inf
    effort: float = np.inf
    velocity: float = np.inf
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    spring_ref: float = 0.0
    mimic: tuple[str, int, float, float] | None = None
    """Joint, axis, multiplier and offset of q = multiplier q_leader + offset."""


@dataclass(slots=True, eq=False)
class Joint:
    """A joint.

    Attributes:
        name: Scoped name.
        node: The element.
        kind: Joint type of the format.
        parent: Scoped name of the parent link, or WORLD.
        child: Scoped name of the child link.
        pose: Joint frame in the world of the file.
        axes: None for fixed and ball joints, two for universal, revolute2 and gearbox joints, else one.
        pitch: Travel per turn of a screw joint [m].
        ratio: Of a gearbox: theta_2 = -ratio theta_1.
        reference: Scoped name of the link that a gearbox measures both angles from.
    """

    name: str
    node: Node
    kind: str
    parent: str
    child: str
    pose: Pose
    axes: list[Axis] = field(default_factory=list)
    pitch: float = 0.0
    ratio: float = 1.0
    reference: str = ""


@dataclass(slots=True, eq=False)
class Scene:
    """A whole file; gravity and time step are None where it holds no world."""

    name: str
    links: dict[str, Link] = field(default_factory=dict)
    joints: list[Joint] = field(default_factory=list)
    gravity: np.ndarray | None = None
    timestep: float | None = None

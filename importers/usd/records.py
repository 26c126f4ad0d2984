"""What a stage holds, as plain records in SI units; nothing here knows pxr or the builder."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.walk import Place
from newtonsim.scene.enums import JointType


@dataclass(slots=True)
class Content:
    """The prims of one walk, sorted by what they are.

    Attributes:
        places: All of them by label.
        bodies: Rigid bodies by label.
        colliders: Geometry that collides.
        visuals: Geometry that is only seen.
        joints: Joints.
        actuators: Actuators of MuJoCo and Newton.
        roots: Prims with ArticulationRootAPI.
        filtered: Prims with FilteredPairsAPI.
        cameras: Cameras.
        lights: Lights.
    """

    places: dict[str, Place] = field(default_factory=dict)
    bodies: dict[str, Place] = field(default_factory=dict)
    colliders: list[Place] = field(default_factory=list)
    visuals: list[Place] = field(default_factory=list)
    joints: list[Place] = field(default_factory=list)
    actuators: list[Place] = field(default_factory=list)
    roots: list[Place] = field(default_factory=list)
    filtered: list[Place] = field(default_factory=list)
    cameras: list[Place] = field(default_factory=list)
    lights: list[Place] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """A shape: its size, or its surface, in a frame.

    Attributes:
        kind: "sphere" (radius), "box" (half extents), "ellipsoid" (semi-axes), "plane" (none), "mesh" (none),
            or "capsule", "cylinder", "cone" (radius, half height) along z of the frame.
        pose: The frame; in the frame of the body once the shape is placed. The normal of a plane is its z.
        size: Lengths [m].
        vertices: Of a mesh (n, 3) [m].
        faces: Triangles (m, 3).
        convex: Whether a mesh collides as its hull, None for shapes that are only seen.
        key: Same for meshes with the same vertices, or None.
        uvs: Texture coordinates of the triangles' corners (m, 3, 2), v up, or None.
    """

    kind: str
    pose: Pose
    size: np.ndarray
    vertices: np.ndarray | None = None
    faces: np.ndarray | None = None
    convex: bool | None = None
    key: object = None
    uvs: np.ndarray | None = None

    def at(self, pose: Pose) -> "Geometry":
        """The same shape in another frame."""
        return replace(self, pose=pose)


@dataclass(frozen=True, slots=True)
class SurfaceMaterial:
    """A physics material in SI units; None for what it leaves open.

    Attributes:
        friction: Coefficient of friction.
        restitution: Coefficient of restitution.
        density: Density [kg/m^3].
        fields: More values of the shapes made of it, by name: ke, kd, kf, ka, mu_torsion, mu_rolling.
        spin: Torsional and rolling friction [m] as MuJoCo has them, which count by the shape's condim.
    """

    friction: float | None = None
    restitution: float | None = None
    density: float | None = None
    fields: dict[str, float] = field(default_factory=dict)
    spin: tuple[float | None, float | None] = (None, None)


@dataclass(slots=True, eq=False)
class Collider:
    """A collider and what it is made of; several geometries where a mesh was taken apart.

    `thickness` [m] is None where nothing says; `fields` are values of its shapes beside the material's.
    """

    place: Place
    shapes: list[Geometry]
    material: SurfaceMaterial
    enabled: bool
    props: MassProps
    thickness: float | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class BodyRecord:
    """A rigid body: pose in the world, velocities in world axes [rad/s, m/s] and mass properties.

    `carried` is the share of its weight that it does not feel.
    """

    place: Place
    pose: Pose
    kinematic: bool
    angular: np.ndarray
    linear: np.ndarray
    props: MassProps
    armature: float = 0.0
    carried: float = 0.0


@dataclass(frozen=True, slots=True)
class Drive:
    """A drive in SI units; positions in rad or m."""

    stiffness: float
    damping: float
    position: float
    velocity: float
    max_force: float
    acceleration: bool


@dataclass(slots=True, eq=False)
class AxisRecord:
    """A free axis of a joint.

    Attributes:
        direction: Unit vector in the joint frame.
        angular: Whether it is one of rotation.
        lower: Lower limit [rad or m].
        upper: Upper limit [rad or m].
        drive: Its drive.
        numbers: More arguments of `JointAxis`.
        start: Coordinate and velocity that the stage states, None for what it does not.
        label: Joint that it is the only axis of, empty for one of several axes.
        offset: MuJoCo's coordinate where ours is zero [rad or m].
    """

    direction: np.ndarray
    angular: bool
    lower: float = -math.inf
    upper: float = math.inf
    drive: Drive | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    start: tuple[float | None, float | None] = (None, None)
    label: str = ""
    offset: float = 0.0


@dataclass(slots=True, eq=False)
class ExactJoint:
    """What `export_usd` says of a joint; those that the prim does not have are missing.

    Attributes:
        kind: Its type in the model, None if the attributes do not say.
        axes: Values of each axis by field.
        dofs: Values of each degree of freedom by field.
        references: Parameters of the limits by reference, by field, one row for each axis.
        dry: Those of dry friction, one row for each degree of freedom.
        modes: JointMode of each axis, or empty.
        q: Initial coordinates, or empty.
        qd: Initial velocities, or empty.
        swing_twist: Largest swing, least and largest twist [rad] of a ball joint, or empty.
    """

    kind: JointType | None
    axes: dict[str, np.ndarray]
    dofs: dict[str, np.ndarray]
    references: dict[str, np.ndarray]
    dry: dict[str, np.ndarray]
    modes: list[int]
    q: np.ndarray
    qd: np.ndarray
    swing_twist: np.ndarray


@dataclass(slots=True, eq=False)
class JointRecord:
    """A joint between two bodies.

    Attributes:
        element: The prim.
        kind: "fixed", "revolute", "prismatic", "ball", "distance" or "d6".
        bodies: Labels of the two bodies, None for the world.
        targets: Labels of the prims that the joint names, None for none.
        frames: Joint frame in each body, in the world where there is none.
        linear: Free axes of translation.
        angular: Free axes of rotation.
        cone: Largest swing of the x axis of a ball joint [rad].
        distance: Least and largest distance [m], negative for none.
        enabled: Whether the joint is simulated.
        excluded: Whether it must stay outside the kinematic trees.
        collides: Whether the two bodies touch each other.
        limit_ke: Stiffness of the limits.
        limit_kd: Damping of the limits.
        exact: What `export_usd` has added, None for other files.
        rotor: Armature, damping and friction of a ball joint, by name.
        stacked: Whether it stands for several joints of one body.
    """

    element: Element
    kind: str
    bodies: tuple[str | None, str | None]
    targets: tuple[str | None, str | None]
    frames: tuple[Pose, Pose]
    linear: list[AxisRecord]
    angular: list[AxisRecord]
    cone: float
    distance: tuple[float, float]
    enabled: bool
    excluded: bool
    collides: bool
    limit_ke: float
    limit_kd: float
    exact: ExactJoint | None = None
    rotor: dict[str, float] = field(default_factory=dict)
    stacked: bool = False

    @property
    def axes(self) -> list[AxisRecord]:
        """All free axes, linear ones first."""
        return self.linear + self.angular

    @property
    def is_driven(self) -> bool:
        """Whether an axis has a drive."""
        return any(axis.drive is not None for axis in self.axes)

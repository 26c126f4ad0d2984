"""What a model holds, as records of host numbers: the common source of all writers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newtonsim.builder import ActuatorLaw, ActuatorTarget, TendonWrap
from newtonsim.geometry import SDF, Heightfield, Mesh
from newtonsim.geometry.transforms import quat_between
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.scene.enums import ConstraintType, GeoType, JointMode, JointType
from newtonsim.scene.joint_types import FLOATING, least_effort

NO_LIMIT = 1.0e6
"""Limits and efforts from here on are none; the readers of robot files give it to joints without limits."""


@dataclass(slots=True, eq=False)
class AxisRecord:
    """One axis of a joint; fields are those of `newtonsim.JointAxis`, `index` its place in `joint_axis`."""

    axis: np.ndarray
    linear: bool
    index: int
    q: float
    mode: JointMode
    act: float
    target_ke: float
    target_kd: float
    limit_lower: float
    limit_upper: float
    limit_ke: float
    limit_kd: float
    stiffness: float
    spring_ref: float
    effort_limit: float
    effort_lower: float
    velocity_limit: float
    armature: float
    damping: float
    friction: float
    limit_solref: np.ndarray
    limit_solimp: np.ndarray
    limit_margin: float
    friction_solref: np.ndarray
    friction_solimp: np.ndarray

    @property
    def limits(self) -> tuple[float, float] | None:
        """Lower and upper limit, a missing one as ∓NO_LIMIT; None when there is neither."""
        lower, upper = max(self.limit_lower, -NO_LIMIT), min(self.limit_upper, NO_LIMIT)
        return None if (lower, upper) == (-NO_LIMIT, NO_LIMIT) else (lower, upper)

    @property
    def efforts(self) -> tuple[float, float]:
        """Least and largest effort of the drive, infinite for an unbounded one."""
        return float(least_effort(self.effort_lower, self.effort_limit)), self.effort_limit


@dataclass(slots=True, eq=False)
class JointRecord:
    """One joint of the tree; `parent` and `child` number the scene's bodies, -1 is the world.

    `coord` and `dof` are its first places in the scene's `joint_q` and `joint_qd`.
    """

    key: str
    index: int
    coord: int
    dof: int
    kind: JointType
    parent: int
    child: int
    X_p: Pose
    X_c: Pose
    axes: list[AxisRecord]
    q: np.ndarray
    qd: np.ndarray
    armature: np.ndarray
    damping: np.ndarray
    friction: np.ndarray
    friction_solref: np.ndarray
    friction_solimp: np.ndarray
    enabled: bool
    compliance: tuple[float, float]
    twist: tuple[float, float]
    swing: float
    distance: tuple[float, float]

    @property
    def is_rigid(self) -> bool:
        """Whether it leaves no motion."""
        return self.kind == JointType.FIXED or (self.kind == JointType.D6 and not self.axes)

    @property
    def zero(self) -> Pose:
        """Pose of the child in the parent where all coordinates are zero."""
        return self.X_p @ self.X_c.inverse()


@dataclass(slots=True, eq=False)
class BodyRecord:
    """One body; `joint` numbers the joint that moves it, None for a kinematic one."""

    key: str
    index: int
    props: MassProps
    pose: Pose
    velocity: np.ndarray
    joint: int | None = None


@dataclass(slots=True, eq=False)
class ConstraintRecord:
    """One constraint; the bodies number the scene's, `coupled` are pairs (joint, axis of it) or None."""

    key: str
    index: int
    kind: ConstraintType
    parent: int
    child: int
    X_p: Pose
    X_c: Pose
    linear: np.ndarray
    angular: np.ndarray
    limits: np.ndarray
    coupled: tuple[tuple[int, int] | None, tuple[int, int] | None]
    coefficients: np.ndarray
    distance: tuple[float, float]
    enabled: bool
    max_force: float
    recovery_time: float
    compliance: tuple[float, float]
    solref: np.ndarray
    solimp: np.ndarray
    torque_scale: float
    is_mimic: bool


@dataclass(slots=True, eq=False)
class ShapeRecord:
    """One shape; `row` is its place in `Scene.shapes`, sizes and axes as in the model (long axis y)."""

    key: str
    index: int
    row: int
    body: int
    kind: GeoType
    pose: Pose
    scale: np.ndarray
    source: Mesh | SDF | Heightfield | None
    visible: bool
    collides: bool
    meets_ground: bool
    is_ground: bool
    group: int
    world: int
    convex: int
    color: tuple[float, ...] | None
    is_textured: bool
    material: dict[str, float]
    """ke, kd, kf, ka, mu, restitution, thickness, mu_torsion, mu_rolling, solmix, priority, condim."""
    spin_friction: np.ndarray
    solref: np.ndarray
    solimp: np.ndarray

    @property
    def is_collider(self) -> bool:
        """Whether it touches anything."""
        return self.collides or self.meets_ground or self.is_ground


@dataclass(slots=True, eq=False)
class ContactPairRecord:
    """Contact parameters of a pair of shapes, which are places in `Scene.shapes`."""

    shapes: tuple[int, int]
    friction: np.ndarray
    solref: np.ndarray
    solimp: np.ndarray


TendonElement = tuple[int, int, float] | tuple[int, np.ndarray] | float | TendonWrap
"""Part of a tendon's path: (joint, axis of it, factor), (body, point) or a divisor."""


@dataclass(slots=True, eq=False)
class TendonRecord:
    """One tendon.

    `numbers` are those of the model's arrays of tendons, by name without "tendon_"; `length` is that where
    all coordinates are zero, `muscle` the row of `Model.tendon_muscle`.
    """

    key: str
    index: int
    elements: list[TendonElement]
    numbers: dict[str, float]
    limit_solref: np.ndarray
    limit_solimp: np.ndarray
    length: float
    muscle: np.ndarray


@dataclass(slots=True, eq=False)
class TendonEqualityRecord:
    """An equality between two tendons, which are places in `Scene.tendons`, or None for the second."""

    key: str
    first: int
    second: int | None
    coefficients: np.ndarray
    lengths: np.ndarray
    enabled: bool
    solref: np.ndarray
    solimp: np.ndarray


@dataclass(slots=True, eq=False)
class ActuatorRecord:
    """An actuator.

    Attributes:
        key: Its name.
        index: Its place in the model.
        target: What it acts on.
        law: Its force.
        joint: Place in `Scene.joints` and number of the axis, None if it is on no joint.
        tendon: Place in `Scene.tendons`, None if it is on none.
        frames: Body and frame, and body and frame of reference if there is one.
        ctrl: Initial control input.
    """

    key: str
    index: int
    target: ActuatorTarget
    law: ActuatorLaw
    joint: tuple[int, int] | None
    tendon: int | None
    frames: list[tuple[int, Pose]]
    ctrl: float


@dataclass(slots=True, eq=False)
class Scene:
    """One world of a model, or all of them.

    Attributes:
        bodies: In the model's order.
        joints: In the model's order.
        constraints: In the model's order.
        shapes: In the model's order, those without geometry left out.
        rigid: Rigid group of each shape, -1 for those that stand still (n,).
        filtered: Pairs of places in `shapes` that pass through each other (m, 2).
        contact_pairs: Pairs of shapes with contact parameters of their own.
        tendons: In the model's order.
        tendon_equalities: Likewise.
        actuators: Likewise, without drives.
        gravity: Acceleration (3,) [m/s^2].
        up: Up direction (3,).
        articulations: First joint and name of each articulation.
        sites: Tuples (name, body, pose).
        keyframes: Dicts with "name" and what they give of the scene's "joint_q", "joint_qd", "joint_act".
        timestep: Step that the model was made for [s], or None.
        medium: Density [kg/m³], viscosity [Pa s] and wind (3,) [m/s] around bodies, where there are such.
        lost: Kinds of elements of the model that no record holds, with their number.
    """

    bodies: list[BodyRecord] = field(default_factory=list)
    joints: list[JointRecord] = field(default_factory=list)
    constraints: list[ConstraintRecord] = field(default_factory=list)
    shapes: list[ShapeRecord] = field(default_factory=list)
    rigid: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    filtered: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    contact_pairs: list[ContactPairRecord] = field(default_factory=list)
    tendons: list[TendonRecord] = field(default_factory=list)
    tendon_equalities: list[TendonEqualityRecord] = field(default_factory=list)
    actuators: list[ActuatorRecord] = field(default_factory=list)
    gravity: np.ndarray = field(default_factory=lambda: np.zeros(3))
    up: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0, 0.0]))
    articulations: list[tuple[int, str]] = field(default_factory=list)
    sites: list[tuple[str, int, Pose]] = field(default_factory=list)
    keyframes: list[dict] = field(default_factory=list)
    timestep: float | None = None
    medium: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)

    def below(self, body: int) -> list[JointRecord]:
        """Joints whose parent is the body, -1 for the world."""
        return [joint for joint in self.joints if joint.parent == body]

    def shapes_of(self, body: int) -> list[ShapeRecord]:
        """Shapes of a body, -1 for the world."""
        return [shape for shape in self.shapes if shape.body == body]

    def turn_up(self, axis: Sequence[float]) -> None:
        """Rotate the whole scene so that its up vector points along an axis, in place."""
        self.turn(Pose(np.zeros(3), quat_between(self.up / np.linalg.norm(self.up), axis)))

    def turn(self, rotation: Pose) -> None:
        """Rotate the whole scene about the world's origin, in place."""
        turned = rotation.apply
        self.gravity, self.up = turned(self.gravity), turned(self.up)
        if "wind" in self.medium:
            self.medium["wind"] = turned(np.asarray(self.medium["wind"], np.float64))
        for body in self.bodies:
            body.pose = rotation @ body.pose
            body.velocity = np.concatenate([turned(body.velocity[:3]), turned(body.velocity[3:])])
        for joint in self.joints:
            if joint.parent < 0:
                joint.X_p = rotation @ joint.X_p
                if joint.kind in FLOATING:
                    joint.qd = np.concatenate([turned(joint.qd[:3]), turned(joint.qd[3:])])
                    for frame in self.keyframes:
                        _turn_velocity(frame, joint.dof, rotation)
        for constraint in self.constraints:
            constraint.X_p = rotation @ constraint.X_p if constraint.parent < 0 else constraint.X_p
            constraint.X_c = rotation @ constraint.X_c if constraint.child < 0 else constraint.X_c
        for shape in self.shapes:
            shape.pose = rotation @ shape.pose if shape.body < 0 else shape.pose
        for tendon in self.tendons:
            for place, element in enumerate(tendon.elements):
                if isinstance(element, tuple) and len(element) == 2 and element[0] < 0:
                    tendon.elements[place] = (-1, turned(element[1]))
        for one in self.actuators:
            one.frames = [(body, rotation @ p if body < 0 else p) for body, p in one.frames]
        self.sites = [(name, body, rotation @ p if body < 0 else p) for name, body, p in self.sites]


def _turn_velocity(frame: dict, dof: int, rotation: Pose) -> None:
    """Rotate the velocity of a floating joint in a keyframe."""
    if frame.get("joint_qd") is not None:
        values = frame["joint_qd"]
        for start in (dof, dof + 3):
            values[start : start + 3] = rotation.apply(values[start : start + 3])

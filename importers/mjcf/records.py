"""What an MJCF file says in metres, radians, quaternions xyzw, and poses relative to the parent body."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newtonsim.builder import ActuatorLaw, TendonMuscle
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.meshes import Surface
from newtonsim.importers.geometry.pose import Pose
from newtonsim.scene.arrays import SOLIMP, SOLREF

DEFAULT_FRICTION = (1.0, 0.005, 0.0001)

FLUID_COEFFICIENTS = (0.5, 0.25, 1.5, 1.0, 1.0)
"""Of MuJoCo's fluid forces on geoms, where the file gives none."""

LEFT_TO_MUJOCO = "MuJoCoSolver steps the model with element_args=report.mujoco"
"""By which call the model has what is in `ImportReport.mujoco`."""


@dataclass(slots=True)
class SolverParameters:
    """solref and solimp of a contact or a limit."""

    solref: tuple[float, ...] = SOLREF
    solimp: tuple[float, ...] = SOLIMP

    def scaled(self, scale: float) -> "SolverParameters":
        """Return the same with another unit of length."""
        first, last, width, *rest = self.solimp
        return SolverParameters(self.solref, (first, last, width * scale, *rest))


@dataclass(slots=True, eq=False)
class MeshAsset:
    """Triangles in the frame that geoms place, and how their mass is computed.

    `matter` is what MuJoCo takes of a mesh that it makes, at a density of 1 kg/m³.
    """

    name: str
    node: Node
    surface: Surface
    inertia: str = "legacy"
    matter: MassProps | None = None

    @property
    def vertices(self) -> np.ndarray:
        """Points (n, 3) [m]."""
        return self.surface.vertices

    @property
    def faces(self) -> np.ndarray:
        """Triangles (m, 3)."""
        return self.surface.faces


@dataclass(slots=True, eq=False)
class HeightAsset:
    """Heights (rows, columns) [m], first row at the largest y, over a rectangle of `size` (x, y) [m].

    `solid` are the half lengths [m] of the box of which MuJoCo gives a height field mass and inertia.
    """

    name: str
    node: Node
    heights: np.ndarray
    size: tuple[float, float]
    solid: np.ndarray


@dataclass(slots=True, eq=False)
class Material:
    """Colour and texture file."""

    rgba: tuple[float, ...] | None = None
    texture: str | None = None


@dataclass(slots=True, eq=False)
class Geom:
    """One geom; `size` as MJCF has it (half lengths), z the long axis."""

    name: str | None
    node: Node
    kind: str
    size: np.ndarray
    pose: Pose
    class_name: str | None = None
    mesh: MeshAsset | None = None
    heights: HeightAsset | None = None
    mass: float | None = None
    density: float | None = None
    shell: bool = False
    group: int = 0
    contype: int = 1
    conaffinity: int = 1
    condim: int = 3
    friction: np.ndarray | None = None
    margin: float | None = None
    solver: SolverParameters | None = None
    solmix: float = 1.0
    priority: int = 0
    material: Material = field(default_factory=Material)
    mujoco: dict = field(default_factory=dict)  # see `ImportReport.mujoco`


@dataclass(slots=True, eq=False)
class Joint:
    """One joint of a body; `axis` and `pos` in the body frame, limits None where there are none."""

    name: str | None
    node: Node
    kind: str
    pos: np.ndarray
    axis: np.ndarray
    ref: float = 0.0
    lower: float | None = None
    upper: float | None = None
    spring_ref: float = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    armature: float | None = None
    effort_limit: float = np.inf
    effort_lower: float = -np.inf  # for minus the largest
    limit: SolverParameters | None = None
    margin: float = 0.0
    dry: SolverParameters | None = None  # of its friction
    spring_damper: tuple[float, float] | None = None  # time constant [s] and damping ratio
    mujoco: dict = field(default_factory=dict)  # see `ImportReport.mujoco`


@dataclass(slots=True, eq=False)
class Site:
    """A named frame on a body."""

    name: str
    pose: Pose


@dataclass(slots=True, eq=False)
class Body:
    """One body; `parent` indexes the list of bodies, whose entry 0 is the world.

    `inertial_frame` is that of <inertial> in the body frame, along whose axes its inertia may be diagonal.
    """

    name: str | None
    node: Node
    parent: int
    pose: Pose
    mocap: bool = False
    gravcomp: float = 0.0
    joints: list[Joint] = field(default_factory=list)
    geoms: list[Geom] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    inertial: MassProps | None = None
    inertial_frame: Pose | None = None
    inertial_is_diagonal: bool = False


@dataclass(slots=True)
class Muscle:
    """A muscle of a tendon.

    Attributes:
        unit: Its curves, with a force of 1, for lengths of the tendon.
        force: Largest force [N] of the actuator; negative where `scale` tells it.
        scale: Force times the acceleration that a unit force brings about.
        gear: Length of the actuator per length of the tendon.
    """

    unit: TendonMuscle
    force: float
    scale: float
    gear: float


@dataclass(slots=True, eq=False)
class Actuator:
    """An actuator whose force is gain * ctrl + bias[0] + bias[1] * length + bias[2] * velocity.

    `joint` is the joint that it is on, or the tendon if `on_tendon`. `muscle` takes the place of the law, and
    `activation` holds the dynamics as arguments of an `Activation`, None without any.
    """

    name: str | None
    node: Node
    joint: str
    gear: float
    gain: float
    bias: tuple[float, float, float]
    ctrl_range: tuple[float, float] | None = None
    force_range: tuple[float, float] | None = None
    on_tendon: bool = False
    muscle: Muscle | None = None
    activation: dict | None = None


@dataclass(slots=True, eq=False)
class Equality:
    """An equality constraint.

    Attributes:
        node: The element, defaults filled in.
        kind: "connect", "weld" or "joint".
        ends_are: What `ends` names: "body", "site" or "joint".
        ends: Two names; the second may be None, for the world or for no joint.
        active: Whether it holds at first.
        anchor: Point in the frame of the first body (connect) or the second one (weld) (3,).
        relative: Where the first body holds the weld's anchor, in its own frame, and the rotation of the
            second body there; None for where it is at the start.
        coefficients: Polynomial of a joint constraint (5,).
        solver: How it yields, None for as rigid as the solver makes it.
        torque_scale: Length [m] that a turn by a rad counts as in a weld.
    """

    node: Node
    kind: str
    ends_are: str
    ends: tuple[str, str | None]
    active: bool = True
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(3))
    relative: Pose | None = None
    coefficients: np.ndarray = field(default_factory=lambda: np.zeros(5))
    solver: SolverParameters | None = None
    torque_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Wrap:
    """A geom that a spatial tendon wraps around, and the site at whose side, None for the shorter one."""

    geom: str
    side: str | None = None


@dataclass(slots=True, eq=False)
class Tendon:
    """One tendon; lengths are those of the file.

    Attributes:
        name: Its name.
        node: The element, defaults filled in.
        joints: Names of joints and their coefficients, of a fixed tendon.
        stops: Names of sites, divisors of pulleys and what is wrapped around, of a spatial one.
        options: Arguments of `ModelBuilder.add_tendon_fixed` and `add_tendon_spatial`.
        effort_limit: Largest sum of the forces of its actuators before their gears.
        mujoco: See `ImportReport.mujoco`.
    """

    name: str
    node: Node
    joints: list[tuple[str, float]] = field(default_factory=list)
    stops: list[str | float | Wrap] = field(default_factory=list)
    options: dict = field(default_factory=dict)
    effort_limit: float = np.inf
    mujoco: dict = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class TendonEquality:
    """An equality between two tendons, or of one with a number."""

    node: Node
    tendons: tuple[str, str | None]
    coefficients: np.ndarray
    active: bool
    solver: SolverParameters


@dataclass(slots=True, eq=False)
class Keyframe:
    """Values as in the file: lengths are those of MuJoCo's qpos and so on; None where not given."""

    name: str | None
    node: Node
    qpos: np.ndarray | None
    qvel: np.ndarray | None
    ctrl: np.ndarray | None
    act: np.ndarray | None
    mpos: np.ndarray | None
    mquat: np.ndarray | None


@dataclass(slots=True, eq=False)
class Scene:
    """A whole MJCF file."""

    name: str
    bodies: list[Body]
    actuators: list[Actuator] = field(default_factory=list)
    actuator_order: list[Node] = field(default_factory=list)
    laws: dict[int, dict[str, Any]] = field(default_factory=dict)
    whole_actuators: list[tuple[Node, ActuatorLaw]] = field(default_factory=list)
    joint_tendons: list[Node] = field(default_factory=list)
    has_actuators: bool = False
    pairs: list[tuple[Node, str, str]] = field(default_factory=list)
    pair_solver: SolverParameters | None = None
    weighs_as_mujoco: bool = False
    excludes: list[tuple[Node, str, str]] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    equalities_enabled: bool = True
    tendons: dict[str, Tendon] = field(default_factory=dict)
    tendon_equalities: list[TendonEquality] = field(default_factory=list)
    keyframes: list[Keyframe] = field(default_factory=list)
    timestep: float | None = None
    medium: dict[str, np.ndarray] = field(default_factory=dict)
    gravity: np.ndarray | None = None
    contacts_enabled: bool = True
    ignored_names: set[str] = field(default_factory=set)
    switched_off: set[str] = field(default_factory=set)  # "frictionloss", "limit", "spring", "damper"


def assume_mujocos_defaults(scene: Scene) -> None:
    """Give geoms, pairs, joints and equalities what MuJoCo assumes where the file says nothing, in place."""
    scene.pair_solver, scene.weighs_as_mujoco = SolverParameters(), True
    for body in scene.bodies:
        for joint in body.joints:
            if joint.kind in ("hinge", "slide") and joint.limit is None:
                joint.limit = SolverParameters()
            if joint.friction > 0.0 and joint.dry is None:
                joint.dry = SolverParameters()
        for geom in body.geoms:
            geom.solver = geom.solver or SolverParameters()
            if geom.friction is None:
                geom.friction = np.array(DEFAULT_FRICTION)
    for equality in scene.equalities:
        equality.solver = equality.solver or SolverParameters()


def scale_scene(scene: Scene, scale: float) -> None:
    """Multiply all lengths of bodies, joints, geoms and sites, in place.

    Masses and spring constants of the file stay, inertias of the file grow with the square of the lengths.
    """
    assets: dict[int, MeshAsset | HeightAsset] = {}
    for body in scene.bodies:
        body.pose = body.pose.scaled(scale)
        if body.inertial is not None:
            given = body.inertial
            body.inertial = MassProps(given.mass, given.com * scale, given.inertia * scale**2)
        for joint in body.joints:
            joint.pos = joint.pos * scale
            if joint.kind == "slide":
                joint.ref, joint.spring_ref = joint.ref * scale, joint.spring_ref * scale
                joint.lower = None if joint.lower is None else joint.lower * scale
                joint.upper = None if joint.upper is None else joint.upper * scale
                joint.margin = joint.margin * scale
                joint.limit = None if joint.limit is None else joint.limit.scaled(scale)
        for site in body.sites:
            site.pose = site.pose.scaled(scale)
        for geom in body.geoms:
            geom.pose, geom.size = geom.pose.scaled(scale), geom.size * scale
            geom.margin = None if geom.margin is None else geom.margin * scale
            geom.solver = None if geom.solver is None else geom.solver.scaled(scale)
            assets.update({id(asset): asset for asset in (geom.mesh, geom.heights) if asset is not None})
    for equality in scene.equalities:
        equality.anchor, equality.torque_scale = equality.anchor * scale, equality.torque_scale * scale
        if equality.solver is not None and equality.kind != "joint":
            equality.solver = equality.solver.scaled(scale)
        if equality.relative is not None:
            equality.relative = equality.relative.scaled(scale)
    for asset in assets.values():
        if isinstance(asset, MeshAsset):
            asset.surface = asset.surface.scaled(np.full(3, scale))
        else:
            asset.heights, asset.solid = asset.heights * scale, asset.solid * scale
            asset.size = (asset.size[0] * scale, asset.size[1] * scale)

"""Records of bodies as PyBullet sees them: what files and createMultiBody say, before anything is simulated.

All poses are in float64. A link has three frames: its link frame (the URDF frame, the joint frame at
coordinate zero), its inertial frame (at the centre of mass, along the principal axes of inertia), which is
what the API reports as position and orientation, and those of its shapes, given in the link frame.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from newtonsim.geometry import Heightfield, Mesh
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.surface.constants import GEOM_CAPSULE

NO_LIMITS = (0.0, -1.0)
"""Lower and upper limit of joints without limits, as the API reports them."""


@dataclass(slots=True, eq=False)
class Geometry:
    """One primitive or mesh.

    Attributes:
        kind: GEOM_SPHERE, GEOM_BOX, GEOM_CYLINDER, GEOM_MESH, GEOM_PLANE, GEOM_CAPSULE or GEOM_HEIGHTFIELD.
        pose: Pose in the link frame.
        radius: Of spheres, capsules and cylinders [m].
        height: Full length of cylinders, and of capsules between the centres of their caps, along z [m].
        half_extents: Of boxes (3,) [m].
        normal: Of planes (3,).
        scale: Mesh scale (3,).
        file: File name as the API reports it, "" for none.
        meshes: Parts of a mesh, already scaled, in the frame of the geometry; each is a hull of its own.
        concave: Whether the meshes collide as surfaces rather than as their convex hulls.
        heightfield: Of GEOM_HEIGHTFIELD.
        variants: The same geometry in each world, where sizes differ; the fields above are those of
            the first one. Empty where all are alike.
        by_ends: Whether a file names the ends of a capsule or cylinder.
    """

    kind: int
    pose: Pose = field(default_factory=Pose.identity)
    radius: float = 0.5
    height: float = 1.0
    half_extents: tuple[float, float, float] = (1.0, 1.0, 1.0)
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    file: str = ""
    meshes: list[Mesh] = field(default_factory=list)
    concave: bool = False
    heightfield: Heightfield | None = None
    variants: tuple[Geometry, ...] = ()
    by_ends: bool = False
    _seen: tuple[Pose, Pose, Pose] | None = field(default=None, init=False, repr=False)

    @property
    def joins_spheres(self) -> bool:
        """Whether it is the hull of two spheres in PyBullet, as capsules are whose ends are named."""
        return self.by_ends and self.kind == GEOM_CAPSULE

    @property
    def shown_pose(self) -> Pose:
        """The pose that getVisualShapeData tells: that of the link where ends are named, as in PyBullet."""
        return Pose.identity() if self.by_ends else self.pose

    def pose_in(self, frame: Pose) -> Pose:
        """The pose in a frame that is itself given in the link frame, such as the inertial one.

        The last answer is kept, since robots are built again whenever a scene changes.
        """
        if self._seen is None or self._seen[0] is not frame or self._seen[1] is not self.pose:
            self._seen = frame, self.pose, frame.inverse() @ self.pose
        return self._seen[2]


@dataclass(slots=True, eq=False)
class Visual:
    """A geometry that is seen.

    Attributes:
        geometry: Its geometry; of meshes, all parts.
        rgba: Colour in 0..1.
        specular: Specular colour in 0..1.
        texture: Texture unique id, -1 for none.
        texture_file: Image that the file names for it, "" for none.
        uvs: Texture coordinates of each part of the meshes (n, 2), None where there are none.
        double_sided: Whether back faces are seen.
    """

    geometry: Geometry
    rgba: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    specular: tuple[float, float, float] = (1.0, 1.0, 1.0)
    texture: int = -1
    texture_file: str = ""
    uvs: list[np.ndarray | None] = field(default_factory=list)
    double_sided: bool = False


@dataclass(slots=True, eq=False)
class Surface:
    """Contact properties of a link, from changeDynamics and <contact>.

    Attributes:
        lateral_friction: Coefficient of sliding friction.
        rolling_friction: Coefficient about tangents [m].
        spinning_friction: Coefficient about the normal [m].
        restitution: Coefficient of restitution.
        contact_stiffness: [N/m], -1 for rigid contact.
        contact_damping: [N s/m], -1 for none.
        friction_anchor: Whether friction corrects positions too.
        collision_margin: [m].
    """

    lateral_friction: float = 0.5
    rolling_friction: float = 0.0
    spinning_friction: float = 0.0
    restitution: float = 0.0
    contact_stiffness: float = -1.0
    contact_damping: float = -1.0
    friction_anchor: bool = False
    collision_margin: float = 0.001


@dataclass(slots=True, eq=False)
class Link:
    """A link and the joint to its parent; the base of a body is a Link whose joint is not used.

    Attributes:
        name: Name of the link.
        joint_name: Name of the joint to the parent.
        joint_type: JOINT_REVOLUTE, JOINT_PRISMATIC, JOINT_SPHERICAL, JOINT_PLANAR or JOINT_FIXED.
        parent: Place of the parent in `Body.links`, -1 for the base. Parents may come later in the list.
        joint_pose: Link frame in the link frame of the parent, at coordinate zero.
        axis: Unit joint axis in the link frame (3,).
        axis_length: Length of the axis in the file; what it does tells `link_properties.write_axes`.
        limits: Lower and upper limit [rad or m], (0, -1) for none.
        stops: Whether it stops at the limits; continuous joints do not, though their motors respect them.
        max_force: <limit effort>, as reported.
        max_velocity: <limit velocity>, as reported.
        damping: Joint damping.
        friction: Joint friction, as reported.
        mass: [kg], of the first world where `masses` differ.
        masses: Mass in each world, where they differ; empty otherwise.
        inertia: Diagonal about the principal axes (3,) [kg m^2]; (W, 3) where masses or sizes differ.
        inertial_pose: Inertial frame in the link frame.
        collisions: What collides.
        visuals: What is seen.
        surface: How it touches.
        group: Collision filter group, None for the default of static and dynamic bodies.
        mask: Collision filter mask, likewise.
    """

    name: str = ""
    joint_name: str = ""
    joint_type: int = 4
    parent: int = -1
    joint_pose: Pose = field(default_factory=Pose.identity)
    axis: np.ndarray = field(default_factory=lambda: np.zeros(3))
    axis_length: float = 1.0
    limits: tuple[float, float] = NO_LIMITS
    stops: bool = True
    max_force: float = 0.0
    max_velocity: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    mass: float = 0.0
    masses: tuple[float, ...] = ()
    inertia: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertial_pose: Pose = field(default_factory=Pose.identity)
    collisions: list[Geometry] = field(default_factory=list)
    visuals: list[Visual] = field(default_factory=list)
    surface: Surface = field(default_factory=Surface)
    group: int | None = None
    mask: int | None = None


@dataclass(slots=True, eq=False)
class BodyDescription:
    """One multibody of a file.

    Attributes:
        name: Name of the robot or model, as getBodyInfo reports it.
        base: The root link.
        links: All others, in PyBullet's order.
        pose: Link frame of the base in the world.
        fixed: Whether the base cannot move (a mass of zero also fixes it).
        self_collision: Whether links collide with each other.
        collide_parent: With self_collision, whether links collide even with their parents.
        exclude_ancestors: With self_collision, whether links are excluded from colliding with all ancestors.
        maximal: Whether the body was loaded with useMaximalCoordinates (no damping then).
        joint_positions: Initial coordinates of links, by place in `links`; zero for the others.
        mimics: (follower, leader, multiplier, offset) by place in `links`, as the file says.
        source: Name of the file as the script gave it, "" for bodies of createMultiBody.
        soft: What <deformable> says, None for rigid bodies; see `soft_bodies`.
        patterns: Fresh bodies of one world by time step, from which others are copied; None where the
            description is used once. Shared by the copies of `placed`, whose parts were checked with it.
    """

    name: str = ""
    base: Link = field(default_factory=Link)
    links: list[Link] = field(default_factory=list)
    pose: Pose = field(default_factory=Pose.identity)
    fixed: bool = False
    self_collision: bool = False
    collide_parent: bool = False
    exclude_ancestors: bool = False
    maximal: bool = False
    joint_positions: dict[int, float] = field(default_factory=dict)
    mimics: list[tuple[int, int, float, float]] = field(default_factory=list)
    source: str = ""
    soft: object | None = None
    patterns: dict[float, object] | None = None

    def placed(self, pose: Pose) -> BodyDescription:
        """Return a copy at another pose, with links, surfaces and visuals of its own."""
        placed = copy(self)
        placed.base, placed.links, placed.pose = copy(self.base), [copy(link) for link in self.links], pose
        placed.joint_positions = dict(self.joint_positions)
        for link in (placed.base, *placed.links):
            link.surface = copy(link.surface)
            link.visuals = [copy(visual) for visual in link.visuals]
        return placed

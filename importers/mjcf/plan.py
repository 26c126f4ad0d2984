"""What the builder of MJCF scenes is told, and what it tells those that continue from it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from newtonsim.importers.files.arguments import ContactSettings
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.records import Joint


@dataclass(frozen=True, slots=True)
class MjcfOptions:
    """Arguments of `parse_mjcf` that shape the result."""

    xform: Pose
    floating: bool | None
    base_joint: str | Mapping | None
    density: float
    stiffness: float
    damping: float
    armature: float
    armature_scale: float
    contact: ContactSettings
    limit_ke: float
    limit_kd: float
    joint_limit_lower: float
    joint_limit_upper: float
    scale: float
    hide_visuals: bool
    parse_visuals_as_colliders: bool
    visual_classes: tuple[re.Pattern, ...]
    collider_classes: tuple[re.Pattern, ...]
    no_class_as_colliders: bool
    force_show_colliders: bool
    enable_self_collisions: bool
    ignore_inertial_definitions: bool
    ensure_nonstatic_links: bool
    static_link_mass: float
    single_axis_joints: bool


@dataclass(slots=True)
class Place:
    """Where a body of the file went."""

    index: int
    pose: Pose
    weld: int
    tree: int


@dataclass(slots=True)
class JointPlace:
    """Where a joint of the file went; `coord` is None when it was replaced."""

    record: Joint
    body: int
    index: int | None = None
    coord: int | None = None
    dof: int | None = None
    axis: int | None = None


@dataclass(slots=True)
class BuildState:
    """What `SceneBuilder` has built so far, for those who continue from it."""

    places: list[Place] = field(default_factory=list)
    joints: list[JointPlace] = field(default_factory=list)

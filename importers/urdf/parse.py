"""URDF text to records: names, numbers and structure are checked here, nothing is built.

Reference: http://wiki.ros.org/urdf/XML
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from newtonsim.builder.validate import LEAST_GYRATION
from newtonsim.errors import ImportFileError
from newtonsim.importers.building.masses import ROUNDING, note_impossible
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.urdf_names import BALL
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps, principal_moments
from newtonsim.importers.geometry.pose import Pose, quat_from_rpy
from newtonsim.importers.geometry.shapes import Geometry, Material
from newtonsim.importers.urdf.elements import (
    GEOMETRY_TYPES,
    MIN_LENGTH,
    Origin,
    outwards,
    read_dynamics,
    read_inertial,
    read_joint_ends,
    read_mimic,
    read_origin,
    read_size,
    read_tree,
)
from newtonsim.importers.urdf.schema import meet_misspellings

_EXTENTS = {"sphere": ("radius",), "cylinder": ("radius", "length"), "capsule": ("radius",), "box": ("size",)}
_OPTENV = re.compile(r"\$\(optenv\s+\S+\s*([^)]*)\)")
_RUN_XACRO = "run `xacro file.xacro > robot.urdf` first"
_JOINT_PARTS = ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic")
_SILENT = ("safety_controller", "calibration")
_ROBOT_SILENT = ("transmission", "sensor", "ros2_control")
_GAZEBO_PHYSICS = (
    *("mu", "mu1", "mu2", "kp", "kd", "fdir1", "minDepth", "maxVel", "maxContacts", "selfCollide"),
    *(
        "turnGravityOff",
        "gravity",
        "dampingFactor",
        "implicitSpringDamper",
        "springStiffness",
        "springReference",
    ),
    *("stopCfm", "stopErp", "fudgeFactor"),
)


@dataclass(slots=True)
class Inertial:
    """Mass, centre of mass (3,) and inertia (3, 3) about it, in the link frame and axes."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray


@dataclass(slots=True)
class Link:
    """A link with its shapes."""

    name: str
    node: Node
    inertial: Inertial | None = None
    visuals: list[Geometry] = field(default_factory=list)
    collisions: list[Geometry] = field(default_factory=list)


@dataclass(slots=True)
class Joint:
    """A joint; limits are None where the file does not say."""

    name: str
    kind: str
    parent: str
    child: str
    node: Node
    pose: Pose
    axis: np.ndarray
    lower: float | None = None
    upper: float | None = None
    effort: float | None = None
    velocity: float | None = None
    damping: float = 0.0
    friction: float = 0.0
    mimic: tuple[str, float, float] | None = None


@dataclass(slots=True)
class Robot:
    """A whole URDF file; `trees` has by root link the joints from there outwards, `root` is the first."""

    name: str
    links: dict[str, Link]
    joints: dict[str, Joint]
    root: str
    trees: dict[str, list[Joint]]


def parse_robot(root: Node, resolver: FileResolver, report: ImportReport, faults: Faults = REFUSE) -> Robot:
    """Read all records below <robot> and check the trees that they form."""
    if root.tag != "robot":
        raise root.error("the root element of a URDF file is <robot>")
    if root.find("link") is None and any("xacro" in node.tag for node in root.children):
        raise root.error(f"this is a xacro file; {_RUN_XACRO}")
    _substitute(root, faults)
    _restore_balls(root)
    meet_misspellings(root, faults)
    materials = Materials(root, resolver, report, faults)
    links: dict[str, Link] = {}
    joints: dict[str, Joint] = {}
    for node in root.children:
        if node.tag == "link":
            _add_unique(links, _parse_link(node, materials, resolver, report, faults), "link")
        elif node.tag == "joint":
            _add_unique(joints, _parse_joint(node, report, faults), "joint")
        elif node.tag == "gazebo":
            _read_gazebo(node, report)
        elif node.tag in _ROBOT_SILENT:
            report.ignored(node)
        elif node.tag != "material":
            _unknown(node, report)
    if not links:
        raise root.error("the robot has no links")
    nodes = {link.name: link.node for link in links.values()}
    base, below = read_tree(root, nodes, joints.values(), faults)
    children = {joint.child for joint in joints.values()}
    roots = [base, *(name for name in links if name not in children and name != base)]
    order = {name: list(outwards(name, below)) for name in roots}
    reached = {*roots, *(joint.child for tree in order.values() for joint in tree)}
    links = {name: link for name, link in links.items() if name in reached}
    joints = {name: joint for name, joint in joints.items() if joint.child in reached}
    _check_mimics(joints, report)
    return Robot(root.text_of("name", ""), links, joints, base, order)


def _substitute(root: Node, faults: Faults) -> None:
    """Put the defaults in the place of "$(optenv VARIABLE default)", which roslaunch would have replaced.

    Expressions of xacro have none.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        for name, text in node.attrib.items():
            if "${" in text:
                raise node.error(f"attribute '{name}' has a xacro expression: {text[:80]!r}; {_RUN_XACRO}")
            if "$(optenv" in text:
                node.attrib[name] = _OPTENV.sub(r"\1", text)
                fault = node.error(f"attribute '{name}' has a roslaunch substitution: {text[:80]!r}")
                faults.meet(fault, f"the default {node.attrib[name].strip()!r} is used")
        if node.children:
            stack += node.children[::-1]


def _restore_balls(root: Node) -> None:
    """Put ball joints that `export_urdf` wrote in the place of the hinges and links that stand for them."""
    balls = root.findall(BALL)
    gone = {(tag, name) for ball in balls for tag in ("joint", "link") for name in _replaced(ball, tag)}
    children = []
    for node in root.children:
        if node.tag == BALL:
            children += node.findall("joint")
        elif (node.tag, node.attrib.get("name")) not in gone:
            children.append(node)
    root.children[:] = children


def _replaced(ball: Node, tag: str) -> list[str]:
    return ball.text_of(f"{tag}s", "").split()


def _add_unique(table: dict, record: Link | Joint, kind: str) -> None:
    if record.name in table:
        raise record.node.error(f"a second {kind} has the name {record.name!r}")
    table[record.name] = record


def _unknown(node: Node, report: ImportReport) -> None:
    """Note an element that URDF does not know, or that is an extension without a meaning here."""
    report.unsupported(
        node, "an unexpanded xacro element" if "xacro" in node.tag else "not an element of URDF"
    )


def _read_gazebo(node: Node, report: ImportReport) -> None:
    """Extensions for Gazebo are of no concern unless they change the physics."""
    physics = [child.tag for child in node.children if child.tag in _GAZEBO_PHYSICS]
    if physics:
        report.unsupported(node, f"physics settings for Gazebo: {', '.join(physics)}")
    else:
        report.ignored(node)


# -- links ---------------------------------------------------------------------------------------------------


class Materials:
    """Materials of a robot; each is read once, so that its faults are told once.

    Those of the robot come first, then those that links define, also for links after them.
    """

    def __init__(self, root: Node, resolver: FileResolver, report: ImportReport, faults: Faults):
        self.resolver, self.report, self.faults = resolver, report, faults
        self._read: dict[int, Material] = {}
        self._by_name: dict[str, Material] = {}
        inner = (
            one
            for link in root.findall("link")
            for visual in link.findall("visual")
            for one in visual.findall("material")
        )
        for node in (*root.findall("material"), *inner):
            name = node.text_of("name")
            if name and name not in self._by_name and node.children:
                self._by_name[name] = self._material(node)

    def of(self, node: Node) -> Material:
        """Return the material of a <visual> or <collision>."""
        own = node.find("material")
        if own is None:
            return Material()
        if own.children:
            return self._material(own)
        # A name that is defined nowhere leaves the colour open, as in other readers of URDF.
        return self._by_name.get(own.text_of("name", ""), Material())

    def _material(self, node: Node) -> Material:
        if id(node) not in self._read:
            self._read[id(node)] = Material(self._colour(node), self._texture(node))
        return self._read[id(node)]

    def _colour(self, node: Node) -> tuple[float, ...] | None:
        color = node.find("color")
        if color is None:
            return None
        color.required("rgba")
        values = color.floats("rgba")
        if len(values) in (3, 4):
            return (*values.tolist(), 1.0)[:4]
        self.report.approximated(
            color, f"a colour has 3 or 4 values, not {len(values)}; it is left undefined"
        )
        return None

    def _texture(self, node: Node) -> str | None:
        texture = node.find("texture")
        if texture is None or not texture.text_of("filename"):
            return None
        try:
            return str(self.resolver.find(texture.required("filename"), texture))
        except ImportFileError as fault:
            self.faults.meet(fault, "the texture is left out")
            return None


def _parse_link(
    node: Node,
    materials: Materials,
    resolver: FileResolver,
    report: ImportReport,
    faults: Faults,
) -> Link:
    link = Link(node.required("name"), node)
    for part in node.children:
        if part.tag == "inertial":
            if link.inertial is not None:
                fault = part.error(f"link {link.name!r} has two <inertial> elements")
                faults.meet(fault, "the first one is used")
                continue
            link.inertial = _parse_inertial(part, link.name, report, faults)
        elif part.tag == "visual":
            _append(link.visuals, _parse_geometry(part, resolver, materials, report, faults))
        elif part.tag == "collision":
            _append(link.collisions, _parse_geometry(part, resolver, materials, report, faults))
        else:
            _unknown(part, report)
    return link


def _parse_inertial(node: Node, link: str, report: ImportReport, faults: Faults) -> Inertial:
    given = read_inertial(node, faults)
    mass = max(given.mass or 0.0, 0.0)
    if given.inertia is None:
        inertia = np.zeros((3, 3))
    else:
        inertia = _without_negative_moments(given.inertia, mass, node.find("inertia"), report)
        note_impossible(inertia, mass, node.find("inertia"), report, f"link {link!r}")
    props = MassProps(mass, np.zeros(3), inertia)
    if given.origin is not None:
        props = props.moved(_pose(given.origin))
    return Inertial(props.mass, props.com, props.inertia)


def _without_negative_moments(
    inertia: np.ndarray, mass: float, node: Node, report: ImportReport
) -> np.ndarray:
    """Raise negative principal moments, which published files have, to zero."""
    least, _, largest = principal_moments(inertia)
    if least >= -max(ROUNDING * max(largest, -least), LEAST_GYRATION**2 * mass):
        return inertia
    moments, axes = np.linalg.eigh(inertia)
    report.unsupported(node, f"a principal moment of {moments[0]:.3g} kg m^2 is raised to zero")
    return axes @ np.diag(np.maximum(moments, 0.0)) @ axes.T


def _append(shapes: list[Geometry], shape: Geometry | None) -> None:
    if shape is not None:
        shapes.append(shape)


def _parse_geometry(
    node: Node,
    resolver: FileResolver,
    materials: Materials,
    report: ImportReport,
    faults: Faults,
) -> Geometry | None:
    """Read a <visual> or <collision>; None for a shape without extent, or one that is nothing."""
    holder = node.find("geometry")
    if holder is None:
        faults.meet(node.error("<geometry> is missing"), "the element is left out")
        return None
    shapes = [child for child in holder.children if child.tag in GEOMETRY_TYPES]
    if len(shapes) != 1:
        found = ", ".join(child.tag for child in holder.children) or "nothing"
        fault = holder.error(f"expected one of {', '.join(GEOMETRY_TYPES)}, found {found}")
        faults.meet(fault, "the first is used" if shapes else "the element is left out")
    if not shapes:
        return None
    shape = shapes[0]
    if _is_empty(shape, faults):
        report.unsupported(shape, "a shape of zero size is left out")
        return None
    path = None
    if shape.tag == "mesh":
        path = _mesh_file(shape, resolver, node.tag == "visual", report, faults)
        if path is None:
            return None
        size = _mesh_scale(shape, report, faults)
        if not size.all():
            return None
    else:
        size = read_size(shape, faults)
        if shape.tag != "plane" and not min(size.tolist()) > 0.0:
            return None
    material = materials.of(node)
    pose = _pose(read_origin(node, faults))
    return Geometry(shape.tag, size, pose, shape, node.text_of("name"), path, material=material)


def _mesh_scale(shape: Node, report: ImportReport, faults: Faults) -> np.ndarray:
    """Scale of a mesh (3,), from one number or three; a fourth is left out, as other readers do."""
    size = shape.floats("scale", 4, (1.0, 1.0, 1.0), at_least=1, faults=faults)
    if len(size) == 2:
        raise shape.error(f"attribute 'scale' has 2 values, expected 1 or 3: {shape.text_of('scale')!r}")
    if len(size) == 4:
        report.unsupported(shape, "attribute 'scale' has 4 values; the last is left out")
    if not size[:3].all():
        faults.meet(shape.error("attribute 'scale' must not contain zero"), "the mesh is left out")
    return size[:3] * np.ones(3)


def _mesh_file(
    shape: Node, resolver: FileResolver, visual: bool, report: ImportReport, faults: Faults
) -> Path | None:
    """File of a mesh; a missing one is a fault unless it is only to be seen."""
    try:
        return resolver.find(shape.required("filename"), shape)
    except ImportFileError as fault:
        if not visual or not shape.text_of("filename"):
            faults.meet(fault, "the shape is left out")
            return None
        report.unsupported(shape, "mesh files that are missing; these visuals are left out")
        return None


def _is_empty(shape: Node, faults: Faults) -> bool:
    """Whether a primitive has a size of zero, which stands for a mere point or line."""
    sizes = [
        shape.floats(name, faults=faults).tolist()
        for name in _EXTENTS.get(shape.tag, ())
        if shape.text_of(name)
    ]
    return any(0.0 in size and min(size) >= 0.0 for size in sizes)


def _pose(origin: Origin | None) -> Pose:
    return Pose.identity() if origin is None else Pose(origin.xyz, quat_from_rpy(origin.rpy))


# -- joints --------------------------------------------------------------------------------------------------


def _parse_joint(node: Node, report: ImportReport, faults: Faults) -> Joint:
    name, kind, parent, child = read_joint_ends(node)
    axis = _parse_axis(node, kind, faults)
    joint = Joint(name, kind, parent, child, node, _pose(read_origin(node, faults)), axis)
    _parse_limit(node, joint, report, faults)
    joint.damping, joint.friction = (max(value, 0.0) for value in read_dynamics(node, faults))
    joint.mimic = read_mimic(node, faults)
    for part in node.children:
        if part.tag in _SILENT:
            report.ignored(part)
        elif part.tag not in _JOINT_PARTS:
            _unknown(part, report)
    return joint


def _parse_axis(node: Node, kind: str, faults: Faults) -> np.ndarray:
    first = np.array([1.0, 0.0, 0.0])
    axis_node = node.find("axis")
    axis = first if axis_node is None else axis_node.floats("xyz", 3, first, faults=faults)
    length = math.sqrt(axis @ axis)
    if length < MIN_LENGTH:
        if kind not in ("fixed", "floating", "spherical"):
            faults.meet(axis_node.error("the joint axis is zero"), "the x axis is used")
        return first
    return axis / length


def _parse_limit(node: Node, joint: Joint, report: ImportReport, faults: Faults) -> None:
    limit = node.find("limit")
    if limit is None or joint.kind in ("fixed", "floating"):
        return
    if joint.kind == "spherical" and limit.attrib.keys() & {"lower", "upper", "effort", "velocity", "twist"}:
        report.unsupported(limit, "limits of spherical joints")
        return
    if joint.kind in ("revolute", "prismatic"):
        joint.lower, joint.upper = (limit.float(side, faults=faults) for side in ("lower", "upper"))
        if joint.lower is not None and joint.upper is not None and joint.lower > joint.upper:
            # So Bullet writes a joint without limits.
            report.unsupported(
                limit,
                f"the lower limit {joint.lower:g} is above the upper one {joint.upper:g}; both are ignored",
            )
            joint.lower = joint.upper = None
    for name in ("effort", "velocity"):
        value = limit.float(name, faults=faults)
        if value is not None and value <= 0.0:
            # Zero stands for "not known" in many files; taken literally the joint could never be driven.
            report.approximated(limit, f"{name} {value:g} of joint {joint.name!r} is treated as no limit")
            value = None
        setattr(joint, name, value)


def _check_mimics(joints: dict[str, Joint], report: ImportReport) -> None:
    """Drop what cannot be followed, and refuse circles."""
    scalar = ("revolute", "continuous", "prismatic")
    for joint in joints.values():
        if joint.mimic is None:
            continue
        leader = joints.get(joint.mimic[0])
        if joint.kind == "fixed":
            report.ignored(joint.node.find("mimic"), f"the joint {joint.name!r} cannot move")
            joint.mimic = None
        elif leader is None:
            report.unsupported(
                joint.node.find("mimic"), f"the joint {joint.mimic[0]!r} to follow does not exist"
            )
            joint.mimic = None
        elif joint.kind not in scalar or leader.kind not in scalar:
            other = joint if joint.kind not in scalar else leader
            raise joint.node.error(f"<mimic> needs joints with one axis, but {other.name!r} is {other.kind}")
    for joint in joints.values():
        seen, current = set(), joint
        while current is not None and current.mimic is not None:
            if current.name in seen:
                raise joint.node.error("the <mimic> elements form a cycle")
            seen.add(current.name)
            current = joints.get(current.mimic[0])

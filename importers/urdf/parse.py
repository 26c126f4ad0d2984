"""URDF text to records: names, numbers and structure are checked here, nothing is built.

Reference: http://wiki.ros.org/urdf/XML
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.geometry.transforms import quat_matrix
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.resolve import FileResolver
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose, quat_from_rpy
from newtonsim.importers.geometry.shapes import Geometry, Material

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
GEOMETRY_TYPES = ("box", "sphere", "cylinder", "capsule", "mesh", "plane")
"""As in the format, and Bullet's additions: spherical joints, capsules and planes."""

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
_MIN_AXIS = 1.0e-9


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
    """A whole URDF file; `order` lists the joints from the root outwards."""

    name: str
    links: dict[str, Link]
    joints: dict[str, Joint]
    root: str
    order: list[Joint]


def parse_robot(root: Node, resolver: FileResolver, report: ImportReport) -> Robot:
    """Read all records below <robot> and check the tree that they form."""
    if root.tag != "robot":
        raise root.error("the root element of a URDF file is <robot>")
    if root.find("link") is None and any("xacro" in node.tag for node in root.children):
        raise root.error("this is a xacro file; run `xacro file.xacro > robot.urdf` first")
    materials = _global_materials(root, resolver, report)
    links: dict[str, Link] = {}
    joints: dict[str, Joint] = {}
    for node in root.children:
        if node.tag == "link":
            _add_unique(links, _parse_link(node, materials, resolver, report), "link")
        elif node.tag == "joint":
            _add_unique(joints, _parse_joint(node, report), "joint")
        elif node.tag == "gazebo":
            _read_gazebo(node, report)
        elif node.tag in _ROBOT_SILENT:
            report.ignored(node)
        elif node.tag != "material":
            _unknown(node, report)
    if not links:
        raise root.error("the robot has no links")
    base, order = _sort_tree(root, links, joints)
    _check_mimics(joints, report)
    return Robot(root.text_of("name", ""), links, joints, base, order)


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


def _parse_link(
    node: Node, materials: dict[str, Material], resolver: FileResolver, report: ImportReport
) -> Link:
    link = Link(node.required("name"), node)
    for part in node.children:
        if part.tag == "inertial":
            if link.inertial is not None:
                raise part.error(f"link {link.name!r} has two <inertial> elements")
            link.inertial = _parse_inertial(part, report)
        elif part.tag == "visual":
            _append(link.visuals, _parse_geometry(part, resolver, materials, report))
        elif part.tag == "collision":
            _append(link.collisions, _parse_geometry(part, resolver, materials, report))
        else:
            _unknown(part, report)
    return link


def _parse_inertial(node: Node, report: ImportReport) -> Inertial:
    pose = _parse_origin(node)
    mass_node = node.find("mass")
    mass = mass_node.float("value", 0.0) if mass_node is not None else 0.0
    if mass < 0.0:
        raise mass_node.error(f"the mass must not be negative, got {mass:g}")
    inertia = np.zeros((3, 3))
    inertia_node = node.find("inertia")
    if inertia_node is not None:
        xx, xy, xz, yy, yz, zz = (
            inertia_node.float(name, 0.0) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        inertia = _without_negative_moments(inertia, inertia_node, report)
    rotation = quat_matrix(pose.q)
    return Inertial(mass, pose.p, rotation @ inertia @ rotation.T)


def _without_negative_moments(inertia: np.ndarray, node: Node, report: ImportReport) -> np.ndarray:
    """Raise negative principal moments, which published files have, to zero."""
    moments, axes = np.linalg.eigh(inertia)
    if moments[0] >= -1.0e-6 * max(moments[2], -moments[0]):
        return inertia
    report.unsupported(node, f"a principal moment of {moments[0]:.3g} kg m^2 is raised to zero")
    return axes @ np.diag(np.maximum(moments, 0.0)) @ axes.T


def _append(shapes: list[Geometry], shape: Geometry | None) -> None:
    if shape is not None:
        shapes.append(shape)


def _parse_geometry(
    node: Node, resolver: FileResolver, materials: dict[str, Material], report: ImportReport
) -> Geometry | None:
    """Read a <visual> or <collision>; None for a shape without extent."""
    holder = node.find("geometry")
    if holder is None:
        raise node.error("<geometry> is missing")
    shapes = [child for child in holder.children if child.tag in GEOMETRY_TYPES]
    if len(shapes) != 1:
        found = ", ".join(child.tag for child in holder.children) or "nothing"
        raise holder.error(f"expected one of {', '.join(GEOMETRY_TYPES)}, found {found}")
    shape = shapes[0]
    if _is_empty(shape):
        report.unsupported(shape, "a shape without extent is left out")
        return None
    path = None
    if shape.tag == "box":
        size = 0.5 * _positive_vector(shape, "size")
    elif shape.tag == "sphere":
        size = np.array([shape.positive("radius")])
    elif shape.tag == "plane":
        size = shape.floats("normal", 3, (0.0, 0.0, 1.0))
        if not np.linalg.norm(size) > _MIN_AXIS:
            raise shape.error("attribute 'normal' has no length")
        size = size / np.linalg.norm(size)
    elif shape.tag == "mesh":
        path = _mesh_file(shape, resolver, node.tag == "visual", report)
        if path is None:
            return None
        size = _mesh_scale(shape, report)
    else:
        size = np.array([shape.positive("radius"), 0.5 * shape.positive("length")])
    material = _parse_material(node, materials, resolver, report)
    return Geometry(
        shape.tag, size, _parse_origin(node), shape, node.text_of("name"), path, material=material
    )


def _mesh_scale(shape: Node, report: ImportReport) -> np.ndarray:
    """Scale of a mesh (3,), from one number or three; a fourth is left out, as other readers do."""
    size = shape.floats("scale", 4, (1.0, 1.0, 1.0), at_least=1)
    if len(size) == 2:
        raise shape.error(f"attribute 'scale' has 2 values, expected 1 or 3: {shape.text_of('scale')!r}")
    if len(size) == 4:
        report.unsupported(shape, "attribute 'scale' has 4 values; the last is left out")
    if not size[:3].all():
        raise shape.error("attribute 'scale' must not contain zero")
    return size[:3] * np.ones(3)


def _mesh_file(shape: Node, resolver: FileResolver, visual: bool, report: ImportReport) -> Path | None:
    """File of a mesh; a missing one is an error unless it is only to be seen."""
    try:
        return resolver.find(shape.required("filename"), shape)
    except ImportFileError:
        if not visual or not shape.text_of("filename"):
            raise
        report.unsupported(shape, "mesh files that are missing; these visuals are left out")
        return None


def _is_empty(shape: Node) -> bool:
    """Whether a primitive has a size of zero, which stands for a mere point or line."""
    names = {
        "sphere": ("radius",),
        "cylinder": ("radius", "length"),
        "capsule": ("radius",),
        "box": ("size",),
    }
    sizes = [shape.floats(name) for name in names.get(shape.tag, ()) if shape.text_of(name)]
    return any((size == 0.0).any() and (size >= 0.0).all() for size in sizes)


def _positive_vector(node: Node, name: str) -> np.ndarray:
    node.required(name)
    values = node.floats(name, 3)
    if (values <= 0.0).any():
        raise node.error(f"attribute '{name}' must be positive, got {node.text_of(name)!r}")
    return values


def _global_materials(root: Node, resolver: FileResolver, report: ImportReport) -> dict[str, Material]:
    """Collect materials by name: those of the robot first, then those that links define for later links."""
    table: dict[str, Material] = {}
    nodes = root.findall("material")
    nodes += [
        m
        for link in root.findall("link")
        for visual in link.findall("visual")
        for m in visual.findall("material")
    ]
    for node in nodes:
        name = node.text_of("name")
        if name and name not in table and node.children:
            table[name] = _material_of(node, resolver, report)
    return table


def _material_of(node: Node, resolver: FileResolver, report: ImportReport) -> Material:
    color, texture = node.find("color"), node.find("texture")
    rgba = None
    if color is not None:
        color.required("rgba")
        values = color.floats("rgba")
        if len(values) in (3, 4):
            rgba = (*values.tolist(), 1.0)[:4]
        else:
            report.approximated(color, f"a colour has 3 or 4 values, not {len(values)}; it is left open")
    filename = texture.text_of("filename") if texture is not None else None
    return Material(rgba, str(resolver.find(filename, texture)) if filename else None)


def _parse_material(
    node: Node, materials: dict[str, Material], resolver: FileResolver, report: ImportReport
) -> Material:
    own = node.find("material")
    if own is None:
        return Material()
    if own.children:
        return _material_of(own, resolver, report)
    # A name that is defined nowhere leaves the colour open, as in other readers of URDF.
    return materials.get(own.text_of("name", ""), Material())


def _parse_origin(node: Node) -> Pose:
    origin = node.find("origin")
    if origin is None:
        return Pose.identity()
    rpy = origin.floats("rpy", 3, (0.0, 0.0, 0.0))
    return Pose(origin.floats("xyz", 3, (0.0, 0.0, 0.0)), quat_from_rpy(rpy))


# -- joints --------------------------------------------------------------------------------------------------


def _parse_joint(node: Node, report: ImportReport) -> Joint:
    kind = node.required("type")
    if kind not in JOINT_TYPES:
        raise node.error(f"joint type {kind!r} is unknown; supported: {', '.join(JOINT_TYPES)}")
    ends = []
    for tag in ("parent", "child"):
        end = node.find(tag)
        if end is None:
            raise node.error(f"<{tag}> is missing")
        ends.append(end.required("link"))
    joint = Joint(node.required("name"), kind, *ends, node, _parse_origin(node), _parse_axis(node, kind))
    _parse_limit(node, joint, report)
    dynamics = node.find("dynamics")
    if dynamics is not None:
        joint.damping = _not_negative(dynamics, "damping")
        joint.friction = _not_negative(dynamics, "friction")
    mimic = node.find("mimic")
    if mimic is not None:
        joint.mimic = (mimic.required("joint"), mimic.float("multiplier", 1.0), mimic.float("offset", 0.0))
    for part in node.children:
        if part.tag in _SILENT:
            report.ignored(part)
        elif part.tag not in _JOINT_PARTS:
            _unknown(part, report)
    return joint


def _not_negative(node: Node, name: str) -> float:
    value = node.float(name, 0.0)
    if value < 0.0:
        raise node.error(f"attribute '{name}' must not be negative, got {value:g}")
    return value


def _parse_axis(node: Node, kind: str) -> np.ndarray:
    axis_node = node.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if axis_node is None else axis_node.floats("xyz", 3, (1.0, 0.0, 0.0))
    length = np.linalg.norm(axis)
    if length < _MIN_AXIS:
        if kind not in ("fixed", "floating", "spherical"):
            raise axis_node.error("the joint axis has no length")
        return np.array([1.0, 0.0, 0.0])
    return axis / length


def _parse_limit(node: Node, joint: Joint, report: ImportReport) -> None:
    limit = node.find("limit")
    if limit is None or joint.kind in ("fixed", "floating"):
        return
    if joint.kind == "spherical" and limit.attrib.keys() & {"lower", "upper", "effort", "velocity", "twist"}:
        report.unsupported(limit, "limits of spherical joints")
        return
    if joint.kind in ("revolute", "prismatic"):
        joint.lower, joint.upper = limit.float("lower"), limit.float("upper")
        if joint.lower is not None and joint.upper is not None and joint.lower > joint.upper:
            # So Bullet writes a joint without limits.
            report.unsupported(
                limit,
                f"the lower limit {joint.lower:g} is above the upper one {joint.upper:g}; taken as none",
            )
            joint.lower = joint.upper = None
    for name in ("effort", "velocity"):
        value = limit.float(name)
        if value is not None and value <= 0.0:
            # Zero stands for "not known" in many files; taken literally the joint could never be driven.
            report.approximated(limit, f"{name} {value:g} of joint {joint.name!r} is taken as no limit")
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
                joint.node.find("mimic"), f"the joint {joint.mimic[0]!r} is not there to follow"
            )
            joint.mimic = None
        elif joint.kind not in scalar or leader.kind not in scalar:
            other = joint if joint.kind not in scalar else leader
            raise joint.node.error(f"<mimic> needs joints with one axis, but {other.name!r} is {other.kind}")
    for joint in joints.values():
        seen, current = set(), joint
        while current is not None and current.mimic is not None:
            if current.name in seen:
                raise joint.node.error("the <mimic> elements form a circle")
            seen.add(current.name)
            current = joints.get(current.mimic[0])


# -- tree ----------------------------------------------------------------------------------------------------


def _sort_tree(root: Node, links: dict[str, Link], joints: dict[str, Joint]) -> tuple[str, list[Joint]]:
    """Return the root link and the joints in depth-first order; every link must be reached exactly once."""
    parent_joint: dict[str, Joint] = {}
    below: dict[str, list[Joint]] = {name: [] for name in links}
    for joint in joints.values():
        for end in (joint.parent, joint.child):
            if end not in links:
                raise joint.node.error(f"joint {joint.name!r} names the link {end!r}, which is not there")
        if joint.parent == joint.child:
            raise joint.node.error(f"joint {joint.name!r} connects link {joint.child!r} with itself")
        if joint.child in parent_joint:
            other = parent_joint[joint.child].name
            raise joint.node.error(
                f"link {joint.child!r} is the child of two joints, {other!r} and {joint.name!r}"
            )
        parent_joint[joint.child] = joint
        below[joint.parent].append(joint)
    bases = [name for name in links if name not in parent_joint]
    if not bases:
        raise root.error("the joints form a circle: every link is the child of a joint")
    if len(bases) > 1:
        raise links[bases[1]].node.error(
            f"the robot has several root links: {', '.join(map(repr, bases[:5]))}"
        )
    order: list[Joint] = []
    stack = list(reversed(below[bases[0]]))
    while stack:
        joint = stack.pop()
        order.append(joint)
        stack.extend(reversed(below[joint.child]))
    if len(order) != len(joints):
        reached = {bases[0], *(joint.child for joint in order)}
        lost = next(name for name in links if name not in reached)
        raise links[lost].node.error(f"link {lost!r} is part of a circle of joints")
    return bases[0], order

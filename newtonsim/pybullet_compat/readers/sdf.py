"""SDF files as PyBullet understands them: models with links, joints, shapes and contact settings.

An SDF model expresses by child elements what URDF expresses by attributes; a model is therefore converted to
a URDF tree and read as one. Poses of links are given in the model, those of joints follow from them;
includes, sensors, lights, physics settings and the surface elements of Gazebo are not read.
"""

from __future__ import annotations

import os

import numpy as np

from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.faults import Faults, Forgive
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.sdf import text
from newtonsim.pybullet_compat.descriptions.description import BodyDescription
from newtonsim.pybullet_compat.descriptions.frames import quat_of_rpy
from newtonsim.pybullet_compat.readers.documents import read_xml
from newtonsim.pybullet_compat.readers.options import LoadOptions
from newtonsim.pybullet_compat.readers.urdf import assemble
from newtonsim.pybullet_compat.readers.urdf_elements import Reader

_SHAPE_VALUES = {
    "box": ("size",),
    "sphere": ("radius",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "plane": ("normal",),
    "mesh": ("uri", "scale"),
}
_INERTIA = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


@limited_time()
def read_sdf(path: str | os.PathLike, options: LoadOptions | None = None) -> list[BodyDescription]:
    """Read all models of a file.

    Args:
        path: The file.
        options: How it is loaded.

    Returns:
        One record for each model, placed where the file says.

    Raises:
        ImportFileError: With file, line and element: what PyBullet answers with "Cannot load SDF file.".
    """
    options, faults = options or LoadOptions(), Forgive()
    root = read_xml(path, faults, options.use_cache)
    if root.tag != "sdf":
        raise root.error("the root element of an SDF file is <sdf>")
    world = root.find("world") or root
    for node in world.findall("include"):
        faults.meet(node.error("is not read"))
    bodies = [_read_model(node, os.fspath(path), options, faults) for node in world.findall("model")]
    faults.warn(stacklevel=3)  # one is the clock
    return bodies


def _read_model(node: Node, path: str, options: LoadOptions, faults: Forgive) -> BodyDescription:
    node.check_time()
    if not node.text_of("name"):
        raise node.error("the model has no name")
    reader = Reader(path, options, faults=faults)
    poses = {link.text_of("name"): _pose(link, options.scale, faults) for link in node.findall("link")}
    body = assemble(_robot(node), reader)
    body.pose = _pose(node, options.scale, faults)
    links = [body.base, *body.links]
    for link, joint in zip(body.links, _joints_by_child(node, body), strict=True):
        parent = links[link.parent + 1]
        link.joint_pose = poses[parent.name].inverse() @ poses[link.name]
        axis = joint.find("axis")
        limit = axis.find("limit") if axis is not None else None
        if limit is not None and link.limits[0] <= link.limits[1]:
            # globalScaling leaves the limits of SDF joints alone
            lower = text.number(limit, "lower", 0.0, faults)
            link.limits = (lower, text.number(limit, "upper", -1.0, faults))
    if text.number(node, "static", 0.0, faults):
        for link in links:
            link.mass, link.inertia = 0.0, np.zeros(3)
    return body


def _joints_by_child(node: Node, body: BodyDescription) -> list[Node]:
    joints = {joint.text_of("name"): joint for joint in node.findall("joint")}
    return [joints[link.joint_name] for link in body.links]


def _pose(node: Node, scale: float, faults: Faults) -> Pose:
    """Read the <pose> of an element; fewer than six numbers count as none."""
    values = text.vector(node, "pose", 6, np.zeros(6), faults)
    return Pose(values[:3] * scale, quat_of_rpy(values[3:]))


def _text(node: Node | None, tag: str) -> str | None:
    """Text of a child element."""
    child = node.find(tag) if node is not None else None
    return child.text if child is not None else None


def _element(source: Node, tag: str, attributes: dict[str, str | None], *children: Node | None) -> Node:
    """A URDF element that reports its errors at the place of an SDF element."""
    attrib = {name: value for name, value in attributes.items() if value is not None}
    return Node(tag, attrib, source.path, source.line, [child for child in children if child is not None])


def _robot(node: Node) -> Node:
    links = [_link(part) for part in node.findall("link")]
    joints = [_joint(part) for part in node.findall("joint")]
    return _element(node, "robot", {"name": node.text_of("name")}, *links, *joints)


def _link(node: Node) -> Node:
    parts = [_inertial(part) for part in node.findall("inertial")]
    parts += [_shape(part) for part in node.children if part.tag in ("visual", "collision")]
    contact = node.find("contact")
    if contact is not None:
        values = [_element(part, part.tag, {"value": part.text}) for part in contact.children]
        parts.append(_element(contact, "contact", {}, *values))
    return _element(node, "link", {"name": node.text_of("name")}, *parts)


def _origin(node: Node) -> Node | None:
    pose = node.find("pose")
    words = pose.text.split() if pose is not None else []
    if len(words) < 6:
        return None
    return _element(pose, "origin", {"xyz": " ".join(words[:3]), "rpy": " ".join(words[3:6])})


def _inertial(node: Node) -> Node:
    mass, inertia = node.find("mass"), node.find("inertia")
    return _element(
        node,
        "inertial",
        {},
        _origin(node),
        _element(mass, "mass", {"value": mass.text}) if mass is not None else None,
        _element(inertia, "inertia", {name: _text(inertia, name) for name in _INERTIA})
        if inertia is not None
        else None,
    )


def _shape(node: Node) -> Node:
    geometry, material = node.find("geometry"), node.find("material")
    shapes = [_geometry(part) for part in geometry.children] if geometry is not None else []
    color = None
    if material is not None:
        color = _material(material)
    attributes = {"name": node.text_of("name"), "concave": node.text_of("concave")}
    return _element(node, node.tag, attributes, _origin(node), _element(node, "geometry", {}, *shapes), color)


def _geometry(node: Node) -> Node:
    values = {name: _text(node, name) for name in _SHAPE_VALUES.get(node.tag, ())}
    if "uri" in values:
        values["filename"] = values.pop("uri")
    return _element(node, node.tag, values)


def _material(node: Node) -> Node:
    diffuse, specular = node.find("diffuse"), node.find("specular")
    return _element(
        node,
        "material",
        {},
        _element(diffuse, "color", {"rgba": diffuse.text}) if diffuse is not None else None,
        _element(specular, "specular", {"rgb": specular.text}) if specular is not None else None,
    )


def _joint(node: Node) -> Node:
    """A joint as URDF has it; without <axis> it has no limits and needs none."""
    axis, kind = node.find("axis"), node.text_of("type")
    parts = [_element(node, tag, {"link": _text(node, tag)}) for tag in ("parent", "child")]
    limit = axis.find("limit") if axis is not None else None
    if axis is None:
        parts.append(_element(node, "limit", {}))
    else:
        parts.append(_element(axis, "axis", {"xyz": _text(axis, "xyz")}))
        if limit is not None and kind != "continuous":
            names = ("lower", "upper", "effort", "velocity")
            parts.append(_element(limit, "limit", {name: _text(limit, name) for name in names}))
        dynamics = axis.find("dynamics")
        if dynamics is not None:
            names = ("damping", "friction")
            parts.append(_element(dynamics, "dynamics", {name: _text(dynamics, name) for name in names}))
    return _element(node, "joint", {"name": node.text_of("name"), "type": kind}, *parts)

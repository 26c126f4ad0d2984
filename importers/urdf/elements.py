"""Elements of URDF as they stand in the file, for every reader that makes something of them.

Faults are met where the format forbids something that a number could still stand in for; with `Forgive` the
values are taken as they are. References: http://wiki.ros.org/urdf/XML
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from newtonsim.errors import did_you_mean
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.xml import Node

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
GEOMETRY_TYPES = ("box", "sphere", "cylinder", "capsule", "mesh", "plane")
"""As in the format, whose version 1.1 has capsules, and Bullet's additions: spherical joints and planes."""

MIN_LENGTH = 1.0e-9
"""Shorter axes and normals have no direction."""

_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Position (3,) [m], and roll, pitch and yaw (3,) [rad]: turns about the fixed axes x, y, z."""

    xyz: np.ndarray
    rpy: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Inertial:
    """Frame at the centre of mass, mass [kg] and inertia (3, 3) along its axes [kg m^2]; None if missing."""

    origin: Origin | None
    mass: float | None
    inertia: np.ndarray | None


class JointEnds(Protocol):
    """What the tree of a robot needs of a joint."""

    name: str
    parent: str
    child: str
    node: Node


AnyJoint = TypeVar("AnyJoint", bound=JointEnds)


def read_origin(node: Node, faults: Faults = REFUSE) -> Origin | None:
    """Read the <origin> below an element, None where it has none."""
    origin = node.find("origin")
    if origin is None:
        return None
    rpy = origin.floats("rpy", 3, (0.0, 0.0, 0.0), faults=faults)
    return Origin(origin.floats("xyz", 3, (0.0, 0.0, 0.0), faults=faults), rpy)


def read_inertial(node: Node, faults: Faults = REFUSE) -> Inertial:
    """Read an <inertial>; moments that are missing are zero."""
    origin = read_origin(node, faults)
    mass_node, inertia_node = node.find("mass"), node.find("inertia")
    mass = mass_node.float("value", None, faults) if mass_node is not None else None
    if mass is not None and mass < 0.0:
        faults.meet(mass_node.error(f"the mass must not be negative, got {mass:g}"), "0 is used")
    if inertia_node is None:
        return Inertial(origin, mass, None)
    xx, xy, xz, yy, yz, zz = (inertia_node.float(name, 0.0, faults) for name in _MOMENTS)
    return Inertial(origin, mass, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def read_size(shape: Node, faults: Faults = REFUSE) -> np.ndarray:
    """Read a shape that is not a mesh.

    Returns:
        Half extents of a box (3,), radius of a sphere (1,), radius and half length of a cylinder or capsule
        (2,) [m], or the unit normal of a plane (3,).
    """
    if shape.tag == "box":
        shape.required("size")
        size = shape.floats("size", 3, faults=faults)
        if min(size.tolist()) <= 0.0:
            fault = shape.error(f"attribute 'size' must be positive, got {shape.text_of('size')!r}")
            faults.meet(fault, "the shape is left out")
        return 0.5 * size
    if shape.tag == "sphere":
        return np.array([shape.positive("radius", faults)])
    if shape.tag == "plane":
        normal = shape.floats("normal", 3, (0.0, 0.0, 1.0), faults=faults)
        length = np.linalg.norm(normal)
        if not length > MIN_LENGTH:
            faults.meet(shape.error("attribute 'normal' is zero"), "the z axis is used")
        return normal / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    return np.array([shape.positive("radius", faults), 0.5 * shape.positive("length", faults)])


def read_joint_ends(node: Node) -> tuple[str, str, str, str]:
    """Return name, type, parent link and child link of a <joint>."""
    kind = node.required("type")
    if kind not in JOINT_TYPES:
        known = f"supported: {', '.join(JOINT_TYPES)}{did_you_mean(kind, JOINT_TYPES)}"
        raise node.error(f"joint type {kind!r} is unknown; {known}")
    ends = []
    for tag in ("parent", "child"):
        end = node.find(tag)
        if end is None:
            raise node.error(f"<{tag}> is missing")
        ends.append(end.required("link"))
    return node.required("name"), kind, *ends


def read_dynamics(node: Node, faults: Faults = REFUSE) -> tuple[float, float]:
    """Return damping and friction of a <joint>, zero where it says nothing."""
    dynamics = node.find("dynamics")
    if dynamics is None:
        return 0.0, 0.0
    values = []
    for name in ("damping", "friction"):
        value = dynamics.float(name, 0.0, faults)
        if value < 0.0:
            fault = dynamics.error(f"attribute '{name}' must not be negative, got {value:g}")
            faults.meet(fault, "0 is used")
        values.append(value)
    return values[0], values[1]


def read_mimic(node: Node, faults: Faults = REFUSE) -> tuple[str, float, float] | None:
    """Return leader, multiplier and offset of a <joint> that follows another one."""
    mimic = node.find("mimic")
    if mimic is None:
        return None
    if not mimic.text_of("joint"):
        faults.meet(mimic.error("attribute 'joint' is missing"), "the joint follows no other")
        return None
    return mimic.text_of("joint"), mimic.float("multiplier", 1.0, faults), mimic.float("offset", 0.0, faults)


# -- tree ----------------------------------------------------------------------------------------------------


def read_tree(
    root: Node, links: Mapping[str, Node], joints: Iterable[AnyJoint], faults: Faults = REFUSE
) -> tuple[str, dict[str, list[AnyJoint]]]:
    """Find the root link, from which every link should be reached exactly once.

    Args:
        root: The <robot>.
        links: The elements of the links by name.
        joints: The joints in the order of the file.
        faults: Where these are forgiven, the first of several root links is taken, and links that it does not
            reach are left out.

    Returns:
        The name of the root link, and the joints below each link.
    """
    above: dict[str, AnyJoint] = {}
    below: dict[str, list[AnyJoint]] = {name: [] for name in links}
    for joint in joints:
        for end in (joint.parent, joint.child):
            if end not in links:
                missing = f"names the link {end!r}, which does not exist{did_you_mean(end, links)}"
                raise joint.node.error(f"joint {joint.name!r} {missing}")
        if joint.parent == joint.child:
            fault = joint.node.error(f"joint {joint.name!r} connects link {joint.child!r} to itself")
            faults.meet(fault, "both are left out")
        if joint.child in above:
            pair = f"{above[joint.child].name!r} and {joint.name!r}"
            raise joint.node.error(f"link {joint.child!r} is the child of two joints, {pair}")
        above[joint.child] = joint
        below[joint.parent].append(joint)
    bases = [name for name in links if name not in above]
    if not bases:
        raise root.error("the joints form a cycle: every link is the child of a joint")
    if len(bases) > 1:
        names = ", ".join(map(repr, bases[:5]))
        fault = links[bases[1]].error(f"the robot has several root links: {names}")
        faults.meet(fault, "each is attached as the first one is")
    reached = {bases[0], *(joint.child for joint in outwards(bases[0], below))}
    lost = next((name for name in links if name not in reached), None)
    if lost is not None and len(bases) == 1:
        fault = links[lost].error(f"link {lost!r} is part of a cycle of joints")
        faults.meet(fault, "links not connected to the root are left out")
    return bases[0], below


def outwards(base: str, below: Mapping[str, list[AnyJoint]]) -> Iterator[AnyJoint]:
    """Yield the joints below a link, depth first and in the order of the file."""
    stack = list(reversed(below[base]))
    while stack:
        joint = stack.pop()
        yield joint
        stack.extend(reversed(below[joint.child]))

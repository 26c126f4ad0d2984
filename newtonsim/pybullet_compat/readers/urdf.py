"""URDF files as PyBullet understands them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.xml import Node
from newtonsim.importers.urdf.elements import read_mimic, read_tree
from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Link
from newtonsim.pybullet_compat.descriptions.kinds import LoadFlag
from newtonsim.pybullet_compat.readers.deformable import read_deformable
from newtonsim.pybullet_compat.readers.documents import read_xml
from newtonsim.pybullet_compat.readers.merge import Merger
from newtonsim.pybullet_compat.readers.options import LoadOptions
from newtonsim.pybullet_compat.readers.urdf_elements import FoundFile, Joint, Reader

_JOINT_PART = (
    "joint_name",
    "joint_type",
    "joint_pose",
    "axis",
    "axis_length",
    "limits",
    "stops",
    "max_force",
    "max_velocity",
    "damping",
    "friction",
)
_COLORS = (
    (0.234375, 0.7265625, 0.328125, 1.0),
    (0.953125, 0.7578125, 0.05078125, 1.0),
    (0.85546875, 0.1953125, 0.2109375, 1.0),
    (0.28125, 0.51953125, 0.92578125, 1.0),
)
"""For visuals without a material, with URDF_GOOGLEY_UNDEFINED_COLORS."""


@limited_time()
def read_urdf(path: str | os.PathLike, options: LoadOptions | None = None) -> BodyDescription:
    """Read a robot.

    Args:
        path: The file.
        options: How it is loaded.

    Returns:
        A record of its own; what was read from unchanged files is shared between calls.

    Raises:
        ImportFileError: With file, line and element: what PyBullet answers with "Cannot load URDF file.".
    """
    options = options or LoadOptions()
    key = _key(path, options) if options.use_cache else None
    known = _known.get(key)
    if known is None or not known.is_valid():
        reader = Reader(os.fspath(path), options)
        known = ReadFile(_read(path, reader), reader)
        if known.body.soft is not None:
            key = None
    if key is not None:
        if known.body.patterns is None:
            known.body.patterns = {}
        _known[key] = known
        while len(_known) > MOST_KNOWN:
            del _known[next(iter(_known))]
    known.reader.faults.warn(stacklevel=3)  # one is the clock
    return known.body.placed(options.pose)


@dataclass(frozen=True, slots=True, eq=False)
class ReadFile:
    """What was read from a file, and the reader, which knows what else that depends on."""

    body: BodyDescription
    reader: Reader

    def is_valid(self) -> bool:
        """Whether the files that it refers to are what they were."""
        document = self.reader.document
        return all(FoundFile.of(file.name, document) == file for file in self.reader.files)


_known: dict[tuple | None, ReadFile] = {}
MOST_KNOWN = 64
"""Robots that are kept as they were read."""


def _key(path: str | os.PathLike, options: LoadOptions) -> tuple | None:
    """What decides on the content of a file and how it is read, None for files that cannot be asked."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None  # reading it is going to say why
    where = (os.fspath(path), os.getcwd(), stat.st_mtime_ns, stat.st_size)
    return *where, options.flags, options.scale, options.fixed, options.maximal


def _read(path: str | os.PathLike, reader: Reader) -> BodyDescription:
    root = read_xml(path, reader.faults, reader.options.use_cache)
    if root.tag != "robot":
        raise root.error("the root element of a URDF file is <robot>")
    if not root.text_of("name"):
        raise root.error("the robot has no name")
    soft = root.find("deformable")
    if soft is not None:
        arguments = read_deformable(soft, reader.document, reader.faults)
        return BodyDescription(name=root.text_of("name"), soft=arguments)
    reader.read_materials(root)
    return assemble(root, reader)


def assemble(root: Node, reader: Reader) -> BodyDescription:
    """Read the links and joints below a <robot> and put them in order.

    Args:
        root: The <robot>.
        reader: Reads its elements; warnings gather there.

    Raises:
        ImportFileError: An element is not understood, or the joints form no tree.
    """
    links, joints = _read_links(root, reader), _read_joints(root, reader)
    nodes = {node.text_of("name"): node for node in root.findall("link")}
    base, tree = read_tree(root, nodes, joints.values(), reader.faults)
    above = {joint.child: (joint.record, joint.parent) for joint in joints.values()}
    below = {name: [joint.child for joint in children] for name, children in tree.items()}
    merged: set[str] = set()
    if reader.has(LoadFlag.MERGE_FIXED_LINKS):
        fixed = reader.options.fixed
        merged = Merger(links, above, below, reader.inertia, reader.stand_ins, fixed).merge(base)
    order = _order(reader, base, below, links)
    for name in (base, *order):
        reader.finish(links[name], name in merged)
    places = {name: place for place, name in enumerate(order)}
    records = []
    for name in order:
        link, (joint, parent) = links[name], above[name]
        for attribute in _JOINT_PART:
            setattr(link, attribute, getattr(joint, attribute))
        link.parent = places.get(parent, -1)
        records.append(link)
    if reader.has(LoadFlag.GOOGLEY_UNDEFINED_COLORS):
        _color_undefined(root, reader, links[base], records)
    options = reader.options
    return BodyDescription(
        name=root.text_of("name"),
        base=links[base],
        links=records,
        pose=options.pose,
        fixed=options.fixed,
        self_collision=reader.has(LoadFlag.USE_SELF_COLLISION),
        collide_parent=reader.has(LoadFlag.USE_SELF_COLLISION_INCLUDE_PARENT),
        exclude_ancestors=reader.has(LoadFlag.USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS),
        maximal=options.maximal,
        mimics=_mimics(joints.values(), records, reader),
    )


def _read_links(root: Node, reader: Reader) -> dict[str, Link]:
    links: dict[str, Link] = {}
    for node in root.findall("link"):
        node.check_time()
        link = reader.link(node)
        if link.name in links:
            raise node.error(f"a second link has the name {link.name!r}")
        links[link.name] = link
    if not links:
        raise root.error("the robot has no links")
    return links


def _read_joints(root: Node, reader: Reader) -> dict[str, Joint]:
    joints: dict[str, Joint] = {}
    for node in root.findall("joint"):
        node.check_time()
        joint = reader.joint(node)
        if joint.name in joints:
            raise node.error(f"a second joint has the name {joint.name!r}")
        joints[joint.name] = joint
    return joints


def _order(reader: Reader, base: str, below: dict[str, list[str]], links: dict[str, Link]) -> list[str]:
    """Names of all links below the base: depth first, or as they stand in the file."""
    order, stack = [], list(reversed(below[base]))
    while stack:
        name = stack.pop()
        order.append(name)
        stack.extend(reversed(below[name]))
    if reader.has(LoadFlag.MAINTAIN_LINK_ORDER):
        reached = set(order)
        order = [name for name in links if name in reached]
    return order


def _color_undefined(root: Node, reader: Reader, base: Link, records: list[Link]) -> None:
    """Give visuals without a material one of four colours, by the number of their link."""
    is_open = {
        node.text_of("name"): [reader.leaves_color(part) for part in node.findall("visual")]
        for node in root.findall("link")
    }
    for place, link in enumerate((base, *records)):
        flags = is_open.get(link.name, [])
        flags += [True] * (len(link.visuals) - len(flags))
        for visual, undefined in zip(link.visuals, flags, strict=False):
            if undefined:
                visual.rgba = _COLORS[max(place - 1, 0) % len(_COLORS)]


def _mimics(
    joints: Iterable[Joint], records: list[Link], reader: Reader
) -> list[tuple[int, int, float, float]]:
    places = {link.joint_name: place for place, link in enumerate(records)}
    found = []
    for joint in joints:
        mimic = read_mimic(joint.node, reader.faults)
        if mimic is not None and mimic[0] in places and joint.name in places:
            found.append((places[joint.name], places[mimic[0]], *mimic[1:]))
    return found

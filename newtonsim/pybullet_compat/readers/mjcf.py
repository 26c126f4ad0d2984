"""MJCF files as PyBullet understands them, which is not as MuJoCo does.

Every geom and every body of the world becomes a separate body. A body with joints is their child: each joint
moves a massless link, and the last one carries the body by a fixed joint; the parent of the first joint of a
tree is a massless fixed base. Masses are those of solids with the density of water, inertias those of boxes.
Actuators, sites, tendons, damping, armature and stiffness are not read.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import radians

import numpy as np

from newtonsim.importers.files.clock import limited_time
from newtonsim.importers.files.faults import Forgive
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.document import Defaults
from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Link, Surface
from newtonsim.pybullet_compat.descriptions.kinds import JointKind, LoadFlag
from newtonsim.pybullet_compat.readers.documents import read_xml
from newtonsim.pybullet_compat.readers.mjcf_geoms import Geom, GeomReader, inertia_of_geoms, quat_of_wxyz
from newtonsim.pybullet_compat.readers.options import LoadOptions

_JOINT_KINDS = {
    "hinge": JointKind.REVOLUTE,
    "slide": JointKind.PRISMATIC,
    "ball": JointKind.SPHERICAL,
    "fixed": JointKind.FIXED,
}
_UNLIMITED = (1.0, 0.0)
_NUMBERS = itertools.count()
"""What gets a name from a number is counted over all files that the process reads, as in PyBullet."""
_READ_SECTIONS = {"compiler", "default", "asset", "worldbody"}
_SILENT_SECTIONS = {
    "actuator",
    "option",
    "size",
    "visual",
    "statistic",
    "sensor",
    "custom",
    "keyframe",
    "tendon",
}


@limited_time()
def read_mjcf(path: str | os.PathLike, options: LoadOptions | None = None) -> list[BodyDescription]:
    """Read all bodies of a file.

    Args:
        path: The file.
        options: How it is loaded.

    Returns:
        One record for each geom and each body of the world.

    Raises:
        ImportFileError: With file, line and element: what PyBullet answers with "Couldn't load .mjcf file.".
    """
    options, faults = options or LoadOptions(), Forgive()
    root = read_xml(path, faults, options.use_cache)
    if root.tag != "mujoco":
        raise root.error("the root element of an MJCF file is <mujoco>")
    bodies = _MjcfReader(root, os.fspath(path), options, faults).read()
    faults.warn(stacklevel=3)  # one is the clock
    return bodies


@dataclass(slots=True)
class _Model:
    """A body of the world while it is read.

    Attributes:
        links: Links in the order in which they are made, which their names count.
        root: Place of the base in `links`.
        below: Places of the children of each link.
        pose: Of the base.
    """

    number: int
    links: list[Link] = field(default_factory=list)
    root: int = 0
    below: dict[int, list[int]] = field(default_factory=dict)
    joints: int = 0
    pose: Pose = field(default_factory=Pose.identity)

    def add(self, link: Link) -> int:
        """Add a link without a joint and return its place."""
        if not link.name:
            link.name = f"link{self.number}_{len(self.links)}"
        self.links.append(link)
        return len(self.links) - 1

    def join(self, parent: int, child: int, name: str, kind: JointKind, pose: Pose) -> Link:
        """Hang a link below another one and return it."""
        link = self.links[child]
        link.joint_name, link.joint_type, link.joint_pose = name, int(kind), pose
        self.below.setdefault(parent, []).append(child)
        self.joints += 1
        return link


class _MjcfReader:
    """Reads one document."""

    def __init__(self, root: Node, path: str, options: LoadOptions, faults: Forgive):
        self.root, self.options, self.faults = root, options, faults
        self.models = 0
        self.defaults = Defaults()
        for node in root.findall("default"):
            self.defaults.read(node)
        compilers = root.findall("compiler")
        self.degrees = any(node.text_of("angle") == "degree" for node in compilers)
        self.geoms = GeomReader(root, path, self.defaults, options, faults)

    def warn(self, node: Node, message: str) -> None:
        """Record that an element is not used as written."""
        self.faults.meet(node.error(message))

    def read(self) -> list[BodyDescription]:
        bodies = []
        for section in self.root.children:
            if section.tag not in _READ_SECTIONS | _SILENT_SECTIONS:
                self.warn(section, "is not read")
        for world in self.root.findall("worldbody"):
            for node in world.children:
                if node.tag == "geom":
                    bodies.append(self._world_geom(node))
                elif node.tag == "body":
                    bodies.append(self._world_body(node))
                elif node.tag not in ("light", "camera", "site"):
                    self.warn(node, "is not read")
        return bodies

    def _world_geom(self, node: Node) -> BodyDescription:
        base = Link(node.text_of("name") or "anonymous")
        geom = self.geoms.read(node, None)
        self._dress(base, [geom] if geom is not None else [], Node("inertial", {"mass": "0"}))
        self.models += 1
        return self._description(base, [], Pose.identity())

    def _world_body(self, node: Node) -> BodyDescription:
        model = _Model(self.models)
        self.models += 1
        self._read_body(node, model)
        order, stack = [], list(reversed(model.below.get(model.root, [])))
        parents = {child: parent for parent, children in model.below.items() for child in children}
        while stack:
            place = stack.pop()
            order.append(place)
            stack.extend(reversed(model.below.get(place, [])))
        places = {place: k for k, place in enumerate(order)}
        for place in order:
            model.links[place].parent = places.get(parents[place], -1)
        base = model.links[model.root]
        # the position in the file is that of the centre of mass
        pose = model.pose @ base.inertial_pose.inverse()
        return self._description(base, [model.links[place] for place in order], pose)

    def _description(self, base: Link, links: list[Link], pose: Pose) -> BodyDescription:
        flags = self.options.flags
        return BodyDescription(
            name=self.root.text_of("model") or "",
            base=base,
            links=links,
            pose=pose,
            self_collision=bool(flags & LoadFlag.USE_SELF_COLLISION),
            collide_parent=bool(flags & LoadFlag.USE_SELF_COLLISION_INCLUDE_PARENT),
            exclude_ancestors=bool(flags & LoadFlag.USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS),
            maximal=self.options.maximal,
        )

    def _read_body(self, node: Node, model: _Model) -> None:
        """Read a body and all below it; without recursion, since files nest as deep as their limit says."""
        todo = [self._body(node, model, None, None)]
        while todo:
            below = next(todo[-1], None)
            if below is None:
                todo.pop()
            else:
                todo.append(self._body(*below))

    def _body(
        self, node: Node, model: _Model, parent: int | None, inherited: str | None
    ) -> Iterator[tuple[Node, _Model, int, str | None]]:
        """Read a body; what is yielded on the way, arguments for those below it, has to be read then."""
        node.check_time()
        inherited = node.text_of("childclass") or inherited
        if not node.text_of("name"):
            next(_NUMBERS)
        for name in ("axisangle", "euler", "xyaxes", "zaxis"):
            if name in node.attrib:
                self.warn(node, f"{name} is not read, only quat")
        own = model.add(Link(node.text_of("name") or ""))
        pose = self._pose(node)
        joints = [j for j in node.findall("joint") if self._joint_kind(j) is not None]
        if parent is None:
            model.root = model.add(_massless()) if joints else own
            model.pose = Pose.identity() if joints else pose
        last = self._joints(model, joints, model.root if parent is None else parent, pose, inherited)
        geoms = [self.geoms.read(part, inherited) for part in node.findall("geom")]
        self._dress(model.links[own], [geom for geom in geoms if geom is not None], node.find("inertial"))
        for part in node.children:
            if part.tag == "body":
                yield part, model, own, inherited
            elif part.tag not in ("joint", "freejoint", "geom", "inertial", "site", "camera", "light"):
                self.warn(part, "is not read")
        if parent is None and not joints:
            return
        above = last if joints else parent
        # the anchor of the first joint counts for the body even below several joints
        fixed = Pose(-self._position(joints[0]), Pose.identity().q) if joints else pose
        self._hang(model, above, own, f"jointfix_{next(_NUMBERS)}_{above}", fixed)

    def _hang(self, model: _Model, above: int, own: int, name: str, pose: Pose) -> None:
        """Join a body to the last link of its joints; its own children keep their place after it."""
        model.join(above, own, name, JointKind.FIXED, pose)
        siblings = model.below[above]
        siblings.sort()

    def _joint_kind(self, node: Node) -> JointKind | None:
        """Kind of a joint, None for free ones, which need none."""
        kind = node.text_of("type") or "hinge"
        if kind == "free":
            return None
        if kind not in _JOINT_KINDS:
            raise node.error(f"joint type {kind!r} is unknown")
        return _JOINT_KINDS[kind]

    def _joints(
        self, model: _Model, joints: list[Node], parent: int, pose: Pose, inherited: str | None
    ) -> int:
        """Make one massless link for each joint of a body; returns the place of the last one."""
        for k, node in enumerate(joints):
            kind = self._joint_kind(node)
            place = model.add(_massless())
            anchor = self._position(node)
            name = node.text_of("name") or f"joint{next(_NUMBERS)}_{place}_{model.joints}"
            frame = (
                pose @ Pose(anchor, Pose.identity().q)
                if k == 0
                else Pose(anchor - self._position(joints[0]), Pose.identity().q)
            )
            link = model.join(parent, place, name, kind, frame)
            link.limits = self._limits(node, kind, inherited)
            if kind in (JointKind.REVOLUTE, JointKind.PRISMATIC):
                axis = self._axis(node)
                link.axis_length = float(np.linalg.norm(axis))
                link.axis = axis / link.axis_length
            parent = place
        return parent

    def _axis(self, node: Node) -> np.ndarray:
        axis = node.floats("axis", 3, (0.0, 0.0, 0.0), faults=self.faults)
        if not axis.any():
            self.warn(node, "has no axis; x is used")
            axis = np.array([1.0, 0.0, 0.0])
        return axis

    def _limits(self, node: Node, kind: JointKind, inherited: str | None) -> tuple[float, float]:
        full, _ = self.defaults.resolve(node, inherited)
        text = full.text_of("range")
        if full.text_of("limited") not in ("true", "1") or not text:
            return _UNLIMITED
        values = [*full.floats("range", faults=self.faults).tolist(), 0.0, 0.0][:2]
        if self.degrees and kind == JointKind.REVOLUTE:
            values = [radians(value) for value in values]
        return values[0], values[1]

    def _dress(self, link: Link, geoms: list[Geom], inertial: Node | None) -> None:
        """Give a link the shapes, the mass and the friction of its geoms."""
        link.collisions = [geom.shape for geom in geoms]
        link.visuals = [geom.visual for geom in geoms]
        link.group, link.mask = None, None
        for geom in geoms:
            link.surface.lateral_friction = geom.friction
            link.group, link.mask = geom.group, geom.mask
        if inertial is not None:
            mass = inertial.float("mass", faults=self.faults)
            link.mass = mass if mass is not None else sum(geom.mass for geom in geoms)
            link.inertial_pose = self._pose(inertial)
        else:
            link.mass = sum(geom.mass for geom in geoms)
            centre = geoms[-1].centre if geoms else np.zeros(3)
            link.inertial_pose = Pose(centre, Pose.identity().q)
        inertia, margin = inertia_of_geoms(link.mass, geoms, link.inertial_pose)
        if not self.options.flags & LoadFlag.USE_INERTIA_FROM_FILE:
            link.inertia = inertia
        link.surface.collision_margin = margin

    def _position(self, node: Node) -> np.ndarray:
        return node.floats("pos", 3, (0.0, 0.0, 0.0), faults=self.faults)

    def _pose(self, node: Node) -> Pose:
        """Pose of a body: `pos` and `quat`, which is all that PyBullet reads of it."""
        values = node.floats("quat", 4, np.zeros(4), faults=self.faults)
        return Pose(self._position(node), quat_of_wxyz(values) if values.any() else Pose.identity().q)


def _massless() -> Link:
    """A link between joints."""
    return Link(surface=Surface(collision_margin=0.0))

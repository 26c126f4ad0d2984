"""MJCF text to records: bodies, joints, geoms, sites, contacts and keyframes. Nothing is built here."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.building.masses import check_moments, note_impossible
from newtonsim.importers.files.mjcf_names import INERTIA
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.actuators import parse_actuators
from newtonsim.importers.mjcf.assets import Assets
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.equality import parse_equalities
from newtonsim.importers.mjcf.geoms import parse_geom, solver_parameters
from newtonsim.importers.mjcf.records import (
    LEFT_TO_MUJOCO,
    Body,
    Joint,
    Keyframe,
    Scene,
    Site,
    SolverParameters,
)
from newtonsim.importers.mjcf.switches import read_flags, switch_off
from newtonsim.importers.mjcf.tendons import parse_tendons
from newtonsim.scene.model import MEDIUM

_JOINT_KINDS = ("hinge", "slide", "ball", "free")
_VISUAL = ("camera", "light", "user")
_SILENT_SECTIONS = ("visual", "statistic", "size", "custom", "sensor")
_KNOWN_SECTIONS = (
    "compiler",
    "default",
    "asset",
    "worldbody",
    "option",
    "contact",
    "equality",
    "actuator",
    "keyframe",
    "tendon",
)


@dataclass(slots=True)
class Ignore:
    """Names and classes that the caller does not want, as expressions that match from the start."""

    names: tuple[re.Pattern, ...]
    classes: tuple[re.Pattern, ...]

    def matches(self, name: str | None, class_name: str | None) -> bool:
        """Whether a body or joint with this name and class is unwanted."""
        by_name = name is not None and any(one.match(name) for one in self.names)
        return by_name or (class_name is not None and any(one.match(class_name) for one in self.classes))


def parse_scene(document: Document, report: ImportReport, ignore: Ignore, parse_meshes: bool) -> Scene:
    """Read everything below <mujoco> into records."""
    scene = Scene(document.root.text_of("model", ""), [])
    _parse_options(document, scene, report)
    assets = Assets(document, report)
    _BodyReader(document, scene, assets, report, ignore, parse_meshes).read()
    parse_actuators(document, scene, report)
    _parse_contacts(document, scene, report)
    parse_equalities(document, scene, report)
    _restore_inertias(document, scene, report)
    _parse_keyframes(document, scene)
    parse_tendons(document, scene, report)
    switch_off(scene, report)
    for node in document.root.children:
        if node.tag in _SILENT_SECTIONS:
            report.ignored(node)
        elif node.tag not in _KNOWN_SECTIONS:
            report.unsupported(node)
    return scene


def _restore_inertias(document: Document, scene: Scene, report: ImportReport) -> None:
    """Give bodies the inertias, and masses, that `export_mjcf` has kept beside those that MuJoCo compiles."""
    bodies = {body.name: body for body in scene.bodies if body.inertial is not None}
    for section in document.sections("custom"):
        for node in section.findall("numeric"):
            name = node.text_of("name", "")
            body = bodies.get(name.removeprefix(INERTIA))
            if not name.startswith(INERTIA) or body is None:
                continue
            values = node.floats("data", None, np.zeros(6))
            if len(values) not in (6, 10):
                raise node.error(f"attribute 'data' needs 6 or 10 numbers, got {len(values)}")
            xx, yy, zz, xy, xz, yz = values[:6]
            inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            mass, com = body.inertial.mass, body.inertial.com
            if len(values) == 10:
                mass, com = float(values[6]), values[7:]
            if mass < 0.0:
                raise node.error(f"attribute 'data' gives a negative mass, {mass:g} kg")
            check_moments(inertia, node)
            note_impossible(inertia, mass, node, report, f"body {body.name!r}")
            body.inertial = MassProps(mass, com, inertia)


# -- options -------------------------------------------------------------------------------------------------


def _parse_options(document: Document, scene: Scene, report: ImportReport) -> None:
    for node in document.sections("option"):
        scene.timestep = node.float("timestep", scene.timestep)
        if scene.timestep is not None and scene.timestep <= 0.0:
            raise node.error(f"attribute 'timestep' must be positive, got {scene.timestep:g}")
        scene.gravity = node.floats("gravity", 3, scene.gravity)
        for name in MEDIUM:
            values = node.floats(name)
            if values is not None and values.any():
                unless = "the solver has a Medium stage or is MuJoCoSolver"
                report.unsupported(node, f"{name} of the medium", partly=True, unless=unless)
                scene.medium[name] = values
        for flag in node.findall("flag"):
            read_flags(flag, scene, report)


# -- bodies --------------------------------------------------------------------------------------------------


class _BodyReader:
    """Walks the worldbody without recursion and fills `scene.bodies`; entry 0 is the world."""

    def __init__(
        self,
        document: Document,
        scene: Scene,
        assets: Assets,
        report: ImportReport,
        ignore: Ignore,
        parse_meshes: bool,
    ):
        self.document, self.scene, self.assets, self.report = document, scene, assets, report
        self.ignore, self.parse_meshes = ignore, parse_meshes
        self.names: dict[tuple[str, str], Node] = {}

    def read(self) -> None:
        """Read all <worldbody> sections."""
        self.scene.bodies.append(Body("world", self.document.root, -1, Pose.identity()))
        for section in self.document.sections("worldbody"):
            # (children still to do, body they belong to, pose of the enclosing frames, childclass)
            stack: list[tuple[Iterator[Node], int, Pose, str | None]] = [
                (iter(section.children), 0, Pose.identity(), section.text_of("childclass"))
            ]
            while stack:
                children, body, frame, inherited = stack[-1]
                node = next(children, None)
                if node is None:
                    stack.pop()
                elif node.tag in ("body", "frame"):
                    inherited = self._childclass(node, inherited)
                    pose = frame @ self.document.pose_of(node)
                    if node.tag == "frame":
                        stack.append((iter(node.children), body, pose, inherited))
                    elif (index := self._add_body(node, body, pose)) is not None:
                        stack.append((iter(node.children), index, Pose.identity(), inherited))
                else:
                    self._read_part(node, body, frame, inherited)

    def _childclass(self, node: Node, inherited: str | None) -> str | None:
        name = node.text_of("childclass", inherited)
        if name is not None and name not in self.document.defaults.tables:
            raise node.error(f"the default class {name!r} is not defined")
        return name

    def _unique(self, kind: str, node: Node) -> str | None:
        name = node.text_of("name")
        if name:
            if (kind, name) in self.names:
                raise node.error(f"a second {kind} has the name {name!r}")
            self.names[kind, name] = node
        return name or None

    def _add_body(self, node: Node, parent: int, pose: Pose) -> int | None:
        name = self._unique("body", node)
        if self.ignore.matches(name, node.text_of("childclass")):
            self._forget(node)
            return None
        mocap = bool(node.bool("mocap", False))
        if mocap and parent != 0:
            raise node.error("a mocap body is a child of the world")
        if mocap and node.find("body") is not None:
            self.report.unsupported(
                node, "a mocap body that carries other bodies is fixed in place", partly=True
            )
            mocap = False
        gravcomp = node.float("gravcomp", 0.0)
        if gravcomp != 0.0:
            unless = "report.gravcomp is passed to a GravityCompensation stage of the solver, or to "
            self.report.unsupported(node, "gravcomp", partly=True, unless=unless + "MuJoCoSolver")
        self.scene.bodies.append(Body(name, node, parent, pose, mocap, gravcomp))
        return len(self.scene.bodies) - 1

    def _forget(self, node: Node) -> None:
        """Remember the names of what was left out on purpose, so that references to them are not mistakes."""
        self.report.ignored(node, "left out because of ignore_names or ignore_classes")
        self.scene.ignored_names.update(one.attrib["name"] for one in node.walk() if "name" in one.attrib)

    def _read_part(self, node: Node, index: int, frame: Pose, inherited: str | None) -> None:
        body = self.scene.bodies[index]
        if node.tag in ("joint", "freejoint"):
            self._read_joint(node, index, frame, inherited)
        elif node.tag == "geom":
            self._unique("geom", node)
            geom = parse_geom(
                node, inherited, frame, self.document, self.assets, self.report, self.parse_meshes
            )
            if geom is not None:
                body.geoms.append(geom)
        elif node.tag == "site":
            self._read_site(node, body, frame, inherited)
        elif node.tag == "inertial":
            if body.inertial is not None or index == 0:
                raise node.error("a body has at most one <inertial>, and the world none")
            body.inertial = _parse_inertial(node, body, frame, self.document, self.report)
        elif node.tag in _VISUAL:
            self.report.ignored(node)
        else:
            self.report.unsupported(node, f"<{node.tag}> in a body")

    # -- joints ----------------------------------------------------------------------------------------------

    def _read_joint(self, node: Node, index: int, frame: Pose, inherited: str | None) -> None:
        body = self.scene.bodies[index]
        if index == 0:
            raise node.error("the world cannot have joints")
        name = self._unique("joint", node)
        if node.tag == "freejoint":
            kind, class_name = "free", None
        else:
            node, class_name = self.document.defaults.resolve(node, inherited)
            kind = node.keyword("type", _JOINT_KINDS, "hinge")
        if self.ignore.matches(name, class_name):
            self._forget(node)
            return
        if kind == "free" and (body.parent != 0 or body.joints):
            raise node.error("a free joint must be the only joint of a body at the top level")
        if body.joints and body.joints[-1].kind == "free":
            raise node.error("a body with a free joint has no other joints")
        if any(joint.kind == "ball" for joint in body.joints) and kind in ("ball", "hinge"):
            raise node.error("no rotation may follow a ball joint in the same body")
        body.joints.append(_parse_joint(node, name, kind, frame, self.document, self.report))

    def _read_site(self, node: Node, body: Body, frame: Pose, inherited: str | None) -> None:
        name = self._unique("site", node)
        node, _ = self.document.defaults.resolve(node, inherited)
        if "fromto" in node.attrib:
            ends = node.floats("fromto", 6)
            pose = Pose(0.5 * (ends[:3] + ends[3:]), self.document.orientation_of(Node("site", {})))
        else:
            pose = self.document.pose_of(node)
        if name is not None:
            body.sites.append(Site(name, frame @ pose))


def _parse_joint(
    node: Node, name: str | None, kind: str, frame: Pose, document: Document, report: ImportReport
) -> Joint:
    pos = frame.apply(node.floats("pos", 3, (0.0, 0.0, 0.0)))
    axis = node.floats("axis", 3, (0.0, 0.0, 1.0))
    length = math.sqrt(axis @ axis)
    if length < 1.0e-9:
        raise node.error("attribute 'axis' has no direction")
    joint = Joint(name, node, kind, pos, quat_rotate(frame.q, axis / length))
    angle = document.compiler.angle if kind == "hinge" else float
    joint.ref, joint.spring_ref = angle(node.float("ref", 0.0)), angle(node.float("springref", 0.0))
    joint.armature = node.float("armature")
    for field, attribute in (
        ("stiffness", "stiffness"),
        ("damping", "damping"),
        ("friction", "frictionloss"),
    ):
        values = node.floats(attribute)
        if values is None:
            continue
        if len(values) == 0:
            raise node.error(f"attribute '{attribute}' is empty")
        setattr(joint, field, _not_negative(node, attribute, float(values[0]), document))
        if len(values) > 1 and values[1:].any():
            report.unsupported(node, f"{attribute} that is not linear", unless=LEFT_TO_MUJOCO)
            joint.mujoco[attribute] = [*map(float, values), 0.0, 0.0][:3]
    if joint.armature is not None:
        joint.armature = _not_negative(node, "armature", joint.armature, document)
    _read_range(node, joint, document, report)
    joint.limit = solver_parameters(node, "solreflimit", "solimplimit", document.faults)
    joint.margin = node.float("margin", 0.0)
    joint.dry = solver_parameters(node, "solreffriction", "solimpfriction", document.faults)
    time, ratio = node.floats("springdamper", 2, (0.0, 0.0))
    if kind != "free" and min(time, ratio) > 0.0:
        joint.spring_damper = float(time), float(ratio)
    _check_joint_support(node, joint, report)
    return joint


def _not_negative(node: Node, attribute: str, value: float, document: Document) -> float:
    """A number of a joint; MuJoCo takes a negative one as it is, which adds energy without end."""
    if value < 0.0:
        fault = node.error(f"attribute '{attribute}' must not be negative, got {value:g}")
        document.faults.meet(fault, "0 is used")
    return max(value, 0.0)


def _read_range(node: Node, joint: Joint, document: Document, report: ImportReport) -> None:
    if document.is_limited(node, "limited", "range") and joint.kind != "free":
        lower, upper = node.bounds("range") or (0.0, 0.0)
        if lower > upper or "range" not in node.attrib:
            raise node.error(f"the joint is limited, but its range is {node.text_of('range', 'missing')!r}")
        if joint.kind == "ball":
            if lower != 0.0:
                raise node.error(f"the range of a ball joint must start at 0, got {lower:g}")
            if upper < math.inf:
                joint.upper = document.compiler.angle(upper)
                report.approximated(node, "the limit of the angle bounds swing and twist separately")
        else:
            convert = document.compiler.angle if joint.kind == "hinge" else float
            joint.lower = convert(lower) - joint.ref if lower > -math.inf else None
            joint.upper = convert(upper) - joint.ref if upper < math.inf else None
    if document.is_limited(node, "actuatorfrclimited", "actuatorfrcrange"):
        low, high = node.bounds("actuatorfrcrange") or (0.0, 0.0)
        joint.effort_limit = max(abs(low), abs(high))
        if low <= 0.0 <= high:
            joint.effort_lower, joint.effort_limit = -np.inf if low == -high else low, high
        elif joint.kind in ("hinge", "slide"):
            what = "an actuatorfrcrange without zero; the larger number bounds both directions"
            report.unsupported(node, what, unless=LEFT_TO_MUJOCO)
            joint.mujoco |= {"actfrclimited": True, "actfrcrange": [low, high]}


def _check_joint_support(node: Node, joint: Joint, report: ImportReport) -> None:
    if joint.kind in ("ball", "free") and joint.stiffness > 0.0:
        report.unsupported(node, f"stiffness of {joint.kind} joints", unless=LEFT_TO_MUJOCO)
        joint.mujoco["stiffness"] = [joint.stiffness, 0.0, 0.0]
    if joint.kind == "ball" and (joint.limit is not None or joint.margin != 0.0):
        what = "solreflimit, solimplimit and margin of ball joints, whose limits are rigid"
        report.unsupported(node, what, unless=LEFT_TO_MUJOCO)
        limit = joint.limit or SolverParameters()
        joint.mujoco |= {"solref_limit": limit.solref, "solimp_limit": limit.solimp, "margin": joint.margin}
    if (limit := node.float("springyield", 0.0)) != 0.0:
        report.unsupported(node, "springyield", unless=LEFT_TO_MUJOCO)
        joint.mujoco["springyield"] = limit
    if node.bool("actuatorgravcomp", False):
        report.unsupported(node, "actuatorgravcomp", unless=LEFT_TO_MUJOCO)
        joint.mujoco["actgravcomp"] = True
        if joint.effort_limit < np.inf:  # which bounds both together
            bounds = node.bounds("actuatorfrcrange") or (0.0, 0.0)
            joint.mujoco |= {"actfrclimited": True, "actfrcrange": [*bounds]}


def _parse_inertial(
    node: Node, body: Body, frame: Pose, document: Document, report: ImportReport
) -> MassProps:
    node.required("mass")
    mass = node.float("mass")
    if mass < 0.0:
        raise node.error(f"the mass must not be negative, got {mass:g}")
    pose = frame @ document.pose_of(node)
    full, diagonal = node.floats("fullinertia", 6), node.floats("diaginertia", 3)
    if full is not None and diagonal is not None:
        raise node.error("both fullinertia and diaginertia are given")
    if full is not None:
        xx, yy, zz, xy, xz, yz = full
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        inertia = np.zeros((3, 3))
        inertia.flat[::4] = 0.0 if diagonal is None else diagonal
    check_moments(inertia, node)
    body.inertial_frame, body.inertial_is_diagonal = pose, full is None
    compiler = document.compiler
    if not compiler.balance_inertia and compiler.inertia_from_geom != "true":  # which mend or replace it
        whose = f"body {body.name!r}" if body.name else "a body without name"
        note_impossible(inertia, mass, node, report, whose)
    return MassProps(mass, np.zeros(3), inertia).moved(pose)


# -- contacts, keyframes -------------------------------------------------------------------------------------


def _parse_contacts(document: Document, scene: Scene, report: ImportReport) -> None:
    geoms = {geom.name for body in scene.bodies for geom in body.geoms if geom.name} | scene.ignored_names
    bodies = {body.name for body in scene.bodies if body.name} | scene.ignored_names
    for section in document.sections("contact"):
        for node in section.children:
            if node.tag == "pair":
                node = document.defaults.resolve(node, None)[0]
                ends = _references(node, ("geom1", "geom2"), geoms, "geom")
                scene.pairs.append((node, *ends))
            elif node.tag == "exclude":
                scene.excludes.append((node, *_references(node, ("body1", "body2"), bodies, "body")))
            else:
                report.unsupported(node)


def _references(node: Node, attributes: tuple[str, ...], known: set[str], kind: str) -> list[str]:
    names = [node.required(attribute) for attribute in attributes]
    for name in names:
        if name not in known:
            raise node.error(f"the {kind} {name!r} is not defined")
    return names


def _parse_keyframes(document: Document, scene: Scene) -> None:
    for section in document.sections("keyframe"):
        for node in section.findall("key"):
            arrays = (node.floats(name) for name in ("qpos", "qvel", "ctrl", "act", "mpos", "mquat"))
            scene.keyframes.append(Keyframe(node.text_of("name"), node, *arrays))

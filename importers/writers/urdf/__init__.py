"""URDF files from models."""

import math
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.importers.files.urdf_names import BALL
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.build import LINK_MASS_RATIO
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import AxisRecord, ConstraintRecord, JointRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.scene import read_scene
from newtonsim.importers.writers.settings import report_lost, report_references, report_tendons
from newtonsim.importers.writers.urdf.frames import joint_origin, link_axis, link_frames
from newtonsim.importers.writers.urdf.links import ShapeWriter, write_inertial, write_origin
from newtonsim.importers.writers.urdf.settings import limit_attributes, reader_settings
from newtonsim.importers.writers.xml_text import element, number, numbers, output_path, write_xml
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.joint_types import FLOATING
from newtonsim.scene.model import Model

_WORLD = "world"


def export_urdf(
    model: Model | ModelBuilder, path: str | os.PathLike, *, world: int | None = None, strict: bool = False
) -> ExportReport:
    """Write a model as URDF, for ROS tools and `parse_urdf`.

    The up vector is turned to z. A model that is one robot, fixed at the origin or free, has its root body as
    root link; any other hangs on a link "world". Joints with several axes become chains with links of a
    millionth of the mass between them, and so do ball joints, which `parse_urdf` makes of them again. Meshes
    become OBJ files in a folder beside the file. Drives, rotor inertia and contact materials have no place in
    URDF; where all joints or shapes share them they are arguments of `parse_urdf`, in `read_with` of the
    report.

    Example:
        >>> import os, tempfile
        >>> from newtonsim import ModelBuilder
        >>> from newtonsim.utils import export_urdf, parse_urdf
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> body = builder.add_body(key="ball")
        >>> shape = builder.add_shape_sphere(body, radius=0.1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = export_urdf(builder, os.path.join(folder, "ball.urdf"))
        ...     again = parse_urdf(report.path, ModelBuilder(up_vector=(0, 0, 1)), **report.read_with)
        >>> again.bodies
        {'ball': 0}

    Args:
        model: The model, or a builder to be finalized.
        path: File name, ending in .urdf.
        world: World to write, with the global one; None for all of them in one file.
        strict: Raise instead of warning about what URDF cannot hold; then no file is written.

    Returns:
        Names in the file, arguments for `parse_urdf`, and what was approximated or left out.

    Raises:
        ModelError: There is no such world, the model has no bodies, or the file cannot be written.
    """
    path = output_path(path, (".urdf",))
    scene = read_scene(model, world)
    if not scene.bodies:
        raise ModelError("a URDF file needs a link, but the model has no bodies")
    scene.turn_up((0.0, 0.0, 1.0))
    report = ExportReport(str(path), "urdf")
    root = _UrdfWriter(scene, path, report).write()
    report.settle(strict, stacklevel=2)
    write_xml(root, path)
    return report


class _UrdfWriter:
    """Writes one scene, whose up axis is z."""

    def __init__(self, scene: Scene, path: Path, report: ExportReport):
        self.scene, self.report = scene, report
        self.frames = link_frames(scene)
        self.root = ElementTree.Element("robot", name=xml_name(path.stem))
        self.hangs = self._needs_world()
        self.link_names = Names(xml_name, {_WORLD} if self.hangs else ())
        self.joint_names = Names(xml_name)
        self.shapes = ShapeWriter(path, self.root, report)
        self.names: dict[int, str] = {-1: _WORLD}
        self.axes: dict[tuple[int, int], tuple[str, AxisRecord]] = {}
        self.elements: dict[str, ElementTree.Element] = {}

    def _needs_world(self) -> bool:
        """Whether the model is more than one robot that is free or fixed at the origin."""
        scene = self.scene
        roots = scene.below(-1)
        loose = any(body.joint is None for body in scene.bodies)
        static = any(shape.body < 0 and not shape.is_ground for shape in scene.shapes)
        if len(roots) != 1 or loose or static:
            return True
        at_origin = roots[0].is_rigid and not (roots[0].zero.p.any() or roots[0].zero.q[:3].any())
        return not (at_origin or roots[0].kind == JointType.FREE)

    def write(self) -> ElementTree.Element:
        """Return the document."""
        report_lost(self.scene, self.report)
        report_references(self.scene, self.report)
        report_tendons(self.scene, self.report)
        if self.hangs:
            self._write_shapes(element(self.root, "link", name=_WORLD), -1, Pose.identity())
        for number_, body in enumerate(self.scene.bodies):
            name = self.names[number_] = self.link_names.unique(body.key)
            self.report.bodies[body.index] = name
            link = element(self.root, "link", name=name)
            frame = self.frames[number_]
            if frame.p.any() or frame.q[:3].any():
                self.report.frames[body.index] = tuple(frame.row().tolist())
            write_inertial(link, body.props.moved(frame.inverse()))
            self._write_shapes(link, number_, frame)
            if body.joint is None:
                self._write_loose(number_)
        for number_, joint in enumerate(self.scene.joints):
            self._write_joint(number_, joint)
        followers = {name for one in self.scene.constraints if (name := self._write_constraint(one))}
        self._place_root()
        reader_settings(self.scene, list(self.axes.values()), followers, self.report)
        return self.root

    def _write_shapes(self, link: ElementTree.Element, number_: int, frame: Pose) -> None:
        for shape in self.scene.shapes_of(number_):
            if shape.is_ground:
                self.report.unsupported(shape.key, "the ground plane is left to the scene")
            else:
                self.shapes.write(link, shape, frame)

    def _write_loose(self, number_: int) -> None:
        """A kinematic body, which no joint moves."""
        body = self.scene.bodies[number_]
        self.report.approximated(body.key, "a kinematic body is fixed to the world")
        joint = self._joint(f"{body.key}_fixed", "fixed", _WORLD, self.names[number_])
        write_origin(joint, body.pose)

    def _place_root(self) -> None:
        """Tell the reader whether a root link floats, and where."""
        roots = [] if self.hangs else self.scene.below(-1)
        free = bool(roots) and roots[0].kind == JointType.FREE
        self.report.read_with["floating"] = free
        if free:
            pose = roots[0].X_p @ Pose.of(roots[0].q) @ roots[0].X_c.inverse()
            self.report.read_with["xform"] = tuple(pose.row().tolist())

    # -- joints ----------------------------------------------------------------------------------------------

    def _joint(
        self, key: str, kind: str, parent: str, child: str, place: ElementTree.Element | None = None
    ) -> ElementTree.Element:
        """Write a joint at a place of the document, by default among those that all readers see."""
        name = self.joint_names.unique(key)
        place = self.root if place is None else place
        own = self.elements[name] = element(place, "joint", name=name, type=kind)
        element(own, "parent", link=parent)
        element(own, "child", link=child)
        return own

    def _write_joint(self, number_: int, joint: JointRecord) -> None:
        self._report_unheld(joint)
        if joint.parent < 0 and not self.hangs:
            return
        if not joint.enabled:
            self.report.unsupported(joint.key, "a joint that is switched off would act")
        ends = self.names[joint.parent], self.names[joint.child]
        origin = joint_origin(joint, self.frames)
        if joint.axes:
            self._write_chain(number_, joint, ends, origin)
            return
        kind = self._kind(joint)
        place = self.root
        if kind == "spherical":
            place = self._write_hinges(joint, ends, origin)
        own = self._joint(joint.key, kind, *ends, place)
        write_origin(own, origin)
        self.report.joints[joint.index] = [own.attrib["name"]]
        if kind != "fixed" and (joint.damping.any() or joint.friction.any()):
            mean = {"damping": joint.damping.mean(), "friction": joint.friction.mean()}
            element(own, "dynamics", {name: number(value) for name, value in mean.items()})
            if any(np.ptp(row) > 0.0 for row in (joint.damping, joint.friction)):
                self.report.approximated(joint.key, "damping and friction are averaged over directions")

    def _report_unheld(self, joint: JointRecord) -> None:
        """Name what <joint> has no place for in joints without axes, and the free root has no <joint> for."""
        if joint.kind in FLOATING and joint.armature.any():
            self.report.unsupported(joint.key, "armature of a joint that has no axes is left out")
        at_root = joint.parent < 0 and not self.hangs
        if at_root and (joint.damping.any() or joint.friction.any()):
            self.report.unsupported(joint.key, "damping and friction of the root are left out")

    def _kind(self, joint: JointRecord) -> str:
        if joint.is_rigid:
            return "fixed"
        if joint.kind == JointType.BALL:
            message = (
                "a ball joint is three hinges to other readers, which are stuck where the second is at 90°"
            )
            self.report.approximated(joint.key, message)
            if np.isfinite([*joint.twist, joint.swing]).any():
                self.report.unsupported(joint.key, "limits of swing and twist are left out")
            if joint.q[:3].any():
                self.report.approximated(joint.key, "the initial rotation is left to the reader")
            return "spherical"
        if joint.kind == JointType.DISTANCE:
            self.report.unsupported(joint.key, "a distance becomes a floating joint without limits")
        if joint.parent >= 0 or not np.array_equal(joint.q, [0.0] * 6 + [1.0]):
            message = "a floating joint below the root starts where the reader places it"
            self.report.approximated(joint.key, message)
        return "floating"

    def _write_chain(self, number_: int, joint: JointRecord, ends: tuple[str, str], origin: Pose) -> None:
        """One joint of URDF for each axis, with links of negligible mass between."""
        count = len(joint.axes)
        above, names = ends[0], []
        for i, axis in enumerate(joint.axes):
            below = ends[1] if i == count - 1 else self._write_link(joint, i)
            key = joint.key if count == 1 else f"{joint.key}_{i}"
            own = self._joint(key, _axis_kind(axis), above, below)
            write_origin(own, origin if i == 0 else Pose.identity())
            element(own, "axis", xyz=numbers(link_axis(joint, axis.axis)))
            limits = {name: number(value) for name, value in limit_attributes(axis).items()}
            element(own, "limit", limits)
            if math.isfinite(axis.effort_lower):
                message = f"its least effort {axis.effort_lower:g} is left out, the largest bounds both ways"
                self.report.approximated(key, message)
            if axis.damping or axis.friction:
                element(own, "dynamics", damping=number(axis.damping), friction=number(axis.friction))
            names.append(own.get("name"))
            self.axes[number_, i] = names[-1], axis
            above = below
        self.report.joints[joint.index] = names

    def _write_hinges(self, joint: JointRecord, ends: tuple[str, str], origin: Pose) -> ElementTree.Element:
        """Hinges about x, y and z in the place of a ball joint, and the element that holds the latter."""
        ball = element(self.root, BALL)
        links = [self._write_link(joint, i) for i in range(2)]
        above, names = ends[0], []
        for i, below in enumerate((*links, ends[1])):
            own = self._joint(f"{joint.key}_{i}", "continuous", above, below)
            write_origin(own, origin if i == 0 else Pose.identity())
            element(own, "axis", xyz=numbers(np.eye(3)[i]))
            if joint.damping[i] or joint.friction[i]:
                passive = {"damping": joint.damping[i], "friction": joint.friction[i]}
                element(own, "dynamics", {name: number(value) for name, value in passive.items()})
            names.append(own.attrib["name"])
            above = below
        ball.set("joints", " ".join(names))
        ball.set("links", " ".join(links))
        self.report.hinges[joint.index] = names
        return ball

    def _write_link(self, joint: JointRecord, place: int) -> str:
        name = self.link_names.unique(f"{self.names[joint.child]}__{place}")
        props = self.scene.bodies[joint.child].props
        moment = LINK_MASS_RATIO * np.trace(props.inertia) / 3.0
        tiny = MassProps(LINK_MASS_RATIO * props.mass, np.zeros(3), moment * np.eye(3))
        write_inertial(element(self.root, "link", name=name), tiny)
        return name

    # -- constraints -----------------------------------------------------------------------------------------

    def _write_constraint(self, constraint: ConstraintRecord) -> str | None:
        """Write a linear coupling as <mimic> and return the name of the follower; report all others."""
        follower, leader = (None if place is None else self.axes.get(place) for place in constraint.coupled)
        linear = constraint.kind == ConstraintType.COUPLING and not constraint.coefficients[2:].any()
        if not (linear and follower and leader and constraint.enabled):
            self.report.unsupported(constraint.key, "a constraint other than a linear coupling of two joints")
            return None
        own = self.elements[follower[0]]
        if own.find("mimic") is not None:
            self.report.unsupported(constraint.key, "a second coupling of one joint")
            return None
        if constraint.recovery_time > 0.0 or np.isfinite(constraint.max_force):
            self.report.approximated(constraint.key, "softness and largest force of a coupling are left out")
        offset, multiplier = constraint.coefficients[:2]
        element(own, "mimic", joint=leader[0], multiplier=number(multiplier), offset=number(offset))
        self.report.constraints[constraint.index] = [follower[0]]
        return follower[0]


def _axis_kind(axis: AxisRecord) -> str:
    if axis.linear:
        return "prismatic"
    return "continuous" if axis.limits is None else "revolute"

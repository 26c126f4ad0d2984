"""MJCF files from models."""

import os
from collections.abc import Collection
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.mjcf.actuators import ActuatorWriter
from newtonsim.importers.writers.mjcf.constraints import ConstraintWriter
from newtonsim.importers.writers.mjcf.controls import Control
from newtonsim.importers.writers.mjcf.drives import drive_attributes
from newtonsim.importers.writers.mjcf.file_actuators import FileActuators
from newtonsim.importers.writers.mjcf.file_parts import FileParts, file_parts, spec_attributes
from newtonsim.importers.writers.mjcf.geoms import GeomWriter, pose_attributes
from newtonsim.importers.writers.mjcf.inertia import InertiaWriter
from newtonsim.importers.writers.mjcf.joints import (
    Motion,
    joint_motions,
    keyframe,
    motion_count,
    tendon_ctrl,
)
from newtonsim.importers.writers.mjcf.tendons import TendonWriter, is_driven
from newtonsim.importers.writers.names import Names, xml_name
from newtonsim.importers.writers.records import AxisRecord, JointRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.scene import read_scene
from newtonsim.importers.writers.settings import contact_settings, limit_settings, report_lost
from newtonsim.importers.writers.xml_text import element, number, numbers, output_path, write_xml
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING
from newtonsim.scene.model import Model

_START = "initial"


def export_mjcf(
    model: Model | ModelBuilder,
    path: str | os.PathLike,
    *,
    world: int | None = None,
    strict: bool = False,
    actuated_axes: Collection[int] | None = None,
    imported: ImportReport | None = None,
) -> ExportReport:
    """Write a model as MJCF, for MuJoCo and `parse_mjcf`.

    The up vector is turned to z. Bodies stand where the joint coordinates are zero; a keyframe "initial"
    holds the initial coordinates, velocities and controls where they are not. Each joint axis has one
    actuator, whose `ctrl` is the axis' entry of `joint_act`. Meshes become OBJ files in a folder beside the
    file.

    Example:
        >>> import os, tempfile
        >>> from newtonsim import ModelBuilder
        >>> from newtonsim.utils import export_mjcf, parse_mjcf
        >>> builder = ModelBuilder()
        >>> body = builder.add_body(key="ball")
        >>> shape = builder.add_shape_sphere(body, radius=0.1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = export_mjcf(builder, os.path.join(folder, "ball.xml"))
        ...     again = parse_mjcf(report.path, ModelBuilder(), **report.read_with)
        >>> again.bodies
        {'ball': 0}

    Args:
        model: The model, or a builder to be finalized.
        path: File name, ending in .xml.
        world: World to write, with the global one; None for all of them in one file.
        strict: Raise instead of warning about what MJCF cannot hold; then no file is written.
        actuated_axes: Joint axes that get an actuator; None for all. In a model that `parse_mjcf` read, those
            that the file drove are `{one["axis"] for one in report.actuators} - {None}`.
        imported: The report of `parse_mjcf` when it read the model (or, for `gravcomp`, that of `parse_usd`).
            Then what the file had and the model does not hold is written, too: `gravcomp`, the attributes in
            `imported.mujoco`, and each actuator of the file, in its order, with its dynamics, gains and
            ranges; `ctrl` is what it is there. Other axes get an actuator where the model drives them, or
            where `actuated_axes` names them.

    Returns:
        Names in the file, arguments for `parse_mjcf`, and what was approximated or left out.

    Raises:
        ModelError: There is no such world or axis, `imported` is of another model, or the file cannot be
            written.
    """
    path = output_path(path, (".xml", ".mjcf"))
    model = model.finalize("cpu") if isinstance(model, ModelBuilder) else model
    scene = read_scene(model, world)
    scene.turn_up((0.0, 0.0, 1.0))
    report = ExportReport(str(path), "mjcf")
    parts = file_parts(imported, model, scene, report)
    if parts.actuators is not None and actuated_axes is None:
        actuated_axes = _driven_axes(scene)
    root = _MjcfWriter(scene, path, report, _known_axes(scene, actuated_axes), parts).write()
    report.settle(strict, stacklevel=2)
    write_xml(root, path)
    return report


class _MjcfWriter:
    """Writes one scene, whose up axis is z."""

    def __init__(
        self, scene: Scene, path: Path, report: ExportReport, actuated: frozenset[int], parts: FileParts
    ):
        self.scene, self.report, self.actuated, self.parts = scene, report, actuated, parts
        self.root = ElementTree.Element("mujoco", model=xml_name(path.stem))
        compiler = {"angle": "radian", "autolimits": "true", "inertiafromgeom": "false"}
        element(self.root, "compiler", compiler)
        option = {} if scene.timestep is None else {"timestep": number(scene.timestep)}
        option |= {name: numbers(np.atleast_1d(value)) for name, value in scene.medium.items()}
        element(self.root, "option", {**option, "gravity": numbers(scene.gravity)})
        self.asset = element(self.root, "asset")
        self.world = element(self.root, "worldbody")
        self.contact = element(self.root, "contact")
        self.actuator = element(self.root, "actuator")
        self.inertias = InertiaWriter(self.root, scene, report, bool(scene.medium), bool(parts.gravcomp))
        self.geoms = GeomWriter(scene, path, self.asset, report, parts.geoms)
        self.names = {kind: Names(xml_name, {"world"}) for kind in ("body", "joint", "site")}
        self.elements: dict[int, ElementTree.Element] = {-1: self.world}
        self.joint_names: dict[int, list[str]] = {}
        self.order: list[JointRecord] = []
        self.axes: list[tuple[str, AxisRecord]] = []
        self.axis_elements: dict[int, ElementTree.Element] = {}
        self.controls: list[Control] = []

    def write(self) -> ElementTree.Element:
        """Return the document."""
        report_lost(self.scene, self.report)
        self._write_shapes(-1)
        self._write_bodies()
        for name, body, pose in self.scene.sites:
            name = self.names["site"].unique(name)
            element(self.elements[body], "site", {"name": name, **pose_attributes(pose)})
        self.geoms.write_contacts(self.contact, self._body_names())
        ConstraintWriter(
            self.scene, self.root, self.elements, self.joint_names, self.names["site"], self.report
        ).write()
        places = (self.elements, self.joint_names, self.names["site"], self.geoms.names)
        tendons = TendonWriter(self.scene, self.root, *places, self.report, self.parts.tendons)
        tendons.write()
        self._write_actuators(tendons)
        self._write_keyframes()
        self._say_how_to_read()
        return self.root

    def _body_names(self) -> dict[int, str]:
        return {place: one.get("name", "world") for place, one in self.elements.items()}

    # -- bodies ----------------------------------------------------------------------------------------------

    def _write_bodies(self) -> None:
        """Depth first, children in the order of the joints; bodies without a joint at the end."""
        below: dict[int, list[JointRecord]] = {}
        for joint in self.scene.joints:
            below.setdefault(joint.parent, []).append(joint)
        pending = below.get(-1, [])[::-1]
        loose = [place for place, body in enumerate(self.scene.bodies) if body.joint is None]
        for place in loose:
            self._write_loose(place)
            pending = below.get(place, [])[::-1] + pending
        while pending:
            joint = pending.pop()
            self._write_body(joint)
            pending += below.get(joint.child, [])[::-1]

    def _write_loose(self, number: int) -> None:
        """A kinematic body, which no joint moves."""
        body = self.scene.bodies[number]
        own = self._open_body(-1, number, body.pose)
        own.set("mocap", "true")
        self.inertias.write(own, body, self.scene.shapes_of(number))
        self._write_shapes(number)

    def _open_body(self, parent: int, number: int, pose: Pose) -> ElementTree.Element:
        body = self.scene.bodies[number]
        name = self.names["body"].unique(body.key)
        self.report.bodies[body.index] = name
        own = element(self.elements[parent], "body", {"name": name, **pose_attributes(pose)})
        self.elements[number] = own
        return own

    def _write_body(self, joint: JointRecord) -> None:
        body = self.scene.bodies[joint.child]
        floats = joint.kind in FLOATING and joint.parent < 0
        pose = joint.X_p @ Pose.of(joint.q) @ joint.X_c.inverse() if floats else joint.zero
        own = self._open_body(joint.parent, joint.child, pose)
        if share := self.parts.gravcomp.get(body.index):
            own.set("gravcomp", number(share))
        self.inertias.write(own, body, self.scene.shapes_of(joint.child))
        count = motion_count(joint)
        keys = [joint.key] if count == 1 else [f"{joint.key}_{i}" for i in range(count)]
        names = [self.names["joint"].unique(key) for key in keys]
        if count:
            self.report.joints[joint.index] = names
            self.order.append(joint)
        elif joint.kind != JointType.FIXED and joint.axes:
            self.report.unsupported(joint.key, f"a joint of type {joint.kind.name}")
        self.joint_names[body.joint] = names
        for place, motion in enumerate(joint_motions(joint, names, self.report) if count else ()):
            written = element(own, "joint", motion.attributes | self._spec_attributes(joint, motion, place))
            if motion.axis is not None:
                self.axes.append((motion.attributes["name"], motion.axis))
                self.axis_elements[motion.axis.index] = written
        self._write_shapes(joint.child)

    def _write_shapes(self, number: int) -> None:
        for shape in self.scene.shapes_of(number):
            self.geoms.write(self.elements[number], shape)

    def _spec_attributes(self, joint: JointRecord, motion: Motion, place: int) -> dict[str, str]:
        """Attributes of a joint that the file has besides."""
        given = self.parts.joints.get((joint.index, place))
        if given is None:
            return {}
        found = spec_attributes(given, motion.attributes["name"], self.report)
        if "stiffness" in found and motion.axis is not None:
            found["springref"] = number(motion.axis.spring_ref)
        return found

    # -- drives ----------------------------------------------------------------------------------------------

    def _write_actuators(self, tendons: TendonWriter) -> None:
        """Those of the file that was read, then drives of axes and tendons, then actuators of the model."""
        places = (self.elements, self.joint_names, tendons.names, self.names["site"])
        others = ActuatorWriter(self.scene, *places)
        entries = self.parts.actuators or []
        first = FileActuators(entries, self.scene, self.axis_elements, tendons, others, self.report)
        first.write(self.actuator)
        self.controls += first.controls
        places = {axis.index: n for n, axis in enumerate(a for j in self.scene.joints for a in j.axes)}
        for name, axis in self.axes:
            if axis.index in first.axes:
                continue
            if axis.index in self.actuated:
                self._write_drive(name, axis)
                self.controls.append(Control(places[axis.index]))
            elif axis.target_ke or axis.target_kd or axis.act:
                self.report.unsupported(name, "its drive is left out, as actuated_axes does not name it")
        for place, tendon in enumerate(self.scene.tendons):
            if place not in first.tendons_done and (self.parts.actuators is None or is_driven(tendon)):
                tendons.write_drive(self.actuator, place)
                self.controls.append(Control(None, value=tendon_ctrl(tendon)))
        taken = Names(xml_name)
        for one in self.actuator:  # a tendon may be named like a joint, their drives may not
            one.set("name", taken.unique(one.get("name", "")))
        others.write(self.actuator, first.whole)
        rest = (one for place, one in enumerate(self.scene.actuators) if place not in first.whole)
        self.controls += [Control(None, value=one.ctrl) for one in rest]

    def _write_drive(self, name: str, axis: AxisRecord) -> None:
        """The actuator of an axis; its ctrl is the axis' control input."""
        tag, gains = drive_attributes(axis.mode, axis.target_ke, axis.target_kd, axis.efforts)
        element(self.actuator, tag, {"name": name, "joint": name} | gains)

    # -- the rest --------------------------------------------------------------------------------------------

    def _write_keyframes(self) -> None:
        names = Names(xml_name)
        frames = [(frame["name"] or "key", frame) for frame in self.scene.keyframes]
        start = self._start()
        if start is not None:
            # one that an earlier export left is the same
            frames = [(_START, start), *((n, f) for n, f in frames if n != _START or _differs(f, start))]
            self.report.read_with["keyframe"] = _START
        if not frames:
            return
        section = element(self.root, "keyframe")
        for name, frame in frames:
            values = keyframe(self.scene, self.order, frame, self.controls)
            attributes = {key: numbers(row) for key, row in values.items()}
            element(section, "key", {"name": names.unique(name), **attributes})

    def _start(self) -> dict | None:
        """The initial state as a keyframe, None where the file's own start is the same."""
        joints = self.scene.joints
        at_rest = all(
            not joint.qd.any()
            and not any(axis.act or axis.q for axis in joint.axes)
            and (joint.kind != JointType.BALL or not joint.q[:3].any())
            and (joint.kind not in FLOATING or joint.parent < 0 or np.array_equal(joint.q, [0] * 6 + [1]))
            for joint in joints
        )
        if at_rest:
            return None
        rows = {"joint_q": [j.q for j in joints], "joint_qd": [j.qd for j in joints]}
        frame = {name: np.concatenate([np.zeros(0), *row]) for name, row in rows.items()}
        return {**frame, "joint_act": np.array([axis.act for joint in joints for axis in joint.axes])}

    def _say_how_to_read(self) -> None:
        report = self.report
        report.read_with |= {
            "floating": None,
            "ignore_inertial_definitions": False,
            "ensure_nonstatic_links": False,
            "enable_self_collisions": True,
        }
        if not len(self.actuator):  # without actuators the reader gives axes drives of its own
            report.read_with |= {"stiffness": 0.0, "damping": 0.0}
        contact_settings(self.scene, report)
        limit_settings(self.axes, report)


def _known_axes(scene: Scene, chosen: Collection[int] | None) -> frozenset[int]:
    """Axes of the scene that get an actuator."""
    axes = frozenset(axis.index for joint in scene.joints for axis in joint.axes)
    if chosen is None:
        return axes
    unknown = [axis for axis in chosen if axis not in axes]
    if unknown:
        raise ModelError(f"actuated_axes: there is no axis {unknown[0]!r} in what is written")
    return frozenset(chosen)


def _driven_axes(scene: Scene) -> frozenset[int]:
    """Axes that the model drives."""
    axes = (axis for joint in scene.joints for axis in joint.axes)
    return frozenset(axis.index for axis in axes if axis.target_ke or axis.target_kd or axis.act)


def _differs(frame: dict, other: dict) -> bool:
    """Return whether two keyframes differ in what both give."""
    values = ((frame.get(name), other[name]) for name in ("joint_q", "joint_qd", "joint_act"))
    return any(one is not None and not np.allclose(one, two, atol=1.0e-6) for one, two in values)

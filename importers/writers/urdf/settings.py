"""What URDF leaves to its reader: drives, rotor inertia, materials, and which links may touch."""

import numpy as np

from newtonsim.importers.writers.records import NO_LIMIT, AxisRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.settings import CONTACT, contact_settings, limit_settings, shared
from newtonsim.importers.writers.touch import ANY, neighbours, touch_table
from newtonsim.scene.enums import JointMode, JointType

_GRAVITY = 9.81
_MOST_PAIRS = 20


def reader_settings(
    scene: Scene, axes: list[tuple[str, AxisRecord]], followers: set[str], report: ExportReport
) -> None:
    """Fill `report.read_with`, and report what no argument of the reader can say.

    Args:
        scene: The scene.
        axes: Name and record of each joint with one axis.
        followers: Names of those that follow another, which get no drive.
        report: Receives both.
    """
    report.read_with |= {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    report.read_with["density"] = 0.0  # a link without mass stays so
    _drives([(name, axis) for name, axis in axes if name not in followers], report)
    balls = [(one.key, value) for one in scene.joints if one.kind == JointType.BALL for value in one.armature]
    armature = shared([*((name, axis.armature) for name, axis in axes), *balls], "armature", report)
    report.read_with["armature"] = armature or 0.0
    contact_settings(scene, report, (*CONTACT, "thickness", "mu"))
    limit_settings(axes, report)
    _collisions(scene, report)
    for name, axis in axes:
        if axis.stiffness != 0.0:
            report.unsupported(name, "a passive spring is left out")
        start = np.clip(0.0, axis.limit_lower, axis.limit_upper)
        if abs(axis.q - start) > 1.0e-6:
            report.approximated(name, "the initial position is left to the reader, which starts at zero")
    for shape in scene.shapes:
        if shape.is_collider and (shape.material["mu_torsion"] or shape.material["mu_rolling"]):
            report.approximated(shape.key, "torsional and rolling friction are left out")
    if np.abs(scene.gravity - [0.0, 0.0, -_GRAVITY]).max() > 1.0e-4:
        report.approximated("gravity", f"{scene.gravity.tolist()} is left to the reader")


def _drives(axes: list[tuple[str, AxisRecord]], report: ExportReport) -> None:
    """Position drives that all joints share are arguments of the reader; others are lost."""
    gains = {_gains(axis) for _, axis in axes}
    uniform = len(gains) == 1 and None not in gains
    ke, kd = gains.pop() if uniform else (0.0, 0.0)
    report.read_with |= {"stiffness": ke, "damping": kd}
    for name, axis in axes:
        if not uniform and _gains(axis) != (0.0, 0.0):
            report.unsupported(name, "a drive is left out")
        elif axis.mode == JointMode.FORCE and axis.act != 0.0:
            report.unsupported(name, "a constant effort is left out")
        elif ke > 0.0 and abs(axis.act - np.clip(0.0, axis.limit_lower, axis.limit_upper)) > 1.0e-6:
            report.approximated(name, "the target of the drive is left to the reader")


def _gains(axis: AxisRecord) -> tuple[float, float] | None:
    """Stiffness and damping of a position drive, zeros without a drive, None for a velocity drive."""
    if axis.mode == JointMode.TARGET_POSITION:
        return axis.target_ke, axis.target_kd
    if axis.mode == JointMode.TARGET_VELOCITY and axis.target_ke > 0.0:
        return None
    return 0.0, 0.0


def _collisions(scene: Scene, report: ExportReport) -> None:
    """The reader keeps neighbours apart, and either all links of the robot or none besides."""
    table = touch_table(scene)
    ground = np.array([shape.is_ground for shape in scene.shapes], bool)
    table[ground] = ANY
    table[:, ground] = ANY
    near = neighbours(scene, world_counts=True)
    apart = table[~near & (table != ANY)]
    touch = bool(apart.mean() >= 0.5) if len(apart) else True
    report.read_with["enable_self_collisions"] = touch
    wrong = np.argwhere(np.triu((table != ANY) & (table != np.where(near, 0, int(touch))), 1)).tolist()
    for a, b in wrong[:_MOST_PAIRS]:
        pair = f"{scene.shapes[a].key} and {scene.shapes[b].key}"
        report.approximated(pair, "whether a pair of shapes touches is left to the reader")
    if len(wrong) > _MOST_PAIRS:
        more = f"{len(wrong) - _MOST_PAIRS} more pairs"
        report.approximated(more, "whether a pair of shapes touches is left to the reader")


def limit_attributes(axis: AxisRecord) -> dict[str, float]:
    """Attributes of <limit>; effort and velocity are required there, NO_LIMIT stands for none."""
    attributes = {}
    if axis.limits is not None or axis.linear:
        attributes["lower"], attributes["upper"] = axis.limits or (-NO_LIMIT, NO_LIMIT)
    attributes["effort"] = min(axis.effort_limit, NO_LIMIT)
    attributes["velocity"] = min(axis.velocity_limit, NO_LIMIT)
    return attributes

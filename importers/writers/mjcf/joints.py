"""Joints of the model as joints of MJCF, and configurations as MuJoCo's qpos and qvel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.builder.tendons import MUSCLE_VMAX
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.mjcf.controls import Control
from newtonsim.importers.writers.records import NO_LIMIT, AxisRecord, JointRecord, Scene, TendonRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import number, numbers
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.joint_types import FLOATING

_LEAST_RANGE = 1.0e-9
"""MuJoCo refuses a range whose ends are equal."""


@dataclass(slots=True)
class Motion:
    """One joint of MJCF: the attributes, and the axis of the model that it is, if any."""

    attributes: dict[str, str]
    axis: AxisRecord | None = None


def joint_motions(joint: JointRecord, names: list[str], report: ExportReport) -> list[Motion]:
    """Return the joints of MJCF that stand for a joint of the model.

    A body of MJCF moves by T0 J1 J2 …, each J given in the body's own frame; the model's X_p X(q) X_c⁻¹ is
    that with T0 = X_p X_c⁻¹ and the axes turned by X_c.

    Args:
        joint: The joint; a free one of a root body is `freejoint`.
        names: One name for each, see `motion_count`.
        report: Receives what MJCF holds differently.
    """
    if not joint.enabled:
        report.unsupported(joint.key, "a joint that is switched off would act")
    if joint.kind in FLOATING:
        return _floating(joint, names, report)
    if joint.kind == JointType.BALL:
        return [Motion(_ball(joint, names[0], report))]
    motions = []
    for axis, name in zip(joint.axes, names):
        attributes = {"name": name, "type": "slide" if axis.linear else "hinge"}
        attributes["axis"] = numbers(quat_rotate(joint.X_c.q, axis.axis))
        if not axis.linear and joint.X_c.p.any():
            attributes["pos"] = numbers(joint.X_c.p)
        attributes |= _axis_attributes(axis)
        if np.isfinite(axis.velocity_limit) and axis.velocity_limit < NO_LIMIT:
            report.approximated(name, "the velocity limit is left out")
        motions.append(Motion(attributes, axis))
    return motions


def motion_count(joint: JointRecord) -> int:
    """Return how many joints of MJCF stand for a joint."""
    if joint.kind in FLOATING:
        return 1 if joint.parent < 0 else 4
    return 1 if joint.kind == JointType.BALL else len(joint.axes)


def _axis_attributes(axis: AxisRecord) -> dict[str, str]:
    attributes = {}
    if axis.limits is not None:
        lower, upper = axis.limits
        attributes |= {"limited": "true", "range": numbers([lower, max(upper, lower + _LEAST_RANGE)])}
    if axis.limit_solref.any():
        attributes |= {"solreflimit": numbers(axis.limit_solref), "solimplimit": numbers(axis.limit_solimp)}
        attributes["margin"] = number(axis.limit_margin)
    if axis.friction_solref.any():
        attributes |= _dry(axis.friction_solref, axis.friction_solimp)
    if axis.stiffness != 0.0:
        attributes |= {"stiffness": number(axis.stiffness), "springref": number(axis.spring_ref)}
    return attributes | _passive(axis.damping, axis.friction, axis.armature)


def _passive(damping: float, friction: float, armature: float) -> dict[str, str]:
    values = {"damping": damping, "frictionloss": friction, "armature": armature}
    return {name: number(value) for name, value in values.items() if value != 0.0}


def _dry(solref: np.ndarray, solimp: np.ndarray) -> dict[str, str]:
    return {"solreffriction": numbers(solref), "solimpfriction": numbers(solimp)}


def _common_passive(joint: JointRecord, report: ExportReport) -> dict[str, str]:
    """Passive terms of a joint without axes; MJCF has one number for all its degrees of freedom."""
    rows = (joint.damping, joint.friction, joint.armature)
    if any(np.ptp(row) > 0.0 for row in rows):
        report.approximated(joint.key, "damping, friction and armature that differ by direction are averaged")
    attributes = _passive(*(float(row.mean()) for row in rows))
    if joint.friction_solref.any():
        attributes |= _dry(joint.friction_solref[0], joint.friction_solimp[0])
    return attributes


def _ball(joint: JointRecord, name: str, report: ExportReport) -> dict[str, str]:
    attributes = {"name": name, "type": "ball", **_common_passive(joint, report)}
    if joint.X_c.p.any():
        attributes["pos"] = numbers(joint.X_c.p)
    bounds = (joint.swing, joint.twist[1], -joint.twist[0])
    if min(bounds) < NO_LIMIT:
        report.approximated(joint.key, "limits of swing and twist become one limit of the angle")
        attributes |= {"limited": "true", "range": numbers([0.0, max(min(bounds), _LEAST_RANGE)])}
    return attributes


def _floating(joint: JointRecord, names: list[str], report: ExportReport) -> list[Motion]:
    passive = _common_passive(joint, report)
    if joint.parent < 0:
        return [Motion({"name": names[0], "type": "free", **passive})]
    report.approximated(joint.key, "a free joint between bodies becomes three slides and a ball")
    slides = [
        Motion({"name": name, "type": "slide", "axis": numbers(quat_rotate(joint.X_c.q, e)), **passive})
        for name, e in zip(names, np.eye(3))
    ]
    return [*slides, Motion({"name": names[3], "type": "ball", "pos": numbers(joint.X_c.p), **passive})]


def positions(joint: JointRecord, q: np.ndarray) -> list[float]:
    """Return a joint's part of MuJoCo's qpos."""
    if joint.kind == JointType.BALL:
        return _wxyz(_in_body(joint, q))
    if joint.kind in FLOATING:
        if joint.parent >= 0:
            return [*q[:3].tolist(), *_wxyz(_in_body(joint, q[3:]))]
        pose = joint.X_p @ Pose.of(q) @ joint.X_c.inverse()
        return [*pose.p.tolist(), *_wxyz(pose.q)]
    return q.tolist()


def velocities(joint: JointRecord, q: np.ndarray, qd: np.ndarray, com: np.ndarray) -> list[float]:
    """Return a joint's part of MuJoCo's qvel.

    Args:
        joint: The joint.
        q: Its coordinates.
        qd: Its velocities.
        com: Centre of mass of the child in the child's frame (3,).
    """
    if joint.kind == JointType.BALL:
        return quat_rotate(joint.X_c.q, quat_rotate(quat_conjugate(q), qd)).tolist()
    if joint.kind not in FLOATING:
        return qd.tolist()
    spin, velocity = qd[:3], qd[3:]
    if joint.parent >= 0:
        arm = quat_rotate(q[3:], joint.X_c.inverse().apply(com))
        turned = quat_rotate(joint.X_c.q, quat_rotate(quat_conjugate(q[3:]), spin))
        return [*(velocity - np.cross(spin, arm)).tolist(), *turned.tolist()]
    pose = joint.X_p @ Pose.of(q) @ joint.X_c.inverse()
    origin = velocity - np.cross(spin, quat_rotate(pose.q, com))
    return [*origin.tolist(), *quat_rotate(quat_conjugate(pose.q), spin).tolist()]


def _in_body(joint: JointRecord, q: np.ndarray) -> np.ndarray:
    """Rotation of the joint in the child's axes."""
    return quat_multiply(quat_multiply(joint.X_c.q, q), quat_conjugate(joint.X_c.q))


def _wxyz(q: np.ndarray) -> list[float]:
    q = q / np.linalg.norm(q)
    return [float(q[3]), *q[:3].tolist()]


def keyframe(
    scene: Scene, order: list[JointRecord], values: dict, controls: Sequence[Control]
) -> dict[str, np.ndarray]:
    """Return qpos, qvel and ctrl of a keyframe.

    Args:
        scene: The scene.
        order: Its joints in the order of the file.
        values: "joint_q", "joint_qd" and "joint_act" of the scene; what is missing is left out.
        controls: What each actuator of the file receives, in its order.
    """
    result: dict[str, list[float]] = {"qpos": [], "qvel": [], "ctrl": []}
    q = values.get("joint_q")
    start = np.concatenate([np.zeros(0), *(joint.q for joint in scene.joints)])
    for joint in order:
        own = (start if q is None else q)[joint.coord : joint.coord + len(joint.q)]
        if q is not None:
            result["qpos"] += positions(joint, own)
        if values.get("joint_qd") is not None:
            qd = values["joint_qd"][joint.dof : joint.dof + len(joint.qd)]
            result["qvel"] += velocities(joint, own, qd, scene.bodies[joint.child].props.com)
    if values.get("joint_act") is not None:
        result["ctrl"] += [control.of(values["joint_act"]) for control in controls]
    return {name: np.array(row) for name, row in result.items() if row}


def tendon_ctrl(tendon: TendonRecord) -> float:
    """The ctrl of a tendon's drive; keyframes hold no inputs of tendons, so that it is the initial one."""
    given = tendon.numbers
    shifted = int(given["mode"]) == JointMode.TARGET_POSITION and not tendon.muscle[MUSCLE_VMAX] > 0.0
    return given["act"] - given["offset"] * shifted

"""Joints, drives and limits."""

import math
from dataclasses import dataclass

import numpy as np
from pxr import Sdf, Usd, UsdPhysics

from newtonsim.geometry.transforms import IDENTITY_QUATERNION, quat_between, quat_from_matrix, quat_rotate
from newtonsim.importers.files.usd_names import (
    DOF_ATTRIBUTES,
    DRIVE_ATTRIBUTES,
    FRICTION_ATTRIBUTES,
    PASSIVE_ATTRIBUTES,
    REFERENCE_ATTRIBUTES,
)
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.records import NO_LIMIT, AxisRecord, JointRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.usd import attributes
from newtonsim.importers.writers.usd.frames import quatf, vec3f
from newtonsim.scene.enums import JointMode, JointType

_ALIGNED = 1.0e-6
_SINGLE = {JointType.REVOLUTE: UsdPhysics.RevoluteJoint, JointType.PRISMATIC: UsdPhysics.PrismaticJoint}


@dataclass(slots=True)
class Triad:
    """Joint frame whose axes are those of a joint: `turn` into it, and place and sign of each axis."""

    turn: np.ndarray
    place: list[int]
    sign: list[float]


def find_triad(linear: np.ndarray, angular: np.ndarray) -> Triad | None:
    """Find a frame in which each axis is ±x, ±y or ±z, rotations in the order x, y, z; None if none is."""
    columns: list[np.ndarray] = []
    for axis in [*angular, *linear]:
        if not any(abs(abs(axis @ known) - 1.0) < _ALIGNED for known in columns):
            if any(abs(axis @ known) > _ALIGNED for known in columns) or len(columns) == 3:
                return None
            columns.append(axis)
    while len(columns) < 3:
        spare = np.eye(3)[int(np.argmin([max(abs(c @ e) for c in columns) for e in np.eye(3)]))]
        spare = spare - sum((c @ spare) * c for c in columns)
        columns.append(spare / np.linalg.norm(spare))
    matrix = np.column_stack(columns)
    if np.linalg.det(matrix) < 0.0:
        matrix[:, 2] = -matrix[:, 2]
    if np.abs(matrix - np.eye(3)).max() < _ALIGNED:
        matrix = np.eye(3)
    parts = [matrix.T @ axis for axis in [*linear, *angular]]
    place = [int(np.argmax(np.abs(part))) for part in parts]
    if place[len(linear) :] != sorted(place[len(linear) :]):
        return None
    return Triad(quat_from_matrix(matrix), place, [float(np.sign(p[k])) for p, k in zip(parts, place)])


class JointWriter:
    """Writes the joints of a stage.

    Args:
        stage: The stage.
        body_paths: Path of each body, -1 for the world.
        report: Receives remarks.
    """

    def __init__(self, stage: Usd.Stage, body_paths: dict[int, Sdf.Path | None], report: ExportReport):
        self.stage, self.body_paths, self.report = stage, body_paths, report

    def write(self, path: Sdf.Path, joint: JointRecord, collides: bool) -> UsdPhysics.Joint:
        """Write a joint of a tree.

        Args:
            path: Where.
            joint: The joint.
            collides: Whether shapes of its two bodies touch.
        """
        own, triad = self._define(path, joint.kind, joint.axes, joint.key)
        turn = IDENTITY_QUATERNION if triad is None else triad.turn
        self.connect(own, (joint.parent, joint.child), (joint.X_p, joint.X_c), turn)
        own.CreateCollisionEnabledAttr(collides)
        if not joint.enabled:
            own.CreateJointEnabledAttr(False)
        prim = own.GetPrim()
        if joint.kind == JointType.BALL:
            self._ball_limits(own, joint)
        elif joint.kind == JointType.DISTANCE:
            write_distance(own, joint.distance)
        elif triad is not None:
            for axis, place, sign in zip(joint.axes, triad.place, triad.sign):
                self._write_axis(own, axis, place, sign)
        self._write_exact(prim, joint, turn)
        return own

    def _define(
        self, path: Sdf.Path, kind: JointType, axes: list[AxisRecord], key: str
    ) -> tuple[UsdPhysics.Joint, Triad | None]:
        linear = np.array([axis.axis for axis in axes if axis.linear]).reshape(-1, 3)
        angular = np.array([axis.axis for axis in axes if not axis.linear]).reshape(-1, 3)
        return self.define(path, kind, linear, angular, key)

    def define(
        self, path: Sdf.Path, kind: JointType, linear: np.ndarray, angular: np.ndarray, key: str
    ) -> tuple[UsdPhysics.Joint, Triad | None]:
        """Create a joint of the nearest type, and find the frame of its axes."""
        if kind == JointType.BALL:
            return UsdPhysics.SphericalJoint.Define(self.stage, path), None
        if kind == JointType.DISTANCE:
            return UsdPhysics.DistanceJoint.Define(self.stage, path), None
        if kind == JointType.FREE:
            return UsdPhysics.Joint.Define(self.stage, path), None
        if not len(linear) and not len(angular):
            return UsdPhysics.FixedJoint.Define(self.stage, path), None
        if len(linear) + len(angular) == 1:
            return self._define_single(path, linear, angular)
        own = UsdPhysics.Joint.Define(self.stage, path)
        triad = find_triad(linear, angular)
        if triad is None:
            message = (
                "axes that are not at right angles, or not in the order x, y, z, are attributes of newtonsim"
            )
            self.report.approximated(key, message)
            return own, None
        free = {(i < len(linear), k) for i, k in enumerate(triad.place)}
        for is_linear, name in ((True, "trans"), (False, "rot")):
            for k, letter in enumerate("XYZ"):
                if (is_linear, k) not in free:
                    _limit(own, f"{name}{letter}", 1.0, -1.0)  # reversed limits lock a degree of freedom
        return own, triad

    def _define_single(
        self, path: Sdf.Path, linear: np.ndarray, angular: np.ndarray
    ) -> tuple[UsdPhysics.Joint, Triad]:
        kind = JointType.PRISMATIC if len(linear) else JointType.REVOLUTE
        own = _SINGLE[kind].Define(self.stage, path)
        axis = [*linear, *angular][0]
        place = int(np.argmax(np.abs(axis)))
        turn = quat_between(np.eye(3)[place], axis) if axis[place] < 1.0 - 1.0e-12 else IDENTITY_QUATERNION
        own.CreateAxisAttr("XYZ"[place])
        return own, Triad(turn, [place], [1.0])

    def connect(
        self, own: UsdPhysics.Joint, bodies: tuple[int, int], frames: tuple[Pose, Pose], turn: np.ndarray
    ) -> None:
        """Attach a joint to two bodies by its frames in them, turned into the frame of its axes."""
        relations = (own.CreateBody0Rel, own.CreateBody1Rel)
        positions = (own.CreateLocalPos0Attr, own.CreateLocalPos1Attr)
        rotations = (own.CreateLocalRot0Attr, own.CreateLocalRot1Attr)
        for number, frame, relate, place, rotate in zip(bodies, frames, relations, positions, rotations):
            if self.body_paths[number] is not None:
                relate().SetTargets([self.body_paths[number]])
            turned = frame @ Pose(np.zeros(3), turn)
            place(vec3f(turned.p))
            rotate(quatf(turned.q))

    @staticmethod
    def _write_axis(own: UsdPhysics.Joint, axis: AxisRecord, place: int, sign: float) -> None:
        """Limits and drive of an axis."""
        if axis.limits is not None:
            limit(own, axis.linear, place, sign, axis.limits)
        if is_single(own):
            name = "linear" if axis.linear else "angular"
            _write_vendor(own.GetPrim(), axis)
        else:
            name = _name(axis.linear, place)
        _write_drive(own, axis, name, _unit(axis.linear), sign)

    def _ball_limits(self, own: UsdPhysics.Joint, joint: JointRecord) -> None:
        joint_schema = UsdPhysics.SphericalJoint(own)
        joint_schema.CreateAxisAttr("X")
        if joint.swing < NO_LIMIT:
            joint_schema.CreateConeAngle0LimitAttr(math.degrees(joint.swing))
            joint_schema.CreateConeAngle1LimitAttr(math.degrees(joint.swing))
        if np.isfinite([joint.swing, *joint.twist]).any():
            row = [joint.swing, *joint.twist]
            attributes.set_numbers(own.GetPrim(), "swingTwist", np.array(row))
        if np.isfinite(joint.twist).any():
            self.report.approximated(joint.key, "limits of the twist are attributes of newtonsim")

    @staticmethod
    def _write_exact(prim: Usd.Prim, joint: JointRecord, turn: np.ndarray) -> None:
        """What UsdPhysics has no place for; axes in the turned frame."""
        attributes.set_word(prim, "jointType", joint.kind.name)
        back = turn * np.array([-1.0, -1.0, -1.0, 1.0])
        for name, linear in (("linearAxes", True), ("angularAxes", False)):
            rows = [quat_rotate(back, axis.axis) for axis in joint.axes if axis.linear == linear]
            if rows:
                attributes.set_vectors(prim, name, np.array(rows))
        for field in DOF_ATTRIBUTES:
            values = getattr(joint, field)
            if len(values):
                attributes.set_numbers(prim, field, values)
        if joint.friction_solref.any():
            for field, (name, _) in FRICTION_ATTRIBUTES.items():
                attributes.set_numbers(prim, name, getattr(joint, field).reshape(-1))
        if any(axis.limit_solref.any() for axis in joint.axes):
            _write_references(prim, joint.axes)
        if joint.axes:
            several = len(joint.axes) > 1
            for field, name in (PASSIVE_ATTRIBUTES | (DRIVE_ATTRIBUTES if several else {})).items():
                attributes.set_numbers(prim, name, [getattr(axis, field) for axis in joint.axes])
            if several:
                attributes.set_whole_numbers(prim, "mode", [int(axis.mode) for axis in joint.axes])
            if several or joint.axes[0].mode == JointMode.FORCE:
                attributes.set_numbers(prim, "act", [axis.act for axis in joint.axes])
        if len(joint.q):
            attributes.set_numbers(prim, "q", joint.q)
            attributes.set_numbers(prim, "qd", joint.qd)


def is_single(own: UsdPhysics.Joint) -> bool:
    """Whether a joint has one axis, with limits of its own."""
    return own.GetPrim().IsA(UsdPhysics.RevoluteJoint) or own.GetPrim().IsA(UsdPhysics.PrismaticJoint)


def _name(linear: bool, place: int) -> str:
    """Name of a degree of freedom in limits and drives."""
    return ("trans" if linear else "rot") + "XYZ"[place]


def _unit(linear: bool) -> float:
    """Angles of UsdPhysics are in degrees."""
    return 1.0 if linear else math.degrees(1.0)


def limit(own: UsdPhysics.Joint, linear: bool, place: int, sign: float, bounds: tuple[float, float]) -> None:
    """Write the limits [m or rad] of one degree of freedom, whose axis points the other way if sign is -1."""
    if sign < 0.0:
        bounds = (-bounds[1], -bounds[0])
    low, high = (_unit(linear) * x if abs(x) < NO_LIMIT else math.copysign(math.inf, x) for x in bounds)
    if math.isinf(low) and math.isinf(high):
        return
    if is_single(own):
        schema = UsdPhysics.PrismaticJoint(own) if linear else UsdPhysics.RevoluteJoint(own)
        schema.CreateLowerLimitAttr(low)
        schema.CreateUpperLimitAttr(high)
    else:
        _limit(own, _name(linear, place), low, high)


def _limit(own: UsdPhysics.Joint, name: str, low: float, high: float) -> None:
    schema = UsdPhysics.LimitAPI.Apply(own.GetPrim(), name)
    schema.CreateLowAttr(low)
    schema.CreateHighAttr(high)


def _write_drive(own: UsdPhysics.Joint, axis: AxisRecord, name: str, unit: float, sign: float) -> None:
    """The drive of an axis, or the effort limit alone; gains are per degree where `unit` is."""
    limited = axis.effort_limit < NO_LIMIT
    gains = {
        JointMode.TARGET_POSITION: (axis.target_ke, axis.target_kd),
        JointMode.TARGET_VELOCITY: (0.0, axis.target_ke),
        JointMode.FORCE: (0.0, 0.0),
    }[axis.mode]
    if not any(gains) and not limited:
        return
    drive = UsdPhysics.DriveAPI.Apply(own.GetPrim(), name)
    drive.CreateTypeAttr("force")
    drive.CreateStiffnessAttr(gains[0] / unit)
    drive.CreateDampingAttr(gains[1] / unit)
    if limited:
        drive.CreateMaxForceAttr(axis.effort_limit)
    if axis.mode == JointMode.TARGET_POSITION:
        drive.CreateTargetPositionAttr(sign * unit * axis.act)
    elif axis.mode == JointMode.TARGET_VELOCITY:
        drive.CreateTargetVelocityAttr(sign * unit * axis.act)


def _write_vendor(prim: Usd.Prim, axis: AxisRecord) -> None:
    """Armature and velocity limit under the names that PhysX has given them, which other engines read."""
    values = {"armature": axis.armature, "maxJointVelocity": _unit(axis.linear) * axis.velocity_limit}
    for name, value in values.items():
        if 0.0 < value < NO_LIMIT:
            prim.CreateAttribute(f"physxJoint:{name}", Sdf.ValueTypeNames.Float, custom=True).Set(value)


def _write_references(prim: Usd.Prim, axes: list[AxisRecord]) -> None:
    """Parameters of limits by reference; those of a single axis also under the names of MuJoCo's."""
    for field, (name, _) in REFERENCE_ATTRIBUTES.items():
        attributes.set_numbers(prim, name, np.array([getattr(axis, field) for axis in axes]))
    if len(axes) == 1:
        solref, solimp = axes[0].limit_solref.tolist(), axes[0].limit_solimp.tolist()
        margin = float(axes[0].limit_margin)
        attributes.set_schema(prim, "MjcJointAPI", solreflimit=solref, solimplimit=solimp, margin=margin)


def write_distance(own: UsdPhysics.Joint, distance: tuple[float, float]) -> None:
    """Write the bounds of a distance; negative ones are none, here as there."""
    schema = UsdPhysics.DistanceJoint(own)
    schema.CreateMinDistanceAttr(distance[0])
    schema.CreateMaxDistanceAttr(distance[1] if distance[1] < NO_LIMIT else -1.0)

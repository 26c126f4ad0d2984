"""Loops, distances and couplings."""

import numpy as np
from pxr import Sdf, Usd, UsdPhysics

from newtonsim.geometry.transforms import IDENTITY_QUATERNION, quat_rotate
from newtonsim.importers.files.usd_names import NAMESPACE
from newtonsim.importers.writers.names import Names
from newtonsim.importers.writers.records import ConstraintRecord, Scene
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.usd import attributes
from newtonsim.importers.writers.usd.frames import prim_name
from newtonsim.importers.writers.usd.joints import JointWriter, Triad, limit, write_distance
from newtonsim.scene.enums import ConstraintType, JointType

_FREE = {
    (0, 0): JointType.FIXED,
    (0, 3): JointType.BALL,
    (0, 1): JointType.REVOLUTE,
    (1, 0): JointType.PRISMATIC,
}


class ConstraintWriter:
    """Writes constraints: joints outside of articulations, and couplings as prims without a type.

    Args:
        scene: The scene.
        stage: The stage.
        folder: Where they go.
        body_paths: Path of each body, -1 for the world.
        joint_paths: Path of each joint.
        report: Receives paths and remarks.
    """

    def __init__(
        self,
        scene: Scene,
        stage: Usd.Stage,
        folder: Sdf.Path,
        body_paths: dict[int, Sdf.Path | None],
        joint_paths: dict[int, Sdf.Path],
        report: ExportReport,
    ):
        self.scene, self.stage, self.folder = scene, stage, folder
        self.joint_paths, self.report = joint_paths, report
        self.names = Names(prim_name)
        self.joints = JointWriter(stage, body_paths, report)

    def write(self) -> None:
        """Write all constraints."""
        for constraint in self.scene.constraints:
            path = self.folder.AppendChild(self.names.unique(constraint.key))
            if constraint.kind == ConstraintType.COUPLING:
                prim = self._coupling(path, constraint)
            else:
                prim = self._joint(path, constraint)
            self.report.constraints[constraint.index] = [str(path)]
            if np.isfinite(constraint.max_force):
                attributes.set_number(prim, "maxForce", constraint.max_force)
            if constraint.recovery_time > 0.0:
                attributes.set_number(prim, "recoveryTime", constraint.recovery_time)
            if constraint.solref.any():
                attributes.set_numbers(prim, "solref", constraint.solref)
                attributes.set_numbers(prim, "solimp", constraint.solimp)
            if constraint.torque_scale != 1.0:
                attributes.set_number(prim, "torqueScale", constraint.torque_scale)

    def _joint(self, path: Sdf.Path, constraint: ConstraintRecord) -> Usd.Prim:
        linear, angular = constraint.linear, constraint.angular
        kind = _FREE.get((len(linear), len(angular)), JointType.D6)
        if constraint.kind == ConstraintType.DISTANCE:
            kind = JointType.DISTANCE
        own, triad = self.joints.define(path, kind, linear, angular, constraint.key)
        turn = IDENTITY_QUATERNION if triad is None else triad.turn
        bodies, frames = (constraint.parent, constraint.child), (constraint.X_p, constraint.X_c)
        self.joints.connect(own, bodies, frames, turn)
        own.CreateExcludeFromArticulationAttr(True)
        own.CreateCollisionEnabledAttr(True)
        if not constraint.enabled:
            own.CreateJointEnabledAttr(False)
        if kind == JointType.DISTANCE:
            write_distance(own, constraint.distance)
        elif triad is not None:
            self._limits(own, constraint, triad)
        back = turn * np.array([-1.0, -1.0, -1.0, 1.0])
        for name, axes in (("linearAxes", linear), ("angularAxes", angular)):
            if len(axes):
                attributes.set_vectors(own.GetPrim(), name, quat_rotate(np.tile(back, (len(axes), 1)), axes))
        return own.GetPrim()

    @staticmethod
    def _limits(own: UsdPhysics.Joint, constraint: ConstraintRecord, triad: Triad) -> None:
        count = len(constraint.linear)
        for i, (bounds, place, sign) in enumerate(zip(constraint.limits, triad.place, triad.sign)):
            limit(own, i < count, place, sign, tuple(bounds.tolist()))

    def _coupling(self, path: Sdf.Path, constraint: ConstraintRecord) -> Usd.Prim:
        """A polynomial between joint axes: relationships to the joints, and numbers."""
        prim = self.stage.DefinePrim(path)
        self.report.approximated(constraint.key, "a coupling of joints is made of attributes of newtonsim")
        places = [place for place in constraint.coupled if place is not None]
        relation = prim.CreateRelationship(f"{NAMESPACE}:coupledJoints", custom=True)
        relation.SetTargets([self.joint_paths[joint] for joint, _ in places])
        attributes.set_whole_numbers(prim, "coupledAxes", [axis for _, axis in places])
        attributes.set_numbers(prim, "coefficients", constraint.coefficients)
        if not constraint.enabled:
            attributes.set_flag(prim, "enabled", False)
        return prim

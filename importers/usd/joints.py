"""Joint prims: kinds, frames, limits and drives, in SI units.

A generic Joint is free along every axis that no LimitAPI locks by a lower limit above the upper one.
"""

import math

import numpy as np

from newtonsim.geometry.transforms import quat_between
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.exact import read_exact
from newtonsim.importers.usd.frames import split
from newtonsim.importers.usd.records import AxisRecord, Content, Drive, JointRecord
from newtonsim.importers.usd.scene import Defaults
from newtonsim.importers.usd.stage import Units
from newtonsim.importers.usd.vendors import AxisNumbers
from newtonsim.importers.usd.walk import Place, Walker

KINDS = {
    "PhysicsFixedJoint": "fixed",
    "PhysicsRevoluteJoint": "revolute",
    "PhysicsPrismaticJoint": "prismatic",
    "PhysicsSphericalJoint": "ball",
    "PhysicsDistanceJoint": "distance",
    "PhysicsJoint": "d6",
}
_LETTERS = ("X", "Y", "Z")
_LINEAR = ("transX", "transY", "transZ")
_ANGULAR = ("rotX", "rotY", "rotZ")


class JointReader:
    """Reads joints.

    Args:
        walker: Where prims are.
        content: The prims.
        poses: Pose of each body.
        report: Receives remarks.
        reference: What one unit of MuJoCo's reference angles is [rad].
    """

    def __init__(
        self,
        walker: Walker,
        content: Content,
        poses: dict[str, Pose],
        report: ImportReport,
        reference: float,
    ):
        self.walker, self.content, self.poses, self.report = walker, content, poses, report
        self.units: Units = walker.view.units
        self.numbers = AxisNumbers(self.units, reference, report)

    def read(self, place: Place, defaults: Defaults) -> JointRecord | None:
        """Read a joint; None, with a remark, for one that connects nothing that moves."""
        element = place.element
        defaults = defaults.on(element)
        ends = [self._end(place, side) for side in (0, 1)]
        if None in ends:
            return None
        bodies = (ends[0][0], ends[1][0])
        if bodies[0] == bodies[1]:
            what = "the world" if bodies[0] is None else bodies[0]
            self.report.ignored(element, f"the joint connects {what} to itself")
            return None
        for name in ("breakForce", "breakTorque"):
            if math.isfinite(element.number(f"physics:{name}", math.inf, endless=True)):
                self.report.unsupported(element, f"joints cannot break: '{name}'")
        kind = KINDS[element.prim.GetTypeName()]
        record = JointRecord(
            element,
            kind,
            bodies,
            (ends[0][1], ends[1][1]),
            (ends[0][2], ends[1][2]),
            [],
            [],
            math.inf,
            (-1.0, -1.0),
            element.flag("physics:jointEnabled", True),
            element.flag("physics:excludeFromArticulation", False),
            element.flag("physics:collisionEnabled", False),
            defaults.joint_limit_ke,
            defaults.joint_limit_kd,
        )
        getattr(self, f"_read_{kind}")(record, defaults.joint_drive_gains_scaling)
        self._check_drives(record)
        if len(record.axes) == 1:
            axis = record.axes[0]
            axis.label, axis.offset = element.label, self.numbers.offset(element, axis.angular)
            if "stiffness" in axis.numbers:
                axis.numbers["spring_ref"] = axis.numbers.get("spring_ref", 0.0) - axis.offset
        read_exact(record)
        return record

    # -- frames ----------------------------------------------------------------------------------------------

    def _end(self, place: Place, side: int) -> tuple[str | None, str | None, Pose] | None:
        """Body, target and joint frame of one side; None if the target was left out on purpose."""
        element, name = place.element, f"physics:body{side}"
        targets = element.targets(name)
        if len(targets) > 1:
            raise element.error(f"relationship '{name}' names {len(targets)} prims, expected one")
        position = element.vector(f"physics:localPos{side}", (0.0, 0.0, 0.0))
        rotation = element.quaternion(f"physics:localRot{side}")
        rotation = Pose.identity().q if rotation is None else rotation
        label = place.label_of(targets[0]) if targets else None
        body, matrix = None, self.walker.view.root_matrix()
        if label is not None:
            found = self._target(element, name, label)
            if found is None:
                return None
            body, matrix = found
        frame = split(matrix)
        if frame.is_flat or frame.is_sheared:
            raise element.error(
                f"the transform of {label}, which '{name}' names, is sheared or has zero volume"
            )
        world = Pose(frame.pose.p + frame.matrix @ position, frame.pose.q) @ Pose(np.zeros(3), rotation)
        return body, label, world if body is None else self.poses[body].inverse() @ world

    def _target(self, element: Element, name: str, label: str) -> tuple[str | None, np.ndarray] | None:
        """Body and matrix of the prim that a side of a joint names."""
        place = self.content.places.get(label)
        if place is not None:
            return place.body, place.matrix
        if any(label == skipped or label.startswith(skipped + "/") for skipped in self.walker.skipped):
            self.report.ignored(element, f"the joint is left out with {label}")
            return None
        prim = self.walker.view.stage.GetPrimAtPath(label)
        if not prim:
            raise element.error(f"relationship '{name}' names {label}, which does not exist")
        above = prim
        while above:
            if above.HasAPI("PhysicsRigidBodyAPI"):
                self.report.ignored(element, f"the joint is left out: {label} is not part of the import")
                return None
            above = above.GetParent()
        return None, self.walker.matrix_of(prim)

    # -- kinds -----------------------------------------------------------------------------------------------

    def _read_fixed(self, record: JointRecord, gain: float) -> None:
        pass

    def _read_revolute(self, record: JointRecord, gain: float) -> None:
        record.angular.append(self._single(record.element, "angular", True, gain))

    def _read_prismatic(self, record: JointRecord, gain: float) -> None:
        record.linear.append(self._single(record.element, "linear", False, gain))

    def _single(self, element: Element, instance: str, angular: bool, gain: float) -> AxisRecord:
        """The axis of a revolute or prismatic joint."""
        letter = element.token("physics:axis", "X", _LETTERS)
        unit = math.pi / 180.0 if angular else self.units.length
        lower = element.number("physics:lowerLimit", -math.inf, endless=True) * unit
        upper = element.number("physics:upperLimit", math.inf, endless=True) * unit
        if lower > upper:
            raise element.error(
                f"attribute 'physics:lowerLimit' is {lower / unit:g}, above the upper limit {upper / unit:g}"
            )
        return self._axis(element, _LETTERS.index(letter), angular, (lower, upper), instance, gain)

    def _axis(
        self,
        element: Element,
        number: int,
        angular: bool,
        limits: tuple[float, float],
        instance: str,
        gain: float,
    ) -> AxisRecord:
        drive = self._drive(element, instance, angular, gain)
        return AxisRecord(
            np.eye(3)[number],
            angular,
            *limits,
            drive,
            self.numbers.read(element, instance, angular),
            self.numbers.start(element, instance, angular),
        )

    def _read_ball(self, record: JointRecord, gain: float) -> None:
        """A cone about an axis: the frames are turned so that this axis is x."""
        element = record.element
        letter = element.token("physics:axis", "X", _LETTERS)
        turn = Pose(np.zeros(3), quat_between((1.0, 0.0, 0.0), np.eye(3)[_LETTERS.index(letter)]))
        record.frames = (record.frames[0] @ turn, record.frames[1] @ turn)
        record.rotor = self.numbers.rotor(element)
        cones = [element.number(f"physics:coneAngle{k}Limit", -1.0, endless=True) for k in (0, 1)]
        limited = [cone for cone in cones if 0.0 <= cone < math.inf]
        if len(limited) == 1:
            self.report.unsupported(element, "a cone limit in one direction only is not modelled")
        elif limited:
            if abs(cones[0] - cones[1]) > 1.0e-6 * max(cones):
                self.report.approximated(
                    element, f"the cone is round: {min(cones):g} degrees, not also {max(cones):g}"
                )
            record.cone = math.radians(min(cones))

    def _read_distance(self, record: JointRecord, gain: float) -> None:
        element, length = record.element, self.units.length
        low, high = (element.number(f"physics:{name}Distance", -1.0, endless=True) for name in ("min", "max"))
        high = -1.0 if high == math.inf else high
        if 0.0 <= high < low:
            raise element.error(
                f"attribute 'physics:minDistance' is {low:g}, above 'physics:maxDistance' {high:g}"
            )
        record.distance = (max(low * length, -1.0), max(high * length, -1.0))

    def _read_d6(self, record: JointRecord, gain: float) -> None:
        element = record.element
        limits = {name: self._limit(element, name) for name in element.instances_of("PhysicsLimitAPI")}
        for name in limits:
            if name not in _LINEAR + _ANGULAR:
                self.report.unsupported(element, f"the limit '{name}' of a generic joint is not modelled")
        for names, angular, axes in ((_LINEAR, False, record.linear), (_ANGULAR, True, record.angular)):
            unit = math.pi / 180.0 if angular else self.units.length
            for number, name in enumerate(names):
                low, high = limits.get(name, (-math.inf, math.inf))
                if low <= high:
                    limit = (low * unit, high * unit)
                    axes.append(self._axis(element, number, angular, limit, name, gain))
        self._simplify(record)

    def _limit(self, element: Element, name: str) -> tuple[float, float]:
        return (
            element.number(f"limit:{name}:physics:low", -math.inf, endless=True),
            element.number(f"limit:{name}:physics:high", math.inf, endless=True),
        )

    def _simplify(self, record: JointRecord) -> None:
        """Let a generic joint be one of the others where it is; a free rotation has no favoured angles."""
        linear, angular = len(record.linear), len(record.angular)
        free = all(
            axis.drive is None and axis.lower == -math.inf and axis.upper == math.inf
            for axis in record.angular
        )
        simple = {(0, 0): "fixed", (0, 1): "revolute", (1, 0): "prismatic"}
        if (linear, angular) == (0, 3) and free:
            record.kind, record.angular, record.rotor = "ball", [], self.numbers.rotor(record.element)
        elif (
            (linear, angular) == (3, 3)
            and free
            and all(
                axis.drive is None and axis.lower == -math.inf and axis.upper == math.inf
                for axis in record.linear
            )
        ):
            record.kind = "free"
        else:
            record.kind = simple.get((linear, angular), "d6")
        if record.kind == "d6" and angular > 1:
            self.report.approximated(
                record.element,
                "its angles are successive rotations about x, y, z, each carried by the one before",
            )

    # -- drives ----------------------------------------------------------------------------------------------

    def _drive(self, element: Element, instance: str, angular: bool, gain: float) -> Drive | None:
        """The drive of an axis; None if there is none or it has neither gains nor a limit of force."""
        if instance not in element.instances_of("PhysicsDriveAPI"):
            return None
        name = f"drive:{instance}:physics"
        kind = element.token(f"{name}:type", "force", ("force", "acceleration"))
        degree = math.pi / 180.0
        per_unit = 1.0 / degree if angular else 1.0
        length = degree if angular else self.units.length
        # Gains of an acceleration drive are the same without the unit of inertia: rad/s^2 per degree, 1/s^2.
        inertia = self.units.torque if angular else self.units.mass
        force = per_unit * (1.0 if kind == "acceleration" else inertia)
        effort = self.units.torque if angular else self.units.force
        return Drive(
            element.number(f"{name}:stiffness", 0.0, least=0.0) * force * gain,
            element.number(f"{name}:damping", 0.0, least=0.0) * force * gain,
            element.number(f"{name}:targetPosition", 0.0) * length,
            element.number(f"{name}:targetVelocity", 0.0) * length,
            element.number(f"{name}:maxForce", math.inf, least=0.0, endless=True) * effort,
            kind == "acceleration",
        )

    def _check_drives(self, record: JointRecord) -> None:
        """Report drives for which the joint has no axis."""
        used = {"revolute": ("angular",), "prismatic": ("linear",)}.get(record.kind, ())
        if record.element.prim.GetTypeName() == "PhysicsJoint":
            used = _LINEAR + _ANGULAR
        for name in record.element.instances_of("PhysicsDriveAPI"):
            if name not in used:
                self.report.unsupported(
                    record.element, f"the drive '{name}' has no axis in this kind of joint"
                )

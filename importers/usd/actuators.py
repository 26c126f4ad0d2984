"""What drives joints and couples them: actuators of MuJoCo and Newton, mimic joints, equalities.

The effort of an actuator of MuJoCo on a joint is gear (gain ctrl + b0 + b1 gear q + b2 gear qd). With the
sums K = -sum(b1 gear^2) and D = -sum(b2 gear^2) over the actuators of one joint, a drive does the same: by
position with ke = K, kd = D where K > 0, by velocity with ke = D where only D > 0, else by effort.
"""

from dataclasses import dataclass, field

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.records import Content
from newtonsim.importers.usd.stage import Units
from newtonsim.importers.usd.vendors import Parameters, parameters
from newtonsim.importers.usd.walk import Place
from newtonsim.scene.enums import JointMode

_DEGREE = np.pi / 180.0
_MOST = 5
"""Coefficients of a polynomial between two coordinates."""


@dataclass(slots=True)
class _Sum:
    """What the actuators of one axis do together, in SI units: effort = constant - stiffness q - damping qd.

    `controlled` holds the entries of `ImportReport.actuators`, whose scale and offset are efforts at first.
    """

    stiffness: float = 0.0
    damping: float = 0.0
    constant: float = 0.0
    most: float = 0.0
    controlled: list[dict] = field(default_factory=list)


class ActuatorReader:
    """Adds the actuators and couplings of a stage to the joints of a builder.

    Args:
        content: The prims.
        builder: Holds the joints.
        report: Says which joint is which; receives remarks, constraints and actuators.
        units: Units of the stage.
        axes: By joint of one axis that axis, and whether it is one of rotation.
    """

    def __init__(
        self,
        content: Content,
        builder: ModelBuilder,
        report: ImportReport,
        units: Units,
        axes: dict[str, tuple[int, bool]],
    ):
        self.content, self.builder, self.report, self.units = content, builder, report, units
        self.axes = axes
        self._sums: dict[int, _Sum] = {}

    def add(self) -> None:
        """Add all of them."""
        for place in self.content.actuators:
            if place.element.prim.GetTypeName() == "MjcActuator":
                self._read_mujoco(place)
            else:
                self._read_newton(place)
        for axis, total in self._sums.items():
            self._drive(axis, total)
        for place in self.content.joints:
            self._add_couplings(place)

    # -- actuators -------------------------------------------------------------------------------------------

    def _read_mujoco(self, place: Place) -> None:
        element = place.element
        entry = {"name": element.label, "joint": None, "axis": None, "tendon": None, "scale": 1.0}
        entry |= {"offset": 0.0, "ctrl_range": None, "key": None, "law": None, "activation": None}
        entry |= {"actuator": None, "place": None, "type": "general"}
        self.report.actuators.append(entry)
        label, axis = self._driven(place, "mjc:target")
        entry["target"] = ("joint" if self._only_axis(label) is not None else "", label)
        gain, bias = _law(element)
        if gain is None or bias is None:
            self.report.unsupported(element, "actuators whose effort is not affine are not modelled")
            return
        if axis is None or element.token("mjc:dynType", "none", _DYNAMICS) != "none":
            return
        gear = float(_floats(element, "mjc:gear", 6, (1.0,))[0])
        angular = self._is_angular(label)
        unit = self.units.torque if angular else self.units.force
        per_unit = self.units.torque if angular else self.units.mass
        offset = self.report.joint_refs.get(label, 0.0)
        stiffness, damping = -bias[1] * gear**2 * per_unit, -bias[2] * gear**2 * per_unit
        entry |= {
            "joint": label,
            "key": label,
            "axis": axis,
            "ctrl_range": self._control(element, axis, offset),
        }
        entry |= {"scale": gear * gain * unit, "offset": gear * bias[0] * unit - stiffness * offset}
        total = self._sums.setdefault(axis, _Sum())
        total.stiffness, total.damping = total.stiffness + stiffness, total.damping + damping
        total.constant += entry["offset"]
        total.most += self._most(element) * abs(gear) * unit
        total.controlled.append(entry)

    def _read_newton(self, place: Place) -> None:
        element = place.element
        if not element.targets("newton:targets"):
            raise element.error("relationship 'newton:targets' names no joint")
        label, axis = self._driven(place, "newton:targets")
        if axis is None:
            return
        angular = self._is_angular(label)
        unit = self.units.torque if angular else self.units.force
        per_unit = self.units.torque if angular else self.units.mass
        total = self._sums.setdefault(axis, _Sum())
        total.stiffness += element.number("newton:kp", 0.0, least=0.0) * per_unit
        total.damping += element.number("newton:kd", 0.0, least=0.0) * per_unit
        total.constant += element.number("newton:constEffort", 0.0) * unit
        total.most += element.number("newton:maxEffort", np.inf, least=0.0, endless=True) * unit

    def _driven(self, place: Place, name: str) -> tuple[str, int | None]:
        """The joint that a relationship names, and its only axis; None, with a remark, without one."""
        element, label = place.element, ""
        targets = element.targets(name)
        if targets:
            label = place.label_of(targets[0])
            axis = self._only_axis(label)
            if axis is not None and self.builder.joint_axis_mode[axis] == JointMode.FORCE:
                return label, axis
            if axis is not None:
                self.report.unsupported(element, "its effort acts on an axis that already has a drive")
                return label, None
        self.report.unsupported(element, "its effort does not act on a single-axis joint of a tree")
        return label, None

    def _only_axis(self, label: str) -> int | None:
        return self.axes[label][0] if label in self.axes else None

    def _is_angular(self, label: str) -> bool:
        return self.axes[label][1]

    def _control(self, element: Element, axis: int, offset: float) -> tuple[float, float] | None:
        """The range of an actuator's control."""
        share = element.number("mjc:inheritRange", 0.0, least=0.0)
        low, high = (self.builder.joint_limit_lower[axis], self.builder.joint_limit_upper[axis])
        if share > 0.0 and np.isfinite([low, high]).all():
            middle, half = 0.5 * (low + high) + offset, 0.5 * share * (high - low)
            return middle - half, middle + half
        low, high = (element.number(f"mjc:ctrlRange:{end}", 0.0) for end in ("min", "max"))
        limited = element.token("mjc:ctrlLimited", "auto", ("true", "false", "auto"))
        return None if limited == "false" or not low < high else (low, high)

    def _most(self, element: Element) -> float:
        """Largest effort of an actuator before its gear."""
        low, high = (element.number(f"mjc:forceRange:{end}", 0.0) for end in ("min", "max"))
        limited = element.token("mjc:forceLimited", "auto", ("true", "false", "auto"))
        if limited == "false" or not low < high:
            return np.inf
        if low != -high:
            self.report.approximated(
                element, f"its effort, from {low:g} to {high:g}, gets the same limit in both directions"
            )
        return max(-low, high)

    def _drive(self, axis: int, total: _Sum) -> None:
        """Give an axis the drive that does what its actuators do."""
        builder = self.builder
        if total.stiffness < 0.0 or total.damping < 0.0:
            for entry in total.controlled:
                self.report.add("unsupported", None, "it pushes away from its position", entry["name"])
                entry["axis"] = None
            return
        if total.stiffness > 0.0:
            mode, gain, damping = JointMode.TARGET_POSITION, total.stiffness, total.damping
        elif total.damping > 0.0:
            mode, gain, damping = JointMode.TARGET_VELOCITY, total.damping, 0.0
        else:
            mode, gain, damping = JointMode.FORCE, 0.0, 0.0
        share = gain if gain > 0.0 else 1.0
        builder.joint_axis_mode[axis] = int(mode)
        builder.joint_target_ke[axis], builder.joint_target_kd[axis] = gain, damping
        builder.joint_act[axis] = total.constant / share
        builder.joint_effort_limit[axis] = min(builder.joint_effort_limit[axis], total.most)
        for entry in total.controlled:
            entry["scale"], entry["offset"] = entry["scale"] / share, entry["offset"] / share

    # -- couplings -------------------------------------------------------------------------------------------

    def _add_couplings(self, place: Place) -> None:
        element, schemas = place.element, place.element.schemas
        if "NewtonMimicAPI" in schemas:
            unit = self._unit(element.label)
            numbers = [element.number(f"newton:mimicCoef{k}", float(k)) for k in (0, 1)]
            enabled = element.flag("newton:mimicEnabled", True)
            self._couple(place, "newton:mimicJoint", [numbers[0] * unit, numbers[1]], enabled)
        for schema in schemas:
            base, _, instance = schema.partition(":")
            if base == "PhysxMimicJointAPI":
                prefix = f"physxMimicJoint:{instance}"
                offset = element.number(f"{prefix}:offset", 0.0) * self._unit(element.label)
                gearing = element.number(f"{prefix}:gearing", 1.0)
                self._couple(place, f"{prefix}:referenceJoint", [-offset, -gearing], True)
        if "MjcEqualityJointAPI" in schemas:
            numbers = [element.number(f"mjc:coef{k}", float(k == 1)) for k in range(_MOST)]
            softness = parameters(element, "mjc:solref", "mjc:solimp", self._unit(element.label), self.report)
            self._couple(place, "mjc:target", numbers, True, softness, relative=True)

    def _unit(self, label: str) -> float:
        if self._only_axis(label) is None:
            return 1.0
        return _DEGREE if self._is_angular(label) else self.units.length

    def _couple(
        self,
        place: Place,
        relation: str,
        numbers: list[float],
        enabled: bool,
        softness: Parameters | None = None,
        relative: bool = False,
    ) -> None:
        """Make the coordinate of a joint a polynomial of that of another.

        Args:
            place: The joint that follows.
            relation: Relationship to the one that leads.
            numbers: Coefficients, the constant first.
            enabled: Whether it acts.
            softness: Its solref and solimp, None for as rigid as the solver makes it.
            relative: Whether both coordinates count from where they are at the start.
        """
        element, report = place.element, self.report
        targets = [place.label_of(path) for path in element.targets(relation)]
        labels = [element.label, *targets[:1]]
        if any(self._only_axis(label) is None for label in labels) or (not targets and not relative):
            report.unsupported(element, f"'{relation}' does not couple it with a single-axis joint of a tree")
            return
        joints = [report.joints[label] for label in labels]
        axes = [self.axes[label][0] - self.builder.joint_axis_start[report.joints[label]] for label in labels]
        if relative:
            starts = [self.builder.joint_q[report.joint_coords[label]] for label in labels]
            shift = np.polynomial.Polynomial([-starts[1] if targets else 0.0, 1.0])
            numbers = np.polynomial.Polynomial(numbers)(shift).coef.tolist() if targets else numbers[:1]
            numbers[0] += starts[0]
        key = f"{element.label}_mimic"
        options = {} if softness is None else {"solref": softness[0], "solimp": softness[1]}
        report.constraints[key] = self.builder.add_constraint_coupling(
            joints[0], joints[1] if targets else -1, numbers, *axes, key=key, enabled=enabled, **options
        )


_DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle", "user", "dcmotor")


def _law(element: Element) -> tuple[float | None, np.ndarray | None]:
    """Gain and bias (3,) of an actuator, None for what is not affine in control, position and velocity."""
    kinds = [
        str(element.value(f"mjc:{name}Type") or usual)
        for name, usual in (("gain", "fixed"), ("bias", "none"))
    ]
    gain = float(_floats(element, "mjc:gainPrm", 3, (1.0, 0.0, 0.0))[0]) if kinds[0] == "fixed" else None
    if kinds[1] == "affine":
        return gain, _floats(element, "mjc:biasPrm", 3, (0.0, 0.0, 0.0))
    return gain, np.zeros(3) if kinds[1] == "none" else None


def _floats(element: Element, name: str, count: int, usual: tuple[float, ...]) -> np.ndarray:
    """The first entries of an array, filled up with what they are without it."""
    given = element.array(name, np.float64)[:count]
    rest = np.zeros(max(len(usual), count))
    rest[: len(usual)] = usual
    rest[: len(given)] = given
    return rest[:count]

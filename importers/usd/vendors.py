"""Numbers of joints, shapes, materials and bodies that PhysX, Newton and MuJoCo add to UsdPhysics.

Where several of their schemas give one number, MuJoCo's counts before Newton's, Newton's before PhysX's.
Names and units are those of the published schemas: angles of PhysX and Newton are in degrees, also where they
divide a torque; MuJoCo's stiffness and damping are per radian, its reference angles in degrees unless the
scene's `mjc:compiler:angle` says otherwise.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.stage import Units
from newtonsim.scene.arrays import SOLIMP, SOLREF

_DEGREE = math.pi / 180.0

_OF_AXES = {
    "armature": (
        ("mjc:armature", "inertia"),
        ("newton:armature", "inertia"),
        ("physxJointAxis:{}:armature", "inertia"),
        ("physxJoint:armature", "inertia"),
    ),
    "damping": (
        ("mjc:damping", "per radian"),
        ("newton:damping", "per degree"),
        ("physxJointAxis:{}:viscousFrictionCoefficient", "per degree"),
    ),
    "friction": (
        ("mjc:frictionloss", "effort"),
        ("newton:friction", "effort"),
        ("physxJointAxis:{}:dynamicFrictionEffort", "effort"),
        ("physxJointAxis:{}:staticFrictionEffort", "effort"),
    ),
    "velocity_limit": (
        ("newton:velocityLimit", "speed"),
        ("physxJointAxis:{}:maxJointVelocity", "speed"),
        ("physxJoint:maxJointVelocity", "speed"),
    ),
    "limit_ke": (("newton:limitStiffness", "per degree"), ("physxLimit:{}:stiffness", "per degree")),
    "limit_kd": (("newton:limitDamping", "per degree"), ("physxLimit:{}:damping", "per degree")),
    "stiffness": (("mjc:stiffness", "per radian"),),
    "spring_ref": (("mjc:springref", "reference"),),
}
"""Arguments of JointAxis, the attributes that give them, and their units."""

_ROTOR = ("armature", "damping", "friction")
"""What ball joints have, too."""

Parameters = tuple[tuple[float, ...], tuple[float, ...]]
"""Numbers of solref and of solimp."""


class AxisNumbers:
    """Reads what the schemas say of joint axes.

    Args:
        units: Units of the stage.
        reference: What one unit of MuJoCo's reference angles is [rad].
        report: Receives remarks.
    """

    def __init__(self, units: Units, reference: float, report: ImportReport):
        self.units, self.reference, self.report = units, reference, report

    def read(self, element: Element, instance: str, angular: bool) -> dict[str, Any]:
        """Return arguments of JointAxis for one axis.

        Args:
            element: The joint.
            instance: Name of the axis in schemas that can be applied several times.
            angular: Whether the axis is one of rotation.
        """
        numbers: dict[str, Any] = {}
        for name in _OF_AXES:
            value = self._first(element, name, instance, angular)
            if value is not None:
                numbers[name] = value
        if numbers.get("limit_ke") == 0.0:  # a limit without stiffness is a hard one
            del numbers["limit_ke"]
            numbers.pop("limit_kd", None)
        numbers |= self._effort(element, angular)
        length = 1.0 if angular else self.units.length
        found = parameters(element, "mjc:solreffriction", "mjc:solimpfriction", 1.0, self.report)
        if found is not None:
            numbers |= {"friction_solref": found[0], "friction_solimp": found[1]}
        found = parameters(element, "mjc:solreflimit", "mjc:solimplimit", length, self.report)
        if found is not None:
            margin = element.number("mjc:margin", 0.0, least=0.0) * length
            numbers |= {"limit_solref": found[0], "limit_solimp": found[1], "limit_margin": margin}
        self._tell_static(element, instance)
        return numbers

    def rotor(self, element: Element) -> dict[str, float]:
        """Return armature, damping and friction of each degree of freedom of a ball joint."""
        found = {name: self._first(element, name, "", True) for name in _ROTOR}
        if element.number("mjc:stiffness", 0.0) != 0.0:
            self.report.unsupported(element, "'mjc:stiffness' of a ball joint is not modelled")
        return {name: value for name, value in found.items() if value is not None}

    def start(self, element: Element, instance: str, angular: bool) -> tuple[float | None, float | None]:
        """Return position and velocity that the state of an axis says, None for what it does not."""
        factor = _DEGREE if angular else self.units.length
        values = [element.number(f"state:{instance}:physics:{name}") for name in ("position", "velocity")]
        position, velocity = (None if value is None else value * factor for value in values)
        return position, velocity

    def offset(self, element: Element, angular: bool) -> float:
        """Return MuJoCo's coordinate where ours is zero."""
        return element.number("mjc:ref", 0.0) * self._unit("reference", angular)

    def _first(self, element: Element, name: str, instance: str, angular: bool) -> float | None:
        for attribute, unit in _OF_AXES[name]:
            attribute = attribute.format(instance)
            value = element.number(attribute, endless=True)
            if value is None or value == -math.inf or (value == math.inf and name != "velocity_limit"):
                continue
            if value < 0.0 and unit != "reference":
                raise element.error(f"attribute '{attribute}' is {value:g}, expected at least 0")
            return value * self._unit(unit, angular)
        return None

    def _unit(self, unit: str, angular: bool) -> float:
        units = self.units
        if unit == "reference":
            return self.reference if angular else units.length
        if unit == "speed":
            return _DEGREE if angular else units.length
        if unit == "effort":
            return units.torque if angular else units.force
        if not angular:
            return units.mass  # also of a force for each length, and for each length in a second
        return units.torque / _DEGREE if unit == "per degree" else units.torque

    def _effort(self, element: Element, angular: bool) -> dict[str, float]:
        """The largest effort of all drives of a joint, where MuJoCo's range says one."""
        low, high = (element.number(f"mjc:actuatorfrcrange:{end}", 0.0) for end in ("min", "max"))
        limited = element.token("mjc:actuatorfrclimited", "auto", ("true", "false", "auto"))
        if limited == "false" or not low < high:
            return {}
        unit = self._unit("effort", angular)
        if low <= 0.0 <= high:
            return {"effort_limit": high * unit, "effort_lower": -math.inf if low == -high else low * unit}
        self.report.approximated(
            element,
            f"efforts from {low:g} to {high:g} get the larger one as limit in both directions",
        )
        return {"effort_limit": max(-low, high) * unit}

    def _tell_static(self, element: Element, instance: str) -> None:
        prefix = f"physxJointAxis:{instance}"
        static, dynamic = (element.number(f"{prefix}:{name}FrictionEffort") for name in ("static", "dynamic"))
        if static is not None and dynamic is not None and static != dynamic:
            self.report.approximated(
                element, f"dry friction of an axis is the dynamic effort {dynamic:g}, not also {static:g}"
            )


def parameters(
    element: Element, ref: str, imp: str, length: float, report: ImportReport
) -> Parameters | None:
    """Read MuJoCo's solref and solimp; None unless they differ from those that hold anyway.

    A solimp out of its range is brought into it, as MuJoCo does, and told.

    Args:
        element: The prim.
        ref: Name of the attribute with solref.
        imp: Name of that with solimp.
        length: Unit of its width [m or rad].
        report: Receives what is brought into range.
    """
    found = []
    for name, usual in ((ref, SOLREF), (imp, SOLIMP)):
        values = element.array(name, np.float64).tolist()
        if len(values) > len(usual):
            message = f"attribute '{name}' has {len(values)} numbers, expected at most {len(usual)}"
            raise element.error(message)
        found.append((*values, *usual[len(values) :]))
    if found == [SOLREF, SOLIMP]:
        return None
    (first, second), (low, high, width, middle, power) = found
    if (first > 0.0) != (second > 0.0):
        raise element.error(f"attribute '{ref}': expected two positive numbers, or two that are not")
    inside = (*(min(max(share, 0.0), 1.0) for share in (low, high)), max(width, 0.0))
    inside += (min(max(middle, 0.0), 1.0), max(power, 1.0))
    if inside != (low, high, width, middle, power):
        given, taken = (" ".join(f"{value:g}" for value in values) for values in (found[1], inside))
        report.mended(element.error(f"attribute '{imp}' is out of range: {given}"), f"{taken} is taken")
    low, high, width, middle, power = inside
    # no impedance is wholly 0 or 1, and so no middle
    return (first, second), (low, high, width * length, min(max(middle, 1.0e-4), 0.9999), power)


def equality_options(element: Element, units: Units, report: ImportReport) -> dict[str, Any]:
    """Arguments of a weld or of a point held together that MuJoCo's schema of equalities gives.

    Args:
        element: The joint.
        units: Units of the stage.
        report: Receives remarks.
    """
    options: dict[str, Any] = {}
    if not any(name.startswith("MjcEquality") for name in element.schemas):
        return options
    found = parameters(element, "mjc:solref", "mjc:solimp", units.length, report)
    if found is not None:
        options["solref"], options["solimp"] = found
    scale = element.number("mjc:torqueScale", least=0.0)
    if scale is not None:
        options["torque_scale"] = scale * units.length
    return options


# -- shapes --------------------------------------------------------------------------------------------------


def is_trigger(element: Element) -> bool:
    """Whether a collider only tells of what is inside it."""
    return "PhysxTriggerAPI" in element.schemas


def thickness(element: Element, units: Units, report: ImportReport) -> float | None:
    """Distance from its geometry at which a shape touches [m], None if nothing says."""
    for name in ("mjc:margin", "newton:contactMargin", "physxCollision:restOffset"):
        value = element.number(name, endless=True)
        if value is None or math.isinf(value):
            continue
        if value < 0.0:
            report.unsupported(element, f"'{name}' is negative: shapes do not touch within their geometry")
            return None
        return value * units.length
    return None


def contact_fields(
    element: Element, spin: tuple[float | None, float | None], units: Units, report: ImportReport
) -> dict[str, Any]:
    """Values of the builder's lists of shapes, without "shape_", that MuJoCo's schema of colliders gives.

    Args:
        element: The collider.
        spin: Torsional and rolling friction of its material, MuJoCo's [m].
        units: Units of the stage.
        report: Receives remarks.
    """
    fields: dict[str, Any] = {}
    found = parameters(element, "mjc:solref", "mjc:solimp", units.length, report)
    if found is not None:
        fields["solref"], fields["solimp"] = found
    condim, priority = (_whole(element, f"mjc:{name}") for name in ("condim", "priority"))
    if condim not in (None, 1, 3, 4, 6):
        raise element.error(f"attribute 'mjc:condim' is {condim}, expected 1, 3, 4 or 6")
    if condim == 1:
        fields["condim"] = 1
    if condim in (4, 6):
        fields["mu_torsion"] = 0.005 if spin[0] is None else spin[0]
    if condim == 6:
        fields["mu_rolling"] = 0.0001 if spin[1] is None else spin[1]
    if priority is not None:
        fields["priority"] = priority
    solmix = element.number("mjc:solmix", least=0.0)
    if solmix is not None:
        fields["solmix"] = solmix
    return fields


def _whole(element: Element, name: str) -> int | None:
    value = element.number(name)
    if value is not None and value != int(value):
        raise element.error(f"attribute '{name}' is {value:g}, expected a whole number")
    return None if value is None else int(value)


# -- materials and bodies ------------------------------------------------------------------------------------


def material_fields(element: Element, units: Units, report: ImportReport) -> dict[str, float]:
    """Arguments of `add_shape_*`, and torsional and rolling friction, that a material gives."""
    names = (
        ("ke", "newton:contactStiffness", units.mass),
        ("kd", "newton:contactDamping", units.mass),
        ("kf", "newton:contactFrictionGain", units.mass),
        ("ka", "newton:contactAdhesion", units.length),
        ("mu_torsion", "newton:torsionalFriction", units.length),
        ("mu_rolling", "newton:rollingFriction", units.length),
    )
    fields = dict(_given(element, names))
    soft = dict(
        _given(
            element,
            (
                ("ke", "physxMaterial:compliantContactStiffness", units.mass),
                ("kd", "physxMaterial:compliantContactDamping", units.mass),
            ),
        )
    )
    if soft.get("ke"):
        report.approximated(element, "the compliance of its contacts becomes ke and kd of the shapes")
        fields = soft | fields
    return fields


def spin_friction(element: Element, units: Units) -> tuple[float | None, float | None]:
    """Torsional and rolling friction of a material of MuJoCo's [m], which count by the collider's condim."""
    values = [element.number(f"mjc:{name}friction", least=0.0) for name in ("torsional", "rolling")]
    torsional, rolling = (None if value is None else value * units.length for value in values)
    return torsional, rolling


def _given(element: Element, names: tuple[tuple[str, str, float], ...]) -> Iterator[tuple[str, float]]:
    for field, name, unit in names:
        value = element.number(name, endless=True)
        if value is None or math.isinf(value):
            continue
        if value < 0.0:
            raise element.error(f"attribute '{name}' is {value:g}, expected at least 0")
        yield field, value * unit


def carried_weight(element: Element) -> float:
    """Share of its weight that a body does not feel."""
    if element.flag("physxRigidBody:disableGravity", False):
        return 1.0
    return element.number("mjc:gravcomp", 0.0)


def stated_inertia(element: Element, units: Units) -> np.ndarray | None:
    """Inertia (3, 3) in the prim's axes as Newton's schema writes it; None where it says nothing."""
    values = element.array("newton:inertia", np.float64)
    if not len(values):
        return None
    if len(values) != 6:
        raise element.error(f"attribute 'newton:inertia' has {len(values)} numbers, expected 6")
    xx, yy, zz, xy, xz, yz = values.tolist()
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * units.torque

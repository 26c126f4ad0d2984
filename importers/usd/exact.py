"""What `export_usd` adds to UsdPhysics: attributes of the namespace "newtonsim", see `usd_names`.

They are in SI units whatever those of the stage are. A joint that had to be turned around, because another of
its bodies carries it here, does without them.
"""

from typing import Any

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.usd_names import (
    DOF_ATTRIBUTES,
    DRIVE_ATTRIBUTES,
    FLOATING_ATTRIBUTES,
    FRICTION_ATTRIBUTES,
    NAMESPACE,
    PASSIVE_ATTRIBUTES,
    REFERENCE_ATTRIBUTES,
)
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.records import AxisRecord, Content, ExactJoint, JointRecord
from newtonsim.scene.enums import JointMode, JointType, ShapeFlags
from newtonsim.scene.joint_types import JOINT_KINDS

_AXIS_FIELDS = {**PASSIVE_ATTRIBUTES, **DRIVE_ATTRIBUTES, "act": "act"}
_MAY_BE_ENDLESS = ("limit_lower", "limit_upper", "effort_limit", "effort_lower", "velocity_limit")
_SEVERAL_AXES = [
    kind.name for kind, joint in JOINT_KINDS.items() if joint.axes is None or sum(joint.axes) > 1
]
"""Joints that UsdPhysics knows only as joints of any axes."""


def read_exact(record: JointRecord) -> None:
    """Give a joint the axes and numbers that its attributes say; nothing if it has none."""
    element = record.element
    names = [kind.name for kind in JointType]
    kind = element.token(f"{NAMESPACE}:jointType", "", ["", *names])
    if kind in ("", "FREE", "DISTANCE"):
        return
    if kind in _SEVERAL_AXES:
        record.kind, record.linear, record.angular = "d6", _axes(element, False), _axes(element, True)
    count = len(record.axes)
    dofs = {"ball": 3, "fixed": 0}.get(record.kind, count)
    coords = 4 if record.kind == "ball" else dofs
    axes = {
        field: values
        for field, name in _AXIS_FIELDS.items()
        if len(values := _numbers(element, name, count, field in _MAY_BE_ENDLESS))
    }
    exact = ExactJoint(
        JointType[kind] if kind in _SEVERAL_AXES else None,
        axes,
        {name: v for name in DOF_ATTRIBUTES if len(v := _numbers(element, name, dofs))},
        _references(element, REFERENCE_ATTRIBUTES, count),
        _references(element, FRICTION_ATTRIBUTES, dofs),
        _modes(element, count),
        _numbers(element, "q", coords),
        _numbers(element, "qd", dofs),
        _numbers(element, "swingTwist", 3, endless=True),
    )
    if len(exact.q) != coords or len(exact.qd) != dofs:
        exact.q, exact.qd = np.zeros(0), np.zeros(0)
    record.exact = exact


def write_exact(
    exact: ExactJoint, builder: ModelBuilder, joint: int, coord: int, dof: int, axis: int
) -> None:
    """Put the numbers of a joint into the builder's lists.

    Args:
        exact: The numbers.
        builder: Its last joint is the one.
        joint: Index of the joint.
        coord: First coordinate.
        dof: First degree of freedom.
        axis: First axis.
    """
    for name, values in exact.dofs.items():
        getattr(builder, f"joint_{name}")[dof:] = values.tolist()
    for name, values in exact.axes.items():
        getattr(builder, f"joint_{name}")[axis:] = values.tolist()
    for first, references in ((axis, exact.references), (dof, exact.dry)):
        for name, rows in references.items():
            values = rows[:, 0].tolist() if rows.shape[1] == 1 else [tuple(row) for row in rows.tolist()]
            getattr(builder, f"joint_{name}")[first:] = values
    if exact.modes:
        builder.joint_axis_mode[axis:] = exact.modes
    if exact.kind is not None:
        builder.joint_type[joint] = int(exact.kind)
    if len(exact.swing_twist):
        swing, lower, upper = exact.swing_twist.tolist()
        builder.joint_swing_limit[joint] = swing
        builder.joint_twist_lower[joint], builder.joint_twist_upper[joint] = lower, upper
    if len(exact.q):
        builder.joint_q[coord:], builder.joint_qd[dof:] = exact.q.tolist(), exact.qd.tolist()


def read_floating(element: Element, builder: ModelBuilder, dof: int) -> None:
    """Give the joint that lets a body float, the builder's last one, what the body's attributes say of it."""
    for field, name in FLOATING_ATTRIBUTES.items():
        values = _numbers(element, name, 6)
        if len(values):
            getattr(builder, f"joint_{field}")[dof:] = values.tolist()


def _axes(element: Element, angular: bool) -> list[AxisRecord]:
    """Axes in the order of the coordinates."""
    name = f"{NAMESPACE}:{'angular' if angular else 'linear'}Axes"
    rows = element.array(name, np.float64, 3)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(rows) > 3 or not (lengths > 1.0e-9).all():
        raise element.error(f"attribute '{name}' is {rows.tolist()}, expected up to three axes")
    return [AxisRecord(row, angular) for row in rows / lengths]


def _numbers(element: Element, name: str, count: int, endless: bool = False) -> np.ndarray:
    """An array of one number for each of `count` things, empty if there is none."""
    name = f"{NAMESPACE}:{name}"
    value = element.value(name)
    try:
        values = np.asarray(() if value is None else value, np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise element.error(f"attribute '{name}' holds no numbers: {value!r:.80}") from error
    if len(values) not in (0, count):
        raise element.error(f"attribute '{name}' has {len(values)} entries, expected {count}")
    if np.isnan(values).any() or not (endless or np.isfinite(values).all()):
        raise element.error(f"attribute '{name}' is {values.tolist()}, expected finite numbers")
    return values


def _references(element: Element, names: dict[str, tuple[str, int]], count: int) -> dict[str, np.ndarray]:
    """Parameters of rows by reference by field, one row of numbers for each of `count` things."""
    return {
        field: values.reshape(count, size)
        for field, (name, size) in names.items()
        if len(values := _numbers(element, name, count * size))
    }


def _modes(element: Element, count: int) -> list[int]:
    values = element.array(f"{NAMESPACE}:mode", int).tolist()
    if values and (len(values) != count or not set(values) <= {int(mode) for mode in JointMode}):
        raise element.error(f"attribute '{NAMESPACE}:mode' is {values}, expected {count} of JointMode")
    return values


def read_shape(element: Element, builder: ModelBuilder, shape: int) -> None:
    """Give a shape the friction and flags that its attributes say."""
    for name, attribute in (("mu_torsion", "muTorsion"), ("mu_rolling", "muRolling")):
        value = element.number(f"{NAMESPACE}:{attribute}", least=0.0)
        if value is not None:
            getattr(builder, f"shape_{name}")[shape] = value
    if len(spin := _numbers(element, "spinFriction", 2)):
        builder.shape_spin_friction[shape] = tuple(spin.tolist())
    for attribute, flag in (
        ("meetsShapes", ShapeFlags.COLLIDE_SHAPES),
        ("meetsGround", ShapeFlags.COLLIDE_GROUND),
    ):
        if not element.flag(f"{NAMESPACE}:{attribute}", True):
            builder.shape_flags[shape] &= ~int(flag)


def add_couplings(content: Content, builder: ModelBuilder, report: ImportReport) -> None:
    """Add the polynomials between joint axes that prims without a type stand for."""
    for place in content.places.values():
        element = place.element
        if (
            element.prim.IsPseudoRoot()
            or element.prim.GetTypeName()
            or not element.prim.HasRelationship(f"{NAMESPACE}:coupledJoints")
        ):
            continue
        labels = [place.label_of(path) for path in element.targets(f"{NAMESPACE}:coupledJoints")]
        missing = [label for label in labels if label not in report.joints]
        if missing or len(labels) not in (1, 2):
            raise element.error(f"'{NAMESPACE}:coupledJoints' names {missing or labels}, expected joints")
        axes = element.array(f"{NAMESPACE}:coupledAxes", int).tolist()
        if (len(labels), len(axes)) == (1, 2):
            labels *= 2  # both axes are of one joint, and a relationship has each target once
        if len(axes) != len(labels):
            raise element.error(f"'{NAMESPACE}:coupledAxes' is {axes}, expected {len(labels)} numbers")
        joints = [report.joints[label] for label in labels] + [-1]
        report.constraints[element.label] = builder.add_constraint_coupling(
            joints[0],
            joints[1],
            element.array(f"{NAMESPACE}:coefficients", np.float64).tolist(),
            *axes,
            key=element.label,
            enabled=element.flag(f"{NAMESPACE}:enabled", True),
            **constraint_options(element),
        )


def constraint_options(element: Element) -> dict[str, Any]:
    """Largest force, time constant, solref and solimp of a constraint, where the prim has them."""
    given = {
        "max_force": element.number(f"{NAMESPACE}:maxForce", least=0.0),
        "recovery_time": element.number(f"{NAMESPACE}:recoveryTime", least=0.0),
        "torque_scale": element.number(f"{NAMESPACE}:torqueScale", least=0.0),
    }
    for name, size in (("solref", 2), ("solimp", 5)):
        values = _numbers(element, name, size)
        given[name] = values.tolist() if len(values) else None
    return {name: value for name, value in given.items() if value is not None}

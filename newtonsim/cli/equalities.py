"""What ``newtonsim info`` says of equalities: welds, connected points, loops, what follows something."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import TYPE_CHECKING

from newtonsim.scene.enums import ConstraintType

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.cli.scene import Robot


def equality_lines(robot: Robot) -> list[str]:
    """Return a line for each constraint, each equality of tendons, and each joint that mimics another."""
    builder = robot.builder
    lines = [_constraint(robot, index) for index in range(builder.constraint_count)]
    for index, (first, second) in enumerate(builder.tendon_equality_tendons):
        terms = _polynomial(
            builder.tendon_equality_coefficients[index], builder.tendon_key[second] if second >= 0 else ""
        )
        lines.append(
            f"equality {builder.tendon_equality_key[index] or '(unnamed)'}: stretch of tendon "
            f"{builder.tendon_key[first]} = {terms}{_switch(builder.tendon_equality_enabled[index])}"
        )
    for joint, other, multiplier, offset in builder.joint_mimic:
        follower, leader = builder.joint_key[joint], builder.joint_key[other]
        lines.append(f"{follower} follows {leader}: {multiplier:.4g} q + {offset:.4g}")
    return lines


def _constraint(robot: Robot, index: int) -> str:
    """Return what a constraint connects, and how."""
    builder = robot.builder
    kind = ConstraintType(builder.constraint_type[index])
    if kind == ConstraintType.COUPLING:
        first, second = builder.constraint_coupled_axes[index]
        leader = joint_of(robot, second) if second >= 0 else ""
        text = f"{joint_of(robot, first)} = {_polynomial(builder.constraint_coefficients[index], leader)}"
    else:
        ends = f"{_body(builder, builder.constraint_parent[index])} and "
        ends += _body(builder, builder.constraint_child[index])
        text = f"{_connection(builder, index, kind)} {ends}"
    return f"equality {builder.constraint_key[index]}: {text}{_switch(builder.constraint_enabled[index])}"


def _connection(builder: ModelBuilder, index: int, kind: ConstraintType) -> str:
    """Return how two bodies are connected, up to their names."""
    if kind == ConstraintType.DISTANCE:
        low, high = builder.constraint_distance_lower[index], builder.constraint_distance_upper[index]
        limits = [f"at least {low:.4g} m"] * (low >= 0.0) + [f"at most {high:.4g} m"] * (high >= 0.0)
        return f"distance of {' and '.join(limits)} between"
    linear, angular = builder.constraint_axis_dim[index]
    if linear == 0 and angular in (0, 3):
        return "weld of" if angular == 0 else "connected points of"
    return f"loop joint with {linear} linear and {angular} angular axes between"


def _polynomial(coefficients: Iterable[float], name: str) -> str:
    """Return "0.5 + 2 name - 3 name^2"; without a name only the constant counts."""
    values = [float(value) for value in coefficients]
    powers = [""] if not name else ["", f" {name}", *(f" {name}^{k}" for k in range(2, len(values)))]
    terms = [(value, power) for value, power in zip(values, powers, strict=False) if value]
    text = " + ".join(f"{value:.4g}{power}" for value, power in terms) or "0"
    return text.replace("+ -", "- ")


def _body(builder: ModelBuilder, body: int) -> str:
    return "the world" if body < 0 else str(builder.body_key[body])


def _switch(enabled: int) -> str:
    return "" if enabled else ", switched off"


def joint_of(robot: Robot, axis: int) -> str:
    """Return the file's name of the joint that has an axis; several of a body may be one in the model."""
    builder = robot.builder
    joint = bisect.bisect_right(list(builder.joint_axis_start), axis) - 1
    dof = builder.joint_qd_start[joint] + axis - builder.joint_axis_start[joint]
    names = {first: name for name, first in robot.report.joint_dofs.items()}
    return names.get(dof) or str(builder.joint_key[joint])

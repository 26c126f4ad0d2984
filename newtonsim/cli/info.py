"""``newtonsim info``: the tree of bodies and joints of a robot file."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from newtonsim.builder.tendons import MUSCLE_FORCE, MUSCLE_VMAX
from newtonsim.cli.equalities import equality_lines, joint_of
from newtonsim.cli.scene import Robot, load_robot
from newtonsim.scene.enums import ON_AXIS, ON_BODY, WRAP, GeoType, JointMode, JointType, ShapeFlags

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder

_COLUMNS = {
    "modelled": "modelled",
    "approximated": "approximated",
    "mended": "repaired",
    "deferred": "by a further call",
    "unsupported": "not or partly",
    "ignored": "without effect",
}
"""Column headings for what happens to an element, by the name in `ImportReport.elements`."""


def info(arguments: argparse.Namespace) -> int:
    """Print what a robot file contains and what was not understood, or how it compares with its oracle.

    Returns:
        Exit status: 0, or 1 if the file differs from what its oracle reads.
    """
    if arguments.oracle:
        from newtonsim.fidelity import compare_with_oracle

        found = compare_with_oracle(arguments.file)
        print("\n".join(found.lines()))
        return 0 if found.agrees else 1
    robot = load_robot(arguments.file, arguments.base, still=True)
    print("\n".join(fidelity(robot) if arguments.report else describe(robot)))
    return 0


def fidelity(robot: Robot) -> list[str]:
    """Return the lines of ``newtonsim info --report``: how each kind of element was imported, and why."""
    report = robot.report
    lines = [f"{report.name or robot.path}: {report.format.upper()}"]
    if report.elements:
        rows: list[tuple[str, ...]] = [("element", "in the file", *_COLUMNS.values())]
        for name, counts in sorted(report.elements.items()):
            rows.append((name, *(str(n) for n in (sum(counts.values()), *(counts[k] for k in _COLUMNS)))))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for name, *numbers in rows:
            cells = (text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))
            lines.append("  ".join([name.ljust(widths[0]), *cells]))
    remarks = [f"- {remark}" for remark in robot.grouped_remarks]
    return [*lines, "", *(remarks or ["Everything is modelled as the file says."])]


def describe(robot: Robot) -> list[str]:
    """Return the lines that ``newtonsim info`` prints."""
    builder = robot.builder
    mass, dofs = sum(builder.body_mass), len(builder.joint_qd)
    equalities = equality_lines(robot)
    numbers = (
        ("tendons", builder.tendon_count),
        ("actuators", len(robot.report.actuators)),
        ("equalities", len(equalities)),
    )
    moved = "".join(f"{number} {name}, " for name, number in numbers if number)
    lines = [
        f"{robot.report.name or robot.path}: {robot.report.format.upper()}, {builder.body_count} bodies, "
        f"{builder.joint_count} joints, {dofs} dofs, {moved}{builder.shape_count} shapes, {mass:.4g} kg"
    ]
    for body in range(builder.body_count):
        if body not in builder.joint_child:
            lines += _tree(builder, body, None)
    for joint in range(builder.joint_count):
        if builder.joint_parent[joint] < 0:
            lines += _tree(builder, builder.joint_child[joint], joint)
    lines += [f"static shape {_shape(builder, s)}" for s in _shapes_of(builder, -1)]
    lines += [_tendon(robot, tendon) for tendon in range(builder.tendon_count)]
    lines += [_actuator(builder, entry) for entry in robot.report.actuators]
    lines += equalities
    lines += _extras(robot)
    lines += [f"note: {remark}" for remark in robot.grouped_remarks]
    return lines


def _tree(builder: ModelBuilder, root: int, root_joint: int | None) -> list[str]:
    """Return the lines of a kinematic tree. There is no recursion, so that a chain may be of any length."""
    children: dict[int, list[int]] = {}
    for joint, parent in enumerate(builder.joint_parent):
        children.setdefault(parent, []).append(joint)
    lines, stack = [], [(root, root_joint, 0)]
    while stack:
        body, joint, depth = stack.pop()
        indent = "  " * depth
        if joint is not None:
            lines += [indent + text for text in _joint(builder, joint)]
        shapes = ", ".join(_shape(builder, shape) for shape in _shapes_of(builder, body)) or "no shapes"
        lines.append(f"{indent}* {builder.body_key[body]}: {builder.body_mass[body]:.4g} kg, {shapes}")
        stack += [(builder.joint_child[j], j, depth + 1) for j in reversed(children.get(body, []))]
    return lines


def _joint(builder: ModelBuilder, joint: int) -> list[str]:
    """Return a line for the joint and, where it has several axes, one for each."""
    kind = JointType(builder.joint_type[joint]).name.lower()
    start = builder.joint_axis_start[joint]
    linear, angular = builder.joint_axis_dim[joint]
    axes = [_axis(builder, start + k, k < linear) for k in range(linear + angular)]
    head = f"- {builder.joint_key[joint]}: {kind}"
    return [f"{head}, {axes[0]}"] if len(axes) == 1 else [head, *(f"    {text}" for text in axes)]


def _axis(builder: ModelBuilder, axis: int, linear: bool) -> str:
    """Return the direction, limits, drive and passive terms of an axis."""
    unit, torque = ("m", "N") if linear else ("rad", "N m")
    x, y, z = (f"{float(v):.3g}" for v in builder.joint_axis[axis])
    parts = [f"{'along' if linear else 'about'} ({x} {y} {z})"]
    low, high = builder.joint_limit_lower[axis], builder.joint_limit_upper[axis]
    # Importers write a very large number for "no limit".
    if low > -1e5 or high < 1e5:
        parts.append(f"limits {low:.4g} to {high:.4g} {unit}")
    else:
        parts.append("no limits")
    mode = JointMode(builder.joint_axis_mode[axis])
    ke, kd = builder.joint_target_ke[axis], builder.joint_target_kd[axis]
    if mode == JointMode.TARGET_POSITION:
        parts.append(f"position drive {ke:.4g} {torque}/{unit}, {kd:.4g} {torque} s/{unit}")
    elif mode == JointMode.TARGET_VELOCITY:
        parts.append(f"velocity drive {ke:.4g} {torque} s/{unit}")
    effort = builder.joint_effort_limit[axis]
    least = builder.joint_effort_lower[axis]
    if math.isfinite(least):
        parts.append(f"effort {least:.4g} to {effort:.4g} {torque}")
    elif math.isfinite(effort) and effort < 1e5:
        parts.append(f"effort at most {effort:.4g} {torque}")
    if builder.joint_stiffness[axis]:
        parts.append(f"spring {builder.joint_stiffness[axis]:.4g} {torque}/{unit}")
    return ", ".join(parts)


def _shapes_of(builder: ModelBuilder, body: int) -> list[int]:
    return [shape for shape, owner in enumerate(builder.shape_body) if owner == body]


def _shape(builder: ModelBuilder, shape: int) -> str:
    """Return the kind and size of a shape, in brackets if it collides with nothing."""
    kind = GeoType(builder.shape_geo_type[shape])
    x, y, z = (float(v) for v in builder.shape_geo_scale[shape])
    size = {
        GeoType.SPHERE: f" r {x:.3g}",
        GeoType.BOX: f" {2 * x:.3g} x {2 * y:.3g} x {2 * z:.3g}",
        GeoType.ELLIPSOID: f" {2 * x:.3g} x {2 * y:.3g} x {2 * z:.3g}",
    }.get(kind, f" r {x:.3g} l {2 * y:.3g}")
    if kind in (GeoType.MESH, GeoType.SDF, GeoType.HFIELD, GeoType.PLANE):
        source = builder.shape_geo_src[shape]
        size = f" {len(source.vertices)} vertices" if kind == GeoType.MESH else ""
    text = kind.name.lower() + size
    collides = builder.shape_flags[shape] & (ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)
    return text if collides else f"[{text}]"


def _tendon(robot: Robot, tendon: int) -> str:
    """Return the path of a tendon, what holds it and what pulls it."""
    builder = robot.builder
    start = builder.tendon_start[tendon]
    last = tendon + 1 == builder.tendon_count
    span = range(start, len(builder.tendon_element_kind) if last else builder.tendon_start[tendon + 1])
    kinds = [builder.tendon_element_kind[element] for element in span]
    if ON_AXIS in kinds:
        terms = (
            f"{builder.tendon_element_factor[i]:.4g} {joint_of(robot, builder.tendon_element_axis[i])}"
            for i in span
        )
        parts = [f"fixed, {' + '.join(terms)}"]
    else:
        around = kinds.count(WRAP)
        parts = [f"spatial, through {kinds.count(ON_BODY)} points"]
        if around:
            parts.append(f"around {around} geom{'s' if around > 1 else ''}")
    low, high = builder.tendon_limit_lower[tendon], builder.tendon_limit_upper[tendon]
    if math.isfinite(low) or math.isfinite(high):
        parts.append(f"limits {low:.4g} to {high:.4g}")
    if builder.tendon_stiffness[tendon]:
        parts.append(f"spring {builder.tendon_stiffness[tendon]:.4g} N/m")
    muscle = builder.tendon_muscle[tendon]
    if muscle[MUSCLE_VMAX] > 0.0:
        parts.append(f"muscle of {muscle[MUSCLE_FORCE]:.4g} N")
    return f"tendon {builder.tendon_key[tendon]}: {', '.join(parts)}"


def _actuator(builder: ModelBuilder, entry: dict) -> str:
    """Return what an actuator of the file acts on, and the range of its control."""
    kind, name = entry["target"]
    limits = entry["ctrl_range"]
    if entry["actuator"] is not None:
        limits = builder.actuator_law[entry["actuator"]].control_range
    told = f", control {limits[0]:.4g} to {limits[1]:.4g}" if limits is not None else ""
    on = f" on {kind} {name}" if kind else ""
    return f"actuator {entry['name'] or '(unnamed)'}: {entry['type']}{on}{told}"


def _extras(robot: Robot) -> list[str]:
    """Return lines about keyframes, sites and the time step."""
    builder, lines = robot.builder, []
    if builder.keyframes:
        lines.append(f"keyframes: {', '.join(k['name'] or '(unnamed)' for k in builder.keyframes)}")
    if builder.sites:
        lines.append(f"sites: {', '.join(site['name'] or '(unnamed)' for site in builder.sites)}")
    source = ""
    if "timestep" not in builder.solver_hint:
        source = ", newtonsim's own, since the file gives none"
        source += " (MuJoCo would take 0.002 s)" if robot.report.format == "mjcf" else ""
    lines.append(f"time step: {robot.time_step:.4g} s{source}; shapes in brackets collide with nothing")
    return lines

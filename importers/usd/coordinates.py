"""Where joints stand at the start: coordinates and velocities from those of the bodies."""

import math
from dataclasses import dataclass

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.pose import Pose, quat_from_axis_angle
from newtonsim.importers.usd.forest import Edge
from newtonsim.importers.usd.records import AxisRecord, BodyRecord

_APART = 1.0e-4
"""Distance [m] and angle [rad] from which on bodies count as standing off their joint."""


@dataclass(slots=True, eq=False)
class Placed:
    """A joint of a tree as the builder takes it: from parent to child, with coordinates and velocities."""

    edge: Edge
    frames: tuple[Pose, Pose]
    linear: list[AxisRecord]
    angular: list[AxisRecord]
    directions: list[np.ndarray]
    q: list[float]
    qd: list[float]


def place(edge: Edge, bodies: dict[str, BodyRecord], report: ImportReport) -> Placed:
    """Read the coordinates of a joint off its bodies and move the child to where they put it.

    A joint that is turned around keeps its coordinates: each axis points the other way, and turns follow each
    other in the opposite order.
    """
    joint = edge.joint
    frames = joint.frames[::-1] if edge.turned else joint.frames
    angular = joint.angular[::-1] if edge.turned else joint.angular
    sign = -1.0 if edge.turned else 1.0
    if edge.turned and joint.linear and joint.angular and not _commute(joint.linear, joint.angular):
        report.approximated(
            joint.element,
            "its second body carries the first: its slides are along axes that turn with the second",
        )
    directions = [sign * axis.direction for axis in (*joint.linear, *angular)]
    placed = Placed(edge, frames, joint.linear, angular, directions, [], [])
    parent = None if edge.parent is None else bodies[edge.parent]
    child = bodies[edge.child]
    anchor = frames[0] if parent is None else parent.pose @ frames[0]
    relative = anchor.inverse() @ child.pose @ frames[1]
    count = len(joint.linear)
    if joint.exact is not None and len(joint.exact.q) and not edge.turned:
        placed.q = joint.exact.q.tolist()
    elif joint.stacked:  # their frames meet where all coordinates are zero
        placed.q = [0.0] * len(directions)
    elif joint.kind == "ball":
        placed.q = relative.q.tolist()
    else:
        placed.q = [float(direction @ relative.p) for direction in directions[:count]]
        angles = _angles(relative.q, directions[count:])
        placed.q += [_nearest_turn(angle, axis) for angle, axis in zip(angles, angular)]
    _compare_start(joint.element, placed, report)
    slides = placed.q[:count]
    turn = np.array(placed.q) if joint.kind == "ball" else _turn(directions[count:], placed.q[count:])
    moved = sum((d * s for d, s in zip(directions, slides)), np.zeros(3))
    pose = anchor @ Pose(moved, turn) @ frames[1].inverse()
    _report_gap(joint.element, child.pose, pose, report)
    child.pose = pose
    _set_velocities(placed, anchor, parent, child)
    return placed


def _compare_start(element: object, placed: Placed, report: ImportReport) -> None:
    """Tell where a stated coordinate is not that of the poses."""
    for axis, q in zip((*placed.linear, *placed.angular), placed.q):
        stated = axis.start[0]
        if stated is not None and abs(stated - q) > _APART:
            message = f"its bodies are at {q:.4g}, not at {stated:.4g} as its state says"
            report.approximated(element, message)


def _commute(linear: list[AxisRecord], angular: list[AxisRecord]) -> bool:
    """Whether slides and turns are about one common axis."""
    return len(linear) == 1 and len(angular) == 1 and abs(linear[0].direction @ angular[0].direction) > 0.999


def _turn(directions: list[np.ndarray], angles: list[float]) -> np.ndarray:
    q = Pose.identity().q
    for direction, angle in zip(directions, angles):
        q = quat_multiply(q, quat_from_axis_angle(direction, angle))
    return q


def _angles(q: np.ndarray, directions: list[np.ndarray]) -> list[float]:
    """Angles of turns about up to three different coordinate axes, one after the other."""
    if not directions:
        return []
    if len(directions) == 1:
        return [2.0 * math.atan2(float(q[:3] @ directions[0]), float(q[3]))]
    from scipy.spatial.transform import Rotation

    order = [int(np.argmax(np.abs(direction))) for direction in directions]
    letters = order + [axis for axis in range(3) if axis not in order]
    angles = Rotation.from_quat(q).as_euler("".join("XYZ"[axis] for axis in letters), suppress_warnings=True)
    return [float(angle * direction[axis]) for angle, direction, axis in zip(angles, directions, order)]


def _nearest_turn(angle: float, axis: AxisRecord) -> float:
    """The angle, or a whole turn more or less if that lies within the limits, or nearer to them."""
    angle = math.remainder(angle, 2.0 * math.pi)

    def beyond(value: float) -> float:
        return max(axis.lower - value, value - axis.upper, 0.0)

    return min((angle, angle + 2.0 * math.pi, angle - 2.0 * math.pi), key=beyond)


def _report_gap(element: object, stood: Pose, pose: Pose, report: ImportReport) -> None:
    gap = float(np.linalg.norm(stood.p - pose.p))
    twist = quat_multiply(quat_conjugate(pose.q), stood.q)
    angle = 2.0 * math.atan2(float(np.linalg.norm(twist[:3])), abs(float(twist[3])))
    if gap > _APART or angle > _APART:
        report.approximated(
            element, f"its bodies are {gap:.3g} m and {angle:.3g} rad off the joint and are moved onto it"
        )


def _set_velocities(placed: Placed, anchor: Pose, parent: BodyRecord | None, child: BodyRecord) -> None:
    """Velocities along the axes, and those of the child that follow from them."""
    none = np.zeros(3)
    omega, linear = (none, none) if parent is None else (parent.angular, parent.linear)
    kind = placed.edge.joint.kind
    placed.qd = [0.0] * (3 if kind == "ball" else len(placed.directions))
    stated = [axis.start[1] for axis in (*placed.linear, *placed.angular)]
    moving = any(vector.any() for vector in (omega, linear, child.angular, child.linear))
    if not moving and not any(stated):
        return
    point = child.pose.apply(placed.frames[1].p)
    arm = point - child.pose.apply(child.props.com)
    carried = (
        linear if parent is None else linear + np.cross(omega, point - parent.pose.apply(parent.props.com))
    )
    back = quat_conjugate(anchor.q)
    spin = quat_rotate(back, child.angular - omega)
    slide = quat_rotate(back, child.linear + np.cross(child.angular, arm) - carried)
    count = len(placed.linear)
    moved = np.zeros(3)
    if kind == "ball":
        placed.qd = spin.tolist()
    else:
        rates = [float(direction @ slide) for direction in placed.directions[:count]]
        columns = np.array(axes_now(placed.directions[count:], placed.q[count:])).T
        turns = np.linalg.lstsq(columns, spin, rcond=None)[0] if columns.size else np.zeros(0)
        placed.qd = [own if rate is None else rate for own, rate in zip((*rates, *turns.tolist()), stated)]
        moved = sum((d * rate for d, rate in zip(placed.directions, placed.qd[:count])), moved)
        spin = columns @ np.array(placed.qd[count:]) if columns.size else none
    child.angular = omega + quat_rotate(anchor.q, spin)
    child.linear = carried + quat_rotate(anchor.q, moved) - np.cross(child.angular, arm)


def axes_now(directions: list[np.ndarray], angles: list[float]) -> list[np.ndarray]:
    """Axes of turns that carry each other, in the parent's joint frame."""
    axes, q = [], Pose.identity().q
    for direction, angle in zip(directions, angles):
        axes.append(quat_rotate(q, direction))
        q = quat_multiply(q, quat_from_axis_angle(direction, angle))
    return axes

"""Gains of acceleration drives as those of force drives.

An acceleration drive asks for an acceleration; the inertia that resists along its axis is 1 / (M^-1)_ii, M
the joint-space inertia of its tree (Featherstone 2008, section 3.4, M = sum of J^T I J), taken where the
bodies stand at the start.
"""

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, quat_rotate
from newtonsim.importers.usd.coordinates import Placed, axes_now
from newtonsim.importers.usd.records import BodyRecord


def resisting_inertia(
    root: str | None, joints: list[Placed], bodies: dict[str, BodyRecord]
) -> list[np.ndarray]:
    """Inertia along each axis of each joint of a tree [kg m^2 or kg].

    Args:
        root: The floating body below all joints, None if the tree is held.
        joints: The joints, parents first.
        bodies: All bodies.

    Returns:
        One array per joint; those of ball joints have three entries.
    """
    paths: dict[str | None, list[tuple[int, np.ndarray]]] = {}
    free = 0
    if root is not None:
        base = bodies[root].pose.p
        columns = [_turn(axis, base) for axis in np.eye(3)]
        columns += [np.concatenate([np.zeros(3), axis]) for axis in np.eye(3)]
        paths[root] = list(enumerate(columns))
        free = 6
    starts, count, armature = [], free, [0.0] * free
    for joint in joints:
        starts.append(count)
        columns = _columns(joint, bodies)
        paths[joint.edge.child] = paths.get(joint.edge.parent, []) + [
            (count + number, column) for number, column in enumerate(columns)
        ]
        numbers = [axis.numbers for axis in (*joint.linear, *joint.angular)]
        own = joint.edge.joint.rotor.get("armature", 0.0)
        armature += [one.get("armature", 0.0) for one in numbers] or [own] * len(columns)
        count += len(columns)
    inertia = np.diag(np.array(armature, dtype=np.float64))
    for label, path in paths.items():
        index = [number for number, _ in path]
        if label is None or not path:
            continue
        motion = np.array([column for _, column in path]).T
        inertia[np.ix_(index, index)] += motion.T @ _spatial_inertia(bodies[label]) @ motion
    resistance = 1.0 / np.diag(np.linalg.pinv(inertia)) if count else np.zeros(0)
    ends = [*starts[1:], count]
    return [resistance[start:end] for start, end in zip(starts, ends)]


def _columns(joint: Placed, bodies: dict[str, BodyRecord]) -> list[np.ndarray]:
    """Motion (angular, linear at the world's origin) of the child per unit velocity of each coordinate."""
    above = joint.edge.parent
    anchor = joint.frames[0] if above is None else bodies[above].pose @ joint.frames[0]
    point = bodies[joint.edge.child].pose.apply(joint.frames[1].p)
    if joint.edge.joint.kind == "ball":
        return [_turn(quat_rotate(anchor.q, axis), point) for axis in np.eye(3)]
    count = len(joint.linear)
    slides = [np.append(np.zeros(3), quat_rotate(anchor.q, axis)) for axis in joint.directions[:count]]
    turns = axes_now(joint.directions[count:], joint.q[count:])
    return slides + [_turn(quat_rotate(anchor.q, axis), point) for axis in turns]


def _turn(axis: np.ndarray, point: np.ndarray) -> np.ndarray:
    return np.concatenate([axis, np.cross(point, axis)])


def _spatial_inertia(body: BodyRecord) -> np.ndarray:
    """Spatial inertia (6, 6) about the world's origin."""
    rotation = quat_matrix(body.pose.q)
    c = body.pose.apply(body.props.com)
    cross = np.array([[0.0, -c[2], c[1]], [c[2], 0.0, -c[0]], [-c[1], c[0], 0.0]])
    mass = body.props.mass
    result = np.zeros((6, 6))
    result[:3, :3] = rotation @ body.props.inertia @ rotation.T - mass * cross @ cross
    result[:3, 3:], result[3:, :3] = mass * cross, -mass * cross
    result[3:, 3:] = mass * np.eye(3)
    return result

"""The state of an object, as numbers that can be restored."""

from __future__ import annotations

from typing import NamedTuple

from newtonsim.bullet_world.bodies import Body

REST = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


class ObjectState(NamedTuple):
    """State of an object in the terms of its client, so that it is restored without rounding.

    Attributes:
        base: Position and quaternion of the inertial frame of the root.
        velocity: Its linear and angular velocity in the world.
        joints: Position and velocity of each joint that is not fixed.
        colors: RGBA of each visual shape by link.
    """

    base: tuple
    velocity: tuple
    joints: tuple
    colors: tuple


def capture(item: Body) -> ObjectState:
    """Return the state of an object."""
    client, uid = item.client, item.id
    return ObjectState(
        client.getBasePositionAndOrientation(uid),
        client.getBaseVelocity(uid),
        tuple(state[:2] for state in client.getJointStatesMultiDof(uid, item.movable) or ()),
        tuple((row[1], row[7]) for row in client.getVisualShapeData(uid)),
    )


def apply(item: Body, target: ObjectState) -> bool:
    """Restore the state of an object by writing what differs; return whether it moved."""
    client, uid, now = item.client, item.id, capture(item)
    if now.base != target.base:
        client.resetBasePositionAndOrientation(uid, *target.base)
    if client.getBaseVelocity(uid) != target.velocity:
        client.resetBaseVelocity(uid, *target.velocity)
    for index, old, new in zip(item.movable, now.joints, target.joints):
        if old != new:
            client.resetJointStateMultiDof(uid, index, *new)
    for old, (link, color) in zip(now.colors, target.colors):
        if old != (link, color):
            client.changeVisualShape(uid, link, rgbaColor=color)
    values = [[q for q, _ in state.joints] for state in (now, target)]
    return now.base != target.base or values[0] != values[1]


def stop(item: Body) -> None:
    """Make all velocities of an object zero."""
    client, uid = item.client, item.id
    if client.getBaseVelocity(uid) != REST:
        client.resetBaseVelocity(uid, *REST)
    if item.movable:
        for index, (q, u, *_) in zip(item.movable, client.getJointStatesMultiDof(uid, item.movable) or ()):
            if any(u):
                client.resetJointStateMultiDof(uid, index, q, [0.0] * len(u))

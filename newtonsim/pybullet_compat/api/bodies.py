"""Bodies: how many there are, where they are, how fast they move, and what their joints are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate, transform_multiply
from newtonsim.pybullet_compat.surface.arguments import SEQUENCES, numbers
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.driven_bodies import DrivenBodies
from newtonsim.pybullet_compat.world.plain_kinematics import compose, turned_back

NO_LINK_STATE = "getLinkState failed."
ROUNDING = 1.0e-6
"""Quaternions whose length is one but for this are kept: what was read goes back as it was."""


def getNumBodies(client: Client) -> int:
    """Return the number of bodies."""
    return len(client.order)


def getBodyUniqueId(client: Client, serialIndex: int) -> int:
    """Return the unique id of the body at a place in the list, -1 outside it."""
    return client.order[serialIndex] if 0 <= serialIndex < len(client.order) else -1


def getBodyInfo(client: Client, bodyUniqueId: int) -> tuple[bytes, bytes]:
    """Return the names of the base link and of the body."""
    body = client.bodies.get(bodyUniqueId)
    if body is not None:
        return body.links[0].name.encode(), body.description.name.encode()
    if bodyUniqueId not in client.soft_bodies:
        raise error("Couldn't get body info")
    return client.soft_bodies[bodyUniqueId].names()


def syncBodyInfo(client: Client) -> None:
    """Let getBodyUniqueId count bodies by their unique ids, whichever came first."""
    client.order.sort()


def removeBody(client: Client, bodyUniqueId: int) -> None:
    """Remove a body with the constraints on it."""
    client.remove_body(bodyUniqueId)


def getBasePositionAndOrientation(client: Client, bodyUniqueId: int) -> tuple:
    """Return the world position [m] and quaternion xyzw of the base's inertial frame."""
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        if bodyUniqueId not in client.soft_bodies:
            raise error("GetBasePositionAndOrientation failed.")
        return client.soft_bodies[bodyUniqueId].base_pose()
    pose = body.base_coordinates
    if client.num_worlds == 1:
        x, y, z, qx, qy, qz, qw = pose[0].tolist()
        if qw < 0.5:
            return (x, y, z), canonical(qx, qy, qz, qw)
        return (x, y, z), (qx, qy, qz, qw)
    return pose[:, :3].copy(), canonical_rows(pose[:, 3:])


def canonical(x: float, y: float, z: float, w: float) -> tuple[float, float, float, float]:
    """Of q and -q the one that PyBullet reports.

    The scalar part is positive for turns up to 120 degrees, and the largest part of the others beyond.
    """
    lead = w if w > 0.5 or w < -0.5 else max((x, y, z), key=abs)
    return (-x, -y, -z, -w) if lead < 0.0 else (x, y, z, w)


def canonical_rows(q: np.ndarray) -> np.ndarray:
    """Do for quaternions (W, 4) what `canonical` does for one."""
    x, y, z, w = q.T
    size_x, size_y, size_z = np.abs(x), np.abs(y), np.abs(z)
    vector_lead = np.where((size_x >= size_y) & (size_x >= size_z), x, np.where(size_y >= size_z, y, z))
    lead = np.where(np.abs(w) > 0.5, w, vector_lead)
    return q * np.where(lead < 0.0, -1.0, 1.0)[:, None]


def resetBasePositionAndOrientation(client: Client, bodyUniqueId: int, posObj, ornObj) -> None:
    """Put the base's inertial frame somewhere and stop the base.

    Args:
        client: The client.
        bodyUniqueId: The body; unknown ids do nothing.
        posObj: World position (3,) or (W, 3) [m].
        ornObj: Quaternion xyzw (4,) or (W, 4).
    """
    position = numbers(posObj, 3, client, "position needs a 3 coordinates [x,y,z].")
    rotation = numbers(ornObj, 4, client, "orientation needs a 4 coordinates, quaternion [x,y,z,w].")
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        if bodyUniqueId in client.soft_bodies:
            place = np.asarray(position), np.asarray(rotation)
            client.soft_bodies[bodyUniqueId].place(*place, client.chosen)
        return
    if rotation.__class__ is np.ndarray or abs(math.hypot(*rotation) - 1.0) > ROUNDING:
        rotation = _unit(np.asarray(rotation))
    client.read_coordinates()
    target = body.q if body.floating else body.base_pose
    at = client.chosen
    target[at, :3] = position
    target[at, 3:7] = rotation
    if body.floating:
        body.u[at, :6] = 0.0
    body.base_twist[at] = 0.0
    client.coordinates_written(body)


def _unit(rotation: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) of length 1, no rotation in place of zero."""
    norm = np.linalg.norm(rotation, axis=-1, keepdims=True)
    if not np.all(norm > 0.0):
        rotation = np.where(norm > 0.0, rotation, [0.0, 0.0, 0.0, 1.0])
        norm = np.where(norm > 0.0, norm, 1.0)
    return rotation / norm if np.any(np.abs(norm - 1.0) > ROUNDING) else rotation


def getBaseVelocity(client: Client, bodyUniqueId: int) -> tuple:
    """Return the linear [m/s] and angular [rad/s] velocity of the base in the world."""
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        if bodyUniqueId not in client.soft_bodies:
            raise error("getBaseVelocity failed.")
        return client.soft_bodies[bodyUniqueId].base_velocity()
    twist = body.base_rates
    if client.num_worlds == 1:
        wx, wy, wz, vx, vy, vz = twist[0].tolist()
        return (vx, vy, vz), (wx, wy, wz)
    return twist[:, 3:].copy(), twist[:, :3].copy()


def resetBaseVelocity(client: Client, objectUniqueId: int, linearVelocity=None, angularVelocity=None) -> None:
    """Set the velocity of a base in the world.

    A static body of one link moves with it from now on, and carries what lies on it; bases of robots that
    are fixed stay.

    Args:
        client: The client.
        objectUniqueId: The body; unknown ids do nothing.
        linearVelocity: [m/s] (3,) or (W, 3).
        angularVelocity: [rad/s], likewise.
    """
    if linearVelocity is None and angularVelocity is None:
        raise error("expected at least linearVelocity and/or angularVelocity.")
    linear = _velocity(client, linearVelocity, "linearVelocity needs a 3 coordinates [x,y,z].")
    angular = _velocity(client, angularVelocity, "angularVelocity needs a 3 coordinates [x,y,z].")
    body = client.bodies.get(objectUniqueId)
    if body is None:
        if objectUniqueId in client.soft_bodies:
            linear = None if linear is None else np.asarray(linear)
            angular = None if angular is None else np.asarray(angular)
            client.soft_bodies[objectUniqueId].set_velocity(linear, angular, client.chosen)
        return
    client.read_coordinates()
    if not body.floating and len(body.links) > 1:
        return
    velocity, at = body.u if body.floating else body.base_twist, client.chosen
    if linear is not None:
        velocity[at, 3:6] = linear
    if angular is not None:
        velocity[at, :3] = angular
    if not body.floating and velocity.any():
        client.part(DrivenBodies).drive(body)
    client.coordinates_written(body)


def _velocity(client: Client, value, message: str) -> Sequence[float] | np.ndarray | None:
    """A velocity as it was given, None for nothing and for an empty list."""
    if value is None or (value.__class__ not in SEQUENCES and not np.size(value)) or not len(value):
        return None
    return numbers(value, 3, client, message)


def getLinkState(
    client: Client,
    bodyUniqueId: int,
    linkIndex: int,
    computeLinkVelocity: int = 0,
    computeForwardKinematics: int = 0,
) -> tuple | None:
    """Return poses and velocities of a link.

    Returns:
        World position and rotation of the inertial frame, inertial frame in the link frame, world position
        and rotation of the link frame, and with computeLinkVelocity the linear and angular velocity of the
        centre of mass. None for a link that does not exist.

        As in PyBullet, poses are those at the start of the last step (see `Client.lagging_poses`) unless
        computeForwardKinematics asks for the present ones, and velocities the present ones, found in the axes
        of the link and turned as these were then.
    """
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(NO_LINK_STATE if bodyUniqueId >= 0 else f"{NO_LINK_STATE[:-1]}; invalid bodyUniqueId")
    if linkIndex < 0:
        raise error("getLinkState failed; invalid linkIndex")
    if linkIndex >= len(body.links) - 1:
        return None
    if computeForwardKinematics or computeLinkVelocity:
        lagging = _lagging(client, body, computeLinkVelocity, computeForwardKinematics)
    elif (lagging := client.lagging_poses(body)) is None:
        client.read_poses(body)
    return _link_state(client, body, linkIndex + 1, computeLinkVelocity, lagging)


def getLinkStates(
    client: Client,
    bodyUniqueId: int,
    linkIndices,
    computeLinkVelocity: int = 0,
    computeForwardKinematics: int = 0,
) -> tuple:
    """Return `getLinkState` of several links."""
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(NO_LINK_STATE if bodyUniqueId >= 0 else f"{NO_LINK_STATE[:-1]}; invalid bodyUniqueId")
    try:
        indices = list(linkIndices)
    except TypeError:
        raise error("expected a sequence of joint indices") from None
    lagging = _lagging(client, body, computeLinkVelocity, computeForwardKinematics)
    found = []
    for index in indices:
        if index < 0:
            raise error("getLinkState failed; invalid linkIndex")
        inside = index < len(body.links) - 1
        place = index + 1
        found.append(_link_state(client, body, place, computeLinkVelocity, lagging) if inside else None)
    return tuple(found)


def _lagging(client: Client, body: Body, velocity: int, forward: int) -> np.ndarray | None:
    """Poses (W, links, 7) that the links of a body are told to have, None for those of the body.

    What is read of the body agrees with its coordinates then.
    """
    lagging = None if forward else client.lagging_poses(body)
    if lagging is None or velocity:
        client.read_poses(body)
    if forward:
        client.links_placed(body)
    return lagging


def _link_state(client: Client, body: Body, place: int, velocity: int, lagging: np.ndarray | None) -> tuple:
    local_position, local_rotation = body.inertial_tuples[place]
    poses = body.pose if lagging is None else lagging
    if client.num_worlds > 1:
        pose = poses[:, place].astype(np.float64)
        frame = transform_multiply(pose, body.inverse_inertial[place])
        state = (pose[:, :3], canonical_rows(pose[:, 3:]), local_position, local_rotation)
        state += (frame[:, :3], canonical_rows(frame[:, 3:]))
        if velocity:
            turned = body.twist[:, place].copy().reshape(-1, 2, 3)
            if lagging is not None:
                turn = quat_multiply(pose[:, 3:], quat_conjugate(body.pose[:, place, 3:]))
                turned = quat_rotate(turn[:, None], turned)
            state += (turned[:, 1], turned[:, 0])
        return state
    x, y, z, a, b, c, d = poses[0, place].tolist()
    position, rotation = (x, y, z), canonical(a, b, c, d) if d < 0.5 else (a, b, c, d)
    if body.centred[place]:
        frame_position, frame_rotation = position, rotation
    else:
        frame_position, frame_rotation = compose(position, rotation, *body.inverse_tuples[place])
        if frame_rotation[3] < 0.5:
            frame_rotation = canonical(*frame_rotation)
    state = (position, rotation, local_position, local_rotation, frame_position, frame_rotation)
    if velocity:
        wx, wy, wz, vx, vy, vz = body.twist[0, place].tolist()
        if lagging is None:
            return (*state, (vx, vy, vz), (wx, wy, wz))
        present = body.pose[0, place, 3:].tolist()
        if present == [a, b, c, d]:  # most links of a scene do not turn
            return (*state, (vx, vy, vz), (wx, wy, wz))
        return state + turned_back((a, b, c, d), present, (vx, vy, vz), (wx, wy, wz))
    return state

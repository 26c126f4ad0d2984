"""Joints: definitions, states, sensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.pybullet_compat.api.bodies import canonical
from newtonsim.pybullet_compat.api.joint_groups import OUT_OF_RANGE, is_empty, joint_group, joint_list
from newtonsim.pybullet_compat.surface.arguments import LARGEST, NOT_NUMBERS, SEQUENCES, check_rows, sized
from newtonsim.pybullet_compat.surface.constants import JOINT_PRISMATIC, JOINT_REVOLUTE, JOINT_SPHERICAL
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.plain_kinematics import NO_TURN, rotated

NO_FORCE = (0.0,) * 6
NO_JOINT_STATE = "getJointState failed."
NO_SUCH_BODY = "getJointState failed; invalid bodyUniqueId"


def getNumJoints(client: Client, bodyUniqueId: int) -> int:
    """Return the number of joints of a body, 0 for unknown ones."""
    body = client.bodies.get(bodyUniqueId)
    return 0 if body is None else len(body.links) - 1


def computeDofCount(client: Client, bodyUniqueId: int) -> int:
    """Return the number of velocities of the joints of a body; the base does not count."""
    body = client.bodies.get(bodyUniqueId)
    return 0 if body is None else sum(body.u_count[1:])


def getJointInfo(client: Client, bodyUniqueId: int, jointIndex: int) -> tuple:
    """Return the definition of a joint as PyBullet's 17 fields."""
    body = client.bodies.get(bodyUniqueId)
    if body is None or not 0 <= jointIndex < len(body.links) - 1:
        raise error("GetJointInfo failed.")
    known = body.joint_infos.get(jointIndex)
    if known is None:
        known = body.joint_infos[jointIndex] = _joint_info(body, jointIndex)
    return known


def _joint_info(body: Body, jointIndex: int) -> tuple:
    place = jointIndex + 1
    link, parent = body.links[place], body.links[body.parents[place]]
    fixed = body.u_count[place] == 0
    q_index, u_index = _reported_indices(body, place)
    before, _ = body.joint_frames(place)
    turn = quat_multiply(
        quat_conjugate(link.inertial_pose.q),
        quat_multiply(quat_conjugate(link.joint_pose.q), parent.inertial_pose.q),
    )
    turn = canonical(*turn.tolist())
    axis = (0.0, 0.0, 0.0)
    if link.joint_type in (JOINT_REVOLUTE, JOINT_PRISMATIC):
        axis = quat_rotate(quat_conjugate(link.inertial_pose.q), link.axis_length * link.axis)
        axis = tuple(axis.tolist())
    lower, upper = link.limits
    return (
        jointIndex,
        link.joint_name.encode(),
        link.joint_type,
        -1 if fixed else q_index,
        -1 if fixed else u_index,
        1 if body.u_count[place] == 1 else 0,
        link.damping,
        link.friction,
        lower,
        upper,
        link.max_force,
        link.max_velocity,
        link.name.encode(),
        axis,
        tuple(before[:3].tolist()),
        turn,
        link.parent,
    )


def _reported_indices(body: Body, place: int) -> tuple[int, int]:
    """First position and velocity of a joint as PyBullet counts, which leaves room for a base always."""
    skip = 0 if body.floating else 1
    return body.q_start[place] + 7 * skip, body.u_start[place] + 6 * skip


def getJointState(client: Client, bodyUniqueId: int, jointIndex: int) -> tuple:
    """Return position, velocity, reaction force and motor torque of a joint.

    Returns:
        Position [rad or m], velocity, (Fx, Fy, Fz, Mx, My, Mz) if a sensor is enabled, and the torque or
        force of the motor in the last step. With several worlds each is an array with a leading axis.
    """
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(NO_JOINT_STATE if bodyUniqueId >= 0 else NO_SUCH_BODY)
    if jointIndex < 0:
        raise error("getJointState failed; invalid jointIndex")
    if jointIndex >= len(body.links) - 1:
        raise error("getJointState failed (2).")
    engine, place = client.engine, jointIndex + 1
    if client.num_worlds == 1 and engine is not None and not body.sensors and body.u_count[place] == 1:
        if engine.unread_coordinates:
            engine.read_coordinates()
        d = body.u_start[place]
        q, u = body.q.item(0, body.q_start[place]), body.u.item(0, d)
        return q, u, NO_FORCE, engine.motor_forces(body).item(0, d)
    return _joint_states(client, body, (jointIndex,))[0]


def getJointStates(client: Client, bodyUniqueId: int, jointIndices: Sequence[int]) -> tuple | None:
    """Return `getJointState` of several joints, None of none."""
    body = client.bodies.get(bodyUniqueId)
    if bodyUniqueId >= 0 and is_empty(jointIndices):
        return None
    if body is None:
        raise error(NO_JOINT_STATE if bodyUniqueId >= 0 else NO_SUCH_BODY)
    group = joint_group(body, jointIndices)
    engine = client.engine
    if client.num_worlds == 1 and engine is not None and not body.sensors and group is not None:
        if engine.unread_coordinates:
            engine.read_coordinates()
        q, u = body.q[0, group.coords].tolist(), body.u[0, group.dofs].tolist()
        return tuple(zip(q, u, repeat(NO_FORCE), engine.motor_forces(body)[0, group.dofs].tolist()))
    return _joint_states(client, body, joint_list(body, jointIndices))


def getJointStateMultiDof(client: Client, bodyUniqueId: int, jointIndex: int) -> tuple:
    """Return position, velocity, reaction force and motor torque of a joint, all of them tuples."""
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(NO_JOINT_STATE if bodyUniqueId >= 0 else NO_SUCH_BODY)
    if jointIndex < 0:
        raise error("getJointState failed; invalid jointIndex")
    if jointIndex >= len(body.links) - 1:
        raise error("getJointState failed (2).")
    return _multi_dof_state(client, body, jointIndex + 1)


def getJointStatesMultiDof(client: Client, bodyUniqueId: int, jointIndices: Sequence[int]) -> tuple | None:
    """Return `getJointStateMultiDof` of several joints, None of none."""
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(NO_JOINT_STATE if bodyUniqueId >= 0 else NO_SUCH_BODY)
    if is_empty(jointIndices):
        return None
    return tuple(_multi_dof_state(client, body, j + 1) for j in joint_list(body, jointIndices))


def _joint_states(client: Client, body: Body, joints: Sequence[int]) -> tuple:
    engine = client.engine
    if engine is not None and engine.unread_coordinates:
        engine.read_coordinates()
    q, u = body.q, body.u
    applied = client.applied(body)
    if client.num_worlds > 1:
        return tuple(_joint_state_of_worlds(client, body, joint + 1, applied) for joint in joints)
    q, u = q[0].tolist(), u[0].tolist()
    motor = None if applied is None else applied[0].tolist()
    states = []
    for joint in joints:
        place = joint + 1
        if not body.u_count[place]:
            force = _reaction(client, body, place) if body.sensors else NO_FORCE
            states.append((0.0, 0.0, force, 0.0))
            continue
        d = body.u_start[place]
        torque = 0.0 if motor is None or body.u_count[place] > 1 else motor[d]
        force = _reaction(client, body, place) if body.sensors else NO_FORCE
        states.append((q[body.q_start[place]], u[d], force, torque))
    return tuple(states)


def _joint_state_of_worlds(client: Client, body: Body, place: int, applied: np.ndarray | None) -> tuple:
    zeros = np.zeros(client.num_worlds)
    force = _reaction(client, body, place)
    if not body.u_count[place]:
        return zeros, zeros.copy(), force, zeros.copy()
    d = body.u_start[place]
    torque = zeros if applied is None else applied[:, d].astype(np.float64)
    return body.q[:, body.q_start[place]].copy(), body.u[:, d].copy(), force, torque


def _multi_dof_state(client: Client, body: Body, place: int) -> tuple:
    if client.num_worlds == 1 and body.u_count[place] == 1:
        position, velocity, force, torque = _joint_states(client, body, (place - 1,))[0]
        return (position,), (velocity,), force, (torque,)
    client.read_coordinates()
    known = client.applied(body)
    columns, dofs = body.columns(place)
    if client.num_worlds == 1:
        turn, rate = body.q[0, columns].tolist(), body.u[0, dofs].tolist()
        if body.links[place].joint_type == JOINT_SPHERICAL:
            x, y, z, w = turn
            rate = rotated((-x, -y, -z, w), rate)
        torque = (0.0,) * len(rate) if known is None else tuple(known[0, dofs].tolist())
        return tuple(turn), tuple(rate), _reaction(client, body, place), torque
    q, u = body.q[:, columns], body.u[:, dofs]
    applied = np.zeros_like(u) if known is None else known[:, dofs].astype(np.float64)
    if body.links[place].joint_type == JOINT_SPHERICAL:
        u = quat_rotate(quat_conjugate(q), u)
    return q.copy(), u.copy(), _reaction(client, body, place), applied


def _reaction(client: Client, body: Body, place: int) -> tuple | np.ndarray:
    """Force and moment that a joint's sensor measures."""
    many, joint = client.num_worlds > 1, place - 1
    measures = joint in body.sensors and (body, joint) not in client.silent_sensors
    forces = client.joint_reaction(body, place) if measures else None
    if forces is None:
        return np.zeros((client.num_worlds, 6)) if many else NO_FORCE
    return forces if many else tuple(forces[0].tolist())


def enableJointForceTorqueSensor(
    client: Client, bodyUniqueId: int, jointIndex: int, enableSensor: int = 1
) -> None:
    """Let getJointState report the reaction force of a joint, or stop it."""
    body = client.bodies.get(bodyUniqueId)
    if body is None or not 0 <= jointIndex < len(body.links) - 1:
        raise error("Error: invalid bodyUniqueId" if bodyUniqueId < 0 else "Error: invalid jointIndex.")
    if not enableSensor:
        body.sensors.discard(jointIndex)
    elif jointIndex not in body.sensors:
        body.sensors.add(jointIndex)
        client.silent_sensors.add((body, jointIndex))  # it measures from the next step on


def resetJointState(
    client: Client, bodyUniqueId: int, jointIndex: int, targetValue: float, targetVelocity: float = 0.0
) -> None:
    """Set position and velocity of a joint with one coordinate; its motor stays as it is."""
    body = joint_body(client, bodyUniqueId, jointIndex)
    place = jointIndex + 1
    if body.u_count[place] != 1:
        return
    if client.engine is not None and client.engine.unread_coordinates:
        client.engine.read_coordinates()
    at = body.world_index if client.num_worlds == 1 else client.chosen
    body.q[at, body.q_start[place]] = targetValue
    body.u[at, body.u_start[place]] = targetVelocity
    client.coordinates_written(body)


def resetJointStateMultiDof(
    client: Client, bodyUniqueId: int, jointIndex: int, targetValue, targetVelocity=None
) -> None:
    """Set position (quaternions of spherical joints) and velocity of a joint.

    Values with another number of coordinates than the joint has do nothing.
    """
    body = joint_body(client, bodyUniqueId, jointIndex)
    _reset_multi_dof(client, body, jointIndex + 1, targetValue, targetVelocity)


def resetJointStatesMultiDof(
    client: Client, bodyUniqueId: int, jointIndices, targetValues, targetVelocities=None
) -> None:
    """Set positions and velocities of several joints, see `resetJointStateMultiDof`."""
    if is_empty(jointIndices):
        return
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(OUT_OF_RANGE)
    joints = joint_list(body, jointIndices)
    velocities = [None] * len(joints) if targetVelocities is None else targetVelocities
    if not len(targetValues) or not len(velocities):
        return
    if len(targetValues) != len(joints) or len(velocities) != len(joints):
        raise error("Number of targetValues and targetVelocities needs to match number of indices.")
    for value, velocity in zip(targetValues, velocities):
        _coordinates(value, client, "targetValues")
        _coordinates(velocity, client, "targetVelocities")
    for joint, value, velocity in zip(joints, targetValues, velocities):
        _reset_multi_dof(client, body, joint + 1, value, velocity)


def _coordinates(value: object, client: Client, name: str) -> np.ndarray | None:
    """Finite coordinates (n,) or (W, n), None for None."""
    if value is None:
        return None
    try:
        array = np.atleast_1d(np.asarray(value, np.float64))
    except (TypeError, ValueError):
        raise error(f"{name}: expected numbers.") from None
    array = np.asarray(sized(array, name, "coordinate"))
    check_rows(array, client, name)
    return array


def _reset_multi_dof(client: Client, body: Body, place: int, value, velocity) -> None:
    columns, dofs = body.columns(place)
    size, count = body.q_count[place], body.u_count[place]
    if client.num_worlds == 1 and count > 1:
        turn = _plain_numbers(value, size)
        rates = (0.0,) * count if velocity is None else _plain_numbers(velocity, count)
        if turn is not None and rates is not None:
            _reset_plainly(client, body, place, turn, rates)
            return
    value = _coordinates(value, client, "targetValue")
    velocity = _coordinates(velocity, client, "targetVelocity")
    if not size or value is None or value.shape not in ((size,), (client.given_worlds, size)):
        return
    client.read_coordinates()
    at = client.chosen
    body.q[at, columns] = value
    speed = np.zeros(count)
    if velocity is not None and velocity.shape in ((count,), (client.given_worlds, count)):
        speed = velocity
    if body.links[place].joint_type == JOINT_SPHERICAL:
        norm = np.linalg.norm(value, axis=-1, keepdims=True)
        value = np.where(norm > 0.0, value, [0.0, 0.0, 0.0, 1.0])
        body.q[at, columns] = value / np.where(norm > 0.0, norm, 1.0)
        speed = quat_rotate(body.q[at, columns], np.broadcast_to(speed, (client.given_worlds, 3)))
    body.u[at, dofs] = speed
    client.coordinates_written(body)


def _plain_numbers(value: Any, size: int) -> tuple[float, ...] | None:
    """The numbers of a list with so many coordinates or velocities, None for anything else."""
    try:
        if value.__class__ in SEQUENCES and len(value) == size and math.hypot(*value) <= LARGEST:
            return tuple(map(float, value))
    except NOT_NUMBERS:
        pass
    return None


def _reset_plainly(
    client: Client, body: Body, place: int, turn: tuple[float, ...], rates: tuple[float, ...]
) -> None:
    """Do what `_reset_multi_dof` does in the only world, in plain numbers."""
    client.read_coordinates()
    if body.links[place].joint_type == JOINT_SPHERICAL:
        length = math.hypot(*turn)
        turn = tuple(part / length for part in turn) if length > 0.0 else NO_TURN
        rates = rotated(turn, rates)
    columns, dofs = body.columns(place)
    body.q[0, columns], body.u[0, dofs] = turn, rates
    client.coordinates_written(body)


def joint_body(client: Client, uid: int, joint: int) -> Body:
    body = client.bodies.get(uid)
    if body is None or not 0 <= joint < len(body.links) - 1:
        raise error(OUT_OF_RANGE)
    return body

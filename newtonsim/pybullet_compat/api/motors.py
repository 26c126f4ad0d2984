"""Motors of joints: servos, torques and PD forces."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Any

import numpy as np

from newtonsim.geometry.transforms import quat_rotate
from newtonsim.pybullet_compat.api.joint_groups import (
    OUT_OF_RANGE,
    JointGroup,
    is_empty,
    joint_group,
    joint_list,
)
from newtonsim.pybullet_compat.api.joints import joint_body
from newtonsim.pybullet_compat.surface.arguments import NOT_NUMBERS, SEQUENCES, SIZES, Size, as_float, sized
from newtonsim.pybullet_compat.surface.constants import (
    PD_CONTROL,
    POSITION_CONTROL,
    STABLE_PD_CONTROL,
    TORQUE_CONTROL,
    VELOCITY_CONTROL,
)
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import (
    SERVO_IMPLICIT_PD,
    SERVO_OFF,
    SERVO_ON,
    UNLIMITED_SPEED,
    Body,
)
from newtonsim.pybullet_compat.world.client import Client

MODES = (POSITION_CONTROL, VELOCITY_CONTROL, TORQUE_CONTROL, PD_CONTROL, STABLE_PD_CONTROL)
DEFAULT_FORCE, DEFAULT_POSITION_GAIN, DEFAULT_VELOCITY_GAIN = 100000.0, 0.1, 1.0
_TARGETS: tuple[tuple[str, Size, float], ...] = (
    ("targetPosition", "coordinate", 0.0),
    ("targetVelocity", "coordinate", 0.0),
    ("force", "bound", DEFAULT_FORCE),
    ("positionGain", "number", DEFAULT_POSITION_GAIN),
    ("velocityGain", "number", DEFAULT_VELOCITY_GAIN),
    ("maxVelocity", "bound", -1.0),
)
"""Targets of setJointMotorControlMultiDof: what they are, and what counts without them."""
_LISTS: tuple[tuple[str, Size, float, str], ...] = (
    ("targetPositions", "coordinate", 0.0, "target positions should match the number of joint indices"),
    ("targetVelocities", "coordinate", 0.0, "target velocies should match the number of joint indices"),
    ("forces", "bound", DEFAULT_FORCE, "forces should match the joint indices"),
    ("positionGains", "number", DEFAULT_POSITION_GAIN, "kps should match the joint indices"),
    ("velocityGains", "number", DEFAULT_VELOCITY_GAIN, "kds should match the number of joint indices"),
)
"""Lists of setJointMotorControlArray: what they are, what counts without them, PyBullet's complaint."""
SPHERICAL_GAIN = 0.2
"""What PyBullet multiplies the position gain of spherical motors with, as measured."""


def setJointMotorControl(
    client: Client,
    bodyUniqueId: int,
    jointIndex: int,
    controlMode: int,
    targetValue: float = 0.0,
    maxForce: float = DEFAULT_FORCE,
    positionGain: float = DEFAULT_POSITION_GAIN,
    velocityGain: float = DEFAULT_VELOCITY_GAIN,
) -> None:
    """Control a joint by the obsolete call, whose one target is that of the mode."""
    position = targetValue if controlMode == POSITION_CONTROL else 0.0
    velocity = targetValue if controlMode == VELOCITY_CONTROL else 0.0
    force = targetValue if controlMode == TORQUE_CONTROL else maxForce
    setJointMotorControl2(
        client, bodyUniqueId, jointIndex, controlMode, position, velocity, force, positionGain, velocityGain
    )


def setJointMotorControl2(
    client: Client,
    bodyUniqueId: int,
    jointIndex: int,
    controlMode: int,
    targetPosition: float = 0.0,
    targetVelocity: float = 0.0,
    force: float = DEFAULT_FORCE,
    positionGain: float = DEFAULT_POSITION_GAIN,
    velocityGain: float = DEFAULT_VELOCITY_GAIN,
    maxVelocity: float = -1.0,
) -> None:
    """Control a joint until told otherwise, or by a torque for the next step.

    POSITION_CONTROL and VELOCITY_CONTROL are bounded constraints on the velocity: the servo asks for
    positionGain (target - q) / dt + (1 - velocityGain) v + velocityGain targetVelocity, with at most `force`.
    A maxVelocity bounds this in POSITION_CONTROL, in later calls too, until VELOCITY_CONTROL lifts it.
    """
    if controlMode not in MODES:
        raise error("Illegal control mode.")
    body = joint_body(client, bodyUniqueId, jointIndex)
    _control(
        client,
        body,
        jointIndex + 1,
        controlMode,
        targetPosition,
        targetVelocity,
        force,
        positionGain,
        velocityGain,
        maxVelocity,
    )


def setJointMotorControlArray(
    client: Client,
    bodyUniqueId: int,
    jointIndices: Sequence[int],
    controlMode: int,
    targetPositions=None,
    targetVelocities=None,
    forces=None,
    positionGains=None,
    velocityGains=None,
) -> None:
    """Control several joints, see `setJointMotorControl2`."""
    if controlMode not in MODES:
        raise error("Illegal control mode.")
    if is_empty(jointIndices):
        return
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(OUT_OF_RANGE)
    group = joint_group(body, jointIndices)
    count = len(jointIndices) if group is None else group.count
    given = (targetPositions, targetVelocities, forces, positionGains, velocityGains)
    targets = [
        default if values is None else _per_joint(client, values, count, name, size, complaint)
        for values, (name, size, default, complaint) in zip(given, _LISTS)
    ]
    is_for_all = client.given_worlds == client.num_worlds
    if (
        group is not None
        and is_for_all
        and controlMode in (POSITION_CONTROL, VELOCITY_CONTROL, TORQUE_CONTROL)
    ):
        _control_group(client, body, group, controlMode, *targets)
        return
    shape = (count,) if client.num_worlds == 1 else (client.given_worlds, count)
    columns = [np.broadcast_to(values, shape).T for values in targets]
    if client.num_worlds == 1:
        columns = [values.tolist() for values in columns]
    for joint, *numbers in zip(joint_list(body, jointIndices), *columns):
        _control(client, body, joint + 1, controlMode, *numbers, -1.0)


def _per_joint(client: Client, values: Any, count: int, name: str, size: Size, complaint: str) -> np.ndarray:
    """One value for each joint (count,), or for each joint in each world (W, count)."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if client.num_worlds == 1 and client.chooses and array.shape == (1, count):
        array = array[0]
    if array.shape != (count,) and (client.num_worlds == 1 or array.shape != (client.given_worlds, count)):
        shapes = "" if client.num_worlds == 1 else f": ({count},) or ({client.given_worlds}, {count})"
        raise error(f"number of {complaint}{shapes}")
    return sized(array, name, size)


def _control_group(
    client: Client, body: Body, group: JointGroup, mode: int, position, velocity, force, kp, kd
) -> None:
    """Do for joints with one coordinate each what `_control` does for one."""
    dofs = group.dofs
    if mode == TORQUE_CONTROL:
        client.ensure().add_torque(body, dofs, force)
        return
    client.settle_motors(body)
    servos = body.servos
    kp = 0.0 if mode == VELOCITY_CONTROL else kp
    if mode == POSITION_CONTROL:
        position = np.minimum(np.maximum(position, group.lower), group.upper)
    views = group.servo_views(servos)
    if views is not None:
        modes, kps, kds, positions, velocities, forces, speeds = views
        modes.fill(SERVO_ON)
        if mode == VELOCITY_CONTROL:
            speeds.fill(UNLIMITED_SPEED)
        for view, values in ((kps, kp), (kds, kd), (velocities, velocity), (forces, force)):
            if values.__class__ is float:
                view.fill(values)
            else:
                view[...] = values
        if mode == POSITION_CONTROL:
            positions[...] = position
    else:
        servos.mode[:, dofs] = SERVO_ON
        if mode == VELOCITY_CONTROL:
            servos.max_speed[:, dofs] = UNLIMITED_SPEED
        servos.kp[:, dofs], servos.kd[:, dofs] = kp, kd
        servos.target_qd[:, dofs], servos.max_force[:, dofs] = velocity, force
        if mode == POSITION_CONTROL:
            servos.target_q[:, group.coords] = position
    client.servos_written()


def _set_servo(
    client: Client,
    body: Body,
    place: int,
    mode: int,
    position: float,
    velocity: float,
    force: float,
    kp: float,
    kd: float,
    top_speed: float,
) -> None:
    """Do what `_control` does in POSITION_CONTROL and VELOCITY_CONTROL, in the only world: made for speed."""
    d, engine = body.u_start[place], client.engine
    if engine is not None:
        engine.settle_motors(body)
        engine.servos_written = True
    modes, kps, kds, positions, velocities, forces, speeds = body.servos.rows()
    modes[d], kds[d], velocities[d], forces[d] = SERVO_ON, kd, velocity, force
    if mode == VELOCITY_CONTROL:
        kps[d], speeds[d] = 0.0, UNLIMITED_SPEED
    else:
        lower, upper = body.limit_pairs[place]
        if lower <= upper:
            position = lower if position < lower else upper if position > upper else position
        kps[d] = kp
        if top_speed > 0.0:
            speeds[d] = top_speed
        positions[body.q_start[place]] = position


def _control(
    client: Client,
    body: Body,
    place: int,
    mode: int,
    position: float,
    velocity: float,
    force: float,
    kp: float,
    kd: float,
    top_speed: float,
) -> None:
    """Set the motor of a joint with one coordinate; spherical joints take the force alone."""
    count = body.u_count[place]
    if count == 0:
        return
    if count > 1:
        given = (np.reshape(value, (-1, 1)) if np.ndim(value) else value for value in (force, kp, kd))
        targets = _checked_targets(client, body, place, mode, None, None, *given, top_speed)
        _control_spherical(client, body, place, mode, *targets)
        return
    if body.worlds == 1 and mode in (POSITION_CONTROL, VELOCITY_CONTROL):
        _set_servo(client, body, place, mode, position, velocity, force, kp, kd, top_speed)
        return
    d, at = body.u_start[place], body.world_index if body.worlds == 1 else client.chosen
    if mode == TORQUE_CONTROL:
        client.ensure().add_torque(body, d, force if body.worlds == 1 else client.spread(force))
        return
    if mode == POSITION_CONTROL:
        lower, upper = body.limit_pairs[place]
        if body.worlds > 1:
            lower, upper = (limit[at] if np.ndim(limit) else limit for limit in (lower, upper))
            position = np.clip(position, lower, upper) if np.all(lower <= upper) else position
        elif lower <= upper:
            position = min(max(position, lower), upper)
    if mode == PD_CONTROL:
        gains = body.pd_gains()
        gains.kp[at, d], gains.kd[at, d], gains.target_qd[at, d] = kp, kd, velocity
        gains.target_q[at, body.q_start[place]] = position
        gains.max_force[at, d] = force
        client.pd_written()
        return
    client.settle_motors(body)
    servos = body.servos
    servos.mode[at, d] = SERVO_ON
    servos.kd[at, d] = kd
    servos.target_qd[at, d] = velocity
    servos.max_force[at, d] = force
    if mode == VELOCITY_CONTROL:
        servos.kp[at, d] = 0.0
        servos.max_speed[at, d] = UNLIMITED_SPEED
    else:
        servos.kp[at, d] = kp
        servos.target_q[at, body.q_start[place]] = position
        if np.all(np.asarray(top_speed) > 0.0):
            servos.max_speed[at, d] = top_speed
        if mode == STABLE_PD_CONTROL:
            servos.mode[at, d] = SERVO_IMPLICIT_PD
    client.servos_written()


def setJointMotorControlMultiDof(
    client: Client,
    bodyUniqueId: int,
    jointIndex: int,
    controlMode: int,
    targetPosition=None,
    targetVelocity=None,
    force=None,
    positionGain=None,
    velocityGain=None,
    maxVelocity: float = -1.0,
    damping=None,
) -> None:
    """Control a joint with any number of coordinates; targets of spherical joints are quaternions."""
    if controlMode not in MODES:
        raise error("Illegal control mode.")
    body = joint_body(client, bodyUniqueId, jointIndex)
    given = (targetPosition, targetVelocity, force, positionGain, velocityGain)
    targets = _checked_targets(client, body, jointIndex + 1, controlMode, *given, maxVelocity)
    _control_multi_dof(client, body, jointIndex + 1, controlMode, targets)


def setJointMotorControlMultiDofArray(
    client: Client,
    bodyUniqueId: int,
    jointIndices: Sequence[int],
    controlMode: int,
    targetPositions=None,
    targetVelocities=None,
    forces=None,
    positionGains=None,
    velocityGains=None,
    maxVelocities=None,
) -> None:
    """Control several joints, see `setJointMotorControlMultiDof`."""
    if controlMode not in MODES:
        raise error("Illegal control mode.")
    if is_empty(jointIndices):
        return
    body = client.bodies.get(bodyUniqueId)
    if body is None:
        raise error(OUT_OF_RANGE)
    joints = joint_list(body, jointIndices)
    defaults = (None, None, None, DEFAULT_POSITION_GAIN, DEFAULT_VELOCITY_GAIN, -1.0)
    given = (targetPositions, targetVelocities, forces, positionGains, velocityGains, maxVelocities)
    lists = []
    for values, default in zip(given, defaults):
        if values is not None and (not hasattr(values, "__len__") or len(values) != len(joints)):
            raise error("number of targets should match the number of joint indices")
        lists.append([default] * len(joints) if values is None else values)
    checked = [
        (joint + 1, _checked_targets(client, body, joint + 1, controlMode, *targets))
        for joint, *targets in zip(joints, *lists)
    ]
    for place, targets in checked:
        _control_multi_dof(client, body, place, controlMode, targets)


def _checked_targets(
    client: Client, body: Body, place: int, mode: int, position, velocity, force, kp, kd, top_speed
) -> tuple:
    """Targets of a joint as what sets its motor takes, checked before anything is changed."""
    given = (position, velocity, force, kp, kd, top_speed)
    if body.u_count[place] <= 1:
        return tuple([_first(client, value, *what) for value, what in zip(given, _TARGETS)])
    array = _numbers(position, *_TARGETS[0][:2])
    free = 0.0 if mode == TORQUE_CONTROL else DEFAULT_FORCE
    return (
        _rotation(client, array),
        _three(client, velocity, *_TARGETS[1]),
        _three(client, force, "force", "bound", free),
        _three(client, kp, *_TARGETS[3]),
        _three(client, kd, *_TARGETS[4]),
    )


def _numbers(value: Any, name: str, size: Size) -> np.ndarray | None:
    """Numbers of any shape, None for None and for an empty list."""
    if value is None:
        return None
    if value.__class__ in SEQUENCES and value:
        try:
            if hypot(*value) <= SIZES[size]:  # quicker than NumPy
                return np.array(value, np.float64)
        except NOT_NUMBERS:
            pass
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise error(f"{name}: expected numbers.") from None
    return np.asarray(sized(array, name, size)) if array.size else None


def _control_multi_dof(client: Client, body: Body, place: int, mode: int, targets: tuple) -> None:
    """Set the motor of a joint to what `_checked_targets` has returned for it."""
    if body.u_count[place] == 1:
        _control(client, body, place, mode, *targets)
    elif body.u_count[place]:
        _control_spherical(client, body, place, mode, *targets)


def _control_spherical(
    client: Client, body: Body, place: int, mode: int, rotation, velocity, force, kp, kd
) -> None:
    columns, dofs = body.columns(place)
    if mode == TORQUE_CONTROL:
        client.read_coordinates()
        torque = quat_rotate(body.q[:, columns], client.spread(force, 3))
        engine = client.ensure()
        for k in range(3):
            engine.add_torque(body, dofs.start + k, torque[:, k])
        return
    at = client.chosen
    servos = body.servos
    if mode in (PD_CONTROL, STABLE_PD_CONTROL):
        gains = servos if mode == STABLE_PD_CONTROL else body.pd_gains()
        gains.kp[at, dofs], gains.kd[at, dofs] = kp, kd
        gains.target_qd[at, dofs], gains.max_force[at, dofs] = velocity, force
        if rotation is not None:
            gains.target_q[at, columns] = rotation
        if mode == STABLE_PD_CONTROL:
            servos.mode[at, dofs] = SERVO_IMPLICIT_PD
            client.servos_written()
        else:
            client.pd_written()
        return
    top = force[..., :1]
    servos.mode[at, dofs] = SERVO_ON if top.any() else SERVO_OFF
    servos.kd[at, dofs], servos.target_qd[at, dofs] = 1.0, 0.0
    servos.max_force[at, dofs], servos.max_speed[at, dofs] = top, UNLIMITED_SPEED
    servos.kp[at, dofs] = 0.0
    if mode == POSITION_CONTROL and rotation is not None:
        servos.kp[at, dofs] = SPHERICAL_GAIN * kp[..., :1]
        servos.target_q[at, columns] = rotation
    client.servos_written()


def _first(client: Client, value: Any, name: str, size: Size, default: float) -> float | np.ndarray:
    """The first of some numbers; one for each world of a table (n, 1), or of (n,) numbers."""
    single = value[0] if value.__class__ is list and len(value) == 1 else value
    if single.__class__ is float or single.__class__ is int:
        return as_float(single, None, name, size=size)
    array = _numbers(value, name, size)
    if array is None:
        return default
    if client.num_worlds > 1 and array.size > 1:
        if array.shape not in ((client.given_worlds,), (client.given_worlds, 1)):
            n = client.given_worlds
            raise error(
                f"Targets of a joint with one coordinate: (1,), ({n},) or ({n}, 1), not {array.shape}."
            )
        return array.ravel()
    return float(array.ravel()[0])


def _three(client: Client, value: Any, name: str, size: Size, default: float) -> np.ndarray:
    """Three numbers of a list with one or three, (3,) or (n, 3)."""
    if value.__class__ is float or value.__class__ is int:
        number = as_float(value, None, name, size=size)
        return np.array((number, number, number))
    array = _numbers(value, name, size)
    if array is None:
        return np.array((default, default, default))
    if array.shape == (3,):
        return array
    array = np.atleast_1d(array)
    _check_worlds(client, array)
    return array if array.shape[-1] == 3 else np.repeat(array[..., :1], 3, axis=-1)


def _rotation(client: Client, array: np.ndarray | None) -> np.ndarray | None:
    """A quaternion at length one (4,) or (n, 4), None if there are not four numbers."""
    if array is None or array.shape[-1:] != (4,):
        return None
    _check_worlds(client, array)
    if array.ndim == 1:
        length = hypot(*array.tolist())
        return array / length if length > 0.0 else np.array([0.0, 0.0, 0.0, 1.0])
    length = np.linalg.norm(array, axis=-1, keepdims=True)
    return np.where(length > 0.0, array, [0.0, 0.0, 0.0, 1.0]) / np.where(length > 0.0, length, 1.0)


def _check_worlds(client: Client, array: np.ndarray) -> None:
    if array.ndim > 1 and (array.ndim > 2 or len(array) not in (1, client.given_worlds)):
        raise error(f"Targets of a spherical joint: one vector, or {client.given_worlds}, not {array.shape}.")

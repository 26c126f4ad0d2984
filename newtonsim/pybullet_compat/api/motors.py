"""Motors of joints: servos, torques and PD forces."""

from __future__ import annotations

from collections.abc import Sequence

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
from newtonsim.pybullet_compat.surface.constants import (
    PD_CONTROL,
    POSITION_CONTROL,
    STABLE_PD_CONTROL,
    TORQUE_CONTROL,
    VELOCITY_CONTROL,
)
from newtonsim.pybullet_compat.surface.errors import error, not_a_number
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
    position = _per_joint(client, targetPositions, count, 0.0, "target positions should match the")
    velocity = _per_joint(client, targetVelocities, count, 0.0, "target velocies should match the")
    force = _per_joint(client, forces, count, DEFAULT_FORCE, "forces should match the joint indices", "")
    kp = _per_joint(
        client, positionGains, count, DEFAULT_POSITION_GAIN, "kps should match the joint indices", ""
    )
    kd = _per_joint(client, velocityGains, count, DEFAULT_VELOCITY_GAIN, "kds should match the")
    targets = (position, velocity, force, kp, kd)
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


def _per_joint(
    client: Client, values, count: int, default: float, what: str, of: str = " number of joint indices"
) -> float | np.ndarray:
    """One value for each joint (count,), for each joint in each world (W, count), or the default of all."""
    if values is None:
        return default
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if client.num_worlds == 1 and client.chooses and array.shape == (1, count):
        array = array[0]
    if array.shape != (count,) and (client.num_worlds == 1 or array.shape != (client.given_worlds, count)):
        shapes = "" if client.num_worlds == 1 else f": ({count},) or ({client.given_worlds}, {count})"
        raise error(f"number of {what}{of}{shapes}")
    if np.isnan(array).any():
        raise not_a_number()
    return array


def _control_group(
    client: Client, body: Body, group: JointGroup, mode: int, position, velocity, force, kp, kd
) -> None:
    """Do for joints with one coordinate each what `_control` does for one."""
    dofs = group.dofs
    if mode == TORQUE_CONTROL:
        client.ensure().add_torque(body, dofs, force)
        return
    servos = body.servos
    body.servo_is_default[dofs] = False
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
    d = body.u_start[place]
    modes, kps, kds, positions, velocities, forces, speeds = body.servos.rows()
    modes[d], kds[d], velocities[d], forces[d] = SERVO_ON, kd, velocity, force
    body.servo_is_default[d] = False
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
    engine = client.engine
    if engine is not None:
        engine.servos_written = True


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
        _control_multi_dof(client, body, place, mode, None, None, force, kp, kd, top_speed, None)
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
    servos = body.servos
    body.servo_is_default[d] = False
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
    kp = DEFAULT_POSITION_GAIN if positionGain is None else positionGain
    kd = DEFAULT_VELOCITY_GAIN if velocityGain is None else velocityGain
    targets = (targetPosition, targetVelocity, force, kp, kd, maxVelocity, damping)
    _control_multi_dof(client, body, jointIndex + 1, controlMode, *targets)


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
        if values is not None and len(values) != len(joints):
            raise error("number of targets should match the number of joint indices")
        lists.append([default] * len(joints) if values is None else values)
    for joint, *targets in zip(joints, *lists):
        _control_multi_dof(client, body, joint + 1, controlMode, *targets, None)


def _control_multi_dof(
    client: Client,
    body: Body,
    place: int,
    mode: int,
    position,
    velocity,
    force,
    kp,
    kd,
    top_speed,
    damping,
) -> None:
    count = body.u_count[place]
    if count == 0:
        return
    if count == 1:
        defaults = (0.0, 0.0, DEFAULT_FORCE, DEFAULT_POSITION_GAIN, DEFAULT_VELOCITY_GAIN, -1.0)
        given = (position, velocity, force, kp, kd, top_speed)
        _control(client, body, place, mode, *(_first(client, *pair) for pair in zip(given, defaults)))
        return
    columns, dofs = body.columns(place)
    if mode == TORQUE_CONTROL:
        torque = _three(force, 0.0)
        client.read_coordinates()
        torque = quat_rotate(body.q[:, columns], client.spread(torque, 3))
        engine = client.ensure()
        for k in range(3):
            engine.add_torque(body, dofs.start + k, torque[:, k])
        return
    at = client.chosen
    servos = body.servos
    body.servo_is_default[dofs] = False
    target = None if position is None or np.shape(position)[-1:] != (4,) else np.asarray(position, np.float64)
    if mode in (PD_CONTROL, STABLE_PD_CONTROL):
        rotated = _three(velocity, 0.0)
        gains = servos if mode == STABLE_PD_CONTROL else body.pd_gains()
        gains.kp[at, dofs], gains.kd[at, dofs] = _three(kp, 0.0), _three(kd, 0.0)
        gains.target_qd[at, dofs], gains.max_force[at, dofs] = rotated, _three(force, DEFAULT_FORCE)
        if target is not None:
            gains.target_q[at, columns] = target / np.linalg.norm(target, axis=-1, keepdims=True)
        if mode == STABLE_PD_CONTROL:
            servos.mode[at, dofs] = SERVO_IMPLICIT_PD
            client.servos_written()
        else:
            client.pd_written()
        return
    top = _three(force, DEFAULT_FORCE)[..., :1]
    servos.mode[at, dofs] = SERVO_ON if np.any(top) else SERVO_OFF
    servos.kd[at, dofs], servos.target_qd[at, dofs] = 1.0, 0.0
    servos.max_force[at, dofs], servos.max_speed[at, dofs] = top, UNLIMITED_SPEED
    servos.kp[at, dofs] = 0.0
    if mode == POSITION_CONTROL and target is not None:
        servos.kp[at, dofs] = SPHERICAL_GAIN * _three(kp, DEFAULT_POSITION_GAIN)[..., :1]
        servos.target_q[at, columns] = target / np.linalg.norm(target, axis=-1, keepdims=True)
    client.servos_written()


def _first(client: Client, value, default: float) -> float | np.ndarray:
    """The first number of a list, or the number; one for each world of a table (n, 1), or of (n,) numbers."""
    if value is None:
        return default
    array = np.asarray(value, np.float64)
    if array.ndim == 0:
        return float(array)
    if client.num_worlds > 1 and array.size > 1:
        if array.shape not in ((client.given_worlds,), (client.given_worlds, 1)):
            n = client.given_worlds
            raise error(
                f"Targets of a joint with one coordinate: (1,), ({n},) or ({n}, 1), not {array.shape}."
            )
        return array.ravel()
    array = array.ravel()
    return float(array[0]) if array.size else default


def _three(value, default: float) -> np.ndarray:
    """Three numbers of a list with one or three, (3,) or (W, 3)."""
    if value is None or np.size(value) == 0:
        return np.full(3, default)
    array = np.atleast_1d(np.asarray(value, np.float64))
    return array if array.shape[-1] == 3 else np.repeat(array[..., :1], 3, axis=-1)

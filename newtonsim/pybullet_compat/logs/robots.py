"""Logs of robots: base, joints and torques of any body, and the log of the Minitaur."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.pybullet_compat.api.joints import getJointStates
from newtonsim.pybullet_compat.logs.records import StepLogger
from newtonsim.pybullet_compat.surface import maths
from newtonsim.pybullet_compat.surface.constants import (
    JOINT_PRISMATIC,
    JOINT_REVOLUTE,
    JOINT_SPHERICAL,
    STATE_LOG_JOINT_TORQUES,
    STATE_LOG_JOINT_USER_TORQUES,
)
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

_BASE = (
    "stepCount,timeStamp,objectId,posX,posY,posZ,oriX,oriY,oriZ,oriW,velX,velY,velZ,omegaX,omegaY,omegaZ,qNum"
)
_MINITAUR_MOTORS = tuple(
    f"motor_{leg}{side}_joint"
    for leg, sides in (("front_left", "RL"), ("back_left", "RL"), ("front_right", "LR"), ("back_right", "LR"))
    for side in sides
)
_MINITAUR_MODE = 6
"""Value in the mode column of the simulated Minitaur's log."""


class GenericRobotLogger(StepLogger):
    """Base and joints of bodies, of the first world.

    Bodies with more joints than there are columns, and those with spherical joints, leave an empty record.

    Args:
        client: The client.
        path: The file.
        bodies: Unique ids, empty for all bodies.
        most_joints: Columns for joints.
        flags: STATE_LOG_JOINT_..., which torques the log has.
    """

    def __init__(self, client: Client, path: str, bodies: Collection[int], most_joints: int, flags: int):
        self._client, self._bodies = client, frozenset(bodies)
        self._most, self._flags = most_joints, flags & STATE_LOG_JOINT_TORQUES
        columns = "qut" if self._flags else "qu"
        names = [*_BASE.split(","), *(f"{c}{i}" for c in columns for i in range(most_joints))]
        super().__init__(path, names, "IfifffffffffffffI" + "f" * (len(columns) * most_joints))
        self._user: dict[int, np.ndarray] = {}

    def before_step(self, engine: Engine) -> None:
        """Remember the torques that this step applies."""
        if self._flags & STATE_LOG_JOINT_USER_TORQUES:
            self._client.read_coordinates()
            self._user = {body.uid: self._user_torques(engine, body) for body in self._logged()}

    def write(self, engine: Engine) -> None:
        """Write a record for every body."""
        for body in self._logged():
            joints = _simple_joints(body)
            if len(joints) > self._most or any(link.joint_type == JOINT_SPHERICAL for link in body.links[1:]):
                self.file.write_nothing()
                continue
            states = np.zeros((3, self._most))
            if joints:
                for column, state in enumerate(getJointStates(self._client, body.uid, joints) or ()):
                    states[:, column] = [_first(state[0]), _first(state[1]), _first(state[3])]
            if self._flags == STATE_LOG_JOINT_USER_TORQUES:
                states[2] = 0.0
            if self._flags & STATE_LOG_JOINT_USER_TORQUES:
                states[2, : len(joints)] += self._user.get(body.uid, 0.0)
            rows = states if self._flags else states[:2]
            base = _base(self._client, body)
            self.file.write(self.step_count, self.time, body.uid, *base, len(joints), *rows.ravel().tolist())

    def _logged(self) -> list[Body]:
        bodies = self._client.bodies
        return [bodies[uid] for uid in sorted(bodies) if not self._bodies or uid in self._bodies]

    def _user_torques(self, engine: Engine, body: Body) -> np.ndarray:
        """Torques of TORQUE_CONTROL and joint damping at the start of a step."""
        places = [joint + 1 for joint in _simple_joints(body)]
        dofs = [body.u_start[place] for place in places]
        applied = engine.joint_torques(body)[0, dofs]
        return applied - body.joint_damping[0, places] * body.u[0, dofs]


class MinitaurLogger(StepLogger):
    """The log of the Minitaur quadruped: orientation, its eight motors, and its forward speed.

    Args:
        client: The client.
        path: The file.
        uid: The quadruped.

    Raises:
        error: The body lacks one of the motors.
    """

    def __init__(self, client: Client, path: str, uid: int):
        self._client, self._uid = client, uid
        body = client.bodies.get(uid)
        joints = {} if body is None else {link.joint_name: i for i, link in enumerate(body.links[1:])}
        missing = [name for name in _MINITAUR_MOTORS if name not in joints]
        if missing:
            raise error(f"Body {uid} is not a Minitaur: it has no joint '{missing[0]}'.")
        self._joints = [joints[name] for name in _MINITAUR_MOTORS]
        motors = [f"{column}{i}" for column in "qu" for i in range(len(_MINITAUR_MOTORS))]
        super().__init__(path, ["t", "r", "p", "y", *motors, "dx", "mo"], "I" + "f" * 20 + "B")

    def write(self, engine: Engine) -> None:
        """Write one record."""
        body = self._client.bodies.get(self._uid)
        if body is None:
            return
        states = getJointStates(self._client, self._uid, self._joints) or ()
        base = _base(self._client, body)
        self.file.write(
            self.step_count,
            *maths.getEulerFromQuaternion(base[3:7]),
            *(_first(state[0]) for state in states),
            *(_first(state[3]) for state in states),
            base[7],
            _MINITAUR_MODE,
        )


def _simple_joints(body: Body) -> list[int]:
    """Indices of the joints that turn about or slide along one axis."""
    return [
        i for i, link in enumerate(body.links[1:]) if link.joint_type in (JOINT_REVOLUTE, JOINT_PRISMATIC)
    ]


def _base(client: Client, body: Body) -> list[float]:
    """Position, quaternion, velocity and angular velocity of the base in the first world."""
    client.read_poses(body)
    twist = body.twist[0, 0].tolist()
    return [*body.pose[0, 0].tolist(), *twist[3:], *twist[:3]]


def _first(value: float | np.ndarray) -> float:
    """Value of the first world."""
    return float(np.ravel(value)[0])

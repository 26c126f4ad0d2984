"""A client of PyBullet without graphics, as several benchmarks use it."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

import numpy as np


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what PyBullet's loader prints, below Python, about each element that it does not know."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        for number, copy in enumerate(kept, start=1):
            os.dup2(copy, number)
            os.close(copy)
        os.close(sink)


class PybulletClient:
    """A world of PyBullet.

    Args:
        dt: Time step [s].
        gravity: Acceleration (3,) [m/s^2].

    Attributes:
        pb: The module.
        client: The physicsClientId.
        options: The same, as an argument of every function.
    """

    def __init__(self, dt: float, gravity: Sequence[float] = (0.0, 0.0, -9.81)):
        import pybullet

        self.pb, self.client = pybullet, pybullet.connect(pybullet.DIRECT)
        self.options = {"physicsClientId": self.client}
        pybullet.setTimeStep(dt, **self.options)
        pybullet.setGravity(*gravity, **self.options)

    def driven(self, body: int) -> list[int]:
        """Revolute and prismatic joints of a body."""
        joints = range(self.pb.getNumJoints(body, **self.options))
        kinds = [self.pb.getJointInfo(body, j, **self.options)[2] for j in joints]
        return [j for j in joints if kinds[j] in (self.pb.JOINT_REVOLUTE, self.pb.JOINT_PRISMATIC)]

    def fastest(self, body: int, joints: Sequence[int]) -> float:
        """Largest entry of the velocities of the base [m/s, rad/s] and of some joints [rad/s]."""
        linear, angular = self.pb.getBaseVelocity(body, **self.options)
        states = self.pb.getJointStates(body, joints, **self.options)
        return float(np.abs([*linear, *angular, *(state[1] for state in states)]).max())

    def close(self) -> None:
        """End the client."""
        self.pb.disconnect(self.client)

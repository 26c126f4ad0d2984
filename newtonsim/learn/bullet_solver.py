"""A solver that steps the worlds of a model in PyBullet, on the host, for the transfer of policies."""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import CheckpointError, ModelError
from newtonsim.kinematics import eval_fk
from newtonsim.learn.bullet_robot import RobotFile, import_pybullet
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.snapshot import HostValues
from newtonsim.scene.state import State
from newtonsim.solvers.base import SolverBase


class PyBulletSolver(SolverBase):
    """Steps each world of a model in a client of PyBullet: one robot on a level ground.

    Contacts are Bullet's, with its default parameters, and the friction that FeatherstoneSolver has between a
    body and the ground. Bullet knows no rotor inertia: links have it in addition to their own. Drives are
    explicit forces, and Bullet's steps are as short as that takes, at most `longest`.

    Not supported: gradients, checkpoints, an up axis other than z, more than one robot in a world, terrain,
    joints other than revolute, prismatic and fixed ones, constraints other than gears, tendons,
    `joint_velocity_limit`, materials other than friction.

    Args:
        model: The model, on the CPU.
        longest: Longest step of PyBullet [s].

    Raises:
        ModelError: PyBullet cannot hold the model.
        ImportError: PyBullet is not installed.
    """

    reads_model = False
    steps_on_host = True

    def __init__(self, model: Model, longest: float = 1.0e-3):
        super().__init__(model)
        self._clients: list[int] = []
        if not model.device.is_cpu:
            raise ModelError(f"PyBullet: expected a model on the CPU, got one on {model.device}")
        self._bullet = bullet = import_pybullet()
        # they own files and clients, which end with them
        self._file = RobotFile(model)
        self._longest = min(longest, self._file.longest_step())
        self._clients = [bullet.connect(bullet.DIRECT) for _ in range(model.world_count)]
        self._robots = [self._file.load(bullet, client) for client in self._clients]
        self._default_control = model.control(clone_variables=False)

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`.

        Args:
            model: The solver's model.
            state_in: State at the start of the step.
            state_out: State at its end; may be `state_in`.
            control: Inputs; None for those of the model.
            contacts: Ignored: PyBullet finds its own.
            dt: Time step [s].

        Raises:
            ModelError: The model is not the solver's.
            NotDifferentiableError: A tape records a step with gradients.
        """
        self.check_model(model)
        control = self.check_step(model, state_in, state_out, control, self._default_control, None, dt)
        self._refuse_gradient(state_in, control)
        worlds, parts = model.world_count, max(1, math.ceil(dt / self._longest - 1.0e-6))
        q, qd = (_rows(array, worlds).copy() for array in (state_in.joint_q, state_in.joint_qd))
        act, efforts = (_rows(array, worlds) for array in (control.joint_act, control.joint_f))
        wrenches = _rows(state_in.body_f, worlds)
        for world, robot in enumerate(self._robots):
            robot.place(q[world], qd[world])
            robot.step(act[world], efforts[world], wrenches[world].reshape(-1, 6), dt, parts)
            robot.read(q[world], qd[world])
        state_out.joint_q.assign(q.reshape(-1))
        state_out.joint_qd.assign(qd.reshape(-1))
        eval_fk(model, state_out.joint_q, state_out.joint_qd, None, state_out)

    def host_memory(self) -> HostValues:
        """See `HostMemory`.

        Raises:
            CheckpointError: Always: PyBullet does not hand out all that its next step depends on.
        """
        raise CheckpointError("PyBulletSolver: a simulation in PyBullet cannot be saved or restored")

    def recall(self, memory: HostValues) -> None:
        """See `host_memory`."""
        raise CheckpointError("PyBulletSolver: a simulation in PyBullet cannot be saved or restored")

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`: steps notice that a robot was placed elsewhere."""

    def close(self) -> None:
        """Disconnect from PyBullet."""
        clients, self._clients = self._clients, []
        for client in clients:
            self._bullet.disconnect(client)

    def __del__(self) -> None:
        self.close()


def _rows(array: wp.array | None, worlds: int) -> np.ndarray:
    """Return an array with one row for each world; empty ones if the model has no such array."""
    return np.zeros((worlds, 0), np.float32) if array is None else array.numpy().reshape(worlds, -1)

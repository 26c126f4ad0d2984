"""Kinematic trees, and how they are moved while the simulation is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_rotate, transform_multiply, transform_point
from newtonsim.kinematics import eval_fk
from newtonsim.scene.enums import JointType

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_ROUNDS = 8
_DAMPING = 0.05
"""Damping of the inverse kinematics, relative to the extent of the chain."""


class Trees:
    """Kinematic trees of a model on the host.

    Attributes:
        root: Root body of each body, shape (bodies,).
        mass: Mass of the whole tree of each body [kg], shape (bodies,).

    Args:
        model: The model.
    """

    def __init__(self, model: Model):
        self._model, count = model, model.body_count
        self._joint_of = np.full(count, -1)
        parent = np.full(count, -1)
        if model.joint_count:
            child = model.joint_child.numpy()
            self._joint_of[child] = np.arange(model.joint_count)
            parent[child] = model.joint_parent.numpy()
        self._parent = parent
        self.root = np.arange(count)
        while (above := parent[self.root] >= 0).any():
            self.root = np.where(above, parent[self.root], self.root)
        mass = model.body_mass.numpy().astype(float) if count else np.zeros(0)
        self.mass = np.bincount(self.root, mass, count)[self.root] if count else mass

    def pull(self, state: State, body: int, local: np.ndarray, target: np.ndarray) -> None:
        """Move a point of a body to a target as far as its tree allows.

        Trees with a free root are moved as a whole, others bend by damped least squares (Buss, "Introduction
        to inverse kinematics", 2004), and bodies without joints are moved alone. Velocities are unchanged.

        Args:
            state: Changed in place.
            body: The body.
            local: The point in the body's frame [m].
            target: Target of the point [m].
        """
        joint = self._joint_of[self.root[body]]
        if joint < 0:
            self._shift(state, int(self.root[body]), target - _place(state, body, local))
        elif self._model.joint_type.numpy()[joint] == JointType.FREE:
            self._shift_base(state, int(joint), target - _place(state, body, local))
        else:
            self._bend(state, body, local, target)

    def _shift(self, state: State, body: int, step: np.ndarray) -> None:
        poses = state.body_q.numpy().copy()
        poses[body, :3] += step
        state.body_q.assign(poses)

    def _shift_base(self, state: State, joint: int, step: np.ndarray) -> None:
        model = self._model
        first = int(model.joint_q_start.numpy()[joint])
        frame = model.joint_X_p.numpy()[joint].astype(float)
        q = state.joint_q.numpy().copy()
        q[first : first + 3] += quat_rotate(quat_conjugate(frame[3:]), step)
        self.place(state, q)

    def _bend(self, state: State, body: int, local: np.ndarray, target: np.ndarray) -> None:
        chain = self._chain(body)
        if not len(chain):
            return
        model = self._model
        coordinate, axis = model.joint_q_start.numpy()[chain], model.joint_axis_start.numpy()[chain]
        lower, upper = model.joint_limit_lower.numpy()[axis], model.joint_limit_upper.numpy()[axis]
        for _ in range(_ROUNDS):
            point = _place(state, body, local)
            columns, reach = self._jacobian(state, chain, axis, point)
            damping = (_DAMPING * max(reach, 1e-3)) ** 2 * np.eye(3)
            step = columns.T @ np.linalg.solve(columns @ columns.T + damping, target - point)
            q = state.joint_q.numpy().copy()
            q[coordinate] = np.clip(q[coordinate] + np.clip(step, -0.3, 0.3), lower, upper)
            self.place(state, q)

    def _chain(self, body: int) -> np.ndarray:
        """Return the hinges and slides between the world and a body."""
        found, kinds = [], self._model.joint_type.numpy()
        while body >= 0 and self._joint_of[body] >= 0:
            joint = self._joint_of[body]
            if kinds[joint] in (JointType.REVOLUTE, JointType.PRISMATIC):
                found.append(joint)
            body = self._parent[body]
        return np.array(found, int)

    def _jacobian(
        self, state: State, chain: np.ndarray, axis: np.ndarray, point: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the Jacobian of a point (3, n), and the longest lever arm."""
        model = self._model
        frame = model.joint_X_p.numpy()[chain].astype(float)
        parent = model.joint_parent.numpy()[chain]
        held = parent >= 0
        frame[held] = transform_multiply(state.body_q.numpy()[parent[held]].astype(float), frame[held])
        along = quat_rotate(frame[:, 3:], model.joint_axis.numpy()[axis].astype(float))
        lever = point - frame[:, :3]
        slides = model.joint_type.numpy()[chain] == JointType.PRISMATIC
        columns = np.where(slides[:, None], along, np.cross(along, lever))
        return columns.T, float(np.linalg.norm(lever, axis=1).max())

    def place(self, state: State, joint_q: np.ndarray) -> None:
        """Write joint coordinates, and the resulting body poses."""
        state.joint_q.assign(joint_q.astype(np.float32))
        alone = self._joint_of < 0
        poses_alone = state.body_q.numpy()[alone].copy()
        eval_fk(self._model, state.joint_q, state.joint_qd, None, state)
        if alone.any():
            poses = state.body_q.numpy().copy()
            poses[alone] = poses_alone
            state.body_q.assign(poses)


def row(array: wp.array, index: int) -> np.ndarray:
    """Copy one row of a device array."""
    return array[index : index + 1].numpy()[0].astype(float)


def _place(state: State, body: int, local: np.ndarray) -> np.ndarray:
    return transform_point(row(state.body_q, body), local)

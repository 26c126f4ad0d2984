"""Inverse weights of bodies, dofs and tendons at zero joint coordinates."""

from __future__ import annotations

import numpy as np

from newtonsim.dynamics import Dynamics
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.kinematics import eval_fk, reference_state
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model
from newtonsim.scene.state import State


def inverse_weights(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the inverse weights of bodies and dofs at zero joint coordinates.

    For a body it is the mean over the three directions of the velocity of its centre of mass per impulse
    there [1/kg] (body_count,), and that of its angular velocity per angular impulse [1/(kg m²)]
    (body_count,); for a dof its velocity per generalised impulse, of the dofs of a ball joint their mean, and
    of those of a free one the means of its turns and of the shifts of the body's origin (joint_dof_count,).

    Source: MuJoCo's documentation, "Computation", on the inverse weights body_invweight0 and dof_invweight0.
    """
    inverse, (block, local) = inverse_inertias(model)
    state = reference_state(model)
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    J = Dynamics(model).jacobian(state).numpy().astype(np.float64)
    start: np.ndarray = model.articulation_start.numpy()
    of_body = np.full(model.body_count, -1)
    child: np.ndarray = model.joint_child.numpy()
    of_body[child] = np.repeat(np.arange(len(start) - 1), np.diff(start))
    moved = np.flatnonzero(of_body >= 0)
    by_body, by_turn = np.zeros(model.body_count), np.zeros(model.body_count)
    for weights, part in ((by_body, J[moved, 3:]), (by_turn, J[moved, :3])):
        weights[moved] = np.einsum("bij,bjk,bik->b", part, inverse[of_body[moved]], part) / 3.0
    by_dof = inverse[block, local, local]
    kinds, first = model.joint_type.numpy(), model.joint_qd_start.numpy()
    three = first[:-1, None] + np.arange(3)
    turns = three[(kinds == JointType.BALL) | (kinds == JointType.FREE)]
    by_dof[turns] = by_dof[turns].mean(axis=1, keepdims=True)
    free = np.flatnonzero(kinds == JointType.FREE)
    own = local[three[free, 0]][:, None] + np.arange(6)
    mobility = inverse[block[three[free, 0]][:, None, None], own[:, :, None], own[:, None, :]]
    shift = _shifts_of_origins(model, state, child[free])
    by_dof[three[free] + 3] = np.einsum("jik,jkl,jil->j", shift, mobility, shift)[:, None] / 3.0
    return by_body, by_turn, by_dof


def _shifts_of_origins(model: Model, state: State, bodies: np.ndarray) -> np.ndarray:
    """Velocity of the origin of bodies per angular velocity and velocity of the centre of mass (n, 3, 6)."""
    shift = np.zeros((len(bodies), 3, 6))
    q: np.ndarray = state.body_q.numpy()[bodies].astype(np.float64)
    r = quat_rotate(q[:, 3:], model.body_com.numpy()[bodies].astype(np.float64))
    shift[:, :, 3:] = np.eye(3)
    shift[:, :, :3] = np.cross(r[:, None, :], np.eye(3)).transpose(0, 2, 1)  # column k is r × e_k
    return shift


def inverse_inertias(model: Model) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the inverses of the joint-space inertias where all joint coordinates are zero.

    Returns:
        Inverses (articulation_count, n, n), block and place in it of every dof (joint_dof_count,).
    """
    M = Dynamics(model).mass_matrix(reference_state(model)).numpy().astype(np.float64)
    start: np.ndarray = model.articulation_start.numpy()
    first: np.ndarray = model.joint_qd_start.numpy()[start]
    size = np.diff(first)
    n = np.arange(M.shape[1])
    M[:, n, n] += n[None] >= size[:, None]
    block = np.repeat(np.arange(len(size)), size)
    return np.linalg.inv(M), (block, np.arange(len(block)) - first[block])

"""Inverse weights of bodies, dofs and tendons at zero joint coordinates."""

from __future__ import annotations

import numpy as np

from newtonsim.dynamics import Dynamics
from newtonsim.kinematics import reference_state
from newtonsim.scene.model import Model


def inverse_weights(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse weights of bodies and dofs at zero joint coordinates.

    For a body it is the mean over the three directions of the velocity of its centre of mass per impulse
    there [1/kg] (body_count,), for a dof its velocity per generalised impulse (joint_dof_count,).

    Source: MuJoCo's documentation, "Computation", on the inverse weights body_invweight0 and dof_invweight0.
    """
    inverse, (block, local) = inverse_inertias(model)
    J = Dynamics(model).jacobian(reference_state(model)).numpy().astype(np.float64)[:, 3:]
    start: np.ndarray = model.articulation_start.numpy()
    of_body = np.full(model.body_count, -1)
    child: np.ndarray = model.joint_child.numpy()
    of_body[child] = np.repeat(np.arange(len(start) - 1), np.diff(start))
    moved = np.flatnonzero(of_body >= 0)
    by_body = np.zeros(model.body_count)
    by_body[moved] = np.einsum("bij,bjk,bik->b", J[moved], inverse[of_body[moved]], J[moved]) / 3.0
    return by_body, inverse[block, local, local]


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

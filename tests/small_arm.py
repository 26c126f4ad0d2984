"""An arm of three joints in NumPy: frames in closed form, the rest by differences and Lagrange."""

import numpy as np
from scipy.spatial.transform import Rotation

PARENTS = [-1, 0, 0]
TURNS = [True, False, True]  # revolute, prismatic, revolute
AXES = np.array([[0.0, 0.0, 1.0], [0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
ANCHORS = np.array([[0.1, -0.2, 0.3], [0.5, 0.1, 0.0], [0.0, 0.4, 0.2]])
ANCHOR_TURNS = Rotation.from_rotvec([[0.3, 0.0, 0.1], [0.0, -0.5, 0.2], [0.4, 0.4, 0.0]])
MASSES = np.array([2.0, 0.7, 1.3])
CENTRES = np.array([[0.2, 0.0, 0.1], [0.0, -0.1, 0.3], [0.1, 0.2, 0.0]])
MOMENTS = np.array([[0.05, 0.08, 0.06], [0.01, 0.02, 0.025], [0.03, 0.01, 0.035]])
GRAVITY = np.array([0.5, -1.0, -9.81])
STEP = 1e-5


def frames(q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rotation matrix and origin of every link frame; the base is the world."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for i, parent in enumerate(PARENTS):
        R, p = found[parent] if parent >= 0 else (np.eye(3), np.zeros(3))
        p = p + R @ ANCHORS[i]
        R = R @ ANCHOR_TURNS[i].as_matrix()
        if TURNS[i]:
            R = R @ Rotation.from_rotvec(q[i] * AXES[i]).as_matrix()
        else:
            p = p + R @ (q[i] * AXES[i])
        found.append((R, p))
    return found


def jacobian(q: np.ndarray, link: int, point: np.ndarray) -> np.ndarray:
    """Angular and linear velocity (6, 3) of a point of a link, in its frame, by unit rates of the joints."""
    J = np.zeros((6, 3))
    for k, d in enumerate(np.eye(3) * STEP):
        (R1, p1), (R0, p0) = frames(q + d)[link], frames(q - d)[link]
        J[:3, k] = Rotation.from_matrix(R1 @ R0.T).as_rotvec() / (2.0 * STEP)
        J[3:, k] = (R1 @ point + p1 - R0 @ point - p0) / (2.0 * STEP)
    return J


def mass_matrix(q: np.ndarray) -> np.ndarray:
    """Joint-space inertia: that of which the kinetic energy is half the square of the rates."""
    H = np.zeros((3, 3))
    for i, (R, _) in enumerate(frames(q)):
        J = jacobian(q, i, CENTRES[i])
        H += J[:3].T @ (R * MOMENTS[i]) @ R.T @ J[:3] + MASSES[i] * J[3:].T @ J[3:]
    return H


def potential(q: np.ndarray) -> float:
    return -sum(m * GRAVITY @ (R @ c + p) for m, c, (R, p) in zip(MASSES, CENTRES, frames(q)))


def forces(q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
    """Generalised forces of a motion by Lagrange's equations."""
    h = 1e-4
    slopes = [(mass_matrix(q + d) - mass_matrix(q - d)) / (2.0 * h) for d in np.eye(3) * h]
    lift = [(potential(q + d) - potential(q - d)) / (2.0 * h) for d in np.eye(3) * h]
    change = np.einsum("kij,k->ij", slopes, qd)
    return mass_matrix(q) @ qdd + change @ qd - 0.5 * np.einsum("kij,i,j->k", slopes, qd, qd) + lift

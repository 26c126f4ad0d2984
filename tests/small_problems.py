"""Robots small enough that their best controls are known, and what NumPy knows of these."""

import math

import numpy as np

import newtonsim

H = 0.05
"""Time of a step [s]."""


def cart(mass: float = 2.0) -> newtonsim.ModelBuilder:
    """A mass on a rail, at rest 1 m from where it should be."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=0.0)
    builder.add_articulation()
    body = builder.add_body(mass=mass, I_m=0.1 * np.eye(3), key="cart")
    builder.add_joint_prismatic(-1, body, axis=(1, 0, 0), armature=0.0, key="rail")
    builder.joint_q[:] = [1.0]
    return builder


def pendulum(effort: float = math.inf) -> newtonsim.ModelBuilder:
    """A point of 1 kg on a rod of 0.5 m that hangs; the angle is that from upright, about the y axis."""
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1), gravity=-9.81)
    builder.add_articulation()
    bob = builder.add_body(mass=1.0, com=(0, 0, 0.5), I_m=1e-4 * np.eye(3), key="bob")
    builder.add_joint_revolute(-1, bob, axis=(0, 1, 0), armature=0.0, key="hinge")
    builder.joint_effort_limit[:] = [effort]
    builder.joint_q[:] = [math.pi]
    return builder


def cart_matrices(mass: float = 2.0, h: float = H) -> tuple[np.ndarray, np.ndarray]:
    """A and B of a step of the cart: velocity first, then position with it."""
    A = np.array([[1.0, h], [0.0, 1.0]])
    return A, np.array([[h * h / mass], [h / mass]])


def best_controls(
    A: np.ndarray, B: np.ndarray, x: np.ndarray, Q: np.ndarray, R: np.ndarray, F: np.ndarray, horizon: int
) -> tuple[np.ndarray, float]:
    """Controls (horizon, m) of least ½ Σ (xᵀ Q x + uᵀ R u) + ½ xᵀ F x, and that cost, by Riccati's equation.

    The states after each control but the last one count by Q, the last one by F.
    """
    P, gains = F, []
    for _ in range(horizon):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        gains.append(K)
        P = Q + A.T @ P @ (A - B @ K)
    controls, cost = [], 0.0
    for t, K in enumerate(reversed(gains)):
        u = -K @ x
        x = A @ x + B @ u
        cost += 0.5 * float(u @ R @ u + x @ (F if t == horizon - 1 else Q) @ x)
        controls.append(u)
    return np.array(controls), cost

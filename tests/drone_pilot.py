"""A pilot for the drone of the zoo, without learning."""

import numpy as np


def hold(obs: np.ndarray) -> np.ndarray:
    """Thrusts that lead a drone to its point: position and velocity over tilt to torques."""
    target, axes = obs[:, :3], obs[:, 3:12].reshape(-1, 3, 3)
    velocity = np.einsum("nij,nj->ni", axes, obs[:, 12:15])
    spin = obs[:, 15:18]
    wanted = 4.0 * target - 3.0 * velocity + np.array([0.0, 0.0, 9.81])
    lift = 0.027 * np.einsum("ni,ni->n", wanted, axes[:, :, 2])
    up = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    lean = np.einsum("nij,ni->nj", axes, np.cross(axes[:, :, 2], up))
    torque = np.array([1.66e-5, 1.67e-5, 2.93e-5]) * (200.0 * lean - 20.0 * spin)
    arm = 0.046 * np.sqrt(0.5)
    x, y = np.array([1, -1, -1, 1]), np.array([-1, -1, 1, 1])
    drag = 0.00596 * np.array([-1, 1, -1, 1])
    mix = np.linalg.inv(np.array([np.ones(4), arm * y, -arm * x, drag]))
    thrust = np.hstack([lift[:, None], torque]) @ mix.T
    return np.clip(thrust / 0.08 - 1.0, -1.0, 1.0).astype(np.float32)

"""Energies of single elements in float64, and forces from them by differences.

Corners are rows of x. With positions x0 before a step dt, energies hold the potential of an implicit damper.
"""

from collections.abc import Callable

import numpy as np

Energy = Callable[[np.ndarray], float]


def forces(energy: Energy, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Minus the slope of an energy with respect to the corners (n, 3)."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        found[at] = -(energy(x + step) - energy(x - step)) / (2.0 * h)
    return found


def spring(x, x0, rest, stiffness, damping, dt) -> float:
    length, before = (np.linalg.norm(y[1] - y[0]) for y in (x, x0))
    return 0.5 * stiffness * (length - rest) ** 2 + 0.5 * damping / dt * (length - before) ** 2


def green(x: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Green's strain of a triangle or tetrahedron with inverse edges at rest."""
    F = (x[1:] - x[0]).T @ inverse
    return 0.5 * (F.T @ F - np.eye(len(inverse)))


def triangle(x, x0, inverse, area, material, activation, dt) -> float:
    ke, ka, kd = material
    strain, before = green(x, inverse), green(x0, inverse)
    elastic = ke * np.sum(strain**2) + 0.5 * ka * (np.trace(strain) - activation) ** 2
    return area * (elastic + 0.5 * kd / dt * np.sum((strain - before) ** 2))


def angle(x: np.ndarray) -> float:
    """Angle between the triangles of corners (o0, v0, v1) and (o1, v1, v0), 0 when flat."""
    o0, o1, v0, v1 = x
    n0, n1 = np.cross(v0 - o0, v1 - o0), np.cross(v1 - o1, v0 - o1)
    e = (v1 - v0) / np.linalg.norm(v1 - v0)
    return np.arctan2(np.cross(n0, n1) @ e, n0 @ n1)


def edge(x, x0, rest_angle, rest_length, stiffness, damping, dt) -> float:
    bend = 0.5 * stiffness * (angle(x) - rest_angle) ** 2
    return rest_length * (bend + 0.5 * damping / dt * (angle(x) - angle(x0)) ** 2)


def tetrahedron(x, x0, inverse, material, activation, dt) -> float:
    mu, lame, damping = material
    F = (x[1:] - x[0]).T @ inverse
    J, change = np.linalg.det(F), green(x, inverse) - green(x0, inverse)
    density = (
        0.5 * mu * (np.sum(F**2) - 3.0) - mu * (J - 1.0) + 0.5 * (lame + mu) * (J - 1.0 - activation) ** 2
    )
    density += damping / dt * (mu * np.sum(change**2) + 0.5 * lame * np.trace(change) ** 2)
    return density / (6.0 * np.linalg.det(inverse))

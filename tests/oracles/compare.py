"""Errors of joint-space results that mean the same for a metre and a radian, a gram and a tonne."""

import numpy as np


def mass_matrix_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest error of an entry, relative to the inertias of its two degrees of freedom."""
    scale = np.sqrt(np.diag(expected))
    return float(np.abs((actual - expected) / np.outer(scale, scale)).max())


def force_error(actual: np.ndarray, expected: np.ndarray, mass_matrix: np.ndarray) -> float:
    """Largest error of a generalised force, after scaling every degree of freedom to unit inertia."""
    scale = 1.0 / np.sqrt(np.diag(mass_matrix))
    return float(np.abs((actual - expected) * scale).max() / np.abs(expected * scale).max())


def acceleration_error(actual: np.ndarray, expected: np.ndarray, mass_matrix: np.ndarray) -> float:
    """Largest error of a generalised acceleration, after the same scaling."""
    scale = np.sqrt(np.diag(mass_matrix))
    return float(np.abs((actual - expected) * scale).max() / np.abs(expected * scale).max())


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest error relative to the largest entry."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def pose_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest of the distance [m] and the angle [rad] between poses (n, 7)."""
    actual, expected = np.atleast_2d(actual), np.atleast_2d(expected)
    distance = np.abs(actual[:, :3] - expected[:, :3]).max()
    # q and -q are the same rotation; the chord is accurate where acos of the dot product is not.
    chord = np.minimum(
        np.linalg.norm(actual[:, 3:] - expected[:, 3:], axis=1),
        np.linalg.norm(actual[:, 3:] + expected[:, 3:], axis=1),
    ).max()
    return float(max(distance, 2.0 * chord))

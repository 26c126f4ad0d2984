"""Principal moments and axes of inertia, also of bodies of revolution."""

import numpy as np

from newtonsim.geometry.transforms import quat_matrix

_ROUND = 1.0e-5
"""Difference of principal moments, as a share of the largest, that counts as none."""


def principal_axes(inertia: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return principal moments and the rotation of their axes into the frame of an inertia.

    Where two moments are equal, rounding alone would choose the axes, on which MuJoCo's forces of a medium
    depend. Then they are those of the only shape of a body, if it has one, and else those of the body itself
    or of one of its shapes, if they are principal axes.

    Args:
        inertia: The inertia (3, 3) [kg m^2].
        turns: Orientations of the shapes of the body (n, 4), quaternions xyzw.

    Returns:
        Moments (3,), the largest first unless two are equal, and a rotation (3, 3) of determinant 1.
    """
    moments, axes = np.linalg.eigh(inertia)
    moments, axes = moments[::-1].copy(), axes[:, ::-1].copy()
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    if np.diff(moments).max() < -_ROUND * moments[0]:
        return moments, axes
    shapes, own = [quat_matrix(turn) for turn in turns], np.eye(3)
    for frame in (*shapes, own) if len(shapes) == 1 else (own, *shapes):
        local = frame.T @ inertia @ frame
        if np.abs(local - np.diag(np.diag(local))).max() <= _ROUND * moments[0]:
            return np.diag(local).copy(), frame
    return moments, axes

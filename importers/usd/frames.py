"""Matrices of prims as rigid frames and stretches."""

from dataclasses import dataclass

import numpy as np

from newtonsim.geometry.transforms import quat_from_matrix, quat_matrix
from newtonsim.importers.geometry.pose import Pose

_SHEAR = 1.0e-4
"""Cosine between the images of two axes from which on a matrix counts as sheared."""

_FLAT = 1.0e-12


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A linear map as rotation times stretch along the local axes.

    Attributes:
        pose: Rotation and place.
        scale: Stretch (3,); all three are negative where the map mirrors, as OpenUSD splits such maps.
        matrix: The linear part (3, 3) itself.
        is_sheared: Whether rotation and stretch only come near the map.
        is_flat: Whether the map takes space to a plane, line or point.
    """

    pose: Pose
    scale: np.ndarray
    matrix: np.ndarray
    is_sheared: bool
    is_flat: bool


def split(matrix: np.ndarray) -> Frame:
    """Split a matrix (4, 4) that maps column vectors."""
    linear = matrix[:3, :3]
    lengths = np.linalg.norm(linear, axis=0)
    if not (lengths > _FLAT).all() or abs(np.linalg.det(linear / np.maximum(lengths, _FLAT))) < _FLAT:
        return Frame(Pose(matrix[:3, 3].copy(), Pose.identity().q), lengths, linear, False, True)
    sign = -1.0 if np.linalg.det(linear) < 0.0 else 1.0
    axes = sign * linear / lengths
    products = axes.T @ axes - np.eye(3)
    sheared = bool(np.abs(products).max() > _SHEAR)
    u, _, v = np.linalg.svd(axes)
    rotation = u @ v
    return Frame(
        Pose(matrix[:3, 3].copy(), quat_from_matrix(rotation)), sign * lengths, linear, sheared, False
    )


def inverse_rigid(pose: Pose) -> np.ndarray:
    """Matrix (4, 4) from the world into a rigid frame."""
    result = np.eye(4)
    result[:3, :3] = quat_matrix(pose.q).T
    result[:3, 3] = -result[:3, :3] @ pose.p
    return result

"""The boxes by which a medium acts on bodies: those with the masses and inertias of the bodies."""

from __future__ import annotations

import numpy as np

from newtonsim.geometry.principal_axes import principal_axes
from newtonsim.geometry.transforms import quat_from_matrix
from newtonsim.scene.model import Model


def medium_boxes(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return half extents of solid boxes with the inertia of bodies, and how they lie in the bodies.

    Returns:
        Half extents (body_count, 3) [m], 0 for bodies without mass or with an inertia that no solid has along
        an axis, and orientations in the body frame (body_count, 4), quaternions xyzw.
    """
    mass = model.body_mass.numpy().astype(np.float64)
    inertia = model.body_inertia.numpy().astype(np.float64).reshape(-1, 3, 3)
    turns = model.shape_transform.numpy()[:, 3:] if model.shape_count else np.zeros((0, 4))
    half, axes = np.zeros((model.body_count, 3)), np.tile((0.0, 0.0, 0.0, 1.0), (model.body_count, 1))
    known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    for body in np.flatnonzero(mass > 0.0):
        own = turns[model.body_shapes.get(int(body), [])]
        per_mass = inertia[body] / mass[body]
        key = per_mass.tobytes() + own.tobytes()
        if key not in known:
            moments, frame = principal_axes(per_mass, own)
            # I_x = m (b_y² + b_z²) / 3, and so on
            squares = 1.5 * (moments.sum() - 2.0 * moments)
            known[key] = np.sqrt(squares.clip(0.0)), quat_from_matrix(frame)
        half[body], axes[body] = known[key]
    return half, axes

"""Drag and lift of triangles in air at rest."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles import aerodynamics as particles_aerodynamics
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model


class Air:
    """Forces of the air on the triangles of a model, if one of them had a coefficient when this was made.

    Args:
        model: The particles and triangles.
        triangles: Kind of index of the triangles.
        particles: Kind of index of the particles.
    """

    def __init__(self, model: Model, triangles: str, particles: str):
        self.model, self._triangles, self._particles = model, triangles, particles
        count, device = model.tri_count, model.device
        self.blows = bool(count and np.any(model.tri_materials.numpy()[:, 3:]))
        if self.blows:
            corners = model.tri_indices.numpy().reshape(-1)
            start = np.concatenate(([0], np.cumsum(np.bincount(corners, minlength=model.particle_count))))
            self._start = put(start, dtype=int, device=device)
            self._triangle = put(np.argsort(corners, kind="stable") // 3, dtype=int, device=device)
            self._share = zeros(count, dtype=wp.vec3, device=device)

    def add(self, launch: Launcher, x: wp.array, v: wp.array, force: wp.array) -> None:
        """Add the forces [N] on each particle at positions x and velocities v."""
        if self.blows:
            launch(
                particles_aerodynamics.find_air_forces,
                self._triangles,
                reads=dict(indices=self.model.tri_indices, materials=self.model.tri_materials, x=x, v=v),
                writes=dict(force=self._share),
            )
            launch(
                particles_aerodynamics.add_air_forces,
                self._particles,
                reads=dict(start=self._start, triangle=self._triangle, force=self._share),
                writes=dict(f=force),
            )

"""The linear system of the adjoint of an implicit step of particles: a sparse matrix of 3 x 3 blocks."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles.adjoint import elements as elements_adjoint
from newtonsim.kernels.particles.adjoint import system as system_adjoint
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.system import starts_of

TOLERANCE = 1.0e-9
"""Size of the residual over that of the right-hand side at which a world is solved."""

CORNERS = {"spring": 2, "tri": 3, "edge": 4, "tet": 4}
"""Kinds of elements and how many particles they have."""


class ImplicitSystem:
    """Kᵀ, with K the slope of the residual with respect to displacements, and the solution λ of Kᵀ λ = g.

    Args:
        model: The particles and elements.

    Attributes:
        view: What kernels see.
        entries: For each kind of element, where its blocks lie in the matrix, by element, row and column.
        starts: Kinds of index, see `Shard`.
        world: World of each particle, world_count for those of none, int, shape (particle_count,).
    """

    def __init__(self, model: Model):
        self.model, device, count = model, model.device, model.particle_count
        owner = model.particle_world.numpy() if count else np.zeros(0, int)
        owner = np.where(owner < 0, model.world_count, owner)
        view = self.view = system_adjoint.SystemView()
        corners = {kind: elements_of(model, kind) for kind in CORNERS}
        self._find_pattern(corners)
        order = np.argsort(owner, kind="stable")
        start = starts_of(owner[order], model.world_count + 1)
        self.world = put(owner, dtype=int, device=device)
        view.particle = put(order, dtype=int, device=device)
        view.world_start = put(start, dtype=int, device=device)
        view.mass = zeros(count, dtype=wp.float64, device=device)
        view.inverse = zeros(count, dtype=wp.mat33d, device=device)
        view.right = zeros(count, dtype=wp.vec3d, device=device)
        view.x = zeros(count, dtype=wp.vec3d, device=device)
        view.r = zeros(count, dtype=wp.vec3d, device=device)
        view.shadow = zeros(count, dtype=wp.vec3d, device=device)
        view.p = zeros(count, dtype=wp.vec3d, device=device)
        view.p_hat = zeros(count, dtype=wp.vec3d, device=device)
        view.v = zeros(count, dtype=wp.vec3d, device=device)
        view.s_hat = zeros(count, dtype=wp.vec3d, device=device)
        view.t = zeros(count, dtype=wp.vec3d, device=device)
        view.iterations = zeros(model.world_count + 1, dtype=int, device=device)
        view.residual = zeros(model.world_count + 1, dtype=wp.float64, device=device)
        self.starts = {"implicit world": np.array([0, model.world_count + 1])}

    def _find_pattern(self, corners: dict[str, np.ndarray]) -> None:
        """Find which blocks of the matrix there are."""
        count, device = self.model.particle_count, self.model.device
        own = np.arange(count)
        keys = [own * count + own]
        for members in corners.values():
            inside = np.where(members >= 0, members, members.max(axis=1, initial=0, keepdims=True))
            keys.append((inside[:, :, None] * count + inside[:, None, :]).reshape(-1))
        blocks, place = np.unique(np.concatenate(keys), return_inverse=True)
        matrix = elements_adjoint.MatrixView()
        matrix.row_start = put(starts_of(blocks // max(count, 1), count), dtype=int, device=device)
        matrix.column = put(blocks % max(count, 1), dtype=int, device=device)
        matrix.value = zeros(len(blocks), dtype=wp.mat33d, device=device)
        self.view.matrix = matrix
        self.view.diagonal = put(place[:count], dtype=int, device=device)
        self.entries: dict[str, wp.array] = {}
        base = count
        for kind, members in corners.items():
            size = members.shape[0] * members.shape[1] ** 2
            self.entries[kind] = put(place[base : base + size], dtype=int, device=device)
            base += size

    def begin(self, launch: Launcher, substep: SubstepView) -> None:
        """Start a matrix with inertia alone."""
        launch(
            elements_adjoint.weigh_particles,
            "particle",
            reads=dict(s=substep, diagonal=self.view.diagonal),
            writes=dict(m=self.view.matrix),
        )

    def solve(self, launch: Launcher, iterations: int) -> None:
        """Solve for the right-hand side in `view.right`; the solution is `view.x`."""
        launch(system_adjoint.invert_diagonal, "particle", writes=dict(s=self.view))
        launch(
            system_adjoint.solve_worlds,
            "implicit world",
            reads=dict(most=int(iterations), tolerance=wp.float64(TOLERANCE)),
            writes=dict(s=self.view),
        )


def elements_of(model: Model, kind: str) -> np.ndarray:
    """Particles of the elements of one kind, edges as (start, opposite corners, end) (n, corners)."""
    if not getattr(model, f"{kind}_count"):
        return np.zeros((0, CORNERS[kind]), int)
    corners = getattr(model, f"{kind}_indices").numpy().reshape(-1, CORNERS[kind])
    return corners[:, [2, 0, 1, 3]] if kind == "edge" else corners

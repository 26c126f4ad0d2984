"""Contact of soft surfaces with each other and with themselves."""

from __future__ import annotations

import warnings

import numpy as np
import warp as wp

from newtonsim.errors import BufferWarning
from newtonsim.kernels.particles import surface_pairs as particles_surface_pairs
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.contacts import OwnKinds
from newtonsim.solvers.particles.grid import ParticleGrid
from newtonsim.solvers.particles.pairs import connected_bodies
from newtonsim.solvers.particles.system import starts_of

_STRETCH = 1.5
"""How much longer than at rest the sides of a triangle may be for all that touches it to be found."""


class SurfacePairs:
    """Contacts between particles and triangles of a model, for meshes much wider than their radii.

    It takes the place of `ParticlePairs` in `XPBDParticles.pairs`. A particle keeps the sum of both radii
    from triangles of other connected bodies, and of its own where `self_contact` says so and it is further
    away at rest. Edges pass each other. The contacts of a world are solved by one thread.

    Args:
        model: The particles.

    Attributes:
        self_contact: Whether a particle meets triangles of its own body, int, shape (particle_count,).
    """

    def __init__(self, model: Model):
        self.model, device, count = model, model.device, model.tri_count
        self.grid = ParticleGrid(model)
        self.body = put(connected_bodies(model), dtype=int, device=device)
        self.self_contact = put(np.ones(model.particle_count), dtype=int, device=device)
        self._rest = wp.clone(model.particle_q, requires_grad=False)
        corners = model.tri_indices.numpy().reshape(-1, 3) if count else np.zeros((0, 3), int)
        points = model.particle_q.numpy()[corners].astype(np.float64)
        spread = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2).max(initial=0.0)
        self._reach = _STRETCH * float(spread) + 4.0 * float(model.particle_max_radius)
        owner = model.particle_world.numpy()[corners[:, 0]]
        start = starts_of(owner, model.world_count)
        self._start = put(start, dtype=int, device=device)
        self._kinds = OwnKinds()
        self._kinds.starts["surface triangle"] = start
        view, shape = particles_surface_pairs.SurfacePairView(), (count, int(particles_surface_pairs.NEAR))
        view.count, view.dropped = (zeros(n, dtype=int, device=device) for n in (count, 1))
        view.particle = zeros(shape, dtype=int, device=device)
        view.weight = zeros(shape, dtype=wp.vec3, device=device)
        view.normal = zeros(shape, dtype=wp.vec3, device=device)
        view.least = zeros(shape, dtype=float, device=device)
        view.push = zeros(shape, dtype=float, device=device)
        view.hold = zeros(shape, dtype=wp.vec3, device=device)
        self.view = view
        self._met: dict[str, object] = {}

    def begin_substep(
        self, launch: Launcher, inv_mass: wp.array, x: wp.array, v: wp.array, dt: float
    ) -> None:
        """Find what comes near each other; see `ParticlePairs.begin_substep`."""
        model, surface = self.model, particles_surface_pairs.SurfaceView()
        surface.corners, surface.world = model.tri_indices, model.particle_world
        surface.body, surface.self_contact, surface.rest = self.body, self.self_contact, self._rest
        surface.radius, surface.mu, surface.inv_mass = model.particle_radius, model.particle_mu, inv_mass
        self.grid.build(launch, x, self._reach)
        self._kinds.of(launch)(
            particles_surface_pairs.find_surface_pairs,
            "surface triangle",
            reads=dict(s=surface, grid=self.grid.view, x=x, v=v, dt=dt),
            writes=dict(pairs=self.view),
        )
        self._met = dict(s=surface, x=x, v=v, dt=dt)

    def sweep(self, launch: Launcher, shift: wp.array) -> None:
        """Solve all contacts once; see `ParticlePairs.sweep`."""
        launch(
            particles_surface_pairs.solve_surface_pairs,
            "world",
            reads=dict(start=self._start, **self._met),
            writes=dict(pairs=self.view, shift=shift),
        )

    def report(self) -> None:
        """Warn of contacts that there was no place for since the last report; reads from the device."""
        dropped = int(self.view.dropped.numpy()[0])
        if dropped:
            self.view.dropped.zero_()
            warnings.warn(
                f"{dropped} contacts between soft surfaces were dropped: there is room for "
                f"{particles_surface_pairs.NEAR} particles on each triangle",
                BufferWarning,
                stacklevel=2,
            )

"""Contact of particles with each other."""

from __future__ import annotations

import warnings

import numpy as np
import warp as wp

from newtonsim.errors import BufferWarning, ModelError
from newtonsim.kernels.particles import pairs as particles_pairs
from newtonsim.kernels.particles.grid import BLOCK_X, BLOCK_Y, BLOCK_Z
from newtonsim.kernels.particles.pairs import MARGIN
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.grid import ParticleGrid


class ParticlePairs:
    """Contacts between the particles of a model, solved by extended position-based dynamics.

    All particles of a world meet each other, and those of the global world all. Particles that elements
    connect into one body meet if `self_contact` says so for both, and unless they are neighbours: at rest,
    that is in `Model.particle_q`, they are farther apart than 1.25 times the sum of their radii. A cloth
    whose radii exceed half the distance of its particles is therefore at rest when it is flat, and still
    meets itself when it folds.

    Args:
        model: The particles.
        room: Most pairs in contact for each particle, on average over a world.

    Attributes:
        self_contact: Whether a particle meets others of its own connected body, int, shape (particle_count,).
        body: Number of the connected body of each particle, -1 for none, shape (particle_count,).
        grid: The grid of the neighbours.

    Raises:
        ModelError: There is room for less than one pair.
    """

    def __init__(self, model: Model, room: int = 10):
        if room < 1:
            raise ModelError(
                f"pairs of particles: expected room for at least 1 pair per particle, got {room}"
            )
        self.model, device, count = model, model.device, model.particle_count
        self.grid = ParticleGrid(model)
        body = connected_bodies(model)
        self._plain = bool(np.all(body < 0))
        self.body = put(body, dtype=int, device=device)
        self.self_contact = put(np.ones(count), dtype=int, device=device)
        self._rest = wp.clone(model.particle_q, requires_grad=False) if count else None
        self._cohesion = cohesion = float(model.particle_cohesion.numpy().max(initial=0.0)) if count else 0.0
        widest = 2.0 * float(model.particle_max_radius)
        self._reach = (1.0 + float(MARGIN)) * widest + cohesion
        starts = self.grid.kinds.starts
        starts["block of cells"] = starts["cell"] // (8 * int(BLOCK_X) * int(BLOCK_Y) * int(BLOCK_Z))
        places = room * (starts["particle"] - starts["particle"][0])
        view = particles_pairs.PairView()
        view.first = put(places, dtype=int, device=device)
        view.count, view.start, view.cell = (zeros(count, dtype=int, device=device) for _ in range(3))
        view.listed = zeros((count, int(particles_pairs.LISTED)), dtype=int, device=device)
        view.pair = zeros(int(places[-1]), dtype=particles_pairs.Pair, device=device)
        view.grain = zeros(count, dtype=particles_pairs.Grain, device=device)
        view.point = zeros(count, dtype=wp.vec4, device=device)
        view.dropped = zeros(1, dtype=int, device=device)
        self.view = view
        self._warned = False

    def _grains(self, inv_mass: wp.array) -> particles_pairs.GrainView:
        """What the model says now, whose arrays may have been replaced."""
        grains, model = particles_pairs.GrainView(), self.model
        grains.inv_mass, grains.radius, grains.mu = inv_mass, model.particle_radius, model.particle_mu
        grains.cohesion, grains.world = model.particle_cohesion, model.particle_world
        grains.body, grains.self_contact, grains.rest = self.body, self.self_contact, self._rest
        grains.widest_cohesion = self._cohesion
        grains.plain = int(self._plain and not self.grid.shared)
        grains.mixed = int(self.grid.shared)
        return grains

    def begin_substep(
        self, launch: Launcher, inv_mass: wp.array, x: wp.array, v: wp.array, dt: float
    ) -> None:
        """Find the pairs that come near each other.

        Args:
            launch: For the worlds.
            inv_mass: Inverse masses, 0 for particles that nothing moves [1/kg].
            x: Predicted positions [m].
            v: Velocities that led to them [m/s].
            dt: Length of the substep [s].
        """
        self.grid.build(launch, x, self._reach)
        launch = self.grid.kinds.of(launch)
        grid, view, grains = self.grid.view, self.view, self._grains(inv_mass)
        launch(
            particles_pairs.gather_points,
            "particle",
            reads=dict(grid=grid, grains=grains, x=x, v=v, dt=dt),
            writes=dict(pairs=view),
        )
        launch(
            particles_pairs.count_pairs,
            "particle",
            reads=dict(grid=grid, grains=grains, point=view.point, cell=view.cell),
            writes=dict(listed=view.listed, count=view.count),
        )
        self.grid.scan(launch, "group", view.count, view.first, view.start)
        launch(
            particles_pairs.write_pairs,
            "particle",
            reads=dict(grid=grid, grains=grains, point=view.point),
            writes=dict(pairs=view, pair=view.pair),
        )

    def sweep(self, launch: Launcher, shift: wp.array) -> None:
        """Solve all pairs once, one after the other.

        Args:
            launch: For the worlds.
            shift: Corrections of the predicted positions, added to [m].
        """
        launch, grid, view = self.grid.kinds.of(launch), self.grid.view, self.view
        launch(
            particles_pairs.gather_shifts,
            "particle",
            reads=dict(grid=grid, shift=shift),
            writes=dict(pairs=view),
        )
        for colour in range(8):
            launch(
                particles_pairs.solve_pairs,
                "block of cells",
                reads=dict(colour=colour, grid=grid),
                writes=dict(pairs=view),
            )
        launch(
            particles_pairs.scatter_shifts,
            "particle",
            reads=dict(grid=grid, pairs=view),
            writes=dict(shift=shift),
        )

    def report(self) -> None:
        """Warn once if there was no place for some pairs; reads from the device."""
        if self._warned:
            return
        dropped = int(self.view.dropped.numpy()[0])
        if dropped:
            self._warned = True
            warnings.warn(
                f"{dropped} contacts between particles were dropped: there is room for "
                f"{len(self.view.pair)} (ParticlePairs(room=...))",
                BufferWarning,
                stacklevel=2,
            )


def connected_bodies(model: Model) -> np.ndarray:
    """Number the sets of particles that elements connect, -1 for particles without any (particle_count,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = model.particle_count
    ends = [np.zeros((0, 2), int)]
    for name, corners in (("spring", 2), ("tri", 3), ("edge", 4), ("tet", 4)):
        if getattr(model, f"{name}_count"):
            members = getattr(model, f"{name}_indices").numpy().reshape(-1, corners)
            # the last corner of every element is a particle
            ends += [np.column_stack([members[:, k], members[:, -1]]) for k in range(corners - 1)]
    pairs = np.concatenate(ends)
    pairs = pairs[(pairs >= 0).all(axis=1)]
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    body = connected_components(graph, directed=False)[1] if count else np.zeros(0, int)
    alone = np.bincount(pairs.reshape(-1), minlength=count) == 0
    return np.where(alone, -1, body)

"""Penalty forces between particles."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles.pairs import GrainView
from newtonsim.kernels.penalty import grains as penalty_grains
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.particles.grid import ParticleGrid
from newtonsim.solvers.particles.pairs import connected_bodies


class GrainForces:
    """Forces between the particles of each world.

    Particles of one connected body meet if their surfaces are apart at rest, that is in `Model.particle_q`.

    Args:
        model: The particles.

    Attributes:
        self_contact: Whether a particle meets others of its own connected body, int, shape (particle_count,).
        reach: Largest distance of two particles that act on each other [m].
    """

    def __init__(self, model: Model):
        self.model = model
        count, device = model.particle_count, model.device
        self.grid = ParticleGrid(model)
        self._body = put(connected_bodies(model), dtype=int, device=device)
        self.self_contact = put(np.ones(count), dtype=int, device=device)
        self._rest = wp.clone(model.particle_q, requires_grad=False)
        self.reach = reach_of(model)

    def find(self, launch: Launcher, state: State) -> None:
        """Sort the particles by where they are at the start of a step."""
        self.grid.build(launch, state.particle_q, self.reach)

    def push(
        self, launch: Launcher, state: State, slip_speed: float, fade_depth: float, dt: float, f: wp.array
    ) -> None:
        """Add the forces of a step of length dt to f.

        Friction fades below a speed [m/s], damping below a depth [m].
        """
        model = self.model
        grains, material = GrainView(), penalty_grains.GrainMaterial()
        grains.inv_mass, grains.radius = model.particle_inv_mass, model.particle_radius
        grains.mu, grains.cohesion, grains.world = (
            model.particle_mu,
            model.particle_cohesion,
            model.particle_world,
        )
        grains.body, grains.self_contact, grains.rest = self._body, self.self_contact, self._rest
        grains.mixed = int(self.grid.shared)
        material.ke = model.particle_ke
        material.kd = model.particle_kd
        material.kf = model.particle_kf
        material.mu = model.particle_mu
        material.radius = model.particle_radius
        material.cohesion = model.particle_cohesion
        material.mass = model.particle_mass
        material.slip, material.fade, material.rate = slip_speed, fade_depth, 1.0 / dt
        launch(
            penalty_grains.push_grains,
            "particle",
            reads=dict(
                grid=self.grid.view, grains=grains, material=material, x=state.particle_q, v=state.particle_qd
            ),
            writes=dict(f=f),
        )


def reach_of(model: Model) -> float:
    """Largest distance of two particles that act on each other [m]; 0 for points without cohesion."""
    if model.particle_count < 2:
        return 0.0
    cohesion = float(model.particle_cohesion.numpy().max(initial=0.0))
    return 2.0 * float(model.particle_radius.numpy().max(initial=0.0)) + cohesion

"""Adjoint of the particles of XPBD, see `implicit_particles`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.allocation import put, zeros
from newtonsim.kernels import implicit_damping, implicit_refusals, implicit_steps, xpbd_tetrahedra
from newtonsim.solvers.implicit_contacts import Law
from newtonsim.solvers.implicit_particles import KeptSubstep, ParticleAdjoint
from newtonsim.solvers.xpbd_particles import XPBDParticles
from newtonsim.workspace import Launcher


class XPBDParticleAdjoint(ParticleAdjoint):
    """Backward pass of `XPBDParticles`, see `ParticleAdjoint`."""

    def __init__(self, particles: XPBDParticles):
        inv_mass = particles.inv_mass
        super().__init__(particles, inv_mass, implicit_damping, secant=False, forces_in_substeps=True)
        model = self.model
        self._damped = zeros(model.particle_count, dtype=wp.vec3, device=model.device)
        self._element = zeros(model.tet_count, dtype=int, device=model.device)
        self._before = zeros(model.tet_count, dtype=implicit_damping.mat43d, device=model.device)
        if model.tet_count:
            place = particles.tetrahedra.view.place.numpy()
            element = np.empty(model.tet_count, int)
            element[place] = np.arange(model.tet_count)
            self._element = put(element, dtype=int, device=model.device)

    def _law(self, dt: float) -> Law:
        if not self.particles.restitution:
            return Law(hard=True)
        slowest = self.particles.contacts.resting_speed(dt)
        return Law(True, slowest, float(self.model.soft_contact_restitution))

    def _note(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Particles that touch each other have no gradient."""
        inputs = [dt, self.inv_mass, self.v, self.particles.shift, kept.u, kept.rate, kept.goal]
        launch(implicit_steps.note_sweeps, "particle", inputs)
        pairs = self.particles.pairs
        if pairs is not None:
            inputs = [pairs.grid.view, pairs.view, self.system.world, self.reason]
            launch(implicit_refusals.mark_pairs, "particle", inputs)

    def _reverse_velocities(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through the contacts that have stopped particles."""
        if self.contacts is not None and self.particles.restitution:
            fastest = float(self.model.particle_max_velocity)
            self.contacts.reverse_stops(launch, self._law(dt), fastest, self.substep, self.slopes)
        self._reverse_displacements(launch)

    def _reverse_forces(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through gravity and forces, and the damping of tetrahedra before."""
        tetrahedra, v = self.particles.tetrahedra, kept.v
        if self.model.tet_count:
            v = self._damped
            wp.copy(v, kept.v)
            for kind, base in tetrahedra.runs:
                launch(implicit_damping.note_before, kind, [base, tetrahedra.view, v, self._before])
                launch(xpbd_tetrahedra.damp_tetrahedra, kind, [base, tetrahedra.view, kept.x, dt, v])
        fastest = float(self.model.particle_max_velocity)
        inputs = [dt, fastest, self.model.gravity_vec, self.particles.force, v, self.substep.mass]
        launch(implicit_steps.reverse_acceleration, "particle", [*inputs, self.slopes])
        for kind, base in reversed(tetrahedra.runs):
            inputs = [base, tetrahedra.view, self._element, self.model.tet_materials, kept.x, self._before]
            inputs += [dt, self.slopes, self.sinks.of(self.model.tet_poses)]
            inputs += [self.sinks.of(self.model.tet_materials)]
            launch(implicit_damping.reverse_damping, kind, inputs)

"""Adjoint of the particles of XPBD, see `solvers.particles.adjoint`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles.adjoint import damping as damping_adjoint
from newtonsim.kernels.particles.adjoint import steps as steps_adjoint
from newtonsim.kernels.particles.adjoint import unsupported as unsupported_adjoint
from newtonsim.kernels.particles.xpbd import tetrahedra as xpbd_tetrahedra
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.solvers.particles.adjoint import KeptSubstep, ParticleAdjoint
from newtonsim.solvers.particles.adjoint_contacts import Law
from newtonsim.solvers.xpbd.particles import XPBDParticles


class XPBDParticleAdjoint(ParticleAdjoint):
    """Backward pass of `XPBDParticles`, see `ParticleAdjoint`."""

    def __init__(self, particles: XPBDParticles):
        inv_mass = particles.inv_mass
        super().__init__(particles, inv_mass, damping_adjoint, secant=False, forces_in_substeps=True)
        model = self.model
        self._damped = zeros(model.particle_count, dtype=wp.vec3, device=model.device)
        self._element = zeros(model.tet_count, dtype=int, device=model.device)
        self._before = zeros(model.tet_count, dtype=damping_adjoint.mat43d, device=model.device)
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
        launch(steps_adjoint.note_sweeps, "particle", inputs)
        pairs = self.particles.pairs
        if pairs is not None:
            inputs = [pairs.grid.view, pairs.view, self.system.world, self.reason]
            launch(unsupported_adjoint.mark_pairs, "particle", inputs)

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
                launch(damping_adjoint.note_before, kind, [base, tetrahedra.view, v, self._before])
                launch(xpbd_tetrahedra.damp_tetrahedra, kind, [base, tetrahedra.view, kept.x, dt, v])
        fastest = float(self.model.particle_max_velocity)
        inputs = [dt, fastest, self.model.gravity_vec, self.particles.force, v, self.substep.mass]
        launch(steps_adjoint.reverse_acceleration, "particle", [*inputs, self.slopes])
        for kind, base in reversed(tetrahedra.runs):
            inputs = [base, tetrahedra.view, self._element, self.model.tet_materials, kept.x, self._before]
            inputs += [dt, self.slopes, self.sinks.of(self.model.tet_poses)]
            inputs += [self.sinks.of(self.model.tet_materials)]
            launch(damping_adjoint.reverse_damping, kind, inputs)

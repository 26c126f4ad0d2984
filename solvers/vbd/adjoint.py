"""Adjoint of the particles of VBD, see `solvers.particles.adjoint`."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.particles.adjoint import components as components_adjoint
from newtonsim.kernels.particles.adjoint import contacts as contacts_adjoint
from newtonsim.kernels.particles.adjoint import steps as steps_adjoint
from newtonsim.kernels.particles.vbd import components as vbd_components
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.solvers.particles.adjoint import KeptSubstep, ParticleAdjoint
from newtonsim.solvers.particles.adjoint_contacts import Law
from newtonsim.solvers.vbd.particles import VBDParticles


class VBDParticleAdjoint(ParticleAdjoint):
    """Backward pass of `VBDParticles`, see `ParticleAdjoint`."""

    def __init__(self, particles: VBDParticles):
        inv_mass = particles.descent.inv_mass
        super().__init__(particles, inv_mass, components_adjoint, secant=True, forces_in_substeps=False)
        count = len(particles.pieces.view.free)
        self._motion = zeros(count, dtype=wp.spatial_vector, device=self.model.device)

    def _law(self, dt: float) -> Law:
        stiffness, damping = float(self.model.soft_contact_ke), float(self.model.soft_contact_kd)
        speed = float(self.particles.friction_epsilon)
        return Law(False, stiffness=stiffness, damping=damping, friction_speed=speed)

    def _note(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        inputs = [self.particles.stencils.view.u, self.particles.descent.goal, kept.u, kept.rate, kept.goal]
        launch(steps_adjoint.note_descent, "particle", inputs)

    def _reverse_velocities(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through the motion that gives free pieces the momentum that they have lost."""
        particles, right = self.particles, self.system.view.right
        descent, stencils, pieces = particles.descent, particles.stencils.view, particles.pieces.view
        for array, value in ((stencils.x, kept.x), (stencils.u, kept.u), (descent.goal, kept.goal)):
            wp.copy(array, value)
        inputs = [dt, int(self.contacts is not None), particles.touch(), descent, stencils, pieces]
        launch(vbd_components.weigh_lost, "vbd chunk", inputs)
        launch(vbd_components.solve_pieces, "vbd piece", [pieces])
        launch(components_adjoint.keep_motion, "vbd piece", [pieces, self._motion])
        launch(components_adjoint.weigh_gradients, "vbd chunk", [self.substep, self.slopes, pieces])
        launch(vbd_components.solve_pieces, "vbd piece", [pieces])
        inputs = [kept.goal, self._motion, self.substep, self.slopes, pieces, right]
        launch(components_adjoint.reverse_momentum, "vbd chunk", inputs)
        self._reverse_displacements(launch)
        if self.contacts is not None:
            inputs = [kept.goal, self.substep, self.slopes, pieces, right]
            for _, view in self.contacts.views(self._law(dt)):
                launch(contacts_adjoint.reverse_touches, "vbd chunk", [view, *inputs])

    def _reverse_forces(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through gravity and forces."""
        inputs = [dt, self.model.gravity_vec, self.particles.descent.force, self.substep.mass, self.slopes]
        launch(steps_adjoint.reverse_descent, "particle", inputs)

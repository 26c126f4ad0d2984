"""Adjoint of the particles of VBD, see `solvers.particles.adjoint`."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.particles.adjoint import components as components_adjoint
from newtonsim.kernels.particles.adjoint import contacts as contacts_adjoint
from newtonsim.kernels.particles.adjoint import steps as steps_adjoint
from newtonsim.kernels.particles.vbd import components as vbd_components
from newtonsim.runtime.copies import copy
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
        count = len(particles.components.view.free)
        self._motion = zeros(count, dtype=wp.spatial_vector, device=self.model.device)

    def law(self, dt: float) -> Law:
        stiffness, damping = float(self.model.soft_contact_ke), float(self.model.soft_contact_kd)
        speed = float(self.particles.friction_epsilon)
        return Law(False, stiffness=stiffness, damping=damping, friction_speed=speed)

    def _note(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        launch(
            steps_adjoint.note_descent,
            "particle",
            reads=dict(displacement=self.particles.stencils.view.u, inertial=self.particles.descent.goal),
            writes=dict(u=kept.u, rate=kept.rate, goal=kept.goal),
        )

    def _reverse_velocities(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through the motion that gives free components the momentum that they have lost."""
        particles, right = self.particles, self.system.view.right
        descent, stencils, components = particles.descent, particles.stencils.view, particles.components.view
        for array, value in ((stencils.x, kept.x), (stencils.u, kept.u), (descent.goal, kept.goal)):
            copy(array, value)
        launch(
            vbd_components.weigh_lost,
            "vbd chunk",
            reads=dict(
                dt=dt,
                touching=int(self.contacts is not None),
                touch=particles.touch(),
                descent=descent,
                s=stencils,
            ),
            writes=dict(components=components),
        )
        launch(vbd_components.solve_components, "vbd component", writes=dict(components=components))
        launch(
            components_adjoint.keep_motion,
            "vbd component",
            reads=dict(components=components),
            writes=dict(motion=self._motion),
        )
        launch(
            components_adjoint.weigh_gradients,
            "vbd chunk",
            reads=dict(s=self.substep, reverse=self.slopes),
            writes=dict(components=components),
        )
        launch(vbd_components.solve_components, "vbd component", writes=dict(components=components))
        launch(
            components_adjoint.reverse_momentum,
            "vbd chunk",
            reads=dict(goal=kept.goal, motion=self._motion, s=self.substep, components=components),
            writes=dict(reverse=self.slopes, right=right),
        )
        self._reverse_displacements(launch)
        if self.contacts is not None:
            for _, view in self.contacts.views(self.law(dt)):
                launch(
                    contacts_adjoint.reverse_touches,
                    "vbd chunk",
                    reads=dict(goal=kept.goal, s=self.substep, components=components),
                    writes=dict(touch=view, reverse=self.slopes, right=right),
                )
        if self.bodies is not None:
            self.bodies.reverse_momentum(launch, kept, dt, components, right)

    def _reverse_forces(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through gravity and forces."""
        launch(
            steps_adjoint.reverse_descent,
            "particle",
            reads=dict(
                dt=dt,
                world=self.model.particle_world,
                gravity=self.model.gravity_vec,
                acceleration=self.particles.descent.force,
                mass=self.substep.mass,
            ),
            writes=dict(reverse=self.slopes),
        )

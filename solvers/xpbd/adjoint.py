"""Adjoint of the particles of XPBD, see `solvers.particles.adjoint`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles.adjoint import damping as damping_adjoint
from newtonsim.kernels.particles.adjoint import steps as steps_adjoint
from newtonsim.kernels.particles.adjoint import unsupported as unsupported_adjoint
from newtonsim.kernels.particles.xpbd import tetrahedra as xpbd_tetrahedra
from newtonsim.runtime.copies import copy
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

    def law(self, dt: float) -> Law:
        if not self.particles.restitution:
            return Law(hard=True)
        slowest = self.particles.contacts.resting_speed(dt)
        return Law(True, slowest, float(self.model.soft_contact_restitution))

    def _note(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Particles that touch each other have no gradient."""
        launch(
            steps_adjoint.note_sweeps,
            "particle",
            reads=dict(dt=dt, inv_mass=self.inv_mass, v=self.v, shift=self.particles.shift),
            writes=dict(u=kept.u, rate=kept.rate, goal=kept.goal),
        )
        pairs = self.particles.pairs
        if pairs is not None:
            launch(
                unsupported_adjoint.mark_pairs,
                "particle",
                reads=dict(grid=pairs.grid.view, pairs=pairs.view, world=self.system.world),
                writes=dict(reason=self.reason),
            )

    def _reverse_velocities(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through the contacts that have stopped particles."""
        if self.contacts is not None and self.particles.restitution:
            fastest = float(self.model.particle_max_velocity)
            self.contacts.reverse_stops(launch, self.law(dt), fastest, self.substep, self.slopes)
        self._reverse_displacements(launch)

    def _reverse_forces(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Back through gravity and forces, and the damping of tetrahedra before."""
        tetrahedra, v = self.particles.tetrahedra, kept.v
        if self.model.tet_count:
            v = self._damped
            copy(v, kept.v)
            for kind, base in tetrahedra.runs:
                launch(
                    damping_adjoint.note_before,
                    kind,
                    reads=dict(base=base, tetrahedra=tetrahedra.view, v=v),
                    writes=dict(before=self._before),
                )
                launch(
                    xpbd_tetrahedra.damp_tetrahedra,
                    kind,
                    reads=dict(base=base, tetrahedra=tetrahedra.view, x=kept.x, dt=dt),
                    writes=dict(v=v),
                )
        fastest = float(self.model.particle_max_velocity)
        launch(
            steps_adjoint.reverse_acceleration,
            "particle",
            reads=dict(
                dt=dt,
                fastest=fastest,
                world=self.model.particle_world,
                gravity=self.model.gravity_vec,
                force=self.particles.force,
                v=v,
                mass=self.substep.mass,
            ),
            writes=dict(reverse=self.slopes),
        )
        for kind, base in reversed(tetrahedra.runs):
            launch(
                damping_adjoint.reverse_damping,
                kind,
                reads=dict(
                    base=base,
                    tetrahedra=tetrahedra.view,
                    element=self._element,
                    materials=self.model.tet_materials,
                    x=kept.x,
                    before=self._before,
                    dt=dt,
                ),
                writes=dict(
                    reverse=self.slopes,
                    poses_grad=self.sinks.of(self.model.tet_poses),
                    materials_grad=self.sinks.of(self.model.tet_materials),
                ),
            )

"""Soft bodies of particles beside rigid bodies: a stage of the solver that moves the rigid bodies."""

from __future__ import annotations

from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.model import Model
from newtonsim.revisions import Revised
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.deformables import ParticleStep, advance
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.solvers.stages import StepForces
from newtonsim.solvers.xpbd_particles import XPBDParticles
from newtonsim.state import State
from newtonsim.workspace import Launcher


class SoftBodyStage(Revised):
    """Steps the particles of one model among the rigid bodies of another.

    It is a stage of the rigid bodies' solver (`before_step`): at the start of each step it moves the
    particles through the whole step, against rigid bodies that move with velocities of their own and yield
    as `MovingBodies` says, and adds the impulses between them to the forces of the step. Contact between
    particles, and of a soft body with itself, is not handled.

    Args:
        particles: See `XPBDParticles`.
        rigid: Rigid bodies.
        substeps: Substeps of each step.
        iterations: Sweeps over the elements and contacts in each substep.

    Attributes:
        state: Positions and velocities of the particles.
        system: What moves them.
        bodies: The rigid bodies within a step.

    Raises:
        ModelError: The worlds of the two models differ.
    """

    def __init__(self, particles: Model, rigid: Model, substeps: int = 1, iterations: int = 10):
        self.particles = particles
        self.state = particles.state(requires_grad=False)
        self.system = XPBDParticles(particles, rigid, substeps, iterations)
        self.bodies = MovingBodies(rigid, whole=False)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        launch = Launcher(launch.model, False, launch.shard)
        self.bodies.begin(launch, step.body_q, step.body_qd, step.body_f, step.dt)
        particles = ParticleStep(self.state.particle_q, self.state.particle_qd, None, step.control, step.dt)
        advance(
            launch,
            self.system,
            particles,
            self.bodies,
            substeps=self.system.substeps,
            iterations=self.system.iterations,
        )
        self.bodies.end(launch, step.dt, step.body_f)


class SoftBodySolver(SolverBase):
    """Moves soft bodies in a world without rigid ones.

    Args:
        stage: The soft bodies.
    """

    def __init__(self, stage: SoftBodyStage):
        super().__init__(stage.particles)
        self.stage = stage

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`. The state is that of the stage."""
        s = state_in
        forces = StepForces(s, control, dt, s.body_q, s.body_qd, s.body_f, None)
        self.stage.apply(Launcher(model, False), forces)

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return self.revision + self.stage.revision

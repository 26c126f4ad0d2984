"""Particles beside robots: a stage of FeatherstoneSolver."""

from __future__ import annotations

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.particles import coupling
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.solvers.base import SolverBase, integrate_particles
from newtonsim.solvers.featherstone.articulated_bodies import ArticulatedBodies
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.particles.system import ParticleStep, ParticleSystem, advance, starts_of
from newtonsim.solvers.step import Step


class FreeParticles:
    """Particles that move freely and collide neither with the ground nor with bodies."""

    def begin(self, shard: Shard, step: Step) -> None:
        """Move the particles, in a recorded launch."""
        if shard.model.particle_count:
            integrate_particles(shard.model, step.state_in, step.state_out, step.dt, shard)

    def apply(self, launch: Launcher, step: Step, joint_f: wp.array) -> None:
        """See `DeformableStage.apply`."""

    def remember(self, launch: Launcher, joint_qd: wp.array, dt: float) -> None:
        """See `DeformableStage.remember`."""

    def reset(self, state: State | None, world_mask: wp.array | None) -> None:
        """See `SolverBase.reset`."""

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`."""

    def report(self) -> None:
        """See `SolverBase.report`."""

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return 0


class DeformableStage(Revised):
    """Steps particles, before the robots among them make the same step.

    The bodies move with the velocities that are expected at the end of the step, and respond to impulses as
    their trees do. The impulses between particles and bodies become forces in the robots' own step, so that
    action equals reaction.

    Args:
        source: A solver of deformables that has `particles`, or a `ParticleSystem` itself.
        model: The bodies. If the particles are in another model, they have their own state.
        smooth: The smooth stage of the bodies' solver.
        constraints: Its constraint stage.

    Attributes:
        source: As given.
        bodies: The bodies within a step.
        state: State of particles of another model; None if they belong to that of the step.

    Raises:
        TypeError: The source has no particles.
        ModelError: The particles are made for other bodies.
    """

    def __init__(
        self,
        source: SolverBase | ParticleSystem,
        model: Model,
        smooth: SmoothStage,
        constraints: ConstraintStage,
    ):
        self.source, self.constraints = source, constraints
        system = self.system
        if not isinstance(system, ParticleSystem):
            raise TypeError(f"deformables: {source!r} is neither a solver of particles nor a ParticleSystem")
        if system.rigid is not model and (system.rigid.body_count or model.body_count):
            raise ModelError("deformables: they were made for another model than that of the solver")
        if system.particles is not model and model.particle_count:
            raise ModelError(
                f"deformables: they move the particles of another model, and nothing would move the "
                f"{model.particle_count} particles of this one"
            )
        self.bodies = ArticulatedBodies(model, smooth)
        owner = system.particles.particle_world.numpy()
        self._starts = {"stage_particle": starts_of(owner, model.world_count)}
        self.state = None if system.particles is model else system.particles.state(requires_grad=False)

    @property
    def system(self) -> ParticleSystem:
        """The system of particles, with the current options of its solver."""
        return getattr(self.source, "particles", None) if isinstance(self.source, SolverBase) else self.source

    def begin(self, shard: Shard, step: Step) -> None:
        """See `FreeParticles.begin`: these move once the bodies are placed."""

    def apply(self, launch: Launcher, step: Step, joint_f: wp.array) -> None:
        """Move the particles, and add their forces to those of the bodies' smooth stage.

        Args:
            launch: For the worlds.
            step: The step; `state_out` receives the particles.
            joint_f: Generalised forces in place of those of the control, shape (joint_dof_count,).
        """
        system, state_in, state_out = self.system, step.state_in, step.state_out
        control, dt = step.control, step.dt
        launch = Launcher(launch.model, False, launch.shard)
        self.constraints.use_inertia(launch)
        if launch.model.body_count:
            self.bodies.begin(launch, state_in, control, joint_f, dt)
        if self.state is None and state_in is not state_out:
            launch(
                coupling.copy_particles,
                "particle",
                reads=dict(x=state_in.particle_q, v=state_in.particle_qd),
                writes=dict(x_out=state_out.particle_q, v_out=state_out.particle_qd),
            )
        own = state_out if self.state is None else self.state
        force = state_in.particle_f if self.state is None else None
        moved = ParticleStep(own.particle_q, own.particle_qd, force, control, dt)
        counts = {"substeps": system.substeps, "iterations": system.iterations}
        advance(launch, system, moved, self.bodies, **counts)
        if launch.model.body_count:
            self.bodies.end(launch, dt, self.bodies.smooth.body_f)
        world = system.particles.particle_world
        of_particles = Launcher(launch.model, False, launch.shard.with_starts(self._starts))
        of_particles(
            coupling.mark_nonfinite,
            "stage_particle",
            reads=dict(world=world, x=own.particle_q, v=own.particle_qd),
            writes=dict(marks=self.constraints.nonfinite.marks("particle", world)),
        )

    def remember(self, launch: Launcher, joint_qd: wp.array, dt: float) -> None:
        """Store the constraint forces of the step, which the next step expects.

        Args:
            launch: For the worlds, with the rows of the constraint stage among its kinds of index.
            joint_qd: Joint velocities after the constraints.
            dt: Length of the step [s].
        """
        self.bodies.remember(launch, self.constraints.rows, joint_qd, dt)

    def reset(self, state: State | None, world_mask: wp.array | None) -> None:
        """See `SolverBase.reset`."""
        self.bodies.forget(world_mask)
        if isinstance(self.source, SolverBase):
            self.source.reset(state, world_mask)

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`.

        Raises:
            ModelError: The particles are those of another model, which the state does not hold.
        """
        if self.state is not None:
            raise ModelError(
                "deformables: worlds do not start anew within a recording with particles of another model, "
                "whose state is no part of that of the step"
            )
        self.bodies.forget_in(Launcher(shard.model, False, shard), world_mask)
        if isinstance(self.source, SolverBase):
            self.source.reset_worlds(shard, state, world_mask)

    def report(self) -> None:
        """See `SolverBase.report`."""
        if isinstance(self.source, SolverBase):
            self.source.report()

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        source = self.source
        of_source = source.baked_revision() if isinstance(source, SolverBase) else 0
        return self.revision + of_source + self.system.particles.revision

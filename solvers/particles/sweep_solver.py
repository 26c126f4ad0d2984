"""What XPBD and VBD share: particles and rigid bodies that are solved by the same sweeps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import warp as wp

from newtonsim.kernels.particles import coupling
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.launched import LaunchedSolver
from newtonsim.solvers.light_bodies import refuse_light_bodies
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.maximal.sweeps import BodySweeps
from newtonsim.solvers.nonfinite import NonfiniteWorlds
from newtonsim.solvers.particles.system import ParticleStep, advance
from newtonsim.solvers.references import references_of, warn_of_references
from newtonsim.solvers.step import Step

if TYPE_CHECKING:
    from newtonsim.solvers.maximal.adjoint import BodyAdjoint
    from newtonsim.solvers.particles.adjoint import ImplicitParticles, ParticleAdjoint

Particles = TypeVar("Particles", bound="ImplicitParticles")

_MATERIALS = ("ke", "kd", "kf", "mu", "restitution")


class SweptModel(Generic[Particles]):
    """What moves the particles and bodies of one model, and differentiates their steps.

    Args:
        model: The model.
        particles: What moves its particles.
        twin: Makes another one, for the backward pass.
        adjoint: Makes the backward pass of particles from that.

    Attributes:
        particles: As given.
        bodies: The bodies within a step.
        constraints: Their joints, constraints and contacts; None without bodies.
        control: Inputs of steps that are given none.
        nonfinite: Worlds that became NaN or infinite.
        checked: Whether a step has looked for what is not modelled.
        adjoint: Backward pass of the particles; None if there is none.
        body_adjoint: That of the bodies, likewise.
        together: Whether the latter takes the particles with it, as bodies and particles touch.
    """

    def __init__(
        self,
        model: Model,
        particles: Particles,
        twin: Callable[[], Particles],
        adjoint: Callable[[Particles], ParticleAdjoint],
    ):
        self.particles = particles
        self.bodies = MovingBodies(model)
        self.constraints = BodySweeps(model) if model.body_count else None
        self.control = model.control(clone_variables=False)
        self.nonfinite = NonfiniteWorlds(model)
        self.checked = False
        self.adjoint: ParticleAdjoint | None = None
        if model.requires_grad and model.particle_count:
            self.adjoint = adjoint(twin())
        self.body_adjoint: BodyAdjoint | None = None
        if model.requires_grad and self.constraints is not None:
            from newtonsim.solvers.maximal.adjoint import BodyAdjoint  # here, see `_make_adjoint`

            self.body_adjoint = BodyAdjoint(self.constraints)
        self.together = False
        if self.adjoint is not None and self.body_adjoint is not None and self.adjoint.contacts is not None:
            from newtonsim.solvers.particles.adjoint_bodies import ParticlesAmongBodies

            among = ParticlesAmongBodies(self.adjoint, self.adjoint.contacts, self.body_adjoint)
            self.body_adjoint.among, self.together = among, True

    def adjoints(self) -> tuple[ParticleAdjoint | BodyAdjoint, ...]:
        """The backward passes that there are."""
        return tuple(a for a in (self.adjoint, self.body_adjoint) if a is not None)


class SweepSolver(LaunchedSolver, Generic[Particles]):
    """A solver whose substeps go several times over elements, contacts and joints.

    A subclass has the attributes `iterations` and `substeps`, and makes the parts of a model.
    """

    iterations: int
    substeps: int

    _name: ClassVar[str]
    """Name of the solver, for errors."""

    @classmethod
    def ignored(cls, model: Model) -> list[str]:
        """See `SolverBase.ignored`."""
        return references_of(model)

    @abstractmethod
    def _parts_of(self, model: Model) -> SweptModel[Particles]:
        """Return what moves a model, with the present options."""

    @abstractmethod
    def _all_parts(self) -> Iterable[SweptModel[Particles]]:
        """Return what moves the models that the solver has seen."""

    @abstractmethod
    def _check_differentiable(self, parts: SweptModel[Particles]) -> None:
        """Raise NotDifferentiableError if something of a model or an option has no gradient."""

    def _record(self, tape: wp.Tape, model: Model, step: Step) -> None:
        parts = self._parts_of(model)
        self._check_differentiable(parts)
        particles, bodies, substeps = parts.adjoint, parts.body_adjoint, self.substeps
        if bodies is not None:
            bodies.follow(self.iterations)
        step.check_not_in_place()
        step.check_gradients(has_adjoint=particles is not None or bodies is not None)
        if particles is not None:
            particles.make_room()
        if bodies is not None:
            bodies.make_room(substeps)

        def run() -> None:
            if particles is not None and not parts.together:
                particles.run(step)
            if bodies is not None:
                bodies.run(step, substeps)

        tape.record_func(run, step.arrays(model, _MATERIALS, without=("joint_axis", "joint_armature")))

    def _advance(self, shard: Shard, step: Step) -> None:
        model, start, end = shard.model, step.state_in, step.state_out
        parts = self._parts_of(model)
        if not parts.checked:
            parts.checked = True
            warn_of_references(model, self._name)
            refuse_light_bodies(model, self._name)
        bodies, constraints = parts.bodies, parts.constraints
        launch = Launcher(model, record_tape=False, shard=shard)
        if constraints is not None:
            bodies.begin(launch, start.body_q, start.body_qd, start.body_f, step.dt)
            constraints.begin(launch, start, step.control, step.contacts, step.dt)
        if model.particle_count and start is not end:
            launch(
                coupling.copy_particles,
                "particle",
                reads=dict(x=start.particle_q, v=start.particle_qd),
                writes=dict(x_out=end.particle_q, v_out=end.particle_qd),
            )
        moved = ParticleStep(end.particle_q, end.particle_qd, start.particle_f, step.control, step.dt)
        particles = parts.particles if model.particle_count else None
        advance(launch, particles, moved, bodies, constraints, self.substeps, self.iterations)
        if constraints is not None:
            constraints.end(launch, bodies, end)
        parts.nonfinite.mark(launch, end)

    def report(self) -> None:
        """Warn of contacts without room, of turns that were cut, and of worlds that became non-finite.

        See `SolverBase.report`.
        """
        for parts in self._all_parts():
            parts.particles.report()
            if parts.constraints is not None:
                parts.constraints.report()
            parts.nonfinite.report()

    def adjoints(self) -> tuple[object, ...]:
        """See `SolverBase.adjoints`."""
        return tuple(a for parts in self._all_parts() for a in parts.adjoints())

    def check_gradient(self) -> None:
        """Raise if a backward pass met something without gradient; see `SolverBase.check_gradient`."""
        for parts in self._all_parts():
            for adjoint in parts.adjoints():
                adjoint.check_gradient(self._name)

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget what the last step left of the masked worlds, or of all; see `SolverBase.reset`."""
        self.check_reset(state, world_mask)
        for parts in self._all_parts():
            parts.particles.reset(world_mask)
            if parts.constraints is not None:
                parts.constraints.reset(world_mask)
            parts.nonfinite.reset(world_mask)

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`; worlds that become non-finite again are not reported again."""
        parts, launch = self._parts_of(shard.model), Launcher(shard.model, False, shard)
        parts.particles.forget(shard, world_mask)
        if parts.constraints is not None:
            parts.constraints.forget(launch, world_mask)
        parts.nonfinite.forget(launch, world_mask)

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        sweeps = (parts.constraints for parts in self._all_parts())
        return self.revision + sum(s.revision for s in sweeps if s is not None)

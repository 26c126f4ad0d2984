"""Adjoint of the implicit Euler step of particles that XPBD and VBD approach in sweeps.

A substep of length h solves R(u) = m (u - g) / h² - f(x + u, u; θ) = 0 for the displacements u, g = h v those
by inertia and external forces, f forces of elements and contacts. A gradient of u gives multipliers λ, with
(∂R/∂u)ᵀ λ that gradient, and all others are -λᵀ ∂R/∂(x, g, θ) (implicit function theorem). Both are taken
where the sweeps of the forward pass ended: the gradient is that of the converged step, and differs from that
of the sweeps by as much as these have left undone.

Nothing but states is kept of a step. The backward pass goes through its substeps once more, with particles
and contacts of its own, which start without forces or accelerations of an earlier step.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Protocol

import numpy as np
import warp as wp

from newtonsim.kernels.particles.adjoint import contacts as contacts_adjoint
from newtonsim.kernels.particles.adjoint import curvature
from newtonsim.kernels.particles.adjoint import elements as elements_adjoint
from newtonsim.kernels.particles.adjoint import steps as steps_adjoint
from newtonsim.kernels.particles.adjoint import system as system_adjoint
from newtonsim.kernels.particles.adjoint import unsupported as unsupported_adjoint
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.kernels.particles.adjoint.steps import ReverseView
from newtonsim.runtime import compilation
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import zeros
from newtonsim.solvers.gradient_reports import Shortfall, refuse_worlds
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.adjoint_contacts import ContactSlopes, KeptContacts, Law
from newtonsim.solvers.particles.adjoint_elements import ElementSlopes, Sinks
from newtonsim.solvers.particles.adjoint_system import ImplicitSystem
from newtonsim.solvers.particles.aerodynamics import Air
from newtonsim.solvers.particles.contacts import ParticleContacts
from newtonsim.solvers.particles.system import ParticleStep, ParticleSystem
from newtonsim.solvers.step import Step

LARGEST_RESIDUAL = 1.0e-4
"""Size of the residual of a linear system, over that of its right-hand side, that is a gradient still."""

_MOST_UNBALANCED = 0.01
"""Part of the forces on particles that sweeps may leave without balance before a warning says so."""

_KERNELS = (
    elements_adjoint,
    unsupported_adjoint,
    steps_adjoint,
    system_adjoint,
)

_CONTACT_KERNELS = (contacts_adjoint, curvature)

_REASONS = {
    int(unsupported_adjoint.TOUCHES_BODY): "particles that touch a shape of a rigid body have no gradient",
    int(unsupported_adjoint.BOUNCES): "particles that bounce have no gradient",
    int(unsupported_adjoint.TOUCHES_PARTICLE): "particles that touch each other have no gradient",
    int(unsupported_adjoint.NOT_SOLVED): "the linear system of the adjoint did not converge",
    int(unsupported_adjoint.BODIES): "the rigid bodies among the particles have no gradient",
}
"""Why a world has no gradient."""


@dataclass
class KeptSubstep:
    """What is kept of a substep within a backward pass: at its start, and after its sweeps."""

    x: wp.array
    v: wp.array
    u: wp.array
    rate: wp.array
    goal: wp.array
    contacts: KeptContacts | None


class BodyTouches(Protocol):
    """Contacts of particles with rigid bodies that the same sweeps move, in the adjoint of a substep."""

    def reverse_momentum(
        self, launch: Launcher, kept: KeptSubstep, dt: float, components: object, right: wp.array
    ) -> None:
        """From the motion that gives free components their momentum back to bodies that changed it."""

    def reverse(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Add the gradients at the multipliers."""


class ImplicitParticles(ParticleSystem, Protocol):
    """Particles whose substep is one of implicit Euler, and has a gradient.

    Attributes:
        contacts: Contacts with rigid bodies.
        air: Drag and lift.
    """

    contacts: ParticleContacts
    air: Air

    def reset(self, world_mask: wp.array | None) -> None:
        """Forget what the last step has left of the masked worlds, or of all."""

    def forget(self, shard: Shard, world_mask: wp.array | None) -> None:
        """Forget it in the masked worlds of a shard, or in all of them, by launches alone."""

    def report(self) -> None:
        """Warn of contacts that there was no room for."""


class ParticleAdjoint(ABC):
    """Backward pass of the particles of a step; base of those of XPBD and VBD.

    Subclasses say what the sweeps of their solver have found, how contacts push, and how velocities follow
    from displacements and forces.

    Args:
        particles: A particle system of the adjoint's own, with the options of the one that moved forward.
        inv_mass: Its inverse masses in the step [1/kg], 0 for particles that are held.
        kernels: Those of the subclass, to be compiled with the others.
        secant: Whether damping acts on changes of strain in a substep, rather than on rates at its end.
        forces_in_substeps: Whether external forces act in each substep, rather than once in a step.

    Attributes:
        iterations: Most iterations of the linear solver in a substep.
        reason: Why a world has no gradient in this step, 0 if it has, int, shape (world_count + 1,).
        kept_reason: The same since the last `check_gradient`.
        bodies: The bodies among them where these are differentiated, too; None where they stand still.
    """

    def __init__(
        self,
        particles: ImplicitParticles,
        inv_mass: wp.array,
        kernels: ModuleType,
        secant: bool,
        forces_in_substeps: bool,
    ):
        self.inv_mass, self.forces_in_substeps = inv_mass, forces_in_substeps
        self.particles, model = particles, particles.particles
        self.model, device, count = model, model.device, model.particle_count
        self.iterations = 500
        self.system, self.sinks = ImplicitSystem(model), Sinks(device)
        self.elements = ElementSlopes(model, self.system, self.sinks)
        self.bodies: BodyTouches | None = None
        self._still = MovingBodies(model)
        self.reason = zeros(model.world_count + 1, dtype=int, device=device)
        self.kept_reason = zeros(model.world_count + 1, dtype=int, device=device)
        self._unbalanced = zeros(model.world_count + 1, dtype=wp.vec2d, device=device)
        self._shortfall = Shortfall(_MOST_UNBALANCED)
        self.contacts = None
        if model.shape_count:
            self.contacts = ContactSlopes(model, particles.contacts, self.system, self.sinks)
        self.x, self.v = (zeros(count, dtype=wp.vec3, device=device) for _ in range(2))
        self.substep, self.slopes = SubstepView(), ReverseView()
        self.substep.mass, self.substep.multiplier = self.system.view.mass, self.system.view.x
        self.substep.secant = int(secant)
        self.substep.slope_rate, self.substep.residual = (
            zeros(count, dtype=wp.vec3d, device=device) for _ in range(2)
        )
        self.slopes.x = zeros(count, dtype=wp.vec3d, device=device)
        self.slopes.v = zeros(count, dtype=wp.vec3d, device=device)
        self.slopes.goal = zeros(count, dtype=wp.vec3d, device=device)
        self.slopes.force = zeros(count, dtype=wp.vec3d, device=device)
        self.slopes.mass = zeros(count, dtype=wp.float64, device=device)
        self.slopes.gravity = zeros(model.world_count, dtype=wp.vec3d, device=device)
        self.substep.slope_x = self.slopes.x
        self._kept: list[KeptSubstep] = []
        self._shard = Shard(model, None, particles.starts | self.system.starts | self.elements.starts)
        modules = (*_KERNELS, kernels, *(() if self.contacts is None else _CONTACT_KERNELS))
        compilation.load([wp.get_module(module.__name__) for module in modules], device)

    def make_room(self) -> None:
        """Allocate what the present number of substeps needs."""
        while len(self._kept) < self.particles.substeps:
            arrays = [zeros(len(self.x), dtype=wp.vec3, device=self.model.device) for _ in range(5)]
            contacts = None if self.contacts is None else self.contacts.make_room()
            self._kept.append(KeptSubstep(*arrays, contacts))

    def run(self, step: Step) -> None:
        """Add the step's contribution to the gradients of its inputs."""
        compilation.load_once(self, partial(self._reverse, step), self.model.device)
        self._reverse(step)

    def _reverse(self, step: Step) -> None:
        """Everything that `run` launches."""
        launch = self.launcher()
        substeps = self.particles.substeps
        self._replay(launch, step)
        self.begin_reverse(launch, step)
        for number in reversed(range(substeps)):
            self._reverse_substep(launch, step, number, step.dt / substeps)
        self.finish(launch, step)

    def launcher(self) -> Launcher:
        """Return a launcher for the kinds of index of the backward pass."""
        return Launcher(self.model, record_tape=False, shard=self._shard)

    def add_kinds(self, starts: dict[str, np.ndarray]) -> None:
        """Give its launchers further kinds of index."""
        self._shard = Shard(
            self.model, None, self.particles.starts | self.system.starts | self.elements.starts | starts
        )

    def _replay(self, launch: Launcher, step: Step) -> None:
        """Go through the step once more, and keep what happens in its substeps."""
        particles = self.particles
        again, dt = self.start_again(launch, step), step.dt / particles.substeps
        for number in range(particles.substeps):
            self.start_substep(number)
            particles.begin_substep(launch, again, dt, self._still)
            for _ in range(particles.iterations):
                particles.sweep(launch, again, dt, self._still)
            self.note(launch, number, dt)
            particles.end_substep(launch, again, dt, self._still)

    def start_again(self, launch: Launcher, step: Step) -> ParticleStep:
        """Go back to the start of a step."""
        particles, state = self.particles, step.state_in
        copy(self.x, state.particle_q)
        copy(self.v, state.particle_qd)
        particles.reset()
        fill(self.reason)
        again = ParticleStep(self.x, self.v, state.particle_f, step.control, step.dt)
        particles.begin(launch, again)
        return again

    def start_substep(self, number: int, fresh: bool = True) -> None:
        """Keep where a substep starts, or go back to there if it is not fresh."""
        kept = self._kept[number]
        pairs = ((kept.x, self.x), (kept.v, self.v))
        for array, now in pairs:
            copy(array, now) if fresh else copy(now, array)
        if self.contacts is not None:
            self.contacts.use(kept.contacts)

    def note(self, launch: Launcher, number: int, dt: float) -> None:
        """Keep what the sweeps of a substep have found."""
        self._note(launch, self._kept[number], dt)

    def begin_reverse(self, launch: Launcher, step: Step) -> None:
        """Start from the gradients of the end of the step."""
        out = step.state_out
        launch(
            steps_adjoint.begin_reverse,
            "particle",
            reads=dict(inv_mass=self.inv_mass, by_x=out.particle_q.grad, by_v=out.particle_qd.grad),
            writes=dict(mass=self.substep.mass, reverse=self.slopes),
        )
        launch(steps_adjoint.clear_gravity, "world", writes=dict(reverse=self.slopes))

    def _reverse_substep(self, launch: Launcher, step: Step, number: int, dt: float) -> None:
        """From gradients with respect to the end of a substep to those with respect to its start."""
        system = self.system
        kept = self.prepare_system(launch, step, number, dt)
        self.weigh(launch, step, kept, dt)
        system.solve(launch, self.iterations)
        launch(
            unsupported_adjoint.mark_unsolved,
            "implicit world",
            reads=dict(residual=system.view.residual, most=wp.float64(LARGEST_RESIDUAL)),
            writes=dict(reason=self.reason),
        )
        self.reverse_solution(launch, step, number, dt)
        launch(
            unsupported_adjoint.weigh_residuals,
            "implicit world",
            reads=dict(goal=kept.goal, s=self.substep, system=system.view),
            writes=dict(sums=self._unbalanced),
        )

    def prepare_system(self, launch: Launcher, step: Step, number: int, dt: float) -> KeptSubstep:
        """Return what is kept of a substep, with the right-hand side of its system in place."""
        substep, slopes, system, kept = self.substep, self.slopes, self.system, self._kept[number]
        substep.dt = dt
        substep.x, substep.u, substep.rate = kept.x, kept.u, kept.rate
        launch(
            steps_adjoint.begin_substep,
            "particle",
            writes=dict(s=substep, reverse=slopes, right=system.view.right),
        )
        if self.contacts is not None:
            self.contacts.use(kept.contacts)
            self.contacts.curve(launch, substep, kept.goal)
        self._reverse_velocities(launch, kept, dt)
        return kept

    def weigh(self, launch: Launcher, step: Step, kept: KeptSubstep, dt: float) -> None:
        """Write the matrix, without what rigid bodies do to it that move."""
        self.system.begin(launch, self.substep)
        self.elements.weigh(launch, step.control, self.substep)
        if self.contacts is not None:
            self.contacts.weigh(launch, self.law(dt), kept.goal, self.substep, self.reason)

    def _reverse_displacements(self, launch: Launcher) -> None:
        """From positions and velocities after a substep to the displacements that give them."""
        fastest = float(self.model.particle_max_velocity)
        launch(
            steps_adjoint.reverse_end,
            "particle",
            reads=dict(fastest=fastest, s=self.substep),
            writes=dict(reverse=self.slopes, right=self.system.view.right),
        )

    def reverse_solution(self, launch: Launcher, step: Step, number: int, dt: float) -> None:
        """From the multipliers to what the implicit step depends on."""
        substep, slopes, kept = self.substep, self.slopes, self._kept[number]
        launch(
            steps_adjoint.reverse_inertia,
            "particle",
            reads=dict(goal=kept.goal),
            writes=dict(s=substep, reverse=slopes),
        )
        self.elements.reverse(launch, step.control, substep)
        if self.contacts is not None:
            self.contacts.reverse(launch, self.law(dt), kept.goal, substep, slopes)
        if self.bodies is not None:
            self.bodies.reverse(launch, kept, dt)
        launch(
            steps_adjoint.reverse_prediction, "particle", reads=dict(s=substep), writes=dict(reverse=slopes)
        )
        if self.forces_in_substeps or number == 0:
            self._reverse_forces(launch, kept, dt if self.forces_in_substeps else step.dt)

    def compare_ends(self, launch: Launcher, step: Step, number: int, dt: float) -> None:
        """Find how far a step was from the one with the substep `number`, its last, that was solved again."""
        kept = self._kept[number]
        self.substep.dt, self.substep.u = dt, kept.u
        launch(
            unsupported_adjoint.compare_ends,
            "implicit world",
            reads=dict(
                solved=self.v,
                stepped=step.state_out.particle_qd,
                goal=kept.goal,
                s=self.substep,
                system=self.system.view,
            ),
            writes=dict(sums=self._unbalanced),
        )

    def finish(self, launch: Launcher, step: Step) -> None:
        """From the forces of the air back to the state, and hand everything over."""
        model, state = self.model, step.state_in
        if self.particles.air.blows:
            launch(
                steps_adjoint.reverse_air,
                "implicit tri",
                reads=dict(
                    indices=model.tri_indices,
                    materials=model.tri_materials,
                    x=state.particle_q,
                    v=state.particle_qd,
                ),
                writes=dict(reverse=self.slopes, materials_grad=self.sinks.of(model.tri_materials)),
            )
        launch(
            steps_adjoint.end_reverse,
            "particle",
            reads=dict(reverse=self.slopes, reason=self.reason, system=self.system.world),
            writes=dict(
                by_x=self.sinks.of(state.particle_q),
                by_v=self.sinks.of(state.particle_qd),
                by_f=self.sinks.of(state.particle_f),
                by_mass=self.sinks.of(model.particle_mass),
            ),
        )
        launch(
            steps_adjoint.add_gravity,
            "world",
            reads=dict(reverse=self.slopes),
            writes=dict(by_gravity=self.sinks.of(model.gravity_vec)),
        )
        launch(
            unsupported_adjoint.keep_reasons,
            "implicit world",
            reads=dict(reason=self.reason),
            writes=dict(kept_reason=self.kept_reason),
        )

    def check_gradient(self, solver: str) -> None:
        """Raise if a world had no gradient in a backward pass since the last check; waits for the device.

        Warn if sweeps ended so far from the implicit step that its gradient is not theirs, and again when
        that has become twice as much.

        Args:
            solver: Name of the solver.

        Raises:
            NotDifferentiableError: Names what acts, and the worlds.
        """
        reason = self.kept_reason.numpy().copy()
        self._warn(solver, reason == 0)
        self.kept_reason.zero_()
        refuse_worlds(solver, reason, _REASONS)

    def _warn(self, solver: str, worlds: np.ndarray) -> None:
        """Warn of forces that sweeps have left without balance in the masked worlds since the last check."""
        found = self._shortfall.untold(self._unbalanced.numpy(), worlds)
        self._unbalanced.zero_()
        if found is not None:
            world, part = found
            warnings.warn(
                f"{solver}: {self.particles.iterations} iterations left {part:.0%} of the forces on "
                f"particles without balance (world {world}); the gradient is that of the balanced step, "
                "and may be wrong by as much: use more iterations or substeps",
                RuntimeWarning,
                stacklevel=4,
            )

    @abstractmethod
    def law(self, dt: float) -> Law:
        """How contacts with shapes push in a substep of length dt [s]."""

    @abstractmethod
    def _note(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """Keep the displacements that the sweeps have found, and mark worlds that have no gradient."""

    @abstractmethod
    def _reverse_velocities(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """From positions and velocities after a substep to its displacements.

        That is `_reverse_displacements`, and what the solver does to velocities afterwards.
        """

    @abstractmethod
    def _reverse_forces(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """From velocities after external forces have acted for a time dt [s] to those before.

        `kept` is the substep in which they act, the first one if they act once in a step.
        """

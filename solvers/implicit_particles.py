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
from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim import compilation
from newtonsim.allocation import put, zeros
from newtonsim.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels import (
    implicit_contacts,
    implicit_curvature,
    implicit_damping,
    implicit_elements,
    implicit_pieces,
    implicit_refusals,
    implicit_steps,
    implicit_system,
    vbd_pieces,
    xpbd_tetrahedra,
)
from newtonsim.kernels.implicit_elements import SubstepView
from newtonsim.kernels.implicit_steps import ReverseView
from newtonsim.model import Model
from newtonsim.shards import Shard
from newtonsim.solvers.body_gradient import BodyAdjoint
from newtonsim.solvers.deformables import ParticleStep
from newtonsim.solvers.implicit_contacts import ContactSlopes, KeptContacts, Law
from newtonsim.solvers.implicit_elements import ElementSlopes, Sinks
from newtonsim.solvers.implicit_system import ImplicitSystem
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.solvers.penalty_gradient import RecordedStep
from newtonsim.solvers.vbd_particles import VBDParticles
from newtonsim.solvers.xpbd_particles import XPBDParticles
from newtonsim.workspace import Launcher

_LARGEST_RESIDUAL = 1.0e-4
"""Size of the residual of a linear system, over that of its right-hand side, that is a gradient still."""

_MOST_UNBALANCED = 0.01
"""Part of the forces on particles that sweeps may leave without balance before a warning says so."""

_KERNELS = (
    implicit_damping,
    implicit_elements,
    implicit_pieces,
    implicit_refusals,
    implicit_steps,
    implicit_system,
)

_CONTACT_KERNELS = (implicit_contacts, implicit_curvature)

_REASONS = {
    int(implicit_refusals.TOUCHES_BODY): "particles that touch a shape of a rigid body have no gradient",
    int(implicit_refusals.BOUNCES): "particles that bounce have no gradient",
    int(implicit_refusals.TOUCHES_PARTICLE): "particles that touch each other have no gradient",
    int(implicit_refusals.NOT_SOLVED): "the linear system of the adjoint did not converge",
}
"""Why a world has no gradient."""


@dataclass
class _Substep:
    """What is kept of a substep within a backward pass: at its start, and after its sweeps."""

    x: wp.array
    v: wp.array
    u: wp.array
    rate: wp.array
    goal: wp.array
    contacts: KeptContacts | None


class ParticleAdjoint:
    """Backward pass of the particles of a step; base of those of XPBD and VBD.

    Args:
        particles: A particle system of the adjoint's own, with the options of the one that moved forward.

    Attributes:
        iterations: Most iterations of the linear solver in a substep.
        reason: Why a world has no gradient in this step, 0 if it has, int, shape (world_count + 1,).
        kept_reason: The same since the last `check`.
    """

    secant = 0

    def __init__(self, particles: XPBDParticles | VBDParticles):
        self.particles, model = particles, particles.particles
        self.model, device, count = model, model.device, model.particle_count
        self.iterations = 500
        self.system, self.sinks = ImplicitSystem(model), Sinks(device)
        self.elements = ElementSlopes(model, self.system, self.sinks)
        self.bodies = MovingBodies(model)
        self.reason = zeros(model.world_count + 1, dtype=int, device=device)
        self.kept_reason = zeros(model.world_count + 1, dtype=int, device=device)
        self._unbalanced = zeros(model.world_count + 1, dtype=wp.vec2d, device=device)
        self._told = 0.0
        self.contacts = None
        if model.shape_count:
            self.contacts = ContactSlopes(model, particles.contacts, self.system, self.sinks)
        self.x, self.v, self.before = (zeros(count, dtype=wp.vec3, device=device) for _ in range(3))
        self.substep, self.slopes = SubstepView(), ReverseView()
        self.substep.mass, self.substep.multiplier = self.system.view.mass, self.system.view.x
        self.substep.secant = self.secant
        self.substep.slope_rate, self.substep.residual = (
            zeros(count, dtype=wp.vec3d, device=device) for _ in range(2)
        )
        for name in ("x", "v", "goal", "force"):
            setattr(self.slopes, name, zeros(count, dtype=wp.vec3d, device=device))
        self.slopes.mass = zeros(count, dtype=wp.float64, device=device)
        self.slopes.gravity = zeros(1, dtype=wp.vec3d, device=device)
        self.substep.slope_x = self.slopes.x
        self._kept: list[_Substep] = []
        self._shard = Shard(model, None, particles.starts | self.system.starts | self.elements.starts)
        kernels = (*_KERNELS, *(() if self.contacts is None else _CONTACT_KERNELS))
        compilation.load([wp.get_module(module.__name__) for module in kernels], device)

    def make_room(self) -> None:
        """Allocate what the present number of substeps needs."""
        while len(self._kept) < self.particles.substeps:
            arrays = [zeros(len(self.x), dtype=wp.vec3, device=self.model.device) for _ in range(5)]
            contacts = None if self.contacts is None else self.contacts.make_room()
            self._kept.append(_Substep(*arrays, contacts))

    def run(self, step: RecordedStep) -> None:
        """Add the step's contribution to the gradients of its inputs."""
        launch = Launcher(self.model, record_tape=False, shard=self._shard)
        substeps = self.particles.substeps
        self._replay(launch, step)
        out, dt = step.state_out, step.dt / substeps
        inputs = [self._inv_mass, out.particle_q.grad, out.particle_qd.grad, self.substep.mass, self.slopes]
        launch(implicit_steps.begin_reverse, "particle", inputs)
        for kept in reversed(self._kept[:substeps]):
            self._reverse_substep(launch, step, kept, dt)
        self._end(launch, step)

    def _replay(self, launch: Launcher, step: RecordedStep) -> None:
        """Go through the step once more, and keep what happens in its substeps."""
        particles, state = self.particles, step.state_in
        wp.copy(self.x, state.particle_q)
        wp.copy(self.v, state.particle_qd)
        particles.reset()
        self.reason.zero_()
        again = ParticleStep(self.x, self.v, state.particle_f, step.control, step.dt)
        particles.begin(launch, again)
        dt = step.dt / particles.substeps
        for kept in self._kept[: particles.substeps]:
            wp.copy(kept.x, self.x)
            wp.copy(kept.v, self.v)
            if self.contacts is not None:
                self.contacts.use(kept.contacts)
            particles.begin_substep(launch, again, dt, self.bodies)
            for _ in range(particles.iterations):
                particles.sweep(launch, again, dt, self.bodies)
            self._note(launch, kept, dt)
            self._refuse(launch)
            particles.end_substep(launch, again, dt, self.bodies)

    def _reverse_substep(self, launch: Launcher, step: RecordedStep, kept: _Substep, dt: float) -> None:
        """From the gradients by the end of a substep to those by its start."""
        substep, slopes, system = self.substep, self.slopes, self.system
        substep.dt = dt
        substep.x, substep.u, substep.rate = kept.x, kept.u, kept.rate
        fastest = float(self.model.particle_max_velocity)
        inputs = [substep, slopes, system.view.right]
        launch(implicit_steps.begin_substep, "particle", inputs)
        if self.contacts is not None:
            self.contacts.use(kept.contacts)
            self.contacts.curve(launch, substep, kept.goal)
        self._reverse_momentum(launch, kept, dt)
        launch(implicit_steps.reverse_end, "particle", [fastest, *inputs])
        system.begin(launch, substep)
        self.elements.weigh(launch, step.control, substep)
        if self.contacts is not None:
            self.contacts.weigh(launch, self._law(dt), kept.goal, substep, self.reason)
            self._reverse_touches(launch, kept, dt)
        system.solve(launch, self.iterations)
        inputs = [system.view.residual, wp.float64(_LARGEST_RESIDUAL), self.reason]
        launch(implicit_refusals.mark_unsolved, "implicit world", inputs)
        self._reverse_solution(launch, step, kept, dt)
        self._reverse_prediction(launch, kept, dt, fastest)

    def _reverse_solution(self, launch: Launcher, step: RecordedStep, kept: _Substep, dt: float) -> None:
        """From the multipliers to what the implicit step depends on, and how far it was from its solution."""
        substep, slopes = self.substep, self.slopes
        launch(implicit_steps.reverse_inertia, "particle", [kept.goal, substep, slopes])
        self.elements.reverse(launch, step.control, substep)
        if self.contacts is not None:
            self.contacts.reverse(launch, self._law(dt), kept.goal, substep, slopes)
        launch(implicit_steps.reverse_prediction, "particle", [substep, slopes])
        inputs = [kept.goal, substep, self.system.view, self._unbalanced]
        launch(implicit_refusals.weigh_residuals, "implicit world", inputs)

    def _end(self, launch: Launcher, step: RecordedStep) -> None:
        """From external forces back to the state, and hand everything over."""
        model, state = self.model, step.state_in
        if self.particles.air.blows:
            inputs = [model.tri_indices, model.tri_materials, state.particle_q, state.particle_qd]
            inputs += [self.slopes, self.sinks.of(model.tri_materials)]
            launch(implicit_steps.reverse_air, "implicit tri", inputs)
        outputs = [state.particle_q, state.particle_qd, state.particle_f, model.particle_mass]
        outputs = [self.sinks.of(array) for array in (*outputs, model.gravity_vec)]
        inputs = [self.slopes, self.reason, self.system.world, *outputs]
        launch(implicit_steps.end_reverse, "particle", inputs)
        launch(implicit_refusals.keep_reasons, "implicit world", [self.reason, self.kept_reason])

    def _refuse(self, launch: Launcher) -> None:
        """Mark worlds in which something without gradient acts."""

    def _law(self, dt: float) -> Law:
        """How contacts with shapes push in a substep of length dt [s]."""
        raise NotImplementedError

    def check(self, solver: str) -> None:
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
        for number, text in _REASONS.items():
            worlds = np.flatnonzero(reason == number)
            if len(worlds):
                raise NotDifferentiableError(f"{solver}: {text}, in worlds {worlds.tolist()[:10]}")

    def _warn(self, solver: str, worlds: np.ndarray) -> None:
        """Warn of forces that sweeps have left without balance in the masked worlds since the last check."""
        left, acted = self._unbalanced.numpy().T.copy()
        self._unbalanced.zero_()
        part = np.sqrt(np.divide(left, acted, out=np.zeros_like(left), where=worlds & (acted > 0.0)))
        part = np.nan_to_num(part)
        worst = int(np.argmax(part))
        if part[worst] > max(_MOST_UNBALANCED, 2.0 * self._told):
            self._told = part[worst]
            warnings.warn(
                f"{solver}: {self.particles.iterations} iterations left {part[worst]:.0%} of the forces on "
                f"particles without balance (world {worst}); the gradient is that of the balanced step, and "
                "may be wrong by as much: take more iterations or substeps",
                RuntimeWarning,
                stacklevel=4,
            )

    @property
    def _inv_mass(self) -> wp.array:
        """Inverse masses in the step, 0 for particles that are held."""
        raise NotImplementedError

    def _note(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        """Keep the displacements that the sweeps have found."""
        raise NotImplementedError

    def _reverse_momentum(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        """From the velocities after a substep to those that its displacements give."""

    def _reverse_touches(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        """From what contacts add to velocities after a substep to the contacts."""

    def _reverse_prediction(self, launch: Launcher, kept: _Substep, dt: float, fastest: float) -> None:
        """From the velocities that inertia predicts with to those at the start of the substep."""


class XPBDParticleAdjoint(ParticleAdjoint):
    """Backward pass of `XPBDParticles`, see `ParticleAdjoint`: external forces act in each substep."""

    def __init__(self, particles: XPBDParticles):
        super().__init__(particles)
        model = self.model
        tetrahedra = particles.tetrahedra
        self._element = zeros(model.tet_count, dtype=int, device=model.device)
        self._before = zeros(model.tet_count, dtype=implicit_damping.mat43d, device=model.device)
        if model.tet_count:
            place = tetrahedra.view.place.numpy()
            element = np.empty(model.tet_count, int)
            element[place] = np.arange(model.tet_count)
            self._element = put(element, dtype=int, device=model.device)

    @property
    def _inv_mass(self) -> wp.array:
        return self.particles.inv_mass

    def _law(self, dt: float) -> Law:
        if not self.particles.restitution:
            return Law(hard=True)
        slowest = self.particles.contacts.resting_speed(dt)
        return Law(True, slowest, float(self.model.soft_contact_restitution))

    def _note(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        inputs = [dt, self._inv_mass, self.v, self.particles.shift, kept.u, kept.rate, kept.goal]
        launch(implicit_steps.note_sweeps, "particle", inputs)

    def _refuse(self, launch: Launcher) -> None:
        """Mark worlds whose particles touch each other, too."""
        pairs = self.particles.pairs
        if pairs is not None:
            inputs = [pairs.grid.view, pairs.view, self.system.world, self.reason]
            launch(implicit_refusals.mark_pairs, "particle", inputs)

    def _reverse_momentum(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        """Back through the contacts that have stopped particles."""
        if self.contacts is not None and self.particles.restitution:
            fastest = float(self.model.particle_max_velocity)
            self.contacts.reverse_stops(launch, self._law(dt), fastest, self.substep, self.slopes)

    def _reverse_prediction(self, launch: Launcher, kept: _Substep, dt: float, fastest: float) -> None:
        """Back through gravity and forces, and the damping of tetrahedra before."""
        tetrahedra, v = self.particles.tetrahedra, kept.v
        if self.model.tet_count:
            v = self.before
            wp.copy(v, kept.v)
            for kind, base in tetrahedra.runs:
                launch(implicit_damping.note_before, kind, [base, tetrahedra.view, v, self._before])
                launch(xpbd_tetrahedra.damp_tetrahedra, kind, [base, tetrahedra.view, kept.x, dt, v])
        inputs = [dt, fastest, self.model.gravity_vec, self.particles.force, v, self.substep.mass]
        launch(implicit_steps.reverse_acceleration, "particle", [*inputs, self.slopes])
        for kind, base in reversed(tetrahedra.runs):
            inputs = [base, tetrahedra.view, self._element, self.model.tet_materials, kept.x, self._before]
            inputs += [dt, self.slopes, self.sinks.of(self.model.tet_poses)]
            inputs += [self.sinks.of(self.model.tet_materials)]
            launch(implicit_damping.reverse_damping, kind, inputs)


class VBDParticleAdjoint(ParticleAdjoint):
    """Backward pass of `VBDParticles`, see `ParticleAdjoint`: external forces act once in a step."""

    secant = 1

    def __init__(self, particles: VBDParticles):
        super().__init__(particles)
        count = len(particles.pieces.view.free)
        self._motion = zeros(count, dtype=wp.spatial_vector, device=self.model.device)

    @property
    def _inv_mass(self) -> wp.array:
        return self.particles.descent.inv_mass

    def _law(self, dt: float) -> Law:
        stiffness, damping = float(self.model.soft_contact_ke), float(self.model.soft_contact_kd)
        speed = float(self.particles.friction_epsilon)
        return Law(False, stiffness=stiffness, damping=damping, friction_speed=speed)

    def _note(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        inputs = [self.particles.stencils.view.u, self.particles.descent.goal, kept.u, kept.rate, kept.goal]
        launch(implicit_steps.note_descent, "particle", inputs)

    def _reverse_momentum(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        """Back through the motion that gives free pieces the momentum that they have lost."""
        particles = self.particles
        descent, stencils, pieces = particles.descent, particles.stencils.view, particles.pieces.view
        for array, value in ((stencils.x, kept.x), (stencils.u, kept.u), (descent.goal, kept.goal)):
            wp.copy(array, value)
        inputs = [dt, int(self.contacts is not None), particles.touch(), descent, stencils, pieces]
        launch(vbd_pieces.weigh_lost, "vbd chunk", inputs)
        launch(vbd_pieces.solve_pieces, "vbd piece", [pieces])
        launch(implicit_pieces.keep_motion, "vbd piece", [pieces, self._motion])
        launch(implicit_pieces.weigh_gradients, "vbd chunk", [self.substep, self.slopes, pieces])
        launch(vbd_pieces.solve_pieces, "vbd piece", [pieces])
        inputs = [kept.goal, self._motion, self.substep, self.slopes, pieces, self.system.view.right]
        launch(implicit_pieces.reverse_momentum, "vbd chunk", inputs)

    def _reverse_touches(self, launch: Launcher, kept: _Substep, dt: float) -> None:
        inputs = [kept.goal, self.substep, self.slopes, self.particles.pieces.view, self.system.view.right]
        for _, view in self.contacts.views(self._law(dt)):
            launch(implicit_contacts.reverse_touches, "vbd chunk", [view, *inputs])

    def _end(self, launch: Launcher, step: RecordedStep) -> None:
        """Back through gravity and forces, which have acted once."""
        inputs = [step.dt, self.model.gravity_vec, self.particles.descent.force, self.substep.mass]
        launch(implicit_steps.reverse_descent, "particle", [*inputs, self.slopes])
        super()._end(launch, step)


_NO_GRADIENT = ("joint_axis", "joint_armature")
"""Arrays of the model that steps read, but are not differentiated by."""


def record_step(
    tape: wp.Tape,
    solver: str,
    model: Model,
    adjoint: ParticleAdjoint | None,
    bodies: BodyAdjoint | None,
    step: RecordedStep,
    substeps: int,
) -> None:
    """Put the backward pass of one step on a tape.

    Args:
        tape: The tape.
        solver: Name of the solver, for errors.
        model: The model of the step.
        adjoint: Backward pass of its particles; None if there is none.
        bodies: Backward pass of its rigid bodies; None if there is none.
        step: The step.
        substeps: Substeps that it is made of.

    Raises:
        NotDifferentiableError: The model has what has no gradient.
        ValueError: The step is in place, has contacts of its own, or model or states have no gradients.
    """
    if model.body_count and model.particle_count:
        raise NotDifferentiableError(f"{solver}: particles among rigid bodies have no gradients")
    if step.state_in is step.state_out:
        raise ValueError("state_in and state_out must differ while a gradient is recorded")
    if (adjoint is None and bodies is None) or not (
        step.state_in.requires_grad and step.state_out.requires_grad
    ):
        raise ValueError(
            "a recorded step needs a model finalized with requires_grad=True and states that "
            "require gradients"
        )
    if step.contacts is not None:
        raise ValueError(
            "contacts: pass None while a gradient is recorded; a buffer that is filled again before the "
            "backward pass would give a wrong one"
        )
    if adjoint is not None:
        adjoint.make_room()
    if bodies is not None:
        bodies.make_room(substeps)
    arrays = [getattr(state, s.name) for s in STATE_ARRAYS for state in (step.state_in, step.state_out)]
    arrays += [getattr(step.control, spec.name) for spec in CONTROL_ARRAYS]
    arrays += [a for name, a in vars(model).items() if isinstance(a, wp.array) and name not in _NO_GRADIENT]
    arrays += [getattr(model.shape_materials, name, None) for name in ("ke", "kd", "kf", "mu", "restitution")]
    tracked = [a for a in arrays if a is not None and a.size and a.grad is not None]

    def run() -> None:
        if adjoint is not None:
            adjoint.run(step)
        if bodies is not None:
            bodies.run(step, substeps)

    tape.record_func(run, tracked)

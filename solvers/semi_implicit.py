"""Penalty forces and symplectic Euler steps."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import warp as wp

from newtonsim.allocation import zeros
from newtonsim.collide import find_contacts
from newtonsim.compilation import load_once
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.errors import ModelError
from newtonsim.kernels import energy_coordinates, penalty_motion
from newtonsim.model import Model
from newtonsim.shards import Shard
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.penalty_bodies import BodyForces
from newtonsim.solvers.penalty_contacts import SoftContactForces
from newtonsim.solvers.penalty_elements import ElementForces
from newtonsim.solvers.penalty_gradient import RecordedStep, StepAdjoint
from newtonsim.solvers.penalty_grains import GrainForces, reach_of
from newtonsim.state import State
from newtonsim.workspace import Launcher, active_tape

_SLIP_SPEED = 1.0e-3
"""Speed [m/s or rad/s] below which friction fades, at `friction_smoothing` 1."""


class SemiImplicitSolver(SolverBase):
    """Everything is a spring and a damper: forces are explicit, steps are symplectic Euler.

    The simplest solver, and one whose every step has a gradient: `wp.Tape` records rollouts with particles,
    elastic elements, joints, muscles and contacts. Nothing but the states is kept for the backward pass,
    which computes each step's forces once more.

    A step reads `particle_q`, `particle_qd`, `body_q` and `body_qd`, and keeps `joint_q` and `joint_qd` in
    agreement with the bodies; of `joint_q` it reads how many turns a single angle has made. Call `eval_fk`
    after writing joint coordinates.

    Forces are explicit, so a step is stable only if it is short for every spring and damper:
    dt < 2 √(m/k) and dt < 2 m/d, with m the mass that moves, or the inertia that turns. For a net, k is the
    sum over the springs of a particle. Damping and friction of particles in contact are limited to what stops
    them within a step. Joints are held by springs that give way: an arm of 1 kg hangs 1 cm
    low at the default `joint_attach_ke`.

    Particles: gravity, `particle_f`, springs, triangles with drag and lift, bending edges, tetrahedra;
    contact with shapes by `soft_contact_ke`, `_kd`, `_kf`, `_mu`, contact with each other by `particle_ke`,
    `_kd`, `_kf`, `_mu`. Bodies: all joints with drives, limits, springs, damping, friction; contacts by the
    materials' ke, kd, kf, mu; muscles (see `newtonsim.kernels.muscles`).

    Ignored: `joint_armature`, restitution, torsional and rolling friction. Same bits in every run on a CPU;
    on a GPU contacts with bodies add up in any order.

    Gradients of masses and inertias arrive at `particle_mass`, `body_mass` and `body_inertia`, not at their
    inverses. Between bodies the direction of a contact is fixed within a step; between particles and shapes
    it follows the curvature of the shape.

    Args:
        model: The model to simulate.
        angular_damping: Rate at which angular momentum of bodies decays [1/s].
        friction_smoothing: Scale of the speed below which friction fades: 1 for 1 mm/s (1 mrad/s in joints).
        joint_attach_ke: Stiffness of joints in what they hold [N/m]; turning is held at the same frequency.
        joint_attach_kd: Damping of joints in what they hold [N s/m].

    Attributes:
        world_nonfinite: Worlds whose velocities became NaN or infinite, bool, shape (world_count,).
        contacts: Contacts of the last step that was not given any.
        starts: Kinds of index of its elements, see `Shard`.

    Raises:
        ModelError: The model holds constraints beside its joints, or a muscle without meaning.
        ValueError: An argument is out of range.
    """

    divides_worlds = True

    def __init__(
        self,
        model: Model,
        angular_damping: float = 0.05,
        friction_smoothing: float = 1.0,
        joint_attach_ke: float = 1.0e3,
        joint_attach_kd: float = 1.0e2,
    ):
        super().__init__(model)
        if model.constraint_count:
            raise ModelError(
                f"SemiImplicitSolver holds joints only; the model has {model.constraint_count} constraints "
                f"(loops, distances, couplings), the first is {model.constraint_key[0]!r}"
            )
        self.angular_damping = _not_negative("angular_damping", angular_damping)
        self.friction_smoothing = _not_negative("friction_smoothing", friction_smoothing)
        if self.friction_smoothing == 0.0:
            raise ValueError("friction_smoothing: expected a positive number, got 0")
        self.joint_attach_ke = _not_negative("joint_attach_ke", joint_attach_ke)
        self.joint_attach_kd = _not_negative("joint_attach_kd", joint_attach_kd)
        self.elements = ElementForces(model)
        self.bodies = BodyForces(model)
        touching = model.particle_count and model.shape_count
        self.soft_contacts = SoftContactForces(model, self.elements) if touching else None
        self.grains = GrainForces(model) if reach_of(model) > 0.0 else None
        self.contacts = Contacts(model)
        self.default_control = model.control(clone_variables=False)
        device = model.device
        self.world_nonfinite = zeros(model.world_count, dtype=bool, device=device)
        self._any_nonfinite = zeros(1, dtype=int, device=device)
        self._reported = np.zeros(model.world_count, dtype=bool)
        self.starts = self.elements.starts | self.bodies.starts
        self.adjoint = StepAdjoint(self) if model.requires_grad else None

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`.

        Raises:
            ValueError: The model is not the solver's, or a gradient is recorded in place.
        """
        if model is not self.model:
            raise ValueError(
                "SemiImplicitSolver.step: the model is not the one the solver was constructed with"
            )
        for state in (state_in, state_out):
            model.check_state(state)
        control = self.default_control if control is None else control
        model.check_control(control)
        if not dt > 0.0:
            raise ValueError(f"dt: expected a positive number, got {dt}")
        tape = active_tape()
        if tape is not None and (state_in.requires_grad or model.requires_grad or _requires_grad(control)):
            self._record(tape, RecordedStep(state_in, state_out, control, contacts, dt))
        step = partial(self.step_worlds, Shard(model), state_in, state_out, control, contacts, dt)
        load_once(self, step, model.device)
        step()
        if model.device.is_cpu:
            self.report()

    def step_worlds(
        self,
        shard: Shard,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance some worlds by one step; see `SolverBase.step_worlds`."""
        launch = Launcher(self.model, record_tape=False, shard=shard.with_starts(self.starts))
        contacts = self.find_contacts(launch, state_in, contacts, dt, curved=False)
        self.advance(launch, state_in, state_out, control, contacts, dt)
        self._mark_nonfinite(launch, state_out)

    @property
    def kernel_kind(self) -> tuple:
        """The same for solvers that launch mostly the same kernels, see `compilation.load_once`."""
        model = self.model
        families = frozenset(model.collision_plan.families) if model.shape_count else frozenset()
        elements = tuple(len(order) > 0 for order in self.elements.orders.values())
        parts = (
            model.joint_count > 0,
            model.muscle_count > 0,
            model.particle_count > 0,
            model.body_count > 0,
        )
        return type(self), families, elements, parts, self.soft_contacts is None, self.grains is None

    def find_contacts(
        self, launch: Launcher, state: State, contacts: Contacts | None, dt: float, curved: bool
    ) -> Contacts:
        """Find what touches at the start of a step: features that stay fixed in it.

        Args:
            launch: For the worlds.
            state: State at the start.
            contacts: Contacts of bodies; None to find them.
            dt: Time step [s].
            curved: Whether the forces' slopes are needed.

        Returns:
            The contacts of bodies.
        """
        if self.soft_contacts is not None:
            self.soft_contacts.find(launch, state, dt, curved)
        if self.grains is not None:
            self.grains.find(launch, state)
        if contacts is None:
            contacts = self.contacts
            if self.model.body_count:
                find_contacts(launch, state.body_q, state.body_qd, contacts, dt)
        return contacts

    def advance(
        self,
        launch: Launcher,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts,
        dt: float,
    ) -> None:
        """All of a step that has a gradient: forces at its start, and motion."""
        model, soft = self.model, self.soft_contacts
        slip = _SLIP_SPEED * self.friction_smoothing
        body_f = None
        if model.body_count:
            attach = (self.joint_attach_ke, self.joint_attach_kd)
            self.bodies.apply(launch, state_in, control, contacts, *attach, slip, dt)
            body_f = self.bodies.f
        if model.particle_count:
            self.elements.apply(launch, state_in, control)
            if soft is not None:
                soft.push_triangles(launch, state_in, slip, dt, body_f)
            self.elements.sum_up(launch, state_in)
            if soft is not None:
                soft.push_particles(launch, state_in, slip, dt, body_f)
            if self.grains is not None:
                self.grains.push(launch, state_in, slip, dt, self.elements.f)
        self._move(launch, state_in, state_out, dt)

    def _move(self, launch: Launcher, state_in: State, state_out: State, dt: float) -> None:
        """Symplectic Euler step under the forces."""
        model = self.model
        if model.particle_count:
            inputs = [state_in.particle_q, state_in.particle_qd, self.elements.f, model.particle_mass]
            inputs += [model.particle_flags, model.gravity_vec, float(model.particle_max_velocity), dt]
            outputs = [state_out.particle_q, state_out.particle_qd]
            launch(penalty_motion.move_particles, "particle", inputs, outputs)
        if model.body_count:
            inputs = [state_in.body_q, state_in.body_qd, self.bodies.f, model.body_com, model.body_mass]
            inputs += [model.body_inertia, model.gravity_vec]
            inputs += [float(self.angular_damping), dt]
            launch(penalty_motion.move_bodies, "body", inputs, [state_out.body_q, state_out.body_qd])
        if model.joint_count:
            self.bodies.read_joints(launch, state_out)

    def _mark_nonfinite(self, launch: Launcher, state: State) -> None:
        """Mark worlds whose velocities are no numbers."""
        model, marks = self.model, [self.world_nonfinite, self._any_nonfinite]
        if model.particle_count:
            inputs = [model.particle_world, state.particle_qd]
            launch(penalty_motion.mark_particles, "particle", inputs, marks)
        if model.body_count:
            launch(penalty_motion.mark_bodies, "body", [model.body_world, state.body_qd], marks)

    def report(self) -> None:
        """Warn of contacts that there was no room for, and of worlds that became non-finite, once each.

        See `SolverBase.report`.
        """
        self.contacts.warn_of_overflow()
        if self.soft_contacts is not None:
            self.soft_contacts.search.report()
        if not self._any_nonfinite.numpy()[0]:
            return
        # an array operation would be recorded if a step is being captured
        if self.model.device.is_cpu:
            self._any_nonfinite.numpy()[0] = 0
        else:
            self._any_nonfinite.zero_()
        now = self.world_nonfinite.numpy().copy()
        worlds = np.flatnonzero(now & ~self._reported)
        self._reported = now
        if len(worlds):
            named = ", ".join(map(str, worlds[:8])) + (", ..." if len(worlds) > 8 else "")
            warnings.warn(
                f"{len(worlds)} of {len(now)} worlds have become non-finite (NaN or infinite): {named}; "
                "shorten the step (forces are explicit), check inputs, and reset these worlds",
                RuntimeWarning,
                stacklevel=3,
            )

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget non-finite marks of the masked worlds, or of all; see `SolverBase.reset`."""
        if world_mask is None:
            self.world_nonfinite.zero_()
        else:
            inputs = [world_mask, self.world_nonfinite]
            device = self.model.device
            wp.launch(energy_coordinates.clear_flags, self.model.world_count, inputs, device=device)
        if self.model.device.is_cpu:
            self._reported &= self.world_nonfinite.numpy()

    def _record(self, tape: wp.Tape, step: RecordedStep) -> None:
        """Put the step's adjoint on the tape."""
        if step.state_in is step.state_out:
            raise ValueError("state_in and state_out must differ while a gradient is recorded")
        if not (step.state_in.requires_grad and step.state_out.requires_grad and self.adjoint is not None):
            raise ValueError(
                "a recorded step needs a model finalized with requires_grad=True and states that require "
                "gradients"
            )
        if step.contacts is not None:
            raise ValueError(
                "contacts: pass None while a gradient is recorded; a buffer that is filled again before the "
                "backward pass would give a wrong one"
            )
        self.adjoint.record(tape, step)


def _requires_grad(control: Control) -> bool:
    arrays = (control.joint_act, control.joint_f, control.tri_activations, control.tet_activations)
    arrays += (control.muscle_activations,)
    return any(array is not None and array.requires_grad for array in arrays)


def _not_negative(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name}: expected a number not below 0, got {value}")
    return float(value)

"""Vertex block descent."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import warp as wp

from newtonsim.allocation import zeros
from newtonsim.compilation import load_once
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels import coupled_particles, energy_coordinates, penalty_motion
from newtonsim.model import Model
from newtonsim.shards import Shard
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.deformables import ParticleStep, advance
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.solvers.self_contact import SelfContact
from newtonsim.solvers.vbd_particles import VBDParticles
from newtonsim.solvers.xpbd_bodies import BodySweeps
from newtonsim.state import State
from newtonsim.workspace import Launcher, active_tape


class VBDSolver(SolverBase):
    """Implicit solver for cloth and soft bodies, which keeps surfaces from passing through each other.

    A substep is one of implicit Euler: sweeps lower the sum of inertia and energies particle by particle
    (`VBDParticles`). With few sweeps stiff material gives way more than it should, at any step it stays
    stable. Rigid bodies, joints and their contacts move in the same sweeps by extended position-based
    dynamics, and feel what particles do to them.

    Contact of particles with shapes is a spring of `soft_contact_ke` with a damper `soft_contact_kd` and
    friction, the mean of `soft_contact_mu` and that of the shape, smoothed below `friction_epsilon`: what
    rests on a slope creeps at less than that speed. Particles do not meet each other, their triangles do with
    `handle_self_contact`.

    A step reads `particle_q`, `particle_qd`, `particle_f`, `body_q`, `body_qd` and `body_f` of the state, and
    writes joint coordinates that agree with the poses. It has no gradients: it raises when a tape records it.

    Held particles go to where the user has put them: at once, or with `handle_self_contact` in the course of
    the step and as far as nothing is penetrated; `particle_qd` of them is what others feel. Forces of the air
    act if a triangle has drag or lift when the solver is made. Surface contacts that press hard on light
    particles smooth their friction below more than `friction_epsilon`, as far as the sweeps can carry it.
    There is one `step`: `simulate_one_step_no_self_contact`,
    `simulate_one_step_with_collisions_penetration_free` and `collision_detection_penetration_free` of the
    reference are parts of it, chosen at construction.

    Source: Chen, Liu, Yang, Yuksel, "Vertex Block Descent", ACM TOG 43(4), 2024.

    Args:
        model: The model. Its colours (`ModelBuilder.color`) are used if no element, bending edges included,
            has two particles of one colour; otherwise the solver makes own ones.
        iterations: Sweeps in each substep.
        handle_self_contact: Whether triangles collide, at the distance `soft_contact_radius`, found within
            `soft_contact_margin` of the model.
        penetration_free_conservative_bound_relaxation: Part of a gap that either side may close in a sweep.
        friction_epsilon: Speed above which friction is that of Coulomb [m/s].
        body_particle_contact_buffer_pre_alloc: Of no effect: there is room for four contacts with shapes a
            particle and two a triangle, and `report` tells when that was too little.
        vertex_collision_buffer_pre_alloc: Room for triangles near each vertex, on average.
        edge_collision_buffer_pre_alloc: Room for edges near each edge, on average.
        triangle_collision_buffer_pre_alloc: Room for vertices near each triangle, on average.
        edge_edge_parallel_epsilon: Squared sine of the angle below which edges are taken to be parallel.
        substeps: Substeps of each step.
        relaxation: Factor on the Newton steps of particles that touch nothing (`VBDParticles`): 1 for plain
            descent, up to 1.7 for stiff material; springs become unstable at 1.9.
        detection_interval: Sweeps after which contacts of surfaces are sought again.

    Attributes:
        world_nonfinite: Worlds whose particles or bodies became NaN or infinite, bool, shape (world_count,).
        constraints: What moves rigid bodies, with its options; None without them.
        surfaces: Contact of triangles with each other; None without it.

    Raises:
        ModelError: The model has something that the solver does not move.
        TypeError: The model is none.
        ValueError: An option is out of range.
    """

    divides_worlds = True

    def __init__(
        self,
        model: Model,
        iterations: int = 10,
        handle_self_contact: bool = False,
        penetration_free_conservative_bound_relaxation: float = 0.42,
        friction_epsilon: float = 1e-2,
        body_particle_contact_buffer_pre_alloc: int = 4,
        vertex_collision_buffer_pre_alloc: int = 32,
        edge_collision_buffer_pre_alloc: int = 64,
        triangle_collision_buffer_pre_alloc: int = 32,
        edge_edge_parallel_epsilon: float = 1e-5,
        substeps: int = 1,
        relaxation: float = 1.5,
        detection_interval: int = 5,
    ):
        if not isinstance(model, Model):
            raise TypeError(f"VBDSolver: expected a Model, got {type(model).__name__}")
        super().__init__(model)
        self.iterations, self.substeps, self.relaxation = iterations, substeps, relaxation
        self.friction_epsilon, self.detection_interval = friction_epsilon, detection_interval
        _check_options(self)
        self.surfaces = None
        if handle_self_contact:
            self.surfaces = SelfContact(
                model,
                float(model.soft_contact_radius),
                float(model.soft_contact_margin),
                penetration_free_conservative_bound_relaxation,
                friction_epsilon,
                vertex_collision_buffer_pre_alloc,
                edge_collision_buffer_pre_alloc,
                triangle_collision_buffer_pre_alloc,
                edge_edge_parallel_epsilon,
            )
        self._particles = VBDParticles(model, model, surfaces=self.surfaces)
        self._bodies = MovingBodies(model)
        self._control = model.control(clone_variables=False)
        self.constraints = BodySweeps(model) if model.body_count else None
        self.world_nonfinite = zeros(model.world_count, dtype=bool, device=model.device)
        self._any_nonfinite = zeros(1, dtype=int, device=model.device)
        self._reported = np.zeros(model.world_count, dtype=bool)

    @property
    def particles(self) -> VBDParticles:
        """What moves the particles, for a solver that moves the bodies otherwise."""
        particles = self._particles
        particles.iterations, particles.substeps = self.iterations, self.substeps
        particles.relaxation, particles.friction_epsilon = self.relaxation, self.friction_epsilon
        particles.detection_interval = self.detection_interval
        return particles

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
            ModelError: A state or the control does not fit the model.
            NotDifferentiableError: A tape records states that ask for gradients.
            ValueError: The model is not the solver's, or dt or an option is out of range.
        """
        if model is not self.model:
            raise ValueError("VBDSolver.step: the model is not the one the solver was constructed with")
        _check_options(self)
        for state in (state_in, state_out):
            model.check_state(state)
        control = self._control if control is None else control
        model.check_control(control)
        if not dt > 0.0:
            raise ValueError(f"dt: expected a positive number, got {dt}")
        if active_tape() is not None and (state_in.requires_grad or model.requires_grad):
            raise NotDifferentiableError("VBDSolver has no gradients: SemiImplicitSolver has, for the same")
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
        model, out = self.model, state_out
        launch = Launcher(model, record_tape=False, shard=shard)
        bodies, constraints = self._bodies, self.constraints
        if constraints is not None:
            bodies.begin(launch, state_in.body_q, state_in.body_qd, state_in.body_f, dt)
            constraints.begin(launch, state_in, control, contacts, dt)
        if model.particle_count and state_in is not out:
            inputs = [state_in.particle_q, state_in.particle_qd, out.particle_q, out.particle_qd]
            launch(coupled_particles.copy_particles, "particle", inputs)
        step = ParticleStep(out.particle_q, out.particle_qd, state_in.particle_f, control, dt)
        particles = self.particles if model.particle_count else None
        advance(launch, particles, step, bodies, constraints, self.substeps, self.iterations)
        if constraints is not None:
            constraints.end(launch, bodies, out)
        marks = [self.world_nonfinite, self._any_nonfinite]
        if model.particle_count:
            inputs = [model.particle_world, out.particle_q, out.particle_qd, *marks]
            launch(coupled_particles.mark_nonfinite, "particle", inputs)
        if model.body_count:
            launch(penalty_motion.mark_bodies, "body", [model.body_world, out.body_qd, *marks])

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return self.revision + (0 if self.constraints is None else self.constraints.revision)

    def rebuild_bvh(self, state: State) -> None:
        """Sort the triangles for self-contact anew, by their present positions; waits for the device.

        Args:
            state: Its `particle_q` is read.
        """
        if self.surfaces is not None and self.surfaces.active:
            self.surfaces.rebuild(state.particle_q)

    def report(self) -> None:
        """Warn of contacts that found no room, and of worlds that became non-finite, once each.

        See `SolverBase.report`.
        """
        self._particles.report()
        if self.constraints is not None:
            self.constraints.contacts.warn_of_overflow()
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
                "check inputs, and reset these worlds",
                RuntimeWarning,
                stacklevel=3,
            )

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget accelerations and non-finite marks of the masked worlds, or of all.

        See `SolverBase.reset`.
        """
        self._particles.reset(world_mask)
        if self.constraints is not None:
            self.constraints.reset(world_mask)
        if world_mask is None:
            self.world_nonfinite.zero_()
        else:
            inputs = [world_mask, self.world_nonfinite]
            device = self.model.device
            wp.launch(energy_coordinates.clear_flags, self.model.world_count, inputs, device=device)
        if self.model.device.is_cpu:
            self._reported &= self.world_nonfinite.numpy()


def _check_options(solver: VBDSolver) -> None:
    for name in ("iterations", "substeps", "detection_interval"):
        if getattr(solver, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(solver, name)}")
    if not 0.0 < solver.relaxation < 2.0:
        raise ValueError(f"relaxation: expected a number between 0 and 2, got {solver.relaxation}")
    if not solver.friction_epsilon > 0.0:
        raise ValueError(f"friction_epsilon: expected a positive number, got {solver.friction_epsilon}")

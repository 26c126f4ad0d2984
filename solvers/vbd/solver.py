"""Vertex block descent."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.errors import ModelError, NotDifferentiableError
from newtonsim.kernels.particles.vbd import adjacency
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.state import State
from newtonsim.solvers.option_ranges import check_counts, check_positive, check_relaxations
from newtonsim.solvers.particles.self_contact import SelfContact, SurfacePairs
from newtonsim.solvers.particles.sweep_solver import SweepSolver, SweptModel
from newtonsim.solvers.vbd.adjacency import ForceElementAdjacency, find_adjacency
from newtonsim.solvers.vbd.particles import VBDParticles

if TYPE_CHECKING:
    from newtonsim.solvers.vbd.adjoint import VBDParticleAdjoint


class VBDSolver(SweepSolver[VBDParticles]):
    """Implicit solver for cloth and soft bodies, which keeps surfaces from passing through each other.

    A substep is one of implicit Euler: sweeps lower the sum of inertia and energies particle by particle
    (`VBDParticles`). With few sweeps stiff material is too soft, but it is stable at any step. Rigid bodies,
    joints and their contacts are solved in the same sweeps by extended position-based dynamics, and react to
    particles.

    Contact of particles with shapes is a spring of `soft_contact_ke` with a damper `soft_contact_kd` and
    friction, the mean of `soft_contact_mu` and that of the shape, smoothed below `friction_epsilon`: objects
    at rest on a slope creep at less than that speed. Particles do not collide with each other; their
    triangles do with `handle_self_contact`.

    A step reads `particle_q`, `particle_qd`, `particle_f`, `body_q`, `body_qd` and `body_f` of the state, and
    writes joint coordinates that agree with the poses.

    Tapes record steps of models that were finalized with `requires_grad=True`; bodies, and particles among
    them, have gradients as under XPBDSolver. The gradient is that of the converged step
    (`solvers.particles.adjoint`), so its accuracy is that of the sweeps' convergence, and warm starts do not
    matter; `check_gradient` warns where they left more than 1 % of the forces on particles unbalanced.
    `handle_self_contact` is refused.

    Held particles move to where the user has put them: at once, or with `handle_self_contact` in the course
    of the step and as far as nothing is penetrated; others see their `particle_qd`. Aerodynamic forces act if
    a triangle has drag or lift when the solver is created. Surface contacts that press hard on light
    particles smooth their friction below a higher speed than `friction_epsilon`, as far as the sweeps
    require. `step` keeps surfaces apart if the solver was created with `handle_self_contact`. To choose this
    for a single step, call `simulate_one_step_no_self_contact` and
    `simulate_one_step_with_collisions_penetration_free`.

    Source: Chen, Liu, Yang, Yuksel, "Vertex Block Descent", ACM TOG 43(4), 2024.

    Args:
        model: The model. Its colours (`ModelBuilder.color`) are used if no element, bending edges included,
            has two particles of one colour; otherwise the solver makes its own.
        iterations: Sweeps in each substep.
        handle_self_contact: Whether triangles collide, at the distance `soft_contact_radius`, found within
            `soft_contact_margin` of the model.
        penetration_free_conservative_bound_relaxation: Fraction of a gap that either side may close in a
            sweep.
        friction_epsilon: Speed above which friction is that of Coulomb [m/s].
        body_particle_contact_buffer_pre_alloc: Has no effect: there is room for four contacts with shapes per
            particle and two per triangle, and `report` says when that was too little.
        vertex_collision_buffer_pre_alloc: Average capacity for triangles near each vertex.
        edge_collision_buffer_pre_alloc: Average capacity for edges near each edge.
        triangle_collision_buffer_pre_alloc: Average capacity for vertices near each triangle.
        edge_edge_parallel_epsilon: Squared sine of the angle below which edges are treated as parallel.
        substeps: Substeps of each step.
        relaxation: Factor on the Newton steps of particles that touch nothing (`VBDParticles`): 1 for plain
            descent, up to 1.7 for stiff material; springs become unstable at 1.9.
        detection_interval: Sweeps after which contacts of surfaces are sought again.

    Attributes:
        world_nonfinite: Worlds whose particles or bodies became NaN or infinite, bool, shape (world_count,).
        constraints: The solver of rigid bodies, with its options; None without them.
        surfaces: Contact of triangles with each other; None without it.

    Raises:
        ModelError: The model has elements that the solver does not move.
        TypeError: It is not a model.
        NewtonsimError: An option is out of range.
    """

    _name = "VBDSolver"

    count_num_adjacent_edges = adjacency.count_num_adjacent_edges
    fill_adjacent_edges = adjacency.fill_adjacent_edges
    count_num_adjacent_faces = adjacency.count_num_adjacent_faces
    fill_adjacent_faces = adjacency.fill_adjacent_faces

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
        check_model(model)
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
        make = partial(VBDParticles, model, model)
        self._parts = SweptModel(model, make(surfaces=self.surfaces), make, _make_adjoint)
        self._without_surfaces: SweptModel[VBDParticles] | None = None
        self._now = self._parts
        self.constraints = self._parts.constraints
        self.nonfinite = self._parts.nonfinite
        self.world_nonfinite = self.nonfinite.worlds

    @property
    def particles(self) -> VBDParticles:
        """The solver of the particles, for a solver that moves the bodies in another way."""
        return self._parts_of(self.model).particles

    def _parts_of(self, model: Model) -> SweptModel[VBDParticles]:
        """Return what moves the model, with the present options."""
        parts = self._now
        for particles in (parts.particles, None if parts.adjoint is None else parts.adjoint.particles):
            if particles is not None:
                particles.iterations, particles.substeps = self.iterations, self.substeps
                particles.relaxation, particles.friction_epsilon = self.relaxation, self.friction_epsilon
                particles.detection_interval = self.detection_interval
        return parts

    def _through_parts(self) -> SweptModel[VBDParticles]:
        """Return what moves the model while its surfaces pass through each other; made at the first call."""
        if self.surfaces is None:
            return self._parts
        if self._without_surfaces is None:
            parts = copy.copy(self._parts)  # the same bodies, constraints and marks of non-finite worlds
            parts.particles = VBDParticles(self.model, self.model)
            parts.particles.descent = self._parts.particles.descent  # and the same warm start
            self._without_surfaces = parts
        return self._without_surfaces

    def _all_parts(self) -> Iterable[SweptModel[VBDParticles]]:
        return (self._parts,)

    def _prepare(self, model: Model) -> Control:
        self.check_model(model)
        _check_options(self)
        return self._parts.control

    def _check_differentiable(self, parts: SweptModel[VBDParticles]) -> None:
        if parts.particles.surfaces is not None:
            raise NotDifferentiableError("VBDSolver: handle_self_contact has no gradients")

    def simulate_one_step_no_self_contact(
        self, model: Model, state_in: State, state_out: State, dt: float, control: Control | None = None
    ) -> None:
        """Advance by one step in which surfaces pass through each other, whatever `handle_self_contact` says.

        Contacts with shapes, and those of rigid bodies, act as in `step`. With `handle_self_contact` the
        first call allocates; the next step that keeps surfaces apart starts from where this one leaves them.

        Args:
            model: The model.
            state_in: State at the start.
            state_out: Receives the state at the end.
            dt: Time step [s].
            control: Inputs; None for those of the model.
        """
        self._now = self._through_parts()
        try:
            self.step(model, state_in, state_out, control, None, dt)
        finally:
            self._now = self._parts

    def simulate_one_step_with_collisions_penetration_free(
        self, model: Model, state_in: State, state_out: State, dt: float, control: Control | None = None
    ) -> None:
        """Advance by one step in which triangles collide and none passes through another.

        Args:
            model: The model.
            state_in: State at the start.
            state_out: Receives the state at the end.
            dt: Time step [s].
            control: Inputs; None for those of the model.

        Raises:
            ModelError: The solver was created without `handle_self_contact`.
        """
        for state in (state_in, state_out):
            model.check_state(state)
        if control is not None:
            model.check_control(control)
        self._surfaces()
        self.step(model, state_in, state_out, control, None, dt)

    def collision_detection_penetration_free(self, current_state: State, dt: float) -> SurfacePairs:
        """Find the pairs of triangles' corners and sides that can touch in a time; waits for the device.

        A step does its own detection. Particles are assumed to continue straight at `particle_qd`, for at
        most two mean edge lengths.

        Args:
            current_state: `particle_q` and `particle_qd` are read.
            dt: Time to look ahead [s].

        Returns:
            The pairs, at the positions of the state.

        Raises:
            ModelError: The solver was made without `handle_self_contact`, or the state is of another model.
        """
        self.model.check_state(current_state)
        surfaces, model = self._surfaces(), self.model
        if not surfaces.active:
            return surfaces.pairs()
        particles = self._parts.particles
        launch = Launcher(model, False, Shard(model, None, particles.starts))
        particles.detect(launch, current_state.particle_q, current_state.particle_qd, dt)
        return surfaces.pairs()

    def _surfaces(self) -> SelfContact:
        if self.surfaces is None:
            raise ModelError("VBDSolver: create it with handle_self_contact=True for surfaces that collide")
        return self.surfaces

    def compute_force_element_adjacency(self, model: Model) -> ForceElementAdjacency:
        """List the bending edges and triangles around each particle; waits for the device.

        Args:
            model: The model.

        Returns:
            The lists. The solver itself processes elements in its own order, by colour.
        """
        return find_adjacency(model)

    def rebuild_bvh(self, state: State) -> None:
        """Rebuild the hierarchy of triangles for self-contact from their current positions; waits for the
        device.

        Args:
            state: Its `particle_q` is read.

        Raises:
            ModelError: It is the state of another model.
        """
        self.model.check_state(state)
        if self.surfaces is not None and self.surfaces.active:
            self.surfaces.rebuild(state.particle_q)

    def carried_arrays(self) -> list[wp.array] | None:
        """Impulses of bodies, and accelerations of particles; see `SolverBase.carried_arrays`."""
        if self.surfaces is not None and self.surfaces.active:
            return None
        bodies = [] if self.constraints is None else self.constraints.carried_arrays()
        return [*bodies, self._parts.particles.descent.gain]


def _make_adjoint(particles: VBDParticles) -> VBDParticleAdjoint:
    # here, because few models need the kernels of the backward pass, which take long to import
    from newtonsim.solvers.vbd.adjoint import VBDParticleAdjoint

    return VBDParticleAdjoint(particles)


def _check_options(solver: VBDSolver) -> None:
    check_counts(solver, ("iterations", "substeps", "detection_interval"))
    check_relaxations(solver, ("relaxation",))
    check_positive(solver, ("friction_epsilon",))

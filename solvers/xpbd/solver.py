"""Extended position-based dynamics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import warp as wp

from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.kernels.particles.xpbd import deltas
from newtonsim.kinematics import check_length
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.maximal.sweeps import BodySweeps
from newtonsim.solvers.option_ranges import check_counts, check_not_negative, check_relaxations, check_shares
from newtonsim.solvers.particles.sweep_solver import SweepSolver, SweptModel
from newtonsim.solvers.xpbd.particles import XPBDParticles

if TYPE_CHECKING:
    from newtonsim.solvers.xpbd.adjoint import XPBDParticleAdjoint

_RELAXATIONS = (
    "soft_body_relaxation",
    "soft_contact_relaxation",
    "joint_linear_relaxation",
    "joint_angular_relaxation",
    "rigid_contact_relaxation",
)


class XPBDSolver(SweepSolver[XPBDParticles]):
    """Implicit solver in positions, for particles and their elements, and for rigid bodies among them.

    A substep is an implicit Euler step, approached by Gauss-Seidel sweeps over elements, contacts and joints:
    with few sweeps stiff material is too soft, but it is stable at any step. Joints of light bodies on long
    levers are an exception: with one sweep, or two at 1/30 s, they gain speed. Implicit Euler dissipates
    energy of fast oscillations; substeps keep more of it, and for the same total number of sweeps they
    converge better than iterations (Macklin et al., "Small steps in physics simulation", SCA 2019). Soft
    bodies need substeps in which free fall from rest, g dt², is at most a tenth of their cells: if it is as
    long as a cell, they collapse on the ground and may stay inverted. Momentum is conserved up to rounding.
    The loss of angular momentum grows with the length of the substep, and friction between particles, which
    have no spin, changes it.

    A step reads `particle_q`, `particle_qd`, `particle_f`, `body_q`, `body_qd` and `body_f` of the state, and
    writes joint coordinates that agree with the poses.

    Tapes record steps of models that were finalized with `requires_grad=True`. Bodies have gradients through
    joints, constraints and contacts (`BodyAdjoint`), as have particles among them (`ParticlesAmongBodies`).
    The gradient is that of the converged step (`solvers.particles.adjoint`), so its accuracy is that of the
    sweeps' convergence, and warm starts do not matter; `check_gradient` warns where they left more than 1 %
    of the forces on particles unbalanced. Particles that touch each other, or bounce, have no gradient: it
    becomes NaN in their worlds, and `check_gradient` says why.

    Sources: Macklin, Müller, Chentanez, "XPBD: position-based simulation of compliant constrained dynamics",
    MIG 2016; Müller, Macklin, Chentanez, Jeschke, Kim, "Detailed rigid body simulation with extended position
    based dynamics", SCA 2020.

    Args:
        model: The model; None if one is given at each step.
        iterations: Sweeps over the constraints in each substep.
        soft_body_relaxation: Factor on the corrections of springs, triangles, bending edges and tetrahedra,
            between 0 and 2. Above 1 it is successive over-relaxation, with which large meshes converge in a
            fraction of the sweeps; 1.5 to 1.8 is safe for elements without contacts.
        soft_contact_relaxation: Factor on the corrections of contacts of particles.
        joint_linear_relaxation: Factor on corrections of directions that joints constrain.
        joint_angular_relaxation: Factor on corrections of rotations that joints constrain; each joint is
            solved as a whole, with the mean of its rows' factors.
        rigid_contact_relaxation: Factor on corrections of contacts of bodies.
        rigid_contact_con_weighting: Whether the points of a pair of shapes share the correction of the first
            sweep, see `BodySweeps`.
        angular_damping: Rate at which angular velocities of bodies decay [1/s].
        enable_restitution: Whether contacts bounce.
        substeps: Substeps of each step.
        warm_start: Fraction of the forces of the last substep from which elements start, between 0 and 1.
            With 0.5 to 0.9, few sweeps make material much stiffer if steps are short; higher values cause
            oscillations.
        particle_contact: Whether particles collide with each other, see `ParticlePairs`. If radii are larger
            than the mesh size of a fine cloth or soft body, folds stay far apart and neighbours are many:
            give particles radii of about half their distance, or switch this off. It must not be changed
            later.

    Raises:
        ModelError: The model has elements that the solver does not move.
        NewtonsimError: An option is out of range.
    """

    _name = "XPBDSolver"

    def __init__(
        self,
        model: Model | None = None,
        iterations: int = 2,
        soft_body_relaxation: float = 0.9,
        soft_contact_relaxation: float = 0.9,
        joint_linear_relaxation: float = 0.7,
        joint_angular_relaxation: float = 0.4,
        rigid_contact_relaxation: float = 0.8,
        rigid_contact_con_weighting: bool = True,
        angular_damping: float = 0.0,
        enable_restitution: bool = False,
        substeps: int = 1,
        warm_start: float = 0.0,
        particle_contact: bool = True,
    ):
        super().__init__(model)
        self.iterations = iterations
        self.soft_body_relaxation = soft_body_relaxation
        self.soft_contact_relaxation = soft_contact_relaxation
        self.joint_linear_relaxation = joint_linear_relaxation
        self.joint_angular_relaxation = joint_angular_relaxation
        self.rigid_contact_relaxation = rigid_contact_relaxation
        self.rigid_contact_con_weighting = rigid_contact_con_weighting
        self.angular_damping = angular_damping
        self.enable_restitution = enable_restitution
        self.substeps = substeps
        self.warm_start, self.particle_contact = warm_start, bool(particle_contact)
        _check_options(self)
        self._parts: WeakKeyDictionary[Model, SweptModel[XPBDParticles]] = WeakKeyDictionary()
        if model is not None:
            self._parts_of(model)

    @property
    def particles(self) -> XPBDParticles:
        """The solver of the model's particles, for a solver that moves the bodies in another way."""
        if self.model is None:
            raise NewtonsimError("XPBDSolver was constructed without a model and has no particles")
        return self._parts_of(self.model).particles

    def _make_parts(self, model: Model) -> SweptModel[XPBDParticles]:
        if model.muscle_count:
            raise ModelError("XPBDSolver has no muscles, and the model has: SemiImplicitSolver has them")
        make = partial(XPBDParticles, model, model, friction="mean", pairs=self.particle_contact)
        return SweptModel(model, make(), make, _make_adjoint)

    def _all_parts(self) -> Iterable[SweptModel[XPBDParticles]]:
        return self._parts.values()

    def _parts_of(self, model: Model) -> SweptModel[XPBDParticles]:
        """Return the parts that move a model, created on first use, with the current options."""
        if model not in self._parts:
            self._parts[model] = self._make_parts(model)
        parts = self._parts[model]
        for particles in (parts.particles, None if parts.adjoint is None else parts.adjoint.particles):
            if particles is not None:
                particles.iterations, particles.substeps = self.iterations, self.substeps
                particles.relaxation, particles.warm_start = self.soft_body_relaxation, self.warm_start
                particles.contact_relaxation = self.soft_contact_relaxation
                particles.restitution = self.enable_restitution
        if parts.constraints is not None:
            sweeps = parts.constraints
            sweeps.linear_relaxation = self.joint_linear_relaxation
            sweeps.angular_relaxation = self.joint_angular_relaxation
            sweeps.contact_relaxation = self.rigid_contact_relaxation
            sweeps.con_weighting = self.rigid_contact_con_weighting
            sweeps.angular_damping = self.angular_damping
            sweeps.restitution = self.enable_restitution
        return parts

    @property
    def constraints(self) -> BodySweeps | None:
        """The solver of the model's rigid bodies, with its options; None without them."""
        if self.model is None:
            raise NewtonsimError("XPBDSolver was constructed without a model and has no bodies")
        return self._parts_of(self.model).constraints

    @property
    def world_nonfinite(self) -> wp.array:
        """Worlds of the solver's model whose state became NaN or infinite, bool, shape (world_count,)."""
        if self.model is None:
            raise NewtonsimError("XPBDSolver was constructed without a model and has no worlds")
        return self._parts_of(self.model).nonfinite.worlds

    def _prepare(self, model: Model) -> Control:
        _check_options(self)
        return self._parts_of(model).control

    def _check_differentiable(self, parts: SweptModel[XPBDParticles]) -> None:
        if len(parts.particles.anchor_particle) or parts.particles.damps_across:
            raise NotDifferentiableError(
                "XPBDSolver: anchors of particles, and damping of springs across them, have no gradients"
            )

    def carried_arrays(self) -> list[wp.array] | None:
        """Impulses of bodies and what they belong to; see `SolverBase.carried_arrays`."""
        carried = []
        for parts in self._parts.values():
            if parts.particles.warm_start > 0.0:
                return None
            carried += [] if parts.constraints is None else parts.constraints.carried_arrays()
        return carried

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return super().baked_revision() + sum(parts.particles.revision for parts in self._all_parts())

    def apply_particle_deltas(
        self, model: Model, state_in: State, state_out: State, particle_deltas: wp.array, dt: float
    ) -> None:
        """Move particles, and change their velocities by the displacement over `dt`.

        Args:
            model: The model.
            state_in: Predicted positions and velocities.
            state_out: Receives the corrected ones; may be `state_in`.
            particle_deltas: Corrections of the positions [m], shape (particle_count,), vec3.
            dt: Time step [s].

        Raises:
            ModelError: A state is one of another model, or the number of corrections is not that of
                particles.
        """
        model.check_state(state_in)
        model.check_state(state_out)
        check_length("particle_deltas", particle_deltas, model.particle_count)
        Launcher(model, record_tape=True)(
            deltas.apply_particle_deltas,
            "particle",
            reads=dict(
                inv_mass=model.particle_inv_mass,
                flags=model.particle_flags,
                x=state_in.particle_q,
                v=state_in.particle_qd,
                shift=particle_deltas,
                max_speed=float(model.particle_max_velocity),
                dt=dt,
            ),
            writes=dict(x_out=state_out.particle_q, v_out=state_out.particle_qd),
        )

    def apply_body_deltas(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        body_deltas: wp.array,
        dt: float,
        rigid_contact_inv_weight: wp.array | None = None,
    ) -> None:
        """Move and turn bodies, and change their velocities by the displacement over `dt`.

        Args:
            model: The model.
            state_in: Predicted poses and velocities.
            state_out: Receives the corrected ones; may be `state_in`.
            body_deltas: Impulses at the centres of mass times dt (angular [kg m²], linear [kg m]), world
                axes, shape (body_count,), spatial_vector.
            dt: Time step [s].
            rigid_contact_inv_weight: Numbers by which the impulses of each body are divided if they are above
                0, such as its number of contacts, shape (body_count,); None for 1.

        Raises:
            ModelError: A state is one of another model, or the number of corrections is not that of bodies.
        """
        model.check_state(state_in)
        model.check_state(state_out)
        check_length("body_deltas", body_deltas, model.body_count)
        divides = rigid_contact_inv_weight is not None
        divisor = rigid_contact_inv_weight if divides else model.body_inv_mass
        check_length("rigid_contact_inv_weight", divisor, model.body_count)
        Launcher(model, record_tape=True)(
            deltas.apply_body_deltas,
            "body",
            reads=dict(
                body_q=state_in.body_q,
                body_qd=state_in.body_qd,
                com=model.body_com,
                inv_mass=model.body_inv_mass,
                inv_inertia=model.body_inv_inertia,
                deltas=body_deltas,
                divisor=divisor,
                divides=int(divides),
                dt=dt,
            ),
            writes=dict(body_q_out=state_out.body_q, body_qd_out=state_out.body_qd),
        )


def _make_adjoint(particles: XPBDParticles) -> XPBDParticleAdjoint:
    # here, because few models need the kernels of the backward pass, which take long to import
    from newtonsim.solvers.xpbd.adjoint import XPBDParticleAdjoint

    return XPBDParticleAdjoint(particles)


def _check_options(solver: XPBDSolver) -> None:
    check_counts(solver, ("iterations", "substeps"))
    check_relaxations(solver, _RELAXATIONS)
    check_shares(solver, ("warm_start",))
    check_not_negative(solver, ("angular_damping",))

"""Penalty forces and symplectic Euler steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.kernels.penalty.contact_law import FADE_DEPTH
from newtonsim.kernels.steps import motion as steps_motion
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.state import State
from newtonsim.solvers.launched import LaunchedSolver
from newtonsim.solvers.light_bodies import refuse_light_bodies
from newtonsim.solvers.nonfinite import NonfiniteWorlds
from newtonsim.solvers.option_ranges import check_not_negative, check_positive
from newtonsim.solvers.references import references_of, warn_of_references
from newtonsim.solvers.semi_implicit.bodies import BodyForces
from newtonsim.solvers.semi_implicit.contacts import SoftContactForces
from newtonsim.solvers.semi_implicit.elements import ElementForces
from newtonsim.solvers.semi_implicit.grains import GrainForces, reach_of
from newtonsim.solvers.step import Step

if TYPE_CHECKING:
    from newtonsim.solvers.semi_implicit.adjoint import SemiImplicitAdjoint

_SLIP_SPEED = 1.0e-3
"""Speed [m/s or rad/s] below which friction fades, at `friction_smoothing` 1."""


class SemiImplicitSolver(LaunchedSolver):
    """Everything is a spring and a damper: forces are explicit, steps are symplectic Euler.

    The simplest solver, and one whose every step has a gradient: `wp.Tape` records rollouts with particles,
    elastic elements, joints, muscles and contacts. Nothing but the states is kept for the backward pass,
    which computes each step's forces once more.

    A step reads `particle_q`, `particle_qd`, `body_q` and `body_qd`, and keeps `joint_q` and `joint_qd`
    consistent with the bodies; from `joint_q` it reads how many turns a single angle has made. Call `eval_fk`
    after writing joint coordinates.

    Forces are explicit, so a step is stable only if it is short for every spring and damper:
    dt < 2 √(m/k) and dt < 2 m/d, with m the moving mass, or the rotating inertia. For a net, k is the sum
    over the springs of a particle. Damping and friction of particles in contact are limited to what stops
    them within a step. Joints are held by compliant springs: an arm of 1 kg hangs 1 cm low at the default
    `joint_attach_ke`.

    Particles: gravity, `particle_f`, springs, triangles with drag and lift, bending edges, tetrahedra;
    contact with shapes by `soft_contact_ke`, `_kd`, `_kf`, `_mu`, contact with each other by `particle_ke`,
    `_kd`, `_kf`, `_mu`. Bodies: all joints with drives, limits, springs, damping, friction; contacts by the
    materials' ke, kd, kf, mu; muscles (see `newtonsim.kernels.trees.muscles`). Loop joints, distances and
    couplings are held by springs like joints, up to their `max_force`; their `recovery_time` is not read.

    Ignored: `joint_armature`, restitution, torsional and rolling friction. Same bits in every run on a CPU;
    on a GPU contacts with bodies add up in any order.

    Gradients of masses and inertias belong to `particle_mass`, `body_mass` and `body_inertia`, not at their
    inverses. The direction of a contact follows the features in contact between bodies, and the curvature of
    the shape between particles and shapes; gradients through contacts of bodies whose features have no rule
    (distance fields) raise `NotDifferentiableError`.

    Args:
        model: The model to simulate.
        angular_damping: Rate at which angular momentum of bodies decays [1/s].
        friction_smoothing: Scale of the speed below which friction fades: 1 for 1 mm/s (1 mrad/s in joints).
        joint_attach_ke: Stiffness of joints in constrained directions [N/m]; rotations have the same
            frequency.
        joint_attach_kd: Damping of joints in constrained directions [N s/m].
        fade_depth: Depth beyond which damping of contacts [m] and of limits [m or rad] acts in full. For
            gradients of the impact itself, touching bodies must move by less in a step; otherwise gradients
            are those of a force that jumps.

    Attributes:
        world_nonfinite: Worlds whose velocities became NaN or infinite, bool, shape (world_count,).
        contacts: Contacts of the last step that was not given any.
        starts: Kinds of index of its elements, see `Shard`.

    Raises:
        ModelError: The model has an invalid muscle.
        NewtonsimError: An argument is out of range.
    """

    differentiated_controls = (
        "joint_act",
        "joint_f",
        "tri_activations",
        "tet_activations",
        "muscle_activations",
    )

    @classmethod
    def ignored(cls, model: Model) -> list[str]:
        """See `SolverBase.ignored`."""
        rotors = model.joint_dof_count and model.joint_armature.numpy().any()
        return [*references_of(model), *(["joint_armature"] if rotors else [])]

    def __init__(
        self,
        model: Model,
        angular_damping: float = 0.05,
        friction_smoothing: float = 1.0,
        joint_attach_ke: float = 1.0e3,
        joint_attach_kd: float = 1.0e2,
        fade_depth: float = FADE_DEPTH,
    ):
        check_model(model)
        super().__init__(model)
        self.angular_damping, self.friction_smoothing = angular_damping, friction_smoothing
        self.joint_attach_ke, self.joint_attach_kd = joint_attach_ke, joint_attach_kd
        self.fade_depth = fade_depth
        _check_options(self)
        warn_of_references(model, type(self).__name__)
        refuse_light_bodies(model, type(self).__name__)
        self.elements = ElementForces(model)
        self.bodies = BodyForces(model)
        touching = model.particle_count and model.shape_count
        self.soft_contacts = SoftContactForces(model, self.elements) if touching else None
        self.grains = GrainForces(model) if reach_of(model) > 0.0 else None
        self.contacts = Contacts(model)
        self.default_control = model.control(clone_variables=False)
        self.nonfinite = NonfiniteWorlds(model)
        self.world_nonfinite = self.nonfinite.worlds
        self.starts = self.elements.starts | self.bodies.starts
        self.adjoint = self._make_adjoint()

    def _make_adjoint(self) -> SemiImplicitAdjoint | None:
        if not self.model.requires_grad:
            return None
        from newtonsim.solvers.semi_implicit.adjoint import SemiImplicitAdjoint  # few models need it

        return SemiImplicitAdjoint(self)

    def _prepare(self, model: Model) -> Control:
        self.check_model(model)
        _check_options(self)
        return self.default_control

    def _record(self, tape: wp.Tape, model: Model, step: Step) -> None:
        step.check_not_in_place()
        step.check_gradients(has_adjoint=self.adjoint is not None)
        self.adjoint.record(tape, step)  # pyright: ignore[reportOptionalMemberAccess]

    def _advance(self, shard: Shard, step: Step) -> None:
        state_in, state_out, dt = step.state_in, step.state_out, step.dt
        launch = Launcher(self.model, record_tape=False, shard=shard.with_starts(self.starts))
        contacts = self.find_contacts(launch, state_in, step.contacts, dt, curved=False)
        self.advance(launch, state_in, state_out, step.control, contacts, dt)
        self.nonfinite.mark(launch, state_out)

    @property
    def kernel_kind(self) -> tuple:
        """The same for solvers that launch mostly the same kernels, see `compilation.load_once`."""
        model = self.model
        families = frozenset(collision_plan_of(model).families) if model.shape_count else frozenset()
        elements = tuple(len(order) > 0 for order in self.elements.orders.values())
        parts = (
            model.joint_count > 0,
            model.constraint_count > 0,
            model.muscle_count > 0,
            model.particle_count > 0,
            model.body_count > 0,
        )
        return type(self), families, elements, parts, self.soft_contacts is None, self.grains is None

    def find_contacts(
        self,
        launch: Launcher,
        state: State,
        contacts: Contacts | None,
        dt: float,
        curved: bool,
        buffer: Contacts | None = None,
    ) -> Contacts:
        """Find the contacts at the start of a step: features that stay fixed during the step.

        Args:
            launch: For the worlds.
            state: State at the start.
            contacts: Contacts of bodies; None to find them.
            dt: Time step [s].
            curved: Whether the forces' slopes are needed.
            buffer: Receives contacts of bodies; None for the solver's own.

        Returns:
            The contacts of bodies.
        """
        if self.soft_contacts is not None:
            self.soft_contacts.find(launch, state, dt, curved)
        if self.grains is not None:
            self.grains.find(launch, state)
        if contacts is None:
            contacts = self.contacts if buffer is None else buffer
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
        features: FeatureView | None = None,
    ) -> None:
        """The part of a step that has a gradient: forces at its start, and motion.

        With the features of contacts between bodies the forces are the same, and have the right derivatives.
        """
        model, soft = self.model, self.soft_contacts
        smooth = (_SLIP_SPEED * self.friction_smoothing, self.fade_depth)
        body_f = None
        if model.body_count:
            attach = (self.joint_attach_ke, self.joint_attach_kd)
            self.bodies.apply(launch, state_in, control, contacts, *attach, *smooth, dt, features)
            body_f = self.bodies.f
        if model.particle_count:
            self.elements.apply(launch, state_in, control)
            if soft is not None:
                soft.push_triangles(launch, state_in, *smooth, dt, body_f)
            self.elements.sum_up(launch, state_in)
            if soft is not None:
                soft.push_particles(launch, state_in, *smooth, dt, body_f)
            if self.grains is not None:
                self.grains.push(launch, state_in, *smooth, dt, self.elements.f)
        self._move(launch, state_in, state_out, dt)

    def _move(self, launch: Launcher, state_in: State, state_out: State, dt: float) -> None:
        """Symplectic Euler step under the forces."""
        model = self.model
        if model.particle_count:
            launch(
                steps_motion.move_particles,
                "particle",
                reads=dict(
                    world=model.particle_world,
                    x=state_in.particle_q,
                    v=state_in.particle_qd,
                    f=self.elements.f,
                    mass=model.particle_mass,
                    flags=model.particle_flags,
                    gravity=model.gravity_vec,
                    max_speed=float(model.particle_max_velocity),
                    dt=dt,
                ),
                writes=dict(x_out=state_out.particle_q, v_out=state_out.particle_qd),
            )
        if model.body_count:
            launch(
                steps_motion.move_bodies,
                "body",
                reads=dict(
                    world=model.body_world,
                    body_q=state_in.body_q,
                    body_qd=state_in.body_qd,
                    body_f=self.bodies.f,
                    com=model.body_com,
                    mass=model.body_mass,
                    inertia=model.body_inertia,
                    gravity=model.gravity_vec,
                    angular_damping=float(self.angular_damping),
                    dt=dt,
                ),
                writes=dict(body_q_out=state_out.body_q, body_qd_out=state_out.body_qd),
            )
        if model.joint_count:
            self.bodies.read_joints(launch, state_out)

    def report(self) -> None:
        """Warn of contacts that did not fit, and of worlds that became non-finite, once each.

        See `SolverBase.report`.
        """
        self.contacts.warn_of_overflow()
        if self.soft_contacts is not None:
            self.soft_contacts.search.report()
        self.nonfinite.report()

    def adjoints(self) -> tuple[object, ...]:
        """See `SolverBase.adjoints`."""
        return () if self.adjoint is None else (self.adjoint,)

    def carried_arrays(self) -> list[wp.array]:
        """None: forces follow from the state; see `SolverBase.carried_arrays`."""
        return []

    def check_gradient(self) -> None:
        """Raise if the gradient of a step was refused; see `SolverBase.check_gradient`."""
        if self.adjoint is not None:
            self.adjoint.check()

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget non-finite marks of the masked worlds, or of all; see `SolverBase.reset`."""
        self.check_reset(state, world_mask)
        self.nonfinite.reset(world_mask)

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`; worlds that become non-finite again are not reported again."""
        self.nonfinite.forget(Launcher(self.model, False, shard), world_mask)


def _check_options(solver: SemiImplicitSolver) -> None:
    check_not_negative(solver, ("angular_damping", "joint_attach_ke", "joint_attach_kd"), finite=True)
    check_positive(solver, ("friction_smoothing", "fade_depth"))

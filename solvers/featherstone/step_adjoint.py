"""Adjoint of a FeatherstoneSolver step.

The step solves r(q, v, v⁺, v̄; u, θ) = 0 for v⁺, where r is inverse dynamics at acceleration (v⁺ - v)/h plus
joint forces at the end of the step, and ∂r/∂v⁺ = H/h; where constraints act, it solves h r = Jᵀ p together
with their equations. By the implicit function theorem, an incoming gradient of v⁺ yields the gradient of -S
with respect to every other argument, where S is the sum of h λᵀ r and the terms of the rows
(`kernels.constraints.adjoint.row_terms`), with the multipliers of `kernels.constraints.adjoint.solve` held
fixed: one solve and one reverse pass through plain kernels. Everything is recomputed from the stored states
in the adjoint's own buffers. Only the states themselves and impulses, see `StartingImpulses`, outlive a
step, and the solver's memory does not change.
"""

from __future__ import annotations

from functools import partial

import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.actuators import laws, pushes, transmissions
from newtonsim.kernels.constraints.adjoint import contact_terms as contact_terms_adjoint
from newtonsim.kernels.constraints.adjoint import impact_terms
from newtonsim.kernels.constraints.adjoint import row_terms as row_terms_adjoint
from newtonsim.kernels.constraints.adjoint import velocities as velocities_adjoint
from newtonsim.kernels.constraints.adjoint import worlds as worlds_adjoint
from newtonsim.kernels.penalty import feature_contacts
from newtonsim.kernels.tendons import forces as tendon_forces
from newtonsim.kernels.tendons import paths, row_terms
from newtonsim.kernels.trees import (
    floating_terms,
    forward_kinematics,
    joint_forces,
    masked_dynamics,
    middle_velocity,
)
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.runtime import compilation
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.runtime.tapes import Tape
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraint_adjoint import ConstraintAdjoint
from newtonsim.solvers.featherstone.contact_adjoint import ContactAdjoint
from newtonsim.solvers.featherstone.contact_modes import CompliantContacts, HardContacts
from newtonsim.solvers.featherstone.impact_adjoint import ImpactAdjoint
from newtonsim.solvers.featherstone.options import ConstraintOptions
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.solution_error import SolutionError
from newtonsim.solvers.featherstone.step import FeatherstoneStep
from newtonsim.solvers.featherstone.switches import Switches
from newtonsim.solvers.model_actuators import ModelActuators

_MATERIAL_ARRAYS = ("ke", "kd", "kf", "mu", "restitution")


class FeatherstoneAdjoint:
    """Scratch memory and order of the backward pass, shared by all steps of a solver.

    Args:
        model: The solver's model, finalized with gradients.
        options: The solver's options.
        contact_mode: How the solver treats contacts.
    """

    def __init__(
        self, model: Model, options: ConstraintOptions, contact_mode: HardContacts | CompliantContacts
    ):
        self.model, self.options, self.contact_mode = model, options, contact_mode
        modules = (
            joint_forces,
            middle_velocity,
            feature_contacts,
            row_terms_adjoint,
            contact_terms_adjoint,
            impact_terms,
            masked_dynamics,
        )
        self.poses = Motion(model, requires_grad=True)
        self.motion = Motion(model, requires_grad=True, poses=self.poses)
        self.smooth = SmoothStage(model, motions=(self.poses, self.motion))
        if model.tendon_count:
            modules += (paths, tendon_forces, row_terms)
        if model.actuator_count:
            modules += (transmissions, laws, pushes)
        if self.smooth.factors.floating.present:
            modules += (floating_terms,)
        # now, since in the backward pass they would be compiled for the second time
        compilation.enable_backward(*(wp.get_module(kernels.__name__) for kernels in modules))
        self.contacts = Contacts(model)
        self.constraints = ConstraintAdjoint(model)
        self.tendons = self.constraints.stage.tendons
        self.actuators = None
        if model.actuator_count:
            self.actuators = ModelActuators(model, self.tendons, requires_grad=True)
        self.error = SolutionError(model)
        self.switches = Switches(model)
        self._after: State | None = None
        self._worlds = Shard(model)
        self._has_pairs = self.constraints.stage.pair_count > 0
        self._allocate_motions()
        self.contact_terms = ContactAdjoint(model, self.poses) if self.contacts.rigid_contact_max else None
        self._has_contacts = self.contact_terms is not None and not contact_mode.compliant
        self.carried = self.poses
        if self._has_contacts and self.smooth.balances_in_fall:
            self.carried = Motion(model, requires_grad=True, poses=self.poses)
        self._rebounds = self._has_contacts and self.contact_terms.rebounds
        self._pushes = self._rebounds or (self._has_contacts and _has_single_bodies(model))
        self.impacts = ImpactAdjoint(model, self.constraints, self.poses) if self._rebounds else None
        self.no_rounds = zeros(model.world_count, dtype=int, device=model.device)
        self.followed = zeros(model.world_count, dtype=int, device=model.device)
        self.pushed = zeros(model.world_count, dtype=int, device=model.device)
        self._allocate_arrays()

    def _allocate_motions(self) -> None:
        """Velocities over the poses at the start of the step."""
        model = self.model
        self.end = Motion(model, requires_grad=True)
        rows = {"requires_grad": True, "poses": self.poses}
        self.bias = Motion(model, **rows) if self._has_pairs else None
        self.moving_tendons = Motion(model, **rows) if self.smooth.moving is not None else None
        self.fields = tuple(Motion(model, forces=False, **rows) for _ in range(3 if self._has_pairs else 0))

    def _allocate_arrays(self) -> None:
        model = self.model
        dofs, bodies = model.joint_dof_count, model.body_count

        def make(count: int, dtype: type, requires_grad: bool = True) -> wp.array:
            return zeros(count, dtype=dtype, device=model.device, requires_grad=requires_grad)

        self.qdd = make(dofs, float)
        self.residual = make(dofs, float)
        self.v_end = make(dofs, float)
        self.v_bias = make(dofs, float)
        self.moving = make(dofs, float)
        self.qd_out = make(dofs, float)
        self.final_gradient = make(dofs, float, requires_grad=False)
        self.pushing_gradient = make(dofs, float, requires_grad=False)
        self.zero = make(dofs, float, requires_grad=False)
        self.q_out = make(model.joint_coord_count, float)
        self.body_q = make(bodies, wp.transform)
        self.body_q_out = make(bodies, wp.transform)
        self.body_qd = make(bodies, wp.spatial_vector)
        self.body_f = make(bodies, wp.spatial_vector)
        self.body_qd_out = make(bodies, wp.spatial_vector)
        self.act_out = make(model.actuator_count, float)

    def record(self, tape: wp.Tape, step: FeatherstoneStep) -> None:
        """Append the backward pass of one step to a tape."""
        model = self.model
        arrays = [state.joint_q for state in (step.state_in, step.state_out)]
        arrays += [state.joint_qd for state in (step.state_in, step.state_out)]
        arrays += [state.body_q for state in (step.state_in, step.state_out)]
        arrays += [state.body_qd for state in (step.state_in, step.state_out)]
        arrays += [step.state_in.body_f, step.control.joint_act, step.control.joint_f]
        arrays += [step.control.tendon_act, step.control.actuator_ctrl]
        arrays += [state.actuator_act for state in (step.state_in, step.state_out)]
        arrays += [a for a in vars(model).values() if isinstance(a, wp.array) and a.requires_grad]
        arrays += [getattr(model.shape_materials, name, None) for name in _MATERIAL_ARRAYS]
        tracked = [a for a in arrays if a is not None and a.size and a.grad is not None]
        tape.record_func(lambda: self.run(step), tracked)

    def run(self, step: FeatherstoneStep) -> None:
        """Add the step's contribution to the gradients of its inputs."""
        self._worlds = step.worlds or Shard(self.model)
        launch = self._launcher(record_tape=False)
        if not step.repeated and self._after is not step.state_out:
            self.error.clear()
            self.switches.clear()
        self._after = step.state_in
        compilation.load_once(self, partial(self._reverse, launch, step), self.model.device)
        self._reverse(launch, step)
        if not self.model.device.is_capturing:
            if not step.repeated:
                self.error.warn()
            self.constraints.check()

    def _reverse(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Everything that `run` launches."""
        self._recompute(launch, step)
        self._reverse_positions(launch, step)
        # the reverse of a store clears the gradient that it used; accumulated gradients have to be cleared
        fill(self.body_f.grad)
        if self.tendons is not None:
            self.tendons.clear_gradients()
        if self.actuators is not None:
            self.actuators.clear_gradients()
        poses = self._record_poses(step)
        copy(self.v_bias, self.smooth.v_mid)
        if self._rebounds:
            copy(self.contact_terms.v_free, self.smooth.v_free)
            fill(self.contact_terms.v_free.grad)
            self.impacts.write_outcome(launch, self.smooth.L, self.contact_terms.v_outcome)
            fill(self.contact_terms.v_outcome.grad)
        if self._pushes:
            launch(
                velocities_adjoint.mark_pushed,
                "world",
                reads=dict(world_state=self.constraints.stage.world_state),
                writes=dict(mask=self.pushed),
            )
            with launch.where_any(self.pushed):
                self._reverse_end(launch, step, pushing=True)
        self._reverse_end(launch, step, pushing=False)
        self.error.add(launch, self.constraints, self._rigid_contacts(), self.smooth)
        self.switches.add(launch, self.constraints, self._rigid_contacts(), step.dt)
        if self._rebounds:
            self._reverse_free(launch, step)
        self._reverse_prediction(launch, step)
        self._reverse_weights(step)
        self._reverse_along(step)
        self._reverse_forces(step)
        poses.backward()
        if self.constraints.stage.stiffness is not None:
            self.constraints.stage.stiffness.reverse(launch)

    def check(self) -> None:
        """Warn of sweeps that stopped early in the steps since the last call, and clear the record.

        Raises:
            NotDifferentiableError: A world had no gradient, see `ConstraintAdjoint.check`.
        """
        self.error.warn()
        self.error.clear()
        self.switches.clear()
        self.constraints.check()

    def _launcher(self, record_tape: bool) -> Launcher:
        stage = self.constraints.stage
        launch = Launcher(self.model, record_tape=record_tape, shard=self._worlds.with_starts(stage.starts))
        stage.use_inertia(launch)
        return launch

    def _recompute(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Everything up to the impulses, as the step computed it."""
        smooth, state, control, dt = self.smooth, step.state_in, step.control, step.dt
        smooth.place(launch, state)
        self.constraints.restiffen(launch, smooth, dt, step.starts)
        find_contacts(launch, smooth.body_q, smooth.body_qd, self.contacts, dt)
        if self.contact_terms is not None:
            self.contact_terms.find(launch, self.contacts, smooth.body_q)
        if self.contact_mode.compliant and self.contact_terms is not None:
            self.constraints.refuse_compliant(launch, self.contacts, self.contact_terms)
        smooth.begin_forces(launch, state)
        self.constraints.stage.slow(launch, smooth, dt)
        self.contact_mode.push(launch, self.contacts, smooth.body_q, smooth.body_qd, smooth.body_f)
        joint_f = control.joint_f
        if self.tendons is not None:
            moves = (smooth.body_q, state.joint_q, state.joint_qd, smooth.moving)
            self.tendons.measure(launch, smooth.motion.kin, *moves)
        if self.actuators is not None:
            self.actuators.measure(launch, state, smooth.body_q, smooth.body_qd)
            self.actuators.actuate(launch, control.actuator_ctrl, state.actuator_act, dt, self.act_out)
            joint_f = self.actuators.push(launch, joint_f, smooth.body_f)
        if self.tendons is not None:
            joint_f = self.tendons.pull(launch, control, joint_f)
            self.constraints.stage.weigh_tendons(launch, control, dt)
        smooth.factorize(launch, state, control, dt)
        smooth.predict(launch, state, control, joint_f, dt)
        if self.constraints.predicted is not None:
            self.constraints.predict(launch, self.options, smooth, state, dt)
        smooth.finish(launch, state, control, joint_f, dt)
        contacts = self._rigid_contacts()
        self.constraints.rebuild(launch, self.options, smooth, state, control, contacts, dt, step.starts)
        if self.impacts is not None:
            self.impacts.follow(launch, self.constraints, contacts, dt)
        self.constraints.resolve(launch, smooth, contacts, dt, step.starts, step.state_out.joint_qd)
        copy(self.body_f, smooth.body_f)

    def _rigid_contacts(self) -> Contacts:
        return self.contact_mode.constrained(self.contacts)

    def _record_poses(self, step: FeatherstoneStep) -> wp.Tape:
        """Poses at the start of the step, through which all later reverse passes finally go."""
        state = step.state_in
        with Tape() as tape:
            launch = self._launcher(record_tape=True)
            v = launch.views
            launch.poses(self.poses, state.joint_q, known=True)
            launch.inertias(self.poses, known=True)
            launch(
                row_terms_adjoint.write_poses,
                "body span",
                reads=dict(
                    tree=v.tree,
                    kin=self.poses.kin,
                    com=self.model.body_com,
                    loose_q=state.body_q,
                    loose_qd=state.body_qd,
                    dt=0.0,
                ),
                writes=dict(body_q=self.body_q),
            )
            stage = self.constraints.stage
            settings = stage.options.settings(step.dt)
            stage.parameters.add_up(launch, self.poses.kin, settings, stage.weights)
        return tape

    def _reverse_positions(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """From body poses back to joint coordinates, and through q⁺ = q ⊕ h v to the velocities."""
        state_in, state_out, stage = step.state_in, step.state_out, self.constraints.stage
        launch(
            velocities_adjoint.select_moving,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                world_state=stage.world_state,
                qd=state_out.joint_qd,
                solved=stage.moving_qd,
            ),
            writes=dict(moving=self.moving),
        )
        fill(self.moving.grad)
        for name, own in (
            ("joint_q", self.q_out),
            ("joint_qd", self.qd_out),
            ("body_q", self.body_q_out),
            ("body_qd", self.body_qd_out),
        ):
            copy(own.grad, getattr(state_out, name).grad)
        copy(self.qd_out, state_out.joint_qd)
        fill(self.followed)
        launch(
            worlds_adjoint.find_followed_worlds,
            "body",
            reads=dict(tree=launch.views.tree, slope_q=self.body_q_out.grad, slope_qd=self.body_qd_out.grad),
            writes=dict(followed=self.followed),
        )
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            record(
                joint_forces.integrate_joints,
                "joint",
                reads=dict(
                    joint=record.views.joint,
                    body_com=self.model.body_com,
                    q=state_in.joint_q,
                    qd=self.moving,
                    dt=step.dt,
                ),
                writes=dict(q_out=self.q_out),
            )
            self._record_bodies(launch, record, step)
        tape.backward()
        launch(
            velocities_adjoint.split_gradient,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                world_state=stage.world_state,
                qd_gradient=self.qd_out.grad,
                moving_gradient=self.moving.grad,
            ),
            writes=dict(final=self.final_gradient, pushing=self.pushing_gradient),
        )

    def _record_bodies(self, launch: Launcher, record: Launcher, step: FeatherstoneStep) -> None:
        """Record poses and velocities of bodies at the end, where they have gradients."""
        v, com, kin, state = record.views, self.model.body_com, self.end.kin, step.state_in
        launch(
            forward_kinematics.place_origins,
            "tree",
            reads=dict(tree=v.tree, joint=v.joint, q=self.q_out),
            writes=dict(origin=kin.origin),
        )
        record(
            masked_dynamics.compute_masked_poses,
            "tree",
            reads=dict(mask=self.followed, tree=v.tree, joint=v.joint, body_com=com, q=self.q_out),
            writes=dict(kin=kin),
        )
        record(
            masked_dynamics.compute_masked_velocities,
            "tree",
            reads=dict(mask=self.followed, tree=v.tree, joint=v.joint, qd=self.qd_out),
            writes=dict(kin=kin),
        )
        record.backward_only(
            masked_dynamics.write_masked_poses,
            "body",
            reads=dict(
                mask=self.followed,
                tree=v.tree,
                kin=kin,
                com=com,
                loose_q=state.body_q,
                loose_qd=state.body_qd,
                dt=step.dt,
            ),
            writes=dict(body_q=self.body_q_out),
        )
        record.backward_only(
            masked_dynamics.write_masked_velocities,
            "body",
            reads=dict(
                mask=self.followed, tree=v.tree, body=v.body, kin=kin, loose_qd=state.body_qd, share=1.0
            ),
            writes=dict(body_qd=self.body_qd_out),
        )

    def _reverse_end(self, launch: Launcher, step: FeatherstoneStep, pushing: bool) -> None:
        """From the end velocity back to everything that it depends on.

        Args:
            launch: Launcher whose launches are not recorded.
            step: The step.
            pushing: Whether it is the velocity that moves the coordinates, where the two differ.
        """
        gradient = self.pushing_gradient if pushing else self.final_gradient
        contacts = self._rigid_contacts()
        self.constraints.solve(launch, self.smooth.L, gradient, contacts, self.contact_terms, pushing)
        impulse = self.constraints.impulses(pushing)
        if pushing:
            # trees of several joints move by the final solution, but this solution has another velocity for
            # them
            launch(
                velocities_adjoint.find_pushing_velocities,
                "tree",
                reads=dict(
                    tree=launch.views.tree,
                    L=self.smooth.L,
                    world_state=self.constraints.stage.world_state,
                    z=impulse.z,
                    qd=step.state_out.joint_qd,
                ),
                writes=dict(v=self.v_end),
            )
        else:
            copy(self.v_end, step.state_out.joint_qd)
        mask = self.pushed if pushing else None
        self._reverse_residual(launch, step, self.motion, self.v_bias, impulse.pair, impulse, pushing, mask)

    def _reverse_free(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """From the velocity without constraints, on which rebounds depend, back to the step."""
        terms, impacts, constraints = self.contact_terms, self.impacts, self.constraints
        with launch.where_any(impacts.rounds.count):
            impacts.reverse(launch, constraints, self.contacts, self.smooth.L, terms.v_outcome.grad)
            for r in range(impacts.number_of_rounds()):
                impacts.select(launch, r)
                with launch.where_any(impacts.mask):
                    copy(constraints.multiplier, impacts.forces[r])
                    copy(self.v_end, impacts.velocities[r])
                    motion = {"mask": impacts.mask, "impact": r}
                    self._reverse_residual(launch, step, self.motion, self.v_bias, None, None, **motion)
        with launch.where_any(terms.rebounding):
            constraints.solve_free(launch, self.smooth.L, terms.v_free.grad, impacts.rounds)
            copy(self.v_end, self.smooth.v_free)
            self._reverse_residual(launch, step, self.motion, self.v_bias, None, None, mask=terms.rebounding)

    def _reverse_prediction(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """From the middle velocity, at which bias forces were taken, through the predicted one."""
        state, dt = step.state_in, step.dt
        copy(self.v_end, self.smooth.v_predicted)
        fill(self.v_end.grad)
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            v = record.views
            record.backward_only(
                middle_velocity.refine_middle_velocity,
                "tree",
                reads=dict(
                    tree=v.tree,
                    joint=v.joint,
                    body=v.body,
                    kin=self.poses.kin,
                    start=state.joint_qd,
                    predicted=self.v_end,
                    solution=self.smooth.v_mid,
                    dt=dt,
                ),
                writes=dict(middle=self.v_bias),
            )
        tape.backward()
        self.constraints.solve_predicted(launch, self.smooth.L, self.v_end.grad)
        self._reverse_residual(launch, step, self.poses, state.joint_qd, None, None)

    def _reverse_residual(
        self,
        launch: Launcher,
        step: FeatherstoneStep,
        motion: Motion,
        v_bias: wp.array,
        pair_impulse: wp.array | None,
        impulse: object | None,
        pushing: bool = False,
        mask: wp.array | None = None,
        impact: int | None = None,
    ) -> None:
        """Add the gradient of -S, with the multipliers of the last solve, by every argument of the step.

        Args:
            launch: Launcher whose launches are not recorded.
            step: The step.
            motion: Velocities of bodies at `v_bias`, which the step found; its accelerations are replaced.
            v_bias: Velocity at which the bias forces were taken.
            pair_impulse: Impulses of rows between bodies; None for those of the prediction.
            impulse: All impulses; None for the prediction, which has no other rows, and without constraints.
            pushing: Whether they are those that move the coordinates.
            mask: Worlds in which the multipliers may differ from zero; None for all.
            impact: Round of impact that produced the velocity, if any.
        """
        state, control, dt = step.state_in, step.control, step.dt
        joint_f = self._joint_f(control)
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            v = record.views
            record(
                joint_forces.difference_quotient,
                "dof",
                reads=dict(end=self.v_end, start=state.joint_qd, dt=dt),
                writes=dict(rate=self.qdd),
            )
            if mask is None:
                record.velocities(motion, v_bias, known=True)
                record.inverse_dynamics(motion, v_bias, self.qdd, self.body_f)
                self._record_floating(record, state, motion)
                record.backward_only(
                    joint_forces.joint_force_residual,
                    "dof span",
                    reads=dict(
                        tree=v.tree,
                        drive=v.drive,
                        implicit=self.smooth.implicit,
                        q=state.joint_q,
                        qd_end=self.v_end,
                        qdd=self.qdd,
                        act=control.joint_act,
                        joint_f=joint_f,
                        tau=motion.tau,
                        dt=dt,
                    ),
                    writes=dict(residual=self.residual),
                )
            else:
                self._record_masked(record, motion, v_bias, mask)
                self._record_floating(record, state, motion)
                record.backward_only(
                    masked_dynamics.masked_force_residual,
                    "tree",
                    reads=dict(
                        mask=mask,
                        tree=v.tree,
                        drive=v.drive,
                        implicit=self.smooth.implicit,
                        q=state.joint_q,
                        qd_end=self.v_end,
                        qdd=self.qdd,
                        act=control.joint_act,
                        joint_f=joint_f,
                        tau=motion.tau,
                        dt=dt,
                    ),
                    writes=dict(residual=self.residual),
                )
            if impulse is not None:
                with record.where_any(self.constraints.acting):
                    self.constraints.add_masses(record)
                    self.constraints.add_dof_terms(record, state, control, dt, impulse)
                self.constraints.add_tendon_terms(record, control, self.v_end, dt, impulse)
                if self._has_contacts:
                    with record.where_any(self.constraints.acting):
                        self._record_contacts(record, step, impulse, pushing)
            predicted = mask is None and self.constraints.predicted is not None
            if self._has_pairs and (impulse is not None or predicted):
                self._record_pairs(record, step, v_bias, pair_impulse)
            if impact is not None:
                settings = self.constraints.stage.options.settings(dt)
                inputs = [self.contacts, self.contact_terms.features, self.body_q, state.body_qd, settings]
                self.impacts.add_terms(record, self.constraints, impact, *inputs)
        self.constraints.seed_terms()
        launch(
            velocities_adjoint.scale,
            "dof",
            reads=dict(a=self.constraints.multiplier, factor=-dt),
            writes=dict(b=self.residual.grad),
        )
        tape.backward()
        if mask is not None:
            # nothing was stored in the worlds outside the mask
            motion.zero_grad()

    def _record_floating(self, record: Launcher, state: State, motion: Motion) -> None:
        """Record what armature and damping of floating joints add to the inverse dynamics."""
        self.smooth.factors.floating.add_forces(
            record,
            self.poses.kin,
            (state.joint_qd, self.v_end),
            self.qdd,
            self.model.joint_damping,
            1.0,
            motion.tau,
        )

    def _record_pairs(
        self, record: Launcher, step: FeatherstoneStep, v_bias: wp.array, impulse: wp.array | None
    ) -> None:
        """Record the terms of rows between bodies or dofs."""
        state, constraints = step.state_in, self.constraints
        record.velocities(self.bias, v_bias)
        record.accelerations(self.bias, v_bias, self.zero)
        velocities = [constraints.multiplier, self.v_end]
        if constraints.stage.parameters.pairs:
            velocities.append(state.joint_qd)
        for field, velocity in zip(self.fields, velocities, strict=False):
            record.velocities(field, velocity)
        constraints.add_pair_terms(
            record, state, self._bodies(state), self.bias, v_bias, self.fields, self.v_end, step.dt, impulse
        )

    def _bodies(self, state: State) -> BodyStateView:
        """Recorded poses of all bodies at the start of the step, and velocities of those on no tree."""
        view = BodyStateView()
        view.q, view.qd, view.com = self.body_q, state.body_qd, self.model.body_com
        return view

    def _record_masked(self, record: Launcher, motion: Motion, v_bias: wp.array, mask: wp.array) -> None:
        """Record the inverse dynamics of the worlds of a mask."""
        v = record.views
        record(
            masked_dynamics.compute_masked_velocities,
            "tree",
            reads=dict(mask=mask, tree=v.tree, joint=v.joint, qd=v_bias),
            writes=dict(kin=motion.kin),
        )
        record(
            masked_dynamics.masked_inverse_dynamics,
            "tree",
            reads=dict(
                mask=mask,
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                gravity=self.model.gravity_vec,
                kin=motion.kin,
                qd=v_bias,
                qdd=self.qdd,
                body_f=self.body_f,
            ),
            writes=dict(dof_A=motion.dof_A, body_A=motion.body_A, body_F=motion.body_F, tau=motion.tau),
        )

    def _record_contacts(
        self, record: Launcher, step: FeatherstoneStep, impulse: object, positions: bool
    ) -> None:
        """Record the terms of contacts."""
        state, constraints = step.state_in, self.constraints
        known = self.carried is self.poses
        record.velocities(self.carried, state.joint_qd, known)
        record.accelerations(self.carried, state.joint_qd, self.zero, known)
        self.contact_terms.clear()
        self.contact_terms.add_terms(
            record,
            self.contacts,
            self._bodies(state),
            self.carried,
            (constraints.multiplier, self.v_end, state.joint_qd),
            constraints.stage.options.settings(step.dt),
            constraints.stage.parameters.contacts(),
            constraints.stage.rows,
            (impulse.contact, impulse.spin),
            constraints.rows,
            constraints.mass,
            self.no_rounds if self.impacts is None else self.impacts.rounds.count,
            self.pushed if positions else None,
        )

    def _reverse_weights(self, step: FeatherstoneStep) -> None:
        """From how inert dofs are back to the inertias of bodies, and to directions of tendons."""
        stage = self.constraints.stage
        settings = stage.options.settings(step.dt)
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            stage.weigh_tendons(record, step.control, step.dt)
            stage.parameters.weigh(record, self.smooth.implicit, settings, stage.weights)
        tape.backward()

    def _joint_f(self, control: Control) -> wp.array:
        """Generalised forces of inputs, actuators and tendons together."""
        if self.tendons is not None:
            return self.tendons.joint_f
        return control.joint_f if self.actuators is None else self.actuators.joint_f

    def _reverse_along(self, step: FeatherstoneStep) -> None:
        """From the forces of actuators and tendons, and rows of these, back to the state and the inputs."""
        if self.tendons is None and self.actuators is None:
            return
        state, joint_f = step.state_in, step.control.joint_f
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            if self.tendons is not None:
                moves = (self.body_q, state.joint_q, state.joint_qd, self.moving_tendons)
                self.tendons.measure(record, self.poses.kin, *moves)
            if self.actuators is not None:
                joint_f = self._record_actuators(record, self.actuators, step)
            if self.tendons is not None:
                self.tendons.pull(record, step.control, joint_f)
        if self.actuators is not None:
            copy(self.act_out.grad, step.state_out.actuator_act.grad)
        tape.backward()

    def _record_actuators(
        self, record: Launcher, actuators: ModelActuators, step: FeatherstoneStep
    ) -> wp.array:
        """Record the forces of actuators of the model; return the generalised ones with those given."""
        state, control = step.state_in, step.control
        self._record_velocities(record, state)
        actuators.measure(record, state, self.body_q, self.body_qd)
        actuators.actuate(record, control.actuator_ctrl, state.actuator_act, step.dt, self.act_out)
        return actuators.push(record, control.joint_f, self.body_f)

    def _record_velocities(self, record: Launcher, state: State) -> None:
        """Record velocities of bodies at the start of the step."""
        record.velocities(self.poses, state.joint_qd, known=True)
        v = record.views
        record(
            row_terms_adjoint.write_velocities,
            "body span",
            reads=dict(tree=v.tree, body=v.body, kin=self.poses.kin, loose_qd=state.body_qd, share=1.0),
            writes=dict(body_qd=self.body_qd),
        )

    def _reverse_forces(self, step: FeatherstoneStep) -> None:
        """From the wrenches back to the external ones, and through compliant contacts to the coordinates."""
        state = step.state_in
        with Tape() as tape:
            record = self._launcher(record_tape=True)
            record.backward_only(
                feature_contacts.add_wrenches,
                "body",
                reads=dict(a=state.body_f),
                writes=dict(total=self.body_f),
            )
            stiffness = self.constraints.stage.stiffness
            if stiffness is not None or isinstance(self.contact_mode, CompliantContacts):
                self._record_velocities(record, state)
            if stiffness is not None:
                stiffness.slow(record, self.body_q, self.body_qd, step.dt, self.body_f)
            if isinstance(self.contact_mode, CompliantContacts):
                arrays = (self.body_q, self.body_qd, self.body_f)
                self.contact_terms.push(record, self.contact_mode, self.contacts, *arrays)
        tape.backward()


def _has_single_bodies(model: Model) -> bool:
    """Whether a tree consists of one joint."""
    start = topology_of(model).view.joint_start.numpy()
    return bool((start[1:] - start[:-1] == 1).any())

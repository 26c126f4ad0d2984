"""Reduced-coordinate solver with an implicit drive model and a unified constraint solve."""

from __future__ import annotations

import warnings

import warp as wp

from newtonsim.collide import find_contacts
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.errors import ModelError
from newtonsim.kernels import crba, gauss_seidel, integrate, joint_forces
from newtonsim.model import Model
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.constraints import ConstraintOptions, ConstraintStage
from newtonsim.solvers.featherstone_gradient import StepAdjoint
from newtonsim.state import State
from newtonsim.workspace import Launcher, Motion, active_tape


class SmoothStage:
    """Everything of a step before the constraints: joint-space inertia, forces, unconstrained velocity.

    Attributes:
        motion: Poses, and velocities at the start of the step.
        mid: Velocities in the middle of the step.
        implicit: 0 for dofs whose drive may exceed its effort limit, shape (joint_dof_count,).
        L: Factorized joint-space inertia with the implicit terms.
        v_predicted: Joint velocities with the bias force taken at the start of the step.
        v_free: Joint velocities without constraints.
    """

    def __init__(self, model: Model):
        dofs, bodies, device = model.joint_dof_count, model.body_count, model.device
        self.motion = Motion(model)
        self.mid = Motion(model, poses=self.motion)
        self.composite = crba.CompositeView()
        self.composite.mass = wp.zeros(bodies, dtype=float, device=device)
        self.composite.moment = wp.zeros(bodies, dtype=wp.vec3, device=device)
        self.composite.inertia = wp.zeros(bodies, dtype=wp.mat33, device=device)
        self.L = wp.zeros(model.topology.entry_count, dtype=float, device=device)
        self.implicit = wp.zeros(dofs, dtype=int, device=device)
        self.diagonal = wp.zeros(dofs, dtype=float, device=device)
        self.residual = wp.zeros(dofs, dtype=float, device=device)
        self.zero = wp.zeros(dofs, dtype=float, device=device)
        self.v_predicted = wp.zeros(dofs, dtype=float, device=device)
        self.v_mid = wp.zeros(dofs, dtype=float, device=device)
        self.v_free = wp.zeros(dofs, dtype=float, device=device)

    def run(self, launch: Launcher, state: State, control: Control, dt: float) -> None:
        """Compute v_free and all that the constraint stage needs."""
        self.factorize(launch, state, control, dt)
        dofs = launch.model.joint_dof_count
        launch.velocities(self.motion, state.joint_qd)
        self._advance(launch, self.motion, state.joint_qd, state, control, dt, self.v_predicted)
        # leapfrog: the velocities are those between the positions, so velocity-dependent forces belong
        # to the mean of the old and the new one; without this, spinning bodies gain energy
        launch(joint_forces.midpoint, dofs, [state.joint_qd, self.v_predicted, self.v_mid])
        launch.velocities(self.mid, self.v_mid)
        self._advance(launch, self.mid, self.v_mid, state, control, dt, self.v_free)

    def factorize(self, launch: Launcher, state: State, control: Control, dt: float) -> None:
        """Poses and the factorized joint-space inertia, armature and implicit terms included."""
        v, dofs = launch.views, launch.model.joint_dof_count
        launch.poses(self.motion, state.joint_q)
        inputs = [v.tree, v.drive, state.joint_q, state.joint_qd, control.joint_act, dt, self.implicit]
        launch(joint_forces.select_implicit_drives, dofs, inputs)
        launch(crba.implicit_diagonal, dofs, [v.tree, v.drive, self.implicit, dt, self.diagonal])
        inputs = [v.tree, v.joint, v.body, self.motion.kin, self.composite]
        launch(crba.composite_inertia, launch.tree_count, inputs)
        inputs = [v.tree, self.motion.kin, self.composite, self.diagonal, self.L]
        launch(crba.joint_space_inertia, dofs, inputs)
        launch(crba.factorize, launch.tree_count, [v.tree, self.L])

    def _advance(
        self,
        launch: Launcher,
        motion: Motion,
        v_bias: wp.array,
        state: State,
        control: Control,
        dt: float,
        v_end: wp.array,
    ) -> None:
        """v_end = v - h H⁻¹ r, with r the force balance at zero acceleration and bias forces at v_bias."""
        v = launch.views
        launch.inverse_dynamics(motion, v_bias, self.zero, state.body_f)
        inputs = [v.tree, v.drive, self.implicit, state.joint_q, state.joint_qd, self.zero]
        inputs += [control.joint_act, control.joint_f, motion.tau, dt, self.residual]
        launch(joint_forces.joint_force_residual, launch.model.joint_dof_count, inputs)
        inputs = [v.tree, self.L, self.residual, -dt, state.joint_qd, v_end]
        launch(crba.solve, launch.tree_count, inputs)


class FeatherstoneSolver(SolverBase):
    """Articulated bodies in reduced coordinates, with contacts, limits and friction solved together.

    A step reads `joint_q`, `joint_qd` and `body_f` of the state (and the poses of bodies without joints) and
    writes joint coordinates and body poses that agree with each other. Drives, springs and damping are
    implicit: any gain is stable at any step. Velocity-dependent forces are centred in the step, which keeps
    the energy of tumbling and swinging bodies. Constraints act at velocity level: contacts with a friction
    cone and restitution, joint limits, drives at their effort limit, and dry joint friction are solved by
    projected Gauss-Seidel from the last step's impulses.

    Gradients flow through a step by the adjoint of the implicit equation: the backward pass recomputes what
    it needs from the states, so a rollout stores nothing but its states. They are defined as long as no
    constraint acts; `NotDifferentiableError` is raised, or NaN returned for the worlds concerned inside a
    captured graph, where one does.

    Args:
        model: The model to simulate.
        contact_mode: "hard".
        options: Further fields of `ConstraintOptions`, such as iterations, tolerance, cone, contact_erp.

    Attributes:
        world_nonfinite: Worlds whose velocities became NaN or infinite, bool, shape (world_count,).
        constraints: The constraint stage with its iterations and residual per world.

    Not supported: particles with springs, triangles or tetrahedra; the distance limits of distance joints,
    which move like free ones; mimic joints; `joint_enabled`.

    Sources: Featherstone, "Rigid Body Dynamics Algorithms", 2008; Stewart and Trinkle, "An implicit
    time-stepping scheme for rigid body dynamics", 1996.

    Raises:
        ModelError: The model holds elements that the solver does not move.
        ValueError: An option is out of range.
    """

    def __init__(self, model: Model, contact_mode: str = "hard", **options: object):
        super().__init__(model)
        if contact_mode != "hard":
            raise ValueError(f"contact_mode: expected 'hard', got {contact_mode!r}")
        for name in ("spring", "tri", "edge", "tet", "muscle"):
            if getattr(model, f"{name}_count"):
                raise ModelError(f"FeatherstoneSolver moves bodies and free particles; the model has {name}s")
        if model.joint_mimic:
            names = ", ".join(model.joint_key[mimic[0]] for mimic in model.joint_mimic[:8])
            warnings.warn(f"FeatherstoneSolver does not couple mimic joints yet: {names}", stacklevel=2)
        self.options = ConstraintOptions(**options)
        self.smooth = SmoothStage(model)
        self.constraints = ConstraintStage(model, self.options)
        self.body_q = wp.zeros(model.body_count, dtype=wp.transform, device=model.device)
        self.body_qd = wp.zeros(model.body_count, dtype=wp.spatial_vector, device=model.device)
        self.end_motion = Motion(model)
        self.world_nonfinite = wp.zeros(model.world_count, dtype=bool, device=model.device)
        self.default_control = model.control(clone_variables=False)
        self.adjoint = StepAdjoint(model) if model.requires_grad else None

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
                "FeatherstoneSolver.step: the model is not the one the solver was constructed with"
            )
        control = self.default_control if control is None else control
        tape = active_tape()
        if tape is not None and (state_in.requires_grad or model.requires_grad):
            self._record(tape, state_in, state_out, control, dt)
        if model.particle_count:
            self.integrate_particles(model, state_in, state_out, dt)
        if model.joint_count == 0:
            return

        launch = Launcher(model, record_tape=False)
        smooth, v = self.smooth, launch.views
        smooth.run(launch, state_in, control, dt)
        launch.write_bodies(smooth.motion, self.body_q, self.body_qd)
        self._move_kinematic(launch, state_in, 0.0, self.body_q, self.body_qd)
        if contacts is None:
            contacts = self.constraints.own_contacts
            find_contacts(model, self.body_q, self.body_qd, contacts, dt)
        self.constraints.solve(
            launch,
            smooth.motion,
            smooth.L,
            smooth.implicit,
            (self.body_q, self.body_qd),
            state_in.joint_q,
            smooth.v_free,
            control.joint_act,
            contacts,
            dt,
            state_out.joint_qd,
        )
        launch(
            gauss_seidel.flag_nonfinite,
            model.joint_dof_count,
            [v.tree, state_out.joint_qd, self.world_nonfinite],
        )
        inputs = [v.joint, model.body_com, state_in.joint_q, state_out.joint_qd, dt]
        launch(joint_forces.integrate_joints, model.joint_count, inputs, [state_out.joint_q])
        launch.poses(self.end_motion, state_out.joint_q)
        launch.velocities(self.end_motion, state_out.joint_qd)
        launch.write_bodies(self.end_motion, state_out.body_q, state_out.body_qd)
        self._move_kinematic(launch, state_in, dt, state_out.body_q, state_out.body_qd)

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget warm starts and non-finite marks of the masked worlds, or of all; see `SolverBase.reset`."""
        self.constraints.forget(world_mask)
        if world_mask is None:
            self.world_nonfinite.zero_()
        else:
            wp.launch(
                gauss_seidel.clear_flags,
                self.model.world_count,
                [world_mask, self.world_nonfinite],
                device=self.model.device,
            )

    def _move_kinematic(
        self, launch: Launcher, state: State, dt: float, body_q: wp.array, body_qd: wp.array
    ) -> None:
        inputs = [launch.views.tree.body_tree, state.body_q, state.body_qd, self.model.body_com, dt]
        launch(integrate.move_kinematic_bodies, self.model.body_count, [*inputs, body_q, body_qd])

    def _record(self, tape: wp.Tape, state_in: State, state_out: State, control: Control, dt: float) -> None:
        """Put the step's adjoint on the tape."""
        if state_in is state_out:
            raise ValueError("state_in and state_out must differ while a gradient is recorded")
        if not (state_in.requires_grad and state_out.requires_grad and self.adjoint is not None):
            raise ValueError(
                "a recorded step needs a model finalized with requires_grad=True and states that require "
                "gradients"
            )
        self.adjoint.record(tape, self.smooth, state_in, state_out, control, dt)

"""Adjoint of a FeatherstoneSolver step in which no constraint acts.

The step solves r(q, v, v⁺, v̄; u, θ) = 0 for v⁺, where r is inverse dynamics at acceleration (v⁺ - v)/h plus
joint forces at the end of the step, and ∂r/∂v⁺ = H/h. By the implicit function theorem an incoming gradient g
of v⁺ becomes -λᵀ ∂r/∂x for every other argument x, with H λ = h g: one solve with the factor of the forward
pass and one reverse pass through plain kernels. The factor and all intermediate values are recomputed from
the stored states, so that nothing outlives a step but the states themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import warp as wp

from newtonsim import compilation
from newtonsim.collide import find_contacts
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels import (
    adjoint,
    contact_penalty,
    crba,
    forward_kinematics,
    joint_forces,
    middle_velocity,
    rnea,
)
from newtonsim.model import Model
from newtonsim.solvers.smooth import SmoothStage, apply_penalty
from newtonsim.state import State
from newtonsim.workspace import Launcher, Motion

if TYPE_CHECKING:
    from newtonsim.solvers.featherstone import FeatherstoneSolver


@dataclass
class RecordedStep:
    """Arguments of one recorded step."""

    state_in: State
    state_out: State
    control: Control
    contacts: Contacts | None
    dt: float


class StepAdjoint:
    """Scratch memory and order of the backward pass, shared by all steps of a solver.

    Args:
        model: A model finalized with gradients.
    """

    def __init__(self, model: Model):
        self.model = model
        # now rather than in the backward pass, when they would be compiled for the second time
        for kernels in (forward_kinematics, rnea, joint_forces, middle_velocity, contact_penalty):
            compilation.enable_backward(wp.get_module(kernels.__name__))
        self.motion = Motion(model, requires_grad=True)
        dofs, device = model.joint_dof_count, model.device

        def vector(requires_grad: bool) -> wp.array:
            return wp.zeros(dofs, dtype=float, device=device, requires_grad=requires_grad)

        self.qdd = vector(True)
        self.residual = vector(True)
        self.v_end = vector(True)
        self.v_bias = vector(True)
        self.multiplier = vector(False)
        bodies = model.body_count
        self.body_q = wp.zeros(bodies, dtype=wp.transform, device=device, requires_grad=True)
        self.body_qd = wp.zeros(bodies, dtype=wp.spatial_vector, device=device, requires_grad=True)
        self.body_f = wp.zeros(bodies, dtype=wp.spatial_vector, device=device, requires_grad=True)
        self.zero = vector(False)
        self.constrained = wp.zeros(model.world_count, dtype=int, device=device)

    def record(self, tape: wp.Tape, solver: FeatherstoneSolver, step: RecordedStep) -> None:
        """Append the backward pass of one step to a tape."""
        arrays = [state.joint_q for state in (step.state_in, step.state_out)]
        arrays += [state.joint_qd for state in (step.state_in, step.state_out)]
        arrays += [step.state_in.body_f, step.state_out.body_q, step.state_out.body_qd]
        arrays += [step.control.joint_act, step.control.joint_f]
        arrays += [a for a in vars(self.model).values() if isinstance(a, wp.array) and a.requires_grad]
        arrays += [getattr(self.model.shape_materials, name, None) for name in ("ke", "kd", "kf", "mu")]
        tracked = [a for a in arrays if a is not None and a.size and a.grad is not None]
        tape.record_func(lambda: self.run(solver, step), tracked)

    def run(self, solver: FeatherstoneSolver, step: RecordedStep) -> None:
        """Add the step's contribution to the gradients of its inputs."""
        smooth, dt = solver.smooth, step.dt
        state_in, state_out = step.state_in, step.state_out
        self._reverse_positions(state_in, state_out, dt)
        launch = Launcher(self.model, record_tape=False)
        smooth.place(launch, state_in)
        contacts = self._compliant_contacts(launch, solver, step)
        smooth.sum_forces(launch, state_in, contacts)
        smooth.run(launch, state_in, step.control, dt)
        self._check_constraints(launch, smooth, state_out)
        wp.copy(self.body_f, smooth.body_f)
        self.body_f.grad.zero_()
        wp.copy(self.v_end, state_out.joint_qd)
        wp.copy(self.v_bias, smooth.v_mid)
        self._multiply(launch, smooth, state_out.joint_qd.grad, dt)
        self._reverse_residual(smooth, state_in, step.control, self.v_bias, dt)
        # the bias forces were taken at the middle velocity, which depends on the predicted one
        wp.copy(self.v_end, smooth.v_predicted)
        self._reverse_middle(state_in, dt)
        self._multiply(launch, smooth, self.v_end.grad, dt)
        self._reverse_residual(smooth, state_in, step.control, state_in.joint_qd, dt)
        self._reverse_forces(smooth, state_in, contacts)

    def _reverse_middle(self, state_in: State, dt: float) -> None:
        """From the middle velocity back to the old and the predicted one, and to the inertia."""
        self.motion.zero_grad()
        self.v_end.grad.zero_()
        with wp.Tape() as tape:
            launch = Launcher(self.model, record_tape=True)
            v = launch.views
            launch.poses(self.motion, state_in.joint_q)
            inputs = [v.tree, v.joint, v.body, self.motion.kin, state_in.joint_qd, self.v_end, dt]
            launch(middle_velocity.find_middle_velocity, "tree", inputs, [self.v_bias])
        tape.backward()

    def _compliant_contacts(
        self, launch: Launcher, solver: FeatherstoneSolver, step: RecordedStep
    ) -> Contacts | None:
        """Contacts whose forces belong to the smooth part, found again as the step found them."""
        if not solver.compliant:
            return None
        find_contacts(launch, solver.smooth.body_q, solver.smooth.body_qd, solver.contacts, step.dt)
        return solver.contacts

    def _reverse_forces(self, smooth: SmoothStage, state_in: State, contacts: Contacts | None) -> None:
        """From the wrenches back to the external ones, and through compliant contacts to the coordinates."""
        wp.copy(self.body_q, smooth.body_q)
        wp.copy(self.body_qd, smooth.body_qd)
        self.motion.zero_grad()
        self.body_q.grad.zero_()
        self.body_qd.grad.zero_()
        with wp.Tape() as tape:
            launch = Launcher(self.model, record_tape=True)
            launch(contact_penalty.add_wrenches, "body", [state_in.body_f], [self.body_f])
            if contacts is not None:
                launch.poses(self.motion, state_in.joint_q)
                launch.velocities(self.motion, state_in.joint_qd)
                launch.write_bodies(self.motion, self.body_q, self.body_qd)
                apply_penalty(launch, contacts, self.body_q, self.body_qd, self.body_f)
        tape.backward()

    def _reverse_positions(self, state_in: State, state_out: State, dt: float) -> None:
        """From body poses back to joint coordinates, and through q⁺ = q ⊕ h v⁺."""
        self.motion.zero_grad()
        with wp.Tape() as tape:
            launch = Launcher(self.model, record_tape=True)
            inputs = [launch.views.joint, self.model.body_com, state_in.joint_q, state_out.joint_qd, dt]
            launch(joint_forces.integrate_joints, "joint", inputs, [state_out.joint_q])
            launch.poses(self.motion, state_out.joint_q)
            launch.velocities(self.motion, state_out.joint_qd)
            launch.write_bodies(self.motion, state_out.body_q, state_out.body_qd)
        tape.backward()

    def _check_constraints(self, launch: Launcher, smooth: SmoothStage, state_out: State) -> None:
        """Find the worlds in which a constraint acted, and raise if their values can be read now."""
        self.constrained.zero_()
        inputs = [launch.views.tree.dof_world, smooth.v_free, state_out.joint_qd, self.constrained]
        launch(adjoint.find_constrained_worlds, "dof", inputs)
        if not self.model.device.is_capturing:
            worlds = self.constrained.numpy().nonzero()[0]
            if len(worlds):
                raise NotDifferentiableError(
                    "FeatherstoneSolver has no gradient through an acting contact, joint limit, effort "
                    f"limit or dry friction; one acted in worlds {worlds[:8].tolist()}"
                )

    def _multiply(self, launch: Launcher, smooth: SmoothStage, gradient: wp.array, dt: float) -> None:
        """Solve H multiplier = h gradient; NaN where a constraint acted."""
        inputs = [launch.views.tree, smooth.L, gradient, dt, self.zero, self.multiplier]
        launch(crba.solve, "tree", inputs)
        inputs = [launch.views.tree.dof_world, self.constrained, self.multiplier]
        launch(adjoint.poison_constrained_worlds, "dof", inputs)

    def _reverse_residual(
        self, smooth: SmoothStage, state_in: State, control: Control, v_bias: wp.array, dt: float
    ) -> None:
        """Add -multiplierᵀ ∂r/∂x to the gradient of every argument x of the residual at v_end."""
        self.motion.zero_grad()
        for array in (self.qdd, self.residual, self.v_end, self.v_bias):
            array.grad.zero_()
        with wp.Tape() as tape:
            launch = Launcher(self.model, record_tape=True)
            v = launch.views
            launch.poses(self.motion, state_in.joint_q)
            launch.velocities(self.motion, v_bias)
            launch.inertias(self.motion)
            launch(joint_forces.difference_quotient, "dof", [self.v_end, state_in.joint_qd, dt], [self.qdd])
            launch.inverse_dynamics(self.motion, v_bias, self.qdd, self.body_f)
            inputs = [v.tree, v.drive, smooth.implicit, state_in.joint_q, self.v_end, self.qdd]
            inputs += [control.joint_act, control.joint_f, self.motion.tau, dt]
            launch(joint_forces.joint_force_residual, "dof", inputs, [self.residual])
        launch = Launcher(self.model, record_tape=False)
        launch(adjoint.negate, "dof", [self.multiplier, self.residual.grad])
        tape.backward()

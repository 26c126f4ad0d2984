"""Smooth part of a step of FeatherstoneSolver: everything before the constraints."""

from __future__ import annotations

from collections.abc import Callable

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.constraints.pair_rows import BodyStateView
from newtonsim.kernels.penalty import contact_law
from newtonsim.kernels.steps import integrate
from newtonsim.kernels.trees import crba, joint_forces, rnea, tree_advance
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of

SLIP_SPEED = 1.0e-3
"""Friction of compliant contacts fades below this speed [m/s] where nothing else is asked for."""


class SmoothStage:
    """Everything of a step before the constraints: joint-space inertia, forces, unconstrained velocity.

    Attributes:
        motion: Poses, and velocities at the start of the step.
        body_q: World poses at the start of the step, shape (body_count,).
        body_qd: World velocities at the start of the step, shape (body_count,).
        body_f: Wrenches that act on the bodies, shape (body_count,).
        from_start: Whether velocity-dependent forces are those at the start of the step.
        slip_speed: Friction of compliant contacts fades below it [m/s].
        fade_depth: Damping of compliant contacts fades below it [m].
        mid: Velocities at which these forces are taken: in the middle of the step, or at its start.
        v_mid: Joint velocities likewise.
        implicit: 0 for dofs whose drive may exceed its effort limit, shape (joint_dof_count,).
        L: Factorized joint-space inertia with the implicit terms.
        v_predicted: Joint velocities with the bias force taken at the start of the step.
        v_free: Joint velocities without constraints.
    """

    def __init__(
        self,
        model: Model,
        from_start: bool = False,
        slip_speed: float = SLIP_SPEED,
        fade_depth: float = contact_law.FADE_DEPTH,
    ):
        self.from_start = from_start
        self.slip_speed, self.fade_depth = slip_speed, fade_depth
        dofs, bodies, device = model.joint_dof_count, model.body_count, model.device
        self.body_q = zeros(bodies, dtype=wp.transform, device=device)
        self.body_qd = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self.body_f = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self.motion = Motion(model)
        self.mid = self.motion if from_start else Motion(model, poses=self.motion)
        self.composite = crba.CompositeView()
        self.composite.mass = zeros(bodies, dtype=float, device=device)
        self.composite.com = zeros(bodies, dtype=wp.vec3, device=device)
        self.composite.inertia = zeros(bodies, dtype=wp.mat33, device=device)
        self.L = zeros(topology_of(model).entry_count, dtype=float, device=device)
        self.implicit = zeros(dofs, dtype=int, device=device)
        self.diagonal = zeros(dofs, dtype=float, device=device)
        self.floor = zeros(dofs, dtype=float, device=device)
        self.zero = zeros(dofs, dtype=float, device=device)
        self.v_predicted = zeros(dofs, dtype=float, device=device)
        self.v_mid = zeros(dofs, dtype=float, device=device)
        self.v_free = zeros(dofs, dtype=float, device=device)

    def bodies(self, model: Model) -> BodyStateView:
        """Poses and velocities at the start of the step as a view for kernels."""
        view = BodyStateView()
        view.q, view.qd, view.com = self.body_q, self.body_qd, model.body_com
        return view

    def place(self, launch: Launcher, state: State) -> None:
        """Poses and velocities at the start of the step, of kinematic bodies too."""
        launch.place(self.motion, state.joint_q, state.joint_qd, self.body_q, self.body_qd)
        move_kinematic_bodies(launch, state, 0.0, self.body_q, self.body_qd)

    def sum_forces(self, launch: Launcher, state: State, contacts: Contacts | None) -> None:
        """body_f = external wrenches plus those of compliant contacts, if any; needs `place`."""
        launch(rnea.copy_wrenches, "body", [state.body_f, self.body_f])
        if contacts is not None:
            self.push(launch, contacts, self.body_q, self.body_qd, self.body_f)

    def push(
        self, launch: Launcher, contacts: Contacts, body_q: wp.array, body_qd: wp.array, body_f: wp.array
    ) -> None:
        """Add the forces of compliant contacts to body_f."""
        apply_penalty(launch, contacts, body_q, body_qd, body_f, self.slip_speed, self.fade_depth)

    def run(
        self,
        launch: Launcher,
        state: State,
        control: Control,
        dt: float,
        correct: Callable[[], None] | None = None,
        joint_f: wp.array | None = None,
    ) -> None:
        """Compute v_free and all that the constraint stage needs; needs `place` and `sum_forces`.

        Args:
            launch: Launcher of the model.
            state: State at the start of the step.
            control: Inputs of the step.
            dt: Time step [s].
            correct: Called to make the predicted velocity satisfy what it can know of the constraints.
            joint_f: Generalised forces in place of those of `control`, or None.
        """
        joint_f = control.joint_f if joint_f is None else joint_f
        self._factorize(launch, state, control, dt)
        self._advance(launch, self.motion, state.joint_qd, state, control, joint_f, dt, self.v_predicted)
        if self.from_start:
            inputs = [launch.views.tree, launch.views.joint, launch.views.body, self.motion.kin]
            inputs += [state.joint_qd, self.v_predicted, dt]
            launch(tree_advance.finish_from_start, "tree", inputs, [self.v_mid, self.v_free])
            return
        if correct is not None:
            correct()
        # leapfrog: the velocities are those between the positions, so velocity-dependent forces belong
        # to the middle between the old and the new one; without this, spinning bodies gain energy
        inputs = [launch.views.tree, launch.views.joint, launch.views.body, self.mid.kin]
        inputs += [state.joint_qd, self.v_predicted, dt]
        launch(tree_advance.move_to_middle, "tree", inputs, [self.v_mid])
        self._advance(launch, self.mid, self.v_mid, state, control, joint_f, dt, self.v_free)

    def _factorize(self, launch: Launcher, state: State, control: Control, dt: float) -> None:
        """Factorize the joint-space inertia, armature and implicit terms included."""
        v = launch.views
        inputs = [v.tree, v.drive, state.joint_q, state.joint_qd, control.joint_act, dt, self.implicit]
        launch(joint_forces.select_implicit_drives, "dof", [*inputs, self.diagonal])
        inputs = [v.tree, v.joint, v.body, self.motion.kin, self.composite]
        launch(crba.composite_inertia, "tree", inputs)
        inputs = [v.tree, self.motion.kin, self.composite, self.diagonal, self.L, self.floor]
        launch(crba.joint_space_inertia, "dof", inputs)
        launch(crba.factorize, "tree", [v.tree, self.floor, self.L])

    def _advance(
        self,
        launch: Launcher,
        motion: Motion,
        v_bias: wp.array,
        state: State,
        control: Control,
        joint_f: wp.array,
        dt: float,
        v_end: wp.array,
    ) -> None:
        """v_end = v - h H⁻¹ r, with r the force balance at zero acceleration and bias forces at v_bias."""
        v = launch.views
        launch.inverse_dynamics(motion, v_bias, self.zero, self.body_f)
        inputs = [v.tree, v.drive, self.L, self.implicit, state.joint_q, state.joint_qd, self.zero]
        inputs += [control.joint_act, joint_f, motion.tau, dt]
        launch(tree_advance.advance_trees, "tree", inputs, [v_end])


def apply_penalty(
    launch: Launcher,
    contacts: Contacts,
    body_q: wp.array,
    body_qd: wp.array,
    body_f: wp.array,
    slip_speed: float = SLIP_SPEED,
    fade_depth: float = contact_law.FADE_DEPTH,
) -> None:
    """Add the forces of compliant contacts to body_f.

    Friction fades below a speed [m/s], damping below a depth [m].
    """
    if contacts.rigid_contact_max == 0:
        return
    model = launch.model
    inputs = [contacts.view, model.shape_body, model.shape_materials, model.body_com, body_q, body_qd]
    inputs += [slip_speed, fade_depth]
    launch(contact_law.apply_contact_penalty, "contact", inputs, [body_f])


def move_kinematic_bodies(
    launch: Launcher, state: State, dt: float, body_q: wp.array, body_qd: wp.array
) -> None:
    """Move bodies without joints by the velocity that the user gave them."""
    if not topology_of(launch.model).has_loose_bodies:
        return
    inputs = [launch.views.tree.body_tree, state.body_q, state.body_qd, launch.model.body_com, dt]
    launch(integrate.move_kinematic_bodies, "body", [*inputs, body_q, body_qd])

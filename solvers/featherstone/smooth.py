"""Smooth part of a step of FeatherstoneSolver: everything before the constraints."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.dynamics.tendon_paths import has_armature
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.trees import joint_forces, rnea, tree_advance, tree_smooth
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.kernels.views.model import DriveView
from newtonsim.runtime.inertia_factors import (
    ArticulatedInertia,
    EliminatedInertia,
    ResistedInertia,
    inertia_factors,
)
from newtonsim.runtime.launcher import Launcher, ModelViews, Motion
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.kinematic_bodies import move_kinematic_bodies


class SmoothStage:
    """Everything of a step before the constraints: joint-space inertia, forces, unconstrained velocity.

    Attributes:
        motion: Poses, and velocities at the start of the step.
        body_q: World poses at the start of the step, shape (body_count,).
        body_qd: World velocities at the start of the step, shape (body_count,).
        body_f: Wrenches that act on the bodies, shape (body_count,).
        from_start: Whether velocity-dependent forces are those at the start of the step.
        mid: Velocities at which these forces are evaluated: in the middle of the step, or at its start.
        v_mid: Joint velocities likewise.
        implicit: 0 for dofs whose drive may exceed its effort limit, shape (joint_dof_count,).
        moving: Velocities and accelerations of bodies for tendons with armature, None without any.
        qdd: Acceleration at which the force balance is evaluated, shape (joint_dof_count,): zero, or that of
            free fall for long chains, which avoids forces that cancel up to rounding.
        balances_in_fall: Whether it may be that of free fall.
        falls: 1 for trees in which it is that of free fall, shape (tree_count,).
        acting_damping: Damping of joints that acts with the rates at the end of the step, shape
            (joint_dof_count,); None for that of the model.
        factors: Factorises the joint-space inertia with the implicit terms.
        L: Its factors.
        v_predicted: Joint velocities with the bias force at the start of the step.
        v_free: Joint velocities without constraints.
        limits_energy: Whether the end of a step removes the energy that its length adds to fast linkages.
    """

    def __init__(
        self,
        model: Model,
        from_start: bool = False,
        energy_limit: bool | None = False,
        motions: tuple[Motion, Motion] | None = None,
    ):
        self.from_start = from_start
        dofs, bodies, device = model.joint_dof_count, model.body_count, model.device
        self.body_q = zeros(bodies, dtype=wp.transform, device=device)
        self.body_qd = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self.body_f = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self.motion = Motion(model) if motions is None else motions[0]
        self.mid = self.motion if from_start else Motion(model, poses=self.motion)
        if motions is not None:
            self.mid = motions[1]
        self.factors = self._own_factors = inertia_factors(model)
        self.L = self.factors.L
        self.implicit = zeros(dofs, dtype=int, device=device)
        self.diagonal = zeros(dofs, dtype=float, device=device)
        self.qdd = zeros(dofs, dtype=float, device=device)
        self.balances_in_fall = self._may_fall(model)
        self.moving = Motion(model, poses=self.motion) if has_armature(model) else None
        self.falls = put(_falling_trees(model, self.balances_in_fall), dtype=int, device=device)
        self.acting_damping: wp.array | None = None
        self.v_predicted = zeros(dofs, dtype=float, device=device)
        self.v_mid = zeros(dofs, dtype=float, device=device)
        self.v_free = zeros(dofs, dtype=float, device=device)
        resisted = self.factors.floating.present  # whose energy is that of the origin of the body
        if energy_limit and resisted:
            raise NewtonsimError("energy_limit: not with armature or damping of floating joints")
        limited = not resisted if energy_limit is None else energy_limit
        joint_start = topology_of(model).view.joint_start.numpy()
        self.limits_energy = limited and bool((np.diff(joint_start) > 1).any())

    def _may_fall(self, model: Model) -> bool:
        """Whether forces are balanced in free fall.

        Loops read the accelerations of bodies that the balance is taken at, and what resists motion is
        linear about the velocities at the start.
        """
        return type(self.factors) is ArticulatedInertia and model.constraint_count == 0

    def resist(self, model: Model, resisted: bool) -> None:
        """Have forces that resist the motion of bodies implicitly, whose slopes stages add, or have none."""
        self.factors = ResistedInertia(model, self._own_factors) if resisted else self._own_factors
        self.balances_in_fall = self._may_fall(model)
        self.falls.assign(_falling_trees(model, self.balances_in_fall))
        self.qdd.zero_()

    def bodies(self, model: Model) -> BodyStateView:
        """Poses and velocities at the start of the step as a view for kernels."""
        view = BodyStateView()
        view.q, view.qd, view.com = self.body_q, self.body_qd, model.body_com
        return view

    def place(self, launch: Launcher, state: State) -> None:
        """Poses and velocities at the start of the step, of kinematic bodies too."""
        launch.place(self.motion, state.joint_q, state.joint_qd, self.body_q, self.body_qd)
        move_kinematic_bodies(launch, state.body_q, state.body_qd, 0.0, self.body_q, self.body_qd)

    def begin_forces(self, launch: Launcher, state: State) -> None:
        """Begin the sum of wrenches, `body_f`, with the external ones."""
        launch(rnea.copy_wrenches, "body", reads=dict(source=state.body_f), writes=dict(target=self.body_f))

    def begin(self, launch: Launcher, state: State, control: Control, dt: float) -> None:
        """`place`, `begin_forces`, `factorize` and `predict` in one launch, where nothing adds forces.

        Args:
            launch: Launcher of the model.
            state: State at the start of the step.
            control: Inputs of the step.
            dt: Time step [s].
        """
        factors, v = self.factors, launch.views
        if not isinstance(factors, EliminatedInertia) or factors.floating.present:
            self.place(launch, state)
            self.begin_forces(launch, state)
            self.factorize(launch, state, control, dt)
            self.predict(launch, state, control, control.joint_f, dt)
            return
        launch(
            tree_smooth.begin_trees,
            "tree team",
            reads=dict(
                tree=v.tree,
                levels=v.levels,
                joint=v.joint,
                body=v.body,
                drive=self._drive(launch),
                gravity=launch.model.gravity_vec,
                given=state.body_f,
                q=state.joint_q,
                qd=state.joint_qd,
                qdd=self.qdd,
                act=control.joint_act,
                joint_f=control.joint_f,
                dt=dt,
            ),
            writes=dict(
                kin=self.motion.kin,
                composite=factors.composite,
                floor=factors.floor,
                implicit=self.implicit,
                diagonal=self.diagonal,
                L=self.L,
                body_f=self.body_f,
                forces=self.motion.forces,
                qd_end=self.v_predicted,
                body_q=self.body_q,
                body_qd=self.body_qd,
            ),
        )
        move_kinematic_bodies(launch, state.body_q, state.body_qd, 0.0, self.body_q, self.body_qd)

    def predict(self, launch: Launcher, state: State, control: Control, joint_f: wp.array, dt: float) -> None:
        """Compute v_predicted; needs `factorize` and all forces.

        Args:
            launch: Launcher of the model.
            state: State at the start of the step.
            control: Inputs of the step.
            joint_f: Generalised forces, in place of those of `control`, shape (joint_dof_count,).
            dt: Time step [s].
        """
        v = launch.views
        if self.balances_in_fall:
            launch(
                tree_advance.fall_freely,
                "joint",
                reads=dict(
                    joint=v.joint,
                    world=launch.model.joint_world,
                    kin=self.motion.kin,
                    gravity=launch.model.gravity_vec,
                ),
                writes=dict(qdd=self.qdd),
            )
        joint_f = self._less_floating(launch, state, joint_f)
        launch(
            tree_advance.predict_trees,
            "tree team",
            reads=dict(
                kin=self.motion.kin, qd=state.joint_qd, **self._balance(launch, state, control, joint_f, dt)
            ),
            writes=dict(forces=self.motion.forces, qd_end=self.v_predicted),
        )

    def finish(self, launch: Launcher, state: State, control: Control, joint_f: wp.array, dt: float) -> None:
        """Compute v_free, with velocity-dependent forces that `v_predicted` tells; arguments as before."""
        v = launch.views
        if self.from_start:
            launch(
                tree_advance.finish_from_start,
                "tree team",
                reads=dict(
                    tree=v.tree,
                    joint=v.joint,
                    body=v.body,
                    kin=self.motion.kin,
                    start=state.joint_qd,
                    predicted=self.v_predicted,
                    dt=dt,
                ),
                writes=dict(used=self.v_mid, end=self.v_free),
            )
            return
        joint_f = self._less_floating(launch, state, joint_f)
        # leapfrog: the velocities are those between the positions, so velocity-dependent forces belong
        # to the middle between the old and the new one; without this, spinning bodies gain energy
        launch(
            tree_smooth.finish_trees,
            "tree team",
            reads=dict(
                start=state.joint_qd,
                predicted=self.v_predicted,
                **self._balance(launch, state, control, joint_f, dt),
            ),
            writes=dict(kin=self.mid.kin, middle=self.v_mid, forces=self.mid.forces, qd_end=self.v_free),
        )

    def integrate(
        self, launch: Launcher, joint_q: wp.array, moving_qd: wp.array, dt: float, end_q: wp.array
    ) -> None:
        """Move coordinates from joint_q to end_q at the velocities moving_qd."""
        launch(
            joint_forces.integrate_joints,
            "joint",
            reads=dict(
                joint=launch.views.joint, body_com=launch.model.body_com, q=joint_q, qd=moving_qd, dt=dt
            ),
            writes=dict(q_out=end_q),
        )

    def factorize(self, launch: Launcher, state: State, control: Control, dt: float) -> None:
        """Factorize the joint-space inertia, armature and implicit terms included."""
        v = launch.views
        launch(
            joint_forces.select_implicit_drives,
            "dof",
            reads=dict(
                tree=v.tree,
                drive=self._drive(launch),
                q=state.joint_q,
                qd=state.joint_qd,
                act=control.joint_act,
                dt=dt,
            ),
            writes=dict(implicit=self.implicit, diagonal=self.diagonal),
        )
        self.factors.factorize(launch, self.motion.kin, self.diagonal)

    def _less_floating(self, launch: Launcher, state: State, joint_f: wp.array) -> wp.array:
        """Generalised forces less those of armature and damping of floating joints that `DriveView` omits."""
        terms = self.factors.floating
        if not terms.present:
            return joint_f
        damping = self._drive(launch).damping
        return terms.less_forces(launch, self.motion.kin, state.joint_qd, self.qdd, damping, joint_f)

    def _drive(self, launch: Launcher) -> DriveView:
        """Drives, springs and damping, evaluated at the end of the step."""
        if self.acting_damping is None:
            return launch.views.drive
        drive = ModelViews(launch.model).drive
        drive.damping = self.acting_damping
        return drive

    def _balance(
        self, launch: Launcher, state: State, control: Control, joint_f: wp.array, dt: float
    ) -> dict[str, object]:
        """What v + h (q̈ - H⁻¹ r) is computed from, with r the force balance at `qdd`."""
        v = launch.views
        return dict(
            tree=v.tree,
            levels=v.levels,
            joint=v.joint,
            body=v.body,
            drive=self._drive(launch),
            gravity=launch.model.gravity_vec,
            body_f=self.body_f,
            L=self.L,
            implicit=self.implicit,
            q=state.joint_q,
            qdd=self.qdd,
            act=control.joint_act,
            joint_f=joint_f,
            dt=dt,
        )


def _falling_trees(model: Model, falls: bool) -> np.ndarray:
    """Return 1 for trees whose balance of forces is taken in free fall, see `tree_advance.fall_freely`."""
    tree = topology_of(model).view
    roots = tree.joint.numpy()[tree.joint_start.numpy()[:-1]]
    floating = np.isin(model.joint_type.numpy()[roots], (JointType.FREE, JointType.DISTANCE))
    return (floating & falls).astype(np.int32)

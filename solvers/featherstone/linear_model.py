"""Linear models of a step of FeatherstoneSolver in closed form, see `kernels.constraints.linear.system`.

A step provides the basis of its derivative: the factor of its inertia, the rows that act and their impulses.
The linear model adds the derivatives of inverse dynamics at the start and in the middle of the step, those of
contacts by the dofs of their bodies, and one dense elimination of all columns for each world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision import contact_features
from newtonsim.kernels.constraints.adjoint.modes import RowAdjointView
from newtonsim.kernels.constraints.adjoint.system import SystemView
from newtonsim.kernels.constraints.adjoint.worlds import UNSUPPORTED_CONTACT
from newtonsim.kernels.constraints.linear import (
    balance,
    contacts,
    middle_spin,
    models,
    origin_terms,
    selection,
    system,
)
from newtonsim.kernels.constraints.rows import ImpulseView
from newtonsim.kernels.trees import joint_forces, rnea_derivatives
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.contact_features import features_of
from newtonsim.solvers.featherstone.constraint_adjoint import refuse_worlds
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.step import FeatherstoneStep

if TYPE_CHECKING:
    from newtonsim.collision.contacts import Contacts
    from newtonsim.scene.model import Model

_KINDS = {"joint_f": int(balance.BY_JOINT_F), "joint_act": int(balance.BY_JOINT_ACT)}


class LinearModel:
    """Room for linear models of steps in all worlds, and the order of their kernels.

    Args:
        model: The model, whose worlds have as many degrees of freedom each.
        smooth: Smooth part of the steps.
        constraints: Their constraint stage.
        touches: Contacts of the last step.
        advance: Makes a step of some worlds, which leaves what it found in the arguments before.
        inputs: What u is, "joint_f" or "joint_act".

    Attributes:
        A: Receives A, float64, shape (world_count, 2 n, 2 n); see `newtonsim.diff.Linearization`.
        B: Receives B, float64, shape (world_count, 2 n, inputs).
    """

    def __init__(
        self,
        model: Model,
        smooth: SmoothStage,
        constraints: ConstraintStage,
        touches: Contacts,
        advance: Callable[[Shard, FeatherstoneStep], None],
        inputs: str,
    ):
        self.model, self.smooth, self.constraints = model, smooth, constraints
        self.touches, self._advance = touches, advance
        worlds, device = model.world_count, model.device
        n = model.joint_dof_count // worlds
        count = (model.joint_dof_count if inputs == "joint_f" else model.joint_axis_count) // worlds
        self._sizes = sizes = balance.ColumnsView()
        sizes.dofs, sizes.inputs, sizes.width, sizes.kind = n, count, 2 * n + count, _KINDS[inputs]
        self.A = zeros((worlds, 2 * n, 2 * n), dtype=wp.float64, device=device)
        self.B = zeros((worlds, 2 * n, count), dtype=wp.float64, device=device)
        self._columns = zeros(model.joint_dof_count * sizes.width, dtype=float, device=device)
        self._predicted = zeros(model.joint_dof_count * sizes.width, dtype=float, device=device)
        self._by_q = zeros((worlds, n, n), dtype=float, device=device)
        self._by_qd = zeros((worlds, n, n), dtype=float, device=device)
        self._qdd = zeros(model.joint_dof_count, dtype=float, device=device)
        self._wrench = zeros(model.body_count, dtype=wp.spatial_vector, device=device)
        self._lacking = zeros(worlds, dtype=int, device=device)
        self._local = put(np.arange(model.joint_dof_count) % n, dtype=int, device=device)
        self._dof_joint = put(topology_of(model).dof_joint, dtype=int, device=device)
        self._make_motions()
        self._make_rows()

    def _make_motions(self) -> None:
        """Accelerations at the start and in the middle of the step, velocities at its end."""
        model, smooth = self.model, self.smooth
        self._before, self._middle = Motion(model, poses=smooth.motion), Motion(model, poses=smooth.motion)
        self._before.kin, self._middle.kin = smooth.motion.kin, smooth.mid.kin
        self._end = Motion(model, poses=smooth.motion, forces=False)
        self._chain = _chain_of(model)
        self._start_slopes, self._end_slopes = _subspaces_of(model), _subspaces_of(model)

    def _make_rows(self) -> None:
        """Rows that act, and changes of contacts."""
        model, stage, rows = self.model, self.constraints, self.constraints.rows
        device, width = model.device, 2 * topology_of(model).max_depth
        count = len(rows.contact.impulse)
        self._impulse = ImpulseView()
        self._impulse.dof, self._impulse.pair = rows.dof.impulse, rows.pair.impulse
        self._impulse.contact, self._impulse.spin = rows.contact.impulse, rows.spin.impulse
        self._impulse.z = stage.z
        self._features = features_of(count, device)
        self._modes = RowAdjointView()
        self._modes.dof_mode = zeros(stage.dof_count, dtype=int, device=device)
        self._modes.dof_multiplier = zeros(stage.dof_count, dtype=float, device=device)
        self._modes.pair_mode = zeros(stage.pair_count, dtype=int, device=device)
        self._modes.pair_multiplier = zeros(stage.pair_count, dtype=float, device=device)
        self._modes.spin_mode = zeros(len(rows.spin.impulse), dtype=wp.vec2i, device=device)
        self._modes.contact_mode = zeros(count, dtype=int, device=device)
        self._modes.contact_slip_before_impact = zeros(count, dtype=wp.vec2, device=device)
        self._weights = SystemView()
        self._weights.contact = zeros(count, dtype=wp.mat33, device=device)
        self._contacts = contacts.ContactChangeView()
        for name, dtype in (
            ("by_q", wp.vec3),
            ("by_qd", wp.vec3),
            ("force0", wp.spatial_vector),
            ("force1", wp.spatial_vector),
        ):
            setattr(self._contacts, name, zeros((count, width), dtype=dtype, device=device))
        sizes, self._rows = self._sizes, selection.RowChangeView()
        room = model.joint_dof_count * (sizes.dofs + sizes.width)
        self._rows.count = zeros(model.world_count, dtype=int, device=device)
        self._rows.shared = zeros(model.world_count, dtype=int, device=device)
        self._rows.dof_by_q = zeros(stage.dof_count, dtype=float, device=device)
        self._rows.dof_by_act = zeros(stage.dof_count, dtype=float, device=device)
        self._rows.dense = zeros(room, dtype=wp.float64, device=device)
        self._rows.agreed = zeros(room if count else 0, dtype=wp.float64, device=device)

    def step(self, shard: Shard, state_in: State, state_out: State, control: Control, dt: float) -> None:
        """Make a step of the solver in some worlds, and linearise it, by launches alone.

        Args:
            shard: The worlds.
            state_in: State at the start of the step.
            state_out: Receives the state at its end; another one.
            control: Inputs of the step.
            dt: Time step [s].
        """
        step = FeatherstoneStep(state_in, state_out, control, None, dt)
        self._advance(shard, step)
        launch = Launcher(self.model, False, shard.with_starts(self.constraints.starts))
        self.constraints.use_inertia(launch)
        self._predict(launch, step)
        self._select(launch, step)
        self._balance(launch, step)
        self._solve(launch, step)

    def forget_nonfinite(self, shard: Shard) -> None:
        """Drop the warm starts of those among some worlds that earlier steps made non-finite."""
        stage = self.constraints
        launch = Launcher(self.model, False, shard.with_starts(stage.starts))
        stage.forget(launch, stage.nonfinite.worlds)

    def not_covered(self) -> np.ndarray:
        """Worlds in which a term acted in the last step that A and B do not include, int (n,).

        The adjoint of the step includes these terms: rebounds, single bodies that are pushed out of
        penetrations, limits of ball and distance joints, torsional and rolling friction.

        Raises:
            NotDifferentiableError: A contact acted whose shapes have no gradient.
        """
        lacking = self._lacking.numpy()
        refuse_worlds(np.where(lacking & int(selection.NO_RULE), int(UNSUPPORTED_CONTACT), 0))
        return np.flatnonzero(lacking)

    def _predict(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Changes of the velocity that a step predicts, at whose mean with the old one it takes forces."""
        smooth, v = self.smooth, launch.views
        state = step.state_in
        self._differentiate(launch, step, self._before, state.joint_qd, smooth.v_predicted, smooth.body_f)
        launch(
            balance.linearize_prediction,
            "dof",
            reads=self._forces(launch, step),
            writes=dict(columns=self._predicted),
        )
        self._add_origin_terms(launch, step, smooth.v_predicted, self._predicted)
        launch(
            balance.solve_prediction,
            "tree team",
            reads=dict(view=self._sizes, tree=v.tree, L=smooth.L),
            writes=dict(columns=self._predicted),
        )
        launch(
            middle_spin.move_to_middle,
            "tree",
            reads=dict(
                view=self._sizes,
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                kin=smooth.motion.kin,
                start=state.joint_qd,
                predicted=smooth.v_predicted,
                middle=smooth.v_mid,
                dt=step.dt,
            ),
            writes=dict(columns=self._predicted),
        )

    def _select(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Find the rows that act, features in contact, and the wrenches of contacts."""
        v, rows = launch.views, self.constraints.rows
        smooth, touches = self.smooth, self.touches
        settings = self.constraints.options.settings(step.dt)
        plan = collision_plan_of(self.model)
        if plan.contact_count:
            self._find_features(launch)
        launch(
            selection.select_rows_that_act,
            "world",
            reads=dict(
                tree=v.tree,
                drive=v.drive,
                limit=self.constraints.limits(step.state_in.joint_qd),
                q=step.state_in.joint_q,
                s=settings,
                rows=rows,
                contacts=touches.view,
                features=self._features,
                depth=topology_of(self.model).max_depth,
                impulse=self._impulse,
                world_state=self.constraints.world_state,
            ),
            writes=dict(adj=self._modes, weights=self._weights, change=self._rows, lacking=self._lacking),
        )
        launch(
            contacts.begin_wrenches,
            "body",
            reads=dict(external=smooth.body_f),
            writes=dict(wrench=self._wrench),
        )
        if plan.contact_count:
            with launch.where_any(touches.view.world_count, "world"):
                self._linearize_contacts(launch, step)

    def _find_features(self, launch: Launcher) -> None:
        """Features in contact."""
        plan, touches, body_q = collision_plan_of(self.model), self.touches, self.smooth.body_q
        with launch.where_any(touches.view.world_count, "world"):
            launch(
                contact_features.find_features,
                "contact",
                reads=dict(contacts=touches.view, shape=plan.shape, hulls=plan.hulls, body_q=body_q),
                writes=dict(features=self._features),
            )
            launch(
                contact_features.share_normals,
                "contact",
                reads=dict(contacts=touches.view, shape=plan.shape, body_q=body_q),
                writes=dict(features=self._features),
            )

    def _linearize_contacts(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Changes of rows and forces of contacts, and their wrenches."""
        v, rows = launch.views, self.constraints.rows
        model, smooth, touches = self.model, self.smooth, self.touches
        shape, state, motion = collision_plan_of(model).shape, step.state_in, smooth.motion
        launch(
            contacts.add_contact_wrenches,
            "contact",
            reads=dict(
                tree=v.tree,
                contacts=touches.view,
                shape=shape,
                kin=motion.kin,
                bodies=smooth.bodies(model),
                rows=rows.contact,
                mode=self._modes.contact_mode,
                features=self._features,
                dt=step.dt,
            ),
            writes=dict(wrench=self._wrench),
        )
        launch.velocities(self._end, step.state_out.joint_qd)
        for kin, joint_qd, chain in (
            (motion.kin, state.joint_qd, self._start_slopes),
            (self._end.kin, step.state_out.joint_qd, self._end_slopes),
        ):
            launch(
                rnea_derivatives.differentiate_subspaces,
                "joint",
                reads=dict(
                    tree=v.tree,
                    joint=v.joint,
                    kin=kin,
                    qd=joint_qd,
                    dof_A=motion.dof_A,
                    body_A=motion.body_A,
                ),
                writes=dict(chain=chain),
            )
        launch(
            contacts.linearize_contacts,
            "contact",
            reads=dict(
                tree=v.tree,
                contacts=touches.view,
                features=self._features,
                shape=shape,
                material=model.shape_materials,
                kin=motion.kin,
                body_A=motion.body_A,
                falls=smooth.falls,
                start=self._start_slopes,
                end=self._end.kin,
                ending=self._end_slopes,
                gravity=model.gravity_vec,
                bodies=smooth.bodies(model),
                rows=rows.contact,
                mode=self._modes.contact_mode,
                depth=topology_of(model).max_depth,
                s=self.constraints.options.settings(step.dt),
            ),
            writes=dict(change=self._contacts),
        )

    def _balance(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Right-hand side: changes of the balance of forces at the velocities that the step ended with."""
        smooth, v = self.smooth, launch.views
        qd = step.state_out.joint_qd
        self._differentiate(launch, step, self._middle, smooth.v_mid, qd, self._wrench)
        launch(
            balance.linearize_balance,
            "dof",
            reads=dict(middle=self._predicted, **self._forces(launch, step)),
            writes=dict(columns=self._columns),
        )
        self._add_origin_terms(launch, step, qd, self._columns)
        if collision_plan_of(self.model).contact_count:
            with launch.where_any(self.touches.view.world_count, "world"):
                launch(
                    system.add_contact_forces,
                    "world team",
                    reads=dict(
                        view=self._sizes,
                        tree=v.tree,
                        kin=smooth.motion.kin,
                        contacts=self.touches.view,
                        rows=self.constraints.rows,
                        mode=self._modes.contact_mode,
                        depth=topology_of(self.model).max_depth,
                        change=self._contacts,
                    ),
                    writes=dict(columns=self._columns),
                )

    def _solve(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """From the right-hand side to changes of velocities, and A and B."""
        v = launch.views
        energy = dict(view=self._sizes, tree=v.tree, L=self.smooth.L)
        columns = dict(columns=self._columns)
        launch(balance.to_energy_columns, "tree team", reads=energy, writes=columns)
        launch(
            system.solve_columns,
            "world team",
            reads=dict(
                view=self._sizes,
                tree=v.tree,
                contacts=self.touches.view,
                rows=self.constraints.rows,
                adj=self._modes,
                depth=topology_of(self.model).max_depth,
                contact=self._contacts,
                weights=self._weights.contact,
            ),
            writes=dict(change=self._rows, **columns),
        )
        launch(balance.to_velocity_columns, "tree team", reads=energy, writes=columns)
        launch(
            models.write_models,
            "joint",
            reads=dict(
                view=self._sizes,
                joint=v.joint,
                qd=step.state_out.joint_qd,
                dt=step.dt,
                columns=self._columns,
            ),
            writes=dict(A=self.A, B=self.B),
        )

    def _differentiate(
        self,
        launch: Launcher,
        step: FeatherstoneStep,
        motion: Motion,
        joint_qd: wp.array,
        end_qd: wp.array,
        wrench: wp.array,
    ) -> None:
        """Derivatives of inverse dynamics by coordinates and velocities.

        Args:
            launch: Launcher of the worlds.
            step: The step.
            motion: Motion at the velocities that forces are taken at.
            joint_qd: These velocities.
            end_qd: Velocities at the end of the acceleration.
            wrench: Wrenches on the bodies.
        """
        v, model = launch.views, self.model
        launch(
            joint_forces.difference_quotient,
            "dof",
            reads=dict(end=end_qd, start=step.state_in.joint_qd, dt=step.dt),
            writes=dict(rate=self._qdd),
        )
        launch.accelerations(motion, joint_qd, self._qdd)
        launch(
            rnea_derivatives.sum_chains,
            "tree",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                kin=motion.kin,
                qd=joint_qd,
                dof_A=motion.dof_A,
                body_A=motion.body_A,
                body_f=wrench,
                # both motions are in the pose at the start
                inertias=int(motion is self._before),
            ),
            writes=dict(chain=self._chain),
        )
        launch(
            rnea_derivatives.differentiate_forces,
            "dof",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                dof_joint=self._dof_joint,
                kin=motion.kin,
                chain=self._chain,
                dof_articulation=topology_of(model).view.dof_world,
                dof_local=self._local,
            ),
            writes=dict(by_q=self._by_q, by_qd=self._by_qd),
        )

    def _add_origin_terms(
        self, launch: Launcher, step: FeatherstoneStep, end_qd: wp.array, columns: wp.array
    ) -> None:
        """Add armature and damping of floating joints; needs `_differentiate` with the same `end_qd`."""
        floating, v = self.smooth.factors.floating, launch.views
        if floating.present:
            launch(
                origin_terms.linearize_forces,
                "tree",
                reads=dict(
                    floating=floating.joint,
                    view=self._sizes,
                    joint=v.joint,
                    body=v.body,
                    drive=v.drive,
                    kin=self.smooth.motion.kin,
                    qd=step.state_in.joint_qd,
                    qd_end=end_qd,
                    qdd=self._qdd,
                    dt=step.dt,
                ),
                writes=dict(columns=columns),
            )

    def _forces(self, launch: Launcher, step: FeatherstoneStep) -> dict[str, Any]:
        """What right-hand sides of balances are made of."""
        smooth, v = self.smooth, launch.views
        return dict(
            view=self._sizes,
            tree=v.tree,
            drive=v.drive,
            implicit=smooth.implicit,
            diagonal=smooth.diagonal,
            act=step.control.joint_act,
            dt=step.dt,
            by_q=self._by_q,
            by_qd=self._by_qd,
        )


def _subspaces_of(model: Model) -> rnea_derivatives.ChainView:
    """Room for the rates of motion subspaces."""
    chain: Any = rnea_derivatives.ChainView()
    for name in ("rate", "drift", "turn"):
        setattr(chain, name, zeros(model.joint_dof_count, dtype=wp.spatial_vector, device=model.device))
    return chain


def _chain_of(model: Model) -> rnea_derivatives.ChainView:
    """Room for what derivatives of inverse dynamics need."""
    bodies, device = model.body_count, model.device
    chain: Any = _subspaces_of(model)
    for name in ("momentum", "push", "twist"):
        setattr(chain, name, zeros(bodies, dtype=wp.vec3, device=device))
    for name in ("coriolis", "lever"):
        setattr(chain, name, zeros(bodies, dtype=wp.mat33, device=device))
    chain.wrench = zeros(bodies, dtype=wp.spatial_vector, device=device)
    chain.composite.mass = zeros(bodies, dtype=float, device=device)
    chain.composite.com = zeros(bodies, dtype=wp.vec3, device=device)
    chain.composite.inertia = zeros(bodies, dtype=wp.mat33, device=device)
    return chain

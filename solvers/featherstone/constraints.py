"""Constraint stage of FeatherstoneSolver: buffers, and the order of its kernels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.fields.levers import levers_of
from newtonsim.kernels.constraints import (
    anchor_rows,
    contact_rows,
    dof_rows,
    energy_coordinates,
    pair_rows,
    spin_rows,
    step_end,
    world_dof_rows,
)
from newtonsim.kernels.constraints.servos import ServoView
from newtonsim.kernels.constraints.solve import prediction, solve, sweep_stage
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.steps import reset
from newtonsim.kernels.steps.nonfinite import MarksView
from newtonsim.kernels.views.pair_rows import LoopView, PairRowView
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.residents import keep_on_device
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.constraint_rows import loop_view
from newtonsim.solvers.featherstone import row_layout as featherstone_row_layout
from newtonsim.solvers.featherstone.options import ConstraintOptions
from newtonsim.solvers.featherstone.references import DofWeights, References
from newtonsim.solvers.featherstone.servos import JointServos
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.solve_buffers import SolveBuffers
from newtonsim.solvers.featherstone.stages import PairChange
from newtonsim.solvers.featherstone.unsolved import UnsolvedSteps
from newtonsim.solvers.geometric_stiffness import GeometricStiffness, stiffened_bodies
from newtonsim.solvers.nonfinite import NonfiniteWorlds
from newtonsim.solvers.step import Step
from newtonsim.solvers.tendons import Tendons


class ConstraintStage:
    """Rows of contacts, loops, couplings, joint limits, bounded drives and dry friction, and their solve.

    Attributes:
        world_state: What happened in each world in the last step: 0 no constraint acted, 1 some did, 2 and
            single bodies moved at another rate than their velocities, because a penetration was removed, 3
            and everything did, because something rebounded within the step; shape (world_count,).
        iterations: Gauss-Seidel sweeps of the last step per world, of the island that took most, shape
            (world_count,).
        factorizations: Factorizations of Newton's method likewise, and the one that finds how bodies move
            apart.
        residual: By how much velocities miss the constraints as solved, at the worst row of each world [m/s
            or rad/s], shape (world_count,): of sweeps the last change of a velocity, of Newton's method how
            far the velocities at which impulses obey their laws are from those that they lead to.
        passed: Velocity errors due to the regularisation of Newton's method,
            likewise: almost zero at rest,
        and a share of the change in an impact.
        unsolved: Steps that ended with a residual above the tolerance.
        keeps_moving: Whether impulses of `moving` are stored for all worlds in which it differs.
        moving: The solution that moves the positions, where it differs from the final one.
        dofs: Degrees of freedom by worlds.
        tendons: Tendons of the model, None without any.
        parameters: Parameters of rows by reference.
        weights: How inert dofs are, for these rows.
        acting_limits: Lower and upper limits (axes,) that replace the model's; None for the model's.
        changed_pairs: Changes the rows between bodies or dofs once they are built; None for none.
        levers: How far one rad about each joint axis moves its body [m], see `newtonsim.fields.levers`.
        nonfinite: Worlds with a non-finite velocity.
        has_loops: Whether a constraint of the model couples bodies or joints.
        predicts: Whether they also hold in the predicted velocity, see `predict`.
        moving_qd: Velocity with which the coordinates move: `joint_qd`, plus the velocity that removes
            penetrations and corrections for impacts within the step.
        far: 1 for trees that have turned far in a step, until `kernels.trees.energy_limit` has seen them,
            shape (tree_count,).
        rows: All rows, see `kernels.constraints.rows.RowsView`.
        stiffness: Stage for bodies that transmit large forces; None for a model without.
        starts: First row of each world and the end of the last, of rows on dofs and between bodies (host).
        last_contacts: Contacts of the last step, None before the first.
        last_dt: Duration of the last step [s].
    """

    references: ClassVar[frozenset[str]] = frozenset({"last_contacts"})
    """See `newtonsim.scene.snapshot.Snapshot`."""

    def __init__(
        self,
        model: Model,
        options: ConstraintOptions,
        servos: JointServos | None = None,
        predicts: bool = True,
        keeps_moving: bool = False,
    ):
        self.model = model
        self.acting_limits: tuple[wp.array, wp.array] | None = None
        self.changed_pairs: PairChange | None = None
        self._own_anchors = False
        self.servos = servos
        self.options = options
        device = model.device
        worlds = model.world_count
        self.world_state = zeros(worlds, dtype=int, device=device)
        self.iterations = zeros(worlds, dtype=int, device=device)
        self.residual = zeros(worlds, dtype=float, device=device)
        self.passed = zeros(worlds, dtype=float, device=device)
        self.unsolved = UnsolvedSteps(model)
        self.nonfinite = NonfiniteWorlds(model)
        self.z_moving = zeros(model.joint_dof_count, dtype=float, device=device)
        self.moving_qd = zeros(model.joint_dof_count, dtype=float, device=device)
        self.far = zeros(topology_of(model).tree_count, dtype=int, device=device)
        views = SolveViews()
        self.rows = views.rows
        self.rows.dof = featherstone_row_layout.dof_rows(model, servos is not None)
        self.rows.pair = featherstone_row_layout.pair_rows_of(model)
        self.rows.contact = featherstone_row_layout.contact_rows_of(model)
        self.rows.spin = featherstone_row_layout.spin_rows_of(model)
        self.rows.spins = int(len(self.rows.spin.impulse) > 0)
        self.keeps_moving = keeps_moving
        featherstone_row_layout.gather_impulses(self.rows)
        self.moving = featherstone_row_layout.impulses_of(model, self.rows)
        self.dofs = featherstone_row_layout.world_dofs(model)
        self.levers = levers_of(model)
        self.parameters = References(model)
        self.weights = DofWeights(model, model.requires_grad)
        self.tendons = Tendons(model, self.rows.pair, model.requires_grad) if model.tendon_count else None
        self.stiffness: GeometricStiffness | None = None
        self.stiffen_bodies(stiffened_bodies(model))
        self.start = zeros(len(self.rows.contact.impulse), dtype=wp.vec3, device=device)
        self.factorizations = zeros(worlds, dtype=int, device=device)
        views.moving, views.z_moving, views.start = self.moving, self.z_moving, self.start
        views.iterations, views.factorizations = self.iterations, self.factorizations
        views.residual, views.passed, views.unsolved = self.residual, self.passed, self.unsolved.view
        self.buffers = SolveBuffers(model, views)
        self.z = views.newton.z
        self.dof_count = len(self.rows.dof.source)
        self.pair_count = len(self.rows.pair.kind)
        self.starts = {
            "dof_row": self.rows.dof.world_start.numpy(),
            "pair_row": self.rows.pair.world_start.numpy(),
        }
        if self.tendons is not None:
            self.starts |= self.tendons.starts
        self.has_loops = self.pair_count > 0 and model.constraint_count > 0
        self.predicts = predicts and self.has_loops
        self.memory_start = put(collision_plan_of(model).contact_start, dtype=int, device=device)
        self.last_contacts: Contacts | None = None
        self.last_dt = 0.0
        buffers = self.buffers
        own = (topology_of(model).view, self.dofs, self.rows, self.rows.pair, self.moving, self.unsolved.view)
        own += (buffers.views, buffers.islands)
        keep_on_device(device, *own)

    def build(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        joint_q: wp.array,
        joint_qd: wp.array,
        control: Control,
        contacts: Contacts,
        dt: float,
    ) -> None:
        """Build the rows of a step, with the impulses with which the solve starts.

        Args:
            launch: Launcher of the model.
            smooth: Result of the smooth stage.
            joint_q: Coordinates at the start of the step.
            joint_qd: Velocities likewise.
            control: Inputs of joints and tendons.
            contacts: Contacts at the start of the step.
            dt: Time step [s].
        """
        launch.call(self._note_step, contacts, dt)
        self._weigh(launch, smooth, dt)
        v, rows = launch.views, self.rows
        launch(
            world_dof_rows.build_dof_rows,
            "world team",
            reads=dict(
                drive=v.drive,
                tree=v.tree,
                dofs=self.dofs,
                limit=self.limits(joint_qd),
                implicit=smooth.implicit,
                q=joint_q,
                v_free=smooth.v_free,
                act=control.joint_act,
                mass=smooth.factors.mass,
                L=smooth.L,
                s=self.options.settings(dt),
            ),
            writes=dict(servo=self._servos(dt), rows=rows.dof, z=self.z),
        )
        if self.pair_count:
            self._build_pairs(launch, smooth, smooth.mid, joint_q, smooth.v_mid, joint_qd, dt, self.rows.pair)
            if self.changed_pairs is not None:
                self.changed_pairs.change(launch, self.loops(joint_qd), joint_q, smooth.v_free, rows.pair)
        if self.tendons is not None and self.tendons.row_count:
            self.tendons.build(launch, control.tendon_act, smooth.L, self.options.settings(dt))
        if contacts.rigid_contact_max:
            self._build_contacts(launch, smooth, contacts, dt)

    def limits(self, joint_qd: wp.array) -> dof_rows.LimitView:
        """Return the arrays that bound dofs, read in each step, since those of the model may be replaced.

        Args:
            joint_qd: Velocities at the start of the step.
        """
        view, model = dof_rows.LimitView(), self.model
        view.lower, view.upper = self.acting_limits or (model.joint_limit_lower, model.joint_limit_upper)
        view.velocity, view.friction = model.joint_velocity_limit, model.joint_friction
        view.lever = self.levers
        self.parameters.describe_limits(view, joint_qd, self.weights)
        return view

    def push_at_own_anchors(self) -> None:
        """Have the rows of `FeatherstoneSolver.push_at_own_anchors`."""
        featherstone_row_layout.push_at_own_anchors(self.rows.pair, self.model)
        self._own_anchors = True

    def loops(self, joint_qd: wp.array) -> LoopView:
        """Return the arrays of constraints between bodies or dofs, likewise."""
        view = loop_view(self.model)
        self.parameters.describe_loops(view, joint_qd, self.weights)
        return view

    def _weigh(self, launch: Launcher, smooth: SmoothStage, dt: float) -> None:
        settings = self.options.settings(dt)
        self.parameters.add_up(launch, smooth.motion.kin, settings, self.weights)
        self.parameters.weigh(launch, smooth.implicit, settings, self.weights)

    def weigh_tendons(self, launch: Launcher, control: Control, dt: float) -> None:
        """Compute what implicit forces of tendons add to inertias of dofs, if rows by reference need it.

        Args:
            launch: Launcher that knows the tendons.
            control: Inputs of tendons.
            dt: Time step [s].
        """
        if self.tendons is not None and self.parameters.need_weights(self.options.settings(dt)):
            self.tendons.weigh(launch, control, dt, self.weights.added)

    def _note_step(self, contacts: Contacts, dt: float) -> None:
        self.last_contacts, self.last_dt = contacts, dt

    def find_impulses(self, launch: Launcher, contacts: Contacts, dt: float, resumed: bool = False) -> None:
        """Solve the rows of `build`.

        Args:
            launch: Launcher of the model.
            contacts: Contacts at the start of the step.
            dt: Time step [s].
            resumed: Whether all worlds but those that are UNSOLVED by `world_state` have been solved before.
        """
        buffers = self.buffers
        reads = dict(
            tree=launch.views.tree,
            dofs=self.dofs,
            contacts=contacts.view,
            depth=topology_of(self.model).max_depth,
            dt=dt,
            restitution_speed=self.options.restitution_speed,
            s=self.options.solve_options(self.keeps_moving),
            resumed=int(resumed),
        )
        writes = dict(views=buffers.views, world_state=self.world_state)
        if buffers.sweeps_first:
            found = dict(reports=buffers.reports)
            launch(sweep_stage.sweep_rows, "world team", reads=reads, writes=dict(**writes, **found))
        begun = dict(begun=int(buffers.sweeps_first), reports=buffers.reports)
        launch(solve.solve_rows, "world team", reads=dict(**begun, **reads), writes=writes)

    def remember(self, launch: Launcher, contacts: Contacts, dt: float) -> None:
        """Store the impulses of `find_impulses` for the next step."""
        launch(
            step_end.remember_impulses,
            "world team",
            reads=dict(contacts=contacts.view, start=self.start),
            writes=dict(servo=self._servos(dt), rows=self.rows),
        )

    def stiffen_bodies(self, light: np.ndarray) -> bool:
        """Calm these bodies from now on, and no others.

        Args:
            light: Whether each body is too light for the forces that it transmits, (body_count,).

        Returns:
            Whether steps launch other kernels than before.
        """
        if self.stiffness is not None:
            self.stiffness.view.light.assign(light.astype(np.int32))
            return False
        if light.any():
            self.stiffness = GeometricStiffness(self.model, light)
        return self.stiffness is not None

    def stiffen(self, launch: Launcher, smooth: SmoothStage, dt: float) -> None:
        """Have a launcher use the inertia that the forces of the last step demand; needs `smooth.place`."""
        if self.stiffness is not None:
            self.stiffness.begin(launch, smooth.body_q, smooth.body_qd, dt)

    def slow(self, launch: Launcher, smooth: SmoothStage, dt: float) -> None:
        """Add the torques with which what `stiffen` added to the inertia begins the step at rest."""
        if self.stiffness is not None:
            self.stiffness.slow(launch, smooth.body_q, smooth.body_qd, dt, smooth.body_f)

    def use_inertia(self, launch: Launcher) -> None:
        """Have another launcher of the same step use the inertia of `stiffen`."""
        if self.stiffness is not None:
            self.stiffness.use(launch)

    def remember_pulls(self, launch: Launcher, smooth: SmoothStage, joint_qd: wp.array, dt: float) -> None:
        """Keep the forces of a step for `stiffen`; `joint_qd` are the velocities at its start."""
        if self.stiffness is not None:
            self.stiffness.remember(launch, self.loops(joint_qd), self.rows.pair, smooth.body_q, dt)

    def accept(self, launch: Launcher, smooth: SmoothStage, joint_qd: wp.array) -> None:
        """Write the joint velocities after the impulses, and `moving_qd`; needs `find_impulses`."""
        v = launch.views
        launch(
            energy_coordinates.accept_velocities,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, **self._outcome(smooth)),
            writes=dict(qd=joint_qd, moving_qd=self.moving_qd, marks=self._marks()),
        )

    def advance(
        self, launch: Launcher, smooth: SmoothStage, contacts: Contacts, step: Step, motion: Motion
    ) -> None:
        """Write the state at the end of a step: `accept`, integrate coordinates, place trees, and `remember`.

        Args:
            launch: Launcher of the model.
            smooth: Result of the smooth stage.
            contacts: Contacts at the start of the step.
            step: The step.
            motion: Receives poses and velocities at its end.
        """
        v, out = launch.views, step.state_out
        launch(
            step_end.advance_trees,
            "tree team",
            reads=dict(
                tree=v.tree,
                levels=v.levels,
                joint=v.joint,
                body=v.body,
                q=step.state_in.joint_q,
                dt=step.dt,
                **self._outcome(smooth),
            ),
            writes=dict(
                marks=self._marks(),
                kin=motion.kin,
                moving_qd=self.moving_qd,
                qd=out.joint_qd,
                q_end=out.joint_q,
                body_q=out.body_q,
                body_qd=out.body_qd,
                far=self.far,
            ),
        )
        if smooth.limits_energy:
            self._end_worlds(launch, smooth, contacts, step, motion)
        else:
            self.remember(launch, contacts, step.dt)

    def _end_worlds(
        self, launch: Launcher, smooth: SmoothStage, contacts: Contacts, step: Step, motion: Motion
    ) -> None:
        """`remember`, and take energy that is due to the length of the step; arguments as of `advance`."""
        v, out = launch.views, step.state_out
        launch(
            step_end.end_worlds,
            "world team",
            reads=dict(
                contacts=contacts.view,
                start_impulse=self.start,
                tree_start=self.buffers.islands.tree_start,
                world_tree=self.buffers.islands.world_tree,
                tree=v.tree,
                levels=v.levels,
                joint=v.joint,
                body=v.body,
                gravity=launch.model.gravity_vec,
                falls=smooth.falls,
                diagonal=smooth.diagonal,
                middle=smooth.v_mid,
                predicted=smooth.v_predicted,
                free=smooth.v_free,
                mid=smooth.mid.kin,
                mid_A=smooth.mid.forces.body_A,
                dt=step.dt,
            ),
            writes=dict(
                servo=self._servos(step.dt),
                rows=self.rows,
                far=self.far,
                kin=motion.kin,
                moving_qd=self.moving_qd,
                qd=out.joint_qd,
                q_end=out.joint_q,
                body_q=out.body_q,
                body_qd=out.body_qd,
            ),
        )

    def _outcome(self, smooth: SmoothStage) -> dict[str, object]:
        """Results of the solve from which joint velocities follow."""
        return dict(
            L=smooth.L,
            z=self.z,
            z_moving=self.z_moving,
            v_free=smooth.v_free,
            world_state=self.world_state,
        )

    def _marks(self) -> MarksView:
        return self.nonfinite.marks("tree", topology_of(self.model).view.world)

    def _servos(self, dt: float) -> ServoView:
        return ServoView() if self.servos is None else self.servos.view(dt)

    def predict(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        state_in: State,
        dt: float,
        rows: PairRowView | None = None,
    ) -> None:
        """Make loops and couplings, if there are any, hold in the predicted velocity.

        Otherwise, the velocity in the middle of the step, at which Coriolis forces are evaluated, would lack
        the acceleration by constraint forces, and linkages would lose a share of their energy in every
        revolution.

        Args:
            launch: Launcher of the model.
            smooth: The smooth stage, after the prediction.
            state_in: State at the start of the step.
            dt: Time step [s].
            rows: Rows to build and to solve; None for those of the stage.
        """
        if not self.predicts:
            return
        rows = self.rows.pair if rows is None else rows
        model, v = self.model, launch.views
        launch(
            energy_coordinates.to_energy_coordinates,
            "dof",
            reads=dict(tree=v.tree, L=smooth.L, qd=smooth.v_predicted),
            writes=dict(z=self.z),
        )
        start_qd = state_in.joint_qd
        self._weigh(launch, smooth, dt)
        self._build_pairs(launch, smooth, smooth.motion, state_in.joint_q, start_qd, start_qd, dt, rows)
        if self.changed_pairs is not None:
            q, qd = state_in.joint_q, smooth.v_predicted
            self.changed_pairs.change(launch, self.loops(start_qd), q, qd, rows)
        launch(
            prediction.solve_pairs,
            "world team",
            reads=dict(
                tree=v.tree,
                depth=topology_of(model).max_depth,
                max_iterations=self.options.iterations,
                tolerance=self.options.tolerance,
            ),
            writes=dict(rows=rows, z=self.z, acted=self.world_state),
        )
        launch(
            energy_coordinates.accept_prediction,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, L=smooth.L, z=self.z, world_state=self.world_state),
            writes=dict(qd=smooth.v_predicted),
        )

    def _build_pairs(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        motion: Motion,
        joint_q: wp.array,
        joint_qd: wp.array,
        start_qd: wp.array,
        dt: float,
        rows: PairRowView,
    ) -> None:
        """Build rows between bodies or dofs, with velocities and bias accelerations of one evaluation.

        Rows by reference take the velocities `start_qd` at the start of the step.
        """
        model, v = self.model, launch.views
        launch(
            pair_rows.build_pair_rows,
            "pair_row",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                kin=motion.kin,
                body_A=motion.body_A,
                gravity=model.gravity_vec,
                bodies=smooth.bodies(model),
                L=smooth.L,
                z=self.z,
                q=joint_q,
                qd=joint_qd,
                loop=self.loops(start_qd),
                mass=smooth.factors.mass,
                depth=topology_of(model).max_depth,
                s=self.options.settings(dt),
            ),
            writes=dict(rows=rows),
        )
        if self._own_anchors:
            depth = topology_of(model).max_depth
            launch(
                anchor_rows.separate_directions, "pair_row", reads=dict(depth=depth), writes=dict(rows=rows)
            )

    def _build_contacts(self, launch: Launcher, smooth: SmoothStage, contacts: Contacts, dt: float) -> None:
        model, v, rows, kin = self.model, launch.views, self.rows, smooth.motion.kin
        depth, shape = topology_of(model).max_depth, collision_plan_of(model).shape
        settings = self.options.settings(dt)
        launch(
            contact_rows.build_contact_rows,
            "contact",
            reads=dict(
                tree=v.tree,
                kin=kin,
                shape=shape,
                material=model.shape_materials,
                bodies=smooth.bodies(model),
                body_A=smooth.motion.body_A,
                falls=smooth.falls,
                gravity=model.gravity_vec,
                mass=smooth.factors.mass,
                L=smooth.L,
                z=self.z,
                contacts=contacts.view,
                depth=depth,
                s=settings,
                law=self.parameters.contacts(),
            ),
            writes=dict(rows=rows.contact),
        )
        if rows.spins:
            launch(
                spin_rows.build_spin_rows,
                "contact",
                reads=dict(
                    tree=v.tree,
                    kin=kin,
                    shape=shape,
                    mu=model.shape_materials.mu,
                    mu_torsion=model.shape_mu_torsion,
                    mu_rolling=model.shape_mu_rolling,
                    body_qd=smooth.body_qd,
                    L=smooth.L,
                    contacts=contacts.view,
                    depth=depth,
                    s=settings,
                    law=self.parameters.contacts(),
                    contact=rows.contact,
                ),
                writes=dict(rows=rows.spin),
            )

    def _contact_families(self) -> list:
        return [self.rows.contact, self.rows.spin] if self.rows.spins else [self.rows.contact]

    def carried_arrays(self) -> list[wp.array]:
        """Arrays through which earlier steps affect the next one, see `SolverBase`."""
        rows = self.rows
        memories = [family.memory for family in (rows.dof, *self._contact_families())]
        pulls = () if self.stiffness is None else self.stiffness.memory
        return [*memories, rows.pair.impulse, *pulls, self.nonfinite.worlds]

    def forget_all(self) -> None:
        """Drop the warm start and the non-finite marks of all worlds."""
        rows = self.rows
        pulls = () if self.stiffness is None else self.stiffness.memory
        for memory in (rows.dof.memory, rows.pair.impulse, rows.contact.memory, rows.spin.memory, *pulls):
            memory.zero_()
        self.nonfinite.worlds.zero_()
        self.unsolved.view.wedged_run.zero_()

    def forget(self, launch: Launcher, world_mask: wp.array | None) -> None:
        """Drop the warm start and the non-finite marks of the masked worlds of a launcher, or of all."""
        if world_mask is None:
            self.forget_all()
            return
        if self.stiffness is not None:
            self.stiffness.forget(launch, world_mask)
        rows = self.rows
        launch(
            reset.forget_rows,
            "world team",
            reads=dict(
                mask=world_mask,
                dof_start=rows.dof.world_start,
                pair_start=rows.pair.world_start,
                contact_start=self.memory_start,
            ),
            writes=dict(
                dof_memory=rows.dof.memory,
                pair_impulse=rows.pair.impulse,
                contact_memory=rows.contact.memory,
                spin_memory=rows.spin.memory,
                nonfinite=self.nonfinite.worlds,
                wedged_run=self.unsolved.view.wedged_run,
            ),
        )

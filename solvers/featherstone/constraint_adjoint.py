"""Adjoint of the constraint stage of FeatherstoneSolver: buffers, and the order of its kernels.

The rows of a step are built again, in the adjoint's own buffers, with the impulses that the step found.
Where these do not say all that the solve did, as in impacts, the rows are solved again, from the impulses
with which the step started: the same sweeps yield the same impulses.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint import acting as acting_adjoint
from newtonsim.kernels.constraints.adjoint import contact_terms as contact_terms_adjoint
from newtonsim.kernels.constraints.adjoint import impacts as impacts_adjoint
from newtonsim.kernels.constraints.adjoint import modes as modes_adjoint
from newtonsim.kernels.constraints.adjoint import row_terms as row_terms_adjoint
from newtonsim.kernels.constraints.adjoint import solve as solve_adjoint
from newtonsim.kernels.constraints.adjoint import velocities as velocities_adjoint
from newtonsim.kernels.constraints.adjoint import worlds as worlds_adjoint
from newtonsim.kernels.constraints.adjoint.impacts import ImpactRoundsView
from newtonsim.kernels.constraints.adjoint.modes import RowAdjointView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.residents import keep_on_device
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone import row_layout as featherstone_row_layout
from newtonsim.solvers.featherstone.adjoint_system import pairs_alone, system_of, transpose_of
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.contact_adjoint import ContactAdjoint
from newtonsim.solvers.featherstone.options import ConstraintOptions
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.step import StartingImpulses

ITERATIONS = 100
"""Least number of sweeps when a step is solved again."""
TOLERANCE = 1.0e-6
"""Largest velocity change of the last of them [m/s or rad/s]."""

_REASONS = {
    int(worlds_adjoint.NO_ROOM): "its constraints couple more bodies than there is room for",
    int(worlds_adjoint.UNREACHED): (
        "the adjoint of its constraints was not found within the rounds there are, as where those that act "
        "contradict each other"
    ),
    int(worlds_adjoint.NOT_SOLVED): (
        "the constraints were not solved well enough (raise iterations), or links that turned far in the "
        "step were slowed down (shorten it)"
    ),
    int(worlds_adjoint.UNSUPPORTED_CONTACT): "a contact acts whose shapes have no gradient",
    int(worlds_adjoint.PROPAGATED_IMPACT): (
        "an impact was propagated more than four times or between contacts of different restitution, or has "
        "restitution that was zero when the solver was made"
    ),
}


class ConstraintAdjoint:
    """Multipliers of the rows of a step, and terms of the rows in its gradient.

    Args:
        model: A model finalized with gradients.

    Attributes:
        stage: The rows of the step, solved again.
        reason: Why a world has no gradient, 0 if it has one, shape (world_count,).
        solved_qd: Joint velocities that solve them, shape (joint_dof_count,).
        multiplier: λ of the last solve, by dof, shape (joint_dof_count,).
        system: Linear systems of the islands.
        transposed: Those that are transposed, in the same memory.
        rows: Mode and multiplier of each row.
        acting: 1 for worlds in which a row acts in the last `solve`, 0 for others, shape (world_count,).
        mass: Mass behind the first body of each chain [kg], whose weight softened rows use; 0 without
            softening, and for other bodies; shape (body_count,).
    """

    def __init__(self, model: Model):
        self.model = model
        device = model.device
        self.stage = ConstraintStage(model, ConstraintOptions(), keeps_moving=True)
        self.solved_qd = zeros(model.joint_dof_count, dtype=float, device=device)
        self.reason = zeros(model.world_count, dtype=int, device=device)
        self.multiplier = zeros(model.joint_dof_count, dtype=float, device=device)
        self.y = zeros(model.joint_dof_count, dtype=float, device=device)
        self.system = system_of(self.stage)
        self.transposed = transpose_of(self.system)
        self.rows = _row_adjoints(self.stage, device)
        self.acting = zeros(model.world_count, dtype=int, device=device)
        self.predicted = featherstone_row_layout.pair_rows_of(model) if self.stage.predicts else None
        if self.predicted is not None:
            keep_on_device(device, self.predicted)
        self._alone = None if self.predicted is None else pairs_alone(model, self.predicted)
        self.mass = zeros(model.body_count, dtype=float, device=device, requires_grad=True)
        self.dof_terms = _terms(self.stage.dof_count, device)
        self.pair_terms = _terms(self.stage.pair_count, device)
        self.sums = zeros(self.stage.pair_count, dtype=wp.vec2, device=device, requires_grad=True)

    def push_at_own_anchors(self) -> None:
        """Have the rows of `FeatherstoneSolver.push_at_own_anchors`."""
        self.stage.push_at_own_anchors()
        if self.predicted is not None:
            featherstone_row_layout.push_at_own_anchors(self.predicted, self.model)

    def restiffen(self, launch: Launcher, smooth: SmoothStage, dt: float, starts: StartingImpulses) -> None:
        """Have a launcher use the inertia that a step used, from the forces with which it started."""
        if self.stage.stiffness is not None:
            starts.restore_pulls(launch, self.stage)
            self.stage.stiffen(launch, smooth, dt)

    def rebuild(
        self,
        launch: Launcher,
        options: ConstraintOptions,
        smooth: SmoothStage,
        state_in: State,
        control: Control,
        contacts: Contacts,
        dt: float,
        starts: StartingImpulses,
    ) -> None:
        """Build the rows of a step again, with the impulses with which it started."""
        self.stage.options = options
        self.stage.build(launch, smooth, state_in.joint_q, state_in.joint_qd, control, contacts, dt)
        starts.restore(launch, self.stage)

    def resolve(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        contacts: Contacts,
        dt: float,
        starts: StartingImpulses,
        v_end: wp.array,
    ) -> None:
        """Solve the rows, and mark worlds in which their impulses yield a velocity other than v_end."""
        stage, dofs = self.stage, self.stage.dofs
        starts.resume(launch, stage, contacts)
        stage.find_impulses(launch, contacts, dt, resumed=True)
        stage.accept(launch, smooth, self.solved_qd)
        launch(
            worlds_adjoint.compare_velocities,
            "world",
            reads=dict(
                world_start=dofs.world_start,
                dof=dofs.dof,
                v_free=smooth.v_free,
                v_end=v_end,
                solved=self.solved_qd,
            ),
            writes=dict(reason=self.reason),
        )

    def tight(self, options: ConstraintOptions) -> ConstraintOptions:
        """Options of a solve that is independent of earlier steps and has negligible error."""
        return dataclasses.replace(
            options,
            iterations=max(options.iterations, ITERATIONS),
            tolerance=min(options.tolerance, TOLERANCE),
            warm_start=0.0,
        )

    def predict(
        self, launch: Launcher, options: ConstraintOptions, smooth: SmoothStage, state: State, dt: float
    ) -> None:
        """Make loops and couplings hold in the predicted velocity, as `ConstraintStage.predict` does."""
        self.stage.options = self.tight(options)
        self.stage.predict(launch, smooth, state, dt, self.predicted)

    def impulses(self, pushing: bool) -> ImpulseView:
        """Impulses and velocities of the final solution, or of the one that moves the coordinates."""
        if pushing:
            return self.stage.moving
        view = ImpulseView()
        rows = self.stage.rows
        view.dof, view.pair, view.contact = rows.dof.impulse, rows.pair.impulse, rows.contact.impulse
        view.spin, view.z = rows.spin.impulse, self.stage.z
        return view

    def solve(
        self,
        launch: Launcher,
        L: wp.array,
        gradient: wp.array,
        contacts: Contacts,
        terms: ContactAdjoint | None,
        pushing: bool,
    ) -> None:
        """From a gradient of the end velocity, find the multipliers of all rows and of the force balance."""
        stage = self.stage
        self.to_energy(launch, L, gradient)
        if contacts.rigid_contact_max:
            launch(
                modes_adjoint.mark_pushing,
                "contact",
                reads=dict(rows=stage.rows, contacts=contacts.view, final=int(not pushing)),
                writes=dict(
                    pushes=self.rows.contact_pushes, slip_before_impact=self.rows.contact_slip_before_impact
                ),
            )
        self._solve_rows(launch, stage.rows, contacts.view, self.impulses(pushing))
        launch(
            acting_adjoint.mark_acting,
            "world",
            reads=dict(rows=stage.rows, contacts=contacts.view, adj=self.rows),
            writes=dict(acting=self.acting),
        )
        if contacts.rigid_contact_max:
            no_rule = int(worlds_adjoint.UNSUPPORTED_CONTACT)
            propagated = int(worlds_adjoint.PROPAGATED_IMPACT)
            terms.refuse(launch, contacts, stage.rows, self.rows, no_rule, propagated, self.reason)
        self._to_multiplier(launch, L)

    def to_energy(self, launch: Launcher, L: wp.array, gradient: wp.array) -> None:
        """Convert a gradient of joint velocities to energy coordinates, as `y`."""
        launch(
            velocities_adjoint.to_energy_gradient,
            "tree",
            reads=dict(tree=launch.views.tree, L=L, gradient=gradient),
            writes=dict(y=self.y),
        )

    def _to_multiplier(self, launch: Launcher, L: wp.array) -> None:
        launch(
            velocities_adjoint.to_multiplier,
            "tree",
            reads=dict(tree=launch.views.tree, L=L, zeta=self.y, reason=self.reason),
            writes=dict(multiplier=self.multiplier),
        )

    def refuse_compliant(self, launch: Launcher, contacts: Contacts, terms: ContactAdjoint) -> None:
        """Mark worlds in which a compliant contact acts that has no gradient."""
        no_rule = int(worlds_adjoint.UNSUPPORTED_CONTACT)
        launch(
            contact_terms_adjoint.refuse_compliant_contacts,
            "world",
            reads=dict(contacts=contacts.view, features=terms.features, no_rule=no_rule),
            writes=dict(reason=self.reason),
        )

    def solve_free(
        self, launch: Launcher, L: wp.array, gradient: wp.array, rounds: ImpactRoundsView | None = None
    ) -> None:
        """From a gradient of a velocity without constraints to the multipliers of the force balance.

        This includes the gradient of the velocity before rounds of impact, if there are any.
        """
        self.to_energy(launch, L, gradient)
        if rounds is not None:
            # without rounds, nothing was written there
            with launch.where_any(rounds.count):
                launch(impacts_adjoint.add_left, "dof", reads=dict(rounds=rounds), writes=dict(y=self.y))
        self._to_multiplier(launch, L)

    def solve_predicted(self, launch: Launcher, L: wp.array, gradient: wp.array) -> None:
        """From a gradient of the predicted velocity to the multipliers of its rows."""
        if self.predicted is None:
            self.solve_free(launch, L, gradient)
            return
        self.to_energy(launch, L, gradient)
        self._solve_rows(launch, *self._alone)
        self._to_multiplier(launch, L)

    def _solve_rows(
        self, launch: Launcher, rows: RowsView, contacts: ContactView, impulse: ImpulseView
    ) -> None:
        """From the gradient `y` of a solution of rows to their multipliers, in energy coordinates."""
        launch(
            solve_adjoint.solve_adjoint,
            "world",
            reads=dict(
                tree=launch.views.tree,
                dofs=self.stage.dofs,
                rows=rows,
                contacts=contacts,
                depth=topology_of(self.model).max_depth,
                impulse=impulse,
            ),
            writes=dict(system=self.system, adj=self.rows, y=self.y, reason=self.reason),
        )

    def add_masses(self, launch: Launcher) -> None:
        """Record the masses that softened contacts and limits bear."""
        if self.stage.options.smoothing == 0.0:
            return
        fill(self.mass)
        fill(self.mass.grad)
        launch(
            row_terms_adjoint.add_up_masses,
            "body",
            reads=dict(tree=launch.views.tree, mass=self.model.body_mass),
            writes=dict(total=self.mass),
        )

    def add_dof_terms(
        self, launch: Launcher, state: State, control: Control, dt: float, impulse: ImpulseView
    ) -> None:
        """Record the terms of rows on dofs."""
        if not self.stage.dof_count:
            return
        v, options = launch.views, self.stage.options
        launch.backward_only(
            row_terms_adjoint.dof_lagrangian,
            "dof_row span",
            reads=dict(
                drive=v.drive,
                limit=self.stage.limits(state.joint_qd),
                tree=v.tree,
                q=state.joint_q,
                act=control.joint_act,
                mass=self.mass,
                s=options.settings(dt),
                rows=self.stage.rows.dof,
                impulse=impulse.dof,
                mode=self.rows.dof_mode,
                multiplier=self.rows.dof_multiplier,
            ),
            writes=dict(out=self.dof_terms),
        )

    def add_tendon_terms(
        self, launch: Launcher, control: Control, v_end: wp.array, dt: float, impulse: ImpulseView
    ) -> None:
        """Record the terms of tendon rows.

        Args:
            launch: Launcher whose launches are recorded.
            control: Inputs.
            v_end: Joint velocities at the end.
            dt: Time step [s].
            impulse: Impulses of the rows.
        """
        tendons = self.stage.tendons
        if tendons is not None and tendons.row_count:
            tendons.add_terms(
                launch,
                control.tendon_act,
                self.multiplier,
                v_end,
                self.stage.options.settings(dt),
                impulse.pair,
                self.rows.pair_mode,
                self.rows.pair_multiplier,
            )

    def add_pair_terms(
        self,
        launch: Launcher,
        state: State,
        bodies: BodyStateView,
        bias: Motion,
        v_bias: wp.array,
        fields: tuple[Motion, Motion, Motion],
        v_end: wp.array,
        dt: float,
        impulse: wp.array | None,
    ) -> None:
        """Record the terms of rows between bodies or dofs.

        Args:
            launch: Launcher whose launches are recorded.
            state: State at the start of the step.
            bodies: Poses of all bodies at the start of the step, and velocities of those on no tree.
            bias: Velocities and bias accelerations at which the rows were built.
            v_bias: Joint velocities likewise.
            fields: Velocities of the bodies for the multipliers, at the end and at the start.
            v_end: Joint velocities at the end.
            dt: Time step [s].
            impulse: Impulses of the rows; None for the rows of the predicted velocity and theirs.
        """
        rows = self.stage.rows.pair if impulse is not None else self.predicted
        v, model, options = launch.views, self.model, self.stage.options
        multiplier, end, start = fields
        loop, settings = self.stage.loops(state.joint_qd), options.settings(dt)
        if settings.late and self.stage.parameters.pairs:
            launch(
                row_terms_adjoint.weigh_rows,
                "pair_row",
                reads=dict(
                    tree=v.tree,
                    joint=v.joint,
                    kin=bias.kin,
                    body_A=bias.body_A,
                    gravity=model.gravity_vec,
                    bodies=bodies,
                    loop=loop,
                    rows=rows,
                ),
                writes=dict(sums=self.sums),
            )
        launch.backward_only(
            row_terms_adjoint.pair_lagrangian,
            "pair_row",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                kin=bias.kin,
                body_A=bias.body_A,
                gravity=model.gravity_vec,
                bodies=bodies,
                V_multiplier=multiplier.kin.body_V,
                V_end=end.kin.body_V,
                V_start=start.kin.body_V,
                sums=self.sums,
                q=state.joint_q,
                qd=v_bias,
                lambda_=self.multiplier,
                v_end=v_end,
                loop=loop,
                s=settings,
                rows=rows,
                impulse=rows.impulse if impulse is None else impulse,
                mode=self.rows.pair_mode,
                multiplier=self.rows.pair_multiplier,
            ),
            writes=dict(out=self.pair_terms),
        )

    def seed_terms(self) -> None:
        """Seed the gradient of -S; reverse passes clear the seeds that they use."""
        for terms in (self.dof_terms, self.pair_terms):
            fill(terms.grad, -1.0)
        if self.stage.tendons is not None:
            fill(self.stage.tendons.terms.grad, -1.0)

    def check(self) -> None:
        """Raise if a world had no gradient since the last call, and clear the reasons.

        Raises:
            NotDifferentiableError: Names the worlds and why.
        """
        found = self.reason.numpy().copy()
        if not found.any():
            return
        self.reason.zero_()
        # gradients of a non-finite step are not finite either
        found[found & int(worlds_adjoint.NONFINITE) > 0] = 0
        if found.any():
            self.stage.forget_all()
        refuse_worlds(found)


def refuse_worlds(reasons: np.ndarray) -> None:
    """Raise if a world has no gradient.

    Args:
        reasons: Bits of `kernels.constraints.adjoint.worlds`, 0 for none, shape (world_count,).

    Raises:
        NotDifferentiableError: Names the worlds and why the first of them has none.
    """
    worlds = reasons.nonzero()[0]
    if not len(worlds):
        return
    first = int(reasons[worlds[0]])
    why = "; ".join(text for bit, text in _REASONS.items() if first & bit)
    raise NotDifferentiableError(f"FeatherstoneSolver has no gradient in worlds {worlds[:8].tolist()}: {why}")


def _row_adjoints(stage: ConstraintStage, device: wp.Device) -> RowAdjointView:
    rows = stage.rows
    view = RowAdjointView()
    dofs, pairs = len(rows.dof.impulse), len(rows.pair.impulse)
    contacts, spins = len(rows.contact.impulse), len(rows.spin.impulse)
    view.dof_mode = zeros(dofs, dtype=int, device=device)
    view.dof_multiplier = zeros(dofs, dtype=float, device=device)
    view.pair_mode = zeros(pairs, dtype=int, device=device)
    view.pair_multiplier = zeros(pairs, dtype=float, device=device)
    view.contact_mode = zeros(contacts, dtype=int, device=device)
    view.contact_multiplier = zeros(contacts, dtype=wp.vec3, device=device)
    view.spin_mode = zeros(spins, dtype=wp.vec2i, device=device)
    view.spin_multiplier = zeros(spins, dtype=wp.vec3, device=device)
    view.contact_slip_before_impact = zeros(contacts, dtype=wp.vec2, device=device)
    view.contact_pushes = zeros(contacts, dtype=int, device=device)
    return view


def _terms(count: int, device: wp.Device) -> wp.array:
    """One number for each row, whose sum is S."""
    return zeros(count, dtype=float, device=device, requires_grad=True)

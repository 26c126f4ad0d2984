"""Forces of the last step, computed when they are asked for."""

from __future__ import annotations

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import ModelError
from newtonsim.kernels.constraints import reactions as constraints_reactions
from newtonsim.kernels.trees import rnea
from newtonsim.runtime import copies
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.constraint_rows import loop_view
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.smooth import SmoothStage


class Reactions:
    """Turns what a step leaves in its stages into forces; its own buffers are made at first use."""

    def __init__(self, model: Model, smooth: SmoothStage, constraints: ConstraintStage):
        self.model, self.smooth, self.constraints = model, smooth, constraints
        self.qdd: wp.array | None = None
        self.body_f: wp.array | None = None

    def contact_forces(self, out: wp.array | None, torques: bool) -> wp.array:
        """Write the force, or the torque, of every contact place."""
        contacts, rate = self._last_step()
        rows = self.constraints.rows
        out = self._buffer(out, contacts.rigid_contact_max, wp.vec3, "contact")
        if torques and not rows.spins:
            out.zero_()
            return out
        impulse = rows.spin.impulse if torques else rows.contact.impulse
        self._launcher()(
            constraints_reactions.write_contact_forces,
            "contact",
            reads=dict(contacts=contacts.view, impulse=impulse, rate=rate),
            writes=dict(force=out),
        )
        return out

    def constraint_forces(self, out: wp.array | None) -> wp.array:
        """Write the wrench of every constraint."""
        _, rate = self._last_step()
        out = self._buffer(out, self.model.constraint_count, wp.spatial_vector, "constraint")
        copies.fill(out)
        self._launcher()(
            constraints_reactions.write_constraint_forces,
            "world",
            reads=dict(rows=self.constraints.rows, rate=rate),
            writes=dict(wrench=out),
        )
        return out

    def joint_reactions(self, state: State, out: wp.array | None) -> wp.array:
        """Write the wrench through every joint."""
        contacts, rate = self._last_step()
        model, smooth, launch = self.model, self.smooth, self._launcher()
        out = self._buffer(out, model.joint_count, wp.spatial_vector, "joint")
        if self.qdd is None:
            self.qdd = wp.zeros(model.joint_dof_count, dtype=float, device=model.device)
            self.body_f = wp.zeros(model.body_count, dtype=wp.spatial_vector, device=model.device)
        v = launch.views
        launch(
            constraints_reactions.recover_accelerations,
            "joint",
            reads=dict(joint=v.joint, kin=smooth.motion.kin, qd=state.joint_qd, rate=rate),
            writes=dict(qdd=self.qdd),
        )
        launch(rnea.copy_wrenches, "body", reads=dict(source=smooth.body_f), writes=dict(target=self.body_f))
        self.add_external(launch, contacts, rate, self.body_f)
        launch.inverse_dynamics(smooth.mid, smooth.v_mid, self.qdd, self.body_f)
        launch(
            constraints_reactions.write_joint_wrenches,
            "joint",
            reads=dict(tree=v.tree, joint=v.joint, kin=smooth.mid.kin, body_F=smooth.mid.body_F),
            writes=dict(wrench=out),
        )
        return out

    def add_external(
        self, launch: Launcher, contacts: Contacts, rate: float, body_f: wp.array, constraints: bool = True
    ) -> None:
        """Add the mean wrenches of contacts and constraints in a step of length 1/rate, at the COM."""
        model = self.model
        launch(
            constraints_reactions.add_external_impulses,
            "world",
            reads=dict(
                shape=collision_plan_of(model).shape,
                contacts=contacts.view,
                loop=loop_view(model),
                bodies=self.smooth.bodies(model),
                rows=self.constraints.rows,
                rate=rate,
                constraints=int(constraints),
            ),
            writes=dict(body_f=body_f),
        )

    def sum_pairs(
        self, launch: Launcher, contacts: Contacts, rate: float, side: wp.array, sums: wp.array
    ) -> None:
        """Add up the contacts of each pair of sets of shapes in a step of length 1/rate.

        Args:
            launch: For the worlds; it has to know the kind "contact pair".
            contacts: Contacts of the step.
            rate: 1/dt [1/s].
            side: See `sum_contacts`.
            sums: Receives the sums, likewise.
        """
        launch(
            constraints_reactions.sum_contacts,
            "contact pair",
            reads=dict(
                shape=collision_plan_of(self.model).shape,
                contacts=contacts.view,
                body_q=self.smooth.body_q,
                impulse=self.constraints.rows.contact.impulse,
                rate=rate,
                side=side,
            ),
            writes=dict(sums=sums),
        )

    def _last_step(self) -> tuple:
        """Contacts of the last step and 1/dt."""
        if self.constraints.last_contacts is None:
            raise RuntimeError("forces of the last step were asked for before the first step")
        return self.constraints.last_contacts, 1.0 / self.constraints.last_dt

    def _launcher(self) -> Launcher:
        return Launcher(self.model, record_tape=False)

    def _buffer(self, out: wp.array | None, count: int, dtype: type, what: str) -> wp.array:
        if out is None:
            return wp.zeros(count, dtype=dtype, device=self.model.device)
        if out.dtype is not dtype or out.shape != (count,):
            raise ModelError(
                f"out: expected ({count},) {dtype.__name__}, one per {what}, got {out.shape} of {out.dtype}"
            )
        return out

"""Adjoint of impacts that are propagated within a step: buffers, and the order of their kernels."""

from __future__ import annotations

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.kernels.constraints.adjoint import impact_terms
from newtonsim.kernels.constraints.adjoint import impacts as impacts_adjoint
from newtonsim.kernels.constraints.adjoint.impact_terms import ImpactMotionView
from newtonsim.kernels.constraints.adjoint.impacts import ImpactRoundsView
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.constraints.rows import ImpulseView
from newtonsim.kernels.trees import masked_dynamics
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraint_adjoint import ConstraintAdjoint

_ROUNDS = int(impacts_adjoint.MOST_ROUNDS)


class ImpactAdjoint:
    """Rounds of impact of a step, their multipliers, and their terms in the scalar S of
    `solvers.featherstone.impact_adjoint`.

    Args:
        model: A model finalized with gradients.
        constraints: The adjoint of its constraints.
        poses: Poses at the start of the step, through which all gradients go in the end.

    Attributes:
        rounds: The rounds.
        mask: Worlds that have the round of the last `select`, shape (world_count,).
        velocities: Joint velocities after the inelastic impact of each round, shapes (joint_dof_count,).
        forces: Multipliers of the force balance at these velocities, likewise.
    """

    def __init__(self, model: Model, constraints: ConstraintAdjoint, poses: Motion):
        self.model = model
        device, dofs = model.device, model.joint_dof_count
        places = collision_plan_of(model).contact_count
        view = ImpactRoundsView()
        self._after = ImpulseView()
        self._after.z = zeros(dofs, dtype=float, device=device)
        self._after.contact = zeros(places, dtype=wp.vec3, device=device)
        view.count = zeros(model.world_count, dtype=int, device=device)
        view.restitution = zeros(model.world_count, dtype=float, device=device)
        view.impulse = zeros((_ROUNDS, places), dtype=float, device=device)
        view.multiplier = zeros((_ROUNDS, places), dtype=float, device=device)
        view.slope = zeros((_ROUNDS, places), dtype=float, device=device)
        view.z = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.zeta = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.force = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.v = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.v_zeta = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.v_force = zeros((_ROUNDS, dofs), dtype=float, device=device)
        view.left = zeros(dofs, dtype=float, device=device)
        self.rounds = view
        self.mask = zeros(model.world_count, dtype=int, device=device)
        self.velocities = [view.v[r] for r in range(_ROUNDS)]
        self.forces = [view.v_force[r] for r in range(_ROUNDS)]
        self._multipliers = [view.v_zeta[r] for r in range(_ROUNDS)]
        self._rows = [[a[r] for a in (view.impulse, view.multiplier, view.slope)] for r in range(_ROUNDS)]
        self._fields = [Motion(model, requires_grad=True, poses=poses, forces=False) for _ in range(2)]
        self._motion = ImpactMotionView()
        self._motion.multiplier, self._motion.end = (
            zeros(model.body_count, dtype=wp.spatial_vector, device=device, requires_grad=True)
            for _ in range(2)
        )
        self._terms = zeros(places, dtype=float, device=device, requires_grad=True)

    def follow(self, launch: Launcher, constraints: ConstraintAdjoint, contacts: Contacts, dt: float) -> None:
        """Find the rounds of a step, after its rows are built and before they are solved."""
        stage = constraints.stage
        launch(
            impacts_adjoint.follow_impacts,
            "world",
            reads=dict(
                tree=launch.views.tree,
                rows=stage.rows.contact,
                contacts=contacts.view,
                depth=topology_of(self.model).max_depth,
                dt=dt,
                dofs=stage.dofs,
                z=stage.z,
            ),
            writes=dict(after=self._after, rounds=self.rounds, reason=constraints.reason),
        )

    def write_outcome(self, launch: Launcher, L: wp.array, velocity: wp.array) -> None:
        """Write the joint velocities after all impacts; needs `follow`."""
        launch(
            impacts_adjoint.write_outcome,
            "tree",
            reads=dict(tree=launch.views.tree, L=L, z=self._after.z, rounds=self.rounds),
            writes=dict(v=velocity),
        )

    def reverse(
        self,
        launch: Launcher,
        constraints: ConstraintAdjoint,
        contacts: Contacts,
        L: wp.array,
        gradient: wp.array,
    ) -> None:
        """From a gradient of the velocity after all impacts to the multipliers of every round."""
        v, stage = launch.views, constraints.stage
        constraints.to_energy(launch, L, gradient)
        launch(
            impacts_adjoint.reverse_impacts,
            "world",
            reads=dict(
                tree=v.tree,
                dofs=stage.dofs,
                rows=stage.rows,
                contacts=contacts.view,
                depth=topology_of(self.model).max_depth,
            ),
            writes=dict(
                system=constraints.system,
                zeta=constraints.y,
                rounds=self.rounds,
                reason=constraints.reason,
            ),
        )
        launch(
            impacts_adjoint.write_rounds,
            "tree",
            reads=dict(tree=v.tree, L=L, reason=constraints.reason),
            writes=dict(rounds=self.rounds),
        )

    def number_of_rounds(self) -> int:
        """Most rounds of a world; as many as there may be while a graph is captured."""
        if self.model.device.is_capturing:
            return _ROUNDS
        return int(self.rounds.count.numpy().max())

    def select(self, launch: Launcher, r: int) -> None:
        """Find the worlds that have a round."""
        launch(
            impacts_adjoint.mask_round,
            "world",
            reads=dict(rounds=self.rounds, r=r),
            writes=dict(mask=self.mask),
        )

    def add_terms(
        self,
        record: Launcher,
        constraints: ConstraintAdjoint,
        r: int,
        contacts: Contacts,
        features: FeatureView,
        body_q: wp.array,
        loose_qd: wp.array,
        settings: ConstraintSettings,
    ) -> None:
        """Put the terms of the contacts of a round on the tape; needs `select`, seeds them, too.

        Args:
            record: Launcher whose launches are recorded.
            constraints: The adjoint of the constraints.
            r: The round.
            contacts: Contacts of the step.
            features: Features in contact.
            body_q: World poses at the start of the step, recorded.
            loose_qd: Body velocities of the state, of which those of bodies without joints are read.
            settings: Settings of the step.
        """
        model, v, motion = self.model, record.views, self._motion
        motion.com = model.body_com
        names, velocities = ("multiplier", "end"), (self._multipliers[r], self.velocities[r])
        for name, field, joint_qd, share in zip(names, self._fields, velocities, (0.0, 1.0)):
            record(
                masked_dynamics.compute_masked_velocities,
                "tree",
                reads=dict(mask=self.mask, tree=v.tree, joint=v.joint, qd=joint_qd),
                writes=dict(kin=field.kin),
            )
            record(
                masked_dynamics.write_masked_velocities,
                "body",
                reads=dict(
                    mask=self.mask, tree=v.tree, body=v.body, kin=field.kin, loose_qd=loose_qd, share=share
                ),
                writes=dict(body_qd=getattr(motion, name)),
            )
        impulse, multiplier, slope = self._rows[r]
        record.backward_only(
            impact_terms.impact_lagrangian,
            "world",
            reads=dict(
                mask=self.mask,
                contacts=contacts.view,
                features=features,
                shape=collision_plan_of(model).shape,
                restitution=model.shape_materials.restitution,
                body_q=body_q,
                motion=motion,
                s=settings,
                rows=constraints.stage.rows.contact,
                impulse=impulse,
                multiplier=multiplier,
                slope=slope,
            ),
            writes=dict(out=self._terms),
        )
        fill(self._terms.grad, -1.0)

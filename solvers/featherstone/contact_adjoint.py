"""Terms of contacts in the gradient of a FeatherstoneSolver step: buffers, and the order of their kernels."""

from __future__ import annotations

from types import SimpleNamespace

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision import contact_features
from newtonsim.kernels.constraints.adjoint import contact_terms as contact_terms_adjoint
from newtonsim.kernels.constraints.adjoint import row_terms as row_terms_adjoint
from newtonsim.kernels.constraints.adjoint.contact_terms import ContactMotionView
from newtonsim.kernels.constraints.adjoint.modes import RowAdjointView
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.penalty import feature_contacts
from newtonsim.kernels.trees import masked_dynamics
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.kernels.views.references import ContactParameters
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.contact_features import features_of
from newtonsim.solvers.featherstone.contact_modes import CompliantContacts

_FIELDS = ("multiplier", "end", "start", "free", "outcome")
"""Velocities over one set of poses, see `ContactMotionView`; the last three are for restitution."""


class ContactAdjoint:
    """Features in contact, and the terms of contacts in the scalar S of
    `kernels.constraints.adjoint.row_terms`.

    Args:
        model: A model finalized with gradients.
        poses: Poses at the start of the step, through which all gradients finally pass.

    Attributes:
        features: Features in contact, see `find`.
        v_free: Joint velocities without constraints, to whose gradient restitution adds, shape
            (joint_dof_count,).
        v_outcome: Joint velocities after propagated impacts, likewise.
        rebounds: Whether a shape had restitution when this was made; without, contacts with it are refused.
        rebounding: Whether a contact rebounds in the step, by world, see `refuse`.
        terms: Terms of each contact place, shape (contact_count,).
    """

    def __init__(self, model: Model, poses: Motion):
        self.model = model
        count, device = collision_plan_of(model).contact_count, model.device
        self.features = features_of(count, device)
        self.v_free = zeros(model.joint_dof_count, dtype=float, device=device, requires_grad=True)
        self.v_outcome = zeros(model.joint_dof_count, dtype=float, device=device, requires_grad=True)
        self.terms = zeros(count, dtype=float, device=device, requires_grad=True)
        self.rebounds = bool((model.shape_materials.restitution.numpy() > 0.0).any())
        self.rebounding = zeros(model.world_count, dtype=int, device=device)
        self._names = _FIELDS if self.rebounds else _FIELDS[:2]
        self._fields = SimpleNamespace()
        self._motion = ContactMotionView()
        for name in self._names:
            setattr(self._fields, name, Motion(model, requires_grad=True, poses=poses, forces=False))
            velocities = zeros(model.body_count, dtype=wp.spatial_vector, device=device, requires_grad=True)
            setattr(self._motion, name, velocities)

        if not self.rebounds:
            # kernels may read them before they find that a contact is rejected
            self._motion.start = self._motion.free = self._motion.outcome = self._motion.end

    def find(self, launch: Launcher, contacts: Contacts, body_q: wp.array) -> None:
        """Find the features of all contacts at the poses of the step."""
        plan = collision_plan_of(self.model)
        if plan.contact_count:
            launch(
                contact_features.find_features,
                "contact",
                reads=dict(contacts=contacts.view, shape=plan.shape, hulls=plan.hulls, body_q=body_q),
                writes=dict(features=self.features),
            )
            launch(
                contact_features.share_normals,
                "contact",
                reads=dict(contacts=contacts.view, shape=plan.shape, body_q=body_q),
                writes=dict(features=self.features),
            )

    def refuse(
        self,
        launch: Launcher,
        contacts: Contacts,
        rows: RowsView,
        adj: RowAdjointView,
        no_rule: int,
        propagated: int,
        reason: wp.array,
    ) -> None:
        """Add the bits `no_rule` and `propagated` to the reasons of worlds, see
        `kernels.constraints.adjoint.contact_terms`.

        This also finds the worlds that rebound.
        """
        if self.rebounds:
            launch(
                contact_terms_adjoint.find_rebounding_worlds,
                "world",
                reads=dict(contacts=contacts.view, rows=rows.contact),
                writes=dict(found=self.rebounding),
            )
        launch(
            contact_terms_adjoint.refuse_contacts,
            "world",
            reads=dict(
                contacts=contacts.view,
                features=self.features,
                rows=rows.contact,
                mode=adj.contact_mode,
                restitution=int(self.rebounds),
                no_rule=no_rule,
                propagated=propagated,
            ),
            writes=dict(reason=reason),
        )

    def clear(self) -> None:
        """Clear gradients that worlds without rebounds leave, and seed the gradient of -S."""
        for name in self._names[2:]:
            getattr(self._fields, name).zero_grad()
            fill(getattr(self._motion, name).grad)
        fill(self.terms.grad, -1.0)

    def add_terms(
        self,
        record: Launcher,
        contacts: Contacts,
        bodies: BodyStateView,
        carried: Motion,
        velocities: tuple[wp.array, wp.array, wp.array],
        settings: ConstraintSettings,
        law: ContactParameters,
        rows: RowsView,
        impulse: tuple[wp.array, wp.array],
        adj: RowAdjointView,
        mass: wp.array,
        rounds: wp.array,
        pushed: wp.array | None,
    ) -> None:
        """Record the terms of contacts; needs `find`, and `v_free`.

        Args:
            record: Launcher whose launches are recorded.
            contacts: Contacts of the step.
            bodies: Poses of all bodies at the start of the step, and velocities of those on no tree.
            carried: Velocities at the start of the step, and accelerations at constant joint velocities.
            velocities: λ, joint velocities of the solution, and at the start of the step.
            settings: Settings of the step.
            law: Parameters of contacts by reference.
            rows: Rows as the step solved them.
            impulse: Impulses of contacts, and of their torsional and rolling friction.
            adj: What each row is, and its multiplier.
            mass: Mass behind the first body of each chain, see `ConstraintAdjoint`.
            rounds: Rounds of impact by world, see `solvers.featherstone.impact_adjoint`.
            pushed: Worlds in which another solution moves the positions, if this is that solution; None for
            the final one.
        """
        model, v, motion = self.model, record.views, self._motion
        motion.com, body_q, loose_qd = bodies.com, bodies.q, bodies.qd
        for name, joint_qd in zip(self._names, (*velocities, self.v_free, self.v_outcome)):
            field, written = getattr(self._fields, name), getattr(motion, name)
            mask = pushed if name in _FIELDS[:2] else self.rebounding
            if mask is None:
                record.velocities(field, joint_qd)
                record(
                    row_terms_adjoint.write_velocities,
                    "body span",
                    reads=dict(
                        tree=v.tree,
                        body=v.body,
                        kin=field.kin,
                        loose_qd=loose_qd,
                        share=0.0 if name == "multiplier" else 1.0,
                    ),
                    writes=dict(body_qd=written),
                )
            else:
                with record.where_any(mask):
                    record(
                        masked_dynamics.compute_masked_velocities,
                        "tree",
                        reads=dict(mask=mask, tree=v.tree, joint=v.joint, qd=joint_qd),
                        writes=dict(kin=field.kin),
                    )
                    record(
                        masked_dynamics.write_masked_velocities,
                        "body",
                        reads=dict(
                            mask=mask,
                            tree=v.tree,
                            body=v.body,
                            kin=field.kin,
                            loose_qd=loose_qd,
                            share=0.0 if name == "multiplier" else 1.0,
                        ),
                        writes=dict(body_qd=written),
                    )
        shape, materials = collision_plan_of(model).shape, model.shape_materials
        record.backward_only(
            contact_terms_adjoint.contact_lagrangian,
            "contact span",
            reads=dict(
                tree=v.tree,
                contacts=contacts.view,
                features=self.features,
                shape=shape,
                material=materials,
                mass=mass,
                body_q=body_q,
                motion=motion,
                kin=carried.kin,
                body_A=carried.body_A,
                gravity=model.gravity_vec,
                bodies=bodies,
                s=settings,
                law=law,
                rows=rows.contact,
                impulse=impulse[0],
                mode=adj.contact_mode,
                multiplier=adj.contact_multiplier,
                pushes=adj.contact_pushes,
                rounds=rounds,
                positions=int(pushed is not None),
            ),
            writes=dict(out=self.terms),
        )
        if rows.spins:
            record.backward_only(
                contact_terms_adjoint.spin_lagrangian,
                "contact",
                reads=dict(
                    contacts=contacts.view,
                    features=self.features,
                    shape=shape,
                    mu=materials.mu,
                    mu_torsion=model.shape_mu_torsion,
                    mu_rolling=model.shape_mu_rolling,
                    body_q=body_q,
                    motion=motion,
                    s=settings,
                    law=law,
                    slip_width=rows.contact.slip_width,
                    normal_impulse=impulse[0],
                    impulse=impulse[1],
                    mode=adj.spin_mode,
                    multiplier=adj.spin_multiplier,
                ),
                writes=dict(out=self.terms),
            )

    def push(
        self,
        record: Launcher,
        law: CompliantContacts,
        contacts: Contacts,
        body_q: wp.array,
        body_qd: wp.array,
        body_f: wp.array,
    ) -> None:
        """Record the forces of compliant contacts; needs `find`."""
        model = self.model
        if contacts.rigid_contact_max == 0:
            return
        record.backward_only(
            feature_contacts.apply_feature_penalty,
            "contact",
            reads=dict(
                contacts=contacts.view,
                features=self.features,
                shape_body=model.shape_body,
                material=model.shape_materials,
                body_com=model.body_com,
                body_q=body_q,
                body_qd=body_qd,
                slip_speed=law.slip_speed,
                fade_depth=law.fade_depth,
            ),
            writes=dict(body_f=body_f),
        )

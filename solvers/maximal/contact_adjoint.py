"""What contacts of bodies add to the backward pass of a substep: buffers, and the order of their kernels."""

from __future__ import annotations

import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision import contact_features
from newtonsim.kernels.maximal.adjoint import contact_system
from newtonsim.kernels.maximal.adjoint import contact_terms as contact_terms_adjoint
from newtonsim.kernels.maximal.adjoint.contact_terms import ContactStageView
from newtonsim.kernels.maximal.adjoint.substep import BodySystemView
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.solvers.contact_features import features_of
from newtonsim.solvers.maximal.sweeps import BodySweeps


class BodyContactTerms:
    """Terms of the contacts between bodies in `BodyAdjoint`, see `kernels.maximal.adjoint.contact_terms`.

    Args:
        sweeps: What solves a substep again.
        system: The bodies in their adjoint systems.

    Attributes:
        start: Poses at the start of the step, where features are found, shape (body_count,), with the
            gradient with respect to them.
        shift: Contacts in the system that removes penetrations.
        position: In that of the velocities that lead to the end.
        velocity: In the correction of velocities there.
    """

    def __init__(self, sweeps: BodySweeps, system: BodySystemView):
        self.model = model = sweeps.model
        self._sweeps, self._system = sweeps, system
        device = model.device
        self._count = collision_plan_of(model).contact_count if model.shape_count else 0
        self.start = wp.zeros(model.body_count, dtype=wp.transform, device=device, requires_grad=True)
        self._features = features_of(self._count, device)
        self.shift, self.position, self.velocity = (_stage_of(self._count, device) for _ in range(3))
        options = {"device": device, "requires_grad": True}
        self._started = wp.zeros(model.body_count, dtype=wp.spatial_vector, **options)
        self._foreseen = wp.zeros(self._count, dtype=wp.vec3, **options)
        self._motion_before_impact = wp.zeros(self._count, dtype=wp.spatial_vector, **options)
        stages = ("STAGE_SHIFT", "STAGE_POSITION", "STAGE_VELOCITY")
        self._terms = {
            int(getattr(contact_terms_adjoint, stage)): zeros(
                self._count, dtype=float, device=device, requires_grad=True
            )
            for stage in stages
        }

    def stage(self, view: ContactStageView) -> list:
        """Inputs of kernels that solve a system: contacts, their bodies, and how they act."""
        return [self._sweeps._now.contacts.view, self._sweeps._places, view]

    def begin(self, launch: Launcher, body_q: wp.array) -> None:
        """Find the features in contact at the start of a step."""
        copy(self.start, body_q)
        fill(self.start.grad)
        if self._count:
            plan = collision_plan_of(self.model)
            launch(
                contact_features.find_features,
                "contact",
                reads=dict(
                    contacts=self._sweeps._now.contacts.view,
                    shape=plan.shape,
                    hulls=plan.hulls,
                    body_q=body_q,
                ),
                writes=dict(features=self._features),
            )

    def decide(self, launch: Launcher, velocity: wp.array) -> None:
        """Find what contacts do once the sweeps over positions have led to these velocities."""
        if self._count:
            contacts, places, view = self.stage(self.shift)
            launch(
                contact_system.decide_shifts,
                "contact",
                reads=dict(contacts=contacts, places=places),
                writes=dict(view=view),
            )
            contacts, places, view = self.stage(self.position)
            launch(
                contact_system.decide_contacts,
                "contact",
                reads=dict(contacts=contacts, places=places, velocity=velocity),
                writes=dict(view=view),
            )

    def decide_relaxed(self, launch: Launcher, velocity: wp.array, no_rule: int) -> None:
        """Find what they do after the correction of velocities, and refuse those without gradient.

        Args:
            launch: Launcher.
            velocity: Of the bodies.
            no_rule: Reason where no rule covers the features in contact.
        """
        if self._count:
            contacts, places, view = self.stage(self.velocity)
            launch(
                contact_system.decide_relaxed_contacts,
                "contact",
                reads=dict(contacts=contacts, places=places, velocity=velocity, position=self.position),
                writes=dict(view=view),
            )
            launch(
                contact_system.refuse_contacts,
                "contact",
                reads=dict(
                    contacts=contacts, features=self._features, position=self.position, no_rule=no_rule
                ),
                writes=dict(reason=self._system.reason),
            )

    def hand_back(self, launch: Launcher, multiplier: wp.array) -> None:
        """From the correction of velocities to the impulses before it; `multiplier` is that of the bodies."""
        if self._count:
            contacts, places, view = self.stage(self.velocity)
            launch(
                contact_system.hand_back,
                "contact",
                reads=dict(contacts=contacts, places=places, multiplier=multiplier, velocity=view),
                writes=dict(position=self.position),
            )

    def hand_to_shifts(self, launch: Launcher) -> None:
        """From friction to the impulses of shifts that bound it."""
        if self._count:
            launch(
                contact_system.hand_to_shifts,
                "contact",
                reads=dict(
                    contacts=self._sweeps._now.contacts.view, velocity=self.velocity, position=self.position
                ),
                writes=dict(shift=self.shift),
            )

    def foresee(
        self,
        record: Launcher,
        dt: float,
        pose: wp.array,
        center: wp.array,
        middle: wp.array,
        free: wp.array,
        kick: wp.array,
    ) -> None:
        """Put on a tape how contacts bounce.

        Args:
            record: Launcher whose launches are recorded.
            dt: Length of the substep.
            pose: Poses at its start.
            center: Centres of mass there.
            middle: Orientations half-way.
            free: Velocities without forces.
            kick: Impulses of forces along free joints.
        """
        if not self._count:
            return
        model, sweeps, role = self.model, self._sweeps, self._system.role
        for array in (self._started, self._foreseen, self._motion_before_impact):
            fill(array.grad)
        record(
            contact_terms_adjoint.start_bodies,
            "body",
            reads=dict(
                mass=model.body_mass,
                inertia=model.body_inertia,
                role=role,
                middle=middle,
                free=free,
                kick=kick,
            ),
            writes=dict(velocity=self._started),
        )
        settings = sweeps._settings(dt)
        settings.before -= dt  # as when the substep, which is over, began
        contacts, places, _ = self.stage(self.position)
        record(
            contact_terms_adjoint.foresee_contacts,
            "contact",
            reads=dict(
                contacts=contacts,
                places=places,
                features=self._features,
                material=model.shape_materials,
                gravity=model.gravity_vec,
                role=role,
                s=settings,
                start=self.start,
                pose=pose,
                center=center,
                velocity=self._started,
            ),
            writes=dict(foreseen=self._foreseen, motion_before_impact=self._motion_before_impact),
        )

    def weigh(
        self,
        record: Launcher,
        number: int,
        dt: float,
        pose: wp.array,
        center: wp.array,
        multiplier: wp.array,
        velocity: wp.array,
    ) -> None:
        """Put the terms of one system on a tape.

        Args:
            record: Launcher whose launches are recorded.
            number: STAGE_* of the system.
            dt: Length of the substep.
            pose: Poses at which it has its arms.
            center: Centres of mass there.
            multiplier: Of the bodies, 0 of those that impulses do not move.
            velocity: Its solution.
        """
        if not self._count:
            return
        model, sweeps = self.model, self._sweeps
        view = (self.shift, self.position, self.velocity)[number]
        contacts, places, _ = self.stage(view)
        record(
            contact_terms_adjoint.weigh_contacts,
            "contact",
            reads=dict(
                contacts=contacts,
                places=places,
                features=self._features,
                shape=collision_plan_of(model).shape,
                material=model.shape_materials,
                mu_torsion=model.shape_mu_torsion,
                mu_rolling=model.shape_mu_rolling,
                s=sweeps._settings(dt),
                stage=number,
                start=self.start,
                pose=pose,
                center=center,
                multiplier=multiplier,
                velocity=velocity,
                foreseen=self._foreseen,
                motion_before_impact=self._motion_before_impact,
                view=view,
            ),
            writes=dict(term=self._terms[number]),
        )

    def seed(self) -> None:
        """Ask for the gradient of the negative terms; a reverse pass takes the seeds away."""
        for term in self._terms.values():
            fill(term.grad, -1.0)


def _stage_of(count: int, device: wp.Device) -> ContactStageView:
    view = ContactStageView()
    view.acts = zeros(count, dtype=int, device=device)
    view.mode = zeros(count, dtype=wp.vec4i, device=device)
    view.arm0 = zeros(count, dtype=wp.vec3, device=device)
    view.arm1 = zeros(count, dtype=wp.vec3, device=device)
    view.gap = zeros(count, dtype=float, device=device)
    view.wedge = zeros(count, dtype=float, device=device)
    view.total = zeros(count, dtype=wp.spatial_vector, device=device)
    view.push = zeros(count, dtype=wp.spatial_vector, device=device)
    view.want = zeros(count, dtype=wp.spatial_vector, device=device)
    view.multiplier = zeros(count, dtype=wp.spatial_vector, device=device)
    view.along = zeros((count, 6), dtype=wp.spatial_vector, device=device)
    view.pull = zeros((count, 6), dtype=wp.spatial_vector, device=device)
    view.scale = zeros((count, 6), dtype=float, device=device)
    return view

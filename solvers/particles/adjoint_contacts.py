"""Contacts of particles with shapes in the adjoint of an implicit step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.kernels.particles import contacts as particles_contacts
from newtonsim.kernels.particles.adjoint import contacts as contacts_adjoint
from newtonsim.kernels.particles.adjoint import curvature
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.kernels.particles.adjoint.steps import ReverseView
from newtonsim.kernels.particles.contacts import CONTACTS, FACE_CONTACTS
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.adjoint_elements import Sinks
from newtonsim.solvers.particles.adjoint_system import ImplicitSystem
from newtonsim.solvers.particles.contacts import ParticleContacts, make_contacts

_NEVER = 1.0e30
"""A speed that nothing reaches [m/s]."""


@dataclass
class Law:
    """How contacts push.

    Attributes:
        hard: Whether they are constraints.
        slowest: Speed above which what comes is stopped at the end of a substep, or bounces [m/s].
        restitution: Part of the speed with which it does.
        stiffness: Of springs [N/m].
        damping: Of springs [N s/m].
        friction_speed: Slip above which friction is that of Coulomb [m/s].
    """

    hard: bool
    slowest: float = _NEVER
    restitution: float = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    friction_speed: float = 1.0


@dataclass
class KeptContacts:
    """Contacts of one substep."""

    particles: particles_contacts.ContactView
    faces: particles_contacts.FaceView


class ContactSlopes:
    """Matrix and gradients of the contacts of particles, see `kernels.particles.adjoint.contacts`.

    Args:
        model: The particles and shapes.
        contacts: Contacts as the adjoint's particles find them.
        system: Where their blocks go.
        sinks: Where gradients of parameters go.

    Attributes:
        meets_bodies: Whether contacts with rigid bodies are differentiated elsewhere; else they are refused.
        stiffness: Of particles before contacts [N/m], shape (particle_count,).
    """

    def __init__(self, model: Model, contacts: ParticleContacts, system: ImplicitSystem, sinks: Sinks):
        self.model, self.found, self.system, self.sinks = model, contacts, system, sinks
        self.meets_bodies = False
        device, count = model.device, model.particle_count
        self.stiffness = zeros(count, dtype=wp.float64, device=device)
        self._curvature = zeros((count, int(CONTACTS)), dtype=wp.mat33, device=device)
        self._face_curvature = zeros((model.tri_count, int(FACE_CONTACTS)), dtype=wp.mat33, device=device)
        self._no_triangles = put(np.zeros((1, 3)), dtype=int, device=device)

    def make_room(self) -> KeptContacts:
        """Return room for the contacts of a substep."""
        device = self.model.device
        faces = particles_contacts.FaceView()
        faces.touch = make_contacts(self.model.tri_count, int(FACE_CONTACTS), device)
        faces.weight = zeros((self.model.tri_count, int(FACE_CONTACTS)), dtype=wp.vec3, device=device)
        return KeptContacts(make_contacts(self.model.particle_count, int(CONTACTS), device), faces)

    def use(self, kept: KeptContacts) -> None:
        """Have the particles find contacts there, and look for them there, from now on."""
        self.found.contacts, self.found.faces = kept.particles, kept.faces

    def weigh(
        self, launch: Launcher, law: Law, goal: wp.array, substep: SubstepView, reason: wp.array
    ) -> None:
        """Add the contacts to the matrix, and say why worlds have no gradient."""
        matrix = self.system.view.matrix
        launch(
            contacts_adjoint.note_stiffness,
            "particle",
            reads=dict(diagonal=self.system.view.diagonal, m=matrix),
            writes=dict(stiffness=self.stiffness),
        )
        for kind, view in self.views(law):
            launch(
                contacts_adjoint.weigh_contacts,
                kind,
                reads=dict(
                    touch=view, goal=goal, s=substep, stiffness=self.stiffness, world=self.system.world
                ),
                writes=dict(m=matrix, reason=reason),
            )

    def reverse(
        self, launch: Launcher, law: Law, goal: wp.array, substep: SubstepView, reverse: ReverseView
    ) -> None:
        """Add the gradients at the multipliers."""
        for kind, view in self.views(law):
            launch(
                contacts_adjoint.reverse_contacts,
                kind,
                reads=dict(goal=goal, stiffness=self.stiffness),
                writes=dict(touch=view, s=substep, reverse=reverse),
            )

    def curve(self, launch: Launcher, substep: SubstepView, goal: wp.array) -> None:
        """Find the curvatures of the shapes, which all that follows needs."""
        model, found = self.model, self.found
        launch(
            curvature.curve_particles,
            "particle",
            reads=dict(
                rigid=found.shapes,
                contacts=found.contacts,
                radius=model.particle_radius,
                x=substep.x,
                goal=goal,
            ),
            writes=dict(curvature=self._curvature),
        )
        if model.tri_count:
            faces = found.faces
            launch(
                curvature.curve_triangles,
                "implicit tri",
                reads=dict(
                    rigid=found.shapes,
                    contacts=faces.touch,
                    weight=faces.weight,
                    triangles=model.tri_indices,
                    radius=model.particle_radius,
                    x=substep.x,
                    goal=goal,
                ),
                writes=dict(curvature=self._face_curvature),
            )

    def reverse_stops(
        self, launch: Launcher, law: Law, fastest: float, substep: SubstepView, reverse: ReverseView
    ) -> None:
        """Go from the velocities after contacts have stopped particles to those before."""
        kind, view = self.views(law)[0]
        launch(
            contacts_adjoint.reverse_stops,
            kind,
            reads=dict(fastest=wp.float64(fastest), s=substep),
            writes=dict(touch=view, reverse=reverse),
        )

    def views(self, law: Law) -> list[tuple[str, contacts_adjoint.TouchSlopes]]:
        """Contacts of particles, and of triangles, with their kinds of index."""
        model, found = self.model, self.found
        views = [("particle", self._view(law))]
        views[0][1].contacts, views[0][1].curvature = found.contacts, self._curvature
        views[0][1].entry = self.system.view.diagonal
        views[0][1].triangles = self._no_triangles
        if model.tri_count:
            view = self._view(law)
            view.inside, view.triangles, view.weight = 1, model.tri_indices, found.faces.weight
            view.contacts, view.curvature = found.faces.touch, self._face_curvature
            view.entry = self.system.entries["tri"]
            views.append(("implicit tri", view))
        return views

    def _view(self, law: Law) -> contacts_adjoint.TouchSlopes:
        """What contacts of particles and of triangles have in common."""
        model, view = self.model, contacts_adjoint.TouchSlopes()
        view.body = self.found.shapes.shape.body
        view.radius, view.radius_grad = model.particle_radius, self.sinks.of(model.particle_radius)
        view.mu_grad, view.mu_share = self.sinks.of(model.shape_materials.mu), 0.5
        view.meets_bodies = int(self.meets_bodies)
        view.hard, view.slowest, view.restitution = int(law.hard), law.slowest, law.restitution
        view.stiffness, view.damping = law.stiffness, law.damping
        view.friction_speed = law.friction_speed
        return view

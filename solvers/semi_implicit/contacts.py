"""Penalty contacts of particles and triangles with the shapes of bodies."""

from __future__ import annotations

from typing import Any

import warp as wp

from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.particles import features
from newtonsim.kernels.particles.contacts import ContactView
from newtonsim.kernels.penalty import particle_contacts
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.particles.contacts import ParticleContacts
from newtonsim.solvers.semi_implicit.elements import ElementForces


class _BodiesOfState:
    """The bodies as they are at the start of a step, in place of `MovingBodies`."""

    def __init__(self, model: Model):
        self.view = MotionView()
        self.view.touching = zeros(model.body_count, dtype=int, device=model.device)


class SoftContactForces:
    """Forces between particles, or triangles, and shapes.

    Args:
        model: A model with particles and shapes.
        elements: Its elements.

    Attributes:
        search: What finds the contacts.
    """

    def __init__(self, model: Model, elements: ElementForces):
        self.model, self.elements = model, elements
        self.search = ParticleContacts(model, model, friction="mean")
        self._bodies: Any = _BodiesOfState(model)
        device = model.device
        # models without bodies have no arrays of them
        self._no_q = zeros(0, dtype=wp.transform, device=device)
        self._no_qd = zeros(0, dtype=wp.spatial_vector, device=device)
        self.features = _features(model, self.search.contacts)
        self.face_features = _features(model, self.search.faces.touch)

    def _body_arrays(self, state: State) -> tuple[wp.array, wp.array]:
        if not self.model.body_count:
            return self._no_q, self._no_qd
        return state.body_q, state.body_qd

    def find(self, launch: Launcher, state: State, dt: float, curved: bool) -> None:
        """Fix what touches at the start of a step of length dt; `curved` for slopes of the forces."""
        model, search = self.model, self.search
        body_q, body_qd = self._body_arrays(state)
        view = self._bodies.view
        view.pose, view.velocity, view.com = body_q, body_qd, model.body_com
        x, v = state.particle_q, state.particle_qd
        search.find(launch, model.particle_inv_mass, x, v, dt, self._bodies)
        self.features.curved = self.face_features.curved = int(curved)
        launch(
            features.fix_particle_features,
            "particle",
            reads=dict(
                rigid=search.shapes,
                contacts=search.contacts,
                radius=model.particle_radius,
                x=x,
                v=v,
                dt=dt,
                body_q=body_q,
            ),
            writes=dict(features=self.features),
        )
        if model.tri_count:
            launch(
                features.fix_triangle_features,
                "penalty_tri",
                reads=dict(
                    order=self.elements.orders["tri"],
                    indices=model.tri_indices,
                    rigid=search.shapes,
                    faces=search.faces,
                    radius=model.particle_radius,
                    x=x,
                    v=v,
                    dt=dt,
                    body_q=body_q,
                ),
                writes=dict(features=self.face_features),
            )

    def push_triangles(
        self,
        launch: Launcher,
        state: State,
        slip_speed: float,
        fade_depth: float,
        dt: float,
        body_f: wp.array | None,
    ) -> None:
        """Add the forces on triangles to their places in `elements.corner`, and to the bodies'."""
        model, elements = self.model, self.elements
        if model.tri_count:
            launch(
                particle_contacts.push_triangles,
                "penalty_tri",
                reads=dict(
                    order=elements.orders["tri"],
                    indices=model.tri_indices,
                    features=self.face_features,
                    material=self._material(slip_speed, fade_depth, dt),
                    x=state.particle_q,
                    v=state.particle_qd,
                    bodies=self._view(state),
                    place=elements.places["tri"],
                ),
                writes=dict(body_f=self._no_qd if body_f is None else body_f, corner=elements.corner),
            )

    def push_particles(
        self,
        launch: Launcher,
        state: State,
        slip_speed: float,
        fade_depth: float,
        dt: float,
        body_f: wp.array | None,
    ) -> None:
        """Add the forces on particles to `elements.f`, and to the bodies'."""
        launch(
            particle_contacts.push_particles,
            "particle",
            reads=dict(
                features=self.features,
                material=self._material(slip_speed, fade_depth, dt),
                x=state.particle_q,
                v=state.particle_qd,
                bodies=self._view(state),
            ),
            writes=dict(body_f=self._no_qd if body_f is None else body_f, f=self.elements.f),
        )

    def _view(self, state: State) -> particle_contacts.BodyView:
        view = particle_contacts.BodyView()
        view.q, view.qd = self._body_arrays(state)
        view.com = self.model.body_com
        return view

    def _material(self, slip_speed: float, fade_depth: float, dt: float) -> particle_contacts.SoftMaterial:
        """What the model says now."""
        model, material = self.model, particle_contacts.SoftMaterial()
        material.ke, material.kd = float(model.soft_contact_ke), float(model.soft_contact_kd)
        material.kf, material.mu = float(model.soft_contact_kf), float(model.soft_contact_mu)
        material.slip, material.fade, material.rate = slip_speed, fade_depth, 1.0 / dt
        material.mass, material.body_mass = model.particle_mass, model.body_mass
        material.shape_mu, material.shape_body = model.shape_materials.mu, model.shape_body
        material.radius, material.adhesion = model.particle_radius, model.particle_adhesion
        return material


def _features(model: Model, contacts: ContactView) -> features.FeatureView:
    """Room for the contacts as features."""
    view, device = features.FeatureView(), model.device
    size = contacts.shape.shape
    view.count = zeros(size[0], dtype=int, device=device)
    view.shape = zeros(size, dtype=int, device=device)
    view.gap = zeros(size, dtype=float, device=device)
    view.point = zeros(size, dtype=wp.vec3, device=device)
    view.normal = zeros(size, dtype=wp.vec3, device=device)
    view.weight = zeros(size, dtype=wp.vec3, device=device)
    # only slopes need the curvature
    view.curvature = zeros(size if model.requires_grad else (0, 0), dtype=wp.mat33, device=device)
    return view

"""Particles and the triangles between them against the shapes of rigid bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from newtonsim.allocation import put, zeros
from newtonsim.kernels import xpbd_contacts, xpbd_faces
from newtonsim.kernels.point_distance import RigidView
from newtonsim.model import Model
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.workspace import Launcher


class ParticleContacts:
    """Contacts between the particles of one model and the shapes of another, mostly the same.

    Args:
        particles: The particles.
        rigid: The shapes and their bodies; the same worlds.

    Attributes:
        friction: Of each particle, multiplied by that of the shape, shape (particle_count,).
        shapes: The shapes as kernels see them.
        contacts: Contacts of particles.
        faces: Contacts of the inside of triangles.
    """

    def __init__(self, particles: Model, rigid: Model):
        self.particles, self.rigid = particles, rigid
        self.friction = wp.clone(particles.particle_mu, requires_grad=False)
        self.shapes = _shapes(rigid)
        self.contacts, self.faces = xpbd_contacts.ContactView(), xpbd_faces.FaceView()
        device, triangles = rigid.device, particles.tri_count
        for contacts, number, most in (
            (self.contacts, particles.particle_count, xpbd_contacts.CONTACTS),
            (self.faces, triangles, xpbd_faces.FACE_CONTACTS),
        ):
            shape = (number, int(most))
            contacts.count = zeros(number, dtype=int, device=device)
            contacts.shape = zeros(shape, dtype=int, device=device)
            for name in ("overlap", "before", "push"):
                setattr(contacts, name, zeros(shape, dtype=float, device=device))
            for name in ("normal", "hold"):
                setattr(contacts, name, zeros(shape, dtype=wp.vec3, device=device))
        self.faces.weight = zeros((triangles, int(xpbd_faces.FACE_CONTACTS)), dtype=wp.vec3, device=device)

    def find(
        self, launch: Launcher, inv_mass: wp.array, x: wp.array, v: wp.array, dt: float, bodies: MovingBodies
    ) -> None:
        """Find contacts at predicted positions x, which velocities v have led to in dt."""
        model = self.particles
        inputs = [model.particle_world, inv_mass, model.particle_radius, self.shapes, x, v, dt]
        launch(xpbd_contacts.find_contacts, "soft_particle", [*inputs, bodies.view, self.contacts])
        inputs = [model.tri_indices, model.particle_world, model.particle_radius, self.shapes, x, v, dt]
        launch(xpbd_faces.find_face_contacts, "soft_triangle", [*inputs, bodies.view, self.faces])

    def solve(
        self,
        launch: Launcher,
        triangles: Sequence[tuple[str, wp.array]],
        inv_mass: wp.array,
        x: wp.array,
        v: wp.array,
        dt: float,
        bodies: MovingBodies,
        shift: wp.array,
    ) -> None:
        """One sweep of extended position-based dynamics over the contacts.

        Args:
            launch: For the worlds.
            triangles: The triangles by colour, with the kind of index of each colour.
            inv_mass: Inverse masses of the particles [1/kg].
            x: Predicted positions [m].
            v: Velocities that led to them [m/s].
            dt: Length of the substep [s].
            bodies: The bodies, which are pushed.
            shift: Corrections of x, added to [m].
        """
        touching = [inv_mass, self.friction, self.rigid.shape_materials.mu, self.shapes, x, v, dt]
        inputs = [*touching, bodies.view, self.contacts, shift]
        launch(xpbd_contacts.solve_contacts, "soft_particle", inputs)
        for kind, group in triangles:
            inputs = [group, self.particles.tri_indices, *touching, bodies.view, self.faces, shift]
            launch(xpbd_faces.solve_face_contacts, kind, inputs)


def _shapes(model: Model) -> RigidView:
    """Shapes of each world and of the global one, without the ground that the model has not asked for."""
    plan = model.collision_plan
    view = RigidView()
    view.shape, view.hulls, view.surfaces = plan.shape, plan.hulls, plan.surfaces
    world = model.shape_world.numpy() if model.shape_count else np.zeros(0, int)
    listed = [np.flatnonzero((world == w) | (world < 0)) for w in range(model.world_count)]
    listed = [shapes[shapes != model.ground_shape] for shapes in listed]
    start = np.concatenate(([0], np.cumsum([len(shapes) for shapes in listed])))
    view.start = put(start, dtype=int, device=model.device)
    view.listed = put(np.concatenate(listed), dtype=int, device=model.device)
    return view

"""Particles and the triangles between them against the shapes of rigid bodies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import BufferWarning, ModelError
from newtonsim.kernels.particles import contacts as particles_contacts
from newtonsim.kernels.particles import point_distance
from newtonsim.kernels.particles.contacts import BLOCK, CONTACTS, FACE_CONTACTS, NEAR
from newtonsim.kernels.particles.point_distance import RigidView
from newtonsim.kernels.particles.xpbd import contacts as xpbd_contacts
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import GeoType
from newtonsim.scene.model import Model
from newtonsim.solvers.maximal.moving_bodies import MovingBodies

_ENDLESS = 1.0e18
"""Radius [m] about planes and terrains, whose square is still a float."""


class OwnKinds:
    """Launchers with further kinds of index for the worlds of another launcher, see `Shard`.

    Attributes:
        starts: The kinds.
    """

    def __init__(self) -> None:
        self.starts: dict[str, np.ndarray] = {}
        self._shards: dict[tuple[Model, range | None], Shard] = {}

    def of(self, launch: Launcher) -> Launcher:
        """Return a launcher for the same worlds, whose shard is made once."""
        key = (launch.model, launch.shard.worlds)
        if key not in self._shards:
            self._shards[key] = Shard(*key, self.starts)
        return Launcher(launch.model, False, self._shards[key])


class ParticleContacts:
    """Contacts between the particles of one model and the shapes of another, mostly the same.

    Shapes that meet other shapes meet particles too, and so does the ground plane while `rigid.ground` says
    so. Particles meet the shapes of their own world and of the global one, those of the global world all
    shapes. A particle rests where its centre is its radius and the thickness of the shape away.

    Args:
        particles: The particles.
        rigid: The shapes and their bodies; the same worlds.
        friction: "mean" of the model's `soft_contact_mu` and the friction of the shape, or "product" of that
            of the particle and of the shape.

    Attributes:
        friction: Of each particle, used by "product", shape (particle_count,).
        anchored: Body that a particle is anchored to, whose shapes it passes through, and triangles of
            which all corners do, -1 for static shapes and -2 for none, shape (particle_count,).
        shapes: The shapes as kernels see them.
        contacts: Contacts of particles.
        faces: Contacts of the inside of triangles.

    Raises:
        ModelError: There is no such way of combining friction.
    """

    def __init__(
        self, particles: Model, rigid: Model, friction: Literal["mean", "product"] = "product"
    ) -> None:
        if friction not in ("mean", "product"):
            raise ModelError(f'friction of particles: expected "mean" or "product", got {friction!r}')
        self.particles, self.rigid, self._combined = particles, rigid, friction
        self.friction = wp.clone(particles.particle_mu, requires_grad=False)
        self.anchored = put(np.full(particles.particle_count, -2), dtype=int, device=rigid.device)
        self.shapes = _shapes(rigid)
        listed = self.shapes.listed.numpy()
        self._meets = len(listed) > 0
        # of a plane a corner is nearest
        self._faces_meet = bool(np.any(collision_plan_of(rigid).kind[listed] != GeoType.PLANE))
        self._launchers = OwnKinds()
        device = rigid.device
        self._dropped, self._warned = zeros(1, dtype=int, device=device), False
        self.contacts = make_contacts(particles.particle_count, int(CONTACTS), device)
        self.faces = particles_contacts.FaceView()
        self.faces.touch = make_contacts(particles.tri_count, int(FACE_CONTACTS), device)
        self.faces.weight = zeros((particles.tri_count, int(FACE_CONTACTS)), dtype=wp.vec3, device=device)
        owner = particles.particle_world.numpy() if particles.particle_count else np.zeros(0, int)
        corners = (
            particles.tri_indices.numpy().reshape(-1, 3) if particles.tri_count else np.zeros((0, 3), int)
        )
        self._blocks = self._blocks_of("particle", owner)
        self._face_blocks = self._blocks_of("triangle", owner[corners[:, 0]])

    def _blocks_of(self, name: str, owner: np.ndarray) -> particles_contacts.BlockView:
        """Cut what belongs to the given worlds, ordered by them, into blocks within a world."""
        worlds, size, device = self.rigid.world_count, int(BLOCK), self.rigid.device
        begins = np.append(True, owner[1:] != owner[:-1])[: len(owner)]
        run = np.cumsum(begins) - 1
        inside = np.arange(len(owner)) - np.flatnonzero(begins)[run]
        first = np.flatnonzero(inside % size == 0)
        block = np.searchsorted(first, np.arange(len(owner)), side="right") - 1
        row = np.where(owner < 0, worlds, owner)[first]
        for kind, members in ((name, owner), (f"block of {name}s", owner[first])):
            self._launchers.starts[kind] = np.searchsorted(members, np.arange(worlds + 1))
        view = particles_contacts.BlockView()
        view.block = put(block, dtype=int, device=device)
        view.first = put(np.append(first, len(owner)), dtype=int, device=device)
        view.world = put(row, dtype=int, device=device)
        view.count = zeros(len(first), dtype=int, device=device)
        view.near = zeros((len(first), int(NEAR)), dtype=int, device=device)
        view.dropped = self._dropped
        return view

    def _material(self) -> tuple[particles_contacts.SurfaceMaterial, particles_contacts.Mixing]:
        """What the models say now, whose arrays may have been replaced."""
        material = particles_contacts.SurfaceMaterial()
        material.radius = self.particles.particle_radius
        material.friction = self.friction
        material.anchored = self.anchored
        material.adhesion = self.particles.particle_adhesion
        material.shape_friction = self.rigid.shape_materials.mu
        mixing = particles_contacts.Mixing()
        if self._combined == "mean":
            mixing.constant, mixing.of_shape = 0.5 * float(self.particles.soft_contact_mu), 0.5
        else:
            mixing.of_product = 1.0
        return material, mixing

    def find(
        self, launch: Launcher, inv_mass: wp.array, x: wp.array, v: wp.array, dt: float, bodies: MovingBodies
    ) -> None:
        """Find contacts at predicted positions x, which velocities v have led to in dt.

        Args:
            launch: For the worlds.
            inv_mass: Inverse masses of the particles, without which they meet nothing [1/kg].
            x: Predicted positions [m].
            v: Velocities that led to them [m/s].
            dt: Length of the substep [s], 0 for the contacts of a state.
            bodies: The bodies, where they are at the end of the substep.
        """
        if not self._meets:
            return
        launch = self._launchers.of(launch)
        model, shapes = self.particles, self.shapes
        material, mixing = self._material()
        shapes.disabled = -1 if self.rigid.ground else self.rigid.ground_shape
        shapes.shape = collision_plan_of(self.rigid).shape
        launch(
            point_distance.place_shapes,
            "shape",
            reads=dict(bodies=bodies.view, dt=dt, endless=_ENDLESS),
            writes=dict(rigid=shapes),
        )
        launch(
            particles_contacts.find_shapes_near_particles,
            "block of particles",
            reads=dict(material=material, x=x, v=v, dt=dt, rigid=shapes),
            writes=dict(blocks=self._blocks),
        )
        launch(
            particles_contacts.find_contacts,
            "particle",
            reads=dict(inv_mass=inv_mass, material=material, mixing=mixing, rigid=shapes, x=x, v=v, dt=dt),
            writes=dict(blocks=self._blocks, bodies=bodies.view, contacts=self.contacts),
        )
        if not model.tri_count or not self._faces_meet:
            return
        launch(
            particles_contacts.find_shapes_near_triangles,
            "block of triangles",
            reads=dict(indices=model.tri_indices, material=material, x=x, v=v, dt=dt, rigid=shapes),
            writes=dict(blocks=self._face_blocks),
        )
        launch(
            particles_contacts.find_face_contacts,
            "triangle",
            reads=dict(
                indices=model.tri_indices,
                inv_mass=inv_mass,
                material=material,
                mixing=mixing,
                rigid=shapes,
                x=x,
                v=v,
                dt=dt,
            ),
            writes=dict(blocks=self._face_blocks, bodies=bodies.view, faces=self.faces),
        )

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
        relaxation: float = 1.0,
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
            relaxation: Factor on the corrections along the normals.
        """
        if not self._meets:
            return
        self._launchers.of(launch)(
            xpbd_contacts.solve_contacts,
            "particle",
            reads=dict(inv_mass=inv_mass, rigid=self.shapes, x=x, v=v, dt=dt, relaxation=relaxation),
            writes=dict(bodies=bodies.view, contacts=self.contacts, shift=shift),
        )
        for kind, group in triangles if self._faces_meet else ():
            launch(
                xpbd_contacts.solve_face_contacts,
                kind,
                reads=dict(
                    face=group,
                    indices=self.particles.tri_indices,
                    inv_mass=inv_mass,
                    rigid=self.shapes,
                    x=x,
                    v=v,
                    dt=dt,
                    relaxation=relaxation,
                ),
                writes=dict(bodies=bodies.view, faces=self.faces, shift=shift),
            )

    def bounce(
        self, launch: Launcher, inv_mass: wp.array, x: wp.array, v: wp.array, dt: float, bodies: MovingBodies
    ) -> None:
        """Restitution, `soft_contact_restitution`, of the contacts of particles after the last sweep.

        Args:
            launch: For the worlds.
            inv_mass: Inverse masses of the particles [1/kg].
            x: Positions at the end of the substep [m].
            v: Velocities at its end, changed in place [m/s].
            dt: Length of the substep [s].
            bodies: The bodies, which are pushed.
        """
        if not self._meets:
            return
        restitution, slowest = float(self.particles.soft_contact_restitution), self.resting_speed(dt)
        self._launchers.of(launch)(
            xpbd_contacts.bounce,
            "particle",
            reads=dict(
                inv_mass=inv_mass,
                rigid=self.shapes,
                x=x,
                dt=dt,
                restitution=restitution,
                slowest=slowest,
                contacts=self.contacts,
            ),
            writes=dict(bodies=bodies.view, v=v),
        )
        bodies.apply_impulses(launch)

    def resting_speed(self, dt: float) -> float:
        """Speed up to which what comes within a substep of length dt [s] does not bounce [m/s]."""
        return 2.0 * self.rigid.largest_gravity * dt

    def report(self) -> None:
        """Warn once if there was no place for some contacts; reads from the device."""
        if self._warned:
            return
        dropped = int(self._dropped.numpy()[0])
        if dropped:
            self._warned = True
            warnings.warn(
                f"{dropped} contacts of particles with shapes were dropped: a particle keeps the "
                f"{int(CONTACTS)} deepest, a triangle {int(FACE_CONTACTS)}",
                BufferWarning,
                stacklevel=2,
            )


def make_contacts(count: int, most: int, device: wp.Device) -> particles_contacts.ContactView:
    """Return room for `most` contacts of each of `count` particles or triangles."""
    contacts = particles_contacts.ContactView()
    contacts.count = zeros(count, dtype=int, device=device)
    contacts.shape = zeros((count, most), dtype=int, device=device)
    contacts.overlap = zeros((count, most), dtype=float, device=device)
    contacts.before = zeros((count, most), dtype=float, device=device)
    contacts.mu = zeros((count, most), dtype=float, device=device)
    contacts.stick = zeros((count, most), dtype=float, device=device)
    contacts.push = zeros((count, most), dtype=float, device=device)
    contacts.normal = zeros((count, most), dtype=wp.vec3, device=device)
    contacts.hold = zeros((count, most), dtype=wp.vec3, device=device)
    return contacts


def _shapes(model: Model) -> RigidView:
    """Shapes of each world with those of the global one, and as a last row all shapes, that collide."""
    plan = collision_plan_of(model)
    view = RigidView()
    view.shape, view.hulls, view.surfaces = plan.shape, plan.hulls, plan.surfaces
    world = model.shape_world.numpy() if model.shape_count else np.zeros(0, int)
    meets = model.contact_rules.collides & (plan.kind != GeoType.NONE)
    if model.ground_shape >= 0:
        meets[model.ground_shape] = True
    listed = [np.flatnonzero(meets & ((world == w) | (world < 0))) for w in range(model.world_count)]
    listed.append(np.flatnonzero(meets))
    start = np.concatenate(([0], np.cumsum([len(shapes) for shapes in listed])))
    view.start = put(start, dtype=int, device=model.device)
    view.listed = put(np.concatenate(listed), dtype=int, device=model.device)
    view.pose = zeros(model.shape_count, dtype=wp.transform, device=model.device)
    view.centre = zeros(model.shape_count, dtype=wp.vec4, device=model.device)
    return view

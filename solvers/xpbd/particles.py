"""Particles and the elements between them by extended position-based dynamics."""

from __future__ import annotations

from typing import Literal

import numpy as np
import warp as wp

from newtonsim.kernels.particles.xpbd import contacts as xpbd_contacts
from newtonsim.kernels.particles.xpbd import particles as xpbd_particles
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.coloring import color_worlds
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.aerodynamics import Air
from newtonsim.solvers.particles.contacts import ParticleContacts
from newtonsim.solvers.particles.pairs import ParticlePairs
from newtonsim.solvers.particles.system import ParticleStep, check_models, starts_of
from newtonsim.solvers.xpbd.elements import Edges, Springs, Sweep, Tetrahedra, Triangles


class XPBDParticles(Revised):
    """A `ParticleSystem`: Macklin, Müller, Chentanez, "XPBD", MIG 2016.

    Every substep is an implicit Euler step, under gravity and external forces of its own length. The sweeps
    are Gauss-Seidel over colours of elements; what they converge to is the implicit Euler step itself.

    Args:
        particles: Particles with springs, triangles, bending edges and tetrahedra; all triangles collide,
            whatever their stiffness.
        rigid: Rigid bodies; the same worlds.
        substeps: Substeps of each step.
        iterations: Sweeps over the elements and contacts in each substep.
        relaxation: Factor on the corrections of elements, between 0 and 2.
        warm_start: Part of the forces of the last substep that a substep starts from, between 0 and 1.
        logarithm: Whether the energy of tetrahedra has a logarithm, see `kernels.particles.xpbd.tetrahedra`.
        friction: How friction of contacts with shapes is combined, see `ParticleContacts`.
        pairs: Whether particles meet each other, see `ParticlePairs`.

    Attributes:
        inv_mass: Of each particle in this step, 0 for those that are held [1/kg], shape (particle_count,).
        contact_relaxation: Factor on the corrections of contacts with shapes.
        restitution: Whether contacts with shapes bounce.
        damps_across: Whether damping of springs in all directions acts, `springs.across`.
        springs: The springs.
        stiff_triangles: The triangles with stiffness.
        edges: The bending edges.
        tetrahedra: The tetrahedra.
        contacts: Contacts with rigid bodies.
        pairs: Contacts between particles; None if they do not meet each other.
        air: Drag and lift.

    Raises:
        ModelError: The worlds of the two models differ.
    """

    def __init__(
        self,
        particles: Model,
        rigid: Model,
        substeps: int = 1,
        iterations: int = 10,
        relaxation: float = 1.0,
        warm_start: float = 0.0,
        logarithm: bool = False,
        friction: Literal["mean", "product"] = "product",
        pairs: bool = False,
    ):
        check_models(particles, rigid)
        self.particles, self.rigid = particles, rigid
        self.substeps, self.iterations = substeps, iterations
        self.relaxation, self.warm_start = relaxation, warm_start
        self.contact_relaxation, self.restitution = 1.0, False
        self.damps_across = False
        device, count = rigid.device, particles.particle_count
        self.inv_mass = zeros(count, dtype=float, device=device)
        self.force = zeros(count, dtype=wp.vec3, device=device)
        self.shift = zeros(count, dtype=wp.vec3, device=device)
        self.springs, self.stiff_triangles = Springs(particles), Triangles(particles)
        self.edges, self.tetrahedra = Edges(particles), Tetrahedra(particles, logarithm)
        self.elements = [self.springs, self.stiff_triangles, self.edges, self.tetrahedra]
        self.elements = [kind for kind in self.elements if kind.runs]
        owner, worlds = particles.particle_world.numpy(), particles.world_count
        corners = _triangles_of(particles)
        self.starts = {
            "soft_particle": starts_of(owner, worlds),
            "soft_triangle": starts_of(owner[corners[:, 0]], worlds),
        }
        for kind in self.elements:
            self.starts |= kind.starts
        self.air = Air(particles, "soft_triangle", "soft_particle")
        self.triangles = self._color_triangles(corners, owner)
        self.contacts = ParticleContacts(particles, rigid, friction)
        self.pairs = ParticlePairs(particles) if pairs and count > 1 else None
        self.set_anchors(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)))

    def _color_triangles(self, triangles: np.ndarray, owner: np.ndarray) -> list[tuple[str, wp.array]]:
        """All triangles by colour, ordered by world, with the name of their kind of index."""
        found, worlds = [], self.particles.world_count
        for color, group in enumerate(color_worlds(triangles, worlds, self.particles.particle_count)):
            kind = f"triangle of colour {color}"
            self.starts[kind] = starts_of(owner[triangles[group, 0]], worlds)
            found.append((kind, put(group, dtype=int, device=self.rigid.device)))
        return found

    def set_anchors(self, particle: np.ndarray, body: np.ndarray, point: np.ndarray) -> None:
        """Hold particles at points of bodies from now on, in place of those held so far.

        Anchors to the world are best made by particles without mass. An element may not be named twice.

        Args:
            particle: Particles (n,), in the order of the worlds.
            body: Bodies (n,), -1 for the world.
            point: In the body frames, or in the world (n, 3) [m].
        """
        device = self.rigid.device
        owner = self.particles.particle_world.numpy()[particle]
        self.starts["anchor"] = starts_of(owner, self.particles.world_count)
        self.anchor_particle = put(particle, dtype=int, device=device)
        self.anchor_body = put(body, dtype=int, device=device)
        self.anchor_point = put(point, dtype=wp.vec3, device=device)

    def begin(self, launch: Launcher, step: ParticleStep) -> None:
        """See `ParticleSystem.begin`."""
        model, has_force = self.particles, step.f is not None
        launch(
            xpbd_particles.begin_particles,
            "soft_particle",
            reads=dict(
                inv_mass=model.particle_inv_mass,
                flags=model.particle_flags,
                external=step.f if has_force else self.force,
                has_external=int(has_force),
            ),
            writes=dict(weight=self.inv_mass, force=self.force),
        )
        self.air.add(launch, step.x, step.v, self.force)
        # the inputs of another model have nothing to say about these elements
        control = step.control if model is self.rigid else None
        for kind in self.elements:
            kind.prepare(launch, control, self.inv_mass)

    def begin_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.begin_substep`."""
        x, v, shift = step.x, step.v, self.shift
        # resisted before gravity acts, so that what is at rest stays where forces balance
        self.tetrahedra.damp(launch, step, dt)
        speed = float(self.particles.particle_max_velocity)
        launch(
            xpbd_particles.predict_particles,
            "soft_particle",
            reads=dict(
                world=self.particles.particle_world,
                weight=self.inv_mass,
                force=self.force,
                gravity=self.rigid.gravity_vec,
                max_speed=speed,
                dt=dt,
            ),
            writes=dict(x=x, v=v, shift=shift),
        )
        if len(self.anchor_body):
            launch(
                xpbd_contacts.count_anchors,
                "anchor",
                reads=dict(body=self.anchor_body),
                writes=dict(bodies=bodies.view),
            )
        self.contacts.find(launch, self.inv_mass, x, v, dt, bodies)
        if self.pairs is not None:
            self.pairs.begin_substep(launch, self.inv_mass, x, v, dt)
        step.sweep = 0
        for kind in self.elements if self.warm_start > 0.0 else ():
            kind.start(launch, x, self.warm_start, dt, shift)

    def sweep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.sweep`."""
        x, v, shift = step.x, step.v, self.shift
        sweep = Sweep(dt, int(step.sweep == 0 and self.warm_start == 0.0), self.relaxation)
        for kind in self.elements:
            kind.solve(launch, step, sweep, shift)
        if self.damps_across:
            self.springs.damp(launch, step, sweep, shift)
        step.sweep += 1
        if len(self.anchor_body):
            launch(
                xpbd_contacts.solve_anchors,
                "anchor",
                reads=dict(
                    particle=self.anchor_particle,
                    body=self.anchor_body,
                    point=self.anchor_point,
                    inv_mass=self.inv_mass,
                    dt=dt,
                    x=x,
                ),
                writes=dict(bodies=bodies.view, shift=shift),
            )
        if self.pairs is not None:
            self.pairs.sweep(launch, shift)
        # what the last sweep left of an overlap, the weight of the next substep would keep
        factor = self.contact_relaxation if step.sweep < self.iterations else 1.0
        self.contacts.solve(launch, self.triangles, self.inv_mass, x, v, dt, bodies, shift, factor)

    def end_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.end_substep`."""
        speed = float(self.particles.particle_max_velocity)
        launch(
            xpbd_particles.finish_particles,
            "soft_particle",
            reads=dict(weight=self.inv_mass, max_speed=speed, dt=dt, shift=self.shift),
            writes=dict(x=step.x, v=step.v),
        )
        if self.restitution:
            self.contacts.bounce(launch, self.inv_mass, step.x, step.v, dt, bodies)

    def reset(self, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last step in the masked worlds, bool, shape (world_count,), or in all."""
        self.forget(Shard(self.rigid), world_mask)

    def forget(self, shard: Shard, world_mask: wp.array | None) -> None:
        """Forget the forces of the last step in the masked worlds of a shard, or in all of them."""
        launch = Launcher(self.rigid, False, Shard(self.rigid, shard.worlds, self.starts))
        for kind in self.elements:
            kind.clear(launch, world_mask)

    def report(self) -> None:
        """Warn of contacts that found no room."""
        self.contacts.report()
        if self.pairs is not None:
            self.pairs.report()


def _triangles_of(model: Model) -> np.ndarray:
    """Corners of all triangles (n, 3)."""
    return model.tri_indices.numpy().reshape(-1, 3) if model.tri_count else np.zeros((0, 3), int)

"""Particles and the elements between them by extended position-based dynamics."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.allocation import put, zeros
from newtonsim.coloring import color_worlds
from newtonsim.errors import ModelError
from newtonsim.kernels import xpbd_contacts, xpbd_elements
from newtonsim.model import Model
from newtonsim.solvers.deformables import ParticleStep, starts_of
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.solvers.particle_contacts import ParticleContacts
from newtonsim.workspace import Launcher


class XPBDParticles:
    """A `ParticleSystem`: Macklin, Müller, Chentanez, "XPBD", MIG 2016.

    Gravity acts once, at the start of the step: soft bodies fall as rigid ones do. One substep with several
    sweeps is an implicit Euler step; more substeps lose less energy.

    Args:
        particles: Particles with springs and tetrahedra; its triangles collide, whatever their stiffness.
        rigid: Rigid bodies; the same worlds.
        substeps: Substeps of each step.
        iterations: Sweeps over the elements and contacts in each substep.

    Attributes:
        inv_mass: Of each particle, 0 for those that are held [1/kg], shape (particle_count,).
        all_directions: Damping of the relative velocity of the ends of each spring, in all directions
            [N s/m], shape (spring_count,).
        damps_across: Whether `all_directions` acts; False saves its launches.
        contacts: Contacts with rigid bodies.

    Raises:
        ModelError: The worlds of the two models differ.
    """

    def __init__(self, particles: Model, rigid: Model, substeps: int = 1, iterations: int = 10):
        if particles.world_count != rigid.world_count:
            raise ModelError(
                f"soft bodies: {particles.world_count} worlds of particles, {rigid.world_count} of bodies"
            )
        self.particles, self.rigid = particles, rigid
        self.substeps, self.iterations = substeps, iterations
        device, count = rigid.device, particles.particle_count
        self.inv_mass = wp.clone(particles.particle_inv_mass, requires_grad=False)
        self.all_directions = zeros(particles.spring_count, dtype=float, device=device)
        self.shift = zeros(count, dtype=wp.vec3, device=device)
        self.spring_multiplier = zeros(particles.spring_count, dtype=float, device=device)
        self.tetrahedron_multiplier = zeros(particles.tet_count, dtype=wp.vec2, device=device)
        self.spring_resistance = zeros(particles.spring_count, dtype=wp.vec3, device=device)
        self.damps_across = True
        self._color_elements()
        self.contacts = ParticleContacts(particles, rigid)
        self.set_anchors(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)))

    def _color_elements(self) -> None:
        """Colour springs and tetrahedra, each colour ordered by world."""
        model, worlds = self.particles, self.particles.world_count
        owner = model.particle_world.numpy()
        self.starts = {
            "soft_particle": starts_of(owner, worlds),
            "soft_spring": np.linspace(0, model.spring_count, worlds + 1).astype(int),
            "soft_triangle": np.linspace(0, model.tri_count, worlds + 1).astype(int),
            "soft_tetrahedron": np.linspace(0, model.tet_count, worlds + 1).astype(int),
        }
        springs = model.spring_indices.numpy().reshape(-1, 2) if model.spring_count else np.zeros((0, 2), int)
        tetrahedra = model.tet_indices.numpy().reshape(-1, 4) if model.tet_count else np.zeros((0, 4), int)
        triangles = model.tri_indices.numpy().reshape(-1, 3) if model.tri_count else np.zeros((0, 3), int)
        self.springs = self._by_color("spring", springs, owner)
        self.tetrahedra = self._by_color("tetrahedron", tetrahedra, owner)
        self.triangles = self._by_color("triangle", triangles, owner)

    def _by_color(self, name: str, elements: np.ndarray, owner: np.ndarray) -> list[tuple[str, wp.array]]:
        """The elements of each colour, ordered by world, with the name of their kind of index."""
        worlds, found = self.particles.world_count, []
        for color, group in enumerate(color_worlds(elements, worlds, self.particles.particle_count)):
            kind = f"{name} of colour {color}"
            self.starts[kind] = starts_of(owner[elements[group, 0]], worlds)
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
        # resisted before gravity acts, so that what is at rest stays where forces balance
        model, x, v = self.particles, step.x, step.v
        for kind, group in self.tetrahedra:
            inputs = [group, model.tet_indices, model.tet_poses, model.tet_materials, self.inv_mass, x]
            launch(xpbd_elements.damp_tetrahedra, kind, [*inputs, step.dt, v])
        speed = float(model.particle_max_velocity)
        inputs = [self.inv_mass, self.rigid.gravity_vec, speed, step.dt, v]
        launch(xpbd_elements.accelerate, "soft_particle", inputs)

    def begin_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.begin_substep`."""
        x, v, shift = step.x, step.v, self.shift
        launch(xpbd_elements.predict, "soft_particle", [dt, x, v, shift])
        launch(xpbd_elements.clear_springs, "soft_spring", [self.spring_multiplier, self.spring_resistance])
        launch(xpbd_elements.clear_tetrahedra, "soft_tetrahedron", [self.tetrahedron_multiplier])
        launch(xpbd_contacts.count_anchors, "anchor", [self.anchor_body, bodies.view])
        self.contacts.find(launch, self.inv_mass, x, v, dt, bodies)

    def sweep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.sweep`."""
        x, v, shift = step.x, step.v, self.shift
        self._solve_elements(launch, step, dt)
        held = [self.anchor_particle, self.anchor_body, self.anchor_point, self.inv_mass, dt, x]
        launch(xpbd_contacts.solve_anchors, "anchor", [*held, bodies.view, shift])
        self.contacts.solve(launch, self.triangles, self.inv_mass, x, v, dt, bodies, shift)

    def end_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.end_substep`."""
        inputs = [self.inv_mass, dt, step.x, step.v, self.shift]
        launch(xpbd_elements.finish, "soft_particle", inputs)

    def _solve_elements(self, launch: Launcher, step: ParticleStep, dt: float) -> None:
        model, weight = self.particles, self.inv_mass
        x, v, shift = step.x, step.v, self.shift
        for kind, group in self.springs:
            inputs = [group, model.spring_indices, model.spring_rest_length, model.spring_stiffness]
            inputs += [model.spring_damping, weight, x, v, dt, shift, self.spring_multiplier]
            launch(xpbd_elements.solve_springs, kind, inputs)
        for kind, group in self.springs if self.damps_across else ():
            inputs = [group, model.spring_indices, self.all_directions, weight, v, dt, shift]
            launch(xpbd_elements.damp_springs, kind, [*inputs, self.spring_resistance])
        for kind, group in self.tetrahedra:
            inputs = [group, model.tet_indices, model.tet_poses, model.tet_materials, weight, x, dt, shift]
            launch(xpbd_elements.solve_tetrahedra, kind, [*inputs, self.tetrahedron_multiplier])

"""Particles and the elements between them by vertex block descent."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.allocation import put, zeros
from newtonsim.errors import ModelError
from newtonsim.kernels import aerodynamics, vbd_particles, vbd_rows, vbd_sweep
from newtonsim.model import Model
from newtonsim.solvers.deformables import ParticleStep, starts_of
from newtonsim.solvers.moving_bodies import MovingBodies
from newtonsim.solvers.vbd_stencils import Stencils, elements_of
from newtonsim.workspace import Launcher


class VBDParticles:
    """A `ParticleSystem`: Chen, Liu, Yang, Yuksel, "Vertex Block Descent", TOG 43(4), 2024.

    Each substep is one of implicit Euler: sweeps over the particles lower the sum of inertia and energies,
    each particle by a Newton step of its own. Gravity, external forces and those of the air act once, at the
    start of the step.

    Args:
        particles: Particles with springs, triangles, bending edges and tetrahedra.
        rigid: Rigid bodies; the same worlds.
        substeps: Substeps of each step.
        iterations: Sweeps over the particles in each substep.
        relaxation: Factor on the steps of particles that touch nothing, above 0 and below 2. More than 1
            needs fewer sweeps where many elements pull in a row (successive over-relaxation).

    Attributes:
        descent: The particles during a step.
        stencils: The particles by colour and the elements around them.

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
    ):
        if particles.world_count != rigid.world_count:
            raise ModelError(
                f"soft bodies: {particles.world_count} worlds of particles, {rigid.world_count} of bodies"
            )
        self.particles, self.rigid = particles, rigid
        self.substeps, self.iterations, self.relaxation = substeps, iterations, relaxation
        device, count, worlds = rigid.device, particles.particle_count, particles.world_count
        self.stencils = Stencils(particles)
        self.descent = vbd_particles.DescentView()
        for name in ("mass", "inv_mass"):
            setattr(self.descent, name, zeros(count, dtype=float, device=device))
        for name in ("force", "goal", "predicted", "former", "gain"):
            setattr(self.descent, name, zeros(count, dtype=wp.vec3, device=device))
        owner = particles.particle_world.numpy() if count else np.zeros(0, int)
        self.starts = self.stencils.starts | {"vbd particle": starts_of(owner, worlds)}
        self._control = particles.control(clone_variables=False)
        self._make_views(owner)
        self._make_air(owner)

    def _make_views(self, owner: np.ndarray) -> None:
        """Make struct views of the elements' arrays, those of springs and edges in the order of the worlds."""
        elements = elements_of(self.particles)
        self._order = {}
        for name in ("spring", "edge", "triangle"):
            world = owner[elements[name].max(axis=1)] if len(elements[name]) else np.zeros(0, int)
            order = np.argsort(world, kind="stable")
            self.starts[f"vbd {name}"] = starts_of(world[order], self.particles.world_count)
            self._order[name] = put(order, dtype=int, device=self.rigid.device)

    def _make_air(self, owner: np.ndarray) -> None:
        """Make room for the forces of the air, if there are any."""
        model = self.particles
        self._air = bool(model.tri_count and np.any(model.tri_materials.numpy()[:, 3:] != 0.0))
        if not self._air:
            return
        corners = model.tri_indices.numpy().reshape(-1)
        order = np.argsort(corners, kind="stable")
        device = self.rigid.device
        self._air_start = put(starts_of(corners[order], model.particle_count), dtype=int, device=device)
        self._air_triangle = put(order // 3, dtype=int, device=device)
        self._air_force = zeros(model.tri_count, dtype=wp.vec3, device=device)

    def begin(self, launch: Launcher, step: ParticleStep) -> None:
        """See `ParticleSystem.begin`."""
        model = self.particles
        inputs = [model.particle_mass, model.particle_flags, step.f, int(step.f is not None), self.descent]
        launch(vbd_particles.begin_particles, "vbd particle", inputs)
        if self._air:
            inputs = [self._order["triangle"], model.tri_indices, model.tri_materials, step.x, step.v]
            launch(aerodynamics.find_air_forces, "vbd triangle", [*inputs[1:], self._air_force])
            inputs = [self._air_start, self._air_triangle, self._air_force, self.descent.force]
            launch(aerodynamics.add_air_forces, "vbd particle", inputs)
        inputs = [self.rigid.gravity_vec, step.dt, self.descent, step.v]
        launch(vbd_particles.accelerate, "vbd particle", inputs)

    def begin_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.begin_substep`."""
        inputs = [step.x, step.v, dt, self.descent, self.stencils.view]
        launch(vbd_particles.predict, "vbd particle", inputs)
        self._pack(launch, step, dt)
        inputs = [self.rigid.gravity_vec, step.dt, dt, self.descent, self.stencils.view]
        launch(vbd_particles.guess, "vbd particle", inputs)
        step.sweep = 0

    def _pack(self, launch: Launcher, step: ParticleStep, dt: float) -> None:
        """Write the rows of all elements."""
        model, view = self.particles, self.stencils.view
        if model.spring_count:
            springs = vbd_rows.SpringView()
            springs.order, springs.indices = self._order["spring"], model.spring_indices
            springs.rest_length, springs.stiffness = model.spring_rest_length, model.spring_stiffness
            springs.damping = model.spring_damping
            inputs = [springs, model.spring_control, dt, view]
            launch(vbd_rows.pack_springs, "vbd spring", inputs)
        if model.edge_count:
            edges = vbd_rows.EdgeView()
            edges.order, edges.indices = self._order["edge"], model.edge_indices
            edges.rest_angle, edges.rest_length = model.edge_rest_angle, model.edge_rest_length
            edges.properties = model.edge_bending_properties
            launch(vbd_rows.pack_edges, "vbd edge", [edges, dt, view])
        triangles, tetrahedra = vbd_rows.TriangleView(), vbd_rows.TetrahedronView()
        triangles.indices, triangles.poses = model.tri_indices, model.tri_poses
        triangles.areas, triangles.materials = model.tri_areas, model.tri_materials
        tetrahedra.indices, tetrahedra.poses = model.tet_indices, model.tet_poses
        tetrahedra.materials = model.tet_materials
        control = step.control
        for kind, base in self.stencils.colors:
            if model.tri_count:
                inputs = [base, triangles, control.tri_activations, dt, view]
                launch(vbd_rows.pack_triangles, kind, inputs)
            if model.tet_count:
                inputs = [base, tetrahedra, control.tet_activations, dt, view]
                launch(vbd_rows.pack_tetrahedra, kind, inputs)

    def sweep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.sweep`."""
        colors = self.stencils.colors
        if step.sweep % 2:
            colors = colors[::-1]
        step.sweep += 1
        for kind, base in colors:
            inputs = [base, self.relaxation, dt, self.descent, self.stencils.view]
            launch(vbd_sweep.descend, kind, inputs)

    def end_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.end_substep`."""
        fastest = float(self.particles.particle_max_velocity)
        inputs = [dt, fastest, self.descent, self.stencils.view, step.x, step.v]
        launch(vbd_particles.finish, "vbd particle", inputs)

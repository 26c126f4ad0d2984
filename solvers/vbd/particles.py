"""Particles and the elements between them by vertex block descent."""

from __future__ import annotations

from typing import Literal

import numpy as np
import warp as wp

from newtonsim.kernels.particles.vbd import contacts as vbd_contacts
from newtonsim.kernels.particles.vbd import particles as vbd_particles
from newtonsim.kernels.particles.vbd import rows as vbd_rows
from newtonsim.kernels.particles.vbd import self_contact_sweep
from newtonsim.kernels.particles.vbd import sweep as vbd_sweep
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.aerodynamics import Air
from newtonsim.solvers.particles.contacts import ParticleContacts
from newtonsim.solvers.particles.self_contact import SelfContact
from newtonsim.solvers.particles.system import ParticleStep, check_models, starts_of
from newtonsim.solvers.vbd.components import Components
from newtonsim.solvers.vbd.stencils import Stencils, elements_of

_LAST_ROUNDS = 5
"""Newton steps for the motion of whole components after the last sweep: what is left is lost momentum."""

_PLAIN_SWEEPS = 2
"""Sweeps at the end without relaxation, which smooth out what longer steps leave between neighbours.

Measured, in one step of a beam of 10 000 tetrahedra at 1/60 s with 10 sweeps: the residual is 0.38 without
relaxation, 0.42 at 1.7 throughout, 0.13 with two plain sweeps at the end; the error of the energy is 0.55,
0.05 and 0.07. On a stiff cloth of 4096 particles the residual is that without relaxation, the energy closer.
"""


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
            needs fewer sweeps where many elements pull in a row (successive over-relaxation). The last two
            sweeps are without it.
        friction_epsilon: Speed above which friction is that of Coulomb [m/s].
        surfaces: Contact of the triangles with each other; None for none.
        detection_interval: Sweeps after which such contacts are sought again.
        mixing: How the friction of a contact with a shape comes about, see `ParticleContacts`.

    Attributes:
        descent: The particles during a step.
        stencils: The particles by colour and the elements around them.
        contacts: Contacts with rigid bodies.
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
        relaxation: float = 1.5,
        friction_epsilon: float = 1e-2,
        surfaces: SelfContact | None = None,
        detection_interval: int = 5,
        mixing: Literal["mean", "product"] = "mean",
    ):
        check_models(particles, rigid)
        self.particles, self.rigid = particles, rigid
        self.substeps, self.iterations, self.relaxation = substeps, iterations, relaxation
        self.friction_epsilon, self.detection_interval = friction_epsilon, detection_interval
        device, count, worlds = rigid.device, particles.particle_count, particles.world_count
        self.stencils = Stencils(particles)
        self.descent = vbd_particles.DescentView()
        self.descent.mass = zeros(count, dtype=float, device=device)
        self.descent.inv_mass = zeros(count, dtype=float, device=device)
        self.descent.force = zeros(count, dtype=wp.vec3, device=device)
        self.descent.goal = zeros(count, dtype=wp.vec3, device=device)
        self.descent.predicted = zeros(count, dtype=wp.vec3, device=device)
        self.descent.former = zeros(count, dtype=wp.vec3, device=device)
        self.descent.gain = zeros(count, dtype=wp.vec3, device=device)
        self._no_mask = zeros(1, dtype=bool, device=device)
        owner = particles.particle_world.numpy() if count else np.zeros(0, int)
        self.starts = self.stencils.starts | {"vbd particle": starts_of(owner, worlds)}
        self.components = Components(particles, self.stencils)
        self.starts |= self.components.starts
        self.contacts = ParticleContacts(particles, rigid, mixing)
        self.surfaces = surfaces if surfaces is not None and surfaces.active else None
        if self.surfaces is not None:
            self.starts |= self.surfaces.starts
            self._now = zeros(count, dtype=wp.vec3, device=device)
            self._busy = zeros(count, dtype=int, device=device)
        self._sort_elements(owner)
        self.air = Air(particles, "vbd triangle", "vbd particle")

    def _sort_elements(self, owner: np.ndarray) -> None:
        """Put elements in the order of the worlds."""
        self._order = {}
        for name, corners in elements_of(self.particles).items():
            world = owner[corners.max(axis=1)] if len(corners) else np.zeros(0, int)
            order = np.argsort(world, kind="stable")
            self.starts[f"vbd {name}"] = starts_of(world[order], self.particles.world_count)
            self._order[name] = put(order, dtype=int, device=self.rigid.device)

    def begin(self, launch: Launcher, step: ParticleStep) -> None:
        """See `ParticleSystem.begin`."""
        model = self.particles
        launch(
            vbd_particles.begin_particles,
            "vbd particle",
            reads=dict(
                mass=model.particle_mass,
                flags=model.particle_flags,
                force=step.f,
                forced=int(step.f is not None),
            ),
            writes=dict(descent=self.descent),
        )
        if self.surfaces is not None:
            self.surfaces.begin(launch, step.x)
        self.air.add(launch, step.x, step.v, self.descent.force)
        launch(
            vbd_particles.accelerate,
            "vbd particle",
            reads=dict(world=self.particles.particle_world, gravity=self.rigid.gravity_vec, dt=step.dt),
            writes=dict(descent=self.descent, v=step.v),
        )

    def begin_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.begin_substep`."""
        step.sweep = 0
        descent, view = self.descent, self.stencils.view
        launch(
            vbd_particles.predict,
            "vbd particle",
            reads=dict(x=step.x, v=step.v, dt=dt),
            writes=dict(descent=descent, stencils=view),
        )
        self.components.begin_substep(launch, descent)
        self._pack(launch, step, dt)
        if self.surfaces is not None:
            self.surfaces.aim(launch, step.x, self.substeps - step.substep, descent.predicted)
        step.substep += 1
        if self._touches:
            self.contacts.find(launch, descent.inv_mass, descent.predicted, step.v, dt, bodies)
            launch(
                vbd_contacts.drop_covered_faces,
                "vbd triangle",
                reads=dict(order=self._order["triangle"]),
                writes=dict(touch=self.touch()),
            )
        if self.surfaces is not None:
            self._find_surfaces(launch)
        launch(
            vbd_particles.guess,
            "vbd particle",
            reads=dict(step=step.dt, dt=dt, descent=descent),
            writes=dict(stencils=view),
        )
        if self.surfaces is not None:
            launch(
                self_contact_sweep.move_held,
                "vbd particle",
                reads=dict(descent=descent),
                writes=dict(stencils=view),
            )
            launch(
                self_contact_sweep.place_particles,
                "vbd particle",
                reads=dict(stencils=view),
                writes=dict(now=self._now),
            )
            self.surfaces.truncate(launch, self._now, self._now)
            launch(
                self_contact_sweep.take_displacement,
                "vbd particle",
                reads=dict(now=self._now),
                writes=dict(stencils=view),
            )

    def detect(self, launch: Launcher, x: wp.array, v: wp.array, dt: float) -> None:
        """List the pairs of surfaces that can touch while particles go straight on, and measure them.

        Args:
            launch: For worlds of the model.
            x: Positions [m], shape (particle_count,).
            v: Velocities [m/s], shape (particle_count,).
            dt: Time [s].
        """
        model = self.particles
        launch(
            vbd_particles.begin_particles,
            "vbd particle",
            reads=dict(mass=model.particle_mass, flags=model.particle_flags, force=None, forced=0),
            writes=dict(descent=self.descent),
        )
        launch(
            vbd_particles.predict,
            "vbd particle",
            reads=dict(x=x, v=v, dt=dt),
            writes=dict(descent=self.descent, stencils=self.stencils.view),
        )
        self.surfaces.detect(launch, x, self.descent.predicted)
        self.surfaces.refresh(launch, x, x)

    @property
    def _touches(self) -> bool:
        """Whether there are shapes to touch."""
        return self.rigid.shape_count > 0

    def _find_surfaces(self, launch: Launcher) -> None:
        """Find contacts of surfaces at the start of a substep."""
        model, view = self.particles, self.stencils.view
        material = (model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu)
        self.surfaces.set_material(*map(float, material))
        self.surfaces.set_friction(self.friction_epsilon, self.iterations)
        launch(
            self_contact_sweep.place_particles,
            "vbd particle",
            reads=dict(stencils=view),
            writes=dict(now=self._now),
        )
        if self._touches:
            launch(
                self_contact_sweep.mark_busy,
                "vbd particle",
                reads=dict(contacts=self.contacts.contacts),
                writes=dict(busy=self._busy),
            )
            launch(
                self_contact_sweep.mark_busy_corners,
                "vbd triangle",
                reads=dict(order=self._order["triangle"], touch=self.touch()),
                writes=dict(busy=self._busy),
            )
        self.surfaces.detect(launch, self._now, self.descent.predicted, self._busy)
        self.surfaces.refresh(launch, self._now, view.x)

    def _pack(self, launch: Launcher, step: ParticleStep, dt: float) -> None:
        """Write the rows of all elements."""
        model, view = self.particles, self.stencils.view
        springs, edges = vbd_rows.SpringView(), vbd_rows.EdgeView()
        springs.order, springs.indices = self._order["spring"], model.spring_indices
        springs.rest_length, springs.stiffness = model.spring_rest_length, model.spring_stiffness
        springs.damping, springs.control = model.spring_damping, model.spring_control
        launch(
            vbd_rows.pack_springs,
            "vbd spring",
            reads=dict(springs=springs, dt=dt),
            writes=dict(stencils=view),
        )
        edges.order, edges.indices = self._order["edge"], model.edge_indices
        edges.rest_angle, edges.rest_length = model.edge_rest_angle, model.edge_rest_length
        edges.properties = model.edge_bending_properties
        launch(vbd_rows.pack_edges, "vbd edge", reads=dict(edges=edges, dt=dt), writes=dict(stencils=view))
        triangles, tetrahedra = vbd_rows.TriangleView(), vbd_rows.TetrahedronView()
        triangles.indices, triangles.poses = model.tri_indices, model.tri_poses
        triangles.areas, triangles.materials = model.tri_areas, model.tri_materials
        triangles.activation = model.tri_activations
        tetrahedra.indices, tetrahedra.poses = model.tet_indices, model.tet_poses
        tetrahedra.materials, tetrahedra.activation = model.tet_materials, model.tet_activations
        if step.control is not None and step.control.tri_activations is not None:
            triangles.activation = step.control.tri_activations
        if step.control is not None and step.control.tet_activations is not None:
            tetrahedra.activation = step.control.tet_activations
        for kind, base in self.stencils.colors:
            if model.tri_count:
                launch(
                    vbd_rows.pack_triangles,
                    kind,
                    reads=dict(base=base, triangles=triangles, dt=dt),
                    writes=dict(stencils=view),
                )
            if model.tet_count:
                launch(
                    vbd_rows.pack_tetrahedra,
                    kind,
                    reads=dict(base=base, tetrahedra=tetrahedra, dt=dt),
                    writes=dict(stencils=view),
                )

    def touch(self) -> vbd_contacts.TouchView:
        """Contacts with rigid bodies, and what the model says of their material now."""
        touch, model = vbd_contacts.TouchView(), self.particles
        touch.contacts, touch.faces = self.contacts.contacts, self.contacts.faces
        touch.triangles = model.tri_indices
        touch.body = self.contacts.shapes.shape.body
        touch.stiffness, touch.damping = float(model.soft_contact_ke), float(model.soft_contact_kd)
        touch.friction_speed = float(self.friction_epsilon)
        return touch

    def sweep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.sweep`."""
        descent, view, touch = self.descent, self.stencils.view, self.touch()
        surfaces = self.surfaces
        if surfaces is not None:
            if step.sweep and step.sweep % self.detection_interval == 0:
                surfaces.detect(launch, self._now, descent.predicted)
            surfaces.refresh(launch, self._now, view.x)
            surfaces.pull(launch, descent.predicted, self._now)
            launch(
                self_contact_sweep.take_displacement,
                "vbd particle",
                reads=dict(now=self._now),
                writes=dict(stencils=view),
            )
        step.sweep += 1
        relaxation = float(self.relaxation) if step.sweep <= self.iterations - _PLAIN_SWEEPS else 1.0
        for kind, base in self.stencils.colors:  # there and back would solve the last one twice in a row
            if surfaces is None:
                launch(
                    vbd_sweep.descend,
                    kind,
                    reads=dict(
                        base=base,
                        relaxation=relaxation,
                        dt=dt,
                        touching=int(self._touches),
                        touch=touch,
                        bodies=bodies.view,
                        descent=descent,
                    ),
                    writes=dict(stencils=view),
                )
            else:
                launch(
                    self_contact_sweep.descend_apart,
                    kind,
                    reads=dict(
                        base=base,
                        relaxation=relaxation,
                        dt=dt,
                        touching=int(self._touches),
                        touch=touch,
                        bodies=bodies.view,
                        descent=descent,
                        contact=surfaces.view,
                    ),
                    writes=dict(stencils=view, now=self._now),
                )
        last = step.sweep == self.iterations
        now = None if surfaces is None else self._now
        rounds = _LAST_ROUNDS if last else 1
        self.components.move(launch, dt, self._touches, touch, bodies, descent, surfaces, now, rounds)
        if self._touches and (last or self.rigid.body_count):
            launch(
                vbd_contacts.push_by_particles,
                "vbd particle",
                reads=dict(dt=dt, descent=descent, s=view),
                writes=dict(touch=touch, bodies=bodies.view),
            )
            launch(
                vbd_contacts.push_by_faces,
                "vbd triangle",
                reads=dict(order=self._order["triangle"], dt=dt, descent=descent, s=view),
                writes=dict(touch=touch, bodies=bodies.view),
            )

    def end_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """See `ParticleSystem.end_substep`."""
        fastest = float(self.particles.particle_max_velocity)
        launch(
            vbd_particles.finish,
            "vbd particle",
            reads=dict(dt=dt, fastest=fastest, descent=self.descent, stencils=self.stencils.view),
            writes=dict(x=step.x, v=step.v),
        )
        inputs = [dt, self._touches, self.touch(), self.descent, self.surfaces, step.v]
        self.components.restore_momentum(launch, *inputs)
        if self.surfaces is not None:
            launch(
                self_contact_sweep.settle, "vbd particle", reads=dict(now=self._now), writes=dict(x=step.x)
            )
            self.surfaces.end(launch, step.x)
        launch(
            vbd_particles.note_gain,
            "vbd particle",
            reads=dict(dt=step.dt, v=step.v),
            writes=dict(descent=self.descent),
        )

    def reset(self, world_mask: wp.array | None = None) -> None:
        """Forget the accelerations of the last step.

        Args:
            world_mask: Worlds to forget, bool, shape (world_count,); None for all.
        """
        self.forget(Shard(self.rigid), world_mask)

    def forget(self, shard: Shard, world_mask: wp.array | None) -> None:
        """Forget the accelerations of the last step in the masked worlds of a shard, or in all of them."""
        masked = world_mask is not None
        Launcher(self.rigid, False, Shard(self.rigid, shard.worlds, self.starts))(
            vbd_particles.forget_gain,
            "vbd particle",
            reads=dict(
                world_mask=world_mask if masked else self._no_mask,
                masked=int(masked),
                particle_world=self.particles.particle_world,
            ),
            writes=dict(descent=self.descent),
        )

    def report(self) -> None:
        """Warn of contacts that there was no room for; reads from the device."""
        self.contacts.report()
        if self.surfaces is not None:
            self.surfaces.report()

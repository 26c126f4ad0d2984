"""Soft bodies of particles beside rigid bodies: a stage of the solver that moves the rigid bodies."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.enums import JointType
from newtonsim.errors import ModelError
from newtonsim.kernels import xpbd_contacts, xpbd_elements, xpbd_faces
from newtonsim.kernels.xpbd_shapes import RigidView
from newtonsim.model import Model
from newtonsim.revisions import Revised
from newtonsim.shards import Shard
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.stages import StepForces
from newtonsim.state import State
from newtonsim.workspace import Launcher


class SoftBodyStage(Revised):
    """Steps the particles of one model among the rigid bodies of another.

    It is a stage of the rigid bodies' solver (`before_step`): at the start of each step it moves the
    particles through the whole step by extended position-based dynamics (Macklin, Müller, Chentanez, MIG
    2016), against rigid bodies that move with velocities of their own and yield with their own mass, and adds
    the impulses between them to the forces of the step. Free bodies yield; a body on a free tree yields with
    the mass of the whole tree, without turning; what hangs on a fixed base follows its own motion within the
    step.

    Gravity acts once, at the start of the step: soft bodies fall as rigid ones do. One substep with several
    sweeps is an implicit Euler step; more substeps lose less energy. Contact between particles, and of a soft
    body with itself, is not handled.

    Args:
        particles: Particles with springs and tetrahedra; its triangles collide, whatever their stiffness.
            Worlds as in `rigid`.
        rigid: Rigid bodies.
        substeps: Substeps of each step.
        iterations: Sweeps over the elements and contacts in each substep.

    Attributes:
        state: Positions and velocities of the particles.
        inv_mass: Of each particle, 0 for those that are held [1/kg], shape (particle_count,).
        friction: Of each particle, multiplied by that of the shape, shape (particle_count,).
        all_directions: Damping of the relative velocity of the ends of each spring, in all directions
            [N s/m], shape (spring_count,).
        damps_across: Whether `all_directions` acts; False saves its launches.

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
        self.state = particles.state(requires_grad=False)
        device, count = rigid.device, particles.particle_count
        self.inv_mass = wp.clone(particles.particle_inv_mass, requires_grad=False)
        self.friction = wp.clone(particles.particle_mu, requires_grad=False)
        self.all_directions = wp.zeros(particles.spring_count, dtype=float, device=device)
        self.shift = wp.zeros(count, dtype=wp.vec3, device=device)
        self.spring_multiplier = wp.zeros(particles.spring_count, dtype=float, device=device)
        self.tetrahedron_multiplier = wp.zeros(particles.tet_count, dtype=wp.vec2, device=device)
        self.spring_resistance = wp.zeros(particles.spring_count, dtype=wp.vec3, device=device)
        self.damps_across = True
        self.share = wp.array(_shares(rigid), dtype=float, device=device)
        self._elements()
        self._bodies()
        self._contacts()
        self.set_anchors(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)))

    def _elements(self) -> None:
        """Colour springs and tetrahedra, each colour ordered by world."""
        model, worlds = self.particles, self.particles.world_count
        owner = model.particle_world.numpy()
        self._starts = {
            "soft_particle": _starts(owner, worlds),
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
            self._starts[kind] = _starts(owner[elements[group, 0]], worlds)
            found.append((kind, wp.array(group, dtype=int, device=self.rigid.device)))
        return found

    def _bodies(self) -> None:
        model, view = self.rigid, xpbd_contacts.MotionView()
        count, device = model.body_count, model.device
        kinds = {"inv_mass": float, "inv_inertia": wp.mat33, "touching": int}
        kinds |= dict.fromkeys(("origin", "pose"), wp.transform)
        kinds |= dict.fromkeys(("velocity", "expected", "impulse", "total"), wp.spatial_vector)
        for name, dtype in kinds.items():
            setattr(view, name, wp.zeros(count, dtype=dtype, device=device))
        view.com = model.body_com
        self.bodies = view

    def _contacts(self) -> None:
        model, count, device = self.rigid, self.particles.particle_count, self.rigid.device
        plan = model.collision_plan
        view = RigidView()
        view.shape, view.hulls, view.surfaces = plan.shape, plan.hulls, plan.surfaces
        world = model.shape_world.numpy() if model.shape_count else np.zeros(0, int)
        listed = [np.flatnonzero((world == w) | (world < 0)) for w in range(model.world_count)]
        listed = [shapes[shapes != model.ground_shape] for shapes in listed]
        start = np.concatenate(([0], np.cumsum([len(shapes) for shapes in listed])))
        view.start = wp.array(start, dtype=int, device=device)
        view.listed = wp.array(np.concatenate(listed), dtype=int, device=device)
        self.shapes = view
        self.contacts, self.faces = xpbd_contacts.ContactView(), xpbd_faces.FaceView()
        triangles = self.particles.tri_count
        for contacts, number, most in (
            (self.contacts, count, xpbd_contacts.CONTACTS),
            (self.faces, triangles, xpbd_faces.FACE_CONTACTS),
        ):
            shape = (number, int(most))
            contacts.count = wp.zeros(number, dtype=int, device=device)
            contacts.shape = wp.zeros(shape, dtype=int, device=device)
            for name in ("overlap", "before", "push"):
                setattr(contacts, name, wp.zeros(shape, dtype=float, device=device))
            for name in ("normal", "hold"):
                setattr(contacts, name, wp.zeros(shape, dtype=wp.vec3, device=device))
        self.faces.weight = wp.zeros((triangles, int(xpbd_faces.FACE_CONTACTS)), dtype=wp.vec3, device=device)

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
        self._starts["anchor"] = _starts(owner, self.particles.world_count)
        self.anchor_particle = wp.array(particle, dtype=int, device=device)
        self.anchor_body = wp.array(body, dtype=int, device=device)
        self.anchor_point = wp.array(point, dtype=wp.vec3, device=device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        launch = Launcher(launch.model, False, Shard(launch.model, launch.shard.worlds, self._starts))
        rigid, dt = self.rigid, step.dt / self.substeps
        inputs = [step.body_q, step.body_qd, step.body_f, self.share, rigid.body_inv_mass]
        inputs += [rigid.body_inv_inertia, rigid.gravity_vec, step.dt, self.bodies]
        launch(xpbd_contacts.begin_bodies, "body", inputs)
        # resisted before gravity acts, so that what is at rest stays where forces balance
        model, x, v = self.particles, self.state.particle_q, self.state.particle_qd
        for kind, group in self.tetrahedra:
            inputs = [group, model.tet_indices, model.tet_poses, model.tet_materials, self.inv_mass, x]
            launch(xpbd_elements.damp_tetrahedra, kind, [*inputs, step.dt, v])
        speed = float(model.particle_max_velocity)
        inputs = [self.inv_mass, rigid.gravity_vec, speed, step.dt, v]
        launch(xpbd_elements.accelerate, "soft_particle", inputs)
        for number in range(self.substeps):
            launch(xpbd_contacts.move_bodies, "body", [dt if number else 0.0, dt, self.bodies])
            self._substep(launch, dt)
        launch(xpbd_contacts.end_bodies, "body", [step.dt, self.bodies, step.body_f])

    def _substep(self, launch: Launcher, dt: float) -> None:
        model, bodies = self.particles, self.bodies
        x, v, shift = self.state.particle_q, self.state.particle_qd, self.shift
        launch(xpbd_elements.predict, "soft_particle", [dt, x, v, shift])
        launch(xpbd_elements.clear_springs, "soft_spring", [self.spring_multiplier, self.spring_resistance])
        launch(xpbd_elements.clear_tetrahedra, "soft_tetrahedron", [self.tetrahedron_multiplier])
        launch(xpbd_contacts.count_anchors, "anchor", [self.anchor_body, bodies])
        inputs = [model.particle_world, self.inv_mass, model.particle_radius, self.shapes, x, v, dt]
        launch(xpbd_contacts.find_contacts, "soft_particle", [*inputs, bodies, self.contacts])
        inputs = [model.tri_indices, model.particle_world, model.particle_radius, self.shapes, x, v, dt]
        launch(xpbd_faces.find_face_contacts, "soft_triangle", [*inputs, bodies, self.faces])
        held = [self.anchor_particle, self.anchor_body, self.anchor_point, self.inv_mass, dt, x]
        touching = [self.inv_mass, self.friction, self.rigid.shape_materials.mu, self.shapes, x, v, dt]
        for _ in range(self.iterations):
            self._solve_elements(launch, dt)
            launch(xpbd_contacts.solve_anchors, "anchor", [*held, bodies, shift])
            launch(xpbd_contacts.solve_contacts, "soft_particle", [*touching, bodies, self.contacts, shift])
            for kind, group in self.triangles:
                inputs = [group, model.tri_indices, *touching, bodies, self.faces, shift]
                launch(xpbd_faces.solve_face_contacts, kind, inputs)
            launch(xpbd_contacts.apply_impulses, "body", [bodies])
        launch(xpbd_elements.finish, "soft_particle", [self.inv_mass, dt, x, v, shift])

    def _solve_elements(self, launch: Launcher, dt: float) -> None:
        model, weight = self.particles, self.inv_mass
        x, v, shift = self.state.particle_q, self.state.particle_qd, self.shift
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


def color_worlds(elements: np.ndarray, worlds: int, particle_count: int) -> list[np.ndarray]:
    """Colour elements as `color_elements` does; worlds that are copies of the first one share its colours.

    Args:
        elements: Particles of each element (n, k), ordered by world.
        worlds: Number of worlds.
        particle_count: Particles of all worlds.
    """
    count, rest = divmod(len(elements), worlds)
    step = particle_count // worlds
    copies = elements[:count][None] + step * np.arange(worlds)[:, None, None]
    if rest or not np.array_equal(copies.reshape(elements.shape), elements):
        return color_elements(elements)
    offsets = count * np.arange(worlds)[:, None]
    return [(group + offsets).reshape(-1) for group in color_elements(elements[:count])]


def color_elements(elements: np.ndarray) -> list[np.ndarray]:
    """Colour elements so that no two of one colour share a particle, in the order of the elements.

    Args:
        elements: Particles of each element (n, k).

    Returns:
        The elements of each colour, int32.
    """
    used: list[int] = [0] * (int(elements.max(initial=-1)) + 1)
    colors = np.zeros(len(elements), np.int32)
    for number, corners in enumerate(elements.tolist()):
        taken = 0
        for corner in corners:
            taken |= used[corner]
        color = (~taken & (taken + 1)).bit_length() - 1
        colors[number] = color
        for corner in corners:
            used[corner] |= 1 << color
    return [np.flatnonzero(colors == c).astype(np.int32) for c in range(int(colors.max(initial=-1)) + 1)]


def _starts(owner: np.ndarray, worlds: int) -> np.ndarray:
    """First index of each world, and the end, of things ordered by world."""
    return np.searchsorted(owner, np.arange(worlds + 1)).astype(int)


def _shares(model: Model) -> np.ndarray:
    """Part of each body in the mass that moves with it: 1 for a free body, 0 on a fixed tree."""
    shares = np.zeros(model.body_count)
    if not model.body_count:
        return shares
    mass = model.body_mass.numpy().astype(np.float64)
    root = np.arange(model.body_count)
    free = np.zeros(model.body_count, bool)
    types, parents = model.joint_type.numpy(), model.joint_parent.numpy()
    children = model.joint_child.numpy()
    for kind, parent, child in zip(types.tolist(), parents.tolist(), children.tolist()):
        if parent >= 0:
            root[child] = parent
        free[child] = kind == JointType.FREE and parent < 0
    while np.any(root[root] != root):
        root = root[root]
    total = np.bincount(root, mass, model.body_count)[root]
    moving = free[root] & (total > 0.0)
    shares[moving] = mass[moving] / total[moving]
    return shares


class SoftBodySolver(SolverBase):
    """Moves soft bodies in a world without rigid ones.

    Args:
        stage: The soft bodies.
    """

    def __init__(self, stage: SoftBodyStage):
        super().__init__(stage.particles)
        self.stage = stage

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`. The state is that of the stage."""
        s = state_in
        forces = StepForces(s, control, dt, s.body_q, s.body_qd, s.body_f, None)
        self.stage.apply(Launcher(model, False), forces)

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return self.revision + self.stage.revision

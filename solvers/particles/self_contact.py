"""Contact of cloth and soft surfaces with themselves and with each other, free of penetration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.particles.self_contact import advance as self_contact_advance
from newtonsim.kernels.particles.self_contact import bvh_surface, contact, prescribed_motion
from newtonsim.kernels.particles.self_contact import pairs as self_contact_pairs
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.self_contact_mesh import SurfaceMesh

ROUNDS = 3
"""Rounds in which particles that move together are held back."""
WORKERS = 4096
"""Threads over the pairs of a world on a GPU; the CPU takes one."""
GRIP = 0.5
"""Stiffness of friction over that of inertia, at most, for each sweep."""
LONGEST = 2.0
"""Longest path between two detections, in mean edge lengths; it bounds the work where things explode."""


@dataclass(frozen=True)
class SurfacePairs:
    """Pairs of corners and triangles, and of edges, that are near each other.

    Attributes:
        corners: Particles: a corner and those of the triangle, or those of two edges, int (n, 4).
        is_edges: Whether a pair is of two edges, bool (n,).
        distance: Between the nearest points of the two [m], shape (n,).
    """

    corners: np.ndarray
    is_edges: np.ndarray
    distance: np.ndarray


class SelfContact:
    """Finds the pairs of a model's triangles that can touch, and keeps them apart.

    Each sweep of a solver calls `refresh` and moves particles, in any order, through
    `kernels.particles.self_contact.contact.truncate`; forces come from
    `kernels.particles.self_contact.contact.self_contact_terms`. What starts without an edge through a
    triangle stays so. A particle that is held goes to where the user has put it since the last step, in the
    course of the step; where it would go through a triangle, it stays behind. Where other particles were put
    elsewhere too, all of them start from there.

    Between two detections a particle may go along the straight way to its target and
    `relaxation * max(margin - radius, margin / 4)` off it, and planes between near pairs hold it back.
    Surfaces touch within their world only.

    Args:
        model: Its triangles are the surfaces.
        radius: Distance at which surfaces begin to press each other [m]. Parts of one surface that are
            nearer than twice of that at rest press at half their distance at rest.
        margin: Distance within which pairs are found at least [m].
        relaxation: Part of a gap that either side may close in one sweep, below 0.5.
        friction_epsilon: Speed above which friction is that of Coulomb [m/s].
        vertex_buffer: Room for triangles near each vertex, on average over the vertices of a world.
        edge_buffer: Room for edges near each edge, on average.
        triangle_buffer: Room for vertices near each triangle, on average.
        edge_edge_parallel_epsilon: Squared sine of the angle below which edges are taken to be parallel.

    Attributes:
        active: Whether there are triangles; without them nothing may be called.
        view: What kernels read.
        starts: Further kinds of index of the launches, see `Shard.with_starts`.

    Raises:
        ModelError: An argument is out of range, or triangles of the global world stand beside worlds.
    """

    def __init__(
        self,
        model: Model,
        radius: float,
        margin: float,
        relaxation: float = 0.42,
        friction_epsilon: float = 1e-2,
        vertex_buffer: int = 32,
        edge_buffer: int = 64,
        triangle_buffer: int = 32,
        edge_edge_parallel_epsilon: float = 1e-5,
    ):
        _check(radius, margin, relaxation, friction_epsilon, edge_edge_parallel_epsilon)
        self.model = model
        self.active = bool(model.tri_count)
        self.starts: dict[str, np.ndarray] = {}
        self._reported = 0
        if not self.active:
            return
        self._rooms = tuple(int(max(room, 1)) for room in (vertex_buffer, triangle_buffer, edge_buffer))
        mesh = SurfaceMesh(model)
        self._mesh = mesh
        self.workers = 1 if model.device.is_cpu else WORKERS
        self._order = mesh.order(model.particle_q.numpy())
        view = contact.SelfContactView()
        view.tree = self._tree(mesh)
        view.reach = self._reach(mesh, radius, max(margin, radius), relaxation)
        self.view = view
        self._pairs(mesh)
        self._particles(mesh, radius)
        view.relaxation = float(relaxation)
        view.parallel = float(edge_edge_parallel_epsilon)
        self.set_material(model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu)
        self.set_friction(friction_epsilon, 10)
        self._sort_triangles()

    def set_material(self, stiffness: float, damping: float, friction: float) -> None:
        """Set the material of all contacts, for launches made from now on.

        Args:
            stiffness: Of the normal force [N/m].
            damping: Of the normal force [N s/m].
            friction: Coefficient.
        """
        self.view.stiffness = float(stiffness)
        self.view.damping = float(damping)
        self.view.friction = float(friction)

    def set_friction(self, speed: float, sweeps: int) -> None:
        """Set how friction begins, for launches made from now on.

        It is smoothed below a speed, and where a contact presses so much that the sweeps could not carry what
        is stiffer, below one that grows with its force and the time step, and falls with the sweeps.

        Args:
            speed: Above which friction is that of Coulomb under small forces [m/s].
            sweeps: Sweeps of a step.
        """
        self.view.friction_speed = float(speed)
        self.view.grip = GRIP * sweeps

    def begin(self, launch: Launcher, x: wp.array) -> None:
        """Start a step: held particles go back to where the last step has left them.

        Args:
            launch: Its shard knows `starts`.
            x: Positions at the start of the step [m], shape (particle_count,), changed in place.
        """
        model, view, memory = self.model, self.view, self._memory
        launch(prescribed_motion.forget_changes, "world", writes=dict(memory=memory))
        launch(
            prescribed_motion.find_changes,
            "particle",
            reads=dict(inv_mass=model.particle_inv_mass, flags=model.particle_flags, x=x, view=view),
            writes=dict(memory=memory),
        )
        launch(
            prescribed_motion.take_back,
            "particle",
            reads=dict(inv_mass=model.particle_inv_mass, flags=model.particle_flags, view=view),
            writes=dict(memory=memory, x=x),
        )

    def aim(self, launch: Launcher, x: wp.array, substeps_left: int, target: wp.array) -> None:
        """Write the targets of held particles in a substep.

        Args:
            launch: Its shard knows `starts`.
            x: Positions at the start of the substep [m], shape (particle_count,).
            substeps_left: Substeps from here to the end of the step, this one included.
            target: Receives the targets of the held particles [m], shape (particle_count,).
        """
        model = self.model
        launch(
            prescribed_motion.aim_held,
            "particle",
            reads=dict(
                inv_mass=model.particle_inv_mass,
                flags=model.particle_flags,
                x=x,
                part=1.0 / substeps_left,
                memory=self._memory,
            ),
            writes=dict(target=target),
        )

    def pull(self, launch: Launcher, target: wp.array, x: wp.array) -> None:
        """Move held particles to their targets, as far as they may go; in a sweep, after `refresh`.

        Args:
            launch: Its shard knows `starts`.
            target: Where they belong [m], shape (particle_count,).
            x: Present positions of all, those of held particles are changed [m], shape (particle_count,).
        """
        launch(
            prescribed_motion.pull_held,
            "particle",
            reads=dict(target=target, view=self.view, search=self.search),
            writes=dict(x=x),
        )

    def end(self, launch: Launcher, x: wp.array) -> None:
        """End a step: keep where it leaves the particles.

        Args:
            launch: Its shard knows `starts`.
            x: Positions at the end of the step [m], shape (particle_count,).
        """
        launch(
            prescribed_motion.settle_particles, "particle", reads=dict(x=x), writes=dict(memory=self._memory)
        )

    def detect(self, launch: Launcher, x: wp.array, target: wp.array, busy: wp.array | None = None) -> None:
        """List the pairs that can touch until the next detection.

        Where nothing but self-contact can stop any particle of a world, all of them are moved here by the
        common part of their ways, so that what flies fast is not taken to move within itself.

        Args:
            launch: Its shard knows `starts`.
            x: Present positions [m], shape (particle_count,).
            target: Where the particles want to go [m], shape (particle_count,).
            busy: Positive where a particle may touch a shape until the next detection, int, shape
                (particle_count,). None: nothing is moved.
        """
        view, search, model = self.view, self.search, self.model
        if busy is not None:
            launch(
                self_contact_pairs.stop_drift,
                "particle",
                reads=dict(
                    inv_mass=model.particle_inv_mass, flags=model.particle_flags, busy=busy, view=view
                ),
                writes=dict(search=search),
            )
            launch(
                self_contact_pairs.find_drift,
                "world",
                reads=dict(x=x, target=target, particle_start=self._particle_start),
                writes=dict(search=search),
            )
            launch(
                self_contact_pairs.let_drift,
                "particle",
                reads=dict(view=view, search=search),
                writes=dict(x=x),
            )
        launch(
            self_contact_pairs.begin_search,
            "particle",
            reads=dict(inv_mass=model.particle_inv_mass, flags=model.particle_flags, x=x, target=target),
            writes=dict(view=view, search=search),
        )
        launch(self_contact_pairs.begin_worlds, "world", writes=dict(view=view, search=search))
        launch(
            bvh_surface.enclose_leaves, "self_leaf", reads=dict(reach=view.reach), writes=dict(tree=view.tree)
        )
        launch(bvh_surface.enclose_subtrees, "self_subtree", writes=dict(tree=view.tree))
        launch(bvh_surface.enclose_worlds, "world", writes=dict(tree=view.tree))
        launch(
            self_contact_pairs.find_pairs, "self_leaf", reads=dict(x=x), writes=dict(view=view, search=search)
        )
        launch(self_contact_pairs.place_entries, "particle", writes=dict(view=view, search=search))
        launch(
            self_contact_pairs.fill_entries,
            "self_worker",
            reads=dict(workers=self.workers),
            writes=dict(view=view, search=search),
        )

    def refresh(self, launch: Launcher, x: wp.array, x_start: wp.array) -> None:
        """Renew planes and normal forces of the listed pairs; call it at the start of every sweep.

        Args:
            launch: Its shard knows `starts`.
            x: Present positions [m], shape (particle_count,).
            x_start: Positions at the start of the step, from which friction and damping count [m].
        """
        launch(contact.start_sweep, "particle", reads=dict(x=x), writes=dict(view=self.view))
        launch(
            contact.refresh_pairs,
            "self_worker",
            reads=dict(workers=self.workers, x=x, x_start=x_start),
            writes=dict(view=self.view),
        )

    def truncate(self, launch: Launcher, target: wp.array, x: wp.array) -> None:
        """Move all particles toward their targets, all at once; after a `refresh` and before the next one.

        What goes the same way gets there. Where pairs would lose too much of their gap, their particles are
        held back.

        Args:
            launch: Its shard knows `starts`.
            target: Where they want to go [m], shape (particle_count,).
            x: Receives the positions [m]; may be `target`.
        """
        view, advance = self.view, self._advance
        launch(
            self_contact_advance.start_advance,
            "particle",
            reads=dict(to=target, view=view),
            writes=dict(advance=advance),
        )
        launch(self_contact_advance.forget_broken, "world", writes=dict(advance=advance))
        for number in range(ROUNDS):
            launch(
                self_contact_advance.hold_back,
                "self_worker",
                reads=dict(workers=self.workers, initial=int(number == 0), view=view),
                writes=dict(advance=advance),
            )
            launch(self_contact_advance.take_parts, "particle", writes=dict(advance=advance))
        launch(
            self_contact_advance.find_broken,
            "self_worker",
            reads=dict(workers=self.workers, view=view),
            writes=dict(advance=advance),
        )
        launch(
            self_contact_advance.finish_advance,
            "particle",
            reads=dict(view=view, advance=advance),
            writes=dict(x=x),
        )

    def rebuild(self, x: wp.array) -> None:
        """Sort the triangles anew by their present positions; waits for the device.

        Worth it where surfaces that were near each other have gone far apart; a surface that only bends keeps
        its order.

        Args:
            x: Positions [m], shape (particle_count,).
        """
        self._order = self._mesh.order(x.numpy())
        self._sort_triangles()

    def pairs(self) -> SurfacePairs:
        """Return the pairs of the last detection as `refresh` has measured them; waits for the device."""
        if not self.active:
            return SurfacePairs(np.zeros((0, 4), int), np.zeros(0, bool), np.zeros(0))
        view = self.view
        first, wanted = view.pair_first.numpy(), view.pair_count.numpy()
        held = np.minimum(wanted, np.diff(first))
        places = np.concatenate([start + np.arange(n) for start, n in zip(first[:-1], held)])
        corners, weight = view.corners.numpy()[places], view.weight.numpy()[places]
        gap = np.einsum("ij,ijk->ik", weight, view.origin.numpy()[corners])
        return SurfacePairs(
            corners,
            view.triangle.numpy()[places] == int(contact.EDGES),
            np.linalg.norm(gap, axis=1),
        )

    def report(self) -> None:
        """Warn of pairs that found no room since the last report; reads from the device."""
        if not self.active:
            return
        dropped = int(self.search.dropped.numpy().sum())
        if dropped > self._reported:
            warnings.warn(
                f"self-contact: {dropped - self._reported} pairs did not fit into the buffers, and their "
                "particles were slowed down; enlarge vertex_collision_buffer_pre_alloc and "
                "edge_collision_buffer_pre_alloc, or use "
                "a smaller margin",
                stacklevel=2,
            )
        self._reported = dropped

    def _tree(self, mesh: SurfaceMesh) -> bvh_surface.SurfaceTree:
        """The tree of all worlds, without triangles yet."""
        tree, device = bvh_surface.SurfaceTree(), self.model.device
        self.starts["self_leaf"] = mesh.leaf_first
        self.starts["self_subtree"] = mesh.subtree_first
        leaves, triangles = int(mesh.leaf_first[-1]), self.model.tri_count
        tree.leaf_start = wp.array(mesh.leaf_start, dtype=int, device=device)
        tree.leaf_world = wp.array(np.repeat(np.arange(mesh.worlds), mesh.leaves), dtype=int, device=device)
        tree.world_leaf = wp.array(mesh.leaf_first[:-1], dtype=int, device=device)
        tree.world_leaves = wp.array(mesh.leaves, dtype=int, device=device)
        tree.world_subtree = wp.array(mesh.subtree_first[:-1], dtype=int, device=device)
        tree.world_subtrees = wp.array(mesh.subtrees, dtype=int, device=device)
        tree.subtree_world = wp.array(
            np.repeat(np.arange(mesh.worlds), mesh.subtrees), dtype=int, device=device
        )
        tree.corners = wp.zeros(triangles, dtype=wp.vec3i, device=device)
        tree.across = wp.zeros(triangles, dtype=wp.vec3i, device=device)
        tree.owned = wp.zeros(triangles, dtype=int, device=device)
        tree.lower = wp.zeros(2 * leaves, dtype=wp.vec3, device=device)
        tree.upper = wp.zeros(2 * leaves, dtype=wp.vec3, device=device)
        tree.triangle_lower = wp.zeros(triangles, dtype=wp.vec3, device=device)
        tree.triangle_upper = wp.zeros(triangles, dtype=wp.vec3, device=device)
        return tree

    def _sort_triangles(self) -> None:
        """Write the triangles in their order to the tree."""
        tree, mesh = self.view.tree, self._mesh
        tree.corners.assign(mesh.triangles[self._order])
        tree.across.assign(mesh.across[self._order])
        tree.owned.assign(mesh.owned(self._order))

    def _reach(self, mesh: SurfaceMesh, radius: float, margin: float, relaxation: float) -> bvh_surface.Reach:
        reach, count, device = bvh_surface.Reach(), self.model.particle_count, self.model.device
        reach.anchor = wp.zeros(count, dtype=wp.vec3, device=device)
        reach.path = wp.zeros(count, dtype=wp.vec3, device=device)
        reach.lower = wp.zeros(count, dtype=wp.vec3, device=device)
        reach.upper = wp.zeros(count, dtype=wp.vec3, device=device)
        reach.limit = wp.zeros(count, dtype=float, device=device)
        reach.spread = float(relaxation * max(margin - radius, 0.25 * margin))
        reach.half_radius = 0.5 * float(radius)
        reach.longest = wp.array(LONGEST * mesh.mean_edges, dtype=float, device=device)
        return reach

    def _pairs(self, mesh: SurfaceMesh) -> None:
        """Room for the pairs of each world."""
        view, device = self.view, self.model.device
        vertex, triangle, edge = self._rooms
        rooms = np.minimum(vertex * mesh.vertex_counts, triangle * mesh.triangle_counts)
        rooms = rooms + edge * mesh.edge_counts // 2
        first = np.concatenate(([0], np.cumsum(rooms)))
        if 4 * first[-1] >= 2**31:
            raise ModelError(f"self-contact: {first[-1]} places for pairs are too many; use smaller buffers")
        count, worlds = int(first[-1]), mesh.worlds
        self.starts["self_worker"] = self.workers * np.arange(worlds + 1)
        view.pair_first = wp.array(first, dtype=int, device=device)
        view.pair_count = wp.zeros(worlds, dtype=int, device=device)
        view.corners = wp.zeros(count, dtype=wp.vec4i, device=device)
        view.triangle = wp.zeros(count, dtype=int, device=device)
        view.radius = wp.zeros(count, dtype=float, device=device)
        view.weight = wp.zeros(count, dtype=wp.vec4, device=device)
        view.normal = wp.zeros(count, dtype=wp.vec3, device=device)
        view.slack = wp.zeros(count, dtype=wp.vec4, device=device)
        view.before = wp.zeros(count, dtype=wp.vec3, device=device)
        view.load = wp.zeros(count, dtype=float, device=device)
        view.share = wp.zeros(count, dtype=float, device=device)
        view.entry = wp.zeros(4 * count, dtype=int, device=device)

    def _particles(self, mesh: SurfaceMesh, radius: float) -> None:
        """What is kept of each particle."""
        view, device, count = self.view, self.model.device, self.model.particle_count
        search = self_contact_pairs.Search()
        view.start, view.count = (wp.zeros(count, dtype=int, device=device) for _ in range(2))
        view.world = wp.array(mesh.world, dtype=int, device=device)
        view.origin = wp.zeros(count, dtype=wp.vec3, device=device)
        view.free = wp.zeros(count, dtype=float, device=device)
        view.inv_mass = wp.zeros(count, dtype=float, device=device)
        view.hold = wp.zeros(count, dtype=float, device=device)
        view.neighbor_start = wp.array(mesh.neighbor_start, dtype=int, device=device)
        view.neighbor = wp.array(mesh.neighbor, dtype=int, device=device)
        search.rest = wp.clone(self.model.particle_q, requires_grad=False)
        search.component = wp.array(mesh.component, dtype=int, device=device)
        search.held = wp.zeros(count, dtype=int, device=device)
        search.filled = wp.zeros(count, dtype=int, device=device)
        search.drift = wp.zeros(mesh.worlds, dtype=wp.vec3, device=device)
        self._particle_start = wp.array(self.model.world_particle_start, dtype=int, device=device)
        search.cursor = wp.zeros(mesh.worlds, dtype=int, device=device)
        search.dropped = wp.zeros(mesh.worlds, dtype=int, device=device)
        search.stopped = wp.zeros(mesh.worlds, dtype=int, device=device)
        search.radius = float(radius)
        self._advance = self_contact_advance.Advance()
        self._advance.way = wp.zeros(count, dtype=wp.vec3, device=device)
        self._advance.part = wp.zeros(count, dtype=float, device=device)
        self._advance.next = wp.zeros(count, dtype=float, device=device)
        self._advance.still = wp.zeros(count, dtype=float, device=device)
        self._memory = prescribed_motion.Memory()
        self._memory.settled = wp.full(count, wp.vec3(np.nan), dtype=wp.vec3, device=device)
        self._memory.prescribed = wp.zeros(count, dtype=wp.vec3, device=device)
        self._memory.changed = wp.zeros(mesh.worlds, dtype=int, device=device)
        self._advance.broken = wp.zeros(mesh.worlds, dtype=int, device=device)
        self.search = search


def _check(radius: float, margin: float, relaxation: float, friction: float, parallel: float) -> None:
    """Raise ModelError for arguments that are out of range."""
    for name, value, good in (
        ("radius", radius, 0.0 < radius < np.inf),
        ("margin", margin, 0.0 <= margin < np.inf),
        ("relaxation", relaxation, 0.0 < relaxation < 0.5),
        ("friction_epsilon", friction, 0.0 < friction < np.inf),
        ("edge_edge_parallel_epsilon", parallel, 0.0 < parallel < 1.0),
    ):
        if not good:
            raise ModelError(f"self-contact: {name} is out of range: {value}")

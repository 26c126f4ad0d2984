"""Connected components of particles, each of which moves as one after every sweep of vertex block descent."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.particles.vbd import components as vbd_components
from newtonsim.kernels.particles.vbd import self_contact_sweep
from newtonsim.kernels.particles.vbd.contacts import TouchView
from newtonsim.kernels.particles.vbd.particles import DescentView
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.self_contact import SelfContact
from newtonsim.solvers.particles.system import starts_of
from newtonsim.solvers.vbd.stencils import Stencils, elements_of


class Components:
    """Connected components, whose particles hang together by elements; single particles are none.

    Args:
        model: The particles.
        stencils: Their displacements.

    Attributes:
        view: What kernels see.
        crowds: The same for the components of each world that are near each other, taken as one.
        starts: Kinds of index, see `Shard`.
    """

    def __init__(self, model: Model, stencils: Stencils):
        self.model, self.stencils = model, stencils
        count, worlds = model.particle_count, model.world_count
        owner = model.particle_world.numpy() if count else np.zeros(0, int)
        label = _labels(count, elements_of(model))
        size = np.bincount(label, minlength=1)[label] if count else np.zeros(0, int)
        members = np.flatnonzero(size > 1)
        members = members[np.lexsort((members, label[members], owner[members]))]
        chunk_start, chunk_component, component_start = _chunks(label[members], int(vbd_components.CHUNK))
        device = model.device
        view = self.view = vbd_components.ComponentView()
        faces, chunk_face = self._faces(members, chunk_start)
        view.particle = put(members, dtype=int, device=device)
        view.of = put(label, dtype=int, device=device)
        view.chunk_start = put(chunk_start, dtype=int, device=device)
        view.chunk_component = put(chunk_component, dtype=int, device=device)
        view.chunk_face = put(chunk_face, dtype=int, device=device)
        view.face = put(faces, dtype=int, device=device)
        view.component_start = put(component_start, dtype=int, device=device)
        chunks, components = len(chunk_component), len(component_start) - 1
        self._make_room(view, chunks, components)
        world = owner[members[chunk_start[:-1]]]
        self.crowds = self._make_crowds(world)
        self.starts = {
            "vbd chunk": starts_of(world, worlds),
            "vbd component": starts_of(world[component_start[:-1]], worlds),
        }

    def _make_room(self, view: vbd_components.ComponentView, chunks: int, components: int) -> None:
        """Make room for what is found of chunks and components."""
        device = self.model.device
        view.force = zeros(chunks, dtype=wp.spatial_vector, device=device)
        view.stiffness = zeros(chunks, dtype=wp.spatial_matrix, device=device)
        view.held, view.apart = (zeros(chunks, dtype=int, device=device) for _ in range(2))
        view.free = zeros(components, dtype=int, device=device)
        view.gain = zeros(components, dtype=float, device=device)
        view.motion = zeros(components, dtype=wp.spatial_vector, device=device)

    def _make_crowds(self, world: np.ndarray) -> vbd_components.ComponentView:
        """The components of each world that are near each other, as one; world of each chunk (chunks,)."""
        crowds, view, worlds = vbd_components.ComponentView(), self.view, self.model.world_count
        crowds.particle = view.particle
        crowds.of = view.of
        crowds.chunk_start = view.chunk_start
        crowds.chunk_face = view.chunk_face
        crowds.face = view.face
        crowds.chunk_component = put(world, dtype=int, device=self.model.device)
        crowds.component_start = put(starts_of(world, worlds), dtype=int, device=self.model.device)
        self._make_room(crowds, len(world), worlds)
        return crowds

    def _faces(self, members: np.ndarray, chunk_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The triangles in the order of the chunks of their first corners, and the first of each chunk."""
        corners = elements_of(self.model)["triangle"]
        place = np.zeros(self.model.particle_count, int)
        place[members] = np.arange(len(members))
        chunk = np.searchsorted(chunk_start, place[corners[:, 0]], side="right") - 1
        order = np.argsort(chunk, kind="stable")
        return order, starts_of(chunk[order], len(chunk_start) - 1)

    def begin_substep(self, launch: Launcher, descent: DescentView) -> None:
        """Find which components are free to move."""
        launch(
            vbd_components.count_held,
            "vbd chunk",
            reads=dict(descent=descent),
            writes=dict(components=self.view),
        )
        launch(vbd_components.find_free, "vbd component", writes=dict(components=self.view))

    def move(
        self,
        launch: Launcher,
        dt: float,
        touching: bool,
        touch: TouchView,
        bodies: MovingBodies,
        descent: DescentView,
        surfaces: SelfContact | None,
        now: wp.array | None,
        rounds: int,
    ) -> None:
        """Move each free component to where inertia and contacts balance.

        Args:
            launch: For the worlds, with the kinds of index of `starts`.
            dt: Length of the substep [s].
            touching: Whether there are shapes to touch.
            touch: Contacts with them.
            bodies: The bodies.
            descent: The particles.
            surfaces: Contact between the components' triangles; None for none.
            now: Present positions, if there is such contact.
            rounds: Newton steps.
        """
        view, stencils = self.view, self.stencils.view
        for kernel in (vbd_components.solve_components, vbd_components.retreat) * rounds:
            launch(
                vbd_components.weigh_chunks,
                "vbd chunk",
                reads=dict(
                    dt=dt,
                    touching=int(touching),
                    touch=touch,
                    bodies=bodies.view,
                    descent=descent,
                    s=stencils,
                ),
                writes=dict(components=view),
            )
            if surfaces is not None:
                launch(
                    vbd_components.weigh_surfaces,
                    "vbd chunk",
                    reads=dict(dt=dt, s=stencils, contact=surfaces.view, now=now),
                    writes=dict(components=view),
                )
            launch(kernel, "vbd component", writes=dict(components=view))
            launch(
                vbd_components.move_chunks, "vbd chunk", reads=dict(components=view), writes=dict(s=stencils)
            )
            if surfaces is not None:
                launch(
                    self_contact_sweep.place_particles,
                    "vbd particle",
                    reads=dict(stencils=stencils),
                    writes=dict(now=now),
                )
        if surfaces is not None:
            surfaces.truncate(launch, now, now)
            launch(
                self_contact_sweep.take_displacement,
                "vbd particle",
                reads=dict(now=now),
                writes=dict(stencils=stencils),
            )

    def restore_momentum(
        self,
        launch: Launcher,
        dt: float,
        touching: bool,
        touch: TouchView,
        descent: DescentView,
        surfaces: SelfContact | None,
        v: wp.array,
    ) -> None:
        """Correct the velocities of each free component, so that it has the momentum that contacts gave it.

        Args:
            launch: For the worlds, with the kinds of index of `starts`.
            dt: Length of the substep [s].
            touching: Whether there are shapes to touch.
            touch: Contacts with them, with the impulses that they had.
            descent: The particles.
            surfaces: Contact between triangles; components that are near each other are corrected together.
            v: Velocities at the end of the substep [m/s].
        """
        kinds = [("vbd component", self.view)]
        if surfaces is not None:
            launch(
                vbd_components.find_near,
                "vbd chunk",
                reads=dict(components=self.view, contact=surfaces.view),
                writes=dict(crowd=self.crowds),
            )
            launch(
                vbd_components.join_crowd,
                "vbd component",
                writes=dict(components=self.view, crowd=self.crowds),
            )
            launch(vbd_components.find_free, "world", writes=dict(components=self.crowds))
            kinds.append(("world", self.crowds))
        for kind, view in kinds:
            launch(
                vbd_components.weigh_lost,
                "vbd chunk",
                reads=dict(dt=dt, touching=int(touching), touch=touch, descent=descent, s=self.stencils.view),
                writes=dict(components=view),
            )
            launch(vbd_components.solve_components, kind, writes=dict(components=view))
            launch(
                vbd_components.restore_momentum,
                "vbd chunk",
                reads=dict(dt=dt, s=self.stencils.view, components=view),
                writes=dict(v=v),
            )


def _labels(count: int, elements: dict[str, np.ndarray]) -> np.ndarray:
    """Number of the component of each particle (count,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = [np.zeros((0, 2), int)]
    for corners in elements.values():
        pairs += [corners[:, [0, other]] for other in range(1, corners.shape[1])]
    pairs = np.concatenate(pairs)
    pairs = pairs[np.all(pairs >= 0, axis=1)]
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(int)


def _chunks(label: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut runs of equal labels into chunks.

    Returns:
        First entry of each chunk and the end, run of each chunk, first chunk of each run and the end.
    """
    begins = np.append(True, label[1:] != label[:-1])[: len(label)]
    run = np.cumsum(begins) - 1
    inside = np.arange(len(label)) - np.flatnonzero(begins)[run]
    first = np.flatnonzero(inside % size == 0)
    chunk_run = run[first]
    return np.append(first, len(label)), chunk_run, starts_of(chunk_run, int(run.max(initial=-1)) + 1)

"""Which elements each particle has, in the order in which vertex block descent goes over the particles."""

from __future__ import annotations

import itertools

import numpy as np
import warp as wp

from newtonsim.kernels.particles.vbd.elements import StencilView
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.coloring import color_particles
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.system import starts_of

_OTHERS = {
    "triangle": ((1, 2), (2, 0), (0, 1)),
    # around a corner so that the volume that they span with it is positive
    "tetrahedron": ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)),
    # as seen from o0 and o1, then from v0 and v1, where exchanging both pairs leaves the angle as it is
    "edge": ((1, 2, 3), (0, 3, 2), (0, 1, 3), (1, 0, 2)),
    "spring": ((1,), (0,)),
}

_LONGEST = 0.02
"""Part of the distance to its nearest neighbour at rest by which over-relaxation lengthens a particle's step.

Longer ones leave the range in which the energies are nearly quadratic: a light rope that goes slack at large
steps explodes.
"""


class Stencils:
    """The particles of a model by colour, with the elements around each.

    The colours are those of the model where no element has two particles of one colour, bending edges
    included; otherwise own ones.

    Args:
        model: The model.

    Attributes:
        view: What kernels see.
        colors: Of each colour: the name of its kind of index, and its first place in the order.
        starts: Kinds of index, see `Shard`.
    """

    def __init__(self, model: Model):
        self.model = model
        owner = model.particle_world.numpy() if model.particle_count else np.zeros(0, int)
        elements = elements_of(model)
        groups = _groups(model, elements)
        groups = [group[np.argsort(owner[group], kind="stable")] for group in groups]
        order = np.concatenate([np.zeros(0, int), *groups])
        first = np.concatenate(([0], np.cumsum([len(group) for group in groups]))).astype(int)
        self.starts = {
            f"vbd colour {color}": starts_of(owner[group], model.world_count)
            for color, group in enumerate(groups)
        }
        self.colors = list(zip(self.starts, first[:-1].tolist()))
        self.view = StencilView()
        device, count = model.device, model.particle_count
        self.view.x, self.view.u = (zeros(count, dtype=wp.vec3, device=device) for _ in range(2))
        self.view.longest = put(_LONGEST * _sizes(model, elements), dtype=float, device=device)
        self.view.vertex = put(order, dtype=int, device=device)
        place = np.zeros(count, int)
        place[order] = np.arange(count)
        self._lay_out_springs(elements["spring"], place)
        self._lay_out_triangles(elements["triangle"], place)
        self._lay_out_tetrahedra(elements["tetrahedron"], place)
        self._lay_out_edges(elements["edge"], place)

    def _put(self, values: np.ndarray) -> wp.array:
        return put(values.reshape(-1), dtype=int, device=self.model.device)

    def _rows(self, count: int) -> wp.array:
        return zeros(count, dtype=float, device=self.model.device)

    def _lay_out_springs(self, elements: np.ndarray, place: np.ndarray) -> None:
        start, numbered, _ = _stencils(elements, _OTHERS["spring"], place)
        self.view.spring_start = self._put(start)
        self.view.spring_end = self._put(numbered)
        self.view.spring_row = self._rows(2 * len(elements))

    def _lay_out_triangles(self, elements: np.ndarray, place: np.ndarray) -> None:
        start, numbered, count = _stencils(elements, _OTHERS["triangle"], place)
        self.view.triangle_start = self._put(start)
        self.view.triangle_corner = self._put(numbered[:, :-1])
        self.view.triangle_element = self._put(numbered[:, -1])
        self.view.triangle_row = self._rows(8 * count)

    def _lay_out_tetrahedra(self, elements: np.ndarray, place: np.ndarray) -> None:
        start, numbered, count = _stencils(elements, _OTHERS["tetrahedron"], place)
        self.view.tetrahedron_start = self._put(start)
        self.view.tetrahedron_corner = self._put(numbered)
        self.view.tetrahedron_row = self._rows(8 * count)
        self.view.tetrahedron_damping = self._rows(12 * count)

    def _lay_out_edges(self, elements: np.ndarray, place: np.ndarray) -> None:
        number = np.flatnonzero(np.all(elements >= 0, axis=1))
        slot, other, element = _pairs(elements[number], _OTHERS["edge"], place)
        opposite = np.repeat((1, 1, 0, 0), len(number))
        order = np.lexsort((opposite, slot))
        numbered = np.concatenate([other, number[element][:, None]], axis=1)[order]
        start = starts_of(slot[order], len(place))
        on_edge = np.bincount(slot[opposite == 0], minlength=len(place))
        self.view.edge_start = self._put(start)
        self.view.edge_middle = self._put(start[:-1] + on_edge)
        self.view.edge_corner = self._put(numbered)
        self.view.edge_row = self._rows(2 * len(elements))


def _sizes(model: Model, elements: dict[str, np.ndarray]) -> np.ndarray:
    """Distance of each particle from the nearest one that shares an element with it at rest (n,) [m]."""
    x = model.particle_q.numpy() if model.particle_count else np.zeros((0, 3))
    sizes = np.full(len(x), np.inf)
    for corners in elements.values():
        for a, b in itertools.combinations(range(corners.shape[1]), 2):
            pairs = corners[:, [a, b]]
            pairs = pairs[np.all(pairs >= 0, axis=1)]
            length = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
            for side in (0, 1):
                np.minimum.at(sizes, pairs[:, side], np.where(length > 0.0, length, np.inf))
    return np.where(np.isfinite(sizes), sizes, 0.0)


def elements_of(model: Model) -> dict[str, np.ndarray]:
    """Particles of the springs (n, 2), triangles (n, 3), bending edges (n, 4) and tetrahedra (n, 4)."""
    arrays = {
        "spring": (model.spring_indices, 2),
        "triangle": (model.tri_indices, 3),
        "edge": (model.edge_indices, 4),
        "tetrahedron": (model.tet_indices, 4),
    }
    return {
        name: np.zeros((0, width), int) if array is None else array.numpy().astype(int).reshape(-1, width)
        for name, (array, width) in arrays.items()
    }


def _stencils(
    elements: np.ndarray, others: tuple[tuple[int, ...], ...], place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """First pair of each particle and the end of the last, then pairs by particle, and how many they are.

    A pair is of a particle and an element: the element's other particles, and its number.
    """
    slot, other, element = _pairs(elements, others, place)
    order = np.argsort(slot, kind="stable")
    numbered = np.concatenate([other, element[:, None]], axis=1)[order]
    return starts_of(slot[order], len(place)), numbered, len(order)


def _pairs(
    elements: np.ndarray, others: tuple[tuple[int, ...], ...], place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of a particle and an element: place of the particle, the other particles, the element."""
    slot = np.concatenate([place[elements[:, corner]] for corner in range(len(others))])
    other = np.concatenate([elements[:, list(rest)] for rest in others])
    return slot, other, np.tile(np.arange(len(elements)), len(others))


def _groups(model: Model, elements: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The particles of each colour."""
    count = model.particle_count
    colors = np.full(count, -1)
    for color, group in enumerate(model.particle_color_groups):
        colors[group.numpy()] = color
    if np.any(colors < 0) or not all(_is_proper(colors, corners) for corners in elements.values()):
        colors = _color_each_world(model, elements)
    return [np.flatnonzero(colors == color) for color in range(int(colors.max(initial=-1)) + 1)]


def _is_proper(colors: np.ndarray, corners: np.ndarray) -> bool:
    """Whether no element (n, k) has two particles of one colour; corners below 0 do not count."""
    at = np.where(corners >= 0, colors[corners], -1 - np.arange(corners.shape[1]))
    ordered = np.sort(at, axis=1)
    return not np.any(ordered[:, 1:] == ordered[:, :-1])


def _color_each_world(model: Model, elements: dict[str, np.ndarray]) -> np.ndarray:
    """Colours of all particles (n,); equal worlds have equal ones, so that each moves as it would alone."""
    owner = model.particle_world.numpy().astype(int)
    colors = np.zeros(model.particle_count, int)
    known: dict[tuple, np.ndarray] = {}
    order = np.argsort(owner, kind="stable")
    bounds = starts_of(owner[order] + 1, model.world_count + 1)
    local = np.zeros(model.particle_count, int)
    by_world = {name: _by_world(corners, owner, model.world_count) for name, corners in elements.items()}
    for w, (begin, end) in enumerate(itertools.pairwise(bounds)):
        particles = order[begin:end]
        local[particles] = np.arange(len(particles))
        own = {name: np.where(parts[w] < 0, -1, local[parts[w]]) for name, parts in by_world.items()}
        key = (len(particles), *(corners.tobytes() for corners in own.values()))
        if key not in known:
            known[key] = _color_one(len(particles), own)
        colors[particles] = known[key]
    return colors


def _by_world(corners: np.ndarray, owner: np.ndarray, worlds: int) -> list[np.ndarray]:
    """The elements (n, k) of the global world and of each other one."""
    world = owner[corners.max(axis=1)] + 1 if len(corners) else np.zeros(0, int)
    order = np.argsort(world, kind="stable")
    return np.split(corners[order], starts_of(world[order], worlds + 1)[1:-1])


def _color_one(count: int, elements: dict[str, np.ndarray]) -> np.ndarray:
    """Colours of the particles of one world (count,)."""
    edges = elements["edge"]
    groups = color_particles(
        count,
        tri_indices=elements["triangle"],
        # all four particles of a bending edge feel each other, as those of a tetrahedron do
        tet_indices=np.concatenate([elements["tetrahedron"], edges[np.all(edges >= 0, axis=1)]]),
        spring_indices=elements["spring"].reshape(-1),
    )
    colors = np.zeros(count, int)
    for color, group in enumerate(groups):
        colors[group] = color
    return colors

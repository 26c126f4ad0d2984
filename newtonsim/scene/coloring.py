"""Colouring of particles, so that those of one colour can be updated in parallel.

Pereira, Palsberg, "Register allocation via coloring of chordal graphs", APLAS 2005 (maximum cardinality
search); Ton-That, Kry, Andrews, "Parallel block Neo-Hookean XPBD using graph clustering", Computers &
Graphics 110, 2023 (degree-ordered greedy). `warp.utils` provides the searches; the graph is built here.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.scene.enums import ColoringAlgorithm


def element_graph(
    tri_indices: npt.ArrayLike = (),
    edge_indices: npt.ArrayLike = (),
    tet_indices: npt.ArrayLike = (),
    spring_indices: npt.ArrayLike = (),
) -> np.ndarray:
    """Return the pairs (m, 2), low index first, of particles that share an element.

    Args:
        tri_indices: Triangles (n, 3).
        edge_indices: Bending edges (n, 4); they connect the two opposite particles.
        tet_indices: Tetrahedra (n, 4).
        spring_indices: Springs, flat.
    """
    tri = np.asarray(tri_indices, np.int64).reshape(-1, 3)
    edge = np.asarray(edge_indices, np.int64).reshape(-1, 4)
    tet = np.asarray(tet_indices, np.int64).reshape(-1, 4)
    pairs = [tri[:, p] for p in ([0, 1], [1, 2], [2, 0])]
    pairs += [tet[:, p] for p in ([0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3])]
    pairs += [edge[:, [0, 1]], edge[:, [2, 3]]] if len(edge) else []
    pairs.append(np.asarray(spring_indices, np.int64).reshape(-1, 2))
    graph = np.sort(np.concatenate(pairs), axis=1)
    return np.unique(graph[(graph[:, 0] >= 0) & (graph[:, 0] != graph[:, 1])], axis=0)


def color_particles(
    particle_count: int,
    *,
    tri_indices: Sequence = (),
    edge_indices: Sequence = (),
    tet_indices: Sequence = (),
    spring_indices: Sequence = (),
    balance: bool = True,
    target_ratio: float = 1.1,
    algorithm: ColoringAlgorithm = ColoringAlgorithm.MCS,
) -> list[np.ndarray]:
    """Colour particles so that no element has two of one colour.

    Args:
        particle_count: Number of particles.
        tri_indices: Triangles (n, 3).
        edge_indices: Bending edges (n, 4), empty to leave bending out.
        tet_indices: Tetrahedra (n, 4).
        spring_indices: Springs, flat.
        balance: Whether to balance the sizes of the colours.
        target_ratio: Ratio of the largest to the smallest colour at which balancing stops.
        algorithm: The search algorithm.

    Returns:
        The particles of each colour, int32.
    """
    if not isinstance(algorithm, ColoringAlgorithm):
        raise ModelError(f"coloring_algorithm must be a ColoringAlgorithm, got {algorithm!r}")
    if particle_count == 0:
        return []
    graph = element_graph(tri_indices, edge_indices, tet_indices, spring_indices)
    if len(graph) and graph.max() >= particle_count:
        raise ModelError(f"colouring: an element uses particle {graph.max()} of {particle_count}")
    return _color_graph(particle_count, graph, algorithm, target_ratio if balance else None)


def _color_graph(
    nodes: int, graph: np.ndarray, algorithm: ColoringAlgorithm, balance_to: float | None = None
) -> list[np.ndarray]:
    """Colour the nodes of a graph of edges (m, 2); balance colours up to the ratio `balance_to`."""
    if len(graph) == 0:
        return [np.arange(nodes, dtype=np.int32)]
    search = wp.utils.GraphColoringAlgorithm
    edges = wp.array(graph.astype(np.int32), dtype=wp.int32, device="cpu")
    colors = wp.zeros(nodes, dtype=wp.int32, device="cpu")
    kind = search.MCS if algorithm == ColoringAlgorithm.MCS else search.GREEDY
    count = wp.utils.graph_coloring_assign(edges, colors, kind)
    if balance_to is not None and count > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the graph may not allow the ratio
            wp.utils.graph_coloring_balance(edges, colors, count, balance_to)
    groups = colors.numpy()
    return [np.flatnonzero(groups == color).astype(np.int32) for color in range(count)]


def color_springs(pairs: npt.ArrayLike) -> list[np.ndarray]:
    """Colour springs so that no two of one colour share a particle.

    Args:
        pairs: Particles of each spring (n, 2).

    Returns:
        The springs of each colour, int32.
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    if not len(pairs):
        return []
    ends = pairs.reshape(-1)
    order = np.argsort(ends, kind="stable")
    springs = order // 2  # springs, grouped by particle
    ends = ends[order]
    conflicts = [np.zeros((0, 2), np.int64)]
    reach = 1
    while True:  # every two springs at one particle, by their distance in the group
        together = ends[reach:] == ends[:-reach]
        if not together.any():
            break
        conflicts.append(np.stack([springs[:-reach][together], springs[reach:][together]], axis=1))
        reach += 1
    graph = np.unique(np.sort(np.concatenate(conflicts), axis=1), axis=0)
    return _color_graph(len(pairs), graph[graph[:, 0] != graph[:, 1]], ColoringAlgorithm.GREEDY)


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

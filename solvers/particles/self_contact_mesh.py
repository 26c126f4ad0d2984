"""Topology of the triangles of a model, and the order in which a tree holds them."""

from __future__ import annotations

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.scene.model import Model

LEAF = 4
"""Most triangles in a leaf of the tree."""
SUBTREE = 32
"""Leaves of a subtree that one thread encloses."""


class SurfaceMesh:
    """Triangles of all worlds, with their neighbours and their places in a tree.

    Args:
        model: The model; it has triangles.

    Attributes:
        worlds: Number of worlds.
        world: World of each particle, (P,).
        triangles: Corners, ordered by world, (T, 3).
        across: Particle opposite each side in the next triangle, -1 on a border, (T, 3).
        component: Which connected surface each particle belongs to, (P,).
        neighbor_start: Where the neighbours of each particle begin, (P + 1,).
        neighbor: Particles that share an edge with each.
        vertex_counts: Particles on triangles of each world, (W,).
        triangle_counts: Triangles of each world, (W,).
        edge_counts: Edges of each world, (W,).
        leaves: Leaves of each world's tree, a power of two or 0, (W,).
        leaf_first: First leaf of each world, (W + 1,).
        leaf_start: First triangle of each leaf, (L + 1,).
        subtrees: Subtrees of each world, a power of two or 0, (W,).
        subtree_first: First subtree of each world, (W + 1,).
        mean_edges: Mean length of the edges of each world [m], (W,).

    Raises:
        ModelError: Triangles of the global world stand beside others.
    """

    def __init__(self, model: Model):
        world = model.particle_world.numpy().astype(np.int64)
        triangles = model.tri_indices.numpy().reshape(-1, 3).astype(np.int64)
        owner = world[triangles[:, 0]]
        self.worlds = max(model.world_count, 1)
        if np.any(owner < 0) and self.worlds > 1:
            raise ModelError("self-contact: triangles of the global world beside several worlds")
        self.world = np.maximum(world, 0)
        sorting = np.argsort(np.maximum(owner, 0), kind="stable")
        self.triangles = triangles[sorting]
        self._owner = np.maximum(owner, 0)[sorting]
        count = model.particle_count
        self._find_neighbors(count, model.particle_q.numpy())
        self._count_by_world(count)
        self._lay_out_trees()

    def _find_neighbors(self, count: int, x: np.ndarray) -> None:
        """Edges, what lies across them, neighbours and connected components."""
        tri = self.triangles
        sides = np.stack([tri, tri[:, [1, 2, 0]]], axis=2).reshape(-1, 2)
        opposite = tri[:, [2, 0, 1]].reshape(-1)
        key = sides.min(axis=1) * count + sides.max(axis=1)
        order = np.argsort(key, kind="stable")
        same = key[order][1:] == key[order][:-1]
        across = np.full(len(key), -1, np.int64)
        across[order[1:][same]] = opposite[order[:-1][same]]
        across[order[:-1][same]] = opposite[order[1:][same]]
        self.across = across.reshape(-1, 3)
        self._side_key = key.reshape(-1, 3)
        edges = np.unique(key)
        a, b = edges // count, edges % count
        self._edge_world = self.world[a]
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        graph = coo_array((np.ones(len(a)), (a, b)), shape=(count, count))
        self.component = connected_components(graph, directed=False)[1]
        both = np.concatenate([a, b])
        order = np.argsort(both, kind="stable")
        self.neighbor = np.concatenate([b, a])[order]
        self.neighbor_start = np.searchsorted(both[order], np.arange(count + 1))
        lengths = np.linalg.norm(x[a] - x[b], axis=1)
        edges = np.bincount(self._edge_world, minlength=self.worlds)
        self.mean_edges = np.bincount(self._edge_world, lengths, self.worlds) / np.maximum(edges, 1)

    def _count_by_world(self, count: int) -> None:
        used = np.zeros(count, bool)
        used[self.triangles] = True
        self.vertex_counts = np.bincount(self.world[used], minlength=self.worlds)
        self.triangle_counts = np.bincount(self._owner, minlength=self.worlds)
        self.edge_counts = np.bincount(self._edge_world, minlength=self.worlds)

    def _lay_out_trees(self) -> None:
        """Complete binary trees whose leaves hold equal shares of the triangles."""
        needed = -(-self.triangle_counts // LEAF)
        self.leaves = np.where(needed > 0, 2 ** np.ceil(np.log2(np.maximum(needed, 1))).astype(int), 0)
        self.leaf_first = np.concatenate(([0], np.cumsum(self.leaves)))
        self.subtrees = np.where(self.leaves > 0, np.maximum(self.leaves // SUBTREE, 1), 0)
        self.subtree_first = np.concatenate(([0], np.cumsum(self.subtrees)))
        self._first = np.concatenate(([0], np.cumsum(self.triangle_counts)))
        starts = [
            first + np.arange(m) * n // m
            for first, n, m in zip(self._first, self.triangle_counts, self.leaves)
            if m
        ]
        self.leaf_start = np.concatenate([*starts, [len(self.triangles)]])

    def order(self, x: np.ndarray) -> np.ndarray:
        """Order of the triangles (T,) in which those that stand together are near each other.

        Sets are halved by the median along their longest side, until they are leaves.

        Args:
            x: Positions (P, 3) [m].
        """
        centers = x[self.triangles].astype(np.float64).mean(axis=1)
        order = np.arange(len(centers))
        for first, count, leaves in zip(self._first, self.triangle_counts, self.leaves):
            own = slice(first, first + count)
            order[own] = first + _halve(centers[own], int(leaves))
        return order

    def owned(self, order: np.ndarray) -> np.ndarray:
        """Bits of the corners (0..2) and sides (3..5) that no earlier triangle of an order has, (T,)."""
        bits = np.zeros((len(order), 3), np.int64)
        for names, bit in ((self.triangles, 1), (self._side_key, 8)):
            flat = names[order].reshape(-1)
            first = np.zeros(len(flat), np.int64)
            first[np.unique(flat, return_index=True)[1]] = bit
            bits += first.reshape(-1, 3)
        return bits @ np.array([1, 2, 4])


def _halve(points: np.ndarray, leaves: int) -> np.ndarray:
    """Order of points (n, 3) such that equal shares of them are the leaves of a tree of median splits."""
    count = len(points)
    order = np.arange(count)
    sets = 1
    while sets < leaves:
        starts = np.arange(sets) * count // sets
        sizes = np.diff(np.append(starts, count))
        member = np.repeat(np.arange(sets), sizes)
        sorted_points = points[order]
        extent = np.maximum.reduceat(sorted_points, starts) - np.minimum.reduceat(sorted_points, starts)
        axis = np.argmax(extent, axis=1)[member]
        order = order[np.lexsort((sorted_points[np.arange(count), axis], member))]
        sets *= 2
    return order

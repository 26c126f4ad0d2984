"""Islands of a world against the connected components that SciPy finds."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from small_trees import SmallForest, mixed

from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.islands import IslandView, find_islands
from newtonsim.kernels.constraints.rows import RowsView

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, find_islands)

SIZES = [[-1], [-1, 0], [-1, 0, 1, 1, 0, 2]]


class Worlds:
    """Trees of several worlds with random rows on dofs, between bodies, and of contacts.

    Args:
        rng: Random numbers.
        counts: Trees of each world.
        links: Rows between bodies, and places for contacts, of each world.
        device: Where it runs.
    """

    def __init__(self, rng: np.random.Generator, counts: list[int], links: list[int], device: str):
        self.rng, self.counts, self.links, self.device = rng, counts, links, device
        trees = [SIZES[k] for k in rng.integers(3, size=sum(counts))]
        self.forest = SmallForest(mixed(trees, rng), device)
        self.world = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        self.islands, self.rows, self.contacts = IslandView(), RowsView(), ContactView()
        self._list_trees()
        self._add_dof_rows()
        self._add_links()

    def _ints(self, values) -> wp.array:
        return self.forest.ints(values)

    def _list_trees(self) -> None:
        islands, ints, count = self.islands, self._ints, len(self.world)
        listed = np.argsort(self.world, kind="stable")
        islands.tree_start = ints(np.cumsum([0, *self.counts]))
        islands.world_tree, islands.home = ints(listed), ints(np.argsort(listed))
        islands.label, islands.tree, islands.count = (
            ints(np.zeros(n)) for n in (count, count, len(self.counts))
        )
        for name in ("trees", "dofs", "pairs", "contacts"):
            setattr(islands, name, wp.zeros(count, dtype=wp.vec2i, device=self.device))
        islands.dof_start, islands.dof = self.forest.view.dof_start, self.forest.view.dof

    def _add_dof_rows(self) -> None:
        """Rows on some dofs of each world, in any order; not all places are in use."""
        dof, ints = self.rows.dof, self._ints
        owner = self.world[self.forest.tree_of]
        chosen = [self.rng.permutation(np.flatnonzero(owner == w)) for w in range(len(self.counts))]
        self.dof_count = np.array([self.rng.integers(len(dofs) + 1) for dofs in chosen])
        self.dof_start = np.cumsum([0, *map(len, chosen)])
        source = self.rng.permutation(self.dof_start[-1])
        self.row_dof = np.concatenate(chosen)
        dof.source, dof.source_dof = ints(source), ints(self.row_dof[np.argsort(source)])
        dof.world_start, dof.world_count = ints(self.dof_start), ints(self.dof_count)
        self.islands.dof_row = ints(np.full(self.dof_start[-1], -1))

    def _add_links(self) -> None:
        """Rows between bodies and contacts, some of them idle; a few places for contacts are not in use."""
        rng, ints = self.rng, self._ints
        self.link_start = np.cumsum([0, *self.links])
        self.pair_leaf, self.contact_leaf = self._leaves(), self._leaves()
        self.pair_acts, self.contact_acts = (rng.random(self.link_start[-1]) < 0.7 for _ in range(2))
        self.used = np.array([rng.integers(n + 1) for n in self.links])
        pair, contact = self.rows.pair, self.rows.contact
        pair.world_start = self.contacts.world_start = ints(self.link_start)
        self.contacts.world_count = ints(self.used)
        pair.leaf, contact.leaf = (
            wp.array(leaf, dtype=wp.vec2i, device=self.device) for leaf in (self.pair_leaf, self.contact_leaf)
        )
        pair.delassus = self.forest.floats(self.pair_acts)
        normal = np.stack([self.contact_acts, np.ones(len(self.contact_acts))], axis=1)
        contact.delassus = wp.array(normal, dtype=wp.vec2, device=self.device)
        self.islands.pair, self.islands.contact = (ints(np.full(self.link_start[-1], -1)) for _ in range(2))

    def _leaves(self) -> np.ndarray:
        """Two dofs of one world for each row, or one and the rest of the world, on either side."""
        owner, leaves = self.world[self.forest.tree_of], []
        for w, count in enumerate(self.links):
            leaf = self.rng.choice(np.flatnonzero(owner == w), (count, 2))
            alone = np.flatnonzero(self.rng.random(count) < 0.2)
            leaf[alone, self.rng.integers(2, size=len(alone))] = -1
            leaves.append(leaf)
        return np.concatenate(leaves)

    def active(self, w: int) -> dict[str, np.ndarray]:
        """Rows of world w that can act, in their order."""
        places = np.arange(*self.link_start[w : w + 2])
        return {
            "dof_row": self.dof_start[w] + np.arange(self.dof_count[w]),
            "pair": places[self.pair_acts[places]],
            "contact": places[: self.used[w]][self.contact_acts[places[: self.used[w]]]],
        }

    def tree_of_row(self, kind: str, rows: np.ndarray) -> np.ndarray:
        """A tree that each row touches."""
        if kind == "dof_row":
            return self.forest.tree_of[self.row_dof[rows]]
        leaf = (self.pair_leaf if kind == "pair" else self.contact_leaf)[rows]
        return self.forest.tree_of[leaf.max(axis=1)]

    def components(self) -> np.ndarray:
        """Number of the connected component of each tree."""
        edges = []
        for w in range(len(self.counts)):
            active = self.active(w)
            edges += [self.pair_leaf[active["pair"]], self.contact_leaf[active["contact"]]]
        both = np.concatenate(edges)
        i, j = self.forest.tree_of[both[both.min(axis=1) >= 0]].T
        graph = coo_array((np.ones(len(i)), (i, j)), (len(self.world), len(self.world)))
        return connected_components(graph, directed=False)[1]


@pytest.mark.parametrize("seed", range(6))
def test_islands_are_connected_components_with_their_rows(device, seed):
    """Each with its trees and rows in their order, one after the other by their first trees."""
    rng = np.random.default_rng(seed)
    worlds = Worlds(rng, [30, 1, 12, 80], [12, 2, 0, 50], device)
    views = (worlds.forest.view, worlds.rows, worlds.contacts)
    call(device, find_islands, *views, np.arange(4), worlds.islands)
    component, islands = worlds.components(), worlds.islands
    start, count = islands.tree_start.numpy(), islands.count.numpy()
    ranges = {"tree": "trees", "dof_row": "dofs", "pair": "pairs", "contact": "contacts"}
    for w in range(4):
        own = np.flatnonzero(worlds.world == w)
        firsts = np.unique(component[own], return_index=True)[1]
        assert count[w] == len(firsts)
        numbers = component[own[np.sort(firsts)]]
        listed = {"tree": own, **worlds.active(w)}
        for kind, name in ranges.items():
            ends = getattr(islands, name).numpy()[start[w] : start[w] + count[w]]
            entries = getattr(islands, kind).numpy()
            tree = own if kind == "tree" else worlds.tree_of_row(kind, listed[kind])
            for k, (begin, end) in enumerate(ends):
                expected = listed[kind][component[tree] == numbers[k]]
                np.testing.assert_array_equal(entries[begin:end], expected)
            assert np.sum(ends[:, 1] - ends[:, 0]) == len(listed[kind])


def test_a_row_with_the_world_couples_nothing(device):
    """Two bodies on the same ground are two islands, one on the other is one."""
    rng = np.random.default_rng(9)
    worlds = Worlds(rng, [4], [3], device)
    leaf = [int(dofs[0]) for dofs in worlds.forest.dofs]
    worlds.rows.pair.delassus.zero_()
    worlds.rows.contact.delassus.fill_(1.0)
    worlds.contacts.world_count.fill_(3)
    worlds.rows.contact.leaf.assign([[leaf[0], -1], [-1, leaf[3]], [leaf[3], leaf[1]]])
    call(device, find_islands, worlds.forest.view, worlds.rows, worlds.contacts, 0, worlds.islands)
    assert worlds.islands.count.numpy()[0] == 3
    np.testing.assert_array_equal(worlds.islands.tree.numpy(), [0, 1, 3, 2])
    np.testing.assert_array_equal(worlds.islands.contact.numpy(), [0, 1, 2])

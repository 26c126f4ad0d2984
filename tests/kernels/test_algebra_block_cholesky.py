"""Cholesky factorization in blocks of trees, against dense matrices of NumPy and minimum degree on sets."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import warp as wp
from kernel_calls import DeviceFunctions
from small_trees import SmallForest, mixed

from newtonsim.kernels.algebra.block_cholesky import factorize, solve
from newtonsim.kernels.algebra.block_system import (
    BlockSystemView,
    add_row,
    add_triple,
    begin_system,
    couple,
    lay_out,
    set_identity,
)
from newtonsim.kernels.constraints.adjoint.unsymmetric import factorize_lu, solve_lu

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    add_row,
    add_triple,
    begin_system,
    couple,
    factorize,
    factorize_lu,
    lay_out,
    set_identity,
    solve,
    solve_lu,
)

ALONE = dict(index=0, lane=0, shift=0)
"""A team of one thread."""

GUARD = 77
FREE = [-1, 0, 1, 2, 3, 4]
BRANCHED = [-1, 0, 1, 1, 0, 4]
SEVEN = [-1, 0, 1, 2, 1, 4, 4]
FORESTS = {
    "free bodies": [FREE] * 9,
    "hinges": [[-1]] * 12,
    "robots": [SEVEN, [-1, 0], SEVEN, [-1], [-1, 0, 1, 1, 0, 2, 5, 5, 3, 8, 0]],
    "mixed": [FREE, SEVEN, [-1], FREE, BRANCHED, [-1, 0], FREE, [-1], BRANCHED, SEVEN],
}


class System:
    """A matrix of two worlds, with guards behind the room of each.

    Args:
        forest: The trees, of which each world has those of one list.
        trees: Trees of each world.
        patterns: Room of each world for patterns; None for as much as there can be.
        entries: Room of each world for panels, likewise.
    """

    def __init__(
        self,
        forest: SmallForest,
        trees: list[list[int]],
        patterns: int | None = None,
        entries: int | None = None,
    ):
        self.forest, self.trees = forest, trees
        ints, count = forest.ints, len(forest.dofs)
        size = np.array([len(dofs) for dofs in forest.dofs])
        most = sum(8 * n for n in size) ** 2
        self.room = {"pattern": count**2 if patterns is None else patterns}
        self.room["entry"] = most if entries is None else entries
        sys = self.view = BlockSystemView()
        sys.tree_start = ints(np.cumsum([0, *map(len, trees)]))
        sys.nodes = ints([0, 0])
        sys.size, sys.start = ints(size), ints(np.cumsum([0, *size])[:-1])
        sys.place = ints([np.flatnonzero(dofs == d)[0] for d, dofs in self._homes()])
        for name in ("node", "width", "entry", "degree", "rank", "order", "first", "count", "panel"):
            setattr(sys, name, ints(np.full(count, GUARD)))
        words = [len(own) * ((len(own) + 31) // 32) for own in trees]
        sys.word_start = ints(np.cumsum([0, *words]))
        sys.words = wp.zeros(sum(words), dtype=wp.uint32, device=forest.device)
        # the room of a third world, which there is not, takes the guards
        room = self.room
        sys.pattern_start = ints([0, room["pattern"], 2 * room["pattern"]])
        sys.pattern, sys.offset = (ints(np.full(2 * room["pattern"] + count, GUARD)) for _ in range(2))
        sys.entry_start = ints([0, room["entry"], 2 * room["entry"]])
        sys.L = forest.floats(np.full(2 * room["entry"] + most, GUARD))
        sys.x = forest.floats(np.zeros(len(forest.parents)))

    def _homes(self) -> Iterable[tuple[int, np.ndarray]]:
        return ((d, self.forest.dofs[t]) for d, t in enumerate(self.forest.tree_of))

    def lay_out(self, w: int, leaves: list[tuple[int, int]]) -> float:
        """Lay out world w for rows with these last degrees of freedom."""
        listed = self.forest.ints([0, *self.trees[w]])
        begin, device = 1, self.forest.device
        call(device, begin_system, self.view, w, listed, begin, begin + len(self.trees[w]))
        for leaf in leaves:
            call(device, couple, self.forest.view, self.view, w, leaf)
        return float(call(device, lay_out, self.view, w)[0])

    def of_world(self, name: str, w: int) -> np.ndarray:
        """What world w has in an array with one entry a node."""
        start = self.view.tree_start.numpy()
        return getattr(self.view, name).numpy()[start[w] : start[w + 1]]

    def used(self, w: int) -> dict[str, int]:
        """How much room world w takes."""
        width = self.of_world("width", w)
        last = self.of_world("order", w)[-1]
        pitch = 8 if width[last] == 6 else width[last]
        return {
            "pattern": int(self.of_world("count", w).sum()),
            "entry": int(self.of_world("panel", w)[last] + width[last] * pitch)
            - int(self.view.entry_start.numpy()[w]),
        }

    def beyond(self, w: int) -> np.ndarray:
        """Whatever follows the room of world w."""
        sys, room = self.view, self.room
        indices = [a.numpy()[(w + 1) * room["pattern"] :] for a in (sys.pattern, sys.offset)]
        return np.concatenate([*indices, sys.L.numpy()[(w + 1) * room["entry"] :]])


def random_leaves(
    forest: SmallForest, trees: list[int], count: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Last degrees of freedom of rows between two trees, within a tree, and with the world."""
    leaves = []
    for _ in range(count):
        a, b = (int(rng.choice(forest.dofs[t])) for t in rng.choice(trees, 2))
        leaves.append([(a, b), (a, b), (a, -1), (-1, b)][rng.integers(4)])
    # the whole of a tree: rows of free bodies are mostly such
    ends = [int(forest.dofs[t][-1]) for t in trees]
    return leaves + list(itertools.pairwise(ends)) + [(end, -1) for end in ends[::2]]


def random_slope(rng: np.random.Generator) -> np.ndarray:
    """A symmetric matrix (3, 3) without negative eigenvalues, of any rank but 0."""
    root = rng.normal(size=(3, rng.integers(1, 4)))
    return root @ root.T


@pytest.mark.parametrize("kind", FORESTS)
def test_random_systems_are_solved(device, kind):
    """To the rounding of single precision, about 1e-7 times a condition number of a few hundred."""
    rng = np.random.default_rng(0)
    forest = SmallForest(mixed(FORESTS[kind], rng), device)
    depth = max(len(chain) for chain in forest.chains)
    shuffled = rng.permutation(len(forest.dofs))
    trees = [shuffled[:3].tolist(), shuffled[3:].tolist()]
    system, dense = System(forest, trees), np.eye(len(forest.parents))
    leaves = [random_leaves(forest, own, 2 * len(own), rng) for own in trees]
    for w in range(2):
        assert system.lay_out(w, leaves[w]) > 0.0
        call(device, set_identity, ALONE, system.view, w)
    for w, leaf in [(0, leaf) for leaf in leaves[0]] + [(1, leaf) for leaf in leaves[1]]:
        J, G = forest.random_row(rng, leaf, 3), random_slope(rng)
        B = wp.array(forest.row(J, leaf, depth)[None], dtype=wp.vec3, device=device)
        call(device, add_triple, 0, 1, forest.view, system.view, w, leaf, depth, 0, G, B)
        dense += J @ G @ J.T
        j, weight = forest.random_row(rng, leaf, 1)[:, 0], rng.uniform(0.1, 3.0)
        b = wp.array(forest.row(j, leaf, depth)[None], dtype=float, device=device)
        call(device, add_row, 0, 1, forest.view, system.view, w, leaf, depth, 0, weight, b)
        dense += weight * np.outer(j, j)
    right = rng.normal(size=len(forest.parents))
    system.view.x.assign(right[forest.listed])
    for w in range(2):
        call(device, factorize, ALONE, system.view, w)
        call(device, solve, ALONE, system.view, w)
    x = np.linalg.solve(dense, right)
    found = np.empty_like(x)
    found[forest.listed] = system.view.x.numpy()
    assert np.linalg.norm(found - x) < 2e-5 * np.linalg.norm(x)
    # the factor serves once more
    system.view.x.assign((dense @ x)[forest.listed])
    for w in range(2):
        call(device, solve, ALONE, system.view, w)
    found[forest.listed] = system.view.x.numpy()
    assert np.linalg.norm(found - x) < 2e-5 * np.linalg.norm(x)


def rows_of(system: System) -> BlockSystemView:
    """The panels of rows beside those of columns, with guards of their own."""
    view = BlockSystemView()
    for name in BlockSystemView.vars:
        setattr(view, name, getattr(system.view, name))
    view.L = wp.clone(system.view.L)
    return view


@pytest.mark.parametrize("kind", FORESTS)
def test_random_unsymmetric_systems_are_solved(device, kind):
    """Stiff rows whose directions differ on both sides, of two trees or of one and the world."""
    rng = np.random.default_rng(4)
    forest = SmallForest(mixed(FORESTS[kind], rng), device)
    depth = max(len(chain) for chain in forest.chains)
    trees = [list(range(len(forest.dofs))), []]
    system, dense = System(forest, trees), np.eye(len(forest.parents))
    tree_of = np.append(forest.tree_of, -1)
    leaves = [
        leaf
        for leaf in random_leaves(forest, trees[0], 3 * len(trees[0]), rng)
        if tree_of[leaf[0]] != tree_of[leaf[1]]
    ]
    assert system.lay_out(0, leaves) > 0.0
    rows = rows_of(system)
    for view in (system.view, rows):
        call(device, set_identity, ALONE, view, 0)
    for leaf in leaves:
        J, A = forest.random_row(rng, leaf, 3), random_slope(rng)
        A[0] += 10.0 * np.array([1.0, *rng.normal(size=2)])
        B = wp.array(forest.row(J, leaf, depth)[None], dtype=wp.vec3, device=device)
        for view, G in ((system.view, A.T), (rows, A)):
            call(device, add_triple, 0, 1, forest.view, view, 0, leaf, depth, 0, G, B)
        dense += J @ A @ J.T
    assert np.linalg.norm(dense - dense.T) > 0.1 * np.linalg.norm(dense)
    call(device, factorize_lu, system.view, rows, 0, 1.0e-6)
    for _ in range(2):
        right = rng.normal(size=len(dense))
        system.view.x.assign(right[forest.listed])
        call(device, solve_lu, system.view, rows, 0)
        x, found = np.linalg.solve(dense, right), np.empty(len(dense))
        found[forest.listed] = system.view.x.numpy()
        # rounding of single precision, times what blocks without pivoting make of it
        assert np.linalg.norm(found - x) < 1e-6 * np.linalg.cond(dense) * np.linalg.norm(x)
    assert (system.beyond(0) == GUARD).all()
    assert (rows.L.numpy()[system.room["entry"] :] == GUARD).all()


@pytest.mark.parametrize("kind", FORESTS)
def test_every_node_is_eliminated_once_and_couples_to_later_ones(device, kind):
    rng = np.random.default_rng(1)
    forest = SmallForest(mixed(FORESTS[kind], rng), device)
    trees = [list(range(2)), list(range(2, len(forest.dofs)))]
    system = System(forest, trees)
    for w in range(2):
        system.lay_out(w, random_leaves(forest, trees[w], len(trees[w]), rng))
        order, rank = system.of_world("order", w), system.of_world("rank", w)
        np.testing.assert_array_equal(np.sort(order), np.arange(len(trees[w])))
        np.testing.assert_array_equal(rank[order], np.arange(len(trees[w])))
        np.testing.assert_array_equal(system.of_world("width", w), [len(forest.dofs[t]) for t in trees[w]])
        for node, (first, count) in enumerate(zip(system.of_world("first", w), system.of_world("count", w))):
            ranks = rank[system.view.pattern.numpy()[first : first + count]]
            assert np.all(np.diff([rank[node], *ranks]) > 0)


def chain_graph(n: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(n - 1)]


def grid_graph(n: int) -> list[tuple[int, int]]:
    across = [(n * i + j, n * i + j + 1) for i in range(n) for j in range(n - 1)]
    return across + [(n * i + j, n * (i + 1) + j) for i in range(n - 1) for j in range(n)]


def reference_fill(nodes: int, edges: list[tuple[int, int]]) -> int:
    """Entries below the diagonal of the factor, eliminating a node of least degree at a time, on sets."""
    near: dict[int, set[int]] = {i: set() for i in range(nodes)}
    for i, j in edges:
        near[i].add(j)
        near[j].add(i)
    total = 0
    while near:
        least = min(near, key=lambda i: len(near[i]))
        others = near.pop(least)
        total += len(others)
        for i in others:
            near[i] = (near[i] | others) - {i, least}
    return total


def scipy_fill(nodes: int, edges: list[tuple[int, int]]) -> int:
    """The same by SuperLU's multiple minimum degree."""
    i, j = np.transpose(edges)
    graph = scipy.sparse.coo_array((np.full(len(i), -1.0), (i, j)), (nodes, nodes))
    matrix = (graph + graph.T + 10.0 * scipy.sparse.eye_array(nodes)).tocsc()
    options = {"SymmetricMode": True}
    lu = scipy.sparse.linalg.splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return lu.L.nnz - nodes


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [(50, chain_graph(50)), (144, grid_graph(12)), (33, [(0, i) for i in range(1, 33)])],
    ids=["chain", "grid", "star"],
)
def test_fill_is_that_of_minimum_degree(device, nodes, edges):
    """Whatever the numbers of the trees; multiple minimum degree takes other nodes of the same degree."""
    rng = np.random.default_rng(2)
    forest = SmallForest([-1] * nodes, device)
    system = System(forest, [rng.permutation(nodes).tolist(), []])
    assert system.lay_out(0, edges) > 0.0
    fill = system.used(0)["pattern"]
    node = system.view.node.numpy()
    assert fill <= reference_fill(nodes, [(node[i], node[j]) for i, j in edges])
    assert fill <= 1.2 * scipy_fill(nodes, edges)
    if len(edges) < nodes:
        assert fill == len(edges)  # trees fill in nothing


@pytest.mark.parametrize("short", [None, "pattern", "entry"])
def test_without_room_nothing_is_laid_out(device, short):
    """With just enough room all goes well; with one entry less the cost is 0; neither writes beyond it."""
    rng = np.random.default_rng(3)
    forest = SmallForest(mixed(FORESTS["mixed"], rng), device)
    trees = [list(range(len(forest.dofs))), []]
    leaves = random_leaves(forest, trees[0], 15, rng)
    ample = System(forest, trees)
    cost = ample.lay_out(0, leaves)
    used = ample.used(0)
    if short:
        used[short] -= 1
    system = System(forest, trees, used["pattern"], used["entry"])
    assert system.lay_out(0, leaves) == (0.0 if short else cost)
    if not short:
        depth = max(len(chain) for chain in forest.chains)
        call(device, set_identity, ALONE, system.view, 0)
        for leaf in leaves:
            B = wp.array(
                forest.row(forest.random_row(rng, leaf, 3), leaf, depth)[None], dtype=wp.vec3, device=device
            )
            call(device, add_triple, 0, 1, forest.view, system.view, 0, leaf, depth, 0, np.eye(3), B)
        call(device, factorize, ALONE, system.view, 0)
        call(device, solve, ALONE, system.view, 0)
    assert np.all(system.beyond(0) == GUARD)

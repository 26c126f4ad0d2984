"""Inverses of dense matrices by teams, and their assembly from rows, against NumPy."""

import numpy as np
import pytest
import warp as wp
from dense_matrices import GUARD, Matrices, well_posed
from kernel_calls import DeviceFunctions
from small_trees import SmallForest, mixed

from newtonsim.kernels.algebra.dense_inverse import (
    LEAST_PIVOT,
    add_row,
    add_triples,
    invert,
    row_length,
    row_times,
    set_identity,
)

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, add_row, add_triples, invert, row_times, set_identity)

ALONE = dict(index=0, lane=0, shift=0)
"""A team of one thread."""

SIZES = [1, 2, 3, 6, 8, 14, 23, 33, 64]
ROBOTS = [[-1, 0, 1, 1, 0, 2, 5], [-1, 0], [-1]]
"""Trees of an island: on which dof of its tree each one hangs."""


def inverses(matrices: Matrices) -> list[np.ndarray]:
    worlds = np.arange(len(matrices.sizes))
    call(matrices.device, invert, ALONE, matrices.view, worlds, np.array(matrices.sizes))
    return matrices.read()


def test_inverse_of_unsymmetric_matrices(device):
    given = [well_posed(n, n) for n in SIZES]
    for A, inverse in zip(given, inverses(Matrices(device, given))):
        error = np.abs(A @ inverse.astype(np.float64) - np.eye(len(A))).max()
        assert error < 1e-6 * np.linalg.cond(A) + 1e-6, len(A)


@pytest.mark.parametrize("n", [2, 5, 14])
def test_pivots_are_exchanged(device, n):
    """A permutation has no pivot on its diagonal."""
    rng = np.random.default_rng(n)
    A = np.roll(np.eye(n), 1, axis=0)[rng.permutation(n)] * rng.uniform(0.5, 2.0, n)
    (inverse,) = inverses(Matrices(device, [A]))
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-6, atol=1e-7)


def test_singular_matrix_stays_finite(device):
    A = np.ones((4, 4))
    (inverse,) = inverses(Matrices(device, [A]))
    assert np.isfinite(inverse).all()
    assert np.abs(inverse).max() < 10.0 / LEAST_PIVOT


def test_product_of_a_row(device):
    rng = np.random.default_rng(3)
    A, x = rng.normal(size=(11, 11)), rng.normal(size=11)
    own = Matrices(device, [A])
    x_device = wp.array(x, dtype=float, device=device)
    product = call(device, row_times, own.view, 0, 11, np.arange(11), x_device)
    np.testing.assert_allclose(product, A @ x, rtol=1e-5)


class Island:
    """An island of three trees, whose dofs mix, with random rows between two of them.

    Args:
        device: Where it is.
        shape: Of an entry of a row.
        kind: Warp's type of it.
    """

    def __init__(self, device: str, shape: tuple[int, ...], kind):
        rng = np.random.default_rng(4)
        self.forest = SmallForest(mixed(ROBOTS, rng), device)
        self.n = len(self.forest.parents)
        self.depth = max(map(len, self.forest.chains))
        robot, small, single = (own[-1] for own in sorted(self.forest.dofs, key=len, reverse=True))
        inner = self.forest.chains[robot][1]
        self.leaves = [(robot, small), (inner, robot), (small, -1), (single, inner), (small, single)]
        B = np.zeros((len(self.leaves), 2 * self.depth, *shape))
        self.dense = np.zeros((len(self.leaves), self.n, *shape))
        for c, leaves in enumerate(self.leaves):
            used: set[int] = set()
            for side, leaf in enumerate(leaves):
                for k, d in enumerate(self.forest.chains[leaf] if leaf >= 0 else []):
                    if d not in used:
                        B[c, side * self.depth + k] = rng.normal(size=shape)
                    self.dense[c, d] += B[c, side * self.depth + k]
                    used.add(d)
        self.B = wp.array(B, dtype=kind, ndim=2, device=device)
        self.matrices = Matrices(device, [np.full((self.n, self.n), GUARD)])

    def clear(self) -> None:
        call(self.matrices.device, set_identity, 0, 1, self.matrices.view, 0, self.n)


def test_rows_are_added_to_the_identity(device):
    island = Island(device, (), float)
    island.clear()
    expected = np.eye(island.n)
    for c, leaf in enumerate(island.leaves):
        weight = 0.5 + c
        call(
            *(device, add_row, 0, 1, island.forest.view, island.matrices.view, 0, island.n),
            *([leaf], island.depth, c, weight, island.B),
        )
        expected += weight * np.outer(island.dense[c], island.dense[c])
    np.testing.assert_allclose(island.matrices.read()[0], expected, rtol=1e-5, atol=1e-5)


def test_triples_of_rows_are_added_with_any_matrix(device):
    island = Island(device, (3,), wp.vec3)
    island.clear()
    expected = np.eye(island.n)
    rng = np.random.default_rng(5)
    for c, leaf in enumerate(island.leaves):
        G = rng.normal(size=(3, 3))
        call(
            *(device, add_triples, 0, 1, island.forest.view, island.matrices.view, 0, island.n),
            *([leaf], island.depth, c, [G], island.B, island.B),
        )
        expected += np.einsum("ia,ab,jb->ij", island.dense[c], G, island.dense[c])
    np.testing.assert_allclose(island.matrices.read()[0], expected, rtol=1e-4, atol=1e-4)


def test_rows_are_whole_vectors(device):
    lengths = DeviceFunctions(f"{__name__}_lengths", row_length)(device, row_length, np.array([1, 8, 9, 23]))
    np.testing.assert_array_equal(lengths, [8, 8, 16, 24])

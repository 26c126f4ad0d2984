"""Dense matrices of several worlds in one array, as kernels that invert them see them."""

import numpy as np
import warp as wp

from newtonsim.kernels.algebra.dense_inverse import DenseView

GUARD = 77.0
"""What stands behind each matrix."""


class Matrices:
    """Matrices of as many worlds, in one array, with guards behind each."""

    def __init__(self, device: str, matrices: list[np.ndarray]):
        self.device, self.sizes = device, [len(A) for A in matrices]
        lengths = [-(-n // 8) * 8 for n in self.sizes]
        room = [n * length + 8 for n, length in zip(self.sizes, lengths)]
        entries = np.cumsum([0, *room])
        memory = np.full(entries[-1], GUARD)
        for A, at, length in zip(matrices, entries, lengths):
            rows = np.zeros((len(A), length))
            rows[:, : len(A)] = A
            memory[at : at + rows.size] = rows.reshape(-1)
        starts = np.cumsum([0, *self.sizes])
        view = self.view = DenseView()
        view.start, view.entry_start = self._ints(starts[:-1]), self._ints(entries)
        view.dof = view.unknown = self._ints(np.arange(starts[-1]))
        view.pivot = self._ints(np.zeros(starts[-1]))
        view.M = wp.array(memory, dtype=float, device=device)
        self.entries, self.lengths = entries, lengths

    def _ints(self, values) -> wp.array:
        return wp.array(np.asarray(values, np.int32), dtype=int, device=self.device)

    def read(self) -> list[np.ndarray]:
        """Return all of them, with nothing written behind."""
        memory = self.view.M.numpy()
        found = []
        for n, at, length in zip(self.sizes, self.entries, self.lengths):
            assert np.all(memory[at + n * length : at + n * length + 8] == GUARD)
            found.append(memory[at : at + n * length].reshape(n, length)[:, :n])
        return found


def well_posed(n: int, seed: int) -> np.ndarray:
    """A matrix of the kind of `newton.coupled`, the identity and unsymmetric rows, in single precision."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, 2 * n))
    G = np.diag(10.0 ** rng.uniform(-2.0, 2.0, 2 * n))
    G[1::2, ::2] += np.diag(rng.uniform(-0.5, 0.5, n)) @ G[::2, ::2]
    return (np.eye(n) + B @ G @ B.T).astype(np.float32).astype(np.float64)

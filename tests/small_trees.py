"""Kinematic trees of a few degrees of freedom, as kernels and as NumPy see them."""

import numpy as np
import warp as wp

from newtonsim.kernels.views.model import LevelView, TreeView


class SmallTree:
    """Degrees of freedom that hang on each other; each moves a body of its own.

    Attributes:
        parents: Degree of freedom on which each one hangs, or -1.
        chains: For each one all that move its body, from the root down to itself.
        view: The tree, world 0, on a device.
        levels: The same level by level; each degree of freedom has a joint of its own.
    """

    def __init__(self, parents: list[int], device: str):
        self.parents, self.device = parents, device
        self.chains: list[list[int]] = []
        for d, parent in enumerate(parents):
            self.chains.append([*(self.chains[parent] if parent >= 0 else []), d])
        depths = [len(chain) - 1 for chain in self.chains]
        tree = self.view = TreeView()
        tree.dof_start = self.ints([0, len(parents)])
        tree.dof = tree.dof_body = tree.body_leaf = self.ints(range(len(parents)))
        tree.dof_depth = self.ints(depths)
        tree.dof_row = self.ints(np.cumsum([0, *[n + 1 for n in depths[:-1]]]))
        tree.row_dof = self.ints(np.concatenate(self.chains))
        tree.world = self.ints([0])
        tree.body_tree = tree.dof_world = self.ints([0] * len(parents))
        order = sorted(range(len(parents)), key=lambda d: (depths[d], parents[d], d))
        starts = [
            *(i for i, d in enumerate(order) if i == 0 or depths[d] != depths[order[i - 1]]),
            len(order),
        ]
        families = [i for i, d in enumerate(order) if i == 0 or parents[d] != parents[order[i - 1]]]
        levels = self.levels = LevelView()
        levels.first = levels.dof_first = self.ints([0, len(starts) - 1])
        levels.joint_start = levels.dof_start = self.ints(starts)
        levels.joint = levels.dof = self.ints(order)
        levels.family = self.ints([sum(f < start for f in families) for start in starts])
        levels.family_start = self.ints([*families, len(order)])

    def ints(self, values) -> wp.array:
        return wp.array(np.array(values, np.int32), dtype=int, device=self.device)

    def floats(self, values) -> wp.array:
        return wp.array(np.array(values, np.float32), dtype=float, device=self.device)

    def random_inertia(self, rng: np.random.Generator) -> np.ndarray:
        """A joint-space inertia: a sum of b bᵀ over rows that are zero off the chain of a body."""
        H = np.diag(rng.uniform(0.5, 1.0, len(self.parents)))
        for chain in self.chains:
            b = np.zeros(len(self.parents))
            b[chain] = rng.normal(size=len(chain))
            H += np.outer(b, b)
        return H

    def sparse(self, H: np.ndarray) -> wp.array:
        """The rows of a matrix along the chains, as kernels store it."""
        return self.floats(np.concatenate([H[d, chain] for d, chain in enumerate(self.chains)]))

    def factors(self, H: np.ndarray) -> wp.array:
        """L below the diagonal and D^(-1/2) on it, H = Lᵀ D L, as kernels store them."""
        H = H.copy()
        L = np.eye(len(H))
        for d in reversed(range(len(H))):
            L[d, :d] = H[d, :d] / H[d, d]
            H[:d, :d] -= H[d, d] * np.outer(L[d, :d], L[d, :d])
        return self.sparse(np.tril(L, -1) + np.diag(np.diag(H) ** -0.5))

    def row(self, b: np.ndarray, leaves: tuple[int, int], depth: int) -> np.ndarray:
        """A row of a Jacobian along the chains of both sides; what both share is with the first."""
        row = np.zeros((2 * depth, *b.shape[1:]))
        seen: set[int] = set()
        for side, leaf in enumerate(leaves):
            for k, d in enumerate(self.chains[leaf] if leaf >= 0 else []):
                if d not in seen:
                    row[side * depth + k] = b[d]
                seen.add(d)
        return row


class SmallForest(SmallTree):
    """Several trees, numbered in the order of their roots.

    Attributes:
        tree_of: Tree of each degree of freedom.
        dofs: Degrees of freedom of each tree, parents before children.
        listed: All of them, tree by tree.
    """

    def __init__(self, parents: list[int], device: str):
        super().__init__(parents, device)
        roots, self.tree_of = np.unique([chain[0] for chain in self.chains], return_inverse=True)
        self.dofs = [np.flatnonzero(self.tree_of == t) for t in range(len(roots))]
        self.listed = np.concatenate(self.dofs)
        self.view.body_tree = self.ints(self.tree_of)
        self.view.dof = self.ints(self.listed)
        self.view.dof_start = self.ints(np.cumsum([0, *map(len, self.dofs)]))

    def random_row(self, rng: np.random.Generator, leaves: tuple[int, int], width: int) -> np.ndarray:
        """A random row of a Jacobian, or several, of what two degrees of freedom move; (dofs, width)."""
        J = np.zeros((len(self.parents), width))
        moving = sorted({d for leaf in leaves if leaf >= 0 for d in self.chains[leaf]})
        J[moving] = rng.normal(size=(len(moving), width))
        return np.float32(J).astype(np.float64)


def mixed(trees: list[list[int]], rng: np.random.Generator) -> list[int]:
    """Parents of the degrees of freedom of all trees, whose numbers mix; of each tree those within it."""
    turns = rng.permutation(np.repeat(np.arange(len(trees)), [len(tree) for tree in trees]))
    numbers = [np.flatnonzero(turns == t) for t in range(len(trees))]
    parents = np.full(len(turns), -1)
    for tree, number in zip(trees, numbers):
        for d, parent in zip(number, tree):
            parents[d] = number[parent] if parent >= 0 else -1
    return parents.tolist()

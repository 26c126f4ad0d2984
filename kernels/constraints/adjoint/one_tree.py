"""Matrices of islands of a single tree, dense and in double precision, which hold the rows' own weights.

Such a matrix, 1 + B M Bᵀ over the degrees of freedom of a robot, has a few dozen rows. Double precision
bears the weights of hard rows, so that one solution by Gauss's elimination with row pivots (Golub, Van Loan,
"Matrix Computations", 2013, section 3.4) replaces the many directions that a factor with bounded weights
takes.

Stage: backward pass of constraints, linear algebra
Called by: kernels/constraints/adjoint/system.py
Reads: B, IslandView, OneTreeView, TreeView, r
Writes: IslandView, OneTreeView, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# degrees of freedom above which a tree is factorized sparsely: dense factors take time by their cube
MOST_DOFS = wp.constant(128)


@wp.struct
class OneTreeView:
    """Room for a matrix of n dofs for each of T trees of at most `MOST_DOFS`.

    A matrix has n rows of n entries, followed by seven more: three for what rows contribute, three for their
    weighted products, and a vector. All are padded to a multiple of four entries.
    """

    start: wp.array(dtype=int)  # (T) where the room of a tree begins in `M`
    place: wp.array(dtype=int)  # (D) place of each dof within its tree
    M: wp.array(dtype=wp.float64)
    pivot: wp.array(dtype=int)  # (D) by tree: row that took its place in the elimination


_MATRIX = """
    const int t = islands.tree.data[islands.trees.data[k][0]];
    const int n = islands.dof_start.data[t + 1] - islands.dof_start.data[t];
    const int ld = (n + 3) & ~3;
    double* __restrict__ M = s.M.data + s.start.data[t];
"""
"""The matrix `M` of an island's only tree, which has `n` rows of `ld` entries."""

_EXPANDED = """
    double* __restrict__ b = M + n * ld;
    for (int j = 0; j < count * ld; ++j) b[j] = 0.0;
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const float* entry = (const float*)(B.data + (size_t)c * B.shape[1] + side * depth);
        for (int m = 0; m <= tree.dof_depth.data[leaf[side]]; ++m)
            for (int q = 0; q < count; ++q)
                b[q * ld + s.place.data[dof[m]]] += (double)entry[m * count + q];
    }
"""
"""The `count` rows that B holds, as dense rows `b`: sums of their chains on both sides."""


@wp.func_native(
    """
    if (islands.trees.data[k][1] - islands.trees.data[k][0] != 1) return false;
    """
    + _MATRIX
    + """
    if (n > most) return false;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < ld; ++j) M[i * ld + j] = i == j ? 1.0 : 0.0;
    return true;
    """
)
def begin_matrix(islands: wp.ref[IslandView], s: wp.ref[OneTreeView], k: int, most: int) -> bool:
    """Set the matrix of island k to the identity; False if it has several trees, or one of more dofs."""
    ...


@wp.func_native(
    "const int count = 1;"
    + _MATRIX
    + _EXPANDED
    + """
    for (int i = 0; i < n; ++i) {
        const double share = weight * b[i];
        if (share == 0.0) continue;
        for (int j = 0; j < ld; ++j) M[i * ld + j] += share * b[j];
    }
    """
)
def add_row(
    tree: wp.ref[TreeView],
    islands: wp.ref[IslandView],
    s: wp.ref[OneTreeView],
    k: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.float64,
    B: wp.array2d(dtype=float),
):
    """Add weight b bᵀ of one row."""
    ...


@wp.func_native(
    "const int count = 3;"
    + _MATRIX
    + _EXPANDED
    + """
    double* __restrict__ p = b + 3 * ld;
    for (int q = 0; q < 3; ++q) {
        const double g0 = A.data[q][0], g1 = A.data[q][1], g2 = A.data[q][2];
        for (int j = 0; j < ld; ++j) p[q * ld + j] = g0 * b[j] + g1 * b[ld + j] + g2 * b[2 * ld + j];
    }
    for (int i = 0; i < n; ++i) {
        const double b0 = b[i], b1 = b[ld + i], b2 = b[2 * ld + i];
        if (b0 == 0.0 && b1 == 0.0 && b2 == 0.0) continue;
        double* __restrict__ row = M + i * ld;
        for (int j = 0; j < ld; ++j) row[j] += b0 * p[j] + b1 * p[ld + j] + b2 * p[2 * ld + j];
    }
    """
)
def add_triple(
    tree: wp.ref[TreeView],
    islands: wp.ref[IslandView],
    s: wp.ref[OneTreeView],
    k: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    A: wp.mat33,
    B: wp.array2d(dtype=wp.vec3),
):
    """Add b A bᵀ of three rows."""
    ...


@wp.func_native(
    _MATRIX
    + """
    int* pivot = s.pivot.data + islands.dof_start.data[t];
    for (int c = 0; c < n; ++c) {
        int best = c;
        for (int i = c + 1; i < n; ++i)
            if (fabs(M[i * ld + c]) > fabs(M[best * ld + c])) best = i;
        pivot[c] = best;
        double* __restrict__ top = M + c * ld;
        if (best != c) {
            double* other = M + best * ld;
            for (int j = 0; j < ld; ++j) {
                const double kept = top[j];
                top[j] = other[j];
                other[j] = kept;
            }
        }
        top[c] = 1.0 / (fabs(top[c]) > least ? top[c] : least);
        for (int i = c + 1; i < n; ++i) {
            double* __restrict__ row = M + i * ld;
            if (row[c] == 0.0) continue;
            const double share = row[c] * top[c];
            row[c] = share;
            for (int j = c + 1; j < ld; ++j) row[j] -= share * top[j];
        }
    }
    """
)
def factorize_matrix(islands: wp.ref[IslandView], s: wp.ref[OneTreeView], k: int, least: float):
    """Replace the matrix by its triangular factors, with the inverses of the pivots on the diagonal.

    Pivots are at least `least`.
    """
    ...


@wp.func_native(
    _MATRIX
    + """
    const int first = islands.dof_start.data[t];
    const int* dof = islands.dof.data + first;
    const int* pivot = s.pivot.data + first;
    double* __restrict__ v = M + (n + 6) * ld;
    for (int i = 0; i < n; ++i) v[i] = r.data[dof[i]];
    for (int c = 0; c < n; ++c) {
        const double kept = v[pivot[c]];
        v[pivot[c]] = v[c];
        v[c] = kept;
    }
    for (int c = 0; c < n; ++c)
        for (int i = c + 1; i < n; ++i) v[i] -= M[i * ld + c] * v[c];
    for (int c = n - 1; c >= 0; --c) {
        v[c] *= M[c * ld + c];
        for (int i = 0; i < c; ++i) v[i] -= M[i * ld + c] * v[c];
    }
    for (int i = 0; i < n; ++i) x.data[at + dof[i]] = v[i];
    """
)
def solve_matrix(
    islands: wp.ref[IslandView],
    s: wp.ref[OneTreeView],
    k: int,
    r: wp.array(dtype=wp.float64),
    x: wp.array(dtype=wp.float64),
    at: int,
):
    """Solve with the factors for r; x, from `at` on, receives the solution."""
    ...

"""Constraint rows in skyline matrices over the dofs of a world, see `skyline_lu` and `chains`.

`place` gives the place of each dof within its world, and `base` is the world's first unknown. Rows couple all
dofs of the chains that they act on. The loops are written in C++ for the same reasons as in `sparse_blas`.

Stage: linear algebra of the backward pass of constraints
Called by: kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py
Reads: B, SkylineView, TreeView, left, place, right
Writes: SkylineView, sum
"""

import warp as wp

from newtonsim.kernels.algebra.skyline_lu import SkylineView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

_CHAINS = """
    const int n0 = leaf[0] >= 0 ? tree.dof_depth.data[leaf[0]] + 1 : 0;
    const int n = n0 + (leaf[1] >= 0 ? tree.dof_depth.data[leaf[1]] + 1 : 0);
    const int* dof0 = leaf[0] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[0]] : nullptr;
    const int* dof1 = leaf[1] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[1]] - n0 : nullptr;
"""
"""Two chains have `n` dofs, the first one `n0`; dof m is `dof0[m]`, from n0 on `dof1[m]`."""

_ADD_ENTRY = """
            if (i > j) sky.lower.data[sky.row.data[base + i] + j - sky.first.data[base + i]] += entry;
            else sky.upper.data[sky.row.data[base + j] + i - sky.first.data[base + j]] += entry;
"""
"""A(i, j) += entry, for places i and j."""


@wp.func_native(
    """
    int low = 1 << 30;
    for (int pass = 0; pass < 2; ++pass) {
        for (int side = 0; side < 2; ++side) {
            if (leaf[side] < 0) continue;
            const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
            const int n = tree.dof_depth.data[leaf[side]] + 1;
            for (int k = 0; k < n; ++k) {
                const int p = place.data[dof[k]];
                if (pass == 0) low = low < p ? low : p;
                else if (low < sky.first.data[base + p]) sky.first.data[base + p] = low;
            }
        }
    }
    """
)
def couple_chains(
    tree: wp.ref[TreeView], place: wp.array(dtype=int), sky: wp.ref[SkylineView], base: int, leaf: wp.vec2i
):
    """Make room for entries between all dofs of two chains."""
    ...


@wp.func_native(
    _CHAINS
    + """
    const float* b = B.data + (size_t)c * B.shape[1];
    for (int m = 0; m < n; ++m) {
        const int i = place.data[m < n0 ? dof0[m] : dof1[m]];
        const double value = weight * (double)b[m < n0 ? m : depth + m - n0];
        for (int k = 0; k < n; ++k) {
            const int j = place.data[k < n0 ? dof0[k] : dof1[k]];
            const double entry = value * (double)b[k < n0 ? k : depth + k - n0];
    """
    + _ADD_ENTRY
    + """
        }
    }
    """
)
def add_row(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.float64,
    B: wp.array2d(dtype=float),
):
    """A += w b bᵀ."""
    ...


@wp.func_native(
    _CHAINS
    + """
    const wp::vec3* l = left.data + (size_t)c * left.shape[1];
    const wp::vec3* r = right.data + (size_t)c * right.shape[1];
    for (int m = 0; m < n; ++m) {
        const int i = place.data[m < n0 ? dof0[m] : dof1[m]];
        const wp::vec3& a = l[m < n0 ? m : depth + m - n0];
        double w[3];
        for (int q = 0; q < 3; ++q) {
            w[q] = (double)a[0] * M.data[0][q] + (double)a[1] * M.data[1][q] + (double)a[2] * M.data[2][q];
        }
        for (int k = 0; k < n; ++k) {
            const int j = place.data[k < n0 ? dof0[k] : dof1[k]];
            const wp::vec3& b = r[k < n0 ? k : depth + k - n0];
            const double entry = w[0] * (double)b[0] + w[1] * (double)b[1] + w[2] * (double)b[2];
    """
    + _ADD_ENTRY
    + """
        }
    }
    """
)
def add_outer(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    M: wp.mat33d,
    left: wp.array2d(dtype=wp.vec3),
    right: wp.array2d(dtype=wp.vec3),
):
    """A += Σ M[a, b] l_a r_bᵀ over three rows l and three rows r with the same chains."""
    ...


@wp.func_native(
    """
    double total = 0.0;
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const float* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) total += (double)b[k] * sky.x.data[base + place.data[dof[k]]];
    }
    return total;
    """
)
def row_product(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    B: wp.array2d(dtype=float),
) -> wp.float64:
    """bᵀ x of one row."""
    ...


@wp.func_native(
    """
    wp::vec3d total(0.0, 0.0, 0.0);
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const wp::vec3* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) {
            const double x = sky.x.data[base + place.data[dof[k]]];
            for (int q = 0; q < 3; ++q) total[q] += (double)b[k][q] * x;
        }
    }
    return total;
    """
)
def triple_product(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    B: wp.array2d(dtype=wp.vec3),
) -> wp.vec3d:
    """bᵀ x of three rows."""
    ...


@wp.func_native(
    """
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const float* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) sum.data[base + place.data[dof[k]]] += m * (double)b[k];
    }
    """
)
def push_row_to(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sum: wp.array(dtype=wp.float64),
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    m: wp.float64,
    B: wp.array2d(dtype=float),
):
    """sum += b m of one row."""
    ...


@wp.func_native(
    """
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const wp::vec3* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) {
            double& s = sum.data[base + place.data[dof[k]]];
            for (int q = 0; q < 3; ++q) s += m[q] * (double)b[k][q];
        }
    }
    """
)
def push_triple_to(
    tree: wp.ref[TreeView],
    place: wp.array(dtype=int),
    sum: wp.array(dtype=wp.float64),
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    m: wp.vec3d,
    B: wp.array2d(dtype=wp.vec3),
):
    """sum += b m of three rows."""
    ...

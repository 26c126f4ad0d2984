"""Cholesky factorization within the envelope of a symmetric matrix over the dofs of a world.

The matrix is 1 + Σ w b bᵀ over constraint rows b in energy coordinates. A row couples the dofs of two chains,
so bodies that were built in the order in which they touch give a narrow envelope (George, Liu, "Computer
Solution of Large Sparse Positive Definite Systems", 1981, chapter 4). Double precision throughout: weights
are large.

Stage: linear algebra of the constraint solve
Called by: kernels/constraints/active_set.py
Reads: B, EnvelopeView, TreeView
Writes: EnvelopeView
"""

import warp as wp

from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class EnvelopeView:
    """Workspace: D degrees of freedom, N entries of envelopes."""

    world_start: wp.array(dtype=int)  # (W + 1) first entry of each world in `dof`
    dof: wp.array(dtype=int)  # (D) dofs in the order of their worlds
    place: wp.array(dtype=int)  # (D) place of each dof within its world
    first: wp.array(dtype=int)  # (D) by entry of `dof`: place of the first non-zero of the row
    row: wp.array(dtype=int)  # (D) by entry of `dof`: where the row begins in `L`
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `L`
    pause: wp.array(dtype=int)  # (W) steps without direct solves that are left
    L: wp.array(dtype=wp.float64)  # (N)
    x: wp.array(dtype=wp.float64)  # (D) by entry of `dof`: right-hand side and solution
    z: wp.array(dtype=float)  # (D) by dof: velocities from which the solve starts
    kept_z: wp.array(dtype=float)  # (D) velocities and impulses to return to
    kept_dof: wp.array(dtype=float)  # (R)
    kept_pair: wp.array(dtype=float)  # (P)
    kept_contact: wp.array(dtype=wp.vec3)  # (C)
    kept_spin: wp.array(dtype=wp.vec3)  # (C)
    kept_share: wp.array(dtype=float)  # (C) share of `kept_contact` that the next step starts from


@wp.func_native(
    """
    int low = 1 << 30;
    const int* place = env.place.data;
    int* first = env.first.data + base;
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) low = low < place[dof[k]] ? low : place[dof[k]];
    }
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) {
            int& begin = first[place[dof[k]]];
            begin = begin < low ? begin : low;
        }
    }
    """
)
def widen_envelope(tree: wp.ref[TreeView], env: wp.ref[EnvelopeView], base: int, leaf: wp.vec2i):
    """Let the rows of all dofs of two chains begin no later than at the first of these dofs."""
    ...


@wp.func
def lay_out_envelope(env: wp.ref[EnvelopeView], w: int, most: float) -> float:
    """Place the rows one after the other; Σ length², or 0 if that exceeds `most` or there is no room."""
    base = env.world_start[w]
    next = env.entry_start[w]
    cost = float(0.0)
    for i in range(base, env.world_start[w + 1]):
        length = i - base - env.first[i] + 1
        env.row[i] = next
        next += length
        cost += float(length) * float(length)
    if next > env.entry_start[w + 1] or cost > most:
        return 0.0
    for k in range(env.entry_start[w], next):
        env.L[k] = wp.float64(0.0)
    for i in range(base, env.world_start[w + 1]):
        env.L[env.row[i] + i - base - env.first[i]] = wp.float64(1.0)
        env.x[i] = wp.float64(0.0)
    return cost


@wp.func_native(
    """
    const int n = env.world_start.data[w + 1] - env.world_start.data[w];
    const int* first = env.first.data + env.world_start.data[w];
    const int* row = env.row.data + env.world_start.data[w];
    double* L = env.L.data;
    for (int i = 0; i < n; ++i) {
        double* a = L + row[i] - first[i];
        for (int j = first[i]; j <= i; ++j) {
            const double* b = L + row[j] - first[j];
            double total = a[j];
            for (int k = first[i] > first[j] ? first[i] : first[j]; k < j; ++k) total -= a[k] * b[k];
            a[j] = i == j ? 1.0 / sqrt(total > smallest ? total : smallest) : total * b[j];
        }
    }
    """
)
def factorize_envelope(env: wp.ref[EnvelopeView], w: int, smallest: wp.float64):
    """Cholesky factorization in place, row by row, with the inverse of the diagonal on it.

    Pivots are at least `smallest`.
    """
    ...


@wp.func_native(
    """
    const int base = env.world_start.data[w];
    const int n = env.world_start.data[w + 1] - base;
    const int* first = env.first.data + base;
    const int* row = env.row.data + base;
    double* x = env.x.data + base;
    for (int i = 0; i < n; ++i) {
        const double* a = env.L.data + row[i] - first[i];
        double total = x[i];
        for (int k = first[i]; k < i; ++k) total -= a[k] * x[k];
        x[i] = total * a[i];
    }
    for (int i = n - 1; i >= 0; --i) {
        const double* a = env.L.data + row[i] - first[i];
        x[i] *= a[i];
        for (int k = first[i]; k < i; ++k) x[k] -= a[k] * x[i];
    }
    """
)
def solve_envelope(env: wp.ref[EnvelopeView], w: int):
    """x = (L Lᵀ)⁻¹ x."""
    ...


@wp.func_native(
    """
    const int* place = env.place.data;
    const int n0 = leaf[0] >= 0 ? tree.dof_depth.data[leaf[0]] + 1 : 0;
    const int n = n0 + (leaf[1] >= 0 ? tree.dof_depth.data[leaf[1]] + 1 : 0);
    const int* dof0 = leaf[0] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[0]] : nullptr;
    const int* dof1 = leaf[1] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[1]] - n0 : nullptr;
    const auto* b = B.data + (size_t)c * B.shape[1];
    for (int m = 0; m < n; ++m) {
        const int p = place[m < n0 ? dof0[m] : dof1[m]];
        const auto& own = b[m < n0 ? m : depth + m - n0];
        const double v0 = (double)weight[0] * own[0];
        const double v1 = (double)weight[1] * own[1];
        const double v2 = (double)weight[2] * own[2];
        env.x.data[base + p] += v0 * residual[0] + v1 * residual[1] + v2 * residual[2];
        for (int k = 0; k <= m; ++k) {
            const int q = place[k < n0 ? dof0[k] : dof1[k]];
            const int i = base + (p > q ? p : q);
            const int j = p > q ? q : p;
            const auto& other = b[k < n0 ? k : depth + k - n0];
            const double entry = v0 * other[0] + v1 * other[1] + v2 * other[2];
            env.L.data[env.row.data[i] - env.first.data[i] + j] += entry;
        }
    }
    """
)
def add_triple(
    tree: wp.ref[TreeView],
    env: wp.ref[EnvelopeView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.vec3,
    residual: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
):
    """Add w b bᵀ to the matrix and w r b to the right-hand side, for three rows with their weights."""
    ...


@wp.func_native(
    """
    const int* place = env.place.data;
    const int n0 = leaf[0] >= 0 ? tree.dof_depth.data[leaf[0]] + 1 : 0;
    const int n = n0 + (leaf[1] >= 0 ? tree.dof_depth.data[leaf[1]] + 1 : 0);
    const int* dof0 = leaf[0] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[0]] : nullptr;
    const int* dof1 = leaf[1] >= 0 ? tree.row_dof.data + tree.dof_row.data[leaf[1]] - n0 : nullptr;
    const auto* b = B.data + (size_t)c * B.shape[1];
    for (int m = 0; m < n; ++m) {
        const int p = place[m < n0 ? dof0[m] : dof1[m]];
        const double value = (double)weight * b[m < n0 ? m : depth + m - n0];
        env.x.data[base + p] += value * residual;
        for (int k = 0; k <= m; ++k) {
            const int q = place[k < n0 ? dof0[k] : dof1[k]];
            const int i = base + (p > q ? p : q);
            const int j = p > q ? q : p;
            const double entry = value * b[k < n0 ? k : depth + k - n0];
            env.L.data[env.row.data[i] - env.first.data[i] + j] += entry;
        }
    }
    """
)
def add_row(
    tree: wp.ref[TreeView],
    env: wp.ref[EnvelopeView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    residual: float,
    B: wp.array2d(dtype=float),
):
    """Add w b bᵀ to the matrix and w r b to the right-hand side."""
    ...


@wp.func_native(
    """
    double v0 = residual[0], v1 = residual[1], v2 = residual[2];
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const wp::vec3* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) {
            const double x = env.x.data[base + env.place.data[dof[k]]];
            v0 -= (double)b[k][0] * x;
            v1 -= (double)b[k][1] * x;
            v2 -= (double)b[k][2] * x;
        }
    }
    return wp::vec3((float)(weight[0] * v0), (float)(weight[1] * v1), (float)(weight[2] * v2));
    """
)
def triple_change(
    tree: wp.ref[TreeView],
    env: wp.ref[EnvelopeView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.vec3,
    residual: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
) -> wp.vec3:
    """Changes of the impulses of three rows, w (r - b x)."""
    ...


@wp.func_native(
    """
    double v = residual;
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const float* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
        for (int k = 0; k < n; ++k) v -= (double)b[k] * env.x.data[base + env.place.data[dof[k]]];
    }
    return (float)(weight * v);
    """
)
def row_change(
    tree: wp.ref[TreeView],
    env: wp.ref[EnvelopeView],
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    residual: float,
    B: wp.array2d(dtype=float),
) -> float:
    """Change of a row's impulse, w (r - b x)."""
    ...

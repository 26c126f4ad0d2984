"""Inverses of dense unsymmetric matrices of a few dozen unknowns, by teams.

The elimination is that of Gauss and Jordan with row pivots, in place (Golub, Van Loan, "Matrix Computations",
2013, section 3.4). An explicit inverse serves several right-hand sides by products, whose entries do not wait
for one another, as those of triangular solves would.

On a GPU, a matrix that has no more rows than the team has lanes stays in registers: each lane has one row,
which does not change its place when it is the pivot, and columns move up by one place in each step, so that
the entry of the next pivot is always in the first register.

Stage: linear algebra of the constraint solve
Called by: kernels/constraints/solve/coupled.py, kernels/constraints/solve/newton.py
Reads: A, B, DenseView, TreeView, x
Writes: DenseView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sync
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least size of a pivot of a matrix that is the identity and what rows add to it
LEAST_PIVOT = wp.constant(1.0e-6)


@wp.struct
class DenseView:
    """One matrix per world, of the dofs of an island: W worlds, D dofs."""

    unknowns: wp.array(dtype=int)  # (W) their number, 0 if the island is too large for a dense matrix
    inverted: wp.array(dtype=int)  # (W) 1 if `M` holds an inverse
    start: wp.array(dtype=int)  # (W) first entry of the world in `dof` and `pivot`
    unknown: wp.array(dtype=int)  # (D) by dof: its unknown
    dof: wp.array(dtype=int)  # (D) by unknown: its dof
    pivot: wp.array(dtype=int)  # (D) by column: row that it was exchanged with
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `M`
    M: wp.array(dtype=float)  # rows of `row_length` entries


@wp.func_native(
    """
    return (n + 7) & ~7;
    """
)
def row_length(n: int) -> int:
    """Entries from one row of a matrix of n unknowns to the next: whole vectors of eight."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    for (int i = lane; i < n; i += lanes) {
        for (int j = 0; j < length; ++j) M[i * length + j] = 0.0f;
        M[i * length + i] = 1.0f;
    }
    """
)
def set_identity(lane: int, lanes: int, dense: wp.ref[DenseView], w: int, n: int):
    """Set the matrix of world w to the identity; lanes share the rows."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    const float* b = B.data + (size_t)c * B.shape[1];
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dofs = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        for (int p = lane; p <= tree.dof_depth.data[leaf[side]]; p += lanes) {
            float* row = M + dense.unknown.data[dofs[p]] * length;
            const float g = weight * b[side * depth + p];
            for (int other = 0; other < 2; ++other) {
                if (leaf[other] < 0) continue;
                const int* columns = tree.row_dof.data + tree.dof_row.data[leaf[other]];
                for (int q = 0; q <= tree.dof_depth.data[leaf[other]]; ++q)
                    row[dense.unknown.data[columns[q]]] += g * b[other * depth + q];
            }
        }
    }
    """
)
def add_row(
    lane: int,
    lanes: int,
    tree: wp.ref[TreeView],
    dense: wp.ref[DenseView],
    w: int,
    n: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    B: wp.array2d(dtype=float),
):
    """Add weight b bᵀ of one row; a lane has its dofs' rows of the matrix, see `chains.team_row_velocity`."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    const wp::vec3* a = A.data + (size_t)c * A.shape[1];
    const wp::vec3* b = B.data + (size_t)c * B.shape[1];
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dofs = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        for (int p = lane; p <= tree.dof_depth.data[leaf[side]]; p += lanes) {
            float* row = M + dense.unknown.data[dofs[p]] * length;
            const wp::vec3 own = a[side * depth + p];
            float g[3];
            for (int k = 0; k < 3; ++k)
                g[k] = own[0] * G.data[0][k] + own[1] * G.data[1][k] + own[2] * G.data[2][k];
            for (int other = 0; other < 2; ++other) {
                if (leaf[other] < 0) continue;
                const int* columns = tree.row_dof.data + tree.dof_row.data[leaf[other]];
                const wp::vec3* right = b + other * depth;
                for (int q = 0; q <= tree.dof_depth.data[leaf[other]]; ++q) {
                    const float value = g[0] * right[q][0] + g[1] * right[q][1] + g[2] * right[q][2];
                    row[dense.unknown.data[columns[q]]] += value;
                }
            }
        }
    }
    """
)
def add_triples(
    lane: int,
    lanes: int,
    tree: wp.ref[TreeView],
    dense: wp.ref[DenseView],
    w: int,
    n: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    G: wp.mat33,
    A: wp.array2d(dtype=wp.vec3),
    B: wp.array2d(dtype=wp.vec3),
):
    """Add a G bᵀ of three rows of A and three of B on the same chains, as `add_row` does; any G."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    const float* M = dense.M.data + dense.entry_start.data[w] + c;
    int best = c;
    for (int i = c + 1; i < n; ++i)
        if (fabsf(M[i * length]) > fabsf(M[best * length])) best = i;
    return best;
    """
)
def largest_row(dense: wp.ref[DenseView], w: int, n: int, c: int) -> int:
    """Row from c on with the largest entry in column c."""
    ...


@wp.func_native(
    """
    const float value = dense.M.data[dense.entry_start.data[w] + pivot * ((n + 7) & ~7) + c];
    return 1.0f / (fabsf(value) > least ? value : least);
    """
)
def inverse_pivot(dense: wp.ref[DenseView], w: int, n: int, c: int, pivot: int, least: float) -> float:
    """Inverse of an entry of column c, which counts as at least `least`."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    float* top = M + c * length;
    float* other = M + pivot * length;
    for (int j = lane; j < length; j += lanes) {
        const float value = j == c ? 1.0f : other[j];
        if (pivot != c) other[j] = top[j];
        top[j] = inverse * value;
    }
    if (lane == 0) dense.pivot.data[dense.start.data[w] + c] = pivot;
    """
)
def take_pivot(
    lane: int, lanes: int, dense: wp.ref[DenseView], w: int, n: int, c: int, pivot: int, inverse: float
):
    """Exchange row c and the pivot's, and divide the latter by the pivot; lanes share the columns."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    const float* top = M + c * length;
    for (int i = lane; i < n; i += lanes) {
        if (i == c) continue;
        float* row = M + i * length;
        const float factor = row[c];
        if (factor == 0.0f) continue;
#if defined(__CUDA_ARCH__)
        for (int j = 0; j < length; ++j) row[j] -= factor * top[j];
#else
        typedef float Eight __attribute__((vector_size(32)));
        for (int j = 0; j < length; j += 8) {
            Eight own, other;
            __builtin_memcpy(&own, row + j, sizeof(Eight));
            __builtin_memcpy(&other, top + j, sizeof(Eight));
            own -= factor * other;
            __builtin_memcpy(row + j, &own, sizeof(Eight));
        }
#endif
        // an entry that is written before a whole vector is read would let that wait
        row[c] = -factor * top[c];
    }
    """
)
def eliminate(lane: int, lanes: int, dense: wp.ref[DenseView], w: int, n: int, c: int):
    """Eliminate column c from all other rows, which receive that of the inverse; lanes share the rows."""
    ...


@wp.func_native(
    """
    const int length = (n + 7) & ~7;
    float* M = dense.M.data + dense.entry_start.data[w];
    const int* pivots = dense.pivot.data + dense.start.data[w];
    for (int c = n - 1; c >= 0; --c) {
        const int pivot = pivots[c];
        if (pivot == c) continue;
        for (int i = lane; i < n; i += lanes) {
            const float value = M[i * length + c];
            M[i * length + c] = M[i * length + pivot];
            M[i * length + pivot] = value;
        }
    }
    """
)
def exchange_columns(lane: int, lanes: int, dense: wp.ref[DenseView], w: int, n: int):
    """Undo the exchanges of rows in the columns of the inverse; lanes share the rows."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return n <= (1 << team.shift);
#else
    return false;
#endif
    """
)
def has_a_lane_a_row(team: Team, n: int) -> bool:
    """True if `invert_by_lanes` can invert a matrix of n unknowns; never on the CPU."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const int width = 1 << team.shift;
    const int lane = team.lane;
    const int length = (n + 7) & ~7;
    const unsigned mask = (0xffffffffu >> (32 - width)) << ((threadIdx.x & 31) - lane);
    float* M = dense.M.data + dense.entry_start.data[w];
    auto run = [&](auto& row) {
        const int size = sizeof(row) / sizeof(float);
        #pragma unroll
        for (int j = 0; j < size; ++j) row[j] = lane < n && j < n ? M[lane * length + j] : 0.0f;
        int role = -1;    // column whose pivot was in this lane's row
        int source = 0;   // lane with the pivot of the column that has this lane's number
        #pragma unroll 1
        for (int c = 0; c < n; ++c) {
            // the sizes of floats are in the order of their bits; the last ones tell the lane
            unsigned key = lane < n && role < 0 ? (__float_as_uint(fabsf(row[0])) | 31u) - lane : 0u;
#if __CUDA_ARCH__ >= 800
            key = __reduce_max_sync(mask, key);
#else
            for (int other = width >> 1; other > 0; other >>= 1)
                key = max(key, __shfl_xor_sync(mask, key, other));
#endif
            const int best = 31 - (key & 31u);
            const float value = __shfl_sync(mask, row[0], best, width);
            const float inverse = 1.0f / (fabsf(value) > least ? value : least);
            const bool own = lane == best;
            const float factor = row[0];
            #pragma unroll
            for (int j = 1; j < size; ++j) {
                const float top = inverse * __shfl_sync(mask, row[j], best, width);
                row[j - 1] = own ? top : row[j] - factor * top;
            }
            row[size - 1] = own ? inverse : -factor * inverse;
            if (own) role = c;
            if (lane == c) source = best;
        }
        __syncwarp(mask);
        #pragma unroll
        for (int j = 0; j < size; ++j) {
            const int c = j - (size - n);
            if (c < 0) continue;
            const int column = __shfl_sync(mask, source, c, width);
            if (lane < n) M[role * length + column] = row[j];
        }
        __syncwarp(mask);
    };
    if (width <= 4) { float row[4]; run(row); }
    else if (width == 8) { float row[8]; run(row); }
    else if (width == 16) { float row[16]; run(row); }
    else { float row[32]; run(row); }
#endif
    """
)
def invert_by_lanes(team: Team, dense: wp.ref[DenseView], w: int, n: int, least: float):
    """Invert the matrix of world w in registers; each lane has one of its rows, and all see the inverse."""
    ...


@wp.func(inline=False)
def invert(team: Team, dense: wp.ref[DenseView], w: int, n: int):
    """Replace the matrix of world w by its inverse; pivots are at least `LEAST_PIVOT`."""
    if has_a_lane_a_row(team, n):
        invert_by_lanes(team, dense, w, n, LEAST_PIVOT)
    else:
        for c in range(n):
            pivot = largest_row(dense, w, n, c)
            inverse = inverse_pivot(dense, w, n, c, pivot, LEAST_PIVOT)
            sync(team)
            take_pivot(team.lane, lanes(team), dense, w, n, c, pivot, inverse)
            sync(team)
            eliminate(team.lane, lanes(team), dense, w, n, c)
            sync(team)
        # a lane has the same rows here and in `row_times`
        exchange_columns(team.lane, lanes(team), dense, w, n)


@wp.func_native(
    """
    const float* row = dense.M.data + dense.entry_start.data[w] + i * ((n + 7) & ~7);
    const int* dof = dense.dof.data + dense.start.data[w];
    float total = 0.0f;
    for (int j = 0; j < n; ++j) total += row[j] * x.data[dof[j]];
    return total;
    """
)
def row_times(dense: wp.ref[DenseView], w: int, n: int, i: int, x: wp.array(dtype=float)) -> float:
    """Row i of the matrix of world w times the entries of x of its dofs."""
    ...

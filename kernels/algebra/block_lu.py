"""LU factorization of unsymmetric matrices of 6×6 blocks, one per world, within the skyline of blocks.

Row and column i begin at block `first[i]`, and neither factor fills anything outside (George, Liu,
"Computer Solution of Large Sparse Positive Definite Systems", 1981, chapter 4; block Doolittle: Golub, Van
Loan, "Matrix Computations", 2013, section 3.2). Diagonal blocks are inverted with pivoting: stiff rows
whose directions differ on both sides leave leading minors of no certain sign within a body, but not of
whole bodies.

Stage: linear algebra of the backward pass in maximal coordinates
Called by: kernels/maximal/adjoint/contact_system.py, kernels/maximal/adjoint/system.py,
    kernels/particles/adjoint/coupled_system.py
Reads: BlockSkylineView, x
Writes: BlockSkylineView, x
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class BlockSkylineView:
    """Workspace: B blocks of unknowns of all worlds, E blocks of entries."""

    world_start: wp.array(dtype=int)  # (W + 1) first block of unknowns of each world
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `lower` and in `upper`, in blocks
    first: wp.array(dtype=int)  # (B) block within its world at which row and column begin
    row: wp.array(dtype=int)  # (B) block of `lower` and `upper` at which row and column begin
    lower: wp.array(dtype=wp.float64)  # (36 E) by rows, below the diagonal
    upper: wp.array(dtype=wp.float64)  # (36 E) by columns, down to the diagonal
    given: wp.array(dtype=wp.float64)  # (6 B) right-hand side, which solutions leave alone
    x: wp.array(dtype=wp.float64)  # (6 B) right-hand side that is solved for, and the solution


@wp.func
def clear_blocks(sky: wp.ref[BlockSkylineView], w: int):
    """Let every row of a world consist of its diagonal."""
    base = sky.world_start[w]
    for i in range(base, sky.world_start[w + 1]):
        sky.first[i] = i - base


@wp.func
def couple_blocks(sky: wp.ref[BlockSkylineView], base: int, i: int, j: int):
    """Make room for entries between blocks i and j, both ways."""
    low = wp.min(i, j)
    high = wp.max(i, j)
    sky.first[base + high] = wp.min(sky.first[base + high], low)


@wp.func
def lay_out_blocks(sky: wp.ref[BlockSkylineView], w: int) -> bool:
    """Place the rows one after the other and clear the matrix; False if there is no room."""
    base = sky.world_start[w]
    next = sky.entry_start[w]
    for i in range(base, sky.world_start[w + 1]):
        sky.row[i] = next
        next += i - base - sky.first[i] + 1
    if next > sky.entry_start[w + 1]:
        return False
    for k in range(36 * sky.entry_start[w], 36 * next):
        sky.lower[k] = wp.float64(0.0)
        sky.upper[k] = wp.float64(0.0)
    return True


@wp.func_native(
    """
    double* A = i > j ? sky.lower.data + 36 * (sky.row.data[base + i] + j - sky.first.data[base + i])
                      : sky.upper.data + 36 * (sky.row.data[base + j] + i - sky.first.data[base + j]);
    for (int a = 0; a < 6; ++a) {
        const double scaled = factor * row.c[a];
        if (scaled == 0.0) continue;
        for (int b = 0; b < 6; ++b) A[6 * a + b] += scaled * column.c[b];
    }
    """
)
def add_outer(
    sky: wp.ref[BlockSkylineView],
    base: int,
    i: int,
    row: wp.spatial_vector,
    j: int,
    column: wp.spatial_vector,
    factor: wp.float64,
):
    """Add factor * row columnᵀ to block (i, j)."""
    ...


@wp.func
def add_to_block(i: int, factor: wp.float64, v: wp.spatial_vector, x: wp.array(dtype=wp.float64)):
    """Add factor * v to block i of a vector of unknowns."""
    for a in range(6):
        x[6 * i + a] = x[6 * i + a] + factor * wp.float64(v[a])


@wp.func
def block_sum(total: wp.float64, i: int, v: wp.spatial_vector, x: wp.array(dtype=wp.float64)) -> wp.float64:
    """Total plus v · block i of a vector of unknowns."""
    found = wp.float64(total)
    for a in range(6):
        found += wp.float64(v[a]) * x[6 * i + a]
    return found


@wp.func_native(
    """
    const int base = sky.world_start.data[w];
    const int n = sky.world_start.data[w + 1] - base;
    const int* first = sky.first.data + base;
    const int* row = sky.row.data + base;
    double least = 1.0;
    for (int i = 0; i < n; ++i) {
        double* li = sky.lower.data + 36 * (row[i] - first[i]);
        double* ui = sky.upper.data + 36 * (row[i] - first[i]);
        for (int j = first[i]; j <= i; ++j) {
            const double* lj = sky.lower.data + 36 * (row[j] - first[j]);
            const double* uj = sky.upper.data + 36 * (row[j] - first[j]);
            double* below = li + 36 * j;
            double* above = ui + 36 * j;
            for (int k = first[i] > first[j] ? first[i] : first[j]; k < j; ++k) {
                for (int a = 0; a < 6; ++a)
                    for (int c = 0; c < 6; ++c) {
                        const double left = li[36 * k + 6 * a + c];
                        const double other = lj[36 * k + 6 * a + c];
                        for (int b = 0; b < 6; ++b) {
                            if (j < i) below[6 * a + b] -= left * uj[36 * k + 6 * c + b];
                            above[6 * a + b] -= other * ui[36 * k + 6 * c + b];
                        }
                    }
            }
            if (j == i) break;
            const double* inverse = uj + 36 * j;
            for (int a = 0; a < 6; ++a) {
                double old[6];
                for (int b = 0; b < 6; ++b) old[b] = below[6 * a + b];
                for (int b = 0; b < 6; ++b) {
                    double total = 0.0;
                    for (int c = 0; c < 6; ++c) total += old[c] * inverse[6 * c + b];
                    below[6 * a + b] = total;
                }
            }
        }
        // Gauss and Jordan with full pivoting by columns
        double* D = ui + 36 * i;
        double B[36];
        double largest = 0.0;
        for (int k = 0; k < 36; ++k) {
            B[k] = k % 7 == 0 ? 1.0 : 0.0;
            const double size = D[k] < 0.0 ? -D[k] : D[k];
            largest = size > largest ? size : largest;
        }
        for (int k = 0; k < 6; ++k) {
            int best = k;
            for (int a = k + 1; a < 6; ++a) {
                const double p = D[6 * a + k], q = D[6 * best + k];
                if (p * p > q * q) best = a;
            }
            for (int b = 0; b < 6; ++b) {
                const double d = D[6 * k + b], e = B[6 * k + b];
                D[6 * k + b] = D[6 * best + b];
                D[6 * best + b] = d;
                B[6 * k + b] = B[6 * best + b];
                B[6 * best + b] = e;
            }
            const double pivot = D[6 * k + k];
            const double share = (pivot < 0.0 ? -pivot : pivot) / largest;
            if (!(share >= least)) least = share;
            for (int b = 0; b < 6; ++b) {
                D[6 * k + b] /= pivot;
                B[6 * k + b] /= pivot;
            }
            for (int a = 0; a < 6; ++a) {
                if (a == k) continue;
                const double factor = D[6 * a + k];
                for (int b = 0; b < 6; ++b) {
                    D[6 * a + b] -= factor * D[6 * k + b];
                    B[6 * a + b] -= factor * B[6 * k + b];
                }
            }
        }
        for (int k = 0; k < 36; ++k) D[k] = B[k];
    }
    return least;
    """
)
def factorize_blocks(sky: wp.ref[BlockSkylineView], w: int) -> wp.float64:
    """Factorize A = L U in place: L without its unit diagonal, U with the inverses of its diagonal blocks.

    Returns:
        Smallest pivot over the largest entry of its block, at most 1. If that is not above rounding, the
        matrix is singular, and solutions are worthless.
    """
    ...


@wp.func_native(
    """
    const int base = sky.world_start.data[w];
    const int n = sky.world_start.data[w + 1] - base;
    const int* first = sky.first.data + base;
    const int* row = sky.row.data + base;
    double* x = sky.x.data + 6 * base;
    for (int i = 0; i < n; ++i) {
        const double* l = sky.lower.data + 36 * (row[i] - first[i]);
        for (int k = first[i]; k < i; ++k)
            for (int a = 0; a < 6; ++a)
                for (int b = 0; b < 6; ++b) x[6 * i + a] -= l[36 * k + 6 * a + b] * x[6 * k + b];
    }
    for (int i = n - 1; i >= 0; --i) {
        const double* u = sky.upper.data + 36 * (row[i] - first[i]);
        double y[6];
        for (int a = 0; a < 6; ++a) {
            y[a] = 0.0;
            for (int b = 0; b < 6; ++b) y[a] += u[36 * i + 6 * a + b] * x[6 * i + b];
        }
        for (int a = 0; a < 6; ++a) x[6 * i + a] = y[a];
        for (int k = first[i]; k < i; ++k)
            for (int a = 0; a < 6; ++a)
                for (int b = 0; b < 6; ++b) x[6 * k + a] -= u[36 * k + 6 * a + b] * y[b];
    }
    """
)
def solve_blocks(sky: wp.ref[BlockSkylineView], w: int):
    """x = A⁻¹ x."""
    ...

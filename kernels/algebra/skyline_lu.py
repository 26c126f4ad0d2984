"""LU factorization within the skyline of unsymmetric matrices, one per world.

The structure is symmetric, the values are not: row i and column i both begin at place `first[i]`, and neither
factor fills anything outside (George, Liu, "Computer Solution of Large Sparse Positive Definite Systems",
1981, chapter 4; the order of operations is Doolittle's: Golub, Van Loan, "Matrix Computations", 2013,
section 3.2). There is no pivoting: it is for matrices with a dominant positive definite part. Double
precision throughout.

Order of use for world w with its unknowns from `base = sky.world_start[w]` on: `clear_skyline`, `couple` what
has common entries, `lay_out_skyline`, `add_entry`, `factorize_skyline`, and then any number of solves of
`sky.x`.

Stage: linear algebra of the backward pass of constraints
Called by: kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py
Reads: SkylineView
Writes: SkylineView
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least share that is left of a diagonal entry when its unknown is eliminated
LEAST_PIVOT = wp.constant(wp.float64(1.0e-12))


@wp.struct
class SkylineView:
    """Workspace: N unknowns of all worlds, E entries."""

    world_start: wp.array(dtype=int)  # (W + 1) first unknown of each world
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `lower` and in `upper`
    first: wp.array(dtype=int)  # (N) place within its world of the first entry of row and column
    row: wp.array(dtype=int)  # (N) where row and column begin in `lower` and `upper`
    lower: wp.array(dtype=wp.float64)  # (E) by rows, below the diagonal
    upper: wp.array(dtype=wp.float64)  # (E) by columns, down to the diagonal
    x: wp.array(dtype=wp.float64)  # (N) right-hand side and solution
    sum: wp.array(dtype=wp.float64)  # (N) room for another vector


@wp.func
def clear_skyline(sky: wp.ref[SkylineView], w: int):
    """Let every row of a world consist of its diagonal."""
    base = sky.world_start[w]
    for i in range(base, sky.world_start[w + 1]):
        sky.first[i] = i - base


@wp.func
def couple(sky: wp.ref[SkylineView], base: int, i: int, count_i: int, j: int, count_j: int):
    """Make room for entries between the places i .. i + count_i - 1 and j .. j + count_j - 1, both ways.

    Includes those within each of both blocks.
    """
    low = wp.min(i, j)
    for k in range(i, i + count_i):
        sky.first[base + k] = wp.min(sky.first[base + k], low)
    for m in range(j, j + count_j):
        sky.first[base + m] = wp.min(sky.first[base + m], low)


@wp.func
def lay_out_skyline(sky: wp.ref[SkylineView], w: int) -> bool:
    """Place the rows one after the other and clear matrix and right-hand side; False if there is no room."""
    base = sky.world_start[w]
    next = sky.entry_start[w]
    for i in range(base, sky.world_start[w + 1]):
        sky.row[i] = next
        next += i - base - sky.first[i] + 1
        sky.x[i] = wp.float64(0.0)
    if next > sky.entry_start[w + 1]:
        return False
    for k in range(sky.entry_start[w], next):
        sky.lower[k] = wp.float64(0.0)
        sky.upper[k] = wp.float64(0.0)
    return True


@wp.func_native(
    """
    if (i > j) sky.lower.data[sky.row.data[base + i] + j - sky.first.data[base + i]] += value;
    else sky.upper.data[sky.row.data[base + j] + i - sky.first.data[base + j]] += value;
    """
)
def add_entry(sky: wp.ref[SkylineView], base: int, i: int, j: int, value: wp.float64):
    """A[i, j] += value, with places i and j."""
    ...


@wp.func_native(
    """
    const int base = sky.world_start.data[w];
    const int n = sky.world_start.data[w + 1] - base;
    const int* first = sky.first.data + base;
    const int* row = sky.row.data + base;
    double least = 1.0;
    for (int i = 0; i < n; ++i) {
        double* li = sky.lower.data + row[i] - first[i];
        double* ui = sky.upper.data + row[i] - first[i];
        for (int j = first[i]; j < i; ++j) {
            const double* lj = sky.lower.data + row[j] - first[j];
            const double* uj = sky.upper.data + row[j] - first[j];
            double below = li[j];
            double above = ui[j];
            for (int k = first[i] > first[j] ? first[i] : first[j]; k < j; ++k) {
                below -= li[k] * uj[k];
                above -= lj[k] * ui[k];
            }
            li[j] = below * uj[j];
            ui[j] = above;
        }
        const double before = ui[i] < 0.0 ? -ui[i] : ui[i];
        double pivot = ui[i];
        for (int k = first[i]; k < i; ++k) pivot -= li[k] * ui[k];
        const double share = (pivot < 0.0 ? -pivot : pivot) / (before > 0.0 ? before : 1.0);
        if (!(share >= least)) least = share;
        ui[i] = 1.0 / pivot;
    }
    return least;
    """
)
def factorize_skyline(sky: wp.ref[SkylineView], w: int) -> wp.float64:
    """Factorize A = L U in place: L without its unit diagonal, U with the inverse of its diagonal.

    Returns:
        Smallest size of a pivot over that of the diagonal entry that it began as, at most 1. If that is not
        above rounding, the matrix is singular or needs pivoting, and solutions are worthless.
    """
    ...


@wp.func_native(
    """
    const int base = sky.world_start.data[w];
    const int n = sky.world_start.data[w + 1] - base;
    const int* first = sky.first.data + base;
    const int* row = sky.row.data + base;
    double* x = sky.x.data + base;
    for (int i = 0; i < n; ++i) {
        const double* l = sky.lower.data + row[i] - first[i];
        double total = x[i];
        for (int k = first[i]; k < i; ++k) total -= l[k] * x[k];
        x[i] = total;
    }
    for (int i = n - 1; i >= 0; --i) {
        const double* u = sky.upper.data + row[i] - first[i];
        x[i] *= u[i];
        for (int k = first[i]; k < i; ++k) x[k] -= u[k] * x[i];
    }
    """
)
def solve_skyline(sky: wp.ref[SkylineView], w: int):
    """x = A⁻¹ x."""
    ...


@wp.func
def begin_skyline(sky: wp.ref[SkylineView], w: int) -> bool:
    """Lay out the matrix of a world and set it to one; False if there is no room."""
    base = sky.world_start[w]
    room = lay_out_skyline(sky, w)
    if room:
        for i in range(sky.world_start[w + 1] - base):
            sky.upper[sky.row[base + i] + i - sky.first[base + i]] = wp.float64(1.0)
    return room


@wp.func
def solve_system(sky: wp.ref[SkylineView], w: int) -> bool:
    """x = A⁻¹ x, where the factors replace the matrix; False, and nothing is solved, if it is singular."""
    regular = factorize_skyline(sky, w) > LEAST_PIVOT
    if regular:
        solve_skyline(sky, w)
    return regular

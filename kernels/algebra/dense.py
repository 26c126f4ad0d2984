"""Gaussian elimination with row pivots of small dense systems in double precision, by teams.

A system has n rows of `width` entries: its matrix, followed by its right-hand sides, which the solutions
replace. The matrix is factorized first; right-hand sides then go through both triangles a few at a time, so
that they stay in registers.

Stage: any that works on worlds
Called by: kernels/constraints/linear/system.py
Reads: M
Writes: M
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sync

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func_native(
    """
    const double* column = M.data + at + k;
    int best = k;
    for (int i = k + 1; i < n; ++i)
        if (fabs(column[(size_t)i * width]) > fabs(column[(size_t)best * width])) best = i;
    return best;
    """
)
def pivot_row(n: int, width: int, k: int, M: wp.array(dtype=wp.float64), at: int) -> int:
    """Row from k on with the largest entry in column k."""
    ...


@wp.func_native(
    """
    double* one = M.data + at + (size_t)k * width;
    double* other = M.data + at + (size_t)pivot * width;
    for (int c = lane; c < columns; c += lanes) {
        const double kept = one[c];
        one[c] = other[c];
        other[c] = kept;
    }
    """
)
def swap_rows(
    lane: int,
    lanes: int,
    columns: int,
    width: int,
    k: int,
    pivot: int,
    M: wp.array(dtype=wp.float64),
    at: int,
):
    """Swap the first entries of two rows; lanes share the columns."""
    ...


@wp.func_native(
    """
    const double* top = M.data + at + (size_t)k * width;
    const double inverse = 1.0 / top[k];
    for (int i = k + 1 + lane; i < n; i += lanes) {
        double* __restrict__ row = M.data + at + (size_t)i * width;
        const double share = row[k] * inverse;
        row[k] = share;
        if (share == 0.0) continue;
        for (int c = k + 1; c < n; ++c) row[c] -= share * top[c];
    }
    """
)
def eliminate_below(
    lane: int, lanes: int, n: int, width: int, k: int, M: wp.array(dtype=wp.float64), at: int
):
    """Subtract row k from those below it, whose column k receives the factors; lanes share the rows."""
    ...


@wp.func_native(
    """
    double* a = M.data + at;
    // as many columns as `sum` has entries, from c on
    auto solve = [&](auto sum, int c) {
        auto x = sum;
        for (int i = 0; i < n; ++i) {
            double* row = a + (size_t)i * width;
            memcpy(&sum, row + c, sizeof(sum));
            for (int k = 0; k < i; ++k) {
                if (row[k] == 0.0) continue;
                memcpy(&x, a + (size_t)k * width + c, sizeof(x));
                sum -= row[k] * x;
            }
            memcpy(row + c, &sum, sizeof(sum));
        }
        for (int i = n - 1; i >= 0; --i) {
            double* row = a + (size_t)i * width;
            memcpy(&sum, row + c, sizeof(sum));
            for (int k = n - 1; k > i; --k) {
                if (row[k] == 0.0) continue;
                memcpy(&x, a + (size_t)k * width + c, sizeof(x));
                sum -= row[k] * x;
            }
            sum *= 1.0 / row[i];
            memcpy(row + c, &sum, sizeof(sum));
        }
    };
    const int end = n + columns;
    int c = n;
#if !defined(__CUDA_ARCH__)
    typedef double many __attribute__((vector_size(32 * sizeof(double))));
    typedef double few __attribute__((vector_size(8 * sizeof(double))));
    typedef double four __attribute__((vector_size(4 * sizeof(double))));
    typedef double two __attribute__((vector_size(2 * sizeof(double))));
    if (lanes == 1) {
        for (; c + 32 <= end; c += 32) solve(many(), c);
        for (; c + 8 <= end; c += 8) solve(few(), c);
        for (; c + 4 <= end; c += 4) solve(four(), c);
        for (; c + 2 <= end; c += 2) solve(two(), c);
    }
#endif
    for (c += lane; c < end; c += lanes) solve(0.0, c);
    """
)
def substitute(
    lane: int, lanes: int, n: int, columns: int, width: int, M: wp.array(dtype=wp.float64), at: int
):
    """Solutions by both factors; lanes share the right-hand sides."""
    ...


@wp.func
def solve_dense(team: Team, n: int, columns: int, width: int, M: wp.array(dtype=wp.float64), at: int):
    """Solve the system that begins at `at` for the first right-hand sides, `columns` of them.

    All lanes see it, and its solutions after a `sync`.
    """
    for k in range(n):
        pivot = pivot_row(n, width, k, M, at)
        sync(team)
        if pivot != k:
            swap_rows(team.lane, lanes(team), n + columns, width, k, pivot, M, at)
        sync(team)
        eliminate_below(team.lane, lanes(team), n, width, k, M, at)
        sync(team)
    substitute(team.lane, lanes(team), n, columns, width, M, at)

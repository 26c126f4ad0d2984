"""Gaussian elimination with row pivots of small dense systems in double precision, by teams.

A system has n rows of `width` entries: its matrix, followed by its right-hand sides, which the solutions
replace.

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
    for (int c = k + lane; c < width; c += lanes) {
        const double kept = one[c];
        one[c] = other[c];
        other[c] = kept;
    }
    """
)
def swap_rows(lane: int, lanes: int, width: int, k: int, pivot: int, M: wp.array(dtype=wp.float64), at: int):
    """Swap two rows from column k on; lanes share the columns."""
    ...


@wp.func_native(
    """
    const double* top = M.data + at + (size_t)k * width;
    const double inverse = 1.0 / top[k];
    for (int i = k + 1 + lane; i < n; i += lanes) {
        double* row = M.data + at + (size_t)i * width;
        const double share = row[k] * inverse;
        if (share == 0.0) continue;
        for (int c = k + 1; c < width; ++c) row[c] -= share * top[c];
    }
    """
)
def eliminate_below(
    lane: int, lanes: int, n: int, width: int, k: int, M: wp.array(dtype=wp.float64), at: int
):
    """Subtract row k from those below it to eliminate their column k; lanes share the rows."""
    ...


@wp.func_native(
    """
    double* a = M.data + at;
    for (int k = n - 1; k >= 0; --k) {
        double* own = a + (size_t)k * width;
        const double inverse = 1.0 / own[k];
        for (int c = n + lane; c < width; c += lanes) own[c] *= inverse;
        for (int i = 0; i < k; ++i) {
            double* row = a + (size_t)i * width;
            const double share = row[k];
            if (share == 0.0) continue;
            for (int c = n + lane; c < width; c += lanes) row[c] -= share * own[c];
        }
    }
    """
)
def substitute_back(lane: int, lanes: int, n: int, width: int, M: wp.array(dtype=wp.float64), at: int):
    """Solutions of a triangular system; lanes share the right-hand sides."""
    ...


@wp.func
def solve_dense(team: Team, n: int, width: int, M: wp.array(dtype=wp.float64), at: int):
    """Solve the system that begins at `at`; all lanes see it, and its solutions after a `sync`."""
    for k in range(n):
        pivot = pivot_row(n, width, k, M, at)
        sync(team)
        if pivot != k:
            swap_rows(team.lane, lanes(team), width, k, pivot, M, at)
        sync(team)
        eliminate_below(team.lane, lanes(team), n, width, k, M, at)
        sync(team)
    substitute_back(team.lane, lanes(team), n, width, M, at)

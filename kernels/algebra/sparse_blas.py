"""Inner loops over contiguous entries, and over entries with an index list: level 1 of the (sparse) BLAS.

These are the innermost loops of a step. They are written in C++, since Warp's `range` and its indexing (any
stride, indices below zero) cost several times the arithmetic there; so all arrays have to be contiguous, and
nothing checks the indices. Names follow Duff, Heroux, Pozo, "An overview of the sparse basic linear algebra
subprograms", 2002: `dot`, `axpy` (y += a x), and with an `i` where one side goes through an index list. A
`3` stands for three rows that share their indices, `lane` for the share of one lane of a team.

Stage: linear algebra of smooth dynamics and of constraints
Called by: kernels/collision/, kernels/constraints/adjoint/, kernels/constraints/,
    kernels/constraints/linear/middle_spin.py, kernels/constraints/solve/gauss_seidel.py,
    kernels/maximal/articulated_bodies.py, kernels/trees/
Reads: H, L, S, index, start, x, y
Writes: B, x, y
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
    const float* from = x.data + i;
    float* to = y.data + j;
    for (int k = 0; k < n; ++k) to[k] += a * from[k];
    """
)
def axpy(n: int, a: float, x: wp.array(dtype=float), i: int, y: wp.array(dtype=float), j: int):
    """y[j + k] += a x[i + k], k = 0 .. n - 1."""
    ...


@wp.func_native(
    """
    const float* from = x.data + i;
    const int* at = index.data + i;
    float total = 0.0f;
    for (int k = 0; k < n; ++k) total += from[k] * y.data[at[k]];
    return total;
    """
)
def doti(
    n: int, x: wp.array(dtype=float), index: wp.array(dtype=int), i: int, y: wp.array(dtype=float)
) -> float:
    """Σ x[i + k] y[index[i + k]]."""
    ...


@wp.func_native(
    """
    const float* from = x.data + i;
    const int* at = index.data + i;
    for (int k = 0; k < n; ++k) y.data[at[k]] += a * from[k];
    """
)
def axpyi(
    n: int, a: float, x: wp.array(dtype=float), index: wp.array(dtype=int), i: int, y: wp.array(dtype=float)
):
    """y[index[i + k]] += a x[i + k]; no index occurs twice."""
    ...


@wp.func_native(
    """
    const float* from = x.data + i;
    const int* at = index.data + i;
    for (int k = lane; k < n; k += lanes) y.data[at[k]] += a * from[k];
    """
)
def lane_axpyi(
    lane: int,
    lanes: int,
    n: int,
    a: float,
    x: wp.array(dtype=float),
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
):
    """`axpyi`, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    const float* from = x.data + i;
    float* to = y.data + j;
    for (int k = lane; k < n; k += lanes) to[k] += a * from[k];
    """
)
def lane_axpy(
    lane: int,
    lanes: int,
    n: int,
    a: float,
    x: wp.array(dtype=float),
    i: int,
    y: wp.array(dtype=float),
    j: int,
):
    """`axpy`, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    float* to = x.data + i;
    for (int k = lane; k < n; k += lanes) to[k] *= a;
    """
)
def lane_scal(lane: int, lanes: int, n: int, a: float, x: wp.array(dtype=float), i: int):
    """x[i + k] *= a, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    for (int k = first + lane; k < end; k += lanes) x.data[k] = value;
    """
)
def lane_fill(lane: int, lanes: int, value: int, x: wp.array(dtype=int), first: int, end: int):
    """x[k] = value, k = first .. end - 1, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    for (int k = 0; k < n; ++k) y.data[at[k]] = x.data[at[k]];
    """
)
def copyi(n: int, index: wp.array(dtype=int), i: int, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """y[index[i + k]] = x[index[i + k]]."""
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    for (int k = lane; k < n; k += lanes) y.data[at[k]] = x.data[at[k]];
    """
)
def lane_copyi(
    lane: int,
    lanes: int,
    n: int,
    index: wp.array(dtype=int),
    i: int,
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    """`copyi`, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    auto dot = [](int n, const float* from, const int* at, const float* y)
#if defined(__CUDA_ARCH__)
        __attribute__((noinline))  // so that there is one of it in a kernel, and all fits into a cache
#endif
    {
        float total = 0.0f;
        for (int k = 0; k < n; ++k) total += from[k] * y[at[k]];
        return total;
    };
    return dot(n, x.data + (size_t)c * x.shape[1] + first, index.data + i, y.data);
    """
)
def row_doti(
    n: int,
    x: wp.array2d(dtype=float),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
) -> float:
    """Σ x[c, first + k] y[index[i + k]]."""
    ...


@wp.func_native(
    """
    auto dot = [](int n, const wp::vec3* from, const int* at, const float* y)
#if defined(__CUDA_ARCH__)
        __attribute__((noinline))  // as in `row_doti`
#endif
    {
        float total0 = 0.0f, total1 = 0.0f, total2 = 0.0f;
        for (int k = 0; k < n; ++k) {
            const float b = y[at[k]];
            total0 += from[k][0] * b;
            total1 += from[k][1] * b;
            total2 += from[k][2] * b;
        }
        return wp::vec3(total0, total1, total2);
    };
    const wp::vec3* from = x.data + (size_t)c * x.shape[1] + first;
#if !defined(__CUDA_ARCH__)
    if (n == 6) return dot(6, from, index.data + i, y.data);  // a free body
#endif
    return dot(n, from, index.data + i, y.data);
    """
)
def row_doti3(
    n: int,
    x: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
) -> wp.vec3:
    """Σ x[c, first + k] y[index[i + k]] of three rows."""
    ...


@wp.func_native(
    """
    const float* from = x.data + (size_t)c * x.shape[1] + first;
    const int* at = index.data + i;
    float total = 0.0f;
#if defined(__CUDA_ARCH__)
    #pragma unroll 1  // a lane has few entries, and code that does not fit a cache costs more
#endif
    for (int k = lane; k < n; k += lanes) total += from[k] * y.data[at[k]];
    return total;
    """
)
def lane_row_doti(
    lane: int,
    lanes: int,
    n: int,
    x: wp.array2d(dtype=float),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
) -> float:
    """Σ x[c, first + k] y[index[i + k]], as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    const float* from = x.data + (size_t)c * x.shape[1] + first;
    const int* at = index.data + i;
#if defined(__CUDA_ARCH__)
    #pragma unroll 1  // a lane has few entries, and code that does not fit a cache costs more
#endif
    for (int k = lane; k < n; k += lanes) y.data[at[k]] += a * from[k];
    """
)
def lane_row_axpyi(
    lane: int,
    lanes: int,
    n: int,
    a: float,
    x: wp.array2d(dtype=float),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
):
    """y[index[i + k]] += a x[c, first + k]; no index occurs twice, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    const wp::vec3* from = x.data + (size_t)c * x.shape[1] + first;
    const int* at = index.data + i;
    auto dot = [&](int begin, int end) {
        float total0 = 0.0f, total1 = 0.0f, total2 = 0.0f;
#if defined(__CUDA_ARCH__)
        #pragma unroll 1  // a lane has few entries, and code that does not fit a cache costs more
#endif
        for (int k = begin; k < end; k += lanes) {
            const float b = y.data[at[k]];
            total0 += from[k][0] * b;
            total1 += from[k][1] * b;
            total2 += from[k][2] * b;
        }
        return wp::vec3(total0, total1, total2);
    };
#if !defined(__CUDA_ARCH__)
    if (n == 6 && lanes == 1) return dot(0, 6);  // a free body
#endif
    return dot(lane, n);
    """
)
def lane_row_doti3(
    lane: int,
    lanes: int,
    n: int,
    x: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
) -> wp.vec3:
    """Σ x[c, first + k] y[index[i + k]] of three rows, as far as one lane of a team does it."""
    ...


@wp.func_native(
    """
    const wp::vec3* from = x.data + (size_t)c * x.shape[1] + first;
    const int* at = index.data + i;
    const float a0 = a[0], a1 = a[1], a2 = a[2];
    auto push = [&](int begin, int end) {
#if defined(__CUDA_ARCH__)
        #pragma unroll 1  // a lane has few entries, and code that does not fit a cache costs more
#endif
        for (int k = begin; k < end; k += lanes)
            y.data[at[k]] += a0 * from[k][0] + a1 * from[k][1] + a2 * from[k][2];
    };
#if !defined(__CUDA_ARCH__)
    if (n == 6 && lanes == 1) return push(0, 6);  // a free body
#endif
    push(lane, n);
    """
)
def lane_row_axpyi3(
    lane: int,
    lanes: int,
    n: int,
    a: wp.vec3,
    x: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
    index: wp.array(dtype=int),
    i: int,
    y: wp.array(dtype=float),
):
    """y[index[i + k]] += a · x[c, first + k] of three rows; no index occurs twice. The share of a lane."""
    ...


@wp.func_native(
    """
    auto* b = B.data + (size_t)c * B.shape[1] + first;
    const int* at = index.data + i;
#if !defined(__CUDA_ARCH__)
    auto solve_in_registers = [&](auto entry) {
        decltype(entry) own[6];
        for (int k = 0; k < 6; ++k) own[k] = b[k];
        #pragma clang loop unroll(full)
        for (int k = 5; k >= 0; --k) {
            const float* l = L.data + start.data[at[k]];
            const auto y = own[k];
            for (int m = 0; m < k; ++m) own[m] = wp::sub(own[m], wp::mul(y, l[m]));
            own[k] = wp::mul(y, l[k]);
        }
        for (int k = 0; k < 6; ++k) b[k] = own[k];
    };
    if (n == 6 && stop == 0) return solve_in_registers(b[0]);  // a free body
#endif
    for (int k = n - 1; k >= stop; --k) {
        const float* l = L.data + start.data[at[k]];
        const auto y = b[k];
        for (int m = 0; m < k; ++m) b[m] = wp::sub(b[m], wp::mul(y, l[m]));
        b[k] = wp::mul(y, l[k]);
    }
    """
)
def row_solve(
    n: int,
    stop: int,
    L: wp.array(dtype=float),
    start: wp.array(dtype=int),
    index: wp.array(dtype=int),
    i: int,
    B: wp.array2d(dtype=Any),
    c: int,
    first: int,
):
    """Solve with the transposed factor, from entry n - 1 of B[c] down to entry `stop`.

    Row d of the factor begins at L[start[d]], with what its diagonal is to be multiplied by at its end; entry
    k of B[c] belongs to row index[i + k].
    """
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    wp::vec3* to = y.data + (size_t)c * y.shape[1] + first;
    auto fill = [&](int n) {
        for (int k = 0; k < n; ++k) {
            const float* s = S.data[at[k]].c;
            const float v0 = s[3] + s[1] * arm[2] - s[2] * arm[1];
            const float v1 = s[4] + s[2] * arm[0] - s[0] * arm[2];
            const float v2 = s[5] + s[0] * arm[1] - s[1] * arm[0];
            for (int r = 0; r < 3; ++r)
                to[k][r] = frame.data[r][0] * v0 + frame.data[r][1] * v1 + frame.data[r][2] * v2;
        }
    };
#if !defined(__CUDA_ARCH__)
    if (n == 6) return fill(6);  // a free body
#endif
    fill(n);
    """
)
def point_velocities(
    n: int,
    S: wp.array(dtype=wp.spatial_vector),
    index: wp.array(dtype=int),
    i: int,
    frame: wp.mat33,
    arm: wp.vec3,
    y: wp.array2d(dtype=wp.vec3),
    c: int,
    first: int,
):
    """y[c, first + k] = velocity along the frame's rows of the point `arm` moved by S[index[i + k]]."""
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    float* to = y.data + i;
    for (int k = 0; k < n; ++k) {
        const float* s = S.data[at[k]].c;
        float total = 0.0f;
        for (int r = 0; r < 6; ++r) total += s[r] * f[r];
        to[k] = total;
    }
    """
)
def motion_products(
    n: int,
    S: wp.array(dtype=wp.spatial_vector),
    index: wp.array(dtype=int),
    i: int,
    f: wp.spatial_vector,
    y: wp.array(dtype=float),
):
    """y[i + k] = S[index[i + k]] · f, k = 0 .. n - 1."""
    ...


@wp.func_native(
    """
    const float* from = H.data + i;
    for (int m = lane; m < n; m += lanes) {
        const int k = n - 1 - m;
        const float a = -(from[k] * inverse_pivot);
        float* __restrict__ to = H.data + start.data[index.data[i + k]];  // another row
        // rows are short: without this, whole vectors begin at 32 entries
        #pragma clang loop vectorize_width(4) interleave_count(1)
        for (int j = 0; j <= k; ++j) to[j] += a * from[j];
    }
    """
)
def lane_eliminate(
    lane: int,
    lanes: int,
    n: int,
    inverse_pivot: float,
    start: wp.array(dtype=int),
    index: wp.array(dtype=int),
    i: int,
    H: wp.array(dtype=float),
):
    """Subtract the outer product of a row with itself, over its pivot, from the rows of its n ancestors.

    The row begins at H[i], and that of ancestor k at H[start[index[i + k]]]. The share of a lane.
    """
    ...


@wp.func_native(
    """
    const wp::vec3* from = x.data + (size_t)c * x.shape[1] + first;
    wp::mat33 G;
    auto add = [&](int n) {
        for (int k = 0; k < n; ++k)
            for (int r = 0; r < 3; ++r)
                for (int s = 0; s <= r; ++s) G.data[r][s] += from[k][r] * from[k][s];
    };
#if !defined(__CUDA_ARCH__)
    if (n == 6) add(6);  // a free body
    else
#endif
    add(n);
    G.data[0][1] = G.data[1][0]; G.data[0][2] = G.data[2][0]; G.data[1][2] = G.data[2][1];
    return G;
    """
)
def row_gram3(n: int, x: wp.array2d(dtype=wp.vec3), c: int, first: int) -> wp.mat33:
    """Σ x[c, first + k] x[c, first + k]ᵀ of three rows."""
    ...

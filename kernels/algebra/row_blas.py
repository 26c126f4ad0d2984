"""Sums of rows of matrices with many columns, which pass through registers a few columns at a time.

Matrices are stored by rows; what a row receives from others is added up in registers, so that each product
costs one load. The order of the sums is that of the rows, whatever the number of columns.

Stage: linear algebra of linear models of steps
Called by: kernels/constraints/linear/balance.py
Reads: L, factors, index, x
Writes: y
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
    const float* shares = (const float*)factors.data + i;
    const float* from = x.data + first;
    float* to = y.data + j;
    // as many columns as `sum` has entries, from c on
    auto add = [&](auto sum, int c) {
        auto x = sum;
        memcpy(&sum, to + c, sizeof(sum));
        for (int k = 0; k < rows; ++k) {
            const float share = scale * shares[k];
            if (share == 0.0f) continue;
            memcpy(&x, from + (size_t)k * n + c, sizeof(x));
            sum += share * x;
        }
        memcpy(to + c, &sum, sizeof(sum));
    };
    int c = 0;
#if !defined(__CUDA_ARCH__)
    typedef float many __attribute__((vector_size(32 * sizeof(float))));
    typedef float few __attribute__((vector_size(8 * sizeof(float))));
    typedef float four __attribute__((vector_size(4 * sizeof(float))));
    typedef float two __attribute__((vector_size(2 * sizeof(float))));
    for (; c + 32 <= n; c += 32) add(many(), c);
    for (; c + 8 <= n; c += 8) add(few(), c);
    for (; c + 4 <= n; c += 4) add(four(), c);
    for (; c + 2 <= n; c += 2) add(two(), c);
#endif
    for (; c < n; ++c) add(0.0f, c);
    """
)
def add_rows(
    n: int,
    rows: int,
    scale: float,
    factors: wp.array3d(dtype=float),
    i: int,
    x: wp.array(dtype=float),
    first: int,
    y: wp.array(dtype=float),
    j: int,
):
    """y[j + c] += Σ scale factors[i + k] x[first + k n + c], c = 0 .. n - 1; `factors` counted flat."""
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    const float* l = L.data + i;
    float* own = y.data + (size_t)d * n;
    auto push = [&](auto kept, int c) {
        auto x = kept;
        memcpy(&kept, own + c, sizeof(kept));
        for (int k = 0; k < depth; ++k) {
            float* row = y.data + (size_t)at[k] * n + c;
            memcpy(&x, row, sizeof(x));
            x += -l[k] * kept;
            memcpy(row, &x, sizeof(x));
        }
        kept *= l[depth];
        memcpy(own + c, &kept, sizeof(kept));
    };
    int c = 0;
#if !defined(__CUDA_ARCH__)
    typedef float many __attribute__((vector_size(32 * sizeof(float))));
    typedef float few __attribute__((vector_size(8 * sizeof(float))));
    typedef float four __attribute__((vector_size(4 * sizeof(float))));
    typedef float two __attribute__((vector_size(2 * sizeof(float))));
    if (lanes == 1) {
        for (; c + 32 <= n; c += 32) push(many(), c);
        for (; c + 8 <= n; c += 8) push(few(), c);
        for (; c + 4 <= n; c += 4) push(four(), c);
        for (; c + 2 <= n; c += 2) push(two(), c);
    }
#endif
    for (c += lane; c < n; c += lanes) push(0.0f, c);
    """
)
def push_row(
    lane: int,
    lanes: int,
    n: int,
    depth: int,
    index: wp.array(dtype=int),
    i: int,
    L: wp.array(dtype=float),
    d: int,
    y: wp.array(dtype=float),
):
    """Subtract L[i + k] times row d of y from rows index[i + k], k < depth; then row d *= L[i + depth].

    Rows have n entries; lanes share the columns.
    """
    ...


@wp.func_native(
    """
    const int* at = index.data + i;
    const float* l = L.data + i;
    float* own = y.data + (size_t)d * n;
    auto pull = [&](auto sum, int c) {
        auto x = sum;
        memcpy(&sum, own + c, sizeof(sum));
        sum *= l[depth];
        for (int k = 0; k < depth; ++k) {
            memcpy(&x, y.data + (size_t)at[k] * n + c, sizeof(x));
            sum += -l[k] * x;
        }
        memcpy(own + c, &sum, sizeof(sum));
    };
    int c = 0;
#if !defined(__CUDA_ARCH__)
    typedef float many __attribute__((vector_size(32 * sizeof(float))));
    typedef float few __attribute__((vector_size(8 * sizeof(float))));
    typedef float four __attribute__((vector_size(4 * sizeof(float))));
    typedef float two __attribute__((vector_size(2 * sizeof(float))));
    if (lanes == 1) {
        for (; c + 32 <= n; c += 32) pull(many(), c);
        for (; c + 8 <= n; c += 8) pull(few(), c);
        for (; c + 4 <= n; c += 4) pull(four(), c);
        for (; c + 2 <= n; c += 2) pull(two(), c);
    }
#endif
    for (c += lane; c < n; c += lanes) pull(0.0f, c);
    """
)
def pull_row(
    lane: int,
    lanes: int,
    n: int,
    depth: int,
    index: wp.array(dtype=int),
    i: int,
    L: wp.array(dtype=float),
    d: int,
    y: wp.array(dtype=float),
):
    """Row d of y *= L[i + depth]; then subtract from it L[i + k] times rows index[i + k], k < depth."""
    ...

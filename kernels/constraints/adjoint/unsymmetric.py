"""LU factorization of sparse matrices with one block per tree, which friction makes unsymmetric.

Order of elimination, patterns and panels are those of the forward solve, see `block_system`: a matrix with
a symmetric pattern has panels for its columns, in `lower`, and panels for its rows, transposed and laid out
alike, in `upper` (Duff, Erisman, Reid, "Direct Methods for Sparse Matrices", 2017, chapter 12).
Diagonal blocks are inverted with pivoting: stiff rows with different directions on both sides make the sign
of leading minors within a tree uncertain, though not that of whole trees. Rows of six entries are padded to
eight.

Stage: backward pass of constraints, linear algebra
Called by: kernels/constraints/adjoint/system.py
Reads: BlockSystemView
Writes: BlockSystemView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import BlockSystemView, node_at

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func_native(
    """
    const int n = lower.width.data[k];
    const int ld = n == 6 ? 8 : n;
    float* D = lower.L.data + lower.panel.data[k];
    float* free = upper.L.data + upper.panel.data[k];
    for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j) D[i * ld + j] = free[j * ld + i];
    // Gauss and Jordan in place; what was exchanged is kept where the rows stood
    for (int c = 0; c < n; ++c) {
        int pivot = c;
        for (int i = c + 1; i < n; ++i)
            if (fabsf(D[i * ld + c]) > fabsf(D[pivot * ld + c])) pivot = i;
        free[c] = (float)pivot;
        if (pivot != c) {
            for (int j = 0; j < n; ++j) {
                const float other = D[c * ld + j];
                D[c * ld + j] = D[pivot * ld + j];
                D[pivot * ld + j] = other;
            }
        }
        const float value = D[c * ld + c];
        const float inverse = 1.0f / (fabsf(value) > least ? value : least);
        D[c * ld + c] = 1.0f;
        for (int j = 0; j < n; ++j) D[c * ld + j] *= inverse;
        for (int i = 0; i < n; ++i) {
            if (i == c) continue;
            const float factor = D[i * ld + c];
            D[i * ld + c] = 0.0f;
            for (int j = 0; j < n; ++j) D[i * ld + j] -= factor * D[c * ld + j];
        }
    }
    for (int c = n - 1; c >= 0; --c) {
        const int pivot = (int)free[c];
        if (pivot == c) continue;
        for (int i = 0; i < n; ++i) {
            const float other = D[i * ld + c];
            D[i * ld + c] = D[i * ld + pivot];
            D[i * ld + pivot] = other;
        }
    }
    """
)
def invert_diagonal(lower: wp.ref[BlockSystemView], upper: wp.ref[BlockSystemView], k: int, least: float):
    """Replace the diagonal block of node k in `lower` by its inverse; that in `upper` is then free."""
    ...


@wp.func_native(
    """
    const int base = lower.tree_start.data[w];
    const int n = lower.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const int count = lower.count.data[k];
    const int* pattern = lower.pattern.data + lower.first.data[k];
    const int* offset = lower.offset.data + lower.first.data[k];
    float* P = lower.L.data + lower.panel.data[k];
    float* row = upper.L.data + upper.panel.data[k];
    const int rows = offset[count - 1] + lower.width.data[base + pattern[count - 1]];
    for (int i = n; i < rows; ++i) {
        float* p = P + i * ld;
        if (n == 6) {
            float sum[8] = {};
            for (int m = 0; m < 6; ++m) {
                const float a = p[m];
                for (int j = 0; j < 8; ++j) sum[j] += a * P[m * 8 + j];
            }
            for (int j = 0; j < 8; ++j) p[j] = sum[j];
            continue;
        }
        for (int j = 0; j < n; ++j) row[j] = 0.0f;
        for (int m = 0; m < n; ++m)
            for (int j = 0; j < n; ++j) row[j] += p[m] * P[m * ld + j];
        for (int j = 0; j < n; ++j) p[j] = row[j];
    }
    """
)
def divide_panel(lower: wp.ref[BlockSystemView], upper: wp.ref[BlockSystemView], w: int, k: int):
    """Multiply the rows of node k's panel in `lower` below its diagonal block by the inverse of this."""
    ...


@wp.func_native(
    """
    const int base = to.tree_start.data[w];
    const int n = to.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const int count = to.count.data[k];
    const int* pattern = to.pattern.data + to.first.data[k];
    const int* offset = to.offset.data + to.first.data[k];
    const float* A = left.L.data + left.panel.data[k];
    const float* C = right.L.data + right.panel.data[k];
    for (int f = 0; f < count; ++f) {
        const int column = base + pattern[f];
        const int width = to.width.data[column];
        const int wide = width == 6 ? 8 : width;
        const float* c = C + offset[f] * ld;
        float* panel = to.L.data + to.panel.data[column];
        const int* other = to.pattern.data + to.first.data[column];
        const int* start = to.offset.data + to.first.data[column];
        float turned[6][8] = {};
        if (n == 6 && width == 6)
            for (int m = 0; m < 6; ++m)
                for (int j = 0; j < 6; ++j) turned[m][j] = c[j * 8 + m];
        int s = 0;
        for (int e = f; e < count; ++e) {
            float* block = panel;
            if (e > f) {
                while (other[s] != pattern[e]) ++s;
                block = panel + start[s] * wide;
            }
            const int height = to.width.data[base + pattern[e]];
            const float* a = A + offset[e] * ld;
            for (int i = 0; i < height; ++i) {
                if (n == 6 && width == 6) {
                    float sum[8];
                    for (int j = 0; j < 8; ++j) sum[j] = block[i * 8 + j];
                    for (int m = 0; m < 6; ++m) {
                        const float value = a[i * 8 + m];
                        for (int j = 0; j < 8; ++j) sum[j] -= value * turned[m][j];
                    }
                    for (int j = 0; j < 8; ++j) block[i * 8 + j] = sum[j];
                    continue;
                }
                for (int j = 0; j < width; ++j) {
                    float total = 0.0f;
                    for (int m = 0; m < n; ++m) total += a[i * ld + m] * c[j * ld + m];
                    block[i * wide + j] -= total;
                }
            }
        }
    }
    """
)
def subtract_product(
    left: wp.ref[BlockSystemView],
    right: wp.ref[BlockSystemView],
    to: wp.ref[BlockSystemView],
    w: int,
    k: int,
):
    """Subtract node k's panel of `left` times the transpose of that of `right` from the panels of `to`."""
    ...


@wp.func(inline=False)
def factorize_lu(lower: wp.ref[BlockSystemView], upper: wp.ref[BlockSystemView], w: int, least: float):
    """Factorize the matrix of a world in place; pivots are at least `least`."""
    for place in range(lower.nodes[w]):
        k = node_at(lower, w, place)
        invert_diagonal(lower, upper, k, least)
        if lower.count[k] > 0:
            divide_panel(lower, upper, w, k)
            subtract_product(lower, upper, lower, w, k)
            subtract_product(upper, lower, upper, w, k)


@wp.func_native(
    """
    const int base = lower.tree_start.data[w];
    const int nodes = lower.nodes.data[w];
    const int* order = lower.order.data + base;
    for (int place = 0; place < nodes; ++place) {
        const int k = base + order[place];
        const int n = lower.width.data[k];
        const int ld = n == 6 ? 8 : n;
        const float* x = lower.x.data + lower.entry.data[k];
        const int end = lower.first.data[k] + lower.count.data[k];
        for (int e = lower.first.data[k]; e < end; ++e) {
            const int other = base + lower.pattern.data[e];
            float* y = lower.x.data + lower.entry.data[other];
            const float* p = lower.L.data + lower.panel.data[k] + lower.offset.data[e] * ld;
            for (int i = 0; i < lower.width.data[other]; ++i) {
                float total = 0.0f;
                for (int m = 0; m < n; ++m) total += p[i * ld + m] * x[m];
                y[i] -= total;
            }
        }
    }
    for (int place = nodes - 1; place >= 0; --place) {
        const int k = base + order[place];
        const int n = lower.width.data[k];
        const int ld = n == 6 ? 8 : n;
        float* x = lower.x.data + lower.entry.data[k];
        const int end = lower.first.data[k] + lower.count.data[k];
        for (int e = lower.first.data[k]; e < end; ++e) {
            const int other = base + lower.pattern.data[e];
            const float* y = lower.x.data + lower.entry.data[other];
            const float* p = upper.L.data + upper.panel.data[k] + lower.offset.data[e] * ld;
            for (int i = 0; i < lower.width.data[other]; ++i)
                for (int m = 0; m < n; ++m) x[m] -= p[i * ld + m] * y[i];
        }
        const float* D = lower.L.data + lower.panel.data[k];
        float* free = upper.L.data + upper.panel.data[k];
        for (int i = 0; i < n; ++i) {
            float total = 0.0f;
            for (int m = 0; m < n; ++m) total += D[i * ld + m] * x[m];
            free[i] = total;
        }
        for (int i = 0; i < n; ++i) x[i] = free[i];
    }
    """
)
def solve_lu(lower: wp.ref[BlockSystemView], upper: wp.ref[BlockSystemView], w: int):
    """Solve with the factorized matrix; the solution replaces the right-hand side `x` of `lower`."""
    ...

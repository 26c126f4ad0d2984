"""Cholesky factorization of the matrices of `block_system`, and solves with the factor.

The factorization is right-looking: a finished column is subtracted from those to which it couples. Lanes
share rows of blocks, or have one row each of a block that fits into a team.

Stage: linear algebra of the constraint solve
Called by: kernels/constraints/solve/apart.py, kernels/constraints/solve/newton.py
Reads: BlockSystemView, L
Writes: BlockSystemView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import BlockSystemView, node_at, pitch
from newtonsim.kernels.algebra.teams import Team, from_lane, lanes, sync

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# least pivot of a matrix that is the identity and what rows add to it
LEAST_PIVOT = wp.constant(1.0e-3)


@wp.func_native(
    """
    float* P = sys.L.data + sys.panel.data[k];
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j <= i; ++j) {
            float total = P[i * ld + j];
            for (int m = 0; m < j; ++m) total -= P[i * ld + m] * P[j * ld + m];
            P[i * ld + j] = i == j ? 1.0f / sqrtf(total > least ? total : least) : total * P[j * ld + j];
        }
    }
    """
)
def factorize_diagonal(sys: wp.ref[BlockSystemView], k: int, least: float):
    """Factorize the block of node k with itself."""
    ...


@wp.func_native(
    """
    const float* own = L.data + first + i * ld;
    const float* other = L.data + first + j * ld;
    float total = own[j];
    for (int m = 0; m < j; ++m) total -= own[m] * other[m];
    return total;
    """
)
def eliminated(L: wp.array(dtype=float), first: int, ld: int, i: int, j: int) -> float:
    """Entry i, j of a block minus the products of the columns before j."""
    ...


@wp.func
def factorize_by_lanes(team: Team, sys: wp.ref[BlockSystemView], k: int, least: float):
    """Factorize the block of node k with itself; each lane has one of its rows."""
    L = sys.L
    n = sys.width[k]
    ld = pitch(n)
    first = sys.panel[k]
    for j in range(n):
        total = float(0.0)
        if team.lane >= j and team.lane < n:
            total = eliminated(L, first, ld, team.lane, j)
        inverse = 1.0 / wp.sqrt(wp.max(from_lane(team, total, j), least))
        if team.lane == j:
            L[first + team.lane * ld + j] = inverse
        elif team.lane > j and team.lane < n:
            L[first + team.lane * ld + j] = total * inverse
        sync(team)


@wp.func_native(
    """
    float* P = sys.L.data + sys.panel.data[k];
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    auto eliminated = [&](int i) {
        float total = P[i * ld + j];
        for (int m = 0; m < j; ++m) total -= P[i * ld + m] * P[j * ld + m];
        return total;
    };
    const float pivot = eliminated(j);
    const float inverse = 1.0f / sqrtf(pivot > least ? pivot : least);
    for (int i = j + 1 + lane; i < n; i += lanes) P[i * ld + j] = eliminated(i) * inverse;
    return inverse;
    """
)
def factorize_column(
    lane: int, lanes: int, sys: wp.ref[BlockSystemView], k: int, j: int, least: float
) -> float:
    """Column j below the diagonal of node k, as far as one lane does it; returns the pivot's inverse."""
    ...


@wp.func_native(
    """
    sys.L.data[sys.panel.data[k] + j * ((sys.width.data[k] == 6 ? 8 : sys.width.data[k]) + 1)] = inverse;
    """
)
def set_pivot(sys: wp.ref[BlockSystemView], k: int, j: int, inverse: float):
    """Entry j of the diagonal of node k, inverted."""
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.width.data[k];
    const int count = sys.count.data[k];
    const int* pattern = sys.pattern.data + sys.first.data[k];
    const int* offset = sys.offset.data + sys.first.data[k];
    float* P = sys.L.data + sys.panel.data[k];
    const int ld = n == 6 ? 8 : n;
    const int rows = count > 0 ? offset[count - 1] + sys.width.data[base + pattern[count - 1]] : n;
    if (n == 6) {
        // rows times the inverse of the transposed diagonal block, eight columns at a time
        float inverse[6][8] = {};
        for (int j = 0; j < 6; ++j) {
            inverse[j][j] = P[j * 9];
            for (int i = j + 1; i < 6; ++i) {
                float total = 0.0f;
                for (int m = j; m < i; ++m) total -= P[i * 8 + m] * inverse[j][m];
                inverse[j][i] = total * P[i * 9];
            }
        }
        #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
        for (int i = 6 + lane; i < rows; i += lanes) {
            float* p = P + i * 8;
            float sum[8] = {};
            for (int m = 0; m < 6; ++m) {
                const float a = p[m];
                for (int j = 0; j < 8; ++j) sum[j] += a * inverse[m][j];
            }
            for (int j = 0; j < 8; ++j) p[j] = sum[j];
        }
        return;
    }
    for (int i = n + lane; i < rows; i += lanes) {
        float* p = P + i * ld;
        for (int j = 0; j < n; ++j) {
            float total = p[j];
            for (int m = 0; m < j; ++m) total -= p[m] * P[j * ld + m];
            p[j] = total * P[j * ld + j];
        }
    }
    """
)
def factorize_panel(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int, k: int):
    """The rows of node k's panel below its own block, as far as one lane does it."""
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.width.data[k];
    const int count = sys.count.data[k];
    const int* pattern = sys.pattern.data + sys.first.data[k];
    const int* offset = sys.offset.data + sys.first.data[k];
    float* P = sys.L.data + sys.panel.data[k];
    const int ld = n == 6 ? 8 : n;
    // lanes side by side in the rows of a block, groups of them in several blocks
    const int group = lanes < 8 ? lanes : 8;
    for (int f = 0; f < count; ++f) {
        const int column = base + pattern[f];
        const int width = sys.width.data[column];
        const int wide = width == 6 ? 8 : width;
        const float* right = P + offset[f] * ld;
        float* to = sys.L.data + sys.panel.data[column];
        const int* other = sys.pattern.data + sys.first.data[column];
        const int* row = sys.offset.data + sys.first.data[column];
#if !defined(__CUDA_ARCH__)
        float turned[6][8] = {};
        if (n == 6 && width == 6)
            for (int m = 0; m < 6; ++m)
                for (int j = 0; j < 6; ++j) turned[m][j] = right[j * 8 + m];
#endif
        int s = 0;
        for (int e = f + lane / group; e < count; e += lanes / group) {
            int start = 0;
            if (e > f) {
                while (other[s] != pattern[e]) ++s;
                start = row[s];
            }
            const int height = sys.width.data[base + pattern[e]];
            const float* left = P + offset[e] * ld;
            float* block = to + start * wide;
            if (n == 6 && width == 6) {
#if defined(__CUDA_ARCH__)
                // a lane has one row of most blocks: a copy of the other ones would only take registers
                #pragma unroll 1
                for (int i = lane % group; i < height; i += group) {
                    float own[6];
                    for (int m = 0; m < 6; ++m) own[m] = left[i * 8 + m];
                    #pragma unroll 1
                    for (int j = 0; j < 6; ++j) {
                        float total = block[i * 8 + j];
                        for (int m = 0; m < 6; ++m) total -= own[m] * right[j * 8 + m];
                        block[i * 8 + j] = total;
                    }
                }
#else
                #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
                for (int i = lane % group; i < height; i += group) {
                    float sum[8];
                    for (int j = 0; j < 8; ++j) sum[j] = block[i * 8 + j];
                    for (int m = 0; m < 6; ++m) {
                        const float a = left[i * 8 + m];
                        for (int j = 0; j < 8; ++j) sum[j] -= a * turned[m][j];
                    }
                    for (int j = 0; j < 8; ++j) block[i * 8 + j] = sum[j];
                }
#endif
            } else {
                for (int i = lane % group; i < height; i += group) {
                    for (int j = 0; j < width; ++j) {
                        float total = 0.0f;
                        for (int m = 0; m < n; ++m) total += left[i * ld + m] * right[j * ld + m];
                        block[i * wide + j] -= total;
                    }
                }
            }
        }
    }
    """
)
def subtract_panel(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int, k: int):
    """Subtract the finished panel of node k from those to which it couples; the share of one lane."""
    ...


@wp.func(inline=False)
def factorize(team: Team, sys: wp.ref[BlockSystemView], w: int):
    """Factorize the matrix of a world in place; pivots are at least `LEAST_PIVOT`."""
    for place in range(sys.nodes[w]):
        k = node_at(sys, w, place)
        if is_small(team, sys, k):
            if team.lane == 0:
                factorize_diagonal(sys, k, LEAST_PIVOT)
        elif sys.width[k] <= lanes(team):
            factorize_by_lanes(team, sys, k, LEAST_PIVOT)
        else:
            for j in range(sys.width[k]):
                inverse = factorize_column(team.lane, lanes(team), sys, k, j, LEAST_PIVOT)
                sync(team)
                if team.lane == 0:
                    set_pivot(sys, k, j, inverse)
        sync(team)
        if sys.count[k] > 0:
            factorize_panel(team.lane, lanes(team), sys, w, k)
            sync(team)
            subtract_panel(team.lane, lanes(team), sys, w, k)
            sync(team)


@wp.func
def is_small(team: Team, sys: wp.ref[BlockSystemView], k: int) -> bool:
    """True if one lane works on the block of node k with itself as fast as a team would."""
    return lanes(team) == 1 or sys.width[k] <= 6


@wp.func_native(
    """
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    float* x = sys.x.data + sys.entry.data[k];
    for (int i = 0; i < n; ++i) {
        float total = x[i];
        for (int m = 0; m < i; ++m) total -= P[i * ld + m] * x[m];
        x[i] = total * P[i * ld + i];
    }
    """
)
def substitute_forward(sys: wp.ref[BlockSystemView], k: int):
    """x = L⁻¹ x for the block of node k with itself."""
    ...


@wp.func_native(
    """
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    float* x = sys.x.data + sys.entry.data[k];
    for (int i = n - 1; i >= 0; --i) {
        x[i] *= P[i * ld + i];
        for (int m = 0; m < i; ++m) x[m] -= P[i * ld + m] * x[i];
    }
    """
)
def substitute_backward(sys: wp.ref[BlockSystemView], k: int):
    """x = L⁻ᵀ x for the block of node k with itself."""
    ...


@wp.func
def forward_by_lanes(team: Team, sys: wp.ref[BlockSystemView], k: int):
    """x = L⁻¹ x for the block of node k with itself; each lane has one entry of x."""
    L = sys.L
    n = sys.width[k]
    ld = pitch(n)
    first = sys.panel[k]
    entry = sys.entry[k] + team.lane
    x = float(0.0)
    if team.lane < n:
        x = sys.x[entry]
    for i in range(n):
        known = from_lane(team, x, i) * L[first + i * (ld + 1)]
        if team.lane == i:
            x = known
        elif team.lane > i and team.lane < n:
            x -= L[first + team.lane * ld + i] * known
    if team.lane < n:
        sys.x[entry] = x


@wp.func
def backward_by_lanes(team: Team, sys: wp.ref[BlockSystemView], k: int):
    """x = L⁻ᵀ x for the block of node k with itself; each lane has one entry of x."""
    L = sys.L
    n = sys.width[k]
    ld = pitch(n)
    first = sys.panel[k]
    entry = sys.entry[k] + team.lane
    x = float(0.0)
    if team.lane < n:
        x = sys.x[entry]
    for j in range(n):
        i = n - 1 - j
        known = from_lane(team, x, i) * L[first + i * (ld + 1)]
        if team.lane == i:
            x = known
        elif team.lane < i:
            x -= L[first + i * ld + team.lane] * known
    if team.lane < n:
        sys.x[entry] = x


@wp.func_native(
    """
    const int ld = sys.width.data[k] == 6 ? 8 : sys.width.data[k];
    sys.x.data[sys.entry.data[k] + i] *= sys.L.data[sys.panel.data[k] + i * (ld + 1)];
    """
)
def divide_by_pivot(sys: wp.ref[BlockSystemView], k: int, i: int):
    """Entry i of node k's x over the diagonal of the factor."""
    ...


@wp.func_native(
    """
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    float* x = sys.x.data + sys.entry.data[k];
    for (int r = i + 1 + lane; r < n; r += lanes) x[r] -= P[r * ld + i] * x[i];
    """
)
def take_off_below(lane: int, lanes: int, sys: wp.ref[BlockSystemView], k: int, i: int):
    """Subtract entry i of node k's x from those after it; the share of one lane; the first is for lane 0."""
    ...


@wp.func_native(
    """
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    float* x = sys.x.data + sys.entry.data[k];
    for (int m = lane; m < i; m += lanes) x[m] -= P[i * ld + m] * x[i];
    """
)
def take_off_above(lane: int, lanes: int, sys: wp.ref[BlockSystemView], k: int, i: int):
    """Subtract entry i of node k's x from those before it; the share of one lane."""
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    const float* x = sys.x.data + sys.entry.data[k];
    const int group = lanes < 8 ? lanes : 8;
    const int begin = sys.first.data[k], end = begin + sys.count.data[k];
    for (int e = begin + lane / group; e < end; e += lanes / group) {
        const int other = base + sys.pattern.data[e];
        float* y = sys.x.data + sys.entry.data[other];
        const float* p = P + sys.offset.data[e] * ld;
        if (n == 6) {
            #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
            for (int i = lane % group; i < sys.width.data[other]; i += group) {
                const float* q = p + i * 8;
                const float low = q[0] * x[0] + q[1] * x[1], high = q[4] * x[4] + q[5] * x[5];
                y[i] -= low + (q[2] * x[2] + q[3] * x[3]) + high;
            }
            continue;
        }
        for (int i = lane % group; i < sys.width.data[other]; i += group) {
            float total = 0.0f;
            for (int m = 0; m < n; ++m) total += p[i * ld + m] * x[m];
            y[i] -= total;
        }
    }
    """
)
def push_to_coupled(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int, k: int):
    """Subtract node k's x from that of the nodes to which it couples; the share of one lane."""
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.width.data[k];
    const int ld = n == 6 ? 8 : n;
    const float* P = sys.L.data + sys.panel.data[k];
    float* x = sys.x.data + sys.entry.data[k];
    for (int e = sys.first.data[k]; e < sys.first.data[k] + sys.count.data[k]; ++e) {
        const int other = base + sys.pattern.data[e];
        const int height = sys.width.data[other];
        const float* y = sys.x.data + sys.entry.data[other];
        const float* p = P + sys.offset.data[e] * ld;
        if (n == 6 && lanes == 1) {
            float sum[8] = {};
            #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
            for (int i = 0; i < height; ++i) {
                const float a = y[i];
                for (int m = 0; m < 8; ++m) sum[m] += p[i * 8 + m] * a;
            }
            for (int m = 0; m < 6; ++m) x[m] -= sum[m];
        } else if (n == 6) {
            for (int m = lane; m < 6; m += lanes) {
                float total = 0.0f;
                for (int i = 0; i < height; ++i) total += p[i * 8 + m] * y[i];
                x[m] -= total;
            }
        } else if (lanes == 1) {
            for (int i = 0; i < height; ++i)
                for (int m = 0; m < n; ++m) x[m] -= p[i * ld + m] * y[i];
        } else {
            for (int m = lane; m < n; m += lanes)
                for (int i = 0; i < height; ++i) x[m] -= p[i * ld + m] * y[i];
        }
    }
    """
)
def pull_from_coupled(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int, k: int):
    """Subtract the x of the nodes to which node k couples from its own; the share of one lane."""
    ...


@wp.func(inline=False)
def solve(team: Team, sys: wp.ref[BlockSystemView], w: int):
    """x = (L Lᵀ)⁻¹ x."""
    nodes = sys.nodes[w]
    for place in range(nodes):
        k = node_at(sys, w, place)
        if is_small(team, sys, k):
            if team.lane == 0:
                substitute_forward(sys, k)
        elif sys.width[k] <= lanes(team):
            forward_by_lanes(team, sys, k)
        else:
            for i in range(sys.width[k]):
                if team.lane == 0:
                    divide_by_pivot(sys, k, i)
                sync(team)
                take_off_below(team.lane, lanes(team), sys, k, i)
        sync(team)
        push_to_coupled(team.lane, lanes(team), sys, w, k)
        sync(team)
    for back in range(nodes):
        k = node_at(sys, w, nodes - 1 - back)
        pull_from_coupled(team.lane, lanes(team), sys, w, k)
        sync(team)
        if is_small(team, sys, k):
            if team.lane == 0:
                substitute_backward(sys, k)
        elif sys.width[k] <= lanes(team):
            backward_by_lanes(team, sys, k)
        else:
            width = sys.width[k]
            for j in range(width):
                i = width - 1 - j
                if team.lane == 0:
                    divide_by_pivot(sys, k, i)
                sync(team)
                take_off_above(team.lane, lanes(team), sys, k, i)
                sync(team)
        sync(team)

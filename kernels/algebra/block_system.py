"""Sparse symmetric matrices with one block per tree, one matrix per world: layout and assembly.

A matrix couples kinematic trees that touch. They are eliminated in the order of minimum degree (Rose, "A
graph-theoretic study of the numerical solution of sparse positive definite systems of linear equations",
1972; Tinney, Walker, "Direct solutions of sparse network equations by optimally ordered triangular
factorization", 1967), found by symbolic elimination of the graph itself: its rows are bit sets, so that
eliminating a tree unites sets word by word, and the remainder of a row when it is eliminated is the pattern
of the factor's column (George, Liu, "Computer Solution of Large Sparse Positive Definite Systems", 1981,
chapter 5).

A column is a panel: the rows of its diagonal block, then those of the trees to which it couples, in the order
of elimination. Rows of six entries, those of free bodies, are padded to eight, so that loops over them become
whole vector instructions.

Order of use for world w: `begin_system`, `couple` for trees with common entries, `lay_out`, then any number
of times `set_identity`, `add_row` and `add_triple`, and what `block_cholesky` does with the matrix. One lane
computes the layout; in the other functions, lanes share rows of blocks, and a `sync` is needed after
`add_triple`.

Outer loops are not unrolled on a GPU, where code that does not fit into its cache costs more than a loop.

Stage: linear algebra of the constraint solve
Called by: kernels/algebra/block_cholesky.py, kernels/constraints/adjoint/system.py,
    kernels/constraints/adjoint/unsymmetric.py, kernels/constraints/solve/matrix.py
Reads: B, BlockSystemView, TreeView, trees
Writes: BlockSystemView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, sync
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class BlockSystemView:
    """Workspace: W worlds, T trees, D dofs, N entries of patterns, E entries of panels."""

    tree_start: wp.array(dtype=int)  # (W + 1) room of each world in what has one entry a node
    nodes: wp.array(dtype=int)  # (W) nodes of the present matrix
    node: wp.array(dtype=int)  # (T) by tree: its node
    size: wp.array(dtype=int)  # (T) by tree: dofs
    start: wp.array(dtype=int)  # (T) by tree: first entry of vectors
    place: wp.array(dtype=int)  # (D) place of each dof within its tree
    width: wp.array(dtype=int)  # (T) dofs of its tree; by node, like all that follow
    entry: wp.array(dtype=int)  # (T) first entry of its vectors
    word_start: wp.array(dtype=int)  # (W + 1) room of each world in `words`
    words: wp.array(dtype=wp.uint32)  # couplings: one row of bits a tree
    degree: wp.array(dtype=int)  # (T)
    rank: wp.array(dtype=int)  # (T) place in the order of elimination
    order: wp.array(dtype=int)  # (T) node at each place of that order
    pattern_start: wp.array(dtype=int)  # (W + 1) room of each world in `pattern`
    first: wp.array(dtype=int)  # (T) where its pattern begins
    count: wp.array(dtype=int)  # (T) length of its pattern
    pattern: wp.array(dtype=int)  # (N) nodes that a column couples to, in the order of elimination
    offset: wp.array(dtype=int)  # (N) their first row in the column's panel
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `L`
    panel: wp.array(dtype=int)  # (T) where its panel begins in `L`
    L: wp.array(dtype=float)  # (E) panels by rows; diagonals of the factor are inverted
    x: wp.array(dtype=float)  # (D) by tree: right-hand side and solution


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = end - begin;
    const int words = (n + 31) >> 5;
    wp::uint32* bits = sys.words.data + sys.word_start.data[w];
    for (int i = 0; i < n * words; ++i) bits[i] = 0u;
    for (int i = 0; i < n; ++i) {
        const int t = trees.data[begin + i];
        sys.node.data[t] = i;
        sys.width.data[base + i] = sys.size.data[t];
        sys.entry.data[base + i] = sys.start.data[t];
    }
    sys.nodes.data[w] = n;
    """
)
def begin_system(sys: wp.ref[BlockSystemView], w: int, trees: wp.array(dtype=int), begin: int, end: int):
    """Set the matrix of world w to that of trees[begin : end], without couplings."""
    ...


@wp.func_native(
    """
    if (leaf[0] < 0 || leaf[1] < 0) return;
    const int n = sys.nodes.data[w];
    const int words = (n + 31) >> 5;
    wp::uint32* bits = sys.words.data + sys.word_start.data[w];
    const int i = sys.node.data[tree.body_tree.data[tree.dof_body.data[leaf[0]]]];
    const int j = sys.node.data[tree.body_tree.data[tree.dof_body.data[leaf[1]]]];
    if (i == j) return;
    bits[i * words + (j >> 5)] |= 1u << (j & 31);
    bits[j * words + (i >> 5)] |= 1u << (i & 31);
    """
)
def couple(tree: wp.ref[TreeView], sys: wp.ref[BlockSystemView], w: int, leaf: wp.vec2i):
    """Couple the trees that two dofs are on."""
    ...


@wp.func_native(
    """
    auto count_bits = [](wp::uint32 bits) {
    #if defined(__CUDA_ARCH__)
        return __popc(bits);
    #else
        return __builtin_popcount(bits);
    #endif
    };
    auto lowest_bit = [](wp::uint32 bits) {
    #if defined(__CUDA_ARCH__)
        return __ffs(bits) - 1;
    #else
        return __builtin_ctz(bits);
    #endif
    };
    const int base = sys.tree_start.data[w];
    const int n = sys.nodes.data[w];
    const int words = (n + 31) >> 5;
    wp::uint32* bits = sys.words.data + sys.word_start.data[w];
    int* degree = sys.degree.data + base;
    int* rank = sys.rank.data + base;
    int* order = sys.order.data + base;
    int* first = sys.first.data + base;
    int* count = sys.count.data + base;
    int* panel = sys.panel.data + base;
    const int* size = sys.width.data + base;
    int* pattern = sys.pattern.data;
    int* offset = sys.offset.data;
    for (int i = 0; i < n; ++i) {
        int total = 0;
        for (int k = 0; k < words; ++k) total += count_bits(bits[i * words + k]);
        degree[i] = total;
        rank[i] = -1;
    }
    int next = sys.pattern_start.data[w];
    int entry = sys.entry_start.data[w];
    float cost = 0.0f;
    int scan = 0;
    for (int place = 0; place < n; ++place) {
        while (scan < n && rank[scan] >= 0) ++scan;
        int least = scan;
        for (int i = scan; i < n; ++i) if (rank[i] < 0 && degree[i] < degree[least]) least = i;
        const wp::uint32* own = bits + least * words;
        rank[least] = place;
        order[place] = least;
        first[least] = next;
        int length = size[least];
        for (int k = 0; k < words; ++k) {
            for (wp::uint32 rest = own[k]; rest != 0u; rest &= rest - 1u) {
                const int j = (k << 5) + lowest_bit(rest);
                if (next >= sys.pattern_start.data[w + 1]) return 0.0f;
                pattern[next++] = j;
                length += size[j];
            }
        }
        count[least] = next - first[least];
        for (int e = first[least]; e < next; ++e) {
            const int j = pattern[e];
            wp::uint32* other = bits + j * words;
            int total = 0;
            for (int k = 0; k < words; ++k) other[k] |= own[k];
            other[j >> 5] &= ~(1u << (j & 31));
            other[least >> 5] &= ~(1u << (least & 31));
            for (int k = 0; k < words; ++k) total += count_bits(other[k]);
            degree[j] = total;
        }
        panel[least] = entry;
        entry += length * (size[least] == 6 ? 8 : size[least]);
        if (entry > sys.entry_start.data[w + 1]) return 0.0f;
        cost += (float)size[least] * length * length;
    }
    for (int i = 0; i < n; ++i) {
        int* nodes = pattern + first[i];
        for (int e = 1; e < count[i]; ++e) {
            const int j = nodes[e];
            int k = e;
            for (; k > 0 && rank[nodes[k - 1]] > rank[j]; --k) nodes[k] = nodes[k - 1];
            nodes[k] = j;
        }
        int row = size[i];
        for (int e = 0; e < count[i]; ++e) {
            offset[first[i] + e] = row;
            row += size[nodes[e]];
        }
    }
    return cost;
    """
)
def lay_out(sys: wp.ref[BlockSystemView], w: int) -> float:
    """Find the order of elimination and the pattern of the factor; the couplings are used up.

    Returns:
        Σ dofs · length² over the columns, about twice the multiplications of a factorization; 0 if there is
        no room.
    """
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.nodes.data[w];
    if (n == 0) return;
    const int last = base + sys.order.data[base + n - 1];
    auto pitch = [](int n) { return n == 6 ? 8 : n; };
    const int end = sys.panel.data[last] + sys.width.data[last] * pitch(sys.width.data[last]);
    float* L = sys.L.data;
    for (int k = sys.entry_start.data[w] + lane; k < end; k += lanes) L[k] = 0.0f;
    """
)
def clear_panels(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int):
    """Set all entries to zero, as far as one lane does it."""
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    const int n = sys.nodes.data[w];
    for (int i = base; i < base + n; ++i) {
        const int pitch = sys.width.data[i] == 6 ? 8 : sys.width.data[i];
        float* P = sys.L.data + sys.panel.data[i];
        for (int k = lane; k < sys.width.data[i]; k += lanes) P[k * (pitch + 1)] = 1.0f;
    }
    """
)
def set_diagonal(lane: int, lanes: int, sys: wp.ref[BlockSystemView], w: int):
    """Set the diagonal to one, as far as one lane does it."""
    ...


@wp.func
def set_identity(team: Team, sys: wp.ref[BlockSystemView], w: int):
    """Set the matrix to the identity."""
    clear_panels(team.lane, lanes(team), sys, w)
    sync(team)
    set_diagonal(team.lane, lanes(team), sys, w)
    sync(team)


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    // numbers of the two sides, not arrays: these would lie in memory on a GPU, being indexed by a variable
    int n0 = 0, n1 = 0, node0 = -1, node1 = -1, stride0 = 0, stride1 = 0;
    const int *dof0 = nullptr, *dof1 = nullptr;
    float *block0 = nullptr, *block1 = nullptr;
    auto of = [](int side, auto first, auto second) { return side == 0 ? first : second; };
    auto find = [&](int leaf, int& n, int& node, int& stride, const int*& dof, float*& block) {
        if (leaf < 0) return;
        n = tree.dof_depth.data[leaf] + 1;
        dof = tree.row_dof.data + tree.dof_row.data[leaf];
        node = sys.node.data[tree.body_tree.data[tree.dof_body.data[leaf]]];
        stride = sys.width.data[base + node] == 6 ? 8 : sys.width.data[base + node];
        block = sys.L.data + sys.panel.data[base + node];
    };
    find(leaf[0], n0, node0, stride0, dof0, block0);
    find(leaf[1], n1, node1, stride1, dof1, block1);
    const wp::vec3* b = B.data + (size_t)c * B.shape[1];
    // a contact of two free bodies, or of one: dense blocks of fixed size
#if defined(__CUDA_ARCH__)
    auto load_sides = [&]() {};
    auto side_of = [&](int side) { return b + side * depth; };
    auto add_block = [&](const wp::vec3* left, const wp::vec3* right, float* to) {
        float r0[8] = {}, r1[8] = {}, r2[8] = {};
        for (int q = 0; q < 6; ++q) { r0[q] = right[q][0]; r1[q] = right[q][1]; r2[q] = right[q][2]; }
        for (int p = lane; p < 6; p += lanes) {
            const wp::vec3 g = wp::mul(G, left[p]);
            for (int q = 0; q < 8; ++q) to[p * 8 + q] += g[0] * r0[q] + g[1] * r1[q] + g[2] * r2[q];
        }
    };
#else
    typedef float Row __attribute__((vector_size(32)));
    struct Side {
        Row b[3], g[3];  // of each dof: entries of the three rows, and G times these
    };
    Side sides[2];
    auto load_side = [&](const wp::vec3* from, Side& side) {
        // turned in registers: a vector that is loaded right after its entries were stored waits for them
        const float* x = reinterpret_cast<const float*>(from);
        Row parts[4];
        const int starts[4] = {0, 2, 8, 10};
        for (int i = 0; i < 4; ++i) __builtin_memcpy(&parts[i], x + starts[i], sizeof(Row));
        const Row none = {};
        side.b[0] = __builtin_shufflevector(parts[0], parts[2], 0, 3, 6, 9, 12, 15, 0, 0);
        side.b[1] = __builtin_shufflevector(parts[0], parts[3], 1, 4, 7, 8, 11, 14, 0, 0);
        side.b[2] = __builtin_shufflevector(parts[1], parts[3], 0, 3, 6, 9, 12, 15, 0, 0);
        for (int r = 0; r < 3; ++r)
            side.b[r] = __builtin_shufflevector(side.b[r], none, 0, 1, 2, 3, 4, 5, 8, 8);
        for (int r = 0; r < 3; ++r)
            side.g[r] = G.data[r][0] * side.b[0] + G.data[r][1] * side.b[1] + G.data[r][2] * side.b[2];
    };
    auto load_sides = [&]() {
        for (int side = 0; side < 2; ++side)
            if (of(side, n0, n1) > 0) load_side(b + side * depth, sides[side]);
    };
    auto side_of = [&](int side) -> const Side& { return sides[side]; };
    auto add_block = [&](const Side& left, const Side& right, float* to) {
        for (int p = lane; p < 6; p += lanes) {
            Row sum;
            __builtin_memcpy(&sum, to + p * 8, sizeof(Row));
            sum += left.g[0][p] * right.b[0] + left.g[1][p] * right.b[1] + left.g[2][p] * right.b[2];
            __builtin_memcpy(to + p * 8, &sum, sizeof(Row));
        }
    };
#endif
    const bool free0 = n0 == 0 || (n0 == 6 && stride0 == 8);
    const bool free1 = n1 == 0 || (n1 == 6 && stride1 == 8);
    if (free0 && free1 && node0 != node1) {
        load_sides();
        if (n0 > 0) add_block(side_of(0), side_of(0), block0);
        if (n1 > 0) add_block(side_of(1), side_of(1), block1);
        if (n0 == 0 || n1 == 0) return;
        const int first = sys.rank.data[base + node0] < sys.rank.data[base + node1] ? 0 : 1;
        int e = sys.first.data[base + of(first, node0, node1)];
        while (sys.pattern.data[e] != of(1 - first, node0, node1)) ++e;
        add_block(side_of(1 - first), side_of(first), of(first, block0, block1) + sys.offset.data[e] * 8);
        return;
    }
#if defined(__CUDA_ARCH__)
    #pragma unroll 1
#endif
    for (int side = 0; side < 2; ++side) {
        const wp::vec3* own = b + side * depth;
        const int* dofs = of(side, dof0, dof1);
#if defined(__CUDA_ARCH__)
        #pragma unroll 1
#endif
        for (int p = lane; p < of(side, n0, n1); p += lanes) {
            const wp::vec3 g = wp::mul(G, own[p]);
            const int row = sys.place.data[dofs[p]];
            float* to = of(side, block0, block1) + row * of(side, stride0, stride1);
            for (int q = 0; q <= p; ++q)
                to[sys.place.data[dofs[q]]] += g[0] * own[q][0] + g[1] * own[q][1] + g[2] * own[q][2];
        }
    }
    if (n0 == 0 || n1 == 0) return;
    if (node0 == node1) {
        float* to = block0;
        // the lane of the later dof, of either side, adds to its row
#if defined(__CUDA_ARCH__)
    #pragma unroll 1
#endif
        for (int side = 0; side < 2; ++side) {
#if defined(__CUDA_ARCH__)
        #pragma unroll 1
#endif
            for (int p = lane; p < of(side, n0, n1); p += lanes) {
                const int i = sys.place.data[of(side, dof0, dof1)[p]];
                for (int q = 0; q < of(1 - side, n0, n1); ++q) {
                    const int j = sys.place.data[of(1 - side, dof0, dof1)[q]];
                    if (i < j || (i == j && side == 1)) continue;
                    const wp::vec3 g = wp::mul(G, b[side == 0 ? p : q]);
                    const wp::vec3 o = b[depth + (side == 0 ? q : p)];
                    const float value = g[0] * o[0] + g[1] * o[1] + g[2] * o[2];
                    to[i * stride0 + j] += i == j ? 2.0f * value : value;
                }
            }
        }
        return;
    }
    const int early = sys.rank.data[base + node0] < sys.rank.data[base + node1] ? 0 : 1;
    const int late = 1 - early;
    const int column = base + of(early, node0, node1);
    const int* pattern = sys.pattern.data + sys.first.data[column];
    int e = 0;
    while (pattern[e] != of(late, node0, node1)) ++e;
    const int row0 = sys.offset.data[sys.first.data[column] + e];
#if defined(__CUDA_ARCH__)
        #pragma unroll 1
#endif
    for (int p = lane; p < of(late, n0, n1); p += lanes) {
        const wp::vec3 g = wp::mul(G, b[late * depth + p]);
        const int row = row0 + sys.place.data[of(late, dof0, dof1)[p]];
        float* to = of(early, block0, block1) + row * of(early, stride0, stride1);
        const wp::vec3* o = b + early * depth;
        for (int q = 0; q < of(early, n0, n1); ++q)
            to[sys.place.data[of(early, dof0, dof1)[q]]] += g[0] * o[q][0] + g[1] * o[q][1] + g[2] * o[q][2];
    }
    """
)
def add_triple(
    lane: int,
    lanes: int,
    tree: wp.ref[TreeView],
    sys: wp.ref[BlockSystemView],
    w: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    G: wp.mat33,
    B: wp.array2d(dtype=wp.vec3),
):
    """Add b G bᵀ of three rows with a symmetric G, as far as one lane does it.

    A lane has the rows of the matrix that belong to its dofs, see `chains.team_row_velocity`.
    """
    ...


@wp.func_native(
    """
    const int base = sys.tree_start.data[w];
    // numbers of the two sides, not arrays: these would lie in memory on a GPU, being indexed by a variable
    int n0 = 0, n1 = 0, node0 = -1, node1 = -1;
    const int *dof0 = nullptr, *dof1 = nullptr;
    auto of = [](int side, auto first, auto second) { return side == 0 ? first : second; };
    auto find = [&](int leaf, int& n, int& node, const int*& dof) {
        if (leaf < 0) return;
        n = tree.dof_depth.data[leaf] + 1;
        dof = tree.row_dof.data + tree.dof_row.data[leaf];
        node = sys.node.data[tree.body_tree.data[tree.dof_body.data[leaf]]];
    };
    find(leaf[0], n0, node0, dof0);
    find(leaf[1], n1, node1, dof1);
    const float* b = B.data + (size_t)c * B.shape[1];
#if defined(__CUDA_ARCH__)
    #pragma unroll 1
#endif
    for (int side = 0; side < 2; ++side) {
#if defined(__CUDA_ARCH__)
        #pragma unroll 1
#endif
        for (int other = 0; other < 2; ++other) {
            if (of(side, n0, n1) == 0 || of(other, n0, n1) == 0) continue;
            const int late = base + of(side, node0, node1), early = base + of(other, node0, node1);
            if (sys.rank.data[late] < sys.rank.data[early]) continue;
            int row0 = 0;
            if (late != early) {
                int e = sys.first.data[early];
                while (sys.pattern.data[e] != of(side, node0, node1)) ++e;
                row0 = sys.offset.data[e];
            }
            const int stride = sys.width.data[early] == 6 ? 8 : sys.width.data[early];
            float* to = sys.L.data + sys.panel.data[early] + row0 * stride;
#if defined(__CUDA_ARCH__)
        #pragma unroll 1
#endif
            for (int p = lane; p < of(side, n0, n1); p += lanes) {
                const float g = weight * b[side * depth + p];
                const int i = sys.place.data[of(side, dof0, dof1)[p]];
                for (int q = 0; q < of(other, n0, n1); ++q) {
                    const int j = sys.place.data[of(other, dof0, dof1)[q]];
                    if (late != early || j <= i) to[i * stride + j] += g * b[other * depth + q];
                }
            }
        }
    }
    """
)
def add_row(
    lane: int,
    lanes: int,
    tree: wp.ref[TreeView],
    sys: wp.ref[BlockSystemView],
    w: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    B: wp.array2d(dtype=float),
):
    """Add weight b bᵀ of one row, as `add_triple` does."""
    ...


@wp.func
def pitch(width: int) -> int:
    """Entries from one row of a panel to the next."""
    entries = width
    if width == 6:
        entries = 8
    return entries


@wp.func
def node_at(sys: wp.ref[BlockSystemView], w: int, place: int) -> int:
    """The node of world w that is eliminated at a place of the order."""
    base = sys.tree_start[w]
    return base + sys.order[base + place]

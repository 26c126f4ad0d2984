"""Layers of small neural networks, the same for all actuators of a group, sixteen neurons at a time.

On a CPU sixteen sums use its registers in parallel, and so do sixteen activation functions: the loops are in
C++, which a compiler turns into vector instructions. Four actuators of a world, a tile, share the weights
that are read. On a GPU, each thread handles sixteen neurons of one actuator.

LSTM: Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers et al., 2000.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/network_group.py
Reads: LayerView, cell, gates, hidden, inputs, tile
Writes: cell_out, effort, gates, hidden_out, outputs
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

WIDTH = wp.constant(16)
TILE = 4
"""Most actuators of a tile on a CPU."""
vec16 = wp.types.vector(length=16, dtype=wp.float32)

RELU = wp.constant(1)
ELU = wp.constant(2)
TANH = wp.constant(3)
SIGMOID = wp.constant(4)
SOFTSIGN = wp.constant(5)
SILU = wp.constant(6)
GELU = wp.constant(7)
GELU_TANH = wp.constant(8)
LEAKY_RELU = wp.constant(9)
SELU = wp.constant(10)
SOFTPLUS = wp.constant(11)
MISH = wp.constant(12)


@wp.struct
class LayerView:
    """A layer of n inputs and m neurons; C = m / 16, rounded up.

    The last layer of a network has one neuron, and its weights are those of sixteen inputs, (n / 16).
    """

    weight: wp.array(dtype=vec16)  # (n * C) from each input to sixteen neurons
    bias: wp.array(dtype=vec16)  # (C)
    inputs: int  # n
    blocks: int  # C
    activation: int


_FUSED = """
#if defined(__clang__) && !defined(__CUDACC__)
    #pragma clang fp contract(fast)
#endif
"""
"""Let a compiler for the CPU fuse products with the sums that take them, as one for GPUs does anyway."""

_LANES = """
#if defined(__clang__) && !defined(__CUDACC__)
    // sixteen numbers in registers; the functions below take these as well as single ones
    typedef float lanes __attribute__((vector_size(64), aligned(4)));
    typedef int whole_lanes __attribute__((vector_size(64)));
#endif
"""

_POWER = """
    // exp(v): v = n ln 2 + r, and a polynomial of r that is exact to 1e-7 of the result
    auto power = [](auto v) {
        const decltype(v) none = {}, low = none - 87.0f, high = none + 88.0f;
        v = v < low ? low : v;
        v = v > high ? high : v;
        const decltype(v) n = (v * 1.44269504f + 12582912.0f) - 12582912.0f;
        const decltype(v) r = (v - n * 0.693359375f) + n * 2.12194440e-4f;
        const decltype(v) q = ((0.0083125f * r + 0.04189033f) * r + 0.16667115f) * r + 0.4999923f;
        const decltype(v) part = q * r * r + r + 1.0f;
#if defined(__clang__) && !defined(__CUDACC__)
        if constexpr (sizeof(v) > 4)
            return part * (lanes)((__builtin_convertvector(n, whole_lanes) + 127) << 23);
        else
#endif
        {
            union { int bits; float scale; } two;
            two.bits = ((int)n + 127) << 23;
            return part * two.scale;
        }
    };
"""
"""The exponential function without a call or a branch, so that a compiler does several at once.

The polynomial is a minimax fit of e^r = 1 + r + r² q(r) for |r| up to ln(2)/2. Adding and subtracting 1.5 *
2^23 rounds to a whole number; ln 2 is in two parts, the first of which times n is exact (Cody and Waite,
"Software manual for the elementary functions", 1980).
"""

_HYPERBOLIC = """
    auto hyperbolic = [&](auto v) {
        const decltype(v) none = {}, z = v * v, a = v < none ? -v : v, e = power(-2.0f * a);
        decltype(v) p = none - 5.70498872745e-3f;
        p = p * z + 2.06390887954e-2f;
        p = p * z - 5.37397155531e-2f;
        p = p * z + 1.33314422036e-1f;
        p = p * z - 3.33332819422e-1f;
        const decltype(v) far = (1.0f - e) / (1.0f + e), signed_far = v < none ? -far : far;
        return a < none + 0.625f ? p * z * v + v : signed_far;
    };
"""
"""tanh(v), after `_POWER`: a polynomial of v near 0, and the exponential function elsewhere."""

_GATED = """
    // 1 / (1 + exp(-v)), tanh(ln(1 + exp(v))), and the normal distribution up to v, exact and by tanh
    auto logistic = [&](auto v) {
        const decltype(v) none = {}, e = power(v < none ? v : -v);
        return (v < none ? e : none + 1.0f) / (1.0f + e);
    };
    auto soft_gate = [&](auto v) {
        const decltype(v) none = {}, e = power(v < none ? v : -v);
        const decltype(v) up = v < none ? e * (e + 2.0f) : 1.0f + 2.0f * e;
        return up / (up + (v < none ? none + 2.0f : 2.0f * e * e));
    };
    auto normal = [&](auto v) {
        const decltype(v) none = {}, a = v < none ? -v : v, t = 1.0f / (1.0f + 0.231641888f * a);
        decltype(v) p = none + 0.5307027145f;
        p = p * t - 0.7265760135f;
        p = p * t + 0.7107068705f;
        p = p * t - 0.142248368f;
        p = p * t + 0.127414796f;
        const decltype(v) beyond = p * t * power(-0.5f * v * v);
        return v < none ? beyond : 1.0f - beyond;
    };
    auto normal_by_tanh = [&](auto v) {
        return 0.5f + 0.5f * hyperbolic(0.7978845608f * (v + 0.044715f * v * v * v));
    };
"""
"""Functions by which SILU, MISH, GELU and GELU_TANH multiply v, after `_POWER` and `_HYPERBOLIC`.

The normal distribution is that of Abramowitz and Stegun, "Handbook of mathematical functions", 26.2.17 and
7.1.26, within 1e-7.
"""

_ACTIVATE = (
    _LANES
    + _POWER
    + _HYPERBOLIC
    + _GATED
    + """
    auto activate = [&](auto v) {
        const decltype(v) none = {}, a = v < none ? -v : v;
        if (kind == 1) v = v < none ? none : v;
        if (kind == 2) v = v > none ? v : power(v) - 1.0f;
        if (kind == 3) v = hyperbolic(v);
        if (kind == 4) v = logistic(v);
        if (kind == 5) v = v / (1.0f + a);
        if (kind == 6) v = v * logistic(v);
        if (kind == 7) v = v * normal(v);
        if (kind == 8) v = v * normal_by_tanh(v);
        if (kind == 9) v = v > none ? v : 0.01f * v;
        if (kind == 10) v = v > none ? 1.0507009873554805f * v : 1.7580993408473766f * (power(v) - 1.0f);
        if (kind == 11) {
            // ln(1 + e) = 2 artanh(s) for s = e / (2 + e), which is at most a third
            const decltype(v) e = power(-a), s = e / (2.0f + e), z = s * s;
            decltype(v) p = none + 1.0f / 13.0f;
            p = p * z + 1.0f / 11.0f;
            p = p * z + 1.0f / 9.0f;
            p = p * z + 1.0f / 7.0f;
            p = p * z + 1.0f / 5.0f;
            p = p * z + 1.0f / 3.0f;
            v = (v < none ? none : v) + 2.0f * s * (p * z + 1.0f);
        }
        if (kind == 12) v = v * soft_gate(v);
        return v;
    };
"""
)
"""Activation functions by their numbers, such as RELU; others change nothing."""

_SLOPE = """
    // slope of an activation function, from its value and, after `_ACTIVATE`, what it is a function of
    const bool needs_argument = kind == 6 || kind == 7 || kind == 8 || kind == 12;
    auto slope = [&](float y, float x) {
        const float apart = 1.0f - (y < 0.0f ? -y : y);
        if (kind == 1) return y > 0.0f ? 1.0f : 0.0f;
        if (kind == 2) return y > 0.0f ? 1.0f : y + 1.0f;
        if (kind == 3) return 1.0f - y * y;
        if (kind == 4) return y * (1.0f - y);
        if (kind == 5) return apart * apart;
        if (kind == 6) {
            const float gate = logistic(x);
            return gate + y * (1.0f - gate);
        }
        if (kind == 7) return normal(x) + 0.3989422804f * x * power(-0.5f * x * x);
        if (kind == 8) {
            const float gate = normal_by_tanh(x);
            return gate + 1.5957691216f * y * (1.0f - gate) * (1.0f + 0.134145f * x * x);
        }
        if (kind == 9) return y > 0.0f ? 1.0f : 0.01f;
        if (kind == 10) return y > 0.0f ? 1.0507009873554805f : y + 1.7580993408473766f;
        if (kind == 11) return 1.0f - power(-y);
        if (kind == 12) {
            const float gate = soft_gate(x);
            return gate + x * (1.0f - gate * gate) * logistic(x);
        }
        return 1.0f;
    };
"""

_WEIGH = """
    typedef wp::vec_t<16, float> sixteen;
#if defined(__clang__) && !defined(__CUDACC__)
    auto read = [](const sixteen& v) { return *(const lanes*)&v; };
    // adds the weighted inputs of an actuator; four sums, none of which waits for another
    auto add = [&](lanes& y, const sixteen* w, const float* x, int n) {
        lanes b = {}, c = {}, d = {};
        int k = 0;
        for (; k + 4 <= n; k += 4) {
            y += x[k] * read(w[k * blocks]);
            b += x[k + 1] * read(w[(k + 1) * blocks]);
            c += x[k + 2] * read(w[(k + 2) * blocks]);
            d += x[k + 3] * read(w[(k + 3) * blocks]);
        }
        for (; k < n; ++k) b += x[k] * read(w[k * blocks]);
        y += b + (c + d);
    };
    // the same for four actuators, with a quarter of the reads of weights
    auto add_four = [&](lanes& a, lanes& b, lanes& c, lanes& d, const sixteen* w, const float* x,
                        int to_next, int n) {
        const float *x1 = x + to_next, *x2 = x1 + to_next, *x3 = x2 + to_next;
        for (int k = 0; k < n; ++k) {
            const lanes v = read(w[k * blocks]);
            a += x[k] * v;
            b += x1[k] * v;
            c += x2[k] * v;
            d += x3[k] * v;
        }
    };
#endif
"""
"""Weighted sums for sixteen neurons."""

_WEIGH_ADJOINT = """
    int none = 0;
    auto add_adjoint = [&](const auto& adj, auto& w, auto& adj_w, auto& x, auto& adj_x, int row, int n) {
        for (int k = 0; k < n; ++k) {
            const float value = wp::index(x, row, k);
            const wp::vec_t<16, float> of_input = w.data[k * blocks + j];
            wp::vec_t<16, float> of_weight;
            float sum = 0.0f;
            for (int l = 0; l < 16; ++l) {
                of_weight.c[l] = value * adj.c[l];
                sum += of_input.c[l] * adj.c[l];
            }
            wp::adj_address(w, k * blocks + j, adj_w, 0, of_weight);
            wp::adj_address(x, row, k, adj_x, 0, 0, sum);
        }
    };
"""


@wp.func_native(
    _FUSED
    + _ACTIVATE
    + _WEIGH
    + """
    const int to_next = inputs.shape[1], after = outputs.shape[1];
    const float* x = inputs.data + (size_t)i * to_next;
    float* y = outputs.data + (size_t)i * after + 16 * j;
    const sixteen* w = weight.data + j;
#if defined(__clang__) && !defined(__CUDACC__)
    if (count == 4) {
        lanes a = read(bias.data[j]), b = a, c = a, d = a;
        add_four(a, b, c, d, w, x, to_next, n);
        *(lanes*)y = activate(a);
        *(lanes*)(y + after) = activate(b);
        *(lanes*)(y + 2 * after) = activate(c);
        *(lanes*)(y + 3 * after) = activate(d);
        return;
    }
    for (int r = 0; r < count; ++r, x += to_next, y += after) {
        lanes a = read(bias.data[j]);
        add(a, w, x, n);
        *(lanes*)y = activate(a);
    }
#else
    for (int r = 0; r < count; ++r, x += to_next, y += after) {
        sixteen a = bias.data[j];
        for (int k = 0; k < n; ++k)
            for (int l = 0; l < 16; ++l) a.c[l] += x[k] * w[k * blocks].c[l];
        for (int l = 0; l < 16; ++l) y[l] = activate(a.c[l]);
    }
#endif
    """,
    adj_snippet=_ACTIVATE
    + _SLOPE
    + _WEIGH_ADJOINT
    + """
    for (int row = i; row < i + count; ++row) {
        wp::vec_t<16, float> adj, sum = bias.data[j];
        if (needs_argument) {
            for (int k = 0; k < n; ++k) {
                const float value = wp::index(inputs, row, k);
                for (int l = 0; l < 16; ++l) sum.c[l] += value * weight.data[k * blocks + j].c[l];
            }
        }
        for (int l = 0; l < 16; ++l) {
            const float y = wp::index(outputs, row, 16 * j + l);
            float adj_y = 0.0f;
            wp::adj_array_store(outputs, row, 16 * j + l, y, adj_outputs, none, none, adj_y);
            adj.c[l] = slope(y, sum.c[l]) * adj_y;
        }
        wp::adj_address(bias, j, adj_bias, adj_j, adj);
        add_adjoint(adj, weight, adj_weight, inputs, adj_inputs, row, n);
    }
    """,
)
def apply_block(
    weight: wp.array(dtype=vec16),
    bias: wp.array(dtype=vec16),
    inputs: wp.array2d(dtype=float),
    outputs: wp.array2d(dtype=float),
    i: int,
    count: int,
    j: int,
    blocks: int,
    n: int,
    kind: int,
):
    """Outputs of block j of sixteen neurons with n inputs, for actuators i, i + 1, ... of a tile."""
    ...


@wp.func_native(
    _FUSED
    + _LANES
    + _POWER
    + _WEIGH
    + """
    const int to_next = inputs.shape[1], to_hidden = hidden.shape[1], after = gates.shape[1];
    const float* x = inputs.data + (size_t)i * to_next;
    const float* h = hidden.data + (size_t)i * to_hidden;
    float* y = gates.data + (size_t)i * after + 16 * j;
    const sixteen *w = of_input.data + j, *u = of_hidden.data + j;
    // tanh(v) = 2 / (1 + exp(-2 v)) - 1
    sixteen stretch;
    for (int l = 0; l < 16; ++l)
        stretch.c[l] = 16 * j + l >= 2 * units && 16 * j + l < 3 * units ? 2.0f : 1.0f;
    auto open = [&](auto v, auto s) { return s / (1.0f + power(-s * v)) - (s - 1.0f); };
#if defined(__clang__) && !defined(__CUDACC__)
    const lanes s = read(stretch);
    if (count == 4) {
        lanes a = read(bias.data[j]), b = a, c = a, d = a;
        add_four(a, b, c, d, w, x, to_next, n);
        add_four(a, b, c, d, u, h, to_hidden, units);
        *(lanes*)y = open(a, s);
        *(lanes*)(y + after) = open(b, s);
        *(lanes*)(y + 2 * after) = open(c, s);
        *(lanes*)(y + 3 * after) = open(d, s);
        return;
    }
    for (int r = 0; r < count; ++r, x += to_next, h += to_hidden, y += after) {
        lanes a = read(bias.data[j]);
        add(a, w, x, n);
        add(a, u, h, units);
        *(lanes*)y = open(a, s);
    }
#else
    for (int r = 0; r < count; ++r, x += to_next, h += to_hidden, y += after) {
        sixteen a = bias.data[j];
        for (int k = 0; k < n; ++k)
            for (int l = 0; l < 16; ++l) a.c[l] += x[k] * w[k * blocks].c[l];
        for (int k = 0; k < units; ++k)
            for (int l = 0; l < 16; ++l) a.c[l] += h[k] * u[k * blocks].c[l];
        for (int l = 0; l < 16; ++l) y[l] = open(a.c[l], stretch.c[l]);
    }
#endif
    """,
    adj_snippet=_WEIGH_ADJOINT
    + """
    for (int row = i; row < i + count; ++row) {
        wp::vec_t<16, float> adj;
        for (int l = 0; l < 16; ++l) {
            const int gate = 16 * j + l;
            const float y = wp::index(gates, row, gate);
            float adj_y = 0.0f;
            wp::adj_array_store(gates, row, gate, y, adj_gates, none, none, adj_y);
            const bool candidate = gate >= 2 * units && gate < 3 * units;
            adj.c[l] = (candidate ? 1.0f - y * y : y * (1.0f - y)) * adj_y;
        }
        wp::adj_address(bias, j, adj_bias, adj_j, adj);
        add_adjoint(adj, of_input, adj_of_input, inputs, adj_inputs, row, n);
        add_adjoint(adj, of_hidden, adj_of_hidden, hidden, adj_hidden, row, units);
    }
    """,
)
def open_gates(
    of_input: wp.array(dtype=vec16),
    of_hidden: wp.array(dtype=vec16),
    bias: wp.array(dtype=vec16),
    inputs: wp.array2d(dtype=float),
    hidden: wp.array2d(dtype=float),
    gates: wp.array2d(dtype=float),
    i: int,
    count: int,
    j: int,
    blocks: int,
    n: int,
    units: int,
):
    """Block j of sixteen gates of LSTM cells of a tile: sigmoids, and tanh of the third of the four kinds."""
    ...


@wp.kernel
def apply_layer(
    first: int,
    tile: wp.array(dtype=int),
    layer: LayerView,
    inputs: wp.array2d(dtype=float),
    outputs: wp.array2d(dtype=float),
):
    """One thread per sixteen neurons of a tile k, which are the actuators from tile[k] to tile[k + 1]."""
    t = first + wp.tid()
    k = t // layer.blocks
    j = t - k * layer.blocks
    i = tile[k]
    apply_block(
        layer.weight,
        layer.bias,
        inputs,
        outputs,
        i,
        tile[k + 1] - i,
        j,
        layer.blocks,
        layer.inputs,
        layer.activation,
    )


@wp.func_native(
    _FUSED
    + _ACTIVATE
    + """
    return activate(x);
    """,
    adj_snippet=_ACTIVATE
    + _SLOPE
    + """
    adj_x += slope(activate(x), x) * adj_ret;
    """,
)
def activate_one(x: float, kind: int) -> float:
    """Activation function of one neuron."""
    ...


@wp.func_native(
    _FUSED
    + """
    // along the inputs, which are next to each other like their weights
    const float* w = reinterpret_cast<const float*>(weight.data);
    const float* x = inputs.data + (size_t)i * inputs.shape[1];
    float part[16];
    for (int l = 0; l < 16; ++l) part[l] = 0.0f;
    int k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; ++l) part[l] += x[k + l] * w[k + l];
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) part[l] += part[l + half];
    for (; k < n; ++k) part[0] += x[k] * w[k];
    return part[0];
    """,
    adj_snippet="""
    for (int k = 0; k < n; ++k) {
        wp::vec_t<16, float> of_weight;
        for (int l = 0; l < 16; ++l) of_weight.c[l] = 0.0f;
        of_weight.c[k % 16] = wp::index(inputs, i, k) * adj_ret;
        wp::adj_address(weight, k / 16, adj_weight, 0, of_weight);
        wp::adj_address(inputs, i, k, adj_inputs, 0, 0, weight.data[k / 16].c[k % 16] * adj_ret);
    }
    """,
)
def weigh_one(weight: wp.array(dtype=vec16), inputs: wp.array2d(dtype=float), i: int, n: int) -> float:
    """Weighted sum of the n inputs of actuator i for one neuron."""
    ...


@wp.kernel
def apply_output(
    first: int,
    scale: float,
    layer: LayerView,
    inputs: wp.array2d(dtype=float),
    effort: wp.array(dtype=float),
):
    """One thread per actuator: the only neuron of the last layer gives the effort."""
    i = first + wp.tid()
    offset = layer.bias[0]
    total = offset[0] + weigh_one(layer.weight, inputs, i, layer.inputs)
    effort[i] = scale * activate_one(total, layer.activation)


@wp.kernel
def apply_gates(
    first: int,
    tile: wp.array(dtype=int),
    of_input: LayerView,
    of_hidden: LayerView,
    inputs: wp.array2d(dtype=float),
    hidden: wp.array2d(dtype=float),
    gates: wp.array2d(dtype=float),
):
    """One thread per sixteen gates of a tile: how far the gates of LSTM cells are open."""
    t = first + wp.tid()
    k = t // of_input.blocks
    j = t - k * of_input.blocks
    i = tile[k]
    open_gates(
        of_input.weight,
        of_hidden.weight,
        of_input.bias,
        inputs,
        hidden,
        gates,
        i,
        tile[k + 1] - i,
        j,
        of_input.blocks,
        of_input.inputs,
        of_hidden.inputs,
    )


@wp.func_native(
    _FUSED
    + _LANES
    + _POWER
    + _HYPERBOLIC
    + """
    const float* in = gates.data + (size_t)i * gates.shape[1];
    const float *forget = in + units, *candidate = forget + units, *out = candidate + units;
    const float* before = cell.data + (size_t)i * units;
    float* after = cell_out.data + (size_t)i * units;
    float* shown = hidden_out.data + (size_t)i * units;
    for (int u = begin; u < end; ++u) {
        const float value = forget[u] * before[u] + in[u] * candidate[u];
        after[u] = value;
        shown[u] = out[u] * hyperbolic(value);
    }
    """,
    adj_snippet=_LANES
    + _POWER
    + _HYPERBOLIC
    + """
    int none = 0;
    for (int u = begin; u < end; ++u) {
        const float in = wp::index(gates, i, u), forget = wp::index(gates, i, units + u);
        const float candidate = wp::index(gates, i, 2 * units + u), out = wp::index(gates, i, 3 * units + u);
        const float before = wp::index(cell, i, u), value = forget * before + in * candidate;
        const float shape = hyperbolic(value);
        float adj_value = 0.0f, adj_shown = 0.0f;
        wp::adj_array_store(hidden_out, i, u, out * shape, adj_hidden_out, none, none, adj_shown);
        wp::adj_array_store(cell_out, i, u, value, adj_cell_out, none, none, adj_value);
        adj_value += adj_shown * out * (1.0f - shape * shape);
        wp::adj_address(gates, i, u, adj_gates, 0, 0, adj_value * candidate);
        wp::adj_address(gates, i, units + u, adj_gates, 0, 0, adj_value * before);
        wp::adj_address(gates, i, 2 * units + u, adj_gates, 0, 0, adj_value * in);
        wp::adj_address(gates, i, 3 * units + u, adj_gates, 0, 0, adj_shown * shape);
        wp::adj_address(cell, i, u, adj_cell, 0, 0, adj_value * forget);
    }
    """,
)
def update_units(
    units: int,
    gates: wp.array2d(dtype=float),
    cell: wp.array2d(dtype=float),
    cell_out: wp.array2d(dtype=float),
    hidden_out: wp.array2d(dtype=float),
    i: int,
    begin: int,
    end: int,
):
    """Units `begin` to `end` of actuator i: c' = f c + i g, h = o tanh(c'); gates in the order i, f, g, o."""
    ...


@wp.kernel
def update_cells(
    first: int,
    units: int,
    gates: wp.array2d(dtype=float),
    cell: wp.array2d(dtype=float),
    cell_out: wp.array2d(dtype=float),
    hidden_out: wp.array2d(dtype=float),
):
    """One thread per sixteen units of an actuator: what its cells hold and show next."""
    t = first + wp.tid()
    blocks = (units + WIDTH - 1) // WIDTH
    begin = WIDTH * (t % blocks)
    update_units(units, gates, cell, cell_out, hidden_out, t // blocks, begin, wp.min(begin + WIDTH, units))

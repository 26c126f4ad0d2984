"""Layers of small neural networks, the same for all actuators of a group, sixteen neurons at a time.

On a CPU sixteen sums use its registers in parallel, and so do sixteen activation functions: the loops are in
C++, which a compiler turns into vector instructions. On a GPU, each thread handles sixteen neurons of one
actuator.

LSTM: Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers et al., 2000.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/network_group.py
Reads: LayerView, cell, gates, hidden, inputs
Writes: cell_out, effort, gates, hidden_out, outputs
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

WIDTH = wp.constant(16)
vec16 = wp.types.vector(length=16, dtype=wp.float32)

RELU = wp.constant(1)
ELU = wp.constant(2)
TANH = wp.constant(3)
SIGMOID = wp.constant(4)
SOFTSIGN = wp.constant(5)


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

_POWER = """
    // exp(v): v = n ln 2 + r, and a polynomial of r that is exact to 1e-7 of the result
    auto power = [](float v) {
        v = v < -87.0f ? -87.0f : v;
        v = v > 88.0f ? 88.0f : v;
        const float n = (v * 1.44269504f + 12582912.0f) - 12582912.0f;
        const float r = (v - n * 0.693359375f) + n * 2.12194440e-4f;
        const float q = ((0.0083125f * r + 0.04189033f) * r + 0.16667115f) * r + 0.4999923f;
        union { int bits; float scale; } two;
        two.bits = ((int)n + 127) << 23;
        return (q * r * r + r + 1.0f) * two.scale;
    };
"""
"""The exponential function without a call or a branch, so that a compiler does several at once.

The polynomial is a minimax fit of e^r = 1 + r + r² q(r) for |r| up to ln(2)/2. Adding and subtracting 1.5 *
2^23 rounds to a whole number; ln 2 is in two parts, the first of which times n is exact (Cody and Waite,
"Software manual for the elementary functions", 1980).
"""


_HYPERBOLIC = """
    auto hyperbolic = [&](float v) {
        const float z = v * v, a = v < 0.0f ? -v : v, e = power(-2.0f * a);
        float p = -5.70498872745e-3f;
        p = p * z + 2.06390887954e-2f;
        p = p * z - 5.37397155531e-2f;
        p = p * z + 1.33314422036e-1f;
        p = p * z - 3.33332819422e-1f;
        const float far = (1.0f - e) / (1.0f + e);
        return a < 0.625f ? p * z * v + v : (v < 0.0f ? -far : far);
    };
"""
"""tanh(v), after `_POWER`: a polynomial of v near 0, and the exponential function elsewhere."""


@wp.func_native(
    _FUSED
    + _POWER
    + _HYPERBOLIC
    + """
    auto squash = [&](float v) {
        const float e = power(v < 0.0f ? v : -v);
        return (v < 0.0f ? e : 1.0f) / (1.0f + e);
    };
    wp::vec_t<16, float> y = x;
    if (kind == 1)
        for (int c = 0; c < 16; ++c) y.c[c] = x.c[c] < 0.0f ? 0.0f : x.c[c];
    else if (kind == 2)
        for (int c = 0; c < 16; ++c) y.c[c] = x.c[c] > 0.0f ? x.c[c] : power(x.c[c]) - 1.0f;
    else if (kind == 3)
        for (int c = 0; c < 16; ++c) y.c[c] = hyperbolic(x.c[c]);
    else if (kind == 4)
        for (int c = 0; c < 16; ++c) y.c[c] = squash(x.c[c]);
    else if (kind == 5)
        for (int c = 0; c < 16; ++c) y.c[c] = x.c[c] / (1.0f + (x.c[c] < 0.0f ? -x.c[c] : x.c[c]));
    return y;
    """,
    adj_snippet=_POWER
    + """
    for (int c = 0; c < 16; ++c) {
        const float v = x.c[c], a = v < 0.0f ? -v : v;
        float slope = 1.0f;
        if (kind == 1) slope = v > 0.0f ? 1.0f : 0.0f;
        if (kind == 2) slope = v > 0.0f ? 1.0f : power(v);
        if (kind == 3) {
            const float e = power(-2.0f * a);
            slope = 4.0f * e / ((1.0f + e) * (1.0f + e));
        }
        if (kind == 4) {
            const float e = power(-a);
            slope = e / ((1.0f + e) * (1.0f + e));
        }
        if (kind == 5) slope = 1.0f / ((1.0f + a) * (1.0f + a));
        adj_x.c[c] += slope * adj_ret.c[c];
    }
    """,
)
def activate(x: vec16, kind: int) -> vec16:
    """Activation functions of sixteen neurons: RELU, ELU, TANH, SIGMOID, SOFTSIGN, or none."""
    ...


@wp.func_native(
    _FUSED
    + _POWER
    + """
    wp::vec_t<16, float> y;
    for (int c = 0; c < 16; ++c) {
        // tanh(v) = 2 / (1 + exp(-2 v)) - 1
        const float s = begin + c >= 2 * units && begin + c < 3 * units ? 2.0f : 1.0f;
        y.c[c] = s / (1.0f + power(-s * x.c[c])) - (s - 1.0f);
    }
    return y;
    """,
    adj_snippet=_POWER
    + """
    for (int c = 0; c < 16; ++c) {
        const float s = begin + c >= 2 * units && begin + c < 3 * units ? 2.0f : 1.0f;
        const float v = s * x.c[c], e = power(v < 0.0f ? v : -v);
        adj_x.c[c] += s * s * e / ((1.0f + e) * (1.0f + e)) * adj_ret.c[c];
    }
    """,
)
def open_gates(x: vec16, begin: int, units: int) -> vec16:
    """Sixteen gates of an LSTM cell from number `begin` on: sigmoids, and tanh of the third of the four."""
    ...


@wp.func_native(
    _FUSED
    + """
    const wp::vec_t<16, float>* w = weight.data + j;
    const float* x = inputs.data + (size_t)i * inputs.shape[1];
    wp::vec_t<16, float> y = bias.data[j];
    if (n >= 4) {
        // four sums at a time, none of which waits for another
        wp::vec_t<16, float> b, c, d;
        for (int l = 0; l < 16; ++l) b.c[l] = c.c[l] = d.c[l] = 0.0f;
        int k = 0;
        for (; k + 4 <= n; k += 4) {
            for (int l = 0; l < 16; ++l) y.c[l] += x[k] * w[k * blocks].c[l];
            for (int l = 0; l < 16; ++l) b.c[l] += x[k + 1] * w[(k + 1) * blocks].c[l];
            for (int l = 0; l < 16; ++l) c.c[l] += x[k + 2] * w[(k + 2) * blocks].c[l];
            for (int l = 0; l < 16; ++l) d.c[l] += x[k + 3] * w[(k + 3) * blocks].c[l];
        }
        for (; k < n; ++k)
            for (int l = 0; l < 16; ++l) b.c[l] += x[k] * w[k * blocks].c[l];
        for (int l = 0; l < 16; ++l) y.c[l] += b.c[l] + (c.c[l] + d.c[l]);
        return y;
    }
    for (int k = 0; k < n; ++k)
        for (int l = 0; l < 16; ++l) y.c[l] += x[k] * w[k * blocks].c[l];
    return y;
    """,
    adj_snippet="""
    wp::adj_address(bias, j, adj_bias, adj_j, adj_ret);
    for (int k = 0; k < n; ++k) {
        const float x = wp::index(inputs, i, k);
        const wp::vec_t<16, float> w = weight.data[k * blocks + j];
        wp::vec_t<16, float> of_weight;
        float of_input = 0.0f;
        for (int l = 0; l < 16; ++l) {
            of_weight.c[l] = x * adj_ret.c[l];
            of_input += w.c[l] * adj_ret.c[l];
        }
        wp::adj_address(weight, k * blocks + j, adj_weight, 0, of_weight);
        wp::adj_address(inputs, i, k, adj_inputs, 0, 0, of_input);
    }
    """,
)
def weigh(
    weight: wp.array(dtype=vec16),
    bias: wp.array(dtype=vec16),
    inputs: wp.array2d(dtype=float),
    i: int,
    j: int,
    blocks: int,
    n: int,
) -> vec16:
    """Bias and weighted sums of the n inputs of actuator i for block j of sixteen neurons."""
    ...


@wp.func_native(
    """
    float* y = outputs.data + (size_t)i * outputs.shape[1] + 16 * j;
    for (int c = 0; c < 16; ++c) y[c] = x.c[c];
    """,
    adj_snippet="""
    int none = 0;
    for (int c = 0; c < 16; ++c)
        wp::adj_array_store(outputs, i, 16 * j + c, x.c[c], adj_outputs, none, none, adj_x.c[c]);
    """,
)
def keep(x: vec16, outputs: wp.array2d(dtype=float), i: int, j: int):
    """Write block j of an actuator."""
    ...


@wp.func
def weigh_inputs(layer: LayerView, i: int, j: int, inputs: wp.array2d(dtype=float)) -> vec16:
    """Weighted sums of all inputs of actuator i for sixteen neurons of a layer."""
    return weigh(layer.weight, layer.bias, inputs, i, j, layer.blocks, layer.inputs)


@wp.kernel
def apply_layer(
    first: int, layer: LayerView, inputs: wp.array2d(dtype=float), outputs: wp.array2d(dtype=float)
):
    """One thread per sixteen neurons of an actuator."""
    t = first + wp.tid()
    i = t // layer.blocks
    j = t % layer.blocks
    keep(activate(weigh_inputs(layer, i, j, inputs), layer.activation), outputs, i, j)


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
    total = layer.bias[0]
    total[0] = total[0] + weigh_one(layer.weight, inputs, i, layer.inputs)
    result = activate(total, layer.activation)
    effort[i] = scale * result[0]


@wp.kernel
def apply_gates(
    first: int,
    of_input: LayerView,
    of_hidden: LayerView,
    inputs: wp.array2d(dtype=float),
    hidden: wp.array2d(dtype=float),
    gates: wp.array2d(dtype=float),
):
    """One thread per sixteen gates of an actuator: how far the gates of an LSTM cell are open."""
    t = first + wp.tid()
    i = t // of_input.blocks
    j = t % of_input.blocks
    total = weigh_inputs(of_input, i, j, inputs) + weigh_inputs(of_hidden, i, j, hidden)
    keep(open_gates(total, WIDTH * j, of_hidden.inputs), gates, i, j)


@wp.func_native(
    _FUSED
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
    adj_snippet=_POWER
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

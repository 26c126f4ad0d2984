"""Layers of small neural networks, the same for all actuators of a group, sixteen neurons at a time.

Sixteen sums use the registers of a CPU in parallel, a fifth faster than eight; on a GPU, each thread handles
sixteen neurons of one actuator.

LSTM: Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers et al., 2000.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/network_group.py
Reads: LayerView, cell, gates, hidden, inputs
Writes: cell_out, gates, hidden_out, outputs
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
    """A layer of n inputs and m neurons; C = m / 16, rounded up."""

    weight: wp.array(dtype=vec16)  # (n * C) from each input to sixteen neurons
    bias: wp.array(dtype=vec16)  # (C)
    inputs: int  # n
    blocks: int  # C
    activation: int


@wp.func
def activate(x: float, kind: int) -> float:
    """Activation function of a neuron."""
    if kind == RELU:
        return wp.max(x, 0.0)
    if kind == ELU:
        return wp.max(x, 0.0) + wp.exp(wp.min(x, 0.0)) - 1.0
    if kind == TANH:
        return wp.tanh(x)
    if kind == SIGMOID:
        return 1.0 / (1.0 + wp.exp(-x))
    if kind == SOFTSIGN:
        return x / (1.0 + wp.abs(x))
    return x


@wp.func
def weigh_inputs(layer: LayerView, i: int, j: int, inputs: wp.array2d(dtype=float)) -> vec16:
    """Weighted sums of all inputs of actuator i for sixteen neurons of a layer.

    This is a separate function because the backward pass of a kernel does not know the sums of its loops.
    """
    total = layer.bias[j]
    for k in range(layer.inputs):
        total += inputs[i, k] * layer.weight[k * layer.blocks + j]
    return total


@wp.kernel
def apply_layer(
    first: int, layer: LayerView, inputs: wp.array2d(dtype=float), outputs: wp.array2d(dtype=float)
):
    """One thread per sixteen neurons of an actuator."""
    t = first + wp.tid()
    i = t // layer.blocks
    j = t % layer.blocks
    total = weigh_inputs(layer, i, j, inputs)
    for c in range(WIDTH):
        outputs[i, WIDTH * j + c] = activate(total[c], layer.activation)


@wp.kernel
def apply_gates(
    first: int,
    of_input: LayerView,
    of_hidden: LayerView,
    inputs: wp.array2d(dtype=float),
    hidden: wp.array2d(dtype=float),
    gates: wp.array2d(dtype=float),
):
    """One thread per sixteen gates of an actuator: the sums that enter the gates of an LSTM cell."""
    t = first + wp.tid()
    i = t // of_input.blocks
    j = t % of_input.blocks
    total = weigh_inputs(of_input, i, j, inputs) + weigh_inputs(of_hidden, i, j, hidden)
    for c in range(WIDTH):
        gates[i, WIDTH * j + c] = total[c]


@wp.kernel
def update_cells(
    first: int,
    units: int,
    gates: wp.array2d(dtype=float),
    cell: wp.array2d(dtype=float),
    cell_out: wp.array2d(dtype=float),
    hidden_out: wp.array2d(dtype=float),
):
    """One thread per unit of an actuator: c' = f c + i g, h = o tanh(c'); gates in the order i, f, g, o."""
    t = first + wp.tid()
    i = t // units
    u = t % units
    take = activate(gates[i, u], SIGMOID)
    keep = activate(gates[i, units + u], SIGMOID)
    new = wp.tanh(gates[i, 2 * units + u])
    show = activate(gates[i, 3 * units + u], SIGMOID)
    value = keep * cell[i, u] + take * new
    cell_out[i, u] = value
    hidden_out[i, u] = show * wp.tanh(value)

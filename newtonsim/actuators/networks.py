"""Small neural networks as numbers: layers from torch's state dicts and from ONNX files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from newtonsim.errors import NewtonsimError

ACTIVATIONS = (
    *("linear", "relu", "elu", "tanh", "sigmoid", "softsign"),
    *("silu", "gelu", "gelu_tanh", "leaky_relu", "selu", "softplus", "mish"),
)
"""Activation functions by their numbers in kernels, with torch's default parameters."""


@dataclass(frozen=True)
class Layer:
    """Neurons that see all inputs: f(W x + b).

    Attributes:
        weight: W, (neurons, inputs).
        bias: b, (neurons,).
        activation: One of `ACTIVATIONS`.

    Raises:
        NewtonsimError: Shapes do not match, a number is not finite, or there is no such activation.
    """

    weight: np.ndarray
    bias: np.ndarray
    activation: str = "linear"

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1] or not self.weight.size:
            raise NewtonsimError(
                f"network: expected weights (neurons, inputs) and a bias for each neuron, got "
                f"{self.weight.shape} and {self.bias.shape}"
            )
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise NewtonsimError("network: a weight is not finite")
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise NewtonsimError(f"network: there is no activation {self.activation!r}; there are {known}")

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.weight.shape[1]

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        return self.weight.shape[0]


@dataclass(frozen=True)
class Mlp:
    """A multilayer perceptron.

    Attributes:
        layers: Its layers in order.

    Raises:
        NewtonsimError: A layer does not have as many inputs as the one before has neurons.
    """

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        _check_chain(self.layers)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.layers[-1].neurons

    @classmethod
    def of_state_dict(cls, state: Mapping[str, Any], activation: str = "elu") -> Mlp:
        """Take the layers of torch's `state_dict()` of a `Sequential` of `Linear` layers.

        Args:
            state: Weights and biases by name, in the order of the layers.
            activation: Activation between the layers; the last one is linear.

        Raises:
            NewtonsimError: There are no layers, there is something else, or layers do not match.
        """
        pairs = _linear_layers(state)
        kinds = [activation] * (len(pairs) - 1) + ["linear"]
        return cls(tuple(Layer(w, b, kind) for (w, b), kind in zip(pairs, kinds)))


@dataclass(frozen=True)
class LstmLayer:
    """A layer of an LSTM; gates in the order input, forget, cell, output.

    Attributes:
        of_input: Weights of the inputs, (4 * units, inputs).
        of_hidden: Weights of the units, (4 * units, units).
        bias: Biases of the gates, (4 * units,).

    Raises:
        NewtonsimError: Shapes do not match.
    """

    of_input: np.ndarray
    of_hidden: np.ndarray
    bias: np.ndarray

    def __post_init__(self) -> None:
        gates = self.of_hidden.shape[0]
        shapes = (self.of_input.shape[:1], self.bias.shape, self.of_hidden.shape)
        if self.of_input.ndim != 2 or shapes != ((gates,), (gates,), (gates, gates // 4)) or gates % 4:
            raise NewtonsimError(
                f"network: expected LSTM weights of 4 * units gates, got {self.of_input.shape}, "
                f"{self.of_hidden.shape} and {self.bias.shape}"
            )

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.of_input.shape[1]

    @property
    def neurons(self) -> int:
        """Number of units."""
        return self.of_hidden.shape[1]


@dataclass(frozen=True)
class Lstm:
    """A network that remembers: LSTM layers, then a perceptron on the units of the last one.

    Attributes:
        cells: LSTM layers in order.
        head: Layers after them.

    Raises:
        NewtonsimError: A layer does not have as many inputs as the one before has units.
    """

    cells: tuple[LstmLayer, ...]
    head: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if not self.cells or not self.head:
            raise NewtonsimError("network: an LSTM needs a layer of cells and a layer after them")
        _check_chain((*self.cells, *self.head))

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.cells[0].inputs

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.head[-1].neurons

    @classmethod
    def of_state_dict(cls, state: Mapping[str, Any], activation: str = "elu") -> Lstm:
        """Take the layers of torch's `state_dict()` of a module with an `LSTM` and `Linear` layers.

        Args:
            state: Weights and biases by name.
            activation: Activation between the linear layers; the last one is linear.

        Raises:
            NewtonsimError: Something is missing, or the LSTM reads in both directions or has projections.
        """
        cells: dict[int, dict[str, np.ndarray]] = {}
        rest = {}
        for name, value in state.items():
            found = re.search(r"(weight_ih|weight_hh|bias_ih|bias_hh)_l(\d+)(.*)$", name)
            if found is None:
                rest[name] = value
            elif found[3]:
                raise NewtonsimError(f"network: {name}: only unidirectional LSTMs are supported")
            else:
                cells.setdefault(int(found[2]), {})[found[1]] = _numbers(name, value)
        layers = []
        for number, parts in sorted(cells.items()):
            if "weight_ih" not in parts or "weight_hh" not in parts:
                raise NewtonsimError(f"network: weights of LSTM layer {number} are missing")
            bias = sum((parts[k] for k in ("bias_ih", "bias_hh") if k in parts), np.zeros(1))
            bias = np.broadcast_to(bias, parts["weight_hh"].shape[:1])
            layers.append(LstmLayer(parts["weight_ih"], parts["weight_hh"], bias))
        pairs = _linear_layers(rest)
        kinds = [activation] * (len(pairs) - 1) + ["linear"]
        return cls(tuple(layers), tuple(Layer(w, b, kind) for (w, b), kind in zip(pairs, kinds)))


def _check_chain(layers: Sequence[Layer | LstmLayer]) -> None:
    if not layers:
        raise NewtonsimError("network: there are no layers")
    for number, (one, other) in enumerate(pairwise(layers), start=1):
        if other.inputs != one.neurons:
            raise NewtonsimError(
                f"network: layer {number} has {other.inputs} inputs, the one before {one.neurons} neurons"
            )


def _numbers(name: str, value: Any) -> np.ndarray:
    """Return a tensor or array as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        return np.array(value, np.float32)
    except (TypeError, ValueError) as error:
        raise NewtonsimError(f"network: {name}: expected numbers, got {value!r}") from error


def _linear_layers(state: Mapping[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of the linear layers of a state dict, in its order."""
    found, used = [], set()
    for name, value in state.items():
        if name.endswith("weight"):
            weight, of_bias = _numbers(name, value), name.removesuffix("weight") + "bias"
            if weight.ndim != 2:
                raise NewtonsimError(f"network: {name}: expected a linear layer, got weights {weight.shape}")
            bias = (
                _numbers(of_bias, state[of_bias]) if of_bias in state else np.zeros(len(weight), np.float32)
            )
            found.append((weight, bias))
            used |= {name, of_bias}
    unknown = [name for name in state if name not in used]
    if not found or unknown:
        raise NewtonsimError(
            f"network: expected weights and biases of linear layers, got {unknown or list(state)}"
        )
    return found

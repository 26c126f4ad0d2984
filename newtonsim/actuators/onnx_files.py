"""Networks of ONNX files: layers that follow each other, and LSTMs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from newtonsim.actuators.networks import ACTIVATIONS, Layer, Lstm, LstmLayer, Mlp
from newtonsim.errors import NewtonsimError

_ACTIVATIONS = {"Relu": "relu", "Elu": "elu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softsign": "softsign"}
_SHAPES_ONLY = {
    "Identity",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Reshape",
    "Gather",
    "Slice",
    "Shape",
    "Concat",
    "Expand",
    "ConstantOfShape",
    "Constant",
    "Cast",
}
"""Nodes that pass numbers on and only change the shape of arrays."""


def load_onnx(path: str | os.PathLike) -> Mlp | Lstm:
    """Read a network of layers that follow each other, or an LSTM with such layers, from an ONNX file.

    Args:
        path: The file.

    Returns:
        The network.

    Raises:
        NewtonsimError: The file cannot be read, or contains something other than a sequence of layers.
        ImportError: The package onnx is missing.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise ImportError("networks of ONNX files need the package onnx: pip install onnx") from error
    path = os.fspath(path)
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # the package raises whatever its parser does
        raise NewtonsimError(f"{path}: cannot be read as ONNX: {error}") from error
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            value = next((a for a in node.attribute if a.name == "value"), None)
            if value is not None:
                constants[node.output[0]] = numpy_helper.to_array(value.t)
    reader = _Reader(path, constants)
    for node in graph.node:
        reader.read(node, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
    if reader.cells:
        return Lstm(tuple(reader.cells), tuple(reader.layers))
    return Mlp(tuple(reader.layers))


class _Reader:
    """Reads the nodes of a graph one after the other."""

    def __init__(self, path: str, constants: dict[str, np.ndarray]):
        self.path, self.constants = path, constants
        self.cells: list[LstmLayer] = []
        self.layers: list[Layer] = []
        self.softsign = ("", "")
        """Names of x and of the intermediate results on the way to x / (1 + |x|)."""

    def read(self, node: Any, attributes: dict[str, Any]) -> None:
        kind = node.op_type
        if kind in ("Abs", "Div") or (self.softsign[1] and self.softsign[1] in node.input):
            self._read_softsign(node)
        elif kind in _ACTIVATIONS:
            if attributes.get("alpha", 1.0) != 1.0:
                raise self._error(node, f"alpha: expected 1, got {attributes['alpha']}")
            self._activate(node, _ACTIVATIONS[kind])
        elif kind == "Gemm":
            self._add_gemm(node, attributes)
        elif kind == "MatMul":
            weight = self._constant(node, 1).T
            self.layers.append(Layer(weight, np.zeros(len(weight), np.float32)))
        elif kind == "Add":
            self._add_bias(node)
        elif kind == "LSTM":
            self._add_cells(node, attributes)
        elif kind not in _SHAPES_ONLY:
            known = ", ".join(ACTIVATIONS)
            raise self._error(
                node, f"only sequences of layers, LSTMs and the activations {known} are supported"
            )

    def _read_softsign(self, node: Any) -> None:
        """Read a node of x / (1 + |x|), which torch writes as three."""
        if node.op_type == "Abs":
            self.softsign = (node.input[0], node.output[0])
        elif node.op_type == "Add":
            others = [name for name in node.input if name != self.softsign[1]]
            if len(others) != 1 or not np.all(self.constants.get(others[0], 0.0) == 1.0):
                raise self._error(node, "expected 1 + |x|")
            self.softsign = (self.softsign[0], node.output[0])
        elif list(node.input) == list(self.softsign):
            self._activate(node, "softsign")
            self.softsign = ("", "")
        else:
            raise self._error(node, "expected x / (1 + |x|)")

    def _error(self, node: Any, message: str) -> NewtonsimError:
        return NewtonsimError(
            f"{self.path}: node {node.name or node.output[0]!r} ({node.op_type}): {message}"
        )

    def _constant(self, node: Any, place: int) -> np.ndarray:
        name = node.input[place] if place < len(node.input) else ""
        if name not in self.constants:
            raise self._error(node, f"its input {place} is not a constant")
        return np.asarray(self.constants[name], np.float32)

    def _activate(self, node: Any, activation: str) -> None:
        if not self.layers or self.layers[-1].activation != "linear":
            raise self._error(node, "an activation without a layer before it")
        last = self.layers[-1]
        self.layers[-1] = Layer(last.weight, last.bias, activation)

    def _add_gemm(self, node: Any, attributes: dict[str, Any]) -> None:
        scales = [attributes.get(name, 1.0) for name in ("alpha", "beta")]
        if scales != [1.0, 1.0] or attributes.get("transA", 0):
            raise self._error(node, f"expected factors of 1 and inputs as rows, got {attributes}")
        weight = self._constant(node, 1)
        weight = weight if attributes.get("transB", 0) else weight.T
        bias = (
            self._constant(node, 2).reshape(-1) if len(node.input) > 2 else np.zeros(len(weight), np.float32)
        )
        self.layers.append(Layer(weight, np.broadcast_to(bias, (len(weight),))))

    def _add_bias(self, node: Any) -> None:
        place = 0 if node.input[0] in self.constants else 1
        bias = self._constant(node, place).reshape(-1)
        if not self.layers or self.layers[-1].bias.any() or self.layers[-1].activation != "linear":
            raise self._error(node, "only a bias after a layer without one can be added")
        self.layers[-1] = Layer(self.layers[-1].weight, np.broadcast_to(bias, (self.layers[-1].neurons,)))

    def _add_cells(self, node: Any, attributes: dict[str, Any]) -> None:
        """Read a layer of cells; ONNX has gates in the order i, o, f, c."""
        if attributes.get("direction", b"forward") != b"forward" or "activations" in attributes:
            raise self._error(node, "only unidirectional LSTMs with the default activations are supported")
        if self.layers:
            raise self._error(node, "an LSTM after other layers")
        of_input, of_hidden = self._constant(node, 1)[0], self._constant(node, 2)[0]
        units = of_hidden.shape[1]
        order = np.arange(4 * units).reshape(4, units)[[0, 2, 3, 1]].reshape(-1)
        bias = np.zeros(4 * units, np.float32)
        if len(node.input) > 3 and node.input[3]:
            bias = self._constant(node, 3)[0].reshape(2, -1).sum(axis=0)
        self.cells.append(LstmLayer(of_input[order], of_hidden[order], bias[order]))

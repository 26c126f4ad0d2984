"""Networks of ONNX files: layers that follow each other, and LSTMs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from newtonsim.actuators.networks import ACTIVATIONS, Layer, Lstm, LstmLayer, Mlp
from newtonsim.errors import NewtonsimError

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
    "Dropout",
}
"""Nodes that pass numbers on and only change the shape of arrays."""

_CHOOSING = {"Gather", "Slice", "Concat", "Expand"}
"""Those that may change which numbers of a layer there are; behind an LSTM they choose its last step."""

_ARITHMETIC = {"Add", "Sub", "Mul", "Div"}
"""Nodes that may be a bias or a factor for each neuron."""

_PROBES = np.concatenate([np.linspace(-6.0, 6.0, 97), [-25.0, -12.0, 12.0, 25.0]]).astype(np.float32)
"""Numbers at which activation functions are told apart, however a file writes them."""

_ZERO = int(np.flatnonzero(_PROBES == 0.0)[0])


def _known_functions() -> dict[str, np.ndarray]:
    """Values of the activation functions at `_PROBES`."""
    from scipy import special

    x = _PROBES.astype(float)
    softplus, below = np.logaddexp(0.0, x), np.expm1(np.minimum(x, 0.0))
    values = (
        *(x, np.maximum(x, 0.0), np.where(x > 0.0, x, below), np.tanh(x), special.expit(x)),
        *(x / (1.0 + np.abs(x)), x * special.expit(x), x * special.ndtr(x)),
        0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))),
        np.where(x > 0.0, x, 0.01 * x),
        1.0507009873554805 * np.where(x > 0.0, x, 1.6732632423543772 * below),
        *(softplus, x * np.tanh(softplus)),
    )
    return dict(zip(ACTIVATIONS, values, strict=True))


def load_onnx(path: str | os.PathLike) -> Mlp | Lstm:
    """Read a network of layers that follow each other, or an LSTM with such layers, from an ONNX file.

    Activation functions are recognised by their values, whatever nodes they consist of. Factors and offsets
    of the inputs, as of a normalisation, become part of the first layer.

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
        model = onnx.load(path)
    except Exception as error:  # the package raises whatever its parser does
        raise NewtonsimError(f"{path}: cannot be read as ONNX: {error}") from error
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    inputs = [item.name for item in model.graph.input if item.name not in constants]
    reader = _Reader(path, model.opset_import, constants, inputs)
    for node in model.graph.node:
        reader.read(node, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
    return reader.network([item.name for item in model.graph.output])


class _Reader:
    """Reads the nodes of a graph one after the other.

    Attributes:
        curves: What the graph's values are at `_PROBES` as functions of the numbers of the last layer, which
            are its inputs if there is no layer yet; by name.
        makers: Nodes that such functions come from, in words; by name of the value.
    """

    def __init__(self, path: str, opsets: Any, constants: dict[str, np.ndarray], inputs: list[str]):
        self.path, self.opsets, self.constants = path, opsets, constants
        self.cells: list[LstmLayer] = []
        self.layers: list[Layer] = []
        # of the inputs, before the first layer
        self.factor, self.offset = np.ones(1, np.float32), np.zeros(1, np.float32)
        self.curves = dict.fromkeys(inputs, _PROBES)
        self.makers: dict[str, str] = {}
        self.functions = _known_functions()

    def read(self, node: Any, attributes: dict[str, Any]) -> None:
        kind = node.op_type
        if all(name in self.constants or not name for name in node.input):
            if kind != "ConstantOfShape" or not self.cells:
                self._remember(node)
        elif kind == "Gemm":
            self._add_gemm(node, attributes)
        elif kind == "MatMul":
            self._add_layer(node, self._constant(node, 1).T, np.zeros(1))
        elif kind == "LSTM":
            self._add_cells(node, attributes)
        elif kind in _SHAPES_ONLY:
            self._pass_on(node)
        elif kind in _ARITHMETIC and any(self.constants.get(n, _ONE).size > 1 for n in node.input):
            self._scale(node)
        else:
            self._apply(node)

    def network(self, outputs: list[str]) -> Mlp | Lstm:
        """Return the network whose outputs have these names."""
        found = [name for name in outputs if name in self.curves]
        if not found or not (self.layers or self.cells):
            raise NewtonsimError(f"{self.path}: {', '.join(outputs)}: expected the output of a layer")
        self._end_layer(found[0], f"output {found[0]!r}")
        if self.cells:
            return Lstm(tuple(self.cells), tuple(self.layers))
        return Mlp(tuple(self.layers))

    def _error(self, node: Any, message: str) -> NewtonsimError:
        return NewtonsimError(f"{self.path}: {self._name(node)}: {message}")

    @staticmethod
    def _name(node: Any) -> str:
        return f"node {node.name or node.output[0]!r} ({node.op_type})"

    def _unknown(self, where: str) -> NewtonsimError:
        known = ", ".join(ACTIVATIONS)
        return NewtonsimError(
            f"{self.path}: {where}: only sequences of layers, LSTMs and the activations {known} are supported"
        )

    def _constant(self, node: Any, place: int) -> np.ndarray:
        name = node.input[place] if place < len(node.input) else ""
        if name not in self.constants:
            raise self._error(node, f"its input {place} is not a constant")
        return np.asarray(self.constants[name], np.float32)

    def _evaluate(self, node: Any, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return the first output of a node."""
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        named = {name: value for name, value in values.items() if name}
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
            for name, value in named.items()
        ]
        outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None)]
        graph = helper.make_graph([node], "node", infos, outputs)
        model = helper.make_model(graph, opset_imports=self.opsets)
        try:
            return np.asarray(next(iter(ReferenceEvaluator(model).run(None, named))))
        except Exception as error:  # the package raises whatever its operators do
            raise self._unknown(self._name(node)) from error

    def _remember(self, node: Any) -> None:
        """Evaluate what depends on nothing but constants."""
        values = {name: self.constants[name] for name in node.input if name}
        self.constants[node.output[0]] = self._evaluate(node, values)

    def _pass_on(self, node: Any) -> None:
        names = [name for name in node.input if name in self.curves]
        if not names or node.op_type == "Shape":
            return  # of the shape of the initial state of an LSTM
        if len(names) > 1 or (node.op_type in _CHOOSING and not self.cells):
            raise self._error(node, "it changes which numbers a layer sees; expected a sequence of layers")
        self.curves[node.output[0]] = self.curves[names[0]]
        self.makers[node.output[0]] = self.makers.get(names[0], self._name(node))

    def _apply(self, node: Any) -> None:
        """Apply a function of single numbers, which may be a part of an activation function."""
        if any(name and name not in self.curves and name not in self.constants for name in node.input):
            raise self._error(node, "it sees more than the layer before; expected a sequence of layers")

        def values(part: slice) -> np.ndarray:
            given = {
                name: self.curves[name][part] if name in self.curves else self.constants[name]
                for name in node.input
                if name
            }
            return self._evaluate(node, given)

        curve, half = values(slice(None)), slice(0, len(_PROBES) // 2)
        if curve.shape != _PROBES.shape or not np.array_equal(values(half), curve[half], equal_nan=True):
            raise self._unknown(self._name(node))
        self.curves[node.output[0]], self.makers[node.output[0]] = curve, self._name(node)

    def _scale(self, node: Any) -> None:
        """Multiply the numbers of a layer, or the inputs, by a factor each, or add a bias to each."""
        place = 0 if node.input[0] in self.constants else 1
        value, name = self._constant(node, place).reshape(-1), node.input[1 - place]
        if name not in self.curves or not np.array_equal(self.curves[name], _PROBES):
            raise self._error(node, "only a bias or a factor for each neuron of a layer, or for each input")
        factor, offset = np.ones(1, np.float32), np.zeros(1, np.float32)
        kind = node.op_type
        if kind in ("Mul", "Div"):
            if kind == "Div" and place == 0:
                raise self._error(node, "a layer as divisor")
            factor = value if kind == "Mul" else 1.0 / value
        elif kind == "Add":
            offset = value
        else:
            factor, offset = (-factor, value) if place == 0 else (factor, -value)
        self._scale_last(self._name(node), factor, offset)
        self.curves = {node.output[0]: _PROBES}

    def _scale_last(self, where: str, factor: np.ndarray, offset: np.ndarray) -> None:
        """Multiply what the last layer gives, or the inputs, by factors, and add offsets."""
        try:
            if self.layers:
                last = self.layers[-1]
                weight = last.weight * np.broadcast_to(factor, (last.neurons,))[:, None]
                self.layers[-1] = Layer(weight, last.bias * factor + np.broadcast_to(offset, (last.neurons,)))
            elif self.cells:
                raise NewtonsimError(f"{self.path}: {where}: a factor or a bias between an LSTM and a layer")
            else:
                self.factor, self.offset = self.factor * factor, self.offset * factor + offset
        except ValueError as error:
            raise NewtonsimError(
                f"{self.path}: {where}: expected a factor or a bias for each neuron, got {error}"
            ) from error

    def _end_layer(self, name: str, where: str) -> None:
        """Find out what happened to the numbers of the last layer before something sees them."""
        if name not in self.curves:
            raise NewtonsimError(
                f"{self.path}: {where}: it sees something other than the layer before; expected a sequence "
                "of layers"
            )
        curve = self.curves[name].astype(float)
        close = [
            known for known, other in self.functions.items() if np.allclose(curve, other, rtol=0, atol=2e-5)
        ]
        if close and (self.layers or close[0] == "linear"):
            if self.layers:
                last = self.layers[-1]
                self.layers[-1] = Layer(last.weight, last.bias, close[0])
            return
        # a factor and an offset that are the same for all, exactly if there is but an offset, a bias
        slope = np.polyfit(_PROBES, curve, 1)[0] if np.isfinite(curve).all() else np.nan
        slope, offset = 1.0 if abs(slope - 1.0) < 1e-6 else slope, curve[_ZERO]
        if not np.allclose(slope * _PROBES + offset, curve, rtol=0, atol=1e-4 * (1.0 + abs(slope))):
            raise self._unknown(self.makers.get(name, where))
        self._scale_last(where, np.array([slope], np.float32), np.array([offset], np.float32))

    def _add_layer(self, node: Any, weight: np.ndarray, bias: np.ndarray) -> None:
        self._end_layer(node.input[0], self._name(node))
        if weight.ndim != 2:
            raise self._error(node, f"expected weights of neurons and inputs, got {weight.shape}")
        bias = np.broadcast_to(bias, (len(weight),)).astype(np.float32)
        if not (self.layers or self.cells):
            weight, bias = self._scaled(node, weight, bias)
        self.layers.append(Layer(weight, bias))
        self.curves = {node.output[0]: _PROBES}

    def _scaled(self, node: Any, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights and the bias of the first layer for inputs before they are scaled."""
        try:
            return weight * self.factor, bias + weight @ np.broadcast_to(self.offset, weight.shape[1:])
        except ValueError as error:
            raise self._error(
                node, f"{weight.shape[1]} inputs, but there are factors for {len(self.factor)}"
            ) from error

    def _add_gemm(self, node: Any, attributes: dict[str, Any]) -> None:
        if attributes.get("transA", 0):
            raise self._error(node, f"expected inputs as rows, got {attributes}")
        weight = self._constant(node, 1) * np.float32(attributes.get("alpha", 1.0))
        weight = weight if attributes.get("transB", 0) else weight.T
        bias = self._constant(node, 2).reshape(-1) if len(node.input) > 2 else np.zeros(1)
        self._add_layer(node, weight, bias * np.float32(attributes.get("beta", 1.0)))

    def _add_cells(self, node: Any, attributes: dict[str, Any]) -> None:
        """Read a layer of cells; ONNX has gates in the order i, o, f, c."""
        if attributes.get("direction", b"forward") != b"forward" or "activations" in attributes:
            raise self._error(node, "only unidirectional LSTMs with the default activations are supported")
        if self.layers:
            raise self._error(node, "an LSTM after other layers")
        self._end_layer(node.input[0], self._name(node))
        of_input, of_hidden = self._constant(node, 1)[0], self._constant(node, 2)[0]
        units = of_hidden.shape[1]
        order = np.arange(4 * units).reshape(4, units)[[0, 2, 3, 1]].reshape(-1)
        bias = np.zeros(4 * units, np.float32)
        if len(node.input) > 3 and node.input[3]:
            bias = self._constant(node, 3)[0].reshape(2, -1).sum(axis=0)
        if not self.cells:
            of_input, bias = self._scaled(node, of_input, bias)
        self.cells.append(LstmLayer(of_input[order], of_hidden[order], bias[order]))
        # all steps of the units; torch reads their last one from the second output
        self.curves = dict.fromkeys(node.output[:2], _PROBES)


_ONE = np.ones(1)
"""Stands for what is no constant."""

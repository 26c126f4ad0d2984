"""Actuators that are networks, in all worlds: their arrays and launches."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.actuators.groups import EffortGroup, Pass, Sites
from newtonsim.actuators.models import Network
from newtonsim.actuators.networks import ACTIVATIONS, Layer, LstmLayer
from newtonsim.kernels.actuators import history, networks
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros

_WIDTH = int(networks.WIDTH)


class NetworkGroup(EffortGroup):
    """Networks that see errors of position and velocities, and give efforts.

    Attributes:
        layers: Weights of the perceptron, or of the head of an LSTM, see `LayerView`.
        cells: Weights of the layers of an LSTM: of inputs, and of units.
    """

    def __init__(self, model: Network, sites: Sites):
        super().__init__(model, sites)
        self._view = history.HistoryView()
        self._view.lag = sites.indices(np.array(model.history))
        self._view.position_first = int(model.position_first)
        self._view.position_scale = model.position_scale
        self._view.velocity_scale = model.velocity_scale
        self._view.room = max(model.history) + 1
        self._effort_scale = model.effort_scale
        network = model.network
        self._cells: tuple[LstmLayer, ...] = getattr(network, "cells", ())
        heads: tuple[Layer, ...] = getattr(network, "layers", ()) or getattr(network, "head", ())
        zero = np.zeros(1, np.float32)
        self.layers = [self._layer(a.weight, a.bias, ACTIVATIONS.index(a.activation)) for a in heads[:-1]]
        self.layers.append(self._output(heads[-1]))
        self.cells = [
            (self._layer(cell.of_input, cell.bias, 0), self._layer(cell.of_hidden, zero, 0))
            for cell in self._cells
        ]
        self._inputs = network.inputs
        self._first = zeros(self.count, dtype=int, device=self._device)
        # kinds of index beside the actuator: blocks of tiles for each layer, and of the units of cells
        start = self.ranges["actuator"]
        tiles, begins = tiles_of(start, networks.TILE if self._device.is_cpu else 1)
        self._tile = sites.indices(begins)
        for number, layer in enumerate(self.layers[:-1]):
            self.ranges[f"layer {number}"] = tiles * layer.blocks
        for number, (of_input, of_hidden) in enumerate(self.cells):
            self.ranges[f"gates {number}"] = tiles * of_input.blocks
            self.ranges[f"units {number}"] = start * -(-of_hidden.inputs // _WIDTH)

    def _layer(self, weight: np.ndarray, bias: np.ndarray, activation: int) -> networks.LayerView:
        """Return a layer with its neurons filled up to whole blocks."""
        neurons, inputs = weight.shape
        blocks = -(-neurons // _WIDTH)
        padded = np.zeros((inputs, blocks * _WIDTH), np.float32)
        padded[:, :neurons] = weight.T
        offsets = np.zeros(blocks * _WIDTH, np.float32)
        offsets[:neurons] = bias
        return self._view_of(padded, offsets, inputs, activation)

    def _output(self, layer: Layer) -> networks.LayerView:
        """Return the last layer, of one neuron, with its inputs filled up to whole blocks."""
        padded = np.zeros(-(-layer.inputs // _WIDTH) * _WIDTH, np.float32)
        padded[: layer.inputs] = layer.weight[0]
        offsets = np.zeros(_WIDTH, np.float32)
        offsets[0] = layer.bias[0]
        return self._view_of(padded, offsets, layer.inputs, ACTIVATIONS.index(layer.activation))

    def _view_of(
        self, weight: np.ndarray, bias: np.ndarray, inputs: int, activation: int
    ) -> networks.LayerView:
        layer = networks.LayerView()
        options = {"dtype": networks.vec16, "device": self._device, "requires_grad": self._requires_grad}
        layer.weight = put(weight.reshape(-1, _WIDTH), **options)
        layer.bias = put(bias.reshape(-1, _WIDTH), **options)
        layer.inputs, layer.blocks, layer.activation = inputs, len(bias) // _WIDTH, activation
        return layer

    def memory(self) -> dict[str, int]:
        """See `ActuatorGroup.memory`."""
        found = super().memory()
        if self._view.room > 1:
            found["history"] = 2 * self._view.room
        for number, cell in enumerate(self._cells):
            found[f"cell {number}"] = found[f"hidden {number}"] = cell.neurons
        return found

    def rooms(self) -> dict[str, int]:
        """See `ActuatorGroup.rooms`."""
        found = {**super().rooms(), "inputs": self._inputs}
        if self._view.room == 1:
            found["history"] = 2
        for number, layer in enumerate(self.layers[:-1]):
            found[f"layer {number}"] = _WIDTH * layer.blocks
        for number, (of_input, _) in enumerate(self.cells):
            found[f"gates {number}"] = _WIDTH * of_input.blocks
        return found

    def launch_effort(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        """See `EffortGroup.launch_effort`."""
        remembers = self._view.room > 1
        launch(
            history.collect_inputs,
            "actuator",
            reads=dict(
                view=self._view,
                coord=self.coord,
                dof=self.dof,
                copies=p.copies,
                q=p.state.joint_q,
                qd=p.state.joint_qd,
                target=command,
                count=p.before["count"] if remembers else self._first,
                ring=p.before["history"] if remembers else p.room["history"],
            ),
            writes=dict(
                ring_out=p.after["history"] if remembers else p.room["history"], inputs=p.room["inputs"]
            ),
        )
        values = p.room["inputs"]
        for number in range(len(self.cells)):
            values = self._launch_cells(launch, p, number, values)
        for number, layer in enumerate(self.layers[:-1]):
            launch(
                networks.apply_layer,
                f"layer {number}",
                reads=dict(tile=self._tile, layer=layer, inputs=values),
                writes=dict(outputs=p.room[f"layer {number}"]),
            )
            values = p.room[f"layer {number}"]
        launch(
            networks.apply_output,
            "actuator",
            reads=dict(scale=self._effort_scale, layer=self.layers[-1], inputs=values),
            writes=dict(effort=p.room["effort"]),
        )
        return p.room["effort"]

    def _launch_cells(self, launch: Launcher, p: Pass, number: int, values: wp.array) -> wp.array:
        of_input, of_hidden = self.cells[number]
        gates, cell, hidden = p.room[f"gates {number}"], f"cell {number}", f"hidden {number}"
        launch(
            networks.apply_gates,
            f"gates {number}",
            reads=dict(
                tile=self._tile,
                of_input=of_input,
                of_hidden=of_hidden,
                inputs=values,
                hidden=p.before[hidden],
            ),
            writes=dict(gates=gates),
        )
        launch(
            networks.update_cells,
            f"units {number}",
            reads=dict(units=of_hidden.inputs, gates=gates, cell=p.before[cell]),
            writes=dict(cell_out=p.after[cell], hidden_out=p.after[hidden]),
        )
        return p.after[hidden]


def tiles_of(start: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide the actuators of each world into tiles.

    Args:
        start: First actuator of each world, and the end, (world_count + 1,).
        most: Most actuators of a tile.

    Returns:
        First tile of each world, and the end, (world_count + 1,); first actuator of each tile, and the end.
    """
    tiles = np.concatenate([[0], np.cumsum(-(-np.diff(start) // most))])
    world = np.repeat(np.arange(len(start) - 1), np.diff(tiles))
    begins = start[world] + most * (np.arange(tiles[-1]) - tiles[world])
    return tiles, np.append(begins, start[-1])

"""Quadrupeds whose motors are behind actuators of different kinds, each of which lets them stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from newtonsim import envs
from newtonsim.actuators import PD, Actuator, Delay, Drive, Layer, Lstm, LstmLayer, Mlp, Network

RANDOMISE = {"mass": (0.8, 1.2), "friction": (0.5, 1.25)}
"""What differs from world to world, also without actuators."""

STIFFNESS, DAMPING = 40.0, 1.0
"""Gains of explicit control [N m/rad, N m s/rad]; networks have about the same."""

_SMALL = 0.02
"""Scale of a perceptron's inputs, at which activation functions are nearly linear."""

_DELAY = Delay(0.0, 0.01)


def perceptron(neurons: int, history: int, activation: str = "elu") -> Mlp:
    """Return two layers of neurons and an output, which is that of PD control: two neurons of each count."""
    rng = np.random.default_rng(0)
    first = rng.normal(0.0, 0.3, (neurons, 2 * history)).astype(np.float32)
    second = rng.normal(0.0, 0.3, (neurons, neurons)).astype(np.float32)
    first[:2], second[:2] = 0.0, 0.0
    first[0, 0], first[0, history] = _SMALL * STIFFNESS, -_SMALL * DAMPING
    second[0, :2] = (0.5, -0.5)
    first[1], second[1] = -first[0], -second[0]
    last = np.zeros((1, neurons), np.float32)
    last[0, :2] = (0.5, -0.5)
    none = np.zeros(neurons, np.float32)
    layers = ((first, none, activation), (second, none, activation), (last, none[:1], "linear"))
    return Mlp(tuple(Layer(*layer) for layer in layers))


def memory(units: int) -> Lstm:
    """Return a layer of cells without memory and an output; two of its units give that of PD control."""
    rng = np.random.default_rng(0)
    of_input = rng.normal(0.0, 0.3, (4 * units, 2)).astype(np.float32)
    of_hidden = rng.normal(0.0, 0.3, (4 * units, units)).astype(np.float32)
    bias = np.zeros(4 * units, np.float32)
    counts = np.arange(4 * units) % units < 2
    of_input[counts], of_hidden[counts] = 0.0, 0.0
    # input and output gates are open, those of memory are shut
    bias[counts] = np.repeat([8.0, -8.0, 0.0, 8.0], 2)
    of_input[2 * units] = (_SMALL * STIFFNESS, -_SMALL * DAMPING)
    of_input[2 * units + 1] = -of_input[2 * units]
    last = np.zeros((1, units), np.float32)
    last[0, :2] = (0.5, -0.5)
    return Lstm((LstmLayer(of_input, of_hidden, bias),), (Layer(last, np.zeros(1, np.float32)),))


def entries() -> dict[str, Actuator | None]:
    """Return the actuators that are compared, by their names; None for the drives of the solver."""
    options: dict[str, Any] = {"effort_scale": 1.0 / _SMALL, "delay": _DELAY}
    networks = {
        "network of 2 x 16": Network(network=perceptron(16, 1), **options),
        "network of 2 x 32, three steps": Network(network=perceptron(32, 3), history=(0, 1, 2), **options),
        "LSTM of 8": Network(network=memory(8), **options),
    }
    return {
        "none": None,
        "delay and drive": Drive(delay=_DELAY),
        "delay and PD": PD(stiffness=STIFFNESS, damping=DAMPING, delay=_DELAY),
        **networks,
    }


def environment(actuator: Actuator | None, worlds: int, device: str) -> envs.BatchedEnv:
    """Return quadrupeds that differ, whose twelve motors are behind an actuator."""

    class Actuated(envs.tasks.Quadruped):
        def actuators(self) -> Mapping[str | tuple[str, ...], Actuator]:
            return {} if actuator is None else {("*_abduction", "*_hip", "*_knee"): actuator}

    output = "numpy" if device == "cpu" else "torch"
    env = envs.BatchedEnv(Actuated(), worlds, device, threads=1, randomise=RANDOMISE, output=output)
    env.reset(seed=0)
    return env

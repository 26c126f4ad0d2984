"""Networks as actuators against torch, which made them, and finite differences."""

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
import warp as wp
from actuators.test_actuators import DT, arm, simulate
from torch import nn

from newtonsim.actuators import ActuatedSolver, Actuators, Layer, Lstm, LstmLayer, Mlp, Network, load_onnx
from newtonsim.actuators.network_group import tiles_of
from newtonsim.errors import NewtonsimError
from newtonsim.solvers import FeatherstoneSolver

FUNCTIONS = {
    "elu": nn.ELU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softsign": nn.Softsign,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "leaky_relu": nn.LeakyReLU,
    "selu": nn.SELU,
    "softplus": nn.Softplus,
    "mish": nn.Mish,
}


def perceptron(activation: str = "elu", inputs: int = 6, hidden: tuple[int, ...] = (32, 13)) -> nn.Sequential:
    torch.manual_seed(3)
    sizes, parts = (inputs, *hidden), []
    for one, other in zip(sizes, hidden):
        parts += [nn.Linear(one, other), FUNCTIONS[activation]()]
    return nn.Sequential(*parts, nn.Linear(hidden[-1], 1))


class Memory(nn.Module):
    """Two layers of cells and a linear one, as in rsl-rl's and Isaac Lab's actuator networks."""

    def __init__(self, inputs: int = 2, units: int = 9):
        super().__init__()
        torch.manual_seed(4)
        self.lstm = nn.LSTM(inputs, units, num_layers=2)
        self.out = nn.Linear(units, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0])


def follow(sim, actuators, steps: int, worlds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors, velocities and efforts of some steps with commands that differ, (steps, worlds)."""
    rng, found = np.random.default_rng(5), []
    for _ in range(steps):
        command = rng.uniform(-1.0, 1.0, worlds).astype(np.float32)
        sim.control.joint_act.assign(command)
        error, speed = command - sim.state.joint_q.numpy(), sim.state.joint_qd.numpy().copy()
        sim.step()
        found.append((error, speed, actuators.driven.joint_f.numpy().copy()))
    return tuple(map(np.array, zip(*found)))  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize(("position_first", "hidden"), [(True, (32, 13)), (False, (21, 37))])
def test_perceptrons_are_torchs(device: str, activation: str, position_first: bool, hidden: tuple[int, ...]):
    """Efforts in motion, worlds of eleven joints side by side, with what was now and 2 and 4 steps ago."""
    module, worlds, joints, lags = perceptron(activation, hidden=hidden), 5, 11, (0, 2, 4)
    network = Mlp.of_state_dict(module.state_dict(), activation)
    entry = Network(
        network=network,
        history=lags,
        position_first=position_first,
        position_scale=2.0,
        velocity_scale=0.3,
        effort_scale=4.0,
    )
    sim, actuators = simulate(arm(device, worlds, joints=joints), {"*": entry}, threads=2)
    error, speed, effort = follow(sim, actuators, 12, worlds * joints)
    rows = [np.maximum(np.arange(12) - lag, 0) for lag in lags]
    kinds = [2.0 * error, 0.3 * speed] if position_first else [0.3 * speed, 2.0 * error]
    inputs = np.stack([kind[row] for kind in kinds for row in rows], axis=-1)
    expected = 4.0 * module(torch.tensor(inputs)).detach().numpy()[..., 0]
    np.testing.assert_allclose(effort, expected, rtol=2e-5, atol=1e-5)
    assert expected.std() > 0.01


@pytest.mark.parametrize("units", [9, 21])
def test_lstms_are_torchs(units: int, device: str):
    module, worlds, joints = Memory(units=units), 4, 6
    entry = Network(network=Lstm.of_state_dict(module.state_dict()))
    sim, actuators = simulate(arm(device, worlds, joints=joints), {"*": entry}, threads=2)
    error, speed, effort = follow(sim, actuators, 25, worlds * joints)
    inputs = torch.tensor(np.stack([error, speed], axis=-1))
    expected = module(inputs).detach().numpy()[..., 0]
    np.testing.assert_allclose(effort, expected, rtol=1e-4, atol=1e-5)
    # a world that starts anew remembers nothing, others go on
    sim.reset(np.array([True, False, False, False]))
    error, speed, effort = follow(sim, actuators, 1, worlds * joints)
    fresh = module(torch.tensor(np.stack([error, speed], axis=-1))).detach().numpy()[0, :, 0]
    np.testing.assert_allclose(effort[0, :joints], fresh[:joints], rtol=1e-4, atol=1e-5)
    assert np.all(np.abs(effort[0, joints:] - fresh[joints:]) > 1e-3)


@pytest.mark.parametrize("kind", ["perceptron", "lstm"])
def test_onnx_files_hold_the_same_network(tmp_path, kind: str):
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "actuator.onnx"
    module = perceptron("softsign") if kind == "perceptron" else Memory()
    example = torch.zeros(1, 6) if kind == "perceptron" else torch.zeros(1, 1, 2)
    torch.onnx.export(module, (example,), path, dynamo=False)
    assert onnx.load(path).graph.node
    found = load_onnx(path)
    if kind == "perceptron":
        expected = Mlp.of_state_dict(module.state_dict(), "softsign")
        assert [layer.activation for layer in found.layers] == ["softsign", "softsign", "linear"]
        pairs = list(zip(found.layers, expected.layers))
    else:
        expected = Lstm.of_state_dict(module.state_dict())
        pairs = list(zip(found.head, expected.head))
        for one, other in zip(found.cells, expected.cells, strict=True):
            for name in ("of_input", "of_hidden", "bias"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-7)
    for one, other in pairs:
        np.testing.assert_allclose(one.weight, other.weight)
        np.testing.assert_allclose(one.bias, other.bias)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("activation", FUNCTIONS)
def test_activations_of_files_are_recognised(tmp_path, activation: str, opset: int):
    """Torch writes some of them as several nodes, and as others in newer versions of the format."""
    pytest.importorskip("onnx")
    path = tmp_path / "actuator.onnx"
    torch.onnx.export(perceptron(activation), (torch.zeros(1, 6),), path, dynamo=False, opset_version=opset)
    assert [layer.activation for layer in load_onnx(path).layers] == [activation, activation, "linear"]


class Scaled(nn.Module):
    """Inputs and outputs that are scaled, weights without biases and a function that is written out."""

    def __init__(self, cells: bool):
        super().__init__()
        torch.manual_seed(5)
        self.lstm = nn.LSTM(4, 7, batch_first=True) if cells else None
        self.first, self.last = nn.Linear(7 if cells else 4, 8, bias=False), nn.Linear(8, 1)
        self.mean = nn.Parameter(torch.randn(4))
        self.deviation = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x - self.mean) / self.deviation
        if self.lstm is not None:
            x = self.lstm(x)[0][:, -1]
        y = self.first(x)
        y = 0.5 * y * (1.0 + torch.erf(y / math.sqrt(2.0)))
        return 3.0 * self.last(y) - 0.25


@pytest.mark.parametrize("cells", [False, True])
def test_factors_and_offsets_of_files_count(tmp_path, device: str, cells: bool):
    """The efforts in motion are those of onnxruntime, which reads the file itself."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path, steps, joints = tmp_path / "actuator.onnx", 8, 3
    entry_inputs = 4
    example = torch.zeros(2, 5, entry_inputs) if cells else torch.zeros(2, entry_inputs)
    axes = {"x": {0: "batch", 1: "steps"} if cells else {0: "batch"}}
    torch.onnx.export(Scaled(cells), (example,), path, dynamo=False, input_names=["x"], dynamic_axes=axes)
    network = load_onnx(path)
    assert network.inputs == entry_inputs
    sim, actuators = simulate(arm(device, 1, joints=joints), {"*": Network(network=network, history=(0, 1))})
    error, speed, effort = follow(sim, actuators, steps, joints)
    late = np.maximum(np.arange(steps) - 1, 0)
    inputs = np.stack([error, error[late], speed, speed[late]], axis=-1).astype(np.float32)
    session = runtime.InferenceSession(path)
    for n in range(steps):
        rows = inputs[: n + 1].swapaxes(0, 1) if cells else inputs[n]
        expected = session.run(None, {"x": rows})[0][:, 0]
        np.testing.assert_allclose(effort[n], expected, rtol=1e-4, atol=1e-5)


class Branches(nn.Module):
    """Networks of which a sequence of layers is only a part."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.one, self.two = kind, nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.narrow = nn.LayerNorm(4), nn.Linear(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.one(x)
        if self.kind == "skip":
            return self.two(torch.tanh(y)) + x
        if self.kind == "side":
            return self.two(torch.tanh(y)) * self.two(x)
        if self.kind == "softmax":
            return self.two(torch.softmax(y, dim=-1))
        if self.kind == "norm":
            return self.two(self.norm(y))
        if self.kind == "sine":
            return self.two(torch.sin(y))
        if self.kind == "part":
            return self.narrow(y[:, :2])
        return self.two(torch.cat([y[:, :2], y[:, 2:]], dim=-1))


@pytest.mark.parametrize("kind", ["skip", "side", "softmax", "norm", "sine", "part", "joined"])
def test_what_is_no_sequence_of_layers_is_refused(tmp_path, kind: str):
    pytest.importorskip("onnx")
    torch.onnx.export(Branches(kind), (torch.zeros(1, 4),), tmp_path / "a.onnx", dynamo=False)
    with pytest.raises(NewtonsimError, match=r"a.onnx: node .*sequences? of layers"):
        load_onnx(tmp_path / "a.onnx")


def test_without_the_package_the_error_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "from newtonsim.actuators import load_onnx\n"
        "load_onnx('x.onnx')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr.strip().endswith(
        "ImportError: networks of ONNX files need the package onnx: pip install onnx"
    )


def test_files_that_hold_something_else_are_refused(tmp_path):
    pytest.importorskip("onnx")
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(NewtonsimError, match=r"text.onnx: cannot be read as ONNX"):
        load_onnx(tmp_path / "text.onnx")
    torch.onnx.export(
        nn.Sequential(nn.Linear(2, 3), nn.Hardswish()),
        (torch.zeros(1, 2),),
        tmp_path / "a.onnx",
        dynamo=False,
    )
    with pytest.raises(NewtonsimError, match=r"a.onnx: node .* \(Hard\w+\): only sequences of layers"):
        load_onnx(tmp_path / "a.onnx")


@wp.kernel
def weigh_end(q: wp.array(dtype=float), qd: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (1.0 + float(i)) * (3.0 * q[i] + 0.5 * qd[i]))


SMOOTH = [f"perceptron {name}" for name in FUNCTIONS if name != "elu"]


@pytest.mark.parametrize("kind", ["perceptron", *SMOOTH, "wide perceptron", "lstm", "wide lstm"])
def test_gradients_through_networks_agree_with_differences(kind: str):
    """With respect to a command in each of 10 steps, of one of five joints in turn, and to a weight of each
    layer: the second of its first block of neurons, or of wide ones of the last."""
    place = (-1, 1) if kind.startswith("wide") else (0, 1)
    if "perceptron" in kind:
        hidden = (21, 37) if kind.startswith("wide") else (8, 5)
        activation = kind.split()[1] if kind in SMOOTH else "elu"
        network = Mlp.of_state_dict(perceptron(activation, 4, hidden).state_dict(), activation)
        entry = Network(network=network, history=(0, 3), effort_scale=20.0)
    else:
        units = 18 if kind == "wide lstm" else 5
        entry = Network(network=Lstm.of_state_dict(Memory(units=units).state_dict()), effort_scale=20.0)
    steps, joints, rng = 10, 5, np.random.default_rng(0)
    given = rng.uniform(-2.0, 2.0, (steps, joints))
    chosen = np.arange(steps), np.arange(steps) % joints

    def run(commands, moved: tuple[int, float] = (0, 0.0), tape: bool = False):
        model = arm("cpu", grad=True, joints=joints)
        actuators = Actuators(model, {"*": entry}, DT)
        group = actuators.groups["*"]
        views = [*group.layers, *(view for cell in group.cells for view in cell)]
        number, step = moved
        values = views[number].weight.numpy()
        values[place] += step
        views[number].weight.assign(values)
        solver = ActuatedSolver(FeatherstoneSolver(model), actuators)
        states = [model.state() for _ in range(steps + 1)]
        controls = [model.control() for _ in range(steps)]
        states[0].joint_qd.fill_(2.0)
        loss = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
        with wp.Tape() as record:
            for n in range(steps):
                controls[n].joint_act.assign(commands[n].astype(np.float32))
                solver.step(model, states[n], states[n + 1], controls[n], None, DT)
            wp.launch(weigh_end, joints, [states[-1].joint_q, states[-1].joint_qd], [loss], device="cpu")
        if not tape:
            return float(loss.numpy()[0])
        record.backward(loss)
        weights = [view.weight.grad.numpy()[place] for view in views]
        return np.array([c.joint_act.grad.numpy() for c in controls])[chosen], weights

    found, by_weight = run(given, tape=True)
    step = 2e-2
    shifts = np.zeros((steps, steps, joints))
    shifts[(np.arange(steps), *chosen)] = step
    expected = [(run(given + shift) - run(given - shift)) / (2.0 * step) for shift in shifts]
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=5e-3 * np.abs(expected).max())
    expected = [
        (run(given, (n, step)) - run(given, (n, -step))) / (2.0 * step) for n in range(len(by_weight))
    ]
    np.testing.assert_allclose(by_weight, expected, rtol=3e-2, atol=5e-3 * np.abs(expected).max())


def test_tiles_are_parts_of_worlds():
    """Of worlds with eleven actuators, none, one and four."""
    tiles, begins = tiles_of(np.array([0, 11, 11, 12, 16]), 4)
    assert tiles.tolist() == [0, 3, 3, 4, 5]
    assert begins.tolist() == [0, 4, 8, 11, 12, 16]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network(network=mlp(5)), r"expected 2 inputs.*history=\[0\], got a network of 5"),
        (lambda: Network(network=mlp(4), history=(0, -1)), "history: expected distinct numbers of steps"),
        (lambda: Network(network=mlp(4), history=(1, 1)), "history"),
        (lambda: Network(network=mlp(2, 3)), "expected one output, the effort, got 3"),
        (lambda: Network(network=3), "expected an Mlp or an Lstm, got a int"),
        (lambda: Network(network=mlp(2), effort_scale=math.nan), "effort_scale"),
        (
            lambda: Mlp((Layer(np.ones((3, 2)), np.ones(3)), Layer(np.ones((1, 4)), np.ones(1)))),
            "layer 1 has 4 inputs",
        ),
        (lambda: Layer(np.ones((3, 2)), np.ones(2)), "a bias for each neuron"),
        (lambda: Layer(np.full((1, 2), np.nan), np.ones(1)), "not finite"),
        (lambda: Layer(np.ones((1, 2)), np.ones(1), "sine"), "there is no activation 'sine'"),
        (lambda: LstmLayer(np.ones((8, 2)), np.ones((8, 3)), np.ones(8)), "4 \\* units gates"),
        (lambda: Lstm((), ()), "needs a layer of cells"),
        (lambda: Mlp.of_state_dict({"a.weight": np.ones((1, 2)), "b": np.ones(1)}), r"got \['b'\]"),
        (lambda: Mlp.of_state_dict({"conv.weight": np.ones((1, 2, 3))}), "expected a linear layer"),
        (lambda: Mlp.of_state_dict(Memory().state_dict()), "LSTM|linear"),
    ],
)
def test_networks_of_the_wrong_form_are_refused(make, message: str):
    with pytest.raises(NewtonsimError, match=message):
        make()


def mlp(inputs: int, outputs: int = 1) -> Mlp:
    return Mlp((Layer(np.ones((outputs, inputs)), np.ones(outputs)),))

"""Policies of SHAC as files: what they hold, what the command plays, and what is refused."""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import small_problems as small

from newtonsim import optimize
from newtonsim.cli.main import main
from newtonsim.errors import NewtonsimError
from newtonsim.learn import PolicyFile, save_shac

MODULE = """
from newtonsim import optimize
import small_problems as small

def to_the_middle():
    cart = small.cart()
    cart.add_shape_box(0, hx=0.3, hy=0.2, hz=0.2, density=0.0)
    costs = [optimize.JointCost(4.0, 0.5, joint_q=[0.0]), optimize.ControlCost(0.1)]
    return optimize.Problem(cart, costs, 8, small.H, bounds=(-20.0, 20.0))

def weaker():
    costs = [optimize.JointCost(4.0, 0.5, joint_q=[0.0])]
    return optimize.Problem(small.cart(), costs, 8, small.H, bounds=(-10.0, 20.0))

def nothing():
    return None
"""
"""A mass on a rail that is to be at 0; half of these costs times the time of a control count."""
EPISODE = 30


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a module and the policy of a little learning, which is `policy.onnx`."""
    folder = tmp_path_factory.mktemp("carts")
    (folder / "own_carts.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        own_carts = carts()
        shac = optimize.SHAC(own_carts.to_the_middle(), worlds=8, spread=1.0, episode=EPISODE, hidden=8)
        shac.train(4)
        assert shac.samples == 4 * 8 * 8
        save_shac(folder / "policy.onnx", shac, "own_carts:to_the_middle")
        own_carts.shac = shac
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))


def carts() -> Any:
    """Return the module."""
    return importlib.import_module("own_carts")


def cost_of_a_second(act, starts: np.ndarray, controls: int) -> np.ndarray:
    """Return the costs of the carts by their equation of motion in double precision, (n,)."""
    (A, B), total, x = small.cart_matrices(), np.zeros(len(starts)), starts.T.astype(float)
    for _ in range(controls):
        u = np.asarray(act(x.T.astype(np.float32)), float).T
        # states between controls and the one after the last cost alike
        x = A @ x + B @ u
        total += 0.5 * (4.0 * x[0] ** 2 + 0.5 * x[1] ** 2 + 0.1 * u[0] ** 2)
    return total / controls


def test_carts_that_follow_a_law_cost_what_their_equation_says():
    own_carts = carts()
    starts = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)

    def law(x: np.ndarray) -> np.ndarray:
        return -x @ np.array([[3.0], [4.0]])

    seen: list[int] = []
    problem = own_carts.to_the_middle()
    found = optimize.run_policy(problem, law, (starts[:, :1], starts[:, 1:]), 40, seen.append)
    np.testing.assert_allclose(found, cost_of_a_second(law, starts, 40), rtol=1e-4)
    assert seen == [*range(1, 41)]


def test_a_motion_that_is_not_finite_is_told():
    own_carts = carts()

    def law(x: np.ndarray) -> np.ndarray:
        return np.where(x[:, :1] > 0.0, np.float32(np.inf), 0.0)

    found = optimize.run_policy(own_carts.to_the_middle(), law, ([[1.0], [-1.0]], [[0.0], [0.0]]), 3)
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


def test_what_does_not_fit_is_refused():
    own_carts = carts()
    problem, right = own_carts.to_the_middle(), (np.ones((3, 1)), np.zeros((3, 1)))
    with pytest.raises(NewtonsimError, match=r"policy: expected controls of shape \(3, 1\), got \(3, 2\)"):
        optimize.run_policy(problem, lambda x: x, right, 2)
    with pytest.raises(NewtonsimError, match="starts: joint_qd"):
        optimize.run_policy(problem, lambda x: x[:, :1], (right[0], np.zeros((2, 1))), 2)
    with pytest.raises(NewtonsimError, match=r"starts: expected joint_q of shape \(n, 1\)"):
        optimize.run_policy(problem, lambda x: x[:, :1], ([1.0], [0.0]), 2)


def test_the_file_acts_as_the_policy_without_newtonsim(place: Path):
    own_carts = carts()
    session = onnxruntime.InferenceSession(str(place / "policy.onnx"))
    states = np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)
    controls = session.run(None, {"obs": states})[0]
    wanted = [own_carts.shac((x[:1], x[1:])) for x in states]
    np.testing.assert_allclose(controls, wanted, atol=1e-4)
    about = json.loads(session.get_modelmeta().custom_metadata_map["newtonsim"])
    assert about["episode"] == EPISODE
    assert about["samples"] == 256
    starts = np.array(about["starts"])
    assert starts.shape == (128, 2)
    # the start of the builder, 1 m away at rest, with a deviation of 1
    np.testing.assert_allclose(starts.mean(axis=0), [1.0, 0.0], atol=0.4)
    np.testing.assert_allclose(starts.std(axis=0), 1.0, atol=0.25)


def test_play_tells_what_the_policy_costs(place: Path, capsys: pytest.CaptureFixture[str]):
    """All starts of the file, some of them at a time, in the order of the seed."""
    command = ["play", "policy.onnx", "--device", "cpu", "--episodes", "500", "--num-envs", "50"]
    assert main(command) == 0
    out, line = capsys.readouterr()
    assert "policy.onnx: own_carts:to_the_middle, learned from 256 samples" in out
    assert "own_carts:to_the_middle: 128 of 128 episodes" in line
    policy = PolicyFile(place / "policy.onnx")
    wanted = cost_of_a_second(policy, np.array(policy.about["starts"], np.float32), EPISODE)
    told = re.search(r"cost of a second (\S+) ± (\S+) \(maximum (\S+)\)", out)
    assert told is not None
    mean, spread, most = map(float, told.groups())
    np.testing.assert_allclose([mean, spread, most], [wanted.mean(), wanted.std(), wanted.max()], rtol=2e-3)
    assert f"{EPISODE} controls, 128 episodes" in out


def test_play_films_a_cart_that_moves(place: Path):
    imageio = pytest.importorskip("imageio.v3")
    command = ["play", "policy.onnx", "--device", "cpu", "--episodes", "2", "--video", "cart.mp4"]
    assert main([*command, "--seconds", "2.5"]) == 0
    frames = imageio.imread(place / "cart.mp4").astype(float)
    assert len(frames) == pytest.approx(75, abs=2)
    # one that has stayed where it was has the pictures of the start
    assert np.abs(frames[20:40] - frames[0]).mean(axis=(1, 2, 3)).min() > 1.0


def test_episodes_follow_each_other(place: Path):
    """Each begins at the next start of the file, and in between the cart obeys its equation."""
    own_carts = carts()
    from newtonsim.cli.play_problem import _acting

    problem, policy = own_carts.to_the_middle(), PolicyFile(place / "policy.onnx")
    sim, (A, B) = problem.make_simulator(), small.cart_matrices()
    starts = np.array([[1.0, 0.5], [-2.0, 0.0]], np.float32)
    steps, times = _acting(policy, problem, sim, (starts[:, :1], starts[:, 1:])), []
    for start in (*starts, starts[0]):
        x = start.astype(float)
        for count in range(EPISODE + 1):
            next(steps)
            seen = [sim.state.joint_q.numpy()[0], sim.state.joint_qd.numpy()[0]]
            np.testing.assert_allclose(seen, x, atol=1e-4 * max(1.0, np.abs(x).max()))
            times.append(sim.time)
            if count < EPISODE:
                x = A @ x + B @ policy(np.array([seen], np.float32))[0]
    # for films and pages, time goes on
    assert times[-1] == pytest.approx(3 * EPISODE * small.H, rel=1e-5)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["play", "policy.onnx", "--option", "mass=2"], "--option: policy.onnx is for a problem"),
        (["play", "policy.onnx", "--level", "2"], "--level: policy.onnx is for a problem"),
        (["transfer", "policy.onnx"], "policy.onnx is for the problem own_carts:to_the_middle"),
    ],
)
def test_what_commands_refuse(command: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_a_module_that_is_gone_is_named(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p) != place])
    monkeypatch.delitem(sys.modules, "own_carts", raising=False)
    assert main(["play", str(place / "policy.onnx"), "--device", "cpu"]) == 2
    assert "there is no module 'own_carts' to make problems" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("own_carts", "problem: expected module:name"),
        ("own_carts:to_the_midle", "has no function 'to_the_midle'; did you mean 'to_the_middle'"),
        ("own_carts:nothing", "own_carts:nothing returned NoneType, not an optimize.Problem"),
        ("own_carts:weaker", r"is not that of the policy: .*'low': \[-10.0\]"),
        ("no_such_module:cart", "there is no module 'no_such_module' to make problems"),
    ],
)
def test_problems_that_are_not_that_of_the_policy_are_refused(tmp_path: Path, problem: str, message: str):
    own_carts = carts()
    shac = optimize.SHAC(own_carts.to_the_middle(), worlds=2, hidden=4)
    with pytest.raises(NewtonsimError, match=message):
        save_shac(tmp_path / "policy.onnx", shac, problem)
    assert not [*tmp_path.iterdir()]


def test_the_command_trains_as_a_program_does(place: Path, capsys: pytest.CaptureFixture[str]):
    """With the same seed and settings: the same policy, which plays. A second run would replace it."""
    command = ["train", "own_carts:to_the_middle", "--algorithm", "shac", "--device", "cpu", "--no-video"]
    settings = [
        "--num-envs=8",
        "--samples=256",
        "--set=spread=1.0",
        f"--set=episode={EPISODE}",
        "--set=hidden=8",
    ]
    assert main([*command, *settings, "--folder", "run"]) == 0
    out = capsys.readouterr().out
    assert "in 4 iterations" in out
    assert f"{EPISODE} controls, 128 episodes" in out
    policy, wanted = PolicyFile("run/policy.onnx"), PolicyFile(place / "policy.onnx")
    seen = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    np.testing.assert_allclose(policy(seen), wanted(seen), atol=1e-5)
    assert policy.about["samples"] == 256
    for wrong, error in (
        ("--folder=run", "run/policy.onnx: exists"),
        ("--set=hiden=8", "no setting 'hiden'; did you mean 'hidden'"),
        ("--option=a=1", "--option: --algorithm shac has no such option"),
    ):
        assert main([*command, wrong]) == 2
        assert error in capsys.readouterr().err

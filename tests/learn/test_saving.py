"""Policies of other libraries as files: they act as their functions do, here and in another engine."""

import numpy as np
import pytest
import torch
from torch import nn

from newtonsim import envs
from newtonsim.cli import main
from newtonsim.errors import NewtonsimError
from newtonsim.learn import PolicyFile, Run, Training, evaluate, save_policy, settings_of

MEAN = torch.tensor([0.1, -0.2, 0.05, 0.3])


def balancing(obs: torch.Tensor) -> torch.Tensor:
    """Push the cart to the side that the pole falls to."""
    return ((obs - MEAN) @ torch.tensor([0.3, 3.0, 0.5, 1.0]) > 0.0).long()


def test_a_function_acts_as_before_and_plays(tmp_path, capsys: pytest.CaptureFixture):
    path = tmp_path / "balancing.onnx"
    save_policy(path, balancing, "CartPole", {"max_episode_steps": 80}, samples=12_000)
    read = PolicyFile(path)
    obs = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    pushed = read(obs)
    np.testing.assert_array_equal(pushed, balancing(torch.from_numpy(obs)).numpy())
    assert 50 < pushed.sum() < 150
    assert main.main(["play", str(path), "--episodes", "4", "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert "CartPole, learned from 12,000 samples" in told
    env = envs.make("CartPole", 4, "cpu", max_episode_steps=80)
    found = evaluate(lambda o: balancing(torch.from_numpy(o)).numpy(), env, 4)
    env.close()
    assert str(found) in told


def test_a_module_keeps_its_weights(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(9), nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 1), nn.Tanh()).eval()
    save_policy(tmp_path / "net.onnx", module, "InvertedDoublePendulum")
    obs = np.random.default_rng(0).standard_normal((50, 9)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(obs)).numpy()
    assert expected.std() > 0.05
    np.testing.assert_allclose(PolicyFile(tmp_path / "net.onnx")(obs), expected, atol=1e-6)


def test_pictures(tmp_path):
    def act(obs: torch.Tensor) -> torch.Tensor:
        return (obs.float().mean(dim=(1, 2, 3)) > 128.0).long()

    save_policy(tmp_path / "seeing.onnx", act, "CartPoleVision", {"screen_size": 12})
    pictures = np.zeros((2, 12, 12, 4), np.uint8)
    pictures[1] = 200
    assert PolicyFile(tmp_path / "seeing.onnx")(pictures).tolist() == [0, 1]


def of_all_worlds(obs: torch.Tensor) -> torch.Tensor:
    return torch.full((len(obs),), int(obs.sum() > 0.0))


def of_no_world(obs: torch.Tensor) -> torch.Tensor:
    return torch.tensor([0, 1, 0, 1, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda obs: obs[:, :2].long(), "expected shape"),
        (lambda obs: 0 * obs[:, 0].long() + 7, "expected"),
        (of_all_worlds, "torch cannot write it as a graph"),
        (of_no_world, "does something else in 3 worlds"),
    ],
)
def test_what_cannot_be_saved_is_refused(act, message: str, tmp_path):
    with pytest.raises(NewtonsimError, match=message):
        save_policy(tmp_path / "wrong.onnx", act, "CartPole")
    assert not list(tmp_path.iterdir())


def test_wrong_names_are_refused(tmp_path):
    with pytest.raises(NewtonsimError, match="there is no environment 'CartPol'"):
        save_policy(tmp_path / "wrong.onnx", balancing, "CartPol")
    with pytest.raises(NewtonsimError, match="gravitation"):
        save_policy(tmp_path / "wrong.onnx", balancing, "CartPole", {"gravitation": 3.0})


def test_a_training_does_not_start_from_it(tmp_path):
    """Which layers it has is not known."""
    save_policy(tmp_path / "balancing.onnx", balancing, "CartPole")
    run = Run("CartPole", settings_of("CartPole"), start=str(tmp_path / "balancing.onnx"))
    with pytest.raises(NewtonsimError, match="not of another library"):
        Training(run, tmp_path / "run", device="cpu")

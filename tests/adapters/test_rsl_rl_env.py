"""The environment of rsl-rl: numbers, ends and lengths of the batched one, and a runner that learns."""

import importlib
import sys

import numpy as np
import pytest
import torch
from host_work import forbid_host_work
from rsl_rl.runners import OnPolicyRunner

from newtonsim import envs
from newtonsim.adapters.rsl_rl_env import RslRlEnv
from newtonsim.errors import NewtonsimError

TRAINING = {
    "num_steps_per_env": 24,
    "save_interval": 100,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "algorithm": {
        "class_name": "PPO",
        "num_learning_epochs": 4,
        "num_mini_batches": 4,
        "learning_rate": 3.0e-3,
        "schedule": "adaptive",
        "desired_kl": 0.02,
    },
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [32],
        "activation": "elu",
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [32], "activation": "elu"},
}


def wrapped(name: str, num_envs: int, seed: int = 0, **options) -> RslRlEnv:
    return RslRlEnv(envs.make(name, num_envs, device="cpu", output="torch", **options), seed)


def test_steps_are_those_of_the_batched_environment():
    env = wrapped("Hopper", 5, seed=3, max_episode_steps=12)
    plain = envs.make("Hopper", 5, device="cpu", max_episode_steps=12)
    expected = plain.reset(seed=3)[0]
    before = env.get_observations()
    plain.action_space.seed(1)
    ends = np.zeros(2, int)
    for _ in range(40):
        action = plain.action_space.sample()
        obs, reward, done, extras = env.step(torch.from_numpy(action))
        np.testing.assert_array_equal(before["policy"], expected)  # the step has not changed it
        expected, expected_reward, terminated, truncated, _ = plain.step(action)
        np.testing.assert_array_equal(obs["policy"], expected)
        np.testing.assert_array_equal(reward, expected_reward)
        np.testing.assert_array_equal(done, terminated | truncated)
        np.testing.assert_array_equal(extras["time_outs"], truncated & ~terminated)
        ends += [terminated.sum(), extras["time_outs"].sum()]
        before = obs
    assert (ends > 0).all()


def test_a_runner_goes_on_from_a_restored_environment():
    env = wrapped("Hopper", 3)
    expected = env.step(torch.zeros(3, env.num_actions))[0]["policy"]
    memory = env.env.snapshot()
    env.step(torch.ones(3, env.num_actions))
    memory.restore()
    np.testing.assert_array_equal(env.get_observations()["policy"], expected)


def test_written_lengths_decide_when_an_episode_is_truncated():
    env = wrapped("HalfCheetah", 4, max_episode_steps=10)
    assert env.max_episode_length == 10
    env.episode_length_buf = torch.tensor([0, 3, 6, 9])
    ends = []
    for _ in range(10):
        ends.append(env.step(torch.zeros(4, 6))[3]["time_outs"].tolist())
    last_step = 1 + np.argmax(ends, axis=0)
    np.testing.assert_array_equal(last_step, [10, 7, 4, 1])
    np.testing.assert_array_equal(env.episode_length_buf, [0, 3, 6, 9])


def test_the_log_averages_the_last_episode_of_each_world():
    env = wrapped("CartPole", 3, max_episode_steps=8)
    env.episode_length_buf = torch.tensor([0, 2, 5])
    stay = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
    logs = [env.step(stay[k].expand(3, 2))[3]["log"] for k in range(8)]
    # worlds end after 8, 6 and 3 steps of reward 1; their lengths count what was written
    for step, expected in ((1, 0.0), (3, 3.0), (5, 3.0), (6, 4.5), (8, 17.0 / 3.0)):
        assert float(logs[step - 1]["/episode/return"]) == pytest.approx(expected)
    assert float(logs[-1]["/episode/length"]) == 8.0
    assert float(logs[-1]["/episode/failures"]) == 0.0


def test_the_greatest_of_the_actions_is_the_choice():
    env, plain = wrapped("CartPole", 3, seed=1), envs.make("CartPole", 3, device="cpu")
    plain.reset(seed=1)
    obs = env.step(torch.tensor([[0.1, -2.0], [-3.0, -1.0], [5.0, 5.5]]))[0]
    np.testing.assert_array_equal(obs["policy"], plain.step(np.array([0, 1, 1]))[0])
    with pytest.raises(NewtonsimError, match=r"actions: expected shape \(3, 2\), got \(3, 1\)"):
        env.step(torch.zeros(3, 1))


def test_pictures_have_channels_first():
    env = wrapped("CartPoleVision", 2)
    plain = envs.make("CartPoleVision", 2, device="cpu").reset(seed=0)[0]
    picture = env.get_observations()["policy"]
    assert picture.dtype == torch.float32
    np.testing.assert_allclose(picture.permute(0, 2, 3, 1) * 255.0, plain, atol=1e-4)


def test_a_runner_learns(tmp_path, capsys: pytest.CaptureFixture):
    """Random pushes keep the pole up for 22 steps; the log and random first lengths are rsl-rl's own."""
    torch.manual_seed(0)
    env = wrapped("CartPole", 64)
    runner = OnPolicyRunner(env, TRAINING, log_dir=str(tmp_path))
    runner.learn(25, init_at_random_ep_len=True)
    assert "/episode/return" in capsys.readouterr().out
    assert list(tmp_path.glob("events*"))
    policy, obs = runner.get_inference_policy(), env.reset(seed=1)[0]
    alive = torch.ones(64, dtype=torch.bool)
    with torch.inference_mode():
        for _ in range(100):
            obs, _, done, _ = env.step(policy(obs))
            alive &= ~done
    assert alive.float().mean() > 0.5


def test_a_step_reads_nothing_back(monkeypatch: pytest.MonkeyPatch):
    env = wrapped("CartPole", 4)
    env.step(torch.zeros(4, 2))

    forbid_host_work(monkeypatch, env.env)
    for _ in range(3):
        env.step(torch.zeros(4, 2))


def test_wrong_environments_are_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NewtonsimError, match="env: expected one with output='torch', got 'numpy'"):
        RslRlEnv(envs.make("CartPole", 2, device="cpu"))
    with pytest.raises(NewtonsimError, match="expected one with autoreset_mode='SameStep', got 'NextStep'"):
        wrapped("CartPole", 2, autoreset_mode="NextStep")
    monkeypatch.setitem(sys.modules, "rsl_rl.env", None)
    monkeypatch.delitem(sys.modules, "newtonsim.adapters.rsl_rl_env")
    with pytest.raises(ImportError, match=r"is not installed: pip install 'newtonsim\[learn\]'"):
        importlib.import_module("newtonsim.adapters.rsl_rl_env")

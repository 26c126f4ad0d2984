"""The environment of stable-baselines3, against its own `DummyVecEnv` of single worlds."""

import importlib
import sys

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from newtonsim import envs
from newtonsim.adapters.stable_baselines3_env import Sb3Env
from newtonsim.errors import NewtonsimError


def wrapped(name: str = "CartPole", num_envs: int = 4, **options) -> Sb3Env:
    return Sb3Env(envs.make(name, num_envs, device="cpu", **options))


def test_steps_are_those_of_single_worlds():
    """One after the other, as stable-baselines3 steps and resets them itself."""

    def single() -> gymnasium.Env:
        return Monitor(gymnasium.make("newtonsim/CartPole-v0", device="cpu", max_episode_steps=14))

    dummy, env = DummyVecEnv([single] * 3), wrapped(num_envs=3, max_episode_steps=14)
    assert env.observation_space == dummy.observation_space
    assert env.action_space == dummy.action_space
    assert env.seed(5) == dummy.seed(5)
    np.testing.assert_array_equal(env.reset(), dummy.reset())
    rng = np.random.default_rng(0)
    ends = np.zeros(2, int)
    for _ in range(50):
        action = rng.integers(0, 2, 3)
        expected, got = dummy.step(action), env.step(action)
        for a, b in zip(expected[:3], got[:3], strict=True):
            np.testing.assert_array_equal(a, b)
        for theirs, ours in zip(expected[3], got[3], strict=True):
            assert set(ours) - {"failed"} == set(theirs) - {"rendered", "failed"}
            assert ours["TimeLimit.truncated"] == theirs["TimeLimit.truncated"]
            if "episode" in ours:
                assert ours["failed"] is False
                np.testing.assert_array_equal(ours["terminal_observation"], theirs["terminal_observation"])
                assert (ours["episode"]["r"], ours["episode"]["l"]) == tuple(
                    theirs["episode"][name] for name in "rl"
                )
                ends += [ours["TimeLimit.truncated"], not ours["TimeLimit.truncated"]]
    assert (ends > 0).all()


def test_success_is_told_in_each_step():
    env = wrapped("ArmReach", 2)
    env.seed(0)
    # the first target is where its arm is
    env.env.buffers.view.memory.numpy()[0, 7:10] = env.reset()[0, 14:17]
    infos = env.step(np.zeros((2, 7), np.float32))[3]
    assert [info["is_success"] for info in infos] == [True, False]


def test_what_a_step_returned_stays():
    env = wrapped()
    env.seed(1)
    first = env.reset()
    kept = first.copy()
    second = env.step(np.ones(4, int))
    copies = [array.copy() for array in second[:3]]
    for _ in range(30):
        env.step(np.ones(4, int))
    np.testing.assert_array_equal(first, kept)
    for array, copied in zip(second[:3], copies, strict=True):
        np.testing.assert_array_equal(array, copied)


def test_wrappers_of_stable_baselines3():
    plain = wrapped()
    with pytest.warns(UserWarning, match="`Monitor` statistics will be"):
        env = VecNormalize(VecMonitor(wrapped()))
    for each in (plain, env):
        each.seed(2)
        each.reset()
    rng = np.random.default_rng(1)
    ends = 0
    for _ in range(60):
        action = rng.integers(0, 2, 4)
        raw, _, _, expected = plain.step(action)
        obs, _, _, infos = env.step(action)
        np.testing.assert_array_equal(env.get_original_obs(), raw)
        assert np.abs(obs).max() <= 10.0
        for info, want in zip(infos, expected, strict=True):
            if "episode" in want:
                ends += 1
                assert (info["episode"]["r"], info["episode"]["l"]) == (
                    want["episode"]["r"],
                    want["episode"]["l"],
                )
                normal = env.normalize_obs(want["terminal_observation"])
                np.testing.assert_allclose(info["terminal_observation"], normal, atol=1e-6)
    assert ends > 4


def test_attributes_and_methods_are_those_of_all_worlds():
    env = wrapped(num_envs=3)
    assert env.get_attr("max_episode_steps") == [500] * 3
    assert env.get_attr("task", indices=[0, 2]) == [env.env.task] * 2
    assert env.get_attr("num_envs", 1) == [3]
    assert env.has_attr("sim")
    assert not env.has_attr("nothing")
    env.set_attr("note", 7)
    assert env.get_attr("note", 0) == [7]
    assert len(env.env_method("reset", seed=1)) == 3
    assert env.env_is_wrapped(Monitor, indices=[0]) == [True]
    assert env.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 3
    with pytest.raises(NewtonsimError, match=r"set_attr\('note'\): expected indices of all 3 worlds"):
        env.set_attr("note", 8, indices=[0, 1])
    with pytest.raises(
        NewtonsimError, match=r"env_method\('reset'\): expected indices of all 3 .* got \[2\]"
    ):
        env.env_method("reset", indices=2)
    env.set_options({"height": 1.0})
    with pytest.raises(NewtonsimError, match=r"set_options: expected none, got \['height'\]"):
        env.reset()


def test_pictures_are_tiled():
    env = wrapped(num_envs=3, render_mode="rgb_array", render_size=(32, 24))
    env.reset()
    tiles = env.render()
    assert tiles.shape == (48, 64, 3)
    np.testing.assert_array_equal(tiles[:24, 32:], env.env.render()[1])
    assert env.render_mode == "rgb_array"
    assert wrapped(num_envs=3).render_mode is None


def test_ppo_learns():
    """Random pushes keep the pole up for 22 steps."""
    env = wrapped(num_envs=32)
    agent = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=6,
        learning_rate=2e-3,
        gae_lambda=0.9,
        seed=0,
        device="cpu",
    )
    agent.learn(20_000)
    returns, lengths = evaluate_policy(agent, wrapped(num_envs=16), 16, return_episode_rewards=True)
    assert np.mean(returns) > 100.0
    assert returns == lengths


def test_wrong_environments_are_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(
        NewtonsimError, match="output='numpy' and copy=True, got output='torch' and copy=False"
    ):
        wrapped(output="torch")
    with pytest.raises(NewtonsimError, match="got output='numpy' and copy=False"):
        wrapped(copy=False)
    with pytest.raises(NewtonsimError, match="expected one with autoreset_mode='SameStep', got 'Disabled'"):
        wrapped(autoreset_mode="Disabled")
    env = wrapped()
    env.reset()
    with pytest.raises(NewtonsimError, match=r"actions\[1\]: expected a whole number from 0 to 1, got 2"):
        env.step(np.array([0, 2, 0, 0]))
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, "newtonsim.adapters.stable_baselines3_env")
    with pytest.raises(ImportError, match=r"pip install 'newtonsim\[stable-baselines3\]'"):
        importlib.import_module("newtonsim.adapters.stable_baselines3_env")

"""Statistics of episodes in the infos: gymnasium's wrapper finds its place free, and adapters need none."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from newtonsim import envs


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda m: m.name)
def test_statistics_of_gymnasiums_wrapper_are_ours(mode: AutoresetMode):
    options = {"num_envs": 5, "device": "cpu", "autoreset_mode": mode.value, "max_episode_steps": 40}
    ours = envs.make("Hopper", **options)
    theirs = gymnasium.make_vec("newtonsim/Hopper-v0", **options)
    theirs = gymnasium.wrappers.vector.RecordEpisodeStatistics(theirs)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    ours.action_space.seed(0)
    episodes = 0
    for _ in range(90):
        action = ours.action_space.sample()
        expected, infos = ours.step(action)[4], theirs.step(action)[4]
        assert ("episode" in infos) == ("episode" in expected)
        if "episode" not in infos:
            continue
        ended = infos["_episode"]
        episodes += ended.sum()
        np.testing.assert_array_equal(ended, expected["_episode"])
        np.testing.assert_array_equal(infos["episode"]["l"][ended], expected["episode"]["l"][ended])
        np.testing.assert_allclose(infos["episode"]["r"][ended], expected["episode"]["r"][ended], rtol=1e-5)
    assert episodes > 10


def test_gymnasium_may_ask_for_them():
    options = {"device": "cpu", "max_episode_steps": 1, "episode_infos": True}
    env = gymnasium.make_vec("newtonsim/CartPole-v0", 2, **options)
    env.reset(seed=1)
    assert env.step(np.ones(2, int))[4]["episode"]["l"].tolist() == [1, 1]


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_infos_without_episodes(output: str):
    options = {"output": output, "max_episode_steps": 1, "episode_infos": False}
    env = envs.make("CartPole", 2, device="cpu", **options)
    env.reset(seed=1)
    infos = env.step(np.ones(2, int) if output == "numpy" else torch.ones(2, dtype=torch.int64))[4]
    assert {"final_obs", "_final_obs", "failed", "_failed"} <= set(infos)
    assert not {"episode", "_episode"} & {*infos, *infos.get("final_info", ())}


def test_stable_baselines3_is_told_of_episodes_all_the_same():
    adapter = pytest.importorskip("newtonsim.adapters.stable_baselines3_env", exc_type=ImportError)
    env = adapter.Sb3Env(gymnasium.make_vec("newtonsim/CartPole-v0", 3, device="cpu", max_episode_steps=2))
    env.reset()
    env.step(np.ones(3, int))
    for info in env.step(np.ones(3, int))[3]:
        assert (info["episode"]["r"], info["episode"]["l"]) == (2.0, 2)
        assert info["TimeLimit.truncated"]


def test_rsl_rl_is_told_of_episodes_all_the_same():
    adapter = pytest.importorskip("newtonsim.adapters.rsl_rl_env", exc_type=ImportError)
    options = {"device": "cpu", "output": "torch", "max_episode_steps": 2}
    env = adapter.RslRlEnv(gymnasium.make_vec("newtonsim/CartPole-v0", 3, **options))
    for _ in range(2):
        log = env.step(torch.zeros(3, 2))[3]["log"]
    assert (float(log["/episode/return"]), float(log["/episode/length"])) == (2.0, 2.0)

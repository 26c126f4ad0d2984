"""The environment of skrl: numbers and ends of the batched one, and agents that learn."""

import importlib
import sys

import numpy as np
import pytest
import torch
from host_work import forbid_host_work
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.runner.torch import Runner

from newtonsim import envs
from newtonsim.adapters.skrl_env import SkrlEnv
from newtonsim.errors import NewtonsimError


def wrapped(name: str, num_envs: int, seed: int = 0, **options) -> SkrlEnv:
    return SkrlEnv(envs.make(name, num_envs, device="cpu", output="torch", **options), seed)


def test_steps_are_those_of_the_batched_environment():
    env = wrapped("Hopper", 5, seed=3, max_episode_steps=12)
    plain = envs.make("Hopper", 5, device="cpu", max_episode_steps=12)
    expected = plain.reset(seed=3)[0]
    before = env.reset()[0]
    plain.action_space.seed(1)
    ends = np.zeros(2, int)
    for _ in range(40):
        action = plain.action_space.sample()
        obs, reward, terminated, truncated, _ = env.step(torch.from_numpy(action))
        np.testing.assert_array_equal(before, expected)  # the step has not changed it
        expected, *others = plain.step(action)
        np.testing.assert_array_equal(obs, expected)
        np.testing.assert_array_equal(env.reset()[0], expected)
        for found, wanted in zip((reward, terminated, truncated), others, strict=False):
            assert found.shape == (5, 1)
            np.testing.assert_array_equal(found[:, 0], wanted)
        ends += [int(others[1].sum()), int(others[2].sum())]
        before = obs
    assert (ends > 0).all()


def test_spaces_are_those_of_a_world():
    env = wrapped("Hopper", 2)
    assert env.observation_space.shape == (11,)
    assert env.action_space.shape == (3,)
    assert env.state_space is None
    assert env.state() is None
    assert (env.num_envs, env.num_agents, env.device) == (2, 1, torch.device("cpu"))


def test_states_are_privileged_observations():
    env = wrapped("Velocity", 2, privileged={"velocity": {}})
    assert env.state_space.shape == (env.env.task.privileged_size,)
    before, copied = env.state(), env.state().clone()
    env.step(torch.ones(2, 12))
    np.testing.assert_array_equal(before, copied)
    np.testing.assert_array_equal(env.state(), env.env.observations()[1]["privileged"])
    assert not torch.equal(before, env.state())


def test_what_agents_add_to_rewards_stays_theirs():
    env = wrapped("Hopper", 2)
    reward = env.step(torch.zeros(2, 3))[1]
    reward += 100.0
    assert float(env.env.step(torch.zeros(2, 3))[1].max()) < 50.0


def test_choices_come_as_columns():
    env, plain = wrapped("CartPole", 3, seed=1), envs.make("CartPole", 3, device="cpu")
    plain.reset(seed=1)
    obs = env.step(torch.tensor([[0], [1], [1]]))[0]
    np.testing.assert_array_equal(obs, plain.step(np.array([0, 1, 1]))[0])


def test_pictures_are_flat_floats():
    env = wrapped("CartPoleVision", 2)
    plain = envs.make("CartPoleVision", 2, device="cpu").reset(seed=0)[0]
    picture = env.reset()[0]
    assert picture.dtype == torch.float32
    np.testing.assert_array_equal(picture, plain.reshape(2, -1))


def test_the_log_averages_the_last_episode_of_each_world():
    env = wrapped("CartPole", 2, max_episode_steps=6)
    stay = [0, 1] * 3
    logs = [env.step(torch.full((2, 1), stay[k]))[4]["episode"] for k in range(6)]
    assert [float(log["return"]) for log in logs] == [0.0] * 5 + [6.0]
    assert float(logs[-1]["length"]) == 6.0


class Policy(CategoricalMixin, Model):
    def __init__(self, env: SkrlEnv):
        Model.__init__(
            self, observation_space=env.observation_space, action_space=env.action_space, device=env.device
        )
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ELU(), torch.nn.Linear(32, 2))

    def compute(self, inputs: dict, role: str) -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, env: SkrlEnv):
        Model.__init__(
            self, observation_space=env.observation_space, action_space=env.action_space, device=env.device
        )
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ELU(), torch.nn.Linear(32, 1))

    def compute(self, inputs: dict, role: str) -> tuple[torch.Tensor, dict]:
        return self.net(inputs["observations"]), {}


@pytest.mark.parametrize("num_envs", [1, 64])
def test_a_trainer_learns(num_envs: int, tmp_path):
    """Random pushes keep the pole up for 22 steps; one world alone is reset by the trainer."""
    set_seed(0)
    env = wrapped("CartPole", num_envs)
    models = {"policy": Policy(env), "value": Value(env)}
    settings = PPO_CFG(rollouts=24, learning_epochs=4, mini_batches=4, learning_rate=3e-3)
    settings.time_limit_bootstrap = True
    settings.experiment.directory, settings.experiment.write_interval = str(tmp_path), 0
    settings.experiment.checkpoint_interval = 0
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=24, num_envs=num_envs, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg=settings,
    )
    steps = 24 * (40 if num_envs > 1 else 2)
    trainer = SequentialTrainer(
        env=env,
        agents=agent,
        cfg={
            "timesteps": steps,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
            "headless": True,
        },
    )
    trainer.train()
    if num_envs == 1:
        return
    obs, alive = env.env.reset(seed=1)[0].clone(), torch.ones(num_envs, 1, dtype=torch.bool)
    with torch.inference_mode():
        for _ in range(100):
            choice = models["policy"].net(obs).argmax(dim=1, keepdim=True)
            obs, _, terminated, truncated, _ = env.step(choice)
            alive &= ~(terminated | truncated)
    assert alive.float().mean() > 0.5


def mean_return(policy: Model, episodes: int) -> float:
    """Mean return of the means of a policy in the double pendulum, whose episodes end when it falls."""
    env = wrapped("InvertedDoublePendulum", episodes, seed=1)
    obs, total, alive = env.reset()[0], torch.zeros(episodes), torch.ones(episodes, dtype=torch.bool)
    with torch.inference_mode():
        while alive.any():
            action = policy.act({"observations": obs}, role="policy")[1]["mean_actions"]
            obs, reward, terminated, truncated, _ = env.step(action)
            total += reward[:, 0] * alive
            alive &= ~(terminated | truncated)[:, 0]
    return float(total.mean())


def test_sac_learns(tmp_path):
    """The pendulums fall after 7 steps at first, with 9 for each."""
    inputs = {"policy": "OBSERVATIONS", "critic": "concatenate([OBSERVATIONS, ACTIONS])"}
    network = {
        role: [{"name": "net", "input": given, "layers": [64, 64], "activations": "relu"}]
        for role, given in inputs.items()
    }
    critic = {"class": "DeterministicMixin", "network": network["critic"], "output": "ONE"}
    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    policy = {"class": "GaussianMixin", "network": network["policy"], "output": "tanh(ACTIONS)"}
    settings = {
        "seed": 0,
        "models": {"separate": True, "policy": policy, **{name: dict(critic) for name in critics}},
        "memory": {"class": "RandomMemory", "memory_size": 4000},
        "agent": {
            "class": "SAC",
            "gradient_steps": 4,
            "batch_size": 256,
            "learning_rate": 1e-3,
            "random_timesteps": 100,
            "learning_starts": 100,
            "experiment": {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0},
        },
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": 1000,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
            "headless": True,
        },
    }
    runner = Runner(wrapped("InvertedDoublePendulum", 8), settings)
    before = mean_return(runner.agent.policy, 16)
    runner.run("train")
    assert mean_return(runner.agent.policy, 16) > 2.0 * before


def test_a_step_reads_nothing_back(monkeypatch: pytest.MonkeyPatch):
    env = wrapped("CartPole", 4)
    env.step(torch.zeros(4, 1, dtype=torch.long))
    forbid_host_work(monkeypatch, env.env)
    for _ in range(3):
        env.step(torch.zeros(4, 1, dtype=torch.long))


def test_wrong_environments_are_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NewtonsimError, match="env: expected one with output='torch', got 'numpy'"):
        SkrlEnv(envs.make("CartPole", 2, device="cpu"))
    with pytest.raises(NewtonsimError, match="expected one with autoreset_mode='SameStep', got 'NextStep'"):
        wrapped("CartPole", 2, autoreset_mode="NextStep")
    monkeypatch.setitem(sys.modules, "skrl.envs.wrappers.torch", None)
    monkeypatch.delitem(sys.modules, "newtonsim.adapters.skrl_env")
    with pytest.raises(ImportError, match=r"is not installed: pip install 'newtonsim\[skrl\]'"):
        importlib.import_module("newtonsim.adapters.skrl_env")

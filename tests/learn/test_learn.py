"""Samples, updates and policies: against PyTorch's distributions, NumPy, and the environments themselves."""

from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.learn import PolicyFile, settings_of
from newtonsim.learn.collect import Collector, Plan, Rollout, seeds_of_worlds
from newtonsim.learn.learner import Learner
from newtonsim.learn.models import CategoricalDistribution, PolicySpaces, explore, make_network
from newtonsim.learn.policy_file import export_policy
from newtonsim.learn.workers import LocalWorkers, shares

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
SMALL = {"num_envs": 6, "steps": 8, "samples": 48, "hidden": (8,), "mini_batches": 2}


def plan_of(name: str, changes: dict | None = None, **options) -> Plan:
    return Plan(
        partial(envs.make, name, **options), settings_of(name, {**SMALL, **(changes or {})}), 3, "cpu"
    )


def test_categorical_actions_are_those_of_torch():
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    new = logits.flip(0)
    ours, theirs = CategoricalDistribution(4), torch.distributions.Categorical(logits=logits)
    ours.update(logits)
    actions = torch.tensor([[0.0], [1.0], [2.0], [3.0], [0.0]])
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions[:, 0]))
    torch.testing.assert_close(ours.entropy, theirs.entropy())
    other = CategoricalDistribution(4)
    other.update(new)
    expected = torch.distributions.kl_divergence(theirs, torch.distributions.Categorical(logits=new))
    torch.testing.assert_close(ours.kl_divergence(ours.params, other.params), expected)


@pytest.mark.parametrize("action_space", [spaces.Discrete(3), spaces.Box(-2.0, 4.0, (2,), np.float32)])
def test_explored_actions_have_the_distribution_of_the_policy(action_space):
    policy = PolicySpaces(BOX, action_space)
    torch.manual_seed(0)
    actor = make_network("actor", policy, settings_of("CartPole", SMALL))
    torch.nn.init.normal_(actor.mlp[-1].weight, std=0.5)
    groups = policy.groups(torch.ones(1, 3).expand(40_000, 3))
    noise = torch.randn(40_000, policy.columns, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        actions = explore(actor, groups, noise)
    if policy.choices:
        shares_of_actions = torch.bincount(actions[:, 0].long(), minlength=3) / len(actions)
        torch.testing.assert_close(shares_of_actions, actor.distribution.mean[0], atol=0.01, rtol=0.0)
    else:
        torch.testing.assert_close(actions.mean(0), actor.distribution.mean[0], atol=0.02, rtol=0.0)
        torch.testing.assert_close(actions.std(0), actor.distribution.std[0], atol=0.02, rtol=0.0)


def test_actions_count_half_ranges_from_the_middle():
    policy = PolicySpaces(BOX, spaces.Box(np.float32([-2.0, 0.0]), np.float32([4.0, 1.0])))
    actions = policy.to_env(torch.tensor([[0.0, 0.0], [1.0, -1.0], [5.0, -5.0], [-0.5, 0.5]]))
    assert actions.tolist() == [[1.0, 0.5], [4.0, 0.0], [4.0, 0.0], [-0.5, 0.75]]


@pytest.mark.parametrize("name", ["CartPole", "Reacher"])
def test_a_rollout_is_what_the_environment_does(name):
    plan = plan_of(name, max_episode_steps=5)
    collector = Collector(plan, 0, 6)
    weights = collector.actor.state_dict()
    rollouts = [collector.collect(weights, iteration) for iteration in range(2)]
    env = envs.make(name, 6, "cpu", max_episode_steps=5)
    seeds = seeds_of_worlds(3, 0, 0, 6)
    obs, _ = env.reset(seed=seeds)
    env.buffers.view.length.assign([seed % 5 for seed in seeds])
    whole = np.zeros(6, bool)
    for rollout in rollouts:
        cut, returns = {tuple(pair): k for k, pair in enumerate(rollout.cut.tolist())}, []
        for t in range(8):
            np.testing.assert_array_equal(rollout.obs[t], obs)
            action = collector.policy.to_env(rollout.actions[t]).numpy()
            obs, reward, terminated, truncated, infos = env.step(action)
            np.testing.assert_array_equal(rollout.rewards[t], reward)
            np.testing.assert_array_equal(rollout.ended[t], terminated | truncated)
            for w in np.flatnonzero(truncated & ~terminated):
                np.testing.assert_array_equal(rollout.cut_obs[cut.pop((t, w))], infos["final_obs"][w])
            for w in np.flatnonzero(terminated | truncated):
                returns += [infos["episode"]["r"][w]] if whole[w] else []
                whole[w] = True
        np.testing.assert_array_equal(rollout.last_obs, obs)
        np.testing.assert_array_equal(rollout.returns, returns)
        assert not cut
    collector.close()


def test_episodes_that_failed_do_not_count():
    """One world ends as NaN in the first iteration; the returns of the others are those without it."""
    plan = plan_of("CartPole", max_episode_steps=4)
    rollouts = []
    for breaks in (False, True):
        collector = Collector(plan, 0, 6)
        weights = collector.actor.state_dict()
        collector.collect(weights, 0)  # after it all episodes are seen whole
        if breaks:
            velocity = collector.env.sim.state.joint_qd.numpy()
            velocity[0] = np.nan
            collector.env.sim.state.joint_qd.assign(velocity)
        rollouts.append(collector.collect(weights, 1))
        collector.close()
    whole, failed = rollouts
    assert (whole.failures, failed.failures) == (0, 1)
    assert failed.returns.min() >= 4.0
    assert bool(failed.ended[0, 0])


def test_returns_go_on_where_time_ran_out_and_end_where_episodes_do():
    settings = settings_of("CartPole", {**SMALL, "reward_scale": 0.5, "gamma": 0.9, "lam": 0.8})
    policy = PolicySpaces(BOX, spaces.Box(-1.0, 1.0, (2,), np.float32))
    learner = Learner(policy, settings, 0, "cpu")
    random = torch.Generator().manual_seed(2)
    ended = torch.rand(8, 6, generator=random) < 0.3
    cut = (ended & (torch.rand(8, 6, generator=random) < 0.5)).nonzero()
    assert 0 < len(cut) < ended.sum()
    rollout = Rollout(
        obs=torch.randn(8, 6, 3, generator=random),
        privileged=torch.zeros(8, 6, 0),
        actions=torch.randn(8, 6, 2, generator=random),
        rewards=torch.randn(8, 6, generator=random),
        ended=ended,
        cut=cut,
        cut_obs=torch.randn(len(cut), 3, generator=random),
        cut_privileged=torch.zeros(len(cut), 0),
        last_obs=torch.randn(6, 3, generator=random),
        last_privileged=torch.zeros(6, 0),
        returns=torch.zeros(0),
        lengths=torch.zeros(0),
        failures=0,
    )

    def values(observations: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return learner.ppo.critic(policy.groups(observations))[:, 0].numpy().astype(float)

    after = {tuple(pair): value for pair, value in zip(cut.tolist(), values(rollout.cut_obs))}
    value = np.array([values(obs) for obs in rollout.obs])
    following = np.vstack([value[1:], values(rollout.last_obs)])
    expected = np.zeros((8, 6))
    for w in range(6):
        advantage = 0.0
        for t in reversed(range(8)):
            if rollout.ended[t, w]:
                following[t, w], advantage = after.get((t, w), 0.0), 0.0
            error = 0.5 * float(rollout.rewards[t, w]) + 0.9 * following[t, w] - value[t, w]
            advantage = error + 0.9 * 0.8 * advantage
            expected[t, w] = advantage + value[t, w]
    learner.update(rollout, 0)
    np.testing.assert_allclose(learner.ppo.storage.returns[..., 0], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["CartPole", "Reacher"])
def test_updates_do_not_depend_on_who_collects(name):
    """The same numbers from one collector and from three, whatever torch's global generator holds."""
    learned = []
    for count in (1, 3):
        torch.manual_seed(count)
        workers = LocalWorkers(plan_of(name), count)
        learner = Learner(workers.policy, plan_of(name).settings, 0, "cpu")
        for iteration in range(2):
            learner.update(Rollout.joined(workers.collect(learner.weights(), iteration)), iteration)
        learned.append(learner.weights())
        workers.close()
    for key, value in learned[0].items():
        torch.testing.assert_close(value, learned[1][key], atol=2e-5, rtol=1e-4, msg=key)


def test_pictures_keep_their_order_in_memory_from_the_environment_to_the_gradient():
    """Channels of a pixel stay side by side, which is faster on a CPU, and none is mixed up."""
    plan = plan_of("CartPoleVision", screen_size=36, samples=1)
    workers = LocalWorkers(plan, 1)
    learner = Learner(workers.policy, plan.settings, 0, "cpu")
    seen = []
    for part in learner.ppo.critic.modules():
        if isinstance(part, torch.nn.Conv2d):
            part.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    rollout = Rollout.joined(workers.collect(learner.weights(), 0))
    learner.update(rollout, 0)
    workers.close()
    mini_batches = plan.settings.epochs * plan.settings.mini_batches
    assert len(seen) > mini_batches
    assert all(pictures.is_contiguous(memory_format=torch.channels_last) for pictures in seen)
    stored = learner.ppo.storage.observations["policy"].numpy()
    expected = np.moveaxis(rollout.obs.numpy(), -1, 2).astype(np.float32) / np.float32(255.0)
    np.testing.assert_array_equal(stored, expected)


def test_noise_fades_over_the_last_quarter():
    """The deviation of actions is free until then, and ends at `final_std`, on a logarithmic scale."""
    changes = {
        "samples": 48,
        "num_envs": 6,
        "steps": 1,
        "mini_batches": 1,
        "init_std": 0.4,
        "final_std": 0.025,
    }
    workers = LocalWorkers(plan_of("InvertedDoublePendulum", changes), 1)
    settings = plan_of("InvertedDoublePendulum", changes).settings
    assert [settings.largest_std(done) for done in (0, 5, 6)] == [None, None, None]
    learner = Learner(workers.policy, settings, 0, "cpu")
    deviations = []
    for iteration in range(8):
        rollout = Rollout.joined(workers.collect(learner.weights(), iteration))
        learner.update(rollout, iteration)
        deviations.append(float(learner.weights()["distribution.log_std_param"].exp().max()))
    workers.close()
    assert min(deviations[:6]) > 0.3
    assert deviations[6:] == pytest.approx([0.1, 0.025], rel=1e-5)
    with pytest.raises(NewtonsimError, match=r"final_std: expected a value such as 0.1, got 0.0"):
        settings_of("Ant", {"final_std": 0.0})


@pytest.mark.parametrize("count", [0, 7])
def test_shares_need_a_world_each(count):
    assert shares(7, 3) == [(0, 2), (2, 2), (4, 3)]
    with pytest.raises(NewtonsimError, match="workers: expected 1 to 6"):
        shares(6, count)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gama": 0.9}, "no setting 'gama'.*gamma"),
        ({"gamma": 1.5}, "gamma: expected a number up to 1, got 1.5"),
        ({"num_envs": 2.5}, "num_envs: expected a value such as"),
        ({"learning_rate": 0.0}, "learning_rate: expected a value such as"),
        ({"hidden": 64}, "hidden: expected a value such as"),
        ({"hidden": ()}, "hidden: expected a value such as"),
        ({"schedule": "linear"}, "schedule: expected 'adaptive' or 'fixed'"),
        ({"keep": "first"}, "keep: expected 'best' or 'last'"),
        ({"num_envs": 1, "steps": 1}, "mini_batches: expected at most the 1 samples"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(NewtonsimError, match=message):
        settings_of("CartPole", changes)


PICTURE = spaces.Box(0, 255, (36, 40, 2), np.uint8)


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        (BOX, spaces.Box(-2.0, 4.0, (2,), np.float32)),
        (BOX, spaces.Discrete(3)),
        (PICTURE, spaces.Box(-1.0, 1.0, (2,), np.float32)),
    ],
)
def test_an_exported_policy_acts_like_the_network(seen, done, tmp_path):
    policy = PolicySpaces(seen, done)
    torch.manual_seed(0)
    actor = make_network("actor", policy, settings_of("CartPole", SMALL))
    for layer in actor.mlp:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.weight)
    seen.seed(0)
    observations = np.stack([seen.sample() for _ in range(50)])
    actor.update_normalization(policy.groups(torch.from_numpy(0.2 * observations + 1.0)))
    actor.eval()
    export_policy(tmp_path / "policy.onnx", actor, policy, {"name": "Any", "options": {"a": 1}})
    read = PolicyFile(tmp_path / "policy.onnx")
    assert read.about == {"name": "Any", "options": {"a": 1}}
    with torch.no_grad():
        expected = policy.to_env(actor(policy.groups(torch.from_numpy(observations))))
    assert len(np.unique(expected)) > 2
    np.testing.assert_allclose(read(observations), expected, atol=1e-5)


def test_files_that_are_no_policies_are_named(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(NewtonsimError, match=r"policy\.onnx: expected an ONNX file"):
        PolicyFile(path)

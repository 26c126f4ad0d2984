"""What only the critic observes: its values, and that neither policy nor its file take it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs.views import EnvView
from newtonsim.learn import Run, Training, settings_of
from newtonsim.learn.collect import Collector
from newtonsim.learn.learner import Learner

SMALL = {"num_envs": 4, "steps": 6, "samples": 96, "hidden": (8,), "mini_batches": 2}
SECRET = {
    "velocity": {},
    "grip": {"term": "field", "field": "shapes.friction", "size": 8, "select": "*_calf"},
    "weight": {"term": "field", "field": "bodies.mass", "size": 1, "select": "trunk"},
    "com": {"term": "field", "field": "bodies.com", "size": 3, "select": "trunk"},
}
DRAWN = {"friction": (0.5, 1.5), "mass": (0.8, 1.2), "noise": 0.3, "delay": (0.02, 0.06)}
OPTIONS = {"observations": {"velocity": None}, "privileged": SECRET, "randomise": DRAWN}


def walker(worlds: int = 3, **more: Any) -> envs.BatchedEnv:
    return envs.make("Velocity", worlds, "cpu", threads=1, **{**OPTIONS, **more})


def values_in(env: envs.BatchedEnv) -> np.ndarray:
    """Velocity in the base's axes, friction of the feet, mass and centre of mass of the trunk, by NumPy."""
    from scipy.spatial.transform import Rotation

    model, worlds = env.model, env.num_envs
    bodies = env.sim.state.body_q.numpy().reshape(worlds, -1, 7)[:, 0, 3:]
    velocity = env.sim.state.body_qd.numpy().reshape(worlds, -1, 6)[:, 0, 3:]
    seen = Rotation.from_quat(bodies).inv().apply(velocity)
    names, per = model.body_key, len(model.body_key) // worlds
    mu, of_body = model.shape_materials.mu.numpy(), model.shape_body.numpy()
    feet = [
        [s for s, b in enumerate(of_body) if b // per == w and names[b].endswith("_calf")]
        for w in range(worlds)
    ]
    mass, com = model.body_mass.numpy()[::per], model.body_com.numpy()[::per]
    return np.hstack([seen, mu[np.array(feet)], mass[:, None], com])


def test_the_critic_gets_the_true_values_and_the_policy_what_it_had():
    env = walker()
    plain = walker(privileged={})
    obs, infos = env.reset(seed=1)
    same, nothing = plain.reset(seed=1)
    assert nothing == {}
    rng = np.random.default_rng(0)
    for _ in range(8):
        np.testing.assert_array_equal(obs, same)
        np.testing.assert_allclose(infos["privileged"], values_in(env), atol=1e-5)
        action = rng.uniform(-1.0, 1.0, (3, 12)).astype(np.float32)
        obs, *_, infos = env.step(action)
        same, *_ = plain.step(action)
    spread = infos["privileged"][:, 3:].std(axis=0)
    assert np.all(spread[:-3] > 0.0)  # friction and mass were drawn in each world
    assert env.single_observation_space == plain.single_observation_space


def test_last_privileged_observations_are_those_of_the_old_episode():
    env = walker(max_episode_steps=5)
    told: list[dict[str, Any]] = [env.reset(seed=2)[1]]
    for _ in range(5):
        told.append(env.step(np.zeros((3, 12), np.float32))[-1])
    assert np.all(told[-1]["_final_privileged"])
    final, fresh = told[-1]["final_privileged"], told[-1]["privileged"]
    np.testing.assert_allclose(fresh, values_in(env), atol=1e-5)
    mass = 11
    np.testing.assert_array_equal(final[:, mass], told[0]["privileged"][:, mass])
    assert np.all(final[:, mass] != fresh[:, mass])


def test_a_world_that_is_not_finite_shows_zeros():
    env = walker(autoreset_mode="Disabled")
    env.reset(seed=0)
    qd = env.sim.state.joint_qd.numpy()
    qd[0] = np.nan
    *_, infos = env.step(np.zeros((3, 12), np.float32))
    assert infos["failed"].tolist() == [True, False, False]
    assert np.all(infos["privileged"][0] == 0.0)
    assert np.all(np.isfinite(infos["privileged"]))
    assert np.any(infos["privileged"][1] != 0.0)


def test_contact_forces_and_heights_are_privileged_by_sensors():
    class Felt(envs.tasks.Velocity):
        name = "Felt"

        def sensors(self) -> dict[str, envs.Sensor]:
            return {"feet": envs.ContactSensor([f"{leg}_calf" for leg in ("fl", "fr", "rl", "rr")])}

    secret = {"forces": {"term": "sensor", "sensor": "feet", "size": 16}}
    env = envs.BatchedEnv(Felt(privileged=secret, reset_noise_scale=0.0), 2, "cpu")
    env.reset(seed=0)
    for _ in range(60):
        *_, infos = env.step(np.zeros((2, 12), np.float32))
    np.testing.assert_array_equal(infos["privileged"], env.sensor("feet"))
    force = infos["privileged"].reshape(2, 4, 4)[:, :, 2].sum(axis=1)
    weight = 9.81 * env.model.body_mass.numpy().sum() / 2
    np.testing.assert_allclose(force, weight, rtol=0.15)


def test_the_critic_alone_has_more_inputs():
    run = Run("Velocity", settings_of("Velocity", SMALL), OPTIONS)
    collector = Collector(run.plan("cpu", 1), 0, 4)
    learner = Learner(collector.policy, run.settings, 0, "cpu")
    rollout = collector.collect(learner.weights(), 0)
    size = collector.env.task.privileged_size
    assert rollout.privileged.shape == (6, 4, size)
    assert learner.ppo.actor.obs_dim == 45
    assert learner.ppo.critic.obs_dim == 45 + size
    learner.update(rollout, 0)
    groups = collector.policy.groups(rollout.obs[0], rollout.privileged[0])
    other = collector.policy.groups(rollout.obs[0], rollout.privileged[0] + 1.0)
    learner.ppo.eval_mode()
    assert torch.equal(learner.ppo.actor(groups), learner.ppo.actor(other))
    assert not torch.equal(learner.ppo.critic(groups), learner.ppo.critic(other))
    collector.close()


def test_a_run_with_privileged_observations_ends_goes_on_and_is_exported(tmp_path: Path):
    options = {"observations": {"velocity": None}, "privileged": SECRET}
    for samples in (48, 96):
        run = Run("Velocity", settings_of("Velocity", {**SMALL, "samples": samples}), options)
        training = Training(run, tmp_path, "cpu")
        while not training.done:
            training.step()
        policy = training.finish()
    assert training.progress.samples == 96
    assert policy(np.zeros((2, 45), np.float32)).shape == (2, 12)
    with pytest.raises(NewtonsimError, match=r"takes observations of shape \(45,\), got \(48,\)"):
        policy(np.zeros((2, 48), np.float32))


def test_a_checkpoint_of_other_networks_is_refused():
    run = Run("Velocity", settings_of("Velocity", SMALL), OPTIONS)
    collector = Collector(run.plan("cpu", 1), 0, 4)
    learner = Learner(collector.policy, run.settings, 0, "cpu")
    collector.policy.privileged += 2
    other = Learner(collector.policy, run.settings, 0, "cpu")
    with pytest.raises(NewtonsimError, match=r"does not fit the networks .* critic has 45 and 1"):
        other.load(learner.state())
    collector.close()


def test_runs_of_earlier_versions_go_on(tmp_path: Path):
    """Their file lacks settings that have come since."""
    run = Run("Reacher", settings_of("Reacher", SMALL))
    first = Training(run, tmp_path, "cpu")
    first.step()
    first.save()
    first.close()
    path = tmp_path / "run.json"
    kept = json.loads(path.read_text())
    del kept["settings"]["symmetry"], kept["settings"]["symmetry_loss"]
    path.write_text(json.dumps(kept))
    again = Training(run, tmp_path, "cpu")
    assert again.progress.iteration == 1
    again.close()
    other = dataclasses.replace(run, settings=settings_of("Reacher", {**SMALL, "symmetry_loss": 2.0}))
    with pytest.raises(NewtonsimError, match=r"settings\.symmetry_loss = 1\.0, not 2\.0"):
        Training(other, tmp_path, "cpu")


@wp.kernel
def observe_all(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    w = first + wp.tid()
    if mask[w]:
        for k in range(env.obs.shape[1]):
            env.obs[w, k] = env.joint_q[w * env.coords]


class Secret(envs.tasks.CartPole):
    """A cart whose critic knows its place three times."""

    name = "Secret"
    privileged_size = 3
    privileged = observe_all


def test_any_task_declares_them_by_a_kernel():
    env = envs.BatchedEnv(Secret(), 2, "cpu", output="torch")
    env.reset(seed=0)
    *_, infos = env.step(torch.ones(2, dtype=torch.long))
    place = env.sim.state.joint_q.numpy().reshape(2, -1)[:, :1]
    np.testing.assert_array_equal(infos["privileged"].numpy(), np.repeat(place, 3, axis=1))
    single = envs.SingleEnv(lambda **more: envs.BatchedEnv(Secret(), 1, "cpu", **more))
    assert single.reset(seed=0)[1]["privileged"].shape == (3,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privileged_size": 0}, "privileged_size: there is a kernel `privileged`, got 0"),
        ({"privileged": None}, "privileged_size: there is no kernel `privileged`, got 3"),
        ({"privileged_size": -1}, "privileged_size: expected a whole number of at least 0, got -1"),
        ({"privileged": lambda w: None}, "privileged: expected a kernel or None"),
    ],
)
def test_wrong_declarations_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(NewtonsimError, match=message):
        envs.BatchedEnv(type("Wrong", (Secret,), changes)(), 1, "cpu")


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (
            {"term": "field", "field": "bodies.mass", "size": 2},
            "secret: 'bodies.mass' has 13 numbers .* size 2",
        ),
        ({"term": "field", "field": "joints.q", "size": 19}, "secret: expected a field of the model"),
        ({"term": "field", "field": "bodies.mas", "size": 1}, "there is no field 'bodies.mas'"),
        ({"term": "sensor", "sensor": "nose", "size": 1}, "there is no sensor 'nose'"),
        ({"term": "velocitty"}, "privileged: there is no 'velocitty'; did you mean 'velocity'"),
    ],
)
def test_wrong_terms_are_refused(term: dict[str, Any], message: str):
    with pytest.raises(NewtonsimError, match=message):
        envs.make("Velocity", 1, "cpu", privileged={"secret": term})


def test_rsl_rl_gets_a_group_of_its_own():
    from rsl_rl.runners import OnPolicyRunner

    from newtonsim.adapters.rsl_rl_env import RslRlEnv

    env = RslRlEnv(walker(4, output="torch"), seed=0)
    size = env.env.task.privileged_size
    assert env.get_observations()["policy"].shape == (4, 45)
    assert env.get_observations()["privileged"].shape == (4, size)
    distribution = {"class_name": "GaussianDistribution", "init_std": 1.0}
    settings = {
        "num_steps_per_env": 4,
        "save_interval": 50,
        "obs_groups": {"actor": ["policy"], "critic": ["policy", "privileged"]},
        "algorithm": {"class_name": "PPO"},
        "actor": {"class_name": "MLPModel", "hidden_dims": [8], "distribution_cfg": distribution},
        "critic": {"class_name": "MLPModel", "hidden_dims": [8]},
    }
    runner = OnPolicyRunner(env, settings, log_dir=None, device="cpu")
    runner.learn(1)
    assert runner.alg.critic.obs_dim == 45 + size
    assert runner.alg.actor.obs_dim == 45

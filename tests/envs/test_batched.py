"""The environment layer: gymnasium's rules, seeds, independence of worlds, ends of episodes, wrong input."""

import math
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from host_work import forbid_host_work

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import cartpole as envs_cartpole

MODES = list(AutoresetMode)


def cartpole(num_envs: int = 4, **options) -> envs.BatchedEnv:
    return envs.make("CartPole", num_envs, device="cpu", **options)


def pushes(steps: int, num_envs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (steps, num_envs))


def run(env: envs.BatchedEnv, actions: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return all observations, rewards and ends of a run."""
    seen = [env.reset(seed=seed)[0]]
    for action in actions:
        seen += env.step(action)[:4]
    return seen


def test_gymnasium_finds_no_fault():
    env = gymnasium.make("newtonsim/CartPole-v0", device="cpu")
    check_env(env.unwrapped)
    check_env(gymnasium.make("newtonsim/CartPoleSwingUp-v0", device="cpu").unwrapped)


def test_vector_environment_of_gymnasium():
    env = gymnasium.make_vec("newtonsim/CartPole-v0", num_envs=3, device="cpu")
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, infos = env.reset(seed=1)
    assert obs in env.observation_space
    assert infos == {}
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert (reward.shape, terminated.dtype, truncated.dtype) == ((3,), bool, bool)


def test_a_single_world_is_world_zero_of_many():
    single, many = gymnasium.make("newtonsim/CartPole-v0", device="cpu"), cartpole(5)
    np.testing.assert_array_equal(single.reset(seed=7)[0], many.reset(seed=7)[0][0])
    np.testing.assert_array_equal(single.step(1)[0], many.step(np.ones(5, int))[0][0])


def test_the_pole_falls_as_gymnasiums():
    """The equations are the same; both integrators agree to first order in the step of 0.02 s."""
    ours, theirs = cartpole(1), gymnasium.make("CartPole-v1").unwrapped
    start = ours.reset(seed=2)[0][0]
    theirs.reset(seed=0)
    theirs.state = tuple(start.astype(float))
    theirs.kinematics_integrator = "semi-implicit euler"
    for push in (1, 0, 0, 1, 1, 0, 1, 0):
        expected = theirs.step(push)[0]
        obs = ours.step(np.array([push]))[0][0]
    np.testing.assert_allclose(obs, expected, atol=5e-3)


def test_same_seed_same_trajectories_whatever_the_threads():
    actions = pushes(60, 300)
    first = run(cartpole(300, threads=1), actions, seed=5)
    second = run(cartpole(300, threads=2), actions, seed=5)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    few = run(cartpole(3), actions[:, :3], seed=5)
    for a, b in zip(first, few, strict=True):
        np.testing.assert_array_equal(a[:3], b)
    other = run(cartpole(3), actions[:, :3], seed=6)
    assert not np.array_equal(few[0], other[0])


def test_worlds_start_differently_and_within_the_range():
    env = cartpole(1000)
    start = env.reset(seed=3)[0]
    assert np.abs(start).max() <= 0.05
    assert len(np.unique(start[:, 0])) > 990
    # standard error of the mean of 1000 uniform numbers in ±0.05 is 9e-4
    np.testing.assert_allclose(start.mean(axis=0), 0.0, atol=5e-3)
    assert not np.array_equal(env.reset()[0], start)
    np.testing.assert_array_equal(env.reset(seed=[9] * 1000)[0], np.tile(env.reset(seed=9)[0][:1], (1000, 1)))


def test_resetting_one_world_changes_no_other():
    actions = pushes(8, 6)
    plain, disturbed = cartpole(6), cartpole(6)
    plain.reset(seed=1)
    disturbed.reset(seed=1)
    others = np.arange(6) != 2
    for k, action in enumerate(actions):
        expected = plain.step(action)[0]
        obs = disturbed.step(action)[0]
        np.testing.assert_array_equal(obs[others], expected[others])
        if k == 3:
            fresh = disturbed.reset(options={"reset_mask": ~others})[0]
            np.testing.assert_array_equal(fresh[others], expected[others])
            assert not np.array_equal(fresh[2], expected[2])


@pytest.mark.parametrize("name", ["Hopper", "Ant", "ArmReach", "ArmPick", "Racecar"])
def test_a_new_episode_remembers_nothing(name: str):
    """With contacts: after steps of an earlier episode, or right away, and with other worlds or without."""
    used, unused, few = (
        envs.make(name, n, device="cpu", autoreset_mode="Disabled", threads=t)
        for n, t in ((40, 2), (40, 1), (3, 1))
    )
    rng = np.random.default_rng(0)
    chosen = rng.uniform(-1.0, 1.0, (30, *used.action_space.shape)).astype(np.float32)
    for env in (used, unused, few):
        env.reset(seed=1)
    for action in chosen:
        used.step(action)
    starts = [env.reset()[0] for env in (used, unused, few)]
    np.testing.assert_array_equal(starts[0], starts[1])
    for action in chosen:
        obs, expected = used.step(action)[0], unused.step(action)[0]
        np.testing.assert_array_equal(obs, expected)
        np.testing.assert_array_equal(few.step(action[:3])[0], expected[:3])


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_ends_of_episodes(mode: AutoresetMode):
    """Against single episodes stepped by hand, with gymnasium's meaning of the mode."""
    env = cartpole(3, autoreset_mode=mode, max_episode_steps=12)
    reference = cartpole(3, autoreset_mode=AutoresetMode.DISABLED, max_episode_steps=0)
    reference.reset(seed=4)
    env.reset(seed=4)
    push = np.array([1, 1, 0])
    lengths, waiting = np.zeros(3, int), np.zeros(3, bool)
    for _ in range(40):
        expected, _, terminated, _, _ = reference.step(push)
        if waiting.any():
            expected = reference.reset(options={"reset_mask": waiting})[0]
            lengths[waiting], terminated[waiting] = -1, False
        lengths += 1
        truncated = lengths >= 12
        ended = terminated | truncated
        last = expected.copy()
        if mode is AutoresetMode.SAME_STEP and ended.any():
            expected = reference.reset(options={"reset_mask": ended})[0]
        obs, reward, got_terminated, got_truncated, infos = env.step(push)
        np.testing.assert_array_equal(obs, expected)
        np.testing.assert_array_equal(got_terminated, terminated)
        np.testing.assert_array_equal(got_truncated, truncated)
        np.testing.assert_array_equal(reward, np.where(waiting, 0.0, 1.0))
        assert ("episode" in infos) == bool(ended.any())
        if ended.any():
            np.testing.assert_array_equal(infos["_final_obs"], ended)
            np.testing.assert_array_equal(infos["final_obs"][ended], last[ended])
            np.testing.assert_array_equal(infos["episode"]["l"][ended], lengths[ended])
            np.testing.assert_array_equal(infos["episode"]["r"][ended], lengths[ended])
            if mode is AutoresetMode.DISABLED:
                reference.reset(options={"reset_mask": ended})
                env.reset(options={"reset_mask": ended})
            waiting = ended if mode is AutoresetMode.NEXT_STEP else waiting
            if mode is not AutoresetMode.NEXT_STEP:
                lengths[ended] = 0
        else:
            waiting = np.zeros(3, bool)


def break_world_2(env: envs.BatchedEnv) -> None:
    velocity = env.sim.state.joint_qd.numpy()
    velocity[2 * 2] = math.nan
    env.sim.state.joint_qd.assign(velocity)


def test_a_broken_world_ends_and_is_counted():
    env, healthy = cartpole(4), cartpole(4)
    env.reset(seed=1)
    healthy.reset(seed=1)
    break_world_2(env)
    action = np.ones(4, int)
    obs, reward, terminated, _, infos = env.step(action)
    expected = healthy.step(action)[0]
    np.testing.assert_array_equal(terminated, [False, False, True, False])
    np.testing.assert_array_equal(env.failures, [0, 0, 1, 0])
    assert reward[2] == 0.0
    np.testing.assert_array_equal(infos["final_obs"][2], 0.0)
    assert np.isfinite(obs).all()
    np.testing.assert_array_equal(np.delete(obs, 2, axis=0), np.delete(expected, 2, axis=0))
    assert np.isfinite(env.step(action)[0]).all()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_infos_tell_of_broken_worlds(mode: AutoresetMode):
    """Where the environment starts them anew itself, nothing else asks the user to do so."""
    for output in ("numpy", "torch"):
        env = cartpole(4, autoreset_mode=mode, output=output, max_episode_steps=1)
        action = np.ones(4, int) if output == "numpy" else torch.ones(4, dtype=torch.int64)
        env.reset(seed=1)
        break_world_2(env)
        if mode is AutoresetMode.DISABLED:
            with pytest.warns(RuntimeWarning, match=r"non-finite .*: 2;"):
                infos = env.step(action)[4]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                infos = env.step(action)[4]
        assert infos["failed"].tolist() == [False, False, True, False]
        assert infos["_failed"].all()
        if mode is not AutoresetMode.DISABLED:
            for _ in range(2):
                obs, *_, infos = env.step(action)
            assert np.isfinite(np.asarray(obs)).all()
            assert not np.any(np.asarray(infos.get("failed", False)))
        env.close()


def test_torch_tensors_are_views_of_the_same_numbers():
    actions = pushes(20, 4)
    numpy_env, torch_env = cartpole(), cartpole(output="torch")
    numpy_env.reset(seed=1)
    kept = torch_env.reset(seed=1)[0]
    for action in actions:
        expected = numpy_env.step(action)
        got = torch_env.step(torch.from_numpy(action))
        for a, b in zip(expected[:4], got[:4], strict=True):
            np.testing.assert_array_equal(a, b.numpy())
        np.testing.assert_array_equal(got[4]["_final_obs"].numpy(), expected[2] | expected[3])
    assert kept.data_ptr() == got[0].data_ptr()
    assert cartpole(output="torch", copy=True).reset(seed=1)[0].data_ptr() != kept.data_ptr()


class ByHand(envs.Task):
    """CartPole with a reward and observations in Python."""

    name, dt, episode_steps, discrete_actions, observation_size = "ByHand", 0.02, 500, 2, 4
    act, spawn = envs_cartpole.push_cart, envs_cartpole.spawn_cart

    def build(self, builder):
        return envs.make("CartPole", 1, device="cpu").task.build(builder)

    def numbers(self):
        return [2.4, 12.0 * math.pi / 180.0, 0.05, 10.0, 0.0]

    def observe(self, host: envs.HostView) -> None:
        host.obs[:, 0::2] = host.joint_q
        host.obs[:, 1::2] = host.joint_qd

    def score(self, host: envs.HostView) -> None:
        host.reward[:] = 1.0
        host.terminated[:] = (abs(host.joint_q[:, 0]) > 2.4) | (abs(host.joint_q[:, 1]) > math.pi / 15)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_python_functions_in_place_of_kernels(output: str):
    actions = pushes(40, 4)
    kernels, by_hand = cartpole(), envs.BatchedEnv(ByHand(), 4, "cpu", output=output)
    expected, got = [kernels.reset(seed=2)[0]], [by_hand.reset(seed=2)[0]]
    for action in actions:
        expected += kernels.step(action)[:4]
        results = by_hand.step(torch.from_numpy(action) if output == "torch" else action)[:4]
        got += [np.asarray(result).copy() for result in results]
    for a, b in zip(expected[1:], got[1:], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_arrays_of_a_host_view_are_written_into_not_assigned_to(output: str):
    class Assigning(ByHand):
        def observe(self, w: envs.HostView) -> None:
            w.obs = w.obs * 0.0 + 7.0

    class Misspelling(ByHand):
        def observe(self, w: envs.HostView) -> None:
            w.rewards = 1.0

    class Adding(ByHand):
        def observe(self, w: envs.HostView) -> None:
            w.obs[:] = 6.0
            w.obs += 1.0

    with pytest.raises(AttributeError, match=r"obs cannot be assigned to; .*: w\.obs\[:\] = "):
        envs.BatchedEnv(Assigning(), 2, "cpu", output=output).reset(seed=0)
    with pytest.raises(AttributeError, match="there is no 'rewards' to write into; did you mean 'reward'"):
        envs.BatchedEnv(Misspelling(), 2, "cpu", output=output).reset(seed=0)
    assert (envs.BatchedEnv(Adding(), 2, "cpu", output=output).reset(seed=0)[0] == 7.0).all()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3, int), r"actions: expected shape \(4,\), got \(3,\)"),
        (np.array([0, 1, 2, 0]), r"actions\[2\]: expected a whole number from 0 to 1, got 2"),
        (np.array([0.0, 0.5, 1.0, 0.0]), r"actions\[1\].*got 0.5"),
        (np.array(["a"] * 4), "actions: expected numbers, got <U1"),
    ],
)
def test_wrong_actions_are_named(action: np.ndarray, message: str):
    env = cartpole()
    env.reset(seed=1)
    before = env.step(np.ones(4, int))[0]
    with pytest.raises(NewtonsimError, match=message):
        env.step(action)
    np.testing.assert_array_equal(env.buffers.view.obs.numpy(), before)


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("Ant", "healthy_reward", "a", "a number such as 1.0"),
        ("Ant", "healthy_reward", math.nan, "a number such as 1.0"),
        ("Ant", "healthy_z_range", 2.0, r"a range \(low, high\) such as \(0.2, 1.0\)"),
        ("Ant", "healthy_z_range", (2.0, 1.0), r"a range \(low, high\)"),
        ("Ant", "terminate_when_unhealthy", "no", "True or False"),
        ("Ant", "xml", 3, "the path of a file"),
        ("CartPole", "force", None, "a number such as 10.0"),
        ("QuadrupedTerrain", "curriculum", 1, "True or False"),
    ],
)
def test_options_of_a_wrong_kind_are_named(name: str, option: str, value: object, message: str):
    with pytest.raises(NewtonsimError, match=f"{name}: {option}: expected {message}.*, got"):
        envs.make(name, 1, device="cpu", **{option: value})


@pytest.mark.parametrize(
    ("size", "motors", "message"),
    [
        (0, {}, "observation_size: expected a whole number of at least 1, got 0"),
        (4, {"axes": [2]}, "motors.axes: expected axes from 0 to 1, got 2"),
        (4, {"gears": []}, "motors: expected as many gears as axes"),
        (4, {"high": [1.0, 1.0]}, "motors: expected as many gears as axes, and as many high as low"),
    ],
)
def test_tasks_whose_kernels_would_leave_their_arrays(size: int, motors: dict, message: str):
    class Wrong(type(cartpole(1).task)):
        name = "Wrong"
        observation_size = size

        def build(self, builder):
            found = super().build(builder)
            found.axes, found.gears, found.low, found.high = [0], [1.0], [-1.0], [1.0]
            for name, values in motors.items():
                setattr(found, name, values)
            return found

    with pytest.raises(NewtonsimError, match=f"Wrong: {message}"):
        envs.BatchedEnv(Wrong(), 3, "cpu")


@pytest.mark.parametrize("device", ["banana", "cuda:99"])
def test_devices_that_are_not_there_are_named(device: str):
    with pytest.raises(NewtonsimError, match=f"device: no device '{device}'; there are cpu"):
        envs.make("CartPole", 1, device=device)


def test_a_closed_environment_does_nothing():
    env = cartpole(render_mode="rgb_array")
    env.reset(seed=1)
    env.close()
    for call in (env.reset, env.render, lambda: env.step(np.zeros(4, int))):
        with pytest.raises(NewtonsimError, match="the environment is closed"):
            call()


def test_wrappers_of_gymnasium_that_want_the_next_step():
    env = gymnasium.make_vec("newtonsim/CartPole-v0", num_envs=3, device="cpu", autoreset_mode="NextStep")
    wrapped = gymnasium.wrappers.vector.NormalizeObservation(env)
    wrapped.reset(seed=1)
    assert np.isfinite(wrapped.step(env.action_space.sample())[0]).all()


def test_other_wrong_input_is_named():
    with pytest.raises(NewtonsimError, match="no environment 'Cartpole'; did you mean 'CartPole'"):
        envs.make("Cartpole")
    with pytest.raises(NewtonsimError, match="CartPole: there is no option 'mass'"):
        envs.make("CartPole", mass=2.0)
    for name, value in (("num_envs", 0), ("output", "jax"), ("autoreset_mode", "Never"), ("threads", 0)):
        with pytest.raises(ValueError, match=f"{name}: expected .*{value!r}"):
            envs.make("CartPole", **{"num_envs": 1, "device": "cpu", name: value})
    env = cartpole()
    with pytest.raises(NewtonsimError, match="call reset first"):
        env.step(np.zeros(4, int))
    with pytest.raises(NewtonsimError, match=r"reset_mask: expected shape \(4,\), got \(2,\)"):
        env.reset(options={"reset_mask": np.ones(2, bool)})
    with pytest.raises(NewtonsimError, match="reset_mask: expected booleans, got int64"):
        env.reset(options={"reset_mask": np.ones(4, int)})
    with pytest.raises(NewtonsimError, match=r"option is 'reset_mask', got \['mask'\]"):
        env.reset(options={"mask": np.ones(4, bool)})
    with pytest.raises(NewtonsimError, match="seed: expected one or 4, got 2"):
        env.reset(seed=[1, 2])
    torch_env = cartpole(output="torch")
    torch_env.reset(seed=1)
    with pytest.raises(NewtonsimError, match="expected a torch tensor, got ndarray"):
        torch_env.step(np.zeros(4, int))
    swing = envs.make("CartPoleSwingUp", 2, device="cpu")
    swing.reset(seed=1)
    with pytest.raises(NewtonsimError, match=r"actions\[1, 0\]: expected finite numbers, got nan"):
        swing.step(np.array([[0.0], [math.nan]]))


def test_a_step_only_replays(monkeypatch: pytest.MonkeyPatch):
    """Nothing is read, copied or waited for on the host in a step with torch tensors."""
    env = cartpole(output="torch")
    env.reset(seed=1)
    action = torch.ones(4, dtype=torch.int64)
    env.step(action)

    forbid_host_work(monkeypatch, env)
    for _ in range(3):
        env.step(action)

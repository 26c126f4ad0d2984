"""Observations and rewards against gymnasium's MuJoCo environments, at equal states and actions.

Both read the robot file of gymnasium and are put into the same state, so that nothing but the definitions is
compared, not the physics.
"""

import os

import gymnasium
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.kinematics import eval_fk
from newtonsim.runtime.launcher import Launcher

ASSETS = os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets")
RUNNERS = {"Hopper": "hopper.xml", "Walker2d": "walker2d_v5.xml", "HalfCheetah": "half_cheetah.xml"}


def pair(name: str, xml: str) -> tuple[envs.BatchedEnv, gymnasium.Env]:
    """Return our environment of one world and gymnasium's."""
    ours = envs.make(name, 1, device="cpu", xml=os.path.join(ASSETS, xml))
    theirs = gymnasium.make(f"{name}-v5").unwrapped
    ours.reset(seed=0)
    theirs.reset(seed=0)
    return ours, theirs


def put(env: envs.BatchedEnv, q: np.ndarray, qd: np.ndarray) -> None:
    state = env.sim.state
    state.joint_q.assign(q.astype(np.float32))
    state.joint_qd.assign(qd.astype(np.float32))
    eval_fk(env.model, state.joint_q, state.joint_qd, None, state)


def evaluate(env: envs.BatchedEnv) -> tuple[np.ndarray, float, bool]:
    """Return observation, reward and termination of the state that an environment is in."""
    launch, view = Launcher(env.model, record_tape=False), env.buffers.attach(env.sim)
    launch.user_kernel(type(env.task).observe, "world", view, env.buffers.everyone)
    launch.user_kernel(type(env.task).score, "world", view)
    return view.obs.numpy()[0].copy(), float(view.reward.numpy()[0]), bool(view.terminated.numpy()[0])


@pytest.mark.parametrize("name", RUNNERS)
def test_runners(name: str):
    ours, theirs = pair(name, RUNNERS[name])
    rng = np.random.default_rng(1)
    height = theirs.init_qpos[1]
    ended = 0
    for trial in range(6):
        q = theirs.init_qpos + rng.uniform(-0.15, 0.15, theirs.model.nq) * (1.0 + 3.0 * (trial % 3 == 2))
        qd = rng.uniform(-12.0, 12.0, theirs.model.nv)
        action = rng.uniform(-1.0, 1.0, theirs.model.nu)
        x_before = rng.uniform(-0.1, 0.1)
        theirs.set_state(q, qd)
        x_velocity = (theirs.data.qpos[0] - x_before) / theirs.dt
        expected = theirs._get_rew(x_velocity, action.astype(np.float32))[0]
        over = name != "HalfCheetah" and not theirs.is_healthy
        put(ours, q - height * (np.arange(len(q)) == 1), qd)
        ours.buffers.view.actions.assign(action[None].astype(np.float32))
        ours.buffers.view.memory.assign(np.full((1, 1), x_before, np.float32))
        obs, reward, terminated = evaluate(ours)
        np.testing.assert_allclose(obs, theirs._get_obs(), atol=1e-5)
        np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-3)
        assert terminated == over
        ended += terminated
    assert ended > 0 or name == "HalfCheetah"


@pytest.mark.parametrize(("name", "bonus"), [("Hopper", 1.0), ("HalfCheetah", 0.0), ("Ant", 1.0)])
def test_the_first_reward_of_an_episode_counts_from_where_it_began(name: str, bonus: float):
    env = envs.make(name, 4, device="cpu")
    x = env.sim.state.joint_q.numpy().reshape(4, -1)[:, 0]  # a view
    env.reset(seed=0)
    for _ in range(2):
        began = x.copy()
        assert np.ptp(began) > 1.0e-4
        reward = env.step(np.zeros((4, *env.single_action_space.shape), np.float32))[1]
        speed = (x - began) / (env.task.dt * env.task.frame_skip)
        np.testing.assert_allclose(reward, speed + bonus, atol=1.0e-3)
        env.step(np.zeros((4, *env.single_action_space.shape), np.float32))
        env.reset()


def test_inverted_double_pendulum():
    ours, theirs = pair("InvertedDoublePendulum", "inverted_double_pendulum.xml")
    rng = np.random.default_rng(1)
    ends = []
    for size in (0.1, 0.3, 0.5, 2.0):
        q, qd = rng.uniform(-size, size, 3), rng.uniform(-12.0, 12.0, 3)
        # out of reach of the stops
        q[0] *= 0.4
        theirs.set_state(q, qd)
        x, _, z = theirs.data.site_xpos[0]
        expected = theirs._get_rew(x, z, bool(z <= 1))[0]
        put(ours, q, qd)
        obs, reward, terminated = evaluate(ours)
        np.testing.assert_allclose(obs, theirs._get_obs(), atol=1e-5)
        np.testing.assert_allclose(reward, expected, rtol=1e-5)
        assert terminated == bool(z <= 1)
        ends.append(terminated)
    assert set(ends) == {False, True}


def test_reacher():
    ours, theirs = pair("Reacher", "reacher.xml")
    rng = np.random.default_rng(1)
    start = theirs.init_qpos
    for _ in range(4):
        q, qd, action = rng.uniform(-0.2, 0.2, 4), rng.uniform(-5.0, 5.0, 4), rng.uniform(-1.0, 1.0, 2)
        q[:2] *= 15.0
        theirs.set_state(q, qd)
        expected = theirs._get_rew(action)[0]
        put(ours, q - np.array([0.0, 0.0, *start[2:]]), qd)
        ours.buffers.view.actions.assign(action[None].astype(np.float32))
        obs, reward, terminated = evaluate(ours)
        np.testing.assert_allclose(obs, theirs._get_obs(), atol=1e-5)
        np.testing.assert_allclose(reward, expected, rtol=1e-5)
        assert not terminated


def test_targets_of_the_reacher_fill_the_disk():
    targets = envs.make("Reacher", 2000, device="cpu").reset(seed=0)[0][:, 4:6]
    radius = np.linalg.norm(targets, axis=1)
    assert radius.max() <= 0.2
    # the mean radius of a uniform disk is two thirds of its own; standard error 1e-3
    np.testing.assert_allclose(radius.mean(), 0.2 * 2.0 / 3.0, atol=5e-3)
    np.testing.assert_allclose(targets.mean(axis=0), 0.0, atol=1e-2)


@pytest.mark.parametrize("name", ["Ant", "Humanoid"])
def test_robots_on_free_joints(name: str):
    ours, theirs = pair(name, f"{name.lower()}.xml")
    rng = np.random.default_rng(1)
    most = 0.4 if name == "Humanoid" else 1.0
    low, high = theirs._healthy_z_range
    ends = []
    for height in (0.5 * (low + high), low - 0.05, high + 0.05):
        q = theirs.init_qpos + rng.uniform(-0.3, 0.3, theirs.model.nq)
        q[2], q[3:7] = height, q[3:7] / np.linalg.norm(q[3:7])
        qd = rng.uniform(-3.0, 3.0, theirs.model.nv)
        action, x_before = rng.uniform(-most, most, theirs.model.nu), rng.uniform(-0.1, 0.1)
        theirs.data.ctrl[:] = action
        theirs.set_state(q, qd)
        theirs.data.cfrc_ext[1:] = rng.uniform(-2.0, 2.0, (13, 6)) * (200.0 if height > high else 1.0)
        com = theirs.data.subtree_com[1].copy()
        x = com[0] if name == "Humanoid" else theirs.data.body(1).xpos[0]
        expected = theirs._get_rew((x - x_before) / theirs.dt, action)[0]
        put(ours, *from_mujoco(theirs, q, qd))
        view = ours.buffers.view
        view.actions.assign(action[None].astype(np.float32))
        ours._launch_act(Launcher(ours.model, record_tape=False), ours.sim)
        view.memory.assign(np.full((1, 1), x_before, np.float32))
        wrench = theirs.data.cfrc_ext[1:].copy()
        wrench[:, :3] -= np.cross(theirs.data.xipos[1:] - com, wrench[:, 3:])
        view.body_wrench.assign(wrench.astype(np.float32))
        obs, reward, terminated = evaluate(ours)
        np.testing.assert_allclose(obs, theirs._get_obs(), rtol=2e-5, atol=2e-4)
        np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-4)
        assert terminated == (not theirs.is_healthy)
        ends.append(terminated)
    assert ends == [False, True, True]


def from_mujoco(env: gymnasium.Env, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates and velocities of a robot on a free joint in our conventions."""
    q, qd = q.copy(), qd.copy()
    turn = env.data.xmat[1].reshape(3, 3)
    spin = turn @ qd[3:6]
    of_com = qd[:3] + np.cross(spin, env.data.xipos[1] - env.data.xpos[1])
    q[3:7] = q[[4, 5, 6, 3]]
    return q, np.concatenate([spin, of_com, qd[6:]])


def test_contacts_bear_the_ant():
    env = envs.make("Ant", 2, device="cpu", max_episode_steps=0)
    env.reset(seed=0)
    for _ in range(60):
        obs = env.step(np.zeros((2, 8)))[0]
    wrenches = env.buffers.view.body_wrench.numpy().reshape(2, 13, 6)
    weight = 9.81 * env.model.body_mass.numpy()[:13].sum()
    np.testing.assert_allclose(wrenches[:, :, 5].sum(axis=1), weight, rtol=0.02)
    np.testing.assert_allclose(wrenches[:, :, 3:5].sum(axis=1), 0.0, atol=0.02 * weight)
    # the last three of the six numbers of each body are forces, cut off at 1 N
    seen = obs[:, 27:].reshape(2, 13, 6)
    np.testing.assert_allclose(seen[:, :, 3:], np.clip(wrenches[:, :, 3:], -1.0, 1.0), atol=1e-6)


def test_quadruped():
    """Against the definition written down in NumPy, with rotations of SciPy."""
    env = envs.make("Quadruped", 3, device="cpu")
    home = np.array([0.0, 0.8, -1.6] * 4)
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    first, last = rng.uniform(-1.0, 1.0, (2, 3, 12)).astype(np.float32)
    env.step(first)
    command = env.buffers.view.memory.numpy()[:, :3].copy()
    obs, reward, terminated, *_ = env.step(last)
    state = env.sim.state
    q, qd = state.joint_q.numpy().reshape(3, 19), state.joint_qd.numpy().reshape(3, 18)
    inverse = Rotation.from_quat(state.body_q.numpy()[::13, 3:]).inv()
    spin, velocity = (inverse.apply(state.body_qd.numpy()[::13, k : k + 3]) for k in (0, 3))
    down = inverse.apply([[0.0, 0.0, -1.0]] * 3)
    expected = [velocity, spin, down, command, q[:, 7:] - home, qd[:, 6:], last]
    np.testing.assert_allclose(obs, np.concatenate(expected, axis=1), atol=2e-5)
    errors = ((command[:, :2] - velocity[:, :2]) ** 2).sum(axis=1), (command[:, 2] - spin[:, 2]) ** 2
    total = np.exp(-errors[0] / 0.25) + 0.5 * np.exp(-errors[1] / 0.25) - 2.0 * velocity[:, 2] ** 2
    total -= 0.05 * (spin[:, :2] ** 2).sum(axis=1) + 0.2 * (down[:, :2] ** 2).sum(axis=1)
    total -= 0.01 * ((last - first) ** 2).sum(axis=1)
    np.testing.assert_allclose(reward, 0.02 * total, atol=1e-5)
    assert not terminated.any()
    targets = env.sim.control.joint_act.numpy().reshape(3, 12)
    np.testing.assert_allclose(targets, home + 0.5 * last, atol=1e-6)


def test_quadruped_stands_without_actions():
    env = envs.make("Quadruped", 8, device="cpu")
    env.reset(seed=0)
    for _ in range(100):
        obs, _, terminated, *_ = env.step(np.zeros((8, 12)))
        assert not terminated.any()
    np.testing.assert_allclose(obs[:, :6], 0.0, atol=0.02)
    np.testing.assert_allclose(obs[:, 8], -1.0, atol=0.01)


@pytest.mark.parametrize(
    "name", ["CartPole", "InvertedDoublePendulum", "Reacher", *RUNNERS, "Ant", "Humanoid"]
)
def test_spaces_and_times_are_those_of_gymnasium(name: str):
    ours = envs.make(name, 2, device="cpu")
    theirs = gymnasium.make(f"{name}-v{1 if name == 'CartPole' else 5}")
    assert ours.single_observation_space.shape == theirs.observation_space.shape
    if name != "CartPole":
        np.testing.assert_allclose(ours.single_action_space.low, theirs.action_space.low)
        np.testing.assert_allclose(ours.single_action_space.high, theirs.action_space.high)
        assert ours.buffers.view.control_dt == pytest.approx(theirs.unwrapped.dt)
    else:
        assert ours.single_action_space == theirs.action_space
    assert theirs.spec.max_episode_steps == ours.task.episode_steps


@pytest.mark.parametrize("name", envs.names())
def test_own_robots_stay_finite_under_random_actions(name: str):
    env = envs.make(name, 16, device="cpu")
    env.action_space.seed(0)
    first = env.reset(seed=0)[0]
    assert np.isfinite(first).all()
    for _ in range(25):
        obs, reward, *_ = env.step(env.action_space.sample())
        assert np.isfinite(obs).all()
        assert np.isfinite(reward).all()
    assert env.failures.sum() == 0

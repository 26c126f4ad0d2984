"""Observations and rewards against gymnasium's MuJoCo environments, at equal states and actions.

Both read the robot file of gymnasium and are put into the same state, so that nothing but the definitions is
compared, not the physics.
"""

import os

import gymnasium
import numpy as np
import pytest

from newtonsim import envs
from newtonsim.kinematics import eval_fk
from newtonsim.workspace import Launcher

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
    launch(type(env.task).observe, "world", [view, env.buffers.everyone])
    launch(type(env.task).score, "world", [view])
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


@pytest.mark.parametrize("name", envs.names())
def test_spaces_and_times_are_those_of_gymnasium(name: str):
    ours = envs.make(name, 2, device="cpu")
    for key in (f"{name}-v5", f"{name}-v1"):
        if key in gymnasium.registry:
            theirs = gymnasium.make(key)
            assert ours.single_observation_space.shape == theirs.observation_space.shape
            if name != "CartPole":
                np.testing.assert_allclose(ours.single_action_space.low, theirs.action_space.low)
                np.testing.assert_allclose(ours.single_action_space.high, theirs.action_space.high)
                assert ours.buffers.view.control_dt == pytest.approx(theirs.unwrapped.dt)
            else:
                assert ours.single_action_space == theirs.action_space
            assert theirs.spec.max_episode_steps == ours.task.episode_steps
            return
    assert name in ("CartPoleSwingUp",)


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

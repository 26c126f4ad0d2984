"""The arm: observations and rewards against NumPy, and a script that picks up cubes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.spatial.transform import Rotation

from newtonsim import dynamics, envs
from newtonsim.errors import NewtonsimError

HAND = 6
"""The last of the seven links of the arm."""


def bodies(env: envs.BatchedEnv) -> tuple[np.ndarray, np.ndarray]:
    """Return poses and velocities of all bodies, (num_envs, bodies, 7) and (num_envs, bodies, 6)."""
    state, shape = env.sim.state, (env.num_envs, -1)
    return state.body_q.numpy().reshape(*shape, 7), state.body_qd.numpy().reshape(*shape, 6)


def joints(env: envs.BatchedEnv) -> tuple[np.ndarray, np.ndarray]:
    state = env.sim.state
    return state.joint_q.numpy().reshape(env.num_envs, -1), state.joint_qd.numpy().reshape(env.num_envs, -1)


def tool_of(env: envs.BatchedEnv, along: float) -> np.ndarray:
    """Return the point on the axis of the hand that reaches [m], (num_envs, 3)."""
    hand = bodies(env)[0][:, HAND].astype(float)
    return hand[:, :3] + Rotation.from_quat(hand[:, 3:]).apply([0.0, 0.0, along])


def jacobian_of(env: envs.BatchedEnv, tool: np.ndarray) -> np.ndarray:
    """Return angular velocity and velocity of the tool by joint velocities, (num_envs, 6, 7)."""
    worlds = env.num_envs
    of_com = dynamics.jacobian(env.model, env.sim.state).numpy()
    of_com = of_com.reshape(worlds, -1, *of_com.shape[1:])[:, HAND, :, :7].astype(float)
    hand = bodies(env)[0][:, HAND].astype(float)
    com = env.model.body_com.numpy().reshape(worlds, -1, 3)[:, HAND]
    arm = tool - hand[:, :3] - Rotation.from_quat(hand[:, 3:]).apply(com)
    of_com[:, 3:] += np.cross(of_com[:, :3], arm[:, :, None], axis=1)
    return of_com


def towards(env: envs.BatchedEnv, place: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """Return actions of the arm that bring the fingertips to a place, pointing down: damped least squares."""
    tool = tool_of(env, 0.13)
    jacobian = jacobian_of(env, tool)
    wanted = Rotation.from_euler("ZX", np.stack([yaw, np.full(env.num_envs, np.pi)], axis=1))
    turn = wanted * Rotation.from_quat(bodies(env)[0][:, HAND, 3:]).inv()
    error = np.concatenate([turn.as_rotvec(), place - tool], axis=1)
    back = jacobian.transpose(0, 2, 1)
    step = back @ np.linalg.solve(jacobian @ back + 1.0e-3 * np.eye(6), error[..., None])
    return np.clip(0.3 / 0.05 * step[..., 0], -1.0, 1.0)


def test_a_script_picks_up_cubes_and_brings_them_to_their_goals():
    env = envs.make("ArmPick", 16, device="cpu", autoreset_mode="Disabled", max_episode_steps=0)
    obs = env.reset(seed=0)[0]
    cube, goal = obs[:, 19:22].copy(), obs[:, 32:35].copy()
    yaw = 2.0 * np.arctan2(obs[:, 24], obs[:, 25])
    above = cube + np.array([0.0, 0.0, 0.1])
    for steps, place, grip in ((40, above, 1.0), (25, cube, 1.0), (10, cube, -1.0), (45, goal, -1.0)):
        for _ in range(steps):
            action = np.concatenate([towards(env, place, yaw), np.full((16, 1), grip)], axis=1)
            obs, reward, *_, infos = env.step(action)
        if place is cube:
            # at the cube; then grasped too, with both fingers at its faces
            np.testing.assert_allclose(reward, 1.0 if grip > 0.0 else 1.25, atol=0.02)
            if grip < 0.0:
                np.testing.assert_allclose(obs[:, 14], 0.02, atol=3e-4)
    held = obs[:, 35:38].copy()
    np.testing.assert_allclose(obs[:, 19:22], goal, atol=5e-3)
    np.testing.assert_allclose(reward, 3.25, atol=0.03)
    assert infos["is_success"].all()
    for _ in range(50):
        obs = env.step(np.concatenate([towards(env, goal, yaw), np.full((16, 1), -1.0)], axis=1))[0]
    # within 2 s no cube slips by a tenth of a millimetre
    np.testing.assert_allclose(obs[:, 35:38], held, atol=1e-4)
    for _ in range(15):
        obs, reward, *_, infos = env.step(np.concatenate([np.zeros((16, 7)), np.ones((16, 1))], axis=1))
    assert obs[:, 21].max() < 0.05
    assert not infos["is_success"].any()
    assert reward.max() < 1.0


def test_pick():
    """Observation and reward of random states, written down in NumPy."""
    env = envs.make("ArmPick", 12, device="cpu")
    goal = env.reset(seed=0)[0][:, 32:35].copy()
    rng = np.random.default_rng(0)
    q = env.sim.state.joint_q.numpy().reshape(12, -1)
    q[:, :7] += rng.uniform(-0.3, 0.3, (12, 7))
    # cubes between the fingers, high up, low, and on the table
    for _ in range(2):
        action = rng.uniform(-1.0, 1.0, (12, 8))
        action[:, 7] = -1.0
        env.step(action)
    tool = tool_of(env, 0.13)
    coords = joints(env)[0].copy()
    coords[:9, 9:12] = tool[:9]
    coords[9:, 11] = [0.02, 0.05, 0.1]
    coords[3:6, 9:12] += rng.uniform(-0.04, 0.04, (3, 3))
    env.sim.state.joint_q.assign(coords.reshape(-1).astype(np.float32))
    obs, reward, terminated, *_ = env.step(action)
    (pose, velocity), (q, qd) = bodies(env), joints(env)
    cube, tool = pose[:, -2], tool_of(env, 0.13)
    parts = [q[:, :7], qd[:, :7], q[:, 7:8], qd[:, 7:8], tool, cube, velocity[:, -2, 3:]]
    parts += [velocity[:, -2, :3], goal, cube[:, :3] - tool, goal - cube[:, :3]]
    np.testing.assert_allclose(obs, np.concatenate(parts, axis=1), atol=1e-4)
    apart = np.linalg.norm(cube[:, :3] - tool, axis=1)
    grasped = (apart < 0.015) & (q[:, 7] > 0.002)
    expected = 1.0 - np.tanh(10.0 * apart) + 0.25 * grasped
    lifted = 3.25 - np.tanh(5.0 * np.linalg.norm(goal - cube[:, :3], axis=1))
    expected = np.where(cube[:, 2] > 0.06, lifted, expected)
    np.testing.assert_allclose(reward, expected, atol=1e-4)
    assert 0 < (cube[:, 2] > 0.06).sum() < 12
    assert not terminated.any()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_reach(kind: str):
    env = envs.make("ArmReach", 8, device="cpu", reward_type=kind)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        obs, reward, terminated, _, infos = env.step(rng.uniform(-1.0, 1.0, (8, 7)))
    marker = bodies(env)[0][:, -1, :3].copy()
    tool, (q, qd) = tool_of(env, 0.045), joints(env)
    np.testing.assert_allclose(obs, np.concatenate([q, qd, tool, marker, marker - tool], axis=1), atol=1e-5)
    distance = np.linalg.norm(marker - tool, axis=1)
    expected = -distance if kind == "dense" else -1.0 * (distance > 0.05)
    np.testing.assert_allclose(reward, expected, atol=1e-6)
    np.testing.assert_array_equal(infos["is_success"], distance <= 0.05)
    assert infos["_is_success"].all()
    assert not terminated.any()


def test_actions_shift_the_targets_of_the_drives():
    env = envs.make("ArmReach", 3, device="cpu", max_episode_steps=0)
    env.reset(seed=0)
    start = env.sim.control.joint_act.numpy().reshape(3, 7).copy()
    np.testing.assert_array_equal(start, joints(env)[0])
    action = np.random.default_rng(0).uniform(-2.0, 2.0, (3, 7))
    for _ in range(4):
        env.step(action)
    targets = env.sim.control.joint_act.numpy().reshape(3, 7)
    np.testing.assert_allclose(targets, start + 0.2 * np.clip(action, -1.0, 1.0), atol=1e-5)
    for _ in range(150):
        env.step(np.tile([[1.0], [-1.0], [0.0]], (1, 7)))
    limits = [env.model.joint_limit_upper.numpy()[:7], env.model.joint_limit_lower.numpy()[:7]]
    np.testing.assert_allclose(env.sim.control.joint_act.numpy().reshape(3, 7)[:2], limits, atol=1e-5)


def test_the_arm_holds_still_and_its_drives_bear_it():
    env = envs.make("ArmReach", 2, device="cpu")
    env.reset(seed=0)
    for _ in range(40):
        env.step(np.zeros((2, 7)))
    q, qd = joints(env)
    sag = np.abs(q - env.sim.control.joint_act.numpy().reshape(2, 7))
    np.testing.assert_allclose(qd, 0.0, atol=1e-3)
    # the torque of each spring is what gravity asks for
    still = env.sim.state.joint_qd
    still.zero_()
    weight = dynamics.inverse_dynamics(env.model, env.sim.state, still).numpy().reshape(2, 7)
    np.testing.assert_allclose(sag * env.model.joint_target_ke.numpy()[:7], np.abs(weight), atol=0.3)
    assert sag.max() < 0.02


def test_a_damped_least_squares_controller_reaches_the_targets():
    """All targets can be reached in the time of an episode."""
    env = envs.make("ArmReach", 64, device="cpu", max_episode_steps=0)
    obs = env.reset(seed=0)[0]
    for _ in range(50):
        slope = jacobian_of(env, tool_of(env, 0.045))[:, 3:]
        back = slope.transpose(0, 2, 1)
        step = back @ np.linalg.solve(slope @ back + 1.0e-3 * np.eye(3), obs[:, 20:, None])
        obs, *_, infos = env.step(np.clip(0.3 / 0.05 * step[..., 0], -1.0, 1.0))
    assert np.linalg.norm(obs[:, 20:], axis=1).max() < 0.05
    assert infos["is_success"].all()


@pytest.mark.parametrize("name", ["ArmReach", "ArmPick"])
def test_gymnasium_finds_no_fault(name: str):
    check_env(gymnasium.make(f"newtonsim/{name}-v0", device="cpu").unwrapped)


def test_another_reward_type_is_named():
    with pytest.raises(NewtonsimError, match="reward_type: expected 'dense' or 'sparse', got 'shaped'"):
        envs.make("ArmReach", reward_type="shaped")


def test_success_is_told_by_torch_and_by_single_environments():
    import torch

    torch_env = envs.make("ArmReach", 2, device="cpu", output="torch")
    torch_env.reset(seed=0)
    infos = torch_env.step(torch.zeros(2, 7))[4]
    assert infos["is_success"].dtype == torch.bool
    assert infos["is_success"].shape == (2,)
    single = gymnasium.make("newtonsim/ArmPick-v0", device="cpu")
    single.reset(seed=0)
    assert single.step(np.zeros(8, np.float32))[4] == {"is_success": False}

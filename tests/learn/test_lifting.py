"""The arm whose policy ships grips cubes and brings them to their points, from starts nobody has chosen."""

from typing import Any

import numpy as np

from newtonsim import envs
from newtonsim.examples import asset_path
from newtonsim.learn import PolicyFile, evaluate

POLICY = asset_path("policies/lift.onnx")


def test_it_was_trained_with_the_default_options():
    about: dict[str, Any] = PolicyFile(POLICY).about
    assert about["name"] == "Lift"
    assert about["options"] == {}
    assert about["start"] is None
    assert POLICY.stat().st_size < 500_000


def test_it_lifts_cubes_to_their_points():
    """And it holds them: between the fingers, which press on them, and far from the ground."""
    env = envs.make("Lift", 32, "cpu", threads=1, max_episode_steps=0)
    policy = PolicyFile(POLICY)
    obs, _ = env.reset(seed=20261128)
    cube = env.model.body_key.index("cube")
    target = env.buffers.view.memory.numpy()[:, :3].astype(float)
    places, fingers = [], []
    for _ in range(100):
        obs, *_, infos = env.step(policy(obs))
        places.append(env.sim.state.body_q.numpy().reshape(32, -1, 7)[:, cube, :3].astype(float))
        fingers.append(env.sim.state.joint_q.numpy().reshape(32, -1)[:, 7:9].copy())
    away = np.linalg.norm(np.array(places) - target, axis=2)
    brought = np.all(away[75:] < 0.05, axis=0)
    assert brought.sum() >= 29
    np.testing.assert_array_equal(infos["is_success"], away[-1] < 0.05)
    # the cube is 40 mm wide, and 57 mm from edge to edge
    assert np.all(np.abs(np.array(fingers)[75:, brought].sum(axis=2) - 0.048) < 0.0095)
    # targets differ, and so do the places: the cubes are not all brought to the middle
    assert np.ptp(np.array(places)[-1, brought], axis=0).min() > 0.15


def test_episodes_say_how_often_the_goal_was_reached():
    env = envs.make("Lift", 16, "cpu", threads=1)
    lifted = evaluate(PolicyFile(POLICY), env, 16, seed=7)
    rest = evaluate(lambda obs: np.zeros((len(obs), 4), np.float32), env, 16, seed=7)
    assert lifted.reached is not None
    assert rest.reached is not None
    assert lifted.reached.mean() > 0.85
    assert not rest.reached.any()
    assert "goal reached in 0 %" in str(rest)
    walk = evaluate(
        lambda obs: np.zeros((len(obs), 1), np.float32), envs.make("InvertedDoublePendulum", 2, "cpu"), 2
    )
    assert walk.reached is None
    assert "goal" not in str(walk)

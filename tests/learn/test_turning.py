"""The policy of the hand that ships turns cubes, from starts that nobody has chosen."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.examples import asset_path
from newtonsim.learn import PolicyFile

POLICY = asset_path("policies/turn_in_hand.onnx")


def test_it_was_trained_with_the_default_options():
    about: dict[str, Any] = PolicyFile(POLICY).about
    assert about["name"] == "TurnInHand"
    assert about["options"] == {}
    assert about["start"] is None


def test_the_hand_turns_the_cube_and_keeps_it():
    """By more than a whole turn in 20 s, in each of 16 episodes without noise; the cube stays in the hand."""
    env = envs.make("TurnInHand", 16, "cpu", threads=1, max_episode_steps=0)
    policy = PolicyFile(POLICY)
    obs, _ = env.reset(seed=2027)
    cube = env.model.body_key.index("cube")
    turns, total = [], np.zeros(16)
    for _ in range(400):
        obs, reward, terminated, *_ = env.step(policy(obs))
        assert not terminated.any()
        total += reward
        turns.append(env.sim.state.body_q.numpy().reshape(16, -1, 7)[:, cube, 3:].astype(float))
    # where its first edge points, seen from above
    edges = np.array([Rotation.from_quat(turn).apply([1.0, 0.0, 0.0]) for turn in turns])
    angle = np.unwrap(np.arctan2(edges[..., 1], edges[..., 0]), axis=0)
    assert (angle[-1] - angle[0]).min() > 2.0 * np.pi
    # at rest it is about 0, and at most 20
    assert total.min() > 7.0

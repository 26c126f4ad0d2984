"""The humanoid whose policy ships walks as commanded, from starts that nobody has chosen."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.examples import asset_path
from newtonsim.learn import PolicyFile

POLICY = asset_path("policies/velocity_biped.onnx")


def play(
    worlds: int, steps: int, slowest: float, fastest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Walk forward with a speed between two, which each world draws.

    Returns:
        Commanded speeds (n,) [m/s], which worlds never fell (n,), poses of pelvises (T, n, 7), and heights of
        feet (T, n, 2) [m].
    """
    events = {"command": {"low": (slowest, 0.0, 0.0), "high": (fastest, 0.0, 0.0)}}
    env = envs.make("VelocityBiped", worlds, "cpu", threads=1, events=events)
    policy = PolicyFile(POLICY)
    obs, _ = env.reset(seed=20261127)
    speeds, stood, poses, feet = obs[:, 9].copy(), np.ones(worlds, bool), [], []
    for _ in range(steps):
        obs, _, terminated, *_ = env.step(policy(obs))
        stood &= ~terminated
        bodies = env.sim.state.body_q.numpy().reshape(worlds, -1, 7)
        poses.append(bodies[:, env.task.built.base].copy())
        feet.append(bodies[:, env.task.built.feet, 2] - 0.035)
    return speeds, stood, np.array(poses), np.array(feet)


def test_it_was_trained_with_the_default_options():
    about: dict[str, Any] = PolicyFile(POLICY).about
    assert about["name"] == "VelocityBiped"
    assert about["options"] == {}
    assert about["start"] is None
    assert POLICY.stat().st_size < 500_000


def test_it_walks_forward():
    speeds, stood, poses, feet = play(10, 500, 0.3, 0.6)
    assert stood.sum() >= 8
    # displacements of a second, in the heading at its start
    ahead = poses[50:, stood, :2] - poses[:-50, stood, :2]
    heading = Rotation.from_quat(poses[:-50, stood, 3:].reshape(-1, 4)).as_matrix()[:, :2, 0]
    along = (ahead * heading.reshape(ahead.shape)).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(along, speeds[stood], atol=0.15)
    # both feet leave the ground by 4 cm in every period of 0.8 s, and one of them is always down
    high = feet[40:440, stood].reshape(10, 40, -1, 2).max(axis=1)
    assert high.min() > 0.04
    assert feet[:, stood].min(axis=2).max() < 0.05


def test_it_stands_when_it_is_told_to():
    _, stood, poses, _ = play(4, 250, 0.0, 0.0)
    assert stood.all()
    assert np.linalg.norm(poses[-1, :, :2] - poses[50, :, :2], axis=1).max() < 0.3

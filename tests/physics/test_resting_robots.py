"""Robots dropped on the ground come to rest and stay finite for a minute, at every step of interest."""

import numpy as np
import pytest
from physics.robots import load_robot, varied_starts
from physics.scenes import Run, many

WORLDS = 4
SECONDS = 60
REST_SPEED = 0.02
"""Every joint velocity [rad/s, m/s] stays below this over the last second."""


@pytest.mark.slow
@pytest.mark.parametrize("rate", [60, 120, 240])
@pytest.mark.parametrize("name", ["ant", "humanoid", "quadruped"])
def test_robot_comes_to_rest(device: str, name: str, rate: int):
    builder = many(load_robot(name), WORLDS)
    builder.set_ground_plane()
    model = builder.finalize(device)
    joint_q, joint_qd = varied_starts(model, WORLDS, seed=8, height=1.5)
    # upright and symmetric, the ant balances on its toes, and leaves that unstable pose within the minute
    for values, other in zip((joint_q, joint_qd), varied_starts(model, WORLDS, seed=9, height=1.5)):
        values[0] = other[1]
    run = Run(model, 1.0 / rate).start(joint_q, joint_qd)
    run.run_for(SECONDS - 1)
    speeds, poses = run.record(rate, "joint_qd", "body_q")
    per_world = np.abs(speeds).reshape(len(speeds), WORLDS, -1).max(axis=(0, 2))
    print(f"{name} at 1/{rate} s: largest velocity in the last second per world {per_world.round(4)}")
    assert np.isfinite(poses).all()
    assert np.all(per_world < REST_SPEED)
    assert poses[..., 2].min() > -0.05, "nothing has sunk into the ground"
    assert poses[..., 2].max() < 2.0, "nothing has flown away"

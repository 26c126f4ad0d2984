"""Start poses differ from world to world, keep to the joint limits and stay clear of the ground."""

import numpy as np
import pytest

from newtonsim.cli import scene as cli_scene
from newtonsim.examples import asset_path

WORLDS = 32


@pytest.fixture(scope="module", params=["quadruped.xml", "humanoid.xml", "hopper.xml"])
def started(request):
    robot = cli_scene.load_robot(asset_path(request.param))
    model = cli_scene.build_scene(robot, WORLDS, "cpu")
    state = model.state()
    cli_scene.vary_start(model, state, seed=3)
    return model, state


def test_lowest_point_is_just_above_the_ground(started):
    model, state = started
    low, high = cli_scene.CLEARANCE
    heights = cli_scene.lowest_points(model, state)
    assert np.all((heights > low - 1e-5) & (heights < high + 1e-5))
    assert np.ptp(heights) > 0.5 * (high - low)


def test_joints_stay_within_their_limits(started):
    model, state = started
    q = state.joint_q.numpy().reshape(WORLDS, -1)
    first = model.joint_count // WORLDS
    dims, axis_start = model.joint_axis_dim.numpy()[:first].sum(axis=1), model.joint_axis_start.numpy()
    q_start = model.joint_q_start.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    for joint in range(first):
        for k in range(dims[joint]):
            axis, column = axis_start[joint] + k, q[:, q_start[joint] + k]
            assert np.all((column >= lower[axis] - 1e-6) & (column <= upper[axis] + 1e-6))
            assert np.ptp(column) > 0.01


@pytest.mark.parametrize("started", ["quadruped.xml", "humanoid.xml"], indirect=True)
def test_free_bases_are_turned_but_nearly_level(started):
    model, state = started
    bases = cli_scene.root_bodies(model)
    x, y, z, w = state.body_q.numpy()[bases[:, 0], 3:].T
    tilt = np.arccos(np.clip(1 - 2 * (x**2 + y**2), -1, 1))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y**2 + z**2))
    assert tilt.max() < cli_scene.MAX_TILT + 1e-3
    assert np.ptp(yaw) > 4.0

"""Device functions of actuators: torque-speed curves and rings of commands."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.actuators.delay import past_command
from newtonsim.kernels.actuators.motor import torque_at

call = DeviceFunctions(__name__, torque_at, past_command)


def test_torque_is_linear_between_points_and_constant_beyond(device: str):
    speeds, torques = np.array([0.0, 2.0, 3.0, 7.0], np.float32), np.array([9.0, 9.0, 4.0, 0.5], np.float32)
    at = np.linspace(0.0, 9.0, 37, dtype=np.float32)
    arrays = [wp.array(values, dtype=float, device=device) for values in (speeds, torques)]
    found = call(device, torque_at, at, *arrays)
    np.testing.assert_allclose(np.ravel(found), np.interp(at, speeds, torques), rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_past_commands_are_those_of_a_list(device: str, count: int):
    """Commands 100, 101, ... go into a ring of 4 one by one; at most 3 steps back are in it."""
    ring = np.zeros((1, 4), np.float32)
    for n in range(count):
        ring[0, n % 4] = 100.0 + n
    now = wp.array([100.0 + count], dtype=float, device=device)
    lags = np.arange(4)
    ring = wp.array(ring, dtype=float, device=device)
    found = call(device, past_command, np.zeros(4, int), lags, np.full(4, count), now, ring)
    np.testing.assert_array_equal(np.ravel(found), 100.0 + np.maximum(count - lags, 0))

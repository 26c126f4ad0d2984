"""What tells people how well robots follow commanded velocities."""

from __future__ import annotations

import numpy as np

from newtonsim.envs.task import Metric


def velocity_errors(commands: np.ndarray, orientation: np.ndarray, rates: np.ndarray) -> dict[str, Metric]:
    """Return the errors of horizontal velocity and of turning, in the axes of the bases.

    Args:
        commands: Forward and sideways velocity [m/s] and turning rate [rad/s], (n, 3).
        orientation: Orientations of the bases, quaternions xyzw, (n, 4).
        rates: Angular velocities [rad/s] and velocities [m/s] of the bases, world axes, (n, 6).
    """
    from scipy.spatial.transform import Rotation

    back = Rotation.from_quat(orientation).inv()
    spin, velocity = back.apply(rates[:, :3]), back.apply(rates[:, 3:])
    return {
        "velocity error": Metric(
            np.linalg.norm(commands[:, :2] - velocity[:, :2], axis=1),
            "m/s",
            np.linalg.norm(commands[:, :2], axis=1),
        ),
        "turning error": Metric(np.abs(commands[:, 2] - spin[:, 2]), "rad/s", np.abs(commands[:, 2])),
    }

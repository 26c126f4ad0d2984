"""What tells people how well robots follow commanded velocities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newtonsim.envs.task import Metric

_FEW = 5.0
"""Share of the time in which what walks on its feet may touch something else, as when it stumbles [%]."""
_ADVICE = (
    "it does not walk on its feet alone, as a film shows. A larger penalty may prevent it, --option "
    "\"rewards={'undesired_contacts':-3.0}\". If what is named here is part of a foot, the options feet and "
    "sole_height say so"
)


def undesired_contacts(touching: np.ndarray, names: Sequence[str]) -> dict[str, Metric]:
    """Return the share of worlds, or of the time, in which anything but the soles of the feet touches.

    Args:
        touching: Which bodies do, bool, (n, bodies).
        names: Names of the bodies.
    """
    shares = 100.0 * touching
    parts = dict(zip(names, shares.T))
    return {
        "contacts besides the feet": Metric(shares.max(axis=1), "%", parts=parts, most=_FEW, advice=_ADVICE)
    }


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

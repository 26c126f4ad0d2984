"""Actions that arrive late, and observations with noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.envs.buffers import replaced
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import imperfections as kernels
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.runtime.launcher import Launcher


class LateActions:
    """Actions that take effect some steps after they were given; zeros act until the first arrives.

    Each world draws its delay for the episode. If that is not a whole number of steps, it is randomly rounded
    up or down, so that the mean is right.

    Args:
        seconds: Shortest and longest delay [s].
        actions: Actions of all worlds, (num_envs, n).
        control_dt: Time of a step of the environment [s].
    """

    def __init__(self, seconds: tuple[float, float], actions: wp.array, control_dt: float):
        worlds, size = actions.shape
        device = wp.get_device(str(actions.device))
        view = self._view = kernels.DelayView()
        # numbers of steps that are whole up to rounding are whole
        view.low, view.high = (round(end / control_dt, 4) for end in seconds)
        room = math.floor(view.high) + 2
        view.steps = zeros(worlds, dtype=int, device=device)
        view.sent = zeros((worlds, room, size), dtype=float, device=device)
        view.applied = zeros((worlds, size), dtype=float, device=device)

    def launch_draw(self, launch: Launcher, env: EnvView, mask: wp.array) -> None:
        """Draw the delays of episodes that start in the masked worlds."""
        launch(kernels.draw_delays, "world", reads=dict(env=env, mask=mask), writes=dict(delay=self._view))

    def launch_arrivals(self, launch: Launcher, env: EnvView) -> EnvView:
        """Send the actions; return the view of the environment with those that arrive in their place."""
        launch(kernels.delay_actions, "world", reads=dict(env=env), writes=dict(delay=self._view))
        return replaced(env, actions=self._view.applied)


class ObservationNoise:
    """Gaussian noise on observations; rewards do not see it.

    Args:
        deviation: Standard deviation, one for all numbers or one for each.
        observations: Observations of all worlds, (num_envs, n).

    Raises:
        NewtonsimError: The number of deviations is neither one nor that of the observed numbers.
    """

    def __init__(self, deviation: float | tuple[float, ...], observations: wp.array):
        size = observations.shape[1]
        if np.ndim(deviation) and len(np.atleast_1d(deviation)) != size:
            raise NewtonsimError(
                f"noise: expected one standard deviation, or {size} for the numbers of an observation, "
                f"got {len(np.atleast_1d(deviation))}"
            )
        values = np.broadcast_to(np.asarray(deviation, np.float64), size)
        self._noise = put(values, dtype=float, device=wp.get_device(str(observations.device)))

    def launch(self, launch: Launcher, env: EnvView, mask: wp.array) -> None:
        """Add noise to the observations of the masked worlds."""
        launch(
            kernels.blur_observations,
            "world",
            reads=dict(mask=mask, noise=self._noise),
            writes=dict(env=env),
        )

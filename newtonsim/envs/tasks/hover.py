"""A drone that flies to a point and stays there, composed of terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from newtonsim.envs.task import Metric
from newtonsim.envs.terms import library
from newtonsim.envs.terms.task import TermTask
from newtonsim.envs.terms.term import Ending, Event, Observation, Reward

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView


class Hover(TermTask):
    """Fly to a point and stay there: any robot with rotors.

    The point is within 0.5 m of 1.2 m above the origin; an episode starts within `offset` of it, tilted by up
    to `tilt` [rad]. Actions within ±1 are the thrusts of the rotors from 0 to the largest, 100 times a
    second.

    Observations: "target" (from the base to the point, world axes), "axes" (rotation matrix), "velocity",
    "spin" (axes of the base) and "actions". Rewards: "near_target", "be_upright", minus "spinning",
    "jerking".
    Ends: the base is "far" from the point (2 m) or "low" (0.05 m). The goal is reached within 5 cm.
    """

    name = "Hover"
    zoo = "crazyflie_like"
    dt = 0.005
    frame_skip = 2
    episode_steps = 400
    has_goal = True
    camera_eye = (-0.7, -0.9, 1.5)
    camera_target = (0.0, 0.0, 1.15)
    defaults: ClassVar[Mapping[str, Any]] = {**TermTask.defaults, "offset": 0.5, "tilt": 0.4}

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        names = ("target", "axes", "velocity", "spin", "actions")
        return {name: library.OBSERVATIONS[name]() for name in names}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        return library.rewards_of(
            {
                "near_target": {"weight": 1.0, "width": 0.3, "reached": 0.05},
                "be_upright": 0.25,
                "spinning": -0.005,
                "jerking": -0.02,
            }
        )

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the distance from the point."""
        place, _ = self._base_pose(env)
        return {"distance": Metric(np.linalg.norm(self._commands(env) - place, axis=1), "m")}

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        return {"far": library.ENDS["far"](2.0), "low": library.ENDS["low"](0.05)}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o = self.options
        return {
            "command": library.EVENTS["command"]((-0.5, -0.5, 0.9), (0.5, 0.5, 1.5)),
            "in_air": library.EVENTS["in_air"](o["offset"], o["tilt"], 0.3, 0.5),
        }

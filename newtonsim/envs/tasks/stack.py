"""An arm that stacks a cube on another, composed of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.envs.task import Metric
from newtonsim.envs.tasks.reach import CUBE_HALF, Lift
from newtonsim.envs.terms import library
from newtonsim.envs.terms.term import Event, Observation, Reward

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView

_BOTH = ("cube", "lower_cube")


class Stack(Lift):
    """Grasp a cube, put it on another one, and let it go; see `Lift` for the actions and the cube.

    The cube starts anywhere within 0.2 m by 0.12 m on the right of the arm, the lower one likewise on the
    left, so that they never overlap. Both are turned by up to `cube_turn` [rad].

    Observations: those of `Lift` without "target" and "goal"; "lower_cube" (from the tip to it). Rewards:
    "near_cube" and "hold_cube" as in `Lift`, "bring_cube" and "place_cube" for a cube that is lifted by 2 cm,
    more the nearer it is to its place on the lower one; "stacked" for one that rests there, with the middles
    at most 2 cm apart along the ground, while the tip is 3 cm or more away; minus "jerking" and
    "moving_joints". The goal is reached while the cube is stacked. Episodes end by time, after 8 s.

    Source: stages of the reward after Stack of Zhu et al., "robosuite: a modular simulation framework and
    benchmark for robot learning", 2020.
    """

    name = "Stack"
    episode_steps = 200

    def add_others(self, builder: ModelBuilder) -> None:
        """See `TermTask.add_others`."""
        super().add_others(builder)
        self._lower_at = self.add_cube(builder, "lower_cube")
        builder.shape_color[-1] = (0.80, 0.35, 0.20, 1.0)

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        terms = super().observation_terms()
        lower = library.OBSERVATIONS["body"]("lower_cube", self.options["tip"])
        return {name: term for name, term in terms.items() if name not in ("target", "goal")} | {
            "lower_cube": lower
        }

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        on = {"bodies": _BOTH, "height": 2.0 * CUBE_HALF}
        bring = {"term": "bring_onto_body", "lifted": 2.0 * CUBE_HALF, **on}
        return super().reward_terms() | library.rewards_of(
            {
                "bring_cube": {**bring, "weight": 6.0, "width": 0.4},
                "place_cube": {**bring, "weight": 3.0, "width": 0.1},
                "stacked": {"term": "rest_on_body", "weight": 20.0, "point": self.options["tip"], **on},
            }
        )

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the distance of the cube from its place on the lower one."""
        q = env.joint_q.numpy().reshape(-1, env.coords)
        cube, lower = (q[:, at : at + 3] for at in (self._cube_at, self._lower_at))
        way = lower + np.array([0.0, 0.0, 2.0 * CUBE_HALF]) - cube
        return {"distance": Metric(np.linalg.norm(way, axis=1), "m")}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        events, turn = super().event_terms(), self.options["cube_turn"]
        del events["command"]
        return events | {
            "cube": library.place_body(self._cube_at, (0.4, -0.2), (0.6, -0.08), CUBE_HALF, turn),
            "lower_cube": library.place_body(self._lower_at, (0.4, 0.08), (0.6, 0.2), CUBE_HALF, turn),
        }

"""Arms that bring their hand, or a cube in it, to a point, composed of terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from newtonsim.envs.task import Metric
from newtonsim.envs.terms import library
from newtonsim.envs.terms.task import TermTask
from newtonsim.envs.terms.term import Action, Event, Observation, Reward
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView

_TIP = (0.0, 0.0, 0.1034)  # [m] between the fingers of the hand
CUBE_HALF, _CUBE_MASS = 0.02, 0.1
"""Half the width of a cube [m], its mass [kg]."""


class Reach(TermTask):
    """Bring the hand to a point: for any arm, with its hand given as the base.

    The point is within `target_low` and `target_high` [m]; `tip` is the point that goes there, in the frame
    of the hand [m]. Actions within ±1 move the targets of the drives by up to `action_scale` [rad], 25 times
    a second.

    Observations: "angles", "rates", "target" (from the tip to the point), "actions". Rewards: "near_target",
    "close" (the same, narrower); minus "jerking" and "moving_joints". Episodes end by time, after 4 s. The
    goal is reached within 2 cm.
    """

    name = "Reach"
    zoo = "fr3_like"
    fixed_base = True
    action_scale = 0.05
    dt = 0.005
    frame_skip = 8
    episode_steps = 100
    has_goal = True
    camera_eye, camera_target = (1.5, -1.2, 0.9), (0.3, 0.0, 0.4)
    defaults: ClassVar[Mapping[str, Any]] = {
        **TermTask.defaults,
        "tip": _TIP,
        "target_low": (0.3, -0.4, 0.1),
        "target_high": (0.6, 0.4, 0.6),
        "reset_noise_scale": 0.1,
    }

    def action(self) -> Action:
        """See `TermTask.action`."""
        return library.shift(self.built.scale, self.built.lower, self.built.upper)

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        known = library.OBSERVATIONS
        return {
            "angles": known["angles"](),
            "rates": known["rates"](),
            "target": known["target"](self.options["tip"]),
            "actions": known["actions"](),
        }

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        tip = self.options["tip"]
        return library.rewards_of(
            {
                "close": {"term": "near_target", "weight": 1.0, "point": tip, "width": 0.05, "reached": 0.02},
                "near_target": {"weight": 1.0, "point": tip, "width": 0.3, "reached": 0.02},
                "jerking": -0.01,
                "moving_joints": -0.005,
            }
        )

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the distance of the tip from the point."""
        place, turn = self._base_pose(env)
        way = self._commands(env) - place - turn.apply(self.options["tip"])
        return {"distance": Metric(np.linalg.norm(way, axis=1), "m")}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o = self.options
        return {
            "home": library.EVENTS["home"](o["reset_noise_scale"], 0.0, turned=False),
            "command": library.EVENTS["command"](o["target_low"], o["target_high"]),
        }


class Lift(Reach):
    """Grasp a cube on the ground beside the arm, lift it, and bring it to a point.

    Three actions within ±1 move the tip of the hand along x, y and z, at up to `speed` [m/s], while the hand
    points down. Targets of the drives are within 0.1 rad of their joints, so that the hand does not press
    hard on what it meets; where joints would have to move faster than they follow, it moves less. The fourth
    action sets the opening of the fingers, which move at up to `finger_speed` [m/s] and press with up to
    `grip` [N]. The driven joints, `joints`, are those of the arm and the fingers. The cube, 40 mm wide and
    0.1 kg, starts anywhere within 0.2 m by 0.4 m, turned by up to `cube_turn` [rad].

    In addition to those of `Reach` there are the observations "cube" (from the tip to the cube) and "goal"
    (the point, from the origin). Rewards come in stages: "near_cube" for a tip near the cube, "hold_cube" for
    a cube between fingers that press on it, and "bring_cube" and "place_cube" for one that is lifted by 2 cm,
    more the nearer it is to the point, which is reached within 5 cm; minus "jerking" and "moving_joints".

    Source: actions after FetchPickAndPlace of Plappert et al., "Multi-goal reinforcement learning:
    challenging robotics environments and request for research", 2018; stages of the reward after Lift of Zhu
    et al., "robosuite: a modular simulation framework and benchmark for robot learning", 2020, and after that
    of Mittal et al., "Orbit: a unified simulation framework for interactive robot learning environments",
    2023, which tracks the goal with a wide and a narrow kernel.
    """

    name = "Lift"
    episode_steps = 100
    defaults: ClassVar[Mapping[str, Any]] = {
        **Reach.defaults,
        "joints": ("joint?", "*_finger"),
        "speed": 0.5,
        "finger_speed": 0.2,
        "grip": 10.0,
        "target_low": (0.35, -0.25, 0.15),
        "target_high": (0.55, 0.25, 0.4),
        "cube_turn": 0.25,
        "reset_noise_scale": 0.05,
    }

    def action(self) -> Action:
        """See `TermTask.action`."""
        o, time = self.options, self.dt * self.frame_skip
        joints = self.built.frames_of(self.built.joints)
        return library.move_hand(o["speed"] * time, o["finger_speed"] * time, CUBE_HALF, o["tip"], joints)

    def _joints(self, carrying: bool) -> tuple[str, ...]:
        """Return the names of the driven joints that carry the hand, or of its fingers.

        Raises:
            NewtonsimError: There are none.
        """
        names = self.built.joints
        found = tuple(n for n, frame in zip(names, self.built.frames_of(names)) if frame.carries == carrying)
        if not found:
            what = "carries the hand" if carrying else "moves fingers of the hand"
            raise NewtonsimError(
                f"{self.name}: joints: none of {', '.join(map(repr, names))} {what}, which is the base, "
                f"{self.built.robot.base!r}; name the joints of the arm and those of its fingers"
            )
        return found

    def payload(self) -> float:
        """See `TermTask.payload`: the cube."""
        return _CUBE_MASS

    def add_others(self, builder: ModelBuilder) -> None:
        """See `TermTask.add_others`."""
        self._cube_at = self.add_cube(builder, "cube")
        for axis, frame in zip(self.built.axes, self.built.frames_of(self.built.joints)):
            if not frame.carries:
                builder.joint_effort_limit[axis] = self.options["grip"]

    def add_cube(self, builder: ModelBuilder, name: str) -> int:
        """Add a cube, and return its first coordinate."""
        cube = builder.add_body(origin=(0.5, 0.0, CUBE_HALF, 0.0, 0.0, 0.0, 1.0), key=name)
        density = _CUBE_MASS / (2.0 * CUBE_HALF) ** 3
        builder.add_shape_box(cube, hx=CUBE_HALF, hy=CUBE_HALF, hz=CUBE_HALF, density=density, mu=1.0)
        builder.add_joint_free(cube, key=name)
        return builder.joint_q_start[-1]

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        known, tip = library.OBSERVATIONS, self.options["tip"]
        cube = known["body"]("cube", tip)
        return {**super().observation_terms(), "cube": cube, "goal": known["command"]("vector")}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        cube = {"body": "cube", "point": self.options["tip"]}
        lifted = {"term": "bring_body", "body": "cube", "lifted": 2.0 * CUBE_HALF}
        fingers = self._joints(carrying=False)
        return library.rewards_of(
            {
                "near_cube": {"term": "near_body", "weight": 1.0, "width": 0.2, **cube},
                "hold_cube": {"term": "hold_body", "weight": 1.0, "joints": fingers, **cube},
                "bring_cube": {**lifted, "weight": 6.0, "width": 0.4},
                "place_cube": {**lifted, "weight": 3.0, "width": 0.1},
                "jerking": -0.02,
                "moving_joints": -0.002,
            }
        )

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the distance of the cube from the point."""
        cube = env.joint_q.numpy().reshape(-1, env.coords)[:, self._cube_at : self._cube_at + 3]
        return {"distance": Metric(np.linalg.norm(self._commands(env) - cube, axis=1), "m")}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        place = library.place_body(
            self._cube_at, (0.4, -0.2), (0.6, 0.2), CUBE_HALF, self.options["cube_turn"]
        )
        events = super().event_terms()
        # fingers start open: noise in radians would be far too much for them
        home = dataclasses.replace(events["home"], joints=self._joints(carrying=True))
        opened = library.EVENTS["hold"](self._joints(carrying=False))
        return {**events, "home": home, "open": opened, "cube": place}

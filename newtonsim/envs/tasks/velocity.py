"""Legged robots that follow commanded velocities, on flat and on rough ground, composed of terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from newtonsim.envs.contact_pairs import UndesiredContacts
from newtonsim.envs.sensors import ContactSensor, HeightScan, Sensor
from newtonsim.envs.task import Metric
from newtonsim.envs.tasks.metrics import undesired_contacts, velocity_errors
from newtonsim.envs.terms import library
from newtonsim.envs.terms.task import TermTask
from newtonsim.envs.terms.term import Ending, Event, Observation, Reward
from newtonsim.envs.terrain import TERRAIN_OPTIONS, terrain_of_task
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.envs.task import Motors
    from newtonsim.kernels.envs.views import EnvView

_SCAN_X = np.linspace(-0.6, 0.6, 9).tolist()
_SCAN_Y = np.linspace(-0.4, 0.4, 5).tolist()


class Velocity(TermTask):
    """Walk on flat ground with a commanded velocity: for any legged robot, given its base and feet.

    A command is a forward and sideways velocity [m/s] and a turning rate [rad/s], within plus and minus
    `max_forward`, `max_sideways` and `max_turn`, drawn again every `command_seconds`; `still` is the fraction
    of commands to stand. Actions within ±1 shift the targets of the drives from home by up to `action_scale`,
    50 times a second.

    Observations: "velocity", "spin", "down" (3 each, axes of the base), "command" (3), "angles", "rates" and
    "actions" (one for each joint). Rewards: "stay_alive", "track_velocity", "track_turning",
    "step_in_the_air" for long steps; minus "vertical_speed", "rolling", "leaning", "jerking", "leaving_home",
    "slip_feet", and "undesired_contacts", the number of bodies that touch other than with the sole of a foot.
    Ends: the base is "low" (`min_height` times its height at home) or "tilted" by 60°.

    Source: the terms are those of Rudin et al., "Learning to walk in minutes using massively parallel deep
    reinforcement learning", 2021.
    """

    name = "Velocity"
    zoo = "go2_like"
    action_scale = 0.5
    dt = 0.01
    frame_skip = 2
    camera_eye = (-1.0, -2.0, 1.0)
    camera_target = (0.0, 0.0, 0.25)
    camera_follows = True
    usual_height: ClassVar[float] = 0.333
    """Height of the base of a robot that `camera_eye` suits [m]."""
    defaults: ClassVar[Mapping[str, Any]] = {
        **TermTask.defaults,
        "max_forward": 1.0,
        "max_sideways": 0.5,
        "max_turn": 1.0,
        "command_seconds": 10.0,
        "still": 0.05,
        "reset_noise_scale": 0.1,
        "min_height": 0.5,
    }

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        for name in ("max_forward", "max_sideways", "max_turn", "command_seconds"):
            if not self.options[name] >= 0.0 or (name == "command_seconds" and self.options[name] == 0.0):
                raise NewtonsimError(
                    f"{self.name}: {name}: expected a positive number, got {self.options[name]!r}"
                )
        if not 0.0 <= self.options["still"] <= 1.0:
            raise NewtonsimError(
                f"{self.name}: still: expected a share from 0 to 1, got {self.options['still']!r}"
            )
        motors = super().build(builder)
        if not self.built.feet:
            raise NewtonsimError(
                f"{self.name}: feet: unknown for {self.robot.file}; give the names of the bodies"
            )
        return motors

    def add_others(self, builder: ModelBuilder) -> None:
        """See `TermTask.add_others`: adds nothing, but records the height of the base."""
        self.standing = self.built.height

    def camera_pose(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """See `Task.camera_pose`: as far away as suits the height of the robot."""
        ratio = self.standing / self.usual_height if self.standing > 0.0 else 1.0
        (x, y, z), (to_x, to_y, to_z) = super().camera_pose()
        return (ratio * x, ratio * y, ratio * z), (ratio * to_x, ratio * to_y, ratio * to_z)

    def standard_sensors(self) -> Mapping[str, Sensor]:
        """See `Task.standard_sensors`: contacts other than those of feet."""
        return {"undesired": UndesiredContacts(self.built.soles)}

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        names = ("velocity", "spin", "down", "command", "angles", "rates", "actions")
        return {name: library.OBSERVATIONS[name]() for name in names}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        foot = {"point": self.built.foot_points, "height": self.built.foot_height}
        weights = {
            "stay_alive": 0.25,
            "track_velocity": 1.0,
            "track_turning": 0.5,
            "vertical_speed": -2.0,
            "rolling": -0.05,
            "leaning": -0.5,
            "jerking": -0.01,
            "leaving_home": -0.03,
            "step_in_the_air": 5.0,
            "slip_feet": -0.02,
            "undesired_contacts": -1.0,
        }
        arguments = {"step_in_the_air": foot, "slip_feet": foot}
        changes = {name: {"weight": weight, **arguments.get(name, {})} for name, weight in weights.items()}
        return library.rewards_of(changes)

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: errors of velocity and turning in axes of the base, and undesired contacts."""
        of_base = slice(self.built.base, None, env.bodies)
        poses, rates = env.body_q.numpy()[of_base], env.body_qd.numpy()[of_base]
        touching = env.sensed.numpy()[:, self.sensor_columns["undesired"]] > 0.0
        return {
            **velocity_errors(self._commands(env), poses[:, 3:], rates),
            **undesired_contacts(touching, self.built.body_names),
        }

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        least = self.options["min_height"] * self.standing
        return {"low": library.ENDS["low"](least), "tilted": library.ENDS["tilted"](60.0)}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o = self.options
        most = (o["max_forward"], o["max_sideways"], o["max_turn"])
        steps = round(o["command_seconds"] / (self.dt * self.frame_skip))
        low = tuple(-value for value in most)
        return {
            "home": library.EVENTS["home"](o["reset_noise_scale"]),
            "command": library.EVENTS["command"](low, most, steps, o["still"]),
        }


class VelocityRough(Velocity):
    """`Velocity` on terrain that grows harder as the robot learns.

    The ground is that of `QuadrupedTerrain`, with its curriculum. The commanded turning brings the robot to a
    heading, which is drawn for each episode. In addition to those on flat ground,
    observations have "heights": of the ground on a grid of 9 x 5 points about the base, in its heading,
    relative to where it would stand, clipped to ±1 m. "leaning" costs nothing, feet touch the ground where
    the forces of contacts say so, and the end "low" is "near_ground".
    """

    name = "VelocityRough"
    has_ground = False
    has_terrain = True
    kept_size = 6
    camera_eye = (-1.5, -2.5, 1.8)
    defaults: ClassVar[Mapping[str, Any]] = {
        **Velocity.defaults,
        "command_seconds": 20.0,
        **TERRAIN_OPTIONS,
    }

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.terrain = terrain_of_task(self.options, options)

    def finish_scene(self, scene: ModelBuilder) -> None:
        """See `Task.finish_scene`."""
        self.terrain.add_to(scene)

    def sensors(self) -> Mapping[str, Sensor]:
        """See `Task.sensors`."""
        base = self.built.base
        return {
            "heights": HeightScan(base, _SCAN_X, _SCAN_Y),
            "below": HeightScan(base, [0.0], [0.0]),
            "soles": ContactSensor(self.built.feet),
        }

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        size = len(_SCAN_X) * len(_SCAN_Y)
        rows, columns = len(_SCAN_X), len(_SCAN_Y)
        mirror = [1 + row * columns + k for row in range(rows) for k in reversed(range(columns))]
        heights = library.OBSERVATIONS["sensor"]("heights", size, self.standing, -1.0, 1.0, mirror)
        return {**super().observation_terms(), "heights": heights}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        terms = super().reward_terms()
        # feet at the height of level ground need not touch this one
        felt = {
            name: {"weight": terms[name].weight, "sensor": "soles"}
            for name in ("step_in_the_air", "slip_feet")
        }
        del terms["leaning"]
        return {**terms, **library.rewards_of(felt)}

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        least = self.options["min_height"] * self.standing
        ends = library.ENDS
        return {"near_ground": ends["near_ground"]("below", least), "tilted": ends["tilted"](60.0)}

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: those on flat ground, and the level of difficulty from 1 on."""
        return {**super().metrics(env), "level": Metric(env.kept.numpy()[:, 0] + 1.0)}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o, terrain = self.options, self.terrain
        seconds = self.episode_steps * self.dt * self.frame_skip
        numbers = [
            *(terrain.levels, len(terrain.kinds), terrain.patch_size, o["first_levels"]),
            *(float(o["curriculum"]), seconds, self.standing),
            *terrain.platforms.ravel().tolist(),
        ]
        return {
            **super().event_terms(),
            # who walks in circles never leaves the patch, and the curriculum would move the best walkers down
            "heading": library.EVENTS["heading"](o["max_turn"]),
            "patch": library.EVENTS["patch"](numbers),
            "way": library.EVENTS["way"](),
        }


class GetUp(Velocity):
    """Get up from any pose and stand: for any legged robot, given its base and feet.

    It falls to the ground in any orientation, its joints near home. Observations: "spin", "down", "angles",
    "rates" and "actions". Rewards: "be_upright", "be_high"; minus "leaving_home", "jerking", "moving_joints".
    Episodes end by time, after 6 s.
    """

    name = "GetUp"
    episode_steps = 300
    defaults: ClassVar[Mapping[str, Any]] = {
        **Velocity.defaults,
        "action_scale": 1.0,
        "reset_noise_scale": 0.5,
        "self_collisions": True,
    }

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        names = ("spin", "down", "angles", "rates", "actions")
        return {name: library.OBSERVATIONS[name]() for name in names}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        return library.rewards_of(
            {
                "be_upright": 1.0,
                "be_high": {"weight": 1.0, "height": self.standing},
                "leaving_home": -0.05,
                "jerking": -0.01,
                "moving_joints": -1.0e-3,
            }
        )

    def standard_sensors(self) -> Mapping[str, Sensor]:
        """See `Task.standard_sensors`: none, since it touches the ground with anything."""
        return {}

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: the tilt."""
        _, turn = self._base_pose(env)
        tilt = np.degrees(np.arccos(np.clip(turn.apply([0.0, 0.0, 1.0])[:, 2], -1.0, 1.0)))
        return {"tilt": Metric(tilt, "degrees")}

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        return {}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        noise = self.options["reset_noise_scale"]
        return {"anyhow": library.EVENTS["anyhow"](noise, 1.5 * self.standing)}

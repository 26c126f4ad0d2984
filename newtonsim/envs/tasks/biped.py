"""Robots with two legs that walk by a clock, with commanded velocities."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.envs.tasks.velocity import Velocity
from newtonsim.envs.terms import library
from newtonsim.envs.terms.robots import Robot
from newtonsim.envs.terms.term import Action, Ending, Event, Observation, Reward
from newtonsim.errors import NewtonsimError


class VelocityBiped(Velocity):
    """Walk on two legs with a commanded velocity: for any robot whose legs' joints are known.

    A clock lifts the feet in turn, once in a `period` [s] each, for the share `air` of it: it shifts the
    targets of the legs' drives by up to `swing`, angles [rad] by patterns of joints. Actions within ±1 shift
    them further. Other drives hold their joints at home. Commands are within 0 and `max_forward`, plus and
    minus `max_sideways` and `max_turn`; the clock stands still while they are nearly zero.

    Observations: those of `Velocity`, and "gait", sine and cosine of the clock. Rewards: "stay_alive",
    "track_velocity", "track_turning", and "lift_feet" for feet at the heights of the clock, up to `lift` [m];
    minus "vertical_speed", "rolling", "leaning", "jerking", "slip_feet", and "spreading" of the joints that
    the clock does not move. Ends: the base is "low" or "tilted" by 45°.
    """

    name = "VelocityBiped"
    zoo = "g1_like"
    action_scale = 0.25
    camera_eye = (-1.1, -1.9, 1.1)
    camera_target = (0.0, 0.0, 0.6)
    usual_height = 0.775
    defaults: ClassVar[Mapping[str, Any]] = {
        **Velocity.defaults,
        "max_forward": 0.8,
        "max_sideways": 0.2,
        "max_turn": 0.6,
        "command_seconds": 5.0,
        "still": 0.1,
        "reset_noise_scale": 0.05,
        "min_height": 0.75,
        "period": 0.8,
        "air": 0.4,
        "lift": 0.08,
        "swing": None,
    }

    def __init__(self, **options: Any):
        super().__init__(**options)
        for name, most in (("period", float("inf")), ("air", 1.0), ("lift", float("inf"))):
            if not 0.0 < self.options[name] < most:
                upper = "" if most > 1.0 else f" and below {most:g}"
                raise NewtonsimError(
                    f"{self.name}: {name}: expected a number above 0{upper}, got {self.options[name]!r}"
                )

    def _find_robot(self) -> Robot:
        robot, o = super()._find_robot(), self.options
        if robot.legs is not None and o["joints"] is None:
            robot = dataclasses.replace(robot, joints=robot.legs)
        if o["swing"] is not None:
            robot = dataclasses.replace(robot, swing=o["swing"])
        if not robot.swing:
            raise NewtonsimError(
                f"{self.name}: swing: unknown for {robot.file}; give the shifts of the legs' joints when a "
                "step lifts the foot highest [rad], such as {'*_hip_pitch': -0.35, '*_knee': 0.7}"
            )
        return robot

    def action(self) -> Action:
        """See `TermTask.action`."""
        built, o = self.built, self.options
        if len(built.feet) != 2:
            names = ", ".join(built.body_names[foot] for foot in built.feet)
            raise NewtonsimError(f"{self.name}: feet: expected two, got {len(built.feet)}: {names}")
        feet, shifts = built.leg_of(built.joints), built.swing_of(built.joints)
        for joint, foot, shift in zip(built.joints, feet, shifts):
            if shift and foot < 0:
                raise NewtonsimError(f"{self.name}: swing: {joint!r} does not belong to one leg")
        return library.step(built.scale, shifts, feet, o["period"], o["air"])

    def observation_terms(self) -> dict[str, Observation]:
        """See `TermTask.observation_terms`."""
        gait = library.OBSERVATIONS["gait"](self.options["period"])
        return {**super().observation_terms(), "gait": gait}

    def reward_terms(self) -> dict[str, Reward]:
        """See `TermTask.reward_terms`."""
        clock = {name: self.options[name] for name in ("period", "air", "lift")}
        foot = {"point": self.built.foot_points, "height": self.built.foot_height}
        built = self.built
        steady = tuple(name for name, shift in zip(built.joints, built.swing_of(built.joints)) if not shift)
        weights = {
            "stay_alive": 0.5,
            "track_velocity": 2.0,
            "track_turning": 1.0,
            "lift_feet": 1.0,
            "vertical_speed": -1.0,
            "rolling": -0.05,
            "leaning": -2.0,
            "jerking": -0.02,
            "slip_feet": -0.2,
        }
        arguments = {
            "track_velocity": {"width": 0.15},
            "lift_feet": {**foot, **clock},
            "slip_feet": foot,
        }
        changes = {name: {"weight": weight, **arguments.get(name, {})} for name, weight in weights.items()}
        if steady:
            changes["spreading"] = {"term": "leaving_home", "weight": -1.0, "joints": steady}
        return library.rewards_of(changes)

    def end_terms(self) -> dict[str, Ending]:
        """See `TermTask.end_terms`."""
        least = self.options["min_height"] * self.standing
        return {"low": library.ENDS["low"](least), "tilted": library.ENDS["tilted"](45.0)}

    def event_terms(self) -> dict[str, Event]:
        """See `TermTask.event_terms`."""
        o = self.options
        steps = round(o["command_seconds"] / (self.dt * self.frame_skip))
        low = (0.0, -o["max_sideways"], -o["max_turn"])
        high = (o["max_forward"], o["max_sideways"], o["max_turn"])
        command = library.EVENTS["command"](low, high, steps, o["still"])
        return {**super().event_terms(), "command": command}

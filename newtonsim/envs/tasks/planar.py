"""Robots that run in the x-z plane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.tasks.robots import RobotTask
from newtonsim.importers.files.report import ImportReport
from newtonsim.kernels.envs import planar as envs_planar


class Runner(RobotTask):
    """Base of the planar runners.

    The reward is `forward_reward_weight` times the speed along x [m/s], plus `healthy_reward` if the robot is
    healthy, minus `ctrl_cost_weight` times the sum of the squared actions. A robot is healthy while its
    height, pitch, and all other coordinates and velocities are within bounds; with `terminate_when_unhealthy`
    the episode ends otherwise. Episodes start at the pose of the file with noise of `reset_noise_scale`.
    """

    memory_size = 1
    camera_follows = True
    observe = envs_planar.observe_runner
    score = envs_planar.score_runner
    spawn = envs_planar.spawn_runner
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 1.0e-3,
        "healthy_reward": 1.0,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (-math.inf, math.inf),
        "healthy_angle_range": (-math.inf, math.inf),
        "healthy_state_bound": math.inf,
        "reset_noise_scale": 5.0e-3,
    }
    velocity_clip: ClassVar[float] = 10.0
    normal_velocities: ClassVar[bool] = False

    def load(self, builder: ModelBuilder) -> ImportReport:
        """See `RobotTask.load`."""
        report = super().load(builder)
        self._height = next(iter(report.joint_refs.values()), 0.0)
        return report

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        o = self.options
        return [
            self._height,
            o["ctrl_cost_weight"],
            o["healthy_reward"],
            float(o["terminate_when_unhealthy"]),
            *o["healthy_z_range"],
            *o["healthy_angle_range"],
            o["healthy_state_bound"],
            self.velocity_clip,
            o["reset_noise_scale"],
            o["reset_noise_scale"],
            float(self.normal_velocities),
            o["forward_reward_weight"],
        ]


class Hopper(Runner):
    """Hop forward on one leg; see `Runner` for reward and options.

    Observation (11): height and pitch of the torso, angles of thigh, knee and ankle, and the velocities of
    these and of x, clipped to ±10. The episode ends when the height is below 0.7 m, the pitch beyond 0.2 rad,
    or another number beyond 100. Actions drive thigh, knee and ankle with up to 200 N m.

    Source: gymnasium's Hopper-v5, after Erez, Tassa and Todorov, "Infinite-horizon model predictive control
    for periodic tasks with contacts", 2011.
    """

    name = "Hopper"
    asset = "hopper.xml"
    dt = 0.002
    frame_skip = 4
    observation_size = 11
    defaults: ClassVar[Mapping[str, Any]] = {
        **Runner.defaults,
        "healthy_z_range": (0.7, math.inf),
        "healthy_angle_range": (-0.2, 0.2),
        "healthy_state_bound": 100.0,
    }


class Walker2d(Runner):
    """Walk forward on two legs in the plane; see `Runner` for reward and options.

    Observation (17): height and pitch of the torso, six angles, and all velocities, clipped to ±10. The
    episode ends when the height leaves 0.8 to 2 m or the pitch is beyond 1 rad. Actions drive hips, knees and
    ankles with up to 100 N m.

    Source: gymnasium's Walker2d-v5, after Erez, Tassa and Todorov, 2011 (see `Hopper`).
    """

    name = "Walker2d"
    asset = "walker.xml"
    dt = 0.002
    frame_skip = 4
    observation_size = 17
    defaults: ClassVar[Mapping[str, Any]] = {
        **Runner.defaults,
        "healthy_z_range": (0.8, 2.0),
        "healthy_angle_range": (-1.0, 1.0),
    }


class HalfCheetah(Runner):
    """Run as fast as possible on two sprung legs; see `Runner` for reward and options.

    Observation (17): height and pitch of the torso relative to the start, six angles, and all velocities. The
    reward is the speed minus 0.1 times the squared actions; episodes only end by time.

    Source: gymnasium's HalfCheetah-v5, after Wawrzyński, "A cat-like robot real-time learning to run", 2009.
    """

    name = "HalfCheetah"
    asset = "half_cheetah.xml"
    dt = 0.01
    frame_skip = 5
    observation_size = 17
    velocity_clip = 0.0
    normal_velocities = True
    defaults: ClassVar[Mapping[str, Any]] = {
        **Runner.defaults,
        "ctrl_cost_weight": 0.1,
        "healthy_reward": 0.0,
        "terminate_when_unhealthy": False,
        "reset_noise_scale": 0.1,
    }

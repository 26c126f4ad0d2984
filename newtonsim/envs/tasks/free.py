"""Robots with a free base that run forward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors
from newtonsim.envs.tasks.robots import RobotTask
from newtonsim.kernels.envs import free as envs_free

_BLOCKS = {"cinert": 10, "cvel": 6, "cfrc_ext": 6}
"""Number of values of each body in the blocks of an observation."""


class Walker(RobotTask):
    """Base of robots on a free joint.

    The reward is `forward_reward_weight` times the speed along x [m/s], plus `healthy_reward` if the height
    of the torso is within `healthy_z_range`, minus `ctrl_cost_weight` times the sum of the squared actions,
    minus `contact_cost_weight` times the sum of the squared contact wrenches. With `terminate_when_unhealthy`
    the episode ends if the height is outside. It starts at the pose of the file with noise of
    `reset_noise_scale`.

    An observation starts with height and quaternion wxyz of the torso, the angles, velocity of the torso's
    origin in world axes, its angular velocity in its own axes, and velocities of the angles. Then follow
    blocks of values for each body, each if its option is set: `include_cinert_in_observation` inertia about
    the robot's centre of mass in world axes (xx, yy, zz, xy, xz, yz), mass times offset (3), mass;
    `include_cvel_in_observation` angular velocity (3) and velocity (3) of the body's point at the robot's
    centre of mass; `include_qfrc_actuator_in_observation` torque of each motor;
    `include_cfrc_ext_in_observation` torque (3) about the robot's centre of mass and force (3) of contacts.
    """

    memory_size = 1
    camera_eye = (-1.5, -3.5, 1.8)
    camera_target = (0.0, 0.0, 0.6)
    camera_follows = True
    contact_wrenches = True
    act = envs_free.drive_and_note
    observe = envs_free.observe_walker
    score = envs_free.score_walker
    spawn = envs_free.spawn_walker
    follows_com: ClassVar[bool] = False
    normal_velocities: ClassVar[bool] = False
    wrench_clip: ClassVar[float] = math.inf
    most_contact_cost: ClassVar[float] = math.inf
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 0.5,
        "contact_cost_weight": 5.0e-4,
        "healthy_reward": 1.0,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (0.2, 1.0),
        "reset_noise_scale": 0.1,
        "include_cinert_in_observation": False,
        "include_cvel_in_observation": False,
        "include_qfrc_actuator_in_observation": False,
        "include_cfrc_ext_in_observation": True,
    }

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        motors = super().build(builder)
        size = builder.joint_coord_count - 2 + builder.joint_dof_count
        size += sum(n * builder.body_count for block, n in _BLOCKS.items() if self._sees(block))
        self.observation_size = size + builder.joint_axis_count * self._sees("qfrc_actuator")
        return motors

    def _sees(self, block: str) -> bool:
        return bool(self.options[f"include_{block}_in_observation"])

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        o = self.options
        blocks = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
        return [
            o["forward_reward_weight"],
            o["ctrl_cost_weight"],
            o["contact_cost_weight"],
            o["healthy_reward"],
            float(o["terminate_when_unhealthy"]),
            *o["healthy_z_range"],
            self.wrench_clip,
            self.most_contact_cost,
            float(self.follows_com),
            o["reset_noise_scale"],
            o["reset_noise_scale"],
            float(self.normal_velocities),
            *(float(self._sees(block)) for block in blocks),
        ]


class Ant(Walker):
    """Walk forward on four legs; see `Walker` for reward, options and observation.

    Observation (105): the torso, eight angles, all velocities, and the contact wrenches on 13 bodies, clipped
    to ±1. Actions drive hips and ankles with up to 150 N m.

    Source: gymnasium's Ant-v5, after Schulman et al., "High-dimensional continuous control using generalized
    advantage estimation", 2015.
    """

    name = "Ant"
    asset = "ant.xml"
    dt = 0.01
    frame_skip = 5
    wrench_clip = 1.0
    normal_velocities = True


class Humanoid(Walker):
    """Walk forward on two legs; see `Walker` for reward, options and observation.

    Observation (348): the torso, 17 angles, all velocities, and all blocks. The speed is that of the centre
    of mass; the cost of contacts is at most 10. Actions, within ±0.4, drive 17 hinges.

    Source: gymnasium's Humanoid-v5, after Tassa, Erez and Todorov, "Synthesis and stabilization of complex
    behaviors through online trajectory optimization", 2012.
    """

    name = "Humanoid"
    asset = "humanoid.xml"
    camera_eye = (-1.5, -3.5, 1.8)
    camera_target = (0.0, 0.0, 1.0)
    dt = 0.003
    frame_skip = 5
    follows_com = True
    most_contact_cost = 10.0
    defaults: ClassVar[Mapping[str, Any]] = {
        **Walker.defaults,
        "forward_reward_weight": 1.25,
        "ctrl_cost_weight": 0.1,
        "contact_cost_weight": 5.0e-7,
        "healthy_reward": 5.0,
        "healthy_z_range": (1.0, 2.0),
        "reset_noise_scale": 1.0e-2,
        "include_cinert_in_observation": True,
        "include_cvel_in_observation": True,
        "include_qfrc_actuator_in_observation": True,
    }

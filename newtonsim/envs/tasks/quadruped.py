"""A quadruped that follows commanded velocities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Metric, Motors
from newtonsim.envs.tasks.metrics import velocity_errors
from newtonsim.envs.tasks.robots import RobotTask
from newtonsim.kernels.envs import quadruped as envs_quadruped

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView

_MAX_TILT = math.radians(60.0)


class Quadruped(RobotTask):
    """Walk on flat ground with a commanded velocity, by setting the targets of twelve position drives.

    Each episode has a command: forward and sideways velocity [m/s] and turning rate [rad/s], uniform within
    plus and minus `max_forward`, `max_sideways` and `max_turn`. Actions within ±1 shift the targets of the
    drives from the home pose by up to `action_scale` [rad], 50 times a second.

    Observation (48), all in the axes of the trunk: its velocity [m/s] (3), angular velocity [rad/s] (3),
    direction of gravity (3); the command (3); angles from the home pose [rad] (12), their rates [rad/s] (12),
    the last actions (12).

    The reward, times the step of 0.02 s, is exp(-error²/0.25) of the velocity, plus half of the same of the
    turning rate, minus 2 times the squared vertical velocity, 0.05 times the squared rolling and pitching,
    0.2 times the squared sine of the tilt, and 0.01 times the squared changes of actions. The episode ends
    when the trunk is below 0.15 m or tilts by 60°, and is truncated after 20 s.

    Source: the terms are those of Rudin et al., "Learning to walk in minutes using massively parallel deep
    reinforcement learning", 2021, without those for torques, accelerations, collisions and air time.
    """

    name = "Quadruped"
    asset = "quadruped.xml"
    dt = 0.005
    frame_skip = 4
    memory_size = 27
    observation_size = 48
    camera_eye = (-1.0, -2.0, 1.0)
    camera_target = (0.0, 0.0, 0.25)
    camera_follows = True
    act = envs_quadruped.aim_legs
    observe = envs_quadruped.observe_legs
    score = envs_quadruped.score_legs
    spawn = envs_quadruped.spawn_legs
    keyframe = "home"
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "action_scale": 0.5,
        "max_forward": 1.0,
        "max_sideways": 0.5,
        "max_turn": 1.0,
        "reset_noise_scale": 0.1,
    }

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        motors = super().build(builder)
        self._home = [float(builder.joint_act[axis]) for axis in motors.axes]
        motors.low, motors.high = [-1.0] * len(motors.axes), [1.0] * len(motors.axes)
        return motors

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: errors of the horizontal velocity and of the turning, in axes of the trunk."""
        poses, rates = env.body_q.numpy()[:: env.bodies], env.body_qd.numpy()[:: env.bodies]
        return velocity_errors(env.memory.numpy()[:, :3], poses[:, 3:], rates)

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        o = self.options
        most = [o["max_forward"], o["max_sideways"], o["max_turn"]]
        return [
            o["action_scale"],
            *most,
            0.15,
            math.cos(_MAX_TILT),
            o["reset_noise_scale"],
            0.25,
            *self._home,
        ]

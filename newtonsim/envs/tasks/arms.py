"""Arms and pendulums on a fixed base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.tasks.robots import RobotTask
from newtonsim.importers.files.report import ImportReport
from newtonsim.kernels.envs import arms as envs_arms

_TIP = 0.6  # [m]
_FINGERTIP = 0.11  # [m]


class InvertedDoublePendulum(RobotTask):
    """Balance two poles, one on the other, by a force of up to 500 N on their cart.

    Observation (9): position of the cart [m], sines of both angles, cosines of both, velocities of cart and
    angles clipped to ±10, and a zero where gymnasium has the force of the cart's stops, which cannot be
    reached within an episode. The reward is `healthy_reward` while the tip is above 1 m, minus 0.01 x² + (z -
    2)² of the tip [m] and 0.001 and 0.005 times the squared angular velocities. The episode ends when the tip
    is at 1 m or below. It starts upright with uniform noise of `reset_noise_scale` on coordinates and
    Gaussian noise on velocities.

    Source: gymnasium's InvertedDoublePendulum-v5.
    """

    name = "InvertedDoublePendulum"
    camera_target = (0.0, 0.0, 0.5)
    asset = "inverted_double_pendulum.xml"
    has_ground = False
    dt = 0.01
    frame_skip = 5
    observation_size = 9
    observe = envs_arms.observe_pendulum
    score = envs_arms.score_pendulum
    spawn = envs_arms.spawn_pendulum
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "healthy_reward": 10.0,
        "reset_noise_scale": 0.1,
    }

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        return [_TIP, self.options["healthy_reward"], self.options["reset_noise_scale"]]


class Reacher(RobotTask):
    """Bring the tip of an arm of two links to a target.

    Observation (10): cosines of both angles, sines of both, target x and y [m], angular velocities [rad/s],
    and the vector from the target to the tip [m]. The reward is minus the distance between them, minus the
    squared actions. Episodes only end by time, after 50 steps. They start with a target anywhere in a disk of
    radius 0.2 m, and a little noise on the arm.

    Source: gymnasium's Reacher-v5.
    """

    name = "Reacher"
    camera_eye, camera_target = (0.0, -0.35, 0.75), (0.0, 0.0, 0.0)
    asset = "reacher.xml"
    has_ground = False
    dt = 0.01
    frame_skip = 2
    episode_steps = 50
    observation_size = 10
    observe = envs_arms.observe_reacher
    score = envs_arms.score_reacher
    spawn = envs_arms.spawn_reacher
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "reward_dist_weight": 1.0,
        "reward_control_weight": 1.0,
    }

    def load(self, builder: ModelBuilder) -> ImportReport:
        """See `RobotTask.load`."""
        report = super().load(builder)
        self._target = [report.joint_refs.get(name, 0.0) for name in ("target_x", "target_y")]
        return report

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        weights = [self.options["reward_dist_weight"], self.options["reward_control_weight"]]
        return [_FINGERTIP, *weights, 0.2, *self._target]

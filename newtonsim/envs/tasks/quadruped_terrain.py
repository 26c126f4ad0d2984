"""A quadruped that follows commanded velocities over rough ground, slopes and stairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.envs.sensors import HeightScan, Sensor
from newtonsim.envs.task import Metric, Motors
from newtonsim.envs.tasks.quadruped import Quadruped
from newtonsim.envs.terrain import TERRAIN_OPTIONS, terrain_of_task
from newtonsim.kernels.envs import terrain as envs_terrain

if TYPE_CHECKING:
    from newtonsim.kernels.envs.views import EnvView

_SCAN_X = np.linspace(-0.8, 0.8, 17).tolist()
_SCAN_Y = np.linspace(-0.5, 0.5, 11).tolist()


class QuadrupedTerrain(Quadruped):
    """`Quadruped` on terrain that grows harder as the robot learns.

    The ground is one height field for all worlds: `levels` rows of square patches, from easy to hard, and a
    column for each of `kinds` (rough, hill, valley, stairs_down, stairs_up, blocks; see
    `newtonsim.envs.terrain`). A world keeps the kind that it draws in its first episode, which it starts on
    one of the first `first_levels` levels. An episode starts in the middle of a patch; when it is over, the
    world moves up a level if the robot has travelled farther than half the side of a patch, and down if it
    has travelled less than half as far as commanded for 20 s. From the highest level it moves to a random
    one. Without `curriculum` levels stay; `randomise={"terrain": (0, 1)}` draws them for each episode.

    Commands have a heading instead of a turning rate; the commanded rate is half the heading error per
    second. Velocities below 0.2 m/s become zero.

    Observation (235): that of `Quadruped`, and heights of the ground [m] on a grid of 17 x 11 points 0.1 m
    apart, y varying fastest, about the trunk and in its heading; 0 is the ground on which it would stand
    upright, and they are clipped to ±1. `height_noise` is the standard deviation of noise on them [m].

    The reward is that of `Quadruped` without the term for the tilt. The episode ends when the trunk is less
    than 0.15 m above the ground below it or tilts by 60°, and is truncated after 20 s.

    Source: curriculum, patches and height scan of Rudin et al., "Learning to walk in minutes using massively
    parallel deep reinforcement learning", 2021, at the size of this robot.
    """

    name = "QuadrupedTerrain"
    has_ground = False
    has_terrain = True
    memory_size = 28
    kept_size = 6
    observation_size = 48 + len(_SCAN_X) * len(_SCAN_Y)
    camera_eye = (-1.5, -2.5, 1.8)
    observe = envs_terrain.observe_on_terrain
    score = envs_terrain.score_on_terrain
    spawn = envs_terrain.spawn_on_terrain
    defaults: ClassVar[Mapping[str, Any]] = {
        **Quadruped.defaults,
        **TERRAIN_OPTIONS,
        "height_noise": 0.0,
    }

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.terrain = terrain_of_task(self.options, options)

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        motors = super().build(builder)
        self._standing = float(builder.joint_q[2])
        return motors

    def finish_scene(self, scene: ModelBuilder) -> None:
        """See `Task.finish_scene`."""
        self.terrain.add_to(scene)

    def sensors(self) -> Mapping[str, Sensor]:
        """See `Task.sensors`."""
        return {
            "heights": HeightScan("trunk", _SCAN_X, _SCAN_Y, noise=self.options["height_noise"]),
            "below": HeightScan("trunk", [0.0], [0.0]),
        }

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """See `Task.metrics`: those on flat ground, and the level of difficulty from 1 on."""
        return {**super().metrics(env), "level": Metric(env.kept.numpy()[:, 0] + 1.0)}

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        o, terrain = self.options, self.terrain
        return [
            *super().numbers(),
            terrain.levels,
            len(terrain.kinds),
            terrain.patch_size,
            o["first_levels"],
            self.episode_steps * self.dt * self.frame_skip,
            float(o["curriculum"]),
            self._standing,
            self.sensor_columns["heights"].start,
            self.sensor_columns["below"].start,
            *terrain.platforms.ravel(),
        ]

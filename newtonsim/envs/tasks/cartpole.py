"""Cart and pole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors, Task
from newtonsim.examples.assets import asset_path
from newtonsim.importers import parse_urdf
from newtonsim.kernels.envs import cartpole as envs_cartpole
from newtonsim.scene.enums import JointMode

_TRACK = 2.4  # [m] to each side
_LEAN = math.radians(12.0)


class CartPole(Task):
    """Balance a pole on a cart that is pushed to the left or to the right with 10 N, every 0.02 s.

    Observation: position of the cart [m], its velocity, angle of the pole from upright [rad], its velocity.
    The reward is 1 in each step. The episode ends when the pole leans by more than 12° or the cart is more
    than 2.4 m away, and is truncated after 500 steps. It starts with all four within ±0.05.

    The numbers are those of gymnasium's CartPole-v1; the pole here has a radius of 2 cm, and its equation of
    motion is not integrated by explicit Euler.

    Source: Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
    control problems", 1983.
    """

    name = "CartPole"
    camera_eye, camera_target = (0.0, -4.5, 1.9), (0.0, 0.0, 1.8)
    dt = 0.02
    episode_steps = 500
    discrete_actions = 2
    observation_size = 4
    defaults: ClassVar[Mapping[str, Any]] = {"force": 10.0}

    act = envs_cartpole.push_cart
    observe = envs_cartpole.observe_balance
    score = envs_cartpole.score_balance
    spawn = envs_cartpole.spawn_cart

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        return build_cart(builder)

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        return [_TRACK, _LEAN, 0.05, float(self.options["force"]), 0.0]

    def observation_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Twice the bounds of position and angle, so that the last observation of an episode is within."""
        high = np.array([2.0 * _TRACK, np.inf, 2.0 * _LEAN, np.inf], np.float32)
        return -high, high


class CartPoleSwingUp(Task):
    """Swing up a hanging pole and keep it upright, by a force of up to 10 N on the cart, every 0.01 s.

    Observation: position of the cart [m], its velocity, cosine and sine of the angle from upright, its
    velocity [rad/s]. The reward, between 0 and 1, is a product of terms for an upright pole, a centred cart,
    little force and slow turning. The episode ends when the cart is more than 2.4 m away, and is truncated
    after 1000 steps. It starts with the pole hanging, all coordinates and velocities within ±0.05.

    Source of the reward: `cartpole-swingup` of Tassa et al., "DeepMind Control Suite", 2018.
    """

    name = "CartPoleSwingUp"
    camera_eye, camera_target = (0.0, -4.5, 1.7), (0.0, 0.0, 1.5)
    dt = 0.01
    episode_steps = 1000
    observation_size = 5
    defaults: ClassVar[Mapping[str, Any]] = {"force": 10.0}

    observe = envs_cartpole.observe_swing
    score = envs_cartpole.score_swing
    spawn = envs_cartpole.spawn_cart

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        build_cart(builder)
        return Motors([0], [float(self.options["force"])], [-1.0], [1.0])

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        return [_TRACK, math.inf, 0.05, float(self.options["force"]), math.pi]


def build_cart(builder: ModelBuilder) -> Motors:
    """Add the cart with its pole; the track has no stops, since leaving it ends the episode."""
    parse_urdf(
        asset_path("cartpole.urdf"), builder, stiffness=0.0, damping=0.0, ignore_inertial_definitions=False
    )
    builder.joint_axis_mode[:] = [JointMode.FORCE] * builder.joint_axis_count
    builder.joint_limit_lower[:] = [-math.inf] * builder.joint_axis_count
    builder.joint_limit_upper[:] = [math.inf] * builder.joint_axis_count
    return Motors([0], [1.0], [0.0], [1.0])

"""Tasks observed through a camera."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors
from newtonsim.envs.tasks.arms import Reacher
from newtonsim.envs.tasks.cartpole import CartPole
from newtonsim.envs.vision import PICTURE_OPTIONS, CameraSensor

_DARK = (0.10, 0.12, 0.16, 1.0)
"""Colour of objects that must stand out in grey pictures."""


_POLE_RADIUS = 0.05
"""Radius of the pole in pictures [m]; the robot's own, 2 cm, would be less than half a pixel."""


class CartPoleVision(CartPole):
    """`CartPole` seen by a fixed camera that shows the whole track.

    Observation: the last four pictures of 84 x 84 pixels in grey, the oldest first, so that velocities can be
        inferred: (84, 84, 4) uint8; see `CameraSensor` for its options. All else is as in `CartPole`, whose
        observation is also written to `buffers.view.obs`.
    """

    name = "CartPoleVision"
    defaults: ClassVar[Mapping[str, Any]] = {**CartPole.defaults, **PICTURE_OPTIONS}

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        motors = super().build(builder)
        for shape in _shapes_of(builder, "cart"):
            builder.shape_color[shape] = _DARK
        for shape in _shapes_of(builder, "pole"):
            _radius, half_length, *rest = builder.shape_geo_scale[shape]
            builder.shape_geo_scale[shape] = (_POLE_RADIUS, half_length, *rest)
        return motors

    def camera_sensor(self) -> CameraSensor:
        """See `Task.camera_sensor`."""
        return CameraSensor((0.0, -6.5, 2.0), (0.0, 0.0, 2.0), **_picture_options(self.options))


class ReacherVision(Reacher):
    """`Reacher` seen by a camera above it, which shows all that the arm reaches.

    Observation: the last four pictures of 84 x 84 pixels in grey, the oldest first: (84, 84, 4) uint8; see
    `CameraSensor` for its options. The target is dark. All else is as in `Reacher`, whose observation is also
    written to `buffers.view.obs`.
    """

    name = "ReacherVision"
    defaults: ClassVar[Mapping[str, Any]] = {**Reacher.defaults, **PICTURE_OPTIONS, "samples": 1}

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        motors = super().build(builder)
        for shape in _shapes_of(builder, "target"):
            builder.shape_color[shape] = _DARK
        return motors

    def camera_sensor(self) -> CameraSensor:
        """See `Task.camera_sensor`."""
        return CameraSensor(
            (0.0, 0.0, 0.6), (0.0, 0.0, 0.0), up=(0.0, 1.0, 0.0), **_picture_options(self.options)
        )


def _picture_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in PICTURE_OPTIONS}


def _shapes_of(builder: ModelBuilder, body: str) -> list[int]:
    """Return the shapes of a body, given its name."""
    number = builder.body_key.index(body)
    return [shape for shape, owner in enumerate(builder.shape_body) if owner == number]

"""Cameras whose pictures are observations, as a task defines them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.render import Lighting

PICTURE_OPTIONS: Mapping[str, Any] = {
    "screen_size": 84,
    "grayscale_obs": True,
    "stack_size": 4,
    "samples": 2,
}
"""Options of environments that observe pictures, fields of `CameraSensor`, with their defaults."""


@dataclass(frozen=True)
class CameraSensor:
    """A camera in each world, whose most recent pictures are the observation: (height, width, channels)
    uint8.

    Channels are the frames, the oldest first, or the red, green and blue of each. At the start of an episode
    all frames are the first picture. The defaults are those of Mnih et al., "Human-level control through deep
    reinforcement learning", Nature, 2015; `screen_size`, `grayscale_obs` and `stack_size` mean what
    gymnasium's wrappers of these names mean.

    Attributes:
        eye: Position of the camera [m], in the frame of the body that carries it, or in the world.
        target: Point that it looks at [m], in the same frame.
        up: Direction that is up in the picture, in the same frame.
        body: Name of the body that carries it, or its index in its world; None for the world.
        fov: Vertical field of view [deg].
        screen_size: Pixels of a side, or (columns, rows).
        grayscale_obs: Whether frames are luminance (ITU-R BT.601) rather than colours.
        stack_size: Frames in an observation, one for each step of the environment.
        samples: A pixel is the mean of `samples` x `samples` rays, so that motion of edges by less than a
            pixel shows.
        lighting: How the scene is lit; None for a light from above, without shadows.

    Raises:
        NewtonsimError: A number is out of range.
    """

    eye: Sequence[float]
    target: Sequence[float]
    up: Sequence[float] = (0.0, 0.0, 1.0)
    body: str | int | None = None
    fov: float = 45.0
    screen_size: int | tuple[int, int] = 84
    grayscale_obs: bool = True
    stack_size: int = 4
    samples: int = 2
    lighting: Lighting | None = None

    def __post_init__(self) -> None:
        sides = self.screen_size if isinstance(self.screen_size, (tuple, list)) else (self.screen_size,)
        if len(sides) not in (1, 2) or not all(map(_is_count, sides)):
            raise NewtonsimError(
                f"screen_size: expected a number of pixels or (columns, rows), got {self.screen_size!r}"
            )
        for name in ("stack_size", "samples"):
            value = getattr(self, name)
            if not _is_count(value):
                raise NewtonsimError(f"{name}: expected a whole number of at least 1, got {value!r}")
        if not isinstance(self.grayscale_obs, (bool, np.bool_)):
            raise NewtonsimError(f"grayscale_obs: expected True or False, got {self.grayscale_obs!r}")
        if not 0.0 < self.fov < 180.0:
            raise NewtonsimError(f"fov: expected an angle between 0 and 180 degrees, got {self.fov!r}")
        for name in ("eye", "target", "up"):
            values = getattr(self, name)
            if len(values) != 3 or not all(map(math.isfinite, values)):
                raise NewtonsimError(f"{name}: expected three finite numbers, got {values!r}")

    @property
    def width(self) -> int:
        """Columns of a frame."""
        return int(self.screen_size[0] if isinstance(self.screen_size, (tuple, list)) else self.screen_size)

    @property
    def height(self) -> int:
        """Rows of a frame."""
        return int(self.screen_size[1] if isinstance(self.screen_size, (tuple, list)) else self.screen_size)

    @property
    def channels(self) -> int:
        """Numbers of a pixel of one frame: 1 or 3."""
        return 1 if self.grayscale_obs else 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an observation."""
        return (self.height, self.width, self.channels * self.stack_size)

    def space(self) -> spaces.Box:
        """Return the space of observations."""
        return spaces.Box(0, 255, self.shape, np.uint8)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 0  # pyright: ignore[reportReturnType]

"""How ray cameras light a scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import pictures as camera_pictures

_LIGHT: Any = camera_pictures.Light.numpy_dtype()


@dataclass(slots=True)
class Lighting:
    """The light of a scene: ambient light and one directional light.

    Attributes:
        direction: Towards the light (3,), of any length.
        color: Colour of the directional light (3,).
        ambient: Fraction of a surface's colour that is visible without light.
        sky: Relative increase of the ambient light along each axis of the normal (3,): surfaces that face up,
            towards the sky, are brighter than those that face down. Its length is 0..1.
        diffuse: Weight of matt reflection.
        specular: Weight of highlights.
        shininess: Power of the cosine of highlights.
        viewer: Direction towards a viewer at infinity for whom highlights are computed (3,); None for the
            camera itself.
        shadow: Whether surfaces cast shadows.
        shadowed: Fraction of the directional light that remains in shadow.
        transparency: Whether surfaces with alpha below 1 are transparent.
        background: RGBA where nothing is seen.
        empty_label: Segmentation where nothing is seen.
    """

    direction: Sequence[float] = (-0.4, 0.3, 0.9)
    color: Sequence[float] = (1.0, 1.0, 1.0)
    ambient: float = 0.4
    sky: Sequence[float] = (0.0, 0.0, 0.0)
    diffuse: float = 0.6
    specular: float = 0.1
    shininess: float = 16.0
    viewer: Sequence[float] | None = None
    shadow: bool = True
    shadowed: float = 0.2
    transparency: bool = True
    background: Sequence[float] = (1.0, 1.0, 1.0, 1.0)
    empty_label: int = -1

    @classmethod
    def above(cls, up: npt.ArrayLike) -> Lighting:
        """Return a light from above and from the side, in front of a pale sky.

        Args:
            up: Direction that is up, unit (3,).
        """
        up = np.asarray(up, np.float64)
        side = np.roll(up, 1)
        slant = up + 0.45 * side + 0.3 * np.cross(up, side)
        return cls(direction=slant.tolist(), sky=(0.35 * up).tolist(), background=(0.80, 0.87, 0.95, 1.0))

    def record(self) -> np.ndarray:
        """Return what the kernel reads, shape (1,)."""
        record = np.zeros(1, _LIGHT)
        length = float(np.linalg.norm(self.direction))
        if not length > 0.0:
            raise ModelError(f"light: direction {tuple(self.direction)} is zero")
        record["direction"] = np.asarray(self.direction) / length
        record["color"] = self.color
        for name in (
            "ambient",
            "sky",
            "diffuse",
            "specular",
            "shininess",
            "shadowed",
            "background",
            "empty_label",
        ):
            record[name] = getattr(self, name)
        if self.viewer is not None:
            record["viewer"] = np.asarray(self.viewer) / np.linalg.norm(self.viewer)
        record["shadow"], record["transparency"] = int(self.shadow), int(self.transparency)
        return record

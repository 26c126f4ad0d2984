"""How ray cameras light a scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import pictures as camera_pictures

MOST_RAYS = 256
"""Largest number of rays of a kind from a sample."""

_LIGHT: Any = camera_pictures.Light.numpy_dtype()


@dataclass(slots=True)
class Lighting:
    """The light of a scene: ambient light and one directional light.

    The default has hard shadows, for cameras as sensors; `fine` has soft ones, for pictures that people see.

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
        shadowed: Fraction of the directional light that remains in shadow, and of ambient light where
            surfaces are in the way.
        transparency: Whether surfaces with alpha below 1 are transparent.
        background: RGBA where nothing is seen.
        empty_label: Segmentation where nothing is seen.
        radius: Angular radius of the light's disc [rad], below 0.5; 0 for hard shadows.
        rays: Rays from each sample to the disc, at most 256; one is enough for hard shadows.
        sky_rays: Rays from each sample around the normal, at most 256, that look for surfaces which occlude
            ambient light; 0 for ambient light everywhere.
        sky_reach: Distance within which they look for surfaces [m].
        zenith: Colour that the background fades to in the direction of `sky`; None for one colour.
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
    radius: float = 0.0
    rays: int = 1
    sky_rays: int = 0
    sky_reach: float = math.inf
    zenith: Sequence[float] | None = None

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

    @classmethod
    def fine(cls, up: npt.ArrayLike, reach: float = 0.5, rays: int = 8) -> Lighting:
        """Return the same light with soft shadows, occluded ambient light and a sky.

        Args:
            up: Direction that is up, unit (3,).
            reach: Distance within which surfaces occlude the ambient light of each other [m].
            rays: Rays from each sample to the light, and as many around the normal.
        """
        plain = cls.above(up)
        return replace(
            plain,
            radius=0.06,
            rays=rays,
            ambient=0.5,
            sky_rays=rays,
            sky_reach=reach,
            background=(0.88, 0.92, 0.96, 1.0),
            zenith=(0.45, 0.62, 0.86),
        )

    def check(self) -> None:
        """Raise ModelError for a value that no light can have."""
        if not float(np.linalg.norm(self.direction)) > 0.0:
            raise ModelError(f"light: direction {tuple(self.direction)} is zero")
        if not 0.0 <= self.radius < 0.5:
            raise ModelError(f"light: radius: expected at least 0 and below 0.5 rad, got {self.radius}")
        for name, least in (("rays", 1), ("sky_rays", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or not least <= value <= MOST_RAYS:
                raise ModelError(f"light: {name}: expected {least} to {MOST_RAYS}, got {value!r}")
        if not self.sky_reach > 0.0:
            raise ModelError(f"light: sky_reach: expected a distance above 0 m, got {self.sky_reach}")
        if self.zenith is not None and not np.any(self.sky):
            raise ModelError("light: zenith: the background needs to know what is up: set sky")

    def record(self) -> np.ndarray:
        """Return what the kernel reads, shape (1,).

        Raises:
            ModelError: See `check`.
        """
        self.check()
        record = np.zeros(1, _LIGHT)
        length = float(np.linalg.norm(self.direction))
        record["radius"] = math.tan(self.radius)
        record["direction"] = np.asarray(self.direction) / length
        record["color"] = self.color
        for name in (
            "ambient",
            "rays",
            "sky",
            "sky_rays",
            "sky_reach",
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
        if self.zenith is not None:
            record["zenith"], record["up"] = self.zenith, np.asarray(self.sky) / np.linalg.norm(self.sky)
        record["shadow"], record["transparency"] = int(self.shadow), int(self.transparency)
        return record

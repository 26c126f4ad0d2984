"""Textures of the surfaces of a camera's scene, in one buffer on the device."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.camera import pictures as camera_pictures

_LEAST = 1 << 12
"""Texels of the first buffer."""


class Textures:
    """Images by index; added or replaced ones are copied to the device on next use.

    Attributes:
        smooth: Whether colours are interpolated between texels.

    Args:
        images: The first images, see `add`.
        smooth: Whether colours are interpolated.
    """

    def __init__(self, images: Iterable[np.ndarray] = (), smooth: bool = False):
        self.smooth = smooth
        self._images: list[np.ndarray] = []
        self._places: list[tuple[int, int, int]] = []
        self._means: list[np.ndarray] = []
        self._waiting: set[int] = set()
        self._end = 0
        self._texels: wp.array | None = None
        for image in images:
            self.add(image)

    def __len__(self) -> int:
        return len(self._images)

    def copy(self) -> Textures:
        """Return a copy with the same images under the same indices."""
        return Textures(self._images, self.smooth)

    def add(self, image: np.ndarray) -> int:
        """Add an image and return its index.

        Args:
            image: Shape (height, width, 3 or 4), uint8, rows from the top.

        Raises:
            ModelError: It has another shape or type.
        """
        number = len(self._images)
        _check(number, image)
        self._images.append(image)
        self._places.append((-1, 0, 0))
        self._means.append(np.ones(4))
        self._waiting.add(number)
        return number

    def mean(self, number: int) -> np.ndarray:
        """Return the mean colour of an image (4,), RGBA in 0..1."""
        image = self._images[number]
        color = np.ones(4)
        color[: image.shape[2]] = image.reshape(-1, image.shape[2]).mean(axis=0) / 255.0
        return color

    def replace(self, number: int, image: np.ndarray) -> None:
        """Replace an image, see `add`; one of equal size takes no more memory."""
        _check(number, image)
        self._images[number] = image
        self._waiting.add(number)

    def view(self, device: wp.Device) -> camera_pictures.TextureView:
        """Return the up-to-date kernel argument, on the device of the first call."""
        if self._texels is None or self._texels.device != device:
            self._texels = wp.zeros(_LEAST, dtype=wp.uint32, device=device)
            self._end = 0
            self._places = [(-1, 0, 0)] * len(self._images)
            self._waiting = set(range(len(self._images)))
        for number in sorted(self._waiting):
            self._upload(number)
        self._waiting.clear()
        places = np.array(self._places, np.int32).reshape(-1, 3)
        view = camera_pictures.TextureView()
        view.start, view.height, view.width = (
            wp.array(np.ascontiguousarray(column), dtype=int, device=device) for column in places.T
        )
        view.texel, view.smooth = self._texels, int(self.smooth)
        means = np.array(self._means, np.float32).reshape(-1, 4)
        view.mean = wp.array(means, dtype=wp.vec4, device=device)
        return view

    def _upload(self, number: int) -> None:
        image = self._images[number]
        height, width = image.shape[:2]
        start, *size = self._places[number]
        if size != [height, width]:
            start = self._end
            self._end += height * width
            self._reserve(self._end)
            self._places[number] = (start, height, width)
        texels = np.full((height, width, 4), 255, np.uint8)
        texels[..., : image.shape[2]] = image
        self._means[number] = self.mean(number)
        self._texels[start : start + height * width].assign(texels.view(np.uint32).reshape(-1))

    def _reserve(self, count: int) -> None:
        """Make the buffer large enough for a number of texels."""
        if count > len(self._texels):
            larger = wp.zeros(max(count, 2 * len(self._texels)), dtype=wp.uint32, device=self._texels.device)
            wp.copy(larger, self._texels, count=len(self._texels))
            self._texels = larger


def _check(number: int, image: np.ndarray) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (3, 4) or not image.size:
        raise ModelError(f"texture {number}: expected (height, width, 3 or 4) uint8, got {image.shape}")

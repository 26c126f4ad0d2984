"""Image files as arrays of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_MAX_PIXELS = 1 << 26


def read_image(path: str) -> np.ndarray:
    """Read an image file (PNG, JPEG, TGA, GIF, BMP ...).

    Args:
        path: The file.

    Returns:
        Pixels (height, width, 3 or 4), uint8, rows from the top.

    Raises:
        OSError: The file cannot be read or is not an image.
        ValueError: It is too large.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            return pixels_of(image, path)
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error


def pixels_of(image: PillowImage, name: str) -> np.ndarray:
    """Return the pixels of an image that Pillow has opened, see `read_image`; `name` is for errors."""
    if image.width * image.height > _MAX_PIXELS:
        raise ValueError(f"{name}: {image.width} x {image.height} pixels are too many")
    return np.array(image.convert("RGBA" if "A" in image.getbands() else "RGB"))

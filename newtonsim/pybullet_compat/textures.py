"""Textures of a client: images by texture unique id."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

CHECKER = "checker"
"""Stands for the image on planes and height fields: 2 x 2 squares, white and light blue."""

_MAX_PIXELS = 1 << 26
_CHECKER_BLUE = (173, 199, 255)


@lru_cache(maxsize=64)
def _read(path: str, changed: int) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as image:
        if image.width * image.height > _MAX_PIXELS:
            raise ValueError(f"{path}: {image.width} x {image.height} pixels are too many")
        return np.asarray(image.convert("RGBA" if "A" in image.getbands() else "RGB")).copy()


def read_image(path: str) -> np.ndarray:
    """Read an image file (PNG, JPEG, TGA, GIF, BMP ...), once as long as it does not change.

    Args:
        path: The file.

    Returns:
        Pixels (height, width, 3 or 4), uint8, rows from the top.

    Raises:
        OSError: The file cannot be read or is no image.
        ValueError: It is too large.
    """
    from PIL import Image

    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error


def checker() -> np.ndarray:
    """Return the image on planes: white where x and y have different signs."""
    white = (255, 255, 255)
    return np.array([[white, _CHECKER_BLUE], [_CHECKER_BLUE, white]], np.uint8)


class TextureTable:
    """Images by texture unique id; ids are never used again.

    Attributes:
        images: The image of each id.
        revision: Grows whenever an image is added or changed.
    """

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []
        self.revision = 0

    def add(self, image: np.ndarray) -> int:
        """Add an image and return its id."""
        self.images.append(image)
        self.revision += 1
        return len(self.images) - 1

    def add_file(self, path: str) -> int:
        """Add the image of a file, or `CHECKER`; see `read_image`."""
        return self.add(checker() if path == CHECKER else read_image(path))

    def __contains__(self, texture: int) -> bool:
        return 0 <= texture < len(self.images)

    def change(self, texture: int, image: np.ndarray) -> None:
        """Replace an image by another one."""
        self.images[texture] = image
        self.revision += 1

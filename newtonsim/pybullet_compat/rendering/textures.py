"""Textures of a client: images by texture unique id."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newtonsim.geometry.images import read_image
from newtonsim.render.camera.textures import Textures

CHECKER = "checker"
"""Stands for the image on planes and height fields: 2 x 2 squares, white and light blue."""

_CHECKER_BLUE = (173, 199, 255)


def checker() -> np.ndarray:
    """Return the image on planes: white where x and y have different signs."""
    white = (255, 255, 255)
    return np.array([[white, _CHECKER_BLUE], [_CHECKER_BLUE, white]], np.uint8)


class TextureTable:
    """Images by texture unique id; ids are never used again, images of the same file are kept once.

    Attributes:
        images: The images, by numbers of their own.
        revision: Grows whenever an image is added or changed.
    """

    def __init__(self) -> None:
        self.images = Textures()
        self.revision = 0
        self._numbers: list[int] = []
        self._files: dict[tuple[str, int], int] = {}
        self._owned: set[int] = set()

    def __contains__(self, texture: int) -> bool:
        return 0 <= texture < len(self._numbers)

    def copy(self) -> TextureTable:
        """Return an independent table with the same images and ids."""
        table = TextureTable()
        table.images = self.images.copy()
        table.revision = self.revision
        table._numbers, table._files, table._owned = list(self._numbers), dict(self._files), set(self._owned)
        return table

    def number(self, texture: int) -> int:
        """Number of the image of a texture, -1 if there is no such texture."""
        return self._numbers[texture] if texture in self else -1

    def add_file(self, path: str) -> int:
        """Give an id to the image of a file, read once as long as it does not change, or to `CHECKER`.

        Raises:
            OSError: The file cannot be read or is not an image.
            ValueError: It is too large.
        """
        key = (path, 0 if path == CHECKER else Path(path).stat().st_mtime_ns)
        if key not in self._files:
            self._files[key] = self.images.add(checker() if path == CHECKER else read_image(path))
        self._numbers.append(self._files[key])
        self.revision += 1
        return len(self._numbers) - 1

    def change(self, texture: int, image: np.ndarray) -> None:
        """Replace the image of a texture by another one, and of no other texture."""
        if texture in self._owned:
            self.images.replace(self._numbers[texture], image)
        else:
            self._numbers[texture] = self.images.add(image)
            self._owned.add(texture)
        self.revision += 1

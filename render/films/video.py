"""Video files, written picture by picture with imageio."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from newtonsim.errors import NewtonsimError

ENDINGS = (".mp4", ".mov", ".mkv", ".avi", ".gif")
NO_LIBRARY = "videos need imageio and imageio-ffmpeg: pip install 'newtonsim[video]'"

_LEAST_DELAY = 2
"""Shortest time that a picture of a GIF is shown [1/100 s]; players lengthen shorter ones."""


class VideoWriter:
    """Writes pictures of one size to a video.

    MP4 files are H.264, which needs even sides: the last row or column is doubled if a side is odd. GIF files
    show each picture for a whole number of 1/100 s, and are held in memory until `close`.

    Attributes:
        path: The file.
        fps: Pictures per second of the video; of a GIF the nearest that it can have.

    Args:
        path: File to write, ending in .mp4, .mov, .mkv, .avi or .gif.
        fps: Pictures per second.

    Raises:
        NewtonsimError: The ending is unknown, the rate is not positive, or imageio is not installed.
        OSError: The file cannot be written there.
    """

    def __init__(self, path: str | os.PathLike, fps: float = 30.0):
        self.path = os.fspath(path)
        self._ending = check_video_name(self.path)
        if not (fps > 0.0 and np.isfinite(fps)):
            raise NewtonsimError(f"fps: expected a positive number, got {fps}")
        require_video()
        self._shape: tuple[int, ...] | None = None
        self._writer: Any = None
        if self._ending == ".gif":
            self._delay = max(round(100.0 / fps), _LEAST_DELAY)
            self.fps = 100.0 / self._delay
        else:
            self.fps = float(fps)
        self._open()

    def add(self, picture: np.ndarray) -> None:
        """Add a picture.

        Args:
            picture: RGB, shape (height, width, 3), uint8.

        Raises:
            NewtonsimError: It has another shape than the first, or the writer is closed.
            OSError: The file cannot be written.
        """
        if self._writer is None:
            raise NewtonsimError(f"{self.path}: the video is closed")
        picture = np.asarray(picture)
        shape = picture.shape if self._shape is None else self._shape
        if picture.shape != shape or picture.ndim != 3 or shape[2] != 3 or picture.dtype != np.uint8:
            expected = "(height, width, 3)" if self._shape is None else self._shape
            raise NewtonsimError(
                f"{self.path}: expected a picture {expected} of uint8, got {picture.shape} of {picture.dtype}"
            )
        self._shape = shape
        if self._ending == ".gif":
            self._writer.write(picture.copy(), duration=10 * self._delay, loop=0)
        else:
            odd = [(0, side % 2) for side in shape[:2]]
            self._writer.append_data(np.pad(picture, [*odd, (0, 0)], mode="edge"))

    def close(self) -> None:
        """Finish the file; further calls do nothing."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._ending == ".gif":
            import imageio.v3

            self._writer = imageio.v3.imopen(self.path, "w", plugin="pillow")
        else:
            import imageio.v2

            # ffmpeg would say so when the first picture comes, with its whole command
            with open(self.path, "wb"):
                pass
            self._writer = imageio.v2.get_writer(
                self.path, format="FFMPEG", fps=self.fps, macro_block_size=2, ffmpeg_log_level="error"
            )


def check_video_name(path: str) -> str:
    """Return the ending of the name of a video.

    Raises:
        NewtonsimError: It cannot be written.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise NewtonsimError(f"{path}: the name of a video must end in one of {', '.join(ENDINGS)}")
    return ending


def require_video() -> None:
    """Raise NewtonsimError if the libraries for videos are missing."""
    try:
        import imageio  # noqa: F401
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise NewtonsimError(NO_LIBRARY) from error

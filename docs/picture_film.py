"""Films of the docs: H.264 in MP4 files, each with a picture of it beside it."""

import contextlib
import pathlib
from collections.abc import Generator, Sequence

import imageio_ffmpeg
import numpy as np
from PIL import Image

POSTER_QUALITY = 80
"""Of JPEG."""
FILM_LOSS = 23
"""Constant rate factor of films of seconds."""


def encoder(
    path: pathlib.Path, width: int, height: int, fps: float, loss: int = 28
) -> Generator[None, np.ndarray, None]:
    """Return what writes the pictures sent to it to a file that browsers play before they have all of it.

    Args:
        path: The file, NAME.mp4.
        width: Columns, a multiple of 16.
        height: Rows, likewise.
        fps: Pictures in a second.
        loss: Constant rate factor of H.264: 0 for none, 51 for the most.
    """
    settings = ["-crf", str(loss), "-preset", "medium", "-movflags", "+faststart"]
    size = width, height
    film = imageio_ffmpeg.write_frames(str(path), size, fps=fps, quality=None, output_params=settings)
    film.send(None)
    return film


def save_film(path: pathlib.Path, frames: Sequence[np.ndarray], fps: float, poster: int) -> None:
    """Write a film, and one of its frames beside it as a JPEG.

    Args:
        path: The film, NAME.mp4.
        frames: What it shows, each (rows, columns, 3), uint8.
        fps: Frames in a second.
        poster: The frame that stands for the film.
    """
    height, width = frames[0].shape[:2]
    with contextlib.closing(encoder(path, width, height, fps, FILM_LOSS)) as film:
        for frame in frames:
            film.send(np.ascontiguousarray(frame))
    save_poster(path, frames[poster])


def save_poster(film: pathlib.Path, frame: np.ndarray) -> None:
    """Write the picture that stands for a film."""
    Image.fromarray(frame).save(film.with_suffix(".jpg"), quality=POSTER_QUALITY, optimize=True)

"""Films of simulations in real time, from recordings or while they run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.render.films.pictures import PictureOptions, Pictures
from newtonsim.render.films.video import VideoWriter

if TYPE_CHECKING:
    from newtonsim.render.recordings.recording import Recording
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_SAMPLES = 40
"""Number of frames of a recording that are read to find what the camera must show."""


class Film:
    """A video of a simulation in real time, written while it runs.

    Example:
        with Film("run.mp4", model, follow="trunk") as film:
            for _ in range(2400):
                simulator.step()
                film.record(simulator.state, simulator.time)

    Attributes:
        pictures: Number of pictures so far.

    Args:
        path: File to write, see `newtonsim.render.VideoWriter`.
        model: The model.
        fps: Pictures per second of the video.
        speed: Simulated seconds in a second of the video.
        **options: What is shown and from where: `worlds`, `width`, `height`, `eye` and `target`, `follow`,
            `azimuth`, `elevation`, `fov`, `columns`, `labels`, `lighting`, `quality`; see `Pictures`.

    Raises:
        NewtonsimError: An argument is wrong, or imageio is not installed.
        OSError: The file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        model: Model,
        *,
        fps: float = 30.0,
        speed: float = 1.0,
        **options: Unpack[PictureOptions],
    ):
        if not (speed > 0.0 and math.isfinite(speed)):
            raise NewtonsimError(f"speed: expected a positive number, got {speed}")
        self._model, self._speed = model, speed
        self._pictures = Pictures(model, **options)
        self._writer = VideoWriter(path, fps)
        self._start: float | None = None
        self.pictures = 0

    def frame(self, states: Iterable[State]) -> Film:
        """Frame all that moves in some states, see `Pictures.frame`; otherwise the first state decides."""
        self._pictures.frame(states)
        return self

    @property
    def fps(self) -> float:
        """Pictures per second of the video."""
        return self._writer.fps

    def due(self, time: float) -> int:
        """Return how many pictures to add up to a simulated time [s]."""
        if self._start is None:
            return 1
        passed = (time - self._start) / self._speed * self.fps
        return max(math.floor(passed + 1e-6) + 1 - self.pictures, 0)

    def record(self, state: State, time: float) -> None:
        """Add the pictures that are due.

        Args:
            state: State of the model.
            time: Simulated time [s].

        Raises:
            ModelError: It is the state of another model.
        """
        self._pictures.model.check_state(state)
        count = self.due(time)
        if self._start is None:
            self._start = time
        if count:
            picture = self._pictures.take(state)
            for _ in range(count):
                self._writer.add(picture)
            self.pictures += count

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def __enter__(self) -> Film:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def save_video(
    path: str | os.PathLike,
    recording: Recording,
    *,
    start: float | None = None,
    end: float | None = None,
    fps: float = 30.0,
    speed: float = 1.0,
    **options: Unpack[PictureOptions],
) -> int:
    """Make a video of a recording.

    Args:
        path: File to write, see `newtonsim.render.VideoWriter`.
        recording: The recording.
        start: Simulated time of the first picture [s]; None for the beginning.
        end: Simulated time of the last picture [s]; None for the end.
        fps: Pictures per second of the video.
        speed: Simulated seconds in a second of the video.
        **options: What is shown and from where: `worlds`, `width`, `height`, `eye` and `target`, `follow`,
            `azimuth`, `elevation`, `fov`, `columns`, `labels`, `lighting`, `quality`; see `Pictures`. Without
            `eye` and `follow` the camera sees all that moves from the first picture to the last.

    Returns:
        The number of pictures.

    Raises:
        NewtonsimError: An argument is wrong, or imageio is not installed.
        OSError: The file cannot be written.
    """
    if not len(recording):
        raise NewtonsimError(f"{recording.path}: it has no frames")
    start = float(recording.times[0]) if start is None else start
    end = float(recording.times[-1]) if end is None else end
    if not start <= end:
        raise NewtonsimError(f"video: it starts at {start:g} s and ends at {end:g} s")
    model = recording.model
    state = model.state()
    first, last = recording.at(start), recording.at(end)
    with Film(path, model, fps=fps, speed=speed, **options) as film:
        seen = np.unique(np.linspace(first, last, _SAMPLES).round().astype(int)).tolist()
        film.frame(recording.load(index, state) for index in seen)
        count = math.floor((end - start) / speed * film.fps + 1e-6) + 1
        for number in range(count):
            time = start + number * speed / film.fps
            film.record(recording.load(recording.at(time + 1e-9), state), time)
        return film.pictures

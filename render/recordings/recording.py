"""The reader of recordings: any frame, the model, and series over time."""

from __future__ import annotations

import json
import os
import threading
import warnings
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import IncompleteRecordingWarning, RecordingError
from newtonsim.kinematics import eval_fk
from newtonsim.render.recordings.format import (
    CHUNK,
    HEAD,
    MODEL,
    VERSION,
    BlockReader,
    unpack_field,
)
from newtonsim.render.recordings.model import unpack_model
from newtonsim.scene.arrays import STATE_ARRAYS

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_STATE_FIELDS = tuple(spec.name for spec in STATE_ARRAYS)

_CALLER = 4  # frames above the warning: _read_head, __init__, open


class Recording:
    """A file that `newtonsim.render.Recorder` wrote; open one with `Recording.open`.

    Frames are read on demand, each with the other frames of its chunk, at most 239. Several threads may read
    at once. If the writer did not finish, or the file was truncated, all whole chunks are readable:
    `complete` is then False, and opening it warns.

    Attributes:
        path: The file.
        complete: Whether the file is complete. It is not if its writer was killed or is still running, or if
            the file was truncated.
        times: Simulated time of each frame [s], ascending, shape (frames,).
        worlds: Worlds of the original model that were recorded; those of `model` are numbered from 0.
        fields: Shape of each recorded array in a frame, by name: arrays of `State`, and, if recorded,
            "body_contact_f", the sum of the contact forces on each body [N] in world axes.
    """

    def __init__(self, path: str | os.PathLike, device: wp.DeviceLike = None):
        self._lock = threading.Lock()
        self._reader = BlockReader(path)
        self._device = device
        self._chunk: tuple[int, bytes] = (-1, b"")
        self._unpacked: dict[str, np.ndarray] = {}
        try:
            self._read_head()
        except BaseException:
            self._reader.close()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike, device: wp.DeviceLike = None) -> Recording:
        """Open a recording.

        Args:
            path: The file.
            device: Device of the model and the states; None for Warp's default.

        Raises:
            RecordingError: It is not a recording, has a later version, or is damaged.
            OSError: There is no such file.

        Warns:
            IncompleteRecordingWarning: The file has no end.
        """
        return cls(path, device)

    @property
    def path(self) -> str:
        """The file."""
        return self._reader.path

    @cached_property
    def model(self) -> Model:
        """The model of the recorded worlds, created on first use; it can also be simulated."""
        with self._lock:
            data = self._reader.block(self._model_offset, MODEL)
        return unpack_model(data, self._device)

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.times)

    def at(self, time: float) -> int:
        """Return the frame that is shown at a time [s]: the last one that is not later, or the first.

        Raises:
            RecordingError: The time is not a number.
        """
        if np.isnan(time):
            raise RecordingError(f"{self.path}: time {time!r} is not a number")
        return max(int(np.searchsorted(self.times, time, side="right")) - 1, 0)

    def load(self, index: int, state: State | None = None) -> State:
        """Set a state to that of a frame, bit for bit.

        Arrays that were not recorded are unchanged, except that the motion of bodies is computed from that of
        joints.

        Args:
            index: Index of the frame; negative ones count from the end.
            state: A state of `model`, or of another one with the same arrays; None for a new one.

        Returns:
            The state.

        Raises:
            IndexError: There is no such frame.
            ModelError: The state has arrays of other lengths.
            RecordingError: The file is damaged, or the index is not a whole number.
        """
        state = self.model.state() if state is None else state
        self.model.check_state(state)
        for name in self.fields:
            if name in _STATE_FIELDS:
                self._assign(getattr(state, name), self.read(name, index))
        if "joint_q" in self.fields and "body_q" not in self.fields:
            eval_fk(self.model, state.joint_q, state.joint_qd, None, state)
        return state

    def read(self, field: str, index: int) -> np.ndarray:
        """Return an array of a frame.

        Args:
            field: One of `fields`.
            index: Index of the frame; negative ones count from the end.
        """
        chunk, row = self._place(index)
        with self._lock:
            return self._field(field, chunk)[row].reshape(self.fields[self._known(field)]).copy()

    def series(self, field: str, frames: slice | npt.ArrayLike | None = None) -> np.ndarray:
        """Return an array over time, shape (frames, ...).

        Args:
            field: One of `fields`.
            frames: Which frames, as a slice or numbers; None for all.
        """
        shape = self.fields[self._known(field)]
        numbers = np.arange(len(self))[slice(None) if frames is None else frames]
        result = np.zeros((len(numbers), int(np.prod(shape))), np.float32)
        chunks = np.searchsorted(self._index.first, numbers, side="right") - 1
        for chunk in np.unique(chunks).tolist():
            mine = chunks == chunk
            with self._lock:
                result[mine] = self._field(field, chunk)[numbers[mine] - self._index.first[chunk]]
        return result.reshape(-1, *shape)

    def close(self) -> None:
        """Close the file; models and states remain valid."""
        self._reader.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        last = self.times[-1] if len(self) else 0.0
        end = "" if self.complete else ", without its end"
        return f"Recording({self.path!r}: {len(self)} frames to {last:g} s{end}, {len(self.worlds)} worlds)"

    def _read_head(self) -> None:
        reader = self._reader
        places = dict(islice(reader.blocks(), 2))
        if set(places) != {HEAD, MODEL}:
            raise reader.error("is damaged: its beginning is missing")
        head = json.loads(reader.block(places[HEAD], HEAD))
        if head["version"] > VERSION:
            raise reader.error(f"has version {head['version']}; this newtonsim reads {VERSION}")
        self._model_offset = places[MODEL]
        self.worlds = np.array(head["worlds"])
        self.fields = {field["name"]: tuple(field["shape"]) for field in head["fields"]}
        self._index = reader.index()
        self.times = self._index.times
        self.complete = reader.complete
        if not self.complete:
            warnings.warn(
                f"{self.path}: the file is incomplete, its writer was killed or is still running; "
                f"{len(self)} frames can be read",
                IncompleteRecordingWarning,
                stacklevel=_CALLER,
            )

    def _known(self, field: str) -> str:
        if field not in self.fields:
            raise RecordingError(
                f"{self.path}: {field!r} was not recorded; there are {', '.join(self.fields)}"
            )
        return field

    def _place(self, index: int) -> tuple[int, int]:
        """Return the chunk of a frame, and its row in it."""
        count = len(self)
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            raise RecordingError(f"{self.path}: frame {index!r}: expected a whole number")
        if not -count <= index < count:
            raise IndexError(f"{self.path}: frame {index} of {count}")
        index = index % count
        chunk = int(np.searchsorted(self._index.first, index, side="right")) - 1
        return chunk, index - int(self._index.first[chunk])

    def _field(self, field: str, chunk: int) -> np.ndarray:
        """Return a field of a chunk, shape (frames, n); the last chunk is kept."""
        if self._chunk[0] != chunk:
            self._chunk = (chunk, self._reader.block(int(self._index.offset[chunk]), CHUNK))
            self._unpacked = {}
        if field not in self._unpacked:
            number = list(self.fields).index(self._known(field))
            width = int(np.prod(self.fields[field]))
            self._unpacked[field] = unpack_field(self._chunk[1], number, width)
        return self._unpacked[field]

    @staticmethod
    def _assign(array: wp.array, values: np.ndarray) -> None:
        if array.device.is_cpu:
            array.numpy()[...] = values
        else:
            array.assign(values)

"""The writer of recordings, `newtonsim.render.Recorder`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import RecordingError, did_you_mean
from newtonsim.render.recordings.format import (
    CHUNK,
    HEAD,
    MODEL,
    SIGNATURE,
    VERSION,
    ChunkIndex,
    pack_chunk,
    write_block,
)
from newtonsim.render.recordings.model import pack_model
from newtonsim.render.recordings.worlds import WorldSelection
from newtonsim.scene.arrays import COUNTS, STATE_ARRAYS, ArraySpec
from newtonsim.scene.columns import element_shape
from newtonsim.scene.model import check_model

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

DEFAULT_FIELDS = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")
CONTACT_FORCE = "body_contact_f"

_SPECS = {spec.name: spec for spec in STATE_ARRAYS}
_CHUNK_BYTES = 2**21
_CHUNK_FRAMES = (8, 240)  # least and most frames of a chunk


class Recorder:
    """Writes states of a simulation to one file, which any viewer can replay without the script.

    The file contains the model with its meshes and textures, and the exact states. It grows by chunks of
    up to 240 frames; if the process ends without `close`, all whole chunks can still be read. Read it with
    `newtonsim.render.Recording`.

    Attributes:
        path: The file.
        worlds: Worlds that are recorded, ascending.
        fields: Names of the arrays that are recorded.
        frames: Number of frames so far.

    Args:
        path: File to write, by convention with the ending .nsr; an existing one is replaced.
        model: Model of the states.
        worlds: Worlds to record; None for all.
        fields: Arrays of `State` to record; None for positions and velocities of all that the model has.
            With only joint_q and joint_qd, a replay computes the poses of the bodies from them.
        solver: Solver of the steps. Its contact forces are recorded too, as the force on each body.

    Raises:
        ModelError: There is no such world.
        RecordingError: There is no such field, or the model or the solver has something that cannot be
            stored.
        OSError: The file cannot be written.

    Example:
        >>> import os, tempfile
        >>> import newtonsim
        >>> from newtonsim.render import Recorder, Recording
        >>> builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        >>> ball = builder.add_body(origin=((0, 0, 5), (0, 0, 0, 1)))
        >>> _ = builder.add_shape_sphere(ball, radius=0.1)
        >>> model = builder.finalize("cpu")
        >>> simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 0.01)
        >>> path = os.path.join(tempfile.mkdtemp(), "fall.nsr")
        >>> with Recorder(path, model) as recorder:
        ...     for _ in range(100):
        ...         simulator.step()
        ...         recorder.record(simulator.state, simulator.time)
        >>> recording = Recording.open(path, "cpu")
        >>> len(recording)
        100
        >>> float(recording.load(-1).body_q.numpy()[0, 2]) == float(simulator.state.body_q.numpy()[0, 2])
        True
    """

    def __init__(
        self,
        path: str | os.PathLike,
        model: Model,
        *,
        worlds: Iterable[int] | None = None,
        fields: Sequence[str] | None = None,
        solver: Any = None,
    ):
        self.path = _checked_path(path)
        check_model(model)
        self._model = model
        selection = WorldSelection(model, worlds)
        self.worlds = selection.worlds
        self._specs = _checked_fields(model, fields)
        self._rows = [None if selection.whole else selection.rows[spec.per] for spec in self._specs]
        self._forces = None if solver is None else _ContactForces(model, solver, selection)
        columns = [(spec.name, len(selection.rows[spec.per]), element_shape(spec)) for spec in self._specs]
        if self._forces is not None:
            columns.append((CONTACT_FORCE, len(selection.rows["body"]), (3,)))
        self.fields = tuple(name for name, _, _ in columns)
        widths = [count * int(np.prod(shape)) for _, count, shape in columns]
        room = int(np.clip(_CHUNK_BYTES // (4 * sum(widths) + 8), *_CHUNK_FRAMES))
        self._buffers = [np.zeros((room, width), np.float32) for width in widths]
        self._times = np.zeros(room)
        self._held, self.frames = 0, 0
        self._chunks: list[tuple[int, np.ndarray]] = []
        content = pack_model(model, selection)
        self._file = open(self.path, "wb")  # noqa: SIM115 - closed by close
        self._file.write(SIGNATURE)
        head = {"version": VERSION, "worlds": self.worlds.tolist()}
        head["fields"] = [{"name": name, "shape": [count, *shape]} for name, count, shape in columns]
        write_block(self._file, HEAD, json.dumps(head).encode())
        write_block(self._file, MODEL, content)

    def record(self, state: State, time: float, *, stepped: bool = True) -> None:
        """Add a frame.

        Args:
            state: State of the model.
            time: Simulated time [s], not before that of the last frame.
            stepped: Whether the last step of the solver led to the state; if not, as after a reset, the
                contact forces of the frame are zero.

        Raises:
            ModelError: The state is of another model.
            RecordingError: The time is wrong, or the recorder is closed.
        """
        if self._file is None:
            raise RecordingError(f"{self.path}: the recorder is closed")
        last = self._last_time()
        if not isinstance(time, (int, float, np.integer, np.floating)) or not np.isfinite(time):
            raise RecordingError(f"{self.path}: time {time!r} is not a finite number of seconds")
        if time < last:
            raise RecordingError(f"{self.path}: time {time:g} s is before {last:g} s, that of the last frame")
        self._model.check_state(state)
        if self._forces is not None:
            self._buffers[-1][self._held] = self._forces.read() if stepped else 0.0
        for spec, rows, buffer in zip(self._specs, self._rows, self._buffers):
            values = getattr(state, spec.name).numpy()
            buffer[self._held] = (values if rows is None else values[rows]).reshape(-1)
        self._times[self._held] = time
        self._held += 1
        self.frames += 1
        if self._held == len(self._times):
            self.flush()

    def flush(self) -> None:
        """Write the frames that are still in memory, as a separate chunk."""
        if self._held and self._file is not None:
            times = self._times[: self._held].copy()
            data = pack_chunk(times, [buffer[: self._held] for buffer in self._buffers])
            self._chunks.append((write_block(self._file, CHUNK, data), times))
            self._held = 0

    def close(self) -> None:
        """Write the remaining frames and the index; further calls do nothing."""
        if self._file is None:
            return
        try:
            self.flush()
            ChunkIndex.of(self._chunks).write(self._file)
        finally:
            self._file.close()
            self._file = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_time(self) -> float:
        if self._held:
            return float(self._times[self._held - 1])
        return float(self._chunks[-1][1][-1]) if self._chunks else -np.inf


def _checked_path(path: str | os.PathLike) -> str:
    try:
        return os.fspath(path)
    except TypeError as error:
        raise RecordingError(f"path: expected the name of a file, got {path!r}") from error


def _checked_fields(model: Model, fields: Sequence[str] | None) -> list[ArraySpec]:
    """Return the specifications of the fields that the model has."""
    if fields is not None:
        if isinstance(fields, str):
            raise RecordingError(f"fields: expected a list of names, got {fields!r}")
        for name in fields:
            if name not in _SPECS:
                known = ", ".join(_SPECS)
                raise RecordingError(
                    f"fields: {name!r} is not an array of a state{did_you_mean(name, _SPECS)}; there "
                    f"are {known}"
                )
    names = DEFAULT_FIELDS if fields is None else tuple(dict.fromkeys(fields))
    return [_SPECS[name] for name in names if getattr(model, COUNTS[_SPECS[name].per])]


class _ContactForces:
    """Sums the contact forces of a solver for each body.

    Args:
        model: The model.
        solver: Its solver.
        selection: Worlds to keep.
    """

    def __init__(self, model: Model, solver: Any, selection: WorldSelection):
        if not hasattr(solver, "contact_forces") or solver.compliant:
            raise RecordingError(f"{type(solver).__name__} keeps no contact forces")
        self._solver, self._rows = solver, selection.rows["body"]
        self._count = model.body_count
        self._body = np.append(model.shape_body.numpy(), -1)  # places without a contact name shape -1

    def read(self) -> np.ndarray:
        """Return the force on each chosen body in world axes, flat [N]; zeros before the first step."""
        forces = np.zeros((self._count + 1, 3))
        contacts = self._solver.constraints.last_contacts
        if contacts is not None:
            force = self._solver.contact_forces().numpy()
            for shape, sign in ((contacts.rigid_contact_shape0, 1.0), (contacts.rigid_contact_shape1, -1.0)):
                np.add.at(forces, self._body[shape.numpy()], sign * force)
        return forces[self._rows].reshape(-1)

"""Opening stages; their units, up axis and time."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.errors import ImportFileError, ModelError
from newtonsim.geometry.transforms import quat_between, quat_matrix
from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.resolve_url import is_url, resolve_usd_from_url
from newtonsim.importers.files.usd_composition import meet_composition_errors
from newtonsim.importers.geometry.pose import Pose

if TYPE_CHECKING:
    from pxr import Sdf, Usd

_RAISED = re.compile(r"Error in '.*?' at line \d+ in file \S+ : '(.*?)\s*'")
"""What the library says, and where in its own sources, as it describes an error."""
_PLACE = re.compile(r"(.+?):(\d+):(\d+): (.+)")


@dataclass(frozen=True, slots=True)
class Units:
    """What one unit of a stage is.

    Attributes:
        length: Metres per unit.
        mass: Kilograms per unit.
    """

    length: float
    mass: float

    @property
    def force(self) -> float:
        """Newtons per unit of force; USD measures time in seconds."""
        return self.mass * self.length

    @property
    def torque(self) -> float:
        """Newton metres per unit of torque."""
        return self.mass * self.length**2

    @property
    def density(self) -> float:
        """Kilograms per cubic metre per unit of density."""
        return self.mass / self.length**3


@dataclass(frozen=True, slots=True, eq=False)
class StageView:
    """A stage that is only read.

    Attributes:
        stage: The `Usd.Stage`.
        path: Its file, None for one in memory.
        time: `Usd.TimeCode` at which it is read: the earliest.
        units: Its units.
        up_axis: "X", "Y" or "Z".
        turn: Rotation xyzw (4,) from the stage's axes to the builder's.
        place: Pose of the stage's space in the builder's world: `turn`, then what the caller asks for.
    """

    stage: "Usd.Stage"
    path: str | None
    time: "Usd.TimeCode"
    units: Units
    up_axis: str
    turn: np.ndarray
    place: Pose

    def root_matrix(self) -> np.ndarray:
        """Matrix (4, 4) from points of the stage in its units to points of the world in metres."""
        matrix = np.eye(4)
        matrix[:3, :3] = quat_matrix(self.place.q) * self.units.length
        matrix[:3, 3] = self.place.p
        return matrix


@contextmanager
def opened(source: object) -> Iterator[tuple["Usd.Stage", str | None]]:
    """Give a stage and its file for a file name, a URL or a stage; what was downloaded is removed after."""
    from pxr import Usd

    if isinstance(source, Usd.Stage):
        layer = source.GetRootLayer()
        yield source, None if layer.anonymous else (layer.realPath or layer.identifier)
        return
    if not isinstance(source, str | os.PathLike):
        raise ModelError(f"source: expected a file name, a URL or a Usd.Stage, got {type(source).__name__}")
    if is_url(source):
        with TemporaryDirectory(prefix="newtonsim_usd_") as folder:
            yield _open_file(resolve_usd_from_url(str(source), folder)), str(source)
        return
    yield _open_file(os.fspath(source)), os.fspath(source)


def _open_file(path: str) -> "Usd.Stage":
    from pxr import Tf, Usd

    if not Path(path).is_file():
        raise ImportFileError("is not a file" if Path(path).exists() else "file not found", path)
    try:
        layers = _open_layers(path)  # kept, so that the stage does not read them again
        stage = Usd.Stage.Open(path)
        del layers
        return stage
    except Tf.ErrorException as error:
        raise _described(error, path) from error
    except (RuntimeError, UnicodeDecodeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = _without_sources(lines[-1]) if lines else str(error)
        raise ImportFileError(f"cannot be read as USD: {what[:300]}", path) from error


def _open_layers(path: str) -> "dict[str, Sdf.Layer]":
    """Open a layer and those that it is composed of, by identifier; none may be a pipe, which could not end.

    Raises:
        ImportFileError: One of them is no file.
    """
    from pxr import Sdf

    known: dict[str, Sdf.Layer] = {}
    todo = [path]
    while todo:
        layer = Sdf.Layer.FindOrOpen(todo.pop())
        if layer is None or layer.identifier in known:
            continue
        known[layer.identifier] = layer
        for name in layer.GetCompositionAssetDependencies():
            found = layer.ComputeAbsolutePath(name)
            if os.path.exists(found) and not os.path.isfile(found):
                raise ImportFileError(f"{name!r} is no file", layer.realPath or path)
            todo.append(found)
    return known


@contextmanager
def faults_named(path: str | None) -> Iterator[None]:
    """Turn what the library raises at contents that make no sense into an ImportFileError with its words.

    Args:
        path: The file.
    """
    from pxr import Tf

    try:
        yield
    except Tf.ErrorException as error:
        raise _described(error, path) from error
    except UnicodeDecodeError as error:
        raise ImportFileError(f"a text of the file is not UTF-8: {error}", path) from error


def _text(part: object) -> str:
    """The text of a message, which holds what the file holds."""
    try:
        return str(part)
    except UnicodeDecodeError as error:
        return bytes(error.object).decode("utf-8", errors="replace")


def _without_sources(word: str) -> str:
    """What the library said, without where in its sources."""
    raised = _RAISED.fullmatch(word)
    return raised[1] if raised else word


def _described(error: Any, path: str | None) -> ImportFileError:
    """What the library said, with file, line and column where it gave them, and without that it failed."""
    words = [_without_sources(" ".join(_text(part).split())) for part in error.args or (error,)]
    for word in words:
        if place := _PLACE.fullmatch(word):
            file, line, column, text = place.groups()
            where = path if path is not None and os.path.abspath(path) == file else file
            return ImportFileError(f"column {column}: {text[:300]}", where, int(line))
    telling = [word for word in words if not word.startswith("Failed to open layer")] or words
    return ImportFileError(f"cannot be read as USD: {telling[0][:300]}", path)


def view_stage(
    stage: "Usd.Stage",
    path: str | None,
    xform: Sequence | wp.transform | None,
    up_vector: np.ndarray,
    faults: Faults = REFUSE,
) -> StageView:
    """Read units, up axis and time of a stage and turn its up axis to the builder's.

    Args:
        stage: The `Usd.Stage`.
        path: Its file, for messages.
        xform: Where the turned stage is put.
        up_vector: Up direction of the builder.
        faults: Meets layers, references and payloads that are missing.
    """
    from pxr import Usd, UsdGeom, UsdPhysics

    meet_composition_errors(stage, path, faults)
    units = Units(UsdGeom.GetStageMetersPerUnit(stage), UsdPhysics.GetStageKilogramsPerUnit(stage))
    for name, value in (("metersPerUnit", units.length), ("kilogramsPerUnit", units.mass)):
        if not 1.0e-12 < value < 1.0e12:
            raise ImportFileError(f"{name} is {value:g}, expected a positive number", path)
    up_axis = str(UsdGeom.GetStageUpAxis(stage)).upper()
    if up_axis not in ("X", "Y", "Z"):
        raise ImportFileError(f"upAxis is {up_axis!r}, expected 'X', 'Y' or 'Z'", path)
    up = np.asarray(up_vector, dtype=np.float64)
    turn = quat_between(np.eye(3)["XYZ".index(up_axis)], up / np.linalg.norm(up))
    place = Pose.of(xform) @ Pose(np.zeros(3), turn)
    return StageView(stage, path, Usd.TimeCode.EarliestTime(), units, up_axis, turn, place)

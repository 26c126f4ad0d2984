"""Exception types that callers can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class NewtonsimError(ValueError):
    """Base class of errors about user input."""


class ModelError(NewtonsimError):
    """The scene description is inconsistent; the message names the element by key."""


class DeviceError(NewtonsimError):
    """A requested device does not exist on this machine; the message lists the existing ones."""


class CheckError(NewtonsimError):
    """A checked step (`newtonsim.config.checked`) found an error; it names step, world and element."""


def place_in_file(path: str | None, line: int | None) -> str:
    """Return "robot.xml:12", "robot.xml", "line 12" for text without a file, or ""."""
    if path is None:
        return "" if line is None else f"line {line}"
    return path if line is None else f"{path}:{line}"


class ImportFileError(NewtonsimError):
    """A robot file cannot be read; the message names file, line and element.

    Attributes:
        message: What is wrong, without the location.
        path: The file, or None for text without a file.
        line: Line number in the file, starting at 1, or None.
        element: Name of the XML element, or None.
    """

    def __init__(
        self, message: str, path: str | None = None, line: int | None = None, element: str | None = None
    ):
        where = place_in_file(path, line)
        what = f"<{element}>: " if element else ""
        super().__init__(f"{where}: {what}{message}" if where else f"{what}{message}")
        self.message, self.path, self.line, self.element = message, path, line, element


class LimitError(ImportFileError):
    """A file is larger than `newtonsim.importers.limits` allows, or an archive; no reader repairs that."""


class OracleError(NewtonsimError):
    """The engine that a file is compared with is not installed, or refuses it; the message says which."""


class RecordingError(NewtonsimError):
    """A recording cannot be written or read; the message names the file."""


class CheckpointError(NewtonsimError):
    """A checkpoint cannot be written, read or applied; the message names the file and says why."""


class SweepError(NewtonsimError):
    """A batch of a parameter sweep could not be evaluated; the message names its candidates and says why.

    Attributes:
        batch: Number of the batch, or None if none was started.
        parameters: Parameters of the batch's candidates, by name.
        candidates: Indices of the candidates that were evaluated, shape (n,), increasing.
        results: Their results by name, shape (n, ...); empty if there are none.
    """

    def __init__(
        self,
        message: str,
        batch: int | None,
        parameters: dict[str, np.ndarray],
        candidates: np.ndarray,
        results: dict[str, np.ndarray],
    ):
        super().__init__(message)
        self.batch, self.parameters = batch, parameters
        self.candidates, self.results = candidates, results


class NotDifferentiableError(RuntimeError):
    """A gradient was requested of something that has none."""


class LaunchError(TypeError):
    """A launch does not name the parameters of its kernel; the message names kernel and parameter."""


class RendererUnavailableError(RuntimeError):
    """This machine cannot draw with OpenGL; the message says what is missing."""


class UnsupportedElementWarning(UserWarning):
    """Something in a robot file was read but is not modelled."""


class OverlapWarning(UserWarning):
    """Links of a robot overlap from the start and do not collide; the message names them."""


class InertiaWarning(UserWarning):
    """Bodies have moments of inertia that no distribution of mass has; the message names both."""


class DefaultsWarning(UserWarning):
    """A robot's file lacks what is needed, and other values take its place; the message gives them."""


class UnusedGainsWarning(UserWarning):
    """Joints have gains of drives that their mode does not use; the message names them."""


class BufferWarning(RuntimeWarning):
    """Something was left out of a step because a buffer is full; the message gives the size needed."""


class SmallTeamWarning(UserWarning):
    """A model could use larger teams of threads than a GPU supports; the message names model and limit."""


class SubstitutedEnvironmentWarning(UserWarning):
    """A counterpart replaces one of PyBullet's environments; the message says what differs."""


class IncompleteRecordingWarning(UserWarning):
    """A recording is incomplete: its writer was killed or is still running, or the file was truncated."""


def did_you_mean(name: object, choice: Iterable[str]) -> str:
    """Return a question after a misspelt name, to go at the end of a message; "" if nothing is similar."""
    nearest = difflib.get_close_matches(str(name), list(choice), n=1, cutoff=0.7)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""

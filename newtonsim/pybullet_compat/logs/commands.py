"""Logs of commands, and their replay.

The file is text: a header line, then one line of JSON for each call, (function, arguments). PyBullet instead
writes the memory of its command structures, which only the same build can read.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.pybullet_compat.clients.table import TABLE
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.surface.implementations import implementation
from newtonsim.pybullet_compat.surface.signatures import SERVED
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.regular_files import open_regular

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

HEADER = {"format": "newtonsim pybullet_compat commands", "version": 1}
_WITHOUT_EFFECT = ("get", "read", "calculate", "compute", "ray", "sync")
_NOT_LOGGED = ("startStateLogging", "stopStateLogging", "setTimeOut", "isNumpyEnabled")


class RecordingClient:
    """Takes the place of a client in the table while its commands are logged.

    Args:
        client: The client, or what stood in the table for it.
        logger: What writes the commands.
    """

    remote = True

    def __init__(self, client: Client, logger: CommandLogger):
        self.client, self._logger = client, logger

    def call(self, name: str, arguments: dict[str, object]) -> object:
        """Call a function of the API on the client and log it."""
        if self.client.remote:
            result = self.client.call(name, arguments)
        else:
            result = implementation(name)(self.client, *arguments.get("args", arguments.values()))
        if not name.startswith(_WITHOUT_EFFECT) and name not in _NOT_LOGGED:
            self._logger.write(name, arguments)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class CommandLogger:
    """Writes every call that changes the world and did not fail.

    Args:
        client: The client.
        path: The file; if it cannot be made, a warning says so.
    """

    of_world = False

    def __init__(self, client: Client, path: str):
        self._number, found = next(
            (n, entry) for n, entry in TABLE.items() if getattr(entry, "client", entry) is client
        )
        self._file = None
        try:
            self._file = open(path, "w")  # noqa: SIM115 (closed by close)
        except OSError as failure:
            warnings.warn(f"nothing is logged: {failure}", stacklevel=4)
            return
        self._file.write(json.dumps(HEADER) + "\n")
        self._entry = TABLE[self._number] = RecordingClient(found, self)

    def write(self, name: str, arguments: dict[str, object]) -> None:
        """Add a call."""
        if self._file is not None:
            given = {key: value for key, value in arguments.items() if value is not None}
            self._file.write(json.dumps([name, given], default=_plain) + "\n")

    def before_step(self, engine: Engine) -> None:
        """Do nothing."""

    def after_step(self, engine: Engine) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the file and let the client have its place in the table again."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        if TABLE.get(self._number) is self._entry:
            TABLE[self._number] = self._entry.client


def replay(client: Client, path: str) -> None:
    """Execute all calls of a file on a client.

    Args:
        client: The client.
        path: A file that a `CommandLogger` has written.

    Raises:
        error: It cannot be read, or a call of it fails; the text names its line.
    """
    try:
        with open_regular(path) as file:
            lines = file.read().decode().splitlines()
        if not lines or json.loads(lines[0]) != HEADER:
            raise ValueError("it is not a log of commands")
    except (OSError, ValueError) as failure:
        raise error(f"Cannot replay {path}: {failure}") from None
    for number, line in enumerate(lines[1:], 2):
        try:
            name, arguments = json.loads(line)
            if name not in SERVED or name in _NOT_LOGGED:
                raise ValueError(f"'{name}' cannot be replayed")
            words = arguments.pop("args", ())
            implementation(name)(client, *words, **arguments)
        except Exception as failure:
            raise error(f"Cannot replay {path}, line {number}: {failure}") from failure


def _plain(value: object) -> object:
    """Return a substitute, which JSON can encode, for a value of an unknown type."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value)

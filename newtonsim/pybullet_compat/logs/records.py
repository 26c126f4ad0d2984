"""Record files: a line of names, a line of types as the module struct writes them, then records."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

MARKER = b"\xaa\xbb"
"""Bytes in front of every record."""


class Logger(Protocol):
    """Something that startStateLogging starts.

    Attributes:
        of_world: Whether resetSimulation ends it.
    """

    of_world: bool

    def before_step(self, engine: Engine) -> None:
        """Called before every stepSimulation."""

    def after_step(self, engine: Engine) -> None:
        """Called after every stepSimulation."""

    def close(self) -> None:
        """Write the remaining records and close the file."""


class RecordFile:
    """A file of records of one shape, little-endian and without padding.

    Args:
        path: The file; if it cannot be made, a warning says so and records are dropped.
        names: Names of the numbers in a record.
        types: One letter of the module struct for each.
    """

    def __init__(self, path: str, names: Sequence[str], types: str):
        self._record = struct.Struct("<" + types)
        self._file = None
        try:
            self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        except OSError as failure:
            warnings.warn(f"nothing is logged: {failure}", stacklevel=5)
            return
        self._file.write(f"{','.join(names)}\n{types}\n".encode())

    def write(self, *values: float) -> None:
        """Add a record."""
        if self._file is not None:
            self._file.write(MARKER + self._record.pack(*values))

    def write_nothing(self) -> None:
        """Add the marker of a record without one."""
        if self._file is not None:
            self._file.write(MARKER)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class StepLogger:
    """Base of loggers that write records of the world after every step, step number and time first.

    Args:
        path: The file.
        names: Names of the numbers in a record.
        types: Their types.
    """

    of_world = True

    def __init__(self, path: str, names: Sequence[str], types: str):
        self.file = RecordFile(path, names, types)
        self.step_count, self.time = 0, 0.0

    def before_step(self, engine: Engine) -> None:
        """Do nothing."""

    def after_step(self, engine: Engine) -> None:
        """Write the records of this step."""
        self.write(engine)
        self.step_count += 1
        self.time += engine.simulator.dt

    def write(self, engine: Engine) -> None:
        """Write records."""

    def close(self) -> None:
        """Close the file."""
        self.file.close()

"""File of a sweep: the results so far, so that a study that was killed can continue."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import sqlite3
import zipfile
from types import TracebackType

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.studies.batches import Arrays, Batches

_FORMAT = "newtonsim sweep 1"


class SweepFile:
    """A SQLite database with the results of each batch, written in one transaction each.

    Table `study` has one row: format, batch size, and a SHA-256 of all parameters. Table `batches` has the
    number of a batch and its results as the bytes of an `.npz` archive, copies in the last batch left out.

    Args:
        path: The file; it is created if there is none.
        batches: The candidates; a file of other candidates is refused.

    Raises:
        NewtonsimError: The file cannot be opened, is not a file of a sweep, or belongs to another sweep.
    """

    def __init__(self, path: str | os.PathLike, batches: Batches):
        self._path, self._batches = pathlib.Path(path), batches
        try:
            self._base = sqlite3.connect(self._path)
        except sqlite3.Error as error:
            raise NewtonsimError(f"resume: {self._path}: {error}") from error
        try:
            self._begin()
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def _begin(self) -> None:
        """Write what the sweep is about, or compare with what is there."""
        own = (_FORMAT, self._batches.size, _fingerprint(self._batches))
        try:
            with self._base:
                tables = {name for (name,) in self._base.execute("SELECT name FROM sqlite_master")}
                if not tables:
                    self._base.execute("CREATE TABLE study (format TEXT, size INTEGER, parameters TEXT)")
                    self._base.execute("CREATE TABLE batches (number INTEGER PRIMARY KEY, results BLOB)")
                    self._base.execute("INSERT INTO study VALUES (?, ?, ?)", own)
                    return
                found = self._base.execute("SELECT * FROM study").fetchone() if "study" in tables else None
        except sqlite3.DatabaseError as error:
            raise NewtonsimError(f"resume: {self._path}: not the file of a sweep: {error}") from error
        if found is None or found[0] != _FORMAT:
            raise NewtonsimError(f"resume: {self._path}: not the file of a sweep")
        if found[1] != own[1]:
            raise NewtonsimError(f"resume: {self._path}: expected batches of {own[1]}, found {found[1]}")
        if found[2] != own[2]:
            raise NewtonsimError(f"resume: {self._path}: created with other parameters; choose another file")

    def read(self) -> dict[int, Arrays]:
        """Return the results of the batches that were finished.

        Raises:
            NewtonsimError: They are damaged.
        """
        try:
            return {
                int(number): dict(np.load(io.BytesIO(results), allow_pickle=False))
                for number, results in self._base.execute("SELECT number, results FROM batches")
            }
        except (sqlite3.DatabaseError, zipfile.BadZipFile, ValueError, TypeError, EOFError) as error:
            raise NewtonsimError(f"resume: {self._path}: results in it are damaged: {error}") from error

    def write(self, batch: int, results: Arrays) -> None:
        """Keep the results of a batch; after this call nothing loses them."""
        archive = io.BytesIO()
        np.savez(archive, **results)  # pyright: ignore[reportArgumentType]
        with self._base:
            self._base.execute("INSERT INTO batches VALUES (?, ?)", (batch, archive.getvalue()))


def _fingerprint(batches: Batches) -> str:
    """Return a hash of names, types, shapes and values of all parameters."""
    digest = hashlib.sha256()
    for name, values in sorted(batches.parameters.items()):
        digest.update(repr((name, values.dtype.str, values.shape)).encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()

"""Files of named arrays and facts, written completely or not at all, and read only if every byte is right.

Layout, all numbers little-endian: 8 bytes `MAGIC`; the format version, uint32; the length of the header,
uint64; the header, JSON in UTF-8 with "facts" and, by name of the array, its NumPy type, shape and place; the
bytes of the arrays, one after the other; and finally the SHA-256 of everything before it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import struct
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from newtonsim.arguments import show
from newtonsim.errors import CheckpointError
from newtonsim.regular_files import open_regular

MAGIC = b"NSIMCKPT"
VERSION = 1
_HEAD = struct.Struct("<8sIQ")
_HASH = 32
_KINDS = "biuf"
"""Kinds of NumPy types that arrays may have: neither objects nor strings."""


def write_file(path: str | os.PathLike, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a file; an existing one is replaced once the new one is complete on disk.

    Args:
        path: The file.
        facts: Values that JSON can express.
        arrays: Arrays of numbers by name.

    Raises:
        CheckpointError: It cannot be written; an existing file is left unchanged.
    """
    held = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    table, place = {}, 0
    for name, array in held.items():
        table[name] = [array.dtype.newbyteorder("<").str, list(array.shape), place]
        place += array.nbytes
    header = json.dumps({"facts": facts, "arrays": table}).encode()
    pieces = [_HEAD.pack(MAGIC, VERSION, len(header)), header]
    pieces += [array.reshape(-1).view(np.uint8).data for array in held.values()]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    write_whole(path, [*pieces, digest.digest()])


def write_whole(path: str | os.PathLike, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file under a temporary name, and rename it when it is complete on disk.

    Args:
        path: The file; an existing one is replaced.
        pieces: Its contents.

    Raises:
        CheckpointError: It cannot be written; an existing file is left unchanged.
    """
    path = _name(path)
    part = None
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "is not a regular file")  # a device would be replaced by one
        folder, name = os.path.split(os.path.abspath(path))
        descriptor, part = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        if part is not None:
            with contextlib.suppress(OSError):
                os.unlink(part)
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be written: {why}") from error


def read_file(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read facts and arrays; never more bytes than the file has.

    Args:
        path: The file.

    Raises:
        CheckpointError: It cannot be read, is not a checkpoint, has another version, or is damaged.
    """
    path = _name(path)
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) < _HEAD.size + _HASH or data[: len(MAGIC)] != MAGIC:
        raise CheckpointError(f"{path}: not a checkpoint, or truncated")
    _, version, length = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CheckpointError(f"{path}: format version {version}, but this program reads {VERSION}")
    body = memoryview(data)[:-_HASH]
    if hashlib.sha256(body).digest() != data[-_HASH:]:
        raise CheckpointError(f"{path}: the file is damaged: its hash does not match its contents")
    try:
        header = json.loads(bytes(body[_HEAD.size : _HEAD.size + length]))
        rest = body[_HEAD.size + length :]
        arrays = {name: _array(rest, *entry) for name, entry in header["arrays"].items()}
        return dict(header["facts"]), arrays
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SyntaxError) as error:
        raise CheckpointError(f"{path}: the header of the file is invalid: {error}") from error


def _array(data: memoryview, kind: str, shape: list[int], place: int) -> np.ndarray:
    dtype, count = np.dtype(kind), math.prod(shape)
    if dtype.kind not in _KINDS or place < 0 or count < 0 or place + count * dtype.itemsize > len(data):
        raise ValueError(f"an array of {kind} and shape {shape} at {place}")
    return np.frombuffer(data, dtype, count, place).reshape(shape)


def _name(path: object) -> str:
    """Return the name of a file as text, or raise a CheckpointError."""
    if not isinstance(path, str | bytes | os.PathLike):
        raise CheckpointError(f"path: expected the name of a file, got {show(path)}")
    return os.fsdecode(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

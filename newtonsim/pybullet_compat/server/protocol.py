"""Messages between clients and a physics server: calls, answers and errors in MessagePack.

A message contains only data: numbers, texts, bytes, None, tuples, dicts, and NumPy arrays of numbers as typed
binary. Nothing in it is ever executed, and its size is bounded.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import tempfile
from typing import NamedTuple

import numpy as np

from newtonsim.pybullet_compat.surface.errors import error

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
"""Largest message; connections that send more are closed."""
MAX_ELEMENTS = 1_000_000
"""Most numbers, texts, lists and so on in a call; entries of arrays do not count."""
MAX_NESTING = 32
"""Most levels of lists and dicts in a call."""
TOKEN_VARIABLE = "NEWTONSIM_SERVER_TOKEN"
"""Environment variable with the token of a server on another machine."""
HELLO = "hello"
"""Call with which a client checks that a server answers and speaks this protocol."""
MISSING = (
    "Connections to physics servers need the packages pyzmq and msgpack: pip install 'newtonsim[server]'"
)
_ARRAY = 1
_NUMBERS = "biuf"
_ERRORS = {
    kind.__name__: kind for kind in (error, TypeError, ValueError, OverflowError, SystemError, MemoryError)
}


class ProtocolError(ValueError):
    """Bytes that are not a message."""


class Call(NamedTuple):
    """What a client asks for.

    Attributes:
        number: Number that the answer repeats.
        name: Function of the API, or `HELLO`.
        arguments: Its arguments by name.
    """

    number: int
    name: str
    arguments: dict[str, object]


class Answer(NamedTuple):
    """What a server answers.

    Attributes:
        number: That of the call, -1 if it had none.
        value: What the function returned.
        failure: Name and text of the exception that it raised, None if it returned.
    """

    number: int
    value: object
    failure: tuple[str, str] | None


def load_packages() -> tuple:
    """Return the modules zmq and msgpack.

    Raises:
        error: One of them is not installed.
    """
    try:
        import msgpack
        import zmq
    except ImportError as failure:
        raise error(MISSING) from failure
    return zmq, msgpack


def socket_path(key: int) -> str:
    """Return the socket file of the server with a shared memory key, in a folder that only its user enters.

    Args:
        key: Shared memory key.

    Raises:
        OSError: The folder belongs to somebody else.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = os.path.join(tempfile.gettempdir(), f"newtonsim-servers-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid"):
        found = os.lstat(folder)
        if found.st_uid != user or found.st_mode & 0o077:
            raise PermissionError(f"{folder} must be your own folder, which nobody else can access")
    return os.path.join(folder, f"{int(key)}.ipc")


def token_path(name: str) -> str:
    """Return the file with the token of a server, beside the socket files, where only its user can read it.

    Args:
        name: "tcp-6667" for a port, "key-12347" for a shared memory key.

    Raises:
        OSError: The folder belongs to somebody else.
    """
    return os.path.join(os.path.dirname(socket_path(0)), f"{name}.token")


def write_token(name: str, token: str) -> str:
    """Write a token to the file that clients of this machine and user find; returns its name."""
    path = token_path(name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token)
    return path


def find_token(name: str | None) -> str:
    """Return the token of a server of this machine and user, or else that of the environment; "" for none."""
    other = os.environ.get(TOKEN_VARIABLE, "")
    if name is None:
        return other
    try:
        with open(token_path(name)) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return other


def listens(path: str) -> bool:
    """Return whether a server listens at a socket file.

    Args:
        path: The socket file.
    """
    if not os.path.exists(path):
        return False
    if not hasattr(socket, "AF_UNIX"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def encode(message: Call | Answer) -> bytes:
    """Return the bytes of a message.

    Args:
        message: A call or an answer.

    Raises:
        TypeError: It holds something that is no data.
        OverflowError: An integer has more than 64 bits.
        error: It is larger than `MAX_BYTES`.
    """
    _, msgpack = load_packages()
    data = msgpack.packb(tuple(message), default=_encode_other, use_bin_type=True)
    if len(data) > MAX_BYTES:
        raise error(f"A message of {len(data)} bytes is larger than {MAX_BYTES} bytes.")
    return data


def _encode_other(value: object) -> object:
    """Return a substitute, which MessagePack can encode, for a value of an unknown type."""
    _, msgpack = load_packages()
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS:
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        dtype = value.dtype.newbyteorder("<")
        content = np.ascontiguousarray(value, dtype).tobytes()
        return msgpack.ExtType(_ARRAY, msgpack.packb((dtype.str, value.shape, content)))
    if hasattr(value, "__array__"):
        return _encode_other(np.asarray(value))
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "__float__"):
        return float(value)
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return tuple(value)
    raise TypeError(f"a physics server cannot be sent a {type(value).__name__}")


def decode_call(data: bytes) -> Call:
    """Return the call in some bytes.

    Args:
        data: What came from a client.

    Raises:
        ProtocolError: It is none, or has too many elements or levels.
    """
    check_structure(data)
    match _decode(data):
        case (int(number), str(name), dict(arguments)) if all(isinstance(key, str) for key in arguments):
            return Call(number, name, arguments)
    raise ProtocolError("expected (number, name, arguments)")


def decode_answer(data: bytes) -> Answer:
    """Return the answer in some bytes.

    Args:
        data: What came from a server.

    Raises:
        ProtocolError: It is none.
    """
    match _decode(data):
        case (int(number), value, None):
            return Answer(number, value, None)
        case (int(number), value, (str(kind), str(text))):
            return Answer(number, value, (kind, text))
    raise ProtocolError("expected (number, value, failure)")


def check_structure(data: bytes, elements: int = MAX_ELEMENTS, nesting: int = MAX_NESTING) -> None:
    """Check the size and nesting of an encoded message, byte by byte, before it is decoded.

    Args:
        data: The message.
        elements: Most elements.
        nesting: Most levels of lists and dicts.

    Raises:
        ProtocolError: It has more, or ends too early.
    """
    place, count, size, left = 0, 0, len(data), [1]
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        count += 1
        if place >= size:
            raise ProtocolError("not a message: it is truncated")
        head = data[place]
        length, width, items = _HEADS[head]
        place += 1
        if width:
            number = int.from_bytes(data[place : place + width], "big")
            length, items = (length, items * number) if items else (length + number, 0)
            place += width
        place += length
        if items:
            left.append(items)
        if count + items > elements:
            raise ProtocolError(f"not a message: more than {elements} elements")
        if len(left) > nesting + 1:
            raise ProtocolError(f"not a message: lists or dicts nested more than {nesting} deep")


def _heads() -> list[tuple[int, int, int]]:
    """What follows each first byte: bytes of content, bytes of a length, items (of a length) of a list."""
    heads = [(0, 0, 0)] * 256
    for n in range(16):
        heads[0x80 + n], heads[0x90 + n] = (0, 0, 2 * n), (0, 0, n)
    for n in range(32):
        heads[0xA0 + n] = (n, 0, 0)
    for n, width in enumerate((1, 2, 4)):
        heads[0xC4 + n] = heads[0xD9 + n] = (0, width, 0)  # bytes, texts
        heads[0xC7 + n] = (1, width, 0)  # extensions with a type
    for code, length in zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)):
        heads[code] = (length, 0, 0)
    for n in range(5):
        heads[0xD4 + n] = (1 + 2**n, 0, 0)
    heads[0xDC], heads[0xDD] = (0, 2, 1), (0, 4, 1)
    heads[0xDE], heads[0xDF] = (0, 2, 2), (0, 4, 2)
    return heads


_HEADS = _heads()


def _decode(data: bytes) -> object:
    _, msgpack = load_packages()
    bounds = {"use_list": False, "raw": False, "max_ext_len": MAX_BYTES}
    try:
        return msgpack.unpackb(data, strict_map_key=False, ext_hook=_decode_other, **bounds)
    except Exception as failure:  # the documentation does not list all exceptions that invalid data can raise
        raise ProtocolError(f"not a message: {type(failure).__name__}: {failure}") from failure


def _decode_other(code: int, data: bytes) -> np.ndarray:
    """Return the array in an extension of MessagePack."""
    _, msgpack = load_packages()
    if code != _ARRAY:
        raise ProtocolError(f"unknown extension {code}")
    check_structure(data, 64, 2)
    match msgpack.unpackb(data, use_list=False, raw=False, max_ext_len=0):
        case (str(kind), tuple(shape), bytes(content)):
            dtype = np.dtype(kind) if len(kind) == 3 else None
            sizes = all(type(n) is int and 0 <= n < 1 << 32 for n in shape)
            if dtype is not None and dtype.kind in _NUMBERS and sizes and len(shape) <= 32:
                if dtype.itemsize * math.prod(shape) == len(content):
                    return np.frombuffer(content, dtype).reshape(shape).copy()
    raise ProtocolError("no array")


def describe_failure(failure: BaseException) -> tuple[str, str]:
    """Return name and text of an exception as answers hold them."""
    kind = type(failure).__name__
    return (kind, str(failure)) if kind in _ERRORS else ("error", f"{kind}: {failure}")


def make_failure(failure: tuple[str, str]) -> Exception:
    """Return the exception that an answer holds."""
    kind, text = failure
    return _ERRORS.get(kind, error)(text)

"""Opening files of others: only what has an end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Open a file to read its bytes; a pipe or a device, which may have no end, is refused at once.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(error), name) from error
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "is not a regular file", name)

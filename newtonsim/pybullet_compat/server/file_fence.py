"""One folder in which calls of a server's clients may open files.

Python reports each file that it opens to audit hooks (PEP 578): the fence checks the files that the thread of
a call opens while it answers. Outside the folder, it permits the files that the program itself needs: its
packages with their data, and the cache of kernels, which is also written.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import warp as wp

import newtonsim

_CHANGES = {
    f"os.{name}" for name in ("remove", "rename", "mkdir", "rmdir", "link", "symlink", "chmod", "truncate")
}
_READS = {"os.listdir", "os.scandir", "os.chdir"}
_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = ("/dev/null", "/dev/urandom", "/proc/self")


class FileFence:
    """Keeps a thread from files outside a folder, from when it is entered until it is left.

    Args:
        folder: The folder.

    Raises:
        NotADirectoryError: There is no such folder.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = os.path.realpath(folder)
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(f"{folder}: there is no such folder")
        cache = os.path.realpath(wp.config.kernel_cache_dir or os.path.expanduser("~/.cache/warp"))
        packages = [*newtonsim.__path__, sys.prefix, sys.base_prefix]
        packages += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        self._written = (self.folder, cache)
        self._read = (*self._written, *map(os.path.realpath, packages), *_DEVICES)
        self._state = threading.local()
        sys.addaudithook(self._look)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Context in which this thread stays inside."""
        self._state.closed = True
        try:
            yield
        finally:
            self._state.closed = False

    def _look(self, event: str, arguments: tuple) -> None:
        """See `sys.addaudithook`; hooks cannot be removed, and outside calls this one does little."""
        if not getattr(self._state, "closed", False):
            return
        if event == "open":
            path, _, flags = arguments
            self._check(path, bool(flags & _WRITE))
        elif event in _CHANGES:
            for path in arguments[:2]:
                self._check(path, True)
        elif event in _READS:
            self._check(arguments[0], False)
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            raise PermissionError("this server does not start programs for its clients")

    def _check(self, path: object, writes: bool) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a file that is open, or flags
        found = os.path.realpath(os.fsdecode(path))
        roots = self._written if writes else self._read
        if not any(found == root or found.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
            what = "write to" if writes else "read"
            raise PermissionError(
                f"this server's clients may not {what} {found}, only files in {self.folder}"
            )

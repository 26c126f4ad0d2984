"""Locks between processes that compile into the same kernel cache, so that each module is compiled once.

Workers of a training or of a test run start together, and need the same kernels. A lock is a file in the
kernel cache, which the system releases when its process ends in whatever way. Where files cannot be locked,
each process compiles for itself, as Warp does.
"""

from __future__ import annotations

import contextlib
import os
from types import TracebackType

import warp as wp

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class CompileLock:
    """The right to compile a module; to be released by `release`, or at the end of a `with` statement.

    Args:
        identifier: The module with its options, as Warp calls its folder in the kernel cache.
    """

    def __init__(self, identifier: str):
        self._identifier = identifier
        self._file: int | None = None

    def acquire(self, wait: bool) -> bool:
        """Take the lock.

        Args:
            wait: Whether to wait while another process holds it.

        Returns:
            Whether this process may compile now: not while another one does, and `wait` is False.
        """
        if fcntl is None:
            return True
        wp.init()  # which finds the folder of the cache
        # the name is one that `wp.clear_kernel_cache` clears
        folder = os.path.join(str(wp.config.kernel_cache_dir), "wp_newtonsim_locks")
        try:
            os.makedirs(folder, exist_ok=True)
            self._file = os.open(os.path.join(folder, self._identifier), os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            self.release()
            return False
        except OSError:  # some file systems have no locks
            self.release()
        return True

    def release(self) -> None:
        """Let others take the lock; they find the module in the cache then."""
        if self._file is not None:
            # a child that was forked meanwhile has the file open, too, and would keep the lock
            if fcntl is not None:
                with contextlib.suppress(OSError):
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> CompileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

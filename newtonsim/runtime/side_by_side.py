"""Threads that share replays of several ranges of worlds."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait


class SideBySide:
    """Makes replays, each by one of a number of threads, the caller's among them.

    Args:
        threads: Number of threads.
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def __call__(self, replays: Iterable[Callable[[int], None]], n: int) -> None:
        """Make each replay n times; the threads take one after the other until none is left."""
        waiting = deque(replays)
        if self._threads == 1:
            _replay_waiting(waiting, n)
            return
        pool = self._helpers()
        others = [pool.submit(_replay_waiting, waiting, n) for _ in range(self._threads - 1)]
        try:
            _replay_waiting(waiting, n)
        finally:
            # after an exception, what was not begun is left
            waiting.clear()
            wait(others)
        for other in others:
            other.result()

    def _helpers(self) -> ThreadPoolExecutor:
        """The other threads, started when first needed; a forked process has none of its parent's."""
        if self._pool is None or self._pool_process != os.getpid():
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="newtonsim")
            self._pool_process = os.getpid()
        return self._pool


def _replay_waiting(waiting: deque[Callable[[int], None]], n: int) -> None:
    """Take replays until none is left, and make each n times."""
    while True:
        try:
            replay = waiting.popleft()
        except IndexError:
            return
        replay(n)

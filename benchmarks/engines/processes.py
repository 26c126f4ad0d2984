"""Work in a process of its own: some files crash the engine that reads them, or keep it busy for ever."""

from __future__ import annotations

import multiprocessing
import queue
import resource
import time
from collections.abc import Callable
from typing import Any


def answer_of(work: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return what a function returns, None if its process ends without a word or takes too long.

    Args:
        work: The function; what it returns is pickled.
        arguments: Its arguments.
        seconds: Longest time of the processor, so that a busy machine changes nothing [s].
    """
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    worker = context.Process(target=_work, args=(answers, seconds, work, arguments))
    worker.start()
    end = time.monotonic() + 10.0 * seconds
    try:
        while time.monotonic() < end:
            alive = worker.is_alive()
            try:
                return answers.get(timeout=1.0)
            except queue.Empty:
                if not alive:
                    return None
        return None
    finally:
        worker.kill()
        worker.join()


def _work(answers: Any, seconds: float, work: Callable, arguments: tuple) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    answers.put(work(*arguments))

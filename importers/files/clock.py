"""How long reading takes: a bound that is looked at between elements, bodies and meshes of a file."""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from newtonsim.errors import LimitError
from newtonsim.importers.files.limits import limits

CHECK_EVERY = 64
"""Elements, lines or cells between two looks at the clock."""

_START: ContextVar[float | None] = ContextVar("start of reading", default=None)


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """Bound what is read inside to `limits.seconds`; what another reader reads on the way is part of that."""
    token = _START.set(time.monotonic()) if _START.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _START.reset(token)


def is_late() -> bool:
    """Whether reading takes longer than `limits.seconds` already."""
    start = _START.get()
    return start is not None and time.monotonic() - start > limits.seconds


def check_time(path: str | None = None, line: int | None = None, element: str | None = None) -> None:
    """Raise if reading takes too long already; call it wherever a file decides how often something is done.

    Args:
        path: File that is being read.
        line: Where in it.
        element: What is read there.

    Raises:
        LimitError: `limits.seconds` have passed since the outermost reader began.
    """
    if is_late():
        raise LimitError(f"reading takes longer than the limit of {limits.seconds:g} s", path, line, element)

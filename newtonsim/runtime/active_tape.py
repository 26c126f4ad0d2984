"""The tape that records now.

Warp has no public question for this; this is the only place that asks the private one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import warp as wp


def active_tape() -> wp.Tape | None:
    """Return the tape that records now."""
    runtime: Any = wp._src.context.runtime  # pyright: ignore[reportAttributeAccessIssue]
    return runtime.tape if runtime is not None else None


@contextlib.contextmanager
def without_tape() -> Iterator[None]:
    """Let no tape record meanwhile, in any thread.

    Warp's timers write to the list of scopes of the tape that records, whichever thread they run in, and
    fail where two threads do so at once.
    """
    runtime: Any = wp._src.context.runtime  # pyright: ignore[reportAttributeAccessIssue]
    tape = active_tape()
    if tape is None:
        yield
        return
    runtime.tape = None
    try:
        yield
    finally:
        runtime.tape = tape

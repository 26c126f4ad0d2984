"""Reading without pauses of Python's garbage collector."""

import contextlib
import gc
from collections.abc import Iterator

MANY = 20_000
"""Number of new objects up to which it takes no time to walk over them."""


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Keep the collector of cycles from running: it would walk again and again over what is being read.

    Records of a file are many and stay alive; of 20,000 links a fifth of the time went into looking for
    cycles among them. What counts references goes on, and so does the collector afterwards.
    """
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if ran:
            if gc.get_count()[0] > MANY:
                _take_as_old()
            gc.enable()


def _take_as_old() -> None:
    """Have what was read walked over in the next full collection, not at once as if it were all new."""
    # else the program has reasons of its own to keep objects aside; this counts them one by one
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()

"""Counting assignments, so that a captured graph knows when it is out of date."""

from __future__ import annotations

import warp as wp

_PLAIN = (bool, int, float, str, type(None))


class Revised:
    """Base of classes whose arrays and plain numbers are baked into captured graphs.

    Attributes:
        revision: How often an attribute was replaced by something that a graph has to be captured anew for.
            Elements of arrays may change without; host data such as lists and NumPy arrays never get into a
            graph.
    """

    revision = 0

    def __setattr__(self, name: str, value: object) -> None:
        held = self.__dict__
        before = held.get(name)
        object.__setattr__(self, name, value)
        # properties keep what they are given in an attribute of their own
        if value is before or name not in held or not isinstance(value, (wp.array, *_PLAIN)):
            return
        if isinstance(before, _PLAIN) and isinstance(value, _PLAIN) and before == value:
            return
        held["revision"] = self.revision + 1

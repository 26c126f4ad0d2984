"""Counting assignments, so that a captured graph knows when it is out of date."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

import warp as wp

from newtonsim.scene.contiguity import check_contiguous
from newtonsim.scene.replacement import check_replacement

_PLAIN = (bool, int, float, str, type(None))
_numbers = count(1)

latest = [0]
"""Number of the latest change of any `Revised` object in the process, different from all earlier ones. While
it is unchanged, so is every revision: one comparison instead of one per object.
"""


def note_change() -> None:
    """Count a change of something that is not `Revised`."""
    latest[0] = next(_numbers)


class Revised:
    """Base of classes whose arrays and plain numbers become part of captured graphs.

    Attributes:
        revision: Number of times that an attribute was replaced such that a graph must be captured again.
            Changing the elements of arrays does not count; host data such as lists and NumPy arrays are never
            part of a graph.
    """

    revision = 0

    def __setattr__(self, name: str, value: object) -> None:
        check_contiguous(f"{type(self).__name__}.{name}", value)
        held = self.__dict__
        if name not in held:
            # no graph has seen it; properties keep what they are given in an attribute of their own
            object.__setattr__(self, name, value)
            return
        before = held[name]
        object.__setattr__(self, name, value)
        baked = isinstance(value, _PLAIN) or hasattr(value, "__ctype__")  # arrays and structs have one
        if value is before or not baked:
            return
        if isinstance(before, _PLAIN) and isinstance(value, _PLAIN) and before == value:
            return
        held["revision"] = self.revision + 1
        note_change()


def counted(struct: Any) -> Any:
    """Return a new instance of a struct whose assignments `latest` counts.

    Args:
        struct: The struct, a `wp.Struct`.
    """
    return _counted_type(struct)()


class CountedStruct:
    """Base of the structs that `counted` makes."""

    def __setattr__(self, name: str, value: object) -> None:
        check_contiguous(name, value)
        before = getattr(self, name, None)
        if isinstance(before, wp.array) and before.size:
            check_replacement(name, before, value)
        super().__setattr__(name, value)
        latest[0] = next(_numbers)


@cache
def _counted_type(struct: Any) -> type:
    return type(f"Counted{struct.key}", (CountedStruct, struct.instance_type), {})

"""Views that kernels read from the device's memory instead of from their arguments.

A kernel that hands a view on by reference, to functions that are not inlined, has it copied onto the stack of
each of its threads: some 10 kB for all that the constraint solve knows. A parameter of the type
`wp.array(dtype=View)` takes such a view as well; what the kernel gets is an array of one view that stays on
the device for as long as the view has the same arrays and numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp

from newtonsim.runtime.arguments import Kernel


def resident_views(kernel: Kernel, arguments: Sequence[object], device: wp.Device) -> Sequence[object]:
    """Return the arguments of a kernel, with views as arrays of one where it takes these.

    Memory is allocated when a view is new or has changed, which must not be while something is captured.

    Args:
        kernel: The kernel; its first parameter is none of the arguments.
        arguments: All others, in order.
        device: Where the kernel runs.
    """
    places = _places(kernel)
    if not places:
        return arguments
    found = list(arguments)
    for place in places:
        if not isinstance(found[place], wp.array):
            found[place] = _resident(found[place], device)
    return found


_residents: weakref.WeakKeyDictionary[Any, dict[bytes, wp.array]] = weakref.WeakKeyDictionary()
"""By view: the arrays on the device by the content that it had; graphs that were captured use old ones."""


def keep_on_device(device: wp.Device, *views: Any) -> None:
    """Put views on a device before they are needed there, as by the first step that is captured."""
    for view in views:
        _resident(view, device)


def _resident(view: Any, device: wp.Device) -> wp.array:
    content = bytes(memoryview(view.__ctype__()))
    arrays = _residents.setdefault(view, {})
    if content not in arrays:
        array = _on_device(view, content, device)
        array.pointed_to = _arrays_of(view)  # which may be replaced in the view
        arrays[content] = array
    return arrays[content]


def _on_device(view: Any, content: bytes, device: wp.Device) -> Any:
    """An array of one view."""
    if device.is_cpu:
        # memory of NumPy, since Warp's would be part of what another thread may be capturing
        memory = np.frombuffer(content, np.uint8).copy()
        array: Any = wp.array(ptr=memory.ctypes.data, dtype=view._cls, shape=1, device=device)
        array.memory = memory
        return array
    if device.is_capturing:
        raise RuntimeError(f"{view._cls.key} has changed since kernels were loaded for a capture")
    return wp.array([view], dtype=view._cls, device=device)


def _arrays_of(view: Any) -> list[wp.array]:
    arrays = []
    for value in vars(view).values():
        if isinstance(value, wp.array):
            arrays.append(value)
        elif hasattr(value, "__ctype__"):
            arrays += _arrays_of(value)
    return arrays


@lru_cache(maxsize=4096)
def _places(kernel: Kernel) -> tuple[int, ...]:
    """Which arguments, the first one aside, are arrays of views."""
    types = [argument.type for argument in kernel.adj.args[1:]]
    structs = [getattr(kind, "dtype", None) for kind in types]
    return tuple(i for i, struct in enumerate(structs) if hasattr(struct, "cls"))

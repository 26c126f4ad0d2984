"""Copies of everything that steps leave in a solver and a state: restore them to replay bit for bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import warp as wp

_LEAVES = (str, bytes, int, float, bool, type(None), np.ndarray)
_FOLLOWED = ("newtonsim", "mujoco_warp")
"""Packages whose objects are searched."""

HostValues = dict[str, Any]
"""Plain values and NumPy arrays that an object keeps on the host, by name."""


class HostMemory(Protocol):
    """An object that keeps values on the host which the next step, or a query about the last one, reads."""

    def host_memory(self) -> HostValues:
        """Return these values; arrays are copied."""
        ...

    def recall(self, memory: HostValues) -> None:
        """Put these values back."""
        ...


CopyMaker = Callable[[list[tuple[wp.array, wp.array]]], Callable[[], None]]
"""Makes a function that copies the second array of each pair to the first."""


class Snapshot:
    """The contents of all arrays in objects and all their parts, and what the parts keep on the host.

    Attributes and items of objects, lists, dicts and struct views are followed, except the attributes that a
    class names in `references`, which refer to objects owned by others. An array that is found twice is
    copied once. Arrays stay where they are in memory, so that captured graphs remain valid.

    Args:
        *owners: Objects to search.
        skip: Objects that are not searched, such as the model.
        copying: What makes a function that copies contiguous arrays of the CPU, of pairs (target, source);
            None copies one after the other.
    """

    def __init__(self, *owners: object, skip: tuple[object, ...] = (), copying: CopyMaker | None = None):
        found = distinct_arrays(find_places(*owners, skip=skip))
        self._saved = [(array, wp.clone(array, requires_grad=False)) for array in found.values()]
        self._host = [(item, item.host_memory()) for _, item in find_hosts(*owners, skip=skip)]
        # on the CPU as NumPy arrays of the same memory, whose copies take a tenth of the time
        here = [pair for pair in self._saved if _is_on_cpu(pair[0])]
        alike = [pair for pair in here if copying is not None and pair[0].is_contiguous]
        self._copy_alike = copying(alike) if copying is not None else None
        others = here if copying is None else [pair for pair in here if not pair[0].is_contiguous]
        self._on_host = [(target.numpy(), source.numpy()) for target, source in others]
        self._elsewhere = [pair for pair in self._saved if not _is_on_cpu(pair[0])]

    def restore(self) -> None:
        """Write the contents back."""
        for item, memory in self._host:
            item.recall(memory)
        if self._copy_alike is not None:
            self._copy_alike()
        for values, copy in self._on_host:
            np.copyto(values, copy)
        for array, copy in self._elsewhere:
            wp.copy(array, copy)

    @property
    def size(self) -> int:
        """Bytes of the copies."""
        return sum(copy.capacity for _, copy in self._saved)


Place = tuple[int | str, ...]
"""The path to a part, by names and indices."""


def _is_on_cpu(array: wp.array) -> bool:
    return array.device is not None and array.device.is_cpu


def find_arrays(*owners: object, skip: tuple[object, ...] = ()) -> Iterator[wp.array]:
    """Find the arrays in objects of this package and in all their parts.

    Args:
        *owners: Objects to search.
        skip: Objects that are not searched.
    """
    return (array for _, array in find_places(*owners, skip=skip))


def find_places(*owners: object, skip: tuple[object, ...] = ()) -> Iterator[tuple[Place, wp.array]]:
    """Find arrays and their paths; objects that are built alike have equal paths.

    Args:
        *owners: Objects to search.
        skip: Objects that are not searched.

    Returns:
        The shortest path to each array, by names and indices, and the array.
    """
    return ((place, part) for place, part in _find_parts(owners, skip) if isinstance(part, wp.array))


def find_hosts(*owners: object, skip: tuple[object, ...] = ()) -> Iterator[tuple[Place, HostMemory]]:
    """Find the objects that keep values on the host, in the same way."""
    return ((place, part) for place, part in _find_parts(owners, skip) if hasattr(part, "host_memory"))


def distinct_arrays(places: Iterable[tuple[Place, wp.array]]) -> dict[Place, wp.array]:
    """Return arrays that do not share memory: of those that start at the same address, the longest."""
    longest: dict[int, tuple[Place, wp.array]] = {}
    for place, array in places:
        if array.ptr and (array.ptr not in longest or array.capacity > longest[array.ptr][1].capacity):
            longest[array.ptr] = (place, array)
    return dict(longest.values())


def _find_parts(owners: tuple[object, ...], skip: tuple[object, ...]) -> Iterator[tuple[Place, Any]]:
    """Yield arrays and objects, the nearest first."""
    seen = {id(item) for item in skip}
    waiting: deque[tuple[Place, object]] = deque(((n,), owner) for n, owner in enumerate(owners))
    while waiting:
        place, item = waiting.popleft()
        if isinstance(item, _LEAVES) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, wp.array):
            yield place, item
        elif isinstance(item, (list, tuple)):
            waiting.extend(((*place, n), part) for n, part in enumerate(item))
        elif isinstance(item, Mapping):  # of weak references, too
            named = ((key if isinstance(key, str) else n, item[key]) for n, key in enumerate(item))
            waiting.extend(((*place, name), part) for name, part in named)
        elif (struct := getattr(item, "_cls", None)) is not None:  # views of Warp structs
            waiting.extend(((*place, name), getattr(item, name)) for name in struct.vars)
        elif type(item).__module__.startswith(_FOLLOWED) and hasattr(item, "__dict__"):
            yield place, item
            others = getattr(type(item), "references", ())
            waiting.extend(((*place, name), part) for name, part in vars(item).items() if name not in others)


def bytes_of(arrays: Iterable[wp.array], apart_from: Iterable[wp.array] = ()) -> int:
    """Return the memory that arrays and their gradients take, each byte counted once.

    Args:
        arrays: The arrays; some may be parts of others.
        apart_from: Arrays whose memory is not counted.
    """
    others = {a.ptr for array in apart_from for a in (array, array.grad) if a is not None}
    pieces = sorted(
        (a.ptr, a.ptr + a.size * wp.types.type_size_in_bytes(a.dtype))
        for array in arrays
        for a in (array, array.grad)
        if a is not None and a.ptr and a.ptr not in others
    )
    total = end = 0
    for start, stop in pieces:
        total += max(stop - max(start, end), 0)
        end = max(end, stop)
    return total

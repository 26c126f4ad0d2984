"""Lists that keep copies of a builder packed until an item is accessed.

Thousands of worlds are copies of one robot. As Python objects, their items would cost far more time and
memory than the model itself, and `finalize` needs arrays anyway. So a builder's lists store what
`add_builder` and `replicate` append as blocks, and convert a block to items when one of its items is read or
written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, MutableSequence, MutableSet, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.scene.arrays import ArraySpec

INTEGER_TYPES = (wp.int32, wp.uint32, wp.uint8)

_SHAPE_OF_TYPE = {
    wp.vec3: (3,),
    wp.transform: (7,),
    wp.spatial_vector: (6,),
    wp.mat22: (2, 2),
    wp.mat33: (3, 3),
}
_HOST_TYPE = {wp.int32: np.int32, wp.uint32: np.uint32, wp.uint8: np.uint8}


MOST_ITEMS = 2**31 - 1
"""How many items a list may have: kernels count with 32 bits."""


def check_count(what: str, count: int) -> None:
    """Raise ModelError if more is asked for than kernels can count, before there is an attempt to make it."""
    if count > MOST_ITEMS:
        raise ModelError(f"{what}: {count} items of a kind, expected at most {MOST_ITEMS}")


def element_shape(spec: ArraySpec) -> tuple[int, ...]:
    """Return the shape of one list item."""
    if spec.columns:
        return (spec.columns,)
    return _SHAPE_OF_TYPE.get(spec.dtype, ())


def to_list(spec: ArraySpec, array: np.ndarray) -> list:
    """Convert an array to list items of the type that the builder keeps.

    Vectors and transforms become Warp values that share one block of memory, without one call per item.
    """
    if spec.dtype is wp.mat33:
        return list(np.array(array, np.float64))
    if spec.dtype in (wp.vec3, wp.transform, wp.spatial_vector, wp.mat22):
        block: Any = np.ascontiguousarray(array, np.float32)
        return list((spec.dtype * len(block)).from_buffer_copy(block)) if len(block) else []
    if spec.columns:
        return list(map(tuple, array.tolist()))
    return array.tolist()


def to_array(spec: ArraySpec, values: Column | list) -> np.ndarray:
    """Convert a list of the builder to an array of the model's type.

    Raises:
        ModelError: An item has the wrong shape or is not a number.
    """
    parts = values.parts() if isinstance(values, Column) else [values]
    arrays = [_part_array(spec, part) for part in parts if len(part)]
    if len(arrays) == 1:
        return arrays[0]
    empty = np.zeros((0, *element_shape(spec)), _HOST_TYPE.get(spec.dtype, np.float32))
    return np.concatenate(arrays) if arrays else empty


def _part_array(spec: ArraySpec, part: list | np.ndarray | Tiles) -> np.ndarray:
    """Return one part as a new array of the model's type."""
    if isinstance(part, Tiles):
        block = _part_array(spec, part.block)
        return np.tile(block, (part.copies, *[1] * (block.ndim - 1)))
    shape = element_shape(spec)
    host_type = _HOST_TYPE.get(spec.dtype, np.float32)
    if isinstance(part, np.ndarray):
        return part.astype(host_type).reshape(len(part), *shape)
    block = _packed(spec, part)
    if block is not None:
        return block.reshape(len(part), *shape)
    try:
        if spec.dtype in INTEGER_TYPES:
            return np.array(part, np.int64).reshape(len(part), *shape).astype(host_type)
        return np.array(part, host_type).reshape(len(part), *shape)
    except (TypeError, ValueError, OverflowError) as error:
        expected = "numbers" if not shape else f"items of shape {shape}"
        raise ModelError(f"{spec.name}: expected {expected}: {error}") from error


def _packed(spec: ArraySpec, values: list) -> np.ndarray | None:
    """Join Warp vectors byte by byte (five times faster than `np.array`); None for mixed items."""
    if spec.dtype not in _SHAPE_OF_TYPE or set(map(type, values)) != {spec.dtype}:
        return None
    return np.frombuffer(b"".join(values), np.float32).copy()


@dataclass(frozen=True)
class Tiles:
    """Items that repeat: `block`, a list of items that cannot change or an array of them, `copies` times."""

    block: list | np.ndarray
    copies: int

    def __len__(self) -> int:
        return len(self.block) * self.copies


class Column(MutableSequence[Any]):
    """A list of the builder; the module's docstring says how it differs from `list`.

    Args:
        spec: What the items are.
        items: The first items.
    """

    __slots__ = ("_blocks", "_packed_count", "_tail", "spec")

    def __init__(self, spec: ArraySpec, items: Iterable = ()):
        self.spec = spec
        self._blocks: list[list | np.ndarray | Tiles] = []  # never changed in place: copies share them
        self._packed_count = 0
        self._tail: list = list(items)

    def parts(self) -> list[list | np.ndarray | Tiles]:
        """Return the lists, arrays and tiles that make up the column, for reading only."""
        return [*self._blocks, self._tail]

    def append_block(self, block: list | np.ndarray | Tiles) -> None:
        """Append items at once; an array or `Tiles` stays packed and must not be changed afterwards."""
        if not len(block):
            return
        if isinstance(block, list):
            self._tail.extend(block)
            return
        if self._tail:
            self._blocks.append(self._tail)
            self._packed_count += len(self._tail)
            self._tail = []
        self._blocks.append(block)
        self._packed_count += len(block)

    def copy(self) -> Column:
        """Return an independent column with the same items."""
        twin = Column(self.spec, self._tail)
        twin._blocks = self._blocks.copy()
        twin._packed_count = self._packed_count
        return twin

    def __deepcopy__(self, memo: dict) -> Column:
        twin = self.copy()
        twin._blocks = [copy.deepcopy(b, memo) if isinstance(b, list) else b for b in self._blocks]
        twin._tail = copy.deepcopy(self._tail, memo)
        return twin

    def items(self) -> list:
        """Return the column's own list of all items; changes to it show in the column."""
        if self._blocks:
            self._tail = list(chain.from_iterable(map(self._items_of, self.parts())))
            self._blocks, self._packed_count = [], 0
        return self._tail

    def _items_of(self, part: list | np.ndarray | Tiles) -> list:
        if isinstance(part, list):
            return part
        if isinstance(part, np.ndarray):
            return to_list(self.spec, part)
        if isinstance(part.block, list):
            return part.block * part.copies
        return to_list(self.spec, np.tile(part.block, (part.copies, *[1] * (part.block.ndim - 1))))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the items as an array, without unpacking blocks that are arrays."""
        if copy is False:
            raise ValueError("a list must be copied to become an array")
        arrays = [self._numbers(part) for part in self.parts() if len(part)]
        if not arrays:
            return np.zeros(0, dtype)
        return np.concatenate([np.asarray(array, dtype) for array in arrays])

    def _numbers(self, part: list | np.ndarray | Tiles) -> np.ndarray:
        if isinstance(part, Tiles):
            block = self._numbers(part.block)
            return np.tile(block, (part.copies, *[1] * (block.ndim - 1)))
        packed = _packed(self.spec, part) if isinstance(part, list) else None
        return np.array(part) if packed is None else packed.reshape(len(part), *element_shape(self.spec))

    def __len__(self) -> int:
        return self._packed_count + len(self._tail)

    def _local(self, index: Any) -> Any:
        """Return the position in `_tail` of an index; packed items are unpacked first if it reaches them."""
        if not self._blocks:
            return index
        if isinstance(index, slice):
            first, _, step = index.indices(len(self))
            if step > 0 and first >= self._packed_count:
                start, stop, _ = index.indices(len(self))
                return slice(start - self._packed_count, max(stop - self._packed_count, 0), step)
        else:
            place = index + len(self) if index < 0 else index
            if place >= self._packed_count:
                return place - self._packed_count
        self.items()
        return index

    def __getitem__(self, index: Any) -> Any:
        local = self._local(index)
        return self._tail[local]

    def __setitem__(self, index: Any, value: Any) -> None:
        local = self._local(index)
        self._tail[local] = value

    def __delitem__(self, index: Any) -> None:
        local = self._local(index)
        del self._tail[local]

    def insert(self, index: int, value: Any) -> None:
        """Insert an item before a place."""
        self.items().insert(index, value)

    def append(self, value: Any) -> None:
        """Append an item."""
        self._tail.append(value)

    def extend(self, values: Iterable) -> None:
        """Append items."""
        self._tail.extend(values)

    def sort(self, **options: Any) -> None:
        """Sort the items, as `list.sort` does."""
        self.items().sort(**options)

    def __iter__(self) -> Iterator:
        return iter(self.items())

    def __contains__(self, value: object) -> bool:
        return value in self.items()

    def index(self, value: Any, *bounds: int) -> int:
        """Return the place of the first item that equals a value."""
        return self.items().index(value, *bounds)

    def __eq__(self, other: object) -> bool:
        return self.items() == (other.items() if isinstance(other, Column) else other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable) -> list:
        return self.items() + list(other)

    def __radd__(self, other: list) -> list:
        return other + self.items()

    def __mul__(self, times: int) -> list:
        return self.items() * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self.items())


def distinct(values: Column | Sequence) -> tuple[list, np.ndarray]:
    """Return the distinct objects among references, and the index of each item's object.

    Args:
        values: References, such as the sources of shapes.

    Returns:
        The objects in order of first occurrence, and the index of each value's object, shape (len(values),).
    """
    known: dict[int, int] = {}
    objects: list = []

    def numbers(items: Sequence | np.ndarray) -> np.ndarray:
        for item in items:
            if id(item) not in known:
                known[id(item)] = len(objects)
                objects.append(item)
        return np.fromiter((known[id(item)] for item in items), np.int64, len(items))

    parts = values.parts() if isinstance(values, Column) else [values]
    places = [
        np.tile(numbers(part.block), part.copies) if isinstance(part, Tiles) else numbers(part)
        for part in parts
    ]
    return objects, np.concatenate(places)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `np.unique` finds along the first axis; NumPy compares rows as records, which is slow.

    Args:
        rows: Finite numbers (n, k).

    Returns:
        The first place of each distinct row (d,), with the rows in ascending order, and which of these each
        row is (n,).
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    starts = np.ones(len(rows), bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(rows), np.int64)
    number[order] = np.cumsum(starts) - 1
    return order[starts], number


class PairSet(MutableSet[tuple[int, int]]):
    """A set of pairs of shapes, which keeps the pairs of copies packed until one is accessed."""

    __slots__ = ("_blocks", "_pairs")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()):
        self._pairs: set[tuple[int, int]] = set(pairs)
        self._blocks: list[np.ndarray] = []

    def append_block(self, pairs: np.ndarray) -> None:
        """Add many pairs (n, 2), which must not be changed afterwards."""
        self._blocks.append(pairs)

    def array(self) -> np.ndarray:
        """Return the pairs (n, 2) in any order; a pair may occur more than once."""
        own = np.array(list(self._pairs), np.int64).reshape(-1, 2)
        return np.concatenate([own, *self._blocks])

    def copy(self) -> PairSet:
        """Return an independent set with the same pairs."""
        twin = PairSet(self._pairs)
        twin._blocks = self._blocks.copy()
        return twin

    def items(self) -> set[tuple[int, int]]:
        """Return the internal set of all pairs; changes to it show here."""
        for block in self._blocks:
            self._pairs.update(zip(*block.T.tolist()))
        self._blocks = []
        return self._pairs

    def add(self, value: tuple[int, int]) -> None:
        """Add a pair."""
        self._pairs.add(value)

    def update(self, *others: Iterable[tuple[int, int]]) -> None:
        """Add pairs."""
        self._pairs.update(*others)

    def discard(self, value: tuple[int, int]) -> None:
        """Remove a pair if it is there."""
        self.items().discard(value)

    def __contains__(self, value: object) -> bool:
        return value in self.items()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.items())

    def __len__(self) -> int:
        return len(self.items())

    def __repr__(self) -> str:
        return repr(self.items())

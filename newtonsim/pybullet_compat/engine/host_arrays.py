"""Device arrays that the host writes and reads."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

if TYPE_CHECKING:
    from collections.abc import Sequence


class HostArray:
    """A device array with a copy on the host; on the CPU both are the same memory.

    Args:
        array: The array that kernels use, world by world; None where the model has no such entries.
        worlds: Number of worlds W.

    Attributes:
        host: Its values by world, shape (W, ...), of the array's own type.
    """

    def __init__(self, array: wp.array | None, worlds: int):
        self._device_array = array
        if array is None:
            self._shared, self._flat, self.host = True, np.zeros(0), np.zeros((worlds, 0))
            return
        self._shared = array.device.is_cpu
        values = array.numpy()
        self._flat = values if self._shared else values.copy()
        self.host: np.ndarray = self._flat.reshape(worlds, len(values) // worlds, *values.shape[1:])

    @functools.cached_property
    def numbers(self) -> memoryview:
        """All numbers of `host` in one row, in which setting one is faster than in an array."""
        return memoryview(self._flat.reshape(-1))

    def put(self, row: int, numbers: Sequence[float]) -> None:
        """Set all numbers of an entry of the only world, here and there."""
        if not self._shared:
            self.pull()
        known, count = self.numbers, len(numbers)
        if count == 1:
            known[row] = numbers[0]
        else:
            for place, number in enumerate(numbers, row * count):
                known[place] = number
        if not self._shared:
            self.push()

    def is_of(self, array: wp.array | None) -> bool:
        """Whether these are the values of an array."""
        return array is self._device_array

    def push(self) -> None:
        """Send the host's values to the device."""
        if not self._shared:
            self._device_array.assign(self._flat)

    def pull(self) -> np.ndarray:
        """Return the device's values (W, ...)."""
        if not self._shared:
            self._flat[...] = self._device_array.numpy()
        return self.host

    def clear(self) -> None:
        """Set all values to zero, here and there."""
        self._flat[...] = 0
        self.push()

"""Arrays that the host writes and kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp


class StagedArray:
    """A device array with host memory to write to, which is the same memory on the CPU.

    Attributes:
        array: The device array.

    Args:
        shape: Its shape.
        dtype: Its Warp type.
        device: Where it is.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: Any, device: wp.Device):
        self.array = wp.zeros(shape, dtype=dtype, device=device)
        self._host = self.array
        if not device.is_cpu:
            self._host = wp.zeros(shape, dtype=dtype, device="cpu", pinned=True)
        self._values: np.ndarray = self._host.numpy()

    def write(self, values: npt.ArrayLike) -> wp.array:
        """Write values, broadcast to the shape, and return the device array."""
        device: Any = self.array.device
        if device.is_cpu:
            self._values[...] = values
            return self.array
        # an earlier copy may still be reading the host memory
        wp.synchronize_stream(device.stream)
        self._values[...] = values
        wp.copy(self.array, self._host)
        return self.array

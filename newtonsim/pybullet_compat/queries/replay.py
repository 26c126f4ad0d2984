"""Recorded launches that are made again and again."""

from __future__ import annotations

import warp as wp

from newtonsim.runtime.capture import LaunchList


class Replay:
    """Recorded launches one after the other, in one call on the CPU.

    Args:
        device: Their device.
        launches: The launches.
    """

    def __init__(self, device: wp.Device, launches: list[wp.Launch]):
        self._launches = launches
        self._together = LaunchList(launches) if device.is_cpu else None

    def launch(self) -> None:
        """Launch them."""
        if self._together is not None:
            self._together.once()
            return
        for launch in self._launches:
            launch.launch()

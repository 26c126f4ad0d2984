"""Recorded launches that are made again and again."""

from __future__ import annotations

import warp as wp


class Replay:
    """Recorded launches one after the other, as one graph on the CPU.

    Args:
        device: Their device.
        launches: The launches.
    """

    def __init__(self, device: wp.Device, launches: list[wp.Launch]):
        self._launches = launches
        self._graph: wp.Graph | None = None
        if device.is_cpu:
            with wp.ScopedCapture(device=device) as capture:
                for launch in launches:
                    launch.launch()
            self._graph = capture.graph

    def launch(self) -> None:
        """Launch them."""
        if self._graph is not None:
            wp.capture_launch(self._graph)
            return
        for launch in self._launches:
            launch.launch()

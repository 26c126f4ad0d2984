"""Buffers of skyline matrices, see `kernels.algebra.skyline_lu`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.algebra.skyline_lu import SkylineView
from newtonsim.scene.allocation import put, zeros


def skyline_of(world_start: np.ndarray, device: wp.Device, most: float | None = None) -> SkylineView:
    """Make room for one matrix per world.

    Args:
        world_start: First unknown of each world and the end of the last, shape (world_count + 1,).
        device: Where the arrays live.
        most: Entries of a triangle beyond which a world gets no more room; None for no such bound. Worlds
            whose skyline turns out longer are reported by `lay_out_skyline`.
    """
    size = np.diff(np.asarray(world_start, dtype=np.int64))
    room = size * (size + 1) // 2
    if most is not None:
        room = np.minimum(room, int(most))
    sky = SkylineView()
    sky.world_start = put(world_start, dtype=int, device=device)
    sky.entry_start = put(np.concatenate(([0], np.cumsum(room))), dtype=int, device=device)
    sky.first = zeros(int(size.sum()), dtype=int, device=device)
    sky.row = zeros(int(size.sum()), dtype=int, device=device)
    sky.lower = zeros(int(room.sum()), dtype=wp.float64, device=device)
    sky.upper = zeros(int(room.sum()), dtype=wp.float64, device=device)
    sky.x = zeros(int(size.sum()), dtype=wp.float64, device=device)
    sky.sum = zeros(int(size.sum()), dtype=wp.float64, device=device)
    return sky

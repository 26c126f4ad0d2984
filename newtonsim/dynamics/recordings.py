"""Launches that are recorded once for the arrays that they work on, and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import warp as wp

from newtonsim.runtime.capture import Recording, capture_launches, capturing, collected
from newtonsim.runtime.side_by_side import SideBySide

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

MOST_KEPT = 32
"""Number of recordings that are kept; the oldest one is dropped."""


class _Recording(NamedTuple):
    """Arrays that were seen once, and how to repeat the launches for them if they were seen again."""

    arrays: tuple[wp.array | None, ...]
    replays: tuple[Recording, ...]


class Recordings:
    """Replays launches for arrays that it knows.

    At the first call with some arrays the launches are made, at the second one they are recorded, so that
    kernels are loaded by then and a single call costs no recording. While another recording is in progress,
    they are made, so that they become a part of it.

    Args:
        model: The model; if its arrays were replaced, everything is recorded again.
        side_by_side: Threads that share the replays of several ranges of worlds; None for the caller's.
    """

    def __init__(self, model: Model, side_by_side: SideBySide | None = None):
        self._model = model
        self._side_by_side = SideBySide(1) if side_by_side is None else side_by_side
        self._revision = -1
        self._kept: dict[tuple, _Recording] = {}

    def run(
        self,
        name: object,
        arrays: tuple[wp.array | None, ...],
        *launches: Callable[[], None],
    ) -> None:
        """Make or replay launches.

        Args:
            name: What the launches do.
            arrays: All arrays of the caller that they use; None if a model has none.
            launches: Each makes launches that are independent of those of the others, and may neither
                allocate nor read from the device.
        """
        model = self._model
        if model.device.is_capturing or collected() is not None:
            for launch in launches:
                launch()
            return
        if self._revision != model.revision:
            self._kept.clear()
            self._revision = model.revision
        key = (name, *[getattr(array, "ptr", None) for array in arrays])
        known = self._kept.get(key)
        if known is None:
            for launch in launches:
                launch()
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            # the arrays are held, so that no other one gets their address
            self._kept[key] = _Recording(arrays, ())
            return
        replays = known.replays
        if not replays:
            with capturing:
                replays = tuple(capture_launches(launch, model.device) for launch in launches)
            self._kept[key] = _Recording(arrays, replays)
        if len(replays) == 1:
            replays[0].once()
        else:
            self._side_by_side(replays, 1)

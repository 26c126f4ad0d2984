"""Launches that are recorded once for the arrays that they work on, and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import warp as wp

from newtonsim.runtime.capture import capture_launches, capturing, collected

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

MOST_KEPT = 32
"""Recordings that are kept; the oldest one makes room."""


class _Recording(NamedTuple):
    """Arrays that were seen once, and how to repeat what was done with them, if they came again."""

    arrays: tuple[wp.array | None, ...]
    replay: Callable[[int], None] | None


class Recordings:
    """Replays launches for arrays that it knows.

    At the first call with some arrays the launches are made, at the second one they are recorded, so that
    kernels are loaded by then and a single call costs no recording. While something else records, they are
    made, so that they become a part of it.

    Args:
        model: The model; where its arrays were replaced, all is recorded anew.
    """

    def __init__(self, model: Model):
        self._model = model
        self._revision = -1
        self._kept: dict[tuple, _Recording] = {}

    def run(
        self,
        name: object,
        arrays: tuple[wp.array | None, ...],
        launch: Callable[[], None],
    ) -> None:
        """Make or replay launches.

        Args:
            name: What the launches do.
            arrays: All arrays of the caller that they work on; None where a model has none.
            launch: Makes the launches; may neither allocate nor read from the device.
        """
        model = self._model
        if model.device.is_capturing or collected() is not None:
            launch()
            return
        if self._revision != model.revision:
            self._kept.clear()
            self._revision = model.revision
        key = (name, *[getattr(array, "ptr", None) for array in arrays])
        known = self._kept.get(key)
        if known is None:
            launch()
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            # the arrays are held, so that no other one gets their address
            self._kept[key] = _Recording(arrays, None)
            return
        replay = known.replay
        if replay is None:
            with capturing:
                replay = capture_launches(launch, model.device)
            self._kept[key] = _Recording(arrays, replay)
        replay(1)

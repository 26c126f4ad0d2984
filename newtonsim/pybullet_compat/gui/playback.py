"""Playback of a client with a page as its window: the script makes the steps, and the page may pause them."""

from __future__ import annotations

import threading

from newtonsim.render.viewer.playback import Playback
from newtonsim.scene.control import Control
from newtonsim.scene.state import State


class ClientPlayback(Playback):
    """Lets the script go on, or wait in stepSimulation."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Event()
        self._closed = False

    @property
    def is_paused(self) -> bool:
        """Whether steps have to wait."""
        return not (self._playing or self._steps or self._closed)

    @property
    def has_changes(self) -> bool:
        """Whether the page requests changes of the state."""
        return bool(self._changes)

    def wait(self) -> None:
        """Return when a step may be made."""
        while self.is_paused:
            self._changed.wait(0.1)
            self._changed.clear()
        self._steps = max(0, self._steps - 1)

    def note(self, seconds: float) -> None:
        """Record the simulated time [s]."""
        self._mark(seconds)

    def change(self, state: State, control: Control) -> None:
        """Apply the requested changes."""
        self._make_changes(state, control)

    def close(self) -> None:
        """Let a waiting script go on."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()

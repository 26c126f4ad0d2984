"""Real-time simulation: a thread that steps by the clock."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.clients.guard import Guard

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client

MOST_STEPS_BEHIND = 24
"""Steps after which the thread gives up catching up: a tenth of a second at 240 Hz."""


class RealTimeClock:
    """Steps one client as time passes.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._is_on = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self, on: bool) -> None:
        """Start or stop."""
        if on == self._is_on:
            return
        self._is_on = on
        if on:
            self.client.part(Guard).hold()
            self._stop.clear()
            self._thread = threading.Thread(target=self._step_by_clock, daemon=True, name="real time")
            self._thread.start()
        else:
            self._stop.set()
            self.client.part(Guard).drop()

    def _step_by_clock(self) -> None:
        client, stop, guard = self.client, self._stop, self.client.part(Guard)
        last = time.perf_counter()
        while not stop.is_set():
            dt = client.settings.time_step
            behind = time.perf_counter() - last
            if behind < dt:
                time.sleep(dt - behind)
                continue
            last = max(last + dt, time.perf_counter() - MOST_STEPS_BEHIND * dt)
            with guard.lock:
                if not stop.is_set() and client.bodies and not guard.is_paused():
                    client.ensure().step()

    def reset(self) -> None:
        """Stop when the world is emptied for good."""
        if not self.client.settings.real_time:
            self.run(False)

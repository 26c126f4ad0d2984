"""Real-time simulation: a thread that steps by the clock."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.scene import Client

MOST_STEPS_BEHIND = 24
"""Steps after which the thread gives up catching up: a tenth of a second at 240 Hz."""


class LockedClient:
    """Takes the place of a client in the table while a thread steps it: every call holds a lock."""

    remote = True

    def __init__(self, client: Client):
        self.client = client
        self.lock = threading.RLock()

    def call(self, name: str, arguments: dict) -> object:
        """Call a function of the API on the client, between two steps of the thread."""
        from newtonsim.pybullet_compat.functions import implementation

        with self.lock:
            if "args" in arguments:
                return implementation(name)(self.client, *arguments["args"])
            return implementation(name)(self.client, *arguments.values())

    def __getattr__(self, name: str) -> object:
        return getattr(self.client, name)


class RealTimeClock:
    """Steps one client as time passes.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._locked: LockedClient | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self, on: bool) -> None:
        """Start or stop."""
        from newtonsim.pybullet_compat.clients import TABLE

        if on and self._locked is None:
            self._locked = LockedClient(self.client)
            self._replace(TABLE, self.client, self._locked)
            self._stop.clear()
            self._thread = threading.Thread(target=self._step_by_clock, daemon=True, name="real time")
            self._thread.start()
        elif not on and self._locked is not None:
            self._stop.set()
            self._replace(TABLE, self._locked, self.client)
            self._locked = None

    @staticmethod
    def _replace(table: dict, old: object, new: object) -> None:
        for key, value in table.items():
            if value is old:
                table[key] = new
            elif getattr(value, "client", None) is old:  # a log of commands stands in front
                value.client = new

    def _step_by_clock(self) -> None:
        locked, client, stop = self._locked, self.client, self._stop
        last = time.perf_counter()
        while not stop.is_set():
            dt = client.settings.time_step
            behind = time.perf_counter() - last
            if behind < dt:
                time.sleep(dt - behind)
                continue
            last = max(last + dt, time.perf_counter() - MOST_STEPS_BEHIND * dt)
            with locked.lock:
                if not stop.is_set() and client.bodies:
                    client.ensure().step()

    def reset(self) -> None:
        """Stop when the world is emptied for good."""
        if not self.client.settings.real_time:
            self.run(False)

"""The lock of a client that several threads use: a stand-in in the table takes it for every call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from newtonsim.pybullet_compat.clients.table import TABLE
from newtonsim.pybullet_compat.surface.implementations import implementation

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client


class LockedClient:
    """Takes the place of a client in the table while other threads use it: every call holds a lock.

    Args:
        client: The client.
        guard: Has the lock.
    """

    remote = True

    def __init__(self, client: Client, guard: Guard):
        self.client, self.guard = client, guard
        self.lock = guard.lock

    def call(self, name: str, arguments: dict) -> object:
        """Call a function of the API on the client, while no other thread uses it."""
        if name == "stepSimulation":
            self.guard.wait()
        with self.lock:
            return implementation(name)(self.client, *arguments.get("args", arguments.values()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class Guard:
    """Lock of a client.

    Attributes:
        lock: The lock.
        wait: Called before every stepSimulation, without the lock; returns when time goes on.
        is_paused: Tells whether steps have to wait.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self.lock = threading.RLock()
        self.wait: Callable[[], None] = lambda: None
        self.is_paused: Callable[[], bool] = lambda: False
        self._stand_in = LockedClient(client, self)
        self._holders = 0

    def hold(self) -> None:
        """Have every call hold the lock from now on, until as many calls of `drop`."""
        if self._holders == 0:
            self._replace(self.client, self._stand_in)
        self._holders += 1

    def drop(self) -> None:
        """Let calls do without the lock, if nobody else needs it."""
        self._holders -= 1
        if self._holders == 0:
            self._replace(self._stand_in, self.client)

    @staticmethod
    def _replace(old: object, new: object) -> None:
        for key, value in list(TABLE.items()):
            if value is old:
                TABLE[key] = new
            elif getattr(value, "client", None) is old:  # a log of commands stands in front
                value.client = new

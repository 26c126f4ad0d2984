"""A client as an object: every function of the module with its physicsClientId filled in."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

import newtonsim.pybullet_compat as module
from newtonsim.pybullet_compat.clients.table import TABLE, disconnect, get_client
from newtonsim.pybullet_compat.connections import connect


class BulletClient:
    """A connection whose methods are the functions of the module.

    What the module does not have is looked up in the world itself: `client.model`, `client.num_worlds`, ...
    Setters and getters take `worlds=`: an index, a list of indices, or a mask of booleans. Setters then take
    values of these worlds and leave the others as they are; getters return what belongs to these worlds, an
    index without an axis of worlds.

    Args:
        connection_mode: DIRECT, GUI, SHARED_MEMORY, ...; None takes a running server if there is one, and
            DIRECT otherwise.
        hostName: Host of a server.
        options: Words as of `connect`.
        num_worlds: Copies of the world, for worlds in this process.
        device: Warp device, for worlds in this process; None for the default.

    Raises:
        error: The connection is not possible.
    """

    def __init__(
        self,
        connection_mode: int | None = None,
        hostName: str | None = None,
        options: str = "",
        num_worlds: int = 1,
        device: str | None = None,
    ):
        self._shapes = {}
        self._pid = os.getpid()
        self._client = -1
        if num_worlds != 1:
            options += f" --num_worlds={num_worlds}"
        if device is not None:
            options += f" --device={device}"
        if connection_mode is None:
            self._client = connect(module.SHARED_MEMORY, options=options)
            connection_mode = module.DIRECT
        if self._client < 0:
            host: Any = {} if hostName is None else {"hostName": hostName}
            self._client = connect(connection_mode, options=options, **host)

    def __getattr__(self, name: str) -> Any:
        """Return a function of the module for this client, or one of its constants."""
        if name.startswith("__") or name in ("_client", "_pid"):
            raise AttributeError(name)
        found = getattr(module, name, None)
        if found is None:
            return getattr(get_client(self._client), name)
        if inspect.isbuiltin(found):
            found = functools.partial(found, physicsClientId=self._client)
            self.__dict__[name] = found  # the next call finds it at once
        return found

    def __dir__(self) -> list[str]:
        """Names of the module's functions and constants, and of what the world can do besides."""
        own = dir(TABLE[self._client]) if self._client in TABLE else []
        return sorted({*super().__dir__(), *module.__all__, *(n for n in own if not n.startswith("_"))})

    def disconnect(self) -> None:
        """Close the connection."""
        number, self._client = self._client, -1
        kept = {"_shapes", "_pid", "_client"}
        self.__dict__ = {name: value for name, value in self.__dict__.items() if name in kept}
        disconnect(number)

    def __del__(self):
        if self.__dict__.get("_client", -1) in TABLE and self._pid == os.getpid():
            self.disconnect()

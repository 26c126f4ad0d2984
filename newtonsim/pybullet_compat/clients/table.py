"""The clients of the module by physicsClientId: disconnect, and what tells about connections."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Protocol

from newtonsim.pybullet_compat.surface.arguments import as_int
from newtonsim.pybullet_compat.surface.errors import error, not_connected

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client

API_VERSION = 202010061
MAX_CLIENTS = 1024


class StandIn(Protocol):
    """What takes the place of a client in the table: a server's world, or calls that are locked or logged.

    Attributes:
        remote: True; worlds of this process have False.
        num_worlds: Copies of the world.
        chooses: Whether a call names its worlds.
    """

    remote: bool
    num_worlds: int
    chooses: bool

    @property
    def given_worlds(self) -> int:
        """For how many worlds a call gives values."""
        ...

    def call(self, name: str, arguments: dict[str, object]) -> object:
        """Call a function of the API by name, with its arguments by name."""

    def close(self) -> None:
        """End the connection."""


TABLE: dict[int, Client | StandIn] = {}
"""Connected clients by physicsClientId."""
METHODS: dict[int, int] = {}
"""How they were connected."""


def add(client: Client | StandIn, method: int) -> int:
    """Give a client the lowest free id, and return that.

    Args:
        client: The client.
        method: How it was connected, DIRECT, GUI, ...

    Raises:
        error: There are too many.
    """
    for number in range(MAX_CLIENTS):
        if number not in TABLE:
            TABLE[number], METHODS[number] = client, method
            return number
    raise error("Exceeding maximum number of physics connections.")


def get_client(physicsClientId: int = 0) -> Client | StandIn:
    """Return a client, for what goes beyond the functions of PyBullet.

    Args:
        physicsClientId: As `connect` returned it.

    Raises:
        error: It is not connected.
    """
    try:
        return TABLE[physicsClientId]
    except KeyError:
        raise not_connected() from None


def disconnect(physicsClientId: int = 0) -> None:
    """Close a connection; a world in this process is gone with it."""
    client = get_client(as_int(physicsClientId))
    del TABLE[physicsClientId], METHODS[physicsClientId]
    client.close()


@atexit.register
def disconnect_all() -> None:
    """Close all connections; logs and films are finished by that, when the process ends at the latest."""
    for number in list(TABLE):
        disconnect(number)


def isConnected(physicsClientId: int = 0) -> int:
    """Return 1 if there is such a client, else 0."""
    return int(as_int(physicsClientId) in TABLE)


def getConnectionInfo(physicsClientId: int = 0) -> dict[str, int]:
    """Return whether there is such a client, and how it was connected."""
    connected = isConnected(physicsClientId)
    return {"isConnected": connected, "connectionMethod": METHODS.get(physicsClientId, 0)}


def getAPIVersion(physicsClientId: int = 0) -> int:
    """Return the version of the API, that of PyBullet 3.2.7."""
    return API_VERSION


def isNumpyEnabled(physicsClientId: int = 0) -> int:
    """Return 1: images are NumPy arrays."""
    return 1

"""User data: texts under keys, kept with a body, a link or a visual shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from newtonsim.pybullet_compat.surface.arguments import ints
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.ids import Ids


class Entry(NamedTuple):
    """One text: what it belongs to, its key and its value."""

    body: int
    link: int
    visual: int
    key: bytes
    value: bytes


class UserData:
    """All user data of one client.

    Attributes:
        entries: By user data id.
        order: Ids of each body in the order of getUserDataInfo; a removed one is replaced by the last.
    """

    def __init__(self, client: Client):
        self.client = client
        self.entries: dict[int, Entry] = {}
        self.order: dict[int, list[int]] = {}
        self._ids = Ids()
        self._found: dict[tuple[int, int, int, bytes], int] = {}

    def add(self, entry: Entry) -> int:
        """Keep a text, in the place of another under the same key, and return its id."""
        uid = self._found.get(entry[:4])
        if uid is None:
            uid = self._found[entry[:4]] = self._ids.take()
            self.order.setdefault(entry.body, []).append(uid)
        self.entries[uid] = entry
        return uid

    def find(self, body: int, link: int, visual: int, key: bytes) -> int:
        """Return the id of a text, -1 if there is none."""
        return self._found.get((body, link, visual, key), -1)

    def remove(self, uid: int) -> None:
        """Remove a text."""
        entry = self.entries.pop(uid)
        del self._found[entry[:4]]
        order = self.order[entry.body]
        last = order.pop()
        if last != uid:
            order[order.index(uid)] = last
        self._ids.give_back(uid)

    def body_removed(self, uid: int) -> None:
        """Remove the texts of a body."""
        for entry in self.order.pop(uid, ()):
            del self._found[self.entries.pop(entry)[:4]]
            self._ids.give_back(entry)

    def reset(self) -> None:
        """Remove everything."""
        self.entries.clear()
        self.order.clear()
        self._found.clear()
        self._ids.clear()


def addUserData(
    client: Client, bodyUniqueId: int, key: str, value: str, linkIndex: int = -1, visualShapeIndex: int = -1
) -> int:
    """Keep a text under a key, in the place of another one under the same key.

    Args:
        client: The client.
        bodyUniqueId: Body that it belongs to.
        key: Its key.
        value: The text.
        linkIndex: Link that it belongs to, -1 for the base.
        visualShapeIndex: Visual shape that it belongs to, -1 for none.

    Returns:
        Its id.

    Raises:
        error: There is no such body.
    """
    if not _known(client, bodyUniqueId):
        raise error("Error in addUserData command.")
    entry = Entry(bodyUniqueId, linkIndex, visualShapeIndex, key.encode(), value.encode())
    return client.part(UserData).add(entry)


def removeUserData(client: Client, userDataId: int) -> None:
    """Remove a text.

    Raises:
        error: There is none of that id.
    """
    part = client.part(UserData)
    if userDataId not in part.entries:
        raise error("Error in removeUserData command.")
    part.remove(userDataId)


def getUserData(client: Client, userDataId: int) -> bytes | None:
    """Return a text, None if there is none of that id."""
    entry = client.part(UserData).entries.get(userDataId)
    return None if entry is None else entry.value


def getUserDataId(
    client: Client, bodyUniqueId: int, key: str, linkIndex: int = -1, visualShapeIndex: int = -1
) -> int:
    """Return the id of the text under a key, -1 if there is none; see addUserData."""
    return client.part(UserData).find(bodyUniqueId, linkIndex, visualShapeIndex, key.encode())


def getNumUserData(client: Client, bodyUniqueId: int) -> int:
    """Return how many texts a body has."""
    return len(client.part(UserData).order.get(bodyUniqueId, ()))


def getUserDataInfo(client: Client, bodyUniqueId: int, userDataIndex: int) -> tuple:
    """Return id, key, body, link and visual shape of a text.

    Args:
        client: The client.
        bodyUniqueId: The body.
        userDataIndex: Place among its texts.

    Raises:
        error: There is no such text.
    """
    part = client.part(UserData)
    order = part.order.get(bodyUniqueId, ())
    if not 0 <= userDataIndex < len(order):
        raise error("Could not get user data info.")
    uid = order[userDataIndex]
    entry = part.entries[uid]
    return uid, entry.key, entry.body, entry.link, entry.visual


def syncUserData(client: Client, bodyUniqueIds: int | Sequence[int] | None = None) -> None:
    """Do nothing but check that there are such bodies: a client in this process is never behind."""
    message = "Error in syncUserInfo command."
    single = isinstance(bodyUniqueIds, int)
    bodies = [bodyUniqueIds] if single else ints(() if bodyUniqueIds is None else bodyUniqueIds, message)
    if not all(_known(client, uid) for uid in bodies):
        raise error(message)


def _known(client: Client, uid: int) -> bool:
    return uid in client.bodies or uid in client.soft_bodies

"""Logs of contact points and of controllers for virtual reality."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.logs.records import StepLogger
from newtonsim.pybullet_compat.queries.contact_points import getContactPoints
from newtonsim.pybullet_compat.world.client import Client

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

ANY_LINK = -2
_NAMES = [
    *("stepCount", "timeStamp", "contactFlag", "bodyUniqueIdA", "bodyUniqueIdB", "linkIndexA", "linkIndexB"),
    *(f"{what}{axis}" for what in ("positionOnA", "positionOnB", "contactNormalOnB") for axis in "XYZ"),
    *("contactDistance", "normalForce"),
]
_CONTROLLER_NAMES = [
    *("stepCount", "timeStamp", "controllerId", "numMoveEvents", "m_numButtonEvents"),
    *("posX", "posY", "posZ", "oriX", "oriY", "oriZ", "oriW", "analogAxis"),
    *(f"buttons{i}" for i in range(7)),
    "deviceType",
]


class ContactLogger(StepLogger):
    """Contact points of the first world.

    Args:
        client: The client.
        path: The file.
        bodies: Unique ids of bodies that a contact must have, -1 for any.
        links: Link indices that its first and second body must touch with, -2 for any.
    """

    def __init__(self, client: Client, path: str, bodies: tuple[int, int], links: tuple[int, int]):
        self._client = client
        self._bodies = [uid for uid in bodies if uid >= 0]
        self._links = links
        super().__init__(path, _NAMES, "IfIiiiifffffffffff")

    def write(self, engine: Engine) -> None:
        """Write a record for every contact point."""
        points = getContactPoints(self._client)
        for point in points if self._client.num_worlds == 1 else points[0]:
            if all(uid in point[1:3] for uid in self._bodies) and self._touches(point[3:5]):
                flag, *ids, position_a, position_b, normal, distance, force = point[:10]
                numbers = (*position_a, *position_b, *normal, distance, force)
                self.file.write(self.step_count, self.time, flag, *ids, *numbers)

    def _touches(self, links: tuple[int, int]) -> bool:
        return all(asked in (ANY_LINK, link) for asked, link in zip(self._links, links))


class ControllerLogger(StepLogger):
    """Controllers for virtual reality; without any the file has no records.

    Args:
        path: The file.
    """

    def __init__(self, path: str):
        super().__init__(path, _CONTROLLER_NAMES, "IfIIIffffffffIIIIIIII")

"""Links that are fixed obstacles in the worlds of other clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newtonsim.importers.geometry.pose import Pose
    from newtonsim.pybullet_compat.world.body import Body


@dataclass(slots=True)
class StandingLink:
    """A link of a body as it stands, for other clients to have around them.

    Attributes:
        body: The body.
        place: Place of the link among its links.
        pose: World pose of its inertial frame.
    """

    body: Body
    place: int
    pose: Pose

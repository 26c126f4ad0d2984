"""What attachments, states and snapshots need of an object of a world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from newtonsim.bullet_world.frames import Pose

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.bullet_client import BulletClient


class Body(Protocol):
    """A body of a client that has names for its links; see `Object` for details.

    Attributes:
        name: Its name.
        id: PyBullet's body unique id.
        links: Index of each link by name, -1 for the root.
        movable: Indices of the joints that are not fixed.
    """

    name: str
    id: int

    @property
    def links(self) -> Mapping[str, int]: ...

    @property
    def movable(self) -> Sequence[int]: ...

    @property
    def client(self) -> BulletClient:
        """The client that holds it."""
        ...

    def get_frame(self) -> Pose:
        """Pose of the root link in the world."""
        ...

    def link_frame(self, link: str | None) -> Pose:
        """Pose of a link in the world, of the root for None."""
        ...

    def inertial_frame(self, link: str | None) -> Pose:
        """Inertial frame of a link in its link frame, of the root for None."""
        ...

    def root_in_link(self, link: str | None) -> Pose:
        """Pose of the root in the frame of a link."""
        ...

    def teleport(self, pose: Pose) -> None:
        """Move the root and stop the body."""

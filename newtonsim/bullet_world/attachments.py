"""Attachments of objects: stored transforms for teleports, constraints of the engine for simulation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world.bodies import Body
from newtonsim.bullet_world.frames import Pose

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.bullet_client import BulletClient


ROUNDING = 1.0e-6
"""Largest change of a pose that does not count as motion [m] and [rad]."""
SHIFT, TURN = 1.0e-4, 1.0e-3
"""Largest deviation of an attachment from its offset without a warning [m] and [rad]."""


class Attachable(Body, Protocol):
    """A body that can be attached to others.

    Attributes:
        attachments: Attachment by the other one.
    """

    attachments: dict[Any, Attachment]

    def hold(
        self,
        other: Any,
        link: str | None = None,
        other_link: str | None = None,
        loose: bool = False,
        offset: Pose | None = None,
    ) -> None:
        """Attach another one, with a given offset if it is not None."""

    def let_go(self, other: Any) -> None:
        """Detach another one."""


Item = TypeVar("Item", bound=Attachable)


class Attachment:
    """One attachment, known to both of its objects.

    Attached objects do not collide with each other: a held object stays in place, even inside a hand.

    Args:
        parent: The object whose frame the transform is in.
        child: The other one.
        parent_link: Name of the parent's link, None for its root.
        child_link: Name of the child's link, None for its root.
        loose: Whether the parent ignores the child: it does not follow when the child is moved, and the
            transform is renewed instead.
        offset: Frame of the child's link in that of the parent's; None for the current one.

    Attributes:
        offset: See above.
        id: Unique id of the constraint.
    """

    def __init__(
        self,
        parent: Attachable,
        child: Attachable,
        parent_link: str | None,
        child_link: str | None,
        loose: bool,
        offset: Pose | None = None,
    ):
        self.parent: Any = parent
        self.child: Any = child
        self.parent_link, self.child_link = parent_link, child_link
        self.loose = loose
        self.offset = self.present_offset() if offset is None else offset
        self.id = self._constrain()
        self._collide(False)

    def present_offset(self) -> Pose:
        """Current frame of the child's link in that of the parent's."""
        return self.parent.link_frame(self.parent_link).inverse() @ self.child.link_frame(self.child_link)

    def moves(self, moved: Item) -> Item | None:
        """Return the object that follows when another is moved, None if it stays."""
        if moved is self.parent:
            return self.child
        return None if self.loose else self.parent

    def place_of(self, follower: Attachable) -> Pose:
        """Root frame of the follower in the world, computed from the current pose of the other object."""
        if follower is self.child:
            link, fixed, offset = self.child_link, self.parent.link_frame(self.parent_link), self.offset
        else:
            link, fixed = self.parent_link, self.child.link_frame(self.child_link)
            offset = self.offset.inverse()
        return fixed @ offset @ follower.root_in_link(link)

    @property
    def is_kept(self) -> bool:
        """Whether the objects have the right relative pose."""
        return near(self.offset, self.present_offset(), SHIFT, TURN)

    def renew(self) -> None:
        """Make the current offset the one to keep, also in the constraint."""
        self.offset = self.present_offset()
        frame = self._child_frame()
        client = self.parent.client
        client.changeConstraint(
            self.id, jointChildPivot=frame.position, jointChildFrameOrientation=frame.orientation
        )

    def release(self) -> None:
        """Remove the constraint, and let both objects collide again."""
        self.parent.client.removeConstraint(self.id)
        self._collide(True)

    def _collide(self, enable: bool) -> None:
        a, b = self.parent, self.child
        set_collisions(a.client, a.id, a.links.values(), b.id, b.links.values(), enable)

    def __repr__(self) -> str:
        ends = f"{self.parent!r} {self.parent_link or ''}, {self.child!r} {self.child_link or ''}"
        return f"Attachment({ends}, loose={self.loose}, id={self.id})"

    def _constrain(self) -> int:
        self._parent_frame = self.parent.inertial_frame(self.parent_link).inverse() @ self.offset
        frame = self._child_frame()
        return self.parent.client.createConstraint(
            self.parent.id,
            self.parent.links[self.parent_link] if self.parent_link else -1,
            self.child.id,
            self.child.links[self.child_link] if self.child_link else -1,
            p.JOINT_FIXED,
            (0.0, 0.0, 0.0),
            self._parent_frame.position,
            frame.position,
            self._parent_frame.orientation,
            frame.orientation,
        )

    def _child_frame(self) -> Pose:
        """Where the constraint's frame in the parent is in the child's inertial frame."""
        child, parent = (
            self.child.inertial_frame(self.child_link),
            self.parent.inertial_frame(self.parent_link),
        )
        return child.inverse() @ self.offset.inverse() @ parent @ self._parent_frame


def followers(moved: Item) -> list[tuple[Attachment, Item]]:
    """Return what follows a moved object, each once and after its leader, with its attachment."""
    found: dict[Item, Any] = {moved: None}
    queue = [moved]
    for place in queue:  # grows meanwhile
        for attachment in place.attachments.values():
            follower = attachment.moves(place)
            if follower is not None and follower not in found:
                found[follower] = attachment
                queue.append(follower)
    return [(found[item], item) for item in queue[1:]]


def carry(moved: Item) -> list[Item]:
    """Move everything that is attached to a moved object, directly or indirectly.

    Each object moves once, so that cycles end; a warning names attachments that close a cycle and cannot be
    maintained. Offsets of loose attachments whose child has moved while the parent stayed are renewed.

    Args:
        moved: The object that was moved; it is not moved again.

    Returns:
        The objects that have moved, this one first.
    """
    reached, used, places = {moved}, set(), [moved]
    for attachment, follower in followers(moved):
        before, place = follower.get_frame(), attachment.place_of(follower)
        follower.teleport(place)
        reached.add(follower)
        used.add(attachment)
        if not near(before, place, ROUNDING, ROUNDING):
            places.append(follower)
    for attachment in attachments_of(reached):
        if attachment.loose and attachment.parent not in reached:
            attachment.renew()
        elif attachment not in used and not attachment.is_kept:
            a, b = attachment.parent.name, attachment.child.name
            warnings.warn(
                f"the attachment of {a!r} and {b!r} cannot be maintained: other attachments hold them "
                "elsewhere",
                stacklevel=5,  # who set a joint
            )
    return places


def near(a: Pose, b: Pose, shift: float, turn: float) -> bool:
    """Whether two poses differ by no more than a distance [m] and an angle [rad]."""
    cosine = abs(sum(x * y for x, y in zip(a.orientation, b.orientation)))
    return math.dist(a.position, b.position) <= shift and 2.0 * math.acos(min(cosine, 1.0)) <= turn


def set_collisions(
    client: BulletClient, a: int, links_a: Iterable[int], b: int, links_b: Iterable[int], enable: bool
) -> None:
    """Let links of two bodies collide with each other, or not."""
    others = list(links_b)
    for link in links_a:
        for other in others:
            client.setCollisionFilterPair(a, b, link, other, int(enable))


def attachments_of(objects: Iterable[Attachable]) -> list[Attachment]:
    """Return each attachment of some objects once."""
    return list(dict.fromkeys(a for item in objects for a in item.attachments.values()))

"""Snapshots of a world: poses, joints, velocities, colours, gravity and attachments, put back into it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from newtonsim.bullet_world.attachments import attachments_of
from newtonsim.bullet_world.frames import Pose
from newtonsim.bullet_world.object_states import ObjectState, apply, capture

if TYPE_CHECKING:
    from newtonsim.bullet_world.objects import Object
    from newtonsim.bullet_world.world import BulletWorld

GRAVITY = ("gravityAccelerationX", "gravityAccelerationY", "gravityAccelerationZ")


class Hold(NamedTuple):
    """An attachment, as numbers; see `Attachment`."""

    parent: Object
    child: Object
    parent_link: str | None
    child_link: str | None
    loose: bool
    offset: Pose


class Snapshot(NamedTuple):
    """What a world was like."""

    gravity: tuple[float, ...]
    objects: dict[Object, ObjectState]
    holds: tuple[Hold, ...]


def take(world: BulletWorld) -> Snapshot:
    """Return what a world is like now."""
    holds = [
        Hold(a.parent, a.child, a.parent_link, a.child_link, a.loose, a.offset)
        for a in attachments_of(world.objects)
    ]
    states = {item: capture(item) for item in world.objects}
    return Snapshot(gravity_of(world), states, tuple(holds))


def put(snapshot: Snapshot, world: BulletWorld) -> list[Object]:
    """Make a world what a snapshot of it says, and return what moved; removed objects are left out."""
    if gravity_of(world) != snapshot.gravity:
        world.client.setGravity(*snapshot.gravity)
    present = set(world.objects)
    _put_holds(snapshot, present)
    return [item for item, state in snapshot.objects.items() if item in present and apply(item, state)]


def _put_holds(snapshot: Snapshot, present: set[Object]) -> None:
    """Let go of what was not held so, and hold what was; states are put afterwards, so offsets are given."""
    wanted = {hold for hold in snapshot.holds if hold.parent in present and hold.child in present}
    for a in attachments_of(present):
        hold = Hold(a.parent, a.child, a.parent_link, a.child_link, a.loose, a.offset)
        if hold in wanted:
            wanted.remove(hold)
        else:
            a.parent.let_go(a.child)
    for hold in wanted:
        hold.parent.hold(hold.child, *hold[2:])


def gravity_of(world: BulletWorld) -> tuple[float, ...]:
    """Gravity of a world [m/s²] (3,)."""
    settings = world.client.getPhysicsEngineParameters()
    return tuple(settings[name] for name in GRAVITY)


@contextlib.contextmanager
def undone(world: BulletWorld) -> Iterator[None]:
    """Put a world back to what it was at the end, whatever happens inside."""
    snapshot = take(world)
    try:
        yield
    finally:
        put(snapshot, world)

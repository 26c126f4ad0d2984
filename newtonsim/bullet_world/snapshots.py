"""Snapshots of a world: poses, joints, velocities, colours, gravity and attachments, to be restored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple, cast

from newtonsim.bullet_world.attachments import Attachable, Item, attachments_of
from newtonsim.bullet_world.base_world import World
from newtonsim.bullet_world.frames import Pose
from newtonsim.bullet_world.object_states import ObjectState, apply, capture

GRAVITY = ("gravityAccelerationX", "gravityAccelerationY", "gravityAccelerationZ")


class Hold(NamedTuple):
    """An attachment, as numbers; see `Attachment`."""

    parent: Attachable
    child: Attachable
    parent_link: str | None
    child_link: str | None
    loose: bool
    offset: Pose


class Snapshot(NamedTuple):
    """The state of a world."""

    gravity: tuple[float, ...]
    objects: dict[Attachable, ObjectState]
    holds: tuple[Hold, ...]


def take(world: World) -> Snapshot:
    """Return the current state of a world."""
    holds = [
        Hold(a.parent, a.child, a.parent_link, a.child_link, a.loose, a.offset)
        for a in attachments_of(world.objects)
    ]
    states = {item: capture(item) for item in world.objects}
    return Snapshot(gravity_of(world), states, tuple(holds))


def put(snapshot: Snapshot, world: World[Item]) -> list[Item]:
    """Restore a world from a snapshot, and return what moved; removed objects are left out."""
    if gravity_of(world) != snapshot.gravity:
        world.client.setGravity(*snapshot.gravity)
    present: set[Attachable] = set(world.objects)
    _put_holds(snapshot, present)
    return [cast("Item", a) for a, state in snapshot.objects.items() if a in present and apply(a, state)]


def _put_holds(snapshot: Snapshot, present: set[Attachable]) -> None:
    """Let go of what was not held so, and hold what was; states are put afterwards, so offsets are given."""
    missing = {hold for hold in snapshot.holds if hold.parent in present and hold.child in present}
    for a in attachments_of(present):
        hold = Hold(a.parent, a.child, a.parent_link, a.child_link, a.loose, a.offset)
        if hold in missing:
            missing.remove(hold)
        else:
            a.parent.let_go(a.child)
    for hold in missing:
        hold.parent.hold(hold.child, *hold[2:])


def gravity_of(world: World) -> tuple[float, ...]:
    """Gravity of a world [m/s²] (3,)."""
    settings = world.client.getPhysicsEngineParameters()
    return tuple(settings[name] for name in GRAVITY)


@contextlib.contextmanager
def undone(world: World) -> Iterator[None]:
    """Restore a world at the end, whatever happens inside."""
    snapshot = take(world)
    try:
        yield
    finally:
        put(snapshot, world)

"""Worlds that become like another one, with the same objects and attachments."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from newtonsim.bullet_world.attachments import attachments_of
from newtonsim.bullet_world.base_world import World
from newtonsim.bullet_world.objects import Object


def mirror(world: World, other: World, twins: Mapping[Object, Object]) -> dict[Object, Object]:
    """Make a world identical to another one, bit for bit, in queries and in simulation.

    Args:
        world: The world that is changed.
        other: The world that it becomes like.
        twins: Objects of the world that stand for ones of the other already; those of neither are removed.

    Returns:
        The object of the world for each one of the other.
    """
    known = {item: twin for item, twin in twins.items() if item in other.objects and twin in world.objects}
    for item in set(world.objects).difference(known.values()):
        item.gone()
    world.client.mirror(other.client_id)
    found = {}
    for item in other.objects:
        twin = found[item] = known.get(item) or item.twin_in(world)
        twin.id = item.id
        twin.attachments.clear()
    for attachment in attachments_of(other.objects):
        own = copy(attachment)
        own.parent, own.child = found[own.parent], found[own.child]
        own.parent.attachments[own.child] = own.child.attachments[own.parent] = own
    world.keep(found.values(), other)
    world.robot = found.get(other.robot)
    return found

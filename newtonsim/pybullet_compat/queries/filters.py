"""Collision filters: which links collide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.engine.model_building import collide, group_and_mask
from newtonsim.pybullet_compat.queries.contact_points import ContactPoints
from newtonsim.pybullet_compat.queries.pair_switch import Link, PairSwitch
from newtonsim.pybullet_compat.queries.scene_queries import SceneQueries
from newtonsim.pybullet_compat.world.structure import NOBODY

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client


def setCollisionFilterPair(
    client: Client,
    bodyUniqueIdA: int,
    bodyUniqueIdB: int,
    linkIndexA: int,
    linkIndexB: int,
    enableCollision: int,
) -> None:
    """Switch collisions of two links on or off, whatever their groups and masks say.

    Args:
        client: The client.
        bodyUniqueIdA: First body; bodies and links that do not exist do nothing.
        bodyUniqueIdB: Second body, which may be the same.
        linkIndexA: Link of the first body, -1 for the base.
        linkIndexB: Link of the second body.
        enableCollision: 1 to let them collide, 0 to let them pass through each other.
    """
    first, second = (bodyUniqueIdA, linkIndexA), (bodyUniqueIdB, linkIndexB)
    if not (_exists(client, *first) and _exists(client, *second)):
        return
    pair, enable = (min(first, second), max(first, second)), bool(enableCollision)
    if client.pair_filters.get(pair) == enable:
        return
    client.part(PairSwitch)  # which tells bodies that come later
    points = client.part(ContactPoints)
    points.read()
    before = collide(client, first, second)
    client.pair_filters[pair] = enable
    if enable == before:
        return
    if not enable:
        points.drop(lambda a, i, b, j: (min((a, i), (b, j)), max((a, i), (b, j))) == pair)
    if collide(client, first, second) != before:
        _switch(client, [(first, second, enable)])


def setCollisionFilterGroupMask(
    client: Client, bodyUniqueId: int, linkIndexA: int, collisionFilterGroup: int, collisionFilterMask: int
) -> None:
    """Set group and mask of a link; two links collide if the group of one is in the mask of the other.

    Args:
        client: The client.
        bodyUniqueId: The body; bodies and links that do not exist do nothing.
        linkIndexA: Its link, -1 for the base.
        collisionFilterGroup: Bits of the groups that the link belongs to.
        collisionFilterMask: Bits of the groups that it collides with.
    """
    if not _exists(client, bodyUniqueId, linkIndexA):
        return
    body, changed = client.bodies[bodyUniqueId], (bodyUniqueId, linkIndexA)
    link = body.links[linkIndexA + 1]
    if group_and_mask(body, linkIndexA) == (collisionFilterGroup, collisionFilterMask):
        link.group, link.mask = collisionFilterGroup, collisionFilterMask
        body.made_from = None
        return
    client.part(PairSwitch)  # which tells bodies that come later
    points = client.part(ContactPoints)
    points.read()
    links = () if client.engine is None else dict.fromkeys(client.engine.shape_link)
    others = [key for key in links if key[0] != NOBODY]
    filters = [group_and_mask(client.bodies[uid], other) for uid, other in others]
    before = _collisions(client, changed, others, filters)
    link.group, link.mask = collisionFilterGroup, collisionFilterMask
    body.made_from = None
    if client.engine is None:
        client.structure_changed()
    points.drop(lambda a, i, b, j: changed in ((a, i), (b, j)) and not collide(client, (a, i), (b, j)))
    after = _collisions(client, changed, others, filters)
    _switch(client, [(changed, other, b) for other, a, b in zip(others, before, after) if a != b])
    client.part(SceneQueries).masks_changed()


def _collisions(client: Client, link: Link, others: list[Link], filters: list[tuple[int, int]]) -> list[bool]:
    """Whether a link collides with each of others, whose groups and masks are known; see `collide`."""
    group, mask = group_and_mask(client.bodies[link[0]], link[1])
    special = {end for pair in client.pair_filters if link in pair for end in pair}
    return [
        collide(client, link, other)
        if other[0] == link[0] or other in special
        else bool(group & other_mask or other_group & mask)
        for other, (other_group, other_mask) in zip(others, filters)
    ]


def _switch(client: Client, changes: list) -> None:
    """Let pairs of links collide or not from now on, if that can be without building the model anew."""
    engine = client.engine
    if changes and (engine is None or not client.part(PairSwitch).apply(engine, changes)):
        client.structure_changed()


def _exists(client: Client, body: int, link: int) -> bool:
    return body in client.bodies and -1 <= link < len(client.bodies[body].links) - 1

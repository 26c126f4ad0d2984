"""How many empty slots the next engine of a client has for bodies and constraints to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.structure import BodySlot, WorldContent

MOST_EMPTY = 16
"""Greatest number of empty slots that an engine is built with, unless it has more bodies."""


class Room:
    """The slots of the engine that was dropped, and those that a growing scene is going to need.

    Where bodies of a kind come one after the other while the world steps, their room doubles each time that
    it is exhausted, so that a scene which grows to n bodies has its engine built of the order of log n times.
    """

    def __init__(self):
        self._bodies: dict[Hashable, tuple[int, Body]] = {}

    def clear(self) -> None:
        """Ask for no empty slots."""
        self._bodies.clear()

    def follow(self, content: WorldContent, coming: Hashable = None) -> None:
        """Ask for the slots for single bodies that an engine had, and for more of the kind to come."""
        self._bodies.clear()
        slots = [slot for slot in content.slots if slot.kind is not None and _is_single(slot)]
        for kind, count in Counter(slot.kind for slot in slots).items():
            pattern = next(slot.pattern for slot in slots if slot.kind == kind)
            self._bodies[kind] = (2 * count if kind == coming else count, pattern)

    def patterns(self, present: Iterable[Hashable]) -> list[Body]:
        """Return what each of the empty slots is made for, beside bodies of the kinds that are there."""
        there = Counter(present)
        found = []
        for kind, (count, pattern) in self._bodies.items():
            found += [pattern] * (count - there[kind])
        return found[: max(MOST_EMPTY, there.total())]


def _is_single(slot: BodySlot) -> bool:
    """Whether any single body of the same shapes fits, with the filter that bodies have at first."""
    links = slot.pattern.links
    plain = len(links) == 1 and links[0].group is None and links[0].mask is None
    return plain and slot.pattern.floating

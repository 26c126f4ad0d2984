"""How many empty slots the next engine of a client has for bodies and constraints to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.body_kind import body_kind

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.constraint_records import Constraint
    from newtonsim.pybullet_compat.world.structure import WorldContent

MOST_EMPTY = 16
"""Greatest number of empty slots that an engine is built with, unless it has more bodies or constraints."""
MOST_EMPTY_DOFS = 48
"""Degrees of freedom in empty slots that an engine carries along, unless more are in use."""


MOST_KNOWN = 64
"""Kinds of what found no slot that are remembered."""


class Room:
    """The slots of the engine that was dropped, and those that a growing scene is going to need.

    What came and found no slot has one in the next engine, even if it is gone by then. Where bodies of a kind
    come one after the other while the world steps, their room doubles each time that it is exhausted, so that
    a scene which grows to n bodies has its engine built of the order of log n times. Constraints have as many
    slots again as there are.

    Robots, static bodies and slides along an axis have empty slots from the second time on that they find
    none: each of a scene that always gets another one, such as new terrain, would leave some behind.
    """

    def __init__(self):
        self._bodies: dict[Hashable, tuple[int, Body]] = {}
        self._constraints: Counter[tuple[int, bytes]] = Counter()
        self._times_asked: dict[Hashable, int] = {}

    def clear(self) -> None:
        """Ask for no empty slots."""
        for known in (self._bodies, self._constraints, self._times_asked):
            known.clear()

    def follow(self, content: WorldContent) -> None:
        """Ask for the slots that an engine had."""
        self._constraints.clear()
        kinds = Counter(slot.kind for slot in content.slots if slot.kind is not None)
        patterns = {slot.kind: slot.pattern for slot in reversed(content.slots)}
        self._bodies = {kind: (count, patterns[kind]) for kind, count in kinds.items()}
        self._constraints.update(slot.kind for slot in content.constraint_slots if slot.kind is not None)

    def ask(self, coming: Body | Constraint, grows: bool = False) -> None:
        """Ask for a slot for what found none, and for as many again as there were where more is expected."""
        kind = body_kind(coming) if isinstance(coming, Body) else coming.slot_kind
        times = self._times_asked.pop(kind, 0) + 1
        self._times_asked[kind] = times  # as the last one
        if len(self._times_asked) > MOST_KNOWN:
            del self._times_asked[next(iter(self._times_asked))]
        if not isinstance(coming, Body):
            self._constraints[coming.slot_kind] += 1
        elif kind is not None:
            count, pattern = self._bodies.get(kind, (0, coming))
            self._bodies[kind] = max(count * (2 if grows else 1), 1), pattern

    def patterns(self, present: Iterable[Body]) -> list[Body]:
        """Return what each of the empty slots is made for, beside the bodies that are there."""
        bodies = list(present)
        there = Counter(map(body_kind, bodies))
        most, dofs = max(MOST_EMPTY, len(bodies)), max(MOST_EMPTY_DOFS, sum(map(_dofs, bodies)))
        found: list[Body] = []
        for kind, (count, pattern) in reversed(self._bodies.items()):
            if body_kind(pattern) != kind or not (_is_common(pattern) or self._returns(kind)):
                continue  # it was changed since, by a filter or a mass, or was seen once
            for _ in range(count - there[kind]):
                dofs -= _dofs(pattern)
                if len(found) < most and dofs >= 0:
                    found.append(pattern)
        return found

    def spares(self, present: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the kind of each of the empty slots for constraints, beside those that are there."""
        there = Counter(present)
        total = {
            kind: max(2 * there[kind], self._constraints[kind])
            for kind in there | self._constraints
            if kind in there or not kind[1] or self._returns(kind)
        }
        found = [kind for kind, count in total.items() for _ in range(count - there[kind])]
        return found[: max(MOST_EMPTY, there.total())]

    def _returns(self, kind: Hashable) -> bool:
        """Whether something of a kind has found no slot more than once."""
        return self._times_asked.get(kind, 0) > 1


def _is_common(body: Body) -> bool:
    """Whether it is a single moving body, with the filter that bodies have at first."""
    return len(body.links) == 1 and body.floating and body.links[0].group is body.links[0].mask is None


def _dofs(body: Body) -> int:
    return body.u.shape[1]

"""What an engine is built from: a world as the content of a builder, shared by clients that are alike.

Bodies and constraints occupy slots. Removing one empties its slot, which the next one that fits takes; only a
body or constraint that fits no slot has the engine built anew, with more room for its kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.pybullet_compat.world.body import Body

NOBODY = -1
"""In place of the unique id of a body or a constraint: an empty slot."""


class Numbered(Protocol):
    """What has an index in a world, such as a constraint."""

    def bind(self, index: int) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class BodySlot:
    """Where a body is in a world.

    Attributes:
        kind: What a body has to be to stand here, see `body_kind`; None if no other can.
        is_filtered: Whether pair filters of the body that it was made for are baked in.
        pattern: The body that the slot was made for.
        row, joint: Its first body and joint in the builder.
        q, u: Its coordinates and velocities among those of a world.
        shapes: Its shapes in the builder.
        places: (place of the link, number of the geometry) of each of them.
        uid: Unique id of the body that is there, NOBODY for none.
    """

    kind: Hashable
    is_filtered: bool
    pattern: Body
    row: int
    joint: int
    q: slice
    u: slice
    shapes: slice
    places: tuple[tuple[int, int], ...]
    uid: int

    def taken_by(self, uid: int) -> BodySlot:
        """Return the same slot with a body, or NOBODY, in it; in a third of the time of `replace`."""
        names = (self.kind, self.is_filtered, self.pattern, self.row, self.joint)
        return BodySlot(*names, self.q, self.u, self.shapes, self.places, uid)

    @property
    def rows(self) -> slice:
        """Its bodies in the builder."""
        return slice(self.row, self.row + len(self.pattern.links))


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintSlot:
    """Where a constraint is in a world.

    Attributes:
        kind: What a constraint has to be to stand here, see `Constraint.slot_kind`; None where it is one that
            does nothing.
        index: Its index in the builder, -1 of what does nothing.
        uid: Unique id of the constraint that is there, NOBODY for none.
    """

    kind: tuple[int, bytes] | None
    index: int
    uid: int


@dataclass(slots=True, eq=False)
class WorldContent:
    """One world of a client as a builder, and what its shapes and bodies are.

    Attributes:
        builder: Bodies, joints, shapes and constraints.
        slots: Slots of bodies in the order of the builder.
        constraint_slots: Slots of constraints.
        rows: (body unique id, link index) of each body of the builder, (NOBODY, ...) in empty slots.
        shape_link: The same of each shape.
        shape_geometry: Number of the geometry of its link that each shape belongs to.
        filters: Pairs of shapes that were to pass through each other when the builder was filled.
    """

    builder: ModelBuilder
    slots: list[BodySlot] = field(default_factory=list)
    constraint_slots: list[ConstraintSlot] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    shape_link: list[tuple[int, int]] = field(default_factory=list)
    shape_geometry: list[int] = field(default_factory=list)
    filters: frozenset[tuple[int, int]] = frozenset()
    _slot_of: dict[int, BodySlot] = field(init=False, default_factory=dict)  # by unique id, once asked

    def add_slot(self, slot: BodySlot) -> None:
        """Append a slot."""
        self.slots.append(slot)
        self.rows += [(slot.uid, place - 1) for place in range(len(slot.pattern.links))]
        self.shape_link += [(slot.uid, place - 1) for place, _ in slot.places]
        self.shape_geometry += [number for _, number in slot.places]

    def bind(self, bodies: dict[int, Body], constraints: Mapping[int, Numbered]) -> None:
        """Tell bodies and constraints of a client of this structure, by unique id, where they are."""
        for slot in self.slots:
            if slot.uid != NOBODY:
                bodies[slot.uid].first_row, bodies[slot.uid].first_joint = slot.row, slot.joint
        for slot in self.constraint_slots:
            if slot.uid != NOBODY:
                constraints[slot.uid].bind(slot.index)

    def find(self, uid: int) -> BodySlot:
        """Return the slot of a body."""
        if uid not in self._slot_of:
            self._slot_of = {slot.uid: slot for slot in self.slots if slot.uid != NOBODY}
        return self._slot_of[uid]

    def find_constraint(self, uid: int) -> ConstraintSlot | None:
        """Return the slot of a constraint, None if it has none."""
        return next((slot for slot in self.constraint_slots if slot.uid == uid), None)

    def find_empty(self, kind: Hashable) -> BodySlot | None:
        """Return the first empty slot in which a body of a kind can stand, None if there is none."""
        empty = (slot for slot in self.slots if slot.uid == NOBODY and slot.kind == kind)
        return None if kind is None else next((slot for slot in empty if not slot.is_filtered), None)

    def find_empty_constraint(self, kind: tuple[int, bytes]) -> ConstraintSlot | None:
        """Return the first empty slot in which a constraint of a kind can stand, None if there is none."""
        empty = (slot for slot in self.constraint_slots if slot.uid == NOBODY and slot.kind == kind)
        return next(empty, None)

    def with_bodies(self, uids: list[int]) -> WorldContent:
        """Return the same builder with these bodies in its slots."""
        content = WorldContent(self.builder, constraint_slots=self.constraint_slots, filters=self.filters)
        for slot, uid in zip(self.slots, uids):
            content.add_slot(slot if slot.uid == uid else slot.taken_by(uid))
        return content

    def with_pattern(self, slot: BodySlot, pattern: Body) -> WorldContent:
        """Return the same builder with another body as what a slot was made for."""
        content = replace(self, slots=self.slots.copy())
        content.slots[self.slots.index(slot)] = replace(slot, pattern=pattern)
        return content

    def with_body(self, slot: BodySlot, uid: int) -> WorldContent:
        """Return the same builder with a body, or NOBODY, in a slot."""
        lists = (self.slots.copy(), self.constraint_slots, self.rows.copy(), self.shape_link.copy())
        content = WorldContent(self.builder, *lists, self.shape_geometry, self.filters)
        content.slots[self.slots.index(slot)] = slot.taken_by(uid)
        content.rows[slot.rows] = [(uid, place - 1) for place in range(len(slot.pattern.links))]
        content.shape_link[slot.shapes] = [(uid, place - 1) for place, _ in slot.places]
        return content

    def places_for(self, kinds: dict[int, Hashable]) -> list[int] | None:
        """Return who is in each slot if these bodies come in their order, None if one has no slot."""
        waiting, uids = list(kinds.items()), []
        for slot in self.slots:
            fits = bool(waiting) and slot.kind is not None and slot.kind == waiting[0][1]
            uids.append(waiting.pop(0)[0] if fits else NOBODY)
        return None if waiting else uids

    def without_constraints(self) -> WorldContent:
        """Return the same with all slots of constraints empty."""
        slots = [replace(slot, uid=NOBODY) for slot in self.constraint_slots if slot.kind is not None]
        return replace(self, constraint_slots=slots)

    def with_constraint(self, slot: ConstraintSlot, uid: int) -> WorldContent:
        """Return the same builder with a constraint, or NOBODY, in a slot, new or one of its own."""
        slots = [other for other in self.constraint_slots if other is not slot]
        if uid != NOBODY or slot.kind is not None:
            slots.append(ConstraintSlot(slot.kind, slot.index, uid))
        lists = (self.slots, slots, self.rows, self.shape_link)
        content = WorldContent(self.builder, *lists, self.shape_geometry, self.filters)
        content._slot_of = self._slot_of  # the bodies are the same
        return content


@dataclass(eq=False, slots=True)
class Structure:
    """What an engine is built from; clients that are alike share one.

    Attributes:
        content: The content of a world, None until an engine is built.
    """

    content: WorldContent | None = None

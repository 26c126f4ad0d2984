"""Bodies and constraints that come and go in an engine while it lives.

An empty slot has no shapes that collide, no motors, and a speed limit of zero, so that nothing moves it. What
comes into a slot is written into the arrays that the captured step reads; everything else in them, warm
starts included, stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from newtonsim.collision.plan import collision_plan_of
from newtonsim.pybullet_compat.engine import link_properties
from newtonsim.pybullet_compat.engine.gear_stage import NO_DOF
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.engine.model_building import filter_pairs, has_slots
from newtonsim.pybullet_compat.surface.constants import JOINT_GEAR
from newtonsim.pybullet_compat.world.body_kind import body_kind
from newtonsim.pybullet_compat.world.constraint_records import Constraint
from newtonsim.pybullet_compat.world.engine import Engine
from newtonsim.pybullet_compat.world.room import MOST_EMPTY_DOFS
from newtonsim.pybullet_compat.world.structure import NOBODY, BodySlot, ConstraintSlot
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.engine.gear_stage import AuxiliaryLinks
    from newtonsim.pybullet_compat.engine.swept_stage import SweptBounds
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.structure import WorldContent

KINDS = "collision_plan.shape.kind"
"""Name of the array that says what each shape is to collisions and queries."""
ENDS = ("constraint_parent", "constraint_child")
"""Arrays of the model with the bodies that each constraint holds."""
REWRITTEN = {
    KINDS,
    "body_mass",
    "body_inertia",
    "joint_damping",
    *link_properties.LIMIT_ARRAYS,
    *link_properties.SHAPE_ARRAYS.values(),
    *(f"constraint_{name}" for name in ("parent", "child", "X_p", "X_c", "coupled_axes", "coefficients")),
    *(f"constraint_{name}" for name in ("max_force", "recovery_time", "enabled")),
}
"""Arrays of the model that are written whenever bodies and constraints come into slots."""


class SlottedEngine(Engine, Protocol):
    """What slots need of their engine; see `featherstone.FeatherstoneEngine`."""

    client: Client
    columns: dict[int, tuple[slice, slice]]
    u: np.ndarray
    swept: SweptBounds | None
    gears: AuxiliaryLinks | None
    left_from: dict[int, Body | None]

    def set_content(self, content: WorldContent) -> None:
        """Put other bodies and constraints into the slots."""

    def take_body(self, body: Body, slot: BodySlot) -> None:
        """Put a body into an empty slot."""

    def drop_body(self, body: Body, slot: BodySlot, for_good: bool) -> None:
        """Remove a body and empty its slot; what goes on elsewhere takes the last step along."""

    def rest(self, slot: BodySlot) -> None:
        """Keep the contents of an empty slot at rest."""

    def take_settings(self) -> None:
        """Take gravity, times and options from the client."""

    def constraint_impulses_written(self) -> None:
        """Note that impulses of constraints were set."""


class Slots:
    """Slots of an engine.

    Args:
        engine: The engine; its empty slots are emptied.
    """

    def __init__(self, engine: SlottedEngine):
        self.engine = engine
        model, worlds = engine.model, engine.worlds
        self._kinds = HostArray(collision_plan_of(model).shape.kind, 1)
        count = len(engine.shape_link)
        # surroundings come before the shapes of the worlds
        self._own_kinds = self._kinds.host[0, model.shape_count - worlds * count :].reshape(worlds, count)
        self._solid = self._own_kinds.copy()
        self._rows: dict[int, np.ndarray] = {}
        self._impulse: HostArray | None = None
        for slot in engine.content.slots:
            if slot.uid == NOBODY:
                engine.rest(slot)
                self._hide(slot)

    # -- bodies ----------------------------------------------------------------------------------------------

    def enter(self, body: Body) -> bool:
        """Put a body into an empty slot of its kind; returns whether there was one."""
        engine = self.engine
        slot = engine.content.find_empty(body_kind(body)) if has_slots(engine.client) else None
        if slot is None or not self._has_rows_for(body) or engine.swept is not None:
            return False
        self._put(body, slot)
        return True

    def _put(self, body: Body, slot: BodySlot) -> None:
        """Put a body into an empty slot of its kind."""
        engine = self.engine
        engine.client.read_coordinates()
        if engine.unread_poses:
            engine.read_poses()
        engine.set_content(engine.content.with_body(slot, body.uid))
        engine.take_body(body, slot)
        self._show(slot)
        engine.loads_changed |= len(body.links) > 1

    def refill(self, content: WorldContent | None = None) -> bool:
        """Begin anew with the bodies and constraints of the client; returns whether all have found slots.

        Afterwards the engine is like one that was just built from them, except for empty slots.

        Args:
            content: Where they are if that is given, as in the engine of a client that this one is like.
        """
        engine, client = self.engine, self.engine.client
        if not has_slots(client) or engine.swept is not None or not engine.changed <= REWRITTEN:
            return False
        if content is None:
            content = self._content_of(client)
        if content is None or content.builder is not engine.content.builder:
            return False
        engine.set_content(content)
        for body in client.bodies.values():
            body.refresh()
        self._own_kinds[...] = self._solid
        engine.left_from.clear()
        for slot in content.slots:
            if slot.uid == NOBODY:
                engine.rest(slot)
                self._hide(slot)
            else:
                engine.take_body(client.bodies[slot.uid], slot)
        self._kinds.push()
        for slot in content.constraint_slots:
            if slot.uid != NOBODY:
                self._write(client.constraints[slot.uid], slot)
            elif slot.index >= 0:
                engine.write_for_all("constraint_enabled", slot.index, 0)
        if engine.pd is None and any(body.pd is not None for body in client.bodies.values()):
            engine.use_pd()
        engine.solver.contacts.view.world_count.zero_()
        engine.take_settings()
        engine.forget()
        engine.loads_changed = True
        return True

    def _content_of(self, client: Client) -> WorldContent | None:
        """Where the bodies and constraints of a client have places, None if they cannot stand here."""
        engine = self.engine
        bodies = client.bodies.values()
        uids = engine.content.places_for({body.uid: body_kind(body) for body in bodies})
        if uids is None or not all(map(self._has_rows_for, bodies)):
            return None
        content = engine.content.with_bodies(uids).without_constraints()
        unused = sum(slot.u.stop - slot.u.start for slot in content.slots if slot.uid == NOBODY)
        if unused > MOST_EMPTY_DOFS or content.filters != filter_pairs(client, content):
            return None
        for uid, constraint in client.constraints.items():
            slot = self._slot_for(constraint, content)
            if slot is None:
                return None
            content = content.with_constraint(slot, uid)
        return content

    def _has_rows_for(self, body: Body) -> bool:
        """Whether the solver has all rows that the surface of a body asks for."""
        if self.engine.solver.constraints.rows.spins:
            return True
        return not any((body.surface[name] > 0.0).any() for name in link_properties.NEED_ROWS)

    def leave(self, body: Body, for_good: bool = True) -> bool:
        """Empty the slot of a body, which may go on elsewhere; returns whether the engine can do without."""
        engine = self.engine
        if not has_slots(engine.client) or engine.swept is not None or body.driven:
            return False
        slot = engine.content.find(body.uid)
        empty = [other for other in engine.content.slots if other is slot or other.uid == NOBODY]
        unused = sum(other.u.stop - other.u.start for other in empty)
        if unused > max(MOST_EMPTY_DOFS, engine.u.shape[1] - unused):
            return False
        engine.client.read_coordinates()
        if engine.unread_poses:
            engine.read_poses()
        engine.drop_body(body, slot, for_good)
        engine.set_content(engine.content.with_body(slot, NOBODY))
        self._hide(slot)
        self._forget(slot)
        return True

    def move(self, body: Body) -> bool:
        """Move a body that its mass is about to free or to fix to a slot for what it then is.

        Returns:
            Whether there was one; else the body is as it was.
        """
        engine, client = self.engine, self.engine.client
        slot = engine.content.find(body.uid)
        if slot.pattern is body:  # which is not what the slot is for from now on
            pattern = body.copy_for(body.worlds)
            if pattern.floating:
                pattern.mass[:, 0] = 1.0  # of any that can move
            engine.set_content(engine.content.with_pattern(slot, pattern))
        found = engine.content.find_empty(body_kind(body, floating=not body.floating))
        if found is None or not self._has_rows_for(body) or not self.leave(body, for_good=False):
            return False
        client.call_hooks("content_changed", engine)
        body.update_mobility(client.settings.time_step)
        self._put(body, found)
        return True

    def _hide(self, slot: BodySlot) -> None:
        """Exclude the shapes of an empty slot from all collisions."""
        if self._solid[:, slot.shapes].size:
            self._own_kinds[:, slot.shapes] = GeoType.NONE
            self._kinds.push()
            self.engine.changed.add(KINDS)

    def _show(self, slot: BodySlot) -> None:
        """Restore the collisions of the shapes of a slot."""
        if self._solid[:, slot.shapes].size:
            self._own_kinds[:, slot.shapes] = self._solid[:, slot.shapes]
            self._kinds.push()
            self.engine.changed.add(KINDS)

    def _forget(self, slot: BodySlot) -> None:
        """Let nothing later start from the impulses of the body that was in a slot."""
        bodies = self.engine.model.body_count // self.engine.worlds
        first = bodies * np.arange(self.engine.worlds)[:, None]
        self.engine.solver.forget_bodies(np.arange(bodies)[slot.rows] + first)

    # -- constraints -----------------------------------------------------------------------------------------

    def hold(self, uid: int, constraint: Constraint) -> bool:
        """Put a constraint into an empty slot of its kind; returns whether there was one."""
        engine = self.engine
        content = engine.content
        slot = self._slot_for(constraint, content) if has_slots(engine.client) else None
        if slot is None:
            return False
        engine.set_content(content.with_constraint(slot, uid))
        self._write(constraint, slot)
        engine.loads_changed |= constraint.adds_loads(
            engine.client.bodies, engine.client.constraints.values()
        )
        return True

    def _slot_for(self, constraint: Constraint, content: WorldContent) -> ConstraintSlot | None:
        """Return an empty slot for a constraint, a new one if it does nothing; None if there is none."""
        if not constraint.acts(self.engine.client.bodies):
            return ConstraintSlot(None, -1, NOBODY)
        return content.find_empty_constraint(constraint.slot_kind)

    def _write(self, constraint: Constraint, slot: ConstraintSlot) -> None:
        """Write a constraint into a slot."""
        engine, client = self.engine, self.engine.client
        constraint.bind(slot.index)
        if slot.index < 0:
            return
        if constraint.kind == JOINT_GEAR:
            self._write_gear(constraint)
        else:
            for name, row in zip(ENDS, constraint.rows_of_ends(client.bodies)):
                self._write_end(name, slot.index, row)
        constraint.tell_frames(engine)
        constraint.tell_times(engine, client.settings)
        engine.write_for_all("constraint_enabled", slot.index, 1)

    def _write_end(self, name: str, index: int, row: int) -> None:
        """Write which body of a world a constraint holds, -1 for the world itself."""
        engine = self.engine
        if engine.worlds == 1 or row < 0:
            engine.write_for_all(name, index, row)
        else:
            first = engine.model.body_count // engine.worlds * np.arange(engine.worlds)
            engine.write(name, index, first + row)

    def _write_gear(self, constraint: Constraint) -> None:
        """Couple the joints of a gear in its slot."""
        engine, bodies = self.engine, self.engine.client.bodies
        model, places = engine.model, constraint.gear_places(bodies)
        assert places is not None  # it acts
        engine.client.read_coordinates()
        constraint.tell_gear(engine, bodies)
        starts = engine.axis_starts
        axes = [starts[body.first_joint + place] for body, place in reversed(places)]
        dofs = [engine.columns[body.uid][1].start + body.u_start[place] for body, place in reversed(places)]
        world = np.arange(engine.worlds)[:, None]
        axes_of_world, dofs_of_world = model.joint_axis_count // engine.worlds, engine.u.shape[1]
        engine.write("constraint_coupled_axes", constraint.index, axes + world * axes_of_world)
        row_dofs = HostArray(engine.solver.constraints.rows.pair.dofs, 1)
        row_dofs.pull()[0, self._rows_of(constraint.index)] = dofs + world * dofs_of_world
        row_dofs.push()
        self.lead(constraint)

    def lead(self, constraint: Constraint) -> None:
        """Let a gear, if it is one that acts, follow its auxiliary link."""
        gears = self.engine.gears
        if gears is None or constraint.kind != JOINT_GEAR or constraint.index < 0:
            return
        engine = self.engine
        place = constraint.auxiliary_velocity(engine.client.bodies)
        if place is None:
            gears.lead(constraint.index, NO_DOF)
        else:
            first = engine.columns[constraint.parent_body][1].start
            gears.lead(constraint.index, first + place + np.arange(engine.worlds) * engine.u.shape[1])

    def let_go(self, uid: int) -> bool:
        """Empty the slot of a constraint; returns whether the engine can go on with it."""
        engine = self.engine
        slot = engine.content.find_constraint(uid)
        if slot is None or not has_slots(engine.client):
            return False
        engine.set_content(engine.content.with_constraint(slot, NOBODY))
        if slot.index >= 0:
            engine.write_for_all("constraint_enabled", slot.index, 0)
            self._forget_impulses(slot)
            engine.loads_changed |= engine.solver.constraints.stiffness is not None
        return True

    def _forget_impulses(self, slot: ConstraintSlot) -> None:
        """Let no later constraint start from the impulses of the one that was in a slot."""
        impulse, source = self._impulse, self.engine.solver.constraints.rows.pair.impulse
        if impulse is None or not impulse.is_of(source):
            impulse = self._impulse = HostArray(source, 1)
        impulse.pull()[0, self._rows_of(slot.index)] = 0.0
        impulse.push()
        self.engine.constraint_impulses_written()

    def _rows_of(self, index: int) -> np.ndarray:
        """Rows of a constraint in the solver, those of all worlds."""
        rows = self._rows.get(index)
        if rows is None:
            owner = self.engine.solver.constraints.rows.pair.constraint.numpy()
            count = self.engine.model.constraint_count // self.engine.worlds
            rows = self._rows[index] = np.flatnonzero((owner >= 0) & (owner % count == index))
        return rows

"""Clients that become like another one: the shadows of worlds.

What is known on the host is copied body by body. Engines of both clients are built from the same content, so
that every array of one has its counterpart in the other at the same place; they are copied as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.pybullet_compat.clients.table import get_client
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.queries.contact_points import ContactPoints
from newtonsim.pybullet_compat.queries.scene_queries import SceneQueries
from newtonsim.pybullet_compat.rendering.pictures import Pictures
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.constraint_records import FRAMES
from newtonsim.pybullet_compat.world.driven_bodies import DrivenBodies
from newtonsim.scene.snapshot import find_places

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.constraint_records import Constraint
    from newtonsim.pybullet_compat.world.engine import Engine

FROM_RECORDS = {"constraint_max_force", *FRAMES}
"""Arrays of the model that are written from the records of the client whenever it mirrors another."""

APPLIED = ("servos", "applied")
"""Place of the forces of servos."""

Place = tuple[int | str, ...]


def mirror(client: Client, source_id: int, bodies: Collection[int] | None = None) -> None:
    """Make a client like another one, see `Client.mirror`."""
    with _held(source_id) as source:
        if source is client:
            raise error("mirror: a client cannot mirror itself.")
        if source.num_worlds != 1:
            raise error(f"mirror: expected a client of one world, got one of {source.num_worlds}.")
        client.part(Mirror).follow(source, bodies)


@contextlib.contextmanager
def _held(number: int) -> Iterator[Client]:
    """The client of an id, which no thread steps meanwhile."""
    with contextlib.ExitStack() as stack:
        found = get_client(number)
        while not isinstance(found, Client):  # logs and real-time clocks stand in front
            if hasattr(found, "lock"):
                stack.enter_context(found.lock)
            if not hasattr(found, "client"):
                raise error("mirror: the other client is in another process.")
            found = found.client
        yield found


class EngineCopy:
    """What an engine has at a time, for one that is built later from the same content.

    Args:
        engine: The engine.

    Attributes:
        moved: Whether bodies of the later one were moved since.
    """

    def __init__(self, engine: Engine):
        self._arrays = {place: array.pull().copy() for place, array in _arrays_of(engine).items()}
        self._facts, self._columns = _facts_of(engine), engine.columns
        self._changed = set(engine.changed)
        self.moved = False

    def applied(self, body: Body) -> np.ndarray:
        """Forces of the servos of a body in the last step (W, nu) [N m or N]."""
        forces = self._arrays.get(APPLIED)
        return np.zeros(body.u.shape) if forces is None else forces[:, self._columns[body.uid][1]]

    def put_into(self, engine: Engine) -> None:
        """Let an engine that was just built go on from here."""
        engine.changed |= self._changed
        _put(self._arrays, self._facts, engine)
        if not self.moved:
            engine.written.clear()


def _arrays_of(engine: Engine) -> dict[Place, HostArray]:
    """Arrays that differ between engines of one content, by place, but for those that bodies hold."""
    known = engine.mirrored_arrays
    stages = engine.pd, engine.solver.constraints.stiffness
    if known is None or known[0] != engine.changed or known[1] != stages:
        solver = engine.solver
        own = (solver.servos, engine.damping, engine.pd, engine.model)  # motors and damping
        found = dict(find_places(solver, engine.simulator.state, engine.simulator.control, skip=own))
        found[APPLIED] = solver.servos.applied
        for name in (*engine.changed, "joint_X_p"):
            found["model", name] = _model_array(engine, name)
        arrays = {
            place: HostArray(array, 1) for place, array in found.items() if array is not None and array.size
        }
        known = engine.mirrored_arrays = (set(engine.changed), stages, arrays)
    return known[2]


def _model_array(engine: Engine, name: str) -> wp.array | None:
    _, is_of_plan, rest = name.rpartition("collision_plan.")
    found = collision_plan_of(engine.model) if is_of_plan else engine.model
    for part in rest.split("."):
        found = getattr(found, part)
    return found


def _facts_of(engine: Engine) -> tuple:
    """What an engine knows besides its arrays."""
    stage = engine.solver.constraints
    has_stepped = stage.last_contacts is not None
    return (
        stage.stiffness is not None,
        engine.loads_changed,
        has_stepped,
        stage.last_dt,
        engine.simulator.time,
        engine.steps,
        engine.forces_set,
        engine.torques_set,
    )


def _put(arrays: dict[Place, np.ndarray], facts: tuple, engine: Engine) -> None:
    """Write what another engine of the same content has."""
    stiffens, engine.loads_changed, *facts = facts
    if stiffens:  # it calms the bodies that `arrays` say
        engine.solver.stiffen_bodies(np.ones(engine.model.body_count, bool))
    own = _arrays_of(engine)
    for place, values in arrays.items():
        array = own.get(place)
        if array is not None and array.host.shape == values.shape:
            array.host[...] = values
            array.push()
    stage = engine.solver.constraints
    has_stepped, stage.last_dt, engine.simulator.time, engine.steps, *flags = facts
    engine.forces_set, engine.torques_set = flags
    if has_stepped:
        stage.last_contacts = engine.solver.contacts
    else:
        engine.solver.forget_step()
    engine.state_replaced()


class Mirror:
    """Makes a client like others, time and again.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._originals: dict[int, tuple[Body, Body]] = {}

    def reset(self) -> None:
        """Forget the bodies of other clients."""
        self._originals.clear()

    def follow(self, source: Client, chosen: Collection[int] | None = None) -> None:
        """Make the client like another one, or like some bodies of it."""
        client, engine = self.client, source.engine
        bodies = {uid: x for uid, x in source.bodies.items() if chosen is None or uid in chosen}
        whole = client.num_worlds == 1 and len(bodies) == len(source.bodies) and not source.soft_bodies
        source.read_coordinates()
        if engine is not None:
            engine.push()
        for body in bodies.values():
            source.read_poses(body)
        if not self._is_alike(source):
            self._take_structure(source, bodies)
            client.structure = source.structure if whole else client.structure
        for uid, body in bodies.items():
            twin, lagging = client.bodies[uid], source.lagging_poses(body)
            twin.take(body)
            twin.start_pose = None if lagging is None else np.repeat(lagging, client.num_worlds, axis=0)
            if not whole:  # the steps of the other one's engine are not counted here
                twin.placed_at = 0 if client.engine is None else client.engine.steps
        self._take_settings(source)
        self._take_records(source)
        self._take_appearances(source)
        if whole:
            self._take_engine(engine)
            client.part(ContactPoints).mirror(source.part(ContactPoints))

    def _is_alike(self, source: Client) -> bool:
        """Whether what the client has been built as, and what was changed since, can be written over."""
        client = self.client
        if client.structure is not source.structure:
            return False
        if client.settings.parameters != source.settings.parameters or (
            client.settings.iterations != source.settings.iterations
        ):
            return client.engine is None  # the options of a solver go one way only
        if client.engine is None or source.engine is not None:
            return True
        return client.engine.changed <= FROM_RECORDS and client.engine.pd is None

    def _take_structure(self, source: Client, bodies: dict[int, Body]) -> None:
        """Have bodies of another client, in its order, and the constraints on them."""
        client = self.client
        client.part(ContactPoints).forget()  # what was done here before is undone
        client.structure_changed(keep=True)
        before = client.bodies
        client.bodies = {}
        for uid, body in bodies.items():
            original, twin = self._originals.get(uid, (None, None))
            if original is not body or before.get(uid) is not twin or twin.floating != body.floating:
                twin = body.copy_for(client.num_worlds)
                self._originals[uid] = (body, twin)
            client.bodies[uid] = twin
        self._originals = {uid: pair for uid, pair in self._originals.items() if uid in client.bodies}
        client.soft_bodies.clear()
        client.order = [uid for uid in source.order if uid in client.bodies]
        client.constraints = {
            uid: copy(constraint)
            for uid, constraint in source.constraints.items()
            if _is_rigid(constraint, client)
        }
        client.body_ids.follow(source.body_ids)
        client.constraint_ids.follow(source.constraint_ids)
        for uid in [uid for uid, body in before.items() if client.bodies.get(uid) is not body]:
            client.call_hooks("body_removed", uid)  # now that bodies and constraints agree
        driven = source.known_part(DrivenBodies)
        if driven is not None:
            chosen = [uid for uid in driven.bodies if uid in bodies]
            client.part(DrivenBodies).bodies = {uid: client.bodies[uid] for uid in chosen}

    def _take_settings(self, source: Client) -> None:
        own, other, engine = self.client.settings, source.settings, self.client.engine
        times = (own.time_step, own.substeps) != (other.time_step, other.substeps)
        own.time_step, own.substeps, own.iterations = other.time_step, other.substeps, other.iterations
        own.stands_still, own.parameters = other.stands_still, dict(other.parameters)
        if not np.array_equal(own.gravity, other.gravity):
            own.gravity = other.gravity.copy()
            if engine is not None:
                engine.model.gravity = own.gravity
        if times and engine is not None:
            engine.time_step_changed()

    def _take_records(self, source: Client) -> None:
        """Take filters and the numbers of constraints."""
        client = self.client
        client.pair_filters = {
            pair: on
            for pair, on in source.pair_filters.items()
            if pair[0][0] in client.bodies and pair[1][0] in client.bodies
        }
        for uid, constraint in client.constraints.items():
            constraint.take(source.constraints[uid], client.engine, client.settings)
        queries = client.known_part(SceneQueries)
        if queries is not None:
            queries.masks_changed()

    def _take_appearances(self, source: Client) -> None:
        pictures = source.known_part(Pictures)
        if pictures is not None:
            self.client.part(Pictures).mirror(pictures)

    def _take_engine(self, engine: Engine | None) -> None:
        """Let the engine, or the next one, go on as that of another client would."""
        client = self.client
        own = client.engine
        if own is None:
            client.next_engine = None if engine is None else EngineCopy(engine)
            return
        for body in client.bodies.values():
            own.write_damping(body)
        own.servos_written = True
        client.stale_bodies.clear()
        if engine is None:
            own.forget()
            return
        if engine.pd is not None:
            own.use_pd()
        own.changed |= engine.changed
        engine.changed |= own.changed
        arrays = {place: array.pull() for place, array in _arrays_of(engine).items()}
        _put(arrays, _facts_of(engine), own)
        own.written.clear()


def _is_rigid(constraint: Constraint, client: Client) -> bool:
    """Whether a constraint holds no soft body."""
    ends = (constraint.parent_body, constraint.child_body)
    return all(uid in client.bodies or uid == -1 for uid in ends)

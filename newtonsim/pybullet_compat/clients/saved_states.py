"""States of a client in memory: taking them, and going back to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.pybullet_compat.queries.contact_points import ContactPoints
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.ids import Ids
from newtonsim.pybullet_compat.world.world_choice import Worlds, chosen_worlds
from newtonsim.scene.snapshot import find_places

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine
    from newtonsim.scene.snapshot import Snapshot

Coordinates = dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""(q, u, base pose) of bodies by unique id."""
SoftPoints = dict[int, tuple[np.ndarray, np.ndarray]]
"""Positions and velocities (W, n, 3) of the points of soft bodies by unique id."""
NO_STATE = "Couldn't restore state."
LAST_DT = "last_dt"


@dataclass(slots=True)
class SavedState:
    """Coordinates of all bodies, and what the solver remembers.

    Attributes:
        bodies: (q, u, base pose) by body unique id, in the order of getBodyUniqueId.
        engine: The engine that the memory belongs to.
        memory: Contents of the arrays of its solver.
        coordinates: All of `q` and `u` of the engine.
        soft: Positions and velocities of the points of soft bodies by body unique id.
        last_step: What `last_step_of` gave, of states from files.
    """

    bodies: Coordinates
    engine: Engine | None = None
    memory: Snapshot | None = None
    coordinates: tuple[np.ndarray, np.ndarray] | None = None
    soft: SoftPoints = field(default_factory=dict)
    last_step: dict[str, np.ndarray] = field(default_factory=dict)


class SavedStates:
    """States of a client in memory.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.ids = Ids()
        self.states: dict[int, SavedState] = {}

    def release(self, engine: Engine) -> None:
        """Forget what belongs to an engine that goes."""
        for state in self.states.values():
            state.engine = state.memory = state.coordinates = None

    content_changed = release

    def reset(self) -> None:
        """Forget all states."""
        self.ids.clear()
        self.states.clear()


def restore_worlds(client: Client, state_id: int, worlds: Worlds) -> None:
    """Put some worlds back to a state in memory, see `LocalClient.restore_worlds`."""
    state = client.part(SavedStates).states.get(state_id)
    if state is None:
        raise error(NO_STATE)
    rows = chosen_worlds(worlds, client.num_worlds)
    _put_worlds(client, rows, _for_present(client, state), state.soft)


def reset_worlds(client: Client, worlds: Worlds) -> None:
    """Put the bodies of some worlds back to where they were loaded, see `LocalClient.resetWorlds`."""
    rows = chosen_worlds(worlds, client.num_worlds)
    if client.soft_bodies:
        raise error("resetWorlds: there are soft bodies; use saveState and restore_worlds.")
    engine = client.ensure()
    for body in client.bodies.values():
        body.base_twist[rows] = 0.0
        engine.drop_forces(body, rows)
    start = {
        uid: (body.loaded_coordinates(), np.zeros(body.u.shape), body.loaded_pose)
        for uid, body in client.bodies.items()
    }
    _put_worlds(client, rows, start, {})


def _put_worlds(client: Client, rows: np.ndarray, bodies: Coordinates, soft: SoftPoints) -> None:
    """Write coordinates of some worlds, and let the solver forget their last step."""
    mask = np.zeros(client.num_worlds, bool)
    mask[rows] = True
    client.read_coordinates()
    for uid, (q, u, base) in bodies.items():
        body = client.bodies[uid]
        body.q[mask], body.u[mask], body.base_pose[mask] = q[mask], u[mask], base[mask]
        with client.choosing(rows):
            client.coordinates_written(body)
    for uid, points in soft.items():
        client.soft_bodies[uid].restore(*points, mask)
    _forget_last_step(client, mask)


def _forget_last_step(client: Client, mask: np.ndarray) -> None:
    """Let the next step of some worlds go on from coordinates alone."""
    engine = client.ensure()
    engine.push()
    if mask.all():
        engine.solver.reset()
    else:
        device_mask = wp.array(mask, dtype=bool, device=engine.model.device)
        engine.solver.reset(engine.simulator.state, device_mask)
    client.part(ContactPoints).state_restored()


def _for_present(client: Client, state: SavedState) -> Coordinates:
    """Coordinates of a state by the unique ids of the bodies that are there now.

    As in PyBullet the first body of getBodyUniqueId gets those of the first one then, whatever their ids are.

    Raises:
        error: There are more or fewer bodies, or one has other joints.
    """
    bodies = [client.bodies[uid] for uid in client.order if uid in client.bodies]
    if len(bodies) != len(state.bodies):
        raise error(NO_STATE)
    for uid, points in state.soft.items():
        soft = client.soft_bodies.get(uid)
        if soft is None or any(soft.x.shape != a.shape for a in points):
            raise error(NO_STATE)
    return {body.uid: _for_base(body, *saved) for body, saved in zip(bodies, state.bodies.values())}


def _for_base(
    body: Body, q: np.ndarray, u: np.ndarray, base: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates that a body takes from those of one with the same joints, whose base was free or fixed."""
    worlds, nq, nu = len(body.q), body.q.shape[1], body.u.shape[1]
    if body.floating:
        nq, nu = nq - 7, nu - 6
    was_free = q.shape != (worlds, nq)
    shapes = ((worlds, nq + 7), (worlds, nu + 6)) if was_free else ((worlds, nq), (worlds, nu))
    if (q.shape, u.shape, base.shape) != (*shapes, (worlds, 7)):
        raise error(NO_STATE)
    if was_free and not body.floating:
        return q[:, 7:], u[:, 6:], q[:, :7]
    if body.floating and not was_free:
        return np.hstack([base, q]), np.hstack([np.zeros((len(u), 6)), u]), base
    return q, u, base


def soft_points(client: Client) -> SoftPoints:
    """Positions and velocities (W, n, 3) of the points of soft bodies, by unique id."""
    return {uid: body.points() for uid, body in client.soft_bodies.items()}


def coordinates(client: Client) -> Coordinates:
    """Copies of (q, u, base pose) of all bodies by unique id, in the order of getBodyUniqueId."""
    client.read_coordinates()
    bodies = [client.bodies[uid] for uid in client.order if uid in client.bodies]
    return {b.uid: (b.q.copy(), b.u.copy(), b.base_pose.copy()) for b in bodies}


def restore(client: Client, state: SavedState) -> None:
    """Put all worlds of a client back to a state.

    Raises:
        error: Its bodies are not those of the world, see `_for_present`.
    """
    if state.memory is not None and state.engine is client.engine:
        _restore_memory(client, state.engine, state.memory, state)
        return
    present = _for_present(client, state)
    client.read_coordinates()
    for uid, (q, u, base) in present.items():
        body = client.bodies[uid]
        body.q[...], body.u[...], body.base_pose[...] = q, u, base
        client.coordinates_written(body)
    for uid, points in state.soft.items():
        client.soft_bodies[uid].restore(*points)
    if list(present) != list(state.bodies) or not _put_last_step(client, state.last_step):
        _forget_last_step(client, np.ones(client.num_worlds, bool))


def _restore_memory(client: Client, engine: Engine, memory: Snapshot, state: SavedState) -> None:
    """Put all worlds back to a state of the engine that they have: no body has come or gone since."""
    assert state.coordinates is not None  # it is kept with the memory
    for uid, body in client.bodies.items():
        if not body.floating:
            body.base_pose[...] = state.bodies[uid][2]
        body.stale_poses = False  # those on the device come back, too
        client.links_placed(body)
    client.stale_bodies.clear()
    for uid, points in state.soft.items():
        client.soft_bodies[uid].restore(*points)
    engine.put_back(memory, *state.coordinates)
    client.part(ContactPoints).state_restored()


def last_step_of(engine: Engine) -> dict[str, np.ndarray]:
    """What the last step has left for the next one and for getContactPoints, by names that files can have.

    That are the contacts, their impulses and those that the next step starts from, and the duration of the
    step; nothing before the first step.
    """
    stage = engine.solver.constraints
    if stage.last_contacts is None:
        return {}
    arrays = {name: array.numpy() for name, array in _arrays_of_last_step(engine).items()}
    return {**arrays, LAST_DT: np.array(stage.last_dt)}


def _arrays_of_last_step(engine: Engine) -> dict[str, wp.array]:
    solver = engine.solver
    owners = (solver.contacts, solver.constraints.carried_arrays(), solver.constraints.rows.contact.impulse)
    return {".".join(map(str, place)): array for place, array in find_places(*owners) if array.size}


def _put_last_step(client: Client, saved: dict[str, np.ndarray]) -> bool:
    """Let the next step go on from a last one, unless it is that of other bodies or constraints."""
    if LAST_DT not in saved:
        return False
    engine = client.ensure()
    arrays = _arrays_of_last_step(engine)
    shapes = {name: array.numpy().shape for name, array in arrays.items()}
    if shapes != {n: values.shape for n, values in saved.items() if n != LAST_DT}:
        return False
    engine.push()
    for name, array in arrays.items():
        array.assign(saved[name])
    stage = engine.solver.constraints
    stage.last_contacts, stage.last_dt = engine.solver.contacts, float(saved[LAST_DT])
    client.part(ContactPoints).state_restored()
    return True

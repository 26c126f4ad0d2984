"""States: in memory, in files, and the scene as a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.pybullet_compat.engine.engine import Engine
from newtonsim.pybullet_compat.queries.contact_points import ContactPoints
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client, Ids
from newtonsim.scene.snapshot import Snapshot

NO_STATE = "Couldn't restore state."
FORMAT = "newtonsim state 1"


@dataclass(slots=True)
class SavedState:
    """Coordinates of all bodies, and what the solver remembers.

    Attributes:
        bodies: (q, u, base pose) by body unique id.
        engine: The engine that the memory belongs to.
        memory: Contents of the arrays of its solver.
        soft: Positions and velocities of the points of soft bodies by body unique id.
    """

    bodies: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]
    engine: Engine | None = None
    memory: Snapshot | None = None
    soft: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


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
            state.engine = state.memory = None

    def reset(self) -> None:
        """Forget all states."""
        self.ids.clear()
        self.states.clear()


def saveState(client: Client) -> int:
    """Keep the state in memory and return its id.

    A restored state replays bit by bit, as long as no body, constraint or filter was added or removed.
    """
    saved = client.part(SavedStates)
    engine = client.ensure()
    engine.push()
    uid = saved.ids.take()
    memory = Snapshot(engine.solver, engine.simulator.state, skip=(engine.model,))
    saved.states[uid] = SavedState(_coordinates(client), engine, memory, _soft_points(client))
    return uid


def removeState(client: Client, stateUniqueId: int) -> None:
    """Forget a state; unknown ids do nothing."""
    saved = client.part(SavedStates)
    if saved.states.pop(stateUniqueId, None) is not None:
        saved.ids.give_back(stateUniqueId)


def restoreState(client: Client, stateId: int = -1, fileName: str = "") -> None:
    """Go back to a state in memory or in a file of saveBullet.

    Raises:
        error: There is no such state or file, or its bodies are not those of the world.
    """
    if stateId >= 0:
        state = client.part(SavedStates).states.get(stateId)
        if state is None:
            raise error(NO_STATE)
    else:
        state = _read(fileName)
    _restore(client, state)


def restore_worlds(client: Client, state_id: int, world_mask: npt.ArrayLike) -> None:
    """Put some worlds back to a state in memory, see `Client.restore_worlds`."""
    state = client.part(SavedStates).states.get(state_id)
    if state is None:
        raise error(NO_STATE)
    mask = np.asarray(world_mask)
    if mask.dtype != bool or mask.shape != (client.num_worlds,):
        raise error(f"world_mask: expected {client.num_worlds} booleans, got {mask.dtype} {mask.shape}.")
    _check_bodies(client, state)
    client.read_coordinates()
    for uid, (q, u, base) in state.bodies.items():
        body = client.bodies[uid]
        body.q[mask], body.u[mask], body.base_pose[mask] = q[mask], u[mask], base[mask]
        client.coordinates_written(body)
    for uid, points in state.soft.items():
        client.soft_bodies[uid].restore(*points, mask)
    engine = client.ensure()
    engine.push()
    device_mask = wp.array(mask, dtype=bool, device=engine.model.device)
    engine.solver.reset(engine.simulator.state, device_mask)
    client.part(ContactPoints).state_restored()


def _check_bodies(client: Client, state: SavedState) -> None:
    for uid, (q, u, _) in state.bodies.items():
        body = client.bodies.get(uid)
        if body is None or body.q.shape != q.shape or body.u.shape != u.shape:
            raise error(NO_STATE)
    for uid, (x, _) in state.soft.items():
        soft = client.soft_bodies.get(uid)
        if soft is None or soft.x.shape != x.shape:
            raise error(NO_STATE)


def _soft_points(client: Client) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    return {uid: body.points() for uid, body in client.soft_bodies.items()}


def _coordinates(client: Client) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    client.read_coordinates()
    return {uid: (b.q.copy(), b.u.copy(), b.base_pose.copy()) for uid, b in client.bodies.items()}


def _restore(client: Client, state: SavedState) -> None:
    _check_bodies(client, state)
    client.read_coordinates()
    for uid, (q, u, base) in state.bodies.items():
        body = client.bodies[uid]
        body.q[...], body.u[...], body.base_pose[...] = q, u, base
        client.coordinates_written(body)
    for uid, points in state.soft.items():
        client.soft_bodies[uid].restore(*points)
    if state.memory is not None and state.engine is client.engine:
        engine = state.engine
        engine.push_coordinates()
        state.memory.restore()
        client.part(ContactPoints).state_restored()


def saveBullet(client: Client, bulletFileName: str) -> None:
    """Write the coordinates of all bodies to a file, in NumPy's format.

    Raises:
        error: The file cannot be written.
    """
    arrays = {"format": np.array(FORMAT)}
    for uid, (q, u, base) in _coordinates(client).items():
        arrays |= {f"{uid}_q": q, f"{uid}_u": u, f"{uid}_base": base}
    for uid, (x, v) in _soft_points(client).items():
        arrays |= {f"{uid}_x": x, f"{uid}_v": v}
    try:
        with Path(bulletFileName).open("wb") as file:
            np.savez(file, **arrays)
    except OSError as problem:
        raise error(f"Couldn't save {bulletFileName}: {problem}") from None


def loadBullet(client: Client, bulletFileName: str) -> tuple:
    """Take the state from a file of saveBullet, for the bodies that the world has.

    Such files hold no shapes: PyBullet's own .bullet files cannot be read.

    Returns:
        Unique ids of the bodies whose state was taken.

    Raises:
        error: The file cannot be read.
    """
    state = _read(bulletFileName)
    known = {uid: values for uid, values in state.bodies.items() if uid in client.bodies}
    soft = {uid: points for uid, points in state.soft.items() if uid in client.soft_bodies}
    _restore(client, SavedState(known, soft=soft))
    return (*known, *soft)


def _read(name: str) -> SavedState:
    try:
        with np.load(name, allow_pickle=False) as file:
            if str(file["format"]) != FORMAT:
                raise error(NO_STATE)
            uids = [int(key[:-2]) for key in file.files if key.endswith("_q")]
            bodies = {uid: tuple(file[f"{uid}_{k}"] for k in ("q", "u", "base")) for uid in uids}
            uids = [int(key[:-2]) for key in file.files if key.endswith("_x")]
            soft = {uid: (file[f"{uid}_x"], file[f"{uid}_v"]) for uid in uids}
            return SavedState(bodies, soft=soft)
    except (OSError, ValueError, KeyError, EOFError):
        raise error(NO_STATE) from None


def saveWorld(client: Client, worldFileName: str) -> None:
    """Write a script that loads the same files and puts their joints where they are.

    Raises:
        error: The file cannot be written.
    """
    lines = ["import pybullet as p", "cin = p.connect(p.SHARED_MEMORY)", "if (cin < 0):"]
    lines += ["    cin = p.connect(p.GUI)"]
    for body in client.bodies.values():
        client.read_poses(body)
        x = body.link_frames()[0, 0] if body.description.source else None
        if x is None:
            continue
        numbers = ",".join(f"{value:f}" for value in x)
        lines += [f'objects = [p.loadURDF("{body.description.source}", {numbers})]', "ob = objects[0]"]
        values = [
            body.q[0, body.q_start[i]] if body.u_count[i] == 1 else 0.0 for i in range(1, len(body.links))
        ]
        lines += [f"jointPositions=[ {', '.join(f'{v:f}' for v in values)} ]"]
        lines += ["for jointIndex in range (p.getNumJoints(ob)):"]
        lines += ["\tp.resetJointState(ob,jointIndex,jointPositions[jointIndex])", ""]
    gravity = ",".join(f"{value:f}" for value in client.settings.gravity)
    lines += [f"p.setGravity({gravity})", "p.stepSimulation()", "p.disconnect()", ""]
    try:
        Path(worldFileName).write_text("\n".join(lines))
    except OSError as problem:
        raise error(f"Couldn't save {worldFileName}: {problem}") from None

"""States: in memory, in files, and the scene as a script."""

from __future__ import annotations

import numpy as np

from newtonsim.errors import CheckpointError
from newtonsim.pybullet_compat.clients.saved_states import (
    NO_STATE,
    SavedState,
    SavedStates,
    coordinates,
    last_step_of,
    restore,
    soft_points,
)
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.runtime import copies
from newtonsim.scene.checkpoint_file import read_file, write_file, write_whole
from newtonsim.scene.snapshot import Snapshot

FORMAT = "newtonsim state 3"
LAST_STEP = "last step "


def saveState(client: Client) -> int:
    """Keep the state in memory and return its id.

    A restored state replays bit by bit, as long as no body, constraint or filter was added or removed.
    """
    saved = client.part(SavedStates)
    engine = client.ensure()
    engine.push()
    uid = saved.ids.take()
    # motors, damping and forces outlive a restored state
    parts = (engine.solver, engine.simulator.state)
    memory = Snapshot(*parts, skip=engine.settings_of_scripts(), copying=copies.together)
    bodies = coordinates(client)
    whole = engine.q.copy(), engine.u.copy()
    saved.states[uid] = SavedState(bodies, engine, memory, whole, soft_points(client))
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
    restore(client, state)


def saveBullet(client: Client, bulletFileName: str) -> None:
    """Write the coordinates of all bodies to a file, and the contacts of the last step.

    Restored in the same scene, the world goes on to the bit as it would have done. The file is written as a
    whole or not at all, and a damaged one is refused (`newtonsim.scene.checkpoint_file`).

    Raises:
        error: The file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    for uid, (q, u, base) in coordinates(client).items():
        arrays |= {f"{uid}_q": q, f"{uid}_u": u, f"{uid}_base": base}
    for uid, (x, v) in soft_points(client).items():
        arrays |= {f"{uid}_x": x, f"{uid}_v": v}
    if client.engine is not None:
        arrays |= {LAST_STEP + name: values for name, values in last_step_of(client.engine).items()}
    try:
        write_file(bulletFileName, {"format": FORMAT}, arrays)
    except (CheckpointError, ValueError) as problem:  # ValueError: a zero byte in the name
        raise error(f"Couldn't save {problem}") from None


def loadBullet(client: Client, bulletFileName: str) -> tuple:
    """Take the state from a file of saveBullet, for the bodies that the world has.

    Such files hold no shapes: PyBullet's own .bullet files cannot be read.

    Returns:
        Unique ids of the bodies whose state was taken.

    Raises:
        error: The file cannot be read.
    """
    state = _read(bulletFileName)
    known = {uid: state.bodies[uid] for uid in client.order if uid in state.bodies}
    soft = {uid: points for uid, points in state.soft.items() if uid in client.soft_bodies}
    restore(client, SavedState(known, soft=soft))
    return (*known, *soft)


def _read(name: str) -> SavedState:
    try:
        facts, file = read_file(name)
        if facts.get("format") != FORMAT:
            raise error(NO_STATE)
        names = [key for key in file if not key.startswith(LAST_STEP)]
        uids = [int(key[:-2]) for key in names if key.endswith("_q")]
        bodies = {uid: (file[f"{uid}_q"], file[f"{uid}_u"], file[f"{uid}_base"]) for uid in uids}
        uids = [int(key[:-2]) for key in names if key.endswith("_x")]
        soft = {uid: (file[f"{uid}_x"], file[f"{uid}_v"]) for uid in uids}
    except (CheckpointError, ValueError, KeyError) as problem:
        raise error(NO_STATE) from problem
    last_step = {key.removeprefix(LAST_STEP): file[key] for key in file if key.startswith(LAST_STEP)}
    return SavedState(bodies, soft=soft, last_step=last_step)


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
    gravity = ",".join(f"{value:f}" for value in np.atleast_2d(client.settings.gravity)[0])
    lines += [f"p.setGravity({gravity})", "p.stepSimulation()", "p.disconnect()", ""]
    try:
        write_whole(worldFileName, ["\n".join(lines).encode()])
    except (CheckpointError, ValueError) as problem:
        raise error(f"Couldn't save {problem}") from None

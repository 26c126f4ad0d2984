"""Bodies that are too light for solvers in maximal coordinates."""

from __future__ import annotations

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.scene.enums import JointType
from newtonsim.scene.model import Model

SHARE = 1.0e-9
"""Share of the largest mass at which single precision no longer knows how a joint divides a motion."""


def refuse_light_bodies(model: Model, solver: str) -> None:
    """Raise if joints connect a moving body to one without mass, which has none to be moved by.

    To a solver in maximal coordinates, in which joints act on the masses of both bodies, a body without mass
    stands still, and holds up the robot that carries it.

    Args:
        model: The model.
        solver: Name of the solver.

    Raises:
        ModelError: There is one; the message names the first.
    """
    if not model.joint_count:
        return
    mass: np.ndarray = model.body_mass.numpy()
    child: np.ndarray = model.joint_child.numpy()
    parent: np.ndarray = model.joint_parent.numpy()
    kind: np.ndarray = model.joint_type.numpy()
    light = mass <= SHARE * mass.max(initial=0.0)
    if not light[child].any():
        return
    moves = np.zeros(model.body_count, bool)
    moves[child[kind != JointType.FIXED]] = True
    while True:
        carried = child[(parent >= 0) & moves[parent] & ~moves[child]]
        if not len(carried):
            break
        moves[carried] = True
    on_moving = (parent >= 0) & moves[parent] & (kind != JointType.FREE)
    carrying = np.isin(child, parent[on_moving])
    found = child[light[child] & moves[child] & (on_moving | carrying)]
    if len(found):
        key, size = model.body_key[int(found[0])], float(mass[found[0]])
        raise ModelError(
            f"{solver}: body '{key}' has a mass of {size:g} kg and joints to other bodies, which this solver "
            "cannot move with it: give it a mass, merge it by collapse_fixed_joints(), or use "
            f"FeatherstoneSolver ({len(found)} bodies)"
        )

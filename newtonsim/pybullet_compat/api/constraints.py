"""Constraints between bodies: create, change, remove and ask."""

from __future__ import annotations

from math import hypot

import numpy as np

from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.engine.link_properties import differs
from newtonsim.pybullet_compat.surface.arguments import quat, rows, vec3
from newtonsim.pybullet_compat.surface.constants import (
    JOINT_FIXED,
    JOINT_GEAR,
    JOINT_POINT2POINT,
    JOINT_PRISMATIC,
)
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.constraint_records import TYPES, Constraint
from newtonsim.pybullet_compat.world.plain_kinematics import product, rotated

FAILED = "createConstraint failed."
LEAST_RATIO = 1.0e-12
"""Gear ratio whose inverse single precision can work with."""
_SIZES = {JOINT_FIXED: 6, JOINT_POINT2POINT: 3, JOINT_PRISMATIC: 5, JOINT_GEAR: 1}
"""How many numbers getConstraintState has of each type."""
PARALLEL = 1.0e-6
"""Sine of the angle up to which an axis counts as parallel to another."""


def createConstraint(
    client: Client,
    parentBodyUniqueId: int,
    parentLinkIndex: int,
    childBodyUniqueId: int,
    childLinkIndex: int,
    jointType: int,
    jointAxis,
    parentFramePosition,
    childFramePosition,
    parentFrameOrientation=(0.0, 0.0, 0.0, 1.0),
    childFrameOrientation=(0.0, 0.0, 0.0, 1.0),
) -> int:
    """Hold two links, or a link and the world, and return the constraint's unique id.

    Args:
        client: The client.
        parentBodyUniqueId: A body.
        parentLinkIndex: Its link, -1 for the base.
        childBodyUniqueId: Another body, -1 for the world.
        childLinkIndex: Its link.
        jointType: JOINT_FIXED, JOINT_POINT2POINT, JOINT_PRISMATIC or JOINT_GEAR.
        jointAxis: Axis of prismatic joints in the parent's inertial frame (3,).
        parentFramePosition: Joint frame in the parent's inertial frame (3,) [m]; of several worlds all of
            these frames may be rows, one for each world: (W, 3) and (W, 4).
        childFramePosition: Joint frame in the child's inertial frame, or in the world (3,) [m].
        parentFrameOrientation: Quaternion xyzw (4,); of prismatic joints the same in all worlds.
        childFrameOrientation: Quaternion xyzw (4,).
    """
    parent, child = client.bodies.get(parentBodyUniqueId), client.bodies.get(childBodyUniqueId)
    if parent is None or not -1 <= parentLinkIndex < len(parent.links) - 1:
        raise error(FAILED)
    if child is not None and not -1 <= childLinkIndex < len(child.links) - 1:
        raise error(FAILED)
    if jointType not in TYPES:
        raise error(FAILED)
    axis = np.array(vec3(jointAxis, "jointAxis"))
    parent_frame, parent_rows = _frames(client, parentFramePosition, parentFrameOrientation, "parentFrame")
    child_frame, child_rows = _frames(client, childFramePosition, childFrameOrientation, "childFrame")
    if jointType == JOINT_PRISMATIC and parent_rows is not None and differs(parent_rows[:, 3:]):
        raise error("parentFrameOrientation: that of a prismatic joint is the same in all worlds.")
    constraint = Constraint(
        parentBodyUniqueId,
        parentLinkIndex,
        childBodyUniqueId if child is not None else -1,
        childLinkIndex if child is not None else -1,
        jointType,
        axis,
        parent_frame,
        child_frame,
        parent_rows,
        child_rows,
    )
    return client.add_constraint(constraint)


def _frames(client: Client, position, rotation, name: str) -> tuple[Pose, np.ndarray | None]:
    """A joint frame of the first world, and those of all worlds (W, 7) if they differ."""
    if client.num_worlds == 1:
        p, q = vec3(position, f"{name}Position"), quat(rotation, f"{name}Orientation")
        norm = hypot(*q)
        unit = tuple(part / norm for part in q) if norm > 0.0 else (0.0, 0.0, 0.0, 1.0)
        return Pose(np.array(p), np.array(unit)), None
    every = np.zeros((client.num_worlds, 7))
    every[:, :3] = rows(position, 3, client, f"Cannot convert {name}Position.")
    every[:, 3:] = rows(rotation, 4, client, f"Cannot convert {name}Orientation.")
    norm = np.linalg.norm(every[:, 3:], axis=1, keepdims=True)
    every[:, 3:] = np.where(norm > 0.0, every[:, 3:] / np.where(norm > 0.0, norm, 1.0), [0.0, 0.0, 0.0, 1.0])
    return Pose(every[0, :3], every[0, 3:]), every if differs(every) else None


def changeConstraint(
    client: Client,
    userConstraintUniqueId: int,
    jointChildPivot=None,
    jointChildFrameOrientation=None,
    maxForce=None,
    gearRatio=None,
    gearAuxLink=None,
    relativePositionTarget=None,
    erp=None,
) -> None:
    """Change the child's frame, the greatest force or a gear; unknown constraints do nothing.

    Of several worlds jointChildPivot may be (W, 3), jointChildFrameOrientation (W, 4) and maxForce (W,), of
    which negative ones leave the forces of their own worlds.

    A gear holds from the first ratio on that is not zero: q_parent + ratio q_child keeps its rate, and with
    an erp, which negative ones leave as it is, it goes to relativePositionTarget. With gearAuxLink, a joint
    of the parent's body, the rate is that joint's before motors, contacts and constraints of a step act, and
    the position is relative to its own; that joint feels nothing of it. Negative ones leave it as it is.
    """
    constraint = client.constraints.get(userConstraintUniqueId)
    if constraint is None:
        return
    erp = None if erp is not None and erp < 0.0 else erp
    gears = {"gearRatio": gearRatio, "gearAuxLink": gearAuxLink, "erp": erp}
    gears["relativePositionTarget"] = relativePositionTarget
    if gearRatio is not None and 0.0 < abs(gearRatio) < LEAST_RATIO:
        raise error(f"gearRatio must be 0 or at least {LEAST_RATIO:g} in size.")
    if client.given_worlds < client.num_worlds:
        for name, value in gears.items():
            if value is not None:
                raise error(f"{name}: gears are the same in all worlds; do not pass worlds.")
    if jointChildPivot is not None or jointChildFrameOrientation is not None:
        move = _move_children if client.num_worlds > 1 or client.chooses else _move_child
        move(client, constraint, jointChildPivot, jointChildFrameOrientation)
        constraint.tell_child(client.engine)
    if maxForce is not None and (maxForce >= 0.0 if maxForce.__class__ is float else np.any(maxForce >= 0.0)):
        constraint.max_force = _limit(client, constraint.max_force, maxForce)
        impulse = maxForce * client.settings.solver_step
        constraint.max_impulse = _limit(client, constraint.max_impulse, impulse)
        constraint.tell_limit(client.engine, client.settings)
    gear = {"gear_ratio": gearRatio, "erp": erp, "relative_position": relativePositionTarget}
    new: dict[str, float] = {name: float(value) for name, value in gear.items() if value is not None}
    if gearAuxLink is not None and gearAuxLink >= 0:
        new["gear_aux_link"] = int(gearAuxLink)
    if any(value != getattr(constraint, name) for name, value in new.items()):
        client.change_gear(constraint, new)


def _move_child(client: Client, constraint: Constraint, pivot, orientation) -> None:
    """Put the child's frame of the only world elsewhere; a pivot or orientation of None stays."""
    p, q = constraint.child_frame.p, constraint.child_frame.q
    if pivot is not None:
        p = np.array(vec3(pivot, "jointChildPivot"))
    if orientation is not None:
        parts = quat(orientation, "jointChildFrameOrientation")
        norm = hypot(*parts)
        if norm == 0.0:
            raise error("Cannot convert jointChildFrameOrientation.")
        q = np.array([part / norm for part in parts])
    constraint.child_frame = Pose(p, q)


def _move_children(client: Client, constraint: Constraint, pivot, orientation) -> None:
    """Do what `_move_child` does for the chosen worlds, with vectors or with rows of them."""
    every = np.array(np.broadcast_to(constraint.frames()[1], (client.num_worlds, 7)))
    for value, columns, name in (
        (pivot, slice(0, 3), "jointChildPivot"),
        (orientation, slice(3, 7), "jointChildFrameOrientation"),
    ):
        if value is not None:
            size = columns.stop - columns.start
            every[client.chosen, columns] = rows(value, size, client, f"Cannot convert {name}.")
    norm = np.linalg.norm(every[:, 3:], axis=1, keepdims=True)
    if not norm.all():
        raise error("Cannot convert jointChildFrameOrientation.")
    every[:, 3:] /= norm
    constraint.child_frame = Pose(every[0, :3], every[0, 3:])
    constraint.child_rows = every if differs(every) else None


def _limit(client: Client, known: float | np.ndarray, given: float | np.ndarray) -> float | np.ndarray:
    """Greatest force where some worlds are given another: a number, or an array (W,) where they differ."""
    if client.given_worlds == client.num_worlds and (given.__class__ is float or not np.ndim(given)):
        return float(given)
    limits = np.array(np.broadcast_to(known, client.num_worlds))
    limits[client.chosen] = np.where(np.asarray(given) >= 0.0, given, limits[client.chosen])
    return limits


def removeConstraint(client: Client, userConstraintUniqueId: int) -> None:
    """Remove a constraint or the anchor of a soft body; unknown ones do nothing."""
    if userConstraintUniqueId in client.constraints:
        client.remove_constraint(userConstraintUniqueId)


def getNumConstraints(client: Client) -> int:
    """Return the number of constraints."""
    return len(client.constraints)


def getConstraintUniqueId(client: Client, serialIndex: int) -> int:
    """Return the unique id of the constraint at a place in the list, -1 outside it."""
    uids = list(client.constraints)
    return uids[serialIndex] if 0 <= serialIndex < len(uids) else -1


def getConstraintInfo(client: Client, constraintUniqueId: int) -> tuple:
    """Return the definition of a constraint as PyBullet's 15 fields."""
    constraint = client.constraints.get(constraintUniqueId)
    if constraint is None:
        raise error("Couldn't get user constraint info")
    parent_position, parent_rotation = _told_frame(constraint.parent_frame, constraint.parent_rows)
    position, rotation = _told_frame(constraint.child_frame, constraint.child_rows)
    return (
        constraint.parent_body,
        constraint.parent_link,
        constraint.child_body,
        constraint.child_link,
        constraint.kind,
        tuple(constraint.axis.tolist()),
        parent_position,
        position,
        parent_rotation,
        rotation,
        constraint.max_force.copy() if isinstance(constraint.max_force, np.ndarray) else constraint.max_force,
        constraint.gear_ratio,
        max(constraint.gear_aux_link, 0),
        constraint.relative_position,
        constraint.erp,
    )


def _told_frame(frame: Pose, every: np.ndarray | None) -> tuple:
    """Position and orientation of a joint frame, as arrays (W, 3) and (W, 4) where the worlds differ."""
    if every is not None:
        return every[:, :3].copy(), every[:, 3:].copy()
    return tuple(frame.p.tolist()), tuple(frame.q.tolist())


def getConstraintState(client: Client, constraintUniqueId: int) -> tuple | np.ndarray:
    """Return the forces of a constraint in the last step, zero before the first one.

    Returns:
        Force on the parent in world axes and moment in those of its joint frame (6,) of fixed constraints;
        the opposite force (3,) of point-to-point ones; two forces across the axis and moments about z, x and
        y (5,) of prismatic ones; the effort (1,) of gears. With several worlds an array (W, n).
    """
    constraint = client.constraints.get(constraintUniqueId)
    if constraint is None:
        raise error("Couldn't getConstraintState.")
    size = _SIZES[constraint.kind]
    engine = client.engine if client.next_engine is None else client.ensure()
    wrench = constraint.last_wrench if engine is None else engine.constraint_wrench(constraint)
    if client.num_worlds == 1:
        return (0.0,) * size if wrench is None else _plain_state(client, constraint, wrench[0].tolist())
    forces = np.zeros((client.num_worlds, size))
    if wrench is not None:
        moment, force = wrench[:, :3], wrench[:, 3:]
        if constraint.kind != JOINT_GEAR and not _turns(client, constraint):
            moment = np.zeros_like(moment)
        if constraint.kind == JOINT_FIXED:
            forces = np.concatenate([-force, _in_frame(client, constraint, -moment)], axis=1)
        elif constraint.kind == JOINT_POINT2POINT:
            forces = force
        elif constraint.kind == JOINT_GEAR:
            forces = moment[:, :1]
        else:
            across = np.einsum("wij,wj->wi", _across(client, constraint), -force)
            moment = _in_frame(client, constraint, -moment)
            forces = np.concatenate([across, moment[:, [2, 0, 1]]], axis=1)
    return forces


def _plain_state(client: Client, constraint: Constraint, wrench: list[float]) -> tuple[float, ...]:
    """Do what getConstraintState does in the only world, mostly in plain numbers."""
    a, b, c, x, y, z = wrench
    if constraint.kind == JOINT_POINT2POINT:
        return x, y, z
    if constraint.kind == JOINT_GEAR:
        return (a,)
    turn = product(_turn_of_parent(client, constraint)[0].tolist(), constraint.parent_frame.q.tolist())
    back, moment = (-turn[0], -turn[1], -turn[2], turn[3]), (0.0, 0.0, 0.0)
    if _turns(client, constraint):
        moment = rotated(back, (-a, -b, -c))
    if constraint.kind == JOINT_FIXED:
        return -x, -y, -z, *moment
    i, j, k = rotated(back, (-x, -y, -z))
    across = (u * i + v * j + w * k for u, v, w in _directions(constraint))
    return *across, moment[2], moment[0], moment[1]


def _turns(client: Client, constraint: Constraint) -> bool:
    """Whether a moment can turn what a constraint holds; of bodies without inertia none is told."""
    ends = (constraint.parent_body, constraint.parent_link), (constraint.child_body, constraint.child_link)
    return any(uid in client.bodies and client.bodies[uid].turns(link + 1) for uid, link in ends)


def _turn_of_parent(client: Client, constraint: Constraint) -> np.ndarray:
    """Orientation of the parent (W, 4) at the start of the step that the forces are of."""
    engine = client.engine
    turn = constraint.last_turn if engine is None else engine.constraint_turn(constraint)
    assert turn is not None  # it is kept with the forces
    return turn


def _turn_of_frame(client: Client, constraint: Constraint) -> np.ndarray:
    """Orientation of the joint frame of the parent (W, 4) at the start of the step that the forces are of."""
    return quat_multiply(_turn_of_parent(client, constraint), constraint.frames()[0][..., 3:])


def _in_frame(client: Client, constraint: Constraint, vector: np.ndarray) -> np.ndarray:
    """A vector of world axes (W, 3) along those of the joint frame of the parent."""
    return quat_rotate(quat_conjugate(_turn_of_frame(client, constraint)), vector)


def _across(client: Client, constraint: Constraint) -> np.ndarray:
    """Two directions across the axis of a prismatic constraint (W, 2, 3), in world axes."""
    turn = _turn_of_frame(client, constraint)
    return np.stack([quat_rotate(turn, direction) for direction in _directions(constraint)], axis=1)


def _directions(constraint: Constraint) -> tuple[np.ndarray, np.ndarray]:
    """The same two, u x a and u, in the joint frame of the parent (3,).

    There u is the x axis without its part along the axis a, or the y axis if nothing is left.
    """
    axis = constraint.slide / max(float(np.linalg.norm(constraint.axis)), PARALLEL)
    u = np.array([1.0, 0.0, 0.0]) - axis[0] * axis
    u = u / np.linalg.norm(u) if np.linalg.norm(u) > PARALLEL else np.array([0.0, 1.0, 0.0])
    return np.cross(u, axis), u

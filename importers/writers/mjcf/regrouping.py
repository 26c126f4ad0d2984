"""Inertias that move a tree as its own do, and that matter can have.

Motion does not tell which of two bodies has some rotational inertia if they do not turn relative to each
other, and matter along the axis of a hinge adds the same to the kinetic energy whether it turns with the
parent or with the child (Gautier and Khalil, "Direct calculation of minimum set of inertial parameters of
serial robots", IEEE Trans. on Robotics and Automation 6(3), 1990). What some bodies of a robot file lack to
be possible, others may have to spare.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.geometry.transforms import quat_matrix
from newtonsim.importers.writers.records import JointRecord, Scene
from newtonsim.scene.enums import JointType

_MARGIN = 1.0e-5
"""Least second moment of mass that is aimed at, over the sum of all three."""

_STEPS = 300
_WORLD = -1


@dataclass(slots=True)
class _Transfer:
    """Second moments that a hinge lets pass to the group of its child, and what the other group loses."""

    child: int
    parent: int
    gain: np.ndarray
    loss: np.ndarray


def second_moments(inertia: np.ndarray) -> np.ndarray:
    """Return the second moments of mass Σ = ½ tr(I) 1 - I of an inertia (3, 3)."""
    return 0.5 * np.trace(inertia) * np.eye(3) - inertia


def inertia_of(second: np.ndarray) -> np.ndarray:
    """Return the inertia of second moments of mass (3, 3)."""
    return np.trace(second) * np.eye(3) - second


def regroup(scene: Scene, wanting: Sequence[int]) -> dict[int, np.ndarray]:
    """Return other inertias (3, 3) by body, which move the scene alike.

    Args:
        scene: The scene.
        wanting: Bodies whose inertia is impossible.

    Returns:
        Inertias of all bodies that give or take; nothing of trees where what there is does not suffice.
    """
    second = np.array([second_moments(body.props.inertia) for body in scene.bodies])
    group, turn = _groups(scene)
    sums = np.zeros_like(second)
    for body, number in enumerate(group):
        if number != _WORLD:
            sums[number] += turn[body] @ second[body] @ turn[body].T
    transfers = [
        one
        for joint in scene.joints
        for one in _transfers(joint, group, turn)
        if sums[one.child].any() and (one.parent == _WORLD or sums[one.parent].any())
    ]
    lacking = {group[body] for body in wanting} - {_WORLD}
    found: dict[int, np.ndarray] = {}
    for members in _connected(len(sums), transfers):
        if members.isdisjoint(lacking):
            continue
        result = _solved(sums, [one for one in transfers if one.child in members], sorted(members))
        for number, total in result.items():
            if number in lacking or np.any(total != sums[number]):
                found |= _shared(
                    total, [body for body in range(len(group)) if group[body] == number], second, turn
                )
    return found


def _groups(scene: Scene) -> tuple[list[int], np.ndarray]:
    """Group of each body with those that never turn against it, and the rotation into the group's axes.

    A group has the number of its first body, -1 for those that do not turn against the world.
    """
    group, turn = list(range(len(scene.bodies))), np.tile(np.eye(3), (len(scene.bodies), 1, 1))
    loose = [place for place, body in enumerate(scene.bodies) if body.joint is None]
    pending = [joint for parent in (-1, *loose) for joint in scene.below(parent)]
    while pending:
        joint = pending.pop()
        if joint.kind in (JointType.FIXED, JointType.PRISMATIC):
            above = turn[joint.parent] if joint.parent >= 0 else np.eye(3)
            group[joint.child] = group[joint.parent] if joint.parent >= 0 else _WORLD
            turn[joint.child] = above @ quat_matrix(joint.X_p.q) @ quat_matrix(joint.X_c.q).T
        pending += scene.below(joint.child)
    return group, turn


def _transfers(joint: JointRecord, group: Sequence[int], turn: np.ndarray) -> list[_Transfer]:
    """What a hinge lets pass, in the axes of the groups that it connects."""
    if joint.kind != JointType.REVOLUTE:
        return []
    axis = joint.axes[0].axis
    along = np.outer(axis, axis)
    parent = _WORLD if joint.parent < 0 else group[joint.parent]
    free = [along]
    if parent == _WORLD:  # nothing but the inertia about the axis matters
        across = 0.5 * (np.eye(3) - along)
        free = [one - (np.trace(one) - axis @ one @ axis) * across for one in _symmetric()]
    below = turn[joint.child] @ quat_matrix(joint.X_c.q)
    above = (np.eye(3) if joint.parent < 0 else turn[joint.parent]) @ quat_matrix(joint.X_p.q)
    child = group[joint.child]
    return [_Transfer(child, parent, below @ one @ below.T, above @ one @ above.T) for one in free]


def _symmetric() -> list[np.ndarray]:
    """A basis of symmetric matrices (3, 3)."""
    unit = np.eye(3)
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    return [0.5 * (np.outer(unit[i], unit[j]) + np.outer(unit[j], unit[i])) for i, j in pairs]


def _connected(count: int, transfers: Sequence[_Transfer]) -> list[set[int]]:
    """Groups between which something can pass."""
    sets = [{number} for number in range(count)]
    for one in transfers:
        if one.parent != _WORLD and sets[one.parent] is not sets[one.child]:
            sets[one.parent] |= sets[one.child]
            for member in sets[one.child]:
                sets[member] = sets[one.parent]
    return list({id(one): one for one in sets}.values())


def _solved(sums: np.ndarray, transfers: Sequence[_Transfer], members: list[int]) -> dict[int, np.ndarray]:
    """Second moments by group of which none is impossible, close to the given ones; empty if there are none.

    The sum of the squares of what is missing is convex in what passes, and zero where nothing is missing.
    """
    from scipy.optimize import minimize

    size = np.array([max(float(np.abs(np.linalg.eigvalsh(one)).sum()), 1.0e-12) for one in sums])
    child, parent = (np.array([getattr(one, end) for one in transfers], int) for end in ("child", "parent"))
    unit = np.minimum(size[child], np.where(parent == _WORLD, np.inf, size[parent]))[:, None, None]
    gain = unit * np.array([one.gain for one in transfers]).reshape(-1, 3, 3)
    loss = unit * np.array([one.loss for one in transfers]).reshape(-1, 3, 3)
    loss[parent == _WORLD] = 0.0
    own = size[members, None, None]

    def moved(amounts: np.ndarray) -> np.ndarray:
        result = sums.copy()
        np.add.at(result, child, amounts[:, None, None] * gain)
        np.add.at(result, parent, -amounts[:, None, None] * loss)
        return result

    def missing(amounts: np.ndarray) -> tuple[float, np.ndarray]:
        values, axes = np.linalg.eigh(moved(amounts)[members] / own)
        lack = np.minimum(values - _MARGIN, 0.0)
        slopes = np.zeros_like(sums)
        slopes[members] = 2.0 * (axes * lack[:, None, :]) @ axes.transpose(0, 2, 1) / own
        gradient = (slopes[child] * gain).sum((1, 2)) - (slopes[parent] * loss).sum((1, 2))
        return float((lack**2).sum()), gradient

    amounts = np.zeros(len(transfers))
    if len(transfers):
        limits = {"maxiter": _STEPS, "ftol": 0.0, "gtol": 0.0}
        amounts = minimize(missing, amounts, jac=True, method="L-BFGS-B", options=limits).x
    result = moved(amounts)
    if np.any(np.linalg.eigvalsh(result[members])[:, 0] < 0.1 * _MARGIN * size[members]):
        return {}
    return {number: result[number] for number in members}


def _shared(
    total: np.ndarray, members: list[int], second: np.ndarray, turn: np.ndarray
) -> dict[int, np.ndarray]:
    """Inertias by body of a group that has these second moments, shared by the size of what each had."""
    size = np.array([np.abs(np.linalg.eigvalsh(second[body])).sum() for body in members])
    parts = size / size.sum()
    return {
        body: inertia_of(part * turn[body].T @ total @ turn[body])
        for body, part in zip(members, parts)
        if part > 0.0
    }

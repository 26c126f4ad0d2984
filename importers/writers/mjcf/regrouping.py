"""Masses and inertias that move a tree as its own do, and that matter can have.

Motion does not tell which of two bodies some matter belongs to if it does not move relative to either: matter
on the axis of a hinge adds the same to the kinetic energy whether it turns with the parent or with the child,
and so does rotational inertia across a slide (Gautier and Khalil, "Direct calculation of minimum set of
inertial parameters of serial robots", IEEE Trans. on Robotics and Automation 6(3), 1990). What some bodies of
a robot file lack to be possible, others may have to spare.

The matter of a body is its pseudo-inertia in the body's axes, the sum of m x xᵀ over its points x = (p, 1):
second moments, first moments and mass, which matter can have if it is positive (Wensing, Kim, Slotine,
"Linear matrix inequalities for physically consistent inertial parameter identification", RA-L 3(1), 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.geometry.transforms import quat_matrix
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.records import BodyRecord, JointRecord, Scene
from newtonsim.scene.enums import JointType

_MARGIN = 1.0e-5
"""Least eigenvalue that is aimed at of pseudo-inertias scaled to a mass and a radius of gyration of one."""

_STEPS = 1000
_WORLD = -1


@dataclass(slots=True)
class _Transfer:
    """Matter that a joint lets pass to its child, and what the parent loses, each in the body's axes."""

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


def regroup(scene: Scene, wanting: Sequence[int], keep_masses: bool) -> dict[int, MassProps]:
    """Return other masses, centres of mass and inertias by body, which move the scene alike.

    Masses stay where inertias alone suffice.

    Args:
        scene: The scene.
        wanting: Bodies whose inertia is impossible.
        keep_masses: Whether masses and centres of mass have to stay in any case.

    Returns:
        Those of all bodies that give or take; nothing of trees where what there is does not suffice.
    """
    matter = np.array([_pseudo_inertia(body.props) for body in scene.bodies])
    having = [bool(one.any()) for one in matter]
    found: dict[int, MassProps] = {}
    for moments_only in (True,) if keep_masses else (True, False):
        transfers = [
            one
            for joint in scene.joints
            for one in _transfers(joint, moments_only)
            if having[one.child] and (one.parent == _WORLD or having[one.parent])
        ]
        lacking = set(wanting) - found.keys()
        for members in _connected(len(matter), transfers):
            if members.isdisjoint(lacking):
                continue
            inside = [one for one in transfers if one.child in members]
            result = _solved(scene.bodies, matter, inside, sorted(members))
            for body, one in result.items():
                if body in lacking or np.any(one != matter[body]):
                    found[body] = _props(one, scene.bodies[body].props)
    return found


def _pseudo_inertia(props: MassProps) -> np.ndarray:
    """Pseudo-inertia (4, 4) of a body in its axes."""
    first = props.mass * props.com
    result = np.empty((4, 4))
    result[:3, :3] = second_moments(props.inertia) + np.outer(first, props.com)
    result[:3, 3] = result[3, :3] = first
    result[3, 3] = props.mass
    return result


def _props(matter: np.ndarray, given: MassProps) -> MassProps:
    """Mass, centre of mass and inertia of a pseudo-inertia, rounded no further than what was given."""
    mass, com = float(matter[3, 3]), matter[:3, 3] / matter[3, 3] if matter[3, 3] > 0.0 else given.com
    if mass == given.mass and np.allclose(com, given.com, rtol=1.0e-12, atol=0.0):
        com = given.com
    return MassProps(mass, com, inertia_of(matter[:3, :3] - mass * np.outer(com, com)))


def _transfers(joint: JointRecord, moments_only: bool) -> list[_Transfer]:
    """What a joint lets pass, where `moments_only` without masses and centres of mass."""
    below, above = _homogeneous(joint.X_c), _homogeneous(joint.X_p)
    kinds = [one for one in _free(joint) if not (moments_only and one[3].any())]
    return [
        _Transfer(joint.child, joint.parent, below @ one @ below.T, above @ one @ above.T) for one in kinds
    ]


def _free(joint: JointRecord) -> list[np.ndarray]:
    """A basis (4, 4) of the matter whose motion does not tell on which side of a joint it is, in its axes."""
    angular = [axis.axis for axis in joint.axes if not axis.linear]
    origin = np.array([0.0, 0.0, 0.0, 1.0])
    if joint.is_rigid:
        return [] if joint.parent == _WORLD else _symmetric(4)
    if joint.kind == JointType.BALL:
        return [] if joint.parent == _WORLD else [np.outer(origin, origin)]
    if not joint.axes:
        return []
    if not angular:
        return [np.pad(one, (0, 1)) for one in _symmetric(3)]
    if len(joint.axes) == 1 and joint.parent == _WORLD:  # nothing but the inertia about the axis matters
        axis = angular[0]
        across = 0.5 * (np.eye(3) - np.outer(axis, axis))
        return [np.pad(one - (np.trace(one) - axis @ one @ axis) * across, (0, 1)) for one in _symmetric(3)]
    if len(angular) < len(joint.axes) or joint.parent == _WORLD:
        return []
    if len(angular) > 1:
        return [np.outer(origin, origin)]
    along = np.append(angular[0], 0.0)
    both = np.outer(along, origin)
    return [np.outer(along, along), both + both.T, np.outer(origin, origin)]


def _symmetric(size: int) -> list[np.ndarray]:
    """A basis of symmetric matrices."""
    unit = np.eye(size)
    pairs = [(i, j) for i in range(size) for j in range(i, size)]
    return [0.5 * (np.outer(unit[i], unit[j]) + np.outer(unit[j], unit[i])) for i, j in pairs]


def _homogeneous(pose: Pose) -> np.ndarray:
    """A pose as a matrix (4, 4)."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = quat_matrix(pose.q), pose.p
    return result


def _connected(count: int, transfers: Sequence[_Transfer]) -> list[set[int]]:
    """Bodies between which something can pass."""
    sets = [{number} for number in range(count)]
    for one in transfers:
        if one.parent != _WORLD and sets[one.parent] is not sets[one.child]:
            sets[one.parent] |= sets[one.child]
            for member in sets[one.child]:
                sets[member] = sets[one.parent]
    return list({id(one): one for one in sets}.values())


def _scales(body: BodyRecord) -> np.ndarray:
    """The matrix (4, 4) D by which D P Dᵀ has a mass and a radius of gyration of one."""
    size = float(np.abs(np.linalg.eigvalsh(second_moments(body.props.inertia))).sum())
    mass = max(body.props.mass, 1.0e-12)
    result = np.diag([1.0, 1.0, 1.0, np.sqrt(max(size, 1.0e-12) / mass)])
    result[:3, 3] = -body.props.com
    return result / np.sqrt(max(size, 1.0e-12))


def _solved(
    bodies: Sequence[BodyRecord], matter: np.ndarray, transfers: Sequence[_Transfer], members: list[int]
) -> dict[int, np.ndarray]:
    """Pseudo-inertias by body of which none is impossible, close to the given ones; empty if there are none.

    The sum of the squares of what is missing is convex in what passes, and zero where nothing is missing.
    """
    from scipy.optimize import minimize

    if not transfers:
        return {}
    place = {body: row for row, body in enumerate(members)}
    scales = np.array([_scales(bodies[body]) for body in members])
    child = np.array([place[one.child] for one in transfers])
    inner = np.array([one.parent != _WORLD for one in transfers])
    parent = np.array([place.get(one.parent, 0) for one in transfers])
    gain = np.array([one.gain for one in transfers])
    loss = np.array([one.loss for one in transfers]) * inner[:, None, None]
    scaled_gain = scales[child] @ gain @ scales[child].transpose(0, 2, 1)
    scaled_loss = scales[parent] @ loss @ scales[parent].transpose(0, 2, 1)
    unit = 1.0 / np.maximum(np.abs(scaled_gain).max((1, 2)), np.abs(scaled_loss).max((1, 2)))
    gain, loss, scaled_gain, scaled_loss = (
        unit[:, None, None] * one for one in (gain, loss, scaled_gain, scaled_loss)
    )
    given = scales @ matter[members] @ scales.transpose(0, 2, 1)
    lowest = np.linalg.eigvalsh(given)[:, 0]
    least = np.where(lowest < -_MARGIN, _MARGIN, np.clip(lowest, 0.0, _MARGIN))  # sheets may stay thin

    def moved(start: np.ndarray, amounts: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        result = start.copy()
        np.add.at(result, child, amounts[:, None, None] * plus)
        np.add.at(result, parent, -amounts[:, None, None] * minus)
        return result

    def missing(amounts: np.ndarray) -> tuple[float, np.ndarray]:
        values, axes = np.linalg.eigh(moved(given, amounts, scaled_gain, scaled_loss))
        lack = np.minimum(values - least[:, None], 0.0)
        slopes = 2.0 * (axes * lack[:, None, :]) @ axes.transpose(0, 2, 1)
        gradient = (slopes[child] * scaled_gain).sum((1, 2)) - (slopes[parent] * scaled_loss).sum((1, 2))
        return float((lack**2).sum()), gradient

    limits = {"maxiter": _STEPS, "ftol": 0.0, "gtol": 0.0}
    amounts = minimize(missing, np.zeros(len(transfers)), jac=True, method="L-BFGS-B", options=limits).x
    reached = np.linalg.eigvalsh(moved(given, amounts, scaled_gain, scaled_loss))[:, 0]
    if np.any(reached < least - 0.9 * _MARGIN):
        return {}
    result = moved(matter[members], amounts, gain, loss)
    return {body: result[row] for body, row in place.items()}

"""Inverse kinematics of bodies: the steps are in `newtonsim.kernels.trees.exact.reach`.

All steps agree with those of the real module up to rounding, with these exceptions: targets together with the
null space in calculateInverseKinematics2, where the real module ignores the targets; spherical joints; and
IK_SDLS without rest poses, where it corrupts its memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from newtonsim.pybullet_compat.kinematics.body_chains import (
    BASE_COORDINATES,
    BodyChains,
    chains_of,
    length,
    numbers,
    system_error,
)
from newtonsim.pybullet_compat.kinematics.reach import Reach
from newtonsim.pybullet_compat.surface.arguments import check_rows
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client

IK_SDLS = 1
DEFAULT_ITERATIONS, DEFAULT_THRESHOLD = 20, 1.0e-4
MOST_ITERATIONS = 10_000
IDENTITY = (0.0, 0.0, 0.0, 1.0)

REACH_FAILED = "Error in calculateInverseKinematics"
REST = ("lowerLimits", "upperLimits", "jointRanges", "restPoses")

REACH_POSITION = "calculateInverseKinematics couldn't extract position vector3"
REACH_CURRENT = (
    "calculateInverseKinematics the size of input current positions needs to be equal to the number of "
    "degrees of freedom."
)
REACH_DAMPING = (
    "calculateInverseKinematics: the size of input joint damping values should be equal to the number of "
    "degrees of freedom, not using joint damping."
)


def calculateInverseKinematics(
    client: Client,
    bodyUniqueId: int,
    endEffectorLinkIndex: int,
    targetPosition: Sequence[float],
    targetOrientation: Sequence[float] | None = None,
    lowerLimits: Sequence[float] | None = None,
    upperLimits: Sequence[float] | None = None,
    jointRanges: Sequence[float] | None = None,
    restPoses: Sequence[float] | None = None,
    jointDamping: Sequence[float] | None = None,
    solver: int = 0,
    currentPositions: Sequence[float] | None = None,
    maxNumIterations: int = DEFAULT_ITERATIONS,
    residualThreshold: float = DEFAULT_THRESHOLD,
) -> tuple[float, ...] | np.ndarray:
    """Return coordinates of the joints that bring a link to a target; nothing is moved.

    Args:
        client: The client.
        bodyUniqueId: The body.
        endEffectorLinkIndex: The link; -1 has nothing to reach.
        targetPosition: World position of its link frame (3,) or (W, 3) [m].
        targetOrientation: World quaternion xyzw (4,) or (W, 4), None for any.
        lowerLimits: With the next three, all as long as there are degrees of freedom: the null space is used
            to get back inside these limits (nv,) or (W, nv).
        upperLimits: See `lowerLimits`.
        jointRanges: How soft the limits are: a joint beyond its limit goes back by 10 / range of the excess.
        restPoses: Coordinates that the null space is used to approach.
        jointDamping: Damping of each degree of freedom, 0.5 if not given; not used with rest poses.
        solver: IK_DLS, or IK_SDLS, which is not used with rest poses.
        currentPositions: Where to start, None for the present coordinates. If given, the targets are those of
            a base with its inertial frame at the origin.
        maxNumIterations: Most steps; no more than 10,000 are made.
        residualThreshold: The last step is the first that starts nearer than this to the target [m].

    Returns:
        Coordinates of all joints that move, roll, pitch and yaw for spherical ones; (W, nv) in many worlds.

    Raises:
        error: There is no such body, link or solver, or a length is wrong.
    """
    target = numbers(targetPosition, "calculateInverseKinematics")
    if length(target, client, "targetPosition") != 3:
        raise error(REACH_POSITION)
    orientation = None
    if targetOrientation is not None:
        orientation = numbers(targetOrientation, "calculateInverseKinematics")
        if length(orientation, client, "targetOrientation") != 4:
            orientation = None
    return _reach(
        client,
        bodyUniqueId,
        (endEffectorLinkIndex,),
        target[..., None, :],
        orientation,
        (lowerLimits, upperLimits, jointRanges, restPoses),
        jointDamping,
        solver,
        currentPositions,
        maxNumIterations,
        residualThreshold,
    )


def calculateInverseKinematics2(
    client: Client,
    bodyUniqueId: int,
    endEffectorLinkIndices: Sequence[int],
    targetPositions: Sequence[Sequence[float]],
    lowerLimits: Sequence[float] | None = None,
    upperLimits: Sequence[float] | None = None,
    jointRanges: Sequence[float] | None = None,
    restPoses: Sequence[float] | None = None,
    jointDamping: Sequence[float] | None = None,
    solver: int = 0,
    currentPositions: Sequence[float] | None = None,
    maxNumIterations: int = DEFAULT_ITERATIONS,
    residualThreshold: float = DEFAULT_THRESHOLD,
) -> tuple[float, ...] | np.ndarray:
    """Return coordinates of the joints that bring several links to targets; nothing is moved.

    Args:
        client: The client.
        bodyUniqueId: The body.
        endEffectorLinkIndices: The links, of which those without a target are ignored.
        targetPositions: World positions of their link frames (n, 3) or (W, n, 3) [m].
        lowerLimits: This and the rest as in `calculateInverseKinematics`.
        upperLimits: See there.
        jointRanges: See there.
        restPoses: See there.
        jointDamping: See there.
        solver: See there.
        currentPositions: See there.
        maxNumIterations: See there.
        residualThreshold: See there; the largest distance counts.

    Returns:
        Coordinates as in `calculateInverseKinematics`.

    Raises:
        error: As there, or there are no targets, or more than links.
        SystemError: A link index is not an integer.
    """
    name = "calculateInverseKinematics2"
    try:
        targets = np.asarray(targetPositions, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(REACH_POSITION) from None
    if targets.ndim == 3:
        check_rows(targets[:, 0], client, "targetPositions")
    if targets.ndim not in (2, 3) or targets.shape[-1] != 3 or not targets.size:
        raise error(REACH_POSITION)
    if targets.ndim == 3 and (client.num_worlds == 1 or len(targets) != client.num_worlds):
        raise error(REACH_POSITION)
    count = targets.shape[-2]
    links = _links(endEffectorLinkIndices, name)[:count]
    if len(links) < count:
        raise error(REACH_FAILED)
    return _reach(
        client,
        bodyUniqueId,
        links,
        targets,
        None,
        (lowerLimits, upperLimits, jointRanges, restPoses),
        jointDamping,
        solver,
        currentPositions,
        maxNumIterations,
        residualThreshold,
    )


def _links(indices: object, name: str) -> tuple[int, ...]:
    """Return link indices.

    Raises:
        error: They are not a sequence.
        SystemError: One is not an integer.
    """
    if not hasattr(indices, "__len__"):
        raise error(REACH_POSITION)
    try:
        return tuple(int(i.__index__()) for i in indices)
    except AttributeError:
        kind = next(type(i).__name__ for i in indices if not hasattr(i, "__index__"))
        cause = TypeError(f"'{kind}' object cannot be interpreted as an integer")
        raise system_error(name, cause) from None


def _reach(
    client: Client,
    uid: int,
    links: tuple[int, ...],
    targets: np.ndarray,
    orientation: np.ndarray | None,
    rest: tuple,
    damping: object,
    solver: int,
    current: object,
    iterations: int,
    threshold: float,
) -> tuple[float, ...] | np.ndarray:
    """Solve for targets (E, 3) or (W, E, 3) in the world; the rest as in the functions of the API."""
    chains = chains_of(client, uid)
    if chains is None or chains.nv == 0 or solver < 0 or max(links) >= chains.chain.link_count - 1:
        raise error(REACH_FAILED)
    chain, body = chains.chain, chains.body
    if current is not None:
        q = numbers(current, "calculateInverseKinematics")
        if q.size and length(q, client, "currentPositions") != chains.nv:
            raise error(REACH_CURRENT)
    if current is not None and q.size:
        chain.configure(chains.coordinates(q), IDENTITY)
    else:
        client.read_poses(body)
        base = body.pose[:, 0]
        chain.configure(body.q[:, BASE_COORDINATES if chains.floating else 0 :], base[:, 3:])
        targets = targets - base[:, None, :3]
    if min(links) < 0:
        kept = [k for k, link in enumerate(links) if link >= 0]
        links, targets = tuple(links[k] for k in kept), targets[..., kept, :]
        orientation = orientation if kept else None
    reach = chains.reach
    _set_damping(client, chains, reach, damping)
    if orientation is not None:
        norm = np.sqrt((orientation * orientation).sum(axis=-1, keepdims=True))
        orientation = orientation / np.where(norm > 0.0, norm, 1.0)
    if not links:
        q = chain.configuration
    else:
        q = reach.solve(
            tuple(link + 1 for link in links),
            targets,
            orientation,
            _set_rest(client, chains, reach, rest),
            solver == IK_SDLS,
            min(iterations, MOST_ITERATIONS) if iterations > 0 else DEFAULT_ITERATIONS,
            threshold if threshold > 0.0 else DEFAULT_THRESHOLD,
        )
    q = chains.angles(q)
    return tuple(q[0].tolist()) if client.num_worlds == 1 else q.copy()


def _set_damping(client: Client, chains: BodyChains, reach: Reach, damping: object) -> None:
    """Give each degree of freedom its damping."""
    if damping is None:
        if chains.damping_set:
            reach.damping[...] = Reach.DEFAULT_DAMPING
            reach.damping_changed()
            chains.damping_set = False
        return
    values = numbers(damping, "calculateInverseKinematics")
    if length(values, client, "jointDamping") < chains.nv:
        warnings.warn(REACH_DAMPING, RuntimeWarning, stacklevel=5)
        values = np.array([Reach.DEFAULT_DAMPING] * chains.nv)
    reach.damping[...] = values[..., : chains.nv]
    reach.damping_changed()
    chains.damping_set = True


def _set_rest(client: Client, chains: BodyChains, reach: Reach, rest: tuple) -> bool:
    """Set limits, ranges and rest poses if all are given; whether they are."""
    if rest[0] is None or any(values is None for values in rest):
        return False
    arrays = [numbers(values, "calculateInverseKinematics") for values in rest]
    if any(length(array, client, name) != chains.nv for array, name in zip(arrays, REST, strict=True)):
        return False
    for to, values in zip((reach.lower, reach.upper, reach.range, reach.rest), arrays, strict=True):
        to[...] = values
    return True

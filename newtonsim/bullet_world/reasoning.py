"""Questions about a world that are answered by experiments in its shadow; the world itself is never changed.

`stable`, `contact`, `visible` and `reachable` also take many candidates. These are tried at once, as worlds
of one batched model, or one after the other if that is faster for few of them. The answer is an array with
one for each. Objects have to be in the same world; that may be a shadow, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real

import numpy as np

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world.frames import (
    Pose,
    as_orientation,
    as_position,
    expect,
    is_pose,
    numbers,
    pose_rows,
)
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.settling import settle
from newtonsim.bullet_world.shadows import Shadows, Trials, one_trial

PIXELS = 128
NEAR, FAR, FIELD_OF_VIEW = 0.02, 100.0, 90.0
"""Clipping planes [m] and field of view [degrees] of cameras."""
PICTURES = 64
"""Cameras that take their pictures at once, as pictures need much memory."""
PLACES = 128
"""Number of candidates that are tried at once: larger models take longer to build than they save."""
FEW_TO_SIMULATE, FEW_TO_PLACE = 8, 16
"""Number of candidates up to which trying one after the other is faster than building a model of many."""


def stable(
    obj: Object,
    poses: Sequence | None = None,
    seconds: float = 1.0,
    distance: float = 0.01,
    angle: float = 0.1,
) -> bool | np.ndarray:
    """Whether an object stays where it is when the world is simulated from rest.

    Loose attachments to it are released.

    Args:
        obj: The object.
        poses: Candidates for its pose: pairs of position and orientation, or rows of seven (n, 7); None for
            its own.
        seconds: Time to simulate [s].
        distance: Largest displacement of its origin that counts as staying [m].
        angle: Largest rotation that counts as staying [rad].

    Returns:
        The answer, or one for each candidate, bool (n,).

    Raises:
        TypeError: It is not an object.
        ValueError: A pose is invalid, or a number is negative or not finite.
    """
    _require(obj=obj)
    _not_negative(seconds=seconds, distance=distance, angle=angle)
    rows = np.concatenate(obj.get_frame())[None] if poses is None else pose_rows(poses)
    if len(rows) > FEW_TO_SIMULATE or any(a.loose and a.child is obj for a in obj.attachments.values()):
        after = settle(obj, rows, seconds)
    else:
        after = np.array([_simulated(obj, row, seconds) for row in rows]).reshape(-1, 7)
    way = np.linalg.norm(after[:, :3] - rows[:, :3], axis=1)
    cosine = np.abs(np.sum(after[:, 3:] * rows[:, 3:], axis=1))
    stays = (way <= distance) & (2.0 * np.arccos(np.minimum(cosine, 1.0)) <= angle)
    return bool(stays[0]) if poses is None else stays


def _simulated(obj: Object, row: np.ndarray, seconds: float) -> np.ndarray:
    """Where an object comes from a pose (7,) in one copy of its world."""
    with one_trial(obj.world) as trial:
        trial.place(obj, row[None])
        trial.client.forget_last_step()  # as in copies of several worlds, which have made none
        trial.simulate(seconds)
        return trial.frames(obj)[0]


def contact(a: Object, b: Object, poses: Sequence | None = None) -> bool | np.ndarray:
    """Whether two objects touch.

    Args:
        a: One.
        b: The other one.
        poses: Candidates for the pose of `a`: pairs of position and orientation, or rows of seven (n, 7);
            None for its own.

    Returns:
        The answer, or one for each candidate, bool (n,).

    Raises:
        TypeError: One of them is not an object.
        ValueError: They are one object, or in different worlds, or a pose is invalid.
    """
    _require_both(a=a, b=b)

    def touch(trials: Trials, rows: np.ndarray) -> np.ndarray:
        trials.place(a, rows)
        return np.array([len(found) > 0 for found in trials.touching(a, b)])

    rows = np.concatenate(a.get_frame())[None] if poses is None else pose_rows(poses)
    if len(rows) <= FEW_TO_PLACE:
        with one_trial(a.world) as trial:
            found = np.array([touch(trial, row[None])[0] for row in rows], bool)
        return bool(found[0]) if poses is None else found
    with Shadows(a.world, min(len(rows), PLACES), [a, b]) as shadows:
        return np.concatenate([touch(shadows, some)[:n] for some, n in in_turns(rows, shadows.count)])


def supporting(lower: Object, upper: Object) -> bool:
    """Whether one object carries another: they touch, and the carrier pushes upwards.

    Raises:
        TypeError: One of them is not an object.
        ValueError: They are one object, or in different worlds.
    """
    _require_both(lower=lower, upper=upper)
    with one_trial(lower.world) as trial:
        (found,) = trial.touching(upper, lower)
    return any(point[7][2] > 0.5 for point in found)


def visible(
    obj: Object,
    camera: Sequence,
    threshold: float = 0.8,
    front_facing_axis: Sequence[float] = (1.0, 0.0, 0.0),
) -> bool | np.ndarray:
    """Whether a camera sees an object: at least a given fraction of what it would see of it without
    obstacles.

    Args:
        obj: The object.
        camera: Pose of the camera, position and orientation; or many, as pairs in a list or rows
            of seven (n, 7).
        threshold: Smallest fraction of the pixels, in 0..1.
        front_facing_axis: Viewing direction of the camera, in its own frame (3,).

    Returns:
        The answer, or one for each camera, bool (n,).
    """
    _require(obj=obj)
    many, rows = not is_pose(camera), pose_rows([camera] if is_pose(camera) else camera, "camera")
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"threshold: expected a fraction in 0..1, got {threshold!r}")
    if not len(rows):
        return np.zeros(0, bool)
    shares = []
    for _, alone, present, uid in _pictures(obj, rows, front_facing_axis):
        full, seen = alone.sum(axis=(1, 2)), (alone & (present == uid)).sum(axis=(1, 2))
        shares.append(np.where(full > 0, seen / np.maximum(full, 1), -1.0))
    answers = np.concatenate(shares) >= max(threshold, 1.0e-9)
    return answers if many else bool(answers[0])


def occluding(
    obj: Object, camera: Sequence, front_facing_axis: Sequence[float] = (1.0, 0.0, 0.0)
) -> list[Object]:
    """The objects that hide a part of an object from a camera; see `visible`."""
    _require(obj=obj)
    ((ids, alone, present, _),) = _pictures(obj, pose_rows([camera], "camera"), front_facing_axis)
    hiding = set(np.unique(present[alone]).tolist())
    return [item for item in obj.world.objects if item is not obj and ids[item] in hiding]


def reachable(
    robot: Object,
    targets: Sequence,
    link: str,
    tolerance: float = 0.01,
    orientations: Sequence[Sequence[float]] | None = None,
) -> bool | np.ndarray:
    """Whether a link of a robot can reach a target, by inverse kinematics from the current joint values.

    Args:
        robot: The robot.
        targets: Position of the target [m] (3,), or many (n, 3).
        link: Name of the link.
        tolerance: Largest distance that counts as reached [m].
        orientations: Quaternions that the link should have, within 0.1 rad: one for all (4,), or one for each
            target (n, 4); None for any.

    Returns:
        The answer, or one for each target, bool (n,). False means that no solution was found from 4 joint
        positions, the current one and 3 fixed ones; with orientations from 32.

    Raises:
        KeyError: The robot has no such link.
        TypeError: The robot is not an object.
        ValueError: A target or an orientation is invalid, there is not one orientation for each target, or
            the tolerance is negative.
    """
    _require(robot=robot)
    robot.get_link_id(link)
    _not_negative(tolerance=tolerance)
    many, points = _targets(targets)
    if not len(points):
        return np.zeros(0, bool)
    turns = None if orientations is None else _turns(orientations, len(points))

    def reached(trials: Trials, chosen: np.ndarray, more: bool = False) -> np.ndarray:
        orientation_targets = None if turns is None else turns[chosen]
        after = trials.reach(robot, link, points[chosen], orientation_targets, more)
        near = np.linalg.norm(after[:, :3] - points[chosen], axis=1) <= tolerance
        if orientation_targets is not None:
            near &= np.abs(np.sum(after[:, 3:] * orientation_targets, axis=1)) >= np.cos(0.05)
        return near

    with Shadows(robot.world, len(points), [robot]) if many else one_trial(robot.world) as trials:
        found = reached(trials, np.arange(len(points)))
    failed = np.flatnonzero(~found)
    if turns is not None and len(failed):
        with Shadows(robot.world, len(failed), [robot]) as shadows:
            found[failed] = reached(shadows, failed, more=True)
    return found if many else bool(found[0])


def _targets(targets: Sequence) -> tuple[bool, np.ndarray]:
    """Whether there are many targets, and their positions (n, 3)."""
    if not isinstance(targets, Sequence) and not np.ndim(targets):
        raise ValueError(f"targets: expected positions, got {targets!r}")
    one = len(targets) > 0 and all(isinstance(x, Real) for x in targets)
    if one:
        return False, np.array([as_position(targets, "targets")])
    return True, np.array([as_position(x, f"targets[{i}]") for i, x in enumerate(targets)]).reshape(-1, 3)


def _turns(orientations: Sequence, count: int) -> np.ndarray:
    """Unit quaternions for so many targets (count, 4), from one of each, or from one for all."""
    if not isinstance(orientations, Sequence) and not np.ndim(orientations):
        raise ValueError(f"orientations: expected quaternions, got {orientations!r}")
    if all(isinstance(x, Real) for x in orientations):
        return np.tile(as_orientation(orientations, "orientations"), (count, 1))
    if len(orientations) != count:
        raise ValueError(f"orientations: expected one, or {count}, got {len(orientations)}")
    return np.array([as_orientation(q, f"orientations[{i}]") for i, q in enumerate(orientations)])


def blocking(robot: Object, target: Sequence[float], link: str) -> list[Object] | None:
    """The objects that a robot touches when its link is at a target; None if it cannot reach it.

    Objects that the robot holds, or on which its root link stands, are left out.
    """
    _require(robot=robot)
    robot.get_link_id(link)
    point = np.array([as_position(target, "target")])
    with one_trial(robot.world) as trial:
        after = trial.reach(robot, link, point)
        if np.linalg.norm(after[0, :3] - point[0]) > 0.01:
            return None
        others = [x for x in robot.world.objects if x is not robot and x not in robot.attachments]
        return [x for x in others if any(point[3] >= 0 for point in trial.touching(robot, x)[0])]


def link_pose_for_joint_config(
    robot: Object, joint_config: Mapping[str, float], link: str
) -> list[list[float]]:
    """Position and quaternion that a link has in the world when joints have other values.

    Args:
        robot: The robot.
        joint_config: Values by name of the joint [rad or m]; the others are unchanged.
        link: Name of the link.

    Raises:
        KeyError: The robot has no such joint or link.
    """
    _require(robot=robot)
    values = {
        robot.get_joint_id(name): np.array(numbers((value,), 1, name)) for name, value in joint_config.items()
    }
    robot.get_link_id(link)
    with one_trial(robot.world) as trial:
        trial.set_joint_states(robot, values)
        row = trial.frames(robot, link)[0].tolist()
    return [row[:3], row[3:]]


def in_turns(rows: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, int]]:
    """Divide rows into parts of one length, the last one filled up; yields each and how many of it count."""
    for first in range(0, len(rows), count):
        some = rows[first : first + count]
        yield np.concatenate([some, np.repeat(some[:1], count - len(some), axis=0)]), len(some)


def _require(**objects: Object) -> None:
    """Do nothing if arguments, by name, are objects that can be used.

    Raises:
        TypeError: One is not an object.
        BulletWorldError: One was removed, or its world has ended.
    """
    for name, item in objects.items():
        expect(item, Object, name)
        item.require()


def _require_both(**objects: Object) -> None:
    """As `_require`, for two different objects of one world."""
    _require(**objects)
    a, b = objects.values()
    names = " and ".join(objects)
    if a is b:
        raise ValueError(f"{names}: {a!r} cannot touch itself")
    if a.world is not b.world:
        raise ValueError(f"{names}: {a!r} and {b!r} are in different worlds")


def _not_negative(**values: float) -> None:
    """Raise ValueError unless all arguments, by name, are finite numbers of at least 0."""
    for name, value in values.items():
        if not isinstance(value, Real) or not 0.0 <= value < np.inf:
            raise ValueError(f"{name}: expected a finite number of at least 0, got {value!r}")


def _pictures(
    obj: Object, cameras: np.ndarray, axis: Sequence[float]
) -> Iterator[tuple[Mapping[Object, int], np.ndarray, np.ndarray, int]]:
    """For some cameras at a time: ids, where the object is alone in the world, who is seen, and its id."""
    world, forward = obj.world, as_position(axis, "front_facing_axis")
    if not any(forward):
        raise ValueError(f"front_facing_axis: expected a direction, got {axis!r}")
    projection = p.computeProjectionMatrixFOV(FIELD_OF_VIEW, 1.0, NEAR, FAR)
    views = np.array([_view(Pose(tuple(row[:3]), tuple(row[3:])), forward) for row in cameras])
    count = min(len(views), PICTURES)
    with Shadows(world, count) as full, Shadows(world, count, [obj]) as lone:
        ids = {item: full.id_of(item) for item in world.objects}
        for some, n in in_turns(views, count):
            alone = lone.segmentation(some, projection, PIXELS) == lone.id_of(obj)
            yield ids, alone[:n], full.segmentation(some, projection, PIXELS)[:n], ids[obj]


def _view(camera: Pose, forward: Iterable[float]) -> tuple[float, ...]:
    """View matrix of a camera (16,): up is the world's z, or y of what looks along that."""
    front = camera @ Pose(tuple(forward), (0.0, 0.0, 0.0, 1.0))
    direction = np.subtract(front.position, camera.position)
    vertical = abs(direction[2]) > 0.999 * np.linalg.norm(direction)
    return p.computeViewMatrix(camera.position, front.position, (0, 1, 0) if vertical else (0, 0, 1))

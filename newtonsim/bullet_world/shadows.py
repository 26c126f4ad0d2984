"""Worlds for trying things out: one or many copies of a world, addressed by its objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world.attachments import followers, set_collisions
from newtonsim.bullet_world.base_world import World
from newtonsim.bullet_world.errors import WorldExitedError
from newtonsim.bullet_world.frames import compose_rows, inverse_row, pose_rows
from newtonsim.bullet_world.joint_types import ONE_COORDINATE
from newtonsim.bullet_world.objects import Object
from newtonsim.pybullet_compat.bullet_client import BulletClient

TOUCHING = 1.0e-3
"""Largest distance of what touches [m]."""
REACH_STARTS, REACH_ROUNDS, REACH_ITERATIONS = 4, 4, 50
"""Of inverse kinematics: starts, rounds of each, after which joints are cut to their limits, and steps."""
MORE_STARTS = 28
"""Further starts for poses that were not reached: an orientation leaves an arm few solutions."""


class Trials:
    """Copies of a world in the worlds of one client, in which objects may have different poses.

    Args:
        world: The world.
        client: A client that holds the copies.
        ids: Body unique id in the client of each object of the world.
        count: Number of copies.
    """

    def __init__(self, world: World[Object], client: BulletClient, ids: Mapping[Object, int], count: int):
        self.world, self.count = world, count
        self._client: BulletClient | None = client
        self._ids = dict(ids)

    @property
    def client(self) -> BulletClient:
        """The client of all copies; its functions take and return arrays with a leading axis of copies.

        Raises:
            WorldExitedError: The copies have ended.
        """
        if self._client is None:
            raise WorldExitedError("these shadows were ended by exit()")
        return self._client

    def id_of(self, item: Object) -> int:
        """Body unique id of an object in the copies.

        Raises:
            ObjectRemovedError: It was removed.
            ValueError: It was not copied.
        """
        item.require()
        if item not in self._ids:
            raise ValueError(f"{item!r} is not in these shadows")
        return self._ids[item]

    # -- candidates ------------------------------------------------------------------------------------------

    def place(self, item: Object, poses: Sequence | np.ndarray) -> None:
        """Move an object in each copy and stop its base; copies of what is attached to it follow.

        Args:
            item: The object.
            poses: Pose of the root link for each copy: pairs of position and orientation, or (count, 7).

        Raises:
            ValueError: One is not a pose, or there is not one for each copy.
        """
        rows = pose_rows(poses)
        if len(rows) != self.count:
            raise ValueError(f"poses: expected one for each of {self.count} copies, got {len(rows)}")
        before = inverse_row(np.concatenate(item.get_frame()))
        things = [item, *(follower for _, follower in followers(item))]
        for thing in [thing for thing in things if thing is item or thing in self._ids]:
            self._put(thing, compose_rows(rows, compose_rows(before, np.concatenate(thing.get_frame()))))

    def _put(self, item: Object, roots: np.ndarray) -> None:
        base = compose_rows(roots, np.concatenate(item.inertial_frame(None)))
        uid = self.id_of(item)
        self.client.resetBasePositionAndOrientation(uid, *self._arguments(base[:, :3], base[:, 3:]))

    def set_joint_states(self, item: Object, values: Mapping[int, np.ndarray]) -> None:
        """Set joints, by index, to a value for each copy (count,) [rad or m], and stop them."""
        for index, value in values.items():
            self.client.resetJointState(self.id_of(item), index, *self._arguments(np.asarray(value)))

    def _arguments(self, *arrays: np.ndarray) -> list:
        """Arrays (count, ...) as the client wants them, which knows no axis of copies with only one."""
        return [array[0] if self.count == 1 else array for array in arrays]

    def _rows(self, values: object) -> np.ndarray:
        """What the client returned as an array (count, ...)."""
        return np.asarray(values)[None] if self.count == 1 else np.asarray(values)

    # -- simulation and answers ------------------------------------------------------------------------------

    def simulate(self, seconds: float) -> None:
        """Simulate all copies; see `BulletWorld.simulate`."""
        for _ in range(self.steps(seconds)):
            self.client.stepSimulation()

    @staticmethod
    def steps(seconds: float) -> int:
        """How many steps fit into a time [s]."""
        return int(seconds * 240.0 + 1.0e-6)

    def frames(self, item: Object, link: str | None = None) -> np.ndarray:
        """Poses of a link in the world, of the root for None, shape (count, 7)."""
        index = -1 if link is None else item.get_link_id(link)
        if index >= 0:
            state = self.client.getLinkState(self.id_of(item), index, computeForwardKinematics=1)
            return np.concatenate([self._rows(state[4]), self._rows(state[5])], axis=1)
        base = self.client.getBasePositionAndOrientation(self.id_of(item))
        rows = np.concatenate([self._rows(x) for x in base], axis=1)
        return compose_rows(rows, inverse_row(np.concatenate(item.inertial_frame(None))))

    def touching(self, a: Object, b: Object) -> list[tuple]:
        """Points where two objects touch as they stand, as PyBullet's getClosestPoints has them, by copy."""
        found = self.client.getClosestPoints(self.id_of(a), self.id_of(b), TOUCHING)
        return [found] if self.count == 1 else list(found)

    def segmentation(self, views: np.ndarray, projection: Sequence[float], size: int) -> np.ndarray:
        """Body unique ids that cameras see, -1 for nothing, shape (count, size, size).

        Args:
            views: View matrix of the camera of each copy (count, 16).
            projection: Projection matrix (16,).
            size: Pixels along each side.
        """
        picture = self.client.getCameraImage(size, size, *self._arguments(views), list(projection))
        return self._rows(picture[4])

    def reach(
        self,
        robot: Object,
        link: str,
        positions: np.ndarray,
        orientations: np.ndarray | None = None,
        more: bool = False,
    ) -> np.ndarray:
        """Move a link of a robot towards targets by inverse kinematics, and return where it ends up.

        Joints stay within their limits.

        Args:
            robot: The robot.
            link: Name of the link.
            positions: Target of each copy (count, 3) [m].
            orientations: Target quaternions (count, 4), None for any.
            more: Whether to start from MORE_STARTS other joint positions.

        Returns:
            Poses of the link (count, 7).

        Raises:
            ValueError: The robot has no joints that could move.
        """
        names = [name for name in robot.joints if robot.get_joint_type(name) in ONE_COORDINATE]
        if not names:
            raise ValueError(f"{robot.name!r} has no joints with which to reach for something")
        limits = np.array([robot.get_joint_limits(name) for name in names])
        joints = [robot.joints[name] for name in names]
        columns = [robot.movable.index(joint) for joint in joints]
        targets = self._arguments(positions, *([] if orientations is None else [orientations]))
        best: np.ndarray | None = None
        nearest = np.full(self.count, np.inf)
        if self.count == 1:
            self.client.ensure()  # poses are found ten times as fast with a model, which stays
        for start in _starts(np.array([robot.get_joint_state(name) for name in names]), limits, more):
            values = np.tile(start, (self.count, 1))
            for _ in range(REACH_ROUNDS):
                self.set_joint_states(robot, dict(zip(joints, values.T)))
                found = self.client.calculateInverseKinematics(
                    self.id_of(robot),
                    robot.get_link_id(link),
                    *targets,
                    maxNumIterations=REACH_ITERATIONS,
                    residualThreshold=1.0e-5,
                )
                values = np.clip(self._rows(found)[:, columns], *limits.T)
            self.set_joint_states(robot, dict(zip(joints, values.T)))
            away = _distance(self.frames(robot, link), positions, orientations)
            best = values if best is None else np.where((away < nearest)[:, None], values, best)
            nearest = np.minimum(away, nearest)
        if best is not None:
            self.set_joint_states(robot, dict(zip(joints, best.T)))
        return self.frames(robot, link)


def _starts(present: np.ndarray, limits: np.ndarray, more: bool) -> list[np.ndarray]:
    """Joint values to start inverse kinematics from, the same always: the present ones and some, or more."""
    low, high = np.clip(limits, -np.pi, np.pi).T
    first = REACH_STARTS - 1
    drawn = list(np.random.default_rng(0).uniform(low, high, (first + MORE_STARTS, len(low))))
    return drawn[first:] if more else [present, *drawn[:first]]


def _distance(frames: np.ndarray, positions: np.ndarray, orientations: np.ndarray | None) -> np.ndarray:
    """How far frames (n, 7) are from targets: metres, and half angles in radians if these count (n,)."""
    away = np.linalg.norm(frames[:, :3] - positions, axis=1)
    if orientations is not None:
        away += np.arccos(np.minimum(np.abs(np.sum(frames[:, 3:] * orientations, axis=1)), 1.0))
    return away


class Shadows(Trials):
    """Copies of the current world in one batched model, independent of it and of each other.

    Args:
        world: The world.
        count: Number of copies.
        objects: Objects to copy; all if None, and bodies that `world.client` has made.
        device: Warp device, None for the default one.

    Attributes:
        world: The world.
        count: Number of copies.

    Raises:
        ValueError: The number of copies is zero, or an object is in another world.
    """

    def __init__(
        self,
        world: World[Object],
        count: int,
        objects: Iterable[Object] | None = None,
        device: str | None = None,
    ):
        if not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"shadows: expected a whole number of at least 1, got {count!r}")
        chosen = list(world.objects if objects is None else objects)
        for item in chosen:
            if item not in world.objects:
                raise ValueError(f"shadows: {item!r} is not an object of this world")
        client = BulletClient(p.DIRECT, num_worlds=count, device=device)
        ids = {item: item.id for item in chosen}
        client.mirror(world.client_id, None if objects is None else set(ids.values()))
        super().__init__(world, client, ids, count)

    def __enter__(self) -> Shadows:
        return self

    def __repr__(self) -> str:
        return f"Shadows({self.count} of {self.world!r})"

    def __exit__(self, *error: object) -> None:
        self.exit()

    def let_go(self, item: Object) -> None:
        """Remove loose attachments of an object, since it has moved."""
        for attachment in item.attachments.values():
            if attachment.loose and attachment.child is item and attachment.parent in self._ids:
                self.client.removeConstraint(attachment.id)
                a, b = attachment.parent, attachment.child
                set_collisions(self.client, a.id, a.links.values(), b.id, b.links.values(), True)

    def exit(self) -> None:
        """End the copies; a second call does nothing."""
        if self._client is not None:
            client, self._client = self._client, None
            client.disconnect()


@contextmanager
def one_trial(world: World[Object]) -> Iterator[Trials]:
    """One copy of a world as it is now: its shadow, or a copy of its own if the shadow is in use."""
    if world.is_shadow_world or world.world_sync.is_entered:
        with Shadows(world, 1) as shadows:
            yield shadows
        return
    sync = world.world_sync
    with sync.lock:
        sync.sync()
        ids: dict[Object, int] = {item: twin.id for item, twin in sync.object_mapping.items()}
        yield Trials(world, sync.shadow.client, ids, 1)

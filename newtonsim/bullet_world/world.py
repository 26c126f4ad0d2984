"""The world: a physics client with its objects, events, settings and shadow."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from collections.abc import Callable, Sequence

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world import snapshots, twins
from newtonsim.bullet_world.base_world import World, living
from newtonsim.bullet_world.events import Event
from newtonsim.bullet_world.frames import IDENTITY, Pose, as_pose, expect, numbers
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.shadow import World_Sync
from newtonsim.bullet_world.shadows import Shadows
from newtonsim.pybullet_compat.bullet_client import BulletClient

STEP = 1.0 / 240.0
"""Time of a step of `simulate` [s]."""
GRAVITY = (0.0, 0.0, -9.8)
"""Gravity of a new world [m/s²]."""
AXIS_COLORS = ((1.0, 0.0, 0.0, 0.8), (0.0, 1.0, 0.0, 0.8), (0.0, 0.0, 1.0, 0.8))


class BulletWorld(World[Object]):
    """A world of objects that can be simulated.

    A new one becomes the current world, has gravity and a floor. `with BulletWorld() as world:` ends it.

    Args:
        type: "GUI" for a window, "DIRECT" for none. Without a display, or if there already is a window, GUI
            becomes DIRECT with a warning.
        is_shadow_world: Whether it is one that mirrors another: it has no floor of its own and does not
            become the current world by itself. `shadow_world` creates it.

    Attributes:
        type: "GUI" or "DIRECT".
        is_shadow_world: As given.
        robot: The robot that `set_robot` has set.
        attachment_event: Called with (object, [object, other]) after two were attached.
        detachment_event: Called likewise after two were detached.
        manipulation_event: Called with (object, [object, *others]) after a pose or joint was set; the others
            are attached to it and have also moved.
        thread: Identifier of the thread that made it.

    Raises:
        ValueError: The type is neither.
    """

    def __init__(self, type: str = "GUI", is_shadow_world: bool = False):
        if type not in ("GUI", "DIRECT"):
            raise ValueError(f"type: expected 'GUI' or 'DIRECT', got {type!r}")
        super().__init__(*_connect(type), is_shadow_world)
        self._collision_callbacks: dict[tuple[Object, Object], tuple[Callable, Callable | None]] = {}
        self._states: dict[int, snapshots.Snapshot] = {}
        self._state_ids = itertools.count(1)
        self._sync: World_Sync | None = None
        self.client.setGravity(*GRAVITY)
        if not is_shadow_world:
            living.append(self)
            Object("floor", "environment", "plane.urdf", world=self)

    def __enter__(self) -> BulletWorld:
        self.client  # noqa: B018 (raises if the world has ended)
        return self

    def __exit__(self, *error: object) -> None:
        self.exit()

    def __repr__(self) -> str:
        kind = "shadow, " if self.is_shadow_world else ""
        state = f"{len(self.objects)} objects" if self.is_alive else "ended"
        return f"BulletWorld({kind}{self.type}, {state})"

    # -- life ------------------------------------------------------------------------------------------------

    def exit(self) -> None:
        """End the world and its shadow; a second call does nothing.

        The newest world that still lives becomes the current one.
        """
        if self._client is None:
            return
        if self._sync is not None:
            self._sync.end()
        client, self._client = self._client, None
        client.disconnect()
        if self in living:
            living.remove(self)
        for item in self._objects:
            item.attachments.clear()
        self._objects.clear()
        self._states.clear()
        self._collision_callbacks.clear()

    # -- objects ---------------------------------------------------------------------------------------------

    def get_objects_by_name(self, name: str) -> list[Object]:
        """All objects of a name."""
        return [item for item in self.objects if item.name == name]

    def get_objects_by_type(self, obj_type: str) -> list[Object]:
        """All objects of a type."""
        return [item for item in self.objects if item.type == obj_type]

    def get_object_by_id(self, id: int) -> Object:
        """The object with a body unique id.

        Raises:
            KeyError: There is none.
        """
        for item in self.objects:
            if item.id == id:
                return item
        raise KeyError(f"this world has no object of id {id!r}")

    def set_robot(self, robot: Object | None) -> None:
        """Say which object is the robot.

        Raises:
            TypeError: It is not an object.
            ValueError: It is in another world.
            ObjectRemovedError: It was removed.
        """
        if robot is None:
            self.client  # noqa: B018 (raises if the world has ended)
        else:
            self._own(robot, "set_robot")
        self.robot = robot

    # -- events ----------------------------------------------------------------------------------------------

    def get_attachment_event(self) -> Event:
        """The event that is called after two objects were attached."""
        return self.attachment_event

    def get_detachment_event(self) -> Event:
        """The event that is called after two objects were detached."""
        return self.detachment_event

    def get_manipulation_event(self) -> Event:
        """The event that is called after a pose or joint was set."""
        return self.manipulation_event

    def register_collision_callback(
        self,
        objectA: Object,
        objectB: Object,
        callback_collision: Callable[[], None],
        callback_no_collision: Callable[[], None] | None = None,
    ) -> None:
        """Call a function after every step of `simulate` in which two objects touch, and another after other
        steps.

        Raises:
            TypeError: One of them is not an object, or a function is not callable.
            ValueError: One of them is in another world.
        """
        for item in (objectA, objectB):
            self._own(item, "register_collision_callback")
        for name, function in (("collision", callback_collision), ("no_collision", callback_no_collision)):
            if not callable(function) and not (name == "no_collision" and function is None):
                raise TypeError(f"callback_{name}: expected a function, got {function!r}")
        self._collision_callbacks[(objectA, objectB)] = (callback_collision, callback_no_collision)

    def forget(self, item: Object) -> None:
        """Take an object that was removed out of the lists, and its callbacks with it."""
        super().forget(item)
        for pair in [pair for pair in self._collision_callbacks if item in pair]:
            del self._collision_callbacks[pair]

    def _own(self, item: Object, what: str) -> None:
        """Raise unless something is an object of this world that is there."""
        expect(item, Object, what)
        item.require()
        if item.world is not self:
            raise ValueError(f"{what}: {item!r} is in another world")

    # -- simulation ------------------------------------------------------------------------------------------

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Set gravity [m/s²] (3,)."""
        self.client.setGravity(*numbers(gravity, 3, "gravity"))

    def set_realtime(self, real_time: bool) -> None:
        """Let a world with a window advance in real time, or only when it is simulated.

        As in PyBullet, a world without a window only advances when it is simulated; a warning says so.
        """
        if real_time and self.type == "DIRECT":
            warnings.warn("set_realtime: a DIRECT world only advances by simulate()", stacklevel=2)
        self.client.setRealTimeSimulation(int(bool(real_time)))

    def simulate(self, seconds: float) -> None:
        """Simulate: as many whole steps of 1/240 s as fit into a time.

        Args:
            seconds: The time [s].

        Raises:
            ValueError: It is negative or not finite.
        """
        seconds = numbers((seconds,), 1, "seconds")[0]
        if seconds < 0.0:
            raise ValueError(f"seconds: expected a number of at least 0, got {seconds!r}")
        for _ in range(int(seconds / STEP + 1.0e-6)):
            self.client.stepSimulation()
            if self._collision_callbacks:
                self._call_back()
                if not self.is_alive:  # a callback has ended it
                    return

    simualte = simulate

    def _call_back(self) -> None:
        for (a, b), (touching, apart) in list(self._collision_callbacks.items()):
            if not self.is_alive or (a, b) not in self._collision_callbacks:
                continue
            callback = touching if self.client.getContactPoints(a.id, b.id) else apart
            if callback is not None:
                callback()

    # -- states ----------------------------------------------------------------------------------------------

    def save_state(self) -> int:
        """Save the state of the world, including attachments, and return the number of the state."""
        number = next(self._state_ids)
        self._states[number] = snapshots.take(self)
        return number

    def restore_state(self, state_id: int) -> None:
        """Restore a state of `save_state`.

        Objects that were created since then are unchanged. Those that were removed are not restored, with a
        warning. Each object that moves is a separate manipulation.

        Raises:
            TypeError: It is not a whole number.
            KeyError: There is no such state.
        """
        self.client  # noqa: B018 (raises if the world has ended)
        if isinstance(state_id, bool) or not isinstance(state_id, int):
            raise TypeError(f"state_id: expected a whole number, got {state_id!r}")
        if state_id not in self._states:
            raise KeyError(f"this world has no state {state_id!r}")
        snapshot = self._states[state_id]
        gone = [item.name for item in snapshot.objects if item not in self._objects]
        if gone:
            warnings.warn(f"restore_state: {', '.join(gone)} was removed and is not restored", stacklevel=2)
        for item in snapshots.put(snapshot, self):
            self.manipulation_event(item, [item])

    def reset_bullet_world(self) -> None:
        """Detach everything, and move all objects to their poses at creation, with the joints as they were
        then.

        Gravity, colours and the robot are unchanged.
        """
        for item in self.objects:
            item.detach_all()
        for item in self.objects:
            item.reset()

    def copy(self) -> BulletWorld:
        """Return a new DIRECT world, which becomes the current one, that is like this one."""
        self.client  # noqa: B018 (raises if the world has ended)
        world = BulletWorld("DIRECT")
        try:
            twins.mirror(world, self, {})  # the floor of this one takes the place of its own
        except BaseException:
            world.exit()
            raise
        return world

    # -- shadow ----------------------------------------------------------------------------------------------

    @property
    def world_sync(self) -> World_Sync:
        """The object that keeps this world and its shadow the same.

        Raises:
            WorldExitedError: The world has ended.
            ValueError: This is a shadow.
        """
        self.client  # noqa: B018 (raises if the world has ended)
        if self.is_shadow_world:
            raise ValueError("world_sync: a shadow has no shadow")
        if self._sync is None:
            self._sync = World_Sync(self)
        return self._sync

    def new_shadow(self) -> BulletWorld:
        """Return a new world without floor that can become like this one."""
        return BulletWorld("DIRECT", is_shadow_world=True)

    @property
    def shadow_world(self) -> BulletWorld:
        """The shadow, as it was left; `Use_shadow_world` makes it the same as this world."""
        return self.world_sync.shadow

    def get_shadow_object(self, object: Object) -> Object:
        """The object of the shadow for one of this world.

        Raises:
            TypeError: It is not an object.
            ValueError: It is not in this world.
        """
        return self.world_sync.shadow_of(object)

    def get_bullet_object_for_shadow(self, object: Object) -> Object:
        """The object of this world for one of the shadow.

        Raises:
            TypeError: It is not an object.
            ValueError: It is not the shadow of an object.
        """
        return self.world_sync.main_of(object)

    def shadows(self, count: int) -> Shadows:
        """Return copies of this world as it is now, as worlds of one batched model.

        Raises:
            ValueError: The number of copies is zero.
        """
        return Shadows(self, count)

    # -- resources and axes ----------------------------------------------------------------------------------

    @classmethod
    def add_additional_resource_path(cls, path: str) -> None:
        """Also search a folder for files of objects.

        Raises:
            NotADirectoryError: There is no such folder.
        """
        if not os.path.isdir(path):
            raise NotADirectoryError(f"{path}: no such folder")
        folder = os.path.abspath(path)
        if folder not in cls.data_directory:
            cls.data_directory.append(folder)

    def add_vis_axis(self, position_and_orientation: Sequence[Sequence[float]], length: float = 0.2) -> None:
        """Show three coloured axes, red x, green y and blue z, that touch nothing.

        Args:
            position_and_orientation: Position [m] and quaternion.
            length: Length of each axis [m].
        """
        pose = as_pose(position_and_orientation)
        client, thin = self.client, 0.01
        for axis, color in enumerate(AXIS_COLORS):
            half = [thin, thin, thin]
            half[axis] = length / 2.0
            offset = [0.0, 0.0, 0.0]
            offset[axis] = length / 2.0
            place = pose @ Pose(tuple(offset), IDENTITY.orientation)
            shape = client.createVisualShape(p.GEOM_BOX, halfExtents=half, rgbaColor=color)
            self._axes.append(
                client.createMultiBody(
                    0.0,
                    baseVisualShapeIndex=shape,
                    basePosition=place.position,
                    baseOrientation=place.orientation,
                )
            )

    def remove_vis_axis(self) -> None:
        """Remove all axes."""
        for uid in self._axes:
            self.client.removeBody(uid)
        self._axes.clear()


def _connect(type: str) -> tuple[BulletClient, str]:
    """Return a client with a window, or without one if that is impossible, and which of the two it is."""
    if type == "GUI" and not _has_display():
        warnings.warn("BulletWorld: there is no display, the world is DIRECT", stacklevel=3)
        type = "DIRECT"
    if type == "GUI":
        try:
            return BulletClient(p.GUI), type
        except p.error as error:
            warnings.warn(f"BulletWorld: {error}; the world is DIRECT", stacklevel=3)
    return BulletClient(p.DIRECT), "DIRECT"


def _has_display() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

"""Worlds as their objects and shadows see them: clients with objects, one of which is the current one."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol

from newtonsim.bullet_world.attachments import Attachable, Item
from newtonsim.bullet_world.errors import WorldExitedError
from newtonsim.bullet_world.events import Event

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.bullet_client import BulletClient

living: list[World] = []
"""Worlds that have not ended and are not shadows, the newest last."""
override: contextvars.ContextVar[World | None] = contextvars.ContextVar("world", default=None)
"""The world that is the current one for now, in this context; None where no shadow is entered."""


class CurrentWorld(type):
    """Makes the current world an attribute of the class itself."""

    @property
    def current_bullet_world(cls) -> World | None:
        """The world that is used if none is given.

        Inside `Use_shadow_world` this is the shadow; otherwise the newest living world that this thread
        created; otherwise the newest living world; None if there is none.
        """
        entered = override.get()
        if entered is not None and entered.is_alive:
            return entered
        thread = threading.get_ident()
        own = [world for world in living if world.thread == thread]
        return next(reversed(own or living), None)

    @current_bullet_world.setter
    def current_bullet_world(cls, world: World) -> None:
        if not isinstance(world, World):
            raise TypeError(f"current_bullet_world: expected a BulletWorld, got {world!r}")
        if not world.is_alive:
            raise WorldExitedError("current_bullet_world: this world has ended")
        world.thread = threading.get_ident()
        if world in living:
            living.remove(world)
        living.append(world)

    @property
    def robot(cls) -> Attachable | None:
        """The robot of the current world, None without one."""
        world = cls.current_bullet_world
        return None if world is None else world.robot


class Sync(Protocol):
    """Keeps a world and its shadow the same; see `World_Sync` for details.

    Attributes:
        lock: Held by the thread that uses the shadow.
        object_mapping: The object of the shadow for each one of the world.
    """

    lock: AbstractContextManager
    object_mapping: Mapping[Attachable, Attachable]

    @property
    def shadow(self) -> World:
        """The shadow."""
        ...

    @property
    def is_entered(self) -> bool:
        """Whether the running thread uses the shadow."""
        ...

    def sync(self) -> None:
        """Make the shadow the same as the world."""


class World(Generic[Item], metaclass=CurrentWorld):
    """A living client with objects; see `BulletWorld` for its attributes."""

    data_directory: ClassVar[list[str]] = []
    """Folders of files of all worlds, see `BulletWorld.add_additional_resource_path`."""

    def __init__(self, client: BulletClient, type: str, is_shadow_world: bool):
        self.type, self.is_shadow_world = type, is_shadow_world
        self._client: BulletClient | None = client
        self.thread = threading.get_ident()
        self._objects: list[Item] = []
        self._axes: list[int] = []
        self.robot: Item | None = None
        self.attachment_event, self.detachment_event = Event(), Event()
        self.manipulation_event = Event()

    @staticmethod
    def required() -> World:
        """Return the current world.

        Raises:
            WorldExitedError: There is none.
        """
        world = World.current_bullet_world
        if world is None:
            raise WorldExitedError("there is no world: make one with BulletWorld()")
        return world

    current_bullet_world = property(lambda self: type(self).current_bullet_world)

    @property
    def is_alive(self) -> bool:
        """Whether `exit` was not called yet."""
        return self._client is not None

    @property
    def client(self) -> BulletClient:
        """The physics client: every function of `newtonsim.pybullet_compat` for this world.

        Raises:
            WorldExitedError: The world has ended.
        """
        if self._client is None:
            raise WorldExitedError("this world was ended by exit()")
        return self._client

    @property
    def client_id(self) -> int:
        """The physicsClientId."""
        return self.client._client

    @property
    def objects(self) -> list[Item]:
        """All objects in the order of their creation, in a new list.

        Raises:
            WorldExitedError: The world has ended.
        """
        self.client  # noqa: B018 (raises if the world has ended)
        return list(self._objects)

    def remember(self, item: Item) -> None:
        """Take a new object into the list."""
        self._objects.append(item)

    def keep(self, items: Iterable[Item], other: World) -> None:
        """Have the objects, and the axes, that a world has which this one has become like."""
        self._objects, self._axes = list(items), list(other._axes)

    def forget(self, item: Item) -> None:
        """Take an object that was removed out of the lists."""
        self._objects.remove(item)
        if self.robot is item:
            self.robot = None

    @classmethod
    def resource_paths(cls) -> list[str]:
        """Folders that are searched for files of objects."""
        return list(cls.data_directory)

    @property
    def world_sync(self) -> Sync:
        """The object that keeps this world and its shadow the same."""
        raise NotImplementedError

    def new_shadow(self) -> World[Item]:
        """Return a new world without floor that can become like this one."""
        raise NotImplementedError

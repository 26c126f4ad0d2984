"""Shadow worlds: a copy of a world for trying things out, the same as the world whenever it is entered."""

from __future__ import annotations

import threading
from contextvars import Token

from newtonsim.bullet_world.base_world import World, override
from newtonsim.bullet_world.frames import expect
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.twins import mirror


class World_Sync:
    """Keeps a world and its shadow the same, at the moment when the shadow is used.

    Nothing runs in the background: `sync` copies the current state.

    Args:
        world: The world.

    Attributes:
        world: The world.
        lock: Held by the thread that uses the shadow.
        object_mapping: The object of the shadow for each one of the world.
    """

    def __init__(self, world: World[Object]):
        self.world = world
        self.lock = threading.RLock()
        self.object_mapping: dict[Object, Object] = {}
        self._shadow: World[Object] | None = None

    @property
    def shadow(self) -> World[Object]:
        """The shadow, a new one if it was ended."""
        if self._shadow is None or not self._shadow.is_alive:
            self._shadow = self.world.new_shadow()
            self.object_mapping = {}
        return self._shadow

    def end(self) -> None:
        """End the shadow."""
        if self._shadow is not None:
            self._shadow.exit()

    @property
    def is_entered(self) -> bool:
        """Whether the running thread is inside `Use_shadow_world` of this world."""
        return self._shadow is not None and override.get() is self._shadow

    def sync(self) -> None:
        """Make the shadow the same as the world."""
        shadow = self.shadow  # first, as a new one has no objects
        self.object_mapping = mirror(shadow, self.world, self.object_mapping)

    def shadow_of(self, item: Object) -> Object:
        """Return the object of the shadow for one of the world.

        Raises:
            TypeError: It is not an object.
            ValueError: It is not in the world.
            ObjectRemovedError: It was removed.
        """
        expect(item, Object, "object")
        item.require()
        if item.world is not self.world:
            raise ValueError(f"{item!r} is not an object of this world")
        shadow = self.shadow
        if not self.object_mapping:
            with self.lock:
                self.sync()
        elif self.object_mapping.get(item) not in shadow.objects:
            self.object_mapping[item] = item.copy_into(shadow)
        return self.object_mapping[item]

    def main_of(self, item: Object) -> Object:
        """Return the object of the world for one of the shadow.

        Raises:
            TypeError: It is not an object.
            ValueError: It is not the shadow of an object.
        """
        expect(item, Object, "object")
        for main, twin in self.object_mapping.items():
            if twin is item and main in self.world.objects:
                return main
        raise ValueError(f"{item!r} is the shadow of no object of this world")


class Use_shadow_world:
    """Makes the shadow of the current world the current one, for the time of a `with` block.

    On the way in, the shadow is made the same as the world; what is done to it inside stays there. Inside
    another such block, nothing changes. Other threads that use the shadow of the same world wait until the
    block ends. The `with` statement returns the shadow.
    """

    def __init__(self):
        self._entered: list[tuple[Token, World_Sync] | None] = []

    def __enter__(self) -> World[Object]:
        world = World.required()
        if world.is_shadow_world:
            self._entered.append(None)
            return world
        sync = world.world_sync
        sync.lock.acquire()
        try:
            sync.sync()
        except BaseException:
            sync.lock.release()
            raise
        self._entered.append((override.set(sync.shadow), sync))
        return sync.shadow

    def __exit__(self, *error: object) -> None:
        entered = self._entered.pop()
        if entered is not None:
            token, sync = entered
            override.reset(token)
            sync.lock.release()

"""Shadow worlds: a copy of a world for trying things out, the same as the world whenever it is entered."""

from __future__ import annotations

from contextvars import Token

from newtonsim.bullet_world import snapshots
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.world import BulletWorld, _override


class World_Sync:
    """Keeps a world and its shadow the same, at the moment when the shadow is used.

    Nothing runs in the background: `sync` compares both worlds and writes what differs.

    Args:
        world: The world.

    Attributes:
        world: The world.
        shadow: Its shadow.
        object_mapping: The object of the shadow for each one of the world.
    """

    def __init__(self, world: BulletWorld):
        self.world, self.shadow = world, BulletWorld("DIRECT", is_shadow_world=True)
        self.object_mapping: dict[Object, Object] = {}

    def sync(self) -> None:
        """Make the shadow the same as the world."""
        self._match_objects()
        snapshots.put(snapshots.take(self.world), self.shadow, self.object_mapping)
        self.shadow.robot = self.object_mapping.get(self.world.robot)

    def shadow_of(self, item: Object) -> Object:
        """Return the object of the shadow for one of the world.

        Raises:
            ValueError: It is not in the world.
        """
        if item not in self.world.objects:
            raise ValueError(f"{item!r} is no object of this world")
        if item not in self.object_mapping:
            self._match_objects()
        return self.object_mapping[item]

    def main_of(self, item: Object) -> Object:
        """Return the object of the world for one of the shadow.

        Raises:
            ValueError: It is not the shadow of one.
        """
        for main, twin in self.object_mapping.items():
            if twin is item and main in self.world.objects:
                return main
        raise ValueError(f"{item!r} is the shadow of no object of this world")

    def _match_objects(self) -> None:
        """Remove what the shadow has too much, and make what it lacks."""
        world, shadow = self.world, self.shadow
        alive = set(shadow.objects)
        mapping = {
            main: twin
            for main, twin in self.object_mapping.items()
            if main in world.objects and twin in alive
        }
        for item in alive - set(mapping.values()):
            item.remove()
        for item in world.objects:
            if item not in mapping:
                mapping[item] = item.copy_into(shadow)
        self.object_mapping = mapping


class Use_shadow_world:
    """Makes the shadow of the current world the current one, for the time of a `with` block.

    On the way in, the shadow is made the same as the world; what is done to it inside stays there. Inside
    another such block, nothing changes. The `with` statement returns the shadow.
    """

    def __init__(self):
        self._tokens: list[Token | None] = []

    def __enter__(self) -> BulletWorld:
        world = BulletWorld.required()
        if world.is_shadow_world:
            self._tokens.append(None)
            return world
        world.world_sync.sync()
        self._tokens.append(_override.set(world.shadow_world))
        return world.shadow_world

    def __exit__(self, *error: object) -> None:
        token = self._tokens.pop()
        if token is not None:
            _override.reset(token)

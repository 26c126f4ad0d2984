"""The shapes that scripts make, by id."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.pybullet_compat.world.ids import Ids

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Visual
    from newtonsim.pybullet_compat.readers.shapes import ShapeRecord
    from newtonsim.pybullet_compat.world.client import Client

MOST_KNOWN = 64
"""Bodies of createMultiBody that are kept as they were described."""


def plain(value: object) -> Hashable:
    """Return nested sequences and arrays as tuples, which can be compared and be keys."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


class ShapeTable:
    """Shapes of a client by id; collision and visual shapes count on their own.

    Attributes:
        collisions: Shapes of createCollisionShape.
        visuals: Shapes of createVisualShape.
    """

    def __init__(self, client: Client):
        self.client = client
        self.reset()

    def reset(self) -> None:
        """Forget all shapes."""
        self.collisions: dict[int, ShapeRecord] = {}
        self.visuals: dict[int, list[Visual]] = {}
        self.collision_ids, self.visual_ids = Ids(), Ids()
        self._bodies: dict[Hashable, BodyDescription] = {}

    def add_collision(self, record: ShapeRecord) -> int:
        """Keep a collision shape and return its id."""
        uid = self.collision_ids.take()
        self.collisions[uid] = record
        return uid

    def known_body(self, key: Hashable, describe: Callable[[], BodyDescription]) -> BodyDescription:
        """Return what describes a body that shapes make; equal ones are described once.

        Args:
            key: What createMultiBody was given, with the ids of shapes.
            describe: Describes it.
        """
        try:
            known = self._bodies.get(key)
        except TypeError:  # something that is no number
            return describe()
        if known is None:
            known = describe()
            known.patterns = {}
            self._bodies[key] = known
            if len(self._bodies) > MOST_KNOWN:
                del self._bodies[next(iter(self._bodies))]
        return known

    def shapes_changed(self) -> None:
        """Note that a shape was removed, or changed in place: its id may stand for another one."""
        self._bodies.clear()

    def add_visual(self, visuals: list[Visual]) -> int:
        """Keep a visual shape and return its id."""
        uid = self.visual_ids.take()
        self.visuals[uid] = visuals
        return uid

    def is_used(self, uid: int) -> bool:
        """Whether a body has the collision shape."""
        parts = {id(mesh) for shape in self.collisions[uid].collisions for mesh in shape.meshes}
        sources = {id(shape.pose) for shape in self.collisions[uid].collisions}
        return any(
            id(shape.pose) in sources or any(id(mesh) in parts for mesh in shape.meshes)
            for body in self.client.bodies.values()
            for link in body.links
            for shape in link.collisions
        )

"""The shapes that scripts make, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.world.ids import Ids

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.descriptions.description import Visual
    from newtonsim.pybullet_compat.readers.shapes import ShapeRecord
    from newtonsim.pybullet_compat.world.client import Client


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

    def add_collision(self, record: ShapeRecord) -> int:
        """Keep a collision shape and return its id."""
        uid = self.collision_ids.take()
        self.collisions[uid] = record
        return uid

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

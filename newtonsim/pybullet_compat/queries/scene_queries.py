"""Queries of the shapes of a client at their present poses, prepared once for each engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import warp as wp

from newtonsim.kernels.collision.pairs import bounds
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.engine.model_building import group_and_mask
from newtonsim.pybullet_compat.world.structure import NOBODY
from newtonsim.queries.scene_query import ALL_BITS, SceneQuery
from newtonsim.runtime import compilation
from newtonsim.runtime.capture import capturing

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

T = TypeVar("T")

RAYS = "rays"
"""Kind of prepared queries that hold for whatever bodies there are."""
NEVER = -1
RAY_GROUP = 1
"""What rays are to the masks of links: they meet those whose mask has this bit."""


class SceneQueries:
    """The query of a client's scene.

    Args:
        client: The client.

    Attributes:
        prepared: Prepared queries of the present engine, by what they are for.
        links: (body unique id, link index) of each shape of a world.
        query: The query of the present engine.
        updates: Launches that take the poses of the state.
    """

    def __init__(self, client: Client):
        self.client = client
        self.prepared: dict[tuple, object] = {}
        self.query: SceneQuery | None = None
        self._engine: Engine | None = None
        self._placed_at = NEVER

    def ready(self) -> None:
        """Have the query and the state of the present engine; launch `updates` before anything is asked."""
        engine = self.client.engine or self.client.ensure()
        if self._engine is not engine:
            with capturing:
                self._prepare(engine)
        engine.push()

    def moved(self) -> bool:
        """Whether shapes may have moved since this was asked before: then `updates` have to be launched."""
        moves, before = self.client.ensure().moves, self._placed_at
        self._placed_at = moves
        return moves != before or self.client.lends_arrays

    def keep(self, key: tuple, most: int, make: Callable[[], T]) -> T:
        """Return what is prepared for a key, made if it is not there.

        Args:
            key: What it is for; the first entry is the kind of query.
            most: How many of that kind are kept.
            make: Makes it.
        """
        found: Any = self.prepared.get(key)
        if found is None:
            kept = [other for other in self.prepared if other[0] == key[0]]
            if len(kept) >= most:
                del self.prepared[kept[0]]
            with capturing:
                found = self.prepared[key] = make()
        return found

    def release(self, engine: Engine) -> None:
        """Let go of an engine."""
        self.prepared.clear()
        self.query = self._engine = None

    def content_changed(self, engine: Engine) -> None:
        """Take the bodies that are in an engine now; rays are those of all of them."""
        if self.query is not None and self.links is not engine.shape_link:
            self.prepared = {key: found for key, found in self.prepared.items() if key[0] == RAYS}
            self.links = engine.shape_link
            self._placed_at = NEVER
            self.masks_changed()

    def masks_changed(self) -> None:
        """Take groups and masks of the links."""
        engine, query = self._engine, self.query
        if engine is None or query is None:
            return
        masks = self._masks.host
        masks[...] = 0
        for shape, (uid, link) in enumerate(self.links):
            if uid == NOBODY:
                continue
            group, mask = group_and_mask(self.client.bodies[uid], link)
            masks[:, shape] = group & ALL_BITS if mask & RAY_GROUP else 0
        self._masks.push()

    def _prepare(self, engine: Engine) -> None:
        engine.require_own_shapes()
        self.prepared.clear()
        self._engine, self._placed_at = engine, NEVER
        query = self.query = SceneQuery(engine.model)
        self._masks = HostArray(query.shape_mask, engine.worlds)
        self.links = engine.shape_link
        self.masks_changed()
        self.updates: list[wp.Launch] = []
        if engine.model.shape_count:
            view = query.view
            command = compilation.launch(
                bounds.bound_shapes,
                reads=dict(first=0, shape=view.shape, hulls=view.hulls, body_q=engine.simulator.state.body_q),
                writes=dict(shape_X=view.pose, lower=view.lower, upper=view.upper),
                dim=engine.model.shape_count,
                device=engine.model.device,
                record_cmd=True,
                record_tape=False,
            )
            self.updates.append(command)

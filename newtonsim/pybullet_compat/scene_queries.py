"""Queries of the shapes of a client at their present poses, prepared once for each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels import bounds
from newtonsim.pybullet_compat.model_building import group_and_mask
from newtonsim.queries import SceneQuery

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.engine import Engine
    from newtonsim.pybullet_compat.scene import Client

RAY_GROUP = 1
"""What rays are to the masks of links: they meet those whose mask has this bit."""


class SceneQueries:
    """The query of a client's scene.

    Args:
        client: The client.

    Attributes:
        prepared: Prepared queries of the present engine, by what they are for.
        links: (body unique id, link index) of each shape of a world.
    """

    def __init__(self, client: Client):
        self.client = client
        self.prepared: dict[object, object] = {}
        self._query: SceneQuery | None = None
        self._engine: Engine | None = None

    def query(self) -> SceneQuery:
        """The query at the present poses."""
        engine = self.client.ensure()
        if self._engine is not engine:
            self._prepare(engine)
        engine.push()
        for command in self._updates:
            command.launch()
        return self._query

    def release(self, engine: Engine) -> None:
        """Let go of an engine."""
        self.prepared.clear()
        self._query = self._engine = None

    def _prepare(self, engine: Engine) -> None:
        self.prepared.clear()
        self._engine = engine
        query = self._query = SceneQuery(engine.model)
        self.links = engine.shape_link
        per_world = engine.model.shape_count // engine.worlds
        masks = np.zeros((engine.worlds, per_world), np.uint32)
        for shape, (uid, link) in enumerate(self.links):
            group, mask = group_and_mask(self.client.bodies[uid], link)
            masks[:, shape] = group & 0xFFFFFFFF if mask & RAY_GROUP else 0
        query.shape_mask.assign(masks.reshape(-1))
        self._updates = []
        if engine.model.shape_count:
            view = query.view
            inputs = [
                view.shape,
                view.hulls,
                engine.simulator.state.body_q,
                view.pose,
                view.lower,
                view.upper,
            ]
            command = wp.launch(
                bounds.bound_shapes,
                dim=engine.model.shape_count,
                inputs=inputs,
                device=engine.model.device,
                record_cmd=True,
                record_tape=False,
            )
            self._updates.append(command)

"""Pairs of links that stop to collide, or begin again, without building the model anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision.pairs import manifolds
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.engine.model_building import collide
from newtonsim.pybullet_compat.world.structure import NOBODY

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

Link = tuple[int, int]
"""Body unique id and link index."""


class PairSwitch:
    """Takes listed pairs of shapes out of the collision pass of an engine, and puts them back.

    A pair without a narrow phase has no contacts; the graphs that were captured go on.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._engine: Engine | None = None
        self._links: list[Link] = []
        self._known: list[Link] = []
        if client.engine is not None:
            self.bind(client.engine)

    def bind(self, engine: Engine) -> None:
        """Note which bodies an engine was built with, as their filters say."""
        self._known = engine.shape_link

    def release(self, engine: Engine) -> None:
        """Let go of an engine."""
        self._engine = None

    def content_changed(self, engine: Engine) -> None:
        """Switch the pairs of bodies that have come; what was switched for those before them is undone."""
        if self._known is engine.shape_link:
            return
        present = [link for link in dict.fromkeys(engine.shape_link) if link[0] != NOBODY]
        before, self._known = set(self._known), engine.shape_link
        came = [link for link in present if link not in before]
        changes = [(a, b, collide(self.client, a, b)) for a in came for b in present if a != b]
        if changes and not self.apply(engine, changes):
            self.client.structure_changed()

    def apply(self, engine: Engine, changes: list[tuple[Link, Link, bool]]) -> bool:
        """Switch pairs of links.

        Args:
            engine: The engine.
            changes: Two links, and whether they collide from now on.

        Returns:
            Whether that was possible: pairs of shapes that move and were not listed when the engine was built
            cannot be put in.
        """
        if collision_plan_of(engine.model).listed is None:
            return False
        if self._engine is not engine:
            self._prepare(engine)
        if self._links is not engine.shape_link:
            self._find_shapes(engine)
        places = []
        for first, second, enable in changes:
            for a in self._shapes.get(first, ()):
                for b in self._shapes.get(second, ()):
                    place = self._place.get((min(a, b), max(a, b)))
                    if place is not None and enable and self._families[place] == manifolds.FAMILY_NONE:
                        return False  # switched off in another client, which this one mirrors
                    if place is not None:
                        places.append((place, enable))
                    elif enable and self._rigid[a] != self._rigid[b]:
                        return False
        rows = self._listed.host[0].reshape(engine.worlds, self._count, 3)
        for place, enable in places:
            rows[:, place, 2] = self._families[place] if enable else int(manifolds.FAMILY_NONE)
        if places:
            self._listed.push()
            engine.changed.add("collision_plan.listed")
        return True

    def _prepare(self, engine: Engine) -> None:
        self._engine, self._links = engine, []
        self._rigid = engine.model.contact_rules.rigid
        self._listed = HostArray(collision_plan_of(engine.model).listed, 1)
        # all worlds list the same pairs, one world after the other
        self._count = len(self._listed.host[0]) // engine.worlds
        pairs = self._listed.host[0, : self._count].tolist()
        self._place = {(min(a, b), max(a, b)): place for place, (a, b, _) in enumerate(pairs)}
        self._families = [family for _, _, family in pairs]

    def _find_shapes(self, engine: Engine) -> None:
        """Take the bodies that are in the engine now."""
        self._links = engine.shape_link
        self._shapes: dict[Link, list[int]] = {}
        for shape, link in enumerate(engine.shape_link):
            self._shapes.setdefault(link, []).append(shape)

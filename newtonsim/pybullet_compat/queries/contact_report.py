"""What decides which contacts are reported, and in which order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.records import ReportView
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.world.link_shapes import COMPOUND, MESH_MARGIN, LinkShapes, shape_box
from newtonsim.pybullet_compat.world.structure import NOBODY, BodySlot
from newtonsim.scene.allocation import zeros

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.engine import Engine

_ARRAYS: dict[str, Any] = {
    "rank": int,
    "reach": float,
    "part": int,
    "box": wp.transform,
    "half": wp.vec3,
    "round": float,
    "local": int,
}
"""Arrays of the view, one entry for each shape."""
_LARGEST = float(np.finfo(np.float32).max)


class ContactReport:
    """What decides which contacts of an engine are reported; follows the bodies in its slots.

    Args:
        engine: The engine; all of its shapes belong to bodies.
        bodies: Bodies of the client by unique id.
        shapes: Boxes about their links.

    Attributes:
        view: What kernels read.
    """

    def __init__(self, engine: Engine, bodies: dict[int, Body], shapes: LinkShapes):
        self._engine, self._bodies, self._shapes = engine, bodies, shapes
        self.view = ReportView()
        self._arrays: dict[str, HostArray] = {}
        for name, dtype in _ARRAYS.items():
            array = zeros(engine.model.shape_count, dtype=dtype, device=engine.model.device)
            setattr(self.view, name, array)
            self._arrays[name] = HostArray(array, engine.worlds)
        self._slots: list[BodySlot | None] = [None] * len(engine.content.slots)
        self._made_from: dict[int, Body | None] = {}
        self.update()

    def update(self) -> None:
        """Take the bodies that are in other slots than before."""
        slots = self._engine.content.slots
        for known, slot in zip(self._slots, slots):
            if slot is not known:
                self._take(slot)
        self._slots = [*slots]
        for array in self._arrays.values():
            array.push()

    def _take(self, slot: BodySlot) -> None:
        """Take the body in a slot; its shapes keep what is known if they are those of the one before."""
        local, places = self._arrays["local"].host, range(slot.shapes.start, slot.shapes.stop)
        local[:, slot.shapes] = -1 if slot.uid == NOBODY else places
        if slot.uid == NOBODY:
            return
        body = self._bodies[slot.uid]
        if body.made_from is None or self._made_from.get(slot.row) is not body.made_from:
            self._made_from[slot.row] = body.made_from
            before: Counter[tuple[int, int]] = Counter()
            for shape, place in zip(places, slot.places):
                self._describe(shape, body, *place, before[place])
                before[place] += 1

    def _describe(self, shape: int, body: Body, place: int, number: int, part: int) -> None:
        """Write what is known of a shape.

        Args:
            shape: The shape.
            body: Its body.
            place: Place of its link.
            number: Number of its geometry.
            part: Number of the shape among those of the geometry.
        """
        link_box = self._shapes.boxes(body)[place]
        assert link_box is not None  # it has this shape
        margin = float(body.surface["collision_margin"][0, place])
        is_part = link_box.kind == COMPOUND
        frame, box = shape_box(body.links[place], number, part)
        more = box.margins * (MESH_MARGIN if is_part else margin)
        own = box.variants or (box,)
        reaches = [one.reach(margin) for one in link_box.variants or (link_box,)]
        for name, value in (
            ("rank", link_box.kind * len(self._engine.rows) + body.first_row + place),
            ("reach", np.minimum(reaches, _LARGEST)),
            ("part", is_part),
            ("box", frame),
            ("half", np.array([one.half for one in own]) + more),
            ("round", [one.radius for one in own]),
        ):
            self._arrays[name].host[:, shape] = value

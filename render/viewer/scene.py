"""All layers of the browser's scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.enums import GeoType, ShapeFlags
from newtonsim.errors import NewtonsimError
from newtonsim.render.shapes import ShapeTable
from newtonsim.render.viewer.bodies import ShapeLayer, is_endless
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.ground import add_grounds
from newtonsim.render.viewer.layout import Layout
from newtonsim.render.viewer.marks import MARKS, Mark
from newtonsim.render.viewer.soft import SoftLayer

if TYPE_CHECKING:
    import viser

    from newtonsim.model import Model
    from newtonsim.render.viewer.mouse import Mouse

VISUAL_STYLES = ("solid", "see-through", "hidden")
COLLIDER_STYLES = ("hidden", "wireframe", "solid")
_SEE_THROUGH = 0.3
_COLLIDER_COLOR = (0.15, 0.6, 0.35)


class Scene:
    """Shapes, particles and marks of the shown worlds.

    Attributes:
        layout: Which worlds are shown, and where.
        soft: Particles and what they make up.
        marks: What can be switched on besides, by label.
        visuals: How shapes that are meant to be seen are shown, one of `VISUAL_STYLES`.
        colliders: How those that collide are, one of `COLLIDER_STYLES`.

    Args:
        server: The server.
        model: The model.
        frame: Poses at first.
        mouse: Listens to clicks and drags on bodies.
    """

    def __init__(self, server: viser.ViserServer, model: Model, frame: Frame, mouse: Mouse):
        self._server, self._mouse = server, mouse
        self.layout = Layout(model, frame.body_q, frame.particle_q)
        self.table = ShapeTable.of(model) if model.shape_count else None
        self.soft = SoftLayer(server, model)
        self.marks: dict[str, Mark] = {kind.label: kind(server, model, self.layout.extent) for kind in MARKS}
        self._visuals = self._collider_layer = None
        self.visuals, self.colliders = "solid", "hidden"
        if self.table is not None:
            self._grounds = add_grounds(server, self.table, self.layout.extent)
            self._drawn = ~is_endless(self.table) & (self.table.kind != GeoType.NONE)
            collide = int(ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)
            flags = model.shape_flags.numpy().astype(np.int64)
            self._colliders = self._drawn & (flags & collide != 0)
            has_visuals = (self._drawn & self.table.visible & (self.table.body >= 0)).any()
            self.colliders = "hidden" if has_visuals or not self._colliders.any() else "solid"
        self.build(frame)

    def show_shapes(self, visuals: str, colliders: str, frame: Frame) -> None:
        """Choose how shapes are shown.

        Raises:
            NewtonsimError: There is no such way.
        """
        for name, style, known in (
            ("visuals", visuals, VISUAL_STYLES),
            ("colliders", colliders, COLLIDER_STYLES),
        ):
            if style not in known:
                raise NewtonsimError(f"{name}: expected one of {', '.join(known)}, got {style!r}")
        self.visuals, self.colliders = visuals, colliders
        self._build_shapes(frame)

    def show_ground(self, visible: bool) -> None:
        """Show or hide endless planes."""
        for handle in self._grounds if self.table is not None else ():
            handle.visible = visible

    def show_mark(self, label: str, visible: bool, frame: Frame) -> None:
        """Switch a mark on or off."""
        self.marks[label].is_on = visible
        self.marks[label].build(self.layout, frame)

    def show_particles(self, visible: bool, frame: Frame) -> None:
        """Show the particles of cloth and soft bodies too, or hide them."""
        self.soft.every_particle = visible
        self.soft.build(self.layout, frame)

    def build(self, frame: Frame) -> None:
        """Put everything into the scene anew, after other worlds were chosen."""
        self._build_shapes(frame)
        self.soft.build(self.layout, frame)
        for mark in self.marks.values():
            mark.build(self.layout, frame)

    def move(self, frame: Frame) -> None:
        """Follow the bodies and particles."""
        for layer in (self._visuals, self._collider_layer):
            if layer is not None:
                layer.move(frame)
        self.soft.move(frame)
        for mark in self.marks.values():
            mark.move(frame)

    def bounds(self, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner of what is shown (3,) [m]."""
        points = [np.zeros((0, 3)), self.soft.shown_points(frame)]
        for layer in (self._visuals, self._collider_layer):
            for batch in layer.batches if layer is not None else ():
                points += batch.corners(frame.body_q)
        found = np.concatenate(points)
        found = found[np.isfinite(found).all(axis=1)]
        if not len(found):
            return -np.ones(3), np.ones(3)
        return found.min(axis=0), found.max(axis=0)

    def _build_shapes(self, frame: Frame) -> None:
        for layer in (self._visuals, self._collider_layer):
            if layer is not None:
                layer.clear()
        self._visuals = self._collider_layer = None
        if self.table is None:
            return
        if self.visuals != "hidden":
            chosen = self._drawn & self.table.visible
            opacity = _SEE_THROUGH if self.visuals == "see-through" else 1.0
            self._visuals = ShapeLayer(self._server, "shapes", self.table, chosen, opacity=opacity)
        if self.colliders != "hidden":
            look = {"wireframe": True, "color": _COLLIDER_COLOR} if self.colliders == "wireframe" else {}
            self._collider_layer = ShapeLayer(self._server, "colliders", self.table, self._colliders, **look)
        for layer in (self._visuals, self._collider_layer):
            if layer is not None:
                layer.build(self.layout, frame)
                for batch in layer.batches:
                    if batch.body[0] >= 0:
                        self._mouse.listen(batch)

"""All layers of the browser's scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.render.films.framing import in_moving_trees
from newtonsim.render.shapes import ShapeTable
from newtonsim.render.viewer.bodies import ShapeLayer, is_endless
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.ground import add_grounds, ground_below
from newtonsim.render.viewer.layout import Layout
from newtonsim.render.viewer.marks import MARKS, Mark
from newtonsim.render.viewer.soft import SoftLayer
from newtonsim.scene.enums import GeoType, ShapeFlags

if TYPE_CHECKING:
    import viser

    from newtonsim.render.viewer.mouse import Mouse
    from newtonsim.scene.model import Model

VISUAL_STYLES = ("solid", "see-through", "hidden")
COLLIDER_STYLES = ("hidden", "wireframe", "solid")
_SEE_THROUGH = 0.3
_COLLIDER_COLOR = (0.15, 0.6, 0.35)


class Scene:
    """Shapes, particles and marks of the shown worlds.

    Attributes:
        layout: Which worlds are shown, and where.
        soft: Particles and their elements.
        marks: Marks that can be switched on, by label.
        visuals: Style of visual shapes, one of `VISUAL_STYLES`.
        colliders: Style of colliding shapes, one of `COLLIDER_STYLES`.
        collider_color: Colour of wireframes, RGB in 0..1 (3,), or one per shape of the model (shapes, 3).

    Args:
        server: The server.
        model: The model.
        frame: Initial poses.
        mouse: Listens to clicks and drags on bodies.
        appearance: Shapes to show instead of those of the model, on its bodies; None for its own.
        before: Scene that this one replaces, whose settings it takes over as far as they apply.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        model: Model,
        frame: Frame,
        mouse: Mouse,
        appearance: ShapeTable | None = None,
        before: Scene | None = None,
    ):
        self._server, self._mouse, self._moves = server, mouse, in_moving_trees(model)
        self.layout = Layout(model, frame.body_q, frame.particle_q)
        self._table = ShapeTable.of(model) if model.shape_count else None
        self._appearance = self._table if appearance is None else appearance
        self.soft = SoftLayer(server, model)
        self.marks: dict[str, Mark] = {kind.label: kind(server, model, self.layout.extent) for kind in MARKS}
        self._visuals = self._collider_layer = None
        self.visuals, self.colliders, self.collider_color = "solid", "hidden", np.array(_COLLIDER_COLOR)
        self._grounds: list[viser.GridHandle] = []
        if self._appearance is not None:
            self._grounds = add_grounds(server, self._appearance, self.layout.extent)
        if self._table is not None:
            collide = int(ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)
            flags = model.shape_flags.numpy().astype(np.int64)
            self._colliders = _is_drawn(self._table) & (flags & collide != 0)
            has_visuals = (
                appearance is not None
                or (_is_drawn(self._table) & self._table.visible & (self._table.body >= 0)).any()
            )
            self.colliders = "hidden" if has_visuals or not self._colliders.any() else "solid"
        if before is not None:
            self._take_over(before)
        self.build(frame)

    @property
    def has_shapes(self) -> bool:
        """Whether there is any shape to show."""
        return self._table is not None or self._appearance is not None

    def change_appearance(self, appearance: ShapeTable, frame: Frame) -> None:
        """Show other shapes instead of those of the model."""
        for handle in self._grounds:
            handle.remove()
        self._appearance = appearance
        self._grounds = add_grounds(self._server, appearance, self.layout.extent)
        self._build_shapes(frame)

    def clear(self) -> None:
        """Remove everything from the scene."""
        for handle in self._grounds:
            handle.remove()
        for layer in (self._visuals, self._collider_layer, self.soft, *self.marks.values()):
            if layer is not None:
                layer.clear()

    def show_shapes(self, visuals: str, colliders: str, frame: Frame) -> None:
        """Choose how shapes are shown.

        Raises:
            NewtonsimError: There is no such style.
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
        """Show or hide infinite planes."""
        for handle in self._grounds:
            handle.visible = visible

    def show_mark(self, label: str, visible: bool, frame: Frame) -> None:
        """Switch a mark on or off; shapes are transparent while there are marks inside them."""
        before = self._has_marks_inside
        self.marks[label].is_on = visible
        self.marks[label].build(self.layout, frame)
        if self._has_marks_inside != before:
            self._build_shapes(frame)

    def show_particles(self, visible: bool, frame: Frame) -> None:
        """Show the particles of cloth and soft bodies too, or hide them."""
        self.soft.every_particle = visible
        self.soft.build(self.layout, frame)

    def build(self, frame: Frame) -> None:
        """Rebuild the scene after other worlds were chosen."""
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
        """Return the box about what can move, or about everything if nothing can, and about the ground just
        below.

        Returns:
            Corners (3,), (3,) [m].
        """
        soft = self.soft.shown_points(frame)
        corners, moves = [np.zeros((2, 0, 3))], [np.zeros(0, bool)]
        for layer in (self._visuals, self._collider_layer):
            for batch in layer.batches if layer is not None else ():
                corners.append(np.stack(batch.corners(frame.body_q)))
                moves.append(self._moves[batch.body])
        boxes, moving = np.concatenate(corners, axis=1), np.concatenate(moves)
        if moving.any() or len(soft):
            boxes = boxes[:, moving]
        found = np.concatenate([soft, *boxes])
        if not len(found):
            return -np.ones(3), np.ones(3)
        box = np.stack([found.min(axis=0), found.max(axis=0)])
        if self._appearance is not None:
            box = np.concatenate([box, ground_below(self._appearance, *box)])
        return box.min(axis=0), box.max(axis=0)

    def _take_over(self, before: Scene) -> None:
        """Take over the settings of another scene."""
        before.clear()
        self.visuals, self.colliders = before.visuals, before.colliders
        self.soft.every_particle = before.soft.every_particle
        for label, mark in self.marks.items():
            mark.is_on = before.marks[label].is_on
        if self.layout.count == before.layout.count:
            self.layout.show(before.layout.worlds)

    @property
    def _has_marks_inside(self) -> bool:
        """Whether solid shapes would hide something."""
        return any(mark.is_on and mark.is_inside for mark in self.marks.values())

    def _build_shapes(self, frame: Frame) -> None:
        for layer in (self._visuals, self._collider_layer):
            if layer is not None:
                layer.clear()
        self._visuals = self._collider_layer = None
        inner = _SEE_THROUGH if self._has_marks_inside else 1.0
        if self.visuals != "hidden" and self._appearance is not None:
            chosen = _is_drawn(self._appearance) & self._appearance.visible
            opacity = _SEE_THROUGH if self.visuals == "see-through" else inner
            self._visuals = ShapeLayer(self._server, "shapes", self._appearance, chosen, opacity=opacity)
        if self.colliders != "hidden" and self._table is not None:
            style: dict = {"opacity": inner}
            if self.colliders == "wireframe":
                style = {"wireframe": True, "color": self.collider_color}
            self._collider_layer = ShapeLayer(
                self._server, "colliders", self._table, self._colliders, **style
            )
        for layer in (self._visuals, self._collider_layer):
            if layer is not None:
                layer.build(self.layout, frame)
                for batch in layer.batches:
                    if batch.body[0] >= 0:
                        self._mouse.listen(batch)


def _is_drawn(table: ShapeTable) -> np.ndarray:
    """Return which shapes are finite surfaces, bool, shape (shapes,)."""
    return ~is_endless(table) & (table.kind != GeoType.NONE)

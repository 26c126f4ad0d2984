"""What can be shown in addition to shapes: frames, joints, centres of mass, contacts, names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import transform_point
from newtonsim.render.marks import joint_marks
from newtonsim.render.viewer import geometry
from newtonsim.render.viewer.colors import lit_colors
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.layout import Layout

if TYPE_CHECKING:
    import viser

    from newtonsim.scene.model import Model

_MOST_LABELS = 200
_RED = (230, 70, 60)
_GREEN, _YELLOW, _BLUE = lit_colors(np.array([(60, 170, 90), (245, 200, 40), (70, 120, 220)]) / 255.0)


class Mark(ABC):
    """Something that is drawn at the bodies of shown worlds while it is switched on.

    Attributes:
        label: Its name on the page.
        is_inside: Whether it is inside the bodies, so that solid shapes would hide it.
        is_on: Whether it is switched on.

    Args:
        server: The server.
        model: The model.
        extent: Size of a world [m].
    """

    label: str
    is_inside = False

    def __init__(self, server: viser.ViserServer, model: Model, extent: float):
        self._scene, self._model, self._size = server.scene, model, extent
        self._handles: list[viser.SceneNodeHandle] = []
        self.is_on = False

    def clear(self) -> None:
        """Remove it from the scene."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def build(self, layout: Layout, frame: Frame) -> None:
        """Add it to the scene if it is switched on."""
        self.clear()
        self._layout = layout
        if self.is_on:
            self._choose(layout)
            self._draw(frame)

    def move(self, frame: Frame) -> None:
        """Follow the bodies."""
        if self.is_on:
            self._draw(frame)

    def _choose(self, layout: Layout) -> None:
        """Record the bodies of shown worlds."""
        world = self._model.body_world.numpy() if self._model.body_count else np.zeros(0, int)
        self._bodies = np.flatnonzero(layout.shown(world))
        self._offset = layout.offset(world[self._bodies])

    @abstractmethod
    def _draw(self, frame: Frame) -> None:
        """Make or move the nodes."""

    def _axes(self, name: str, poses: np.ndarray, length: float) -> None:
        """Show coordinate frames (n, 7)."""
        if not len(poses):
            return
        wxyz, position = poses[:, [6, 3, 4, 5]].astype(np.float32), poses[:, :3].astype(np.float32)
        if self._handles:
            self._handles[0].batched_wxyzs, self._handles[0].batched_positions = wxyz, position
            return
        self._handles.append(
            self._scene.add_batched_axes(name, wxyz, position, axes_length=length, axes_radius=0.035 * length)
        )

    def _arrows(self, name: str, ends: np.ndarray, color: np.ndarray, width: float) -> None:
        """Show arrows (n, 2, 3); they are the first of the nodes."""
        if self._handles:
            self._handles[0].points = ends.astype(np.float32)
            self._handles[0].visible = len(ends) > 0
        elif len(ends):
            self._handles.append(
                self._scene.add_arrows(
                    name,
                    ends.astype(np.float32),
                    color,
                    shaft_radius=width,
                    head_radius=2.5 * width,
                    head_length=6.0 * width,
                )
            )


class BodyFrames(Mark):
    """The frames of the bodies."""

    label = "Body frames"
    is_inside = True

    def _draw(self, frame: Frame) -> None:
        poses = frame.body_q[self._bodies]
        poses[:, :3] += self._offset
        self._axes("/marks/bodies", poses, 0.09 * self._size)


class JointAxes(Mark):
    """Arrows along the axes of the joints."""

    label = "Joint axes"
    is_inside = True

    def _choose(self, layout: Layout) -> None:
        marks = [mark for mark in joint_marks(self._model) if len(mark.axes)]
        world = np.array([mark.world for mark in marks for _ in mark.axes], int)
        shown = layout.shown(world)
        self._body = np.array([mark.body for mark in marks for _ in mark.axes], int)[shown]
        self._anchor = np.array([mark.frame[:3] for mark in marks for _ in mark.axes]).reshape(-1, 3)[shown]
        self._axis = np.array([axis for mark in marks for axis in mark.axes]).reshape(-1, 3)[shown]
        self._offset = layout.offset(world[shown])

    def _draw(self, frame: Frame) -> None:
        ends = np.stack([self._anchor, self._anchor + 0.12 * self._size * self._axis], axis=1)
        held = self._body >= 0
        ends[held] = transform_point(frame.body_q[self._body[held], None], ends[held])
        self._arrows("/marks/joints", ends + self._offset[:, None], _BLUE, 0.006 * self._size)


class MassCentres(Mark):
    """Balls at the centres of mass, with volumes proportional to the masses."""

    label = "Centres of mass"
    is_inside = True

    def _draw(self, frame: Frame) -> None:
        model, bodies = self._model, self._bodies
        if not len(bodies):
            return
        point = transform_point(frame.body_q[bodies], model.body_com.numpy()[bodies].astype(float))
        point = (point + self._offset).astype(np.float32)
        if self._handles:
            self._handles[0].batched_positions = point
            return
        mass = model.body_mass.numpy()[bodies]
        radius = 0.04 * self._size * np.cbrt(np.maximum(mass / max(float(mass.max()), 1e-9), 0.02))
        self._handles.append(
            self._scene.add_batched_meshes_simple(
                "/marks/masses",
                geometry.ball()[0].astype(np.float32),
                geometry.ball()[1].astype(np.uint32),
                np.tile(np.array([1.0, 0, 0, 0], np.float32), (len(bodies), 1)),
                point,
                batched_scales=radius.astype(np.float32),
                batched_colors=_YELLOW,
                lod="off",
                cast_shadow=False,
            )
        )


class ContactMarks(Mark):
    """Dots at the contacts, and arrows along their forces, or the normals if forces are not known."""

    label = "Contacts"

    def _choose(self, layout: Layout) -> None:
        mass = self._model.body_mass.numpy() if self._model.body_count else np.ones(1)
        gravity = self._model.largest_gravity or 9.81
        self._newton = self._size / max(float(mass.sum()) / self._model.world_count * gravity, 1e-9)

    def _draw(self, frame: Frame) -> None:
        contacts = frame.contacts
        empty = np.zeros((0, 3))
        point, along = empty, empty
        if contacts is not None:
            shown = self._layout.shown(contacts.world)
            point = contacts.point[shown] + self._layout.offset(contacts.world[shown])
            along = 0.1 * self._size * contacts.normal[shown]
            if contacts.force is not None:
                along = self._newton * contacts.force[shown]
                longest = np.linalg.norm(along, axis=1, keepdims=True)
                along *= np.minimum(1.0, self._size / np.maximum(longest, 1e-12))
        ends = np.stack([point, point + along], axis=1)
        visible = np.linalg.norm(along, axis=1) > 1e-3 * self._size
        self._arrows("/marks/forces", ends[visible], _GREEN, 0.006 * self._size)
        self._dots(point.astype(np.float32))

    def _dots(self, point: np.ndarray) -> None:
        if len(self._handles) > 1:
            self._handles[1].points = point
            self._handles[1].visible = len(point) > 0
        elif self._handles:
            self._handles.append(
                self._scene.add_point_cloud(
                    "/marks/contacts",
                    point,
                    np.array(_RED),
                    point_size=0.015 * self._size,
                    point_shape="circle",
                    precision="float32",
                )
            )


class BodyNames(Mark):
    """Names at the centres of mass; only of the first bodies if there are very many."""

    label = "Names"

    def _draw(self, frame: Frame) -> None:
        bodies = self._bodies[:_MOST_LABELS]
        if not len(bodies):
            return
        centre = self._model.body_com.numpy()[bodies].astype(float)
        point = transform_point(frame.body_q[bodies], centre) + self._offset[: len(bodies)]
        if not self._handles:
            keys = self._model.body_key
            self._handles = [
                self._scene.add_label(f"/marks/names/{b}", str(keys[b]), font_screen_scale=0.8)
                for b in bodies
            ]
        for handle, position in zip(self._handles, point):
            handle.position = position


MARKS = (ContactMarks, BodyFrames, JointAxes, MassCentres, BodyNames)

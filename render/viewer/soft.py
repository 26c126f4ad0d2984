"""Particles, ropes, cloth, soft bodies and muscles in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.render.soft_parts import (
    CLOTH_COLOR,
    GRAIN_COLOR,
    MUSCLE_COLOR,
    ROPE_COLOR,
    MuscleLines,
    SoftParts,
)
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.layout import Layout

if TYPE_CHECKING:
    import viser

    from newtonsim.scene.model import Model


class SoftLayer:
    """The elements of particles: surfaces as meshes, springs as lines, others as points; and muscles.

    Args:
        server: The server.
        model: The model.
    """

    def __init__(self, server: viser.ViserServer, model: Model):
        self._server, self._parts, self._muscles = server, SoftParts.of(model), MuscleLines.of(model)
        radius = self._parts.radius
        self._radius = float(radius.mean()) if len(radius) else 0.0
        self.every_particle = False
        self._mesh = self._lines = self._points = self._tendons = None

    @property
    def is_empty(self) -> bool:
        """Whether the model has no particles."""
        return not len(self._parts.world)

    def clear(self) -> None:
        """Remove the layer from the scene."""
        for handle in (self._mesh, self._lines, self._points, self._tendons):
            if handle is not None:
                handle.remove()
        self._mesh = self._lines = self._points = self._tendons = None

    def build(self, layout: Layout, frame: Frame) -> None:
        """Add the particles of shown worlds to the scene."""
        self.clear()
        self._build_muscles(layout, frame)
        if self.is_empty:
            return
        parts = self._parts
        shown = self._shown = layout.shown(parts.world) | (parts.world < 0)
        self._offset = layout.offset(parts.world)
        triangles = parts.triangles[shown[parts.triangles].all(axis=1)]
        self._used = np.unique(triangles)
        self._ends = parts.springs[shown[parts.springs].all(axis=1)]
        chosen = np.arange(len(shown)) if self.every_particle else parts.loose
        self._dots = chosen[shown[chosen]]
        points = self._place(frame)
        scene = self._server.scene
        if len(self._used):
            faces = np.searchsorted(self._used, triangles)
            self._mesh = scene.add_mesh_simple(
                "/soft/surface", points[self._used], faces, color=CLOTH_COLOR, side="double"
            )
        if len(self._ends):
            self._lines = scene.add_line_segments(
                "/soft/springs",
                points[self._ends],
                colors=np.array(ROPE_COLOR),
                thickness=2.0,
                thickness_units="screen",
            )
        if len(self._dots):
            self._points = scene.add_point_cloud(
                "/soft/particles",
                points[self._dots],
                np.array(GRAIN_COLOR),
                point_size=max(self._radius, 1.0e-3),
                point_shape="circle",
                precision="float32",
            )

    def move(self, frame: Frame) -> None:
        """Follow the particles and bodies."""
        if self._tendons is not None:
            self._tendons.points = self._tendon_ends(frame)
        if self.is_empty:
            return
        points = self._place(frame)
        if self._mesh is not None:
            self._mesh.vertices = points[self._used]
        if self._lines is not None:
            self._lines.points = points[self._ends]
        if self._points is not None:
            self._points.points = points[self._dots]

    def _build_muscles(self, layout: Layout, frame: Frame) -> None:
        segments = self._muscles.segments()
        world = np.repeat(self._muscles.world, self._muscles.count)[segments[:, 0]]
        self._segments = segments[layout.shown(world)]
        self._tendon_offset = layout.offset(world[layout.shown(world)])
        if len(self._segments):
            self._tendons = self._server.scene.add_line_segments(
                "/soft/muscles",
                self._tendon_ends(frame),
                colors=np.array(MUSCLE_COLOR),
                thickness=4.0,
                thickness_units="screen",
            )

    def _tendon_ends(self, frame: Frame) -> np.ndarray:
        ends = self._muscles.points(frame.body_q)[self._segments] + self._tendon_offset[:, None]
        return ends.astype(np.float32)

    def shown_points(self, frame: Frame) -> np.ndarray:
        """Particles of shown worlds (n, 3) [m]."""
        return np.zeros((0, 3)) if self.is_empty else self._place(frame)[self._shown]

    def _place(self, frame: Frame) -> np.ndarray:
        return (frame.particle_q + self._offset).astype(np.float32)

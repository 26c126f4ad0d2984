"""Particles, ropes, cloth and soft bodies in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.tetmesh import surface_triangles
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.layout import Layout

if TYPE_CHECKING:
    import viser

    from newtonsim.model import Model

_CLOTH = (214, 126, 68)
_GRAINS = (86, 138, 199)
_ROPES = (120, 90, 60)


class SoftLayer:
    """What particles make up: surfaces as meshes, springs as lines, the others as points.

    Args:
        server: The server.
        model: The model.
    """

    def __init__(self, server: viser.ViserServer, model: Model):
        self._server, self._model = server, model
        count = model.particle_count
        self._world = model.particle_world.numpy() if count else np.zeros(0, np.int32)
        radius = model.particle_radius.numpy() if count else np.zeros(0)
        self._size = 2.0 * float(radius.mean()) if count else 0.0
        self._triangles = _surface(model)
        springs = model.spring_indices.numpy().reshape(-1, 2) if model.spring_count else np.zeros((0, 2), int)
        in_surface = np.zeros(count, bool)
        in_surface[self._triangles] = True
        if model.tet_count:
            in_surface[model.tet_indices.numpy()] = True
        self._springs = springs[~in_surface[springs].all(axis=1)]
        self._loose = np.flatnonzero(~in_surface)
        self.every_particle = False
        self._mesh = self._lines = self._points = None

    @property
    def is_empty(self) -> bool:
        """Whether the model has no particles."""
        return not len(self._world)

    def clear(self) -> None:
        """Take the layer out of the scene."""
        for handle in (self._mesh, self._lines, self._points):
            if handle is not None:
                handle.remove()
        self._mesh = self._lines = self._points = None

    def build(self, layout: Layout, frame: Frame) -> None:
        """Put the particles of shown worlds into the scene."""
        self.clear()
        if self.is_empty:
            return
        shown = self._shown = layout.shown(self._world) | (self._world < 0)
        self._offset = layout.offset(self._world)
        self._used_triangles = self._triangles[shown[self._triangles].all(axis=1)]
        self._used = np.unique(self._used_triangles)
        self._ends = self._springs[shown[self._springs].all(axis=1)]
        chosen = np.arange(len(shown)) if self.every_particle else self._loose
        self._dots = chosen[shown[chosen]]
        points = self._place(frame)
        scene = self._server.scene
        if len(self._used):
            faces = np.searchsorted(self._used, self._used_triangles)
            self._mesh = scene.add_mesh_simple(
                "/soft/surface", points[self._used], faces, color=_CLOTH, side="double"
            )
        if len(self._ends):
            self._lines = scene.add_line_segments(
                "/soft/springs", points[self._ends], colors=np.array(_ROPES), thickness=2.0
            )
        if len(self._dots):
            self._points = scene.add_point_cloud(
                "/soft/particles",
                points[self._dots],
                np.array(_GRAINS),
                point_size=max(self._size, 1.0e-3),
                point_shape="circle",
                precision="float32",
            )

    def move(self, frame: Frame) -> None:
        """Follow the particles."""
        if self.is_empty:
            return
        points = self._place(frame)
        if self._mesh is not None:
            self._mesh.vertices = points[self._used]
        if self._lines is not None:
            self._lines.points = points[self._ends]
        if self._points is not None:
            self._points.points = points[self._dots]

    def shown_points(self, frame: Frame) -> np.ndarray:
        """Particles of shown worlds (n, 3) [m]."""
        return np.zeros((0, 3)) if self.is_empty else self._place(frame)[self._shown]

    def _place(self, frame: Frame) -> np.ndarray:
        points = (frame.particle_q + self._offset).astype(np.float32)
        return np.where(np.isfinite(points).all(axis=1)[:, None], points, np.float32(0.0))


def _surface(model: Model) -> np.ndarray:
    """Triangles of cloth, and those around tetrahedra, shape (n, 3)."""
    found = [np.zeros((0, 3), np.int64)]
    if model.tri_count:
        found.append(model.tri_indices.numpy().reshape(-1, 3))
    if model.tet_count:
        outside = surface_triangles(model.tet_indices.numpy().reshape(-1, 4))
        known = {frozenset(triangle) for triangle in found[-1].tolist()}
        found.append(np.array([t for t in outside.tolist() if frozenset(t) not in known], int).reshape(-1, 3))
    return np.concatenate(found)

"""Triangles for OpenGL: those of shapes, and those that move with particles and contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.render.camera.meshes import crease_normals, smooth_normals

if TYPE_CHECKING:
    from warp.render import OpenGLRenderer

_SIDES = 8


def corner_vertices(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (3 m, 8) of position, normal and no texture, and their indices (3 m,), with creases."""
    vertices = pack(points[triangles.reshape(-1)], crease_normals(points, triangles))
    return vertices, np.arange(len(vertices), dtype=np.uint32)


def pack(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return vertices (n, 8) in the layout of warp.render: position, normal, texture coordinates of zero."""
    return np.concatenate([points, normals, np.zeros((len(points), 2))], axis=1).astype(np.float32)


class MovingMesh:
    """OpenGL triangles whose vertices the host rewrites for each picture.

    Attributes:
        instance: Number of the instance in the renderer.

    Args:
        renderer: Where to draw.
        name: Name of the instance.
        form: Computes the triangles.
        color: Red, green, blue, 0..1.
    """

    def __init__(
        self,
        renderer: OpenGLRenderer,
        name: str,
        form: Sheet | Balls | Tubes,
        color: tuple[float, float, float],
    ):
        self._vertices = np.zeros((form.size, 8), dtype=np.float32)
        indices = np.ascontiguousarray(form.triangles, dtype=np.uint32).reshape(-1)
        shape = renderer.register_shape(name, self._vertices, indices, color1=color, color2=color)
        self._buffer: Any = renderer._shape_gl_buffers[shape][4]
        self.instance = renderer.add_shape_instance(
            name, shape, None, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), color1=color, color2=color
        )

    def write(self, vertices: np.ndarray) -> None:
        """Replace the vertices (n, 8); if there are fewer than before, the rest is invisible."""
        self._vertices[: len(vertices)] = vertices
        self._vertices[len(vertices) :] = 0.0
        self._buffer.map(dtype=wp.float32, shape=self._vertices.shape).assign(self._vertices)
        self._buffer.unmap()


class Sheet:
    """Cloth and surfaces of soft bodies: triangles that are seen from both sides.

    Args:
        triangles: Points of the triangles, shape (m, 3).
    """

    def __init__(self, triangles: np.ndarray):
        self.used, faces = np.unique(triangles, return_inverse=True)
        self._faces = faces.reshape(-1, 3)
        back = self._faces[:, ::-1] + len(self.used)
        self.triangles = np.concatenate([self._faces, back])
        self.size = 2 * len(self.used)

    def vertices(self, points: np.ndarray) -> np.ndarray:
        """Return the vertices (2 n, 8) for positions of all points."""
        mine = points[self.used].astype(np.float64)
        normals = np.zeros_like(mine)
        normals[self._faces.reshape(-1)] = smooth_normals(mine, self._faces)
        return np.concatenate([pack(mine, normals), pack(mine, -normals)])


class Balls:
    """Balls about points.

    Args:
        count: Largest number of balls.
    """

    def __init__(self, count: int):
        from trimesh.creation import icosphere

        ball = icosphere(subdivisions=1)
        self._normals = np.asarray(ball.vertices)
        start = len(self._normals) * np.arange(count)
        self.triangles = (np.asarray(ball.faces) + start[:, None, None]).reshape(-1, 3)
        self.size = count * len(self._normals)

    def vertices(self, points: np.ndarray, radius: npt.ArrayLike) -> np.ndarray:
        """Return the vertices for centres (n, 3), with one radius or n [m]."""
        reach = np.reshape(radius, (-1, 1, 1)) * self._normals
        places = (points[:, None] + reach).reshape(-1, 3)
        return pack(places, np.tile(self._normals, (len(points), 1)))


class Tubes:
    """Tubes around lines, open at their ends.

    Args:
        count: Largest number of lines.
    """

    def __init__(self, count: int):
        k = np.arange(_SIDES)
        following = (k + 1) % _SIDES
        first = np.stack([k, following, k + _SIDES], axis=1)
        second = np.stack([following, following + _SIDES, k + _SIDES], axis=1)
        start = 2 * _SIDES * np.arange(count)
        self.triangles = (np.concatenate([first, second]) + start[:, None, None]).reshape(-1, 3)
        self.size = 2 * _SIDES * count
        angle = 2.0 * np.pi * k / _SIDES
        self._circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def vertices(self, ends: np.ndarray, radius: float) -> np.ndarray:
        """Return the vertices for ends (n, 2, 3) and a radius [m]; lines of zero length are invisible."""
        along = ends[:, 1] - ends[:, 0]
        length = np.linalg.norm(along, axis=1, keepdims=True)
        along = np.divide(along, length, out=np.zeros_like(along), where=length > 0.0)
        # a direction across: that of the axis which the line is farthest from
        across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
        across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
        third = np.cross(along, across)
        normals = self._circle[:, :1] * across[:, None] + self._circle[:, 1:] * third[:, None]
        places = ends[:, :, None] + radius * normals[:, None]
        spread = np.broadcast_to(normals[:, None], places.shape)
        return pack(places.reshape(-1, 3), spread.reshape(-1, 3))

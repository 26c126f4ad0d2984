"""Triangles of shapes for the browser, which smooths normals over shared vertices; sharp edges get two."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from newtonsim.render.camera.meshes import crease_normals

Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices (n, 3), triangles (m, 3)."""

_SIDES = 24


def split_creases(vertices: np.ndarray, triangles: np.ndarray) -> Triangles:
    """Return the same surface with a separate vertex for each smooth side of a sharp edge."""
    if not len(triangles):
        return vertices, triangles
    normals = np.round(crease_normals(vertices, triangles), 3)
    corners = np.concatenate([vertices[triangles.reshape(-1)], normals], axis=1)
    distinct, index = np.unique(corners, axis=0, return_inverse=True)
    return distinct[:, :3], index.reshape(-1, 3)


@cache
def ball() -> Triangles:
    """Unit sphere."""
    return _lathe(np.linspace(-math.pi / 2, math.pi / 2, _SIDES // 2 + 1))


@cache
def cap() -> Triangles:
    """Half of the unit sphere where y is positive."""
    return _lathe(np.linspace(0.0, math.pi / 2, _SIDES // 4 + 1))


@cache
def tube() -> Triangles:
    """Wall of the unit cylinder about y, -1 <= y <= 1."""
    return _revolve(np.array([[1.0, -1.0], [1.0, 1.0]]))


@cache
def cylinder() -> Triangles:
    """Unit cylinder about y, -1 <= y <= 1."""
    return split_creases(*_revolve(np.array([[0.0, -1.0], [1.0, -1.0], [1.0, 1.0], [0.0, 1.0]])))


@cache
def cone() -> Triangles:
    """Cone about y with the unit circle at y = -1 and the tip at y = 1."""
    return split_creases(*_revolve(np.array([[0.0, -1.0], [1.0, -1.0], [0.0, 1.0]])))


@cache
def cube() -> Triangles:
    """The cube from -1 to 1."""
    corners = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return split_creases(corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))


@cache
def square() -> Triangles:
    """The square from -1 to 1 in x and z, seen from y > 0."""
    corners = np.array([[-1.0, 0, -1], [-1, 0, 1], [1, 0, 1], [1, 0, -1]])
    return corners, np.array([[0, 1, 2], [0, 2, 3]])


def _lathe(angle: np.ndarray) -> Triangles:
    return _revolve(np.stack([np.cos(angle), np.sin(angle)], axis=1))


def _revolve(profile: np.ndarray) -> Triangles:
    """Turn a profile (n, 2) of radius and height, from below, about y."""
    turn = np.arange(_SIDES) * (math.tau / _SIDES)
    radius, height = profile[:, :1], np.broadcast_to(profile[:, 1:], (len(profile), _SIDES))
    vertices = np.stack([radius * np.sin(turn), height, radius * np.cos(turn)], axis=2).reshape(-1, 3)
    row, column = np.meshgrid(np.arange(len(profile) - 1) * _SIDES, np.arange(_SIDES), indexing="ij")
    after = (column + 1) % _SIDES
    a, b, c, d = row + column, row + after, row + _SIDES + after, row + _SIDES + column
    triangles = np.stack([a, b, c, a, c, d], axis=2).reshape(-1, 3)
    corner = vertices[triangles]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    return vertices, triangles[area > 1.0e-9]

"""Shapes in the browser: equal ones are instanced, so that thousands cost little."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, transform_multiply
from newtonsim.render.shapes import ShapeTable, shape_triangles
from newtonsim.render.viewer import geometry
from newtonsim.render.viewer.colors import lit_colors
from newtonsim.render.viewer.frames import Frame
from newtonsim.render.viewer.layout import Layout
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    import viser

_MANY = 20_000
"""Triangles above which far instances are simplified."""

_IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
_UPSIDE_DOWN = np.array([1.0, 0.0, 0.0, 0.0])


@dataclass(frozen=True)
class _Part:
    """A part of a shape: triangles that others may share, its pose in the shape and its scale."""

    key: Any
    triangles: geometry.Triangles
    pose: np.ndarray
    scale: np.ndarray


@dataclass(eq=False)
class Batch:
    """Instances of the same triangles.

    Attributes:
        handle: The node in the browser's scene.
        shape: Shape of each instance, shape (n,).
        body: Its body, -1 if it is static, shape (n,).
        local: Pose in the body, shape (n, 7).
        offset: Offset of its world, shape (n, 3).
    """

    handle: viser.BatchedMeshHandle
    shape: np.ndarray
    body: np.ndarray
    local: np.ndarray
    offset: np.ndarray

    def corners(self, body_q: np.ndarray) -> list[np.ndarray]:
        """Lower and upper corners of the instances' boxes, each (n, 3) [m]."""
        poses = _poses(body_q, self.body, self.local, self.offset)
        vertices = self.handle.vertices.astype(float)
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        scale = self.handle.batched_scales
        turn = quat_matrix(poses[:, 3:])
        middle = poses[:, :3] + np.einsum("nij,nj->ni", turn, 0.5 * (low + high) * scale)
        half = np.einsum("nij,nj->ni", np.abs(turn), 0.5 * (high - low) * np.abs(scale))
        return [middle - half, middle + half]

    def move(self, body_q: np.ndarray) -> None:
        """Follow the bodies."""
        poses = _poses(body_q, self.body, self.local, self.offset)
        self.handle.batched_positions = poses[:, :3].astype(np.float32)
        self.handle.batched_wxyzs = poses[:, [6, 3, 4, 5]].astype(np.float32)


class ShapeLayer:
    """A layer of one kind of shapes of a model, such as visuals.

    Attributes:
        batches: What is in the scene.

    Args:
        server: The server.
        name: Name of the layer in the scene.
        table: The shapes.
        chosen: Shapes of the layer, bool, shape (shapes,).
        wireframe: Whether only edges are shown.
        color: One colour for all (3,), or one a shape (shapes, 3); None for that of the shapes.
        opacity: Factor of the shapes' opacity.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        name: str,
        table: ShapeTable,
        chosen: np.ndarray,
        wireframe: bool = False,
        color: np.ndarray | None = None,
        opacity: float = 1.0,
    ):
        self._server, self._name, self._table = server, name, table
        self._chosen, self._wireframe, self._opacity = chosen, wireframe, opacity
        own = np.array([rgba[:3] for rgba in table.color], np.float64).reshape(-1, 3)
        self._color = own if color is None else np.broadcast_to(color, own.shape)
        self._parts: dict[tuple, list[_Part]] = {}
        self.batches: list[Batch] = []

    def clear(self) -> None:
        """Remove the layer from the scene."""
        for batch in self.batches:
            batch.handle.remove()
        self.batches = []

    def build(self, layout: Layout, frame: Frame) -> None:
        """Add the shapes of shown worlds to the scene."""
        self.clear()
        table, rows = self._table, {}
        for i in np.flatnonzero(self._chosen & ((table.world < 0) | layout.shown(table.world))):
            clear, moving = self._opacity * table.color[i][3] < 0.999, table.body[i] >= 0
            for part in self._parts_of(i):
                key = (part.key, bool(moving), clear)
                rows.setdefault(key, []).append((i, part))
        for number, (key, members) in enumerate(rows.items()):
            self.batches.append(self._batch(number, key, members, layout, frame))

    def move(self, frame: Frame) -> None:
        """Follow the bodies."""
        for batch in self.batches:
            if batch.body[0] >= 0:
                batch.move(frame.body_q)

    def _batch(self, number: int, key: tuple, members: list, layout: Layout, frame: Frame) -> Batch:
        index = np.array([i for i, _ in members])
        place = np.concatenate([self._origins(i, layout) for i in index])
        repeat = np.repeat(np.arange(len(index)), [len(self._origins(i, layout)) for i in index])
        pose = transform_multiply(self._table.transform[index], np.stack([p.pose for _, p in members]))
        shape, local = index[repeat], pose[repeat]
        body = self._table.body[shape]
        color = self._color[shape]
        alpha = self._opacity * np.array([self._table.color[i][3] for i in shape])
        vertices, triangles = members[0][1].triangles
        poses = _poses(frame.body_q, body, local, place)
        handle = self._server.scene.add_batched_meshes_simple(
            f"/{self._name}/{number}",
            vertices.astype(np.float32),
            triangles.astype(np.uint32),
            batched_wxyzs=poses[:, [6, 3, 4, 5]].astype(np.float32),
            batched_positions=poses[:, :3].astype(np.float32),
            batched_scales=np.stack([p.scale for _, p in members])[repeat].astype(np.float32),
            batched_colors=lit_colors(color),
            batched_opacities=alpha.astype(np.float32) if key[2] else None,
            lod="auto" if len(triangles) > _MANY else "off",
            wireframe=self._wireframe,
            side="double" if isinstance(key[0], tuple) else "front",
            cast_shadow=not (self._wireframe or key[2]),
        )
        return Batch(handle, shape, body, local, place)

    def _origins(self, shape: int, layout: Layout) -> np.ndarray:
        """Return where a shape is placed: in its world, or in all of them."""
        world = self._table.world[shape : shape + 1]
        return layout.origins if world[0] < 0 else layout.offset(world)

    def _parts_of(self, i: int) -> list[_Part]:
        """Return the pieces of a shape; equal shapes share them."""
        table = self._table
        key = (int(table.kind[i]), *table.scale[i], id(table.source[i]))
        if key not in self._parts:
            kind, scale, source = GeoType(int(table.kind[i])), table.scale[i], table.source[i]
            self._parts[key] = list(_split(kind, scale, source, table.key[i]))
        return self._parts[key]


def is_endless(table: ShapeTable) -> np.ndarray:
    """Return which shapes are infinite planes, bool, shape (shapes,)."""
    return (table.kind == GeoType.PLANE) & ((table.scale[:, 0] <= 0.0) | (table.scale[:, 1] <= 0.0))


def _split(kind: GeoType, scale: np.ndarray, source: Any, name: str) -> Iterator[_Part]:
    """Yield the pieces of a shape."""
    x, y = scale[:2]
    if kind == GeoType.SPHERE:
        yield _Part("ball", geometry.ball(), _IDENTITY, np.full(3, x))
    elif kind == GeoType.ELLIPSOID:
        yield _Part("ball", geometry.ball(), _IDENTITY, scale)
    elif kind == GeoType.BOX:
        yield _Part("cube", geometry.cube(), _IDENTITY, scale)
    elif kind == GeoType.CYLINDER:
        yield _Part("cylinder", geometry.cylinder(), _IDENTITY, np.array([x, y, x]))
    elif kind == GeoType.CONE:
        yield _Part("cone", geometry.cone(), _IDENTITY, np.array([x, y, x]))
    elif kind == GeoType.CAPSULE:
        yield _Part("tube", geometry.tube(), _IDENTITY, np.array([x, y, x]))
        yield _Part("cap", geometry.cap(), np.array([0.0, y, 0, 0, 0, 0, 1]), np.full(3, x))
        yield _Part("cap", geometry.cap(), np.concatenate([[0.0, -y, 0], _UPSIDE_DOWN]), np.full(3, x))
    elif kind == GeoType.PLANE:
        yield _Part(("square",), geometry.square(), _IDENTITY, np.array([0.5 * x, 1.0, 0.5 * y]))
    elif kind in (GeoType.MESH, GeoType.HFIELD, GeoType.SDF):
        yield from _surface(kind, scale, source, name)


def _surface(kind: GeoType, scale: np.ndarray, source: Any, name: str) -> Iterator[_Part]:
    """Yield the triangles of a mesh, a height field or a distance field."""
    surface = shape_triangles(kind, np.ones(3), source)
    if surface is None:
        warnings.warn(f"shape {name!r}: an empty distance field is not shown", stacklevel=2)
        return
    vertices, triangles = surface
    yield _Part(("mesh", id(source)), geometry.split_creases(vertices, triangles), _IDENTITY, scale)


def _poses(body_q: np.ndarray, body: np.ndarray, local: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """World poses of instances (n, 7)."""
    poses = local.copy()
    moving = body >= 0
    poses[moving] = transform_multiply(body_q[body[moving]], local[moving])
    poses[:, :3] += offset
    return poses

"""The shapes of a model on the host: poses, appearance and extents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import quat_conjugate, quat_rotate, transform_multiply
from newtonsim.scene.enums import GeoType, ShapeFlags

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

PALETTE = (
    (0.30, 0.45, 0.70, 1.0),
    (0.85, 0.47, 0.14, 1.0),
    (0.35, 0.60, 0.40, 1.0),
    (0.60, 0.40, 0.62, 1.0),
    (0.75, 0.65, 0.35, 1.0),
)
GROUND_COLOR = (0.62, 0.63, 0.65, 1.0)


@dataclass(frozen=True)
class ShapeTable:
    """Host copies of what renderers need to know about shapes.

    Attributes:
        kind: GeoType, shape (n,).
        scale: Sizes, see GeoType, shape (n, 3) [m].
        body: Body index or -1, shape (n,).
        world: World index or -1, shape (n,).
        transform: Pose in the body frame, shape (n, 7).
        visible: Whether the shape is drawn, shape (n,).
        color: One RGBA tuple a shape.
        source: Mesh, Heightfield or None a shape.
        key: Name of each shape.
    """

    kind: np.ndarray
    scale: np.ndarray
    body: np.ndarray
    world: np.ndarray
    transform: np.ndarray
    visible: np.ndarray
    color: list[tuple[float, float, float, float]]
    source: list[Any]
    key: list[str]

    @classmethod
    def of(cls, model: Model) -> ShapeTable:
        """Read the shapes of a model."""
        kind = model.shape_geo.type.numpy()
        given = list(model.shape_color)
        plane = kind == GeoType.PLANE
        default = [GROUND_COLOR if plane[i] else PALETTE[i % len(PALETTE)] for i in range(len(kind))]
        return cls(
            kind=kind,
            scale=model.shape_geo.scale.numpy().astype(np.float64),
            body=model.shape_body.numpy(),
            world=model.shape_world.numpy(),
            transform=model.shape_transform.numpy().astype(np.float64),
            visible=(model.shape_flags.numpy().astype(np.uint32) & int(ShapeFlags.VISIBLE)) != 0,
            color=[tuple(c) if c is not None else d for c, d in zip(given, default, strict=True)],
            source=list(model.shape_geo_src),
            key=list(model.shape_key),
        )

    def poses(self, body_q: np.ndarray) -> np.ndarray:
        """Return the world poses of all shapes (n, 7) for body poses (bodies, 7)."""
        moving = self.body >= 0
        parent = np.zeros((len(self.body), 7))
        parent[:, 6] = 1.0
        parent[moving] = body_q[self.body[moving]]
        return transform_multiply(parent, self.transform)

    def lowest(self, body_q: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Return the height [m] along `up` of the lowest point of every shape; +inf for planes."""
        pose = self.poses(body_q)
        up = np.asarray(up, dtype=np.float64)
        down = quat_rotate(quat_conjugate(pose[:, 3:]), np.broadcast_to(-up, pose[:, :3].shape))
        return pose[:, :3] @ up - self._reach(down)

    def _reach(self, direction: np.ndarray) -> np.ndarray:
        """Return the support function of each shape for a unit direction in its own frame (n, 3)."""
        s, d = self.scale, np.abs(direction)
        radial = np.hypot(direction[:, 0], direction[:, 2])
        reach = np.full(len(s), -np.inf)
        by_kind = {
            GeoType.SPHERE: s[:, 0],
            GeoType.BOX: np.sum(d * s, axis=1),
            GeoType.CAPSULE: s[:, 0] + s[:, 1] * d[:, 1],
            GeoType.CYLINDER: s[:, 0] * radial + s[:, 1] * d[:, 1],
            GeoType.CONE: np.maximum(s[:, 1] * direction[:, 1], s[:, 0] * radial - s[:, 1] * direction[:, 1]),
            GeoType.ELLIPSOID: np.linalg.norm(d * s, axis=1),
        }
        for kind, value in by_kind.items():
            reach = np.where(self.kind == kind, value, reach)
        # A mesh is shared by the worlds: gather its copies and search its vertices for all of them at once.
        meshes = {id(self.source[i]): self.source[i] for i in np.flatnonzero(self.kind == GeoType.MESH)}
        for source in meshes.values():
            mine = np.array([s is source for s in self.source])
            reach[mine] = np.max((direction[mine] * s[mine]) @ source.vertices.T.astype(np.float64), axis=1)
        return reach


def shape_triangles(kind: int, scale: np.ndarray, source: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return vertices (n, 3) and outward triangles (m, 3) of a mesh, height field or distance field.

    None for other kinds, and for a distance field that is empty.
    """
    if kind in (GeoType.HFIELD, GeoType.SDF):
        source = source.to_mesh()
    if kind not in (GeoType.MESH, GeoType.HFIELD, GeoType.SDF) or source is None:
        return None
    triangles = np.asarray(source.indices).reshape(-1, 3)
    mirrored = np.prod(scale) < 0.0
    return source.vertices * scale, triangles[:, ::-1] if mirrored else triangles


def shape_outline(kind: int, scale: np.ndarray, source: Any) -> list[np.ndarray]:
    """Return polylines (n, 3) that suggest a shape, in its own frame; none for planes."""
    x, y, z = (float(v) for v in scale)
    if kind == GeoType.SPHERE:
        return _ellipsoid_outline(np.array([x, x, x]))
    if kind == GeoType.ELLIPSOID:
        return _ellipsoid_outline(np.array([x, y, z]))
    if kind == GeoType.BOX:
        return _box_outline(np.array([x, y, z]))
    if kind == GeoType.CAPSULE:
        return [_ring(x, -y), _ring(x, y), _stadium(x, y), _stadium(x, y)[:, [2, 1, 0]]]
    quarters = ((x, 0.0), (-x, 0.0), (0.0, x), (0.0, -x))
    if kind == GeoType.CYLINDER:
        sides = [np.array([[c, -y, s], [c, y, s]]) for c, s in quarters]
        return [_ring(x, -y), _ring(x, y), *sides]
    if kind == GeoType.CONE:
        return [_ring(x, -y), *(np.array([[c, -y, s], [0, y, 0]]) for c, s in quarters)]
    triangles = shape_triangles(kind, scale, source)
    if triangles is None:
        return []
    points, corners = triangles
    return [points[[a, b, c, a]] for a, b, c in corners]


def _ring(radius: float, height: float, sides: int = 16) -> np.ndarray:
    angle = np.linspace(0.0, math.tau, sides + 1)
    return np.stack([radius * np.cos(angle), np.full_like(angle, height), radius * np.sin(angle)], axis=1)


def _stadium(radius: float, half: float) -> np.ndarray:
    """Return the outline of a capsule in its x-y plane."""
    angle = np.linspace(0.0, math.pi, 9)
    top = np.stack([radius * np.cos(angle), half + radius * np.sin(angle), 0.0 * angle], axis=1)
    return np.concatenate([top, -top, top[:1]])


def _ellipsoid_outline(axes: np.ndarray) -> list[np.ndarray]:
    ring = _ring(1.0, 0.0)
    return [ring[:, order] * axes for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1])]


def _box_outline(half: np.ndarray) -> list[np.ndarray]:
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    caps = [np.insert(square, 1, side, axis=1) * half for side in (-1, 1)]
    pillars = [np.array([[a, -1, b], [a, 1, b]]) * half for a, b in square[:4]]
    return [*caps, *pillars]


def world_grid(count: int, spacing: float, up: np.ndarray) -> np.ndarray:
    """Return offsets (count, 3) [m] that lay worlds out on a square in the plane perpendicular to `up`."""
    side = math.ceil(math.sqrt(count)) if count else 0
    index = np.arange(count)
    across = (np.stack([index // max(side, 1), index % max(side, 1)], axis=1) - (side - 1) / 2.0) * spacing
    axes = [axis for axis in range(3) if axis != int(np.argmax(np.abs(up)))]
    offsets = np.zeros((count, 3))
    offsets[:, axes] = across
    return offsets


class WorldLayout:
    """Which worlds are drawn, and their offsets from their places in the model.

    Attributes:
        worlds: Indices of the drawn worlds.
        moves: Whether any of them is moved.

    Args:
        model: The model.
        worlds: Worlds to draw; None for all.
        spacing: Distance of neighbours on a grid [m]; 0 leaves the worlds where they are.

    Raises:
        ModelError: There is no such world, or one is listed twice.
    """

    def __init__(self, model: Model, worlds: Iterable[int] | None = None, spacing: float = 0.0):
        count = model.world_count
        self.worlds = list(range(count)) if worlds is None else [int(world) for world in worlds]
        for world in self.worlds:
            if not 0 <= world < count:
                raise ModelError(f"world {world}: the model has {count} worlds")
            if self.worlds.count(world) > 1:
                raise ModelError(f"world {world} is listed twice")
        # the last row is that of the global world, which is -1
        self._offset = np.zeros((count + 1, 3))
        self._offset[self.worlds] = world_grid(len(self.worlds), spacing, np.asarray(model.up_vector))
        self.moves = bool(self._offset.any())
        self._shown = np.zeros(count + 1, dtype=bool)
        self._shown[[*self.worlds, -1]] = True

    def offset(self, world: np.ndarray) -> np.ndarray:
        """Return the offsets of worlds (n,), shape (n, 3) [m]."""
        return self._offset[world]

    def shows(self, world: np.ndarray) -> np.ndarray:
        """Return whether worlds (n,) are drawn, bool (n,)."""
        return self._shown[world]


def body_poses(model: Model, state: State) -> np.ndarray:
    """Return the poses of the bodies (bodies, 7) in double precision."""
    return state.body_q.numpy().astype(np.float64) if model.body_count else np.zeros((0, 7))

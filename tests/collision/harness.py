"""Narrow-phase kernels launched on shapes of numpy, and what they wrote."""

from dataclasses import dataclass, field

import numpy as np
import warp as wp

from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.collision.pairs.manifolds import MANIFOLD_SIZE, ManifoldView, PairView
from newtonsim.kernels.views.shapes import KIND_HULL, ShapeView
from newtonsim.scene.enums import GeoType

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass
class Solid:
    """A convex shape: its kind and scale as in `GeoType`, or a hull."""

    kind: int
    size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    hull: ConvexHull | None = None

    @property
    def extent(self) -> float:
        """Length [m] against which errors are judged."""
        if self.hull is not None:
            return float(np.max(np.ptp(self.hull.vertices, axis=0)))
        return float(np.max(self.size))


def sphere(radius: float) -> Solid:
    return Solid(GeoType.SPHERE, (radius, 0.0, 0.0))


def box(x: float, y: float, z: float) -> Solid:
    return Solid(GeoType.BOX, (x, y, z))


def capsule(radius: float, half_height: float) -> Solid:
    return Solid(GeoType.CAPSULE, (radius, half_height, 0.0))


def cylinder(radius: float, half_height: float) -> Solid:
    return Solid(GeoType.CYLINDER, (radius, half_height, 0.0))


def cone(radius: float, half_height: float) -> Solid:
    return Solid(GeoType.CONE, (radius, half_height, 0.0))


def ellipsoid(x: float, y: float, z: float) -> Solid:
    return Solid(GeoType.ELLIPSOID, (x, y, z))


def hull(points: np.ndarray) -> Solid:
    return Solid(int(KIND_HULL), (1.0, 1.0, 1.0), ConvexHull(points))


def box_hull(x: float, y: float, z: float) -> Solid:
    """A hull with the shape of a box."""
    return hull(np.array([[i, j, k] for i in (-x, x) for j in (-y, y) for k in (-z, z)]))


@dataclass
class Manifold:
    """Contact points of one pair, in double precision."""

    point: np.ndarray  # (n, 3) [m] on the surface of shape 0
    normal: np.ndarray  # (n, 3) from shape 1 to shape 0
    distance: np.ndarray  # (n,) [m]
    feature: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.distance)

    @property
    def other(self) -> np.ndarray:
        """Points on the surface of shape 1, (n, 3)."""
        return self.point - self.distance[:, None] * self.normal

    def sorted_by(self, *axes: int) -> np.ndarray:
        """The points, ordered by the given coordinates (rounded) and free of the order of writing."""
        keys = np.round(self.point[:, list(axes)], 4)
        return self.point[np.lexsort(keys.T[::-1])]


class PairLab:
    """Launches a narrow-phase kernel on the pairs (a, b) of two solids in many poses."""

    def __init__(self, kernel, family: int, a: Solid, b: Solid, count: int, device: str):
        self.kernel, self.count, self.device = kernel, count, device
        solids = [a, b] * count
        hulls = [s.hull for s in (a, b) if s.hull is not None]
        self.hulls = pack_hulls(hulls, device)
        number = {id(h): i for i, h in enumerate(hulls)}

        def ints(values) -> wp.array:
            return wp.array(np.asarray(values, np.int32), dtype=int, device=device)

        self.shape = ShapeView()
        self.shape.body = ints(range(2 * count))
        self.shape.kind = ints([int(s.kind) for s in solids])
        self.shape.hull = ints([number.get(id(s.hull), -1) for s in solids])
        self.shape.geo.scale = wp.array(np.array([s.size for s in solids]), dtype=wp.vec3, device=device)
        self.pairs = PairView()
        self.pairs.shape0 = ints(range(0, 2 * count, 2))
        self.pairs.shape1 = ints(range(1, 2 * count, 2))
        self.pairs.family = ints([int(family)] * count)
        self.manifolds = ManifoldView()
        self.manifolds.count = ints([0] * count)
        size = (count, int(MANIFOLD_SIZE))
        self.manifolds.point = wp.zeros(size, dtype=wp.vec3, device=device)
        self.manifolds.normal = wp.zeros(size, dtype=wp.vec3, device=device)
        self.manifolds.distance = wp.zeros(size, dtype=float, device=device)
        self.manifolds.feature = wp.zeros(size, dtype=int, device=device)

    def set_poses(self, X_a: np.ndarray, X_b: np.ndarray, reach: float | np.ndarray) -> None:
        """Place the shapes: poses (count, 7), and the gap [m] up to which points are wanted."""
        poses = np.stack(np.broadcast_arrays(X_a, X_b, np.zeros((self.count, 7)))[:2], axis=1)
        self.shape_X = wp.array(poses.reshape(-1, 7), dtype=wp.transform, device=self.device)
        wanted = np.broadcast_to(np.asarray(reach, np.float32), self.count)
        self.pairs.reach = wp.array(wanted, dtype=float, device=self.device)
        self.pairs.travel = wp.zeros_like(self.pairs.reach)

    def launch(self) -> None:
        inputs = [0, self.pairs, self.shape, self.hulls, self.shape_X, self.manifolds]
        self.manifolds.count.zero_()
        wp.launch(self.kernel, dim=self.count, inputs=inputs, device=self.device)

    def read(self) -> list[Manifold]:
        """The manifolds of all pairs."""
        count = self.manifolds.count.numpy()
        point, normal = self.manifolds.point.numpy(), self.manifolds.normal.numpy()
        distance, feature = self.manifolds.distance.numpy(), self.manifolds.feature.numpy()
        found = []
        for k, n in enumerate(count):
            arrays = (values[k, :n].astype(np.float64) for values in (point, normal, distance))
            found.append(Manifold(*arrays, feature=feature[k, :n].tolist()))
        return found


def collide_pairs(kernel, family: int, a: Solid, b: Solid, X_a, X_b, reach, device: str) -> list[Manifold]:
    """Contact points of solid a with solid b in the poses X_a and X_b, each (n, 7) or (7,)."""
    count = max(len(np.atleast_2d(X_a)), len(np.atleast_2d(X_b)))
    lab = PairLab(kernel, family, a, b, count, device)
    lab.set_poses(np.atleast_2d(X_a), np.atleast_2d(X_b), reach)
    lab.launch()
    return lab.read()


def pose(position=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), angle: float = 0.0) -> np.ndarray:
    """A pose (7,) turned about an axis by an angle [rad]."""
    axis = np.asarray(axis, np.float64) / np.linalg.norm(axis)
    return np.concatenate([position, np.sin(angle / 2.0) * axis, [np.cos(angle / 2.0)]])


def random_poses(rng: np.random.Generator, count: int, radius: float) -> np.ndarray:
    """Poses (count, 7) with evenly spread rotations and positions within a cube."""
    q = rng.normal(size=(count, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return np.concatenate([rng.uniform(-radius, radius, (count, 3)), q], axis=1)


def rotation(X: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a pose."""
    x, y, z, w = X[3:] / np.linalg.norm(X[3:])
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def to_local(X: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Points (n, 3) of the world in the frame with pose X."""
    return (p - X[:3]) @ rotation(X)

"""Narrow-phase kernels of meshes, height fields and distance fields, launched on shapes of numpy."""

from collections.abc import Sequence

import numpy as np
import warp as wp
from collision.harness import Manifold, Solid

from newtonsim.geometry import SDF, Heightfield, Mesh
from newtonsim.geometry.hull import pack_hulls
from newtonsim.geometry.surfaces import pack_surfaces
from newtonsim.kernels.collision.pairs.manifolds import MANIFOLD_SIZE, ManifoldView, PairView
from newtonsim.kernels.views.shapes import ShapeView
from newtonsim.scene.enums import GeoType

Source = Mesh | Heightfield | SDF


def kind_of(source: Source) -> GeoType:
    """GeoType of a source."""
    kinds = {Mesh: GeoType.MESH, Heightfield: GeoType.HFIELD, SDF: GeoType.SDF}
    return kinds[type(source)]


class SurfaceLab:
    """Launches a kernel on the pairs (a, b) in many poses; a is a convex solid or a source, b a source."""

    def __init__(
        self, kernel, family: int, a: Solid | Source, b: Source, device: str, scale_a=1.0, scale_b=1.0
    ):
        self.kernel, self.family, self.device = kernel, int(family), device
        solid = a if isinstance(a, Solid) else None
        sources = [None if solid else a, b]
        scales = [solid.size if solid else np.broadcast_to(scale_a, 3), np.broadcast_to(scale_b, 3)]
        unique = {id(source): source.finalize(device) for source in {id(s): s for s in sources if s}.values()}
        ids = [unique.get(id(source), 0) for source in sources]
        corners = [
            np.zeros((2, 3)) if s is None else np.array(s.bounds()) * c for s, c in zip(sources, scales)
        ]
        hulls = [solid.hull] if solid and solid.hull is not None else []
        self.hulls = pack_hulls(hulls, device)
        shape = self.shape = ShapeView()
        shape.kind = wp.array(
            [int(solid.kind) if solid else int(kind_of(a)), int(kind_of(b))], dtype=int, device=device
        )
        shape.hull = wp.array([0 if hulls else -1, -1], dtype=int, device=device)
        shape.geo.scale = wp.array(np.array(scales), dtype=wp.vec3, device=device)
        shape.geo.source = wp.array(np.array(ids, np.uint64), dtype=wp.uint64, device=device)
        shape.local_lower = wp.array(np.array([c.min(axis=0) for c in corners]), dtype=wp.vec3, device=device)
        shape.local_upper = wp.array(np.array([c.max(axis=0) for c in corners]), dtype=wp.vec3, device=device)
        self.one, self.sources = shape, sources
        self.surfaces = pack_surfaces(sources, device)

    def _repeat(self, view, count: int):
        """A view whose arrays hold the two shapes once for each pair."""
        grown = type(view)()
        for name in ("kind", "hull", "local_lower", "local_upper"):
            array = getattr(view, name)
            setattr(grown, name, self._tile(array, count))
        grown.geo.scale = self._tile(view.geo.scale, count)
        grown.geo.source = self._tile(view.geo.source, count)
        return grown

    def _tile(self, array: wp.array, count: int) -> wp.array:
        values = array.numpy()
        return wp.array(
            np.tile(values, (count, *[1] * (values.ndim - 1))), dtype=array.dtype, device=self.device
        )

    def collide(self, X_a, X_b, reach) -> list[Manifold]:
        """Contact points in the poses X_a and X_b, each (n, 7) or (7,)."""
        X_a, X_b = np.atleast_2d(X_a), np.atleast_2d(X_b)
        count, device = max(len(X_a), len(X_b)), self.device
        shape = self._repeat(self.one, count)
        surfaces = pack_surfaces(self.sources * count, device)
        poses = np.stack(np.broadcast_arrays(X_a, X_b, np.zeros((count, 7)))[:2], axis=1).reshape(-1, 7)
        pairs = PairView()
        pairs.shape0 = wp.array(np.arange(0, 2 * count, 2), dtype=int, device=device)
        pairs.shape1 = wp.array(np.arange(1, 2 * count, 2), dtype=int, device=device)
        pairs.family = wp.full(count, self.family, dtype=int, device=device)
        wanted = np.broadcast_to(np.asarray(reach, np.float32), count).copy()
        pairs.reach = wp.array(wanted, dtype=float, device=device)
        pairs.travel = wp.zeros_like(pairs.reach)
        manifolds = ManifoldView()
        manifolds.count = wp.zeros(count, dtype=int, device=device)
        size = (count, int(MANIFOLD_SIZE))
        manifolds.point = wp.zeros(size, dtype=wp.vec3, device=device)
        manifolds.normal = wp.zeros(size, dtype=wp.vec3, device=device)
        manifolds.distance = wp.zeros(size, dtype=float, device=device)
        manifolds.feature = wp.zeros(size, dtype=int, device=device)
        shape_X = wp.array(poses, dtype=wp.transform, device=device)
        inputs = [0, pairs, shape, self.hulls, shape_X, manifolds, surfaces]
        wp.launch(self.kernel, dim=count, inputs=inputs, device=device)
        return read_manifolds(manifolds)


def read_manifolds(manifolds: ManifoldView) -> list[Manifold]:
    """The manifolds of all pairs, in double precision."""
    arrays = [getattr(manifolds, name).numpy() for name in ("point", "normal", "distance")]
    feature = manifolds.feature.numpy()
    return [
        Manifold(*(a[k, :n].astype(np.float64) for a in arrays), feature=feature[k, :n].tolist())
        for k, n in enumerate(manifolds.count.numpy())
    ]


def floor_mesh(cells: int, size: float, seed: int | None = 0) -> Mesh:
    """A flat square in the plane y = 0, normals up; inner vertices are moved sideways at random."""
    x = np.linspace(-0.5, 0.5, cells + 1) * size
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    if seed is not None:
        shift = np.random.default_rng(seed).uniform(-0.3, 0.3, grid.shape) * size / cells
        grid[1:-1, 1:-1] += shift[1:-1, 1:-1]
    vertices = np.stack([grid[..., 0], np.zeros(grid.shape[:2]), grid[..., 1]], axis=-1).reshape(-1, 3)
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).reshape(-1)
    near, far = corner + 1, corner + cells + 1
    triangles = np.stack([corner, near, far + 1, corner, far + 1, far], axis=1).reshape(-1, 3)
    return Mesh(vertices, triangles, compute_inertia=False)


def box_mesh(x: float, y: float, z: float, name: str | None = None) -> Mesh:
    """A closed box with half extents, 12 triangles."""
    corners = np.array([[i, j, k] for i in (-x, x) for j in (-y, y) for k in (-z, z)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
    return Mesh(corners, np.array(triangles), name=name)


def triangle_distances(p: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Distances (n, m) of points (n, 3) from triangles (m, 3, 3), in double precision."""
    a, b, c = np.moveaxis(corners, 1, 0)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    height = np.einsum("mk,nmk->nm", normal, p[:, None] - a)
    inside = np.ones(height.shape, bool)
    nearest = np.full(height.shape, np.inf)
    for start, end in ((a, b), (b, c), (c, a)):
        edge, offset = end - start, p[:, None] - start
        inside &= np.einsum("mk,nmk->nm", np.cross(normal, edge), offset) >= 0.0
        t = np.clip(np.einsum("mk,nmk->nm", edge, offset) / np.sum(edge**2, axis=1), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(offset - t[..., None] * edge, axis=-1))
    return np.where(inside, np.abs(height), nearest)


def concatenated(meshes: Sequence[Mesh]) -> Mesh:
    """One mesh of several."""
    start = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    vertices = np.concatenate([m.vertices for m in meshes])
    return Mesh(vertices, np.concatenate([m.indices + s for m, s in zip(meshes, start)]))

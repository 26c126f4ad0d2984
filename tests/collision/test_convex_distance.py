"""Distance, normal and points of all pairs of convex shapes, apart, touching and overlapping."""

import copy
import functools
import itertools

import numpy as np
import pytest
import warp as wp
from collision.convex_oracle import (
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    ELLIPSOID,
    HULL,
    NAMES,
    SPHERE,
    TRIANGLE,
    Shapes,
    gaps,
    largest_gap,
    matrices,
    polyhedron_depth,
    unit,
)
from scipy.spatial import ConvexHull as Qhull
from scipy.spatial.transform import Rotation

from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.collision.convex.convex import Closest, Convex
from newtonsim.kernels.collision.convex.gjk import closest_points
from newtonsim.kernels.views.shapes import HullView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

POSES = 1000
PAIRS = list(itertools.combinations_with_replacement(NAMES, 2))


@wp.kernel
def find_closest(
    a: wp.array(dtype=Convex),
    X_a: wp.array(dtype=wp.transform),
    b: wp.array(dtype=Convex),
    X_b: wp.array(dtype=wp.transform),
    hulls: HullView,
    reach: wp.array(dtype=float),
    found: wp.array(dtype=Closest),
):
    """Closest points of one pair a thread."""
    i = wp.tid()
    found[i] = closest_points(a[i], X_a[i], b[i], X_b[i], hulls, reach[i])


def convex_records(shapes: Shapes, hull: np.ndarray | None = None) -> np.ndarray:
    """The shapes as kernels take them; `hull` numbers those of hulls."""
    records = np.zeros(len(shapes.size), dtype=Convex.numpy_dtype())
    records["kind"], records["size"], records["hull"] = shapes.kind, shapes.size, -1
    if shapes.kind == HULL:
        records["hull"] = hull
    if shapes.kind == TRIANGLE:
        records["a"], records["b"], records["c"] = np.moveaxis(shapes.corners, 1, 0)
    return records


def closest(a: Shapes, b: Shapes, poses_a, poses_b, device: str, hulls=(), reach=np.inf) -> np.ndarray:
    """Results (n,) of one launch; hulls of A come first in `hulls`, one a pose, then those of B."""
    count = len(poses_a)
    numbers = np.arange(count)
    records = (
        convex_records(a, numbers),
        convex_records(b, numbers + (count if a.kind == HULL else 0)),
    )
    found = wp.zeros(count, dtype=Closest, device=device)
    inputs = [
        wp.array(records[0], dtype=Convex, device=device),
        wp.array(poses_a, dtype=wp.transform, device=device),
        wp.array(records[1], dtype=Convex, device=device),
        wp.array(poses_b, dtype=wp.transform, device=device),
        pack_hulls(list(hulls), device),
        wp.array(np.broadcast_to(np.float32(reach), count).copy(), dtype=float, device=device),
        found,
    ]
    wp.launch(find_closest, dim=count, inputs=inputs, device=device)
    return found.numpy()


@functools.cache
def unit_hulls() -> list[tuple[ConvexHull, np.ndarray]]:
    """Hulls of 4 to 63 vertices, not about their origin, and their facets as normals and offsets."""
    rng = np.random.default_rng(5)
    hulls = []
    for n in (4, 5, 6, 8, 10, 12, 16, 20, 24, 25, 26, 30, 40, 50, 63) * 3:
        size = rng.uniform(0.25, 1.0, 3)
        hull = ConvexHull(size * unit(rng.normal(size=(n, 3))) + 0.3 * size.mean())
        hulls.append((hull, Qhull(hull.vertices.astype(float)).equations))
    return hulls


def random_shapes(kind: int, scale: np.ndarray, rng: np.random.Generator) -> tuple[Shapes, list[ConvexHull]]:
    """Shapes of a kind with extents around `scale` (n,), and the hulls among them."""
    count = len(scale)
    size = (scale[:, None] * rng.uniform(0.25, 1.0, (count, 3))).astype(np.float32).astype(np.float64)
    if kind == TRIANGLE:
        corners = scale[:, None, None] * rng.uniform(-1.0, 1.0, (count, 3, 3))
        return Shapes(kind, 0.0 * size, corners.astype(np.float32).astype(np.float64)), []
    if kind != HULL:
        if kind == SPHERE:
            size[:, 1:] = 0.0
        elif kind != BOX and kind != ELLIPSOID:
            size[:, 2] = 0.0
        return Shapes(kind, size), []
    pool = unit_hulls()
    hulls, corners, planes = [], np.zeros((count, 64, 3)), np.zeros((count, 130, 4))
    for row, k in enumerate(rng.integers(0, len(pool), count)):
        hull = copy.copy(pool[k][0])
        hull.vertices = hull.vertices * np.float32(scale[row])
        hulls.append(hull)
        corners[row] = hull.vertices[0]
        corners[row, : len(hull.vertices)] = hull.vertices
        planes[row] = np.resize(pool[k][1], (130, 4)) * [1.0, 1.0, 1.0, scale[row]]
    return Shapes(kind, 0.0 * size, corners, planes), hulls


def random_rotations(count: int, rng: np.random.Generator) -> Rotation:
    """Rotations of which every other one is by multiples of 45 degrees, so that features line up."""
    angles = np.pi / 4 * rng.integers(0, 8, (count, 3))
    angles[::2] = rng.uniform(-np.pi, np.pi, (len(angles[::2]), 3))
    return Rotation.from_euler("xyz", angles)


def random_pairs(kind_a: int, kind_b: int, rng: np.random.Generator):
    """Two sets of shapes with poses, their hulls, the size of each pair, and its gap [m] in some direction.

    That direction is chosen first: along it a third of the pairs are apart, a third touch in a point, and a
    third overlap by up to 20 % of the size.
    """
    overall = 10.0 ** rng.uniform(-3.0, 3.0, POSES)
    a, hulls_a = random_shapes(kind_a, overall, rng)
    b, hulls_b = random_shapes(kind_b, overall * 3.0 ** rng.uniform(-1.0, 1.0, POSES), rng)
    size = np.minimum(a.extent(), b.extent())
    rotations = random_rotations(POSES, rng), random_rotations(POSES, rng)
    n = unit(rng.normal(size=(POSES, 3)))
    axis = np.eye(3)[rng.integers(0, 3, POSES)]
    n[::3] = rotations[0].apply(axis)[::3]
    frame = Rotation.random(POSES, random_state=rng)
    n = frame.apply(n)
    rotations = [frame * r for r in rotations]
    gap = np.choose(np.arange(POSES) % 3, [rng.uniform(0.0, 1.0, POSES), 0.0, -rng.uniform(0.0, 0.2, POSES)])
    lateral = np.cross(n, rng.normal(size=(POSES, 3))) * rng.choice([0.0, 0.3], POSES)[:, None]
    lateral[1::3] = 0.0
    a.position, b.position = np.zeros((POSES, 3)), np.zeros((POSES, 3))
    a.rotation, b.rotation = (r.as_matrix() for r in rotations)
    offset = a.support(-n[:, None])[:, 0] - b.support(n[:, None])[:, 0]
    b.position = offset - (gap * size)[:, None] * n + size[:, None] * lateral
    moved = 10.0 * overall[:, None] * rng.uniform(-1.0, 1.0, (POSES, 3))
    poses = []
    for shapes, r in zip((a, b), rotations):
        pose = np.hstack([shapes.position + moved, r.as_quat()]).astype(np.float32)
        shapes.position, shapes.rotation = pose[:, :3].astype(np.float64), matrices(pose[:, 3:].astype(float))
        poses.append(pose)
    return a, b, *poses, hulls_a + hulls_b, size, gap * size


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS, ids=[f"{NAMES[a]}-{NAMES[b]}" for a, b in PAIRS])
def test_pairs_in_random_poses(kind_a: int, kind_b: int, device: str):
    rng = np.random.default_rng(100 * kind_a + kind_b)
    a, b, poses_a, poses_b, hulls, size, gap = random_pairs(kind_a, kind_b, rng)
    found = closest(a, b, poses_a, poses_b, device, hulls)
    assert np.all(found["found"] == 1)
    distance = found["distance"].astype(np.float64)
    normal = found["normal"].astype(np.float64)
    p, q = found["point_a"].astype(np.float64), found["point_b"].astype(np.float64)
    assert np.allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-5)

    # points on both surfaces, one opposite to the other
    smooth = {CAPSULE, CYLINDER, CONE, ELLIPSOID} & {kind_a, kind_b}
    surface = 1e-3 if smooth else 3e-4
    assert np.quantile(np.abs(a.height_over(p)) / size, 0.999) < surface
    assert np.quantile(np.abs(b.height_over(q)) / size, 0.999) < surface
    assert np.max(np.linalg.norm(p - q - distance[:, None] * normal, axis=1) / size) < 3e-5
    # the normal is right if the planes across it have this gap ...
    certificate = np.abs(gaps(a, b, unit(normal)[:, None])[:, 0] - distance) / size
    assert np.max(certificate) < 1e-5
    # ... and no others have a larger one: points apart prove it, else a search
    apart = (distance > 0.0) & (np.maximum(a.height_over(p), b.height_over(q)) < 1e-5 * size)
    best = np.full(POSES, -np.inf)
    best[~apart] = largest_gap(a.select(~apart), b.select(~apart))
    assert np.max((best - distance) / size) < 1e-4
    # as it was made, a pair is as far apart as its planes, or farther, and touches if they touch
    assert np.min((distance - gap)[gap > 0.0]) > -1e-4 * np.max(size)
    touching = gap == 0.0
    assert np.max(np.abs(distance[touching]) / size[touching]) < 1e-4


POLYHEDRA = [pair for pair in PAIRS if not {*pair} - {BOX, HULL, TRIANGLE}]


@pytest.mark.parametrize(
    ("kind_a", "kind_b"), POLYHEDRA, ids=[f"{NAMES[a]}-{NAMES[b]}" for a, b in POLYHEDRA]
)
def test_depth_of_polyhedra(kind_a: int, kind_b: int, device: str):
    rng = np.random.default_rng(7 + 100 * kind_a + kind_b)
    a, b, poses_a, poses_b, hulls, size, _ = random_pairs(kind_a, kind_b, rng)
    distance = closest(a, b, poses_a, poses_b, device, hulls)["distance"].astype(np.float64)
    rows = np.flatnonzero(distance < -1e-3 * size)[:80]
    assert len(rows) > 20
    expected = polyhedron_depth(a.select(rows), b.select(rows))
    assert np.max(np.abs(distance[rows] - expected) / size[rows]) < 1e-5

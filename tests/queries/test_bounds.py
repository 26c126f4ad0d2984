"""Boxes about shapes hold the surface, touch it, and follow the pose."""

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

from newtonsim.kernels.collision.pairs import bounds
from newtonsim.kernels.views.shapes import HullView, ShapeView
from newtonsim.scene.enums import GeoType

COUNT = 200


def sphere_directions(count: int, rng) -> np.ndarray:
    d = rng.normal(size=(count, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def surface(kind: GeoType, size: np.ndarray, rng) -> np.ndarray:
    """Points of a primitive (n, 3), its extreme features among them."""
    angle = np.linspace(0.0, 2.0 * np.pi, 4001)
    ring = np.stack([np.cos(angle), np.zeros_like(angle), np.sin(angle)], axis=1)
    up = np.array([0.0, size[1], 0.0])
    ball = sphere_directions(40000, rng)
    if kind == GeoType.SPHERE:
        return size[0] * ball
    if kind == GeoType.ELLIPSOID:
        return size * ball
    if kind == GeoType.BOX:
        return size * np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    if kind == GeoType.CAPSULE:
        return np.concatenate([size[0] * ball + up, size[0] * ball - up])
    if kind == GeoType.CYLINDER:
        return np.concatenate([size[0] * ring + up, size[0] * ring - up])
    return np.concatenate([size[0] * ring - up, up[None]])


def run_bounds(device, kind, sizes, poses, hulls=None, hull=None, local=None):
    """Boxes (n, 2, 3) of shapes of one kind at world poses."""
    n = len(poses)
    shape = ShapeView()
    shape.body = wp.full(n, -1, dtype=int, device=device)
    shape.transform = wp.array(poses, dtype=wp.transform, device=device)
    shape.kind = wp.full(n, int(kind), dtype=int, device=device)
    shape.geo.scale = wp.array(sizes, dtype=wp.vec3, device=device)
    if local is not None:
        shape.local_lower, shape.local_upper = (wp.array(v, dtype=wp.vec3, device=device) for v in local)
    if hull is not None:
        shape.hull = wp.full(n, hull, dtype=int, device=device)
    hulls = HullView() if hulls is None else hulls
    lower, upper = (wp.zeros(n, dtype=wp.vec3, device=device) for _ in range(2))
    shape_X = wp.zeros(n, dtype=wp.transform, device=device)
    body_q = wp.zeros(1, dtype=wp.transform, device=device)
    wp.launch(bounds.bound_shapes, n, [0, shape, hulls, body_q, shape_X, lower, upper], device=device)
    return np.stack([lower.numpy(), upper.numpy()], axis=1)


def random_poses(count: int, rng, reach: float = 2.0) -> np.ndarray:
    turn = Rotation.random(count, random_state=rng).as_quat()
    return np.concatenate([rng.uniform(-reach, reach, (count, 3)), turn], axis=1)


PRIMITIVES = [
    GeoType.SPHERE,
    GeoType.ELLIPSOID,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", PRIMITIVES, ids=lambda kind: kind.name.lower())
def test_boxes_are_tight(device, kind, scale):
    rng = np.random.default_rng(int(kind))
    sizes = rng.uniform(0.1, 1.0, (20, 3)) * scale
    poses = random_poses(20, rng, 2.0 * scale)
    poses[0, 3:] = (0.0, 0.0, 0.0, 1.0)
    poses[1, 3:] = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    boxes = run_bounds(device, kind, sizes, poses)
    for size, pose, box in zip(sizes, poses, boxes):
        points = Rotation.from_quat(pose[3:]).apply(surface(kind, size, rng)) + pose[:3]
        tight = np.stack([points.min(axis=0), points.max(axis=0)])
        sampled = 2e-3 if kind in (GeoType.ELLIPSOID, GeoType.SPHERE, GeoType.CAPSULE) else 2e-6
        assert np.all((tight - box) * [[1.0], [-1.0]] >= -2e-6 * scale)
        assert np.abs(tight - box).max() <= sampled * scale


def test_local_boxes_turn_with_the_shape(device):
    rng = np.random.default_rng(3)
    poses = random_poses(COUNT, rng)
    lower = rng.uniform(-1.0, 0.0, (COUNT, 3))
    upper = rng.uniform(0.0, 1.0, (COUNT, 3))
    boxes = run_bounds(device, GeoType.MESH, np.ones((COUNT, 3)), poses, local=(lower, upper))
    corners = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    points = lower[:, None] + corners * (upper - lower)[:, None]
    points = np.stack([Rotation.from_quat(x[3:]).apply(p) + x[:3] for x, p in zip(poses, points)])
    np.testing.assert_allclose(boxes, np.stack([points.min(axis=1), points.max(axis=1)], axis=1), atol=2e-6)


def test_planes(device):
    turn = Rotation.from_euler("z", [[0.0], [90.0], [180.0], [30.0]], degrees=True).as_quat()
    poses = np.concatenate([np.tile([1.0, 2.0, 3.0], (4, 1)), turn], axis=1)
    endless = run_bounds(device, GeoType.PLANE, np.zeros((4, 3)), poses)
    inf = np.inf
    # the normal is y, -x, -y, and slanted: the half-space below it
    expected = [
        [[-inf, -inf, -inf], [inf, 2.0, inf]],
        [[1.0, -inf, -inf], [inf, inf, inf]],
        [[-inf, 2.0, -inf], [inf, inf, inf]],
        [[-inf, -inf, -inf], [inf, inf, inf]],
    ]
    np.testing.assert_allclose(endless, expected, atol=1e-5)
    sheet = run_bounds(device, GeoType.PLANE, np.tile([2.0, 6.0, 0.0], (4, 1)), poses)
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    half = np.array([[1, 0, 3], [0, 1, 3], [1, 0, 3], [c, s, 3]])
    np.testing.assert_allclose(sheet[:, 1] - [1.0, 2.0, 3.0], half, atol=2e-6)
    np.testing.assert_allclose(sheet[:, 0] - [1.0, 2.0, 3.0], -half, atol=2e-6)

"""Closest points where geometry degenerates: common centres, no extent, parallel faces, unequal sizes."""

import itertools

import numpy as np
import pytest
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
    unit,
)
from collision.test_convex_distance import closest, random_pairs
from scipy.spatial.transform import Rotation

SOLIDS = [SPHERE, BOX, CAPSULE, CYLINDER, CONE, ELLIPSOID]
FLAT_SIZES = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
PAIRS = list(itertools.combinations_with_replacement(SOLIDS, 2))
IDENTITY = [0.0, 0.0, 0.0, 1.0]


def placed(kind: int, size, position, quaternion=IDENTITY, corners=None) -> tuple[Shapes, np.ndarray]:
    """Shapes (n,) at poses, rounded to float32, and the poses (n, 7)."""
    size, position, quaternion = (np.atleast_2d(x).astype(np.float32) for x in (size, position, quaternion))
    count = max(len(size), len(position), len(quaternion))
    size, position = np.broadcast_to(size, (count, 3)), np.broadcast_to(position, (count, 3))
    quaternion = np.broadcast_to(quaternion, (count, 4))
    rotation = Rotation.from_quat(quaternion.astype(float)).as_matrix()
    shapes = Shapes(kind, size.astype(float), corners, None, rotation, position.astype(float))
    return shapes, np.hstack([position, quaternion])


def check(found: np.ndarray, a: Shapes, b: Shapes, tolerance: float, common_centre: float = 0.0) -> None:
    """All is finite, normals are unit, and the gap across each is the distance, which no other exceeds.

    Where centres coincide, another gap may be larger by `common_centre`: many directions are nearly as good.
    """
    for name in ("distance", "normal", "point_a", "point_b"):
        assert np.all(np.isfinite(found[name])), name
    distance, normal = found["distance"].astype(float), found["normal"].astype(float)
    assert np.allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-5)
    assert np.max(np.abs(gaps(a, b, unit(normal)[:, None])[:, 0] - distance)) < tolerance
    deep = np.all(a.position == b.position, axis=1)
    assert np.max(largest_gap(a, b) - distance - np.where(deep, common_centre, 0.0)) < tolerance
    step = found["point_a"] - found["point_b"] - found["distance"][:, None] * found["normal"]
    assert np.max(np.abs(step)) < tolerance


@pytest.mark.parametrize(
    ("kind", "size", "depth"),
    [
        (SPHERE, (0.7, 0, 0), 1.4),
        (BOX, (1.0, 0.6, 0.8), 1.2),
        (CAPSULE, (0.3, 1.0, 0), 0.6),
        (CYLINDER, (0.5, 0.4, 0), 0.8),
        (CYLINDER, (0.3, 1.0, 0), 0.6),
        (ELLIPSOID, (1.0, 0.5, 0.8), 1.0),
    ],
)
def test_two_of_a_kind_in_one_place(kind: int, size, depth: float, device: str):
    a, pose = placed(kind, size, [3.0, -2.0, 1.0], unit(np.array([0.3, -0.2, 0.4, 0.8])))
    found = closest(a, a, pose, pose, device)
    assert found["distance"][0] == pytest.approx(-depth, abs=1e-4)
    check(found, a, a, 1e-4)


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
def test_common_centres(kind_a: int, kind_b: int, device: str):
    rng = np.random.default_rng(10 * kind_a + kind_b)
    turns = Rotation.random(60, random_state=rng).as_quat()
    turns[:20] = IDENTITY
    a, pose_a = placed(kind_a, rng.uniform(0.2, 1.0, (60, 3)), [0.0, 0.0, 0.0])
    b, pose_b = placed(kind_b, rng.uniform(0.2, 1.0, (60, 3)), [0.0, 0.0, 0.0], turns)
    check(closest(a, b, pose_a, pose_b, device), a, b, 1e-4, common_centre=0.01)


@pytest.mark.parametrize("kind", [BOX, CYLINDER])
@pytest.mark.parametrize("gap", [0.2, 1e-3, 1e-6, 0.0, -1e-6, -1e-3, -0.1])
def test_parallel_faces(kind: int, gap: float, device: str):
    rng = np.random.default_rng(3)
    turn = Rotation.from_euler("y", rng.uniform(-3.0, 3.0, (50, 1))).as_quat()
    turn[:10] = IDENTITY
    aside = rng.uniform(-0.3, 0.3, (50, 3)) * [1.0, 0.0, 1.0]
    aside[:5] = 0.0
    lower, pose_lower = placed(BOX, [1.0, 0.5, 1.0], [0.0, 0.0, 0.0])
    lower, pose_lower = lower.select(np.zeros(50, int)), np.repeat(pose_lower, 50, axis=0)
    upper, pose_upper = placed(kind, [0.25, 0.25, 0.25], aside + np.array([0.0, 0.75 + gap, 0.0]), turn)
    found = closest(upper, lower, pose_upper, pose_lower, device)
    assert np.allclose(found["distance"], gap, atol=2e-6)
    assert np.allclose(found["normal"], [0.0, 1.0, 0.0], atol=1e-5)
    assert np.allclose(found["point_a"][:, 1], 0.5 + gap, atol=5e-6)
    assert np.allclose(found["point_b"][:, 1], 0.5, atol=5e-6)
    assert np.all(np.abs(found["point_a"] - pose_upper[:, :3])[:, [0, 2]] < 0.25 * 2**0.5 + 1e-5)


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
def test_shapes_without_extent(kind_a: int, kind_b: int, device: str):
    rng = np.random.default_rng(20 * kind_a + kind_b)
    sizes = np.array(list(itertools.product(FLAT_SIZES, [*FLAT_SIZES, (1, 1, 1)])), dtype=float)
    sizes = np.tile(sizes, (3, 1, 1)) * rng.uniform(0.3, 1.0, (3 * len(sizes), 2, 3))
    count = len(sizes)
    a, pose_a = placed(kind_a, sizes[:, 0], np.zeros(3), Rotation.random(count, random_state=rng).as_quat())
    where = rng.uniform(-0.8, 0.8, (count, 3)) * rng.integers(0, 2, (count, 1))
    b, pose_b = placed(kind_b, sizes[:, 1], where, Rotation.random(count, random_state=rng).as_quat())
    check(closest(a, b, pose_a, pose_b, device), a, b, 2e-4, common_centre=0.01)
    b, pose_b = placed(kind_b, sizes[:, 1], where, pose_a[:, 3:])
    check(closest(a, b, pose_a, pose_b, device), a, b, 2e-4, common_centre=0.01)


@pytest.mark.parametrize("kind", [*SOLIDS, TRIANGLE])
def test_triangles_without_area(kind: int, device: str):
    rng = np.random.default_rng(kind)
    corners = rng.uniform(-1.0, 1.0, (90, 3, 3)).astype(np.float32).astype(float)
    corners[:30, 2] = 0.5 * (corners[:30, 0] + corners[:30, 1])
    corners[30:60, 2] = corners[30:60, 1]
    corners[60:] = corners[60:, :1]
    b, pose_b = placed(TRIANGLE, np.zeros((90, 3)), np.zeros(3), corners=corners)
    turns = Rotation.random(90, random_state=rng).as_quat()
    other = rng.uniform(-1.0, 1.0, (90, 3, 3)).astype(np.float32).astype(float) if kind == TRIANGLE else None
    size = np.zeros((90, 3)) if kind == TRIANGLE else rng.uniform(0.3, 1.0, (90, 3))
    a, pose_a = placed(kind, size, rng.uniform(-1.0, 1.0, (90, 3)), turns, other)
    check(closest(a, b, pose_a, pose_b, device), a, b, 2e-4)


def test_small_cube_on_a_large_box(device: str):
    rng = np.random.default_rng(8)
    count = 300
    tilt = Rotation.random(count, random_state=rng)
    cube = np.array([[x, y, z] for x in (-0.01, 0.01) for y in (-0.01, 0.01) for z in (-0.01, 0.01)])
    lowest = np.array([np.min(r.apply(cube)[:, 1]) for r in tilt])
    gap = rng.uniform(-2e-3, 5e-3, count)
    position = rng.uniform(-90.0, 90.0, (count, 3))
    position[:, 1] = 1.0 + gap - lowest
    large, pose_large = placed(BOX, [100.0, 1.0, 100.0], np.zeros((count, 3)))
    small, pose_small = placed(BOX, [0.01, 0.01, 0.01], position, tilt.as_quat())
    for turned in (False, True):
        if turned:
            turn = Rotation.random(count, random_state=rng)
            large, pose_large = placed(BOX, [100.0, 1.0, 100.0], np.zeros((count, 3)), turn.as_quat())
            small, pose_small = placed(BOX, [0.01] * 3, turn.apply(position), (turn * tilt).as_quat())
        found = closest(small, large, pose_small, pose_large, device)
        up = large.rotation[:, :, 1]
        truth = gaps(small, large, up[:, None])[:, 0]
        # turned, a position 90 m away is rounded by 4 um
        assert np.max(np.abs(found["distance"] - truth)) < (3e-5 if turned else 1e-6)
        assert np.max(np.linalg.norm(found["normal"] - up, axis=1)) < 1e-3


@pytest.mark.parametrize(("kind_a", "kind_b"), [(BOX, CYLINDER), (CONE, HULL), (SPHERE, ELLIPSOID)])
def test_order_and_reach(kind_a: int, kind_b: int, device: str):
    rng = np.random.default_rng(kind_a)
    a, b, poses_a, poses_b, hulls, size, _ = random_pairs(kind_a, kind_b, rng)
    found = closest(a, b, poses_a, poses_b, device, hulls)
    other = closest(b, a, poses_b, poses_a, device, hulls)
    assert np.max(np.abs(found["distance"] - other["distance"]) / size) < 1e-4
    apart = found["distance"] > 0.05 * size
    assert np.max(np.linalg.norm((found["normal"] + other["normal"])[apart], axis=1)) < 0.02

    distance = found["distance"]
    near = closest(a, b, poses_a, poses_b, device, hulls, reach=distance + 1e-4 * size)
    assert np.all(near["found"] == 1)
    assert np.array_equal(near["distance"], distance)
    far = closest(a, b, poses_a, poses_b, device, hulls, reach=distance - 1e-4 * size)
    assert np.all(far["found"][apart] == 0)


def test_names_cover_all_kinds():
    assert set(NAMES) == {*SOLIDS, HULL, TRIANGLE}

"""Two boxes: which points, how deep, and that they are those of the same shape given as a hull."""

import numpy as np
import pytest
from collision.harness import (
    IDENTITY,
    box,
    box_hull,
    collide_pairs,
    pose,
    random_poses,
    rotation,
    to_local,
)
from collision.solids import coal_distances, gap_along, off_surface

from newtonsim.kernels.collision.families.box import collide_box
from newtonsim.kernels.collision.families.convex import collide_convex
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_BOX, FAMILY_CONVEX

CUBE = (0.5, 0.5, 0.5)
KINDS = {
    "box": (collide_box, FAMILY_BOX, box),
    "hull": (collide_convex, FAMILY_CONVEX, box_hull),
}


@pytest.fixture(params=sorted(KINDS))
def collide(request, device):
    """Function that collides boxes of two sizes, as boxes or as hulls."""
    kernel, family, solid = KINDS[request.param]
    return lambda a, b, X_a, X_b, reach: collide_pairs(
        kernel, family, solid(*a), solid(*b), X_a, X_b, reach, device
    )


def area_of(points: np.ndarray) -> float:
    """Area of the convex hull of points (n, 2)."""
    from scipy.spatial import ConvexHull

    return ConvexHull(points).volume


@pytest.mark.parametrize("gap", [-0.01, 0.0, 0.004])
@pytest.mark.parametrize("offset", [(0.0, 0.0), (0.3, 0.0), (0.3, -0.7), (1.2, 1.3)])
def test_face_on_face_touches_at_corners_of_overlap(collide, gap, offset):
    a, b = (0.5, 0.4, 0.3), (1.0, 0.2, 1.1)
    (m,) = collide(a, b, pose((offset[0], 0.6 + gap, offset[1])), IDENTITY, 0.005)
    x = sorted({max(-b[0], offset[0] - a[0]), min(b[0], offset[0] + a[0])})
    z = sorted({max(-b[2], offset[1] - a[2]), min(b[2], offset[1] + a[2])})
    expected = [(i, 0.2 + gap, k) for i in x for k in z]
    np.testing.assert_allclose(m.sorted_by(0, 2), expected, atol=2e-6)
    np.testing.assert_allclose(m.distance, gap, atol=1e-6)
    np.testing.assert_allclose(m.normal, np.tile([0.0, 1.0, 0.0], (4, 1)), atol=1e-6)
    np.testing.assert_allclose(m.other[:, 1], 0.2, atol=1e-6)


def test_crossed_planks_touch_where_they_cross(collide):
    for gap in (-0.01, 0.01):
        (m,) = collide((1.0, 0.1, 0.1), (0.2, 0.1, 1.5), pose((0.3, 0.2 + gap, 0.4)), IDENTITY, 0.02)
        expected = [(x, 0.1 + gap, z) for x in (-0.2, 0.2) for z in (0.3, 0.5)]
        np.testing.assert_allclose(m.sorted_by(0, 2), expected, atol=1e-6)
        np.testing.assert_allclose(m.distance, gap, atol=1e-6)


def test_octagon_is_reduced_to_four_points_that_carry(collide):
    (m,) = collide(CUBE, CUBE, pose((0.0, 0.999, 0.0), (0.0, 1.0, 0.0), np.pi / 4), IDENTITY, 0.01)
    assert len(m) == 4
    # the overlap of two unit squares turned by 45 degrees
    octagon = 2.0 * np.sqrt(2.0) - 2.0
    assert area_of(m.point[:, [0, 2]]) >= 0.6 * octagon
    u = m.point[:, [0, 2]]
    assert area_of(np.concatenate([u, [[0.0, 0.0]]])) == pytest.approx(area_of(u), rel=1e-6)
    np.testing.assert_allclose(m.distance, -0.001, atol=1e-6)


def test_every_turn_leaves_points_that_carry(collide):
    """Whatever the turn, most of the overlap is between the points."""
    angles = np.linspace(0.0, np.pi / 2, 91)
    poses = np.array([pose((0.1, 0.999, -0.05), (0.0, 1.0, 0.0), angle) for angle in angles])
    for m, X in zip(collide(CUBE, CUBE, poses, IDENTITY, 0.01), poses):
        assert len(m) == 4
        assert area_of(m.point[:, [0, 2]]) >= 0.6 * overlap_area(CUBE, X)


def overlap_area(size, X) -> float:
    """Area of the overlap of two equal boxes seen from above, by half planes."""
    from scipy.spatial import HalfspaceIntersection

    turn = rotation(X)[np.ix_([0, 2], [0, 2])]
    centre = X[[0, 2]]
    sides = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    of_b = np.column_stack([sides, -np.full(4, size[0])])
    of_a = np.column_stack([sides @ turn.T, -size[0] - (sides @ turn.T) @ centre])
    return area_of(HalfspaceIntersection(np.concatenate([of_a, of_b]), 0.5 * centre).intersections)


@pytest.mark.parametrize("gap", [-0.02, 0.003])
def test_crossing_edges_touch_in_one_point(collide, gap):
    height = np.sqrt(0.5)
    X_a = pose((0.1, 2.0 * height + gap, 0.2), (1.0, 0.0, 0.0), np.pi / 4)
    X_b = pose((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), np.pi / 4)
    (m,) = collide(CUBE, CUBE, X_a, X_b, 0.01 if gap > 0 else 0.0)
    k = np.argmin(m.distance)
    # the edge of A runs along x over z = 0.2, that of B along z over x = 0
    np.testing.assert_allclose(m.point[k], [0.0, height + gap, 0.2], atol=1e-6)
    np.testing.assert_allclose(m.normal[k], [0.0, 1.0, 0.0], atol=1e-6)
    assert m.distance[k] == pytest.approx(gap, abs=1e-6)
    # others lie on the faces beside the edges, higher by their slopes
    assert np.all(np.delete(m.distance, k) > gap)
    assert len(m) == 1 or gap < 0


@pytest.mark.parametrize(
    ("position", "turn", "distance"),
    [
        ((1.2, 0.0, 0.0), 0.0, 0.2),  # face and face
        ((1.2, 1.1, 0.0), 0.0, np.hypot(0.2, 0.1)),  # parallel edges
        ((1.12, 1.12, 1.12), 0.0, 0.12 * np.sqrt(3.0)),  # corner and corner
        ((0.5 + np.sqrt(0.5) + 0.2, 0.0, 0.0), np.pi / 4, 0.2),  # edge and face
        ((0.62 + np.sqrt(0.5), 1.1, 0.0), np.pi / 4, np.hypot(0.12, 0.1)),  # corner and edge
    ],
)
def test_separated_boxes_are_found_at_their_distance(collide, position, turn, distance):
    X = pose(position, (0.0, 1.0, 0.0), turn)
    (m,) = collide(CUBE, CUBE, X, IDENTITY, 0.3)
    assert np.min(m.distance) == pytest.approx(distance, abs=2e-6)
    k = np.argmin(m.distance)
    nearest = np.clip(m.point[k], -0.5, 0.5)
    np.testing.assert_allclose(m.normal[k], (m.point[k] - nearest) / distance, atol=1e-5)
    (none,) = collide(CUBE, CUBE, X, IDENTITY, 0.99 * distance)
    assert len(none) == 0


@pytest.mark.parametrize("seed", range(2))
def test_random_boxes_against_coal(collide, seed):
    rng = np.random.default_rng(seed)
    a, b = (0.2, 0.3, 0.1), (0.15, 0.25, 0.4)
    reach, extent = 0.2, 0.4
    X_a, X_b = random_poses(rng, 500, 0.6), random_poses(rng, 500, 0.1)
    A, B = box(*a), box(*b)
    truth = coal_distances(A, X_a, B, X_b)
    assert np.sum(truth < 0.0) > 50
    assert np.sum(truth > 0.02) > 50
    for m, d, X, Y in zip(collide(a, b, X_a, X_b, reach), truth, X_a, X_b):
        if len(m) == 0:
            assert d > reach - 1e-5
            continue
        assert np.min(m.distance) == pytest.approx(d, abs=1e-4 * extent)
        assert gap_along(A, X, B, Y, m.normal[0]) == pytest.approx(d, abs=1e-4 * extent)
        assert np.max(m.distance) <= reach
        assert len(set(m.feature)) == len(m) <= 4
        np.testing.assert_allclose(off_surface(A, to_local(X, m.point)), 0.0, atol=2e-4 * extent)
        np.testing.assert_allclose(off_surface(B, to_local(Y, m.other)), 0.0, atol=2e-4 * extent)


def test_box_and_hull_write_the_same_manifold(device):
    rng = np.random.default_rng(5)
    a, b = (0.2, 0.3, 0.1), (0.5, 0.1, 0.4)
    tilts = rng.normal(size=(200, 3))
    poses = [pose((*rng.uniform(-0.3, 0.3, 1), 0.4, 0.1), t, 0.02 * np.linalg.norm(t)) for t in tilts]
    found = [
        collide_pairs(kernel, family, solid(*a), solid(*b), np.array(poses), IDENTITY, 0.02, device)
        for kernel, family, solid in KINDS.values()
    ]
    for m, other in zip(*found):
        assert len(m) == len(other)
        np.testing.assert_allclose(m.sorted_by(0, 2), other.sorted_by(0, 2), atol=2e-5)
        np.testing.assert_allclose(np.sort(m.distance), np.sort(other.distance), atol=2e-5)


def test_order_of_shapes_only_turns_the_normal(collide):
    rng = np.random.default_rng(6)
    a, b = (0.2, 0.3, 0.1), (0.5, 0.1, 0.4)
    X_a, X_b = random_poses(rng, 100, 0.4), random_poses(rng, 100, 0.1)
    pairs = zip(collide(a, b, X_a, X_b, 0.05), collide(b, a, X_b, X_a, 0.05))
    for forward, backward in pairs:
        assert (len(forward) == 0) == (len(backward) == 0)
        if len(forward):
            assert np.min(forward.distance) == pytest.approx(np.min(backward.distance), abs=2e-5)
            np.testing.assert_allclose(forward.normal[0], -backward.normal[0], atol=1e-4)


def test_small_cube_on_vast_ground(collide):
    """Depth is that of the cube's corners, although the ground's corners are far off."""
    rng = np.random.default_rng(7)
    height = 0.05 + 0.001
    for _ in range(20):
        X = pose((37.0 * rng.uniform(), height, 21.0), rng.normal(size=3), 0.05)
        (m,) = collide((0.05, 0.05, 0.05), (100.0, 1.0, 100.0), X, pose((0.0, -1.0, 0.0)), 0.02)
        lowest = height - np.abs(rotation(X)[1]) @ [0.05, 0.05, 0.05]
        assert np.min(m.distance) == pytest.approx(lowest, abs=5e-6)
        np.testing.assert_allclose(m.normal[0], [0.0, 1.0, 0.0], atol=1e-4)


@pytest.mark.parametrize("size", [(0.0, 0.0, 0.0), (0.5, 0.0, 0.5), (0.5, 0.0, 0.0)])
def test_boxes_without_volume(device, size):
    for X in (IDENTITY, pose((0.1, 0.49, 0.0)), pose((0.0, 0.52, 0.0), (1.0, 1.0, 0.0), 0.3)):
        for a, b in ((size, CUBE), (CUBE, size), (size, size)):
            (m,) = collide_pairs(collide_box, FAMILY_BOX, box(*a), box(*b), X, IDENTITY, 0.1, device)
            assert np.all(np.isfinite(m.point))
            assert np.all(np.isfinite(m.distance))
            np.testing.assert_allclose(np.linalg.norm(m.normal, axis=1), 1.0, atol=1e-5)
    sheet = pose((0.1, 0.501, 0.0))
    (m,) = collide_pairs(collide_box, FAMILY_BOX, box(*size), box(*CUBE), sheet, IDENTITY, 0.1, device)
    assert np.min(m.distance) == pytest.approx(0.001, abs=1e-6)


def test_edges_whose_angle_is_lost_in_rounding_touch_at_finite_points(collide):
    # two cubes met with in a heap: their edges are 2e-3 rad apart, a cosine of one in single precision
    X_a = np.array([1.96942377, 1.0887779, 1.29965854, 1.0917e-4, -2.666060e-4, 1.32842246e-3, 0.99999917])
    X_b = np.array([1.76940238, 1.10208392, 1.49965799, 4.980925e-4, 2.159852e-4, 9.8085485e-4, 0.9999994])
    size = (0.1, 0.1, 0.1)
    for manifold in (*collide(size, size, X_a, X_b, 0.01), *collide(size, size, X_b, X_a, 0.01)):
        assert len(manifold) > 0
        # the middles of both surfaces lie on the edges that meet
        assert np.abs(manifold.point - 0.5 * (X_a + X_b)[:3]).max() < 0.11
        assert np.isfinite(manifold.other).all()

"""Spheres and capsules with each other and with boxes."""

import numpy as np
import pytest
from collision.harness import (
    IDENTITY,
    Solid,
    box,
    capsule,
    collide_pairs,
    pose,
    random_poses,
    rotation,
    sphere,
    to_local,
)
from collision.solids import coal_distances, gap_along, off_surface

from newtonsim.kernels.collision.families.round import collide_round
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_ROUND
from newtonsim.scene.enums import GeoType

CUBE = box(0.5, 0.5, 0.5)
LYING = np.pi / 2


@pytest.fixture
def collide(device):
    """Function that collides two solids."""
    return lambda a, b, X_a, X_b, reach: collide_pairs(
        collide_round, FAMILY_ROUND, a, b, X_a, X_b, reach, device
    )


@pytest.mark.parametrize("gap", [-0.05, 0.0, 0.2])
def test_spheres(collide, gap):
    direction = np.array([2.0, -1.0, 2.0]) / 3.0
    X_a = pose(np.array([1.0, 2.0, 3.0]) + (0.7 + gap) * direction)
    (m,) = collide(sphere(0.3), sphere(0.4), X_a, pose((1.0, 2.0, 3.0)), 0.3)
    assert len(m) == 1
    np.testing.assert_allclose(m.normal[0], direction, atol=1e-6)
    np.testing.assert_allclose(m.point[0], X_a[:3] - 0.3 * direction, atol=1e-6)
    assert m.distance[0] == pytest.approx(gap, abs=1e-6)
    assert len(collide(sphere(0.3), sphere(0.4), X_a, pose((1.0, 2.0, 3.0)), gap - 0.01)[0]) == 0


@pytest.mark.parametrize(
    ("centre", "normal", "distance"),
    [
        ((0.1, 0.65, -0.2), (0.0, 1.0, 0.0), 0.05),  # over a face
        ((0.6, 0.6, 0.1), (np.sqrt(0.5), np.sqrt(0.5), 0.0), np.hypot(0.1, 0.1) - 0.1),  # at an edge
        (
            (-0.6, 0.6, 0.6),
            np.array([-1.0, 1.0, 1.0]) / np.sqrt(3.0),
            0.1 * np.sqrt(3.0) - 0.1,
        ),  # at a corner
        ((0.1, 0.2, -0.45), (0.0, 0.0, -1.0), -0.05 - 0.1),  # inside: out through the nearest face
        ((0.3, 0.5, 0.0), (0.0, 1.0, 0.0), -0.1),  # on the surface
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_sphere_and_box(collide, centre, normal, distance, swapped):
    shift, turn = np.array([3.0, -1.0, 2.0]), pose(axis=(1.0, 2.0, 3.0), angle=0.7)
    X_box, R = np.concatenate([shift, turn[3:]]), rotation(turn)
    X_ball = pose(shift + R @ centre)
    n, ball = R @ normal, sphere(0.1)
    if swapped:
        (m,) = collide(CUBE, ball, X_box, X_ball, 0.1)
        np.testing.assert_allclose(m.other[0], X_ball[:3] - 0.1 * n, atol=2e-6)
        np.testing.assert_allclose(m.normal[0], -n, atol=1e-5)
    else:
        (m,) = collide(ball, CUBE, X_ball, X_box, 0.1)
        np.testing.assert_allclose(m.point[0], X_ball[:3] - 0.1 * n, atol=2e-6)
        np.testing.assert_allclose(m.normal[0], n, atol=1e-5)
    assert len(m) == 1
    assert m.distance[0] == pytest.approx(distance, abs=2e-6)


def test_parallel_capsules_touch_along_their_overlap(collide):
    a, b = capsule(0.1, 0.3), capsule(0.2, 0.5)
    for swapped in (False, True):
        X_a = pose((0.31, 0.4, 0.0), (0.0, 0.0, 1.0), np.pi if swapped else 0.0)
        (m,) = collide(a, b, X_a, IDENTITY, 0.02)
        np.testing.assert_allclose(m.sorted_by(1), [(0.21, 0.1, 0.0), (0.21, 0.5, 0.0)], atol=1e-6)
        np.testing.assert_allclose(m.distance, 0.01, atol=1e-6)
        np.testing.assert_allclose(m.normal, [[1.0, 0.0, 0.0]] * 2, atol=1e-6)


def test_tilted_capsule_touches_at_its_lower_end_first(collide):
    """One capsule over another, tilted towards it: both ends are found, each at its own distance."""
    tilt = 0.05
    X_a = pose((0.0, 0.22, 0.0), (1.0, 0.0, 0.0), LYING + tilt)
    X_b = pose(axis=(1.0, 0.0, 0.0), angle=LYING)
    (m,) = collide(capsule(0.1, 0.3), capsule(0.1, 0.5), X_a, X_b, 0.1)
    expected = 0.02 + 0.3 * np.sin(tilt) * np.array([-1.0, 1.0])
    np.testing.assert_allclose(np.sort(m.distance), expected, atol=1e-6)
    (m,) = collide(capsule(0.1, 0.3), capsule(0.1, 0.5), X_a, X_b, 0.01)
    np.testing.assert_allclose(m.distance, expected[:1], atol=1e-6)
    (m,) = collide(capsule(0.1, 0.5), capsule(0.1, 0.3), X_b, X_a, 0.01)
    np.testing.assert_allclose(m.distance, expected[:1], atol=1e-6)
    np.testing.assert_allclose(m.normal, [[0.0, -1.0, 0.0]], atol=1e-5)


def test_crossed_capsules_touch_in_one_point(collide):
    X_a = pose((0.05, 0.19, 0.1), (0.0, 0.0, 1.0), LYING)
    (m,) = collide(capsule(0.1, 0.3), capsule(0.1, 0.3), X_a, pose(axis=(1.0, 0.0, 0.0), angle=LYING), 0.02)
    np.testing.assert_allclose(m.point, [(0.0, 0.09, 0.1)], atol=1e-6)
    np.testing.assert_allclose(m.distance, -0.01, atol=1e-6)


@pytest.mark.parametrize(
    ("centre", "ends"),
    [
        ((0.1, 0.0), (-0.2, 0.4)),  # all of it on the face
        ((0.4, 0.0), (0.1, 0.5)),  # one end over the edge
        ((0.0, 0.499), (-0.3, 0.3)),  # along the edge
    ],
)
@pytest.mark.parametrize("gap", [-0.01, 0.01])
def test_capsule_lies_on_two_points(collide, centre, ends, gap):
    X = pose((centre[0], 0.6 + gap, centre[1]), (0.0, 0.0, 1.0), LYING)
    (m,) = collide(capsule(0.1, 0.3), CUBE, X, IDENTITY, 0.02)
    expected = [(x, 0.5 + gap, centre[1]) for x in ends]
    np.testing.assert_allclose(m.sorted_by(0), expected, atol=2e-5)
    np.testing.assert_allclose(m.distance, gap, atol=1e-6)


def test_overhanging_capsule_keeps_its_second_point_when_it_tilts(collide):
    for tilt in (1e-3, 1e-2, 5e-2):
        X = pose((0.4, 0.6, 0.0), (0.0, 0.0, 1.0), LYING - tilt)
        (m,) = collide(capsule(0.1, 0.3), CUBE, X, IDENTITY, 0.1)
        assert len(m) == 2
        np.testing.assert_allclose(m.sorted_by(0)[:, 0], [0.1, 0.5], atol=0.01)


def test_capsule_beside_an_edge_lies_on_two_points(collide):
    X = pose((0.56, 0.58, 0.3), (1.0, 0.0, 0.0), LYING)
    (m,) = collide(capsule(0.1, 0.3), CUBE, X, IDENTITY, 0.02)
    np.testing.assert_allclose(m.normal, [(0.6, 0.8, 0.0)] * 2, atol=1e-5)
    np.testing.assert_allclose(m.sorted_by(2), [(0.5, 0.5, 0.0), (0.5, 0.5, 0.5)], atol=2e-5)
    np.testing.assert_allclose(m.distance, 0.0, atol=1e-6)


SOLIDS = {"sphere": sphere(0.15), "capsule": capsule(0.1, 0.25), "box": box(0.2, 0.3, 0.1)}
PAIRS = [("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule"), ("sphere", "box")]
PAIRS += [("capsule", "box"), ("capsule", "sphere"), ("box", "sphere"), ("box", "capsule")]


def off_core(solid: Solid, X: np.ndarray, p: np.ndarray, inward: np.ndarray) -> np.ndarray:
    """Distance [m] of points to where they belong: on a box its surface, else the axis one radius inward."""
    if solid.kind == GeoType.BOX:
        return np.abs(off_surface(solid, to_local(X, p)))
    axis = Solid(GeoType.CAPSULE, (0.0, solid.size[1] if solid.kind == GeoType.CAPSULE else 0.0, 0.0))
    return np.abs(off_surface(axis, to_local(X, p + solid.size[0] * inward)))


@pytest.mark.parametrize(("name_a", "name_b"), PAIRS)
def test_random_poses_against_coal(collide, name_a, name_b):
    rng = np.random.default_rng(11)
    a, b = SOLIDS[name_a], SOLIDS[name_b]
    reach, extent = 0.2, max(a.extent, b.extent)
    X_a, X_b = random_poses(rng, 500, 0.4), random_poses(rng, 500, 0.1)
    truth = coal_distances(a, X_a, b, X_b)
    assert min(np.sum(truth < -0.01), np.sum(truth > 0.01)) > 50
    for m, d, X, Y in zip(collide(a, b, X_a, X_b, reach), truth, X_a, X_b):
        if len(m) == 0:
            assert d > reach - 1e-5
            continue
        k = np.argmin(m.distance)
        assert m.distance[k] == pytest.approx(d, abs=1e-4 * extent)
        assert gap_along(a, X, b, Y, m.normal[k]) == pytest.approx(d, abs=2e-4 * extent)
        assert np.max(m.distance) <= reach
        assert len(set(m.feature)) == len(m) <= 2
        np.testing.assert_allclose(off_core(a, X, m.point, m.normal), 0.0, atol=1e-4 * extent)
        np.testing.assert_allclose(off_core(b, Y, m.other, -m.normal), 0.0, atol=1e-4 * extent)


@pytest.mark.parametrize(
    ("a", "b", "depth"),
    [
        (sphere(0.1), sphere(0.2), 0.3),
        (sphere(0.1), capsule(0.2, 0.4), 0.3),
        (capsule(0.1, 0.5), capsule(0.2, 0.4), 0.3),
        (sphere(0.1), box(0.3, 0.2, 0.4), 0.3),
        (capsule(0.1, 0.5), box(0.3, 0.2, 0.4), 0.4),
        (sphere(0.0), sphere(0.0), 0.0),
        (capsule(0.0, 0.0), capsule(0.0, 0.0), 0.0),
        (capsule(0.1, 0.0), box(0.0, 0.0, 0.0), 0.1),
    ],
)
def test_coincident_centres(collide, a, b, depth):
    """The shortest way out is found: of capsules across their axes, of boxes through the nearest face."""
    for first, second in ((a, b), (b, a)):
        (m,) = collide(first, second, IDENTITY, IDENTITY, 0.01)
        assert len(m) >= 1
        assert np.all(np.isfinite(m.point))
        np.testing.assert_allclose(np.linalg.norm(m.normal, axis=1), 1.0, atol=1e-6)
        assert np.min(m.distance) == pytest.approx(-depth, abs=1e-6)
        again = collide(first, second, IDENTITY, IDENTITY, 0.01)[0]
        np.testing.assert_array_equal(m.normal, again.normal)


def test_capsule_that_rolls_keeps_its_points(collide):
    """A capsule that rolls over a box and turns a little has the same two features all the time."""
    steps = np.arange(200)
    poses = np.array(
        [
            pose((-0.3 + 0.003 * k, 0.599 + 0.0005 * np.sin(k), 0.0), (1.0, 0.002 * np.sin(k), 0.01), LYING)
            for k in steps
        ]
    )
    found = collide(capsule(0.1, 0.3), CUBE, poses, IDENTITY, 0.02)
    assert {tuple(sorted(m.feature)) for m in found} == {tuple(sorted(found[0].feature))}
    path = np.array([m.point[np.argsort(m.feature)] for m in found])
    assert np.max(np.linalg.norm(np.diff(path, axis=0), axis=2)) < 0.01

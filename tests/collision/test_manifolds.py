"""Contact points of pairs of convex shapes: where they are, how deep, and that they last."""

import itertools

import numpy as np
import pytest
import warp as wp
from collision.harness import (
    IDENTITY,
    Manifold,
    Solid,
    box,
    box_hull,
    capsule,
    collide_pairs,
    cone,
    cylinder,
    ellipsoid,
    hull,
    pose,
    random_poses,
    rotation,
    sphere,
    to_local,
)
from collision.solids import coal_distances, gap_along, height_along, off_surface

from newtonsim.kernels.collision.convex.manifold_points import offer_point
from newtonsim.kernels.collision.families.box import collide_box
from newtonsim.kernels.collision.families.convex import collide_convex
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_BOX, FAMILY_CONVEX, MANIFOLD_SIZE, ManifoldView
from newtonsim.scene.enums import GeoType

R, H = 0.2, 0.3
UP = (0.0, 1.0, 0.0)
QUARTER = np.pi / 2
TABLE = box(1.0, 0.5, 1.0)


@pytest.fixture
def collide(device):
    """Function that collides two solids by their closest points."""
    return lambda a, b, X_a, X_b, reach: collide_pairs(
        collide_convex, FAMILY_CONVEX, a, b, X_a, X_b, reach, device
    )


def prism(corners: int) -> Solid:
    """A hull with two faces of many corners, across y."""
    angles = 2.0 * np.pi * np.arange(corners) / corners
    rim = np.column_stack([R * np.cos(angles), np.full(corners, H), R * np.sin(angles)])
    return hull(np.concatenate([rim, rim * [1.0, -1.0, 1.0]]))


SOLIDS = {
    "sphere": sphere(0.15),
    "box": box(0.2, 0.3, 0.1),
    "capsule": capsule(0.1, 0.25),
    "cylinder": cylinder(0.15, 0.2),
    "cone": cone(0.2, 0.15),
    "ellipsoid": ellipsoid(0.1, 0.2, 0.3),
    "hull": hull(np.random.default_rng(3).normal(size=(30, 3)) * 0.15),
}
ROUND_SIDED = {"cylinder", "cone", "ellipsoid"}
PAIRS = [(a, b) for a in SOLIDS for b in SOLIDS if a in ROUND_SIDED or b in ROUND_SIDED or "hull" in (a, b)]


def off_contact(solid: Solid, X: np.ndarray, p: np.ndarray, inward: np.ndarray) -> np.ndarray:
    """Distance [m] of points to the surface, of capsules to where the sphere about a point of the axis is."""
    if solid.kind != GeoType.CAPSULE:
        return np.abs(off_surface(solid, to_local(X, p)))
    axis = Solid(GeoType.CAPSULE, (0.0, solid.size[1], 0.0))
    return np.abs(off_surface(axis, to_local(X, p + solid.size[0] * inward)))


@pytest.mark.parametrize(("name_a", "name_b"), PAIRS)
def test_points_are_on_both_surfaces_and_show_the_distance(collide, name_a, name_b):
    rng = np.random.default_rng(4)
    a, b = SOLIDS[name_a], SOLIDS[name_b]
    reach, extent, count = 0.3, max(a.extent, b.extent), 500
    X_a, X_b = random_poses(rng, count, 0.4), random_poses(rng, count, 0.1)
    truth = coal_distances(a, X_a, b, X_b)
    short, beside, seen = 0, 0, 0
    for m, d, X, Y in zip(collide(a, b, X_a, X_b, reach), truth, X_a, X_b):
        if len(m) == 0:
            assert d > reach - 1e-4 * extent
            continue
        seen += 1
        assert np.max(m.distance) <= reach
        assert len(set(m.feature)) == len(m) <= 4
        np.testing.assert_allclose(np.linalg.norm(m.normal, axis=1), 1.0, atol=1e-5)
        # the gap along a direction is never more than the distance: with the right one it is as much. Where
        # coal claims less than that, it has not found the deepest points itself
        least = np.min(m.distance)
        assert least == pytest.approx(gap_along(a, X, b, Y, m.normal[0]), abs=2e-4 * extent)
        short += least < d - 1e-4 * extent
        off = [off_contact(a, X, m.point, m.normal), off_contact(b, Y, m.other, -m.normal)]
        beside += np.max(off) > 5e-4 * extent
    assert seen > 0.4 * count
    curved = name_a in ROUND_SIDED or name_b in ROUND_SIDED
    assert short <= (0.01 * seen if curved else 0)
    # lines that are nearly parallel face each other a little beside, and so do points deep in an ellipsoid
    assert beside <= (0.05 * seen if curved else 0)


@pytest.mark.parametrize("gap", [-0.002, 0.003])
@pytest.mark.parametrize(
    ("solid", "below"),
    [(cylinder(R, H), H), (cone(R, H), H), (prism(24), H)],
    ids=["cylinder", "cone", "prism"],
)
@pytest.mark.parametrize("table", [TABLE, box_hull(1.0, 0.5, 1.0)], ids=["box", "hull"])
def test_round_base_stands_on_four_points_of_its_rim(collide, solid, below, table, gap):
    X = pose((0.3, 0.5 + below + gap, -0.2), UP, 0.7)
    (m,) = collide(solid, table, X, IDENTITY, 0.01)
    assert len(m) == 4
    u = m.point[:, [0, 2]] - X[[0, 2]]
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), R, atol=2e-6)
    np.testing.assert_allclose(m.point[:, 1], 0.5 + gap, atol=2e-6)
    np.testing.assert_allclose(m.distance, gap, atol=2e-6)
    # in any direction a point lies at least half a radius off the centre: it does not fall over
    angles = np.linspace(0.0, 2.0 * np.pi, 60)
    assert np.min(np.max(u @ [np.cos(angles), np.sin(angles)], axis=0)) > 0.5 * R


def test_disc_over_an_edge_touches_where_it_is_supported(collide):
    """A cylinder whose centre is over the edge of the table: the points span the half that is on it."""
    (m,) = collide(cylinder(R, H), TABLE, pose((1.0, 0.799, 0.0)), IDENTITY, 0.01)
    assert len(m) >= 3
    assert np.max(m.point[:, 0]) == pytest.approx(1.0, abs=1e-3)
    assert np.min(m.point[:, 0]) == pytest.approx(1.0 - R, abs=0.1 * R)
    assert np.ptp(m.point[:, 2]) == pytest.approx(2.0 * R, abs=0.1 * R)


@pytest.mark.parametrize("angle", [0.003, 0.02, 0.3, 0.7, 0.9, 1.4])
@pytest.mark.parametrize("around", [0.0, 0.2, 1.0, 2.9])
@pytest.mark.parametrize("solid", [cylinder(R, H), cone(R, H)], ids=["cylinder", "cone"])
def test_tilted_disc_touches_at_its_lowest_point(collide, solid, around, angle):
    axis = (np.cos(around), 0.0, np.sin(around))
    X = pose((0.0, 0.0, 0.0), axis, angle)
    X[1] = 0.499 - (-height_along(solid, X, np.array([0.0, -1.0, 0.0])))
    (m,) = collide(solid, TABLE, X, IDENTITY, 0.0)
    k = np.argmin(m.distance)
    down = to_local(X, X[:3] - [[0.0, 1.0, 0.0]])[0] * [1.0, 0.0, 1.0]
    lowest = X[:3] + rotation(X) @ (R * down / np.linalg.norm(down) - [0.0, H, 0.0])
    assert m.distance[k] == pytest.approx(-0.001, abs=5e-6)
    np.testing.assert_allclose(m.point[k], lowest, atol=2e-3 * R if angle > 0.01 else 0.5 * R)


LYING_CONE = np.arctan(R / (2.0 * H))


@pytest.mark.parametrize("gap", [-0.002, 0.003])
@pytest.mark.parametrize("table", [TABLE, box_hull(1.0, 0.5, 1.0)], ids=["box", "hull"])
@pytest.mark.parametrize(
    ("solid", "lift", "angle", "ends"),
    [
        (cylinder(R, H), R, QUARTER, (-H, H)),
        (capsule(R, H), R, QUARTER, (-H, H)),
        (cone(R, H), H * np.sin(LYING_CONE), QUARTER + LYING_CONE, (-H * np.cos(LYING_CONE), None)),
    ],
    ids=["cylinder", "capsule", "cone"],
)
def test_side_lies_on_the_two_ends_of_a_line(collide, solid, lift, angle, ends, table, gap):
    X = pose((0.1, 0.5 + lift + gap, 0.2), (0.0, 0.0, 1.0), angle)
    (m,) = collide(solid, table, X, IDENTITY, 0.01)
    length = 2.0 * H if ends[1] is not None else np.hypot(2.0 * H, R)
    expected = [(0.1 + ends[0], 0.5 + gap, 0.2), (0.1 + ends[0] + length, 0.5 + gap, 0.2)]
    np.testing.assert_allclose(m.sorted_by(0), expected, atol=2e-5)
    np.testing.assert_allclose(m.distance, gap, atol=1e-5)
    np.testing.assert_allclose(m.normal, [UP] * 2, atol=1e-4)


def test_line_ends_at_the_edge_of_the_table(collide):
    (m,) = collide(cylinder(R, H), TABLE, pose((0.9, 0.699, 0.0), (0.0, 0.0, 1.0), QUARTER), IDENTITY, 0.01)
    np.testing.assert_allclose(m.sorted_by(0), [(0.6, 0.499, 0.0), (1.0, 0.499, 0.0)], atol=2e-5)


def test_cylinders_side_by_side_touch_along_a_line(collide):
    (m,) = collide(cylinder(R, H), cylinder(0.1, 0.4), pose((0.299, 0.2, 0.0), UP, 0.4), IDENTITY, 0.01)
    np.testing.assert_allclose(m.sorted_by(1), [(0.099, -0.1, 0.0), (0.099, 0.4, 0.0)], atol=5e-4)
    np.testing.assert_allclose(m.distance, -0.001, atol=1e-5)


def test_stacked_cylinders_touch_over_the_smaller_disc(collide):
    for a, b in ((cylinder(R, H), cylinder(0.1, H)), (cylinder(0.1, H), cylinder(R, H))):
        (m,) = collide(a, b, pose((0.02, 2.0 * H - 0.001, 0.03), UP, 0.3), IDENTITY, 0.01)
        assert len(m) == 4
        centre = np.array([0.02, 0.03]) if a.size[0] < R else np.zeros(2)
        np.testing.assert_allclose(np.linalg.norm(m.point[:, [0, 2]] - centre, axis=1), 0.1, atol=2e-6)
        np.testing.assert_allclose(m.distance, -0.001, atol=2e-6)


@pytest.mark.parametrize("solid", [sphere(R), ellipsoid(0.3, R, 0.1)], ids=["sphere", "ellipsoid"])
def test_rounded_shapes_touch_in_one_point(collide, solid):
    X = pose((0.2, H + R - 0.001, 0.1))
    (m,) = collide(solid, cylinder(0.5, H), X, IDENTITY, 0.01)
    assert m.distance == pytest.approx([-0.001], abs=5e-6)
    np.testing.assert_allclose(m.normal, [UP], atol=1e-3)
    np.testing.assert_allclose(m.point, [(0.2, H - 0.001, 0.1)], atol=1e-4)


@pytest.mark.parametrize("name", sorted(SOLIDS))
def test_far_off_shapes_are_found_in_time(collide, name):
    """With a reach of 0.3 m a gap of 0.2 m is seen, and measured as exactly as one of a millimetre."""
    solid = SOLIDS[name]
    for gap in (0.001, 0.2):
        X = pose((0.1, 0.0, 0.05), (1.0, 2.0, 3.0), 1.0)
        X[1] = 0.5 + gap + height_along(solid, X, np.array([0.0, -1.0, 0.0]))
        (m,) = collide(solid, box_hull(1.0, 0.5, 1.0), X, IDENTITY, 0.3)
        assert np.min(m.distance) == pytest.approx(gap, abs=5e-6)
        np.testing.assert_allclose(m.normal[0], UP, atol=1e-4 if gap > 0.01 else 1e-2)


def kept(found: list[Manifold]) -> float:
    """Share of the points that have the feature of a point of the step before."""
    same = sum(len(set(m.feature) & set(n.feature)) for m, n in itertools.pairwise(found))
    return same / sum(len(n) for n in found[1:])


def wobble(height: float, angle: float, slide: float, base: np.ndarray = IDENTITY) -> np.ndarray:
    """Poses (50, 7) of a body that slides and turns on a table, tilted by noise and by a slow sway."""
    rng = np.random.default_rng(8)
    turned = wp.quat(*base[3:])
    poses = []
    for k in range(50):
        axis = rng.normal(size=3) * [1.0, 0.0, 1.0] * 1e-5 + [angle * np.sin(0.1 * k), 0.0, angle]
        tilt = wp.quat_from_axis_angle(wp.normalize(wp.vec3(*axis)), float(np.linalg.norm(axis)))
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.3 + slide * k)
        poses.append([0.1 + slide * k, height, 0.05, *(turn * tilt * turned)])
    return np.array(poses)


ON_SIDE = pose(axis=(0.0, 0.0, 1.0), angle=QUARTER)


@pytest.mark.parametrize("angle", [0.0, 1e-4, 2e-3])
@pytest.mark.parametrize(
    ("kernel", "family", "solid", "height", "base"),
    [
        (collide_box, FAMILY_BOX, box(0.2, 0.3, 0.2), 0.3, IDENTITY),
        (collide_convex, FAMILY_CONVEX, box_hull(0.2, 0.3, 0.2), 0.3, IDENTITY),
        (collide_convex, FAMILY_CONVEX, prism(12), H, IDENTITY),
        (collide_convex, FAMILY_CONVEX, cylinder(R, H), H, IDENTITY),
        (collide_convex, FAMILY_CONVEX, cone(R, H), H, IDENTITY),
        (collide_convex, FAMILY_CONVEX, cylinder(R, H), R, ON_SIDE),
    ],
    ids=["box", "hull", "prism", "cylinder", "cone", "lying cylinder"],
)
def test_features_last(device, kernel, family, solid, height, base, angle):
    poses = wobble(0.5 + height - 0.0005, angle, 0.001, base)
    found = collide_pairs(kernel, family, solid, TABLE, poses, IDENTITY, 0.01, device)
    assert min(len(m) for m in found) >= 2
    assert kept(found) >= 0.95


def test_equal_boxes_in_a_stack_keep_their_features(device):
    """Edges above edges: which of them is the inner one changes with every step."""
    rng = np.random.default_rng(9)
    poses = np.array([pose(rng.normal(size=3) * 1e-6 + [0.0, 0.3999, 0.0]) for _ in range(50)])
    cube = box(0.2, 0.2, 0.2)
    found = collide_pairs(collide_box, FAMILY_BOX, cube, cube, poses, IDENTITY, 0.01, device)
    assert kept(found) == 1.0


def test_rolling_cylinder_has_points_that_move_evenly(collide):
    """Two points below the axis, whatever the angle it has turned by."""
    angles = np.linspace(0.0, 3.0, 300)
    turn = [wp.quat(*pose(axis=(0.0, 1.0, 0.0), angle=-a)[3:]) for a in angles]
    lying = wp.quat(*pose(axis=(1.0, 0.0, 0.0), angle=QUARTER)[3:])
    poses = np.array([[-0.3 + R * a, 0.5 + R - 1e-4, 0.0, *(lying * q)] for a, q in zip(angles, turn)])
    found = collide(cylinder(R, H), TABLE, poses, IDENTITY, 0.01)
    assert kept(found) == 1.0
    for m, X in zip(found, poses):
        np.testing.assert_allclose(m.sorted_by(2), [(X[0], 0.4999, -H), (X[0], 0.4999, H)], atol=2e-4 * R)
        np.testing.assert_allclose(m.distance, -1e-4, atol=2e-6)


def test_wheeling_disc_has_one_point_that_moves_evenly(collide):
    """A leaning disc that rolls on its rim, as a coin does before it comes to rest."""
    disc, lean = cylinder(R, 0.02), 0.6
    poses = []
    for k in range(400):
        way = 2.0 * np.pi * k / 400
        spin = wp.quat(*pose(axis=UP, angle=0.37 * k)[3:])
        tilt = wp.quat(*pose(axis=(np.cos(way), 0.0, np.sin(way)), angle=lean)[3:])
        X = np.array([0.0, 0.0, 0.0, *(tilt * spin)])
        X[1] = 0.5 - 1e-4 + height_along(disc, X, np.array([0.0, -1.0, 0.0]))
        poses.append(X)
    found = collide(disc, TABLE, np.array(poses), IDENTITY, 0.0)
    lowest = [int(np.argmin(m.distance)) for m in found]
    assert len({m.feature[k] for m, k in zip(found, lowest)}) == 1
    path = np.array([m.point[k] for m, k in zip(found, lowest)])
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    assert np.max(steps) < 1.2 * np.mean(steps)


@wp.kernel
def offer_points(
    point: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    distance: wp.array(dtype=float),
    size: float,
    manifolds: ManifoldView,
):
    """One thread: offer all points, one after the other."""
    for k in range(point.shape[0]):
        offer_point(manifolds, 0, point[k], normal[k], distance[k], k, size)


def offered(point, normal, distance, size: float, device: str) -> Manifold:
    """What is left of points that are offered."""
    view = ManifoldView()
    view.count = wp.zeros(1, dtype=int, device=device)
    for name, dtype in (("point", wp.vec3), ("normal", wp.vec3), ("distance", float), ("feature", int)):
        setattr(view, name, wp.zeros((1, int(MANIFOLD_SIZE)), dtype=dtype, device=device))
    arrays = [wp.array(point, dtype=wp.vec3, device=device), wp.array(normal, dtype=wp.vec3, device=device)]
    arrays += [wp.array(distance, dtype=float, device=device), size, view]
    wp.launch(offer_points, dim=1, inputs=arrays, device=device)
    n = int(view.count.numpy()[0])
    values = [getattr(view, name).numpy()[0, :n] for name in ("point", "normal", "distance", "feature")]
    return Manifold(*values[:3], feature=values[3].tolist())


@pytest.mark.parametrize("seed", range(5))
def test_of_many_points_those_that_spread_stay(device, seed):
    rng = np.random.default_rng(seed)
    point = rng.uniform(-1.0, 1.0, (200, 3)) * [1.0, 0.0, 1.0]
    distance = rng.uniform(-0.1, 0.0, 200)
    m = offered(point, np.tile(UP, (200, 1)), distance, 2.0, device)
    assert len(m) == MANIFOLD_SIZE
    assert np.min(m.distance) == pytest.approx(np.min(distance))
    apart = np.linalg.norm(m.point[:, None] - m.point[None], axis=2) + 9.0 * np.eye(len(m))
    assert np.min(apart) > 0.3
    # the points reach far to all sides
    angles = np.linspace(0.0, 2.0 * np.pi, 30)
    assert np.min(np.max(m.point[:, [0, 2]] @ [np.cos(angles), np.sin(angles)], axis=0)) > 0.4


def test_points_at_one_place_are_one_unless_their_normals_differ(device):
    point = [(0.0, 0.0, 0.0), (1e-5, 0.0, 0.0), (0.0, 0.0, 1e-5), (0.5, 0.0, 0.0)]
    normal = [UP, UP, (1.0, 0.0, 0.0), UP]
    m = offered(point, normal, [-0.01, -0.02, -0.03, 0.01], 1.0, device)
    assert m.feature == [1, 2, 3]
    np.testing.assert_allclose(m.distance, [-0.02, -0.03, 0.01], atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_deepest_point_stays_wherever_it_comes_in_the_order(device, seed):
    rng = np.random.default_rng(seed)
    point = rng.normal(size=(40, 3))
    normal = rng.normal(size=(40, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    distance = rng.permutation(np.linspace(-0.1, 0.1, 40))
    for shift in range(40):
        order = np.roll(np.arange(40), shift)
        m = offered(point[order], normal[order], distance[order], 1.0, device)
        assert np.min(m.distance) == pytest.approx(-0.1)

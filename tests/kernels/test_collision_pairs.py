"""Broad phase: boxes about shapes against their surfaces, the sweep against all pairs."""

import numpy as np
import pytest
import warp as wp
from collision.harness import Solid, rotation
from collision.solids import gap_along
from collision.solids import support as exact_support
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.collision.contact_features import EDGE, FACE, VERTEX, box_feature
from newtonsim.kernels.collision.contacts import ContactView, OverflowView
from newtonsim.kernels.collision.crowded import pack_contacts
from newtonsim.kernels.collision.pairs.bounds import box_separates, shape_box, turned_bounds
from newtonsim.kernels.collision.pairs.broad_phase import PlacementView, below_reach
from newtonsim.kernels.collision.pairs.manifolds import (
    FAMILY_CONVEX,
    MANIFOLD_SIZE,
    ManifoldView,
    PairView,
    put_point,
)
from newtonsim.kernels.collision.pairs.sweep import SweepView, sort_along_axis, sweep_from
from newtonsim.kernels.collision.pairs.swept_bounds import widen_bounds
from newtonsim.kernels.views.shapes import KIND_HULL, ShapeView, shape_pose
from newtonsim.runtime.teams import teams_from
from newtonsim.scene.enums import GeoType

call = DeviceFunctions(
    __name__,
    box_feature,
    box_separates,
    shape_box,
    turned_bounds,
    below_reach,
    put_point,
    sweep_from,
    shape_pose,
)

SOLIDS = (
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
    GeoType.ELLIPSOID,
)


def ints(values, device) -> wp.array:
    return wp.array(np.asarray(values, np.int32), dtype=int, device=device)


def shapes_of(solids: list[Solid], device) -> ShapeView:
    shape = ShapeView()
    shape.kind = ints([int(s.kind) for s in solids], device)
    shape.hull = ints([0 if s.hull is not None else -1 for s in solids], device)
    shape.geo.scale = wp.array(np.array([s.size for s in solids]), dtype=wp.vec3, device=device)
    shape.geo.thickness = wp.zeros(len(solids), dtype=float, device=device)
    own = [np.zeros((1, 3)) if s.hull is None else s.hull.vertices for s in solids]
    shape.local_lower = wp.array(np.array([v.min(axis=0) for v in own]), dtype=wp.vec3, device=device)
    shape.local_upper = wp.array(np.array([v.max(axis=0) for v in own]), dtype=wp.vec3, device=device)
    return shape


def test_box_about_a_turned_shape_touches_it_on_all_sides(device):
    rng = np.random.default_rng(0)
    hull = ConvexHull(rng.normal(size=(20, 3)))
    solids = [Solid(kind, (0.3, 0.5, 0.2)) for kind in SOLIDS] + [Solid(int(KIND_HULL), (1, 1, 1), hull)]
    shape, hulls = shapes_of(solids, device), pack_hulls([hull], device)
    for s, solid in enumerate(solids):
        turn = Rotation.random(20, random_state=s)
        X = np.hstack([rng.normal(size=(20, 3)), turn.as_quat()])
        box = call(device, shape_box, shape, hulls, s, X)
        for k in range(20):
            axes = np.vstack([np.eye(3), -np.eye(3)])
            local = axes @ rotation(X[k])
            reach = np.sum(exact_support(solid, local) * local, axis=1) + axes @ X[k, :3]
            np.testing.assert_allclose(box["upper"][k], reach[:3], atol=3e-6)
            np.testing.assert_allclose(box["lower"][k], -reach[3:], atol=3e-6)


def test_half_space_has_no_bound_but_on_the_side_that_it_looks_to(device):
    shape = shapes_of([Solid(GeoType.PLANE, (0.0, 0.0, 0.0))], device)
    quarter = Rotation.from_euler("x", 90, degrees=True).as_quat()
    box = call(device, shape_box, shape, pack_hulls([], device), 0, np.append([1.0, 2.0, 3.0], quarter))
    # its normal, local y, is world z
    np.testing.assert_array_equal(box["lower"][0], [-np.inf] * 3)
    np.testing.assert_allclose(box["upper"][0], [np.inf, np.inf, 3.0], rtol=1e-6)


def test_box_about_a_turned_box_holds_its_corners(device):
    rng = np.random.default_rng(1)
    lower = rng.uniform(-1.0, 0.0, 3)
    upper = rng.uniform(0.0, 1.0, 3)
    turn = Rotation.random(30, random_state=1)
    x = rng.normal(size=(30, 3))
    box = call(device, turned_bounds, lower, upper, np.hstack([x, turn.as_quat()]))
    corners = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    world = np.array([r.apply(np.where(corners, upper, lower)) for r in turn]) + x[:, None]
    np.testing.assert_allclose(box["lower"], world.min(axis=1), atol=2e-6)
    np.testing.assert_allclose(box["upper"], world.max(axis=1), atol=2e-6)


@pytest.mark.parametrize("kind", [*SOLIDS, KIND_HULL], ids=str)
def test_faces_of_a_box_part_what_has_a_gap_across_them(device, kind):
    """Exactly if the first is a box itself; a box about anything else parts it from nothing that it meets."""
    rng = np.random.default_rng(int(kind))
    size = (0.3, 0.3, 0.3) if kind == GeoType.SPHERE else (0.3, 0.5, 0.2)
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    box = ConvexHull(corners * [0.5, 0.2, 0.1] + [0.2, 0.0, 0.3])
    rough = ConvexHull(rng.normal(size=(20, 3)) * [0.5, 0.2, 0.1])
    other = Solid(kind, size, box if kind == KIND_HULL else None)
    parted = 0
    for hull in (box, rough):
        solid = Solid(int(KIND_HULL), (1, 1, 1), hull)
        shape = shapes_of([solid, other], device)
        X = np.concatenate(
            [rng.normal(size=(2, 200, 3)) * 0.5, Rotation.random(400, rng).as_quat().reshape(2, 200, 4)],
            axis=-1,
        )
        found = np.ravel(call(device, box_separates, shape, 0, 1, X[0], X[1], 0.05)).astype(bool)
        for k in range(200):
            axes = rotation(X[0, k]).T
            gap = max(gap_along(solid, X[0, k], other, X[1, k], side * n) for n in axes for side in (1, -1))
            if found[k]:
                assert gap > 0.05 - 1e-6
            elif hull is box and kind != GeoType.CONE:  # a cone counts as the cylinder about it
                assert gap < 0.05 + 1e-4
        parted += found.sum()
    assert 50 < parted < 350


def test_swept_boxes_hold_all_that_came_before(device):
    rng = np.random.default_rng(2)
    steps = rng.normal(size=(5, 4, 3))
    swept_lower = wp.full(4, wp.vec3(np.inf), dtype=wp.vec3, device=device)
    swept_upper = wp.full(4, wp.vec3(-np.inf), dtype=wp.vec3, device=device)
    for centre in steps:
        box = [wp.array(centre + side, dtype=wp.vec3, device=device) for side in (-0.1, 0.1)]
        wp.launch(widen_bounds, 4, [0, *box, swept_lower, swept_upper], device=device)
    np.testing.assert_allclose(swept_lower.numpy(), steps.min(axis=0) - 0.1, atol=1e-6)
    np.testing.assert_allclose(swept_upper.numpy(), steps.max(axis=0) + 0.1, atol=1e-6)


def placed(lower: np.ndarray, upper: np.ndarray, device) -> PlacementView:
    place = PlacementView()
    place.lower = wp.array(lower, dtype=wp.vec3, device=device)
    place.upper = wp.array(upper, dtype=wp.vec3, device=device)
    place.velocity = wp.zeros(len(lower), dtype=wp.vec3, device=device)
    place.travel = wp.zeros(len(lower), dtype=wp.vec3, device=device)
    place.spin = wp.zeros(len(lower), dtype=float, device=device)
    place.grow = wp.zeros(len(lower), dtype=float, device=device)
    place.awake = wp.ones(len(lower), dtype=int, device=device)
    return place


@pytest.mark.parametrize("axis", [0, 2])
def test_sweep_finds_the_pairs_that_comparing_all_finds(device, axis):
    rng = np.random.default_rng(3)
    count = 60
    centre, half = rng.uniform(-1.0, 1.0, (count, 3)), rng.uniform(0.02, 0.3, (count, 3))
    lower, upper = centre - half, centre + half
    lower[:5], upper[:5] = lower[0], upper[0]  # ties
    group, rigid = rng.integers(-1, 2, count), rng.integers(0, 40, count)
    place = placed(lower, upper, device)
    sweep = SweepView()
    sweep.axis, sweep.ground = axis, -1
    sweep.start = ints([0, count], device)
    sweep.shape = ints(rng.permutation(count), device)
    sweep.group, sweep.rigid = ints(group, device), ints(rigid, device)
    sweep.collides = sweep.meets_ground = wp.ones(count, dtype=int, device=device)
    filtered = sorted({(a, a + 1) for a in range(0, count - 1, 3)})
    sweep.filter_start = ints(np.searchsorted([a for a, _ in filtered], range(count + 1)), device)
    sweep.filter = ints([b for _, b in filtered], device)
    sweep.family = wp.full((3, 3), int(FAMILY_CONVEX), dtype=int, device=device)
    sweep.second = wp.zeros((3, 3), dtype=int, device=device)
    wp.launch(sort_along_axis, 1, [0, place, sweep], device=device)
    order = sweep.shape.numpy()
    np.testing.assert_array_equal(order, np.lexsort([np.arange(count), np.float32(lower)[:, axis]]))
    pairs = PairView()
    for name in ("shape0", "shape1", "family"):
        setattr(pairs, name, wp.full(count * count, -1, dtype=int, device=device))
    pairs.reach = wp.zeros(count * count, dtype=float, device=device)
    pairs.travel = wp.zeros_like(pairs.reach)
    shape = shapes_of([Solid(GeoType.BOX, (1, 1, 1))] * count, device)
    first = np.arange(count) * count
    found = call(
        device,
        sweep_from,
        np.arange(count),
        count,
        first,
        count,
        -1,
        shape,
        place,
        sweep,
        0.01,
        0.1,
        pairs,
    )
    listed = np.stack([pairs.shape0.numpy(), pairs.shape1.numpy()], axis=1)
    listed = [tuple(row) for row in listed[listed[:, 0] >= 0].tolist()]
    expected = {
        (a, b)
        for a in range(count)
        for b in range(a + 1, count)
        if np.all(lower[a] <= upper[b])
        and np.all(lower[b] <= upper[a])
        and rigid[a] != rigid[b]
        and (group[a] == group[b] or -1 in (group[a], group[b]))
        and (a, b) not in filtered
    }
    assert found.sum() == len(listed) == len(expected) > 40
    assert set(listed) == expected


def test_boxes_that_reach_below_a_tilted_plane(device):
    rng = np.random.default_rng(4)
    centre, half = rng.uniform(-1.0, 1.0, (80, 3)), rng.uniform(0.02, 0.4, (80, 3))
    turn = Rotation.from_euler("xz", [0.4, -0.7])
    place = placed(np.vstack([centre - half, [[0, 0, 0]]]), np.vstack([centre + half, [[0, 0, 0]]]), device)
    poses = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (81, 1))
    poses[80] = np.append([0.1, 0.2, 0.3], turn.as_quat())
    place.X = wp.array(poses, dtype=wp.transform, device=device)
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    world = centre[:, None] + half[:, None] * corners
    lowest = ((world - poses[80, :3]) @ turn.apply([0.0, 1.0, 0.0])).min(axis=1)
    np.testing.assert_array_equal(call(device, below_reach, place, np.arange(80), 80), lowest <= 0.0)


def test_full_manifolds_and_full_worlds_drop_what_has_no_room_and_say_so(device):
    manifolds = ManifoldView()
    manifolds.count = wp.zeros(3, dtype=int, device=device)
    manifolds.point = wp.zeros((3, int(MANIFOLD_SIZE)), dtype=wp.vec3, device=device)
    manifolds.normal = wp.zeros_like(manifolds.point)
    manifolds.distance = wp.zeros(manifolds.point.shape, dtype=float, device=device)
    manifolds.feature = wp.zeros(manifolds.point.shape, dtype=int, device=device)
    for k in range(int(MANIFOLD_SIZE) + 2):
        call(device, put_point, manifolds, 0, [k, 0, 0], [0, 1, 0], 0.1 * k, k)
    call(device, put_point, manifolds, 2, [0, 0, 0], [0, 1, 0], 0.0, 0)
    assert manifolds.count.numpy().tolist() == [MANIFOLD_SIZE, 0, 1]
    np.testing.assert_array_equal(manifolds.feature.numpy()[0], np.arange(MANIFOLD_SIZE))
    # pairs 0 and 1 of world 0, pair 2 of world 1; room for six contacts and two
    pairs, contacts, overflow = PairView(), ContactView(), OverflowView()
    pairs.world_start, pairs.world_count = ints([0, 2, 3], device), ints([2, 1], device)
    contacts.world_start, contacts.world_count = ints([0, 6, 8], device), ints([0, 0], device)
    contacts.pair = wp.full(8, -1, dtype=int, device=device)
    contacts.point = wp.full(8, -1, dtype=int, device=device)
    for name in ("contacts_needed", "most_pairs", "most_contacts"):
        setattr(overflow, name, wp.zeros(2, dtype=int, device=device))
    overflow.pairs_needed = ints([2, 5], device)
    overflow.any = ints([0], device)
    wp.launch(pack_contacts, 2, [teams_from(0), pairs, manifolds, overflow, contacts], device=device)
    assert contacts.world_count.numpy().tolist() == [6, 1]
    assert contacts.pair.numpy().tolist() == [0] * 6 + [2, -1]
    assert contacts.point.numpy().tolist() == [0, 1, 2, 3, 4, 5, 0, -1]
    assert overflow.most_contacts.numpy().tolist() == [MANIFOLD_SIZE, 0]
    assert overflow.most_pairs.numpy().tolist() == [0, 5]
    assert overflow.any.numpy()[0] == 1


def test_features_of_a_box_by_where_the_point_lies(device):
    size = np.array([0.2, 0.5, 0.3])
    points = np.array([[1, 1, -1], [1, 0.2, -1], [0.3, -1, 0.1], [0.1, 0.5, 1]]) * size
    n = np.array([[1, 1, -1], [1, 0, -1], [0, -1, 0], [0, 0, 1]]) / np.sqrt([[3], [2], [1], [1]])
    found = call(device, box_feature, points, size, n)
    assert found["kind"].tolist() == [VERTEX, EDGE, FACE, FACE]
    assert found["flat"].tolist() == [0, 0, 1, 1]
    # the direction in which the point may move along the edge
    np.testing.assert_array_equal(found["axis"][1], [0, 1, 0])


def test_pose_of_a_shape_is_that_of_its_body_times_its_own(device):
    turns = Rotation.random(2, random_state=5)
    body = np.append([1.0, 2.0, 3.0], turns[0].as_quat())
    own = np.append([0.1, 0.2, 0.3], turns[1].as_quat())
    shape = ShapeView()
    shape.body = ints([0, -1], device)
    shape.transform = wp.array([own, own], dtype=wp.transform, device=device)
    found = call(device, shape_pose, shape, [0, 1], wp.array([body], dtype=wp.transform, device=device))
    np.testing.assert_allclose(found[0, :3], turns[0].apply(own[:3]) + body[:3], atol=1e-6)
    product = (turns[0] * turns[1]).as_matrix()
    np.testing.assert_allclose(Rotation.from_quat(found[0, 3:]).as_matrix(), product, atol=1e-6)
    np.testing.assert_allclose(found[1], own, atol=1e-7)

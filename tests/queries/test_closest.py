"""Closest points agree with coal, and sets of shapes with their pairs one by one."""

import coal
import numpy as np
import pytest
import trimesh
import warp as wp
from queries.test_rays import add_solid, bumpy_ball, query_of, random_pose
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.kernels.queries.closest_points import closest_on_shapes
from newtonsim.kernels.queries.rays import SceneView
from newtonsim.scene.enums import GeoType

SOLIDS = [GeoType.SPHERE, GeoType.BOX, GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE, GeoType.ELLIPSOID]
# coal's axis of capsules, cylinders and cones is z
TO_Z = Rotation.from_euler("x", -90.0, degrees=True)


def coal_solid(kind: GeoType, size) -> coal.CollisionGeometry:
    if kind == GeoType.SPHERE:
        return coal.Sphere(size[0])
    if kind == GeoType.BOX:
        return coal.Box(*(2.0 * np.asarray(size)))
    if kind == GeoType.ELLIPSOID:
        return coal.Ellipsoid(*size)
    make = {GeoType.CAPSULE: coal.Capsule, GeoType.CYLINDER: coal.Cylinder, GeoType.CONE: coal.Cone}
    return make[kind](size[0], 2.0 * size[1])


def coal_mesh(vertices: np.ndarray, triangles: np.ndarray) -> coal.CollisionGeometry:
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(triangles), len(vertices))
    mesh.addVertices(vertices.astype(np.float64))
    mesh.addTriangles(triangles.astype(np.uint64))
    mesh.endModel()
    return mesh


def coal_pose(pose: np.ndarray, upright: bool) -> coal.Transform3s:
    turn = Rotation.from_quat(np.asarray(pose[3:], np.float64))
    if upright:
        turn = turn * TO_Z
    return coal.Transform3s(turn.as_matrix(), np.asarray(pose[:3], np.float64))


def coal_distance(a, X_a, b, X_b) -> float:
    result = coal.DistanceResult()
    return coal.distance(a, X_a, b, X_b, coal.DistanceRequest(), result)


def is_upright(kind) -> bool:
    return kind in (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE)


class Scene:
    """The same shapes in a builder and as coal's geometries."""

    def __init__(self):
        self.builder = newtonsim.ModelBuilder()
        self.parts = []

    def add(self, kind, size, pose, **options) -> int:
        pose = np.asarray(pose, np.float32)
        self.parts.append((coal_solid(kind, np.asarray(size)), coal_pose(pose, is_upright(kind))))
        return add_solid(self.builder, kind, size, pose, **options)

    def add_mesh(self, vertices, triangles, pose, scale=(1.0, 1.0, 1.0)) -> int:
        pose = np.asarray(pose, np.float32)
        self.parts.append((coal_mesh(vertices * np.asarray(scale), triangles), coal_pose(pose, False)))
        mesh = newtonsim.Mesh(vertices, triangles, compute_inertia=False)
        return self.builder.add_shape_mesh(-1, pose[:3], pose[3:], mesh, scale, convex=False)

    def distance(self, a: int, b: int) -> float:
        return coal_distance(*self.parts[a], *self.parts[b])


def table(query, count: int, **options):
    """Results of all pairs of shapes (count, count)."""
    every = np.arange(count)
    return query.closest(query.shapes(every[:, None]), query.shapes(every), **options)


def test_distances_of_solids(device):
    rng = np.random.default_rng(1)
    scene = Scene()
    for kind in SOLIDS * 5:
        scene.add(kind, rng.uniform(0.2, 0.8, 3).tolist(), random_pose(rng, 3.0))
    query = query_of(scene.builder, device)
    count = len(scene.parts)
    found = table(query, count)
    distance = found.distance.numpy()[0]
    assert np.all(np.isinf(np.diag(distance)))
    np.testing.assert_allclose(distance, distance.T, atol=1e-5)
    apart = 0
    for a in range(count):
        for b in range(a):
            expected = scene.distance(a, b)
            # the depth of smooth shapes is the business of the tests of convex distance
            if expected > 1e-4:
                apart += 1
                np.testing.assert_allclose(distance[a, b], expected, atol=1e-4)
            else:
                assert distance[a, b] < 2e-4
    assert apart > 300
    gap = found.point_a.numpy() - found.point_b.numpy()
    touching = np.isfinite(found.distance.numpy())
    along = found.distance.numpy()[touching, None] * found.normal.numpy()[touching]
    np.testing.assert_allclose(gap[touching], along, atol=1e-4)


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (-0.5, 1.0, 2.0)], ids=str)
def test_distances_to_meshes(device, scale):
    rng = np.random.default_rng(2)
    vertices, triangles = bumpy_ball(rng)
    scene = Scene()
    scene.add_mesh(vertices, triangles, random_pose(rng, 0.3), scale)
    scene.add_mesh(vertices, triangles, [3.5, 0.5, 0.0, *Rotation.random(random_state=rng).as_quat()], scale)
    for kind in SOLIDS * 30:
        place = random_pose(rng, 1.0)
        place[:3] *= rng.uniform(1.5, 4.0) / np.linalg.norm(place[:3])
        scene.add(kind, rng.uniform(0.05, 0.3, 3).tolist(), place)
    query = query_of(scene.builder, device)
    count = len(scene.parts)
    found = query.closest(query.shapes(0), query.shapes(np.arange(1, count)))
    distance = found.distance.numpy()[0]
    expected = np.array([scene.distance(0, b) for b in range(1, count)])
    apart = expected > 1e-4
    assert apart.sum() > 100
    np.testing.assert_allclose(distance[apart], expected[apart], atol=1e-4)
    assert np.all(distance[~apart] < 2e-4)
    points = found.point_a.numpy()[0][apart]
    pose = query.view.pose.numpy()[0].astype(np.float64)
    stretched = Rotation.from_quat(pose[3:]).apply(vertices * scale) + pose[:3]
    surface = trimesh.Trimesh(stretched, triangles, process=False)
    _, off, _ = trimesh.proximity.closest_point_naive(surface, points)
    # where a curved face is nearest, its point is known to the square root of rounding
    assert off.max() < 1e-3
    # a bound on the distance does not change what is within it
    near = query.closest(query.shapes(0), query.shapes(np.arange(1, count)), max_distance=1.0)
    within = distance < 1.0
    assert 10 < within.sum() < len(distance)
    np.testing.assert_array_equal(near.found.numpy()[0], within)
    np.testing.assert_allclose(near.distance.numpy()[0][within], distance[within], atol=1e-5)
    assert np.all(np.isinf(near.distance.numpy()[0][~within]))


def test_balls_at_a_mesh(device):
    """Signed distance of balls to a closed box mesh, inside and out, against the box itself."""
    rng = np.random.default_rng(3)
    box = trimesh.creation.box((2.0, 1.4, 1.0))
    builder = newtonsim.ModelBuilder()
    mesh = newtonsim.Mesh(box.vertices, box.faces)
    builder.add_shape_mesh(-1, mesh=mesh, scale=(-1.0, 1.0, 1.0), convex=False)
    centres = rng.uniform(-1.5, 1.5, (400, 3)).astype(np.float32)
    radius = 0.1
    for centre in centres:
        builder.add_shape_sphere(-1, centre, radius=radius)
    query = query_of(builder, device)
    found = query.closest(query.shapes(np.arange(1, 401)), query.shapes(0))
    q = np.abs(centres.astype(np.float64)) - np.array([1.0, 0.7, 0.5])
    outside = np.linalg.norm(np.maximum(q, 0.0), axis=1)
    signed = outside + np.minimum(q.max(axis=1), 0.0)
    distance, normal = found.distance.numpy()[0], found.normal.numpy()[0]
    # a ball whose centre is inside but which touches the surface overlaps it by what sticks out
    free = np.abs(signed) > radius + 1e-5
    np.testing.assert_allclose(distance[free], signed[free] - radius, atol=1e-5)
    assert (free & (signed < 0.0)).sum() > 20
    shallow = (signed > 1e-3) & (signed < radius)
    np.testing.assert_allclose(distance[shallow], signed[shallow] - radius, atol=1e-5)
    assert np.all(distance[np.abs(signed) < radius] < 0.0)
    deep = free & (signed < 0.0)
    face = np.zeros_like(normal)
    axis = q.argmax(axis=1)
    face[np.arange(400), axis] = np.sign(centres[np.arange(400), axis])
    np.testing.assert_allclose(normal[deep], face[deep], atol=1e-4)


def test_heights_above_half_spaces(device):
    rng = np.random.default_rng(4)
    normal = np.array([0.3, 1.0, -0.2])
    normal /= np.linalg.norm(normal)
    builder = newtonsim.ModelBuilder()
    vertices, triangles = bumpy_ball(rng)
    builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(vertices, triangles), scale=(1.0, -2.0, 1.0), convex=False)
    builder.add_shape_box(-1, (1.0, 0.2, 0.0), (0.0, 0.0, 0.0, 1.0), hx=0.2, hy=0.3, hz=0.4)
    builder.add_shape_capsule(-1, (1.0, -3.0, 2.0), radius=0.3, half_height=0.4)
    builder.add_shape_plane((*normal, 0.5), width=0.0, length=0.0)
    query = query_of(builder, device)
    found = query.closest(query.shapes([0, 1, 2, 3]), query.shapes(3))
    corners = np.array(np.meshgrid([-0.2, 0.2], [-0.3, 0.3], [-0.4, 0.4])).reshape(3, -1).T + np.array(
        [1.0, 0.2, 0.0]
    )
    ends = np.array([[1.0, -3.4, 2.0], [1.0, -2.6, 2.0]])
    expected = [
        ((vertices * [1.0, -2.0, 1.0]) @ normal + 0.5).min(),
        (corners @ normal + 0.5).min(),
        (ends @ normal + 0.5).min() - 0.3,
        np.inf,
    ]
    np.testing.assert_allclose(found.distance.numpy()[0], expected, atol=2e-6)
    np.testing.assert_allclose(found.normal.numpy()[0, :3], np.tile(normal, (3, 1)), atol=1e-6)
    turned = query.closest(query.shapes(3), query.shapes([0, 1, 2]))
    np.testing.assert_allclose(turned.normal.numpy()[0], np.tile(-normal, (3, 1)), atol=1e-6)
    np.testing.assert_array_equal(turned.point_b.numpy()[0], found.point_a.numpy()[0, :3])


def test_sheets(device):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane(pos=(0.0, 1.0, 0.0), rot=(0.0, 0.0, 0.0, 1.0), width=2.0, length=4.0)
    for x, y in ((0.0, 3.0), (0.0, -1.0), (4.0, 1.0), (0.0, 1.3)):
        builder.add_shape_sphere(-1, (x, y, 0.0), radius=0.5)
    query = query_of(builder, device)
    found = query.closest(query.shapes([1, 2, 3, 4]), query.shapes(0))
    np.testing.assert_allclose(found.distance.numpy(), [[1.5, 1.5, 2.5, -0.2]], atol=1e-5)
    np.testing.assert_allclose(
        found.normal.numpy()[0], [[0, 1, 0], [0, -1, 0], [1, 0, 0], [0, 1, 0]], atol=1e-5
    )


def chain(rng, links: int) -> newtonsim.ModelBuilder:
    """A branch of links with two shapes each, and a loose body."""
    builder = newtonsim.ModelBuilder()
    parent = -1
    for k in range(links):
        body = builder.add_body()
        builder.add_joint_revolute(
            parent, body, parent_xform=wp.transform((0.6, 0.1, 0.0), wp.quat_identity()), axis=(0.0, 0.0, 1.0)
        )
        builder.joint_q[-1] = float(rng.uniform(-0.5, 0.5))
        kinds = [SOLIDS[(k + j) % len(SOLIDS)] for j in range(2)]
        for kind in kinds:
            pose = random_pose(rng, 0.3)
            add_solid(builder, kind, rng.uniform(0.05, 0.2, 3).tolist(), pose, body=body)
        parent = body
    loose = builder.add_body(origin=wp.transform((1.0, 2.0, 0.5), wp.quat_identity()))
    add_solid(builder, GeoType.BOX, (0.3, 0.2, 0.1), random_pose(rng, 0.1), body=loose)
    add_solid(builder, GeoType.CONE, (0.3, 0.2, 0.1), random_pose(rng, 0.1), body=loose)
    builder.add_shape_box(-1, (0.0, -2.0, 0.0), hx=3.0, hy=0.5, hz=3.0)
    return builder


def test_sets_are_the_least_of_their_pairs(device):
    rng = np.random.default_rng(5)
    world = chain(rng, 5)
    builder = newtonsim.ModelBuilder()
    for w in range(3):
        builder.add_builder(world, xform=wp.transform((0.3 * w, 0.0, 0.0), wp.quat_identity()))
    builder.set_ground_plane(offset=-4.0)
    model = builder.finalize(device=device)
    state = model.state()
    # every world takes another pose
    q = model.joint_q.numpy() + rng.uniform(-0.3, 0.3, model.joint_coord_count).astype(np.float32)
    newtonsim.eval_fk(model, wp.array(q, dtype=float, device=device), model.joint_qd, None, state)
    query = newtonsim.SceneQuery(model).update(state)
    count = model.shape_count
    every = np.arange(count)
    pairs = query.closest(query.shapes(every[:, None], per_world=False), query.shapes(every, per_world=False))
    distance = pairs.distance.numpy()[0]
    owner = model.shape_world.numpy()
    strangers = (owner[:, None] != owner) & (owner[:, None] >= 0) & (owner >= 0)
    assert np.all(np.isinf(distance[strangers]))
    assert np.all(np.isfinite(distance[~strangers & ~np.eye(count, dtype=bool)]))

    def least(shapes_a, shapes_b):
        return distance[np.ix_(shapes_a, shapes_b)].min()

    bodies = query.closest(query.bodies([0, 2, 5]), query.bodies([4, 5, 1]))
    assert bodies.distance.shape == (3, 3)
    arms = query.closest(query.articulations(0), query.articulations(1))
    around = query.closest(query.articulations(0), query.surroundings())
    ground = query.closest(query.bodies(3), query.shapes(model.ground_shape, per_world=False))
    for w in range(3):
        first = model.world_body_start[w]
        on = [model.body_shapes[first + b] for b in range(6)]
        arm = [s for shapes in on[:5] for s in shapes]
        expected = [least(on[a], on[b]) for a, b in ((0, 4), (2, 5), (5, 1))]
        np.testing.assert_allclose(bodies.distance.numpy()[w], expected, atol=1e-6)
        np.testing.assert_allclose(arms.distance.numpy()[w], least(arm, on[5]), atol=1e-6)
        static = [s for s in range(count) if model.shape_body.numpy()[s] < 0 and owner[s] in (w, -1)]
        np.testing.assert_allclose(around.distance.numpy()[w], least(arm, static), atol=1e-6)
        np.testing.assert_allclose(ground.distance.numpy()[w], least(on[3], [model.ground_shape]), atol=1e-6)
        a, b = arms.shape_a.numpy()[w], arms.shape_b.numpy()[w]
        assert a in arm
        assert b in on[5]
        np.testing.assert_allclose(distance[a, b], arms.distance.numpy()[w], atol=1e-6)
    assert len(set(arms.distance.numpy().tolist())) == 3
    model.ground = False
    assert np.all(
        np.isinf(
            query.closest(query.bodies(3), query.shapes(model.ground_shape, per_world=False)).distance.numpy()
        )
    )


def test_overlap(device):
    rng = np.random.default_rng(6)
    scene = Scene()
    for kind in SOLIDS * 5:
        scene.add(kind, rng.uniform(0.2, 0.8, 3).tolist(), random_pose(rng, 1.2))
    query = query_of(scene.builder, device)
    every = np.arange(len(scene.parts))
    a, b = query.shapes(every[:, None]), query.shapes(every)
    overlap = query.overlaps(a, b).numpy()[0]
    near = query.overlaps(a, b, margin=0.1).numpy()[0]
    seen = 0
    for i in every:
        for j in range(i):
            expected = scene.distance(i, j)
            if abs(expected) > 1e-4:
                assert overlap[i, j] == (expected < 0.0)
            if abs(expected - 0.1) > 1e-4:
                assert near[i, j] == (expected < 0.1)
            seen += overlap[i, j] != near[i, j]
    assert seen > 5
    assert 50 < overlap.sum() < overlap.size - 50


def test_shapes_in_boxes(device):
    rng = np.random.default_rng(7)
    world = newtonsim.ModelBuilder()
    for kind in SOLIDS * 4:
        add_solid(world, kind, rng.uniform(0.1, 0.3, 3).tolist(), random_pose(rng, 2.0))
    builder = newtonsim.ModelBuilder()
    for w in range(2):
        builder.add_builder(world, xform=wp.transform((0.5 * w, 0.0, 0.0), wp.quat_identity()))
    builder.set_ground_plane(offset=-1.0)
    query = query_of(builder, device)
    middle = rng.uniform(-2.0, 2.0, (2, 50, 3))
    half = rng.uniform(0.0, 0.5, (2, 50, 3))
    found = query.shapes_in_boxes(middle - half, middle + half, max_shapes=12)
    lower, upper = query.shape_lower.numpy(), query.shape_upper.numpy()
    owner = query.model.shape_world.numpy()
    for w in range(2):
        for k in range(50):
            low, high = (middle - half)[w, k], (middle + half)[w, k]
            meets = np.all((lower <= high) & (upper >= low), axis=1) & ((owner == w) | (owner == -1))
            expected = np.flatnonzero(meets)
            assert found.count.numpy()[w, k] == len(expected)
            shapes = found.shape.numpy()[w, k]
            np.testing.assert_array_equal(shapes[shapes >= 0], expected[:12])
    assert found.count.numpy().max() > 3
    few = query.shapes_in_boxes((-9.0, -9.0, -9.0), (9.0, 9.0, 9.0), world=1, max_shapes=3)
    np.testing.assert_array_equal(few.shape.numpy(), [[24, 25, 26]])
    assert few.count.numpy().tolist() == [25]


def test_captured_closest_points_follow_the_bodies(device):
    builder = newtonsim.ModelBuilder()
    for k in range(2):
        body = builder.add_body(origin=wp.transform((2.0 * k, 0.0, 0.0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.5)
    model = builder.finalize(device=device)
    state, query = model.state(), newtonsim.SceneQuery(model)
    a, b = query.bodies(0), query.bodies(1)
    out = query.update(state).closest(a, b)
    with wp.ScopedCapture(device=device) as capture:
        query.update(state).closest(a, b, out=out)
    for x in (3.0, 1.2, 0.7):
        poses = np.zeros((2, 7), np.float32)
        poses[:, 6] = 1.0
        poses[1, 0] = x
        state.body_q.assign(poses)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(out.distance.numpy(), [x - 1.0], atol=1e-5)
        np.testing.assert_allclose(out.normal.numpy(), [[-1.0, 0.0, 0.0]], atol=1e-5)


@wp.kernel(enable_backward=False)
def measure_gaps(scene: SceneView, a: int, gap: wp.array(dtype=float)):
    """One thread per shape: its distance from shape a."""
    s = wp.tid()
    gap[s] = closest_on_shapes(scene, a, s, wp.inf).distance


def test_closest_points_in_own_kernels(device):
    builder = newtonsim.ModelBuilder()
    for x in (0.0, 1.5, 4.0):
        builder.add_shape_sphere(-1, (x, 0.0, 0.0), radius=0.5)
    query = query_of(builder, device)
    gap = wp.zeros(3, dtype=float, device=device)
    wp.launch(measure_gaps, 3, [query.view, 1, gap], device=device)
    np.testing.assert_allclose(gap.numpy()[[0, 2]], [0.5, 1.5], atol=1e-6)


def test_wrong_requests(device):
    world = chain(np.random.default_rng(8), 2)
    builder = newtonsim.ModelBuilder()
    builder.replicate(world, 2)
    query = query_of(builder, device)
    with pytest.raises(ModelError, match=r"bodies: each world has 0\.\.2, got 3\.\.3"):
        query.bodies(3)
    with pytest.raises(ModelError, match="whole numbers"):
        query.shapes(0.5)
    with pytest.raises(ModelError, match="cannot be broadcast together"):
        query.closest(query.bodies([0, 1]), query.bodies([0, 1, 2]))
    with pytest.raises(ModelError, match="out"):
        query.closest(query.bodies(0), query.bodies(1), out=newtonsim.queries.ClosestPoints((3,)))
    nothing = query.closest(query.bodies(0), query.bodies(0))
    assert nothing.distance.shape == (2,)


def test_degenerate_meshes(device):
    builder = newtonsim.ModelBuilder()
    square = np.array([[-1, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1], [0, 0, 0]], np.float32)
    # two triangles, one without area and a vertex of no triangle
    mesh = newtonsim.Mesh(square, [0, 2, 1, 0, 3, 2, 0, 0, 1], compute_inertia=False)
    builder.add_shape_mesh(-1, mesh=mesh, convex=False)
    builder.add_shape_sphere(-1, (0.3, 2.0, 0.2), radius=0.5)
    builder.add_shape_mesh(-1, (0.0, 5.0, 0.0), (0.0, 0.0, 0.0, 1.0), mesh, (1.0, 1.0, 0.0), convex=False)
    query = query_of(builder, device)
    found = query.closest(query.shapes([1, 1, 2]), query.shapes([0, 2, 0]))
    np.testing.assert_allclose(found.distance.numpy(), [[1.5, np.inf, np.inf]], atol=1e-5)
    assert np.all(np.isfinite(found.normal.numpy()))


def test_overlap_means_contact(device):
    """The collision pass finds points below zero distance for the pairs that overlap, and for no others."""
    rng = np.random.default_rng(9)
    world = newtonsim.ModelBuilder()
    world.default_shape_thickness = 0.0
    for kind in SOLIDS * 4:
        body = world.add_body(origin=wp.transform(*np.split(random_pose(rng, 1.0), [3])))
        add_solid(
            world, kind, rng.uniform(0.2, 0.6, 3).tolist(), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), body=body
        )
    builder = newtonsim.ModelBuilder()
    builder.replicate(world, 2)
    builder.set_ground_plane(offset=-1.0)
    model = builder.finalize(device=device)
    state = model.state()
    contacts = newtonsim.collide(model, state)
    ranges = zip(contacts.world_start.numpy(), contacts.world_count.numpy())
    used = np.concatenate([np.arange(first, first + count) for first, count in ranges])
    used = used[contacts.rigid_contact_distance.numpy()[used] < -1e-4]
    shapes = [getattr(contacts, f"rigid_contact_shape{k}").numpy()[used] for k in range(2)]
    touching = {tuple(sorted(pair)) for pair in zip(*(s.tolist() for s in shapes))}

    query = newtonsim.SceneQuery(model).update(state)
    every = np.arange(model.shape_count)
    a, b = (query.shapes(s, per_world=False) for s in (every[:, None], every))
    distance = query.closest(a, b).distance.numpy()[0]
    overlap = query.overlaps(a, b).numpy()[0]
    np.testing.assert_array_equal(overlap == 1, distance <= 0.0)
    for i in every:
        for j in range(i + 1, len(every)):
            if abs(distance[i, j] + 1e-4) > 1e-3:
                assert ((i, j) in touching) == (overlap[i, j] == 1), (i, j, distance[i, j])
    assert len(touching) > 50

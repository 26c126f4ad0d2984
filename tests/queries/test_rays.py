"""Rays agree with solids in double precision, with triangles one by one, and keep to their worlds."""

import numpy as np
import pytest
import warp as wp
from queries.solids import hull_planes, spans, triangle_hits
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.kernels.queries.rays import SceneView, cast_ray
from newtonsim.queries.prepared_segments import PreparedSegments
from newtonsim.scene.enums import GeoType

SOLIDS = [
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
    GeoType.ELLIPSOID,
]


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def add_solid(builder, kind, size, pose, **options) -> int:
    """Add a primitive of the size that its kind takes."""
    place = {"body": -1, "pos": pose[:3], "rot": pose[3:], **options}
    if kind == GeoType.SPHERE:
        return builder.add_shape_sphere(radius=size[0], **place)
    if kind == GeoType.BOX:
        return builder.add_shape_box(hx=size[0], hy=size[1], hz=size[2], **place)
    if kind == GeoType.ELLIPSOID:
        return builder.add_shape_ellipsoid(a=size[0], b=size[1], c=size[2], **place)
    add = {
        GeoType.CAPSULE: builder.add_shape_capsule,
        GeoType.CYLINDER: builder.add_shape_cylinder,
        GeoType.CONE: builder.add_shape_cone,
    }
    return add[kind](radius=size[0], half_height=size[1], **place)


def query_of(builder, device, **options) -> newtonsim.SceneQuery:
    model = builder.finalize(device=device)
    return newtonsim.SceneQuery(model, **options).update(model.state())


def random_pose(rng, reach: float) -> np.ndarray:
    return np.concatenate([rng.uniform(-reach, reach, 3), Rotation.random(random_state=rng).as_quat()])


def aimed_rays(count: int, rng, far: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Rays from a shell towards points near the origin, in the values that float32 has."""
    origins = (far * unit(rng.normal(size=(count, 3)))).astype(np.float32).astype(np.float64)
    targets = rng.uniform(-width, width, (count, 3))
    directions = unit(targets - origins).astype(np.float32).astype(np.float64)
    return origins, directions


def check_normals(kind, size, pose, points, normals, scale, planes=None):
    """A normal leads out of the solid, and no shorter way leads out: it is the gradient of the level."""
    from queries.solids import level, to_frame

    p, n = to_frame(np.asarray(pose, np.float64), points.astype(np.float64), normals.astype(np.float64))
    step = 1e-4 * scale
    gradient = np.stack(
        [
            level(kind, size, p + step * axis, planes) - level(kind, size, p - step * axis, planes)
            for axis in np.eye(3)
        ],
        axis=1,
    )
    cosine = np.einsum("ij,ij->i", unit(gradient), n)
    # at an edge either face is right
    assert np.mean(cosine > 0.999) > 0.99
    assert np.all(cosine > 0.1)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", SOLIDS, ids=lambda kind: kind.name.lower())
def test_solids(device, kind, scale):
    rng = np.random.default_rng(10 + int(kind))
    for _ in range(4):
        size = (rng.uniform(0.2, 1.0, 3) * scale).astype(np.float32).astype(np.float64)
        pose = random_pose(rng, 0.5 * scale).astype(np.float32)
        pose[3:] = unit(pose[3:])
        builder = newtonsim.ModelBuilder()
        add_solid(builder, kind, size, pose)
        query = query_of(builder, device)
        origins, directions = aimed_rays(2000, rng, 4.0 * scale, 0.7 * scale)
        origins += pose[:3]
        # some start inside
        origins[:200] = pose[:3] + rng.uniform(-0.5, 0.5, (200, 3)) * scale
        origins = origins.astype(np.float32).astype(np.float64)
        enter, leave, least = spans(kind, size, pose, origins, directions, 4.0 * scale)
        for inside in (False, True):
            hits = query.rays(origins, directions, inside=inside)
            within = (enter < 0.0) & (leave > 0.0)
            expected = np.where(enter >= 0.0, enter, np.where(within & inside, leave, np.inf))
            expected = np.where(leave < 0.0, np.inf, expected)
            clear = (np.abs(least) > 1e-5 * scale) & (np.abs(enter) > 1e-5 * scale)
            clear &= np.abs(leave) > 1e-5 * scale
            distance = hits.distance.numpy()
            np.testing.assert_array_equal((distance < np.inf)[clear], (expected < np.inf)[clear])
            both = (distance < np.inf) & (expected < np.inf)
            # where a ray grazes a curved face, the point is only known to the square root of rounding
            steep = least < -1e-3 * scale
            assert np.abs(distance[both & steep] - expected[both & steep]).max() < 5e-5 * scale
            assert both.sum() > 100
            assert clear.mean() > 0.99
        point, normal = hits.point.numpy(), hits.normal.numpy()
        np.testing.assert_allclose(
            point[both], (origins + expected[:, None] * directions)[both], atol=2e-3 * scale
        )
        check_normals(kind, size, pose, point[both & steep], normal[both & steep], scale)


def bumpy_ball(rng, subdivisions: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """A closed mesh that is not convex, outward normals."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=subdivisions)
    vertices = ball.vertices * rng.uniform(0.6, 1.0, (len(ball.vertices), 1))
    return vertices.astype(np.float32), np.asarray(ball.faces, np.int32)


@pytest.fixture(scope="module")
def mixed_scene():
    """A builder with two of each solid, a hull, a surface, a sheet and the ground; what each is."""
    rng = np.random.default_rng(5)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 1.0, 0.0))
    parts = []
    for kind in SOLIDS * 2:
        size = rng.uniform(0.2, 0.7, 3).astype(np.float32)
        pose = random_pose(rng, 2.5).astype(np.float32)
        add_solid(builder, kind, size.tolist(), pose)
        parts.append((kind, size.astype(np.float64), pose, None))
    vertices, triangles = bumpy_ball(rng)
    mesh = newtonsim.Mesh(vertices, triangles)
    scale = np.array([1.0, -0.5, 0.8], np.float32)
    for name, convex in (("hull", True), ("mesh", False)):
        pose = random_pose(rng, 2.0).astype(np.float32)
        builder.add_shape_mesh(-1, pose[:3], pose[3:], mesh, scale, convex=convex)
        parts.append((name, vertices * scale, pose, triangles))
    builder.add_shape_plane((0.0, 1.0, 0.3, 2.0), width=3.0, length=4.0)
    builder.set_ground_plane(offset=-2.5)
    return builder, parts


def nearest_of_scene(parts, origins, directions, sheet_pose):
    """Distance (rays, shapes) of each part of the mixed scene, infinite for a miss, and what is unclear."""
    columns, unclear = [], np.zeros(len(origins), bool)
    for kind, size, pose, triangles in parts:
        if kind == "mesh":
            turn = Rotation.from_quat(pose[3:].astype(np.float64))
            vertices = turn.apply(size) + pose[:3]
            t, _, rim = triangle_hits(vertices, triangles, origins, directions)
            columns.append(t.min(axis=1))
            unclear |= np.any(np.abs(rim) < 1e-5, axis=1)
        else:
            planes = hull_planes(size) if kind == "hull" else None
            enter, _, least = spans(kind, size, pose, origins, directions, 6.0, planes)
            columns.append(np.where(enter >= 0.0, enter, np.inf))
            unclear |= np.abs(least) < 1e-4
    turn = Rotation.from_quat(sheet_pose[3:])
    o, d = turn.inv().apply(origins - sheet_pose[:3]), turn.inv().apply(directions)
    t = -o[:, 1] / d[:, 1]
    p = o + t[:, None] * d
    margin = np.minimum(1.5 - np.abs(p[:, 0]), 2.0 - np.abs(p[:, 2]))
    columns.append(np.where((margin >= 0.0) & (t >= 0.0), t, np.inf))
    unclear |= np.abs(margin) < 1e-4
    t = (-2.5 - origins[:, 1]) / directions[:, 1]
    columns.append(np.where((t >= 0.0) & (directions[:, 1] < 0.0), t, np.inf))
    return np.stack(columns, axis=1), unclear


def test_ten_thousand_rays_in_a_mixed_scene(device, mixed_scene):
    rng = np.random.default_rng(6)
    builder, parts = mixed_scene
    query = query_of(builder, device)
    origins, directions = aimed_rays(10000, rng, 7.0, 3.0)
    origins[:, 1] = np.abs(origins[:, 1])
    sheet = query.model.shape_transform.numpy()[len(parts)].astype(np.float64)
    expected, unclear = nearest_of_scene(parts, origins, directions, sheet)
    hits = query.rays(origins, directions)
    distance, shape = hits.distance.numpy(), hits.shape.numpy()
    assert unclear.mean() < 0.02
    clear = ~unclear
    first = expected.min(axis=1)
    np.testing.assert_array_equal(np.isfinite(distance)[clear], np.isfinite(first)[clear])
    both = clear & np.isfinite(first)
    np.testing.assert_allclose(distance[both], first[both], atol=1e-4)
    gap = np.sort(expected, axis=1)
    apart = both & (gap[:, 1] > gap[:, 0] + 1e-3)
    np.testing.assert_array_equal(shape[apart], expected.argmin(axis=1)[apart])
    assert set(shape[both]) == set(range(len(parts) + 2))
    np.testing.assert_allclose(
        hits.point.numpy()[both], (origins + first[:, None] * directions)[both], atol=1e-4
    )


def test_hits_in_order(device, mixed_scene):
    rng = np.random.default_rng(7)
    builder, parts = mixed_scene
    query = query_of(builder, device)
    origins, directions = aimed_rays(3000, rng, 7.0, 1.5)
    sheet = query.model.shape_transform.numpy()[len(parts)].astype(np.float64)
    expected, unclear = nearest_of_scene(parts, origins, directions, sheet)
    order = np.sort(expected, axis=1)
    hits = query.rays(origins, directions, max_hits=5)
    distance = hits.distance.numpy()
    assert distance.shape == (3000, 5)
    clear = ~unclear
    # of hits kilometres away single precision does not hold a tenth of a millimetre
    np.testing.assert_allclose(distance[clear], order[clear, :5], rtol=2.0**-22, atol=1e-4)
    assert np.isfinite(order[clear, 3]).sum() > 100
    third = query.rays(origins, directions, hit_number=2)
    np.testing.assert_array_equal(third.distance.numpy(), distance[:, 2])
    np.testing.assert_array_equal(third.shape.numpy(), hits.shape.numpy()[:, 2])


def test_ties_go_by_shape(device):
    builder = newtonsim.ModelBuilder()
    for _ in range(3):
        builder.add_shape_box(-1, hx=0.5, hy=0.5, hz=0.5)
    builder.add_shape_sphere(-1, radius=0.5)
    query = query_of(builder, device)
    hits = query.rays((0.0, 3.0, 0.0), (0.0, -1.0, 0.0), max_hits=5)
    np.testing.assert_array_equal(hits.shape.numpy(), [[0, 1, 2, 3, -1]])
    np.testing.assert_allclose(hits.distance.numpy(), [[2.5, 2.5, 2.5, 2.5, np.inf]], rtol=1e-6)


@pytest.mark.parametrize(
    "scale", [(1.0, 1.0, 1.0), (2.0, 0.3, 1.0), (-1.0, 1.0, 0.5), (1e-3, 1e-3, -1e-3)], ids=str
)
@pytest.mark.parametrize("backs", [True, False])
def test_meshes(device, scale, backs):
    rng = np.random.default_rng(8)
    vertices, triangles = bumpy_ball(rng)
    vertices = vertices[:, [0, 1, 2]]
    # one half only: an open surface, seen from both sides
    triangles = triangles[vertices[triangles].mean(axis=1)[:, 1] < 0.1]
    builder = newtonsim.ModelBuilder()
    builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(vertices, triangles, compute_inertia=False), scale=scale)
    query = query_of(builder, device)
    size = np.abs(scale).max()
    origins, directions = aimed_rays(4000, rng, 3.0 * size, 1.0 * size)
    stretched = vertices.astype(np.float64) * scale
    # a mirror turns the winding of every triangle
    winding = triangles if np.prod(scale) > 0.0 else triangles[:, ::-1]
    t, cosine, rim = triangle_hits(stretched, winding, origins, directions)
    if not backs:
        t = np.where(cosine < 0.0, t, np.inf)
    clear = ~np.any((np.abs(rim) < 1e-5) | (np.abs(cosine) < 1e-4), axis=1)
    hits = query.rays(origins, directions, backs=backs)
    distance, triangle = hits.distance.numpy(), hits.triangle.numpy()
    first = t.min(axis=1)
    np.testing.assert_allclose(distance[clear], first[clear], atol=2e-5 * size)
    found = clear & np.isfinite(first)
    assert found.sum() > 300
    np.testing.assert_array_equal(triangle[found], t.argmin(axis=1)[found])
    front = np.einsum("ij,ij->i", hits.normal.numpy()[found], directions[found])
    np.testing.assert_allclose(front, cosine[found, triangle[found]], atol=1e-4)
    assert np.any(front > 0.0) == backs


def test_height_fields(device):
    rng = np.random.default_rng(9)
    heights = rng.uniform(-0.4, 0.4, (9, 12))
    field = newtonsim.Heightfield(heights, (4.0, 3.0))
    pose = random_pose(rng, 1.0).astype(np.float32)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_heightfield(-1, pose[:3], pose[3:], field, (1.0, 2.0, 1.0))
    query = query_of(builder, device)
    x, z = np.linspace(-2.0, 2.0, 12), np.linspace(-1.5, 1.5, 9)
    points = np.stack([np.tile(x, 9), 2.0 * heights.reshape(-1), np.repeat(z, 12)], axis=1)
    turn = Rotation.from_quat(pose[3:].astype(np.float64))
    # straight down onto the corners of the grid, no triangulation involved
    inner = ((np.abs(points) < [1.99, 9.0, 1.49]).all(axis=1)).nonzero()[0]
    start = turn.apply(points[inner] + [0.0, 5.0, 0.0]) + pose[:3]
    down = np.tile(turn.apply([0.0, -1.0, 0.0]), (len(inner), 1))
    hits = query.rays(start, down)
    np.testing.assert_allclose(hits.distance.numpy(), 5.0, atol=2e-4)
    assert np.all(np.einsum("ij,ij->i", hits.normal.numpy(), down) < 0.0)
    below = query.rays(start + 10.0 * down, -down)
    np.testing.assert_allclose(below.distance.numpy(), 5.0, atol=2e-4)
    assert not query.rays(start + 10.0 * down, -down, backs=False).hit.any()


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (-2.0, 0.5, 1.5), (1.0, -3.0, 1.0)])
def test_height_fields_from_above_are_their_triangles(scale, device):
    """Rays along the heights find the cell at once; they meet what the same triangles as a mesh meet."""
    rng = np.random.default_rng(11)
    field = newtonsim.Heightfield(rng.uniform(-0.4, 0.4, (6, 9)), (4.0, 3.0))
    as_field, as_mesh = newtonsim.ModelBuilder(), newtonsim.ModelBuilder()
    as_field.add_shape_heightfield(-1, heightfield=field, scale=scale)
    as_mesh.add_shape_mesh(-1, mesh=field.to_mesh(), scale=scale, key="mesh")
    reach = 0.55 * np.abs(scale) * [4.0, 0.0, 3.0]
    starts = rng.uniform(-1.0, 1.0, (400, 3)) * reach + [0.0, 3.0, 0.0]
    starts[200:, 1] = -3.0
    along = np.sign(starts[:, 1:2]) * [[0.0, -2.0, 0.0]]
    for backs in (True, False):
        hits, expected = (
            query_of(builder, device, surfaces=True).rays(starts, along, backs=backs)
            for builder in (as_field, as_mesh)
        )
        found = expected.hit
        np.testing.assert_array_equal(hits.hit, found)
        assert 100 < found.sum() < 390
        np.testing.assert_allclose(hits.distance.numpy(), expected.distance.numpy(), rtol=1e-5)
        np.testing.assert_allclose(hits.normal.numpy(), expected.normal.numpy(), atol=1e-4)
        np.testing.assert_array_equal(hits.triangle.numpy(), expected.triangle.numpy())


def two_layers(ground: bool = False) -> newtonsim.ModelBuilder:
    """A box on a body above a static one, both crossed by the y axis."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(origin=wp.transform((0.0, 3.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5)
    builder.add_shape_box(-1, hx=0.5, hy=0.5, hz=0.5)
    if ground:
        builder.set_ground_plane(offset=-1.0)
    return builder


def test_masks_and_bodies(device):
    query = query_of(two_layers(), device)
    down = ((0.0, 5.0, 0.0), (0.0, -1.0, 0.0))
    query.shape_mask.assign(np.array([1, 2], np.uint32))
    assert query.rays(*down).shape.numpy().tolist() == [0]
    assert query.rays(*down).body.numpy().tolist() == [0]
    assert query.rays(*down, mask=2).shape.numpy().tolist() == [1]
    assert query.rays(*down, mask=2).body.numpy().tolist() == [-1]
    assert query.rays(*down, mask=4).shape.numpy().tolist() == [-1]
    assert query.rays(*down, ignored_body=0).shape.numpy().tolist() == [1]
    origins = np.tile(down[0], (4, 1))
    masks = np.array([1, 2, 3, 0])
    assert query.rays(origins, down[1], mask=masks).shape.numpy().tolist() == [0, 1, 0, -1]
    bodies = np.array([-1, 0, -1, 0])
    assert query.rays(origins, down[1], ignored_body=bodies).shape.numpy().tolist() == [0, 1, 0, 1]


def test_the_ground_can_be_off(device):
    query = query_of(two_layers(ground=True), device)
    down = ((3.0, 5.0, 0.0), (0.0, -2.0, 0.0))
    assert query.rays(*down).shape.numpy().tolist() == [2]
    assert query.rays(*down).distance.numpy().tolist() == [6.0]
    query.model.ground = False
    assert not query.rays(*down).hit.any()
    query.model.ground = True
    assert query.rays(*down).hit.all()


def test_what_collides_with_nothing_is_seen_on_request(device):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sphere(-1, radius=0.5, has_ground_collision=False, has_shape_collision=False)
    ray = ((0.0, 2.0, 0.0), (0.0, -1.0, 0.0))
    assert not query_of(builder, device).rays(*ray).hit.any()
    assert query_of(builder, device, visual=True).rays(*ray).hit.all()


def test_hulls_and_surfaces(device):
    # an L: its hull fills the corner
    import trimesh

    parts = [trimesh.creation.box(bounds=b) for b in ([[0, 0, 0], [2, 1, 1]], [[0, 1, 0], [1, 2, 1]])]
    corner = trimesh.util.concatenate(parts)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(corner.vertices, corner.faces), convex=True)
    ray = ((1.5, 5.0, 0.5), (0.0, -1.0, 0.0))
    np.testing.assert_allclose(query_of(builder, device).rays(*ray).distance.numpy(), [3.5], atol=1e-5)
    as_it_is = query_of(builder, device, surfaces=True).rays(*ray)
    np.testing.assert_allclose(as_it_is.distance.numpy(), [4.0], atol=1e-5)


def test_rays_stay_in_their_world(device):
    world = newtonsim.ModelBuilder()
    body = world.add_body()
    world.add_shape_sphere(body, radius=0.5)
    builder = newtonsim.ModelBuilder()
    # each world lies elsewhere, so that a ray into the place of another finds nothing
    for w in range(4):
        builder.add_builder(world, xform=wp.transform((3.0 * w, 0.0, 0.0), wp.quat_identity()))
    builder.set_ground_plane(offset=-1.0)
    query = query_of(builder, device)
    x = np.arange(4) * 3.0
    origins = np.tile(np.stack([x, np.full(4, 2.0), np.zeros(4)], axis=1), (4, 1, 1))
    hits = query.rays(origins, (0.0, -1.0, 0.0))
    expected = np.where(np.eye(4, dtype=bool), np.arange(4)[:, None], query.model.ground_shape)
    np.testing.assert_array_equal(hits.shape.numpy(), expected)
    np.testing.assert_allclose(hits.distance.numpy(), np.where(np.eye(4), 1.5, 3.0), rtol=1e-6)
    chosen = query.rays(origins[0], (0.0, -1.0, 0.0), world=[3, 1, -1, 3])
    np.testing.assert_array_equal(chosen.shape.numpy(), [4, 1, 4, 3])
    one = query.rays(origins[0], (0.0, -1.0, 0.0), world=2)
    np.testing.assert_array_equal(one.shape.numpy(), [4, 4, 2, 4])
    with pytest.raises(ModelError, match="4 worlds"):
        query.rays(origins[0, :2], (0.0, -1.0, 0.0))
    with pytest.raises(ModelError, match="world"):
        query.rays(origins[0], (0.0, -1.0, 0.0), world=4)


def test_directions_of_any_length(device):
    query = query_of(two_layers(), device)
    for length in (1e-6, 0.5, 1.0, 1e6):
        hits = query.rays((0.0, 5.0, 0.0), (0.0, -length, 0.0))
        np.testing.assert_allclose(hits.distance.numpy(), [1.5], rtol=1e-6)
        np.testing.assert_allclose(hits.fraction.numpy(), [1.5 / length], rtol=1e-6)
    with pytest.raises(ModelError, match="entry 1 has length zero"):
        query.rays(np.zeros((2, 3)), [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ModelError, match="not finite"):
        query.rays((0.0, np.nan, 0.0), (0.0, 1.0, 0.0))
    with pytest.raises(ModelError, match="max_distance"):
        query.rays((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), max_distance=np.nan)
    with pytest.raises(ModelError, match="mask"):
        query.rays((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), mask=-1)
    with pytest.raises(ModelError, match="ignored_body"):
        query.rays((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), ignored_body=1)
    with pytest.raises(ModelError, match="cannot be broadcast together"):
        query.rays(np.zeros((2, 3)), np.ones((3, 3)))
    hits = query.rays(wp.zeros(2, dtype=wp.vec3, device=device), wp.zeros(2, dtype=wp.vec3, device=device))
    assert not hits.hit.any()


def test_segments_end(device):
    query = query_of(two_layers(), device)
    start = np.tile([0.0, 5.0, 0.0], (4, 1))
    ends = [[0.0, 3.6, 0.0], [0.0, 3.4, 0.0], [0.0, 5.0, 0.0], [0.0, -10.0, 0.0]]
    hits = query.segments(start, ends)
    np.testing.assert_array_equal(hits.hit, [False, True, False, True])
    np.testing.assert_allclose(hits.fraction.numpy()[[1, 3]], [1.5 / 1.6, 0.1], rtol=1e-5)
    assert not query.rays(start, (0.0, -1.0, 0.0), max_distance=1.49).hit.any()
    assert query.rays(start, (0.0, -1.0, 0.0), max_distance=1.51).hit.all()


def test_planes(device):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane(pos=(0.0, 1.0, 0.0), rot=(0.0, 0.0, 0.0, 1.0), width=2.0, length=4.0)
    builder.set_ground_plane(offset=0.0)
    query = query_of(builder, device)
    up, down = (0.0, 1.0, 0.0), (0.0, -1.0, 0.0)
    assert query.rays((0.9, 2.0, 1.9), down).shape.numpy() == [0]
    assert query.rays((1.1, 2.0, 1.9), down).shape.numpy() == [1]
    assert query.rays((0.9, 2.0, 2.1), down).shape.numpy() == [1]
    assert query.rays((0.9, 0.5, 0.0), up).shape.numpy() == [0]
    assert not query.rays((0.9, 0.5, 0.0), up, backs=False).hit.any()
    # from below the ground, which is solid, one sees the sheet, or the ground from within on request
    assert query.rays((0.0, -1.0, 0.0), up).shape.numpy() == [0]
    assert query.rays((0.0, -1.0, 0.0), up, inside=True).shape.numpy() == [1]
    assert query.rays((5.0, 1.0, 0.0), (1.0, 0.0, 0.0)).shape.numpy() == [-1]


def test_rays_along_faces_and_axes(device):
    """Grazing rays: never a NaN, and a hit only where the ray touches."""
    builder = newtonsim.ModelBuilder()
    for k, kind in enumerate(SOLIDS):
        add_solid(builder, kind, (0.5, 0.5, 0.5), np.array([4.0 * k, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    query = query_of(builder, device)
    centres = 4.0 * np.arange(len(SOLIDS))
    for axis in np.concatenate([np.eye(3), -np.eye(3)]):
        for offset in (0.0, 0.5, 0.5001, 0.4999):
            side = np.roll(np.abs(axis), 1) * offset
            hits = query.rays(
                np.stack([[x, 0, 0] - 1.9 * axis + side for x in centres]), axis, max_distance=3.0
            )
            distance = hits.distance.numpy()
            assert not np.isnan(distance).any()
            assert not np.isnan(hits.normal.numpy()).any()
            if offset == 0.0:
                assert np.all(np.isfinite(distance))
            if offset == 0.5001:
                # capsules reach farther along their own axis
                reaching = np.array([k == GeoType.CAPSULE and abs(side[1]) > 0 for k in SOLIDS])
                np.testing.assert_array_equal(np.isfinite(distance), reaching)


def test_flat_and_tiny_shapes(device):
    builder = newtonsim.ModelBuilder()
    square = np.array([[-1, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1]], np.float32)
    flat = newtonsim.Mesh(square, [0, 2, 1, 0, 3, 2], compute_inertia=False)
    builder.add_shape_mesh(-1, mesh=flat, convex=True)
    builder.add_shape_mesh(-1, (5.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), flat, convex=False)
    builder.add_shape_sphere(-1, (10.0, 0.0, 0.0), radius=0.0)
    builder.add_shape_box(-1, (15.0, 0.0, 0.0), hx=1.0, hy=0.0, hz=1.0)
    builder.add_shape_cylinder(-1, (20.0, 0.0, 0.0), radius=1.0, half_height=0.0)
    builder.add_shape_cone(-1, (25.0, 0.0, 0.0), radius=1.0, half_height=0.0)
    builder.add_shape_ellipsoid(-1, (30.0, 0.0, 0.0), a=1.0, b=0.0, c=1.0)
    builder.add_shape_mesh(-1, (35.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), flat, (1.0, 1.0, 0.0), convex=False)
    query = query_of(builder, device)
    x = 5.0 * np.arange(8)
    seen = np.array([True, True, False, True, True, True, True, False])
    origins = np.stack([x + 0.6, np.full(8, 2.0), np.full(8, 0.6)], axis=1)
    hits = query.rays(origins, (0.0, -1.0, 0.0))
    np.testing.assert_allclose(hits.distance.numpy()[seen], 2.0, atol=1e-4)
    assert not hits.hit[~seen].any()
    assert not np.isnan(hits.normal.numpy()).any()
    outside = query.rays(origins + np.array([0.5, 0.0, 0.0]), (0.0, -1.0, 0.0))
    assert not outside.hit.any()


def test_captured_rays_follow_the_bodies(device):
    query = query_of(two_layers(), device)
    state = query.model.state()
    origins = wp.array([[0.0, 9.0, 0.0], [4.0, 9.0, 0.0]], dtype=wp.vec3, device=device)
    directions = wp.array([[0.0, -1.0, 0.0]] * 2, dtype=wp.vec3, device=device)
    out = newtonsim.queries.RayHits((2,), device=device)
    query.update(state).rays(origins, directions, out=out)
    with wp.ScopedCapture(device=device) as capture:
        query.update(state)
        query.rays(origins, directions, out=out)
    for x, expected in ((0.0, [5.5, np.inf]), (4.0, [8.5, 5.5])):
        state.body_q.assign(np.array([[x, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0]], np.float32))
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(out.distance.numpy(), expected, rtol=1e-6)


@wp.kernel(enable_backward=False)
def measure_heights(scene: SceneView, places: wp.array(dtype=wp.vec3), height: wp.array(dtype=float)):
    """One thread per place: height above what lies below."""
    i = wp.tid()
    down = wp.vec3(0.0, -1.0, 0.0)
    hit = cast_ray(scene, 0, places[i], down, 100.0, wp.uint32(1), -1, 0)
    height[i] = hit.distance


def test_rays_in_own_kernels(device):
    query = query_of(two_layers(), device)
    places = wp.array([[0.0, 5.0, 0.0], [0.0, 2.0, 0.0], [2.0, 2.0, 0.0]], dtype=wp.vec3, device=device)
    height = wp.zeros(3, dtype=float, device=device)
    wp.launch(measure_heights, 3, [query.view, places, height], device=device)
    np.testing.assert_allclose(height.numpy(), [1.5, 1.5, np.inf], rtol=1e-6)


def test_a_model_without_shapes(device):
    builder = newtonsim.ModelBuilder()
    builder.add_body(mass=1.0, I_m=wp.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0))
    query = query_of(builder, device)
    assert not query.rays(np.zeros((3, 3)), (0.0, 1.0, 0.0)).hit.any()
    assert np.all(np.isinf(query.body_lower.numpy()))


def test_far_from_the_origin(device):
    builder = newtonsim.ModelBuilder()
    place = np.array([1000.0, 500.0, -2000.0])
    builder.add_shape_sphere(-1, place, radius=0.5)
    query = query_of(builder, device)
    hits = query.rays(place + np.array([0.0, 2.0, 0.0]), (0.0, -1.0, 0.0))
    np.testing.assert_allclose(hits.distance.numpy(), [1.5], atol=3e-4)


def test_prepared_segments_are_the_same(device):
    """Segments that were prepared in parts hit what the same segments hit otherwise, bit by bit."""
    builder = newtonsim.ModelBuilder()
    for k in range(5):
        body = builder.add_body(origin=wp.transform((0.4 * k, 0.1 * k, 0.0), wp.quat_identity()))
        builder.add_shape_box(body, hx=0.3, hy=0.5, hz=0.8)
    worlds = newtonsim.ModelBuilder()
    worlds.replicate(builder, 2)
    model = worlds.finalize(device=device)
    query = newtonsim.SceneQuery(model).update(model.state())
    rng = np.random.default_rng(5)
    starts, ends = rng.uniform(-1.0, 1.0, (2, 2, 50, 3)).astype(np.float32)
    starts[..., 0] -= 2.0
    ends[..., 0] += 3.0
    prepared = PreparedSegments(query, 100, 3, skip=1, max_hits=2)
    prepared.starts.assign(starts.reshape(-1, 3))
    prepared.ends.assign(ends.reshape(-1, 3))
    for part in prepared.parts:
        part.launch()
    hits = query.segments(starts, ends, hit_number=1, max_hits=2)
    assert (hits.shape.numpy() >= 0).sum() > 5
    for name in ("shape", "fraction", "point", "normal"):
        found = getattr(prepared.hits, name).numpy()
        assert np.array_equal(found, getattr(hits, name).numpy().reshape(found.shape))

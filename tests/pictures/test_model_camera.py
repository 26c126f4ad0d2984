"""Cameras of models: all shapes, lenses, mounts, worlds and particles against rays in double precision."""

import numpy as np
import pytest
import warp as wp
from queries.solids import spans, to_frame, triangle_hits
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.render import (
    SEEN_NOTHING,
    SEEN_PARTICLE,
    SEEN_SPRING,
    SEEN_STATIC,
    SEEN_SURFACE,
    Camera,
    Fisheye,
    Lighting,
    Pinhole,
    look_at,
)
from newtonsim.scene.enums import GeoType

DEPTH = 1.0e-4
"""Error of depths [m]."""

ALL = ("rgb", "rgba", "depth", "depth_gl", "distance", "normal", "shape", "body", "joint", "label")
SIZES = {
    GeoType.SPHERE: (0.5, 0.0, 0.0),
    GeoType.BOX: (0.3, 0.5, 0.4),
    GeoType.CAPSULE: (0.25, 0.4, 0.0),
    GeoType.CYLINDER: (0.4, 0.3, 0.0),
    GeoType.CONE: (0.4, 0.5, 0.0),
    GeoType.ELLIPSOID: (0.3, 0.6, 0.4),
}
FIELD_NORMAL = np.array([0.2, 1.0, 0.1]) / np.linalg.norm([0.2, 1.0, 0.1])
SHEET = np.array([1.2, 0.8])


class SlopeField(newtonsim.SDF):
    """The distance from a plane through the middle of a cube, which interpolation does not change."""

    def __init__(self, device):
        place = np.linspace(-0.5, 0.5, 11)
        grid = np.stack(np.meshgrid(place, place, place, indexing="ij"), axis=-1)
        values = (grid @ FIELD_NORMAL).astype(np.float32)
        volume = wp.Volume.load_from_numpy(values, (-0.5, -0.5, -0.5), 0.1, 1.0, device=device)
        super().__init__(volume)

    def bounds(self):
        return np.full(3, -0.5), np.full(3, 0.5)


def pinhole_directions(pose, width, height, fx, fy, cx, cy) -> np.ndarray:
    """Directions (height * width, 3) with a part of 1 along the view axis."""
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    local = np.stack([(u - cx) / fx, -(v - cy) / fy, -np.ones_like(u)], -1).reshape(-1, 3)
    return Rotation.from_quat(pose[3:]).apply(local)


def fisheye_directions(pose, width, height, f, cx, cy) -> tuple[np.ndarray, np.ndarray]:
    """Unit directions (height * width, 3) of an equidistant lens, and their angles from the axis."""
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    x, y = (u - cx).ravel(), -(v - cy).ravel()
    theta, phi = np.hypot(x, y) / f, np.arctan2(y, x)
    local = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), -np.cos(theta)], -1)
    return Rotation.from_quat(pose[3:]).apply(local), theta


def lumpy_ball() -> newtonsim.Mesh:
    points = np.random.default_rng(2).normal(size=(30, 3))
    points *= 0.5 / np.linalg.norm(points, axis=1, keepdims=True)
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    faces = hull.simplices
    inward = np.einsum(
        "ij,ij->i", np.cross(*np.diff(points[faces], axis=1).swapaxes(0, 1)), points[faces[:, 0]]
    )
    return newtonsim.Mesh(points, np.where(inward[:, None] < 0.0, faces[:, ::-1], faces))


def every_shape(device: str):
    """A model of a shape of each kind, and for each a function that returns hits and how sure they are."""
    rng = np.random.default_rng(0)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    casts = []

    def place() -> np.ndarray:
        k = len(casts)
        spot = (1.5 * (k % 4 - 1.5), 1.5 * (k // 4 - 1.0), 0.9)
        return np.concatenate([spot, Rotation.random(random_state=rng).as_quat()])

    def solid(kind, size, pose):
        def cast(origins, units):
            enter, _, least = spans(kind, np.array(size), pose, origins, units, 30.0)
            return enter, np.abs(least) > 1.0e-3

        return cast

    def triangles(points, faces, pose, backs):
        world = Rotation.from_quat(pose[3:]).apply(points) + pose[:3]

        def cast(origins, units):
            t, facing, rim = triangle_hits(world, faces, origins, units)
            seen = backs | (facing < 0.0)
            sure = np.min(np.where(seen, np.abs(rim), 1.0), axis=1) > 1.0e-3
            return np.where(seen, t, np.inf).min(axis=1), sure

        return cast

    def sheet(origins, units, pose):
        o, d = to_frame(pose, origins, units)
        t = -o[:, 1] / d[:, 1]
        over = np.abs((o + t[:, None] * d)[:, ::2]) - 0.5 * SHEET
        return np.where((t > 0.0) & (over < 0.0).all(axis=1), t, np.inf), np.abs(over).min(axis=1) > 1.0e-3

    def field(origins, units, pose):
        enter, leave, least = spans(GeoType.BOX, np.full(3, 0.5), pose, origins, units, 30.0)
        o, d = to_frame(pose, origins, units)
        t = -(o @ FIELD_NORMAL) / (d @ FIELD_NORMAL)
        start = np.einsum("ij,j->i", o + np.where(np.isfinite(enter), enter, 0.0)[:, None] * d, FIELD_NORMAL)
        hit = (least < 0.0) & (start > 0.0) & (t > enter) & (t < leave)
        sure = (np.abs(least) > 1.0e-2) & (np.abs(start) > 1.0e-2) & (np.abs(t - leave) > 1.0e-2)
        return np.where(hit, t, np.inf), sure

    add = {
        GeoType.SPHERE: lambda s, **at: builder.add_shape_sphere(radius=s[0], **at),
        GeoType.BOX: lambda s, **at: builder.add_shape_box(hx=s[0], hy=s[1], hz=s[2], **at),
        GeoType.CAPSULE: lambda s, **at: builder.add_shape_capsule(radius=s[0], half_height=s[1], **at),
        GeoType.CYLINDER: lambda s, **at: builder.add_shape_cylinder(radius=s[0], half_height=s[1], **at),
        GeoType.CONE: lambda s, **at: builder.add_shape_cone(radius=s[0], half_height=s[1], **at),
        GeoType.ELLIPSOID: lambda s, **at: builder.add_shape_ellipsoid(a=s[0], b=s[1], c=s[2], **at),
    }
    for kind, size in SIZES.items():
        pose = place()
        body = builder.add_body(origin=tuple(pose))
        add[kind](size, body=body)
        casts.append(solid(kind, size, pose))
    mesh, scale, pose = lumpy_ball(), np.array((1.0, 1.3, 0.8)), place()
    builder.add_shape_mesh(builder.add_body(origin=tuple(pose)), mesh=mesh, scale=scale)
    casts.append(triangles(mesh.vertices * scale, mesh.indices.reshape(-1, 3), pose, False))
    terrain, pose = newtonsim.Heightfield(0.2 * rng.normal(size=(5, 6)), (1.2, 1.0)), place()
    builder.add_shape_heightfield(-1, pose[:3], pose[3:], terrain)
    ground = terrain.to_mesh()
    casts.append(triangles(ground.vertices, ground.indices.reshape(-1, 3), pose, True))
    pose = place()
    builder.add_shape_plane(body=-1, pos=pose[:3], rot=pose[3:], width=SHEET[0], length=SHEET[1])
    casts.append(lambda o, d, pose=pose: sheet(o, d, pose))
    pose = place()
    pose[3:] = Rotation.from_euler("xz", [70.0, 20.0], degrees=True).as_quat()
    builder.add_shape_sdf(-1, pose[:3], pose[3:], SlopeField(device))
    casts.append(lambda o, d, pose=pose: field(o, d, pose))
    builder.set_ground_plane()
    with np.errstate(divide="ignore"):
        casts.append(
            lambda o, d: (np.where(d[:, 2] < 0.0, -o[:, 2] / d[:, 2], np.inf), np.abs(d[:, 2]) > 1e-3)
        )
    return builder.finalize(device=device), casts


def nearest(casts, origin, units):
    """First hit of rays from a point: distance, shape, and whether it is sure."""
    origins = np.broadcast_to(origin, units.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        t, sure = (np.stack(rows) for rows in zip(*(cast(origins, units) for cast in casts), strict=True))
    t[t < 0.01] = np.inf
    first = t.min(axis=0)
    # a shape of which the hit is not sure does no harm behind the first one that is
    return first, np.where(np.isfinite(first), t.argmin(axis=0), SEEN_NOTHING), sure.all(axis=0)


def test_every_shape_through_both_lenses(device: str):
    model, casts = every_shape(device)
    width, height, eye = 96, 72, look_at((5.0, -5.5, 4.0), (0.0, 0.0, 0.6))
    lenses = [
        Pinhole(fx=80.0, fy=90.0, cx=50.0, cy=30.0, far=40.0),
        Fisheye(200.0, fx=22.0, cx=45.0, far=40.0),
    ]
    outputs = [name for name in ALL if name != "depth_gl"]
    camera = Camera(model, width, height, pose=eye, lens=lenses, outputs=outputs)
    images = {name: array.numpy()[0].copy() for name, array in camera.render(model.state()).items()}
    slanted = pinhole_directions(eye, width, height, 80.0, 90.0, 50.0, 30.0)
    round_rays, theta = fisheye_directions(eye, width, height, 22.0, 45.0, 36.0)
    axis = Rotation.from_quat(eye[3:]).apply((0.0, 0.0, -1.0))
    for k, rays in enumerate((slanted, round_rays)):
        length = np.linalg.norm(rays, axis=1)
        t, shape, sure = nearest(casts, eye[:3], rays / length[:, None])
        reach = (t / length if k == 0 else t) < 40.0
        reach &= np.abs(theta - np.radians(100.0)) > 1.0e-3
        blind = np.zeros_like(sure) if k == 0 else theta > np.radians(100.0)
        shape = np.where(blind | ~reach, SEEN_NOTHING, shape)
        seen = shape != SEEN_NOTHING
        assert set(np.unique(shape[sure])) >= set(range(len(casts)))
        assert sure.mean() > 0.9
        np.testing.assert_array_equal(images["shape"][k].ravel()[sure], shape[sure])
        both = seen & sure
        slack = DEPTH * np.maximum(1.0, t[both] / 5.0) ** 2
        distance, depth = images["distance"][k].ravel(), images["depth"][k].ravel()
        assert np.all(np.abs(distance[both] - t[both]) < slack)
        assert np.all(np.abs(depth[both] - t[both] * (rays[both] @ axis) / length[both]) < slack)
        assert np.all(np.isinf(distance[sure & ~seen]))
        body = model.shape_body.numpy()
        expected = np.where(seen, np.where(body[shape] < 0, SEEN_STATIC, body[shape]), SEEN_NOTHING)
        for name in ("body", "joint", "label"):
            np.testing.assert_array_equal(images[name][k].ravel()[sure], expected[sure])
    np.testing.assert_array_equal(images["rgb"], images["rgba"][..., :3])


def test_normals_are_those_of_the_surfaces(device: str):
    """Of a ball in closed form; of all shapes against differences of the distances of neighbouring rays."""
    model, casts = every_shape(device)
    eye = look_at((5.0, -5.5, 4.0), (0.0, 0.0, 0.6))
    camera = Camera(model, 96, 72, pose=eye, outputs=("distance", "normal", "shape"))
    images = {name: array.numpy()[0, 0].copy() for name, array in camera.render(model.state()).items()}
    focal = 36.0 / np.tan(np.radians(30.0))
    rays = pinhole_directions(eye, 96, 72, focal, focal, 48.0, 36.0)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    normal, shape = images["normal"].reshape(-1, 3), images["shape"].ravel()
    points = eye[:3] + images["distance"].reshape(-1, 1) * rays
    ball = shape == 0
    centre = model.body_q.numpy()[0, :3]
    np.testing.assert_allclose(normal[ball], (points[ball] - centre) / SIZES[GeoType.SPHERE][0], atol=1.0e-3)
    seen = shape >= 0
    np.testing.assert_allclose(np.linalg.norm(normal[seen], axis=1), 1.0, atol=1.0e-5)
    # those of triangles are smooth, and may look away at a rim
    solid = seen & ~np.isin(shape, (6, 7))
    assert np.all(np.einsum("ij,ij->i", normal[solid], rays[solid]) < 1.0e-6)
    assert np.all(normal[~seen] == 0.0)
    # flat shapes: the differences between neighbours lie in the surface
    step = 1.0e-3
    flat = np.isin(shape, (1, 8, 9, len(casts) - 1))
    for side in ((step, 0.0, 0.0), (0.0, step, 0.0), (0.0, 0.0, step)):
        other = rays + side
        other /= np.linalg.norm(other, axis=1, keepdims=True)
        t, first, _ = nearest(casts, eye[:3], other)
        same = flat & (first == shape) & (images["distance"].ravel() < 20.0)
        chord = eye[:3] + t[same, None] * other[same] - points[same]
        slope = np.einsum("ij,ij->i", chord, normal[same]) / np.linalg.norm(chord, axis=1)
        assert np.mean(np.abs(slope) < 0.05) > 0.98
        assert same.sum() > 500


def test_depth_as_in_opengl(device: str):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_box(-1, pos=(0.0, 0.0, -6.0), hx=9.0, hy=1.0, hz=1.0)
    model = builder.finalize(device=device)
    for near, far in ((0.5, 20.0), (0.1, np.inf)):
        lens = Pinhole(90.0, near=near, far=far)
        images = Camera(
            model, 9, 9, pose=(0, 0, 0, 0, 0, 0, 1), lens=lens, outputs=("depth", "depth_gl")
        ).render(model.state())
        wanted = (1.0 / near - 1.0 / 5.0) / (1.0 / near - 1.0 / far)
        assert images["depth_gl"].numpy()[0, 0, 4, 4] == pytest.approx(wanted, abs=1.0e-6)
        assert images["depth"].numpy()[0, 0, 4, 4] == pytest.approx(5.0, abs=1.0e-5)
        assert images["depth_gl"].numpy()[0, 0, 0, 0] == 1.0


def carried_builder() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for name, place in (("eye", (0.0, 0.0, 1.0)), ("other", (2.0, 0.0, 1.0))):
        body = builder.add_body(origin=(*place, 0.0, 0.0, 0.0, 1.0), key=name)
        builder.add_shape_box(body, hx=0.3, hy=0.2, hz=0.4)
    return builder


def random_state(model, seed: int):
    state, rng = model.state(), np.random.default_rng(seed)
    poses = state.body_q.numpy()
    poses[:, :3] += rng.uniform(-0.4, 0.4, (len(poses), 3))
    poses[:, 3:] = (Rotation.random(len(poses), rng) * Rotation.identity()).as_quat()
    state.body_q.assign(poses)
    return state


def test_mounted_cameras_in_many_worlds(device: str):
    """They show what a camera at the same place in the world does, in a model of that world alone."""
    alone, many = carried_builder(), newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for builder in (alone, many):
        builder.set_ground_plane()
    many.replicate(carried_builder(), 3, spacing=(0.0, 0.0, 0.0))
    model = many.finalize(device=device)
    state = random_state(model, 3)
    mounts = np.stack([look_at((0.5, 0.0, 0.2), (2.0, 0.3, 0.0)), look_at((3.0, 1.0, 2.0), (0.0, 0.0, 1.0))])
    names = ("rgb", "depth", "normal", "label")
    lenses = [Pinhole(80.0), Fisheye(220.0)]
    camera = Camera(model, 40, 30, pose=mounts, body=["eye", None], lens=lenses, outputs=names)
    images = camera.render(state)
    single = alone.finalize(device=device)
    poses = state.body_q.numpy().reshape(3, 2, 7)
    for world in range(3):
        twin = single.state()
        twin.body_q.assign(poses[world])
        turn = Rotation.from_quat(poses[world, 0, 3:])
        where = turn.apply(mounts[0, :3]) + poses[world, 0, :3]
        carried = np.concatenate([where, (turn * Rotation.from_quat(mounts[0, 3:])).as_quat()])
        fixed = Camera(single, 40, 30, pose=np.stack([carried, mounts[1]]), lens=lenses, outputs=names)
        pictures = fixed.render(twin)
        label = [images["label"].numpy()[world], pictures["label"].numpy()[0]]
        assert np.mean(label[0] != label[1]) < 2.0e-3
        assert set(np.unique(label[0])) == {SEEN_NOTHING, SEEN_STATIC, 0, 1}
        same = (label[0] == label[1]) & np.isfinite(pictures["depth"].numpy()[0])
        depth = pictures["depth"].numpy()[0][same]
        error = np.abs(images["depth"].numpy()[world][same] - depth) / np.maximum(np.abs(depth), 1.0) ** 2
        assert np.quantile(error, 0.99) < DEPTH
        # what is fixed sees the very same
        for name in names:
            np.testing.assert_array_equal(images[name].numpy()[world, 1], pictures[name].numpy()[0, 1])
    chosen = Camera(model, 40, 30, pose=mounts, body=["eye", None], lens=lenses, outputs=names, worlds=[2, 0])
    for name, array in chosen.render(state).items():
        np.testing.assert_array_equal(array.numpy(), images[name].numpy()[[2, 0]])


def soft_builder() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_cloth_grid((-1.0, -1.0, 0.0), (0, 0, 0, 1), (0, 0, 0), 6, 6, 0.3, 0.3, 0.01, add_springs=True)
    first = builder.particle_count
    for k in range(20):
        builder.add_particle((0.15 * k - 1.5, 1.6, 0.4), (0, 0, 0), 0.01, radius=0.06)
    for k in range(8, 13):
        builder.add_spring(first + k, first + k + 1, 1.0, 0.0, 0)
    return builder


def test_particles_in_many_worlds(device: str):
    """Cloth, grains and a rope against triangles, balls and capsules in double precision."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(soft_builder(), 2, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device)
    state, rng = model.state(), np.random.default_rng(1)
    points = state.particle_q.numpy()
    points += rng.uniform(-0.07, 0.07, points.shape).astype(np.float32)
    eye = look_at((0.5, -2.5, 3.0), (0.0, 0.3, 0.1))
    camera = Camera(model, 96, 72, pose=eye, outputs=("rgb", "distance", "shape"))
    state.particle_q.assign(points)
    images = camera.render(state)
    focal = 36.0 / np.tan(np.radians(30.0))
    rays = pinhole_directions(eye, 96, 72, focal, focal, 48.0, 36.0)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    origins = np.broadcast_to(eye[:3], rays.shape)
    faces, per_world = model.tri_indices.numpy().reshape(2, -1, 3), len(points) // 2
    for world in range(2):
        t, _, rim = triangle_hits(points, faces[world], origins, rays)
        hits, kinds, sure = [t.min(axis=1)], [SEEN_SURFACE], [np.abs(rim).min(axis=1) > 1.0e-3]
        loose = points[world * per_world : (world + 1) * per_world][-20:].astype(np.float64)
        for k, centre in enumerate(loose):
            pose = np.concatenate([centre, (0, 0, 0, 1)])
            enter, _, least = spans(GeoType.SPHERE, (0.06, 0.0, 0.0), pose, origins, rays, 10.0)
            hits.append(enter), kinds.append(SEEN_PARTICLE), sure.append(np.abs(least) > 1.0e-3)
            if 8 <= k < 13:
                along = loose[k + 1] - centre
                turn = Rotation.align_vectors([along], [(0, 1, 0)])[0].as_quat()
                pose = np.concatenate([centre + 0.5 * along, turn])
                size = (0.03, 0.5 * np.linalg.norm(along), 0.0)
                enter, _, least = spans(GeoType.CAPSULE, size, pose, origins, rays, 10.0)
                hits.append(enter), kinds.append(SEEN_SPRING), sure.append(np.abs(least) > 1.0e-3)
        t, sure = np.stack(hits), np.all(sure, axis=0)
        wanted = np.where(np.isfinite(t.min(axis=0)), np.array(kinds)[t.argmin(axis=0)], SEEN_NOTHING)
        assert set(wanted[sure]) == {SEEN_NOTHING, SEEN_SURFACE, SEEN_PARTICLE, SEEN_SPRING}
        np.testing.assert_array_equal(images["shape"].numpy()[world].ravel()[sure], wanted[sure])
        both = sure & (wanted != SEEN_NOTHING)
        error = images["distance"].numpy()[world].ravel()[both] - t.min(axis=0)[both]
        assert np.abs(error).max() < DEPTH


def test_soft_body_shows_its_surface_alone(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_soft_grid(
        (-0.5, -0.5, 0.0), (0, 0, 0, 1), (0, 0, 0), 2, 2, 2, 0.5, 0.5, 0.5, 10.0, 1e3, 1e3, 0.0
    )
    model = builder.finalize(device=device)
    eye = look_at((0.0, 0.0, 4.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    images = Camera(model, 40, 40, pose=eye, lens=Pinhole(40.0), outputs=("depth", "shape")).render(
        model.state()
    )
    seen = images["shape"].numpy()[0, 0] == SEEN_SURFACE
    # the top, 1 m wide at a depth of 3 m
    u = (np.arange(40) - 19.5) / 20.0 * np.tan(np.radians(20.0)) * 3.0
    np.testing.assert_array_equal(seen, (np.abs(u) < 0.5) & (np.abs(u) < 0.5)[:, None])
    np.testing.assert_allclose(images["depth"].numpy()[0, 0][seen], 3.0, atol=DEPTH)


def test_graph_and_torch_see_the_same(device: str):
    torch = pytest.importorskip("torch")
    model = carried_builder().finalize(device=device)
    eye = look_at((3.0, 1.0, 2.0), (1.0, 0.0, 1.0))
    camera = Camera(model, 48, 32, pose=eye, outputs=ALL, threads=1)
    state = random_state(model, 0)
    with wp.ScopedCapture(device=device) as capture:
        camera.render(state)
    for seed in (1, 2):
        state.assign(random_state(model, seed))
        wp.capture_launch(capture.graph)
        graph = {name: array.numpy().copy() for name, array in camera.images.items()}
        eager = Camera(model, 48, 32, pose=eye, outputs=ALL).render(state)
        for name in ALL:
            np.testing.assert_array_equal(graph[name], eager[name].numpy())
    tensor = wp.to_torch(camera.images["rgb"])
    assert tensor.shape == (1, 1, 32, 48, 3)
    assert tensor.dtype == torch.uint8
    assert tensor.data_ptr() == camera.images["rgb"].ptr


def test_a_broken_world_spoils_no_other(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(carried_builder(), 2, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device)
    camera = Camera(model, 32, 24, pose=look_at((3.0, 1.0, 2.0), (1.0, 0.0, 1.0)), outputs=("rgb", "shape"))
    state = model.state()
    good = {name: array.numpy()[1].copy() for name, array in camera.render(state).items()}
    poses = state.body_q.numpy()
    poses[:2] = np.nan
    state.body_q.assign(poses)
    for name, array in camera.render(state).items():
        np.testing.assert_array_equal(array.numpy()[1], good[name])
    assert np.all(camera.images["shape"].numpy()[0] == SEEN_NOTHING)


def test_pictures_of_masked_worlds_only(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(carried_builder(), 3, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device)
    eyes = look_at([(3.0, 1.0, 2.0), (1.0, 3.0, 1.0)], (1.0, 0.0, 1.0))
    camera, full = (Camera(model, 40, 24, pose=eyes, outputs=ALL) for _ in range(2))
    before = {name: array.numpy().copy() for name, array in camera.render(random_state(model, 1)).items()}
    state = random_state(model, 2)
    after, chosen = full.render(state), np.array([True, False, True])
    images = camera.render(state, wp.array(chosen, dtype=bool, device=device))
    for name in ALL:
        np.testing.assert_array_equal(images[name].numpy()[chosen], after[name].numpy()[chosen])
        np.testing.assert_array_equal(images[name].numpy()[~chosen], before[name][~chosen])
        assert not np.array_equal(after[name].numpy()[1], before[name][1])
    for wrong in (wp.ones(2, dtype=bool, device=device), wp.ones(3, dtype=int, device=device)):
        with pytest.raises(ModelError, match=r"mask: expected bool \(3,\)"):
            camera.render(state, wrong)


def test_a_crowd_out_of_sight_changes_nothing(device: str):
    """Beyond 256 shapes rays find what they meet by the hierarchy, below by what the tiles list."""
    middle = np.array([300.0, -200.0, 50.0])
    rng = np.random.default_rng(0)
    offsets = [(7.0, 0.0, 0.0), (0.0, -8.0, 0.0), *rng.uniform(-2, 2, (5, 3)), *rng.uniform(-9, 9, (5, 3))]
    eyes = middle + np.array(offsets)
    pictures = []
    for crowd in (0, 250):
        builder, rng = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)), np.random.default_rng(1)
        for size in (0.05, 0.3, 1.5):
            for kind in ("sphere", "box", "capsule", "cylinder"):
                pose = (*(middle + rng.uniform(-2.0, 2.0, 3)), *Rotation.random(None, rng).as_quat())
                sizes = {"radius": size} if kind == "sphere" else {"radius": 0.3 * size, "half_height": size}
                if kind == "box":
                    # what is seen of it from along the axes fills its bounds
                    pose = (*pose[:3], 0.0, 0.0, 0.0, 1.0)
                    sizes = {"hx": size, "hy": 0.2 * size, "hz": 0.5 * size}
                getattr(builder, f"add_shape_{kind}")(-1, pos=pose[:3], rot=pose[3:], **sizes)
        for _ in range(crowd):
            builder.add_shape_sphere(-1, pos=middle + 1.0e4, radius=0.1)
        model, lens = builder.finalize(device=device), Pinhole(70.0, far=100.0)
        poses, names = look_at(eyes, middle), ("rgb", "depth", "shape")
        camera = Camera(model, 50, 38, pose=poses, lens=lens, outputs=names)
        pictures.append({name: array.numpy() for name, array in camera.render(model.state()).items()})
    for name, array in pictures[0].items():
        np.testing.assert_array_equal(array, pictures[1][name])
    assert len(np.unique(pictures[0]["shape"])) > 8


def test_a_plane_out_of_sight_changes_nothing(device: str):
    """Where there is no plane, tiles without anything to see are not looked at any further."""
    pictures = []
    for has_plane in (False, True):
        builder = carried_builder()
        if has_plane:
            builder.add_shape_plane(plane=(0.0, 0.0, 1.0, 50.0), width=0.0, length=0.0)
        camera = Camera(
            builder.finalize(device=device),
            70,
            50,
            pose=look_at((9.0, 1.0, 0.0), (1.0, 0.0, 5.0)),
            outputs=ALL,
        )
        pictures.append(camera.render(camera.model.state()))
    for name in ALL:
        if name != "shape":
            np.testing.assert_array_equal(pictures[0][name].numpy(), pictures[1][name].numpy())
    nothing = pictures[0]["shape"].numpy()[0, 0] == SEEN_NOTHING
    assert nothing[:16, :16].all()
    assert not nothing.all()


def test_labels_and_colliders(device: str):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body()
    builder.add_shape_sphere(body, radius=0.5, has_shape_collision=False, has_ground_collision=False)
    corners = 0.3 * np.array([[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [0, 0, 1], [0, 0, -0.5]])
    cut = newtonsim.Mesh(corners, [0, 1, 4, 1, 2, 4, 2, 3, 4, 3, 0, 4, 0, 5, 1, 1, 5, 2, 2, 5, 3, 3, 5, 0])
    builder.add_shape_mesh(body, mesh=cut, is_visible=False, convex=True)
    model = builder.finalize(device=device)
    eye = look_at((0.0, 0.0, -3.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    for colliders, label, depth in ((False, 40, 2.5), (True, 50, 2.7)):
        camera = Camera(
            model, 9, 9, pose=eye, outputs=("label", "depth"), colliders=colliders, labels=[40, 50]
        )
        images = camera.render(model.state())
        assert images["label"].numpy()[0, 0, 4, 4] == label
        assert images["depth"].numpy()[0, 0, 4, 4] == pytest.approx(depth, abs=1.0e-5)


def test_colors_and_textures_of_shapes(device: str, tmp_path):
    """Boxes wear their texture, meshes its mean; colours of worlds may be changed one by one."""
    from PIL import Image

    path = str(tmp_path / "stripes.png")
    Image.fromarray(np.array([[[200, 0, 0], [0, 100, 0]]], np.uint8)).save(path)
    single = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for x in (-1.0, 1.0):
        single.add_shape_box(
            single.add_body(origin=(x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)), hx=0.5, hy=0.5, hz=0.5
        )
    corners = [[2.5, -0.5, 0.5], [3.5, -0.5, 0.5], [3.5, 0.5, 0.5], [2.5, 0.5, 0.5]]
    single.add_shape_mesh(-1, mesh=newtonsim.Mesh(corners, [0, 1, 2, 0, 2, 3], is_solid=False))
    single.shape_color[0] = (1.0, 0.5, 0.0, 1.0)
    single.shape_texture[1] = single.shape_texture[2] = path
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(single, 2, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device)
    light = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False, background=(0.0, 0.0, 1.0, 1.0))
    eyes = [look_at((x, 0.0, 5.0), (x, 0.0, 0.0), (0.0, 1.0, 0.0)) for x in (-1.0, 0.75, 1.25, 3.0, 5.0)]
    camera = Camera(model, 1, 1, pose=eyes, lens=Pinhole(1.0), lighting=light)
    wanted = [[255, 127, 0], [200, 0, 0], [0, 100, 0], [100, 50, 0], [0, 0, 255]]
    seen = camera.render(model.state())["rgb"].numpy()[:, :, 0, 0]
    np.testing.assert_array_equal(seen, [wanted, wanted])
    colors = camera.scene.color.numpy()
    # the first box of the second world
    row = np.flatnonzero(camera.scene.shapes == model.world_shape_start[1])[0]
    colors[row] = (0.0, 1.0, 1.0, 1.0)
    camera.scene.color.assign(colors)
    wanted = [wanted, [[0, 255, 255], *wanted[1:]]]
    np.testing.assert_array_equal(camera.render(model.state())["rgb"].numpy()[:, :, 0, 0], wanted)
    single.shape_texture[1] = "missing.png"
    with pytest.warns(UserWarning, match="missing.png"):
        Camera(single.finalize(device=device), 1, 1, pose=eyes[0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"width": 0}, "0 x 24"),
        ({"pose": (0, 0, 0)}, "pose"),
        ({"pose": (0, 0, 0, 0, 0, 0, 0)}, "quaternion is zero"),
        ({"pose": np.zeros((5, 1, 7)) + 1.0}, "pose"),
        ({"body": "nobody"}, "0 bodies named 'nobody'"),
        ({"body": 7}, "bodies 0..1, got 7"),
        ({"body": ["eye", "eye", "other"], "lens": [Pinhole(), Fisheye()]}, "do not match"),
        ({"lens": 60.0}, "lens"),
        ({"lens": Pinhole(190.0)}, "fov is 190"),
        ({"lens": Pinhole(fy=3.0)}, "fy requires fx"),
        ({"lens": Fisheye(near=2.0, far=1.0)}, "near < far"),
        ({"lens": Fisheye(fx=-1.0)}, "fx is -1"),
        ({"lens": Fisheye(), "outputs": ("depth_gl",)}, "depth_gl"),
        ({"outputs": ("color",)}, "'color'"),
        ({"outputs": ()}, "outputs"),
        ({"worlds": [1]}, "worlds"),
        ({"worlds": [0, 0]}, "listed twice"),
        ({"threads": -2}, "threads: .* got -2"),
        ({"lighting": 3}, "lighting: expected a Lighting, got 3"),
        ({"width": 100000, "height": 100000}, "exceed the limit"),
        ({"labels": [1.0, 2.0]}, "labels"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict, text: str):
    model = carried_builder().finalize(device="cpu")
    full = {"width": 32, "height": 24, "pose": (0, 0, 0, 0, 0, 0, 1)} | arguments
    with pytest.raises(ModelError, match=text):
        Camera(model, **full)


def test_states_of_other_models_and_views_without_direction_are_refused():
    model = carried_builder().finalize(device="cpu")
    camera = Camera(model, 4, 4, pose=(0, 0, 0, 0, 0, 0, 1))
    with pytest.raises(ModelError, match="body_q"):
        camera.render(newtonsim.ModelBuilder().finalize(device="cpu").state())
    for nothing in (None, 3):
        with pytest.raises(ModelError, match="body_q"):
            camera.render(nothing)
    with pytest.raises(ModelError, match=r"a ModelBuilder; finalize\(\) makes one"):
        Camera(carried_builder(), 4, 4, pose=(0, 0, 0, 0, 0, 0, 1))
    with pytest.raises(ModelError, match="does not define a view"):
        look_at((0, 0, 1), (0, 0, 0))

"""The ray camera sees what rays in double precision meet, in every world, and keeps its depth conventions."""

import numpy as np
import pytest
import warp as wp
from pictures.views import FAR, NEAR, fov, frustum, look_at, orthographic, pixel_rays, take, window_depth
from queries.solids import spans, triangle_hits
from scipy.spatial.transform import Rotation

from newtonsim.errors import ModelError
from newtonsim.render.camera.camera import RayCamera, camera_rays, linear_depth
from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.meshes import CameraMesh
from newtonsim.render.camera.scene import CameraInstance, CameraScene
from newtonsim.render.camera.textures import Textures
from newtonsim.scene.enums import GeoType

WIDTH, HEIGHT = 40, 30
DEPTH = 2.0e-5
"""Relative error of depths: coordinates are of size 5 in float32, some rays graze."""

SOLIDS = {
    GeoType.SPHERE: (0.7, 0.0, 0.0),
    GeoType.BOX: (0.3, 0.8, 0.5),
    GeoType.CAPSULE: (0.3, 0.6, 0.0),
    GeoType.CYLINDER: (0.5, 0.4, 0.0),
    GeoType.CONE: (0.5, 0.6, 0.0),
    GeoType.ELLIPSOID: (0.3, 0.8, 0.5),
}
PROJECTIONS = {
    "symmetric": fov(40.0, WIDTH / HEIGHT),
    "off axis": frustum(-0.02, 0.05, -0.03, 0.03),
    "parallel": orthographic(3.0, 2.5),
}


def random_pose(rng, reach: float = 0.3) -> np.ndarray:
    return np.concatenate([rng.uniform(-reach, reach, 3), Rotation.random(random_state=rng).as_quat()])


def soup(rng, count: int = 80, size: float = 0.4) -> CameraMesh:
    """Triangles here and there."""
    corners = rng.uniform(-1.0, 1.0, (count, 1, 3)) + rng.uniform(-size, size, (count, 3, 3))
    return CameraMesh(corners.reshape(-1, 3), np.arange(3 * count))


def expect(found, view, projection, t, origins, directions, labels, sure):
    """Compare a picture with the parameter t of the first hit on each ray, where that is sure."""
    _, depth, label = (array.reshape(-1, *array.shape[2:]) for array in found)
    hit = np.isfinite(t)
    np.testing.assert_array_equal(label[sure], np.where(hit, labels, -1)[sure])
    points = origins + np.where(hit, t, 0.0)[:, None] * directions
    wanted = window_depth(view, projection, points)
    both = hit & sure
    assert both.sum() > 50
    assert (~hit & sure).sum() > 100
    slope = 1.0 / np.maximum(1.0 - wanted[both], 1.0e-6)
    assert np.max(np.abs(depth[both] - wanted[both]) * slope) < 50.0 * DEPTH
    assert np.all(depth[~hit & sure] == 1.0)


@pytest.mark.parametrize("lens", PROJECTIONS)
@pytest.mark.parametrize("kind", SOLIDS, ids=lambda kind: kind.name)
def test_solids_are_where_rays_meet_them(device: str, kind, lens: str):
    rng = np.random.default_rng(int(kind))
    pose, size = random_pose(rng), np.array(SOLIDS[kind])
    view, projection = look_at((2.0, -2.5, 1.5), (0.0, 0.0, 0.0)), PROJECTIONS[lens]
    scene = CameraScene([CameraInstance(kind, size, pose=pose, label=7)], device=device).update()
    origins, ends = pixel_rays(view, projection, WIDTH, HEIGHT)
    length = np.linalg.norm(ends, axis=1)
    enter, _, least = spans(kind, size, pose, origins, ends / length[:, None], 20.0)
    found = take(scene, view, projection, (WIDTH, HEIGHT))
    expect(found, view, projection, enter / length, origins, ends, 7, np.abs(least) > 1.0e-4)


@pytest.mark.parametrize("count", [4, 80])
@pytest.mark.parametrize("double_sided", [True, False])
@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (0.5, 1.5, -1.2)])
def test_triangles_are_where_rays_meet_them(device: str, double_sided: bool, scale, count: int):
    """Few triangles, large ones, are tried one by one; many by their hierarchy."""
    rng = np.random.default_rng(3)
    mesh, pose = soup(rng, count, 1.5 if count == 4 else 0.4), random_pose(rng)
    instance = CameraInstance(GeoType.MESH, scale, mesh, pose=pose, label=3 << 24, double_sided=double_sided)
    scene = CameraScene([instance], device=device).update()
    view, projection = look_at((3.0, 2.5, -2.0), (0.0, 0.0, 0.0)), PROJECTIONS["symmetric"]
    points = Rotation.from_quat(pose[3:]).apply(mesh.points * scale) + pose[:3]
    triangles = mesh.triangles if np.prod(scale) > 0.0 else mesh.triangles[:, ::-1]
    origins, ends = pixel_rays(view, projection, WIDTH, HEIGHT)
    length = np.linalg.norm(ends, axis=1)
    t, facing, rim = triangle_hits(points, triangles, origins, ends / length[:, None])
    front = double_sided | (facing < 0.0)
    t = np.where(front, t, np.inf)
    sure = np.min(np.where(front, np.abs(rim), 1.0), axis=1) > 1.0e-3
    nearest = t.min(axis=1)
    found = take(scene, view, projection, (WIDTH, HEIGHT))
    expect(found, view, projection, nearest / length, origins, ends, 3 << 24, sure)


def test_nearest_of_many_and_the_ground(device: str):
    rng = np.random.default_rng(5)
    poses = [random_pose(rng, 1.2) for _ in range(12)]
    instances = [
        CameraInstance(GeoType.ELLIPSOID, (0.3, 0.2, 0.4), pose=pose, label=k) for k, pose in enumerate(poses)
    ]
    upright = (*(0.0, 0.0, -0.5), *Rotation.from_euler("x", 90.0, degrees=True).as_quat())
    instances.append(CameraInstance(GeoType.PLANE, pose=upright, label=99))
    scene = CameraScene(instances, device=device).update()
    view, projection = look_at((3.0, 2.5, 1.0), (0.0, 0.0, 0.0)), PROJECTIONS["symmetric"]
    origins, ends = pixel_rays(view, projection, WIDTH, HEIGHT)
    length = np.linalg.norm(ends, axis=1)
    rows = [
        spans(GeoType.ELLIPSOID, np.array((0.3, 0.2, 0.4)), p, origins, ends / length[:, None], 20.0)
        for p in poses
    ]
    with np.errstate(divide="ignore"):
        ground = (-0.5 - origins[:, 2]) / ends[:, 2] * length
    t = np.stack([*(row[0] for row in rows), np.where(ground > 0.0, ground, np.inf)])
    # directions reach from the near plane to the far one
    t[t > length] = np.inf
    sure = np.min(np.abs([row[2] for row in rows]), axis=0) > 1.0e-4
    found = take(scene, view, projection, (WIDTH, HEIGHT))
    expect(
        found,
        view,
        projection,
        t.min(0) / length,
        origins,
        ends,
        np.array([*range(12), 99])[t.argmin(0)],
        sure,
    )


def test_no_gap_between_neighbours(device: str):
    """The two triangles of a square of 200 m, seen at an angle along their common edge."""
    corners = 100.0 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    ground = CameraInstance(GeoType.MESH, mesh=CameraMesh(corners, [0, 1, 2, 0, 2, 3]), label=1)
    scene = CameraScene([ground], device=device).update()
    for place in ((0.0, 0.0), (0.1, 0.3), (20.0, 20.001)):
        view = look_at((*place, 1.0), (place[0] + 1.0, place[1] + 1.0, 0.0))
        assert np.all(take(scene, view, fov(60.0), (201, 201))[2] == 1)


def test_nothing_beyond_the_clipping_planes(device: str):
    def labels(distance: float) -> set[int]:
        ball = CameraInstance(GeoType.SPHERE, (1.0, 1.0, 1.0), pose=(0, 0, -distance, 0, 0, 0, 1), label=4)
        scene = CameraScene([ball], device=device).update()
        return set(np.unique(take(scene, np.eye(4), fov(20.0), (9, 9))[2]))

    assert labels(FAR + 0.9) != {-1}
    assert labels(FAR + 1.1) == {-1}
    assert labels(NEAR + 1.05) != {-1}
    # from within, a ball is not seen
    assert labels(NEAR + 0.5) == {-1}


def test_depth_along_the_view_axis(device: str):
    ball = CameraInstance(GeoType.BOX, (9.0, 9.0, 1.0), pose=(0, 0, -6, 0, 0, 0, 1))
    scene = CameraScene([ball], device=device).update()
    camera = RayCamera(scene, 20, 10).look(linear_depth(camera_rays(np.eye(4), fov(60.0)))).render()
    np.testing.assert_allclose(camera.depth.numpy(), 5.0, rtol=1.0e-6)
    empty = CameraScene([], device=device).update()
    camera = RayCamera(empty, 20, 10).look(linear_depth(camera_rays(np.eye(4), fov(60.0)))).render()
    assert np.all(np.isinf(camera.depth.numpy()))


def moving_scene(worlds: int, device: str) -> CameraScene:
    mesh = soup(np.random.default_rng(1))
    instances = [
        CameraInstance(GeoType.MESH, mesh=mesh, body=1, label=1, rgba=(0.2, 0.9, 0.4, 1.0)),
        CameraInstance(GeoType.CAPSULE, (0.2, 0.5, 0.0), body=0, pose=(0, 0.3, 0, 0, 0, 0, 1), label=2),
        CameraInstance(GeoType.PLANE, pose=(0, -1, 0, 0, 0, 0, 1), label=3, texture=0),
    ]
    image = np.random.default_rng(2).integers(0, 255, (4, 4, 3)).astype(np.uint8)
    return CameraScene(instances, Textures([image]), worlds, device)


def test_worlds_and_cameras_in_one_batch_equal_single_ones(device: str):
    rng = np.random.default_rng(8)
    poses = np.stack([[random_pose(rng, 0.8) for _ in range(2)] for _ in range(3)])
    views = [look_at((3.0, 1.0, 1.0), (0, 0, 0)), look_at((-1.0, 3.0, -2.0), (0, 0, 0), (0, 1, 0))]
    rays = np.stack([camera_rays(view, PROJECTIONS["symmetric"]) for view in views])
    together = RayCamera(moving_scene(3, device).update(poses), WIDTH, HEIGHT, count=2)
    together.look(rays).light(Lighting(shadow=True)).render()
    for world in range(3):
        for k in range(2):
            alone = RayCamera(moving_scene(1, device).update(poses[world : world + 1]), WIDTH, HEIGHT)
            alone.look(rays[k]).light(Lighting(shadow=True)).render()
            for many, one in zip(together.numpy(), alone.numpy()):
                np.testing.assert_array_equal(many[world, k], one[0, 0])


def test_moving_bodies_equals_a_new_scene(device: str):
    rng = np.random.default_rng(9)
    scene, view = moving_scene(1, device), look_at((3.0, 1.0, 1.0), (0, 0, 0))
    for rebuild in (False, True, False):
        poses = np.array([[random_pose(rng, 1.5) for _ in range(2)]])
        moved = take(scene.update(poses, rebuild=rebuild), view, PROJECTIONS["symmetric"], light=Lighting())
        fresh = take(moving_scene(1, device).update(poses), view, PROJECTIONS["symmetric"], light=Lighting())
        for a, b in zip(moved, fresh):
            np.testing.assert_array_equal(a, b)


def test_threads_and_graphs_make_the_same_picture():
    poses = np.array([[random_pose(np.random.default_rng(4)) for _ in range(2)]])
    rays = camera_rays(look_at((3.0, 1.0, 1.0), (0, 0, 0)), PROJECTIONS["symmetric"])
    pictures = []
    for threads in (1, 3):
        camera = (
            RayCamera(moving_scene(1, "cpu").update(poses), 160, 120, threads=threads).look(rays).render()
        )
        assert camera.threads == threads
        pictures.append([a.copy() for a in camera.numpy()])
    bodies = wp.array(poses.astype(np.float32), dtype=wp.transform, device="cpu")
    scene = moving_scene(1, "cpu").update(0.0 * poses + [0, 0, 0, 0, 0, 0, 1])
    camera = RayCamera(scene, 160, 120, threads=1).look(rays)
    with wp.ScopedCapture(device="cpu") as capture:
        scene.update(bodies)
        camera.render()
    wp.capture_launch(capture.graph)
    pictures.append(camera.numpy())
    for other in pictures[1:]:
        for a, b in zip(pictures[0], other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lens", PROJECTIONS)
@pytest.mark.parametrize("count", [5, 60])
def test_tiles_leave_nothing_out(device: str, monkeypatch, lens: str, count: int):
    """Pictures are those of rays that go through the whole hierarchy, also where tiles list too much."""
    rng = np.random.default_rng(count)
    kinds = list(SOLIDS)
    instances = [
        CameraInstance(kinds[k % 6], 0.4 * np.array(SOLIDS[kinds[k % 6]]), body=k, label=k)
        for k in range(count)
    ]
    poses = np.array([[random_pose(rng, 1.3) for _ in range(count)] for _ in range(2)])
    scene = CameraScene(instances, num_worlds=2, device=device).update(poses)
    views = np.stack([look_at((3.0, 1.0, 1.0), (0, 0, 0)), look_at((0.2, 0.3, -0.2), (1, 0.4, 0))])
    rays = camera_rays(views, PROJECTIONS[lens])
    pictures = []
    for most in (256, -1):
        monkeypatch.setattr("newtonsim.render.camera.caster._TILED", most)
        camera = RayCamera(scene, 70, 50, count=2, offset=(0.0, 1.0)).look(rays).light(Lighting()).render()
        pictures.append([a.copy() for a in camera.numpy()])
    assert len(np.unique(pictures[0][2])) > min(count, 20) - 2
    for a, b in zip(*pictures):
        np.testing.assert_array_equal(a, b)


def test_colors_of_each_world_and_new_looks(device: str):
    colors = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [1, 1, 1, 0]], np.float32)
    box = CameraInstance(GeoType.BOX, (9.0, 9.0, 1.0), pose=(0, 0, -6, 0, 0, 0, 1), rgba=colors, label=5)
    textures = Textures()
    scene = CameraScene([box], textures, 3, device).update()
    light = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False, background=(0, 0, 1, 1))
    camera = RayCamera(scene, 4, 4).light(light).look(camera_rays(np.eye(4), fov(60.0))).render()
    seen, _, label = camera.numpy()
    np.testing.assert_array_equal(seen[:, 0, 1, 1, :3], [[255, 0, 0], [0, 255, 0], [0, 0, 255]])
    np.testing.assert_array_equal(label[:, 0, 1, 1], [5, 5, -1])
    box.rgba, box.label = (1.0, 0.5, 1.0, 1.0), 6
    box.texture = textures.add(np.full((1, 1, 3), (100, 200, 50), np.uint8))
    scene.update_appearances()
    seen, _, label = camera.render().numpy()
    np.testing.assert_array_equal(seen[:, 0, 2, 2], [[100, 100, 50, 255]] * 3)
    assert np.all(label[:, 0, 2, 2] == 6)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CameraScene([CameraInstance(GeoType.MESH)]), "instance 0: a mesh is missing"),
        (lambda: CameraScene([CameraInstance(GeoType.NONE)]), "kind"),
        (lambda: CameraScene([CameraInstance(GeoType.BOX, texture=2)]), "no texture 2"),
        (lambda: CameraScene([CameraInstance(GeoType.BOX, (1, -1, 1))]), "negative"),
        (lambda: CameraScene([CameraInstance(GeoType.BOX, rgba=(1, 1, 1))]), "rgba"),
        (
            lambda: CameraScene([CameraInstance(GeoType.BOX, body=2)]).update(np.zeros((1, 2, 7))),
            "body_poses",
        ),
        (lambda: CameraMesh([[0, 0, 0]], [0, 0, 1]), "index"),
        (lambda: CameraMesh([[0, 0, np.nan]], [0, 0, 0]), "finite"),
        (lambda: CameraMesh(np.zeros((3, 3)), [0, 1, 2], uvs=np.zeros((2, 2))), "uvs"),
        (lambda: Textures([np.zeros((2, 2), np.uint8)]), "texture 0"),
        (lambda: camera_rays(np.zeros((4, 4)), fov(30.0)), "singular"),
        (lambda: camera_rays(np.eye(4), np.eye(3)), "matrices"),
        (lambda: camera_rays(np.eye(4), frustum(-1, 1, -1, 1, 2.0, 1.0)), "clipping"),
        (lambda: RayCamera(CameraScene([]), -1, 3), "-1 x 3"),
        (lambda: Lighting(direction=(0, 0, 0)).record(), "direction"),
    ],
)
def test_what_cannot_be_is_refused(make, text: str):
    with pytest.raises(ModelError, match=text):
        make()

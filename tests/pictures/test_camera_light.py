"""Shading, shadows, textures and see-through surfaces against what is worked out by hand."""

import numpy as np
import pytest
from pictures.views import FLAT, fov, look_at, orthographic, take
from scipy.spatial.transform import Rotation

from newtonsim.render.camera.light import Lighting
from newtonsim.render.camera.meshes import CameraMesh
from newtonsim.render.camera.scene import CameraInstance, CameraScene
from newtonsim.render.camera.textures import Textures
from newtonsim.scene.enums import GeoType

LEVEL = 1.01
"""Bytes are rounded down."""

ABOVE = look_at((0.0, 0.0, 5.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
UPRIGHT = (0.0, 0.0, 0.0, *Rotation.from_euler("x", 90.0, degrees=True).as_quat())


def quad(size: float = 1.0, uvs=None) -> CameraMesh:
    """Square in the plane z = 0, seen from above."""
    points = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * size
    return CameraMesh(points, [0, 1, 2, 0, 2, 3], uvs=uvs)


def grid(span: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """World x and y of the pixels' centres of a parallel picture from above."""
    x = ((np.arange(count) + 0.5) / count - 0.5) * span
    return np.meshgrid(x, -x)


@pytest.mark.parametrize("viewer", [None, (0.3, 0.0, 1.0)])
@pytest.mark.parametrize("as_mesh", [False, True])
def test_ball_is_shaded_by_its_angles(device: str, viewer, as_mesh: bool):
    """Phong's formula on a unit ball, also on one of triangles with its exact normals at the corners."""
    mesh = None
    if as_mesh:
        import trimesh

        ball = trimesh.creation.icosphere(subdivisions=5)
        mesh = CameraMesh(ball.vertices, ball.faces, ball.vertices)
    rgba = np.array([0.9, 0.5, 0.2, 1.0])
    kind = GeoType.MESH if as_mesh else GeoType.SPHERE
    scene = CameraScene([CameraInstance(kind, mesh=mesh, rgba=rgba, specular=(1, 0.5, 0))], device=device)
    light = Lighting(
        direction=(1, 2, 3), color=(0.9, 0.8, 1.0), ambient=0.2, diffuse=0.4, specular=0.3, shininess=3.0,
        viewer=viewer, shadow=False,
    )  # fmt: skip
    found, _, label = take(scene.update(), ABOVE, orthographic(2.0, 2.0), (60, 60), light)
    x, y = grid(2.0, 60)
    inside = np.hypot(x, y) < 0.97
    n = np.stack([x, y, np.sqrt(np.maximum(1.0 - x**2 - y**2, 0.0))], -1)
    l = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    v = np.array([0.0, 0.0, 1.0]) if viewer is None else np.array(viewer) / np.linalg.norm(viewer)
    facing = n @ l
    shine = np.maximum((2.0 * facing[..., None] * n - l) @ v, 0.0) ** 3.0
    sent = 0.2 + np.array([0.9, 0.8, 1.0]) * (
        0.4 * np.maximum(facing, 0.0)[..., None] + 0.3 * shine[..., None] * np.array([1, 0.5, 0])
    )
    wanted = 255.0 * np.minimum(rgba[:3] * sent, 1.0)
    assert np.all(label[inside] == 0)
    assert np.abs(found[..., :3] + 0.5 - wanted)[inside].max() < LEVEL + (0.5 if as_mesh else 0.0)


@pytest.mark.parametrize("ground", ["plane", "mesh"])
def test_shadow_of_a_ball(device: str, ground: str):
    """A ball of radius 0.5 at height 2, light at 45 degrees: an ellipse of half axes 0.5 and 0.5 √2."""
    floor = CameraInstance(GeoType.PLANE, pose=UPRIGHT, label=1)
    if ground == "mesh":
        floor = CameraInstance(GeoType.MESH, mesh=quad(10.0), label=1)
    ball = CameraInstance(GeoType.SPHERE, (0.5, 0.5, 0.5), pose=(2, 0, 2, 0, 0, 0, 1), label=2)
    light = Lighting(direction=(1, 0, 1), ambient=0.25, diffuse=0.5, specular=0.0, shadowed=0.2)
    scene = CameraScene([floor, ball], device=device).update()
    found, _, label = take(scene, ABOVE, orthographic(4.0, 4.0), (80, 80), light)
    x, y = grid(4.0, 80)
    level = np.hypot(x / np.sqrt(0.5), y / 0.5)
    sure = (label == 1) & (np.abs(level - 1.0) > 0.06)
    bright = 255.0 * (0.25 + 0.5 * np.sqrt(0.5) * np.where(level < 1.0, 0.2, 1.0))
    assert (sure & (level < 1.0)).sum() > 50
    assert np.abs(found[..., 0] + 0.5 - bright)[sure].max() < LEVEL
    bare = take(scene, ABOVE, orthographic(4.0, 4.0), (80, 80), Lighting(shadow=False))
    assert len(np.unique(bare[0][label == 1][:, 0])) == 1


def test_the_side_away_from_the_light_is_dark(device: str):
    """No light leaks through: a closed box lit from below is seen from above by ambient light alone."""
    box = CameraInstance(GeoType.BOX, (0.5, 0.5, 0.5))
    light = Lighting(direction=(0.1, 0.2, -1), ambient=0.4, diffuse=0.6, specular=0.5, shadowed=0.0)
    found, _, label = take(CameraScene([box], device=device).update(), ABOVE, fov(8.0), light=light)
    assert np.all(label == 0)
    assert np.all(found[..., :3] == 102)


def test_panes_are_blended_front_to_back(device: str):
    """Two panes of alpha 0.5 and 0.25 before a wall, and without it before the background."""
    panes = [((1, 0, 0, 0.5), 2.0, 4), ((0, 1, 0, 0.25), 1.0, 5)]
    instances = [
        CameraInstance(GeoType.MESH, mesh=quad(3.0), pose=(0, 0, z, 0, 0, 0, 1), rgba=rgba, label=label)
        for rgba, z, label in panes
    ]
    wall = CameraInstance(GeoType.PLANE, pose=UPRIGHT, rgba=(0, 0, 1, 1), label=6)
    light = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False, background=(1.0, 1.0, 1.0, 0.0))
    for behind, wanted in (([wall], (127, 31, 95, 255)), ([], (223, 127, 95, 159))):
        scene = CameraScene(instances + behind, device=device).update()
        found, _, label = take(scene, ABOVE, fov(20.0), (6, 6), light)
        assert np.abs(found - np.array(wanted, int)).max() <= 1
        assert np.all(label == 4)
    light.transparency = False
    scene = CameraScene([*instances, wall], device=device).update()
    assert np.all(take(scene, ABOVE, fov(20.0), (6, 6), light)[0] == (255, 0, 0, 255))


@pytest.mark.parametrize("repeat", [1.0, 3.0])
def test_nearest_texels(device: str, repeat: float):
    """A picture of 8 x 5 texels on a square, its first row at v = 1."""
    image = np.random.default_rng(0).integers(0, 255, (5, 8, 3)).astype(np.uint8)
    uvs = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * repeat
    square = CameraInstance(GeoType.MESH, mesh=quad(1.0, uvs), texture=0, rgba=(1.0, 1.0, 0.5, 1.0))
    scene = CameraScene([square], Textures([image]), device=device).update()
    found = take(scene, ABOVE, orthographic(2.0, 2.0), (70, 70), FLAT)[0]
    u = (np.arange(70) + 0.5) / 70 * repeat
    column = np.floor(u % 1.0 * 8).astype(int)
    row = np.floor((1.0 - (1.0 - u / repeat) * repeat % 1.0) * 5).astype(int) % 5
    wanted = image[row][:, column] * np.array([1.0, 1.0, 0.5])
    edge = (
        np.min(np.abs(u[:, None] * np.array([8, 5]) - np.round(u[:, None] * np.array([8, 5]))), axis=1) < 1e-4
    )
    inner = ~edge[:, None] & ~edge[None, :]
    assert np.abs(found[..., :3] + 0.5 - wanted)[inner].max() < LEVEL


def test_textures_that_are_added_and_replaced(device: str):
    """Images of one colour, the later ones too large for the first buffer."""
    rng = np.random.default_rng(1)

    def image(side: int) -> np.ndarray:
        return np.broadcast_to(rng.integers(0, 255, 3).astype(np.uint8), (side, side, 3)).copy()

    images = [image(3), image(50)]
    textures = Textures(images)
    square = CameraInstance(GeoType.MESH, mesh=quad(9.0, [[0, 0], [1, 0], [1, 1], [0, 1]]), texture=0)
    scene = CameraScene([square], textures, device=device).update()

    def check() -> None:
        for k, wanted in enumerate(images):
            square.texture = k
            scene.update_appearances()
            found = take(scene, ABOVE, orthographic(2.0, 2.0), (3, 3), FLAT)[0]
            assert np.all(found[..., :3] == wanted[0, 0]), k

    check()
    for number, side in ((1, 50), (0, 70), (2, 130), (1, 20), (3, 1)):
        if number < len(images):
            images[number] = image(side)
            textures.replace(number, images[number])
        else:
            images.append(image(side))
            assert textures.add(images[number]) == number
        check()


def test_smooth_texels(device: str):
    """Between the centres of texels colours change linearly."""
    image = np.array([[[0, 0, 0], [200, 100, 0]], [[100, 200, 0], [40, 80, 240]]], np.uint8)
    square = CameraInstance(GeoType.MESH, mesh=quad(1.0, [[0, 0], [1, 0], [1, 1], [0, 1]]), texture=0)
    scene = CameraScene([square], Textures([image], smooth=True), device=device).update()
    found = take(scene, ABOVE, orthographic(2.0, 2.0), (40, 40), FLAT)[0].astype(float)
    a = ((np.arange(40) + 0.5) / 40 * 2.0 - 0.5)[10:30]
    top = (1 - a)[:, None] * image[0, 0] + a[:, None] * image[0, 1]
    bottom = (1 - a)[:, None] * image[1, 0] + a[:, None] * image[1, 1]
    wanted = (1 - a)[:, None, None] * top[None] + a[:, None, None] * bottom[None]
    assert np.abs(found[10:30, 10:30, :3] + 0.5 - wanted).max() < LEVEL


def test_normals_of_meshes_are_smooth_up_to_edges():
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=3)
    mesh = CameraMesh(ball.vertices, ball.faces)
    radial = ball.vertices[ball.faces.reshape(-1)]
    assert np.min(np.einsum("ij,ij->i", mesh.corner_normals, radial)) > 0.999
    box = trimesh.creation.box()
    mesh = CameraMesh(box.vertices, box.faces)
    np.testing.assert_allclose(mesh.corner_normals, np.repeat(box.face_normals, 3, axis=0), atol=1.0e-6)
    pipe = trimesh.creation.cylinder(0.5, 1.0, sections=32)
    mesh = CameraMesh(pipe.vertices, pipe.faces)
    upright = np.abs(mesh.corner_normals[:, 2])
    assert np.all((upright < 1.0e-6) | (upright > 1.0 - 1.0e-6))

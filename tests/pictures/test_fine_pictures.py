"""Soft shadows, occluded ambient light, the sky and several samples a pixel, against closed forms."""

import dataclasses

import numpy as np
import pytest
from pictures.test_camera_light import ABOVE, UPRIGHT, grid
from pictures.views import orthographic, take

import newtonsim
from newtonsim import ModelError, NewtonsimError
from newtonsim.render import Camera, Lighting, look_at
from newtonsim.render.camera.lenses import Pinhole
from newtonsim.render.camera.scene import CameraInstance, CameraScene
from newtonsim.render.films.pictures import Pictures
from newtonsim.scene.enums import GeoType

FLOOR = CameraInstance(GeoType.PLANE, pose=UPRIGHT, label=1)


def test_the_penumbra_of_an_edge_is_that_of_a_disc(device: str):
    """Light from above past the edge x = 0 of a roof at height 2: the share of a disc beyond a chord."""
    roof = CameraInstance(GeoType.BOX, (20.0, 20.0, 0.001), pose=(-20, 0, 7, 0, 0, 0, 1), rgba=(1, 1, 1, 1))
    light = Lighting((0, 0, 1), radius=0.1, rays=128, ambient=0.0, diffuse=1.0, specular=0.0, shadowed=0.0)
    below = np.array(ABOVE)  # the camera is under the roof
    scene = CameraScene([FLOOR, roof], device=device).update()
    found, _, label = take(scene, below, orthographic(3.0, 3.0), (60, 60), light)
    assert np.all(label == 1)
    x = grid(3.0, 60)[0]
    s = np.clip(x / (7.0 * np.tan(0.1)), -1.0, 1.0)
    share = 0.5 + (s * np.sqrt(1.0 - s**2) + np.arcsin(s)) / np.pi
    error = found[..., 0] / 255.0 - share
    assert np.abs(error).max() < 0.06
    assert abs(error.mean()) < 0.004


def test_a_wall_takes_half_of_the_ambient_light_of_its_foot(device: str):
    """The form factor of a half space is 1/2; with rays that are too short, nothing is taken."""
    wall = CameraInstance(GeoType.BOX, (1.0, 500.0, 500.0), pose=(-1, 0, 0, 0, 0, 0, 1), label=2)
    light = Lighting(ambient=0.8, diffuse=0.0, specular=0.0, sky_rays=128, shadowed=0.0)
    scene = CameraScene([FLOOR, wall], device=device).update()
    found, _, label = take(scene, ABOVE, orthographic(4.0, 4.0), (40, 40), light)
    seen = (grid(4.0, 40)[0] > 0.0) & (label == 1)
    assert seen.sum() == 800
    level = found[..., 0][seen] / 255.0
    assert np.abs(level - 0.4).max() < 0.03
    assert abs(level.mean() - 0.4) < 0.004
    near = take(scene, ABOVE, orthographic(4.0, 4.0), (40, 40), dataclasses.replace(light, sky_reach=1.0))[0]
    far = near[..., 0][(grid(4.0, 40)[0] > 1.0) & (label == 1)]
    assert np.all(far == 204)
    assert near[..., 0][seen].min() < 150


def test_a_low_wall_takes_light_by_the_cosine_of_its_directions(device: str):
    """The form factor of a long wall of height h at distance d is (1 - d / sqrt(d^2 + h^2)) / 2."""
    wall = CameraInstance(GeoType.BOX, (1.0, 500.0, 1.0), pose=(-1, 0, 0, 0, 0, 0, 1), label=2)
    light = Lighting(ambient=0.8, diffuse=0.0, specular=0.0, sky_rays=128, shadowed=0.0)
    scene = CameraScene([FLOOR, wall], device=device).update()
    found, _, label = take(scene, ABOVE, orthographic(4.0, 4.0), (40, 40), light)
    x = grid(4.0, 40)[0]
    share = 1.0 - 0.5 * (1.0 - x / np.sqrt(x**2 + 1.0))
    error = (found[..., 0] / 255.0 - 0.8 * share)[label == 1]
    assert error.size == 800
    assert np.abs(error).max() < 0.03
    assert abs(error.mean()) < 0.004


def test_the_background_fades_to_the_zenith(device: str):
    light = Lighting(sky=(0, 0, 0.5), background=(1, 1, 1, 1), zenith=(0.0, 0.2, 0.6))
    scene = CameraScene([FLOOR], device=device).update()
    up = np.linalg.inv(np.array([[1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 5], [0, 0, 0, 1]], float))
    found = take(scene, up, orthographic(1.0, 1.0), (4, 4), light)[0]
    assert np.all(found == (0, 51, 153, 255))


def two_boxes(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_shape_box(builder.add_body(), hx=0.413, hy=0.5, hz=0.1)
    builder.add_shape_box(builder.add_body(origin=(1.0, 0, 0, 0, 0, 0, 1)), hx=0.2, hy=0.3, hz=0.2)
    builder.shape_color[0] = (1.0, 1.0, 1.0, 1.0)
    return builder.finalize(device)


def test_a_pixel_has_the_mean_colour_of_its_samples(device: str):
    """The share that a white box covers, in steps of one sample; everything else is that of the centre."""
    model = two_boxes(device)
    flat = Lighting(ambient=1.0, diffuse=0.0, specular=0.0, shadow=False, background=(0.0, 0.0, 0.0, 1.0))
    pictures = {}
    for samples in (1, 4):
        camera = Camera(
            model, 41, 31, pose=look_at((0, 0, 100), (0, 0, 0), (0, 1, 0)), lens=Pinhole(fov=0.9),
            outputs=("rgb", "depth", "body", "normal"), lighting=flat, samples=samples,
        )  # fmt: skip
        images = camera.render(model.state())
        pictures[samples] = {name: image.numpy().copy() for name, image in images.items()}
    for name in ("depth", "body", "normal"):
        np.testing.assert_array_equal(pictures[4][name], pictures[1][name])
    size = 2.0 * 99.9 * np.tan(np.radians(0.45)) / 31.0
    middle = pictures[4]["rgb"][0, 0, 15, :, 0] / 255.0
    edges = (np.arange(42) - 20.5) * size
    covered = np.clip((np.minimum(edges[1:], 0.413) - np.maximum(edges[:-1], -0.413)) / size, 0.0, 1.0)
    beside = edges[1:] < 0.6  # the other box begins at 0.8
    assert np.abs(middle - covered)[beside].max() < 0.25 / 2 + 0.01
    assert set(pictures[1]["rgb"][0, 0, 15, beside, 0].tolist()) == {0, 255}


def test_fine_pictures_show_the_same_scene():
    model = two_boxes("cpu")
    plain, fine = (
        Pictures(model, width=64, height=48, quality=q).take(model.state()) for q in ("plain", "fine")
    )
    assert plain.shape == fine.shape
    assert np.abs(plain.astype(float) - fine).mean() < 60.0
    assert not np.array_equal(plain, fine)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"radius": 0.6}, "radius"),
        ({"radius": -0.1}, "radius"),
        ({"rays": 0}, "rays"),
        ({"sky_rays": 257}, "sky_rays"),
        ({"sky_reach": 0.0}, "sky_reach"),
        ({"sky_reach": float("nan")}, "sky_reach"),
        ({"zenith": (0.0, 0.0, 1.0)}, "zenith"),
    ],
)
def test_impossible_lights_are_refused(change: dict, word: str):
    with pytest.raises(ModelError, match=f"light: {word}"):
        Lighting(**change).record()


def test_impossible_qualities_are_refused():
    model = two_boxes("cpu")
    with pytest.raises(ModelError, match="samples: expected 1 to 16, got 0"):
        Camera(model, 4, 4, pose=(0, 0, 0, 0, 0, 0, 1), samples=0)
    with pytest.raises(NewtonsimError, match="quality: expected one of plain, fine, got 'best'"):
        Pictures(model, quality="best")

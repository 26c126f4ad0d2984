"""SimRendererOpenGL: what is in the pictures is where the states have it."""

import ctypes.util
import sys

import numpy as np
import pytest
import warp as wp
from drawn_scenes import soft
from PIL import Image

import newtonsim
from newtonsim import ModelBuilder, RendererUnavailableError
from newtonsim.utils import SimRendererOpenGL

BARE = {"draw_grid": False, "draw_sky": False, "draw_axis": False, "show_info": False}
SIZE = {"screen_width": 121, "screen_height": 90}
FOV = 45.0
"""Vertical, in degrees; the default of warp.render."""


@pytest.fixture
def open_renderer():
    opened = []

    def open_one(model, *args, **options) -> SimRendererOpenGL:
        try:
            renderer = SimRendererOpenGL(model, *args, **{"headless": True, **BARE, **SIZE, **options})
        except RendererUnavailableError as error:
            pytest.skip(str(error))
        opened.append(renderer)
        return renderer

    yield open_one
    for renderer in opened:
        renderer.close()


def draw(renderer: SimRendererOpenGL, state: newtonsim.State, time: float = 0.0) -> None:
    renderer.begin_frame(time)
    renderer.render(state)
    renderer.end_frame()


def box_model(worlds: int = 1, **options) -> newtonsim.Model:
    robot = ModelBuilder(**options)
    robot.add_shape_box(robot.add_body(), hx=0.1, hy=0.2, hz=0.3)
    robot.shape_color[-1] = (1.0, 0.0, 0.0, 1.0)
    builder = ModelBuilder(**options)
    builder.replicate(robot, worlds, spacing=(0, 0, 0))
    return builder.finalize("cpu")


def half_pixels(length: float, distance: float, height: int) -> float:
    """Half the height in pixels of what is `length` to either side of the middle."""
    return 0.5 * height * length / (distance * np.tan(np.radians(0.5 * FOV)))


# Eye 2 m away on each axis, up axis, and half extents of the box: toward the eye, across, upward.
VIEWS = [
    ((0, 0, 2), (0, 1, 0), (0.3, 0.1, 0.2)),
    ((-2, 0, 0), (0, 1, 0), (0.1, 0.3, 0.2)),
    ((2, 0, 0), (0, 0, 1), (0.1, 0.2, 0.3)),
    ((0, -2, 0), (0, 0, 1), (0.2, 0.1, 0.3)),
    ((0, 2, 0), (1, 0, 0), (0.2, 0.3, 0.1)),
    ((0, 0, 2), (1, 0, 0), (0.3, 0.2, 0.1)),
]


@pytest.mark.parametrize(("eye", "up", "half"), VIEWS)
def test_a_box_has_its_place_and_size(eye, up, half, open_renderer):
    model = box_model(up_vector=up)
    renderer = open_renderer(model, scaling=10.0)
    renderer.look_at(eye, (0, 0, 0))
    draw(renderer, model.state())
    depth = renderer.picture("depth")
    seen = depth < 3.0
    np.testing.assert_allclose(depth[seen], 2.0 - half[0], atol=2e-4)
    rows, columns = (np.flatnonzero(seen.any(axis=axis)) for axis in (1, 0))
    for pixels, length, size in ((rows, half[2], 90), (columns, half[1], 121)):
        expected = half_pixels(length, 2.0 - half[0], 90)
        assert pixels[0] == pytest.approx(0.5 * size - expected, abs=1.0)
        assert pixels[-1] + 1 == pytest.approx(0.5 * size + expected, abs=1.0)
    colors = renderer.picture()
    assert (colors[seen, 0] > 40).all()
    assert (colors[seen, 1] < colors[seen, 0]).all()


def test_shapes_move_with_bodies_and_stay_when_others_are_added(open_renderer):
    model = box_model(up_vector=(0, 0, 1))
    renderer = open_renderer(model)
    renderer.look_at((3, 0, 0), (0, 0, 0))
    state = model.state()
    # +y is to the right of one who looks along -x
    state.body_q.assign(np.array([[0, 0.5, 0.25, 0, 0, 0, 1]], dtype=np.float32))
    draw(renderer, state)
    renderer.begin_frame(0.1)
    renderer.render(state)
    renderer.render_sphere("mark", (0.0, -0.5, 0.0), (0.0, 0.0, 0.0, 1.0), 0.1)
    renderer.end_frame()
    seen = renderer.picture("depth") < 4.0
    middle = np.argwhere(seen[:, 60:]).mean(axis=0) + np.array([0.5, 60.5])
    expected = [45 - half_pixels(0.25, 2.9, 90), 60.5 + half_pixels(0.5, 2.9, 90)]
    np.testing.assert_allclose(middle, expected, atol=0.6)
    assert seen[:, :60].any()


def test_worlds_in_tiles(open_renderer, tmp_path):
    model = box_model(4, up_vector=(0, 0, 1))
    renderer = open_renderer(model, worlds=[0, 2, 3])
    state = model.state()
    poses = np.zeros((4, 7), dtype=np.float32)
    poses[:, 0], poses[:, 6] = [0.0, 9.0, 0.5, 1.0], 1.0
    state.body_q.assign(poses)
    renderer.look_at((3, 0, 0), (0, 0, 0))
    renderer.tile_worlds()
    draw(renderer, state)
    depth = renderer.tile_pictures("depth")
    assert depth.shape == (3, 45, 60)
    np.testing.assert_allclose(depth.min(axis=(1, 2)), [2.9, 2.4, 1.9], atol=1e-3)
    whole = renderer.picture("depth")
    assert whole[:45, :60].min() == depth[0].min()
    assert whole[:45, 60:].min() == depth[1].min()
    assert whole[45:, :60].min() == depth[2].min()
    renderer.save_picture(tmp_path / "tiles.png")
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "tiles.png")), renderer.picture())
    with pytest.raises(newtonsim.ModelError, match="world 1 is not among"):
        renderer.tile_worlds([1])
    with pytest.raises(newtonsim.ModelError, match="do not fit"):
        renderer.tile_worlds(columns=500)


def test_spread_worlds_look_alike_in_tiles(open_renderer):
    robot = ModelBuilder(up_vector=(0, 0, 1))
    robot.add_shape_box(robot.add_body(), hx=0.1, hy=0.2, hz=0.3)
    builder = ModelBuilder(up_vector=(0, 0, 1))
    builder.replicate(robot, 2, spacing=(3, 2, 0))
    model = builder.finalize("cpu")
    renderer = open_renderer(model, spacing=1.0, screen_width=120)
    renderer.tile_worlds()
    draw(renderer, model.state())
    first, second = renderer.tile_pictures("depth")
    assert (first < 10.0).sum() > 100
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_cloth_from_both_sides_and_particles(open_renderer):
    builder = ModelBuilder(up_vector=(0, 0, 1))
    builder.add_cloth_grid((-0.5, -0.5, 0), (0, 0, 0, 1), (0, 0, 0), 2, 2, 0.5, 0.5, 0.1)
    builder.add_particle((0.0, 2.0, 0.0), (0, 0, 0), 1.0, radius=0.3)
    model = builder.finalize("cpu")
    renderer, state = open_renderer(model), model.state()
    lifted = state.particle_q.numpy().copy()
    lifted[:, 2] += 0.5
    state.particle_q.assign(lifted)
    for eye, distance in (((0.01, 0, 3), 2.5), ((0.01, 0, -3), 3.5)):
        renderer.look_at(eye, (0, 0, 0))
        draw(renderer, state)
        assert renderer.picture("depth")[45, 60] == pytest.approx(distance, rel=5e-3)
        assert renderer.picture()[45, 60].max() > 40
    renderer.look_at((3, 2.0, 0.5), (0, 2.0, 0.5))
    draw(renderer, state)
    depth = renderer.picture("depth")
    # an icosahedron whose edges were halved once keeps within a twelfth of the radius of its ball
    assert depth.min() == pytest.approx(2.7, abs=0.3 / 12)
    assert (depth < 4).any(axis=0).sum() == pytest.approx(2 * half_pixels(0.3, 3.0, 90), rel=0.1)
    renderer.show_particles = False
    draw(renderer, state)
    assert not (renderer.picture("depth")[:, 50:70] < 4).any()


def test_every_soft_part_is_drawn(open_renderer):
    model = soft().finalize("cpu")
    renderer = open_renderer(model, show_joints=True)
    draw(renderer, model.state())
    names = {name.rsplit("_", 1)[0] for name in renderer._instances}
    assert names == {"surface", "springs", "particles", "muscles"}
    state = model.state()
    for point in (model.particle_q.numpy()[0], model.particle_q.numpy()[-1]):
        renderer.look_at(point + np.array([0.0, 0.0, 1.0]), point)
        draw(renderer, state)
        assert (renderer.picture("depth")[40:50, 55:66] < 1.2).any()


def test_contacts_come_and_go(open_renderer):
    builder = ModelBuilder()
    for k in range(20):
        body = builder.add_body(origin=(0.3 * (k % 5), 0.099, 0.3 * (k // 5), 0, 0, 0, 1))
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    renderer = open_renderer(model, show_rigid_contact_points=True, contact_points_radius=0.02)
    red = []
    for height in (0.0, 1.0, 0.0):
        state = model.state()
        poses = state.body_q.numpy().copy()
        poses[:, 1] += height
        state.body_q.assign(poses)
        draw(renderer, state)
        picture = renderer.picture().astype(int)
        red.append(int((picture[..., 0] > 2 * picture[..., 1] + 2 * picture[..., 2]).sum()))
    assert red[0] > 20
    assert red[1] == 0
    assert red[2] == red[0]
    assert len(renderer._contact_pages[0]) == 2  # 80 contacts


def test_lines_of_newton_examples_run(open_renderer):
    model = box_model(up_vector=(0, 0, 1))
    state, contacts = model.state(), newtonsim.collide(model, model.state())
    renderer = open_renderer(
        path="example.usd", model=model, scaling=2.0, up_axis="Z", camera_pos=(0, 1, 4), camera_fov=30.0
    )
    assert tuple(renderer.camera_pos) == (0, 1, 4)
    renderer.enable_backface_culling = False
    renderer.begin_frame(0.5)
    renderer.render(state)
    renderer.render_contacts(state, contacts, contact_point_radius=1e-2)
    renderer.end_frame()
    pixels = wp.zeros((90, 121, 3), dtype=float)
    assert renderer.get_pixels(pixels, split_up_tiles=False, mode="rgb")
    np.testing.assert_allclose(255.0 * pixels.numpy(), renderer.picture(), atol=1e-3)
    renderer.save()
    assert isinstance(renderer, wp.render.OpenGLRenderer)
    assert newtonsim.utils.render.SimRendererOpenGL is SimRendererOpenGL


def test_bad_arguments(open_renderer):
    model = box_model()
    renderer = open_renderer(model)
    with pytest.raises(newtonsim.ModelError, match="are both"):
        renderer.look_at((1, 2, 3), (1, 2, 3))
    with pytest.raises(newtonsim.ModelError, match="expected 'rgb' or 'depth', got 'hue'"):
        renderer.picture("hue")
    with pytest.raises(newtonsim.ModelError, match="tile_worlds"):
        renderer.tile_pictures()
    with pytest.raises(newtonsim.ModelError, match="body_q"):
        renderer.render(newtonsim.State())


def test_a_closed_renderer_does_not_stop_the_loop(open_renderer):
    model = box_model()
    renderer, other = open_renderer(model), open_renderer(model)
    draw(other, model.state())
    before = other.picture()
    renderer.close()
    draw(renderer, model.state())
    renderer.render_contacts(model.state())
    with pytest.raises(RendererUnavailableError, match="closed"):
        renderer.picture()
    draw(other, model.state())
    np.testing.assert_array_equal(other.picture(), before)


def test_without_pyglet(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyglet", None)
    with pytest.raises(RendererUnavailableError, match=r"pip install 'newtonsim\[opengl\]'"):
        SimRendererOpenGL(box_model())


def test_without_display_and_egl(monkeypatch):
    pyglet = pytest.importorskip("pyglet")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setitem(pyglet.options, "headless", True)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(RendererUnavailableError, match=r"libEGL is not installed .*apt-get install libegl1"):
        SimRendererOpenGL(box_model())

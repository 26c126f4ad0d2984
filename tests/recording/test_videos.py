"""Videos and sheets show what was recorded, where it was, at the right time."""

import sys

import imageio.v3
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.render import Film, Pictures, Recorder, Recording, VideoWriter, save_sheet, save_video
from newtonsim.render.films.framing import Subject, view_of

RED, BLUE = (0.9, 0.05, 0.05, 1.0), (0.05, 0.05, 0.9, 1.0)


def cubes(*colors: tuple[float, float, float, float]) -> newtonsim.Model:
    """One free cube of each colour, in a world of its own."""
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    for color in colors:
        world = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
        world.add_shape_box(world.add_body(key="cube"), hx=0.5, hy=0.5, hz=0.5)
        world.shape_color[0] = color
        scene.add_builder(world)
    return scene.finalize("cpu")


def at(model: newtonsim.Model, x: float) -> newtonsim.State:
    """All cubes at a place along x."""
    state = model.state()
    state.body_q.assign([wp.transform((x, 0.0, 0.0), wp.quat_identity())] * model.body_count)
    return state


def red_columns(picture: np.ndarray) -> np.ndarray:
    """Columns that show red things."""
    values = picture.astype(int)
    red = (values[..., 0] > values[..., 1] + 50) & (values[..., 0] > values[..., 2] + 50)
    return np.flatnonzero(red.any(axis=0))


@pytest.mark.parametrize("ending", ["mp4", "gif"])
@pytest.mark.parametrize("side", [48, 33])
def test_pictures_come_back(ending: str, side: int, tmp_path):
    path = tmp_path / f"a.{ending}"
    colors = [(200, 30, 30), (30, 200, 30), (30, 30, 200)]
    with VideoWriter(path, fps=25) as writer:
        for color in colors * 4:
            writer.add(np.full((side, 64, 3), color, np.uint8))
    plugin = "FFMPEG" if ending == "mp4" else "pillow"
    options = {"index": None, "mode": "RGB"} if ending == "gif" else {}
    video = imageio.v3.imread(path, plugin=plugin, **options)
    assert video.shape == (12, side + side % 2 * (ending == "mp4"), 64, 3)
    np.testing.assert_allclose(video.mean(axis=(1, 2)), colors * 4, atol=12.0)
    meta = imageio.v3.immeta(path, plugin=plugin)
    assert (meta["fps"] if ending == "mp4" else 1000 / meta["duration"]) == pytest.approx(25.0)


def test_gifs_run_in_real_time_as_nearly_as_they_can(tmp_path):
    with VideoWriter(tmp_path / "a.gif", fps=30) as writer:
        assert writer.fps == pytest.approx(100 / 3)


def test_wrong_videos_are_refused(tmp_path):
    for name, fps, said in (("a.txt", 30, "must end in"), ("a.mp4", 0, "fps"), ("a.gif", np.nan, "fps")):
        with pytest.raises(newtonsim.NewtonsimError, match=said):
            VideoWriter(tmp_path / name, fps)
    with VideoWriter(tmp_path / "a.gif") as writer:
        writer.add(np.zeros((4, 4, 3), np.uint8))
        for picture in (np.zeros((4, 6, 3), np.uint8), np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8)):
            with pytest.raises(newtonsim.NewtonsimError, match="expected a picture"):
                writer.add(picture)
    with pytest.raises(newtonsim.NewtonsimError, match="closed"):
        writer.add(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(OSError, match="missing"):
        VideoWriter(tmp_path / "missing" / "a.mp4")


def test_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(newtonsim.NewtonsimError, match=r"pip install 'newtonsim\[video\]'"):
        VideoWriter(tmp_path / "a.mp4")


def test_a_film_keeps_the_time(monkeypatch, tmp_path):
    model = cubes(RED)
    state = at(model, 0.0)
    for speed, expected in ((1.0, 13), (2.0, 7), (0.25, 49)):
        with Film(tmp_path / "a.mp4", model, fps=24, speed=speed, width=16, height=16) as film:
            for step in range(121):
                film.record(state, 3.0 + step / 240)
            assert film.pictures == expected
    video = imageio.v3.imread(tmp_path / "a.mp4", plugin="FFMPEG")
    assert len(video) == 49
    # few states for many pictures: each stays until the next
    with Film(tmp_path / "b.mp4", model, fps=24, width=16, height=16) as film:
        for time in (0.0, 0.5, 1.0):
            film.record(state, time)
        assert film.pictures == 25


def test_a_recorded_cube_crosses_the_picture(tmp_path):
    model = cubes(RED, BLUE)
    with Recorder(tmp_path / "a.nsr", model) as recorder:
        for step in range(51):
            recorder.record(at(model, 0.1 * step), 0.02 * step)
    with Recording.open(tmp_path / "a.nsr", "cpu") as recording:
        options = {"worlds": [0], "width": 96, "height": 48, "azimuth": -90.0, "elevation": 0.0}
        assert save_video(tmp_path / "a.mp4", recording, fps=10, **options) == 11
        assert save_video(tmp_path / "b.mp4", recording, fps=10, follow="cube", **options) == 11
        assert save_video(tmp_path / "c.mp4", recording, fps=10, start=0.5, end=0.8, **options) == 4
        with pytest.raises(newtonsim.NewtonsimError, match="starts at 2 s"):
            save_video(tmp_path / "d.mp4", recording, start=2.0)
    fixed, followed = (imageio.v3.imread(tmp_path / name, plugin="FFMPEG") for name in ("a.mp4", "b.mp4"))
    # x points to the right when seen against y: the cube comes in on the left and leaves on the right
    middles = np.array([np.mean(red_columns(picture)) for picture in fixed])
    assert np.all(np.diff(middles) > 3.0)
    assert red_columns(fixed[0])[0] < 10
    assert red_columns(fixed[-1])[-1] > 85
    np.testing.assert_allclose(middles[5], 47.5, atol=1.5)
    np.testing.assert_allclose([np.mean(red_columns(picture)) for picture in followed], 47.5, atol=1.5)


def test_a_sheet_has_each_world_in_its_place(tmp_path):
    model = cubes(RED, BLUE, BLUE, RED, BLUE)
    save_sheet(tmp_path / "a.png", model, at(model, 0.0), worlds=[0, 1, 3, 4], width=60, height=40)
    sheet = imageio.v3.imread(tmp_path / "a.png").astype(int)
    assert sheet.shape == (82, 122, 3)
    for row, column, index in ((0, 0, 0), (0, 1, 2), (1, 0, 0), (1, 1, 2)):
        middle = sheet[42 * row + 22, 62 * column + 30]
        assert np.argmax(middle) == index
        assert np.ptp(middle) > 60
    corner = sheet[:14, :50].sum(axis=-1)
    assert corner.min() < 150  # the label
    plain = Pictures(model, worlds=[0], width=60, height=40).take(at(model, 0.0))
    assert plain.shape == (40, 60, 3)


@pytest.mark.parametrize("up", [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0.6, 0, 0.8)])
@pytest.mark.parametrize(("azimuth", "elevation"), [(-55.0, 18.0), (130.0, -30.0), (0.0, 80.0)])
def test_boxes_fill_the_picture_and_stay_inside(up, azimuth: float, elevation: float):
    rng = np.random.default_rng(0)
    lower = rng.uniform(-2, 2, (4, 3))
    boxes = np.stack([lower, lower + rng.uniform(0.1, 3, (4, 3))], axis=1)
    eyes, targets = view_of(boxes, up, 1.5, azimuth, elevation, 40.0)
    np.testing.assert_allclose(targets, boxes.mean(axis=1))
    back = (eyes - targets)[0] / np.linalg.norm((eyes - targets)[0])
    assert back @ np.array(up) == pytest.approx(np.sin(np.radians(elevation)))
    right = np.cross(up, back) / np.linalg.norm(np.cross(up, back))
    reach = []
    for box, eye in zip(boxes, eyes):
        corners = np.array(
            [[box[i, 0], box[j, 1], box[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)]
        )
        rays = corners - eye
        depth = -rays @ back
        assert depth.min() > 0.0
        tall = np.tan(np.radians(20.0))
        reach.append(np.abs(rays @ right / depth / tall / 1.5).max())
        reach.append(np.abs(rays @ np.cross(back, right) / depth / tall).max())
    assert 0.6 < max(reach) < 1.0


def test_lost_worlds_do_not_end_a_film(tmp_path):
    model = cubes(RED, RED)
    with Film(tmp_path / "a.mp4", model, follow="cube", width=32, height=32, fps=10) as film:
        for step in range(6):
            state = at(model, 0.3 * step)
            if step > 2:
                poses = state.body_q.numpy().copy()
                poses[0] = np.nan
                state.body_q.assign(poses)
            film.record(state, 0.1 * step)
    last = imageio.v3.imread(tmp_path / "a.mp4", plugin="FFMPEG")[-1]
    assert not len(red_columns(last[:, :32]))
    np.testing.assert_allclose(np.mean(red_columns(last[:, 34:])), 15.5, atol=1.5)


def test_the_camera_looks_at_what_can_move():
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    floor, base, arm = builder.add_body(), builder.add_body(), builder.add_body()
    builder.add_shape_box(floor, hx=50.0, hy=50.0, hz=1.0)
    builder.add_joint_fixed(-1, floor)
    builder.add_articulation("robot")
    builder.add_shape_box(base, hx=0.2, hy=0.2, hz=0.3)
    builder.add_joint_fixed(-1, base)
    builder.add_shape_capsule(arm, radius=0.1, half_height=0.4, up_axis=2)
    builder.add_joint_revolute(base, arm, axis=(0, 1, 0))
    builder.body_q[arm] = wp.transform((0, 0, 1), wp.quat_identity())
    model = builder.finalize("cpu")
    box = Subject(model, np.array([0])).boxes(model.state())[0]
    np.testing.assert_allclose(box, [[-0.2, -0.2, -0.3], [0.2, 0.2, 1.5]], atol=1e-6)


def test_wrong_views_are_refused():
    model = cubes(RED, BLUE)
    for options, said in (
        ({"eye": (1, 0, 0)}, "both eye and target"),
        ({"follow": "sphere"}, "follow: world 0 has 0 bodies 'sphere'"),
        ({"labels": ["one"]}, "labels: expected 2"),
        ({"columns": 0}, "columns"),
        ({"worlds": [7]}, "worlds"),
        ({"width": 0}, "0 x"),
    ):
        with pytest.raises(newtonsim.NewtonsimError, match=said):
            Pictures(model, **{"height": 16, "width": 16, **options})
    with pytest.raises(newtonsim.NewtonsimError, match="elevation"):
        Pictures(model, elevation=90.0, width=8, height=8).take(at(model, 0.0))
    with pytest.raises(newtonsim.NewtonsimError, match="unknown file extension"):
        save_sheet("a.nothing", model, at(model, 0.0), width=8, height=8)

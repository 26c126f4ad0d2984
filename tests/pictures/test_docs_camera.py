"""The camera of the films of the docs: what it leaves out of a picture has not changed."""

import sys

import numpy as np
import pytest
from rooms import ROOT

import newtonsim
from newtonsim.render import Lighting, Recorder, Recording

UP = (0.0, 0.0, 1.0)
VIEW = (3.0, -4.0, 2.0), (0.0, 0.0, 0.3), 40.0


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(ROOT / "docs"))
    import picture_camera

    yield picture_camera
    sys.path.remove(str(ROOT / "docs"))


def balls(worlds: int, ground: bool = True) -> newtonsim.Model:
    """Return a ball, above the ground if there is one, in each of some worlds."""
    ball = newtonsim.ModelBuilder(up_vector=UP)
    ball.add_shape_sphere(ball.add_body(origin=(0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0)), radius=0.2)
    scene = newtonsim.ModelBuilder(up_vector=UP)
    for _ in range(worlds):
        scene.add_builder(ball)
    if ground:
        scene.set_ground_plane()
    return scene.finalize("cpu")


LIGHTS = {"above": Lighting.above(UP), "low": Lighting(direction=(-1.0, -0.5, 0.25))}
"""Light in which a shadow lies under a ball, and far from it."""


@pytest.mark.parametrize("light", LIGHTS)
def test_tiles_that_are_kept_are_as_they_would_be_drawn(tools, light):
    model = balls(1)
    state = model.state()
    sides = 192, 96
    eyes = [tools.Eye(model, *sides, *VIEW, LIGHTS[light], tiles=tiles) for tiles in ((4, 2), (1, 1))]
    drawn = 0
    for x in (0.0, 0.4, 0.6, -0.6):
        poses = state.body_q.numpy()
        poses[0, 0] = x
        state.body_q.assign(poses)
        tiled, whole = (eye.look(state) for eye in eyes)
        np.testing.assert_array_equal(tiled[0], whole[0])
        # at the horizon the depth of the ground hangs on the last digit of a ray
        np.testing.assert_allclose(tiled[1], whole[1], rtol=1e-4)
        drawn += len([*eyes[0].changed(state)])
    assert drawn == 0, "nothing has moved since the last picture"


def test_worlds_stand_side_by_side(tools):
    model = balls(4)
    row = tools.SideBySide(model, None, spacing=1.0, columns=4)
    state = model.state()
    row.move(state)
    np.testing.assert_allclose(state.body_q.numpy()[:, :2], [(0, y) for y in (-1.5, -0.5, 0.5, 1.5)])
    view = (6.0, 0.0, 0.5), (0.0, 0.0, 0.5), 40.0
    depth = tools.Eye(model, 320, 160, *view, Lighting.above(UP), (0,), (1, 1)).look(state)[1]
    # the middle of each ball is 0.2 m nearer than its centre
    for column, line in tools.project(state.body_q.numpy()[:, :3], *view, 320, 160):
        assert depth[int(line), int(column)] == pytest.approx(5.8, abs=0.03)


def test_floors_are_drawn_under_recorded_models_without_one(tools, tmp_path):
    model = balls(1, ground=False)
    with Recorder(tmp_path / "run.nsr", model) as recorder:
        recorder.record(model.state(), 0.0)
    run = Recording.open(tmp_path / "run.nsr", "cpu")
    tools.add_floor(run.model, -0.5)
    view = (3.0, 0.0, 0.5), (0.0, 0.0, -0.5), 40.0
    eye = tools.Eye(run.model, 33, 17, *view, Lighting.above(UP), None, (1, 1))
    depth = eye.look(run.load(0))[1]
    # the line of sight passes below the ball, and ends on the floor
    assert depth[8, 16] == pytest.approx(np.sqrt(10.0), rel=1e-4)

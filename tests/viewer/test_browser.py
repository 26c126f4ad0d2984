"""The viewer as its users have it: in a browser, with a mouse."""

import numpy as np
import pytest
from chromium import changed, drag, picture, until

from newtonsim import Simulator
from newtonsim.cli.scene import build_scene, load_robot
from newtonsim.examples import asset_path
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.joint_sliders import joint_axes
from newtonsim.solvers import FeatherstoneSolver

SIZE = {"width": 800, "height": 400}


@pytest.fixture(scope="module")
def simulator():
    model = build_scene(load_robot(asset_path("quadruped.xml")), 1, "cpu")
    return Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)


@pytest.fixture(scope="module")
def viewer(simulator):
    with Viewer(simulator.model, port=0, rate=20.0, effects=False) as viewer:
        viewer.run(simulator, paused=True)
        yield viewer


def visit(browser, viewer):
    """Open the viewer in another tab."""
    others = viewer.client_count
    page = browser.new_page(viewport=SIZE)
    page.goto(viewer.url)
    # viser's word on software rendering lies over the robot
    page.add_style_tag(content=".mantine-Notification-root { display: none !important }")
    until(lambda: viewer.client_count == others + 1, page)
    page.get_by_role("button", name="Pause").wait_for()
    return page


@pytest.fixture(scope="module")
def page(browser, viewer):
    page = visit(browser, viewer)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.wait_for_timeout(500)
    yield page
    assert not errors
    page.close()


def pixel(viewer, point):
    """Where a point of the world is on the page, by the pinhole model."""
    view = viewer.camera.view
    ahead = view.target - view.position
    ahead = ahead / np.linalg.norm(ahead)
    right = np.cross(ahead, view.up)
    right /= np.linalg.norm(right)
    away = np.asarray(point) - view.position
    # a slow browser draws with fewer pixels than the page has
    width, height = SIZE["height"] / view.size[1] * np.array(view.size)
    scale = 0.5 * height / np.tan(0.5 * view.fov) / (away @ ahead)
    return 0.5 * width + scale * (away @ right), 0.5 * height - scale * (away @ np.cross(right, ahead))


def hold(viewer, page, name, up):
    """Drag a body up the page by some pixels and go on holding it; a browser may still be loading shapes."""

    def holds():
        x, y = pixel(viewer, place_of(viewer, name))
        page.mouse.up()
        drag(page, (x, y), (x, y - up))
        page.wait_for_timeout(100)
        return viewer.mouse.holds

    until(holds, page)


def place_of(viewer, name):
    body = viewer.model.body_key.index(name)
    return viewer.frame.body_q[body, :3]


def test_the_robot_is_shown_and_moves(viewer, page):
    robot = picture(viewer)
    viewer.show_shapes("hidden")
    bare = picture(viewer)
    viewer.show_shapes("solid")
    assert changed(robot, bare) > 0.02
    page.get_by_role("button", name="Play").click()
    until(lambda: viewer.frame.time > 0.3, page)
    page.get_by_role("button", name="Pause").click()
    until(lambda: not viewer.playback.playing, page)
    assert changed(robot, picture(viewer)) > 0.01


def test_a_step_and_a_restart(viewer, page):
    before = viewer.frame.time
    page.get_by_role("button", name="Step").click()
    until(lambda: viewer.frame.time > before, page)
    assert viewer.frame.time == pytest.approx(before + 1.0 / 240.0)
    page.get_by_role("button", name="Restart").click()
    until(lambda: viewer.frame.time == 0.0, page)


def shows(page, slider, value):
    """Wait until a folder has opened and its slider has the value that the viewer sends."""
    slider.wait_for(state="visible")
    until(lambda: abs(float(slider.get_attribute("aria-valuenow")) - value) < 0.02, page)
    page.wait_for_timeout(300)


def test_a_slider_bends_a_joint_while_paused(viewer, page):
    axis = joint_axes(viewer.model, 0)[1]
    page.get_by_text("Joints").click()
    slider = page.get_by_role("slider").nth(1)
    shows(page, slider, viewer.frame.joint_q[axis.coordinate])
    slider.press("End")
    until(lambda: abs(viewer.frame.joint_q[axis.coordinate] - axis.upper) < 1e-3, page)
    page.get_by_text("Joints").click()


def test_a_drag_moves_the_robot_while_paused(viewer, page):
    start = place_of(viewer, "trunk")
    hold(viewer, page, "trunk", 60)
    page.mouse.up()
    until(lambda: not viewer.mouse.holds, page)
    assert viewer.mouse.picked == viewer.model.body_key.index("trunk")
    until(lambda: place_of(viewer, "trunk")[2] > start[2] + 0.05, page)


def test_a_drag_pulls_the_robot_while_running(viewer, simulator, page):
    viewer.playback.rewind()
    viewer.playback.playing = True
    until(lambda: 0.3 < viewer.frame.time < 2.0, page)
    start = place_of(viewer, "trunk")
    hold(viewer, page, "trunk", 80)
    until(lambda: place_of(viewer, "trunk")[2] > start[2] + 0.05, page)
    page.mouse.up()
    until(lambda: not viewer.mouse.holds, page)
    viewer.playback.playing = False
    assert not simulator.state.body_f.numpy().any()


def test_a_slider_sets_the_target_of_a_drive_while_running(viewer, simulator, page):
    axis = joint_axes(viewer.model, 0)[2]
    assert axis.is_driven
    viewer.playback.playing = True
    page.get_by_text("Joints").click()
    # the slider of the mouse's spring appears before those of the twelve joints
    slider = page.get_by_role("slider").nth(3)
    shows(page, slider, simulator.control.joint_act.numpy()[axis.axis])
    slider.press("End")
    until(lambda: abs(simulator.control.joint_act.numpy()[axis.axis] - axis.upper) < 1e-3, page)
    until(lambda: viewer.frame.joint_q[axis.coordinate] > axis.upper - 0.3, page)
    viewer.playback.playing = False
    page.get_by_text("Joints").click()


def test_the_camera_comes_back_to_the_robot(viewer, page):
    viewer.camera.look((30.0, 0.0, 5.0), (40.0, 0.0, 5.0))
    until(lambda: viewer.camera.view.position[0] > 29.0, page)
    page.get_by_role("button", name="Look at all").click()
    until(lambda: np.linalg.norm(viewer.camera.view.target - place_of(viewer, "trunk")) < 0.5, page)
    x, y = pixel(viewer, place_of(viewer, "trunk"))
    assert 0.0 < x < SIZE["width"]
    assert 0.0 < y < SIZE["height"]


def test_drawings_and_controls_of_users(viewer, page):
    bare = picture(viewer)
    number = viewer.draw.lines(np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2, 3)), (1, 0, 0), width=8.0)
    page.wait_for_timeout(300)
    assert changed(bare, picture(viewer)) > 0.01
    assert viewer.draw.remove(number)
    button = viewer.gui.button("Kick")
    viewer.gui.on_key("K", lambda key: None)
    page.get_by_role("button", name="Kick").click()
    page.keyboard.press("k")
    until(lambda: button.clicks == 1, page)
    until(lambda: viewer.gui.pressed_keys() == ["K"], page)
    button.remove()


def test_two_browsers_see_the_same_and_one_may_leave(viewer, browser, page):
    viewer.playback.rewind()
    second = visit(browser, viewer)
    second.get_by_role("button", name="Play").click()
    until(lambda: viewer.playback.playing, page)
    # it leaves while it holds a body
    hold(viewer, second, "trunk", 40)
    second.close()
    until(lambda: viewer.client_count == 1, page)
    until(lambda: not viewer.mouse.holds, page)
    before = viewer.frame.time
    until(lambda: viewer.frame.time > before + 0.2, page)
    page.get_by_role("button", name="Pause").click()
    until(lambda: not viewer.playback.playing, page)
    assert viewer.playback.error is None

"""GUI clients as their users have them: with a page in a browser."""

import numpy as np
import pytest
from chromium import changed, drag, picture, until

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.clients.table import get_client
from newtonsim.pybullet_compat.gui.window import Window

pytest.importorskip("viser")
WIDTH, HEIGHT = 1000, 400


@pytest.fixture(scope="module")
def client():
    number = p.connect(p.GUI, options="--port=0 --effects=0")
    yield number
    p.disconnect(number)


@pytest.fixture(scope="module")
def viewer(client):
    return get_client(client).part(Window).viewer


@pytest.fixture(scope="module")
def box(client):
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.3, 0.3, 0.3])
    look = p.createVisualShape(p.GEOM_BOX, halfExtents=[0.3, 0.3, 0.3], rgbaColor=[0.1, 0.2, 0.9, 1])
    body = p.createMultiBody(2.0, shape, look)
    p.resetDebugVisualizerCamera(2.0, 0.0, 0.0, [0, 0, 0])
    return body


@pytest.fixture(scope="module")
def page(browser, viewer, box):
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(viewer.url)
    until(lambda: viewer.client_count == 1 and viewer.model.body_count == 1, page)
    until(lambda: page.evaluate("window.newtonsimInput"), page)
    page.wait_for_timeout(500)
    yield page
    assert not errors
    page.close()


def colored(viewer, color):
    """Share of the pixels that are nearly of a hue."""
    pixels = picture(viewer)
    wanted = np.array(color, float)
    best = pixels.max(axis=2) - pixels.min(axis=2) > 60
    return (best & (pixels.argmax(axis=2) == wanted.argmax())).mean()


def canvas_of(page):
    """Where the page shows the scene: left, top, width and height in pixels."""
    box = page.locator("canvas").first.bounding_box()
    return box["x"], box["y"], box["width"], box["height"]


def test_a_body_is_shown_and_changes_its_colour(viewer, page, box):
    assert colored(viewer, [0, 0, 1]) > 0.02
    p.changeVisualShape(box, -1, rgbaColor=[1, 0, 0, 1])
    until(lambda: colored(viewer, [1, 0, 0]) > 0.02, page)
    before = picture(viewer)
    p.resetBasePositionAndOrientation(box, [0.5, 0, 0], [0, 0, 0, 1])
    until(lambda: changed(before, picture(viewer)) > 0.01, page)
    p.resetBasePositionAndOrientation(box, [0, 0, 0], [0, 0, 0, 1])


def test_lines_and_texts_appear_and_go(viewer, page):
    line = p.addUserDebugLine([-1, -1, 0.8], [1, -1, 0.8], [0, 1, 0], 12)
    until(lambda: colored(viewer, [0, 1, 0]) > 0.01, page)
    p.removeUserDebugItem(line)
    until(lambda: colored(viewer, [0, 1, 0]) < 0.001, page)
    p.addUserDebugText("HHHH", [-1, -0.5, 0.5], [0, 1, 0], 4)
    until(lambda: colored(viewer, [0, 1, 0]) > 0.01, page)
    p.removeAllUserDebugItems()


def test_sliders_and_buttons_are_read(page):
    slider = p.addUserDebugParameter("height", -2.0, 3.0, 0.5)
    button = p.addUserDebugParameter("press me", 1.0, 0.0, 0.0)
    page.get_by_role("button", name="press me").click()
    page.get_by_role("slider").first.press("End")
    until(lambda: p.readUserDebugParameter(slider) == 3.0, page)
    page.get_by_role("button", name="press me").click()
    until(lambda: p.readUserDebugParameter(button) == 2.0, page)
    p.removeAllUserParameters()
    page.get_by_role("button", name="press me").wait_for(state="detached")


def test_keys_go_down_and_up_and_leave_the_camera(viewer, page):
    p.getKeyboardEvents()
    page.mouse.move(5, 5)
    eye = viewer.camera.view.position
    seen = []

    def told():
        seen.append(p.getKeyboardEvents())
        return seen[-1]

    page.keyboard.down("q")
    until(told, page)
    assert seen[-1] == {ord("q"): p.KEY_IS_DOWN | p.KEY_WAS_TRIGGERED}
    assert p.getKeyboardEvents() == {ord("q"): p.KEY_IS_DOWN}
    page.wait_for_timeout(300)
    np.testing.assert_allclose(viewer.camera.view.position, eye, atol=1e-4)
    page.keyboard.up("q")
    until(lambda: told() == {ord("q"): p.KEY_WAS_RELEASED}, page)
    page.keyboard.press("F2")
    until(lambda: p.B3G_F2 in told(), page)


def test_the_camera_is_set_and_read(viewer, page):
    p.resetDebugVisualizerCamera(3.0, 30.0, -20.0, [0.1, 0.2, 0.3])
    width, height = p.getDebugVisualizerCamera()[:2]  # slow browsers take fewer pixels
    canvas = canvas_of(page)
    assert width / height == pytest.approx(canvas[2] / canvas[3], rel=0.02)
    eye = np.array([0.1, 0.2, 0.3]) - 3.0 * np.array(p.getDebugVisualizerCamera()[5])
    until(lambda: np.abs(viewer.camera.view.position - eye).max() < 1e-3, page)
    page.wait_for_timeout(200)
    assert p.getDebugVisualizerCamera()[8:11] == (30.0, -20.0, 3.0)
    drag(page, (20, 380), (120, 380))  # the scene turns under the mouse
    page.mouse.up()
    until(lambda: abs(p.getDebugVisualizerCamera()[8] - 30.0) > 5.0, page)
    assert any(event[0] == 2 for event in p.getMouseEvents())
    p.resetDebugVisualizerCamera(2.0, 0.0, 0.0, [0, 0, 0])


def test_a_drag_pulls_a_body_and_a_closed_tab_harms_nothing(viewer, page, box):
    eye = np.array([0.0, -2.0, 0.0])
    until(lambda: np.abs(viewer.camera.view.position - eye).max() < 1e-3, page)
    x, y, width, height = canvas_of(page)
    middle = (x + width / 2, y + height / 2)

    def risen():
        p.stepSimulation()
        return p.getBasePositionAndOrientation(box)[0][2]

    page.wait_for_timeout(300)
    drag(page, middle, (middle[0], middle[1] - 80))
    until(lambda: viewer.mouse.holds and risen() > 0.02, page)
    page.mouse.up()
    until(lambda: not viewer.mouse.holds, page)
    page.goto("about:blank")
    until(lambda: viewer.client_count == 0, page)
    before = risen()
    assert risen() != before

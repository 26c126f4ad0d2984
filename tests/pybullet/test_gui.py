"""GUI clients with their page, but without a browser."""

import socket
import threading

import numpy as np
import pytest

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.api.debug_items import DebugCamera
from newtonsim.pybullet_compat.api.events import Events
from newtonsim.pybullet_compat.clients.table import get_client
from newtonsim.pybullet_compat.gui.items import facing_camera, text_picture
from newtonsim.pybullet_compat.gui.sight import camera_of
from newtonsim.pybullet_compat.gui.window import Window
from newtonsim.render.viewer.camera import View

pytest.importorskip("viser")


@pytest.fixture
def window():
    client = p.connect(p.GUI, options="--port=0 --effects=0")
    yield get_client(client).part(Window)
    if p.isConnected(client):
        p.disconnect(client)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fall():
    """Where a box is that fell onto another one."""
    shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[0.2, 0.2, 0.2])
    p.createMultiBody(0.0, shape)
    box = p.createMultiBody(1.0, shape, basePosition=[0.1, 0.0, 0.5])
    p.setGravity(0, 0, -10)
    for _ in range(60):
        p.stepSimulation()
    return p.getBasePositionAndOrientation(box)


def test_the_page_is_served_until_the_client_is_gone(window, capfd):
    port = window.viewer.port
    assert listens(port)
    assert p.getConnectionInfo() == {"isConnected": 1, "connectionMethod": p.GUI}
    p.disconnect()
    assert not listens(port)
    assert not p.isConnected()
    again = p.connect(p.GUI, options=f"--port={port}")
    assert capfd.readouterr().err.strip() == f"newtonsim: GUI at http://127.0.0.1:{port}"
    assert again == 0
    p.disconnect()


@pytest.mark.parametrize(
    "options", ["--port=x", "--port=70000", "--host=no.such.host.invalid", "--background_color_red=x"]
)
def test_wrong_options_leave_no_client(options):
    with pytest.raises(p.error, match=options.split("=")[1]):
        p.connect(p.GUI, options=options)
    assert not p.isConnected()


def test_steps_are_those_of_direct_mode_to_the_bit(window):
    shown = fall()
    window.refresh()
    p.disconnect()
    p.connect(p.DIRECT)
    assert fall() == shown
    p.disconnect()


def test_bodies_come_move_and_go_on_the_page(window):
    shape = p.createVisualShape(p.GEOM_SPHERE, radius=0.1, rgbaColor=[0.0, 1.0, 0.0, 1.0])
    ball = p.createMultiBody(1.0, -1, shape, basePosition=[1.0, 2.0, 3.0])
    p.stepSimulation()
    window.refresh()
    viewer = window.viewer
    (batch,) = viewer.scene._visuals.batches
    np.testing.assert_allclose(batch.handle.batched_positions, [[1.0, 2.0, 3.0]], atol=1e-4)
    assert (batch.handle.batched_colors > 0).tolist() == [[False, True, False]]
    p.resetBasePositionAndOrientation(ball, [4.0, 5.0, 6.0], [0, 0, 0, 1])
    p.changeVisualShape(ball, -1, rgbaColor=[1.0, 0.0, 0.0, 1.0])
    window.refresh()
    (batch,) = viewer.scene._visuals.batches
    np.testing.assert_allclose(batch.handle.batched_positions, [[4.0, 5.0, 6.0]], atol=1e-6)
    assert (batch.handle.batched_colors > 0).tolist() == [[True, False, False]]
    p.removeBody(ball)
    p.stepSimulation()
    window.refresh()
    assert viewer.scene._visuals.batches == []


def test_a_pause_holds_up_the_script(window):
    fall()
    window.viewer.playback.playing = False
    simulator = get_client(0).simulator
    before = simulator.time
    script = threading.Thread(target=lambda: [p.stepSimulation() for _ in range(3)])
    script.start()
    script.join(0.2)
    assert script.is_alive()
    assert simulator.time == before
    window.viewer.playback.playing = True
    script.join(10.0)
    assert simulator.time == pytest.approx(before + 3 / 240)


def test_items_are_drawn_follow_their_body_and_expire(window):
    ball = p.createMultiBody(1.0, basePosition=[1.0, 0.0, 0.0])
    line = p.addUserDebugLine([0, 0, 0], [1, 0, 0], [1, 0, 0], 2.0, parentObjectUniqueId=ball)
    p.addUserDebugText("hello", [0, 0, 1])
    p.addUserDebugPoints([[0, 0, 0]], [[1, 1, 0]], 5.0, lifeTime=1e-3)
    p.stepSimulation()
    window.refresh()
    (drawn,) = window._drawer._drawn.keys() - {1, 2}
    assert drawn == line
    p.resetBasePositionAndOrientation(ball, [0.0, 3.0, 0.0], [0, 0, 0, 1])
    window.refresh()
    assert 2 not in window._drawer._drawn
    np.testing.assert_allclose(window._drawer._drawn[line].pose, [0, 3, 0, 0, 0, 0, 1], atol=1e-6)
    p.removeAllUserDebugItems()
    window.refresh()
    assert not window._drawer._drawn


@pytest.mark.parametrize(("yaw", "pitch"), [(50.0, -35.0), (-120.0, 20.0), (179.0, -80.0)])
def test_cameras_of_the_page_are_told_as_pybullet_tells_them(yaw, pitch):
    pybullet = pytest.importorskip("pybullet")
    matrix = np.reshape(
        pybullet.computeViewMatrixFromYawPitchRoll([1, 2, 3], 2.5, yaw, pitch, 0, 2), (4, 4)
    ).T
    eye = -matrix[:3, :3].T @ matrix[:3, 3]
    camera = camera_of(View(eye, np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0]), 1.0, (10, 10)))
    np.testing.assert_allclose([camera.distance, camera.yaw, camera.pitch], [2.5, yaw, pitch], atol=1e-3)


def test_texts_face_the_camera():
    # seen along +y: right is +x, down is -z, away is +y
    x, y, z, w = facing_camera(DebugCamera(1.0, 0.0, 0.0))
    np.testing.assert_allclose(np.abs([x, y, z, w]), [np.sqrt(0.5), 0, 0, np.sqrt(0.5)], atol=1e-7)
    assert x * w < 0.0


def test_texts_have_their_colour():
    image = text_picture("hello", (0.0, 1.0, 0.0))
    assert image[image[..., 3] > 200][:, :3].tolist()[0] == [0, 255, 0]
    assert (image[..., 3] == 0).mean() > 0.5


def test_keys_and_mouse_buttons_are_merged_as_the_quickstart_guide_says():
    events = Events(None)
    events.key(97, True)
    assert events.take_keys() == {97: p.KEY_IS_DOWN | p.KEY_WAS_TRIGGERED}
    assert events.take_keys() == {97: p.KEY_IS_DOWN}
    events.key(97, False)
    events.key(98, True)
    events.key(98, False)
    assert events.take_keys() == {
        97: p.KEY_WAS_RELEASED,
        98: p.KEY_IS_DOWN | p.KEY_WAS_TRIGGERED | p.KEY_WAS_RELEASED,
    }
    assert events.take_keys() == {}
    for x in (1.0, 2.0):
        events.pointer(x, 5.0)
    events.pointer(2.0, 5.0, 0, True)
    assert events.take_mouse() == ((1, 2.0, 5.0, -1, 0), (2, 2.0, 5.0, 0, 3))
    events.pointer(2.0, 5.0, 0, False)
    assert events.take_mouse() == ((2, 2.0, 5.0, 0, p.KEY_WAS_RELEASED),)

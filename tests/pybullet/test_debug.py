"""Debug items, events and plugins, against the real module and what its window shows."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import newtonsim.pybullet_compat as compat

pybullet = pytest.importorskip("pybullet")

LINE = ([0, 0, 0], [1, 1, 1])
DIRECT_CALLS = [
    ("addUserDebugLine", LINE),
    ("addUserDebugLine", ([0, 0], [1, 1, 1])),
    ("addUserDebugLine", ([0, 0, 0], [1, 1])),
    ("addUserDebugLine", (*LINE, [1, 1])),
    ("addUserDebugText", ("hi", [0, 0, 0])),
    ("addUserDebugText", ("hi", [0, 0])),
    ("addUserDebugText", ("hi", [0, 0, 0], [1, 1])),
    ("addUserDebugText", ("hi", [0, 0, 0], [1, 1, 1], 1.0, 0.0, [1, 1])),
    ("addUserDebugText", (b"hi", [0, 0, 0])),
    ("addUserDebugPoints", ([[0, 0, 0]], [[1, 0, 0]])),
    ("addUserDebugPoints", ([[0, 0, 0]], [[1, 0, 0], [1, 0, 0]])),
    ("addUserDebugPoints", (3, 4)),
    ("addUserDebugParameter", ("slider", 0, 1, 0.5)),
    ("readUserDebugParameter", (0,)),
    ("removeUserDebugItem", (0,)),
    ("removeAllUserDebugItems", ()),
    ("removeAllUserParameters", ()),
    ("setDebugObjectColor", (0, -1, [1, 0, 0])),
    ("configureDebugVisualizer", (pybullet.COV_ENABLE_GUI, 0)),
    ("resetDebugVisualizerCamera", (3, 30, -20, [1, 2, 3])),
    ("getDebugVisualizerCamera", ()),
    ("getKeyboardEvents", ()),
    ("getMouseEvents", ()),
    ("getVREvents", (7, 1)),
    ("setVRCameraState", ([0, 0, 0], [0, 0, 0, 1])),
    ("loadPlugin", ("pdControlPlugin",)),
    ("loadPlugin", ("collisionFilterPlugin",)),
    ("loadPlugin", ("tinyRendererPlugin", "_tiny")),
    ("loadPlugin", ("fileIOPlugin",)),
    ("loadPlugin", ("no such plugin",)),
    ("executePluginCommand", (1, "", [1, 2])),
    ("executePluginCommand", (3, "x", [1], [2.0])),
    ("executePluginCommand", (99,)),
    ("unloadPlugin", (99,)),
]


def outcome(module, client, name, arguments):
    """Return what a call returns or raises."""
    try:
        return getattr(module, name)(*arguments, physicsClientId=client)
    except (module.error, TypeError) as problem:
        return f"{type(problem).__name__}: {problem}"


@pytest.fixture
def gui(monkeypatch):
    """A client of ours that was connected as GUI, without a page."""
    monkeypatch.setenv("NEWTONSIM_GUI", "off")
    client = compat.connect(compat.GUI)
    yield client
    compat.disconnect(client)


@pytest.mark.parametrize(("name", "arguments"), DIRECT_CALLS)
def test_without_a_window_everything_is_as_in_direct_mode(both, name, arguments):
    real, ours = (outcome(m, c, name, arguments) for m, c in zip((pybullet, compat), both.ids))
    assert real == ours
    assert type(real) is type(ours)


def test_items_of_gui_clients_get_ids_as_in_the_window(gui):
    # ids as the window of PyBullet 3.2.7 gave them for the same calls
    assert compat.addUserDebugLine(*LINE, physicsClientId=gui) == 0
    assert compat.addUserDebugText("hi", [0, 0, 0], physicsClientId=gui) == 1
    assert compat.addUserDebugPoints([[0, 0, 0]], [[1, 0, 0]], physicsClientId=gui) == 2
    assert compat.addUserDebugParameter("s", 0, 1, 0.5, physicsClientId=gui) == 3
    assert compat.addUserDebugLine(*LINE, replaceItemUniqueId=77, physicsClientId=gui) == -1
    assert compat.addUserDebugText("hi", [0, 0, 0], replaceItemUniqueId=0, physicsClientId=gui) == 0
    assert compat.addUserDebugLine(*LINE, replaceItemUniqueId=3, physicsClientId=gui) == -1
    compat.removeUserDebugItem(1, physicsClientId=gui)
    assert compat.addUserDebugLine(*LINE, replaceItemUniqueId=1, physicsClientId=gui) == -1
    assert compat.addUserDebugLine(*LINE, physicsClientId=gui) == 4


def test_sliders_have_their_start_value_within_the_range(gui):
    slider = compat.addUserDebugParameter("s", 0, 1, 0.7, physicsClientId=gui)
    above = compat.addUserDebugParameter("u", 0, 1, 7, physicsClientId=gui)
    button = compat.addUserDebugParameter("b", 1, 0, 5, physicsClientId=gui)
    compat.resetSimulation(physicsClientId=gui)
    compat.removeAllUserDebugItems(physicsClientId=gui)
    values = [compat.readUserDebugParameter(i, physicsClientId=gui) for i in (slider, above, button)]
    assert values == [float(np.float32(0.7)), 1.0, 5.0]
    assert compat.addUserDebugLine(*LINE, physicsClientId=gui) == 3
    compat.removeAllUserParameters(physicsClientId=gui)
    with pytest.raises(compat.error, match="Failed to read parameter"):
        compat.readUserDebugParameter(slider, physicsClientId=gui)


@pytest.mark.parametrize(
    ("distance", "yaw", "pitch", "target"),
    [(5.0, 50.0, -35.0, (0, 0, 0)), (2.5, -70.0, 40.0, (1, 0, -1)), (1.0, 200.0, -89.0, (0, 0, 0))],
)
def test_camera_of_the_window(gui, distance, yaw, pitch, target):
    compat.resetDebugVisualizerCamera(distance, yaw, pitch, target, physicsClientId=gui)
    compat.resetDebugVisualizerCamera(-1, 0, 0, target, physicsClientId=gui)
    compat.resetDebugVisualizerCamera(1, 0, 0, [0, 0], physicsClientId=gui)
    camera = compat.getDebugVisualizerCamera(physicsClientId=gui)
    view = pybullet.computeViewMatrixFromYawPitchRoll(target, distance, yaw, pitch, 0, 2)
    assert camera[:2] == (1024, 768)
    np.testing.assert_allclose(camera[2], view, atol=2e-6)
    np.testing.assert_allclose(
        camera[3], pybullet.computeProjectionMatrixFOV(90, 1024 / 768, 0.01, 1000.0), atol=1e-6
    )
    rows = np.reshape(view, (4, 4)).T
    np.testing.assert_allclose(camera[5], -rows[2, :3], atol=2e-6)
    np.testing.assert_allclose(camera[6], 20000.0 * 1024 / 768 * rows[0, :3], atol=0.1)
    np.testing.assert_allclose(camera[7], 20000.0 * rows[1, :3], atol=0.1)
    assert camera[8:] == (yaw, pitch, distance, tuple(map(float, target)))


def test_camera_that_looks_straight_down_is_finite(gui):
    compat.resetDebugVisualizerCamera(1, 0, -90, [0, 0, 0], physicsClientId=gui)
    view = np.reshape(compat.getDebugVisualizerCamera(physicsClientId=gui)[2], (4, 4)).T
    np.testing.assert_allclose(view, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -1], [0, 0, 0, 1]], atol=1e-6)


def test_models_in_zip_files(both, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = Path(pytest.importorskip("pybullet_data").getDataPath())
    with zipfile.ZipFile("models.zip", "w") as archive:
        archive.write(data / "plane.urdf", "sub/ground.urdf")
        archive.write(data / "plane100.obj", "sub/plane100.obj")
        archive.write(data / "plane.obj", "sub/plane.obj")
    for module, client in zip((pybullet, compat), both.ids):
        plugin = module.loadPlugin("fileIOPlugin", physicsClientId=client)
        assert plugin == 3
        action = [module.AddFileIOAction, module.ZipFileIO]
        names = ("models.zip", "missing.zip")
        added = [module.executePluginCommand(plugin, n, action, physicsClientId=client) for n in names]
        assert added == [1, 2]
        assert module.loadURDF("sub/ground.urdf", physicsClientId=client) == 0
        with pytest.raises(module.error, match="Cannot load URDF file"):
            module.loadURDF("ground.urdf", physicsClientId=client)
    both.same("getBodyInfo", 0)


def test_zip_files_do_not_reach_out_of_their_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../../outside.urdf", "<robot/>")
    client = compat.connect(compat.DIRECT)
    action = [compat.AddFileIOAction, compat.ZipFileIO]
    assert compat.executePluginCommand(3, str(tmp_path / "bad.zip"), action, physicsClientId=client) == 1
    with pytest.raises(compat.error, match="Cannot load URDF file"):
        compat.loadURDF("../../outside.urdf", physicsClientId=client)
    compat.disconnect(client)

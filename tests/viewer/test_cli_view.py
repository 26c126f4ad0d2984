"""``newtonsim view`` and ``newtonsim run --view``, without a browser."""

import re
import urllib.request

import numpy as np
import pytest

from newtonsim.cli.main import main
from newtonsim.cli.scene import build_scene, load_robot
from newtonsim.examples import asset_path
from newtonsim.render import Recorder
from newtonsim.render.viewer import Viewer

PLACE = ("--port", "0", "--no-browser", "--plain", "--device", "cpu")


@pytest.fixture
def seen(monkeypatch):
    """Viewers that were waited for; each wait ends at once with Ctrl-C."""
    viewers = []

    def wait(viewer):
        viewers.append((viewer.frame, urllib.request.urlopen(viewer.url).read(100)))
        raise KeyboardInterrupt

    monkeypatch.setattr(Viewer, "wait", wait)
    return viewers


def test_a_robot_file_is_shown(capsys, seen):
    assert main(["view", str(asset_path("arm7.urdf")), *PLACE]) == 0
    assert re.search(r"viewer: http://127\.0\.0\.1:\d+ ", capsys.readouterr().out)
    frame, page = seen[0]
    assert page.lower().startswith(b"<!doctype html>")
    assert frame.time == 0.0
    assert len(frame.joint_q) == 7


@pytest.mark.parametrize(("option", "paused"), [([], True), (["--paused"], True), (["--no-paused"], False)])
def test_a_robot_waits_for_its_user(monkeypatch, seen, option, paused):
    given = []
    monkeypatch.setattr(Viewer, "run", lambda self, simulator, **options: given.append(options))
    assert main(["view", str(asset_path("arm7.urdf")), *option, *PLACE]) == 0
    assert given == [{"paused": paused}]


def test_a_robot_in_the_ground_is_put_on_it(seen, tmp_path):
    path = tmp_path / "ball.urdf"
    path.write_text(
        '<robot name="ball"><link name="ball"><inertial><mass value="1"/>'
        '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
        '<collision><geometry><sphere radius="0.5"/></geometry></collision></link></robot>'
    )
    assert main(["view", str(path), "--paused", *PLACE]) == 0
    assert 0.5 < seen[0][0].body_q[0, 2] < 0.6


def test_a_recording_is_shown(seen, tmp_path):
    model = build_scene(load_robot(asset_path("cartpole.urdf")), 1, "cpu")
    state = model.state()
    with Recorder(tmp_path / "run.nsr", model) as recorder:
        for k in range(3):
            state.joint_q.assign(np.full(2, 0.1 * (k + 1), np.float32))
            recorder.record(state, 0.5 * k)
    assert main(["view", str(tmp_path / "run.nsr"), "--paused", *PLACE]) == 0
    assert len(seen) == 1


def test_a_run_is_shown_in_real_time(capsys, seen):
    arguments = ["run", str(asset_path("cartpole.urdf")), "--envs", "2", "--seconds", "0.3", "--view"]
    assert main([*arguments, *PLACE]) == 0
    assert seen[0][0].time == pytest.approx(0.3, abs=1e-6)
    assert "non-finite worlds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.urdf"], "missing.urdf"),
        ([str(asset_path("quadruped.xml")), "--host", "203.0.113.7"], "cannot listen on 203.0.113.7"),
        ([str(asset_path("quadruped.xml")), "--port", "99999"], "0 to 65535, got 99999"),
        ([str(asset_path("quadruped.xml")), "--device", "cuda:9"], "no device 'cuda:9'"),
    ],
)
def test_errors_are_one_line(capsys, arguments, message):
    assert main(["view", "--no-browser", "--plain", "--device", "cpu", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("newtonsim: error: ")
    assert message in error
    assert error.count("\n") == 1

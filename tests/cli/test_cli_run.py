"""``newtonsim run`` simulates what it is told and writes what was asked for."""

import json
import sys

import numpy as np
import pytest
import tqdm
from pxr import Usd, UsdGeom

from newtonsim.cli.main import main
from newtonsim.cli.record import plot_run
from newtonsim.examples import asset_path
from newtonsim.render import Recording


def run(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    assert main(["run", "--device", "cpu", *arguments]) == 0
    return capsys.readouterr().out


def test_default_robot_with_all_outputs(capsys, tmp_path):
    names = {"usd": "run.usda", "plot": "curves.png", "snapshot": "scene.png", "json": "figures.json"}
    names |= {"record": "run.nsr", "video": "run.mp4"}
    outputs = {option: tmp_path / name for option, name in names.items()}
    options = [text for option, path in outputs.items() for text in (f"--{option}", str(path))]
    table = run(capsys, "--envs", "4", "--seconds", "0.2", *options)
    figures = json.loads(outputs["json"].read_text())
    assert (figures["worlds"], figures["bodies"], figures["dofs"]) == (4, 13, 18)
    assert figures["steps"] == 48
    assert figures["mass"] == pytest.approx(16.0, rel=1e-5)
    assert figures["non_finite_worlds"] == []
    assert figures["upright"] == 4
    assert figures["steps_per_second"] == pytest.approx(4 * 48 / figures["wall_seconds"])
    # 16 kg with its centre of mass a little below the trunk's centre
    assert 16 * 9.81 * 0.2 < figures["potential_energy"] < 16 * 9.81 * 0.5
    assert "13 bodies" in table
    assert "non-finite worlds" in table
    for option in ("plot", "snapshot"):
        assert outputs[option].read_bytes().startswith(b"\x89PNG")
    check_animation(str(outputs["usd"]), figures)
    recording = Recording.open(outputs["record"], "cpu")
    np.testing.assert_allclose(recording.times, np.arange(7) / 30, atol=1e-6)
    assert recording.load(-1).body_q.numpy()[::13, 2].mean() == pytest.approx(figures["base_height_mean"])
    assert outputs["video"].read_bytes()[4:8] == b"ftyp"


def check_animation(path: str, figures: dict) -> None:
    """The trunk is in the file with its pose at the end, at the height that the figures tell."""
    stage = Usd.Stage.Open(path)
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    trunks = [p for p in stage.Traverse() if p.IsA(UsdGeom.Xform) and p.GetName().startswith("trunk")]
    assert len(trunks) == 4
    end = stage.GetEndTimeCode() / stage.GetTimeCodesPerSecond()
    assert end == pytest.approx(figures["simulated_seconds"])
    cache = UsdGeom.XformCache(stage.GetEndTimeCode())
    places = np.array([cache.GetLocalToWorldTransform(trunk).ExtractTranslation() for trunk in trunks])
    assert places[:, 2].mean() == pytest.approx(figures["base_height_mean"], abs=1e-4)
    # worlds are laid out side by side
    assert np.ptp(places[:, 0]) > 0.5
    assert np.ptp(places[:, 1]) > 0.5


def test_seed_and_time_step(capsys, tmp_path):
    heights = []
    for seed in ("1", "1", "2"):
        path = tmp_path / "figures.json"
        run(capsys, "--envs", "3", "--seconds", "0.1", "--dt", "1/120", "--seed", seed, "--json", str(path))
        figures = json.loads(path.read_text())
        assert figures["steps"] == 12
        heights.append(figures["base_height_mean"])
    assert heights[0] == heights[1] != heights[2]


@pytest.mark.parametrize("name", ["ant.xml", "hopper.xml", "cartpole.urdf", "arm7.urdf"])
def test_every_kind_of_base(capsys, tmp_path, name):
    path = tmp_path / "figures.json"
    run(capsys, str(asset_path(name)), "--envs", "2", "--seconds", "0.1", "--json", str(path))
    figures = json.loads(path.read_text())
    assert figures["non_finite_worlds"] == []
    assert (figures["base_height_mean"] is not None) == (name == "ant.xml")


def test_curves_follow_the_motion(capsys, tmp_path):
    run(capsys, "--envs", "3", "--seconds", "0.3", "--record", str(tmp_path / "run.nsr"))
    recording = Recording.open(tmp_path / "run.nsr", "cpu")
    height, joints, energy, force = plot_run(recording, "three").axes
    assert height.get_ylabel() == "base height [m]"
    assert joints.get_ylabel() == "joints of world 0 [rad, m]"
    assert energy.get_ylabel() == "energy [J]"
    assert force.get_ylabel() == "contact force, upwards [N]"
    for axes, curves in ((height, 3), (joints, 12), (energy, 9), (force, 3)):
        assert len(axes.lines) == curves
        for line in axes.lines:
            assert len(line.get_ydata()) == 10
            assert np.ptp(line.get_ydata()) > 1e-4, axes.get_ylabel()
    for line in height.lines:
        assert line.get_ydata()[3] < line.get_ydata()[0]  # they fall


@pytest.mark.parametrize(("terminal", "seconds"), [(True, 0.1), (False, 10.0)])
def test_progress_is_rare_where_it_cannot_be_overwritten(monkeypatch, terminal, seconds):
    given = {}

    class Bar(tqdm.tqdm):
        def __init__(self, *args, **kwargs):
            given.update(kwargs)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert main(["run", "--device", "cpu", "--envs", "1", "--seconds", "0.01"]) == 0
    assert given["mininterval"] == seconds

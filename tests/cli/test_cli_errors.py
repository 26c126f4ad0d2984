"""Wrong arguments and unusable files: exit status 2, one line on stderr, no traceback, nothing simulated."""

import subprocess
import sys

import pytest

from newtonsim.cli import run
from newtonsim.cli.main import main
from newtonsim.cli.numbers import positive_float


def failing(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """Run a command that must fail, and return its last line of errors."""
    try:
        status = main(arguments)
    except SystemExit as stop:  # argparse
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    line = captured.err.strip().splitlines()[-1]
    assert "error: " in line
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--envs", "0"], "whole number"),
        (["run", "--envs", "many"], "whole number"),
        (["run", "--envs", "1.5"], "whole number"),
        (["run", "--seconds", "-1"], "above 0"),
        (["run", "--seconds", "nan"], "above 0"),
        (["run", "--dt", "0"], "above 0"),
        (["run", "--dt", "1/0"], "above 0"),
        (["run", "--dt", "inf"], "above 0"),
        (["run", "--substeps", "0"], "whole number"),
        (["run", "--seed", "-1"], "whole number"),
        (["run", "--seed", "x"], "whole number"),
        (["run", "--plot", "curves.txt"], ".png"),
        (["run", "--snapshot", "scene"], ".png"),
        (["run", "--solver", "magic"], "featherstone"),
        (["run", "--device", "tpu:7"], "cpu"),
        (["run", "--usd", "movie.mp4"], ".usd"),
        (["run", "--video", "movie.usd"], ".mp4"),
        (["info"], "FILE"),
        (["fly"], "run"),
        ([], "COMMAND"),
    ],
    ids=" ".join,
)
def test_bad_arguments(capsys, arguments, said):
    assert said in failing(capsys, *arguments)


@pytest.mark.parametrize("command", ["run", "info"])
def test_missing_file(capsys, tmp_path, command):
    path = tmp_path / "nobody.urdf"
    assert str(path) in failing(capsys, command, str(path))


@pytest.mark.parametrize("command", ["run", "info"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("<robot name='r'><link name='a'>", ""),
        ("<html/>", "expected <robot> (URDF), <mujoco> (MJCF) or <sdf> (SDF)"),
        ("<mujoco><worldbody><body><joint type='gimbal'/></body></worldbody></mujoco>", "gimbal"),
        ("<mujoco/>", "no bodies"),
    ],
    ids=["empty", "truncated", "html", "joint type", "no bodies"],
)
def test_broken_file(capsys, tmp_path, command, text, said):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    line = failing(capsys, command, str(path))
    assert str(path) in line
    assert said in line


def test_robot_that_cannot_move(capsys, tmp_path):
    path = tmp_path / "table.urdf"
    path.write_text("<robot name='table'><link name='top'/></robot>")
    assert "--base free" in failing(capsys, "run", str(path), "--device", "cpu", "--envs", "1")


def test_missing_matplotlib_is_said_before_the_simulation(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(run, "load_robot", lambda *_: pytest.fail("the run was started"))
    assert "pip install 'newtonsim[plot]'" in failing(capsys, "run", "--plot", str(tmp_path / "out.png"))


@pytest.mark.parametrize("option", ["--record", "--usd", "--video", "--plot", "--snapshot", "--json"])
def test_output_in_a_missing_folder_is_said_before_the_simulation(capsys, monkeypatch, tmp_path, option):
    monkeypatch.setattr(run, "load_robot", lambda *_: pytest.fail("the run was started"))
    ending = {"--usd": "usda", "--video": "mp4"}.get(option, "png")
    assert f"{option}: cannot write" in failing(
        capsys, "run", option, str(tmp_path / "missing" / f"out.{ending}")
    )


def test_a_picture_of_an_unknown_kind_is_refused_before_the_run(capsys):
    said = failing(capsys, "run", "--snapshot", "out.xyz")
    assert "--snapshot: unknown file extension in 'out.xyz'; use one such as .png, .jpg" in said
    assert len(said) < 150


def test_module_and_version():
    result = subprocess.run(
        [sys.executable, "-m", "newtonsim", "--version"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0
    assert result.stdout.startswith("newtonsim 0.")


@pytest.mark.parametrize(
    ("text", "value"), [("1/240", 1 / 240), ("0.01", 0.01), ("2e-3", 2e-3), ("1 / 60", 1 / 60)]
)
def test_time_steps_may_be_fractions(text, value):
    assert positive_float(text) == value


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["rn"], "run"),
        (["pybullet-serv"], "pybullet-server"),
        (["render", "robot.urdf"], "run --snapshot OUT.png"),
        (["run", "--snapshots", "out.png"], "--snapshot"),
        (["train", "Ant", "--num-env=3", "--sample-count=7"], "--samples"),
        (["run", "--solver", "fetherstone"], "featherstone"),
    ],
)
def test_a_mistyped_word_is_answered_by_the_one_that_was_meant(capsys, arguments, meant):
    assert f"did you mean {meant}?" in failing(capsys, *arguments)


def test_an_error_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--envs", "many"])
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_machine_without_a_gpu_is_not_told_so():
    result = subprocess.run(
        [sys.executable, "-m", "newtonsim", "info", "nobody.urdf"], capture_output=True, text=True, timeout=60
    )
    assert result.stderr == "newtonsim: error: nobody.urdf: no such file\n"
    assert result.stdout == ""

"""``newtonsim play`` reports its progress, and what it has played when it is interrupted."""

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from drone_pilot import hold

from newtonsim import envs
from newtonsim.cli.main import main
from newtonsim.examples import asset_path
from newtonsim.learn import Episodes, Run, Training, evaluate, settings_of

SMALL = {"num_envs": 8, "steps": 10, "samples": 400, "hidden": (8,), "mini_batches": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run with a policy that has hardly learned."""
    folder = tmp_path_factory.mktemp("run")
    training = Training(Run("CartPole", settings_of("CartPole", SMALL)), folder, "cpu")
    training.step()
    training.save()
    training.close()
    return folder


def command(folder: Path, episodes: int) -> list[str]:
    numbers = ["--episodes", str(episodes), "--num-envs", "4", "--device", "cpu"]
    return [sys.executable, "-m", "newtonsim", "play", str(folder), *numbers]


def test_progress_ends_with_all_episodes(folder: Path):
    result = subprocess.run(command(folder, 6), capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^CartPole: [0-6] of 6 episodes.* [0-9,]+ steps at [0-9,]+/s", result.stderr)
    assert "CartPole: 6 of 6 episodes, return " in result.stderr.splitlines()[-1]
    assert ", 6 episodes" in result.stdout.splitlines()[-1]


def test_an_interrupted_run_summarises_what_was_played(folder: Path, tmp_path: Path):
    """A million episodes would take hours."""
    out, errors = tmp_path / "out.txt", tmp_path / "errors.txt"
    with open(out, "w") as to, open(errors, "w") as said:
        process = subprocess.Popen(
            command(folder, 1_000_000), stdout=to, stderr=said, preexec_fn=_hear_interrupts
        )
        deadline = time.monotonic() + 240.0
        while not errors.read_text() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)
        time.sleep(2.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    last = out.read_text().splitlines()[-1]
    played, episodes = re.search(
        r"^stopped after ([0-9,]+) steps; return .* ([0-9]+) episodes", last
    ).groups()
    assert f" {int(episodes):,} of 1,000,000 episodes" in errors.read_text()
    assert "Traceback" not in errors.read_text()
    assert int(played.replace(",", "")) > 10


def _hear_interrupts() -> None:
    """Jobs in the background ignore SIGINT unless told otherwise."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_run_with_a_robot_of_its_own_is_played_and_continued_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Its file was named by a relative path; where it is gone, the error names it and what helps."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(asset_path("zoo/go2_like.xml"), home / "dog.xml")
    options = {"robot": "dog.xml", "base": "trunk", "feet": "*_calf", "keyframe": "home"}
    monkeypatch.chdir(home)
    training = Training(Run("Velocity", settings_of("Velocity", SMALL), options), "run", "cpu")
    training.step()
    training.finish()
    monkeypatch.chdir(tmp_path)
    numbers = ["--episodes", "1", "--num-envs", "1", "--device", "cpu"]
    assert main(["play", "home/run", *numbers]) == 0
    again = Run("Velocity", settings_of("Velocity", SMALL), {**options, "robot": "home/dog.xml"})
    training = Training(again, "home/run", "cpu")
    assert training.progress.iteration == 1
    training.close()
    capsys.readouterr()
    (home / "dog.xml").rename(tmp_path / "moved.xml")
    for command in ("play", "transfer"):
        assert main([command, "home/run", "--episodes", "1"]) == 2
        said = capsys.readouterr().err
        assert f"robot: {home / 'dog.xml'}: no such file; --option robot=PATH says where it is now" in said
    assert main(["play", "home/run", *numbers, "--option", "robot=moved.xml"]) == 0
    assert main(["play", "home/run", *numbers, "--option", "robots=moved.xml"]) == 2


def test_watching_sees_episodes_grow_to_the_result():
    env = envs.make("CartPole", 3, "cpu", max_episode_steps=20)
    seen: list[Episodes] = []
    found = evaluate(lambda obs: np.zeros(3, int), env, 6, watch=lambda so_far: seen.append(so_far()))
    env.close()
    counts = [len(episodes.returns) for episodes in seen]
    assert (counts[0], counts[-1]) == (0, 6)
    assert counts == sorted(counts)
    np.testing.assert_array_equal(seen[-1].returns, found.returns)
    assert len(seen) >= sum(found.lengths[:2])  # the first world plays its two episodes one after the other


def test_episodes_say_how_often_the_goal_was_reached():
    """A drone that hovers at its point, one whose motors are off, and a task without a goal."""
    env = envs.make("Hover", 4, "cpu", threads=1, offset=0.0, tilt=0.0)
    hovers = evaluate(hold, env, 4, seed=3)
    assert hovers.reached is not None
    assert hovers.reached.all()
    assert "goal reached in 100 %" in str(hovers)
    falls = evaluate(lambda obs: np.full((len(obs), 4), -1.0, np.float32), env, 4, seed=3)
    assert falls.reached is not None
    assert not falls.reached.any()
    assert "goal reached in 0 %" in str(falls)
    still = evaluate(lambda obs: np.zeros(2, int), envs.make("CartPole", 2, "cpu", threads=1), 2)
    assert still.reached is None
    assert "goal" not in str(still)
